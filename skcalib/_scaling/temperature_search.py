"""The temperature of an objective that may have many minima: a search at several resolutions."""

from __future__ import annotations

import warnings
from collections.abc import Callable

import numpy as np
from sklearn.exceptions import ConvergenceWarning

from skcalib._arrays.types import Float64Array

# An objective as a function of T.
Objective = Callable[[float], float]

GRID = np.geomspace(0.2, 10.0, 61)
LOG_STEP = float(np.log(50.0) / 60)
# A round refines the grid around the best temperatures: how many, and how many times finer.
Rounds = tuple[tuple[int, int], ...]
SMOOTH_ROUNDS = ((3, 10), (3, 10), (3, 10))
# A binned error jumps at every T at which a row changes its bin, so its minima are narrow.
ROUGH_ROUNDS = ((12, 40), (3, 10), (3, 10))


def search_temperature(objective: Objective, centre: float, rounds: Rounds) -> float:
    """Return the T that minimises `objective`; of equal ones, the one closest to 1.

    A grid of 61 temperatures, even in log T, on [0.2, 10], continued by the same grid about
    `centre` if that reaches further; then each round.
    """
    shifted = centre / np.sqrt(2.0) * GRID
    step = LOG_STEP
    log_t = np.log(np.concatenate([GRID, [1.0], shifted[(shifted < 0.2) | (shifted > 10.0)]]))
    low, high = log_t.min(), log_t.max()
    found = {float(t): objective(float(np.exp(t))) for t in log_t}
    for n_best, n_parts in rounds:
        step /= n_parts
        offsets = step * np.arange(1 - n_parts, n_parts)
        near = np.add.outer(_best_first(found)[:n_best], offsets).ravel()
        for t in _apart(np.sort(near), np.sort(np.array(list(found))), step / 2):
            found[t] = objective(float(np.exp(t)))
    best = float(_best_first(found)[0])
    if not low < best < high:
        end = "lower" if best <= low else "upper"
        warnings.warn(
            f"TemperatureScaling found T={np.exp(best):.4g} at the {end} end of the range "
            "searched: the objective may fall further beyond it; fit on more held-out rows, or "
            "take objective='nll'.",
            ConvergenceWarning,
            stacklevel=2,
        )
    return float(np.exp(best))


def _best_first(found: dict[float, float]) -> Float64Array:
    """Order log T by objective up to rounding, then by distance from 0, then as numbers."""
    log_t, objective = np.array(list(found)), np.array(list(found.values()))
    finite = np.abs(objective[np.isfinite(objective)])
    level = np.round(objective / (finite.max(initial=0.0) or 1.0), 12)
    return log_t[np.lexsort([log_t, np.round(np.abs(log_t), 12), level])]


def _apart(new: Float64Array, old: Float64Array, least: float) -> list[float]:
    """Return those of the sorted `new` that lie `least` or more from each other and from `old`."""
    once = new[np.diff(new, prepend=-np.inf) > least]
    at = np.searchsorted(old, once)
    after = old[np.minimum(at, old.size - 1)]
    before = old[np.maximum(at - 1, 0)]
    return once[np.minimum(np.abs(once - after), np.abs(once - before)) > least].tolist()
