r"""Intervals of means over rows, corrected for skewness.

With g the mean, s its standard error and a its skewness, Hall's interval is

.. math:: \left[g - s\, h(t_{(1 + c)/2}),\; g - s\, h(t_{(1 - c)/2})\right], \qquad
          h(t) = \frac{3}{a} \left(\sqrt[3]{1 + a \left(t - \frac{a}{6}\right)} - 1\right)

with quantiles of Student's t (Hall, 1992, On the removal of skewness by transformation). The mean
of values that are all at one of two ends is a share of rows, and has Wilson's interval. No end lies
outside the range of the values.

Of rows in clusters, sums over clusters take the place of the rows, and the interval is the hull of
Hall's and of Student's with the degrees of freedom of Bell and McCaffrey
(`skcalib.metrics._clusters`). A row of a relative weight is a cluster of its own.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from scipy.special import stdtrit

from skcalib._arrays.types import Float64Array, Intp
from skcalib._validation.weights import is_whole
from skcalib.metrics._clusters import (
    OF_ROWS,
    cluster_sums,
    design_effect,
    in_units,
    number_of,
    ratio_ends,
)
from skcalib.metrics._curves.bands import wilson_interval

# Below this skewness Hall's correction is lost in rounding.
NO_SKEWNESS = 1e-7
# Values closer than this, as a share of the largest, are equal up to rounding.
ROUNDING = 1e-12


class RowLosses(NamedTuple):
    """Losses of rows.

    ``losses (n,)``; ``pseudo_error``, the mean loss that a row would have if its top class were
    wrong; None for a loss without a pseudo row. Where a model is nearly always right the rows show
    no error, and the map that is most sure of itself has the lowest loss; one such row more, the
    pseudo row, restores the order; it counts as one row, and as a cluster. Checked weights
    ``w (n,)`` and ``cluster (n,)`` are those of `Predictions`.
    """

    losses: Float64Array
    pseudo_error: float | None
    w: Float64Array
    cluster: Intp | None = None

    def mean(self) -> float:
        """Return the mean loss of the rows."""
        return float(np.average(self.losses, weights=self.w))

    def less(self, other: RowLosses) -> RowLosses:
        """Return the amounts by which the losses of the same rows exceed others."""
        pseudo = None
        if not (self.pseudo_error is None or other.pseudo_error is None):
            pseudo = self.pseudo_error - other.pseudo_error
        return self._replace(losses=self.losses - other.losses, pseudo_error=pseudo)

    def with_pseudo_row(self) -> RowLosses:
        """Return the rows, of which the pseudo row is one."""
        values, pseudo, w, cluster = self
        if pseudo is None:
            return self
        cluster = None if cluster is None else np.append(cluster, number_of(cluster))
        return RowLosses(np.append(values, pseudo), None, np.append(w, 1.0), cluster)

    def observations(self) -> tuple[Float64Array, Float64Array]:
        """Return values and weights of the rows and the pseudo row, or those of clusters."""
        values, _, w, cluster = self.with_pseudo_row()
        if cluster is None:
            return values, w
        N = cluster_sums(w, cluster)
        return cluster_sums(w * values, cluster) / N, N * (N.size / N.sum())


def mean_and_error(differences: Float64Array, w: Float64Array) -> tuple[float, float, float]:
    r"""Return a weighted mean, its standard error and its skewness.

    With :math:`u_i = w_i (d_i - g) / n`, where n is the sum of the checked weights, they are g, the
    root of :math:`n / (n - 1) \sum_i u_i^2` and :math:`\sum_i u_i^3 / (\sum_i u_i^2)^{3/2}`. A row
    of a relative weight is one observation; of counts, each copy is one, of weight 1.
    """
    n = float(w.sum())
    mean = np.average(differences, weights=w)
    copies, weights = (w, 1.0) if is_whole(w) else (np.ones(w.size), w)
    u = weights * (differences - mean) / n
    squares = u * u
    square = copies @ squares
    skewness = 0.0 if square == 0 else copies @ (squares * u) / square**1.5  # powers are slow
    return float(mean), float(np.sqrt(square * n / max(n - 1, 1))), float(skewness)


def hall_interval(rows: RowLosses, level: float, power: float = 0.0) -> tuple[float, float]:
    """Return the interval of the mean by Hall's t, which corrects for skewness.

    It is of the rows and the pseudo row; degrees of freedom count the rows without that. Of
    clusters, and of relative weights, it is the hull of it and of Student's interval; `power` is
    that of `balance`.
    """
    rows = in_units(rows.with_pseudo_row())
    values, w = rows.observations()
    mean, error, skewness = mean_and_error(values, w)
    h = stdtrit(max(float(w.sum()) - 1, 1), np.array([(1 + level) / 2, (1 - level) / 2]))
    if abs(skewness) > NO_SKEWNESS:
        h = 3 / skewness * (np.cbrt(1 + skewness * (h - skewness / 6)) - 1)
    low, high = mean - error * h
    if rows.cluster is not None and np.ptp(rows.losses) > 0:
        ends = ratio_ends(w * values, w, level, power)
        low, high = min(low, ends[0]), max(high, ends[1])
    return float(low), float(high)


def mean_interval(rows: RowLosses, level: float, low: float, high: float) -> tuple[float, float]:
    """Return the interval of the mean of losses in ``[low, high]``.

    A share of rows needs no pseudo row. The interval is NaN if all rows have the same loss, which
    is at neither end.
    """
    values, _, w, _ = rows
    if np.isfinite([low, high]).all() and ((values == low) | (values == high)).all():
        share = np.array(float(w @ (values == high)) / w.sum())
        fewer = design_effect(in_units(rows), (values == high) - share, level)
        ends = wilson_interval(share, float(w.sum()) / fewer, level)
        return low + (high - low) * float(ends[0]), low + (high - low) * float(ends[1])
    rows = rows.with_pseudo_row()
    if rows.w.sum() <= 1 or np.ptp(rows.losses) <= ROUNDING * np.abs(rows.losses).max():
        return np.nan, np.nan
    least, most = hall_interval(rows, level, OF_ROWS if rows.cluster is None else 0.0)
    return max(least, low), min(most, high)
