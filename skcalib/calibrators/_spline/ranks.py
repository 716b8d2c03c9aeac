"""A binary problem for each rank of the probabilities of a row, and the way back."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial

import numpy as np
from numpy.typing import NDArray

from skcalib._arrays.blocks import column_blocks
from skcalib._arrays.passes import map_rows
from skcalib._arrays.rowwise import row_sums
from skcalib._arrays.source import ALL
from skcalib._arrays.types import Float64Array, FloatArray
from skcalib._scores.one_vs_rest import SortedProblem, is_unit, sort_problem
from skcalib._scores.scores import Scores

# Later ranks share one map.
MOST_RANKS = 32

# Memory for the scores of several ranks that are sorted one after the other.
RANK_BLOCK_BYTES = 1 << 23


def ranked(P: Float64Array, n_maps: int, columns: slice = ALL) -> Float64Array:
    """Return the largest probability of each row, the next one, and so on: ``(n, n_maps)``.

    The last column is the sum of all remaining ones. Only some `columns` may be returned.
    """
    rest = P.shape[1] - n_maps + 1
    S = np.partition(P, rest, axis=1)
    own = S[:, rest:]
    own.sort(axis=1)
    return np.column_stack([own[:, ::-1], np.minimum(S[:, :rest].sum(axis=1), 1.0)])[:, columns]


def ranks_of_true(
    block: FloatArray, code: NDArray[np.intp]
) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
    """Return the first rank of the true class in each row, from 0, and the one after its last.

    Classes of equal probability share their ranks.
    """
    true = np.take_along_axis(block, code[:, None], axis=1)
    first = (block > true).sum(axis=1)
    return first, first + (block == true).sum(axis=1)


def hits_of_ranks(
    first: NDArray[np.intp], end: NDArray[np.intp], w: Float64Array, n_classes: int
) -> Float64Array:
    """Return the weight of the rows whose true class has each rank, ``(K,)``."""
    share = w / (end - first)
    steps = np.bincount(first, share, n_classes + 1) - np.bincount(end, share, n_classes + 1)
    return np.cumsum(steps)[:-1]


def ranks_apart(hits: Float64Array, fewest: float) -> int:
    """Return the number of ranks, 1 to K - 1, before the first one with less than `fewest` hits."""
    # By rounding, parts such as thirds may add up to a little less than 1.
    few = np.flatnonzero(hits < fewest * (1 - 1e-9))
    apart = hits.size if few.size == 0 else int(few[0])
    return max(1, min(apart, MOST_RANKS, hits.size - 1))


def rank_problems(
    scores: Scores,
    first: NDArray[np.intp],
    end: NDArray[np.intp],
    w: Float64Array,
    n_maps: int,
) -> Iterator[SortedProblem]:
    """Yield the problem of each rank; the last one is that of all remaining ranks.

    The true class of a row counts equally for the ranks from `first` up to, not including, `end`.
    Rows are sorted once for as many ranks as fit a memory limit.
    """
    n, n_classes = scores.shape
    weights = None if is_unit(w) else w
    tied = bool((end - first > 1).any())
    for several in column_blocks(n, n_maps, RANK_BLOCK_BYTES):
        S = np.empty((several.stop - several.start, n))
        kernel = partial(ranked, n_maps=n_maps, columns=several)
        map_rows(kernel, scores.as_proba(np.float64), out=S.T)
        for j, score in enumerate(S, start=several.start):
            last = j + 1 if j < n_maps - 1 else n_classes
            hit = np.flatnonzero((first < last) & (end > j))
            part = None
            if tied:
                own = np.minimum(end[hit], last) - np.maximum(first[hit], j)
                part = own / (end[hit] - first[hit])
            yield sort_problem(score, hit, weights, part)


def share_ties(S: Float64Array, Q: Float64Array) -> Float64Array:
    """Give equal neighbours in a row of `S` the mean of their entries of `Q`."""
    same = S[:, 1:] == S[:, :-1]
    row = np.flatnonzero(same.any(axis=1))
    if row.size:
        differs = np.ones((row.size, S.shape[1]), dtype=bool)
        differs[:, 1:] = ~same[row]
        first = np.flatnonzero(differs)
        count = np.diff(first, append=differs.size)
        mean = np.add.reduceat(Q[row].ravel(), first) / count
        Q[row] = np.repeat(mean, count).reshape(row.size, -1)
    return Q


def map_ranks(
    P: Float64Array,
    n_maps: int,
    least: float,
    map_rank: Callable[[int, Float64Array], FloatArray],
) -> Float64Array:
    """Return ``map_rank(r, r-th largest)`` in place of the probabilities of rows, not normalised.

    The last map is for the sum of all remaining ranks, which share its value in proportion to their
    probabilities, each at least `least`. Equal probabilities of a row get the same value.
    """
    rest = P.shape[1] - n_maps + 1
    place = np.argpartition(P, rest, axis=1)
    best, left = place[:, rest:], place[:, :rest]
    S = np.take_along_axis(P, best, axis=1)
    order = np.argsort(-S, axis=1)
    S, best = np.take_along_axis(S, order, axis=1), np.take_along_axis(best, order, axis=1)
    T = np.take_along_axis(P, left, axis=1)
    last = map_rank(n_maps - 1, T.sum(axis=1))
    Q: Float64Array = np.empty_like(S)
    for j, column in enumerate(S.T):
        Q[:, j] = map_rank(j, column)
    Q = share_ties(S, Q)
    U = np.maximum(T, least) if rest > 1 else np.ones_like(T)
    U *= (last / row_sums(U))[:, None]
    # The last rank with a map of its own may be tied with some of the others.
    row = np.flatnonzero(T.max(axis=1) == S[:, -1])
    if row.size:
        value = S[row, -1:]
        above, below = S[row] == value, T[row] == value
        total = (Q[row] * above).sum(axis=1) + (U[row] * below).sum(axis=1)
        mean = np.broadcast_to(
            (total / (above.sum(axis=1) + below.sum(axis=1)))[:, None], P[row].shape
        )
        Q[row] = np.where(above, mean[:, : n_maps - 1], Q[row])
        U[row] = np.where(below, mean[:, :rest], U[row])
    out = np.empty_like(P)
    np.put_along_axis(out, best, Q, axis=1)
    np.put_along_axis(out, left, U, axis=1)
    return out
