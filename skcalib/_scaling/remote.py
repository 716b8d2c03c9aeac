"""Losses on remote scores: sums over chunks of what a NumPy problem of each chunk returns.

An optimiser only asks a problem for its value and derivatives, so it does not see where the scores
lie.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

from skcalib._arrays.passes import total
from skcalib._arrays.source import Source
from skcalib._arrays.types import Float64Array, Intp
from skcalib._scores.scores import Scores

# From the scores of a chunk, its codes and its weights to a problem with methods that return sums.
Make = Callable[[Scores, Intp, Float64Array], Any]


def ask(
    _: Source, code: Intp, w: Float64Array, scores: Scores, make: Make, method: str, args: Any
) -> Any:
    """Return what a method of the problem of a chunk returns."""
    return getattr(make(scores, code, w), method)(*args)


class SummedNLL:
    """A weighted sum of losses of remote scores; each method of a chunk is a pass."""

    def __init__(self, make: Make, scores: Scores, code: Intp, w: Float64Array) -> None:
        self._make, self._rows = make, (scores, code, w)

    def __getattr__(self, method: str) -> Any:
        """Return the method that adds what `method` returns for each chunk."""
        return partial(self._sum, method)

    def _sum(self, method: str, *args: Any) -> Any:
        scores, code, w = self._rows
        kernel = partial(ask, scores=scores, make=self._make, method=method, args=args)
        return total(kernel, scores.source, code, w)


def problem_of(make: Make, scores: Scores, code: Intp, w: Float64Array) -> Any:
    """Return a problem of scores; of remote ones, the sums over their chunks."""
    remote = scores.source.remote is not None
    return SummedNLL(make, scores, code, w) if remote else make(scores, code, w)
