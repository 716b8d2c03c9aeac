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
from skcalib._arrays.types import Float64Array, FloatArray, Intp, Kind

# Another order is named if it agrees in this many more of the rows, and by as many standard errors.
LEAST_GAIN, LEAST_ERRORS = 0.15, 5.0
# An assignment of more columns takes long, and one of fewer rows for each column fits chance.
MOST_COLUMNS, LEAST_ROWS = 1000, 20
# Scores agree in more of SOME_ROWS than the most frequent label by MARGIN, six standard errors.
SOME_ROWS, MARGIN = 1000, 0.1
# Rows of a label from which the mean of a column has a standard error.
LEAST_OF_LABEL = 10
# Rows that are looked at first, for each column and at least. Of MANY columns a tenth of the rows
# agrees only if most are in order.
FIRST_FOR_EACH, FIRST_ROWS, MANY, IN_ORDER = 8, 128, 100, 0.1


def warn_of_order(
    S: Source,
    code: Intp,
    w: Float64Array,
    classes: NDArray[Any],
    way: str = "pass classes=",
    kind: Kind = "proba",
) -> None:
    """Warn if another order of the columns, which no one has named, agrees better with the labels.

    ``code (n,)`` are the columns of the labels, and `way` says how to name them.
    """
    n, K = S.shape
    if not is_in_memory(S) or n < LEAST_ROWS * K or K > MOST_COLUMNS:
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
    is_poor = kind == "logits" and given <= counts.sum(axis=1).max()
    warnings.warn(
        f"The largest column is the label in {100 * given:.0f} % of the rows, in {100 * other:.0f} "
        f"% if the columns are {', '.join(names)}: {way} or a frame"
        f"{'; or are these features?' if is_poor else '.'}",
        stacklevel=4,
    )


def is_in_memory(S: Source) -> bool:
    """Return whether scores are an array, so that one more pass is cheap."""
    return isinstance(getattr(S, "source", S), ArraySource)


def are_unlike_scores(S: Source, code: Intp, w: Float64Array) -> bool:
    """Return whether columns of logits are unlike scores of their labels.

    Their largest one is right no more often than the most frequent label would be, and one of them
    is clearly lower in the rows of its label. The scores of a poor model, or of one that always
    predicts the most frequent class, are not.
    """
    n, K = S.shape
    size = np.bincount(code, w, K)
    most = size.max() / size.sum()
    for some, margin in ((slice(0, n, max(1, n // SOME_ROWS)), MARGIN), (ALL, 0.0)):
        agreeing = w[some] @ (S.read(some).argmax(1) == code[some])
        if agreeing > (most + margin) * w[some].sum():
            return False
    sums, own, squares = sum(merge_rows(sums_of_own, S, code, w))
    known = size >= LEAST_OF_LABEL
    rows, mean = size[known], own[known] / size[known]
    variance = squares[known] / rows - mean**2
    lower = sums[known] / size.sum() - mean
    return bool((lower > LEAST_ERRORS * np.sqrt(np.maximum(variance, 0.0) / rows)).any())


def sums_of_own(block: FloatArray, code: Intp, w: Float64Array) -> Float64Array:
    """Return sums ``(3, K)`` of columns less the mean of each row.

    These are over all rows, over the rows of each column's label, and of their squares.
    """
    Z = block - block.mean(axis=1, keepdims=True, dtype=np.float64)
    own = Z[np.arange(code.size), code]
    return np.stack([w @ Z, *(np.bincount(code, w * x, Z.shape[1]) for x in (own, own**2))])
