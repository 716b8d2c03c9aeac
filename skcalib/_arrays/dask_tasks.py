"""Tasks on the chunks of a Dask array: what is sent to a chunk, and what comes back."""

from __future__ import annotations

import io
import pickle
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np
from joblib import parallel_config
from numpy.typing import NDArray

from skcalib._arrays.passes import add
from skcalib._arrays.source import ArraySource, Remote, Source
from skcalib._arrays.types import FloatArray


class Part(NamedTuple):
    """Numbers of the rows of a chunk, in few bytes; `values` is a single one if all are equal."""

    values: NDArray[Any]
    n: int
    dtype: np.dtype[Any]

    def unpacked(self) -> NDArray[Any]:
        """Return the numbers in their own type."""
        if self.values.size < self.n:
            return np.full(self.n, self.values[0], dtype=self.dtype)
        return self.values.astype(self.dtype, copy=False)


def packed(values: NDArray[Any]) -> Part:
    """Return numbers of rows in few bytes: most weights are 1, most codes fit into a byte."""
    n, dtype = len(values), values.dtype
    if values.ndim == 1 and n > 1:
        if (values == values[0]).all():
            return Part(values[:1].copy(), n, dtype)
        if dtype.kind in "iu" and values.min() >= 0:
            values = values.astype(np.min_scalar_type(values.max()))
    return Part(values, n, dtype)


class ChunkResult(NamedTuple):
    """The result of a chunk, None if its check found a flaw or no row is used; its survey.

    If the pass is the first, ``sample`` has some of the rows, at equal distances.
    """

    value: Any
    surveys: list[Any]
    sample: list[FloatArray]


def dumped(thing: Any, remote: Source) -> bytes:
    """Return functions with their sources as bytes, without the remote source."""
    import cloudpickle

    def chunk_id(values: Any) -> str | None:
        if isinstance(values, Remote):
            assert values is remote
            return "chunk"
        return None

    file = io.BytesIO()
    pickler = cloudpickle.CloudPickler(file)
    # A class in this function would keep the source alive until the garbage collector runs.
    pickler.persistent_id = chunk_id
    pickler.dump(thing)
    return file.getvalue()


class Unpickler(pickle.Unpickler):
    """Reads what was dumped, with a chunk in place of the remote source."""

    def __init__(self, sent: bytes, chunk: Source) -> None:
        super().__init__(io.BytesIO(sent))
        self.chunk = chunk

    def persistent_load(self, _: Any) -> Source:
        """Return the chunk."""
        return self.chunk


def loaded(sent: bytes, chunk: Source) -> Any:
    """Return what was dumped, with a chunk in place of the remote source."""
    return Unpickler(sent, chunk).load()


class ChunkTask(NamedTuple):
    """Arguments common to all tasks of a pass."""

    work: bytes
    check: Callable[[Source, range], tuple[Any, bool]] | None
    correct: Callable[[FloatArray], FloatArray] | None
    dtype: np.dtype[Any]
    n_columns: int
    step: int


def of_chunk(
    sent: ChunkTask, chunk: Any, span: range, chosen: Part | None, parts: list[Any]
) -> Any:
    """Return what a pass makes of a chunk, a `ChunkResult`.

    A `ValueError` is returned too, so that errors come back in the order of the chunks.
    """
    array = np.asarray(chunk, dtype=sent.dtype)
    if array.shape != (len(span), sent.n_columns):
        return ValueError(
            "Found input variables with inconsistent numbers of samples: a chunk of X has "
            f"{len(array)} rows, that of y has {len(span)}; they must go together row by row."
        )
    surveys: list[Any] = []
    sample = [array[-span.start % sent.step :: sent.step].copy()] if sent.step else []
    try:
        with parallel_config(n_jobs=1):
            if sent.check is not None:
                survey, usable = sent.check(ArraySource(array), span)
                surveys.append(survey)
                if not usable:
                    return ChunkResult(None, surveys, sample)
            if sent.correct is not None:
                array = sent.correct(array)
            if chosen is not None:
                array = array[chosen.unpacked()]
            if not len(array):
                return ChunkResult(None, surveys, sample)
            function, source = loaded(sent.work, ArraySource(array))
            values = (part.unpacked() if isinstance(part, Part) else part for part in parts)
            return ChunkResult(function(source, *values), surveys, sample)
    except ValueError as error:
        return error


def values_of_chunk(*args: Any) -> NDArray[Any]:
    """Return the columns that a task reads of a chunk, ``(rows, k)``."""
    result = of_chunk(*args)
    if isinstance(result, ValueError):
        raise result
    return np.asarray(result.value).T


def joined(results: Sequence[Any]) -> Any:
    """Return the sum of the results of some chunks, or the first error."""
    total, surveys, sample = None, [], []
    for result in results:
        if isinstance(result, ValueError):
            return result
        surveys += result.surveys
        sample += result.sample
        if result.value is not None:
            total = result.value if total is None else add(total, result.value)
    return ChunkResult(total, surveys, sample)
