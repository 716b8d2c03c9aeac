r"""The rising curve (isotonic regression) and a band that covers every rising truth.

If the true rate rises with the score, it is at most the rate of any run of rows with scores
:math:`\ge x`, and at least that of any run with scores :math:`\le x`. Clopper and Pearson's bounds
of the runs' rates are therefore bounds of the curve at x. Runs begin, or end, at x and have 1, 2,
4, ... cells; with L such lengths each bound has the tail :math:`\alpha / 2L`. For the whole curve,
runs begin at any of m cells, and the tail is :math:`\alpha / 2Lm`. The idea, with all runs in place
of these, is that of Dimitriadis et al. (2023).
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from sklearn.isotonic import isotonic_regression

from skcalib._arrays.types import Float64Array
from skcalib.metrics._curves.bands import exact_bounds

# Runs are made of no more cells.
BAND_CELLS = 512


class Runs(NamedTuple):
    """Bounds of the rate ``(m,)`` by the cells that end, or begin, at each cell."""

    low: Float64Array
    high: Float64Array


def rising_curve(
    p: Float64Array, W: Float64Array, H: Float64Array
) -> tuple[Float64Array, Float64Array]:
    """Return both ends of the constant pieces of the isotonic fit: scores and rates."""
    rate = isotonic_regression(H / W, sample_weight=W, y_min=0.0, y_max=1.0)
    new = np.diff(rate) != 0
    end = np.append(new, True) | np.append(True, new)
    return p[end], rate[end]


def bounds_by_runs(W: Float64Array, H: Float64Array, level: float) -> tuple[Runs, Runs]:
    """Return bounds that are valid at each single cell, and bounds that are valid at all cells."""
    m = W.size
    lengths = 2 ** np.arange(int(np.log2(m)) + 1)
    rows, hits = (np.concatenate([[0.0], np.cumsum(part)]) for part in (W, H))
    both = []
    for n_runs in (lengths.size, lengths.size * m):
        low, high = np.zeros(m), np.ones(m)
        for length in lengths:
            in_run = rows[length:] - rows[:-length]
            of_run = np.clip(hits[length:] - hits[:-length], 0.0, in_run)
            at_least, at_most = exact_bounds(of_run, in_run, (1.0 - level) / (2.0 * n_runs))
            low[length - 1 :] = np.maximum(low[length - 1 :], at_least)
            high[: m - length + 1] = np.minimum(high[: m - length + 1], at_most)
        both.append(Runs(low, high))
    point, whole = both
    # A bound of all cells is a bound of those above, or below, too.
    rising = Runs(np.maximum.accumulate(whole.low), np.minimum.accumulate(whole.high[::-1])[::-1])
    return point, rising
