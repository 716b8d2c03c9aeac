r"""Bins of a reliability diagram: those asked for, or as many as the rows can fill.

An average over a bin of width h has a squared bias of order h^2 and, of n rows, a variance of
order 1/(n h). Their sum is least at a width of order :math:`n^{-1/3}`: the number of bins is the
cube root of n, rounded up, at most 15.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from skcalib._arrays.types import Float64Array, FloatArray
from skcalib._validation.weights import as_given
from skcalib.metrics import reliability_table
from skcalib.metrics._curve.bands import wilson_interval
from skcalib.plotting._event_view import Hits, Strategy
from skcalib.plotting._intervals import consistency_band
from skcalib.plotting._limits import most_scores

if TYPE_CHECKING:
    import pandas as pd

# Bins of the errors, of the histogram, and of the diagram at most.
USUAL = 15
# Where most scores lie within so small a part of [0, 1], even bins would hold all rows in a few.
PART = 0.25


def choose_bins(
    score: FloatArray, w: Float64Array, n_bins: int | None, strategy: Strategy | None
) -> tuple[int, Strategy]:
    """Return the number and the strategy of the bins that are drawn."""
    if n_bins is not None:
        return n_bins, strategy or "uniform"
    low, high = most_scores(score, w)
    return fillable(float(w.sum())), strategy or ("quantile" if high - low < PART else "uniform")


def fillable(n_rows: float) -> int:
    """Return the number of bins that so many rows fill."""
    return max(min(USUAL, int(np.ceil(np.cbrt(n_rows) - 1e-9))), 1)


def bin_rows(
    score: FloatArray, hit: Hits, w: Float64Array, n_bins: int, strategy: Strategy
) -> pd.DataFrame:
    """Return the bins of a score."""
    return reliability_table(
        hit, score, pos_label=True, n_bins=n_bins, strategy=strategy, sample_weight=as_given(w)
    )


def gap_of(table: pd.DataFrame) -> float:
    """Return the mean gap of bins."""
    weight = table["weight"].to_numpy()
    return float((weight * table["gap"].abs().fillna(0.0)).sum() / weight.sum())


def add_intervals(table: pd.DataFrame, confidence_level: float) -> None:
    """Add interval and band of each bin to a table."""
    n = table["weight"].to_numpy()
    ends = {
        "accuracy": wilson_interval(table["accuracy"].to_numpy(), n, confidence_level),
        "band": consistency_band(table["confidence"].to_numpy(), n, confidence_level),
    }
    for what, (low, high) in ends.items():
        table[f"{what}_low"], table[f"{what}_high"] = low, high
