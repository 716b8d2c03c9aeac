r"""The precision of numbers: how many significant bits their values have.

It is determined from the values, not from the type of the array: float32 scores often arrive as
float64 (from a list, a frame or another library), float16 scores are converted to float32 when they
are checked, and NumPy has no bfloat16. This can be wrong in three cases:

* All float64 scores are also float32 numbers. The probability of this is :math:`2^{-29}` for each
  score. Numbers with few bits, such as 0.25, are float32 numbers too, but no edge of a bin is near
  them that rounds differently, so the bin is the same.
* All float32 scores are also float16 numbers. They may be exact counts: 819 of 1,024 votes count as
  4/5, from which they differ by less than half a step of float16. float64 scores never count as
  float16, so shares of votes in a forest, which are float64, are exact.
* All float32 scores are also bfloat16 numbers. The step of bfloat16 below 1 is 1/256, as for votes
  or 8-bit scores. So scores count as bfloat16 only if one of them is not a multiple of 1/256.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import partial
from typing import Any, NamedTuple

import numpy as np

from skcalib._arrays.passes import LIGHT, merge_rows
from skcalib._arrays.source import Column, Source, as_source
from skcalib._arrays.types import FloatArray

FLOAT64, FLOAT32, FLOAT16, BFLOAT16 = 53, 24, 11, 8


class Shortness(NamedTuple):
    """Whether all of some numbers have the bits of a shorter type.

    ``short``: float64 numbers are float32, or float32 numbers are float16. ``bfloat16``: float32
    numbers are bfloat16. ``counts``: these are multiples of 1/256.
    """

    short: bool
    bfloat16: bool
    counts: bool

    def bits(self, dtype: np.dtype[Any]) -> int:
        """Return the significant bits of numbers of this type."""
        if dtype == np.float64:
            return FLOAT32 if self.short else FLOAT64
        if not self.short:
            return FLOAT32
        return BFLOAT16 if self.bfloat16 and not self.counts else FLOAT16


def all_of(parts: Iterable[Shortness]) -> Shortness:
    """Return the shortness of all parts together."""
    return Shortness(*(all(each) for each in zip(*parts, strict=True)))


def shortness(S: Source) -> Shortness:
    """Return the shortness of numbers."""
    if S.dtype == np.float64:
        return Shortness(_fits(S, FLOAT64 - FLOAT32), False, False)
    short = _fits(S, FLOAT32 - FLOAT16)
    bfloat16 = short and _fits(S, FLOAT32 - BFLOAT16)
    return Shortness(short, bfloat16, bfloat16 and _all(are_multiples, S, 1 << BFLOAT16))


def shortness_of_columns(P: Source) -> tuple[Shortness, ...]:
    """Return the shortness of all numbers, of two columns that of each."""
    if P.shape[1] > 2:
        return (shortness(P),)
    return tuple(shortness(Column(P, k)) for k in range(P.shape[1]))


def significant_bits(S: FloatArray | Source) -> int:
    """Return the significant bits of scores ``(n,)`` or ``(n, K)``."""
    S = as_source(S)
    return shortness(S).bits(S.dtype)


def most_bits(S: Source) -> int:
    """Return the significant bits that scores of this type may have."""
    return FLOAT64 if S.dtype == np.float64 else FLOAT32


def bits_of_columns(columns: Iterable[Shortness], dtype: np.dtype[Any]) -> int:
    """Return the significant bits of all columns; one of two may be 1 - the other."""
    return min(column.bits(dtype) for column in columns)


def bits_of_probabilities(P: Source) -> int:
    """Return the significant bits of ``P (n, K)``."""
    if P.remote is P:
        return bits_of_columns(map(all_of, zip(*P.remote.shortness(), strict=True)), P.dtype)
    if P.shape[1] > 2:
        return significant_bits(P)
    return bits_of_columns(shortness_of_columns(P), P.dtype)


def _fits(S: Source, spare: int) -> bool:
    """Whether the last `spare` bits of all numbers are 0."""
    left_over = (1 << spare) - 1
    if S.remote is None:
        # The first few numbers mostly suffice, in a tenth of the time of reading all.
        few = S.read(slice(0, 4 if S.shape[1] == 1 else 1), slice(0, 4))
        if not have_no_bits(few, left_over):
            return False
    return _all(have_no_bits, S, left_over)


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
