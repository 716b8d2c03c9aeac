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
        Whether the penalty is on W T - I, with T the temperature of the least NLL, instead of on W.
    tol : float
        The fit ends when no entry of the gradient exceeds this, for unscaled logits.
    max_iter : int
        Largest number of quasi-Newton and Newton steps.
    verbose : int
        Whether each step prints a line.
    """
    temperature = find_temperature(scores, code, w)
    message = ""  # one warning for all problems
    if about_temperature:
        scale = temperature.value
        penalty = Penalty(
            scale * scale * penalty.diagonal,
            scale * scale * penalty.off_diagonal,
            penalty.intercept,
        )
        if temperature.bound:
            message = _AT_BOUND[temperature.bound] + " "
    else:
        scale = temperature.mean_gap if temperature.bound else temperature.value
    pattern: Pattern = Full() if full else Diagonal()
    nll = AffineNLL(scores, code, w, pattern)
    problem = PenalisedNLL(nll, penalty, scale)
    with one_blas_thread() if nll.threaded else nullcontext(), quiet_overflow():
        theta, n_iter, converged = minimise(problem, tol, max_iter, verbose)
    if not any(penalty) and nll.separates(theta):
        message += (
            "The logits separate the classes without error, so that no finite optimum of "
            "softmax(W z + b) exists: pass penalty='structured', or fit on more held-out rows."
        )
    elif not converged:
        message += (
            f"The fit of softmax(W z + b) did not converge in {n_iter} of at most {max_iter} "
            "iterations: raise max_iter, or pass penalty='structured'."
        )
    if message:
        warnings.warn(message.rstrip(), ConvergenceWarning, stacklevel=2)
    # Remove the shift that softmax ignores: centre b, and the columns of a full W (to a sum of 1).
    problem.project(theta)
    theta[:-1][problem.loose[:-1]] += 1.0 / scores.shape[1]
    return AffineFit(theta[:-1].T.copy() if full else theta[0], theta[-1], n_iter)
