"""How an answer is measured, and rows that are never computed twice."""

from __future__ import annotations

import csv
import gzip
import io
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from benchmarks._shared.model_scores import (
    CACHE,
    MODELS,
    SMALLEST,
    Float64Array,
    Given,
    Scores,
    cached,
    from_file,
    known_sets,
)
from benchmarks._shared.timing import OutOfTimeError, at_most, quiet
from benchmarks.arena.entrants import Entrant
from skcalib import metrics

Row = dict[str, Any]

MEASURES = ("log_loss", "brier", "ece", "sce", "ks", "accuracy")
KEY = ("data", "model", "seed", "n_cal", "library", "calibrator")
COLUMNS = (*KEY, "family", "classes", "n_test", *MEASURES, "fit_s", "predict_s", "note")


def measures(P: Float64Array, y: NDArray[np.intp]) -> dict[str, float]:
    """Return all measures of the probabilities of rows."""
    n, n_classes = P.shape
    hit = P[np.arange(n), y]
    labels = np.arange(n_classes)
    return {
        "log_loss": float(-np.log(np.maximum(hit, SMALLEST)).mean()),
        "brier": float((P * P).sum(axis=1).mean() - 2 * hit.mean() + 1),
        "ece": metrics.expected_calibration_error(y, P, labels=labels),
        "sce": float(metrics.static_calibration_error(y, P, labels=labels)),
        "ks": float(metrics.ks_calibration_error(y, P, labels=labels)),
        "accuracy": float((P.argmax(axis=1) == y).mean()),
    }


def checked(P: Any, shape: tuple[int, ...]) -> Float64Array:
    """Return an answer whose rows sum to 1, or say why it is none."""
    P = np.asarray(P, dtype=np.float64)
    if P.shape != shape:
        raise ValueError(f"the answer has shape {P.shape}, not {shape}")
    if not np.isfinite(P).all() or P.min() < -1e-6 or P.sum(axis=1).min() <= 0:
        raise ValueError("the answer is no probabilities")
    P = np.maximum(P, 0)
    return P / P.sum(axis=1, keepdims=True)


def enter(entrant: Entrant, scores: Scores, n_cal: int, limit: float) -> Row:
    """Fit, predict and measure; a failure is told in the note."""
    kind, n_classes = scores.kind, scores.test.shape[1]
    seconds: Row = {}
    try:
        with quiet(), np.errstate(all="ignore"), at_most(limit, "PROF"):
            start = time.perf_counter()
            pool = Given(scores.pool[:n_cal], kind)
            predict = entrant.fit(pool, scores.pool_labels[:n_cal], n_classes)
            fitted = time.perf_counter()
            P = predict(Given(scores.test, kind))
            seconds = {"fit_s": fitted - start, "predict_s": time.perf_counter() - fitted}
            found = measures(checked(P, scores.test.shape), scores.test_labels)
    except OutOfTimeError:
        return {"note": f"given up after {limit:g} s"}
    except Exception as error:  # an entrant may fail in any way, and the others still run
        words = f"{type(error).__name__}: {error}".splitlines()[0][:120]
        return {"note": words}
    return {name: f"{value:.6g}" for name, value in (found | seconds).items()}


class Store:
    """Rows in a gzipped CSV; those of an earlier run are kept and not run again.

    Rows that are added stand in a text beside it, which `pack` joins to it and removes. A run that
    is killed leaves the text, and the next one goes on from there.
    """

    def __init__(self, path: Path) -> None:
        self.path, self.text = path, path.with_suffix("")
        path.parent.mkdir(parents=True, exist_ok=True)
        self.pack()
        self.known = {key_of(row) for row in self.rows()}

    def rows(self) -> list[Row]:
        """Return all rows that are written to their end, each once."""
        lines: list[str] = []
        for path, opened in ((self.path, gzip.open), (self.text, open)):
            if path.exists():
                with opened(path, "rt", newline="") as file:
                    lines += [line for line in file if line.endswith("\n")]
        rows = csv.DictReader(lines[self.path.exists() :], COLUMNS)
        return list({key_of(row): row for row in rows}.values())

    def has(self, row: Row) -> bool:
        """Say whether the row of a key is there."""
        return key_of(row) in self.known

    def add(self, rows: list[Row]) -> None:
        """Write rows at the end of the text."""
        with self.text.open("a", newline="") as file:
            csv.DictWriter(file, COLUMNS, restval="", lineterminator="\n").writerows(rows)
        self.known |= {key_of(row) for row in rows}

    def pack(self) -> None:
        """Join the text to the compressed rows, whole or not at all; the same rows, same bytes."""
        if self.path.exists() and not self.text.exists():
            return
        rows, partial = self.rows(), self.path.with_suffix(".partial")
        with (
            partial.open("wb") as raw,
            gzip.GzipFile("", "wb", 9, raw, mtime=0) as packed,
            io.TextIOWrapper(packed, newline="") as file,
        ):
            writer = csv.DictWriter(file, COLUMNS, lineterminator="\n")
            writer.writeheader()
            writer.writerows(rows)
        partial.replace(self.path)
        self.text.unlink(missing_ok=True)


def key_of(row: Row) -> tuple[str, ...]:
    """Return what tells a row from the others."""
    return tuple(str(row[name]) for name in KEY)


class Experiment(NamedTuple):
    """Scores of a model, which `load` returns."""

    data: str
    model: str
    seed: int
    load: Callable[[], Scores]


def experiments(
    seeds: int, names: Sequence[str] | None, files: Sequence[Path]
) -> Iterator[Experiment]:
    """Yield every model of every set, seed after seed."""
    for seed in range(seeds):
        for name in known_sets():
            if names is None or name in names:
                for model in MODELS:
                    load = partial(cached, CACHE, name, model, seed)
                    yield Experiment(name, model, seed, load)
        for path in files:
            if names is None or path.stem in names:
                yield Experiment(path.stem, "file", seed, partial(from_file, path, seed))


def run(
    experiments: Iterable[Experiment],
    sizes: Iterable[int],
    entrants: list[Entrant],
    store: Store,
    limit: float,
) -> Iterator[str]:
    """Run what is not stored; yield a line for each experiment and size.

    Who was given up on a set is not tried again there on more rows.
    """
    sizes = sorted(sizes)
    for data, model, seed, load in experiments:
        where = f"{data} {model} seed {seed}"
        try:
            with quiet():
                scores = load()
        except Exception as error:  # a set that cannot be had does not end the others
            yield f"{where}: {type(error).__name__}: {error}"
            continue
        slow: set[Entrant] = set()
        for n_cal in sizes:
            if n_cal > len(scores.pool_labels):
                continue
            start, rows = time.perf_counter(), []
            for entrant in entrants:
                key = (data, model, seed, n_cal, entrant.library, entrant.name)
                row: Row = dict(zip(KEY, key, strict=True)) | {"family": scores.family}
                row |= {"classes": scores.test.shape[1], "n_test": len(scores.test_labels)}
                if store.has(row):
                    continue
                if entrant in slow:
                    row["note"] = "given up on fewer rows"
                else:
                    row |= enter(entrant, scores, n_cal, limit)
                    if row.get("note", "").startswith("given up"):
                        slow.add(entrant)
                rows.append(row)
            store.add(rows)
            yield f"{where} n {n_cal}: {len(rows)} rows, {time.perf_counter() - start:.1f} s"
