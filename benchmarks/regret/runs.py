"""Runs: all calibrators on some rows of a real model's scores, and measured on other rows."""

from __future__ import annotations

import zlib
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from benchmarks._shared.model_scores import MODELS, Scores, cached, from_file, known_sets
from benchmarks._shared.timing import quiet
from skcalib._comparison.choice import HeldOut, held_out
from skcalib._comparison.held_out import fit_calibrator, open_rows, predict_held_out
from skcalib._comparison.row_losses import row_log_loss
from skcalib.calibrators._names import calibrators_by_name

Array = NDArray[np.float64]

# Rows to measure on.
FEWEST_TEST_ROWS, MOST_TEST_ROWS = 500, 4_000
# With more classes than these only so many rows are calibrated on, so that a run takes seconds.
MANY_CLASSES, MOST_ROWS_OF_MANY = 30, 300


class Source(NamedTuple):
    """Scores of one model on one set; `load` is called when they are needed."""

    family: str
    name: str
    load: Callable[[], Scores]


class Run(NamedTuple):
    """What the calibrators did on one draw of n rows.

    ``names (C,)``, the identity among them; ``held_out (C, n)`` log losses of rows that were not
    fitted on, ``pseudo_error (C,)``; ``test (C, m)`` log losses of m other rows, where the
    calibrator was fitted on all n rows.
    """

    family: str
    n: int
    names: list[str]
    held_out: Array
    pseudo_error: Array
    test: Array

    def losses(self) -> dict[str, float]:
        """Return the mean loss of each calibrator on the test rows."""
        return dict(zip(self.names, self.test.mean(axis=1).tolist(), strict=True))

    def found(self) -> dict[str, HeldOut]:
        """Return what a choice is made by."""
        rows = zip(self.names, self.held_out, self.pseudo_error.tolist(), strict=True)
        return {name: HeldOut(losses, pseudo) for name, losses, pseudo in rows}


def sources(
    files: Sequence[Path], names: Sequence[str] | None, models: Sequence[str], scores: Path
) -> list[Source]:
    """Return the installed sets with each model, and the files."""
    sets = [name for name in known_sets() if names is None or name in names]
    return [
        Source(name, f"{name}-{model}", partial(cached, scores, name, model, 0))
        for name in sets
        for model in models
        if model in MODELS
    ] + [Source(path.stem.split("_")[0], path.stem, partial(from_file, path, 0)) for path in files]


def run_all(
    listed: Sequence[Source], sizes: Sequence[int], draws: int, folder: Path
) -> Iterator[Run | str]:
    """Yield every run, from the folder where it is there, and a line for what cannot be had."""
    for source in listed:
        try:
            with quiet():
                scores = source.load()
        except Exception as error:  # a set that cannot be had does not end the others
            yield f"{source.name}: {type(error).__name__}: {error}"
            continue
        rows, n_classes = len(scores.pool) + len(scores.test), scores.pool.shape[1]
        for n in sizes:
            if n_classes > MANY_CLASSES and n > MOST_ROWS_OF_MANY:
                continue
            for draw in range(draws if rows >= n + FEWEST_TEST_ROWS else 0):
                path = folder / f"{source.name}-{n}-{draw}.npz"
                if not path.exists():
                    seed = [zlib.crc32(source.name.encode()), n, draw]
                    store(path, run(source.family, scores, n, np.random.default_rng(seed)))
                yield stored(path)


def run(family: str, scores: Scores, n: int, rng: np.random.Generator) -> Run:
    """Fit every calibrator to n rows drawn at random: in five folds, and to all of them."""
    S = np.concatenate([scores.pool, scores.test])
    y = np.concatenate([scores.pool_labels, scores.test_labels])
    order = rng.permutation(len(y))
    fit, test = order[:n], order[n : n + MOST_TEST_ROWS]
    data = open_rows(
        S[fit], y[fit], None, cv=5, test=None, input=scores.kind, classes=np.arange(S.shape[1])
    )
    found: dict[str, tuple[HeldOut, Array]] = {}
    with quiet(), np.errstate(all="ignore"):
        for name, calibrator in default_calibrators().items():
            held = held_out(predict_held_out(calibrator, data).pooled())
            P = fit_calibrator(calibrator, data).predict_proba(S[test])
            found[name] = held, row_log_loss(P, y[test])
    return Run(
        family,
        n,
        list(found),
        np.array([held.losses for held, _ in found.values()], dtype=np.float32),
        np.array([held.pseudo_error for held, _ in found.values()]),
        np.array([losses for _, losses in found.values()], dtype=np.float32),
    )


def default_calibrators() -> dict[str, Any]:
    """Return the identity and what `compare_calibrators` tries with up to 100 classes."""
    return calibrators_by_name()


def store(path: Path, made: Run) -> None:
    """Write a run, whole or not at all."""
    path.parent.mkdir(parents=True, exist_ok=True)
    partial_path = path.with_suffix(".partial.npz")
    np.savez(partial_path, **made._asdict())
    partial_path.replace(path)


def stored(path: Path) -> Run:
    """Read a run."""
    with np.load(path) as found:
        return Run(
            str(found["family"]),
            int(found["n"]),
            found["names"].tolist(),
            found["held_out"],
            found["pseudo_error"],
            found["test"],
        )
