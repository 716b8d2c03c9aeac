"""Options that were not offered in a row: NaN among probabilities, -inf among logits."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from skcalib._arrays.passes import LIGHT, merge_rows
from skcalib._arrays.rowwise import row_sums
from skcalib._arrays.source import Source, to_array
from skcalib._arrays.tensors import on_host
from skcalib._arrays.types import Float64Array, FloatArray, Intp
from skcalib._validation.survey import (
    BFLOAT16,
    SUM_TOLERANCE,
    SUM_TOLERANCE_BFLOAT16,
    SUM_TOLERANCE_DECLARED,
    Survey,
    first_flaw,
    has_short_mantissa,
)

# Most columns beside NaN.
MOST_OPTIONS = 1000


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


def merge_options(blocks: Iterable[Options]) -> Options:
    """Merge the `Options` of blocks."""
    parts = list(blocks)
    absent = [part.absent for part in parts if part.absent is not None]
    return Options(max(part.away for part in parts), min(absent, default=None))


def options_of(S: Source, code: Intp, w: Float64Array) -> Options:
    """Return the `Options` of all rows."""
    per_row = on_host(code), on_host(w), range(S.shape[0])
    return merge_rows(options_of_block, S, *per_row, merge=merge_options, work=LIGHT, nested=True)


def read_options(S: Source, survey: Survey, code: Intp, w: Float64Array) -> Options | None:
    """Return the `Options` of logits of several columns in which -inf means "not offered".

    None if every row is a log-probability vector, where -inf is the logarithm of 0. Logits without
    -inf are read for that only if none is above 0 and the first row is such a vector.
    """
    options = Options(np.inf, None)
    few = slice(0, 1)
    if survey.low == -np.inf or (
        survey.high <= SUM_TOLERANCE_BFLOAT16
        and options_of_block(S.read(few), on_host(code[few]), on_host(w[few]), range(1)).away < 0.5
    ):
        options = options_of(S, code, w)
    if options.away <= SUM_TOLERANCE:
        return None
    near = options.away <= SUM_TOLERANCE_BFLOAT16
    return None if near and has_short_mantissa(S, BFLOAT16) else options


def refuse_nan(S: Source, survey: Survey, input: str, names: Any) -> None:
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
    name = np.asarray(names).tolist()[np.isnan(row).argmax()]
    total = float(np.nansum(row, dtype=np.float64))
    rounded = input != "proba" and abs(total - 1.0) <= SUM_TOLERANCE_DECLARED
    raise ValueError(
        f"X contains NaN at row {where}, column {name!r}: an option that was not offered is "
        "allowed in probabilities, whose other entries sum to 1; these sum to "
        f"{total:.6g}{': pass input=' + repr('proba') if rounded else ''}."
    )


def refuse_absent(
    options: Options, code: Intp, classes: NDArray[Any], what: str, rows: Intp | None
) -> None:
    """Refuse a label that was not offered; its entry of X is `what`.

    `rows` are the numbers of the rows of X, None if these are all, one by one.
    """
    at = options.absent
    if at is not None:
        label, row = classes.tolist()[code[at]], at if rows is None else rows[at]
        raise ValueError(
            f"y: the label of row {row}, {label!r}, was not offered there ({what}): correct "
            "the label or X, or drop the row."
        )
