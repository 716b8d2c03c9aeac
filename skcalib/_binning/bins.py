r"""Bin edges, and the bin table of m binary problems at once.

For problem j with scores
:math:`s_i`, outcomes :math:`t_i \in \{0, 1\}` and weights :math:`w_i`, bin b holds

.. math:: W_{jb} = \sum_{i \in b} w_i, \quad
          \mathrm{conf}_{jb} = \frac{1}{W_{jb}} \sum_{i \in b} w_i s_i, \quad
          \mathrm{acc}_{jb} = \frac{1}{W_{jb}} \sum_{i \in b} w_i t_i .

For uniform bins of all classes, small entries need not be binned: a row has at most B entries above
1/B, and the first bin of a class is its column sum minus the other bins.

A score of 3/10 is 0.3 rounded to its type: 0.30000001 in float32, above the float64 number 0.3. So
edges and thresholds are rounded to the type of the scores before they are compared.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np
from numpy.typing import DTypeLike, NDArray

from skcalib._arrays.tensors import as_type_of, on_host, rows_of
from skcalib._arrays.types import Bools, Float64Array, FloatArray
from skcalib._validation.keywords import number_of_bins

NumberOfBins = int | Literal["cube_root"]
Side = Literal["left", "right"]


@dataclass(frozen=True)
class Bins:
    """Number and kind of bins.

    ``method`` is "uniform" or a kind of quantile bins: "edges" (ties stay together, bins are closed
    on the left), "linear" (edges are `numpy.quantile`, bins are closed on the right), "rank" (equal
    counts by rank, ties are split), "split" (edges half-way between equal parts, bins are closed on
    the right) or "floor" ("edges" with range starts rounded down, as in the paper that introduced
    the thresholded adaptive calibration error). ``closed`` is the closed side of uniform bins.
    With ``cube_root`` their number is that of the rows.
    """

    n_bins: int = 15
    method: Literal["uniform", "edges", "linear", "rank", "split", "floor"] = "uniform"
    closed: Side = "right"
    cube_root: bool = False

    def of_rows(self, w: Float64Array) -> Bins:
        """Return the bins of rows with these weights."""
        if not self.cube_root:
            return self
        return replace(self, n_bins=number_of_bins("cube_root", w.sum()), cube_root=False)

    def edges(self, dtype: DTypeLike = np.float64) -> Float64Array:
        """Return the edges k/B of even bins on [0, 1], rounded to the type of the scores."""
        edges = np.arange(self.n_bins + 1.0) / self.n_bins
        return edges.astype(dtype).astype(np.float64, copy=False)

    def uniform_index(self, score: FloatArray) -> NDArray[np.intp]:
        """Bin of each score; 0 is in the first bin and 1 in the last, for either closed side."""
        r = rows_of(score)
        edges = self.edges(float_type(score))
        edges[0], edges[-1] = -np.inf, np.inf  # all scores lie between them
        score = r.double(score)
        # A score's bin is on one side of the edge nearest to it, also if the edge is rounded.
        nearest = r.whole(score * self.n_bins)
        edge = as_type_of(edges, score).take(nearest)
        nearest -= 1  # PyTorch subtracts no booleans
        nearest += score > edge if self.closed == "right" else score >= edge
        return nearest


@dataclass(frozen=True)
class BinTable:
    """Sums of m binary problems in B bins; every array is ``(m, B)``, with 0 for empty bins."""

    left: Float64Array
    right: Float64Array
    count: NDArray[np.int64]
    weight: Float64Array
    score_sum: Float64Array
    hit_sum: Float64Array

    @property
    def confidence(self) -> Float64Array:
        """Mean score of each bin, 0 where empty."""
        return quotient(self.score_sum, self.weight)

    @property
    def accuracy(self) -> Float64Array:
        """Share of hits of each bin, 0 where empty."""
        return quotient(self.hit_sum, self.weight)

    @property
    def gap(self) -> Float64Array:
        """``accuracy - confidence`` of each bin, 0 where empty."""
        return quotient(self.hit_sum - self.score_sum, self.weight)

    def _sums(self) -> tuple[NDArray[Any], ...]:
        return self.count, self.weight, self.score_sum, self.hit_sum

    def __add__(self, other: BinTable) -> BinTable:
        """Add a table with the same edges."""
        sums = (a + b for a, b in zip(self._sums(), other._sums(), strict=True))
        return BinTable(self.left, self.right, *sums)

    def on_host(self) -> BinTable:
        """Return the table with arrays in place of tensors."""
        return BinTable(self.left, self.right, *map(on_host, self._sums()))

    def pooled(self) -> BinTable:
        """Pool all problems into one; they must have the same edges."""
        sums = (part.sum(axis=0, keepdims=True) for part in self._sums())
        return BinTable(self.left[:1], self.right[:1], *sums)


def quotient(amount: Float64Array, weight: Float64Array) -> Float64Array:
    """Divide amounts by weights; the quotient is 0 where the weight is 0."""
    return np.divide(amount, weight, out=np.zeros(amount.shape), where=weight > 0)


def float_type(score: FloatArray) -> np.dtype[Any]:
    """Return NumPy's type of scores, which may be a tensor."""
    return np.dtype(f"f{score.itemsize}")


def exceeds(score: FloatArray, threshold: float) -> Bools:
    """Whether scores lie above the threshold, rounded to their type."""
    return score > float(float_type(score).type(threshold))
