"""Calibration of several labels for a row, in which labels are groups of one binary problem."""

from __future__ import annotations

from numbers import Real
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.utils._param_validation import HasMethods, Interval, StrOptions
from sklearn.utils.validation import check_is_fitted

from skcalib._arrays.rowwise import FloatArray
from skcalib._arrays.tensors import as_type_of
from skcalib._meta_estimators.groupwise import GroupwiseCalibrator
from skcalib._validation.scores import refuse_lazy
from skcalib._validation.several_labels import all_entries, read_columns, read_long_form
from skcalib.calibrators._base import ShownFit, counted, span


class MultilabelCalibrator(ShownFit, ClassifierMixin, BaseEstimator):
    r"""Calibrate the probability of each label, if a row can have several labels.

    With :math:`q_l` the probability that a common calibrator of all labels gives to label l, the
    probability of label l is

    .. math:: P_l = \frac{q_l^{a_{l1}} e^{b_{l1}}}
              {q_l^{a_{l1}} e^{b_{l1}} + (1 - q_l)^{a_{l0}} e^{b_{l0}}} .

    This is a :class:`GroupwiseCalibrator` whose groups are the labels: each known entry of the
    indicator matrix is a row of a binary problem, and its label is the group. The slopes a and the
    shifts b of a label stay close to 1 and 0 if the label has few known entries, or if labels
    differ little.

    Parameters
    ----------
    calibrator : estimator or str, default=None
        The common calibrator: a calibrator of this package, its name ("auto", "temperature", ...)
        or any classifier that accepts scores as features; None means :class:`AutoCalibrator`. Its
        parameter `input` states whether scores are logits or probabilities.
    shrinkage : "auto" or float, default="auto"
        Strength of the shrinkage of labels to the common calibrator, as in
        :class:`GroupwiseCalibrator`: "auto" estimates it from the data. With a very large number,
        all labels are calibrated alike; with a number near 0, each label separately.

    Attributes
    ----------
    classes_ : ndarray of shape (L,)
        Names of the labels: column names of `y` or `X`, otherwise 0 to L - 1.
    class_count_ : ndarray of shape (L,)
        Number of events of each label, the sum of their weights.
    calibrator_ : GroupwiseCalibrator
        The fitted calibrator. Its groups are the column indices of the labels with a known entry.

    See Also
    --------
    skcalib.metrics.calibration_by_label : Tests whether labels are calibrated.
    GroupwiseCalibrator : Calibrates groups of rows.
    CalibratedClassifier : Calibrates a multilabel classifier by this calibrator.

    Notes
    -----
    A label without a known entry is calibrated by the common calibrator. The entries of a row count
    as independent when the strength of the shrinkage is estimated.

    Examples
    --------
    >>> import numpy as np
    >>> from skcalib import MultilabelCalibrator
    >>> rng = np.random.default_rng(0)
    >>> P = rng.random((500, 3))
    >>> Y = rng.random((500, 3)) < P ** [1, 2, 3]
    >>> MultilabelCalibrator().fit(P, Y).predict_proba([[0.5, 0.5, 0.5]]).round(1)
    array([[0.5, 0.3, 0.1]])
    """

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        "calibrator": [HasMethods(["fit", "predict_proba"]), str, None],
        "shrinkage": [StrOptions({"auto"}), Interval(Real, 0, None, closed="neither")],
    }

    def __init__(self, calibrator: Any = None, *, shrinkage: str | float = "auto") -> None:
        self.calibrator = calibrator
        self.shrinkage = shrinkage

    def fit(
        self,
        X: Any,
        y: ArrayLike,
        sample_weight: ArrayLike | None = None,
        *,
        ignore_index: Any = None,
    ) -> Self:
        """Fit the common calibrator on all known entries, and a correction for each label.

        Parameters
        ----------
        X : array-like of shape (n, L) or list of L arrays of shape (n, 2)
            Held-out logits or probabilities of each label. The columns of a frame are matched with
            the columns of `y` by name. A list contains the probabilities of 0 and 1 of each label,
            as forests return them.
        y : array-like of shape (n, L)
            1 if a row has the label, otherwise 0. NaN marks an unknown entry, which is left out;
            -1 does, too, if 0 also occurs.
        sample_weight : array-like of shape (n,), default=None
            Non-negative weights. Integers are counts: 2 is two copies of the row. Of floats only
            the ratios matter (see "Weights" under "Valid input" in the user guide). 0 is the row's
            absence.
        ignore_index : number, default=None
            Entries with this number, such as 255 or -1, are unknown, too.

        Returns
        -------
        self : object
            Fitted calibrator.

        Raises
        ------
        ValueError
            If an entry of `y` is not 0, 1 or unknown, if no entry is known, if `X` and `y` have
            different shapes or names, or if the calibrator raises it.
        """
        self._validate_params()
        refuse_lazy("X", X)
        entries = read_long_form(X, y, sample_weight, ignore_index)
        fitted = GroupwiseCalibrator(self.calibrator, shrinkage=self.shrinkage)
        with entries.naming_entries():
            fitted.fit(entries.score[:, None], entries.code, entries.w, groups=entries.label)
        self.calibrator_ = fitted
        self.classes_ = entries.names
        events = entries.code if entries.w is None else entries.code * entries.w
        self.class_count_ = np.bincount(entries.label, events, entries.names.size)
        return self

    def predict_proba(self, X: Any) -> FloatArray:
        """Return the calibrated probability of each label.

        Parameters
        ----------
        X : array-like of shape (n, L) or list of L arrays of shape (n, 2)
            Scores, of the kind used in ``fit``. Columns of a frame are read by name.

        Returns
        -------
        proba : ndarray of shape (n, L)
            Probabilities of 1; columns follow `classes_`. A tensor on its device if `X` is one.

        Raises
        ------
        ValueError
            If the scores are of another kind or shape than those of ``fit``.
        """
        return as_type_of(self._proba(X), X)

    def _proba(self, X: Any) -> FloatArray:
        check_is_fitted(self)
        refuse_lazy("X", X)
        S = read_columns(X, self.classes_)
        entries = all_entries(S, self.classes_)
        with entries.naming_entries():
            P = self.calibrator_.predict_proba(entries.score[:, None], groups=entries.label)
        return np.ascontiguousarray(P[:, 1].reshape(S.shape[::-1]).T)

    def predict(self, X: Any) -> NDArray[np.intp]:
        """Predict the labels of each row: 1 if the probability of a label is above 0.5.

        Parameters
        ----------
        X : array-like of shape (n, L) or list of L arrays of shape (n, 2)
            As in `predict_proba`.

        Returns
        -------
        labels : ndarray of shape (n, L)
        """
        return as_type_of((self._proba(X) > 0.5).astype(np.intp), X)

    @property
    def n_features_in_(self) -> int:
        """Number of labels in ``fit``."""
        check_is_fitted(self)
        return int(self.classes_.size)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.classifier_tags.multi_class = False
        tags.classifier_tags.multi_label = True
        return tags

    def _in_words(self) -> str:
        common = f"common calibrator {type(self.calibrator_.calibrator_).__name__}"
        dof = span(np.round(self.calibrator_.effective_dof_, 1))
        return (
            f"{common}; {counted(self.classes_.size, 'label')} with {dof} parameters of their own"
        )
