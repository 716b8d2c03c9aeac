"""A classifier with a calibrator that is fitted to out-of-fold scores of the classifier."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from functools import reduce, wraps
from numbers import Integral
from operator import add
from types import SimpleNamespace
from typing import Any, ClassVar, ParamSpec, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn import get_config
from sklearn.frozen import FrozenEstimator
from sklearn.utils._param_validation import HasMethods, StrOptions
from sklearn.utils.metadata_routing import MetadataRouter, MethodMapping, process_routing
from sklearn.utils.parallel import Parallel, delayed
from sklearn.utils.validation import check_is_fitted

from skcalib._arrays.rowwise import FloatArray
from skcalib._arrays.sources import recorded_warnings
from skcalib._arrays.tensors import is_tensor
from skcalib._meta_estimators.groupwise import GroupwiseCalibrator, groups_for
from skcalib._meta_estimators.multilabel import MultilabelCalibrator
from skcalib._meta_estimators.out_of_fold import (
    ClassifierWrapper,
    ScoredRows,
    TrainingData,
    calibrated_proba,
    fit_alone,
    fit_calibrator,
    folds_of,
    folds_of_rows,
    is_frozen,
    open_training,
    score_fold,
    score_out_of_fold,
    score_rows,
    warn_of_weights,
    weight_keyword,
    with_early_stopping,
)
from skcalib._scores.responses import RESPONSES, class_scores, response_kind
from skcalib._validation.rows import check_weight
from skcalib.calibrators._base import ShownFit
from skcalib.calibrators._names import resolve_calibrator

# Base class of meta-estimators that fit their classifier in cross-validation.


class FittingWrapper(ClassifierWrapper):
    """Base class of meta-estimators whose ``fit`` fits a classifier in the folds of `cv`."""

    cv: Any
    # A subclass has the method ``_fit(data, splits)``, which returns the fitted attributes by name.
    # For a frozen estimator, `splits` is None.
    _fit: Callable[[TrainingData, Any], dict[str, Any]]

    def fit(
        self, X: Any, y: ArrayLike, sample_weight: ArrayLike | None = None, **params: Any
    ) -> Self:
        """Fit the classifier, unless it is frozen, and its calibrator or thresholds.

        Parameters
        ----------
        X : array-like, sparse matrix or whatever the estimator takes, of length n
            Data, passed to the estimator unchanged.
        y : array-like of shape (n,), or (n, L) in :class:`CalibratedClassifier`
            Labels. An indicator matrix ``(n, L)`` contains 1 if a row has a label, otherwise 0; for
            a frozen estimator, NaN marks an unknown entry.
        sample_weight : array-like of shape (n,), default=None
            Non-negative weights. Integers are counts: 2 is two copies of the row. Of floats only
            the ratios matter (see "Weights" under "Valid input" in the user guide). 0 is the row's
            absence. Weights are passed unchanged to the estimator, if it accepts weights, and to
            the calibrator for its rows.
        **params : dict
            `groups` is passed to the splitter, and everything else to the estimator's ``fit``; with
            metadata routing, each parameter is passed to the objects that request it.

        Returns
        -------
        self : object
            Fitted classifier.

        Raises
        ------
        ValueError
            If a parameter is invalid, if the scores are not finite logits or probabilities with one
            column for each class, or if the scores do not match the labels. With `ensemble`, if the
            test rows of a fold lack a class.
        """
        name, estimator = type(self).__name__, self.estimator
        if isinstance(self.cv, str) and self.cv == "prefit":
            raise ValueError(
                f"cv='prefit' is not supported: write {name}(FrozenEstimator(estimator)), with "
                "FrozenEstimator from sklearn.frozen."
            )
        self._validate_params()
        data = open_training(name, estimator, X, y, sample_weight, self._takes_several)
        if calibrates := hasattr(self, "calibrator"):
            data = data._replace(groups=groups_for(self, "fit", X, params, len(data.labels)))
        if get_config()["enable_metadata_routing"]:
            routed = process_routing(self, "fit", sample_weight=data.w, **params)
            fit_params, split_params = routed.estimator.fit, routed.splitter.split
        else:
            fit_params = dict(params)
            split_params = {k: fit_params.pop(k) for k in ("groups",) if k in fit_params}
            keyword = weight_keyword(estimator)
            if data.w is not None and keyword is not None:
                fit_params.setdefault(keyword, data.w)
            elif data.w is not None and not isinstance(estimator, FrozenEstimator):
                used = "calibration" if calibrates else "choice of the threshold"
                warn_of_weights(estimator, used)
        if data.w is not None and calibrates:
            calibrator = resolve_calibrator(self.calibrator)
            if weight_keyword(calibrator) is None:
                warn_of_weights(calibrator, "classifier")
        data = data._replace(fit_params=fit_params)
        split = folds_of_rows if data.several else folds_of
        splits = None if is_frozen(estimator) else split(self.cv, data, split_params)
        fitted = self._fit(data, splits)
        for attribute in [name for name in vars(self) if name.endswith("_")]:
            delattr(self, attribute)
        self.__dict__.update(fitted)
        return self

    def get_metadata_routing(self) -> MetadataRouter:
        """Return the metadata routing to the estimator, the splitter and a groupwise calibrator.

        The `sample_weight` that this object requests is used for the calibrator or the threshold. A
        :class:`GroupwiseCalibrator` gets its `groups` in ``fit`` and in predictions.

        Returns
        -------
        routing : MetadataRouter
        """
        to_fit = MethodMapping().add(caller="fit", callee="fit")
        to_split = MethodMapping().add(caller="fit", callee="split")
        router = MetadataRouter(owner=self).add_self_request(self)
        router.add(estimator=self.estimator, method_mapping=to_fit)
        router.add(splitter=self.cv, method_mapping=to_split)
        calibrator = getattr(self, "calibrator", None)
        if isinstance(calibrator, GroupwiseCalibrator):
            to_map = MethodMapping().add(caller="fit", callee="fit")
            for caller in ("predict_proba", "predict"):
                to_map.add(caller=caller, callee="predict_proba")
            router.add(calibrator=calibrator, method_mapping=to_map)
        return router


def with_known_classes(fits: list[ScoredRows]) -> list[ScoredRows]:
    """Drop the columns of labels that no estimator was fitted on, such as -1 for missing labels."""
    classes = fits[0].classes
    known = np.isin(classes, np.concatenate([fit.known for fit in fits]))
    if known.all():
        return fits
    return [f._replace(scores=f.scores[:, known], classes=classes[known]) for f in fits]


def one_response(responses: set[str]) -> str:
    """Return the response method that all fitted estimators use; raise an error if they differ."""
    if len(responses) > 1:
        raise ValueError(
            f"The fitted estimators have different methods ({', '.join(sorted(responses))}): pass "
            "response_method= with a method that all of them have."
        )
    return responses.pop()


P = ParamSpec("P")


def explain_method(init: Callable[P, None]) -> Callable[P, None]:
    """Add an error message for the keyword `method`, which is called `calibrator` in skcalib."""

    @wraps(init)
    def checked(*args: P.args, **keywords: P.kwargs) -> None:
        if "method" in keywords:
            raise TypeError(
                "method= is called calibrator= here: pass calibrator='platt' for scikit-learn's "
                "method='sigmoid'."
            )
        init(*args, **keywords)

    return checked


class CalibratedClassifier(FittingWrapper):
    r"""Calibrate the probabilities of a classifier by cross-validation.

    .. math:: Q(x) = g(z(x)), \qquad
              \bar Q(x) = \frac{1}{F} \sum_{f=1}^{F} g_f(z_f(x)) \text{ for an ensemble}

    with z the scores of the classifier and g the calibration function, fitted on scores of rows on
    which the classifier was not fitted. The default is :class:`AutoCalibrator`, which has the
    lowest average log loss over models of real data. With two classes, it keeps the order of the
    rows, and so the AUC, unless the scores are in a wrong order. It may change the predicted class.
    To keep the predicted class, pass ``calibrator="temperature"``, which is fastest, or
    ``calibrator=AutoCalibrator(order_preserving=True)``, which calibrates best.

    Parameters
    ----------
    estimator : estimator
        A classifier, or a pipeline that ends with a classifier. ``FrozenEstimator(fitted)``, or a
        pipeline of frozen steps, is not fitted again: the calibrator is fitted on all rows of
        ``fit``, on which the classifier should not have been fitted. Any other estimator is cloned
        and fitted in cross-validation, with a warning if it is already fitted.
    calibrator : estimator or str, default=None
        A calibrator of this package, or any classifier, which is fitted on scores as features; or
        the name of a calibrator with its default parameters, as in `compare_calibrators`: "auto",
        "temperature", "isotonic", ...; None means :class:`AutoCalibrator`. To set or search
        parameters (``calibrator__objective``), pass a calibrator instead of a name. In a calibrator
        of this package, also within a pipeline or a search, `input` is set if it is "auto", and
        `classes` if it is None.
    cv : int, splitter, iterable of (train, test) or None, default=None
        Folds; None means 5 stratified folds. Folds may overlap or leave out rows. Not used with a
        frozen estimator.
    ensemble : bool, default=False
        False: one calibrator, fitted on the out-of-fold scores of all folds, for an estimator that
        is fitted on all rows. True: an estimator and a calibrator for each fold, whose
        probabilities are averaged. Not used with a frozen estimator.
    response_method : str, default="auto"
        Method of the estimator that gives the scores: "decision_function", "predict_proba",
        "predict_log_proba", or "auto": `decision_function` if the estimator has it, else
        `predict_proba`. All methods but `predict_proba` give logits.
    n_jobs : int, default=None
        Number of folds that are fitted at the same time, as in joblib.
    verbose : int, default=0
        Progress over the folds, as in joblib.

    Attributes
    ----------
    classes_ : ndarray of shape (K,)
        Sorted labels.
    class_count_ : ndarray of shape (K,)
        Weight of the rows of each class in ``fit``.
    estimator_ : estimator
        The fitted classifier; not with `ensemble`.
    calibrator_ : estimator
        The fitted calibrator; not with `ensemble`.
    pairs_ : list of (estimator, calibrator)
        With `ensemble`, the fitted pair of each fold.
    calibrated_classifiers_ : list of objects
        The fitted estimator and calibrator, or each pair, with attributes ``estimator``,
        ``calibrators`` and ``classes``, for tools that expect scikit-learn's class.
    response_method_ : str
        The method that gives the scores.

    See Also
    --------
    ClassifierScores : Only the scores, for a pipeline that ends with a calibrator.

    Notes
    -----
    If a row can have several labels, `y` is an indicator matrix ``(n, L)`` and the estimator a
    multilabel classifier, such as `MultiOutputClassifier`, `OneVsRestClassifier`, a forest or
    `MLPClassifier`. The fitted calibrator is a :class:`MultilabelCalibrator`, whose common
    calibrator is `calibrator`. Probabilities and predictions have the shape ``(n, L)``, and
    `classes_` are the column names of `y`, or 0 to L - 1. Folds are not stratified. Scores of a
    label with the same value in all training rows of a fold are not used to fit the calibrator.

    Labels that no fitted estimator knows, such as -1 for rows without a label in
    `SelfTrainingClassifier`, are not in `classes_`, and rows with such labels are not used to fit
    the calibrator.

    A class that is missing from the training rows of a fold has a logit of -inf or a probability of
    0 in this fold, with a warning if the class has at least two rows. Rows of such a class in the
    test fold are not used to fit the calibrator, because an estimator that knows the class would
    give other scores.

    If `early_stopping` of the estimator, or of a part of it, is "auto", the fits in folds stop
    early if the fit on all rows does. ``fit`` warns if, for another estimator, only one of them
    stops early.

    For a calibrator of another package, logits of -inf are replaced by the logarithm of 1e-12, and
    a class that was missing in its fit gets probability 0.

    `sample_weight` is passed unchanged to the estimator and the calibrator. Calibrators of this
    package interpret floats as relative weights; other estimators may interpret them differently.

    References
    ----------
    .. [1] Niculescu-Mizil & Caruana (2005). Predicting good probabilities with supervised
       learning. ICML.

    Examples
    --------
    >>> from sklearn.datasets import load_digits
    >>> from sklearn.naive_bayes import GaussianNB
    >>> from skcalib import CalibratedClassifier
    >>> X, y = load_digits(return_X_y=True)
    >>> model = CalibratedClassifier(GaussianNB(), cv=3)
    >>> model.fit(X[:1200], y[:1200]).predict_proba(X[1200:]).shape
    (597, 10)

    Keep the predicted class:

    >>> kept = CalibratedClassifier(GaussianNB(), "temperature", cv=3).fit(X[:1200], y[:1200])
    >>> bool((kept.predict(X) == kept.estimator_.predict(X)).all())
    True
    """

    _takes_several: ClassVar[bool] = True
    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        "estimator": [HasMethods("fit")],
        "calibrator": [HasMethods(["fit", "predict_proba"]), str, None],
        "cv": ["cv_object"],
        "ensemble": ["boolean"],
        "response_method": [StrOptions(set(RESPONSES))],
        "n_jobs": [Integral, None],
        "verbose": ["verbose"],
    }

    @explain_method
    def __init__(
        self,
        estimator: Any,
        calibrator: Any = None,
        *,
        cv: Any = None,
        ensemble: bool = False,
        response_method: str = "auto",
        n_jobs: int | None = None,
        verbose: int = 0,
    ) -> None:
        self.estimator = estimator
        self.calibrator = calibrator
        self.cv = cv
        self.ensemble = ensemble
        self.response_method = response_method
        self.n_jobs = n_jobs
        self.verbose = verbose

    def set_params(self, **params: Any) -> Self:
        """Set parameters of the meta-estimator, the estimator and the calibrator.

        Parameters
        ----------
        **params : dict
            By name: ``cv``, ``estimator__C``, ``calibrator__objective``.

        Returns
        -------
        self : object
            The same object.

        Raises
        ------
        ValueError
            If a parameter does not exist. A calibrator that is None or a name has no parameters.
        """
        calibrator = params.get("calibrator", self.calibrator)
        nested = [name for name in params if name.startswith("calibrator__")]
        if nested and (calibrator is None or isinstance(calibrator, str)):
            raise ValueError(
                f"calibrator={calibrator!r} has no parameters, so {nested[0]} cannot be set: pass "
                f"calibrator={type(resolve_calibrator(calibrator)).__name__}()."
            )
        return super().set_params(**params)

    def _fit(self, data: TrainingData, splits: Any) -> dict[str, Any]:
        fitted = (self._fit_ensemble if splits and self.ensemble else self._fit_pair)(data, splits)
        classes, w = fitted["classes_"], check_weight(data.w, len(data.labels))
        if data.several:
            return fitted | {"class_count_": w @ np.nan_to_num(data.labels)}
        rows = np.isin(data.labels, classes)
        code = np.searchsorted(classes, data.labels[rows])
        return fitted | {"class_count_": np.bincount(code, w[rows], classes.size)}

    def _fit_pair(self, data: TrainingData, splits: Any) -> dict[str, Any]:
        if splits is None:
            scored = score_rows(self.estimator, data, self.response_method)
        else:
            scored = self._score_out_of_fold(data, splits)
        return {
            "classes_": scored.classes,
            "estimator_": scored.estimator,
            "calibrator_": fit_calibrator(self._calibrator_for(data), scored, data),
            "response_method_": scored.response,
        }

    def _score_out_of_fold(self, data: TrainingData, splits: Any) -> ScoredRows:
        # The classifier is first fitted on all rows, because this fit decides whether the folds
        # stop early.
        full = fit_alone(self.estimator, data, self.response_method)
        alike = with_early_stopping(self.estimator, full.estimator)
        folds = self._folds(score_out_of_fold, alike, data, splits)
        if {fold.stops_early for fold in folds} != {full.stops_early}:
            warnings.warn(
                "estimator: it uses early stopping either in the fit on all rows or in the folds, "
                "but not in both, so that the calibrator is fitted on scores of a different kind "
                "of model: set its early_stopping to True or False.",
                stacklevel=5,
            )
        full, *folds = with_known_classes([full, *folds])
        rows = np.concatenate([fold.rows for fold in folds])
        # Scores are sorted by row, so that the result does not depend on the order of the folds.
        order = np.argsort(rows, kind="stable")
        scores = np.concatenate([fold.scores for fold in folds])[order]
        response = one_response({fit.response for fit in (full, *folds)})
        fewest = min((fold.known for fold in folds), key=len)
        return full._replace(rows=rows[order], scores=scores, response=response, known=fewest)

    def _fit_ensemble(self, data: TrainingData, splits: Any) -> dict[str, Any]:
        for number, (train, test) in enumerate(splits):
            absent = np.setdiff1d(data.labels[train], data.labels[test])
            if absent.size:
                raise ValueError(
                    "cv does not allow all classes to be present in test splits: the test rows of "
                    f"fold {number} lack class {absent.tolist()[0]!r}; pass fewer folds, or "
                    "ensemble=False."
                )
        folds = with_known_classes(self._folds(score_fold, self.estimator, data, splits))
        response = one_response({fold.response for fold in folds})
        calibrator = self._calibrator_for(data)
        with recorded_warnings() as caught:
            pairs = [(fold.estimator, fit_calibrator(calibrator, fold, data)) for fold in folds]
        # Each warning is shown once, even if the numbers of rows in its text differ between folds.
        texts = {str(warning.message).split(" among ")[0]: warning for warning in reversed(caught)}
        for warning in texts.values():
            warnings.warn(warning.message, stacklevel=4)
        return {"classes_": folds[0].classes, "pairs_": pairs, "response_method_": response}

    def _calibrator_for(self, data: TrainingData) -> Any:
        """Return the calibrator to fit, a MultilabelCalibrator if a row can have several labels."""
        calibrator = resolve_calibrator(self.calibrator)
        if data.several and not isinstance(calibrator, MultilabelCalibrator):
            return MultilabelCalibrator(calibrator)
        return calibrator

    def _folds(self, score: Any, model: Any, data: TrainingData, splits: Any) -> list[ScoredRows]:
        return Parallel(n_jobs=self.n_jobs, verbose=self.verbose)(
            delayed(score)(model, data, self.response_method, train, test) for train, test in splits
        )

    def _proba(self, X: Any, **params: Any) -> FloatArray:
        check_is_fitted(self)
        groups = groups_for(self, "predict_proba", X, params)
        keywords = {} if groups is None else {"groups": groups}
        kind, pairs = response_kind(self.response_method_), self._pairs()
        several = self._are_several

        def part(estimator: Any, calibrator: Any) -> FloatArray:
            scores = class_scores(estimator, X, self.response_method_, self.classes_, several)
            if several:
                return calibrator.predict_proba(scores)
            return calibrated_proba(calibrator, scores, kind, self.classes_, **keywords)

        proba = reduce(add, (part(*pair) for pair in pairs))
        proba = proba / len(pairs) if len(pairs) > 1 else proba
        if is_tensor(X) or is_tensor(proba) or proba.dtype == np.float64:
            return proba
        proba = proba.astype(np.float64)
        # Rows sum to 1 in float64, unless a row can have several labels.
        return proba if several else proba / proba.sum(axis=1, keepdims=True)

    def _decide(self, proba: FloatArray) -> NDArray[Any]:
        several = self._are_several
        return (proba > 0.5).astype(np.intp) if several else super()._decide(proba)

    @property
    def _are_several(self) -> bool:
        return isinstance(self._pairs()[0][1], MultilabelCalibrator)

    def _pairs(self) -> list[tuple[Any, Any]]:
        return self.pairs_ if hasattr(self, "pairs_") else [(self.estimator_, self.calibrator_)]

    @property
    def calibrated_classifiers_(self) -> list[SimpleNamespace]:
        """Fitted estimators and calibrators, in the format that scikit-learn's tools expect."""
        return [
            SimpleNamespace(estimator=model, calibrators=[calibrator], classes=self.classes_)
            for model, calibrator in self._pairs()
        ]

    def _inner(self) -> Any:
        return self._pairs()[0][0]

    def _in_words(self) -> str:
        calibrator = self._pairs()[0][1]
        kind, pairs = type(calibrator).__name__, len(self._pairs())
        words = f": {calibrator._in_words()}" if isinstance(calibrator, ShownFit) else ""
        return f"{pairs} pairs, the first with {kind}{words}" if pairs > 1 else f"{kind}{words}"

    def _sk_visual_block_(self) -> SimpleNamespace:
        """Return the estimators in the HTML diagram, with the calibrator instead of its name."""
        parts = {"estimator": self.estimator, "calibrator": resolve_calibrator(self.calibrator)}
        return SimpleNamespace(
            kind="parallel",
            estimators=list(parts.values()),
            names=[f"{name}: {type(part).__name__}" for name, part in parts.items()],
            name_details=[str(part) for part in parts.values()],
            dash_wrapped=True,
        )
