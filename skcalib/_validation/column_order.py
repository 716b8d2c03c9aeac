"""Columns of scores in another order than that of the labels."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import linear_sum_assignment

from skcalib._arrays.passes import map_rows
from skcalib._arrays.source import ArraySource, Source
from skcalib._arrays.types import Float64Array, FloatArray, Intp

# Another order is named if it agrees in this many more of the rows, and by as many standard errors.
LEAST_GAIN, LEAST_ERRORS = 0.15, 5.0
# An assignment of more columns takes long, and one of fewer rows for each column fits chance.
MOST_COLUMNS, LEAST_ROWS = 1000, 20
# Rows that are looked at first, and for each of a FEW columns. Of more columns a tenth of the rows
# agrees only if most are in order.
FIRST_ROWS, FIRST_FOR_EACH, FEW, IN_ORDER = 128, 8, 100, 0.1


def warn_of_order(
    S: Source, code: Intp, w: Float64Array, classes: NDArray[Any], argument: str = "classes"
) -> None:
    """Warn if another order of the columns, which no one has named, agrees better with the labels.

    ``code (n,)`` are the columns of the labels, and `argument` names the labels of the columns.
    """
    n, K = S.shape
    if not isinstance(
        getattr(S, "source", S), ArraySource
    ):  # a file, a cluster, a device: not one more pass over it
        return
    if n < LEAST_ROWS * K or K > MOST_COLUMNS:
        return
    few = slice(0, n, n // max(FIRST_ROWS, FIRST_FOR_EACH * K * (K <= FEW)) or 1)
    known, best = code[few], S.read(few).argmax(axis=1)
    hits = np.count_nonzero(known == best)
    if hits > (IN_ORDER if K > FEW else 1.0 - LEAST_GAIN / 2) * best.size:
        return
    if K <= FEW:  # each label gets its most frequent column: at least what an assignment gains
        counts = np.bincount(known * K + best, minlength=K * K).reshape(K, K)
        if counts.max(axis=1).sum() - hits < LEAST_GAIN / 3 * best.size:
            return
    best = np.empty(n, dtype=np.intp)
    map_rows(largest_alone, S, out=best)
    some = best >= 0
    counts = np.bincount(code[some] * K + best[some], w[some], K * K).reshape(K, K) / w.sum()
    rows, column = linear_sum_assignment(counts, maximize=True)
    agreed, same = counts[rows, column], rows == column
    given, other = float(np.trace(counts)), float(agreed.sum())
    gain = other - given
    error = np.sqrt((given + other - 2 * agreed[same].sum() - gain**2) / w.sum())
    # If one class is always predicted, its column may be that of the most frequent label.
    is_chance = other <= counts.sum(axis=1).max()
    if gain < max(LEAST_GAIN, LEAST_ERRORS * error) or is_chance:
        return
    names = [str(classes[k]) for k in np.argsort(column)]
    more = ", ..." if K > 10 else ""
    warnings.warn(
        f"The largest column is the label in {100 * given:.0f} % of the rows, in {100 * other:.0f} "
        f"% if the columns are {', '.join(names[:10])}{more}: pass {argument}= or a frame.",
        UserWarning,
        stacklevel=4,
    )


def largest_alone(block: FloatArray) -> Intp:
    """Return the column of the largest entry of each row, -1 where several are."""
    ties = (block == block.max(axis=1)[:, None]).sum(axis=1) > 1
    return np.where(ties, -1, block.argmax(axis=1))
