r"""Bin edges, and the bin table of m binary problems at once.

For problem j with scores
:math:`s_i`, outcomes :math:`t_i \in \{0, 1\}` and weights :math:`w_i`, bin b holds

.. math:: W_{jb} = \sum_{i \in b} w_i, \quad
          \mathrm{conf}_{jb} = \frac{1}{W_{jb}} \sum_{i \in b} w_i s_i, \quad
          \mathrm{acc}_{jb} = \frac{1}{W_{jb}} \sum_{i \in b} w_i t_i .

For uniform bins of all classes, small entries need not be binned: a row has at most B entries above
1/B, and the first bin of a class is its column sum minus the other bins.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, Literal, TypeVar

import numpy as np
from numpy.typing import NDArray

from skcalib._arrays.precision import (
    FLOAT64,
    bits_of_probabilities,
    most_bits,
    significant_bits,
)
from skcalib._arrays.source import Source
from skcalib._arrays.types import Float64Array, FloatArray
from skcalib._binning.edges import Side, all_even_edges, as_written

T = TypeVar("T")

Method = Literal["uniform", "edges", "rank", "split", "floor"]


@dataclass(frozen=True)
class Bins:
    """Number and kind of bins.

    ``method`` is "uniform" or a kind of quantile bins: "edges" (ties stay together, bins are closed
    on the left), "rank" (equal counts by rank, ties are split), "split" (edges half-way between
    equal parts, bins are closed on the right) or "floor" ("edges" with range starts rounded down,
    as in the paper that introduced the thresholded adaptive calibration error). ``closed`` is the
    closed side of uniform bins. ``bits`` are the significant bits of the scores, None for those of
    the binned column. ``complements`` says whether scores may have been computed as 1 - p.
    """

    n_bins: int = 15
    method: Method = "uniform"
    closed: Side = "right"
    bits: int | None = None
    complements: bool = False

    def with_precision_of(self, P: Source) -> Bins:
        """Return the bins with the precision of probabilities ``P (n, K)``."""
        return replace(self, bits=bits_of_probabilities(P), complements=P.shape[1] == 2)

    def uniform_edges(self) -> Float64Array:
        """Edges k/B of even bins on [0, 1], rounded to float64."""
        return np.arange(self.n_bins + 1.0) / self.n_bins

    def compared_edges(self, bits: int) -> Float64Array:
        """Edges of even bins, rounded to `bits` significant bits for an exact comparison."""
        return all_even_edges(self.n_bins, bits, self.complements, self.closed)

    def threshold(self, exact: float | None) -> float | None:
        """Return a threshold in the precision of the scores; an equal score is not above it."""
        if exact is None:
            return None
        bits = FLOAT64 if self.bits is None else self.bits
        above = np.array([exact], dtype=np.float64)
        return float(as_written(above, 1 - above, bits, self.complements, "right"))

    def uniform_index(self, score: FloatArray) -> NDArray[np.intp]:
        """Bin of each score; 0 is in the first bin and 1 in the last, for either closed side."""
        bits = significant_bits(score) if self.bits is None else self.bits
        edges = self.compared_edges(bits).copy()
        edges[0], edges[-1] = -np.inf, np.inf  # all scores lie between them
        score = score.astype(np.float64, copy=False)
        # A score's bin is on one side of the edge nearest to it, also if the edge is rounded.
        nearest = np.rint(score * self.n_bins).astype(np.intp)
        edge = edges.take(nearest)
        nearest -= score <= edge if self.closed == "right" else score < edge
        return nearest


def in_precision_of(P: Source, bins: Bins, use: Callable[[Bins], T]) -> T:
    """Return ``use(bins)``, with bins of the precision of probabilities ``P (n, K)``.

    `use` reads probabilities that are remote, and takes them to be as precise as their type; if its
    first pass finds that they are not, it is called again.
    """
    if P.remote is not P or P.remote.was_read:
        return use(bins.with_precision_of(P))
    typical = replace(bins, bits=most_bits(P), complements=P.shape[1] == 2)
    used = use(typical)
    exact = bins.with_precision_of(P)
    return used if exact == typical else use(exact)


@dataclass(frozen=True)
class BinTable:
    """Sums of m binary problems in B bins; every array is ``(m, B)``, with 0 for empty bins."""

    left: Float64Array
    right: Float64Array
    count: NDArray[np.int64]
    weight: Float64Array
    score_sum: Float64Array
    hit_sum: Float64Array

    def _mean(self, total: Float64Array) -> Float64Array:
        return np.divide(total, self.weight, out=np.zeros_like(total), where=self.weight > 0)

    @property
    def confidence(self) -> Float64Array:
        """Mean score of each bin, 0 where empty."""
        return self._mean(self.score_sum)

    @property
    def accuracy(self) -> Float64Array:
        """Share of hits of each bin, 0 where empty."""
        return self._mean(self.hit_sum)

    @property
    def gap(self) -> Float64Array:
        """``accuracy - confidence`` of each bin, 0 where empty."""
        return self._mean(self.hit_sum - self.score_sum)

    def _sums(self) -> tuple[NDArray[Any], ...]:
        return self.count, self.weight, self.score_sum, self.hit_sum

    def __add__(self, other: BinTable) -> BinTable:
        """Add a table with the same edges."""
        sums = (a + b for a, b in zip(self._sums(), other._sums(), strict=True))
        return BinTable(self.left, self.right, *sums)

    def pooled(self) -> BinTable:
        """Pool all problems into one; they must have the same edges."""
        sums = (part.sum(axis=0, keepdims=True) for part in self._sums())
        return BinTable(self.left[:1], self.right[:1], *sums)


def exceeds(score: FloatArray, threshold: float) -> NDArray[np.bool_]:
    """Whether scores lie above the exact threshold.

    The threshold is an array because NumPy 1 would round a scalar to the type of the scores.
    """
    return score > np.array([threshold], dtype=np.float64)
