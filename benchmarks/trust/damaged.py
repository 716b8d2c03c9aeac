"""Stored files with one thing changed: each is rejected, or predicts probabilities."""

from __future__ import annotations

import json
import runpy
import tempfile
import warnings
from collections.abc import Callable, Iterator
from itertools import cycle, islice
from pathlib import Path
from typing import Any

import numpy as np

from skcalib import load_json

STORED = Path(__file__).parents[2] / "tests" / "storage" / "stored"
WRONG = (None, True, -1, 0, 3, 1e308, -1e308, 1e-320, "x", "nan", "inf", [], {}, [[1.0]])
# A damaged table of a histogram may give negative numbers for rows other than those that loading
# tries, so that the sum alone is checked.
SUM_TO_1 = 1e-6


def places(value: Any) -> Iterator[tuple[Any, Any]]:
    """Yield each dict or list within a document, with each key or index of it."""
    for key in value if isinstance(value, dict) else range(len(value)):
        yield value, key
        if isinstance(value[key], dict | list):
            yield from places(value[key])


def damage(text: str, rng: np.random.Generator) -> str:
    """Change a value, leave one out, cut the text, or replace a character."""
    at, way = int(rng.integers(1, len(text) - 1)), rng.integers(5)
    if way == 0:
        return text[:at]
    if way == 1:
        return text[:at] + chr(rng.integers(32, 127)) + text[at + 1 :]
    document = json.loads(text)
    found = list(places(document))
    inner, key = found[int(rng.integers(len(found)))]
    if way == 2:
        del inner[key]
    else:
        inner[key] = WRONG[int(rng.integers(len(WRONG)))]
    return json.dumps(document)


def judge(path: Path, results: Callable[..., dict[str, Any]], before: dict[str, Any]) -> str:
    """Return the outcome of loading a file, or what is wrong with it."""
    try:
        stored = load_json(path)
    except ValueError as error:
        one_line = "\n" not in str(error) and str(path) in str(error)
        return "rejected" if one_line else f"not one line with the name of the file: {error!r}"
    try:
        after = results(stored, np.array(before["scores"], dtype=float))
    except ValueError as error:  # such as scores of other columns
        return "other" if "\n" not in str(error) else repr(error)
    if after == before:
        return "same"
    P = np.array(after.get("probabilities", [[1.0]]), dtype=float)
    return "other" if np.abs(P.sum(axis=1) - 1.0).max() < SUM_TO_1 else f"no probabilities: {P}"


def run(count: int, seed: int) -> Iterator[tuple[str, str]]:
    """Yield the name of a file, and the outcome for a damaged copy of it."""
    rng, results = np.random.default_rng(seed), runpy.run_path(str(STORED / "write.py"))["results"]
    files = [path for path in sorted(STORED.glob("*/*.json")) if ".expected" not in path.name]
    before = []
    for path in files:
        scores = json.loads(path.with_suffix(".expected.json").read_text())["scores"]
        before.append(results(load_json(path), np.array(scores, dtype=float)))
    with tempfile.TemporaryDirectory() as folder, warnings.catch_warnings():
        warnings.simplefilter("ignore")  # such as overflow at a temperature of 1e-320
        copy = Path(folder) / "damaged.json"
        for path, right in islice(cycle(zip(files, before, strict=True)), count):
            copy.write_text(damage(path.read_text(), rng))
            try:
                outcome = judge(copy, results, right)
            except Exception as error:
                outcome = repr(error)
            yield path.stem, outcome
