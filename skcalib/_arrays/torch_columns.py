"""Sorted columns of a tensor, and sums over sorted rows for class-wise errors and calibrators.

Scores stay on the device. Only sums over bins, and over rows between two positives, are copied to
the host.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from skcalib._arrays.rowwise import row_blocks
from skcalib._arrays.torch_rows import places, work_type

Tensor = Any
Array = Any


class SortedColumns:
    """Sorted scores of c classes, with the outcomes and weights of the rows in the same order.

    Parameters
    ----------
    source : DeviceBlocks of shape (n, K)
    columns : slice
        The classes.
    code : tensor of shape (n,)
    w : tensor of shape (n,) or None
        Weights; None when all are 1.
    """

    def __init__(self, source: Any, columns: slice, code: Tensor, w: Tensor | None) -> None:
        self.source = source
        k = torch.arange(columns.start, columns.stop, device=code.device)[:, None]
        like, (n, n_columns) = source.tensor, source.shape
        block = like.new_empty((len(k), n), dtype=work_type(like))
        for rows in row_blocks(n, n_columns, source.block_bytes):
            block[:, rows] = source.read(rows, columns).T
        self.values, order = block.sort(1)
        self.hit = code[order] == k
        self.weights = None if w is None else w[order]

    def _weighted(self, x: Tensor) -> Tensor:
        """Multiply numbers ``x`` by the weights ``w``, as a new float64 tensor."""
        return x.to(torch.float64, copy=True) if self.weights is None else self.weights * x

    def _running(self, x: Tensor) -> Tensor:
        """Return cumulative weighted sums of the rows of each class, starting from 0."""
        return torch.nn.functional.pad(self._weighted(x).cumsum_(1), (1, 0))

    def largest_gaps(self, total: float) -> Array:
        """Return the KS error of each class: the largest gap of cumulative scores and outcomes.

        Distances are measured after the last row of equal scores, and divided by the total weight.
        """
        gap = self._weighted(self.values).sub_(self._weighted(self.hit)).cumsum_(1)
        gap[:, :-1].masked_fill_(self.values[:, 1:] == self.values[:, :-1], 0)
        return self.source.to_host(gap.abs_().amax(1)) / total

    def quantile_sums(
        self, cuts_of: Callable[[Array], Array], slack: float, threshold: float | None
    ) -> Array:
        """Return, for each class, the edges of quantile bins and the sums of the rows in each bin.

        Edges have shape ``(c, B - 1)``; the number of rows, and the sums of weights, scores and
        outcomes have shape ``(c, B)``. Only scores above the threshold count.
        ``cuts_of(weights)`` returns the weight below each edge, given the total weight ``(c,)`` of
        each class. An edge is the first score of its bin.
        """
        values, (c, n) = self.values, self.values.shape
        start = torch.zeros((c, 1), dtype=torch.int64, device=values.device)
        if threshold is not None:
            start = torch.searchsorted(values, values.new_full((c, 1), threshold), right=True)
        running = self._running(torch.ones_like(values))
        below = running.gather(1, start)
        weight = running[:, -1:] - below
        cuts = self.source.to_device(cuts_of(self.source.to_host(weight[:, 0])))
        position = below + cuts + slack * weight
        at = torch.searchsorted(running[:, 1:].contiguous(), position, right=True).clamp_(max=n - 1)
        edges = values.gather(1, at)
        first = torch.searchsorted(values, edges).maximum(start)
        bounds = torch.cat([start, first, torch.full_like(start, n)], 1)
        sums = running, self._running(values), self._running(self.hit)
        of_bins = [total.gather(1, bounds).diff(dim=1) for total in sums]
        return self.source.to_host((edges, bounds.diff(dim=1), *of_bins))

    def observations(self) -> tuple[Array, Array, Array]:
        """Merge sorted rows for isotonic regression; return first rows, weights and event weights.

        Equal scores with a positive row are one observation, and so are neighbouring scores without
        a positive row. Row numbers count through all columns, one after the other.
        """
        values, n = self.values, self.values.shape[1]
        begins = torch.ones_like(self.hit)
        torch.ne(values[:, 1:], values[:, :-1], out=begins[:, 1:])
        # Each distinct score has a number, from 1 on. Rows without the event write to entry 0 of
        # `has_hit`, which is not used.
        score = begins.reshape(-1).cumsum(0)
        has_hit = score.new_zeros(values.numel() + 1, dtype=torch.bool)
        has_hit.scatter_(0, score * self.hit.reshape(-1), True)
        with_hit = has_hit[score].reshape(values.shape)
        begins[:, 1:] &= with_hit[:, 1:] | with_hit[:, :-1]
        start = places(begins)

        def sums(running: Tensor) -> Tensor:
            # A column of `running` has one entry more than a column of `values`.
            end = torch.nn.functional.pad(start[1:], (0, 1), value=values.numel())
            flat, column = running.reshape(-1), start // n
            return flat[end + column] - flat[start + column]

        # Events and non-events are summed separately, so that a rate of 1 is exact.
        of_hits, of_misses = sums(self._running(self.hit)), sums(self._running(~self.hit))
        rows, hits, misses = self.source.to_host((start, of_hits, of_misses))
        return rows.astype(int), hits + misses, hits

    def scores_at(self, places: Array) -> Array:
        """Return the scores at flat indices, in column-major order."""
        return self.source.to_host(self.values.reshape(-1)[self.source.to_device(places)])
