"""Dask arrays as sources of scores: computation on chunks, and exchange of whole columns."""

from __future__ import annotations

import copy
import io
import pickle
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from itertools import chain, pairwise
from typing import Any, NamedTuple

import numpy as np
from joblib import parallel_config
from numpy.typing import DTypeLike, NDArray

from skcalib._arrays.rowwise import FloatArray, Intp, Rows
from skcalib._arrays.sources import ALL, ArraySource, PerRow, Remote, Source, add, is_dask

# Whole columns of a Dask array, collected from the chunks of all workers of a Dask cluster.


# Memory that the computation on a column needs, as a multiple of the size of the column.
COPIES = 4


def active_client() -> Any:
    """Return the client of the Dask cluster that computes, or None without a cluster."""
    import dask

    client = getattr(dask.base.get_scheduler(), "__self__", None)
    return client if hasattr(client, "scheduler_info") else None


@contextmanager
def without_size_warning() -> Iterator[None]:
    """Suppress Dask's warning about large task graphs, which contain the labels and weights."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="Sending large graph", category=UserWarning)
        yield


def exchanged(
    client: Any,
    values: Sequence[Any],
    lengths: Sequence[int],
    columns: slice,
    dtype: np.dtype[Any],
    use: Callable[[NDArray[Any], int], list[Any]],
    step: int,
) -> Iterator[Any]:
    """Apply `use` to whole columns on the workers of a Dask cluster; yield the results in order.

    Parameters
    ----------
    client : distributed.Client
    values : sequence of Delayed
        The requested columns of each chunk, arrays ``(rows, K)``.
    lengths : sequence of int
        Number of rows of each chunk.
    columns : slice
        The requested columns.
    dtype : dtype
    use : callable
        ``use(numbers, first)`` returns a list of results for an array ``(step, n)`` of columns, of
        which `first` is the index of the first one. It runs on the workers.
    step : int
        Number of columns in one call of `use`.
    """
    import dask
    import dask.array as da

    check_workers(client, sum(lengths) * dtype.itemsize, sum(lengths))
    width = columns.stop - columns.start
    parts = [
        da.from_delayed(each, (n, width), dtype) for each, n in zip(values, lengths, strict=True)
    ]
    blocks = da.concatenate(parts).rechunk({0: -1, 1: step}).to_delayed()[0]
    work = dask.delayed(use, pure=False, traverse=False)  # as a Dask task, `use` is sent only once
    run = dask.delayed(use_block, pure=False)
    tasks = [run(work, block, columns.start + i * step) for i, block in enumerate(blocks)]
    with without_size_warning():
        for results in dask.compute(*tasks):
            yield from results


def use_block(use: Callable[..., list[Any]], block: NDArray[Any], first: int) -> list[Any]:
    """Apply the function `use` to a block of whole columns that begins with column `first`."""
    with parallel_config(n_jobs=1):
        return use(np.ascontiguousarray(block.T), first)


def check_workers(client: Any, column_bytes: int, n: int) -> None:
    """Refuse columns whose computation needs more memory than the smallest Dask worker has."""
    limits = [worker["memory_limit"] for worker in client.scheduler_info()["workers"].values()]
    least = min((limit for limit in limits if limit), default=np.inf)
    needed = COPIES * column_bytes
    if needed > least:
        raise ValueError(
            f"A Dask worker needs {needed / 1e9:.3g} GB for a whole column of {n:,} rows, but the "
            f"smallest worker has {least / 1e9:.3g} GB: use fewer rows (X[::k]) or larger workers."
        )


# Arguments and results of tasks that compute on the chunks of a Dask array.


class PackedRows(NamedTuple):
    """Compressed array with a number for each row of a chunk; one number if all are equal."""

    values: NDArray[Any]
    n: int
    dtype: np.dtype[Any]

    def unpacked(self) -> NDArray[Any]:
        """Return the uncompressed array, with a number for each row."""
        if self.values.size < self.n:
            return np.full(self.n, self.values[0], dtype=self.dtype)
        return self.values.astype(self.dtype, copy=False)


def pack_rows(values: NDArray[Any]) -> PackedRows:
    """Compress an array with a number for each row, such as weights, for a Dask task."""
    n, dtype = len(values), values.dtype
    if values.ndim == 1 and n > 1:
        if (values == values[0]).all():
            return PackedRows(values[:1].copy(), n, dtype)
        if dtype.kind in "iu" and values.min() >= 0:
            values = values.astype(np.min_scalar_type(values.max()))
    return PackedRows(values, n, dtype)


class ChunkResult(NamedTuple):
    """Result of a function for one Dask chunk, or the sum of the results of several chunks.

    ``value`` is None if no row of the chunk is used, or if its check found rows that are invalid or
    need a correction. ``surveys`` are the surveys of chunks. In the first pass, ``sample`` contains
    evenly spaced rows.
    """

    value: Any
    surveys: list[Any]
    sample: list[FloatArray]


def dumped(thing: Any, remote: Source) -> bytes:
    """Pickle functions and their sources of scores, without the data of the Dask array."""
    import cloudpickle

    def chunk_id(values: Any) -> str | None:
        if isinstance(values, Remote):
            assert values is remote
            return "chunk"
        return None

    file = io.BytesIO()
    pickler = cloudpickle.CloudPickler(file)
    # A method of the pickler is replaced, because a subclass defined in this function would keep
    # the source alive until garbage collection.
    pickler.persistent_id = chunk_id
    pickler.dump(thing)
    return file.getvalue()


def loaded(sent: bytes, chunk: Source) -> Any:
    """Unpickle functions and their sources of scores, with a chunk as the data."""
    unpickler = pickle.Unpickler(io.BytesIO(sent))
    unpickler.persistent_load = lambda _: chunk  # type: ignore[method-assign]
    return unpickler.load()


class ChunkTask(NamedTuple):
    """Arguments that are the same for the tasks on all chunks."""

    work: bytes
    check: Callable[[Source, range], tuple[Any, bool]] | None
    correct: Callable[[FloatArray], FloatArray] | None
    dtype: np.dtype[Any]
    n_columns: int
    step: int


def of_chunk(
    sent: ChunkTask, chunk: Any, span: range, chosen: PackedRows | None, parts: list[Any]
) -> Any:
    """Apply a function to one Dask chunk, and return the `ChunkResult`.

    A `ValueError` is returned instead of raised, so that the error of the first chunk is reported.
    """
    array = np.asarray(chunk, dtype=sent.dtype)
    if array.shape != (len(span), sent.n_columns):
        return ValueError(
            "Found input variables with inconsistent numbers of samples: a chunk of X has "
            f"{len(array)} rows, that of y has {len(span)}; they must have the same rows."
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
            values = (part.unpacked() if isinstance(part, PackedRows) else part for part in parts)
            return ChunkResult(function(source, *values), surveys, sample)
    except ValueError as error:
        return error


def values_of_chunk(*args: Any) -> NDArray[Any]:
    """Return some columns of a Dask chunk as an array, ``(rows, k)``."""
    result = of_chunk(*args)
    if isinstance(result, ValueError):
        raise result
    return np.asarray(result.value).T


def merge_results(results: Sequence[Any]) -> Any:
    """Add the results of several Dask chunks, or return the first error."""
    total, surveys, sample = None, [], []
    for result in results:
        if isinstance(result, ValueError):
            return result
        surveys += result.surveys
        sample += result.sample
        if result.value is not None:
            total = result.value if total is None else add(total, result.value)
    return ChunkResult(total, surveys, sample)


# Computation on the chunks of Dask arrays, which runs on the active Dask scheduler.
#
# A pass sends a function to the worker that has a chunk, where NumPy code processes the rows. The
# function returns a sum, or a few numbers for each row. Dask is imported only for Dask arrays.


# Number of chunks whose results are added by one Dask task.
ADDED = 8
# Number of sampled rows that the first pass over a Dask array stores, and their largest total size
# in bytes.
SAMPLE_ROWS, SAMPLE_BYTES = 4000, 1 << 27
# Largest size in bytes of the columns of a Dask array that are collected at a time.
COLUMNS_BYTES = 1 << 26


def compute_now(*arrays: Any) -> tuple[Any, ...]:
    """Convert Dask arrays with a number for each row to NumPy; return other objects unchanged."""
    if not any(map(is_dask, arrays)):
        return arrays
    import dask

    computed = iter(dask.compute(*filter(is_dask, arrays)))
    return tuple(next(computed) if is_dask(array) else array for array in arrays)


def bring_chunks(y: Any) -> tuple[NDArray[Any], list[int]]:
    """Convert a Dask array with a number for each row to NumPy; return also its chunk lengths."""
    import dask

    parts = dask.compute(*y.to_delayed().ravel())
    return np.concatenate(parts), [len(part) for part in parts]


def mapped(function: Callable[[Any], Any], X: Any, width: tuple[int, ...], dtype: DTypeLike) -> Any:
    """Apply ``function(rows)`` to the chunks of a Dask array lazily; result ``(n, *width)``."""
    whole_rows = X.rechunk({1: -1}) if X.ndim == 2 else X
    added = list(range(X.ndim, 1 + len(width)))

    def of_rows(rows: Any, block_info: Any = None) -> Any:
        if not len(rows):
            return np.empty((0, *width), dtype=dtype)
        with parallel_config(n_jobs=1):
            try:
                return function(np.asarray(rows))
            except ValueError as error:
                first, end = block_info[0]["array-location"][0]
                place = "a chunk" if np.isnan(end) else f"the chunk of rows {first} to {end - 1}"
                raise ValueError(f"In {place}: {error}") from error

    return whole_rows.map_blocks(
        of_rows,
        dtype=dtype,
        chunks=(whole_rows.chunks[0], *((k,) for k in width)),
        new_axis=added or None,
        drop_axis=1 if X.ndim > 1 + len(width) else None,
        meta=np.empty((0,) * (1 + len(width)), dtype=dtype),
    )


# The source of rows that reads a Dask array.


@dataclass
class Checks:
    """Functions that check a Dask array in the first pass over its chunks, and correct its rows."""

    check: Callable[[Source, range], tuple[Any, bool]] | None = None
    settle: Callable[[list[Any]], Any] | None = None
    correct: Callable[[FloatArray], FloatArray] | None = None


class DaskSource(Remote):
    """Source of scores in a Dask array; functions run on the workers that have the chunks.

    Parameters
    ----------
    array : dask.array.Array of shape (n, K)
    lengths : tuple of int or None
        Number of rows of each chunk; if None, unknown numbers are computed.
    dtype : dtype
        Type of the numbers that are read.
    refusal : str
        Error message for code that would need all numbers at once.
    """

    def __init__(
        self, array: Any, lengths: Sequence[int] | None, dtype: DTypeLike, refusal: str
    ) -> None:
        if lengths is None and np.isnan(array.shape[0]):
            array = array.copy().compute_chunk_sizes()
        lengths = array.chunks[0] if lengths is None else lengths
        array = array.rechunk({1: -1})
        chunks = array.to_delayed()[:, 0]
        full = [i for i, n in enumerate(lengths) if n]
        self.chunks = [chunks[i] for i in full]
        self.starts = np.cumsum([0, *(lengths[i] for i in full)])
        self.shape = int(self.starts[-1]), array.shape[1]
        self.dtype = np.dtype(dtype)
        self.refusal = refusal
        self.rows: Intp | None = None
        self.checks = Checks()
        row_bytes = self.shape[1] * self.dtype.itemsize
        self.step = -(-self.shape[0] // max(1, min(SAMPLE_ROWS, SAMPLE_BYTES // row_bytes)))
        self.sampled: list[FloatArray] = []
        self._sent: dict[int, tuple[Any, list[Any]]] = {}

    # Methods that compute a function on every chunk of the Dask array.

    def total(self, function: Callable[..., Any], source: Source, per_row: Any) -> Any:
        """Return the sum of ``function(source, *per_row)`` over all chunks."""
        return merge_results(self._run(function, source, per_row, tree=True)).value

    def each(self, function: Callable[..., Any], source: Source, per_row: Any) -> list[Any]:
        """Return ``function(source, *per_row)`` for each chunk, in order."""
        results = self._run(function, source, per_row, tree=False)
        return [part.value for part in results if part.value is not None]

    def spans(self) -> list[slice]:
        """Return a slice with the row numbers of each chunk that is not empty."""
        ends = self._ends()
        return [slice(*pair) for pair in pairwise(ends) if pair[0] < pair[1]]

    def _ends(self) -> list[int]:
        """Return the index of the first row of each chunk, and the number of rows."""
        ends = self.starts if self.rows is None else np.searchsorted(self.rows, self.starts)
        return [int(end) for end in ends]

    def _run(
        self, function: Callable[..., Any], source: Source, per_row: Any, tree: bool
    ) -> list[ChunkResult]:
        checks = self.checks
        results = self._computed(function, source, per_row, tree)
        if checks.settle is not None:
            surveys = list(chain.from_iterable(part.surveys for part in results))
            checks.correct = checks.settle(surveys).checks.correct
            checks.check = checks.settle = None
            if checks.correct is not None:
                results = self._computed(function, source, per_row, tree)
        return results

    def _computed(
        self, function: Callable[..., Any], source: Source, per_row: Any, tree: bool
    ) -> list[ChunkResult]:
        import dask

        tasks = self._tasks(of_chunk, function, source, per_row)
        if tree:
            join = dask.delayed(merge_results, pure=False)
            while len(tasks) > 1:
                tasks = [join(tasks[i : i + ADDED]) for i in range(0, len(tasks), ADDED)]
        with without_size_warning():
            results = dask.compute(*tasks)
        for part in results:
            if isinstance(part, ValueError):
                raise part
            self.sampled += part.sample  # in place: derived sources share this list
        return list(results)

    def _tasks(
        self, task: Callable[..., Any], function: Callable[..., Any], source: Source, per_row: Any
    ) -> list[Any]:
        import dask

        work = dumped((function, source), self)
        checks, step = self.checks, 0 if self.sampled else self.step
        sent = ChunkTask(work, checks.check, checks.correct, self.dtype, self.shape[1], step)
        sent = dask.delayed(sent, pure=False, traverse=False)  # a Dask task is sent only once
        run = dask.delayed(task, pure=False)
        return [run(sent, *each) for each in self._pieces(per_row)]

    def _pieces(self, per_row: Sequence[PerRow]) -> Iterator[tuple[Any, ...]]:
        ends = self._ends()
        chosen = [None] * len(self.chunks) if self.rows is None else self._parts(self.rows, True)
        per_chunk = [self._parts(values) for values in per_row]
        for i, chunk in enumerate(self.chunks):
            span = range(int(self.starts[i]), int(self.starts[i + 1]))
            if ends[i] < ends[i + 1] or self.checks.check is not None:
                yield chunk, span, chosen[i], [parts[i] for parts in per_chunk]

    def _parts(self, values: Any, places: bool = False) -> list[Any]:
        """Split an array with a number for each row into a part for each Dask chunk."""
        ends = self._ends()
        cuts = [slice(*pair) for pair in pairwise(ends)]
        if not isinstance(values, np.ndarray):
            return [values and values[rows] for rows in cuts]
        known, parts = self._sent.get(id(values), (None, []))
        if known is values:
            return parts
        parts = [
            pack_rows(values[rows] - start if places else values[rows])
            for start, rows in zip(self.starts, cuts, strict=False)
        ]
        if active_client() is not None:
            import dask

            leaves = [dask.delayed(part, pure=False, traverse=False) for part in parts]
            with without_size_warning():
                parts = list(dask.persist(*leaves))
        self._sent[id(values)] = values, parts
        return parts

    # Methods that collect whole columns from the chunks of the Dask array.

    def by_columns(
        self,
        read: Callable[..., Any],
        use: Callable[[Any, int], list[Any]],
        source: Source,
        columns: slice,
        dtype: np.dtype[Any],
    ) -> Iterator[Any]:
        """Apply `use` to blocks of whole columns of the Dask array, and yield the results in order.

        ``read(source, columns)`` returns the numbers of a chunk, ``(k, rows)`` of type `dtype`.
        On a cluster, workers exchange the columns once and compute the results. Otherwise, each
        pass collects some columns in this process, so that few are in memory.
        """
        step = max(1, COLUMNS_BYTES // (dtype.itemsize * self.shape[0]))
        if (client := active_client()) is not None:
            if self.checks.check is not None:
                self.each(lambda _: None, self, ())  # this pass only runs the checks of each chunk
            values = partial(read, columns=columns)
            lengths = [rows.stop - rows.start for rows in self.spans()]
            tasks = self._tasks(values_of_chunk, values, source, ())
            yield from exchanged(client, tasks, lengths, columns, dtype, use, step)
            return
        for start in range(columns.start, columns.stop, step):
            some = slice(start, min(start + step, columns.stop))
            parts = self.each(partial(read, columns=some), source, ())
            numbers = np.empty((len(parts[0]), self.spans()[-1].stop), dtype=parts[0].dtype)
            for rows in self.spans():
                numbers[:, rows] = parts.pop(0)  # `pop` frees the memory of each part
            yield from use(numbers, start)
            del numbers  # free memory before the next columns are read

    # Methods that read rows from the chunks of the Dask array.

    def read(self, rows: Rows, columns: slice = ALL) -> FloatArray:
        """Read a few rows of the Dask array, or a single column of all rows."""
        if isinstance(rows, slice) and rows == ALL:
            if len(range(self.shape[1])[columns]) > 1:
                raise TypeError(self.refusal)
            # The column is copied, because a view would keep the whole chunk in memory.
            return np.concatenate(
                self.each(lambda chunk: chunk.read(ALL, columns).copy(), self, ())
            )
        import dask

        wanted = np.arange(self.shape[0])[rows] if self.rows is None else self.rows[rows]
        chunk = np.searchsorted(self.starts, wanted, side="right") - 1
        pick = dask.delayed(lambda chunk, rows: np.asarray(chunk)[rows], pure=False)
        tasks = [
            pick(self.chunks[i], wanted[chunk == i] - self.starts[i]) for i in np.unique(chunk)
        ]
        numbers = np.concatenate(dask.compute(*tasks)) if tasks else np.empty((0, self.shape[1]))
        block = np.empty((wanted.size, self.shape[1]), dtype=self.dtype)
        block[np.argsort(chunk, kind="stable")] = numbers
        correct = self.checks.correct
        return (block if correct is None else correct(block))[:, columns]

    def sample(self, source: Source) -> tuple[Source, Intp]:
        """Sample evenly spaced rows; return the sample and the row numbers.

        The rows were stored in the first pass.
        """
        places = np.arange(0, int(self.starts[-1]), self.step)
        sample = np.concatenate(self.sampled)
        if self.rows is not None:
            _, places, rows = np.intersect1d(self.rows, places, True, return_indices=True)
            sample = sample[rows]
        if self.checks.correct is not None:
            sample = self.checks.correct(sample)
        return loaded(dumped(source, self), ArraySource(sample)), places

    def run(self, task: Callable[[slice], Any], blocks: Any, _: int = 1) -> Iterator[Any]:
        """Yield ``task(rows)`` for each block of rows, one after the other."""
        return map(task, blocks)

    def take(self, rows: Intp) -> DaskSource:
        """Select rows by their row numbers, which must be in ascending order."""
        if (np.diff(rows) <= 0).any():
            raise TypeError(self.refusal)
        few = copy.copy(self)
        few.rows = rows if self.rows is None else self.rows[rows]
        few.shape = rows.size, self.shape[1]
        few._sent = {}
        return few

    def corrected(self, correct: Callable[[FloatArray], FloatArray]) -> DaskSource:
        """Return a source that applies the function `correct` to rows when they are read."""
        other = copy.copy(self)
        other.checks = Checks(correct=correct)
        return other

    def checked(
        self,
        check: Callable[[Source, range], tuple[Any, bool]],
        settle: Callable[[list[Any]], Source],
    ) -> DaskSource:
        """Return a source whose first pass over the chunks also runs checks.

        ``check(source, rows)`` returns the survey of a chunk, and whether the pass may use its
        rows. ``settle(surveys)`` raises an error, or returns a source with the necessary
        correction of the rows. If there is a correction, the pass is run again.
        """
        other = copy.copy(self)
        other.checks = Checks(check, settle)
        return other
