"""A binary problem for each rank of the probabilities of a row."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

import numpy as np

from skcalib._arrays.rowwise import Float64Array, FloatArray, Intp, Kind, column_blocks, is_unit
from skcalib._arrays.sources import map_rows
from skcalib._maps.formulas import ArrayOperations
from skcalib._scores.one_vs_rest import SortedProblem, sort_problem
from skcalib._scores.scores import Scores
from skcalib.calibrators._spline.maps import scores_of_ranks

# Later ranks share one map.
MOST_RANKS = 32

# Memory for the scores of several ranks that are sorted one after the other.
RANK_BLOCK_BYTES = 1 << 23


def scores_of_block(block: FloatArray, kind: Kind, n_maps: int, columns: slice) -> Float64Array:
    """Return what some ranks are sorted by, of each row."""
    if kind == "proba":  # places are not needed; to look for them would take most of the time
        others = block.shape[1] - n_maps + 1
        P = np.partition(block.astype(np.float64, copy=False), others, axis=1)
        best = np.sort(P[:, others:], axis=1)[:, ::-1]
        return np.column_stack([best, P[:, :others].sum(axis=1)])[:, columns]
    # Of logits, knots are what a prediction computes, to the last bit.
    o = ArrayOperations(Scores(block, kind))
    x: Float64Array = scores_of_ranks(o, n_maps, log_odds=True)[0]
    return x[:, columns]


def ranks_of_true(block: FloatArray, code: Intp) -> tuple[Intp, Intp]:
    """Return the first rank of the true class in each row, from 0, and the one after its last.

    Classes of equal probability share their ranks.
    """
    true = np.take_along_axis(block, code[:, None], axis=1)
    first = (block > true).sum(axis=1)
    return first, first + (block == true).sum(axis=1)


def ranks_apart(first: Intp, end: Intp, w: Float64Array, n_classes: int, fewest: int) -> int:
    """Return the number of ranks, 1 to K - 1, before the first one with less than `fewest` hits.

    A row counts equally for all ranks of its true class.
    """
    share = w / (end - first)
    steps = np.bincount(first, share, n_classes + 1) - np.bincount(end, share, n_classes + 1)
    # By rounding, parts such as thirds may add up to a little less than 1.
    few = np.flatnonzero(np.cumsum(steps)[:-1] < fewest * (1 - 1e-9))
    return max(1, min([*few[:1].tolist(), MOST_RANKS, n_classes - 1]))


def rank_problems(
    scores: Scores, first: Intp, end: Intp, w: Float64Array, n_maps: int
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
        kernel = partial(scores_of_block, kind=scores.kind, n_maps=n_maps, columns=several)
        map_rows(kernel, scores.source, out=S.T)
        for j, score in enumerate(S, start=several.start):
            last = j + 1 if j < n_maps - 1 else n_classes
            hit = np.flatnonzero((first < last) & (end > j))
            part = None
            if tied:
                own = np.minimum(end[hit], last) - np.maximum(first[hit], j)
                part = own / (end[hit] - first[hit])
            problem = sort_problem(score, hit, weights, part, in_place=True)
            yield problem._replace(log_odds=scores.kind == "logits")
