"""How far a comparison is, as a bar or as lines on stderr."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator
from contextlib import suppress

from skcalib._comparison.decision import Row


def with_progress(runs: Iterable[Row], names: list[str], verbose: int) -> Iterator[Row]:
    """Return the runs, which are shown as they come."""
    if verbose == 1:
        with suppress(ImportError):
            from tqdm import tqdm  # type: ignore[import-untyped, unused-ignore]

            runs, verbose = tqdm(runs, total=len(names), desc="calibrators"), 0
    for i, (name, row) in enumerate(zip(names, runs, strict=True), 1):
        if verbose:
            what = row.error or f"fitted in {row.fit_seconds:.2f} s"
            print(f"{i}/{len(names)} {name}: {what}", file=sys.stderr, flush=True)  # noqa: T201
        yield row
