"""The fit of softmax(z / T)."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from functools import partial

import numpy as np
from sklearn.exceptions import ConvergenceWarning

from skcalib._arrays.types import Float64Array, Intp
from skcalib._scaling.root import GRID_STEP, Slope, rising_root
from skcalib._scaling.scale_losses import ShiftedLogits
from skcalib._scaling.temperature_bounds import LOG_BOUND, Temperature, sharpest_of, within_bounds
from skcalib._scaling.temperature_sums import guess_of, sums_of, temperature_by_passes
from skcalib._scores.scores import Scores

# Rows of the subsample on which the search starts.
SAMPLE_ROWS = 2000
# Discard a local minimum of the subsample whose full-data Brier score exceeds the best by this. The
# score of a minimum changes by far less between thousands of rows and all rows.
CLEARLY_WORSE = 0.05


def fit_temperature(scores: Scores, code: Intp, w: Float64Array, objective: str = "nll") -> float:
    """Return T of softmax(z / T) by an objective of `SCALE_FITS`, to 1e-8; warn at a bound."""
    temperature = find_temperature(scores, code, w, objective)
    warn_at_bound(temperature)
    return temperature.value


def warn_at_bound(temperature: Temperature) -> None:
    """Warn of a temperature at a bound."""
    if temperature.bound:
        warnings.warn(_AT_BOUND[temperature.bound], ConvergenceWarning, stacklevel=3)


def find_temperature(
    scores: Scores, code: Intp, w: Float64Array, objective: str = "nll"
) -> Temperature:
    """Return T of softmax(z / T), without a warning at a bound."""
    if objective == "nll" and scores.source.remote is not None:
        few, rows = scores.sample()
        guess = guess_of(find_temperature(few, code[rows], w[rows]))
        return temperature_by_passes(partial(sums_of, scores, code, w), scores.shape[1], guess)
    shifted = ShiftedLogits(scores, code, w)
    search = partial(SCALE_FITS[objective], shifted)
    return within_bounds(shifted.n_classes, shifted.mean_true_gap, shifted.mean_gap, search)


_AT_BOUND = {
    "high": "TemperatureScaling reached the lower bound of T: (nearly) every row has its true "
    "class on top, so that sharper is always better; fit on held-out rows, some of which are "
    "misclassified.",
    "low": "TemperatureScaling reached the upper bound of T: the scores predict these labels no "
    "better than uniform probabilities would; check that columns follow the sorted labels.",
}


def _by_nll(shifted: ShiftedLogits, low: float, high: float) -> tuple[float, str]:
    """Solve log(observed mean gap of the true logit / expected one) = 0 in log beta."""

    def slope_on(rows: ShiftedLogits) -> Slope:
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
    sharpest = sharpest_of(shifted.n_classes, shifted.mean_true_gap)
    start = min(high, max(low + LOG_BOUND + 1.0, sharpest - LOG_BOUND / 2))
    few = shifted.subsample(SAMPLE_ROWS)
    if few is not shifted and 0.0 < few.mean_true_gap < few.mean_gap:
        guess, end = rising_root(slope_on(few), start, low, high, 1e-3)
        start = start if end else guess
    return rising_root(slope_on(shifted), start, low, high, shifted.tolerance)


def _by_brier(shifted: ShiftedLogits, low: float, high: float) -> tuple[float, str]:
    """Refine each local minimum of a coarse grid on a subsample; return the lowest minimum."""

    def slope_on(rows: ShiftedLogits) -> Slope:
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
    roots = [
        rising_root(slope_on(shifted), start, low, high, shifted.tolerance) for start in starts
    ]
    if len(roots) == 1:
        return roots[0]
    return min(roots, key=lambda root: shifted.brier_value(np.exp(root[0])))


# The fit for each objective: (logits, range of log beta) -> (log beta, "low", "high" or "").
SCALE_FITS: dict[str, Callable[[ShiftedLogits, float, float], tuple[float, str]]] = {
    "nll": _by_nll,
    "brier": _by_brier,
}
