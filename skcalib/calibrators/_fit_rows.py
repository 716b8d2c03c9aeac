"""The rows of a fit: scores, labels and weights, checked together."""

from __future__ import annotations

import warnings
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

from numpy.typing import ArrayLike

from skcalib._arrays.selection import take_rows
from skcalib._arrays.source import Source, as_source, to_array
from skcalib._arrays.tensors import on_host, rows_of
from skcalib._arrays.types import Float64Array, Intp
from skcalib._scores.scores import Scores
from skcalib._validation.absent import ignore_label
from skcalib._validation.column_order import warn_of_order
from skcalib._validation.kind import as_columns, refuse_features, refuse_labels, resolve_kind
from skcalib._validation.labels import binary_classes, check_sorted, encode_labels
from skcalib._validation.named_columns import check_event_name
from skcalib._validation.options import read_options, refuse_nan
from skcalib._validation.remote import read_remote
from skcalib._validation.rows import open_rows
from skcalib._validation.shares import refuse_soft, split_shares
from skcalib._validation.survey import Survey, check_values
from skcalib._validation.weights import check_weight, drop_zero_weight

if TYPE_CHECKING:
    from skcalib.calibrators._base import ScoreCalibrator

# What supports soft hits.
SUPPORTED = """two columns of X with np.column_stack([1 - y, y]), or PlattScaling, BetaCalibrator, \
IsotonicCalibrator or HistogramBinning with even bins"""
# What to do about one column that is named by the first of two classes.
OTHER_EVENT = "pass 1 - X (probabilities) or -X (logits), with another name or none"


class CheckedRows(NamedTuple):
    """Checked rows; of what was `given`, a frame or `source`, the columns and values are known."""

    scores: Scores
    code: Intp
    w: Float64Array
    given: Any
    source: Source
    survey: Survey

    def fitted(self) -> dict[str, Any]:
        """Return the fitted attributes that rows alone determine."""
        kind, n_classes = self.scores.kind, self.scores.classes.size
        return {
            "input_": kind,
            "classes_": self.scores.classes,
            "class_count_": on_host(rows_of(self.code).totals(self.code, self.w, n_classes)),
            # If the user declared logits and all rows sum to 1, such rows are logits in prediction.
            "_refuses_simplex": kind == "logits" and not self.survey.is_simplex,
            "_options": self.scores.options,
        }


def check_rows(
    calibrator: ScoreCalibrator,
    X: ArrayLike,
    y: ArrayLike,
    sample_weight: ArrayLike | None,
    input: str,
    classes: ArrayLike | None,
    ignore_index: Any = None,
    options_before: bool | None = None,
    scaled: bool = True,
) -> CheckedRows:
    """Check scores, labels and weights; drop rows of weight 0 or of an ignored label."""
    X, y, sample_weight = read_remote(X, y, sample_weight)
    if ignore_index is not None:
        sample_weight = ignore_label(y, sample_weight, ignore_index)
    refuse = partial(refuse_soft, y_name="y", caller=type(calibrator).__name__, supported=SUPPORTED)
    refuse_soft_hits = None if calibrator._takes_soft_hits else refuse
    read = partial(open_rows, must_be_sorted=True, warn=True, ignore_index=ignore_index)
    read = partial(read, refuse_soft=refuse_soft_hits, on_device=calibrator._fits_on_device)
    given = read(X, y, sample_weight, classes)
    X, S, labels, classes = given.X, given.scores, given.labels, given.classes
    survey = check_values(S, "X", input, calibrator._takes_logs, calibrator._takes_options)
    refuse_nan(S, survey, input, getattr(X, "columns", range(S.shape[1])))
    if survey.absent:
        S = as_source(to_array(S))
    kind = resolve_kind(S, survey, input)
    refuse_labels(X, S, kind)
    w = check_weight(sample_weight, S.shape[0], scaled=scaled, labels=labels, warn=scaled)
    columns = as_columns(S, survey, kind, input)
    if classes is None and S.shape[1] == 1:
        classes = binary_classes(labels)
    code, known = encode_labels(labels, columns.shape[1], classes, ignore="ignore_index")
    if kind == "logits":
        refuse_features(S, survey, code, w, input, classes is not None)
    check_sorted(known)
    if S.shape[1] == 1:
        check_event_name(X, known, 1, "X", OTHER_EVENT)
    rows = None
    if given.shares is not None:
        rows, code, w = split_shares(given.shares, w)
        columns, S = take_rows(columns, rows), take_rows(S, rows)
    options = survey.absent or (kind == "logits" and S.shape[1] > 1 and options_before is not False)
    if options:
        takes = calibrator._takes_options
        options, absent = read_options(S, survey, code, takes, options_before)
        if options and not takes:
            options = False
            warnings.warn(
                f"{type(calibrator).__name__}: X contains -inf: an option that was not offered? "
                "-inf is read as a small probability here; AutoCalibrator, TemperatureScaling and "
                "IdentityCalibrator return 0 for it.",
                UserWarning,
                stacklevel=3,
            )
        elif (lost := absent & on_host(w > 0)).any():
            at = lost.argmax()
            what = "NaN in X" if survey.absent else "its logit is -inf"
            raise ValueError(
                f"y: the label of row {at if rows is None else rows[at]}, "
                f"{known.tolist()[code[at]]!r}, was not offered there ({what}): correct the label "
                "or X, or drop the row."
            )
    columns, code, w = drop_zero_weight(columns, code, w)
    if columns is not S:
        survey = survey._replace(smallest=None)
    scores = Scores(columns, kind, known, survey.max_abs, options=options)
    if scores.device_logits() is None:  # NumPy computes them
        code, w = on_host(code), on_host(w)
    if given.by_position and not survey.absent:
        warn_of_order(columns, code, w, known)
    return CheckedRows(scores, code, w, X if hasattr(X, "columns") else S, S, survey)
