r"""Floor 1: fit softmax(W z + b) for a pattern of W: one scale, a diagonal, or a full matrix.

A single scale is :math:`W = I / T`. At the NLL's optimum the expected deficit of the true logit
below the largest one equals the observed deficit,

.. math:: \sum_i w_i \sum_k q_{ik} (\max_j z_{ij} - z_{ik}) = \sum_i w_i (\max_j z_{ij} - z_{iy_i}),

and Newton's method solves the logarithm of this in :math:`\log T`: nearly a straight line.

A diagonal or full W starts at I / T and goes to the methods of `_newton`.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from contextlib import nullcontext
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from sklearn.exceptions import ConvergenceWarning

from skcalib._affine_nll import AffineNLL, Diagonal, Full, Pattern, out_of_range_is_found
from skcalib._blocks import one_blas_thread
from skcalib._newton import PenalisedNLL, Penalty, minimise
from skcalib._objectives import TopShifted, brier_of_scale, brier_value, nll_of_scale
from skcalib._simplex import Scores

Float64Array = NDArray[np.float64]
Intp = NDArray[np.intp]

# ------------------------------------------------------------------------------ temperature

# T lies within exp(+-10) of the spread of the logits, or of the mean deficit of the true one where
# that is far less; nothing farther away can be told apart from a hard decision or from uniform
# predictions.
LOG_BOUND = 10.0
# So that 1 / T stays within float64: what differs by less is constant.
LEAST_SPREAD = 1e-302
LARGEST_LOG = 700.0
# Rows of the sample that finds the neighbourhood of the optimum.
SAMPLE_ROWS = 2000
LOG_TOLERANCE = 1e-9
GRID_STEP = 1.0
# Newton's method needs fewer evaluations, unless it creeps along a plateau of rounding.
PATIENCE = 20
# A low of the sample whose Brier score of all rows is this much above another's is let go: on
# thousands of rows it moves by far less.
CLEARLY_WORSE = 0.05

# Function of log beta that rises through 0 at the optimum, and its derivative.
Slope = Callable[[float], tuple[float, float]]


class Temperature(NamedTuple):
    """A fitted temperature; `bound` says which end of its range it met, if any."""

    value: float
    bound: str
    spread: float


def fit_temperature(scores: Scores, code: Intp, w: Float64Array, objective: str = "nll") -> float:
    """Return T of softmax(z / T) by an objective of `SCALE_FITS`, to 1e-8; warn at a bound."""
    found = find_temperature(scores, code, w, objective)
    if found.bound:
        warnings.warn(_AT_BOUND[found.bound], ConvergenceWarning, stacklevel=2)
    return found.value


def find_temperature(
    scores: Scores, code: Intp, w: Float64Array, objective: str = "nll"
) -> Temperature:
    """Return T of softmax(z / T), and the bound it met, without a warning."""
    shifted = TopShifted(scores, code, w)
    if shifted.spread <= LEAST_SPREAD:
        # Every row is constant: any T gives uniform probabilities.
        return Temperature(1.0, "", 1.0)
    middle = -float(np.log(shifted.spread))
    log_beta, end = min(middle + LOG_BOUND, LARGEST_LOG), "high"
    if shifted.deficit > 0.0:
        low, high = middle - LOG_BOUND, max(middle, _sharpest(shifted)) + LOG_BOUND
        high = min(high, LARGEST_LOG)
        log_beta, end = SCALE_FITS[objective](shifted, low, high)
    return Temperature(float(np.exp(-log_beta)), end, shifted.spread)


def _sharpest(shifted: TopShifted) -> float:
    """Return a log beta that the NLL's optimum cannot exceed.

    There the NLL is at most log K, and it is at least beta times the mean deficit. The spread of
    the logits alone would not do: one logit of -1e10 (a constant feature under naive Bayes) puts
    the optimum far outside any range about it.
    """
    return float(np.log(np.log(shifted.scores.shape[1])) - np.log(shifted.deficit))


_AT_BOUND = {
    "high": "TemperatureScaling reached the lower bound of T: (nearly) every row has its true "
    "class on top, so that sharper is always better; fit on held-out rows, some of which are "
    "misclassified.",
    "low": "TemperatureScaling reached the upper bound of T: the scores predict these labels no "
    "better than uniform probabilities would; check that columns follow the sorted labels.",
}


def _by_nll(shifted: TopShifted, low: float, high: float) -> tuple[float, str]:
    """Solve log(observed deficit / expected deficit) = 0 in log beta."""

    def slope_on(rows: TopShifted) -> Slope:
        def slope(log_beta: float) -> tuple[float, float]:
            beta = np.exp(log_beta)
            _, first, second = nll_of_scale(rows, beta)
            expected = rows.deficit - first
            if expected <= 0.0:
                return np.inf, 0.0
            return float(np.log(rows.deficit / expected)), beta * second / expected

        return slope

    if shifted.deficit >= shifted.spread:
        return low, "low"
    start = min(high, max(low + LOG_BOUND + 1.0, _sharpest(shifted) - LOG_BOUND / 2))
    few = shifted.thinned(SAMPLE_ROWS)
    if few is not shifted and 0.0 < few.deficit < few.spread:
        guess, end = rising_root(slope_on(few), start, low, high, 1e-3)
        start = start if end else guess
    return rising_root(slope_on(shifted), start, low, high)


def _by_brier(shifted: TopShifted, low: float, high: float) -> tuple[float, str]:
    """Refine every local minimum of a coarse grid on a sample; the lowest one wins."""

    def slope_on(rows: TopShifted) -> Slope:
        def slope(log_beta: float) -> tuple[float, float]:
            beta = np.exp(log_beta)
            _, first, second = brier_of_scale(rows, beta)
            with np.errstate(over="ignore"):  # a rise of inf is not followed
                return beta * first, beta * first + beta * (beta * second)

        return slope

    few = shifted.thinned(SAMPLE_ROWS)
    grid = np.linspace(low, high, 1 + round((high - low) / GRID_STEP))
    height = np.array([brier_value(few, np.exp(t)) for t in grid])
    padded = np.concatenate([[np.inf], height, [np.inf]])
    basins = grid[(height < padded[:-2]) & (height <= padded[2:])]
    starts = []
    for start in basins:
        guess, end = rising_root(slope_on(few), start, low, high, 1e-3)
        starts.append(start if end else guess)
    if len(starts) > 1:
        # Most of them are plateaus at an end, where T tells little.
        height = np.array([brier_value(shifted, np.exp(t)) for t in starts])
        starts = [starts[i] for i in np.flatnonzero(height <= height.min() + CLEARLY_WORSE)]
    found = [rising_root(slope_on(shifted), start, low, high) for start in starts]
    if len(found) == 1:
        return found[0]
    return min(found, key=lambda root: brier_value(shifted, np.exp(root[0])))


# How T is found for each objective: (rows, range of log beta) -> (log beta, end met or "").
SCALE_FITS: dict[str, Callable[[TopShifted, float, float], tuple[float, str]]] = {
    "nll": _by_nll,
    "brier": _by_brier,
}


def rising_root(
    slope: Slope, start: float, low: float, high: float, tolerance: float = LOG_TOLERANCE
) -> tuple[float, str]:
    """Newton's method for a function that rises through 0, in a bracket it cannot leave.

    Returns the root and ""; or an end of the range and its name, if the root lies beyond.
    """
    left, right = -np.inf, np.inf
    t, moved, evaluations = start, 0.0, 0
    while right - left > tolerance:
        value, rise = slope(t)
        evaluations += 1
        if value == 0.0:
            break
        left, right = (t, right) if value < 0.0 else (left, t)
        steady = 0.0 < rise < np.inf and abs(value) < np.inf
        step = -value / rise if steady else -np.sign(value) * GRID_STEP
        target = min(max(t + step, low), high)
        if target == t:
            return t, "low" if value > 0.0 else "high"
        if evaluations > PATIENCE and right - left == np.inf:
            target = min(max(t + np.sign(step) * max(abs(step), 2 * abs(moved)), low), high)
        elif evaluations > PATIENCE or not left < target < right:
            target = (left + right) / 2
        last, size = abs(moved), abs(target - t)
        # Newton's error after this step, from how the last two steps shrank.
        if (
            target == t + step
            and size * size * max(1.0, size / last**2 if last else 1.0) < tolerance
        ):
            return target, ""
        t, moved = target, target - t
    return t, ""


# ------------------------------------------------------------------------ diagonal and full W


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
        scale = found.spread if found.bound else found.value
    pattern: Pattern = Full() if full else Diagonal()
    nll = AffineNLL(scores, code, w, pattern)
    problem = PenalisedNLL(nll, penalty, scale)
    with one_blas_thread() if nll.threaded else nullcontext(), out_of_range_is_found():
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
    problem.clear_drift(theta)
    theta[:-1][problem.loose[:-1]] += 1.0 / scores.shape[1]
    return AffineFit(theta[:-1].T.copy() if full else theta[0], theta[-1], n_iter)
