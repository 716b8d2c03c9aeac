"""How far a comparison is, as a bar or as lines on stderr."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator
from contextlib import suppress

from skcalib._comparison.decision import Row


def with_progress(runs: Iterable[Row], names: list[str], verbose: int) -> Iterable[Row]:
    """Return the runs, which are shown as they come."""
    if not verbose:
        return runs
    if verbose == 1:
        with suppress(ImportError):
            from tqdm import tqdm  # type: ignore[import-untyped, unused-ignore]

            return tqdm(runs, total=len(names), desc="calibrators")
    return _print_each(runs, names)


def _print_each(runs: Iterable[Row], names: list[str]) -> Iterator[Row]:
    for i, (name, row) in enumerate(zip(names, runs, strict=True), 1):
        what = row.error or f"fitted in {row.fit_seconds:.2f} s"
        print(f"{i}/{len(names)} {name}: {what}", file=sys.stderr, flush=True)  # noqa: T201
        yield row
