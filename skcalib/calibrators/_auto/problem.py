"""A loss as the sum over blocks of rows, whose features are kept."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial, reduce
from operator import methodcaller
from typing import Any

from skcalib._arrays.passes import ROWS, Work, add, merge_rows
from skcalib._arrays.types import Float64Array, Intp
from skcalib._scaling import remote
from skcalib._scores.scores import Scores

# From the logits, codes and weights of a block to an object with `value_and_gradient`, `hessian`
# and, unless it is the same, `rough_hessian` of theta.
Kernel = Callable[..., Any]


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
        self, scores: Scores, code: Intp, w: Float64Array, kernel: Kernel, work: Work
    ) -> None:
        logits = scores.float64_logits()
        self._blocks = merge_rows(kernel, logits, code, w, work=work)
        self._run, self._at_a_time = logits.run, work.at_a_time

    def __getattr__(self, method: str) -> Any:
        """Return the method that adds what `method` returns for each block."""
        return partial(self._sum, method)

    def _sum(self, method: str, theta: Float64Array) -> Any:
        if method == "rough_hessian" and not hasattr(self._blocks[0], method):
            method = "hessian"
        return reduce(add, self._run(methodcaller(method, theta), self._blocks, self._at_a_time))


def problem_of(
    kernel: Kernel, scores: Scores, code: Intp, w: Float64Array, work: Work = ROWS
) -> Any:
    """Return the sum of the NLL of blocks; of remote scores, the sum over their chunks."""
    return remote.problem_of(partial(BlockedNLL, kernel=kernel, work=work), scores, code, w)
