"""Predictions too large for memory: a ``.zarr`` group or a folder of ``.npy`` shards."""

from __future__ import annotations

import argparse
import errno
import os
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from skcalib._cli.arrays import read_array
from skcalib._cli.saved_predictions import SUFFIXES, as_text, ending

# What the scores of each name are.
SCORES = {"logits": "logits", "probs": "proba", "scores": "auto"}
PER_ROW = ("labels", "weights")
# Bytes that are read at a time, if a chunk of the file is not larger.
BLOCK_BYTES = 1 << 24
# Options for files that are read whole.
WHOLE_ONLY = ("labels", "one_hot", "split", "scores", "id", "sep", "groups", "fail_above")
NAMES = (
    "logits-000.npy (or probs-, scores-), labels-000.npy, perhaps weights-000.npy, and classes.npy"
)


class Shard(NamedTuple):
    """Scores ``(n, K)`` or ``(n,)`` that are read by slices, and how many rows at a time."""

    name: str
    scores: Any
    step: int


class Shards(NamedTuple):
    """Shards in their order, numbers for each row by name, and the labels of the columns."""

    input: str
    shards: list[Shard]
    per_row: dict[str, NDArray[Any]]
    classes: NDArray[Any] | None

    def n_rows(self) -> int:
        """Return the number of rows of all shards."""
        return sum(shard.scores.shape[0] for shard in self.shards)


def is_sharded(path: str) -> bool:
    """Whether a name is that of a ``.zarr`` or of a folder."""
    kind = ending(path)
    return kind == ".zarr" or (kind not in SUFFIXES and Path(path).is_dir())


def read_shards(args: argparse.Namespace) -> Shards:
    """Read the names and shapes of the scores, and a number for each row.

    Raises
    ------
    ValueError
        If an array is missing or does not fit to the others, or an option is for whole files only.
    OSError
        If a file cannot be read.
    """
    for name in (*WHOLE_ONLY, "renormalize"):
        if getattr(args, name, None):
            option = name.replace("_", "-")
            raise ValueError(f"--{option} is for a single file: save the rows that it needs as one")
    if not Path(args.file).is_dir():
        raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), args.file)
    found = (read_zarr if ending(args.file) == ".zarr" else read_folder)(args.file)
    widths = {shard.scores.shape[1:]: shard.name for shard in reversed(found.shards)}
    for shard in found.shards:
        Z = shard.scores
        if Z.ndim not in (1, 2) or Z.dtype.kind not in "fiub" or 0 in Z.shape[1:]:
            raise ValueError(
                f"{shard.name} must be numbers of shape (n, K) or (n,); it is {Z.dtype} of shape "
                f"{Z.shape}"
            )
        if not Z.shape[0]:
            raise ValueError(f"{shard.name} has no rows: leave it out")
    if len(widths) > 1:
        columns = [f"{name} {_columns(width)}" for width, name in reversed(widths.items())][:2]
        raise ValueError(f"shards need the same columns: {' but '.join(columns)}")
    return found


def _columns(width: tuple[int, ...]) -> str:
    return f"has {width[0]} columns" if width else "has one dimension"


def read_folder(path: str) -> Shards:
    """Read ``logits-*.npy``, or ``probs-`` or ``scores-``, with ``labels-*.npy`` beside them."""
    files: dict[str, dict[str, Path]] = {}
    classes = None
    for file in sorted(Path(path).glob("*.npy")):
        what, dash, part = file.stem.partition("-")
        if file.name == "classes.npy":
            classes = as_text(_open(file)[:])
        elif dash and what in (*SCORES, *PER_ROW):
            files.setdefault(what, {})[part] = file
        else:
            raise ValueError(f"contains {file.name}; the files are {NAMES}")
    kind = _only_scores([what for what in SCORES if what in files])
    shards = []
    for file in files[kind].values():
        Z = _open(file)
        shards.append(Shard(file.name, Z, _step(Z, 1)))
    per_row = {
        what: _beside(what, kind, files[what], files[kind], shards)
        for what in PER_ROW
        if what in files
    }
    return Shards(SCORES[kind], shards, per_row, classes)


def _open(file: Path) -> NDArray[Any]:
    return read_array(
        lambda: np.load(file, mmap_mode="r", allow_pickle=False), file.name, "np.save"
    )


def _only_scores(kinds: list[str]) -> str:
    if not kinds:
        raise ValueError(f"has no scores; the files of a folder are {NAMES}")
    if len(kinds) > 1:
        raise ValueError(f"contains {' and '.join(kinds)}: leave one of them")
    return kinds[0]


def _beside(
    what: str, kind: str, own: dict[str, Path], scores: dict[str, Path], shards: list[Shard]
) -> NDArray[Any]:
    """Return a number for each row of all shards; every shard of scores has one of them."""
    for one, other, names in ((what, kind, scores.keys() - own), (kind, what, own - scores.keys())):
        if names:
            part = min(names)
            raise ValueError(f"has {other}-{part}.npy but no {one}-{part}.npy")
    pieces = []
    for part, shard in zip(scores, shards, strict=True):
        values = as_text(_open(own[part])[:])
        _check_length(own[part].name, values, shard)
        pieces.append(np.asarray(values))
    return np.concatenate(pieces)


def _check_length(name: str, values: NDArray[Any], shard: Shard) -> None:
    if values.shape != shard.scores.shape[:1]:
        raise ValueError(
            f"{name} has shape {values.shape} but {shard.name} has {shard.scores.shape[0]} rows: "
            "one number a row"
        )


def read_zarr(path: str) -> Shards:
    """Read a group with ``logits``, ``probs`` or ``scores``, and numbers for each row."""
    zarr = import_zarr()
    try:
        group = zarr.open_group(path, mode="r")
    except (OSError, ValueError, KeyError) as error:
        raise ValueError(
            "not a zarr group: write one with arrays 'logits' or 'probs', and 'labels'"
        ) from error
    there = sorted(group.array_keys())
    kinds = [what for what in SCORES if what in there]
    if len(kinds) != 1:
        raise ValueError(
            f"needs 'logits', 'probs' or 'scores', one of them; contains {', '.join(there) or '-'}"
        )
    if "split" in there:
        raise ValueError("contains 'split', which is for a single file: save the test rows alone")
    Z = group[kinds[0]]
    shard = Shard(f"'{kinds[0]}'", Z, _step(Z, (Z.shards or Z.chunks)[0]))
    per_row = {what: _plain(group[what]) for what in PER_ROW if what in there}
    for what, values in per_row.items():
        _check_length(f"'{what}'", values, shard)
    classes = _plain(group["classes"]) if "classes" in there else None
    return Shards(SCORES[kinds[0]], [shard], per_row, classes)


def import_zarr() -> Any:
    """Return zarr, or say how to install it."""
    try:
        import zarr  # late: only .zarr needs it
    except ImportError as error:
        raise ValueError('a .zarr needs zarr 3: pip install "zarr>=3"') from error
    return zarr


def _plain(array: Any) -> NDArray[Any]:
    values = as_text(np.asarray(array[:]))
    return values.astype(str) if values.dtype.kind in ("O", "T") else values


def _step(Z: Any, chunk: int) -> int:
    """Return how many rows to read at a time: whole chunks of about 16 MiB."""
    row = Z.dtype.itemsize * int(np.prod(Z.shape[1:]))
    return chunk * max(1, BLOCK_BYTES // max(1, chunk * row))
