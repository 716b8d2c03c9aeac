"""A loss as the sum over blocks of rows, whose features are kept."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial, reduce
from operator import methodcaller
from typing import Any

from skcalib._arrays.blocks import ROW_BLOCK_BYTES
from skcalib._arrays.passes import Work, add, merge_rows
from skcalib._arrays.threads import AT_A_TIME, map_blocks
from skcalib._arrays.types import Float64Array, Intp
from skcalib._scaling.remote import SummedNLL
from skcalib._scores.scores import Scores

# From the logits, codes and weights of a block to an object with methods of `BlockedNLL`.
Kernel = Callable[..., Any]
FEW_COLUMNS = Work(ROW_BLOCK_BYTES, AT_A_TIME)


class BlockedNLL:
    """The weighted sum of the NLL as a function of theta.

    Parameters
    ----------
    scores : Scores of shape (n, K)
    code : ndarray of shape (n,)
    w : ndarray of shape (n,)
        Positive weights.
    kernel : callable
    work : Work
    """

    def __init__(
        self,
        scores: Scores,
        code: Intp,
        w: Float64Array,
        kernel: Kernel,
        work: Work,
    ) -> None:
        logits = scores.float64_logits()
        self._blocks = merge_rows(kernel, logits, code, w, work=work)
        self._at_a_time, device = work.at_a_time, logits.on_device()
        self._run = map_blocks if device is None else device.run

    def value_and_gradient(self, theta: Float64Array) -> tuple[float, Float64Array]:
        """Return the NLL and its gradient."""
        value, gradient = self._sum("value_and_gradient", theta)
        return float(value), gradient

    def hessian(self, theta: Float64Array) -> Any:
        """Return the Hessian."""
        return self._sum("hessian", theta)

    def rough_hessian(self, theta: Float64Array) -> Any:
        """Return the Hessian, without products of some parameters where blocks leave them out."""
        rough = hasattr(self._blocks[0], "rough_hessian")
        return self._sum("rough_hessian" if rough else "hessian", theta)

    def _sum(self, method: str, theta: Float64Array) -> Any:
        ask = methodcaller(method, theta)
        return reduce(add, self._run(ask, self._blocks, self._at_a_time))


def problem_of(
    kernel: Callable[..., Any],
    scores: Scores,
    code: Intp,
    w: Float64Array,
    work: Work = FEW_COLUMNS,
) -> Any:
    """Return the sum of the NLL of blocks; of remote scores, the sum over their chunks."""
    make = partial(BlockedNLL, kernel=kernel, work=work)
    remote = scores.source.remote is not None
    return SummedNLL(make, scores, code, w) if remote else make(scores, code, w)
