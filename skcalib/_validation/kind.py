"""Whether scores are logits or probabilities, and their columns, one for each class."""

from __future__ import annotations

import warnings
from functools import partial
from typing import Any

import numpy as np

from skcalib._arrays.selection import clip_and_divide, sums_of_rows
from skcalib._arrays.source import ALL, Source, as_source
from skcalib._arrays.tensors import rows_of
from skcalib._arrays.types import Float64Array, FloatArray, Intp, Kind
from skcalib._validation.column_order import are_unlike_scores
from skcalib._validation.survey import (
    FLOAT16,
    ROUNDING,
    ROUNDING_FLOAT16,
    STEPS,
    SUM_TOLERANCE,
    Survey,
    first_flaw,
    has_short_mantissa,
    step_of,
)

# Non-negative rows whose sums have a smaller relative range may be percentages or counts.
SAME_SUM = 1e-2
# A single column of at least 20 values, 95 % of them in [0, 1], may be probabilities with errors.
ODD_ROWS, ODD_SHARE = 20, 0.05


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
        same = most - sums.min() <= SAME_SUM * most
        off = np.abs(sums - 100).max()
        if same or off <= min(50, 50 * S.shape[1] * step_of(S, 100.0)):
            raise ValueError(
                f"{name}: no value is negative and every row sums to {most if same else 100:.6g}: "
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
    return "logits"


def check_kind(S: Source, survey: Survey, kind: Kind, certain: bool, name: str = "X") -> None:
    """Refuse scores of another kind than those seen in fit.

    A single row or column of logits may be a probability vector by chance. So a calibrator for
    logits refuses a batch only if at least half of its rows, and at least two, are probability
    vectors, and if not all rows seen in fit were (`certain`).
    """
    if kind == "proba":
        if not survey.is_simplex:
            by_scaling = " (of scores that were scaled, by MinMaxScaler(clip=True))"
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


def refuse_labels(given: Any, S: Source, kind: Kind = "proba", name: str = "X") -> None:
    """Refuse integers and booleans as probabilities in one column: ``predict`` returns such."""
    if S.shape[1] > 1 or kind == "logits":
        return
    dtype = given.dtype if hasattr(given, "dtype") else np.asarray(given).dtype
    type_name = str(dtype).lower()
    if "int" in type_name or "bool" in type_name:
        raise ValueError(
            f"{name} is one column of {type_name} values: these are labels; pass probabilities, "
            "predict_proba(X)[:, 1], or percentages divided by 100."
        )


def refuse_features(
    S: Source, survey: Survey, code: Intp, w: Float64Array, input: str, are_named: bool
) -> None:
    """Refuse features and counts in place of logits.

    Features are many rows of columns that no one has named, of which at most half have a label, or
    not all if they are unlike scores. Counts are many rows of whole numbers, none of them negative,
    in several columns.
    """
    n, K = S.shape
    if not are_named and 3 <= K <= n / 5:
        n_labels = int((rows_of(code).totals(code, None, K) > 0).sum())
        absent = K - n_labels
        if absent >= n_labels or (absent and are_unlike_scores(S, code, w)):
            raise ValueError(
                f"X has {K:,} columns for {n_labels:,} label{'s' * (n_labels > 1)} of y: are these "
                "features? Pass scores, a column for each class, or classes= if "
                f"{absent:,} class{'es have' if absent > 1 else ' has'} no row."
            )
    undecided = input == "auto" and survey.low >= 0
    if undecided and K > 1 and n >= ODD_ROWS and step_of(S, 100.0) == STEPS[0]:
        raise ValueError(
            "X: all values are whole numbers and none is negative: counts, percentages or logits? "
            "Divide each row by its sum, or pass input='logits' if these are logits."
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
        ROUNDING_FLOAT16 if survey.away > ROUNDING and has_short_mantissa(S, FLOAT16) else ROUNDING
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
