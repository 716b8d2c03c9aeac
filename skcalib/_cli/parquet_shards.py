"""Shards of tables: a folder of ``.parquet`` files with the same columns."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from skcalib._cli.saved_predictions import Wanted, read_test_rows, some_of
from skcalib._cli.shards import Block, Shard, Shards, join_pieces
from skcalib._cli.tables import (
    in_order_of_labels,
    labels_of,
    name_table,
    refuse_running_number,
    refuse_text,
)

if TYPE_CHECKING:
    import pandas as pd

# Columns that are decoded at a time, in several times their size.
AT_A_TIME = 16
# The column of weights, where there is one.
WEIGHTS = "weights"
# Names of columns in which pandas writes the index of a frame.
INDEX = "__index_level_"


def import_pyarrow() -> tuple[Any, Any]:
    """Return pyarrow and its module for ``.parquet``, or say how to install it."""
    try:
        import pyarrow  # late: only .parquet needs it
        import pyarrow.parquet
    except ImportError as error:
        raise ValueError("shards of .parquet need pyarrow: pip install pyarrow") from error
    return pyarrow, pyarrow.parquet


class ParquetScores:
    """The scores of a file, ``(n, K)`` or, of one column, ``(n,)``, read by slices.

    They are float32 if all columns are of that type or shorter, else float64.
    """

    def __init__(self, path: Path, columns: list[str], dtype: np.dtype[Any], metadata: Any) -> None:
        self.path, self.columns, self.dtype, self.metadata = path, columns, dtype, metadata
        self.lengths = [metadata.row_group(i).num_rows for i in range(metadata.num_row_groups)]
        self.ends = np.cumsum(self.lengths)
        self.shape = (metadata.num_rows, *((len(columns),) if len(columns) > 1 else ()))
        self.ndim = len(self.shape)

    def __getitem__(self, key: Any) -> NDArray[Any]:
        """Read rows, and perhaps only some columns."""
        rows, *some = key if isinstance(key, tuple) else (key,)
        names = self.columns[some[0]] if some else self.columns
        start, stop, _ = rows.indices(self.shape[0])
        block = np.empty((stop - start, len(names)), dtype=self.dtype)
        for first in range(0, len(names), AT_A_TIME):
            some_names = names[first : first + AT_A_TIME]
            table = self.table(rows, some_names)
            for k, name in enumerate(some_names, first):
                block[:, k] = table.column(name).to_numpy()
        return block[:, 0] if self.ndim == 1 else block

    def table(self, rows: slice, columns: Sequence[str]) -> Any:
        """Return columns of some rows, of which the row groups are read."""
        _, parquet = import_pyarrow()
        start, stop, _ = rows.indices(self.shape[0])
        first, last = np.searchsorted(self.ends, [start, max(start, stop - 1)], side="right")
        groups = list(range(first, last + 1))
        with parquet.ParquetFile(self.path, metadata=self.metadata) as file:
            table = file.read_row_groups(groups, columns=list(columns), use_threads=False)
        return table.slice(start - (self.ends[first - 1] if first else 0), stop - start)


def read_parquet_folder(path: str, wanted: Wanted) -> Shards:
    """Read which columns the files have, and a number for each row."""
    _, parquet = import_pyarrow()
    files = {}
    for name in sorted(Path(path).glob("*.parquet")):
        with parquet.ParquetFile(name) as file:
            if file.metadata.num_rows:
                files[name] = (file.schema_arrow, file.metadata)
    if not files:
        raise ValueError("its .parquet files have no rows")
    schema = next(iter(files.values()))[0]
    there = [name for name in schema.names if not name.startswith(INDEX)]
    for name, (other, _) in files.items():
        missing = [column for column in there if column not in other.names]
        if missing:
            raise ValueError(
                f"{name.name} has no {missing[0]!r}; it contains {some_of(other.names)}"
            )
    own = () if WEIGHTS in wanted.ids or WEIGHTS in (wanted.scores or ()) else (WEIGHTS,)
    named = name_table([name for name in there if name not in own], wanted)
    per_row = [named.labels, named.split, *wanted.one_hot, *(own if WEIGHTS in there else ())]
    frame = _read(list(files), [name for name in per_row if name is not None])
    for file, (other, _) in files.items():
        _check_numbers(other, named.scores, file)
    y = labels_of(frame, named, wanted)
    columns, classes = in_order_of_labels(named, y, wanted)
    shards = []
    dtype = _type_of([other for other, _ in files.values()], columns)
    for file, (_, metadata) in files.items():
        scores = ParquetScores(file, columns, dtype, metadata)
        pieces = join_pieces(scores.lengths, dtype.itemsize * len(columns))
        shards.append(Shard(file.name, scores, pieces))
    if classes is None:
        first = shards[0].scores.table(slice(0, shards[0].pieces[0]), columns)
        refuse_running_number(first.to_pandas(ignore_metadata=True), columns)
    numbers: dict[str, NDArray[Any]] = {} if y is None else {"labels": y}
    if WEIGHTS in frame:
        numbers[WEIGHTS] = frame[WEIGHTS].to_numpy(dtype=np.float64)
    if named.split is not None:
        numbers["split"] = read_test_rows(frame[named.split].to_numpy()).astype(np.uint8)
    return Shards("auto", shards, numbers, classes, columns, list(wanted.ids))


def _read(files: list[Path], columns: list[str]) -> pd.DataFrame:
    """Return some columns of all files."""
    pyarrow, parquet = import_pyarrow()
    parts = []
    for path in files:
        with parquet.ParquetFile(path) as file:
            parts.append(file.read(columns=columns, use_threads=False))
    whole = pyarrow.concat_tables(parts, promote_options="permissive")
    frame: pd.DataFrame = whole.to_pandas(ignore_metadata=True)
    return frame


def _check_numbers(schema: Any, columns: list[str], path: Path) -> None:
    pyarrow, _ = import_pyarrow()
    types = pyarrow.types
    for name in columns:
        kind = schema.field(name).type
        if not (types.is_floating(kind) or types.is_integer(kind) or types.is_boolean(kind)):
            refuse_text(name, str(_read([path], [name])[name].iloc[0]))


def _type_of(schemas: list[Any], columns: list[str]) -> np.dtype[Any]:
    kinds = {str(schema.field(name).type) for schema in schemas for name in columns}
    return np.dtype(np.float32 if kinds <= {"float", "halffloat"} else np.float64)


def write_parquet_folder(
    path: Path, blocks: Iterator[Block], found: Shards, classes: NDArray[Any]
) -> None:
    """Write a file of the same name for each shard: ids, probabilities, numbers for each row."""
    pyarrow, parquet = import_pyarrow()
    path.mkdir()
    beside = {name: found.parts(values) for name, values in found.per_row.items()}
    writer: Any = None
    done = -1
    try:
        for i, rows, P in blocks:
            shard = found.shards[i]
            columns = {}
            if found.ids:
                ids = shard.scores.table(rows, found.ids)
                columns = {name: ids.column(name) for name in found.ids}
            for k, label in enumerate(classes.tolist()):
                columns[f"prob_{label}"] = pyarrow.array(np.ascontiguousarray(P[:, k]))
            for name, parts in beside.items():
                columns[name] = pyarrow.array(parts[i][rows])
            table = pyarrow.table(columns)
            if i != done:
                if writer is not None:
                    writer.close()
                writer, done = parquet.ParquetWriter(path / shard.name, table.schema), i
            writer.write_table(table)
    finally:
        if writer is not None:
            writer.close()
