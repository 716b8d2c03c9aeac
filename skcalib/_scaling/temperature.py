"""The fit of softmax(z / T)."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from sklearn.exceptions import ConvergenceWarning

from skcalib._arrays.types import Float64Array, Intp
from skcalib._scaling.root import GRID_STEP, Slope, rising_root
from skcalib._scaling.scale_losses import ScaleProblem, ShiftedLogits
from skcalib._scores.scores import Scores

# T is within exp(+-10) of the mean gap of the logits, or of the mean gap of the true logit if that
# is far smaller. Beyond, softmax(z / T) is practically a hard decision or uniform.
LOG_BOUND = 10.0
# Smaller mean gaps count as 0.
LEAST_GAP = 1e-30
# Rows of the subsample on which the search starts.
SAMPLE_ROWS = 2000
# Discard a local minimum of the subsample whose full-data Brier score exceeds the best by this. The
# score of a minimum changes by far less between thousands of rows and all rows.
CLEARLY_WORSE = 0.05


class Temperature(NamedTuple):
    """A fitted temperature; `bound` is "low" or "high" if 1 / T is at that end of its range."""

    value: float
    bound: str
    mean_gap: float


def fit_temperature(scores: Scores, code: Intp, w: Float64Array, objective: str = "nll") -> float:
    """Return T of softmax(z / T) by an objective of `SCALE_FITS`, to 1e-8; warn at a bound."""
    found = find_temperature(scores, code, w, objective)
    if found.bound:
        warnings.warn(_AT_BOUND[found.bound], ConvergenceWarning, stacklevel=2)
    return found.value


def find_temperature(
    scores: Scores, code: Intp, w: Float64Array, objective: str = "nll"
) -> Temperature:
    """Return T of softmax(z / T), without a warning at a bound."""
    shifted = ShiftedLogits(scores, code, w)
    if shifted.mean_gap <= LEAST_GAP:
        # All rows are constant, so any T gives uniform probabilities.
        return Temperature(1.0, "", 1.0)
    middle = -float(np.log(shifted.mean_gap))
    log_beta, end = middle + LOG_BOUND, "high"
    if shifted.mean_true_gap > LEAST_GAP:
        low, high = middle - LOG_BOUND, max(middle, _sharpest(shifted)) + LOG_BOUND
        log_beta, end = SCALE_FITS[objective](shifted, low, high)
    return Temperature(float(np.exp(-log_beta)), end, shifted.mean_gap)


def _sharpest(shifted: ScaleProblem) -> float:
    """Return a log beta that the NLL's optimum cannot exceed.

    At the optimum, the NLL is at most log K and at least beta times the mean gap of the true logit.
    A bound from the mean gap of all logits would fail: a single logit of -1e10 (a constant feature
    in naive Bayes) can move it far away from the optimum.
    """
    return float(np.log(np.log(shifted.n_classes)) - np.log(shifted.mean_true_gap))


_AT_BOUND = {
    "high": "TemperatureScaling reached the lower bound of T: (nearly) every row has its true "
    "class on top, so that sharper is always better; fit on held-out rows, some of which are "
    "misclassified.",
    "low": "TemperatureScaling reached the upper bound of T: the scores predict these labels no "
    "better than uniform probabilities would; check that columns follow the sorted labels.",
}


def _by_nll(shifted: ScaleProblem, low: float, high: float) -> tuple[float, str]:
    """Solve log(observed mean gap of the true logit / expected one) = 0 in log beta."""

    def slope_on(rows: ScaleProblem) -> Slope:
        def slope(log_beta: float) -> tuple[float, float]:
            beta = np.exp(log_beta)
            _, first, second = rows.nll(beta)
            expected = rows.mean_true_gap - first
            if expected <= 0.0:
                return np.inf, 0.0
            return float(np.log(rows.mean_true_gap / expected)), beta * second / expected

        return slope

    if shifted.mean_true_gap >= shifted.mean_gap:
        return low, "low"
    start = min(high, max(low + LOG_BOUND + 1.0, _sharpest(shifted) - LOG_BOUND / 2))
    few = shifted.subsample(SAMPLE_ROWS)
    if few is not shifted and 0.0 < few.mean_true_gap < few.mean_gap:
        guess, end = rising_root(slope_on(few), start, low, high, 1e-3)
        start = start if end else guess
    return rising_root(slope_on(shifted), start, low, high)


def _by_brier(shifted: ScaleProblem, low: float, high: float) -> tuple[float, str]:
    """Refine each local minimum of a coarse grid on a subsample; return the lowest minimum."""

    def slope_on(rows: ScaleProblem) -> Slope:
        def slope(log_beta: float) -> tuple[float, float]:
            beta = np.exp(log_beta)
            _, first, second = rows.brier(beta)
            return beta * first, beta * first + beta * beta * second

        return slope

    few = shifted.subsample(SAMPLE_ROWS)
    grid = np.linspace(low, high, 1 + round((high - low) / GRID_STEP))
    brier = np.array([few.brier_value(np.exp(t)) for t in grid])
    padded = np.concatenate([[np.inf], brier, [np.inf]])
    basins = grid[(brier < padded[:-2]) & (brier <= padded[2:])]
    starts = []
    for start in basins:
        guess, end = rising_root(slope_on(few), start, low, high, 1e-3)
        starts.append(start if end else guess)
    if len(starts) > 1:
        # Most of them are plateaus at an end of the range.
        brier = np.array([shifted.brier_value(np.exp(t)) for t in starts])
        starts = [starts[i] for i in np.flatnonzero(brier <= brier.min() + CLEARLY_WORSE)]
    roots = [rising_root(slope_on(shifted), start, low, high) for start in starts]
    if len(roots) == 1:
        return roots[0]
    return min(roots, key=lambda root: shifted.brier_value(np.exp(root[0])))


# The fit for each objective: (logits, range of log beta) -> (log beta, "low", "high" or "").
SCALE_FITS: dict[str, Callable[[ScaleProblem, float, float], tuple[float, str]]] = {
    "nll": _by_nll,
    "brier": _by_brier,
}
