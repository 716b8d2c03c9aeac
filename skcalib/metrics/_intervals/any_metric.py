"""Any metric as a function of the labels, by calling it for each set of labels."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from skcalib._arrays.types import Float64Array, FloatArray, Intp
from skcalib._validation.predictions import Predictions
from skcalib.metrics._clusters import number_of
from skcalib.metrics._intervals.label_error import ENTRIES, LabelError, every_of
from skcalib.metrics._resampling import Evaluation

# A truth of 1 is this weight, so that rounded weights are whole and count copies of rows.
ONE = 1e9
# Probabilities below this do not change the limit of a metric.
NEGLIGIBLE = 1e-7
# Copies of each row, each with a label of its own, that stand for the limit of many rows.
COPIES = 20


class AnyError(LabelError):
    """A metric of predictions, as a function of labels or of a truth.

    Its limit is that of rows whose weights are split between the classes; with `copies`, that of
    several copies of each row with drawn labels, for a metric that takes no weights or that uses
    more bins the more rows there are.
    """

    # A metric of others may be a quantile, of which the jackknife does not find the bias.
    has_excess = False

    def __init__(
        self, evaluate: Evaluation, predictions: Predictions, copies: bool = False
    ) -> None:
        self.evaluate = evaluate
        self.copies = copies or not (evaluate.own or "sample_weight" in evaluate.accepted)
        self.predictions = predictions
        self.every = every_of(predictions.code.size)
        self.some = predictions
        if self.every > 1:
            self.some = predictions.take(np.arange(0, predictions.code.size, self.every))

    def observed(self, code: NDArray[np.integer]) -> Float64Array:
        """Return the metric ``(m,)`` of labels of all rows."""
        return np.atleast_1d(self.evaluate(self.predictions._replace(code=code)))

    def limits(self, q: FloatArray) -> Float64Array:
        """Return the metric ``(m,)`` of many rows with labels of a truth."""
        return self._limit(q[:: self.every], np.arange(self.some.code.size))

    def values(self, q: FloatArray, codes: NDArray[np.integer]) -> Float64Array:
        r"""Return the metric ``(R, m)`` of sets of labels.

        Of labels of a part of the rows, the metric deviates from the limit by
        :math:`\sqrt{n / n_s}` times as much as of all.
        """
        values = np.stack(
            [np.ravel(self.evaluate(self.some._replace(code=c.astype(np.intp)))) for c in codes]
        )
        if self.every > 1:
            limits = self.limits(q)
            values = limits + (values - limits) / np.sqrt(len(q) / self.some.code.size)
        return values

    def limits_without(self, q: FloatArray, group: Intp, most: int = ENTRIES) -> Float64Array:  # noqa: ARG002
        """Return the limits ``(groups, m)``, each without one group of rows."""
        n_groups, q, group = number_of(group), q[:: self.every], group[:: self.every]
        return np.stack([self._limit(q, np.flatnonzero(group != g)) for g in range(n_groups)])

    def _limit(self, q: FloatArray, rows: Intp) -> Float64Array:
        w = self.some.w
        if not self.copies:
            i, code = np.nonzero(q[rows] > NEGLIGIBLE)
            at = rows[i]
            weight = np.maximum(np.rint(ONE * q[at, code] * w[at] / w.mean()), 1.0)
        else:
            at = np.repeat(rows, COPIES)
            edges = np.cumsum(q[at], axis=1, dtype=np.float64)
            drawn = np.random.default_rng(0).random((at.size, 1)) * edges[:, -1:]
            code = (edges[:, :-1] <= drawn).sum(axis=1)
            weight = w[at]
        many = self.some.take(at)._replace(code=code, w=weight)
        return np.atleast_1d(self.evaluate(many))
