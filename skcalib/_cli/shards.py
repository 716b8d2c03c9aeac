"""Predictions too large for memory: some of their rows after others."""

from __future__ import annotations

from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from skcalib._cli.saved_predictions import SUFFIXES, ending

# Bytes that are read at a time, if a chunk of the file is not larger.
BLOCK_BYTES = 1 << 24


class Shard(NamedTuple):
    """Scores ``(n, K)`` or ``(n,)`` that are read by slices, `pieces` rows at a time."""

    name: str
    scores: Any
    pieces: tuple[int, ...]


class Shards(NamedTuple):
    """Shards in their order, numbers for each row by name, and the labels of the columns.

    ``columns`` are the names of the columns of tables, and ``ids`` those that identify the rows.
    """

    input: str
    shards: list[Shard]
    per_row: dict[str, NDArray[Any]]
    classes: NDArray[Any] | None
    columns: list[str] | None = None
    ids: list[str] | None = None

    def n_rows(self) -> int:
        """Return the number of rows of all shards."""
        return sum(shard.scores.shape[0] for shard in self.shards)

    def parts(self, values: NDArray[Any]) -> list[NDArray[Any]]:
        """Cut numbers of rows into those of each shard."""
        lengths = [shard.scores.shape[0] for shard in self.shards]
        return np.split(values, np.cumsum(lengths)[:-1])


# The number of a shard, some of its rows, and their probabilities.
Block = tuple[int, slice, NDArray[Any]]


def is_sharded(path: str) -> bool:
    """Whether a name is that of a ``.zarr`` or of a folder."""
    kind = ending(path)
    return kind == ".zarr" or (kind not in SUFFIXES and Path(path).is_dir())


def join_pieces(lengths: list[int], row_bytes: int) -> tuple[int, ...]:
    """Join chunks of rows that follow each other, up to about 16 MiB."""
    pieces: list[int] = []
    for n in lengths:
        if pieces and (pieces[-1] + n) * row_bytes <= BLOCK_BYTES:
            pieces[-1] += n
        elif n:
            pieces.append(n)
    return tuple(pieces)


def as_pieces(n: int, row_bytes: int, chunk: int) -> tuple[int, ...]:
    """Return how many of `n` rows to read at a time: whole chunks of about 16 MiB."""
    step = chunk * max(1, BLOCK_BYTES // max(1, chunk * row_bytes))
    return (*[step] * (n // step), *[n % step] * (n % step > 0))
