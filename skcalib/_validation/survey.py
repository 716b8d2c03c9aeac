"""Summary of scores in one pass: range, logits or probabilities, and the order of columns."""

from __future__ import annotations

import warnings
from collections.abc import Iterable
from functools import partial
from itertools import chain
from operator import methodcaller
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import linear_sum_assignment

from skcalib._arrays.rowwise import (
    Bools,
    Float64Array,
    FloatArray,
    Intp,
    Kind,
    row_sums,
    smallest_above_zero,
)
from skcalib._arrays.selection import clip_and_divide, sums_of_rows
from skcalib._arrays.sources import (
    ALL,
    LIGHT,
    READS,
    ArraySource,
    Source,
    as_source,
    map_rows,
    merge_rows,
    to_array,
)
from skcalib._arrays.tensors import DeviceBlocks, on_host, ops_for

# The smallest positive probability of a block, from which the lower bound (clip) is computed.


# Smallest positive probability, and whether a 0 occurs: a pair for each of two columns, or one pair
# for all columns together.
Smallest = list[tuple[float, bool]]
# A difference 1 - p of at most this multiple of the machine epsilon may be a rounding error.
COMPLEMENT_ROUNDING = 4.0


def smallest_of_block(block: FloatArray) -> Smallest:
    """Return the smallest positive probability, and whether 0 occurs; for each of two columns."""
    if block.shape[1] > 2:
        return [ops_for(block).smallest_above_zero(block)]
    p, other = block.T.copy()  # contiguous copies: strided columns are slow to read
    return [smallest_above_rounding(p, other), smallest_above_rounding(other, p)]


def smallest_above_rounding(p: FloatArray, other: FloatArray) -> tuple[float, bool]:
    """Return the smallest positive probability, and whether 0 or a rounding error occurs."""
    low, most = p.min(), COMPLEMENT_ROUNDING * np.finfo(p.dtype).eps
    if low > most:
        return float(low), False
    return smallest_above_zero(np.where((p <= most) & (p == 1 - other), 0, p))


# Summary of scores in one pass: their range, and which rows are probability vectors.
#
# A row is a probability vector if its entries lie within `ENTRY_TOLERANCE` of [0, 1] and their sum
# within a tolerance of 1. All decisions about scores use the `Survey` of this pass.


# Number of significant bits of floating-point types.
FLOAT32, FLOAT16, BFLOAT16 = 24, 11, 8
# Largest allowed distance of a probability from the interval [0, 1].
ENTRY_TOLERANCE = 1e-3
# Values that are further below 0 than this bound are logits, not rounded probabilities.
NEGATIVE = 1e-6
# Largest allowed distance from 1 of the sum of a row of probabilities, with input="auto".
SUM_TOLERANCE = 1e-3 + 1e-6
# Largest allowed distance from 1 of the sum of a row of bfloat16 probabilities, whose rounding
# errors are up to 0.004.
SUM_TOLERANCE_BFLOAT16 = 8e-3 + 1e-6
# Largest allowed distance from 1 of a row sum with input="proba": probabilities may have only two
# decimals.
SUM_TOLERANCE_DECLARED = 1e-2 + 1e-6
# Units to which probabilities may be rounded: whole percentages, 1/255, 1/256, 3 to 5 decimals.
STEPS = (1e-2, 1 / 255, 1 / 256, 1e-3, 1e-4, 1e-5)
# In a row of known probabilities with masked classes, the sum may differ from 1 by OF_TWO_DECIMALS
# for each available class, but by at most MOST_OF_SUM.
OF_TWO_DECIMALS, MOST_OF_SUM = 5e-3, 0.5
# Largest distance of a rounded probability from a multiple of its rounding unit.
STEP_ERROR = 2.0**-23
# Rows are not divided by their sum if the sum differs from 1 by at most this rounding error of
# float32 or float64.
ROUNDING = 1e-5
# Largest deviation of a row sum from 1 that rounding to float16 can cause.
ROUNDING_FLOAT16 = 1e-3
# Largest allowed absolute value of a logit: squares of sums of differences must not overflow.
FARTHEST = 1e30
# Advice in error messages about NaN, for each name of an argument.
NAN_WAYS = {
    "X": ". AutoCalibrator, TemperatureScaling and GroupwiseCalibrator accept NaN in probabilities "
    "(no Dask array) for a class that is not available in the row.",
    "y_proba": ", or fill with 0: a class that is not available in a row has probability 0.",
}
# Number of rows that are read to find out whether float32 scores were converted from bfloat16.
SAMPLED_ROWS = 1000


class Survey(NamedTuple):
    """Summary of scores, computed in one pass over their rows.

    ``low`` and ``high`` are bounds on the values, ``rows`` and ``proba_rows`` the numbers of rows
    and of probability vectors. ``largest_error`` is the largest error of a probability vector
    (distance of its sum from 1, or of an entry from [0, 1]). ``first_non_proba_row`` is the first
    row that is not a probability vector, or None. ``smallest`` are the smallest numbers of the
    blocks, if they were requested and all rows are probability vectors that need no correction.
    ``has_nan`` is true if a class is masked (NaN) in some row; the other fields ignore NaN.
    """

    low: float
    high: float
    rows: int
    proba_rows: int
    largest_error: float
    first_non_proba_row: int | None
    smallest: list[Smallest] | None = None
    has_nan: bool = False

    @property
    def max_abs(self) -> float:
        """Upper bound on the absolute values of the scores."""
        return max(-self.low, self.high)

    @property
    def in_unit_interval(self) -> bool:
        """Whether all scores lie in [0, 1], up to `NEGATIVE` below and `ENTRY_TOLERANCE` above."""
        return self.low >= -NEGATIVE and self.high <= 1 + ENTRY_TOLERANCE

    @property
    def is_unclear(self) -> bool:
        """Whether all scores lie in [0, 1], but some rows are not probability vectors."""
        return self.first_non_proba_row is not None and self.in_unit_interval

    @property
    def is_simplex(self) -> bool:
        """Whether every row is a probability vector (one column: every value in [0, 1])."""
        return self.first_non_proba_row is None

    @property
    def may_lack_options(self) -> bool:
        """Whether scores may have masked classes: NaN, -inf or log-probabilities."""
        return self.has_nan or self.low == -np.inf or self.high <= SUM_TOLERANCE_BFLOAT16

    @property
    def is_mostly_simplex(self) -> bool:
        """Whether at least half of the rows, and at least two, are probability vectors."""
        return self.proba_rows > 1 and 2 * self.proba_rows >= self.rows

    @property
    def is_rounded(self) -> bool:
        """Whether probabilities have to be clipped or divided by their row sums."""
        return self.low < 0 or self.high > 1 or self.largest_error > ROUNDING


def survey_block(
    block: FloatArray,
    rows: range,
    name: str = "X",
    tolerance: float = SUM_TOLERANCE,
    exact: bool = True,
    smallest: bool = False,
    options: bool = False,
) -> Survey:
    """Summarise a block of scores; refuse NaN, +inf, and rows in which every logit is -inf.

    One column may contain +inf, the logit of P = 1. Without `exact`, the number of probability
    vectors among logits is an upper bound. With `smallest`, the smallest positive numbers are
    computed. With `options`, NaN in several columns is allowed.
    """
    single = block.shape[1] == 1
    low, high = float(block.min()), float(block.max())
    if has_nan := options and not single and bool(np.isnan(high)):
        block, sums = without_nan(block, rows, name, tolerance)
        low, high = float(block.min()), float(block.max())
    if not high < np.inf and not (single and high == np.inf):  # this condition also refuses NaN
        raise ValueError(_not_a_number(block, rows.start, name))
    if low == -np.inf and not single:
        dead = np.flatnonzero(np.isneginf(block).all(axis=1))
        if dead.size:
            raise ValueError(
                f"{name}: every logit of row {rows.start + dead[0]} is -inf; a row needs at "
                "least one class that is possible."
            )
    if FARTHEST < high < np.inf or -np.inf < low < -FARTHEST:
        raise ValueError(
            f"{name} contains logits beyond {FARTHEST:g} in absolute value; divide all logits by a "
            "constant."
        )
    # An entry of a probability vector may exceed 1 by as much as the sum of the row may exceed 1.
    most = 1 + (ENTRY_TOLERANCE if single else max(tolerance, ENTRY_TOLERANCE))
    if has_nan:
        is_proba = np.ones(len(block), dtype=bool)
        away = _find_proba_rows(is_proba, block, sums, 1 + sums)
    elif low >= -ENTRY_TOLERANCE and high <= most:
        total = np.ones(len(block)) if single else np.einsum("ij->i", block)
        farthest = max(float(total.max()) - 1.0, 1.0 - float(total.min()))
        if farthest <= tolerance:
            away = max(farthest, -low, high - 1.0)
            survey = Survey(low, high, len(block), len(block), away, None)
            if smallest and not (single or survey.is_rounded):
                survey = survey._replace(smallest=[smallest_of_block(block)])
            return survey
        off = np.abs(total - 1.0)
        is_proba = off <= tolerance
        away = max(float(off[is_proba].max(initial=0.0)), -low, high - 1.0)
    else:
        is_proba, away = _may_be_proba(block, most), 0.0
        if exact:
            away = _find_proba_rows(is_proba, block, tolerance, most)
    other = None if is_proba.all() else rows.start + int(is_proba.argmin())
    return Survey(low, high, len(block), int(is_proba.sum()), away, other, has_nan=has_nan)


def without_nan(
    block: FloatArray, rows: range, name: str, tolerance: float
) -> tuple[FloatArray, FloatArray]:
    """Replace NaN (masked classes) by 0; return also the tolerance for the sum of each row."""
    offered = ~np.isnan(block)
    n_options = offered.sum(axis=1)
    if not n_options.all():
        first = rows.start + int(n_options.argmin())
        raise ValueError(
            f"{name} has only NaN in row {first}, so that no class is available: drop the row."
        )
    is_declared = tolerance == SUM_TOLERANCE_DECLARED
    sums = np.clip(OF_TWO_DECIMALS * n_options * is_declared, tolerance, MOST_OF_SUM)
    return np.where(offered, block, 0.0), sums


def _find_proba_rows(is_proba: Bools, block: FloatArray, tolerance: Any, most: Any) -> float:
    """Unmark rows that are not probability vectors; return the largest error of marked rows.

    If all rows are marked, `tolerance` and `most` may have an entry for each row.
    """
    near = block[is_proba].astype(np.float64)
    low, high = near.min(axis=1), near.max(axis=1)
    with np.errstate(invalid="ignore", over="ignore"):
        off = np.abs(row_sums(near) - 1.0) if block.shape[1] > 1 else 0.0 * low
    inside = (low >= -ENTRY_TOLERANCE) & (high <= most) & (off <= tolerance)
    is_proba[is_proba] = inside
    away = np.maximum(np.maximum(-low, high - 1.0), off)
    return float(away[inside].max(initial=0.0))


def _may_be_proba(S: FloatArray, most: float) -> Bools:
    """Return which rows may be probability vectors, judged by their first and last entries."""
    low, first, last = -ENTRY_TOLERANCE, S[:, 0], S[:, -1]
    return (first >= low) & (first <= most) & (last >= low) & (last <= most)


def merge_surveys(surveys: Iterable[Survey]) -> Survey:
    """Merge the summaries of blocks of scores into the summary of all rows."""
    parts = list(surveys)
    if len(parts) == 1:
        return parts[0]
    others = [part.first_non_proba_row for part in parts if part.first_non_proba_row is not None]
    smallest = [part.smallest for part in parts if part.smallest is not None]
    return Survey(
        min(part.low for part in parts),
        max(part.high for part in parts),
        sum(part.rows for part in parts),
        sum(part.proba_rows for part in parts),
        max(part.largest_error for part in parts),
        min(others, default=None),
        list(chain.from_iterable(smallest)) if len(smallest) == len(parts) else None,
        any(part.has_nan for part in parts),
    )


def check_values(
    S: Source, name: str = "X", input: str = "auto", smallest: bool = False, options: bool = False
) -> Survey:
    """Refuse NaN, +inf, huge logits and rows of only -inf; return the summary of the scores.

    With ``input="proba"``, sums may differ more from 1. With `options`, NaN is allowed.
    """
    rows, options = range(S.shape[0]), options and S.remote is None
    survey = survey_rows(S, rows, name, sum_tolerance(input), smallest=smallest, options=options)
    if input == "auto" and survey.is_unclear and has_short_mantissa(S, BFLOAT16):
        survey = survey_rows(S, rows, name, SUM_TOLERANCE_BFLOAT16, options=options)
    return survey


def step_of(S: Source, total: float = 1.0) -> float:
    """Return the largest step in `STEPS` to which all numbers / `total` are rounded, or 0.

    If the first rows contain other numbers, which is usual, no more rows are read.
    """

    def find(block: FloatArray) -> Bools:
        shares = block.astype(np.float64) / total
        off = [np.abs(shares - step * np.rint(shares / step)).max() for step in STEPS]
        return np.array(off) <= STEP_ERROR  # NaN makes the comparison False

    fit = find(S.read(slice(0, SAMPLED_ROWS)))
    if fit.any():
        fit = np.all(merge_rows(find, S, work=LIGHT), axis=0)
    return STEPS[fit.argmax()] if fit.any() else 0.0


def sum_tolerance(input: str) -> float:
    """Return the largest allowed distance from 1 of the sum of a row of probabilities."""
    return SUM_TOLERANCE_DECLARED if input == "proba" else SUM_TOLERANCE


def survey_rows(S: Source, rows: range, name: str, tolerance: float, **keywords: Any) -> Survey:
    """Summarise scores block by block; `rows` are the row numbers for error messages.

    The sums of rounded probabilities may differ from 1 by half a step for each column. Keywords are
    those of `survey_block`.
    """
    survey = survey_on_device(S, blocks, tolerance) if (blocks := S.on_device()) else None
    if survey is None:
        kernel = partial(survey_block, name=name, tolerance=tolerance, **keywords)
        survey = merge_rows(kernel, S, rows, merge=merge_surveys, work=LIGHT)
    if survey.is_unclear and not survey.has_nan and S.shape[1] > 1:
        wider = min(MOST_OF_SUM, step_of(S) * S.shape[1] / 2) + 1e-6
        if wider > tolerance:
            return survey_rows(S, rows, name, wider, **keywords)
    return survey


def survey_on_device(S: Source, blocks: DeviceBlocks, tolerance: float) -> Survey | None:
    """Summarise finite scores on a device, or return None if NumPy has to read the scores."""
    extremes = merge_rows(methodcaller("aminmax"), blocks, work=READS)
    ends = np.array(blocks.to_host(tuple(chain(*extremes))))
    low, high = float(ends[::2].min()), float(ends[1::2].max())
    if not (low >= -FARTHEST and high <= FARTHEST):  # this condition also refuses NaN
        return None
    n, most = S.shape[0], 1 + max(tolerance, ENTRY_TOLERANCE)
    is_proba, rows = blocks.empty_rows(np.bool_), blocks
    within = low >= -ENTRY_TOLERANCE and high <= most
    inside = is_proba
    if not within:
        map_rows(partial(_may_be_proba, most=most), blocks, out=is_proba, work=READS)
        total, first = blocks.to_host((is_proba.sum(), is_proba.byte().argmin()))
        # Scores are logits if fewer than half of the rows may be probability vectors.
        if 2 * total < n and tolerance < SUM_TOLERANCE_DECLARED:
            return Survey(low, high, n, int(total), 0.0, int(first))
        places = is_proba.nonzero()[:, 0]
        rows = blocks.computed(lambda rows: blocks.read(places[rows]), len(places))
        inside = rows.empty_rows(np.bool_)
    kernel = partial(inside_of_block, tolerance=tolerance, most=most, within=within)
    away = map_rows(kernel, rows, out=inside, work=READS if within else LIGHT)
    if not within:
        is_proba.masked_scatter_(is_proba.clone(), inside)
    total, first, *away = blocks.to_host((is_proba.sum(), is_proba.byte().argmin(), *away))
    away += [-low, high - 1] if within else [0.0]
    return Survey(low, high, n, int(total), max(away), None if total == n else int(first))


def inside_of_block(block: Any, tolerance: float, most: float, within: bool) -> tuple[Any, Any]:
    """Return which rows of a block are probability vectors, and how far these deviate at most.

    With `within`, all entries are known to be near [0, 1], and only sums are checked.
    """
    r = ops_for(block)
    off = abs(r.row_sums(block) - 1)
    inside = off <= tolerance
    if not within:
        low, high = r.row_min(block), r.row_max(block)
        inside &= (low >= -ENTRY_TOLERANCE) & (high <= most)
        off = off.maximum(-low).maximum(high - 1)
    return inside, (inside * off).amax()


def has_short_mantissa(S: Source, bits: int) -> bool:
    """Return whether float32 values seem to be converted from a shorter type, such as bfloat16."""
    if S.dtype != np.float32:
        return False
    values = np.ascontiguousarray(S.read(slice(0, SAMPLED_ROWS)))
    spare = np.uint32((1 << (FLOAT32 - bits)) - 1)
    return not (values.view(np.uint32) & spare).any()


def _not_a_number(block: FloatArray, start: int, name: str) -> str:
    i, j = np.argwhere(np.isnan(block) | np.isposinf(block))[0]
    what = "NaN" if np.isnan(block[i, j]) else "infinity"
    # A single column cannot contain NaN for a masked class.
    way = NAN_WAYS.get(name, ".") if what == "NaN" and block.shape[1] > 1 else "."
    return (
        f"{name} contains {what} (first at row {start + i}, column {j}); drop or repair such "
        f"rows{way}"
    )


def first_flaw(S: Source, survey: Survey) -> str:
    """Describe for an error message why the first invalid row is not a probability vector."""
    assert survey.first_non_proba_row is not None
    row = S.read(slice(survey.first_non_proba_row, survey.first_non_proba_row + 1))[0]
    row = row[~np.isnan(row)]  # drop masked classes
    outside = (row < -ENTRY_TOLERANCE) | (row > 1 + ENTRY_TOLERANCE)
    if outside.any():
        why = f"contains {row[outside][0]:.6g}, outside [0, 1]"
    else:
        total = row.sum(dtype=np.float64)
        why = f"sums to {total:.6g}, not 1"
        if has_short_mantissa(S, BFLOAT16) and not step_of(S):
            why += (
                ": bfloat16 rounds probabilities to 3 digits, so pass logits, or "
                "softmax(..., dtype=torch.float32)"
            )
        elif total < 1 - SUM_TOLERANCE_DECLARED:
            why += " (is a column missing?)"
    return f"row {survey.first_non_proba_row} {why}"


# Checks for columns of scores in a wrong order, and for features passed instead of scores.


# A wrong order of the columns is reported if another order is correct in more rows: by at least
# LEAST_GAIN of all rows, and by at least LEAST_ERRORS standard errors.
LEAST_GAIN, LEAST_ERRORS = 0.15, 5.0
# The order of more columns than MOST_COLUMNS is not checked, because the search takes long. With
# fewer rows for each column than LEAST_ROWS, it is not checked, because an order would fit noise.
MOST_COLUMNS, LEAST_ROWS = 1000, 20
# Number of rows that are read to distinguish features from scores, and smallest number of rows with
# the same label for which a standard error is computed.
SOME_ROWS, LEAST_OF_LABEL = 10_000, 10
# The order is checked on a sample first: FIRST_FOR_EACH rows for each column, at least FIRST_ROWS.
# From MANY columns on, an accuracy of IN_ORDER shows that most columns are in order.
FIRST_FOR_EACH, FIRST_ROWS, MANY, IN_ORDER = 8, 128, 100, 0.1


def warn_of_order(
    S: Source, code: Intp, w: Float64Array, classes: NDArray[Any], way: str = "pass classes="
) -> None:
    """Warn if another order of columns without names agrees better with the labels.

    ``code (n,)`` are the columns of the labels. `way` is the advice on how to name the columns.
    """
    n, K = S.shape
    # The order is checked only in memory, because other sources would need another pass over rows.
    in_memory = isinstance(getattr(S, "source", S), ArraySource)
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
        # If the most frequent prediction for each label counted as correct, the accuracy would be
        # at least that of any order of the columns.
        if counts.max(axis=1).sum() - agreeing < LEAST_GAIN / 3 * total:
            return
    counts, agreement = counts / total, agreeing / total
    rows, column = linear_sum_assignment(counts, maximize=True)
    other = counts[rows, column].sum()
    gain = other - agreement
    either = agreement + other - 2 * counts[rows, column][rows == column].sum()
    error = np.sqrt(max(either - gain**2, 0.0) / w.sum())  # rounding may make 0 negative
    # A model that always predicts one class must not be taken for a wrong order of columns.
    if gain < max(LEAST_GAIN, LEAST_ERRORS * error) or other <= counts.sum(axis=1).max():
        return
    names = [str(classes[k]) for k in np.argsort(column)[:10]] + ["..."] * (K > 10)
    are_logits = np.abs(S.read(few).sum(axis=1) - 1).max() > SUM_TOLERANCE_DECLARED
    is_poor = are_logits and agreement <= counts.sum(axis=1).max()
    warnings.warn(
        f"The largest score of a row belongs to its label in {100 * agreement:.0f} % of the "
        f"rows, but in {100 * other:.0f} % if the columns are {', '.join(names)}: {way} or a frame"
        f"{'; or are these features?' if is_poor else '.'}",
        stacklevel=4,
    )


def are_unlike_scores(S: Source, code: Intp, w: Float64Array) -> bool:
    """Return whether columns look like features instead of logits of the labels.

    The largest column of a row is then right no more often than the most frequent label, and
    clearly less often than a random guess; or a column is clearly lower in the rows of its label.
    The scores of a poor model, or of a model that always predicts the most frequent class, do not
    look like features. If there are many rows, only some of them are read.
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


# Masked classes, which are not available in a row (options that were not offered): NaN among
# probabilities, -inf among logits.


# Largest number of columns for which NaN is accepted as a mask of classes.
MOST_OPTIONS = 1000


def options_of_block(block: FloatArray, code: Intp) -> tuple[Float64Array, Bools]:
    """Return the distance of each row's sum of exponentials from 1, and which labels are masked.

    A label is masked if its entry in the row is -inf or NaN.
    """
    with np.errstate(over="ignore"):
        away = np.abs(row_sums(np.exp(block, dtype=np.float64)) - 1.0)
    return away, ~(block[np.arange(code.size), code] > -np.inf)


def read_options(S: Source, code: Intp, before: bool | None) -> tuple[bool, Bools]:
    """Decide whether NaN or -inf marks a masked class; return which true labels are masked.

    If the exponentials of every row sum to 1, scores are log-probabilities, and -inf is the
    logarithm of 0. `before` is the decision for an earlier batch.
    """
    away, absent = np.empty(S.shape[0]), np.zeros(S.shape[0], dtype=bool)
    map_rows(options_of_block, S, on_host(code), out=(away, absent), work=LIGHT)
    is_short = away.max() > SUM_TOLERANCE and has_short_mantissa(S, BFLOAT16)
    if away.max() <= (SUM_TOLERANCE_BFLOAT16 if is_short else SUM_TOLERANCE):
        return before is True, np.zeros_like(absent)
    return True, absent


def refuse_nan(S: Source, survey: Survey, input: str, names: Any) -> None:
    """Refuse NaN in scores that are not probabilities; `names` are the column names."""
    if S.shape[1] > MOST_OPTIONS:
        raise ValueError(
            f"X has {S.shape[1]:,} columns and NaN, which is allowed in at most {MOST_OPTIONS:,} "
            "columns: if answers differ from row to row, put the first answer of a row in column 0."
        )
    if survey.is_simplex and input != "logits":
        return
    where = survey.first_non_proba_row
    if where is None:
        where = int(np.isnan(to_array(S)).any(axis=1).argmax())
    row = S.read(slice(where, where + 1))[0]
    names = np.asarray(names).tolist()
    if not np.isnan(row).any():
        i, j = np.argwhere(np.isnan(to_array(S)))[0]
        raise ValueError(
            f"X contains NaN (first at row {i}, column {names[j]!r}); drop or repair such rows. In "
            "probabilities, NaN is a class that is not available in the row, but "
            f"{first_flaw(S, survey)}."
        )
    name = names[np.isnan(row).argmax()]
    total = float(np.nansum(row, dtype=np.float64))
    rounded = input != "proba" and abs(total - 1.0) <= SUM_TOLERANCE_DECLARED
    raise ValueError(
        f"X contains NaN at row {where}, column {name!r}: NaN (class not available) is "
        "allowed in probabilities, whose other entries sum to 1; these sum to "
        f"{total:.6g}{': pass input=' + repr('proba') if rounded else ''}."
    )


# Whether scores are logits or probabilities, and conversion to a column for each class.


# Rows of non-negative numbers may be percentages or counts if the relative range of their sums is
# at most this number.
SAME_SUM = 1e-2
# A single column of at least 20 values, 95 % of them in [0, 1], may be probabilities with errors.
ODD_ROWS, ODD_SHARE = 20, 0.05


def resolve_kind(S: Source, survey: Survey, input: str, name: str = "X") -> Kind:
    """Decide whether checked scores are logits or probabilities; refuse unclear scores.

    Raises
    ------
    ValueError
        If ``input="proba"`` and a row is not a probability vector, or if ``input="auto"`` and
        the scores could be either.
    """
    if input == "logits":
        return "logits"
    if survey.is_simplex:
        return "proba"
    has_logits = S.shape[1] > 1 and survey.low < -NEGATIVE and not survey.is_mostly_simplex
    if input == "proba" or not has_logits:
        refuse_unclear(S, survey, input, name)
    return "logits"


def refuse_unclear(S: Source, survey: Survey, input: str, name: str) -> None:
    """Refuse scores that could be logits or probabilities, and invalid declared probabilities."""
    flaw = partial(first_flaw, S, survey)  # `first_flaw` runs only if an error is raised
    if input == "proba":
        raise ValueError(
            f"{name}: {flaw()}, but input='proba' is set; pass probabilities whose rows sum to "
            "1, or input='logits'."
        )
    single = S.shape[1] == 1
    few_odd = survey.rows - survey.proba_rows <= ODD_SHARE * survey.rows
    if survey.rows >= ODD_ROWS and few_odd if single else survey.is_mostly_simplex:
        what = "values lie in [0, 1]" if single else "rows are probability vectors"
        raise ValueError(
            f"{name}: {survey.proba_rows:,} of {survey.rows:,} {what}, but {flaw()}: logits or "
            "probabilities? Pass input='proba' after repairing rows that are off by more than "
            "0.01, or input='logits' if these are logits."
        )
    if survey.in_unit_interval:
        raise ValueError(
            f"{name}: all values lie in [0, 1] but {flaw()}: logits or probabilities? Pass "
            "input='logits' if these are logits; divide each row by its sum if these are "
            "probabilities."
        )
    if survey.rows > 1 and survey.low >= 0 and not single:
        sums = sums_of_rows(S)
        most = sums.max()
        same = most - sums.min() <= SAME_SUM * most
        if same and S.remote is None:  # equal sums may come from copies of one row
            first = S.read(slice(0, FIRST_ROWS))
            same = bool((first != first[0]).any())
        off = np.abs(sums - 100).max()
        rounded = off <= min(50, 50 * S.shape[1] * step_of(S, 100.0))
        if same or rounded:
            total = 100 if rounded else most
            raise ValueError(
                f"{name}: no value is negative and every row sums to {total:.6g}: "
                "percentages, counts or logits? Divide each row by its sum if these are "
                "percentages or counts; pass input='logits' if these are logits."
            )
    if single and survey.high <= 0 and survey.high - survey.low > 1:
        raise ValueError(
            f"{name}: no value of the column is positive: log-probabilities or logits? Pass "
            f"np.exp({name}), or input='logits' if these are logits."
        )
    if single and survey.low >= 0:
        most, what = (10, "ratings") if survey.high <= 10 else (100, "percentages")
        raise ValueError(
            f"{name}: all values of the column are between {survey.low:.6g} and "
            f"{survey.high:.6g}: {what} or logits? Divide by the largest possible value, such as "
            f"{most}, if these are {what}; pass input='logits' if these are logits."
        )


def check_kind(S: Source, survey: Survey, kind: Kind, certain: bool, name: str = "X") -> None:
    """Refuse logits if a calibrator was fitted on probabilities, and probabilities if on logits.

    A single row or column of logits may be a probability vector by chance. So a calibrator for
    logits refuses a batch only if at least half of its rows, and at least two, are probability
    vectors. A batch is not refused if all rows in the fit were probability vectors (not `certain`).
    """
    if kind == "proba":
        if not survey.is_simplex:
            by_scaling = " (for scaled scores, use MinMaxScaler(clip=True))"
            scaled = by_scaling if S.shape[1] == 1 else ""
            raise ValueError(
                f"{name}: {first_flaw(S, survey)}, but this calibrator was fitted on "
                f"probabilities (input_='proba'); pass probabilities{scaled}, or fit it again on "
                "logits."
            )
    elif certain and S.shape[1] > 1 and survey.is_mostly_simplex:
        some = f"{survey.proba_rows:,} of {survey.rows:,} rows are probability vectors"
        how = "all rows are probability vectors (row 0 sums to 1)" if survey.is_simplex else some
        raise ValueError(
            f"{name}: {how}, but this calibrator was fitted on logits "
            "(input_='logits'); pass logits, or fit it again on probabilities."
        )


def refuse_labels(X: Any, name: str = "X") -> None:
    """Refuse a single column of integers or booleans, which are labels, not probabilities."""
    dtype = X.dtype if hasattr(X, "dtype") else np.asarray(X).dtype
    type_name = str(dtype).lower()
    if "int" in type_name or "bool" in type_name:
        raise ValueError(
            f"{name} is one column of {type_name} values: these are labels; pass probabilities, "
            "predict_proba(X)[:, 1], or percentages divided by 100."
        )


def refuse_features(
    S: Source, survey: Survey, code: Intp, w: Float64Array, input: str, are_named: bool
) -> None:
    """Refuse features or counts that were passed in place of logits.

    Only many rows of columns without names are checked for features. They are features if at most
    half of the columns have a label. If more columns have one, but not all, they are features if
    `are_unlike_scores` is true. Scores are counts if there are many rows and several columns of
    whole numbers that are not negative.
    """
    n, K = S.shape
    if not are_named and 3 <= K <= n / 5:
        n_labels = int((ops_for(code).totals(code, None, K) > 0).sum())
        absent = K - n_labels
        if absent >= n_labels or (absent and are_unlike_scores(S, code, w)):
            raise ValueError(
                f"X has {K:,} columns for {n_labels:,} label{'s' * (n_labels > 1)} of y: are these "
                "features? Pass scores, a column for each class, or classes= if "
                f"{absent:,} class{'es have' if absent > 1 else ' has'} no row."
            )
    may_be_counts = input == "auto" and survey.low >= 0 and K > 1 and n >= ODD_ROWS
    if may_be_counts and step_of(S, 100.0) == STEPS[0]:
        raise ValueError(
            "X: all values are whole numbers and none is negative: counts, percentages or logits? "
            "Divide each row by its sum, or pass input='logits' if these are logits."
        )


def two_columns(S: FloatArray, kind: Kind) -> FloatArray:
    """Turn one column into two: ``(0, f)`` for logits f, ``(1 - p, p)`` for probabilities p.

    A logit of +inf becomes ``(-inf, 0)``.
    """
    if S.shape[1] > 1:
        return S
    first = np.zeros_like(S) if kind == "logits" else 1 - S
    if kind == "logits" and (certain := np.isposinf(S)).any():
        first[certain], S = -np.inf, np.where(certain, first, S)
    return np.hstack([first, S])


def as_columns(
    S: Source, survey: Survey, kind: Kind, input: str = "proba", name: str = "X"
) -> Source:
    """Return a column for each class; clip probabilities, and divide rows by their sums.

    Rows whose sums differ from 1 by rounding are not changed. Differences above 0.001 give one
    warning. For a single column without ``input="proba"``, smaller differences give it too.
    """
    if kind == "proba" and survey.is_rounded:
        S = divide_rows(S, survey, input, name)
    return S if S.shape[1] > 1 else as_source(two_columns(S.read(ALL), kind))


def divide_rows(S: Source, survey: Survey, input: str, name: str) -> Source:
    """Clip probabilities to [0, 1], divide rows by their sums, and warn about it."""
    error = survey.largest_error
    is_short = error > ROUNDING and has_short_mantissa(S, FLOAT16)
    rounding = ROUNDING_FLOAT16 if is_short else ROUNDING
    is_quiet = S.shape[1] > 1 or input == "proba"
    if error > (max(rounding, SUM_TOLERANCE) if is_quiet else rounding):
        what = "values lie outside [0, 1]" if S.shape[1] == 1 else "rows do not sum to 1"
        done = "clipped" if S.shape[1] == 1 else "divided by their sums"
        warnings.warn(
            f"{name}: {what}, by up to {error:.2g}; they were {done}.",
            stacklevel=4,
        )
    return clip_and_divide(S, S.shape[1] > 1 and error > rounding)
