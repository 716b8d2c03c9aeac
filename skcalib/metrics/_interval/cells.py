r"""Errors that depend on the labels through the hits of cells: binned errors, KS.

Scores, weights and cells stay the same when other labels are drawn. With :math:`H_c` the weight of
the hits in cell c, :math:`S_c` the weighted sum of its scores and :math:`W_c` its weight, the error
is a function of H, S and W. With a truth q in place of labels, :math:`H_c = \sum_{i \in c} w_i q_i`
gives the limit of many rows.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

import numpy as np
from numpy.typing import NDArray

from skcalib._arrays.passes import sum_rows
from skcalib._arrays.source import Source, as_source
from skcalib._arrays.types import Float64Array, FloatArray, Intp

# Numbers of the tables of several label sets that are computed at once.
AT_ONCE = 1 << 18
# Labels are drawn for no more rows than about this many, evenly spaced; deviations are scaled.
DRAWN_ROWS = 100_000
# Most numbers of the tables that leave out one group of rows each: cells are joined to stay below.
GROUPED = 1 << 22

# The error ``(..., m)`` of tables H ``(..., problems, cells)``, S and W ``(problems, cells)``.
Close = Callable[[Float64Array, Float64Array, Float64Array], Float64Array]


@dataclass(frozen=True)
class OnePerRow:
    """A score of each row, its place, and the class that is a hit, or whether each class is."""

    place: NDArray[np.integer]
    score: FloatArray
    own: NDArray[np.integer] | NDArray[np.bool_]

    def some(self, every: int) -> OnePerRow:
        """Return every so many rows."""
        return OnePerRow(self.place[::every], self.score[::every], self.own[::every])

    def hits(self, code: Intp) -> tuple[NDArray[np.integer], NDArray[np.bool_]]:
        """Return the places of the rows, and which rows are hits."""
        if self.own.ndim == 1:
            return self.place, np.equal(self.own, code)
        return self.place, self.own[np.arange(code.size), code].astype(bool)

    def chances(self, q: FloatArray, rows: range) -> Float64Array:
        """Return the probability of a hit of each row of a block."""
        own = self.own[rows.start : rows.stop]
        if own.ndim == 2:
            return np.einsum("ik,ik->i", q, own, dtype=np.float64)
        return q[np.arange(len(q)), own].astype(np.float64)

    def scores(self, P: FloatArray, rows: range) -> FloatArray:  # noqa: ARG002
        """Return the scores of a block."""
        return self.score[rows.start : rows.stop]


@dataclass(frozen=True)
class OnePerClass:
    """The probabilities of all classes; places ``(n, K)``."""

    place: NDArray[np.integer]

    def some(self, every: int) -> OnePerClass:
        """Return every so many rows."""
        return OnePerClass(self.place[::every])

    def hits(self, code: Intp) -> tuple[NDArray[np.integer], None]:
        """Return the places of the true classes; all are hits."""
        return self.place[np.arange(code.size), code], None

    def chances(self, q: FloatArray, rows: range) -> FloatArray:  # noqa: ARG002
        """Return the probability of each class in a block."""
        return q

    def scores(self, P: FloatArray, rows: range) -> FloatArray:  # noqa: ARG002
        """Return the scores of a block."""
        return P


class CellError:
    """An error by cells, as a function of labels or of a truth.

    Parameters
    ----------
    entries : OnePerRow or OnePerClass
        Places ``j * (n_cells + 1) + c`` of cell c of problem j; cell `n_cells` is left out.
    P : Source of shape (n, K)
    w : ndarray of shape (n,)
    n_problems, n_cells : int
    close : callable
        The error of labels.
    close_limit : callable
        The error of a truth.
    """

    def __init__(
        self,
        entries: OnePerRow | OnePerClass,
        P: Source,
        w: Float64Array,
        n_problems: int,
        n_cells: int,
        close: Close,
        close_limit: Close | None = None,
    ) -> None:
        self.entries = entries
        self.w = w
        self.shape = n_problems, n_cells
        self.close = close
        self.close_limit = close if close_limit is None else close_limit
        self.P = P
        self.W, self.S = self._tables(np.zeros(w.size, dtype=np.intp), 1, 1)
        self.W, self.S = self.W[0], self.S[0]
        self._groups: tuple[Float64Array, Float64Array] | None = None

    def observed(self, code: Intp) -> Float64Array:
        """Return the errors ``(m,)`` of labels."""
        return self.close(self._hits(self.entries, self.w, code[None]), self.S, self.W)[0]

    def limits(self, q: FloatArray) -> Float64Array:
        """Return the error ``(m,)`` of a truth ``(n, K)``."""
        return self.close_limit(self._chances(self.entries, self.w, q), self.S, self.W)[0]

    def simulate(
        self, q: FloatArray, codes: NDArray[np.integer]
    ) -> tuple[Float64Array, Float64Array]:
        r"""Return the error ``(m,)`` of a truth and those ``(R, m)`` of R sets of labels.

        Labels ``(R, n / every)`` may be those of every so many rows. The hits of all rows then
        deviate from their expectation by :math:`\sqrt{n / n_s}` times the deviation of the
        :math:`n_s` rows: both are sums of many independent hits.
        """
        H = self._chances(self.entries, self.w, q)
        limits = self.close_limit(H, self.S, self.W)[0]
        every = every_of(len(q))
        entries, w, expected, factor = self.entries, self.w, H, 1.0
        if every > 1:
            entries, w = entries.some(every), w[::every]
            expected = self._chances(entries, w, q[::every])
            factor = float(np.sqrt(len(q) / w.size))
        step = max(1, AT_ONCE // H.size)
        parts = []
        for start in range(0, len(codes), step):
            drawn = self._hits(entries, w, codes[start : start + step])
            if every > 1:
                drawn = H + factor * (drawn - expected)
            parts.append(self.close(drawn, self.S, self.W))
        return limits, np.concatenate(parts)

    def _hits(
        self, entries: OnePerRow | OnePerClass, w: Float64Array, codes: NDArray[np.integer]
    ) -> Float64Array:
        """Return the weight of the hits ``(R, problems, cells)`` for each set of labels."""
        problems, cells = self.shape
        H = np.empty((len(codes), problems * (cells + 1)))
        for row, code in zip(H, codes, strict=True):
            place, hit = entries.hits(code)
            weights = w if hit is None else w * hit
            row[:] = np.bincount(place, weights=weights, minlength=row.size)
        return H.reshape(-1, problems, cells + 1)[..., :cells]

    def _chances(
        self, entries: OnePerRow | OnePerClass, w: Float64Array, q: FloatArray
    ) -> Float64Array:
        """Return the expected weight of the hits ``(1, problems, cells)``."""
        group = np.zeros(len(q), dtype=np.intp)
        return self._sums(entries.place, entries.chances, as_source(q), w, group, 1, 1)

    def limits_without(self, q: FloatArray, group: Intp, n_groups: int) -> Float64Array:
        """Return the errors ``(n_groups, m)`` of a truth, each without one group of rows."""
        problems, cells = self.shape
        most = max(64, GROUPED // (n_groups * problems))
        step = -(-cells // most)
        if self._groups is None:
            self._groups = self._tables(group, n_groups, step)
        W, S = self._groups
        entries = self.entries
        H = self._sums(entries.place, entries.chances, as_source(q), self.w, group, n_groups, step)
        H, S, W = (table.sum(axis=0) - table for table in (H, S, W))
        return self.close_limit(H, S, W)

    def _tables(self, group: Intp, n_groups: int, step: int) -> tuple[Float64Array, Float64Array]:
        def ones(block: FloatArray, rows: range) -> FloatArray:
            return np.ones_like(self.entries.scores(block, rows))

        kinds = ones, self.entries.scores
        W, S = (
            self._sums(self.entries.place, amounts, self.P, self.w, group, n_groups, step)
            for amounts in kinds
        )
        return W, S

    def _sums(
        self,
        place: NDArray[np.integer],
        amounts: Callable[[FloatArray, range], FloatArray],
        source: Source,
        w: Float64Array,
        group: Intp,
        n_groups: int,
        step: int,
    ) -> Float64Array:
        """Return weighted sums ``(n_groups, problems, cells)``, with `step` cells joined."""
        problems, cells = self.shape
        joined = -(-cells // step)
        shape = n_groups, problems, cells + 1, joined + 1
        kernel = partial(sum_places, amounts=amounts, place=place, shape=shape)
        sums = sum_rows(kernel, source, range(source.shape[0]), group, w)
        return np.asarray(sums.reshape(n_groups, problems, joined + 1)[..., :joined])


def every_of(n: int) -> int:
    """Return the step between the rows for which labels are drawn."""
    return max(1, n // DRAWN_ROWS)


def sum_places(
    block: FloatArray,
    rows: range,
    group: Intp,
    w: Float64Array,
    amounts: Callable[[FloatArray, range], FloatArray],
    place: NDArray[np.integer],
    shape: tuple[int, int, int, int],
) -> Float64Array:
    """Return the sums over a block by group, problem and joined cell, flat."""
    n_groups, problems, cells, joined = shape
    at = place[rows.start : rows.stop].astype(np.intp)
    amount = amounts(block, rows)
    if amount.ndim == 2:
        group, w = group[:, None], w[:, None]
    if joined < cells:
        j, c = np.divmod(at, cells)
        at = j * joined + c * (joined - 1) // (cells - 1)
    at += group * (problems * joined)
    size = n_groups * problems * joined
    return np.asarray(np.bincount(at.ravel(), (w * amount).ravel(), size), dtype=np.float64)
