"""A loss as a sum over blocks of rows.

The features of a block are stored; those of a Dask array are computed again in each pass.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial, reduce
from typing import Any

from skcalib._arrays.passes import ROWS, Work, add, merge_rows, sum_rows
from skcalib._arrays.types import Float64Array, Intp
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
        self, scores: Scores, code: Intp, w: Float64Array, kernel: Kernel, work: Work = ROWS
    ) -> None:
        self._rows = scores.float64_logits(), code, w
        self._kernel, self._work = kernel, work
        remote = scores.source.remote is not None
        self._blocks = None if remote else merge_rows(kernel, *self._rows, work=work)

    def __getattr__(self, method: str) -> Any:
        """Return the method that adds what `method` returns for each block."""
        return partial(self._sum, method)

    def _sum(self, method: str, theta: Float64Array) -> Any:
        of_features = partial(call, method=method, theta=theta)
        if self._blocks is None:
            kernel = partial(of_block, kernel=self._kernel, of_features=of_features)
            return sum_rows(kernel, *self._rows, work=self._work)
        return reduce(add, self._rows[0].run(of_features, self._blocks, self._work.at_a_time))


def of_block(Z: Float64Array, *per_row: Any, kernel: Kernel, of_features: Kernel) -> Any:
    """Compute the features of a block of logits; return what `of_features` computes of them."""
    return of_features(kernel(Z, *per_row))


def call(features: Any, method: str, theta: Float64Array) -> Any:
    """Return what a method of features returns; if they have no rough Hessian, the whole one."""
    return getattr(features, method, features.hessian)(theta)
