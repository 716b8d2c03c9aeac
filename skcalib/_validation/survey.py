"""One pass over scores: their range, and which rows are probability vectors.

A row is a probability vector if its entries lie within `ENTRY_TOLERANCE` of [0, 1] and their sum
within a tolerance of 1. All decisions about scores use the `Survey` of this pass.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import partial
from itertools import chain
from operator import methodcaller
from typing import Any, NamedTuple

import numpy as np

from skcalib._arrays.device import DeviceBlocks
from skcalib._arrays.passes import LIGHT, READS, map_rows, merge_rows
from skcalib._arrays.rowwise import row_max, row_min, row_sums
from skcalib._arrays.smallest import Smallest, smallest_of_block
from skcalib._arrays.source import Source
from skcalib._arrays.tensors import rows_of
from skcalib._arrays.types import Bools, FloatArray

# Significant bits.
FLOAT32, FLOAT16, BFLOAT16 = 24, 11, 8
# Largest distance of a probability from [0, 1].
ENTRY_TOLERANCE = 1e-3
# Values further below 0 are negative logits, not rounding.
NEGATIVE = 1e-6
# Largest distance from 1 of the sum of a probability vector, with input="auto".
SUM_TOLERANCE = 1e-3 + 1e-6
# The same for bfloat16, whose largest entries have errors of up to 0.004.
SUM_TOLERANCE_BFLOAT16 = 8e-3 + 1e-6
# The same if the caller declared probabilities: they may be written with two or three decimals.
SUM_TOLERANCE_DECLARED = 1e-2 + 1e-6
# Steps of rounded probabilities: whole percentages, eight bits, three to five decimals.
STEPS = (1e-2, 1 / 255, 1 / 256, 1e-3, 1e-4, 1e-5)
# What each option adds to that where some were not offered, and the most of all.
OF_TWO_DECIMALS, MOST_OF_SUM = 5e-3, 0.5
# Farthest distance of a float32 or float64 probability from a multiple of its step.
STEP_ERROR = 2.0**-23
# Sums closer to 1 differ from it by the rounding of float32 or float64: such rows are not changed.
ROUNDING = 1e-5
# The same for float16.
ROUNDING_FLOAT16 = 1e-3
# Largest absolute logit: squares of sums of differences stay within float64.
FARTHEST = 1e30
# What to do about NaN, by the name of the argument.
NAN_WAYS = {
    "X": ". AutoCalibrator, TemperatureScaling and GroupwiseCalibrator read NaN in probabilities "
    "(no Dask array) as an option that was not offered.",
    "y_proba": ", or fill with 0: an option that was not offered has probability 0.",
}
# Rows that show whether values were converted from a shorter type.
SAMPLED_ROWS = 1000


class Survey(NamedTuple):
    """Result of one pass over scores.

    ``low`` and ``high`` bound the values; ``rows`` counts rows and
    ``proba_rows`` probability vectors; ``away`` is the largest error of a probability vector
    (distance of its sum from 1, or of an entry from [0, 1]); ``other`` is the first row that is
    not a probability vector, or None. ``smallest`` are the smallest numbers of the blocks, if they
    are wanted and all rows are probability vectors that need not be corrected. ``absent`` says
    that there is NaN, an option that was not offered; the rest is of the other numbers.
    """

    low: float
    high: float
    rows: int
    proba_rows: int
    away: float
    other: int | None
    smallest: list[Smallest] | None = None
    absent: bool = False

    @property
    def max_abs(self) -> float:
        """Upper bound on the absolute values."""
        return max(-self.low, self.high)

    @property
    def in_unit_interval(self) -> bool:
        """Whether all values lie in [0, 1]; below 0, only rounding is tolerated."""
        return self.low >= -NEGATIVE and self.high <= 1 + ENTRY_TOLERANCE

    @property
    def is_simplex(self) -> bool:
        """Whether every row is a probability vector (one column: every value in [0, 1])."""
        return self.other is None

    @property
    def is_mostly_simplex(self) -> bool:
        """Whether at least half of the rows, and at least two, are probability vectors."""
        return self.proba_rows > 1 and 2 * self.proba_rows >= self.rows

    @property
    def is_rounded(self) -> bool:
        """Whether probabilities have to be clipped, or divided by their row sums."""
        return self.low < 0 or self.high > 1 or self.away > ROUNDING


def survey_block(
    block: FloatArray,
    rows: range,
    name: str = "X",
    tolerance: float = SUM_TOLERANCE,
    exact: bool = True,
    smallest: bool = False,
    options: bool = False,
) -> Survey:
    """Refuse NaN, +inf, and rows whose every logit is -inf, in a block; survey the rest.

    One column may contain +inf, the logit of P = 1. Without `exact`, more rows of logits may count
    as probability vectors than are. `smallest` says that the smallest numbers are wanted, `options`
    that NaN in several columns is allowed.
    """
    single = block.shape[1] == 1
    low, high = float(block.min()), float(block.max())
    sums: Any = tolerance
    if absent := options and not single and bool(np.isnan(high)):
        block, sums = without_nan(block, rows, name, tolerance)
        low, high = float(block.min()), float(block.max())
    if not high < np.inf and not (single and high == np.inf):  # also true of NaN
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
            f"{name} contains logits beyond {FARTHEST:g} in absolute value; divide by a constant."
        )
    # An entry of a probability vector may be as large as the row's sum.
    most = 1 + (ENTRY_TOLERANCE if single else max(tolerance, ENTRY_TOLERANCE))
    if absent:
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
    return Survey(low, high, len(block), int(is_proba.sum()), away, other, absent=absent)


def without_nan(
    block: FloatArray, rows: range, name: str, tolerance: float
) -> tuple[FloatArray, FloatArray]:
    """Return 0 where an option was not offered, and the tolerance of the sum of each row."""
    offered = ~np.isnan(block)
    n_options = offered.sum(axis=1)
    if not n_options.all():
        first = rows.start + int(n_options.argmin())
        raise ValueError(f"{name} has no option at row {first} (all NaN): drop the row.")
    is_declared = tolerance == SUM_TOLERANCE_DECLARED
    sums = np.clip(OF_TWO_DECIMALS * n_options * is_declared, tolerance, MOST_OF_SUM)
    return np.where(offered, block, 0.0), sums


def _find_proba_rows(is_proba: Bools, block: FloatArray, tolerance: Any, most: Any) -> float:
    """Mark in `is_proba` which of its rows are probability vectors; return their largest error.

    If all are marked, `tolerance` and `most` may have an entry for each row.
    """
    near = block[is_proba].astype(np.float64)
    if not near.size:
        return 0.0
    low, high = row_min(near), row_max(near)
    outside = np.maximum(np.maximum(-low, high - 1.0), 0.0)
    inside = (low >= -ENTRY_TOLERANCE) & (high <= most)
    if block.shape[1] > 1:
        with np.errstate(invalid="ignore", over="ignore"):
            off = np.abs(row_sums(near) - 1.0)
        inside &= off <= tolerance
        outside = np.maximum(outside, off)
    is_proba[is_proba] = inside
    return float(outside[inside].max(initial=0.0))


def _may_be_proba(S: FloatArray, most: float) -> Bools:
    """Return which rows have both their first and their last entry in [0, `most`]: few."""
    low, first, last = -ENTRY_TOLERANCE, S[:, 0], S[:, -1]
    return (first >= low) & (first <= most) & (last >= low) & (last <= most)


def merge_surveys(surveys: Iterable[Survey]) -> Survey:
    """Merge the surveys of the blocks of scores, in any order."""
    parts = list(surveys)
    if len(parts) == 1:
        return parts[0]
    others = [part.other for part in parts if part.other is not None]
    smallest = [part.smallest for part in parts if part.smallest is not None]
    return Survey(
        min(part.low for part in parts),
        max(part.high for part in parts),
        sum(part.rows for part in parts),
        sum(part.proba_rows for part in parts),
        max(part.away for part in parts),
        min(others, default=None),
        list(chain.from_iterable(smallest)) if len(smallest) == len(parts) else None,
        any(part.absent for part in parts),
    )


def check_values(
    S: Source, name: str = "X", input: str = "auto", smallest: bool = False, options: bool = False
) -> Survey:
    """Refuse NaN, +inf, huge logits and rows of only -inf; return the survey of the scores.

    With ``input="proba"``, sums may differ more from 1. With `options`, NaN is allowed.
    """
    rows, options = range(S.shape[0]), options and S.remote is None
    survey = survey_rows(S, rows, name, sum_tolerance(input), smallest=smallest, options=options)
    unclear = input == "auto" and survey.other is not None and survey.in_unit_interval
    if unclear and has_short_mantissa(S, BFLOAT16):
        survey = survey_rows(S, rows, name, SUM_TOLERANCE_BFLOAT16, options=options)
    return survey


def step_of(S: Source, total: float = 1.0) -> float:
    """Return the largest of `STEPS` of which all numbers, divided by `total`, are multiples; or 0.

    Only some rows are read if their numbers are no such multiples, as most are not.
    """
    find = partial(steps_of_block, total=total)
    fit = find(S.read(slice(0, SAMPLED_ROWS)))
    if fit.any():
        fit = np.all(merge_rows(find, S, work=LIGHT), axis=0)
    return STEPS[fit.argmax()] if fit.any() else 0.0


def steps_of_block(block: FloatArray, total: float) -> Bools:
    """Return of which `STEPS` all numbers of a block, divided by `total`, are multiples."""
    shares = block.astype(np.float64) / total
    off = [np.abs(shares - step * np.rint(shares / step)).max() for step in STEPS]
    return np.array(off) <= STEP_ERROR  # False for NaN


def sum_tolerance(input: str) -> float:
    """Return the largest distance of the sum of a probability vector from 1."""
    return SUM_TOLERANCE_DECLARED if input == "proba" else SUM_TOLERANCE


def survey_rows(S: Source, rows: range, name: str, tolerance: float, **keywords: Any) -> Survey:
    """Survey scores whose rows have these numbers in messages; keywords of `survey_block`.

    Rounded probabilities may sum to 1 within half a step for each column.
    """
    blocks = S.on_device()
    survey = survey_on_device(S, blocks, tolerance) if blocks else None
    if survey is None:
        kernel = partial(survey_block, name=name, tolerance=tolerance, **keywords)
        survey = merge_rows(kernel, S, rows, merge=merge_surveys, work=LIGHT)
    unclear = survey.other is not None and survey.in_unit_interval and not survey.absent
    if unclear and S.shape[1] > 1:
        wider = min(MOST_OF_SUM, step_of(S) * S.shape[1] / 2) + 1e-6
        if wider > tolerance:
            return survey_rows(S, rows, name, wider, **keywords)
    return survey


def survey_on_device(S: Source, blocks: DeviceBlocks, tolerance: float) -> Survey | None:
    """Survey finite scores on a device; None if NumPy has to refuse them, or to read -inf."""
    extremes = merge_rows(methodcaller("aminmax"), blocks, work=READS)
    ends = np.array(blocks.fetch(tuple(chain(*extremes))))
    low, high = float(ends[::2].min()), float(ends[1::2].max())
    if not (low >= -FARTHEST and high <= FARTHEST):  # also true of NaN
        return None
    n, most = S.shape[0], 1 + max(tolerance, ENTRY_TOLERANCE)
    is_proba, rows = blocks.empty_rows(np.bool_), blocks
    within = low >= -ENTRY_TOLERANCE and high <= most
    inside = is_proba
    if not within:
        map_rows(partial(_may_be_proba, most=most), blocks, out=is_proba, work=READS)
        total, first = blocks.fetch((is_proba.sum(), is_proba.byte().argmin()))
        if 2 * total < n and tolerance < SUM_TOLERANCE_DECLARED:  # logits, whatever the exact total
            return Survey(low, high, n, int(total), 0.0, int(first))
        places = is_proba.nonzero()[:, 0]
        rows = blocks.computed(lambda rows: blocks.read(places[rows]), len(places))
        inside = rows.empty_rows(np.bool_)
    kernel = partial(inside_of_block, tolerance=tolerance, most=most, within=within)
    away = map_rows(kernel, rows, out=inside, work=READS if within else LIGHT)
    if not within:
        is_proba.masked_scatter_(is_proba.clone(), inside)
    total, first, *away = blocks.fetch((is_proba.sum(), is_proba.byte().argmin(), *away))
    away += [-low, high - 1] if within else [0.0]
    return Survey(low, high, n, int(total), max(away), None if total == n else int(first))


def inside_of_block(block: Any, tolerance: float, most: float, within: bool) -> tuple[Any, Any]:
    """Return which rows are probability vectors, and the largest error of these.

    With `within`, the errors of their entries are known to be small, and are left out.
    """
    r = rows_of(block)
    off = abs(r.row_sums(block) - 1)
    inside = off <= tolerance
    if not within:
        low, high = r.row_min(block), r.row_max(block)
        inside &= (low >= -ENTRY_TOLERANCE) & (high <= most)
        off = off.maximum(-low).maximum(high - 1)
    return inside, (inside * off).amax()


def has_short_mantissa(S: Source, bits: int) -> bool:
    """Whether float32 values have no more bits, as after a conversion from a shorter type."""
    if S.dtype != np.float32:
        return False
    values = np.ascontiguousarray(S.read(slice(0, SAMPLED_ROWS)))
    spare = np.uint32((1 << (FLOAT32 - bits)) - 1)
    return not (values.view(np.uint32) & spare).any()


def _not_a_number(block: FloatArray, start: int, name: str) -> str:
    i, j = np.argwhere(np.isnan(block) | np.isposinf(block))[0]
    what = "NaN" if np.isnan(block[i, j]) else "infinity"
    # One column has no options.
    way = NAN_WAYS.get(name, ".") if what == "NaN" and block.shape[1] > 1 else "."
    return (
        f"{name} contains {what} (first at row {start + i}, column {j}); drop or repair such "
        f"rows{way}"
    )


def first_flaw(S: Source, survey: Survey) -> str:
    """Describe the first row that is not a probability vector."""
    assert survey.other is not None
    row = S.read(slice(survey.other, survey.other + 1))[0]
    row = row[~np.isnan(row)]  # without options that were not offered
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
    return f"row {survey.other} {why}"
