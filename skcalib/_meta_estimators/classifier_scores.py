"""A transformer that returns the scores of a classifier."""

from __future__ import annotations

from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn import get_config
from sklearn.base import BaseEstimator, MetaEstimatorMixin, TransformerMixin, clone
from sklearn.frozen import FrozenEstimator
from sklearn.utils import get_tags
from sklearn.utils._param_validation import HasMethods, StrOptions
from sklearn.utils.metadata_routing import MetadataRouter, MethodMapping, process_routing
from sklearn.utils.validation import _check_feature_names_in, check_is_fitted

from skcalib._arrays.rowwise import FloatArray
from skcalib._arrays.tensors import as_type_of
from skcalib._scores.responses import RESPONSES, choose_response, class_scores
from skcalib._validation.scores import from_tensor


class ClassifierScores(TransformerMixin, MetaEstimatorMixin, BaseEstimator):
    r"""Transform data into the logits or probabilities of a classifier.

    A pipeline of this transformer and a calibrator is a classifier. With a `memory`, the pipeline
    computes the scores once for any number of calibrators.

    .. math:: x \mapsto z(x) \in \mathbb{R}^K \quad\text{or}\quad x \mapsto p(x)

    Parameters
    ----------
    estimator : estimator
        A classifier. ``FrozenEstimator(fitted)`` is used unchanged and needs no ``fit``; any other
        classifier is cloned and fitted.
    response_method : str, default="auto"
        Method of the classifier that gives the scores: "decision_function", "predict_proba",
        "predict_log_proba", or "auto": `decision_function` if the classifier has it, else
        `predict_proba`.

    Attributes
    ----------
    estimator_ : estimator
        The fitted classifier.
    classes_ : ndarray of shape (K,)
        Sorted labels of the columns.
    response_method_ : str
        The method that gives the scores.

    See Also
    --------
    CalibratedClassifier : Fits the calibrator on rows on which the classifier was not fitted.

    Notes
    -----
    A binary `decision_function` is returned as the two logits (0, f), so that it cannot be mistaken
    for a probability. The calibrator should be fitted on other rows than the classifier: freeze
    a fitted classifier, or use :class:`CalibratedClassifier`.

    A stored calibrator and a stored classifier are combined by
    ``make_pipeline(ClassifierScores(FrozenEstimator(classifier)), load_json(path))``, which
    predicts without a ``fit``. Pass the `response_method` that the calibrator was fitted with.

    Examples
    --------
    >>> from sklearn.datasets import load_digits
    >>> from sklearn.frozen import FrozenEstimator
    >>> from sklearn.naive_bayes import GaussianNB
    >>> from sklearn.pipeline import make_pipeline
    >>> from skcalib import ClassifierScores, TemperatureScaling
    >>> X, y = load_digits(return_X_y=True)
    >>> net = GaussianNB().fit(X[:900], y[:900])
    >>> model = make_pipeline(ClassifierScores(FrozenEstimator(net)), TemperatureScaling())
    >>> model.fit(X[900:1500], y[900:1500]).predict_proba(X[1500:]).shape
    (297, 10)
    """

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        "estimator": [HasMethods("fit")],
        "response_method": [StrOptions(set(RESPONSES))],
    }

    def __init__(self, estimator: Any, *, response_method: str = "auto") -> None:
        self.estimator = estimator
        self.response_method = response_method

    def fit(self, X: Any, y: ArrayLike | None = None, **params: Any) -> Self:
        """Fit the classifier, unless it is frozen.

        Parameters
        ----------
        X : array-like, sparse matrix or whatever the classifier takes, of length n
            Data.
        y : array-like of shape (n,), default=None
            Labels; not needed by a frozen classifier.
        **params : dict
            Passed to the classifier's ``fit``; with metadata routing, only those that it requests.

        Returns
        -------
        self : object
            Fitted transformer.

        Raises
        ------
        ValueError
            If the classifier does not have this response method.
        """
        self._validate_params()
        if get_config()["enable_metadata_routing"]:
            params = process_routing(self, "fit", **params).estimator.fit
        estimator = clone(self.estimator).fit(X, y, **params)
        self.response_method_ = choose_response(estimator, self.response_method)
        self.classes_ = np.unique(from_tensor("classes_", estimator.classes_))
        self.estimator_ = estimator
        return self

    def _is_ready(self) -> bool:
        """Return whether the classifier is frozen and fitted, so that ``fit`` is not needed."""
        estimator = vars(self).get("estimator")
        return isinstance(estimator, FrozenEstimator) and hasattr(estimator, "classes_")

    def __sklearn_is_fitted__(self) -> bool:
        return "estimator_" in vars(self) or self._is_ready()

    def __getattr__(self, name: str) -> Any:
        """Return fitted attributes even before ``fit`` if the classifier is frozen and fitted."""
        if name in ("estimator_", "classes_", "response_method_") and self._is_ready():
            if name == "estimator_":
                return self.estimator
            if name == "classes_":
                return np.unique(from_tensor("classes_", self.estimator.classes_))
            self._validate_params()
            return choose_response(self.estimator, self.response_method)
        raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")

    @property
    def n_features_in_(self) -> int:
        """Number of features in ``fit``, if the classifier stores it."""
        return self.estimator_.n_features_in_

    @property
    def feature_names_in_(self) -> NDArray[Any]:
        """Names of the features in ``fit``, if the classifier stores them."""
        return self.estimator_.feature_names_in_

    def transform(self, X: Any) -> FloatArray:
        """Return the scores of the classifier.

        Parameters
        ----------
        X : array-like, sparse matrix or whatever the classifier takes, of length n
            Data.

        Returns
        -------
        scores : ndarray of shape (n, K)
            Logits or probabilities, a column for each class.

        Raises
        ------
        ValueError
            If the scores contain NaN or infinity, or do not have one column for each class.
        """
        check_is_fitted(self)
        return as_type_of(class_scores(self.estimator_, X, self.response_method_, self.classes_), X)

    def get_feature_names_out(self, input_features: ArrayLike | None = None) -> NDArray[Any]:
        """Return the names of the output columns: the class labels as strings.

        Parameters
        ----------
        input_features : array-like of str, default=None
            Names of the features in ``fit``, which are checked but not part of the result.

        Returns
        -------
        names : ndarray of str objects of shape (K,)

        Raises
        ------
        ValueError
            If the names or their number differ from ``fit``.
        """
        check_is_fitted(self)
        _check_feature_names_in(self, input_features, generate_names=False)
        return np.array([str(label) for label in self.classes_], dtype=object)

    def get_metadata_routing(self) -> MetadataRouter:
        """Return the metadata routing, which passes all metadata to the ``fit`` of the classifier.

        Returns
        -------
        routing : MetadataRouter
        """
        mapping = MethodMapping().add(caller="fit", callee="fit")
        mapping.add(caller="fit_transform", callee="fit")
        return MetadataRouter(owner=self).add(estimator=self.estimator, method_mapping=mapping)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags = get_tags(self.estimator).input_tags
        tags.target_tags.required = True
        return tags
