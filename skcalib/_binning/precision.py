r"""The precision in which scores are written, and numbers rounded to it.

A score that stands for 3/10 is 0.3 rounded to p significant bits: 0.30000001 in float32,
0.30004883 in float16. Compared with the float64 number 0.3 it lies above. So a number e that
scores are compared with is rounded as they were, to :math:`\mathrm{R}_p(e)`.

The p is read from the scores themselves, not from the type of the array: scores of float32 often
arrive as float64 (from a list, a frame, or another library), scores of float16 are converted to
float32 when they are checked, and NumPy has no bfloat16. What this may confuse:

* float64 numbers that are all float32 numbers. By chance each of them is with probability
  :math:`2^{-29}`. Numbers of few bits, such as 0.25, are, and are far from every
  :math:`\mathrm{R}_{24}(k/B)` but their own: both readings give the same bin.
* float32 numbers that are all float16 numbers. These can be exact counts: 819 votes of 1,024 are
  taken for 4/5, which they miss by less than half a step of float16. float64 is never read so:
  there the shares of votes in a forest are exact.
* float32 numbers that are all bfloat16 numbers. The steps of bfloat16 below 1 are 1/256, those of
  votes and of scores of 8 bits. So some number has to lie between the multiples of 1/256.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import lru_cache
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from skcalib._arrays.blocks import light_blocks
from skcalib._arrays.threads import map_blocks
from skcalib._arrays.types import Float64Array, FloatArray

Side = Literal["left", "right"]

FLOAT64, FLOAT32, FLOAT16, BFLOAT16 = 53, 24, 11, 8
# The edges of up to this number of bins are kept.
CACHED_EDGES = 1000


def significant_bits(S: FloatArray) -> int:
    """Return the significant bits in which scores ``(n,)`` or ``(n, K)`` are written."""
    if S.dtype == np.float64:
        return FLOAT32 if _fits(S, FLOAT32) else FLOAT64
    if not _fits(S, FLOAT16):
        return FLOAT32
    return BFLOAT16 if _fits(S, BFLOAT16) and not _counts(S, 1 << BFLOAT16) else FLOAT16


def bits_of_probabilities(P: FloatArray) -> int:
    """Return the significant bits of ``P (n, K)``; one of two columns may be 1 less the other."""
    if P.shape[1] > 2:
        return significant_bits(P)
    return min(significant_bits(P[:, 0]), significant_bits(P[:, 1]))


def _fits(S: FloatArray, bits: int) -> bool:
    """Whether numbers have no more than `bits` significant bits: those that are left over are 0."""
    double = S.dtype == np.float64
    unsigned = np.uint64 if double else np.uint32
    left_over = (1 << ((FLOAT64 if double else FLOAT32) - bits)) - 1
    # The first few mostly say enough, in a tenth of the time of a call of NumPy's.
    few = S[:4] if S.ndim == 1 else S[:1, :4].ravel()
    if any(number & left_over for number in few.view(unsigned).tolist()):
        return False

    def fit(rows: slice) -> bool:
        return not np.bitwise_and(S[rows].view(unsigned), left_over).any()

    return all(map_blocks(fit, *_blocks(S)))


def _counts(S: FloatArray, total: int) -> bool:
    """Whether all numbers are multiples of ``1 / total``."""

    def count(rows: slice) -> bool:
        multiple = S[rows] * S.dtype.type(total)
        return bool((multiple == np.rint(multiple)).all())

    return all(map_blocks(count, *_blocks(S)))


def _blocks(S: FloatArray) -> tuple[Iterator[slice], int]:
    return light_blocks(S.shape[0], 1 if S.ndim == 1 else S.shape[1], S.itemsize)


def rounded(x: Float64Array, bits: int) -> Float64Array:
    """Round float64 numbers to `bits` significant bits, halves to even."""
    if bits == FLOAT64:
        return x
    mantissa, exponent = np.frexp(x)
    return np.ldexp(np.rint(np.ldexp(mantissa, bits)), exponent - bits)


def as_written(
    ways: Float64Array, rest: Float64Array, bits: int, complements: bool, closed: Side
) -> Float64Array:
    """Return edges as scores with `bits` significant bits write them, in float64.

    A score may be computed in several ways, which differ in the last bits: 3/10, or 3 times 1/10,
    or 1 less 7/10. An edge is the outermost, on its closed side, of the numbers that stand for
    it, so that all of them fall in the bin that it closes.

    Parameters
    ----------
    ways : ndarray of shape (m, ...)
        Edges in [0, 1], computed in m ways.
    rest : ndarray of shape (m, ...)
        1 less each edge, computed in the same ways.
    bits : int
        Significant bits of the scores.
    complements : bool
        Whether a score may be 1 less another, as in two columns.
    closed : {"left", "right"}
        The side on which bins are closed.
    """
    written = rounded(ways, bits)
    if complements:
        others = 1.0 - rounded(rest, bits)
        written = np.concatenate([written, others, rounded(others, bits)])
    return written.max(axis=0) if closed == "right" else written.min(axis=0)


def even_edges(
    j: NDArray[np.intp],
    n_bins: int | NDArray[np.intp],
    bits: int,
    complements: bool,
    closed: Side,
) -> Float64Array:
    """Return edge number `j` of even bins on [0, 1], rounded to `bits` significant bits."""
    # Bins as narrow as the steps of the scores have no edges of their own among them.
    bits = bits if np.max(n_bins) <= 1 << (bits - 1) else FLOAT64
    both = [np.stack([i / n_bins, np.minimum(i * (1.0 / n_bins), 1.0)]) for i in (j, n_bins - j)]
    return as_written(both[0], both[1], bits, complements, closed)


@lru_cache(maxsize=64)
def _few_edges(n_bins: int, bits: int, complements: bool, closed: Side) -> Float64Array:
    edges = even_edges(np.arange(n_bins + 1), n_bins, bits, complements, closed)
    edges.flags.writeable = False
    return edges


def all_even_edges(n_bins: int, bits: int, complements: bool, closed: Side) -> Float64Array:
    """Return the edges of even bins ``(n_bins + 1,)`` as scores write them, to read only.

    To compute a few takes longer than to bin some thousand scores: they are kept.
    """
    if n_bins <= CACHED_EDGES:
        return _few_edges(n_bins, bits, complements, closed)
    return even_edges(np.arange(n_bins + 1), n_bins, bits, complements, closed)
