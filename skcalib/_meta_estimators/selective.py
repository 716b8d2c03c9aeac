"""A selective classifier, which predicts only confident rows, with a guaranteed accuracy."""

from __future__ import annotations

import warnings
from numbers import Integral, Real
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray
from sklearn.frozen import FrozenEstimator
from sklearn.utils import get_tags
from sklearn.utils._param_validation import HasMethods
from sklearn.utils.parallel import Parallel, delayed
from sklearn.utils.validation import check_is_fitted

from skcalib._arrays.rowwise import Bools, Float64Array, FloatArray, Intp
from skcalib._arrays.tensors import as_type_of
from skcalib._meta_estimators.calibrated_classifier import FittingWrapper
from skcalib._meta_estimators.out_of_fold import (
    TrainingData,
    fit_classifier,
    score_out_of_fold,
    score_rows,
    with_early_stopping,
    with_input_and_classes,
)
from skcalib._scores.responses import class_scores, most_likely
from skcalib._scores.scores import top_label
from skcalib._validation.keywords import check_between, check_level, short_repr
from skcalib._validation.rows import Predictions, check_predictions, check_weight, is_whole
from skcalib._validation.scores import from_tensor
from skcalib.calibrators._base import ScoreCalibrator
from skcalib.metrics._curves.risk_coverage import rank_rows
from skcalib.metrics._statistics.selective_threshold import NO_RELATIVE_WEIGHTS, find_threshold

KINDS = {"b": "a boolean", "U": "a string", "S": "a string", "O": "a string"}


class SelectiveClassifier(FittingWrapper):
    r"""Selective classifier that predicts only confident rows, with a guaranteed accuracy.

    A row is accepted if its largest probability is at or above a threshold, which is chosen by
    :func:`skcalib.metrics.selective_threshold`. In at least `confidence_level` of repeated samples,
    the true accuracy of accepted rows is at least `accuracy`, whether or not the probabilities are
    calibrated. The rows must be independent, and new rows must have the same distribution.

    This guarantee is exact for a frozen estimator. Otherwise, the estimators of the folds determine
    the threshold, and the guarantee assumes that the estimator fitted on all rows is at least as
    accurate above the threshold. With about as many rows as columns, an estimator of all rows can
    be less accurate than those of the folds: pass a frozen estimator.

    Parameters
    ----------
    estimator : classifier
        Any classifier with ``predict_proba``: a pipeline, a `CalibratedClassifier`, or a calibrator
        of this package with scores as features. It is fitted on all rows, and the threshold is
        chosen from out-of-fold probabilities. ``FrozenEstimator(fitted)`` is not fitted again, and
        the threshold is chosen from all rows, on which the estimator must not have been fitted.
    accuracy : float in (0, 1) or dict of label to float, default=0.95
        Required accuracy of the accepted rows, with one threshold. A dict gives the accuracy of the
        rows that are predicted as each label, with a threshold and a guarantee for each label; rows
        that are predicted as other labels are not accepted.
    confidence_level : float in (0, 1), default=0.95
        Fraction of repeated samples in which the accuracy is reached, for each threshold.
    reject_label : label, default=None
        Result of ``predict`` for rows that are not accepted: of the type of the labels, or None.
    cv : int, splitter, iterable of (train, test) or None, default=None
        Folds; None means 5 stratified folds. A row in several test folds counts once. A row whose
        class is missing from the training rows counts as wrong. Not used with a frozen estimator.
    n_jobs : int, default=None
        Number of folds that are fitted at the same time, as in joblib.

    Attributes
    ----------
    estimator_, classes_ : classifier, ndarray of shape (K,)
        The fitted classifier, and the sorted labels.
    thresholds_ : ndarray of shape (K,)
        The threshold of each predicted class; infinite, with a warning, if no threshold reaches the
        accuracy.
    coverage_, accuracy_ : float
        Fraction of the rows of ``fit`` that are accepted, and accuracy of these rows (NaN without
        accepted rows), both out of fold.

    Examples
    --------
    >>> import numpy as np
    >>> from skcalib import AutoCalibrator, SelectiveClassifier
    >>> rng = np.random.default_rng(0)
    >>> y = rng.integers(3, size=4000)
    >>> Z = 4 * (rng.normal(size=(4000, 3)) + 2 * np.eye(3)[y])
    >>> selective = SelectiveClassifier(AutoCalibrator(), accuracy=0.95).fit(Z[:1000], y[:1000])
    >>> accepted = selective.accept(Z[1000:])
    >>> float((selective.predict(Z[1000:]) == y[1000:])[accepted].mean().round(3))
    0.972
    """

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        "estimator": [HasMethods("fit")],
        "accuracy": [Real, dict],
        "confidence_level": [Real],
        "reject_label": "no_validation",  # type: ignore[dict-item]  # as scikit-learn writes it
        "cv": ["cv_object"],
        "n_jobs": [Integral, None],
    }

    def __init__(
        self,
        estimator: Any,
        *,
        accuracy: float | dict[Any, float] = 0.95,
        confidence_level: float = 0.95,
        reject_label: Any = None,
        cv: Any = None,
        n_jobs: int | None = None,
    ) -> None:
        self.estimator = estimator
        self.accuracy = accuracy
        self.confidence_level = confidence_level
        self.reject_label = reject_label
        self.cv = cv
        self.n_jobs = n_jobs

    def _validate_params(self) -> None:
        super()._validate_params()
        check_level(self.confidence_level)
        wanted = self.accuracy.values() if isinstance(self.accuracy, dict) else [self.accuracy]
        for accuracy in wanted:
            check_between("accuracy", accuracy, 0, 1, "a number in (0, 1)")
        if not hasattr(self.estimator, "predict_proba"):
            raise ValueError(
                f"estimator: {type(self.estimator).__name__} has no predict_proba: pass "
                "CalibratedClassifier(estimator)."
            )

    def _fit(self, data: TrainingData, splits: Any) -> dict[str, Any]:
        if not is_whole(check_weight(data.w, data.labels.size)):
            raise ValueError(f"sample_weight: {NO_RELATIVE_WEIGHTS}.")
        fitted = self.estimator
        if splits is not None:
            fitted = fit_classifier(fitted, data, coded=False)
        elif isinstance(fitted, FrozenEstimator):
            fitted = fitted.estimator
        # A calibrator may know classes that do not occur among the rows passed to `fit`.
        classes = np.asarray(from_tensor("classes_", fitted.classes_))
        data = data._replace(classes=classes)
        targets = self._targets(classes)
        _check_reject_label(self.reject_label, classes)
        if splits is None:
            scored = score_rows(fitted, data, "predict_proba")
            rows, P = scored.rows, scored.scores
        else:
            self._warn_of_few_rows(data, splits)
            rows, P = self._cross_fit(fitted, data, splits)
        w = None if data.w is None else data.w[rows]
        chosen = self._choose(check_predictions(data.labels[rows], P, w, classes), targets)
        return {"estimator_": fitted, "classes_": classes, **chosen}

    def _targets(self, classes: NDArray[Any]) -> list[tuple[Any, str, float]]:
        """Return the columns, the description and the required accuracy for each threshold."""
        if not isinstance(self.accuracy, dict):
            return [(np.arange(classes.size), "", float(self.accuracy))]
        if not self.accuracy:
            raise ValueError("accuracy is an empty dict: pass a number or {label: number}.")
        known, targets = classes.tolist(), []
        for label, target in self.accuracy.items():
            if label not in known:
                raise ValueError(
                    f"accuracy: {label!r} is not one of the labels {short_repr(known)}."
                )
            targets.append(([known.index(label)], f" predicted as {label!r}", float(target)))
        return targets

    def _warn_of_few_rows(self, data: TrainingData, splits: Any) -> None:
        """Warn of folds with fewer rows than columns, where more rows can reduce the accuracy."""
        rows = min(data.labels[train].size for train, _ in splits)
        columns = (*getattr(data.X, "shape", ()), 0, 0)[1]
        if rows < columns and not get_tags(self).input_tags.pairwise:
            warnings.warn(
                f"cv: a fold has only {rows:,} training rows for {columns:,} columns, so that the "
                "estimator fitted on all rows may be less accurate than the estimators that set "
                "the threshold: pass FrozenEstimator(model) and rows on which it was not fitted.",
                stacklevel=4,
            )

    def _cross_fit(self, fitted: Any, data: TrainingData, splits: Any) -> tuple[Intp, FloatArray]:
        """Return the indices and out-of-fold probabilities of the rows in test folds."""
        estimator = self.estimator
        if isinstance(estimator, ScoreCalibrator):  # all folds interpret the scores in the same way
            estimator = with_input_and_classes(estimator, fitted.input_, fitted.classes_)
        estimator = with_early_stopping(estimator, fitted)
        folds = Parallel(n_jobs=self.n_jobs)(
            delayed(score_out_of_fold)(estimator, data, "predict_proba", train, test, True)
            for train, test in splits
        )
        rows = np.concatenate([fold.rows for fold in folds])
        rows, first = np.unique(rows, return_index=True)
        return rows, np.concatenate([fold.scores for fold in folds])[first]

    def _choose(
        self, predictions: Predictions, targets: list[tuple[Any, str, float]]
    ) -> dict[str, Any]:
        """Choose the thresholds, and compute the coverage and the accuracy of the accepted rows."""
        score, predicted = top_label(predictions.P)
        hit, w = predicted == predictions.code, predictions.w
        thresholds = np.full(predictions.classes.size, np.inf)
        for columns, name, target in targets:
            rows, reason = np.isin(predicted, columns), "no row is predicted as this class"
            if rows.any():
                ranked = rank_rows(score[rows], hit[rows], w[rows])
                result = find_threshold(ranked, target, float(self.confidence_level))
                thresholds[columns] = result.threshold
                reason = result.reason
            if np.isinf(thresholds[columns[0]]):
                warnings.warn(
                    f"accuracy: no threshold guarantees {target:g}, so that no row{name} is "
                    f"accepted: {reason}.",
                    stacklevel=4,
                )
        accepted = score >= thresholds.astype(score.dtype)[predicted]
        weight = float(w[accepted].sum())
        accuracy = float(w[accepted & hit].sum()) / weight if weight else np.nan
        coverage = weight / float(w.sum())
        return {"thresholds_": thresholds, "coverage_": coverage, "accuracy_": accuracy}

    def accept(self, X: Any) -> Bools:
        """Return, for each row, whether it is accepted.

        Parameters
        ----------
        X : array-like, sparse matrix or whatever the estimator takes, of length n
            Data.

        Returns
        -------
        accepted : ndarray of bool of shape (n,)
        """
        return as_type_of(accepted_rows(self._proba(X), self.thresholds_), X)

    def predict(self, X: Any) -> NDArray[Any]:  # type: ignore[override]
        """Predict the label of accepted rows, and return `reject_label` for all other rows.

        Parameters
        ----------
        X : array-like, sparse matrix or whatever the estimator takes, of length n
            Data.

        Returns
        -------
        labels : ndarray of shape (n,)
            Of the type of the labels. If `reject_label` is None and a row is not accepted, an array
            of objects that contains None for this row.
        """
        P = self._proba(X)
        _check_reject_label(self.reject_label, self.classes_)
        accepted, labels = accepted_rows(P, self.thresholds_), most_likely(P, self.classes_)
        if self.reject_label is not None or not accepted.all():
            labels = np.where(accepted, labels, np.asarray(self.reject_label))
        return as_type_of(labels, X)

    def _proba(self, X: Any) -> FloatArray:
        check_is_fitted(self)
        return class_scores(self.estimator_, X, "predict_proba", self.classes_)

    def _in_words(self) -> str:
        right = "" if np.isnan(self.accuracy_) else f", with an accuracy of {self.accuracy_:.1%}"
        return f"accepts {self.coverage_:.1%} of the rows{right}"


def accepted_rows(P: FloatArray, thresholds: Float64Array) -> Bools:
    """Return, for each row, whether its largest probability reaches the threshold of its class.

    Thresholds are rounded to the type of the probabilities, because 0.7 in float32 is below 0.7 in
    float64.
    """
    return P.max(axis=1) >= thresholds.astype(P.dtype)[P.argmax(axis=1)]


def _check_reject_label(reject: Any, classes: NDArray[Any]) -> None:
    """Raise an error if the reject label is a class label, or differs in type from the labels."""
    if reject is None:
        return
    kind, wanted = (KINDS.get(np.asarray(a).dtype.kind, "a number") for a in (reject, classes))
    if not np.isscalar(reject):
        problem = f"{short_repr(reject)} is not a label: pass a number or a string."
    elif reject in classes.tolist():
        problem = f"{reject!r} is one of the labels: pass another label or None."
    elif kind != wanted:
        problem = (
            f"{short_repr(reject)} is {kind}, but the labels are {wanted[2:]}s: pass {wanted}."
        )
    else:
        return
    raise ValueError(f"reject_label={problem}")
