"""Columns of scores in another order than that of the labels."""

from __future__ import annotations

import warnings
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import linear_sum_assignment

from skcalib._arrays.passes import LIGHT, merge_rows
from skcalib._arrays.source import ALL, ArraySource, Source
from skcalib._arrays.types import Float64Array, Intp

# Another order is named if it agrees in this many more of the rows, and by as many standard errors.
LEAST_GAIN, LEAST_ERRORS = 0.15, 5.0
# An assignment of more columns takes long, and one of fewer rows for each column fits chance.
MOST_COLUMNS, LEAST_ROWS = 1000, 20
# Rows that are looked at first, for each column and at least. Of MANY columns a tenth of the rows
# agrees only if most are in order.
FIRST_FOR_EACH, FIRST_ROWS, MANY, IN_ORDER = 8, 128, 100, 0.1


def warn_of_order(
    S: Source, code: Intp, w: Float64Array, classes: NDArray[Any], way: str = "pass classes="
) -> None:
    """Warn if another order of the columns, which no one has named, agrees better with the labels.

    ``code (n,)`` are the columns of the labels, and `way` says how to name them.
    """
    n, K = S.shape
    in_memory = isinstance(getattr(S, "source", S), ArraySource)  # else it is one more pass
    if not in_memory or n < LEAST_ROWS * K or K > MOST_COLUMNS:
        return
    n_first = FIRST_ROWS if K >= MANY else max(FIRST_ROWS, FIRST_FOR_EACH * K)
    few, argmax = slice(0, n, max(1, n // n_first)), partial(np.argmax, axis=1)
    for some in (few, ALL):
        label, weight = code[some], w[some]
        parts = [S.read(few).argmax(1)] if some is few else merge_rows(argmax, S, work=LIGHT)
        largest = np.concatenate(parts)
        total, agreeing = weight.sum(), weight @ (label == largest)
        if K >= MANY and agreeing > IN_ORDER * total:
            return
        counts = np.bincount(label * K + largest, weight, K * K).reshape(K, K)
        # No order agrees in more rows than the most frequent column of each label.
        if counts.max(axis=1).sum() - agreeing < LEAST_GAIN / 3 * total:
            return
    counts, given = counts / total, agreeing / total
    rows, column = linear_sum_assignment(counts, maximize=True)
    other = counts[rows, column].sum()
    gain = other - given
    either = given + other - 2 * counts[rows, column][rows == column].sum()
    error = np.sqrt(max(either - gain**2, 0.0) / w.sum())  # rounding of 0 may be below it
    # If one class is always predicted, its column may be that of the most frequent label.
    if gain < max(LEAST_GAIN, LEAST_ERRORS * error) or other <= counts.sum(axis=1).max():
        return
    names = [str(classes[k]) for k in np.argsort(column)[:10]] + ["..."] * (K > 10)
    warnings.warn(
        f"The largest column is the label in {100 * given:.0f} % of the rows, in {100 * other:.0f} "
        f"% if the columns are {', '.join(names)}: {way} or a frame.",
        stacklevel=4,
    )
