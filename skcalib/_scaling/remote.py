"""Losses on remote scores: sums over chunks of what a NumPy problem of each chunk returns.

An optimiser only asks a problem for its value and derivatives, so it does not see where the scores
lie.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

from numpy.typing import NDArray

from skcalib._arrays.passes import total
from skcalib._arrays.source import Source
from skcalib._arrays.types import Float64Array, Intp
from skcalib._scaling.affine_nll import AffineNLL, Pattern
from skcalib._scaling.scale_losses import ScaleProblem, ShiftedLogits
from skcalib._scores.scores import Scores

Array = NDArray[Any]
# From the scores of a chunk, its codes and its weights to a problem with methods that return sums.
Make = Callable[[Scores, Intp, Float64Array], Any]


@dataclass(frozen=True)
class ChunkSums:
    """Sums over chunks of what methods of the problem of a chunk return; each is a pass."""

    make: Make
    scores: Scores
    code: Intp
    w: Float64Array

    def of(self, method: str, *args: Any) -> Any:
        """Return the sum of ``make(scores, code, w).method(*args)``."""
        kernel = partial(ask, scores=self.scores, make=self.make, method=method, args=args)
        return total(kernel, self.scores.source, self.code, self.w)


def ask(
    _: Source, code: Intp, w: Float64Array, scores: Scores, make: Make, method: str, args: Any
) -> Any:
    """Return what a method of the problem of a chunk returns."""
    return getattr(make(scores, code, w), method)(*args)


class SummedNLL:
    """A weighted sum of losses of remote scores; each method is a pass."""

    def __init__(self, make: Make, scores: Scores, code: Intp, w: Float64Array) -> None:
        self._sums = ChunkSums(make, scores, code, w)

    def value_and_gradient(self, theta: Array) -> tuple[float, Array]:
        """Return the sum of the losses and its gradient."""
        value, gradient = self._sums.of("value_and_gradient", theta)
        return value, gradient

    def hessian(self, theta: Array) -> Any:
        """Return the Hessian."""
        return self._sums.of("hessian", theta)

    def rough_hessian(self, theta: Array) -> Any:
        """Return an approximation of the Hessian."""
        return self._sums.of("rough_hessian", theta)


class SummedScale(ScaleProblem):
    """`ShiftedLogits` of remote scores."""

    def __init__(self, scores: Scores, code: Intp, w: Float64Array) -> None:
        # With the weight of all rows, the means of the chunks sum to that of all rows.
        make = partial(ShiftedLogits, weight=float(w.sum()))
        self._sums = ChunkSums(make, scores, code, w)
        self.n_classes = scores.shape[1]
        self.mean_true_gap, self.mean_gap = self._sums.of("gaps")

    def subsample(self, n_rows: int) -> Any:  # noqa: ARG002
        """Return rows that were kept from an earlier pass."""
        sums = self._sums
        few, rows = sums.scores.sample()
        return ShiftedLogits(few, sums.code[rows], sums.w[rows])

    def nll(self, beta: float) -> Any:
        """Return the NLL and its derivatives in `beta`; a pass."""
        return self._sums.of("nll", beta)

    def brier(self, beta: float) -> Any:
        """Return the Brier score and its derivatives in `beta`; a pass."""
        return self._sums.of("brier", beta)

    def brier_value(self, beta: float) -> Any:
        """Return the Brier score; a pass."""
        return self._sums.of("brier_value", beta)


def scale_problem(scores: Scores, code: Intp, w: Float64Array) -> ScaleProblem:
    """Return the losses of softmax(beta z), wherever the scores are."""
    remote = scores.source.remote is not None
    return SummedScale(scores, code, w) if remote else ShiftedLogits(scores, code, w)


class SummedAffine:
    """`AffineNLL` of remote scores; each method is a pass."""

    def __init__(
        self, scores: Scores, code: Intp, w: Float64Array, pattern: Pattern, unit: float = 1.0
    ) -> None:
        self.unit, self.pattern = unit, pattern
        self.n_rows, self.n_classes = scores.shape
        self.threaded = self.n_classes <= pattern.most_threaded
        # With the weight of all rows, the means of the chunks sum to that of all rows.
        make = partial(AffineNLL, pattern=pattern, unit=unit, weight=float(w.sum()))
        self._sums = ChunkSums(make, scores, code, w)

    def value_and_gradient(self, theta: Array) -> Any:
        """Return the mean NLL and its gradient, in the shape of `theta`."""
        return self._sums.of("value_and_gradient", theta)

    def hessian(self, theta: Array, every: int = 1) -> Any:
        """Return the Hessian at `theta`, ``(p, p)``, estimated from one row in `every`."""
        return self._sums.of("hessian", theta, every)

    def hessian_by_class(self, theta: Array) -> Any:
        """Return the blocks of the Hessian at `theta` in W_kk and b_k, ``(K, 2, 2)``."""
        return self._sums.of("hessian_by_class", theta)

    def factors(self, theta: Array) -> Any:
        """Return two factors of an approximate Hessian of a full W."""
        return self._sums.of("factors", theta)

    def exceptions(self, theta: Array) -> Any:
        """Return the number of blocks in which some row's true class has not the largest logit."""
        return self._sums.of("exceptions", theta)
