r"""Errors of rows in clusters: residuals of clusters get random signs, where labels would be drawn.

With :math:`H_c` the hits of cluster c and :math:`E_q[H_c]` those of a truth q, drawn hits are

.. math:: E_q[H] + \sum_c g_c (H_c - E_q[H_c]), \qquad g_c = \pm 1 \text{ at random} ,

so that the residuals of a cluster keep their size and their pattern, whatever the dependence
(Cameron, Gelbach and Miller 2008; Canay, Santos and Shaikh 2021). Residuals about a truth that was
fitted on the same rows are too small, and made larger.

In a rare cell the mean :math:`E \sqrt V` of signs is below the :math:`\sqrt{E V}` of labels. So the
mean error of labels drawn from q, less that of signs of their residuals, is added. It changes
slowly along a path: it is simulated at a few truths and interpolated by their errors.
"""

from __future__ import annotations

from copy import copy
from typing import Any

import numpy as np
from numpy.typing import NDArray

from skcalib._arrays.source import Source, to_array
from skcalib._arrays.types import Float64Array, FloatArray
from skcalib._validation.predictions import Predictions
from skcalib.metrics._clusters import joined, number_of
from skcalib.metrics._intervals.cells import CellError
from skcalib.metrics._intervals.jackknife import GROUPS
from skcalib.metrics._intervals.label_error import ENTRIES, LabelError, Simulated, sets_at_once
from skcalib.metrics._intervals.truths import draw_codes, on_path

# Intervals and tests of errors need as many clusters: 5 have 32 patterns of signs.
FEWEST = 6
# More clusters are joined at random to as many: a table has a row for each.
MOST = 500
# Sets of labels, and of signs for each; the truth of a path for which they are drawn.
LABEL_SETS, SIGN_SETS, KNOT = 24, 16, 2.0
# A draw that is as large as the data but for rounding is as large.
ROUNDING = 1e-12


def too_few(number: int | None) -> bool:
    """Whether there are so few clusters that errors have no intervals."""
    return number is not None and number < FEWEST


def clusters_text(number: int | None) -> str:
    """Say how many clusters there are, and whether errors have no intervals."""
    few = f": the errors' intervals need {FEWEST}" if too_few(number) else ""
    return "" if number is None else f"{number:,} clusters{few}"


def check_enough(number: int | None) -> None:
    """Refuse fewer clusters than signs need."""
    if too_few(number):
        raise ValueError(
            f"clusters has {number} different labels: the interval and the test of a calibration "
            f"error need {FEWEST}; slopes, ratios and bootstrap_interval need 3."
        )


class SignedError(CellError):
    """An error by cells that draws signs of clusters."""

    def __init__(self, error: CellError, predictions: Predictions) -> None:
        check_enough(predictions.n_clusters)
        vars(self).update(vars(error))
        cluster = predictions.units
        self.has_excess = error.has_excess and number_of(cluster) > GROUPS
        most = max(GROUPS, min(MOST, ENTRIES // self.W.size))
        self.group = self.cells.in_order(joined(cluster, np.random.default_rng(0), most))
        self.labels = self.cells.hits(predictions.code[None], self.group)
        self.residuals: Float64Array | None = None
        self._seed, seed = np.random.SeedSequence(0).spawn(2)
        # The labels and their opposite first: what is linear in the residuals cancels out.
        both = np.broadcast_to([[1.0], [-1.0]], (LABEL_SETS, 2, MOST))
        signs = self.draw(self.labels, LABEL_SETS * SIGN_SETS, seed)
        self._signs = np.hstack([both, signs.reshape(LABEL_SETS, SIGN_SETS, MOST)])
        self.knots = [self.knot(to_array(predictions.P))]

    def residuals_about(self, q: FloatArray, larger: float) -> SignedError:
        """Return the error with residuals about one truth, times a factor, on all of a path."""
        error = copy(self)
        error.residuals = larger * (self.labels - self.cells.expected(q, self.group))
        return error

    def along(self, P: Source, Q: FloatArray) -> SignedError:
        """Return the error with a knot on the path to Q."""
        error = copy(self)
        error.knots = [*self.knots, self.knot(on_path(P, Q, KNOT))]
        return error

    def draw(self, q: FloatArray, n_sets: int, seed: np.random.SeedSequence) -> Float64Array:  # noqa: ARG002
        """Draw signs, the same for any error."""
        return np.random.default_rng(seed).choice([-1.0, 1.0], (n_sets, MOST))

    def values(self, q: FloatArray, codes: NDArray[Any]) -> Float64Array:
        """Return the errors ``(R, m)`` of sets of signs."""
        expected = self.cells.expected(q, self.group)
        residuals = self.labels - expected if self.residuals is None else self.residuals
        return self.flipped(expected.sum(axis=0), residuals, codes)

    def flipped(
        self, H: Float64Array, residuals: Float64Array, signs: Float64Array
    ) -> Float64Array:
        """Return the errors ``(R, m)`` of hits with signed residuals ``(C, problems, cells)``."""
        step, signs = sets_at_once(H.size), signs[:, : len(residuals)]
        parts = (signs[start : start + step] for start in range(0, len(signs), step))
        tables = (H + np.tensordot(part, residuals, 1) for part in parts)
        return np.concatenate([self.close(table, self.S, self.W) for table in tables])

    def simulate(self, q: FloatArray, n_sets: int, seed: np.random.SeedSequence) -> Simulated:
        """Measure signs, and add what their mean lacks."""
        limits, values = LabelError.simulate(self, q, n_sets, seed)
        errors, lacking = (np.array(part) for part in zip(*self.knots, strict=True))
        columns = zip(limits, np.maximum.accumulate(errors).T, lacking.T, strict=True)
        return Simulated(limits, values + [np.interp(*column) for column in columns] + ROUNDING)

    def knot(self, q: FloatArray) -> tuple[Float64Array, Float64Array]:
        """Return the limits of a truth, and by how much signs are too small in the mean."""
        expected = self.cells.expected(q, self.group)
        H, lacking = expected.sum(axis=0), []
        for code, signs in zip(draw_codes(q, LABEL_SETS, self._seed), self._signs, strict=True):
            labels = self.cells.hits(code[None], self.group)
            values = self.flipped(H, labels - expected, signs)
            lacking.append(values[:2].mean(axis=0) - values[2:].mean(axis=0))
        return self.limits(q), np.mean(lacking, axis=0)
