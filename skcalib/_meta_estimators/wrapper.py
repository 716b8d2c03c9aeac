"""What classifiers around another one share: predictions, features, tags and routing."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from numpy.typing import NDArray
from sklearn.base import BaseEstimator, ClassifierMixin, MetaEstimatorMixin
from sklearn.utils import get_tags

from skcalib._arrays.tensors import as_type_of
from skcalib._arrays.types import FloatArray
from skcalib._scores.responses import most_likely, without_frozen
from skcalib._scores.softmax import log_of_proba
from skcalib.calibrators._shown_fit import ShownFit


class ClassifierWrapper(ShownFit, ClassifierMixin, MetaEstimatorMixin, BaseEstimator):
    """Base class of classifiers around another one."""

    estimator: Any
    estimator_: Any
    classes_: NDArray[Any]
    # The probabilities of rows, ``_proba(X, **params)``.
    _proba: Callable[..., FloatArray]

    def _given(self) -> Any:
        """Return the classifier that is a parameter."""
        return self.estimator

    def _inner(self) -> Any:
        """Return the fitted classifier within."""
        return self.estimator_

    def predict_proba(self, X: Any, **params: Any) -> FloatArray:
        """Return the probabilities of the classes.

        Parameters
        ----------
        X : array-like, sparse matrix or whatever the estimator takes, of length n
            Data.
        **params : dict
            `groups`, if a :class:`GroupwiseCalibrator` needs them; for one within a
            :class:`CalibratedClassifier`, with metadata routing.

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
        """Return the label of the largest probability, the lowest column on ties.

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
        return as_type_of(most_likely(self._proba(X, **params), self.classes_), X)

    @property
    def n_features_in_(self) -> int:
        """Number of features in ``fit``, if the estimator stores it."""
        return self._inner().n_features_in_

    @property
    def feature_names_in_(self) -> NDArray[Any]:
        """Names of the features in ``fit``, if the estimator stores them."""
        return self._inner().feature_names_in_

    def __sklearn_tags__(self) -> Any:
        tags, given = super().__sklearn_tags__(), without_frozen(self._given())
        # An object with predictions alone, which may be frozen, has no tags.
        inner = get_tags(given) if hasattr(given, "__sklearn_tags__") else tags
        tags.input_tags = inner.input_tags
        tags.non_deterministic = inner.non_deterministic
        if inner.classifier_tags is not None:
            tags.classifier_tags.poor_score = inner.classifier_tags.poor_score
            tags.classifier_tags.multi_class = inner.classifier_tags.multi_class
        return tags
