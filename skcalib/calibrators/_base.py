"""Base classes of calibrators: check the scores, decide their kind, call ``_fit`` or ``_map``."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable
from copy import copy
from functools import partial
from typing import Any, ClassVar, Literal, Self

import numpy as np
from numpy.typing import ArrayLike, DTypeLike, NDArray
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.utils import Tags
from sklearn.utils._param_validation import StrOptions
from sklearn.utils.validation import check_is_fitted, validate_data

from skcalib._arrays.blocks import ROW_BLOCK_BYTES
from skcalib._arrays.dask import is_dask, mapped
from skcalib._arrays.passes import ROWS, Work, map_rows
from skcalib._arrays.rowwise import block_order
from skcalib._arrays.source import ALL, Source, as_source, to_array
from skcalib._arrays.tensors import as_type_of, is_tensor, on_host
from skcalib._arrays.types import Bools, Float64Array, FloatArray, Intp, Kind
from skcalib._maps.arrays import predict
from skcalib._maps.device import predict_on_device
from skcalib._maps.operations import ColumnPlan, Constants, Plan
from skcalib._maps.shared import with_arrays
from skcalib._scores.clip import clip_of_rows, find_clip
from skcalib._scores.scores import Scores
from skcalib._scores.softmax import CLIP, log_of_proba
from skcalib._validation.kind import as_columns, check_kind, two_columns
from skcalib._validation.labels import name_columns
from skcalib._validation.named_columns import check_event_name
from skcalib._validation.options import refuse_nan
from skcalib._validation.scores import read_scores
from skcalib._validation.survey import (
    SUM_TOLERANCE,
    Survey,
    check_values,
    merge_surveys,
    sum_tolerance,
    survey_block,
)
from skcalib.calibrators._fit_rows import OTHER_EVENT, check_rows
from skcalib.calibrators._fit_warnings import warn_of_absent_classes, warn_of_one_label
from skcalib.calibrators._shown_fit import ShownFit

# What the columns of `X` were in ``fit``, in words.
KINDS = {"logits": "logits", "proba": "probabilities"}


class ScoreCalibrator(ShownFit, ClassifierMixin, BaseEstimator):
    """Base class of calibrators, which are classifiers whose features are scores.

    A subclass defines ``_fit(scores, code, w)``, which returns its fitted attributes by name and
    sets none (so that a failed or interrupted fit changes nothing), and ``_map(scores)``, which
    returns the probabilities ``(m, K)`` of a block of m rows. Blocks are mapped one by one, in
    threads.

    Parameters
    ----------
    input : {"auto", "logits", "proba"}, default="auto"
        What the columns of `X` are. "auto" decides once, in ``fit``, and raises an error if
        that is not certain.
    classes : array-like of shape (K,), default=None
        Labels of the columns, sorted; needed if they cannot be inferred from `y`.
    """

    # Whether it takes logarithms of probabilities: ``fit`` then finds their lower limit, `clip_`.
    _takes_logs: ClassVar[bool] = False
    # Whether it takes logits of -inf, in rows that are no log-probabilities, and probabilities of
    # NaN as not offered.
    _takes_options: ClassVar[bool] = False
    # Whether the map depends on rows through sums of weights alone, so that y may be shares:
    # ``_fit`` then gets a hit and a miss for each row, with their parts of its weight.
    _takes_soft_hits: bool = False
    # Whether ``_fit`` takes the codes and weights of scores on a device as tensors there.
    _fits_on_device: bool = False
    # What every probability of a class without rows becomes, in words, of which a fit warns; None
    # if it is above 0.
    _absent_class: str | None = None
    # Whether a fit warns of rows that have one label, where a class without rows is above 0.
    _warns_of_one_label: bool = False
    # Fitted: whether calibration rows have a probability of 0; of two classes, in each column. If
    # not, new probabilities between 0 and `clip_` keep their own logarithm.
    _had_zeros: bool | Bools
    # Fitted: whether -inf means that, or there was NaN, and its probability is 0.
    _options: bool
    # What `_options` of the next fit is, whatever the rows are.
    _options_before: bool
    # The blocks that ``_map`` gets.
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
        """Return the fitted attributes by name."""

    def _plan(self) -> Plan | ColumnPlan:
        """Return the formula of the fitted map, which NumPy, PyTorch and ONNX compute."""
        raise NotImplementedError(f"{type(self).__name__} needs a method _map(scores)")

    def _map(self, scores: Scores) -> FloatArray:
        """Return the calibrated probabilities ``(n, K)`` of a block."""
        return predict(scores, self._plan())

    def _in_words(self) -> str:
        """Return what was fitted in one short line, for ``repr``; a subclass may say more."""
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
            whose columns are named by the labels ("cat", "dog" or "prob_cat", "prob_dog" or
            "P(cat)", "P(dog)") is read by name. Logits may be -inf: the logarithm of 0 if all rows
            are logarithms of probabilities, else an option that was not offered in the row. In one
            column, -inf means P = 0 and +inf P = 1. Probabilities of an option that was not offered
            are NaN; `AutoCalibrator`, `TemperatureScaling` and `IdentityCalibrator` take them.
        y : array-like of shape (n,) or (n, K)
            Labels; or the shares of several raters, a column for each class, that sum to 1: a row
            of weight w and shares f counts as K rows of weights w f. Only `PlattScaling`,
            `BetaCalibrator`, `IsotonicCalibrator` and `HistogramBinning` with even bins, with one
            column, also take soft hits: shares of an event in [0, 1], such as a judge's scores. A
            share f of weight w is a hit of weight w f and a miss of weight w (1 - f).
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
            If the scores contain NaN (but for such options) or, in several columns, +inf, could be
            either logits or probabilities, or do not match the labels, or if `classes` are not
            sorted.

        Warns
        -----
        sklearn.exceptions.ConvergenceWarning
            If a class has no row and every probability of it becomes 0, in calibrators with a map
            for each class by itself; if all rows have one label, in others that learn how frequent
            a class is.
        """
        self._validate_params()
        before = self.__dict__.pop("_options_before", None)
        with np.errstate(under="ignore"):
            rows = check_rows(
                self, X, y, sample_weight, self.input, self.classes, ignore_index, before
            )
            fitted = rows.fitted()
            if self._takes_logs:
                clip, zeros = find_clip(rows.scores, rows.survey.smallest)
                fitted["clip_"], fitted["_had_zeros"] = clip, zeros
                rows.scores.set_clip(clip)
            fitted.update(self._fit(rows.scores, rows.code, rows.w))
        if self._absent_class is not None:
            warn_of_absent_classes(rows.code, rows.scores.classes, self._absent_class)
        elif self._warns_of_one_label:
            warn_of_one_label(rows.code, rows.scores.classes)
        validate_data(self, rows.given, skip_check_array=True)
        self.__dict__.update(fitted)
        self.__dict__.pop("_stream", None)  # what a partial_fit has kept of earlier rows
        return self

    def predict_proba(self, X: ArrayLike) -> FloatArray:
        """Return calibrated probabilities.

        Parameters
        ----------
        X : array-like of shape (n, K), (n, 1) or (n,)
            Scores of the kind seen in ``fit`` (`input_`); a frame whose columns are named by the
            labels is read by name. Of two classes, one column or two, whatever ``fit`` got.

        Returns
        -------
        proba : ndarray of shape (n, K)
            Rows sum to 1; columns follow `classes_`; float32 for float32 scores. A tensor
            on its device if `X` is one.

        Raises
        ------
        ValueError
            If the scores are of another kind or shape than those seen in ``fit``.
        """
        if is_dask(X):
            return self._lazily(X, type(self).predict_proba)
        return as_type_of(self._proba(X), X)

    def _proba(self, X: ArrayLike) -> FloatArray:
        S, answer = self._as_seen(X), self._map
        as_in_fit = S.shape[1] == self.n_features_in_
        if as_in_fit and S.on_device() is not None and has_formula(type(self)):
            kind: Kind = self.input_
            survey = check_values(S, "X", kind, options=self._takes_options)
            if not survey.absent:
                check_kind(S, survey, kind, self._refuses_simplex)
                blocks, finite = as_columns(S, survey, kind).on_device(), survey.low > -np.inf
                plan, n_classes = self._exported_plan(), self.classes_.size
                return predict_on_device(blocks, plan, kind, n_classes, finite)
            S = as_source(to_array(S))
        with np.errstate(under="ignore"):
            if type(self)._map is ScoreCalibrator._map:
                answer = partial(predict, plan=self._plan())
            return self._map_rows(S, answer, (self.classes_.size,))

    def _exported_plan(self) -> Plan | ColumnPlan:
        """Return the formula with its constants as arrays, for PyTorch and ONNX."""
        clip = getattr(self, "clip_", None)
        zeros = getattr(self, "_had_zeros", True)
        return with_arrays(self._plan(), self.classes_.size, clip, self._options, zeros)

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
        """Return what a method returns of the chunks of a Dask array, not computed yet.

        It is `labels`, or numbers ``(n, K, *axes)``. Width and names are checked now, the numbers
        of a chunk when it is computed.
        """
        dtype: DTypeLike = self._as_seen(np.zeros((1, *X.shape[1:]), dtype=X.dtype)).dtype
        width: tuple[int, ...] = (self.classes_.size, *axes)
        if labels:
            dtype, width = self.classes_.dtype, ()
        return mapped(partial(method, copy(self)), X, width, dtype)

    def _map_rows(
        self, S: Source, answer: Callable[[Scores], FloatArray], width: tuple[int, ...]
    ) -> FloatArray:
        """Return ``answer(scores)`` of all rows, ``(n, *width)``, in the type of the scores.

        Each block is checked when it is read, so that a file is read once.
        """
        kind: Kind = self.input_
        out = np.empty((S.shape[0], *width), dtype=S.dtype)
        kernel = partial(check_and_map, calibrator=self, answer=answer)
        rows = range(S.shape[0])
        survey = merge_surveys(map_rows(kernel, S, rows, out, out=out, work=self._work))
        # Rows of logits were not counted exactly, and probabilities may be rounded ones.
        unclear = not (survey.is_simplex or survey.absent)
        if survey.is_mostly_simplex if kind == "logits" else unclear:
            survey = check_values(S, input=kind)
        refuse_nan(S, survey, kind, self.classes_)
        check_kind(S, survey, kind, self._refuses_simplex)
        if kind == "proba" and survey.is_rounded:
            divided = as_columns(S, survey, kind)
            kernel = partial(kernel, corrected=True)
            map_rows(kernel, divided, rows, out, out=out, work=self._work)
        return out

    def _as_seen(self, X: ArrayLike, exactly: bool = False) -> Source:
        """Return `X` as a source, after checking columns and names against those of ``fit``.

        Of two classes there may be one column or two, unless it has to be `exactly` as in ``fit``.
        """
        check_is_fitted(self)
        X, _, order = name_columns(X, self.classes_, self.classes_, sort=True)
        S = read_scores(X)
        if S.shape[1] == 1:
            check_event_name(X, self.classes_, 1, "X", OTHER_EVENT)
        # Two numbers that sum to 1 may be both probabilities of one row.
        is_row = S.shape == (2, 1) and np.ndim(X) == 1 and self.input_ == "proba"
        is_row = is_row and abs(S.read(ALL).sum() - 1) <= SUM_TOLERANCE
        either = self.classes_.size == 2 and {S.shape[1], self.n_features_in_} == {1, 2}
        if either and not (exactly or is_row):
            return S
        if S.shape[1] == 1 < self.n_features_in_ and np.ndim(X) == 1:
            raise ValueError(
                f"Expected 2D array, got 1D array instead: {type(self).__name__} was fitted on "
                f"{self.n_features_in_} columns. Reshape your data with X.reshape(1, -1) if it is "
                "a single row, X.reshape(-1, 1) if it is one column."
            )
        has_names = hasattr(X, "columns") or hasattr(self, "feature_names_in_")
        if (order is None and has_names) or S.shape[1] != self.n_features_in_:  # not read by name
            given = X if hasattr(X, "columns") else S
            validate_data(self, given, reset=False, skip_check_array=True)
        return S

    def predict(self, X: ArrayLike) -> NDArray[Any]:
        """Return the label of the largest calibrated probability, the lowest column on ties.

        Parameters
        ----------
        X : array-like of shape (n, K), (n, 1) or (n,)
            Scores of the kind seen in ``fit``.

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


def check_and_map(
    block: FloatArray,
    rows: range,
    out: FloatArray,
    calibrator: ScoreCalibrator,
    answer: Callable[[Scores], FloatArray],
    corrected: bool = False,
) -> tuple[FloatArray | float, Survey]:
    """Return the calibrated probabilities of a block, and its survey.

    If the fit had a single column, two logits are read by their difference. Probabilities that have
    to be refused or corrected first (unless they were `corrected`) are not mapped.
    """
    kind: Kind = calibrator.input_
    is_proba = kind == "proba"
    nan = is_proba and calibrator._takes_options
    survey = survey_block(block, rows, tolerance=sum_tolerance(kind), exact=is_proba, options=nan)
    if is_proba and not corrected and (survey.is_rounded or not survey.is_simplex):
        return np.nan, survey
    max_abs = survey.max_abs
    if calibrator.n_features_in_ == 1 and kind == "logits" and block.shape[1] == 2:
        block, max_abs = block[:, 1:] - block[:, :1], 2 * max_abs
    columns = two_columns(block, kind)
    in_place = out.dtype == np.float64 and out.ndim == 2 and block_order(out.shape[1]) == "C"
    place = out if in_place else None
    clip, options = getattr(calibrator, "clip_", CLIP), calibrator._options
    if is_proba:
        clip = clip_of_rows(columns, clip, getattr(calibrator, "_had_zeros", True))
        options = survey.absent
    return answer(Scores(columns, kind, None, max_abs, clip, place, options)), survey


class ColumnwiseCalibrator(ScoreCalibrator):
    """Base class of calibrators with one map for each class.

    With two classes there is a single map, for the second class; the first gets the complement.
    A subclass defines ``_map_column(j, column)``, which applies map number j to a column of
    probabilities and returns values in [0, 1].
    """

    # A map is called for each column of a block, so a block needs many rows: to compare a shorter
    # column with several edges, NumPy takes four times as long for each entry. A multiple of 512
    # rows would put all columns of a row into the same places of the cache.
    _work = Work(4 * ROW_BLOCK_BYTES, 1, least_rows=3000)

    def _first_column(self, n_classes: int) -> int:
        """Return the first class that has a map of its own."""
        return 1 if n_classes == 2 else 0

    def _map_column(self, j: int, column: FloatArray) -> FloatArray:
        """Map the probabilities of a class, ``(n,)``."""
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
    """Whether a class is a calibrator that predicts by a formula."""
    return (
        issubclass(kind, ScoreCalibrator)
        and kind._map is ScoreCalibrator._map
        and kind._plan not in (ScoreCalibrator._plan, ColumnwiseCalibrator._plan)
    )
