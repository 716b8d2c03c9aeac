r"""The precision of scores, and bin edges rounded to it.

A score of 3/10 is 0.3 rounded to p significant bits: 0.30000001 in float32, 0.30004883 in float16.
Both are above the float64 number 0.3. So an edge e is rounded like the scores, to
:math:`\mathrm{R}_p(e)`, before they are compared.

p is determined from the values of the scores, not from the type of the array: float32 scores often
arrive as float64 (from a list, a frame or another library), float16 scores are converted to float32
when they are checked, and NumPy has no bfloat16. This can be wrong in three cases:

* All float64 scores are also float32 numbers. The probability of this is :math:`2^{-29}` for each
  score. Numbers with few bits, such as 0.25, are float32 numbers too, but they are far from all
  :math:`\mathrm{R}_{24}(k/B)` except their own, so the bin is the same.
* All float32 scores are also float16 numbers. They may be exact counts: 819 of 1,024 votes count as
  4/5, from which they differ by less than half a step of float16. float64 scores never count as
  float16, so shares of votes in a forest, which are float64, are exact.
* All float32 scores are also bfloat16 numbers. The step of bfloat16 below 1 is 1/256, as for votes
  or 8-bit scores. So scores count as bfloat16 only if one of them is not a multiple of 1/256.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache, partial
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from skcalib._arrays.passes import LIGHT, merge_rows
from skcalib._arrays.source import ALL, Column, Source, as_source
from skcalib._arrays.types import Float64Array, FloatArray

Side = Literal["left", "right"]

FLOAT64, FLOAT32, FLOAT16, BFLOAT16 = 53, 24, 11, 8
# Edges of up to this many bins are cached.
CACHED_EDGES = 1000


def significant_bits(S: FloatArray | Source) -> int:
    """Return the significant bits of scores ``(n,)`` or ``(n, K)``."""
    S = as_source(S)
    if S.dtype == np.float64:
        return FLOAT32 if _fits(S, FLOAT32) else FLOAT64
    if not _fits(S, FLOAT16):
        return FLOAT32
    return BFLOAT16 if _fits(S, BFLOAT16) and not _all(are_multiples, S, 1 << BFLOAT16) else FLOAT16


def most_bits(S: Source) -> int:
    """Return the significant bits that scores of this type may have."""
    return FLOAT64 if S.dtype == np.float64 else FLOAT32


def bits_of_probabilities(P: Source) -> int:
    """Return the significant bits of ``P (n, K)``; one of two columns may be 1 - the other."""
    if P.shape[1] > 2:
        return significant_bits(P)
    if P.remote is not None:
        return min(significant_bits(Column(P, k)) for k in (0, 1))
    return min(significant_bits(P.read(ALL, slice(k, k + 1))[:, 0]) for k in (0, 1))


def _fits(S: Source, bits: int) -> bool:
    """Whether numbers have at most `bits` significant bits."""
    left_over = (1 << (most_bits(S) - bits)) - 1
    # The first few numbers mostly suffice, in a tenth of the time of reading all.
    remote = S.remote
    few = S if remote is None or not remote.was_read else remote.sample(S)[0]
    few_numbers = few.read(slice(0, 4 if S.shape[1] == 1 else 1), slice(0, 4))
    return have_no_bits(few_numbers, left_over) and _all(have_no_bits, S, left_over)


def _all(kernel: Callable[..., bool], S: Source, number: int) -> bool:
    return bool(merge_rows(partial(kernel, number=number), S, merge=all, work=LIGHT, nested=True))


def have_no_bits(block: FloatArray, number: int) -> bool:
    """Whether no bit of `number` is set in any float of a block."""
    unsigned = np.uint64 if block.dtype == np.float64 else np.uint32
    return not np.bitwise_and(block.view(unsigned), unsigned(number)).any()


def are_multiples(block: FloatArray, number: int) -> bool:
    """Whether all floats of a block are multiples of ``1 / number``."""
    multiple = block * block.dtype.type(number)
    return bool((multiple == np.rint(multiple)).all())


def rounded(x: Float64Array, bits: int) -> Float64Array:
    """Round float64 numbers to `bits` significant bits, halves to even."""
    if bits == FLOAT64:
        return x
    mantissa, exponent = np.frexp(x)
    return np.ldexp(np.rint(np.ldexp(mantissa, bits)), exponent - bits)


def as_written(
    ways: Float64Array, rest: Float64Array, bits: int, complements: bool, closed: Side
) -> Float64Array:
    """Return edges rounded to `bits` significant bits, in float64.

    A score may be computed in ways that differ in the last bits: 3/10, 3 * (1/10) or 1 - 7/10. The
    edge is the outermost of these numbers on the closed side of the bin, so that all of them belong
    to the bin that it closes.

    Parameters
    ----------
    ways : ndarray of shape (m, ...)
        Edges in [0, 1], computed in m ways.
    rest : ndarray of shape (m, ...)
        1 - edge, computed in the same ways.
    bits : int
        Significant bits of the scores.
    complements : bool
        Whether scores may have been computed as 1 - p, as in two columns.
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
    # Bins narrower than the steps of the scores would get equal edges.
    bits = bits if np.max(n_bins) <= 1 << (bits - 1) else FLOAT64
    both = [np.stack([i / n_bins, np.minimum(i * (1.0 / n_bins), 1.0)]) for i in (j, n_bins - j)]
    return as_written(both[0], both[1], bits, complements, closed)


@lru_cache(maxsize=64)
def _few_edges(n_bins: int, bits: int, complements: bool, closed: Side) -> Float64Array:
    edges = even_edges(np.arange(n_bins + 1), n_bins, bits, complements, closed)
    edges.flags.writeable = False
    return edges


def all_even_edges(n_bins: int, bits: int, complements: bool, closed: Side) -> Float64Array:
    """Return the edges of even bins ``(n_bins + 1,)``, rounded like the scores; read-only.

    They are cached, because computing a few takes longer than binning some thousand scores.
    """
    if n_bins <= CACHED_EDGES:
        return _few_edges(n_bins, bits, complements, closed)
    return even_edges(np.arange(n_bins + 1), n_bins, bits, complements, closed)
