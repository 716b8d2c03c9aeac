"""Out-of-fold scores of an estimator, and the base class of classifiers that wrap another one."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any, ClassVar, NamedTuple

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from sklearn import get_config
from sklearn.base import BaseEstimator, ClassifierMixin, MetaEstimatorMixin, clone
from sklearn.frozen import FrozenEstimator
from sklearn.model_selection import check_cv
from sklearn.model_selection._search import BaseSearchCV
from sklearn.pipeline import Pipeline
from sklearn.utils import get_tags, indexable
from sklearn.utils.metadata_routing import get_routing_for_object
from sklearn.utils.metaestimators import _safe_split
from sklearn.utils.validation import (
    _check_method_params,
    _is_fitted,
    check_is_fitted,
    has_fit_parameter,
)

from skcalib._arrays.dask import compute_now
from skcalib._arrays.rowwise import FloatArray, Intp, Kind
from skcalib._arrays.sources import is_dask
from skcalib._arrays.tensors import as_dispatched, as_type_of, is_tensor
from skcalib._scores.responses import (
    align_columns,
    choose_response,
    class_scores,
    innermost,
    known_classes,
    most_likely,
    response_kind,
    takes_dask,
    without_frozen,
)
from skcalib._scores.scores import Scores, log_of_proba
from skcalib._validation.keywords import WAYS_TO_FOLD, short_repr
from skcalib._validation.labels import are_soft, check_labels, find_distinct, refuse_soft
from skcalib._validation.rows import (
    TAKERS,
    read_weight,
    replace_absent_rows,
    rows_replacing_weight_0,
)
from skcalib._validation.scores import from_tensor, naming_errors_of, refuse_lazy
from skcalib._validation.several_labels import read_indicator
from skcalib.calibrators._base import ScoreCalibrator, ShownFit

# Out-of-fold scores of a classifier, and the fit of a calibrator to the scores.


class TrainingData(NamedTuple):
    """Checked arguments of a fit: data, labels, classes, weights and groups.

    Weights ``(n,)`` and the `groups` of a groupwise calibrator, with n rows, may be None. With
    `several`, a row can have several labels: `labels` is an indicator matrix ``(n, L)``, in which
    NaN is unknown, and `classes` are the names of its columns.
    """

    X: Any
    labels: NDArray[Any]
    classes: NDArray[Any]
    w: NDArray[Any] | None
    fit_params: dict[str, Any]
    groups: NDArray[Any] | None = None
    several: bool = False


class ScoredRows(NamedTuple):
    """A fitted estimator, and the scores on which its calibrator is fitted.

    The columns of the scores are `classes`. The estimator knows the classes `known`; for several
    estimators, this is the smallest set. `stops_early` tells whether the fit used early stopping,
    and is None if the estimator does not choose this by itself.
    """

    estimator: Any
    rows: Intp
    scores: FloatArray
    response: str
    classes: NDArray[Any]
    known: NDArray[Any]
    stops_early: bool | None = None


def open_training(
    name: str, estimator: Any, X: Any, y: Any, sample_weight: Any, several: bool = False
) -> TrainingData:
    """Check the arguments of a fit, and load labels and weights from Dask arrays.

    The classes are those of a frozen estimator, or else the distinct labels. With `several`, `y`
    may be an indicator matrix of several labels for a row.
    """
    frozen = is_frozen(estimator)
    if is_dask(X):
        if not frozen:
            raise ValueError(
                f"X: {name} cannot fit its estimator on a dask array: fit the estimator first, and "
                "pass FrozenEstimator(estimator)."
            )
        y, sample_weight = compute_now(y, sample_weight)
    is_other = hasattr(X, "__array_namespace__") and not isinstance(X, np.ndarray)
    if is_other and not frozen and get_config()["array_api_dispatch"] and not is_tensor(X):
        raise ValueError(
            f"X: {name} fits its estimator only on NumPy arrays and PyTorch tensors: convert X to "
            "one of these types."
        )
    y = replace_absent_rows(y, rows_replacing_weight_0(sample_weight))
    matrix = read_indicator(y, frozen) if several else None
    labels = check_labels(y, soft=True, warn=True) if matrix is None else matrix[0]
    if are_soft(labels):
        refuse_soft(labels, "y", name, TAKERS)
    if not is_dask(X):
        if not takes_dask(estimator):
            refuse_lazy("X", X)
        with naming_errors_of("X", None, "pass one row of X for each label of y"):
            X, labels = indexable(X, labels)
    w = None if sample_weight is None else read_weight(sample_weight, len(labels))
    # If a new clone of the estimator counts as fitted, the estimator needs no fit or only has
    # frozen parts.
    if not frozen and _is_fitted(estimator) and not _is_fitted(clone(estimator)):
        warnings.warn(
            "estimator: it is already fitted, and will be fitted again in folds of X: to keep the "
            "fitted estimator, pass FrozenEstimator(model).",
            stacklevel=3,
        )
    classes = _classes_of(estimator, labels, frozen) if matrix is None else matrix[1]
    return TrainingData(X, labels, classes, w, {}, several=matrix is not None)


def _classes_of(estimator: Any, labels: NDArray[Any], frozen: bool) -> NDArray[Any]:
    """Return the sorted class labels, after checks of their number and of unknown labels."""
    # An object with prediction methods that is not a scikit-learn estimator counts as fitted.
    if frozen and hasattr(without_frozen(estimator), "__sklearn_tags__"):
        check_is_fitted(estimator)
    if frozen and not hasattr(estimator, "classes_"):
        raise ValueError(
            f"{type(without_frozen(estimator)).__name__} has no classes_: set this attribute to "
            "the sorted labels of its columns of scores, or pass a frozen classifier."
        )
    classes = np.unique(from_tensor("estimator.classes_", estimator.classes_) if frozen else labels)
    if classes.size < 2:
        raise ValueError(
            f"{'estimator.classes_' if frozen else 'y'} needs at least two classes, but contains "
            f"{classes.size} class(es): {classes.tolist()}."
        )
    unknown = set(labels.tolist()) - set(classes.tolist())
    if unknown:
        row, label = next((i, c) for i, c in enumerate(labels.tolist()) if c in unknown)
        raise ValueError(
            f"y: label {label!r} at row {row} is not in estimator.classes_="
            f"{short_repr(classes.tolist())}, and a frozen estimator cannot learn it: leave out "
            "the rows of such labels, or fit the estimator on all classes."
        )
    return classes


def folds_of(
    cv: Any, data: TrainingData, split_params: dict[str, Any], level: int = 3
) -> list[tuple[Any, Any]]:
    """Return the folds of cross-validation, stratified if `cv` is None or a number.

    Warns, with stack level `level`, of the first fold whose training rows lack a class.
    """
    with naming_errors_of("cv", None, WAYS_TO_FOLD):
        splitter = check_cv(cv, data.labels, classifier=True)
        splits = list(splitter.split(data.X, data.labels, **split_params))
    if not splits:
        raise ValueError("cv contains no folds: pass a number of folds or a splitter.")
    # A class with a single row is missing from the training rows of at least one fold.
    distinct, code = find_distinct(data.labels)
    several = np.bincount(code, minlength=distinct.size) > 1
    for fold, (train, _) in enumerate(splits):
        lost = several & (np.bincount(code[train], minlength=distinct.size) == 0)
        if lost.any():
            warnings.warn(
                f"cv: fold {fold} has no training row of label {distinct[lost].tolist()[0]!r}, so "
                "its scores lack this class: pass a number of folds, or a splitter that mixes the "
                "classes, such as StratifiedKFold or KFold(shuffle=True).",
                RuntimeWarning,
                stacklevel=level,
            )
            break
    return splits


def folds_of_rows(
    cv: Any, data: TrainingData, split_params: dict[str, Any]
) -> list[tuple[Any, Any]]:
    """Return the folds of cross-validation if a row can have several labels."""
    with naming_errors_of("cv", None, WAYS_TO_FOLD):
        splitter = check_cv(cv, data.labels, classifier=True)
        return list(splitter.split(data.X, data.labels, **split_params))


def is_frozen(estimator: Any) -> bool:
    """Return whether an estimator, or every step of a pipeline, is frozen."""
    if isinstance(estimator, Pipeline):
        return all(
            is_frozen(step) for _, step in estimator.steps if step not in (None, "passthrough")
        )
    return isinstance(estimator, FrozenEstimator)


def score_rows(estimator: Any, data: TrainingData, response_method: str) -> ScoredRows:
    """Compute the scores of all rows by a fitted estimator."""
    response = choose_response(estimator, response_method)
    known, rows = data.classes, np.arange(len(data.labels))
    scores = class_scores(estimator, data.X, response, known, data.several)
    return ScoredRows(estimator, rows, scores, response, known, known)


def score_fold(
    estimator: Any,
    data: TrainingData,
    response_method: str,
    train: Any,
    test: Any,
    every_row: bool = False,
) -> ScoredRows:
    """Fit an estimator on the training rows of a fold, and compute the scores of the test rows.

    Unless `every_row`, rows whose class the fitted estimator does not know are left out, because an
    estimator that knows the class would give other scores. For the same reason, scores of a label
    with the same value in all training rows are NaN.
    """
    X_train, y_train = _safe_split(estimator, data.X, data.labels, train)
    X_test, _ = _safe_split(estimator, data.X, data.labels, test, train)
    params = _check_method_params(data.X, data.fit_params, indices=train)
    own = data._replace(X=X_train, labels=y_train, fit_params=params)
    fitted = fit_alone(estimator, own, response_method)
    response, several = fitted.response, data.several
    scores = class_scores(fitted.estimator, X_test, response, data.classes, several)
    rows = np.arange(len(data.labels))[test]
    if several:
        scores = np.where(np.ptp(y_train, axis=0) == 0, np.nan, scores)
        return fitted._replace(rows=rows, scores=scores)
    usable = np.isin(data.labels[rows], fitted.known) | every_row
    return fitted._replace(rows=rows[usable], scores=scores[usable])


def fit_alone(estimator: Any, data: TrainingData, response_method: str) -> ScoredRows:
    """Fit an estimator on all rows, without computing scores."""
    fitted, none = fit_classifier(estimator, data), np.empty((0, data.classes.size))
    response = choose_response(fitted, response_method)
    known = data.classes if data.several else known_classes(fitted, data.classes)
    early = stops_early(fitted)
    return ScoredRows(fitted, np.arange(0), none, response, data.classes, known, early)


def fit_classifier(estimator: Any, data: TrainingData, coded: bool = True) -> Any:
    """Fit a clone of an estimator.

    With array API dispatch and a tensor `X`, labels and parameters of rows become tensors on its
    device. Because tensors cannot contain strings, string labels are replaced by their indices in
    `classes` if `coded`.
    """
    X, labels, params = data.X, data.labels, data.fit_params
    is_text = labels.dtype.kind not in "biuf"
    if coded and is_text and is_tensor(as_dispatched(np.zeros(1), X)):
        labels = np.searchsorted(data.classes, labels)
    beside = {k: as_dispatched(v, X) if isinstance(v, np.ndarray) else v for k, v in params.items()}
    return clone(estimator).fit(X, as_dispatched(labels, X), **beside)


def stops_early(fitted: Any) -> bool | None:
    """Return whether a fitted classifier chose early stopping, or None if it has no such choice."""
    return getattr(innermost(fitted), "do_early_stopping_", None)


def with_early_stopping(estimator: Any, fitted: Any) -> Any:
    """Replace early_stopping="auto" by the choice of a fitted clone, True or False."""
    decided = stops_early(fitted)
    if decided is None:
        return estimator
    params = estimator.get_params().items()
    names = [n for n, value in params if n.endswith("early_stopping") and str(value) == "auto"]
    return clone(estimator).set_params(**dict.fromkeys(names, decided))


def score_out_of_fold(*args: Any) -> ScoredRows:
    """Compute the scores of the test rows of a fold, without returning the fitted estimator."""
    return score_fold(*args)._replace(estimator=None)


def fit_calibrator(calibrator: Any, scored: ScoredRows, data: TrainingData) -> Any:
    """Fit a clone of a calibrator to scores, after setting its parameters `input` and `classes`."""
    if not scored.rows.size:
        raise ValueError(
            "cv: no row is left to fit the calibrator, because no class is in both the training "
            "and the test rows of a fold: pass a cv that mixes the classes, such as "
            "StratifiedKFold."
        )
    kind = response_kind(scored.response)
    classes = np.arange(2) if data.several else scored.classes
    own = with_input_and_classes(calibrator, kind, classes)
    keyword = None if data.w is None else weight_keyword(own)
    params = {} if data.w is None or keyword is None else {keyword: data.w[scored.rows]}
    if data.groups is not None and not data.several:
        params["groups"] = data.groups[scored.rows]
    scores, labels = scored.scores, data.labels[scored.rows]
    if data.several:
        labels = np.where(np.isnan(scores), np.nan, labels)
        return own.fit(scores, pd.DataFrame(labels, columns=scored.classes), **params)
    scores = readable_scores(own, scores, kind)
    if len(scored.known) < scored.classes.size and isinstance(own, ScoreCalibrator):
        # Here -inf is the logit of a class that was missing in the training rows of a fold, and
        # does not mark a masked class (an option that was not offered).
        own._options_before = False
    own.fit(scores, labels, **params)
    if isinstance(own, ScoreCalibrator):
        # Decision values (0, f) sum to 1 if f is 1, as probabilities do. But these scores are known
        # to be logits, so such rows are accepted.
        own._refuses_simplex = False
    return own


def calibrated_proba(
    calibrator: Any, scores: FloatArray, kind: Kind, classes: NDArray[Any], **params: Any
) -> FloatArray:
    """Return the probabilities of a fitted calibrator, with a column for each class."""
    proba = calibrator.predict_proba(readable_scores(calibrator, scores, kind), **params)
    return align_columns(proba, calibrator.classes_, classes, 0.0)


def with_input_and_classes(calibrator: Any, kind: Kind, classes: NDArray[Any]) -> Any:
    """Clone a calibrator, and set its parameters `input` and `classes` unless they are already set.

    Calibrators within a pipeline or a search are set, too.
    """
    own = clone(calibrator)
    # A clone shares frozen parts with the original, so that these parts must not be changed.
    shared = {id(part) for part in parts_of(calibrator)}
    for part in parts_of(own):
        if isinstance(part, ScoreCalibrator) and id(part) not in shared:
            if part.input == "auto":
                part.set_params(input=kind)
            if part.classes is None:
                part.set_params(classes=classes)
    return own


def parts_of(estimator: Any) -> list[Any]:
    return [estimator, *estimator.get_params(deep=True).values()]


def readable_scores(calibrator: Any, scores: FloatArray, kind: Kind) -> FloatArray:
    """Replace logits of -inf by finite logits for a calibrator of another package."""
    if not isinstance(calibrator, ScoreCalibrator):
        refuse_lazy(f"X, for {type(calibrator).__name__},", scores)
    if isinstance(calibrator, ScoreCalibrator) or kind == "proba" or scores.min() > -np.inf:
        return scores
    return Scores(scores, kind).logits(slice(None)).astype(scores.dtype, copy=False)


def weight_keyword(estimator: Any) -> str | None:
    """Return the keyword of ``fit`` for weights, or None if ``fit`` does not accept weights."""
    if has_fit_parameter(estimator, "sample_weight"):
        return "sample_weight"
    if get_config()["enable_metadata_routing"]:
        takes_weights = get_routing_for_object(estimator).consumes("fit", ["sample_weight"])
        return "sample_weight" if takes_weights else None
    if isinstance(estimator, Pipeline):
        name, last = estimator.steps[-1]
        keyword = weight_keyword(last)
        return None if keyword is None else f"{name}__{keyword}"
    if isinstance(estimator, BaseSearchCV):
        return weight_keyword(estimator.estimator)
    return None


def warn_of_weights(estimator: Any, used: str) -> None:
    """Warn that an estimator does not accept weights, and state where weights are used."""
    warnings.warn(
        f"{type(estimator).__name__} takes no sample_weight: weights are used only in the {used}.",
        stacklevel=3,
    )


# Base class of classifiers that wrap another classifier.


class ClassifierWrapper(ShownFit, ClassifierMixin, MetaEstimatorMixin, BaseEstimator):
    """Base class of classifiers that wrap another classifier."""

    estimator: Any
    estimator_: Any
    classes_: NDArray[Any]
    # Whether a row of `y` may have several labels.
    _takes_several: ClassVar[bool] = False
    # A subclass has the method ``_proba(X, **params)``, which returns the probabilities of rows.
    _proba: Callable[..., FloatArray]

    def _wrapped(self) -> Any:
        """Return the classifier that was passed as a parameter."""
        return self.estimator

    def _inner(self) -> Any:
        """Return the fitted classifier that is wrapped."""
        return self.estimator_

    def predict_proba(self, X: Any, **params: Any) -> FloatArray:
        """Return the probabilities of the classes.

        Parameters
        ----------
        X : array-like, sparse matrix or whatever the estimator takes, of length n
            Data.
        **params : dict
            `groups`, if a :class:`GroupwiseCalibrator` needs them. Within a
            :class:`CalibratedClassifier`, this requires metadata routing.

        Returns
        -------
        proba : ndarray of shape (n, K)
            Rows sum to 1; columns follow `classes_`. A tensor on its device if `X` is one.

        Raises
        ------
        ValueError
            If the estimator's scores contain NaN or infinity.
        """
        return as_type_of(self._proba(X, **params), X)

    def predict_log_proba(self, X: Any, **params: Any) -> FloatArray:
        """Return the logarithms of the probabilities, -inf for 0.

        Parameters
        ----------
        X : array-like, sparse matrix or whatever the estimator takes, of length n
            Data.
        **params : dict
            As in `predict_proba`.

        Returns
        -------
        log_proba : ndarray of shape (n, K)
            ``log(predict_proba(X))``.
        """
        return as_type_of(log_of_proba(self._proba(X, **params)), X)

    def predict(self, X: Any, **params: Any) -> NDArray[Any]:
        """Predict the label with the largest probability, on ties the first of these labels.

        Parameters
        ----------
        X : array-like, sparse matrix or whatever the estimator takes, of length n
            Data.
        **params : dict
            As in `predict_proba`.

        Returns
        -------
        labels : ndarray of shape (n,)
        """
        return as_type_of(self._decide(self._proba(X, **params)), X)

    def _decide(self, proba: FloatArray) -> NDArray[Any]:
        """Return the predicted labels for probabilities."""
        return most_likely(proba, self.classes_)

    @property
    def n_features_in_(self) -> int:
        """Number of features in ``fit``, if the estimator stores it."""
        return self._inner().n_features_in_

    @property
    def feature_names_in_(self) -> NDArray[Any]:
        """Names of the features in ``fit``, if the estimator stores them."""
        return self._inner().feature_names_in_

    def __sklearn_tags__(self) -> Any:
        tags, estimator = super().__sklearn_tags__(), without_frozen(self._wrapped())
        # An object that only has prediction methods has no tags, even if it is frozen.
        inner = get_tags(estimator) if hasattr(estimator, "__sklearn_tags__") else tags
        tags.input_tags = inner.input_tags
        tags.non_deterministic = inner.non_deterministic
        if inner.classifier_tags is not None:
            tags.classifier_tags.poor_score = inner.classifier_tags.poor_score
            tags.classifier_tags.multi_class = inner.classifier_tags.multi_class
            several = self._takes_several and inner.classifier_tags.multi_label
            tags.classifier_tags.multi_label = several
        return tags
