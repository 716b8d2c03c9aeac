"""Options that were not offered in a row: NaN among probabilities, -inf among logits."""

from __future__ import annotations

from typing import Any

import numpy as np

from skcalib._arrays.passes import LIGHT, map_rows
from skcalib._arrays.rowwise import row_sums
from skcalib._arrays.source import Source, to_array
from skcalib._arrays.tensors import on_host
from skcalib._arrays.types import Bools, Float64Array, FloatArray, Intp
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


def options_of_block(block: FloatArray, code: Intp) -> tuple[Float64Array, Bools]:
    """Return how far the sum of each row's exponentials is from 1, and whether its label is absent.

    That is a label whose entry is -inf or NaN.
    """
    with np.errstate(over="ignore"):
        away = np.abs(row_sums(np.exp(block, dtype=np.float64)) - 1.0)
    return away, ~(block[np.arange(code.size), code] > -np.inf)


def read_options(
    S: Source, survey: Survey, code: Intp, takes: bool, before: bool | None
) -> tuple[bool, Bools]:
    """Return whether NaN, or a logit of -inf, is an option that was not offered; absent labels.

    It is not where the exponentials of every row of logits sum to 1: -inf is the logarithm of 0.
    `takes` says whether the calibrator knows options, `before` what an earlier batch has decided.
    """
    away, absent = np.empty(S.shape[0]), np.zeros(S.shape[0], dtype=bool)
    may_be_logs = takes and survey.high <= SUM_TOLERANCE_BFLOAT16
    if not (survey.absent or survey.low == -np.inf or may_be_logs):
        return takes, absent
    map_rows(options_of_block, S, on_host(code), out=(away, absent), work=LIGHT)
    is_short = away.max() > SUM_TOLERANCE and has_short_mantissa(S, BFLOAT16)
    if away.max() <= (SUM_TOLERANCE_BFLOAT16 if is_short else SUM_TOLERANCE):
        return before is True, np.zeros_like(absent)
    return True, absent


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
    names = np.asarray(names).tolist()
    if not np.isnan(row).any():
        i, j = np.argwhere(np.isnan(to_array(S)))[0]
        raise ValueError(
            f"X contains NaN (first at row {i}, column {names[j]!r}); drop or repair such rows. In "
            f"probabilities it is an option that was not offered, but {first_flaw(S, survey)}."
        )
    name = names[np.isnan(row).argmax()]
    total = float(np.nansum(row, dtype=np.float64))
    rounded = input != "proba" and abs(total - 1.0) <= SUM_TOLERANCE_DECLARED
    raise ValueError(
        f"X contains NaN at row {where}, column {name!r}: an option that was not offered is "
        "allowed in probabilities, whose other entries sum to 1; these sum to "
        f"{total:.6g}{': pass input=' + repr('proba') if rounded else ''}."
    )
