"""The fit of softmax(W z + b) with a diagonal or a full W."""

from __future__ import annotations

import warnings
from contextlib import nullcontext
from typing import NamedTuple

import numpy as np
from sklearn.exceptions import ConvergenceWarning

from skcalib._arrays.passes import merge_rows
from skcalib._arrays.threads import one_blas_thread
from skcalib._arrays.types import Float64Array, Intp
from skcalib._scaling.affine_nll import AffineNLL, Diagonal, Full, Pattern, quiet_overflow
from skcalib._scaling.newton import PenalisedNLL, Penalty, minimise
from skcalib._scaling.remote import SummedAffine
from skcalib._scaling.temperature import _AT_BOUND, find_temperature
from skcalib._scaling.temperature_bounds import LEAST_GAP
from skcalib._scores.scores import Scores

# If nothing is penalised and the smaller gaps between logits are below this share of their scale,
# they are the unit.
FAR_SMALLER = 1e-3
# About this many entries are read to find these gaps.
SAMPLE = 1 << 14


def small_gap(scores: Scores) -> float:
    """Return the lower quartile of the positive gaps to a row's largest logit; inf if none.

    Most logits of -inf or of certain rows leave gaps near 30, but other gaps may be near 1e-12.
    Without a penalty, the gradient has to be small in the unit of the small gaps too.
    """
    few = scores.subsample(max(1, int(np.prod(scores.shape)) // SAMPLE))
    gaps = np.concatenate(merge_rows(positive_gaps, few.as_logits()))
    return float(np.quantile(gaps, 0.25)) if gaps.size else np.inf


def positive_gaps(Z: Float64Array) -> Float64Array:
    """Return the gaps above `LEAST_GAP` between a row's largest logit and the others."""
    gaps = Z.max(axis=1, keepdims=True) - Z
    return gaps[gaps > LEAST_GAP]


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
        The fit ends when no entry of the gradient exceeds this, for logits as given and for logits
        in units of their scale.
    max_iter : int
        Largest number of quasi-Newton and Newton steps.
    verbose : int
        Whether each step prints a line.
    """
    temperature = find_temperature(scores, code, w)
    scale = temperature.value
    message = ""  # one warning for all problems
    if temperature.bound and about_temperature:
        message = _AT_BOUND[temperature.bound] + " "
    elif temperature.bound:
        scale = temperature.mean_gap
    temper = scale
    if not any(penalty) and (gap := small_gap(scores)) < FAR_SMALLER * scale:
        scale = gap
    # Logits are divided by their scale, so that all later steps work on numbers of order 1. The
    # nearest power of two leaves their digits as they are.
    unit = float(2.0 ** np.rint(np.log2(scale)))
    centre = unit / temper
    square = (centre if about_temperature else unit) ** 2
    penalty = Penalty(penalty.diagonal / square, penalty.off_diagonal / square, penalty.intercept)
    pattern: Pattern = Full() if full else Diagonal()
    nll = AffineNLL if scores.source.remote is None else SummedAffine
    problem = PenalisedNLL(nll(scores, code, w, pattern, unit), penalty, centre, scale)
    with one_blas_thread() if problem.nll.threaded else nullcontext(), quiet_overflow():
        theta, n_iter, converged = minimise(problem, tol, max_iter, verbose)
    if not any(penalty) and problem.nll.separates(theta):
        message += (
            "The logits separate the classes without error, so that no finite optimum of "
            "softmax(W z + b) exists: pass penalty='structured', or fit on more held-out rows."
        )
    elif not converged and n_iter < max_iter:
        message += (
            f"The fit of softmax(W z + b) stopped after {n_iter} of at most {max_iter} iterations: "
            f"rounding hides every further decrease, and the gradient is above tol={tol:g}. Raise "
            "tol, or pass penalty='structured'."
        )
    elif not converged:
        message += (
            f"The fit of softmax(W z + b) did not converge in max_iter={max_iter} iterations: "
            "raise max_iter, or pass penalty='structured'."
        )
    if message:
        warnings.warn(message.rstrip(), ConvergenceWarning, stacklevel=2)
    # Remove the shift that softmax ignores: centre b, and the columns of a full W (to a sum of 1).
    problem.project(theta)
    theta[:-1] /= unit
    theta[:-1][problem.loose[:-1]] += 1.0 / scores.shape[1]
    return AffineFit(theta[:-1].T.copy() if full else theta[0], theta[-1], n_iter)
