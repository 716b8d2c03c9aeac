"""Shards of arrays: a ``.zarr`` group or a folder of ``.npy`` files."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from skcalib._cli.arrays import read_array
from skcalib._cli.saved_predictions import as_text, read_test_rows
from skcalib._cli.shards import Block, Shard, Shards, as_pieces

# What the scores of each name are.
SCORES = {"logits": "logits", "probs": "proba", "scores": "auto"}
PER_ROW = ("labels", "weights", "split")
NAMES = (
    "logits-000.npy (or probs-, scores-), labels-000.npy, perhaps weights-000.npy and "
    "split-000.npy, and classes.npy; or .parquet files"
)


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
        shards.append(Shard(file.name, Z, as_pieces(len(Z), _row_bytes(Z), 1)))
    per_row = {
        what: _beside(what, kind, files[what], files[kind], shards)
        for what in PER_ROW
        if what in files
    }
    return Shards(SCORES[kind], shards, _with_test_rows(per_row), classes)


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
    Z = group[kinds[0]]
    pieces = as_pieces(Z.shape[0], _row_bytes(Z), (Z.shards or Z.chunks)[0])
    shard = Shard(f"'{kinds[0]}'", Z, pieces)
    per_row = {what: _plain(group[what]) for what in PER_ROW if what in there}
    for what, values in per_row.items():
        _check_length(f"'{what}'", values, shard)
    classes = _plain(group["classes"]) if "classes" in there else None
    return Shards(SCORES[kinds[0]], [shard], _with_test_rows(per_row), classes)


def _with_test_rows(per_row: dict[str, NDArray[Any]]) -> dict[str, NDArray[Any]]:
    """Return a split as 0 for calibration and 1 for test."""
    if "split" not in per_row:
        return per_row
    return {**per_row, "split": read_test_rows(per_row["split"]).astype(np.uint8)}


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


def _row_bytes(Z: Any) -> int:
    return int(Z.dtype.itemsize * np.prod(Z.shape[1:], dtype=int))


def write_zarr(path: Path, blocks: Iterator[Block], found: Shards, classes: NDArray[Any]) -> None:
    """Write ``probs``, ``classes`` and the numbers for each row that were read."""
    group = import_zarr().open_group(str(path), mode="w-", zarr_format=2)  # text needs format 2
    starts = np.cumsum([0, *(shard.scores.shape[0] for shard in found.shards)])
    for name, values in (("classes", classes), *found.per_row.items()):
        plain = values.astype(str) if values.dtype.kind == "O" else values
        group.create_array(name, shape=plain.shape, dtype=plain.dtype)[:] = plain
    probs = None
    for i, rows, P in blocks:
        if probs is None:
            chunks = (found.shards[0].pieces[0], P.shape[1])
            shape = (found.n_rows(), P.shape[1])
            probs = group.create_array("probs", shape=shape, chunks=chunks, dtype=P.dtype)
        probs[int(starts[i]) + rows.start : int(starts[i]) + rows.stop] = P


def write_folder(path: Path, blocks: Iterator[Block], found: Shards, classes: NDArray[Any]) -> None:
    """Write ``probs-*.npy`` for each shard, beside the numbers for each row that were read."""
    path.mkdir()
    plain = classes.astype(str) if classes.dtype.kind == "O" else classes
    np.save(path / "classes.npy", plain)
    lengths = [shard.scores.shape[0] for shard in found.shards]
    parts = [Path(shard.name.strip("'")).stem.partition("-")[2] or "000" for shard in found.shards]
    for name, values in found.per_row.items():
        for part, own in zip(parts, found.parts(values), strict=True):
            np.save(path / f"{name}-{part}.npy", own)
    for i, rows, P in blocks:
        file = path / f"probs-{parts[i]}.npy"
        shape = (lengths[i], P.shape[1])
        mode = "r+" if file.exists() else "w+"
        out = np.lib.format.open_memmap(file, mode, P.dtype, shape)
        out[rows] = P
        out.flush()
