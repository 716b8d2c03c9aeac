"""Array types, blocks of rows of bounded size, and NumPy operations on each row of a block.

Kernels use the operations from `exp` on, and from `row_max` to `row_sums`. `torch_rows` has the
same operations for tensors. ``tensors.ops_for(block)`` returns the module for a block.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Literal, TypeVar

import numpy as np
from numpy.typing import NDArray

# Type aliases for arrays.


Kind = Literal["logits", "proba"]
FloatArray = NDArray[np.floating]
Float64Array = NDArray[np.float64]
Intp = NDArray[np.intp]
Bools = NDArray[np.bool_]
# Row numbers: a slice, or integers in any order.
Rows = slice | Intp
Float = TypeVar("Float", bound=np.floating)
# Lower bound on probabilities (clip): one for all classes, or one for each of two classes.
Clip = float | NDArray[np.float64]


# Blocks of rows and of columns, of bounded memory.
#
# A pass over an ``(n, K)`` array is a loop over blocks that fit into a core's cache. No temporary
# has the size of the array, and each pass reads a memory-mapped array once.


# Size in bytes of blocks of rows. In a second-level cache of 1-2 MiB, half a mebibyte leaves room
# for two or three temporary arrays.
ROW_BLOCK_BYTES = 1 << 19
# Size in bytes of blocks of rows for matrix products and for many short calls, which are slow if
# blocks have few rows.
TALL_BLOCK_BYTES = 4 * ROW_BLOCK_BYTES
# Size in bytes of blocks of columns, which are sorted or searched column by column. A block may
# exceed the cache; its size bounds the memory, because each thread has a few blocks.
COLUMN_BLOCK_BYTES = 1 << 22
# For cheap functions: size in bytes of a block of rows, and number of blocks in each task of a
# thread. With smaller blocks, threads would spend more time waiting for the interpreter's lock than
# computing.
LIGHT_BLOCK_BYTES = 1 << 21
LIGHT_AT_A_TIME = 16


def row_blocks(n_rows: int, n_columns: int, block_bytes: int = ROW_BLOCK_BYTES) -> Iterator[slice]:
    """Yield slices of rows that have about `block_bytes` each in float64."""
    step = max(1, block_bytes // (8 * max(1, n_columns)))
    for start in range(0, n_rows, step):
        yield slice(start, min(start + step, n_rows))


def column_blocks(
    n_rows: int, n_columns: int, block_bytes: int = COLUMN_BLOCK_BYTES, first: int = 0
) -> Iterator[slice]:
    """Yield slices of columns from `first` on that have about `block_bytes` each in float64."""
    step = max(1, block_bytes // (8 * max(1, n_rows)))
    for start in range(first, n_columns, step):
        yield slice(start, min(start + step, n_columns))


# Operations on each row of a matrix, which are fast for both small and large numbers of columns.


# Number of rows of a matrix that are transposed in one step.
TILE = 512


def transpose_into(A: NDArray[Any], out: NDArray[Any]) -> None:
    """Write ``A.T`` to `out` in tiles along the longer axis of `A`.

    Without tiles, a few columns of a wide array would miss the cache at every entry.
    """
    if A.shape[0] < A.shape[1]:
        A, out = A.T, out.T
    for start in range(0, A.shape[0], TILE):
        out[:, start : start + TILE] = A[start : start + TILE].T


# With at most this number of columns, a loop over columns is faster than NumPy's loop over short
# rows, and blocks are in column order. A softmax of ten classes then takes two fifths of the time.
FEW_COLUMNS = 32


def block_order(n_columns: int) -> Literal["C", "F"]:
    """Return the memory order in which blocks of `n_columns` columns are computed fastest."""
    return "F" if n_columns <= FEW_COLUMNS else "C"


def row_max(Z: NDArray[Float]) -> NDArray[Float]:
    """Return the largest entry of each row of ``Z (n, K)`` as a new array."""
    return _of_rows(np.maximum, Z)


def row_min(Z: NDArray[Float]) -> NDArray[Float]:
    """Return the smallest entry of each row of ``Z (n, K)`` as a new array."""
    return _of_rows(np.minimum, Z)


def _of_rows(extreme: np.ufunc, Z: NDArray[Float]) -> NDArray[Float]:
    if Z.shape[1] > FEW_COLUMNS:
        return extreme.reduce(Z, axis=1)
    out = Z[:, 0].copy()
    for column in Z.T[1:]:
        extreme(out, column, out=out)
    return out


def row_sums(A: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the sum of each row of ``A (n, K)``, independent of the other rows.

    Unlike a matrix product with ones, the sum does not use the threads of BLAS.
    """
    if A.shape[1] > FEW_COLUMNS:
        return np.einsum("ij->i", A)
    total = A[:, 0].copy()
    for column in A.T[1:]:
        total += column
    return total


def entries_at(A: NDArray[Float], code: Intp) -> tuple[NDArray[Float], Intp]:
    """Return a flat view of the matrix ``A``, and the flat indices of ``A[i, code[i]]``.

    Indexing by pairs ``(i, code[i])`` takes four times as long.
    """
    i = np.arange(A.shape[0])
    if A.flags.c_contiguous:
        return A.reshape(-1), i * A.shape[1] + code
    return A.T.reshape(-1), code * A.shape[0] + i


# Normaliser of a softmax: for each row, the number that is subtracted from the logits, and the sum
# of the exponentials of the differences.
Normaliser = tuple[NDArray[Any], NDArray[Any]]
# Rows whose logits are at most this large in absolute value are not shifted, because exponentials
# and their sums neither overflow nor become subnormal numbers, which are slow. The decision for a
# row does not depend on other rows.
NEAR = {np.dtype(np.float64): 64.0, np.dtype(np.float32): 30.0}
# Smallest argument of exp in float32: exp(-50) is far below the rounding of 1, and far above
# subnormal numbers.
LEAST_FLOAT32 = -50.0

exp, log, log1p = np.exp, np.log, np.log1p
# Smallest argument of exp in float64: exp(-300) is far below the rounding of 1, and its square is
# not a subnormal number, which would be slow.
LEAST = -300.0

# `einsum` sums a block in the thread that computes it. A matrix product would start BLAS threads,
# whose number would determine the order of summation.


def exponentiate(Z: NDArray[Any], max_abs_logit: float = np.inf) -> Normaliser:
    """Overwrite logits ``Z`` by ``exp(Z - shift)``; return the shift and the sum of each row.

    The shift is the largest logit of the row, or 0 if all logits of the row are near 0.
    `max_abs_logit` is an upper bound on the absolute values of the logits.
    """
    shift = np.zeros(Z.shape[0], dtype=Z.dtype)
    near = NEAR[Z.dtype]
    if not (max_abs_logit <= near or (-near <= Z.min() and Z.max() <= near)):
        top = row_max(Z)
        far = np.maximum(top, -row_min(Z)) > near
        shift[far] = top[far]
        Z -= shift[:, None]
        if Z.dtype == np.float32:
            np.maximum(Z, LEAST_FLOAT32, out=Z)
    np.exp(Z, out=Z)
    return shift, row_sums(Z)


def row_dots(A: NDArray[np.float64], B: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the dot product of each row of ``A`` with the same row of ``B``."""
    return np.einsum("ij,ij->i", A, B)


# With at most this number of columns, the largest entry of each row is found column by column,
# which is faster than along short rows.
VERY_FEW_COLUMNS = 24


def largest(block: NDArray[Float]) -> tuple[NDArray[Float], NDArray[np.integer]]:
    """Return the largest entry of each row of a block and its column, the first one on ties."""
    if block.shape[1] > VERY_FEW_COLUMNS:
        predicted = block.argmax(axis=1)
        entries, index = entries_at(block, predicted)
        return entries.take(index), predicted
    columns = np.empty(block.shape[::-1], dtype=block.dtype)
    transpose_into(block, columns)
    top = columns.max(axis=0)
    left = np.arange(len(columns), 0, -1, dtype=np.uint8)  # on ties, the first column wins
    return top, len(columns) - ((columns == top).view(np.uint8) * left[:, None]).max(axis=0)


def at(A: NDArray[Float], code: Intp) -> NDArray[Float]:
    """Return the entry ``A[i, code[i]]`` of each row of a contiguous block."""
    entries, index = entries_at(A, code)
    return entries[index]


def copied(Z: NDArray[Any]) -> NDArray[np.float64]:
    """Return a float64 copy of a block in the fastest memory order."""
    return Z.astype(np.float64, order=block_order(Z.shape[-1]))


def minus(Z: NDArray[Any], v: NDArray[np.float64]) -> NDArray[np.float64]:
    """Subtract the number ``v[i]`` from each row i of ``Z``; return a new block."""
    return np.subtract(Z, v[:, None], dtype=np.float64)


def add_at_(A: NDArray[Float], code: Intp, v: NDArray[np.float64]) -> None:
    """Add ``v[i]`` to the entry ``A[i, code[i]]`` of each row i of a contiguous block."""
    entries, index = entries_at(A, code)
    entries[index] += v


def times_matrix(Z: NDArray[Any], W: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the matrix product ``Z W`` in the memory order of ``Z``."""
    return (W.T @ Z.T).T if Z.strides[0] < Z.strides[1] else Z @ W


def single(x: NDArray[Any]) -> NDArray[np.float32]:
    """Convert numbers to float32."""
    return x.astype(np.float32, copy=False)


def double(x: NDArray[Any]) -> NDArray[np.float64]:
    """Convert numbers to float64."""
    return x.astype(np.float64, copy=False)


def round_to_int(x: NDArray[np.float64]) -> Intp:
    """Round numbers to the nearest integers."""
    return np.rint(x).astype(np.intp)


def places(A: NDArray[Any]) -> Intp:
    """Return the indices of the nonzero entries of a block, counted in its flat order."""
    return np.flatnonzero(A)


def pieces(A: NDArray[Any]) -> Iterator[slice]:
    """Yield the slices of rows of a large block that are computed one after the other."""
    return row_blocks(*A.shape)


def times_rows_(A: NDArray[Float], v: NDArray[np.float64]) -> None:
    """Multiply each row i of a block by ``v[i]`` in place."""
    A *= v.astype(A.dtype, copy=False)[:, None]


def divide_rows_(A: NDArray[Float], v: NDArray[np.float64]) -> None:
    """Divide each row i of a block by ``v[i]`` in place."""
    A /= v[:, None]


def at_least_(A: NDArray[Float], least: float) -> NDArray[Float]:
    """Raise entries of a block below `least`, and NaN, to `least` in place; return the block."""
    return np.fmax(A, least, out=A)


def exp_(A: NDArray[Float]) -> NDArray[Float]:
    """Replace the entries of a block by their exponentials in place; return the block."""
    return np.exp(A, out=A)


def weighted_sum(share: NDArray[np.float64], v: NDArray[np.float64]) -> float:
    """Return the weighted sum of the numbers ``v`` of all rows, with the row weights ``share``."""
    return float(np.einsum("i,i->", share, v))


def weighted_columns(share: NDArray[np.float64], A: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the weighted sum of the rows of ``A``, with the row weights ``share``."""
    return np.einsum("i,ij->j", share, A)


def is_unit(w: Float64Array) -> bool:
    """Return whether all weights are 1."""
    return bool((w == 1.0).all())


def totals(code: Intp, x: NDArray[Any] | None, n: int) -> NDArray[Any]:
    """Sum `x` over the rows of each of n integer codes; count the rows if `x` is None."""
    sums = np.bincount(code, x, n)
    # Without rows, `bincount` returns integers.
    return sums if x is None else sums.astype(np.float64, copy=False)


def concatenate(parts: list[NDArray[Any]]) -> NDArray[np.float64]:
    """Concatenate vectors as float64."""
    return np.concatenate(parts, dtype=np.float64)


def smallest_above_zero(block: NDArray[Any]) -> tuple[float, bool]:
    """Return the smallest positive number of a block (inf if none), and whether a 0 occurs."""
    low = block.min()
    if low > 0:
        return float(low), False
    # The smallest positive float is found among the bits of all floats, read as unsigned integers:
    # positive floats keep their order, and subtracting 1 from 0 wraps to the largest integer.
    # Selecting the positive floats would take four times as long.
    bits = np.uint32 if block.itemsize == 4 else np.uint64
    as_integers: NDArray[np.unsignedinteger] = block.view(bits)
    before = (as_integers - bits(1)).min(keepdims=True)
    smallest = float((before + bits(1)).view(block.dtype).item())
    return smallest if smallest > 0 else np.inf, True


def column_sums(A: NDArray[Any], w: NDArray[np.float64] | None) -> NDArray[np.float64]:
    """Return the sum of each column of ``A`` in float64, with row weights ``w`` (None: all 1)."""
    return A.sum(axis=0, dtype=np.float64) if w is None else w @ A


def above(A: NDArray[Float], cut: np.floating) -> tuple[Intp, NDArray[Float]]:
    """Return the entries of a block above the `cut`: their flat indices, and their values."""
    places = np.flatnonzero(cut < A)
    return places, A.ravel()[places]


def vector(values: list[float]) -> NDArray[np.float64]:
    """Convert a list of numbers to an array."""
    return np.array(values)
