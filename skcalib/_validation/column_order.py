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
from skcalib._validation.survey import SUM_TOLERANCE_DECLARED

# Another order is named if it agrees in this many more of the rows, and by as many standard errors.
LEAST_GAIN, LEAST_ERRORS = 0.15, 5.0
# An assignment of more columns takes long, and one of fewer rows for each column fits chance.
MOST_COLUMNS, LEAST_ROWS = 1000, 20
# Rows that tell features from scores, and those of a label that a standard error needs.
SOME_ROWS, LEAST_OF_LABEL = 10_000, 10
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
    are_logits = np.abs(S.read(few).sum(axis=1) - 1).max() > SUM_TOLERANCE_DECLARED
    is_poor = are_logits and given <= counts.sum(axis=1).max()
    warnings.warn(
        f"The largest column is the label in {100 * given:.0f} % of the rows, in {100 * other:.0f} "
        f"% if the columns are {', '.join(names)}: {way} or a frame"
        f"{'; or are these features?' if is_poor else '.'}",
        stacklevel=4,
    )


def are_unlike_scores(S: Source, code: Intp, w: Float64Array) -> bool:
    """Return whether columns of logits are unlike scores of their labels.

    Their largest one is right no more often than the most frequent label would be, and clearly less
    often than a guess, or one of them is clearly lower in the rows of its label. The scores of a
    poor model, or of one that always predicts the most frequent class, are not. Of many rows, some
    are read.
    """
    n, K = S.shape
    if K > MOST_COLUMNS or not isinstance(S, ArraySource):
        return False
    some = slice(0, n, max(1, n // SOME_ROWS))
    block, code, w = S.read(some), code[some], w[some]
    size = np.bincount(code, w, K)
    agreeing, guess = w @ (block.argmax(axis=1) == code), w.sum() / K
    if agreeing > size.max():
        return False
    if agreeing < guess - LEAST_ERRORS * np.sqrt(guess):
        return True
    Z = block - block.mean(axis=1, keepdims=True, dtype=np.float64)
    own, known = Z[np.arange(code.size), code], size >= LEAST_OF_LABEL
    rows = size[known]
    mean, squares = (np.bincount(code, w * x, K)[known] / rows for x in (own, own**2))
    lower = (w @ Z)[known] / w.sum() - mean
    return bool((lower > LEAST_ERRORS * np.sqrt((squares - mean**2).clip(0) / rows)).any())
