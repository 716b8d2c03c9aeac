"""Exact weighted order statistics of very many values, by counting instead of sorting.

The bits of non-negative floats, read as unsigned integers, have the order of the floats. One pass
counts the values by their leading bits, which gives the leading bits of the wanted order
statistics. The next pass counts the values with these leading bits by the bits that follow, and so
on until no bits are left.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import partial
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from skcalib._arrays.blocks import ROW_BLOCK_BYTES
from skcalib._arrays.passes import PerRow, Work, merge_rows
from skcalib._arrays.source import Source, as_source
from skcalib._arrays.types import Float64Array, FloatArray, Intp
from skcalib._binning.edges import Side

# Values of a block, all >= 0, and their weights, None if all are 1.
Values = tuple[FloatArray, Float64Array | None]
ValuesOf = Callable[..., Values]
# Counters take more memory than a block, so a thread takes one block at a time.
ONE_AT_A_TIME = Work(ROW_BLOCK_BYTES, 1)

# Counters of a pass (they stay in the cache), and how many values are copied instead of read again.
COUNTERS = 1 << 16
GATHERED = 1 << 19
# Leading bits that index a lookup table, which spares most values a search.
TABLE_BITS = 16


class Places(NamedTuple):
    """Values at given places of the cumulative weight, and the weight of all smaller values.

    If a place lies between two values, ``below`` is the smaller and ``above`` the larger one; at
    the total weight, both are the largest value.
    """

    below: Float64Array
    above: Float64Array
    under: Float64Array


def values_at(values_of: ValuesOf, source: Source, *per_row: PerRow, place: Float64Array) -> Places:
    """Find the values at places of the cumulative weight in ascending order.

    Parameters
    ----------
    values_of : callable
        ``values_of(block, *per_row)`` returns the values and weights of a block.
    source : Source of float32 or float64
    *per_row : ndarray, range or None
        An entry for each row.
    place : ndarray of shape (m,)
        Between 0 and the sum of all weights.

    Returns
    -------
    places : Places
        Arrays of shape (m,); ``under`` belongs to ``below``.
    """
    dtype = source.dtype
    unsigned = np.dtype(f"u{dtype.itemsize}")
    several = Several(values_of, source, per_row, ONE_AT_A_TIME)
    m = place.size
    rest = np.concatenate([place, place])
    under = np.zeros(2 * m)
    begin = np.zeros(2 * m, dtype=unsigned)
    left = 8 * dtype.itemsize - 1  # without the sign: -0.0 counts as 0
    while m and left:
        known, own = np.unique(begin, return_inverse=True)
        bits = max(1, min(left, (COUNTERS // known.size).bit_length() - 1))
        weight, several = several.weigh(known, left, bits)
        running = np.cumsum(weight, axis=1, out=weight)
        cell = np.empty(2 * m, dtype=unsigned)
        for i in range(2 * m):
            row = running[own[i]]
            # Rounding of the weights must not select an empty cell.
            first, last = np.searchsorted(row, 0.0, "right"), np.searchsorted(row, row[-1], "left")
            nearest = np.searchsorted(row, rest[i], "left" if i < m else "right")
            cell[i] = j = min(max(nearest, first), last)
            if j:
                under[i] += row[j - 1]
                rest[i] -= row[j - 1]
        begin = begin << unsigned.type(bits) | cell
        left -= bits
    values = begin.view(dtype).astype(np.float64)
    return Places(values[:m], values[m:], under[:m])


class Several(NamedTuple):
    """Values in the blocks of a source: ``values_of(block, *per_row)`` returns those of a block."""

    values_of: ValuesOf
    source: Source
    per_row: tuple[PerRow, ...]
    work: Work

    def weigh(self, known: NDArray[Any], left: int, bits: int) -> tuple[Float64Array, Several]:
        """Sum the weights of values with known leading bits, by the `bits` bits that follow.

        Parameters
        ----------
        known : ndarray of unsigned integers, ascending
            Leading bits, of equal number; a single 0 if no bits are known.
        left : int
            Number of bits after the leading ones.
        bits : int

        Returns
        -------
        weight : ndarray of shape (known.size, 2 ** bits)
        several : Several
            The values with these leading bits, if they are few; else all values.
        """
        kernel = partial(
            weigh_block, values_of=self.values_of, leading=Leading(known, left), bits=bits
        )
        n_known = 8 * known.itemsize - 1 - left
        merge = partial(add_counts, n_cells=known.size << bits, keep=n_known > 0)
        total, few = merge_rows(
            kernel, self.source, *self.per_row, merge=merge, work=self.work, nested=True
        )
        return total.reshape(known.size, -1), self if few is None else gathered(few)


def add_counts(
    parts: Iterable[tuple[Float64Array, list[Values] | None]], n_cells: int, keep: bool
) -> tuple[Float64Array, list[Values] | None]:
    """Return the sums of weights, and with `keep` all values if they are few."""
    total = np.zeros(n_cells)
    few: list[Values] | None = [] if keep else None
    size = 0
    for weight, several in parts:
        total += weight
        size += sum(values.size for values, _ in several or [])
        if several is None or size > GATHERED:
            few = None
        elif few is not None:
            few += several
    return total, few


class Leading:
    """Known leading bits, ascending, with a table of the first ones.

    The table excludes most of the values with other leading bits.
    """

    def __init__(self, known: NDArray[Any], left: int) -> None:
        self.known = known
        self.left = left
        self.n_known = 8 * known.itemsize - 1 - left
        n_first = min(self.n_known, TABLE_BITS)
        unsigned = known.dtype.type
        self._shift = unsigned(self.n_known + left - n_first)
        self._first = np.zeros(1 << n_first, dtype=bool)
        self._first[known >> unsigned(self.n_known - n_first)] = True

    def places(self, key: NDArray[Any]) -> tuple[Intp, Intp]:
        """Return which keys have known leading bits, and the places of these bits in `known`."""
        at = np.flatnonzero(self._first[key >> self._shift])
        begin = key[at] >> self.known.dtype.type(self.left)
        slot = np.minimum(np.searchsorted(self.known, begin), self.known.size - 1)
        kept = self.known[slot] == begin
        return at[kept], slot[kept]


def weigh_block(
    block: FloatArray, *per_row: Any, values_of: ValuesOf, leading: Leading, bits: int
) -> tuple[Float64Array, list[Values]]:
    """Return the weights by known leading bits and the next `bits` bits, and these values."""
    values, weights = values_of(block, *per_row)
    known, left = leading.known, leading.left
    unsigned = known.dtype.type
    key = values.view(known.dtype) & unsigned((1 << (leading.n_known + left)) - 1)
    cell = np.zeros(key.size, dtype=np.intp)
    if leading.n_known:
        at, slot = leading.places(key)
        cell = slot << bits
        values, key, weights = values[at], key[at], None if weights is None else weights[at]
    key >>= unsigned(left - bits)
    key &= unsigned((1 << bits) - 1)
    cell += key.astype(np.intp)
    weight = np.bincount(cell, weights, minlength=known.size << bits)
    return weight.astype(np.float64, copy=False), [(values, weights)]


def gathered(parts: list[Values]) -> Several:
    """Concatenate values and weights of blocks into one block."""
    values = np.concatenate([values for values, _ in parts])
    each = [weights for _, weights in parts if weights is not None]
    weights = np.concatenate(each) if each else None
    return Several(column_values, as_source(values), (weights,), Work(8 * GATHERED, 1))


def column_values(block: FloatArray, w: Float64Array | None) -> Values:
    """Return the values of a single column, and their weights."""
    return block[:, 0], w


class Cells:
    """``numpy.searchsorted(edges, values, side)``, with a table of the values' leading bits."""

    def __init__(self, edges: Float64Array, side: Side, dtype: np.dtype[Any]) -> None:
        self.edges = edges
        self.side = side
        self._unsigned = np.dtype(f"u{dtype.itemsize}")
        self._left = self._unsigned.type(8 * dtype.itemsize - 1 - TABLE_BITS)
        low = np.arange(1 << TABLE_BITS, dtype=self._unsigned) << self._left
        high = low | self._unsigned.type((1 << int(self._left)) - 1)
        top = np.array(np.inf, dtype=dtype).view(self._unsigned)  # larger bits are NaN
        first, last = (
            np.searchsorted(edges, np.minimum(key, top).view(dtype), side=side)
            for key in (low, high)
        )
        # The cell of all values with these leading bits, -1 if they are in several cells.
        self._table = np.where(first == last, first, -1)

    def __call__(self, values: FloatArray) -> NDArray[np.intp]:
        """Return the cells of contiguous values, all >= 0."""
        key = values.view(self._unsigned) >> self._left
        cell = self._table[key & self._unsigned.type((1 << TABLE_BITS) - 1)]
        near = np.flatnonzero(cell < 0)
        cell[near] = np.searchsorted(self.edges, values[near], side=self.side)
        return cell
