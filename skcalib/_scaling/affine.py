"""The fit of softmax(W z + b) with a diagonal or a full W."""

from __future__ import annotations

import warnings
from contextlib import nullcontext
from typing import NamedTuple

from sklearn.exceptions import ConvergenceWarning

from skcalib._arrays.threads import one_blas_thread
from skcalib._arrays.types import Float64Array, Intp
from skcalib._scaling.affine_nll import AffineNLL, Diagonal, Full, Pattern, quiet_overflow
from skcalib._scaling.newton import PenalisedNLL, Penalty, minimise
from skcalib._scaling.temperature import _AT_BOUND, find_temperature
from skcalib._scores.scores import Scores


class AffineFit(NamedTuple):
    """``coef`` is ``(K,)`` for a diagonal W, else ``(K, K)``; ``intercept (K,)``."""

    coef: Float64Array
    intercept: Float64Array
    n_iter: int


def fit_affine(
    scores: Scores,
    code: Intp,
    w: Float64Array,
    *,
    full: bool,
    penalty: Penalty,
    about_temperature: bool,
    tol: float,
    max_iter: int,
    verbose: int = 0,
) -> AffineFit:
    """Minimise the penalised mean NLL of softmax(W z + b).

    Parameters
    ----------
    full : bool
        Whether W is a full matrix, else diagonal.
    penalty : Penalty
    about_temperature : bool
        Whether the penalty holds for W T about the identity, T the temperature that is best by
        NLL, instead of for W itself.
    tol : float
        Largest absolute entry of the gradient, for logits as given, at which the fit ends.
    max_iter : int
        Largest number of steps: quasi-Newton ones, and Newton ones where these are slow.
    verbose : int
        Whether each step prints a line.
    """
    found = find_temperature(scores, code, w)
    said = ""  # one warning, however much there is to say
    if about_temperature:
        scale = found.value
        penalty = Penalty(
            scale * scale * penalty.diagonal,
            scale * scale * penalty.off_diagonal,
            penalty.intercept,
        )
        if found.bound:
            said = _AT_BOUND[found.bound] + " "
    else:
        scale = found.mean_gap if found.bound else found.value
    pattern: Pattern = Full() if full else Diagonal()
    nll = AffineNLL(scores, code, w, pattern)
    problem = PenalisedNLL(nll, penalty, scale)
    with one_blas_thread() if nll.threaded else nullcontext(), quiet_overflow():
        theta, n_iter, converged = minimise(problem, tol, max_iter, verbose)
    if not any(penalty) and nll.separates(theta):
        said += (
            "The logits separate the classes without error, so that no finite optimum of "
            "softmax(W z + b) exists: pass penalty='structured', or fit on more held-out rows."
        )
    elif not converged:
        said += (
            f"The fit of softmax(W z + b) did not converge in {n_iter} of at most {max_iter} "
            "iterations: raise max_iter, or pass penalty='structured'."
        )
    if said:
        warnings.warn(said.rstrip(), ConvergenceWarning, stacklevel=2)
    # What no row can tell: b sums to 0, and the columns of a full W to those of the identity.
    problem.project(theta)
    theta[:-1][problem.loose[:-1]] += 1.0 / scores.shape[1]
    return AffineFit(theta[:-1].T.copy() if full else theta[0], theta[-1], n_iter)
