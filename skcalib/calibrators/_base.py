"""Base classes of calibrators, which check the scores and define `fit` and `predict_proba`."""

from __future__ import annotations

import warnings
from abc import abstractmethod
from collections.abc import Callable
from copy import copy
from dataclasses import dataclass
from functools import partial
from html import escape
from itertools import chain
from typing import Any, ClassVar, Literal, Self, TypeVar

import numpy as np
from numpy.typing import ArrayLike, DTypeLike, NDArray
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils import Tags
from sklearn.utils._param_validation import StrOptions
from sklearn.utils.validation import check_is_fitted, validate_data

from skcalib._arrays.dask import mapped
from skcalib._arrays.rowwise import (
    ROW_BLOCK_BYTES,
    Bools,
    Float64Array,
    FloatArray,
    Intp,
    Kind,
    block_order,
    column_blocks,
)
from skcalib._arrays.selection import take_rows
from skcalib._arrays.sources import ALL, ROWS, Source, Work, as_source, is_dask, map_rows, to_array
from skcalib._arrays.tensors import as_type_of, is_tensor, on_host, ops_for
from skcalib._maps.device import predict_on_device
from skcalib._maps.formulas import ColumnPlan, Constants, Plan, Value, fill_plan, predict, row
from skcalib._scaling.logistic import Logistic
from skcalib._scores.one_vs_rest import map_column_blocks
from skcalib._scores.scores import CLIP, Scores, clip_of_rows, find_clip, log_of_proba
from skcalib._validation.labels import (
    binary_classes,
    check_sorted,
    encode_labels,
    name_columns,
    refuse_soft,
    split_shares,
)
from skcalib._validation.named_columns import check_event_name
from skcalib._validation.rows import check_weight, convert_rows, drop_zero_weight
from skcalib._validation.scores import read_scores
from skcalib._validation.survey import (
    SUM_TOLERANCE,
    SUM_TOLERANCE_BFLOAT16,
    Survey,
    as_columns,
    check_kind,
    check_values,
    merge_surveys,
    read_options,
    refuse_features,
    refuse_labels,
    refuse_nan,
    resolve_kind,
    sum_tolerance,
    survey_block,
    two_columns,
    warn_of_order,
)

# Checks of the scores, labels and weights that are passed to `fit`.


Calibrator = TypeVar("Calibrator", bound="ScoreCalibrator")

# Ways to pass soft labels, for the error message of calibrators that do not accept soft labels.
SUPPORTED = """two columns of X with np.column_stack([1 - y, y]), or PlattScaling, BetaCalibrator, \
IsotonicCalibrator or HistogramBinning with even bins"""
# Advice for the error message about a single column of scores that has the name of the first class,
# although it has to contain the scores of the second class.
OTHER_EVENT = "pass 1 - X (probabilities) or -X (logits), with another name or none"


@dataclass(frozen=True)
class CheckedRows:
    """Scores, labels and weights that passed the checks of `fit`, with a summary of the scores."""

    scores: Scores
    code: Intp
    w: Float64Array
    X: Any
    source: Source
    survey: Survey

    def fitted(self, takes_logs: bool = False) -> dict[str, Any]:
        """Return the fitted attributes that all calibrators have, by name.

        With `takes_logs`, the attributes include the clip of probabilities, which is also set in
        the scores.
        """
        kind, n_classes = self.scores.kind, self.scores.classes.size
        attributes = {
            "input_": kind,
            "classes_": self.scores.classes,
            "class_count_": on_host(ops_for(self.code).totals(self.code, self.w, n_classes)),
            # ``predict_proba`` accepts logits whose rows sum to 1 only if all rows in ``fit``
            # summed to 1.
            "_refuses_simplex": kind == "logits" and not self.survey.is_simplex,
            "_options": self.scores.options,
        }
        if takes_logs:
            clip, zeros = find_clip(self.scores, self.survey.smallest)
            self.scores.set_clip(clip)
            attributes |= {"clip_": clip, "_had_zeros": zeros}
        return attributes


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
    """Check scores, labels and weights, and drop rows with weight 0 or an ignored label."""
    on_device = calibrator._fits_on_device
    converted = convert_rows(
        X, y, sample_weight, classes, in_fit=True, ignore_index=ignore_index, on_device=on_device
    )
    X, S, labels = converted.X, converted.scores, converted.labels
    shares, classes = converted.shares, converted.classes
    if shares is not None and shares.shape != S.shape and not calibrator._takes_soft_hits:
        refuse_soft(shares, "y", type(calibrator).__name__, SUPPORTED)
    survey = check_values(S, "X", input, calibrator._takes_logs, calibrator._takes_options)
    if survey.has_nan:
        refuse_nan(S, survey, input, getattr(X, "columns", range(S.shape[1])))
        S = as_source(to_array(S))
    kind = resolve_kind(S, survey, input)
    if is_single := S.shape[1] == 1:
        if kind == "proba":
            refuse_labels(X)
        classes = binary_classes(labels) if classes is None else classes
    w = check_weight(converted.weights, S.shape[0], scaled=scaled, labels=labels, warn=scaled)
    columns = as_columns(S, survey, kind, input)
    code, known = encode_labels(labels, columns.shape[1], classes, ignore="ignore_index")
    if kind == "logits":
        refuse_features(S, survey, code, w, input, classes is not None)
    if classes is not None:
        check_sorted(known)
    if is_single:
        check_event_name(X, known, 1, "X", OTHER_EVENT)
    rows = None
    if shares is not None:
        rows, code, w = split_shares(shares, w)
        columns, S = take_rows(columns, rows), take_rows(S, rows)
    options = calibrator._takes_options and kind == "logits" and not is_single
    if survey.may_lack_options or options_before is not None:
        options = find_options(calibrator, S, survey, kind, code, w, known, options_before, rows)
    if converted.weights is not None or rows is not None:
        columns, code, w = drop_zero_weight(columns, code, w)
    if columns is not S:
        survey = survey._replace(smallest=None)
    scores = Scores(columns, kind, known, survey.max_abs, options=options)
    if is_tensor(labels) and scores.device_logits() is None:  # the fit needs NumPy arrays
        code, w = on_host(code), on_host(w)
    if converted.by_position and not survey.has_nan:
        warn_of_order(columns, code, w, known)
    return CheckedRows(scores, code, w, X if hasattr(X, "columns") else S, S, survey)


def find_options(
    calibrator: ScoreCalibrator,
    S: Source,
    survey: Survey,
    kind: Kind,
    code: Intp,
    w: Float64Array,
    classes: NDArray[Any],
    before: bool | None = None,
    rows: Intp | None = None,
) -> bool:
    """Return whether NaN or -inf in the scores means that a class was not available in a row.

    Such a class is called masked: it is an option that was not offered in the row.

    `before` is the decision of an earlier batch. For soft labels, `rows` are the rows of `code`.
    """
    may_lack = (kind == "logits" and S.shape[1] > 1 and before is not False) or survey.has_nan
    options = calibrator._takes_options and may_lack
    has_low = survey.low == -np.inf or (options and survey.high <= SUM_TOLERANCE_BFLOAT16)
    if not may_lack or not (survey.has_nan or has_low):
        return options
    lacks, absent = read_options(S, code, before)
    if lacks and not options:
        warnings.warn(
            f"X: -inf is read as a small probability by {type(calibrator).__name__}. If -inf marks "
            "a masked class (not available in the row), use AutoCalibrator, TemperatureScaling or "
            "IdentityCalibrator, which return probability 0 for masked classes.",
            stacklevel=4,
        )
    elif (lost := absent & on_host(w > 0)).any():
        at = lost.argmax()
        what = "NaN in X" if survey.has_nan else "-inf in X"
        raise ValueError(
            f"y: the label of row {at if rows is None else rows[at]}, "
            f"{classes.tolist()[code[at]]!r}, is a class that was not available in this row "
            f"({what}): correct the label or X, or drop the row."
        )
    return options and lacks


def fit_checked(
    calibrator: Calibrator,
    S: Source,
    kind: Kind,
    code: Intp,
    w: Float64Array,
    classes: NDArray[Any],
) -> Calibrator:
    """Fit a calibrator on rows whose scores, labels and weights have already been checked.

    The scores are summarised again, because these rows may be a part of the checked rows.
    """
    calibrator._validate_params()
    survey = check_values(S, "X", kind, calibrator._takes_logs, calibrator._takes_options)
    options = calibrator._takes_options and kind == "logits"
    if survey.may_lack_options:
        options = find_options(calibrator, S, survey, kind, code, w, classes)
    scores = Scores(S, kind, classes, survey.max_abs, options=options)
    rows = CheckedRows(scores, code, w, S, S, survey)
    with np.errstate(under="ignore"):
        fitted = rows.fitted(calibrator._takes_logs)
        fitted.update(calibrator._fit(scores, code, w))
    warn_of_labels(calibrator, code, classes)
    # The caller states whether scores are logits: rows (0, 1) of logits sum to 1, too.
    calibrator.__dict__.update(fitted, n_features_in_=S.shape[1], _refuses_simplex=False)
    return calibrator


def map_checked(calibrator: ScoreCalibrator, P: Source) -> FloatArray:
    """Calibrate probabilities that have already been checked."""
    plan, out = calibrator._plan(), np.empty(P.shape, dtype=P.dtype)

    def kernel(block: FloatArray) -> FloatArray:
        clip = clip_of_rows(block, calibrator.clip_, calibrator._had_zeros)
        return predict(Scores(block, "proba", clip=clip), plan)

    with np.errstate(under="ignore"):
        map_rows(kernel, P, out=out, work=calibrator._work)
    return out


# Warnings about classes without calibration rows, and about scores that do not predict the labels.


# Largest number of missing classes that a warning lists by name.
NAMED = 5


def warn_of_labels(calibrator: ScoreCalibrator, code: Intp, classes: NDArray[Any]) -> None:
    """Warn if the calibration rows lack classes that the calibrator needs."""
    if calibrator._absent_class is not None:
        warn_of_absent_classes(code, classes, calibrator._absent_class)
    elif calibrator._warns_of_one_label:
        warn_of_one_label(code, classes)


def warn_of_absent_classes(code: Intp, classes: NDArray[Any], probability: str) -> None:
    """Warn about classes without rows, and state their probability in every prediction."""
    absent = classes[rows_of_classes(code, classes) == 0].tolist()
    if absent:
        names = ", ".join(repr(label) for label in absent[:NAMED])
        more = f" and {len(absent) - NAMED:,} more" if len(absent) > NAMED else ""
        one = len(absent) == 1
        warnings.warn(
            f"no row of {'class' if one else 'classes'} {names}{more} among {len(code):,} rows: "
            f"every probability of {'this class' if one else 'these classes'} becomes "
            f"{probability}; fit on rows of every class, or use AutoCalibrator, whose "
            "probabilities stay above 0.",
            ConvergenceWarning,
            stacklevel=4,
        )


def warn_of_one_label(code: Intp, classes: NDArray[Any]) -> None:
    """Warn if all rows have the same label."""
    count = rows_of_classes(code, classes)
    if (count > 0).sum() == 1:
        label = classes.tolist()[count.argmax()]
        warnings.warn(
            f"y: all {len(code):,} rows have the label {label!r}, so that nothing can be learned "
            "about the other classes: fit on rows of every class.",
            ConvergenceWarning,
            stacklevel=4,
        )


def rows_of_classes(code: Intp, classes: NDArray[Any]) -> NDArray[Any]:
    """Return the number of calibration rows of each class, an array ``(K,)``."""
    return on_host(ops_for(code).totals(code, None, classes.size))


def warn_of_flat_maps(name: str, same: str = "the base rates") -> None:
    """Warn that the scores do not predict the labels: all rows get the same probabilities."""
    warnings.warn(
        f"{name}: the scores predict the labels no better than {same}, so that every row gets "
        f"{same}: check that the columns of X are in the order of the sorted labels.",
        ConvergenceWarning,
        stacklevel=4,
    )


# One-line description of a fitted calibrator, shown by repr and below its HTML diagram.


class ShownFit:
    """Mixin that adds a one-line description of the fit to the repr and the HTML of an estimator.

    A class lists it before ``BaseEstimator``. In ``repr`` the description ``_in_words()`` is a
    comment, so that the text is still code. In HTML it is a paragraph below the diagram. Within a
    pipeline, scikit-learn prints only the parameters.
    """

    # A method that returns a one-line description of the fitted estimator.
    _in_words: Callable[[], str]

    def _sentence(self) -> str:
        return self._in_words() if hasattr(self, "classes_") else ""

    def __repr__(self, N_CHAR_MAX: int = 700) -> str:
        parameters = super().__repr__(N_CHAR_MAX)  # type: ignore[call-arg]  # of BaseEstimator
        sentence = self._sentence()
        return f"{parameters}  # {sentence}" if sentence else parameters

    @property
    def _repr_html_(self) -> Callable[[], str]:
        inner = super()._repr_html_  # type: ignore[misc]  # no such attribute without diagrams
        return lambda: inner() + self._paragraph()

    def _repr_mimebundle_(self, **keywords: Any) -> dict[str, str]:
        bundle = super()._repr_mimebundle_(**keywords)  # type: ignore[misc]
        if "text/html" in bundle:
            bundle["text/html"] += self._paragraph()
        return bundle

    def _paragraph(self) -> str:
        sentence = self._sentence()
        return f"<p>{escape(sentence)}</p>" if sentence else ""


def span(values: ArrayLike) -> str:
    """Format the range of several numbers, as one number if both ends look the same."""
    ends = np.min(values), np.max(values)
    if isinstance(ends[0], np.integer):
        low, high = (f"{end:,}" for end in ends)
    else:  # numbers are rounded, to hide rounding errors
        low, high = (f"{np.round(end, 6) + 0.0:.3g}" for end in ends)
    return low if low == high else f"{low} to {high}"


def counted(n: int, what: str) -> str:
    """Format a count with its noun in singular or plural, such as "1 bin" or "2 bins"."""
    return f"{n} {what}" if n == 1 else f"{n} {what}s"


def levels(values: list[Any]) -> str:
    """Format the number of distinct values of several step functions, such as "3 to 5 levels"."""
    return f"{span([np.unique(each).size for each in values])} levels"


def softness(temperature: float) -> str:
    """Describe whether a temperature T makes the probabilities softer or sharper."""
    T = f"{temperature:.3g}"
    effect = "unchanged" if float(T) == 1 else "softer" if temperature > 1 else "sharper"
    return f"T = {T}: {effect}"


# Base classes: one for all calibrators, and one for calibrators with a calibration function for
# each class.


# Words for logits and probabilities in descriptions of fitted calibrators.
KINDS = {"logits": "logits", "proba": "probabilities"}


class ScoreCalibrator(ShownFit, ClassifierMixin, BaseEstimator):
    """Base class of calibrators, which are classifiers whose features are scores.

    A subclass defines two methods. ``_fit(scores, code, w)`` returns the fitted attributes by name
    and sets none of them, so that a failed or interrupted fit changes nothing. ``_map(scores)``
    returns the probabilities ``(m, K)`` of a block of m rows. Several blocks are computed at the
    same time, in threads.

    Parameters
    ----------
    input : {"auto", "logits", "proba"}, default="auto"
        What the columns of `X` are. "auto" decides once, in ``fit``, and raises an error if
        that is not certain.
    classes : array-like of shape (K,), default=None
        Labels of the columns, sorted; needed if they cannot be inferred from `y`.
    """

    # Whether the calibrator computes logarithms of probabilities. If so, ``fit`` sets `clip_`, a
    # lower bound of probabilities.
    _takes_logs: ClassVar[bool] = False
    # Whether the calibrator accepts masked classes (options that were not offered in a row), marked
    # by NaN in probabilities, or by -inf in logits that are not log-probabilities.
    _takes_options: ClassVar[bool] = False
    # Whether `y` may contain soft labels of a binary problem. ``_fit`` then gets each row twice, as
    # a positive and as a negative, and the weight of the row is divided between the two copies.
    _takes_soft_hits: bool = False
    # Whether ``_fit`` accepts labels and weights as tensors on the device of the scores.
    _fits_on_device: bool = False
    # The probability of a class without calibration rows, such as "0", for a warning. It is None if
    # this probability is above 0, so that no warning is needed.
    _absent_class: str | None = None
    # Whether ``fit`` warns if all rows have the same label.
    _warns_of_one_label: bool = False
    # Whether the calibration rows contain a probability of 0, and for two classes, a flag for each
    # column. Only then are probabilities of new rows between 0 and `clip_` raised to `clip_`.
    _had_zeros: bool | Bools
    # Whether the calibration rows contain masked classes, marked by -inf or NaN.
    _options: bool
    # If set, the next fit uses this value of `_options` instead of looking for masked classes.
    _options_before: bool
    # Size of the blocks of rows that are passed to ``_map``.
    _work: ClassVar[Work] = ROWS

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        "input": [StrOptions({"auto", "logits", "proba"})],
        "classes": ["array-like", None],
    }

    def __init__(self, *, input: str = "auto", classes: ArrayLike | None = None) -> None:
        self.input = input
        self.classes = classes

    @abstractmethod
    def _fit(self, scores: Scores, code: Intp, w: Float64Array) -> dict[str, Any]:
        """Fit the calibrator, and return its fitted attributes by name."""

    def _plan(self) -> Plan | ColumnPlan:
        """Return the prediction as a formula, which NumPy, PyTorch and ONNX can compute."""
        raise NotImplementedError(f"{type(self).__name__} needs a method _map(scores)")

    def _map(self, scores: Scores) -> FloatArray:
        """Return the calibrated probabilities ``(n, K)`` of a block of rows of scores."""
        return predict(scores, self._plan())

    def _in_words(self) -> str:
        """Return a one-line description of the fitted calibrator for its ``repr``."""
        return f"{self.classes_.size} classes, fitted on {KINDS[self.input_]}"

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = self._takes_options and self.input != "logits"
        return tags

    def fit(
        self,
        X: ArrayLike,
        y: ArrayLike,
        sample_weight: ArrayLike | None = None,
        *,
        ignore_index: Any = None,
    ) -> Self:
        """Fit the calibrator on held-out scores.

        Parameters
        ----------
        X : array-like of shape (n, K), (n, 1) or (n,)
            Logits or class probabilities, a column for each class in sorted order; one column
            is a binary logit or the probability of the second of the sorted classes. A frame
            whose columns are named after the labels ("cat", "dog" or "prob_cat", "prob_dog" or
            "P(cat)", "P(dog)") is read by name. Logits may be -inf: the logarithm of 0 if all rows
            are logarithms of probabilities, else an option that was not offered in the row. In one
            column, -inf means P = 0 and +inf P = 1. Probabilities of an option that was not offered
            are NaN; `AutoCalibrator`, `TemperatureScaling` and `IdentityCalibrator` accept them.
        y : array-like of shape (n,) or (n, K)
            Labels; or soft labels, a column for each class, in rows that sum to 1: a row of weight
            w with soft labels f counts as K rows of weights w f. `PlattScaling`, `BetaCalibrator`,
            `IsotonicCalibrator`, and `HistogramBinning` with even bins, also accept one column of
            soft labels in [0, 1] for a single column of `X`, such as a judge's scores. A soft label
            f of weight w counts as an event of weight w f and a non-event of weight w (1 - f).
        sample_weight : array-like of shape (n,), default=None
            Non-negative weights. Integers are counts: 2 is two copies of the row. Of floats only
            the ratios matter (see "Weights" under "Valid input" in the user guide). 0 is the row's
            absence.
        ignore_index : label, default=None
            Rows of this label, such as 255 or -100, are left out.

        Returns
        -------
        self : object
            Fitted calibrator.

        Raises
        ------
        ValueError
            If the scores contain NaN that does not mark such an option, if several columns contain
            +inf, if the scores could be either logits or probabilities or do not match the labels,
            or if `classes` are not sorted.

        Warns
        -----
        sklearn.exceptions.ConvergenceWarning
            In calibrators with a separate function for each class, if a class has no row, so that
            its probability is always 0. In other calibrators that learn how frequent a class is, if
            all rows have the same label.
        """
        self._validate_params()
        before = self.__dict__.pop("_options_before", None)
        with np.errstate(under="ignore"):
            rows = check_rows(
                self, X, y, sample_weight, self.input, self.classes, ignore_index, before
            )
            fitted = rows.fitted(self._takes_logs)
            fitted.update(self._fit(rows.scores, rows.code, rows.w))
        warn_of_labels(self, rows.code, rows.scores.classes)
        validate_data(self, rows.X, skip_check_array=True)
        self.__dict__.update(fitted)
        self.__dict__.pop("_stream", None)  # a new fit discards the batches of partial_fit
        return self

    def predict_proba(self, X: ArrayLike) -> FloatArray:
        """Return calibrated probabilities.

        Parameters
        ----------
        X : array-like of shape (n, K), (n, 1) or (n,)
            Scores of the kind used in ``fit`` (`input_`); a frame whose columns are named after the
            labels is read by name. For two classes, one column or two, even if ``fit`` got the
            other form.

        Returns
        -------
        proba : ndarray of shape (n, K)
            Rows sum to 1; columns follow `classes_`; float32 for float32 scores. A tensor
            on its device if `X` is one.

        Raises
        ------
        ValueError
            If the scores are of another kind or shape than those of ``fit``.
        """
        if is_dask(X):
            return self._lazily(X, type(self).predict_proba)
        return as_type_of(self._proba(X), X)

    def _proba(self, X: ArrayLike) -> FloatArray:
        S = self._as_seen(X)
        as_in_fit = S.shape[1] == self.n_features_in_
        if as_in_fit and S.on_device() is not None and has_formula(type(self)):
            kind: Kind = self.input_
            survey = check_values(S, "X", kind, options=self._takes_options)
            if not survey.has_nan:
                check_kind(S, survey, kind, self._refuses_simplex)
                blocks, finite = as_columns(S, survey, kind).on_device(), survey.low > -np.inf
                plan, n_classes = self._exported_plan(), self.classes_.size
                return predict_on_device(blocks, plan, kind, n_classes, finite)
            S = as_source(to_array(S))
        with np.errstate(under="ignore"):
            return self._map_rows(S)

    def _exported_plan(self) -> Plan | ColumnPlan:
        """Return the formula of the prediction for PyTorch and ONNX, with constants as arrays."""
        clip = getattr(self, "clip_", None)
        zeros = getattr(self, "_had_zeros", True)
        return fill_plan(self._plan(), self.classes_.size, clip, self._options, zeros)

    def predict_log_proba(self, X: ArrayLike) -> FloatArray:
        """Return the logarithms of calibrated probabilities, -inf for 0.

        Parameters
        ----------
        X : array-like of shape (n, K), (n, 1) or (n,)
            Scores, as in `predict_proba`.

        Returns
        -------
        log_proba : ndarray of shape (n, K)
            ``log(predict_proba(X))``.
        """
        if is_dask(X):
            return self._lazily(X, type(self).predict_log_proba)
        return as_type_of(log_of_proba(self._proba(X)), X)

    def _lazily(
        self, X: Any, method: Callable[[Any, Any], Any], *axes: int, labels: bool = False
    ) -> Any:
        """Apply a method to each chunk of a Dask array, and return a lazy Dask array.

        The result contains `labels`, or numbers of shape ``(n, K, *axes)``. The width and the names
        of columns are checked now, and the numbers of a chunk when the chunk is computed.
        """
        dtype: DTypeLike = self._as_seen(np.zeros((1, *X.shape[1:]), dtype=X.dtype)).dtype
        width: tuple[int, ...] = (self.classes_.size, *axes)
        if labels:
            dtype, width = self.classes_.dtype, ()
        return mapped(partial(method, copy(self)), X, width, dtype)

    def _map_rows(self, S: Source, answer: Any = None, *axes: int) -> FloatArray:
        """Compute predictions, or another function `answer`, for all rows, block by block.

        The result has the shape ``(n, K, *axes)`` and the type of the scores. Each block is checked
        when it is read, so that a file is read only once.
        """
        kind: Kind = self.input_
        if answer is None:  # building the formula may need memory, so it precedes `out`
            has_plan = type(self)._map is ScoreCalibrator._map
            answer = partial(predict, plan=self._plan()) if has_plan else self._map
        out = np.empty((S.shape[0], self.classes_.size, *axes), dtype=S.dtype)
        is_proba, tolerance = kind == "proba", sum_tolerance(kind)
        nan = is_proba and self._takes_options
        in_place = out.dtype == np.float64 and out.ndim == 2 and block_order(out.shape[1]) == "C"

        def kernel(block: FloatArray, rows: range, out: FloatArray, corrected: bool = False) -> Any:
            # If the calibrator was fitted on a single column of logits, two columns of logits are
            # replaced by their difference. Probabilities that do not sum to 1 are divided by their
            # sum or refused.
            survey = survey_block(block, rows, tolerance=tolerance, exact=is_proba, options=nan)
            if is_proba and not corrected and (survey.is_rounded or not survey.is_simplex):
                return np.nan, survey
            max_abs = survey.max_abs
            if self.n_features_in_ == 1 and kind == "logits" and block.shape[1] == 2:
                block, max_abs = block[:, 1:] - block[:, :1], 2 * max_abs
            columns = block if block.shape[1] > 1 else two_columns(block, kind)
            clip, options = getattr(self, "clip_", CLIP), self._options
            if is_proba:
                clip = clip_of_rows(columns, clip, getattr(self, "_had_zeros", True))
                options = survey.has_nan
            target = out if in_place else None
            return answer(Scores(columns, kind, None, max_abs, clip, target, options)), survey

        rows = range(S.shape[0])
        survey = merge_surveys(map_rows(kernel, S, rows, out, out=out, work=self._work))
        # Within blocks, sums of rows are compared with 1 only roughly. Unclear cases are checked
        # again.
        unclear = not (survey.is_simplex or survey.has_nan)
        if survey.is_mostly_simplex if kind == "logits" else unclear:
            survey = check_values(S, input=kind)
        if survey.has_nan:
            refuse_nan(S, survey, kind, self.classes_)
        check_kind(S, survey, kind, self._refuses_simplex)
        if kind == "proba" and survey.is_rounded:
            divided = as_columns(S, survey, kind)
            kernel = partial(kernel, corrected=True)
            map_rows(kernel, divided, rows, out, out=out, work=self._work)
        return out

    def _as_seen(self, X: ArrayLike, exactly: bool = False) -> Source:
        """Return `X` as a source of scores, after comparing the columns with those of ``fit``.

        For two classes, one column or two are accepted; with `exactly`, only as many as in ``fit``.
        """
        check_is_fitted(self)
        X, _, order = name_columns(X, self.classes_, self.classes_, sort=True)
        S = read_scores(X)
        if S.shape[1] == 1:
            check_event_name(X, self.classes_, 1, "X", OTHER_EVENT)
        # A 1-D array of two numbers that sum to 1 may be the two probabilities of a single row.
        is_row = S.shape == (2, 1) and np.ndim(X) == 1 and self.input_ == "proba"
        is_row = is_row and abs(S.read(ALL).sum() - 1) <= SUM_TOLERANCE
        either = self.classes_.size == 2 and {S.shape[1], self.n_features_in_} == {1, 2}
        if either and not (exactly or is_row):
            return S
        if S.shape[1] == 1 < self.n_features_in_ and np.ndim(X) == 1:
            raise ValueError(
                f"Expected 2D array, got 1D array instead: {type(self).__name__} was fitted on "
                f"{self.n_features_in_} columns. Reshape your data with X.reshape(1, -1) if it is "
                "a single row, or X.reshape(-1, 1) if it is a single column."
            )
        has_names = hasattr(X, "columns") or hasattr(self, "feature_names_in_")
        # If columns were found by their names, no further check is needed.
        if (order is None and has_names) or S.shape[1] != self.n_features_in_:
            named = X if hasattr(X, "columns") else S
            validate_data(self, named, reset=False, skip_check_array=True)
        return S

    def predict(self, X: ArrayLike) -> NDArray[Any]:
        """Predict the label with the largest calibrated probability, on ties the first label.

        Parameters
        ----------
        X : array-like of shape (n, K), (n, 1) or (n,)
            Scores of the kind used in ``fit``.

        Returns
        -------
        labels : ndarray of shape (n,)
        """
        if is_dask(X):
            return self._lazily(X, type(self).predict, labels=True)
        proba = self.predict_proba(X)
        best = proba.argmax(axis=1)
        labels = as_type_of(self.classes_, X)
        return labels[best if is_tensor(labels) else on_host(best)]


class ColumnwiseCalibrator(ScoreCalibrator):
    """Base class of calibrators with one calibration function for each class.

    With two classes there is one function, for the second class; the first class gets the rest.
    A subclass defines ``_map_column(j, column)``, which applies function j to a column of
    probabilities and returns values in [0, 1].
    """

    # Functions are applied to one column of a block at a time, so that a block needs many rows: in
    # short columns, NumPy takes four times as long per entry. The number of rows is not a multiple
    # of 512, because the entries of a row would then compete for the same cache lines.
    _work = Work(4 * ROW_BLOCK_BYTES, 1, least_rows=3000)

    def _first_column(self, n_classes: int) -> int:
        """Return the index of the first class that has its own calibration function."""
        return 1 if n_classes == 2 else 0

    def _map_column(self, j: int, column: FloatArray) -> FloatArray:
        """Apply the calibration function of a class to a column of probabilities ``(n,)``."""
        raise NotImplementedError

    def _column_plan(
        self,
        formula: Callable[..., Any],
        constants: Constants,
        read: Literal["proba", "log_odds", "ordered"] = "proba",
    ) -> ColumnPlan:
        first = self._first_column(self.classes_.size)
        return ColumnPlan(formula, constants, first, read)

    def _plan(self) -> Plan | ColumnPlan:
        def formula(_: Any, x: FloatArray, c: Constants) -> FloatArray:
            pairs = zip(c["maps"][0], x.T, strict=True)
            return np.stack([self._map_column(j, column) for j, column in pairs]).T

        return self._column_plan(formula, {"maps": np.arange(self.classes_.size)[None]})


def has_formula(kind: type) -> bool:
    """Return whether a Python class is a calibrator that predicts by a formula."""
    return (
        issubclass(kind, ScoreCalibrator)
        and kind._map is ScoreCalibrator._map
        and kind._plan not in (ScoreCalibrator._plan, ColumnwiseCalibrator._plan)
    )


# Base class of calibrators that fit a logistic regression on the log-odds of each class.


# Size in bytes of the columns that are fitted together. Larger groups of columns would not fit the
# cache. With smaller groups, threads would wait for each other.
AT_ONCE_BYTES = 1 << 20


class LogOddsCalibrator(ColumnwiseCalibrator):
    """Base class of logistic regressions on the log-odds of each class against the rest."""

    _takes_logs = True
    _takes_soft_hits = True
    _absent_class = "0"
    # Whether the calibration function never decreases. A slope of 0 then means that the scores do
    # not predict the labels.
    _monotone: ClassVar[bool] = False

    @abstractmethod
    def _fit_maps(self, odds: Float64Array, hit: Bools, w: Float64Array) -> tuple[Logistic, Bools]:
        """Fit the functions of k classes; return which classes the scores separate without error.

        Parameters
        ----------
        odds : ndarray of shape (k, n)
            Log-odds of each class.
        hit : ndarray of bool, shape (k, n)
            Whether each row belongs to each class.
        w : ndarray of shape (n,)
            Positive weights.
        """

    def _fit(self, scores: Scores, code: Intp, w: Float64Array) -> dict[str, Any]:
        first = self._first_column(scores.shape[1])

        def kernel(odds: Any, columns: slice) -> list[tuple[Logistic, Bools]]:
            column = np.arange(columns.start, columns.stop)[:, None]
            return [
                self._fit_maps(odds[some], code == column[some], w)
                for some in column_blocks(code.size, odds.shape[0], AT_ONCE_BYTES)
            ]

        blocks = map_column_blocks(kernel, scores, first, read="log_odds")
        maps, apart = zip(*chain.from_iterable(blocks), strict=True)
        coef = np.concatenate([fitted.coef for fitted in maps])
        separated = first + np.flatnonzero(np.concatenate(apart))
        if separated.size:
            warnings.warn(
                f"{type(self).__name__}: the scores of {separated.size} of {len(coef)} classes "
                f"(first: column {separated[0]}) separate the rows of the class from the other "
                "rows without error, so that no finite optimum exists and the fitted function is "
                "nearly a step function: fit on more held-out rows, some of which are "
                "misclassified.",
                ConvergenceWarning,
                stacklevel=3,
            )
        intercept = np.concatenate([fitted.intercept for fitted in maps])
        mixed = np.isfinite(intercept)
        if self._monotone and mixed.any() and not coef[mixed].any():
            warn_of_flat_maps(type(self).__name__)
        return {"coef_": coef[:, 0] if coef.shape[1] == 1 else coef, "intercept_": intercept}

    def _plan_of_odds(self, formula: Callable[..., Value], constants: Constants) -> ColumnPlan:
        constants = {**constants, "intercept": row(self.intercept_)}
        return self._column_plan(formula, constants, read="log_odds")
