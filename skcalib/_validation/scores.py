"""Checks of scores: their values, and whether they are logits or probabilities.

A row is a probability vector if its entries lie within `ENTRY_TOLERANCE` of [0, 1] and their sum
within a tolerance of 1. One pass over the scores makes a `Survey`, which counts such rows; all
decisions use the survey.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from itertools import chain
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.utils import check_array

from skcalib._arrays.device import DeviceBlocks
from skcalib._arrays.passes import LIGHT, map_rows, merge_rows
from skcalib._arrays.rowwise import row_max, row_min, row_sums
from skcalib._arrays.selection import Selection, clip_and_divide, sums_of_rows
from skcalib._arrays.smallest import Smallest, smallest_of_block
from skcalib._arrays.source import ALL, Source, as_source, to_array
from skcalib._arrays.tensors import (
    TensorSource,
    array_of_tensor,
    is_tensor,
    needs_blocks,
    refuse_without_numbers,
    rows_of,
)
from skcalib._arrays.types import Float64Array, FloatArray, Intp, Kind
from skcalib._validation.frames import read_frame
from skcalib._validation.lazy import refuse_lazy

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
# What each option adds to that where some were not offered, and the most of all.
OF_TWO_DECIMALS, MOST_OF_SUM = 5e-3, 0.5
# Sums closer to 1 differ from it by the rounding of float32 or float64: such rows are not changed.
ROUNDING = 1e-5
# The same for float16.
ROUNDING_FLOAT16 = 1e-3
# Non-negative rows whose sums have a smaller relative range may be percentages or counts.
SAME_SUM = 1e-2
# A single column of at least 20 values, 95 % of them in [0, 1], may be probabilities with errors.
ODD_ROWS, ODD_SHARE = 20, 0.05
# Largest absolute logit: squares of sums of differences stay within float64.
FARTHEST = 1e30
# Most columns beside NaN.
MOST_OPTIONS = 1000
# What to do about NaN, by the name of the argument.
NAN_WAYS = {
    "X": ". AutoCalibrator, TemperatureScaling and GroupwiseCalibrator read NaN in probabilities "
    "(no Dask array) as an option that was not offered.",
    "y_proba": ", or fill with 0: an option that was not offered has probability 0.",
}


def check_axes(X: Any, name: str = "X") -> None:
    """Refuse more than two axes, such as (batch, class, position)."""
    shape = getattr(X, "shape", ())
    if isinstance(shape, tuple) and len(shape) > 2:
        shape = tuple(shape)
        rows = "reshape(-1, {})"
        move = f"{name}.movedim(1, -1)" if is_tensor(X) else f"numpy.moveaxis({name}, 1, -1)"
        raise ValueError(
            f"{name} has shape {shape}: pass a row for each position, {move}."
            f"{rows.format(shape[1])} if axis 1 is the class, {name}.{rows.format(shape[-1])} if "
            "the last axis is, with y.reshape(-1)."
        )


def as_matrix(X: ArrayLike, name: str = "X") -> FloatArray:
    """Return `X` as a non-empty 2-D array of float32 or float64; 1-D becomes one column."""
    if X is None or np.isscalar(X) or getattr(X, "ndim", None) == 0:
        raise ValueError(
            f"Expected 2D array, got {'None' if X is None else 'scalar array'} instead: {name} "
            "must be (n, K) scores or (n,) scores of the second class. Reshape your data."
        )
    # Return arrays at once: the checks for frames take as long as an ECE of a few thousand rows.
    if type(X) is np.ndarray and X.dtype in (np.float64, np.float32) and X.ndim == 2 and X.size:
        return X
    check_axes(X, name)
    X = read_frame(from_tensor(name, X), name)
    with naming_errors_of(name, X, "pass (n, K) or (n,) numbers"):
        # Frames of pandas and sparse matrices have no cheap array; scikit-learn knows them.
        if not (hasattr(X, "iloc") or hasattr(X, "tocsr") or isinstance(X, np.matrix)):
            X = np.asarray(X)
            check_axes(X, name)
        types = np.atleast_1d(np.asarray(getattr(X, "dtypes", getattr(X, "dtype", None))))
        if any(getattr(dtype, "kind", None) in ("m", "M") for dtype in types):
            raise TypeError("dates and time differences are not scores")
        half = types.size == 1 and getattr(types[0], "name", "") in ("float16", "bfloat16")
        array = check_array(
            X,
            dtype=[np.float32] if half else [np.float64, np.float32],
            ensure_2d=False,
            ensure_all_finite=False,
            input_name=name,
        )
    return array[:, None] if array.ndim == 1 else array


def read_scores(X: ArrayLike | Source, name: str = "X") -> Source:
    """Return `X` as a source of float32 or float64; a source is returned as it is."""
    if isinstance(X, Source):
        return X
    if is_tensor(X):
        refuse_without_numbers(name, X)  # first: nested tensors have no shape
        check_axes(X, name)
        if needs_blocks(X):
            return TensorSource(X)
    return as_source(as_matrix(X, name))


def from_tensor(name: str, x: Any) -> Any:
    """Return the numbers of a tensor as an array; return anything else as it is."""
    if not is_tensor(x):
        return x
    refuse_without_numbers(name, x)
    return array_of_tensor(x)


# What `cv` may be, for errors of any splitter.
WAYS_TO_FOLD = "pass a number of folds, a splitter or (train, test) rows"


@contextmanager
def naming_errors_of(name: str, given: Any, advice: str) -> Iterator[None]:
    """Raise errors of a conversion to an array as one line: argument, cause, advice."""
    refuse_lazy(name, given)
    if np.ma.is_masked(given):
        raise ValueError(f"{name} has masked entries; drop or fill such rows.")
    try:
        # Numbers beyond float64 become infinite; a later check refuses them and names the row.
        with np.errstate(over="ignore"):
            yield
    except (TypeError, ValueError, OverflowError, RuntimeError) as error:
        line = (str(error).strip() or type(error).__name__).splitlines()[0].rstrip(" .:")
        kind = TypeError if isinstance(error, TypeError) else ValueError
        raise kind(f"{name}: {line}; {advice}.") from error


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
    if options and not single and np.isnan(high):
        return survey_options(block, rows, name, tolerance)
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
    if low >= -ENTRY_TOLERANCE and high <= most:
        off = np.zeros(len(block)) if single else np.abs(np.einsum("ij->i", block) - 1.0)
        farthest = float(off.max())
        if farthest <= tolerance:
            away = max(farthest, -low, high - 1.0)
            survey = Survey(low, high, len(block), len(block), away, None)
            if smallest and not (single or survey.is_rounded):
                survey = survey._replace(smallest=[smallest_of_block(block)])
            return survey
        is_proba = off <= tolerance
        away = max(float(off[is_proba].max(initial=0.0)), -low, high - 1.0)
    else:
        is_proba, away = _may_be_proba(block, most), 0.0
        if exact:
            away = _find_proba_rows(is_proba, block, tolerance, most)
    other = None if is_proba.all() else rows.start + int(is_proba.argmin())
    return Survey(low, high, len(block), int(is_proba.sum()), away, other)


def survey_options(block: FloatArray, rows: range, name: str, tolerance: float) -> Survey:
    """Survey a block with NaN where an option was not offered."""
    n_options = (~np.isnan(block)).sum(axis=1)
    if not n_options.all():
        first = rows.start + int(n_options.argmin())
        raise ValueError(f"{name} has no option at row {first} (all NaN): drop the row.")
    P = np.where(np.isnan(block), 0.0, block)
    if P.max() == np.inf:
        raise ValueError(_not_a_number(block, rows.start, name))
    with np.errstate(invalid="ignore", over="ignore"):
        off = np.abs(row_sums(P.astype(np.float64)) - 1.0)
    low, high, most = row_min(P), row_max(P), np.full(len(P), tolerance)
    if tolerance == SUM_TOLERANCE_DECLARED:
        most = np.clip(OF_TWO_DECIMALS * n_options, tolerance, MOST_OF_SUM)
    is_proba = (off <= most) & (low >= -ENTRY_TOLERANCE) & (high <= 1 + most)
    away = np.maximum(off, np.maximum(-low, high - 1.0))[is_proba].max(initial=0.0)
    other = None if is_proba.all() else rows.start + int(is_proba.argmin())
    n_proba = int(is_proba.sum())
    return Survey(
        float(low.min()), float(high.max()), len(P), n_proba, float(away), other, absent=True
    )


def _find_proba_rows(
    is_proba: NDArray[np.bool_], block: FloatArray, tolerance: float, most: float
) -> float:
    """Mark in `is_proba` which of its rows are probability vectors; return their largest error."""
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


def _may_be_proba(S: FloatArray, most: float) -> NDArray[np.bool_]:
    """Return which rows have both their first and their last entry in [0, `most`]: few."""
    low, first, last = -ENTRY_TOLERANCE, S[:, 0], S[:, -1]
    return (first >= low) & (first <= most) & (last >= low) & (last <= most)


def merge_surveys(surveys: Iterable[Survey]) -> Survey:
    """Merge the surveys of the blocks of scores, in any order."""
    each = list(surveys)
    others = [part.other for part in each if part.other is not None]
    smallest = [part.smallest for part in each if part.smallest is not None]
    return Survey(
        min(part.low for part in each),
        max(part.high for part in each),
        sum(part.rows for part in each),
        sum(part.proba_rows for part in each),
        max(part.away for part in each),
        min(others, default=None),
        list(chain.from_iterable(smallest)) if len(smallest) == len(each) else None,
        any(part.absent for part in each),
    )


def check_values(
    S: Source,
    name: str = "X",
    input: str = "auto",
    smallest: bool = False,
    options: bool = False,
) -> Survey:
    """Refuse NaN, +inf, huge logits and rows of only -inf; return the survey of the scores.

    With ``input="proba"``, sums may differ more from 1. With `options`, NaN is allowed.
    """
    rows, options = range(S.shape[0]), options and S.remote is None
    survey = survey_rows(S, rows, name, sum_tolerance(input), smallest, options)
    unclear = input == "auto" and survey.other is not None and survey.in_unit_interval
    if unclear and _has_short_mantissa(S, BFLOAT16):
        survey = survey_rows(S, rows, name, SUM_TOLERANCE_BFLOAT16, options=options)
    return survey


def refuse_nan(S: Source, survey: Survey, input: str, names: Sequence[Any]) -> None:
    """Refuse NaN in scores that are not probabilities; `names` are those of the columns."""
    if not survey.absent:
        return
    if S.shape[1] > MOST_OPTIONS:
        raise ValueError(
            f"X has {S.shape[1]:,} columns and NaN: options whose text changes from row to row "
            "have no column of their own; pass them by position, a row's first option in column 0."
        )
    if survey.is_simplex and input != "logits":
        return
    where = survey.other
    if where is None:
        where = int(np.isnan(to_array(S)).any(axis=1).argmax())
    row = S.read(slice(where, where + 1))[0]
    if not np.isnan(row).any():
        raise ValueError(
            "X contains NaN, an option that was not offered, which is allowed in probabilities, "
            f"but {first_flaw(S, survey)}."
        )
    j, total = int(np.isnan(row).argmax()), float(np.nansum(row, dtype=np.float64))
    rounded = input == "auto" and abs(total - 1.0) <= SUM_TOLERANCE_DECLARED
    raise ValueError(
        f"X contains NaN at row {where}, column {names[j]!r}: an "
        "option that was not offered is allowed in probabilities, whose other entries sum to 1; "
        f"these sum to {total:.6g}{': pass input=' + repr('proba') if rounded else ''}."
    )


def sum_tolerance(input: str) -> float:
    """Return the largest distance of the sum of a probability vector from 1."""
    return SUM_TOLERANCE_DECLARED if input == "proba" else SUM_TOLERANCE


def survey_rows(
    S: Source,
    rows: range,
    name: str,
    tolerance: float,
    smallest: bool = False,
    options: bool = False,
) -> Survey:
    """Survey scores whose rows have these numbers in messages."""
    blocks = S.on_device()
    survey = None if blocks is None else survey_on_device(S, blocks, tolerance)
    if survey is not None:
        return survey
    kernel = partial(
        survey_block, name=name, tolerance=tolerance, smallest=smallest, options=options
    )
    return merge_rows(kernel, S, rows, merge=merge_surveys, work=LIGHT, nested=True)


def survey_on_device(S: Source, blocks: DeviceBlocks, tolerance: float) -> Survey | None:
    """Survey finite scores on a device; None if NumPy has to refuse them, or to read -inf."""
    ends = np.array(blocks.fetch(tuple(chain(*merge_rows(extremes_of_block, blocks)))))
    low, high = float(ends[::2].min()), float(ends[1::2].max())
    if not (low >= -FARTHEST and high <= FARTHEST):  # also true of NaN
        return None
    n, most = S.shape[0], 1 + max(tolerance, ENTRY_TOLERANCE)
    is_proba, rows = np.ones(n, dtype=bool), S
    if low < -ENTRY_TOLERANCE or high > most:
        map_rows(partial(_may_be_proba, most=most), blocks, out=is_proba)
        rows = Selection(S, np.flatnonzero(is_proba))
    error = np.zeros((3, rows.shape[0]))
    if error.size:
        map_rows(errors_of_block, blocks if rows is S else rows.on_device(), out=tuple(error))
    off, below, above = error
    inside = (off <= tolerance) & (below <= ENTRY_TOLERANCE) & (1 + above <= most)
    is_proba[is_proba] = inside
    away = float(error[:, inside].max(initial=0.0))
    other = None if is_proba.all() else int(is_proba.argmin())
    return Survey(low, high, n, int(is_proba.sum()), away, other)


def extremes_of_block(block: Any) -> tuple[Any, Any]:
    """Return the smallest and the largest entry of a tensor, NaN if there is one."""
    low, high = block.aminmax()
    return low, high


def errors_of_block(block: Any) -> tuple[Any, Any, Any]:
    """Return how far row sums are from 1, the least entries below 0, and the largest above 1."""
    r = rows_of(block)
    return abs(r.row_sums(block) - 1), -r.row_min(block), r.row_max(block) - 1


# Rows that show whether values were converted from a shorter type.
SAMPLED_ROWS = 1000


def _has_short_mantissa(S: Source, bits: int) -> bool:
    """Whether float32 values have no more bits, as after a conversion from a shorter type."""
    if S.dtype != np.float32:
        return False
    values = np.ascontiguousarray(S.read(slice(0, SAMPLED_ROWS)))
    spare = np.uint32((1 << (FLOAT32 - bits)) - 1)
    return not (values.view(np.uint32) & spare).any()


def _not_a_number(block: FloatArray, start: int, name: str) -> str:
    i, j = np.argwhere(np.isnan(block) | np.isposinf(block))[0]
    what, way = ("NaN", NAN_WAYS.get(name, ".")) if np.isnan(block[i, j]) else ("infinity", ".")
    return (
        f"{name} contains {what} (first at row {start + i}, column {j}); drop or repair such "
        f"rows{way}"
    )


def first_flaw(S: Source, survey: Survey) -> str:
    """Describe the first row that is not a probability vector."""
    assert survey.other is not None
    row = S.read(slice(survey.other, survey.other + 1))[0]
    outside = ~((row >= -ENTRY_TOLERANCE) & (row <= 1 + ENTRY_TOLERANCE))
    if outside.any():
        why = f"contains {row[outside][0]:.6g}, outside [0, 1]"
    else:
        total = row.sum(dtype=np.float64)
        why = f"sums to {total:.6g}, not 1"
        if _has_short_mantissa(S, BFLOAT16):
            why += (
                ": bfloat16 rounds probabilities to 3 digits, so pass logits, or "
                "softmax(..., dtype=torch.float32)"
            )
        elif total < 1 - SUM_TOLERANCE_DECLARED:
            why += " (is a column missing?)"
    return f"row {survey.other} {why}"


def resolve_kind(S: Source, survey: Survey, input: str, name: str = "X") -> Kind:
    """Decide whether checked scores are logits or probabilities.

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
    flaw = partial(first_flaw, S, survey)  # only errors read that row again
    if input == "proba":
        raise ValueError(
            f"{name}: {flaw()}, but input='proba' was given; pass probabilities whose rows sum to "
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
        if most - sums.min() <= SAME_SUM * most:
            raise ValueError(
                f"{name}: no value is negative and every row sums to {most:.6g}: percentages, "
                "counts or logits? Divide each row by its sum if these are percentages or counts; "
                "pass input='logits' if these are logits."
            )
    if single and survey.low >= 0:
        most, what = (10, "ratings") if survey.high <= 10 else (100, "percentages")
        raise ValueError(
            f"{name}: all values of the column are between {survey.low:.6g} and "
            f"{survey.high:.6g}: {what} or logits? Divide by the largest possible value, such as "
            f"{most}, if these are {what}; pass input='logits' if these are logits."
        )
    return "logits"


class Options(NamedTuple):
    """What rows of logits say of -inf.

    ``away`` is the largest distance from 1 of the sum of a row's exponentials, ``absent`` the first
    row that counts and whose true class has a logit of -inf, or None.
    """

    away: float
    absent: int | None


def options_of_block(block: FloatArray, code: Intp, w: Float64Array, rows: range) -> Options:
    """Return the `Options` of a block of logits; an entry of NaN is absent, too."""
    with np.errstate(over="ignore"):
        away = np.abs(row_sums(np.exp(block, dtype=np.float64)) - 1.0).max()
    true = block[np.arange(code.size), code]
    absent = np.flatnonzero(~(true > -np.inf) & (w > 0))
    return Options(float(away), rows.start + int(absent[0]) if absent.size else None)


def merge_options(parts: Iterable[Options]) -> Options:
    """Merge the `Options` of blocks."""
    each = list(parts)
    absent = [part.absent for part in each if part.absent is not None]
    return Options(max(part.away for part in each), min(absent, default=None))


def options_of(S: Source, code: Intp, w: Float64Array) -> Options:
    """Return the `Options` of all rows."""
    rows = range(S.shape[0])
    return merge_rows(
        options_of_block, S, code, w, rows, merge=merge_options, work=LIGHT, nested=True
    )


def refuse_absent(options: Options, code: Intp, classes: NDArray[Any], what: str) -> None:
    """Refuse a label that was not offered; its entry of X is `what`."""
    if options.absent is not None:
        label = classes.tolist()[code[options.absent]]
        raise ValueError(
            f"y: the label of row {options.absent}, {label!r}, was not offered there ({what}): "
            "correct the label or X, or drop the row."
        )


def read_options(S: Source, survey: Survey, code: Intp, w: Float64Array) -> Options | None:
    """Return the `Options` of logits of several columns in which -inf means "not offered".

    None if every row is a log-probability vector, where -inf is the logarithm of 0. Logits without
    -inf are read for that only if none is above 0 and the first row is such a vector.
    """
    found = Options(np.inf, None)
    few = slice(0, 1)
    if survey.low == -np.inf or (
        survey.high <= SUM_TOLERANCE_BFLOAT16
        and options_of_block(S.read(few), code[few], w[few], range(1)).away < 0.5
    ):
        found = options_of(S, code, w)
    if found.away <= SUM_TOLERANCE:
        return None
    near = found.away <= SUM_TOLERANCE_BFLOAT16
    return None if near and _has_short_mantissa(S, BFLOAT16) else found


def refuse_labels(given: Any, S: Source, kind: Kind = "proba", name: str = "X") -> None:
    """Refuse integers and booleans as probabilities in one column: ``predict`` returns such."""
    if S.shape[1] > 1 or kind == "logits":
        return
    dtype = given.dtype if hasattr(given, "dtype") else np.asarray(given).dtype
    type_name = str(dtype).lower()
    if "int" in type_name or "bool" in type_name:
        raise ValueError(
            f"{name} is one column of {type_name} values: these are labels; pass probabilities, "
            "predict_proba(X)[:, 1]."
        )


def refuse_features(code: Intp, shape: tuple[int, int], kind: Kind) -> None:
    """Refuse many rows of logits of which at most half of the columns have a label."""
    n, K = shape
    if kind != "logits" or K < 3 or n < 5 * K:
        return
    n_labels = int((np.bincount(code) > 0).sum())
    if 2 * n_labels <= K:
        raise ValueError(
            f"X has {K:,} columns for {n_labels:,} label{'s' * (n_labels > 1)} of y: are these "
            "features? Pass scores, a column for each class, or classes= if "
            f"{K - n_labels:,} classes have no row."
        )


def check_kind(S: Source, survey: Survey, kind: Kind, certain: bool, name: str = "X") -> None:
    """Refuse scores of another kind than those seen in fit.

    A single row or column of logits may be a probability vector by chance. So a calibrator for
    logits refuses a batch only if at least half of its rows, and at least two, are probability
    vectors, and if not all rows seen in fit were (`certain`).
    """
    if kind == "proba":
        if not survey.is_simplex:
            scaled = ""
            if S.shape[1] == 1:
                scaled = " (of scores that were scaled, by MinMaxScaler(clip=True))"
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


def two_columns(S: FloatArray, kind: Kind) -> FloatArray:
    """Turn one column into two: ``(0, f)`` for a binary logit, ``(1 - p, p)`` for P(second).

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
    """Return a column for each class; clip probabilities to [0, 1] and normalise their rows.

    Rows whose sums differ from 1 by rounding are not changed. Differences above 0.001 give one
    warning, and of one column that was not declared (``input="proba"``) smaller ones too.
    """
    if kind == "logits" or not survey.is_rounded:
        return _two_columns(S, kind)
    rounding = (
        ROUNDING_FLOAT16 if survey.away > ROUNDING and _has_short_mantissa(S, FLOAT16) else ROUNDING
    )
    is_quiet = S.shape[1] > 1 or input == "proba"
    if survey.away > (max(rounding, SUM_TOLERANCE) if is_quiet else rounding):
        what = "values lie outside [0, 1]" if S.shape[1] == 1 else "rows do not sum to 1"
        done = "clipped" if S.shape[1] == 1 else "divided by their sums"
        warnings.warn(
            f"{name}: {what}, by up to {survey.away:.2g}; they were {done}.",
            UserWarning,
            stacklevel=3,
        )
    return _two_columns(clip_and_divide(S, S.shape[1] > 1 and survey.away > rounding), kind)


def _two_columns(S: Source, kind: Kind) -> Source:
    return S if S.shape[1] > 1 else as_source(two_columns(S.read(ALL), kind))
