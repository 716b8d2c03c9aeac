"""Adjustment of the probabilities of a classifier to new class priors, known or estimated."""

from __future__ import annotations

import warnings
from functools import partial
from numbers import Real
from typing import Any, ClassVar, Self

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike, NDArray
from scipy.special import expit, logit, ndtri
from scipy.stats import kstwobign
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils._param_validation import HasMethods
from sklearn.utils.validation import check_is_fitted

from skcalib._arrays.dask import compute_now, mapped
from skcalib._arrays.rowwise import Float64Array, FloatArray
from skcalib._arrays.sources import is_dask
from skcalib._meta_estimators.out_of_fold import ClassifierWrapper
from skcalib._scores.responses import class_scores, without_frozen
from skcalib._validation.keywords import short_repr
from skcalib._validation.rows import check_weight, effective
from skcalib._validation.scores import from_tensor

# The EM algorithm ends when no class prior changes by TOLERANCE, or after MOST_STEPS steps.
TOLERANCE, MOST_STEPS = 1e-9, 3000
# Confidence level of the intervals of estimated class priors.
LEVEL = 0.95
# If the interval of a class prior is wider than this value, ``fit`` warns.
WIDE = 0.5
# Tolerance for given class priors outside [0, 1], and for sums of priors that are not 1.
ROUNDING = 1e-6
# If the p-value of the test of the prior shift assumption is below this value, ``fit`` warns.
LEAST_PVALUE = 0.01


def corrected(P: FloatArray, ratio: Float64Array, priors: Float64Array) -> FloatArray:
    """Multiply probabilities P by `ratio` and normalise rows; rows of zeros become `priors`."""
    if is_dask(P):
        return mapped(partial(corrected, ratio=ratio, priors=priors), P, priors.shape, P.dtype)
    Q = P * ratio.astype(P.dtype)
    Q = np.where(Q.sum(axis=1, keepdims=True) > 0, Q, priors.astype(P.dtype))
    return np.asarray(Q / Q.sum(axis=1, keepdims=True))


def estimate_shares(P: Float64Array, w: Float64Array, source: Float64Array) -> Float64Array:
    """Estimate class priors by the EM algorithm (Saerens et al. 2002).

    K pseudo rows with the priors `source` are added. Every third step extrapolates the previous two
    (SQUAREM, Varadhan and Roland 2008), which saves hundreds of steps with weak scores.
    """
    R = P / source
    R /= R.max(axis=1, keepdims=True)
    n, K = w.sum(), source.size

    def step(priors: Float64Array) -> Float64Array:
        return (priors * ((w / (R @ priors)) @ R) + K * source) / (n + K)

    priors = source
    for _ in range(MOST_STEPS // 3):
        first = step(priors)
        change, bend = first - priors, step(first) - 2 * first + priors
        if np.abs(change).max() < TOLERANCE:
            return first
        length = max(1.0, float(np.linalg.norm(change)) / (float(np.linalg.norm(bend)) + 1e-300))
        further = priors + 2 * length * change + length**2 * bend
        if (further <= 0).any():
            further = first
        priors = step(further / further.sum())
    warnings.warn(
        f"the estimated priors still changed by {np.abs(change).max():.1g} after {MOST_STEPS:,} "
        "iterations, because the scores hardly separate the classes: pass priors= if the priors "
        "are known.",
        ConvergenceWarning,
        stacklevel=3,
    )
    return priors


def share_ends(
    P: Float64Array,
    w: Float64Array,
    source: Float64Array,
    priors: Float64Array,
    count: Float64Array,
) -> Float64Array:
    """Return the ends of the confidence intervals of estimated class priors, ``(2, K)``.

    The variance has two parts: that of the new rows, from their Fisher information, and that of the
    class counts in the calibration rows.
    """
    K, G = source.size, P / source
    G /= (G @ priors)[:, None]
    weight = w[:, None] * G * priors
    total = weight.sum(axis=0)
    means = (weight.T @ G) / total[:, None]
    # Compute the sum over the classes l of priors_l^2 Cov(g | l) / count_l, where a row g of G
    # contains the densities of the classes relative to the density of their mixture.
    of_row = weight @ (priors**2 / (count * total))
    spread = (G.T * of_row) @ G - (means.T * (priors**2 / count)) @ means
    information = (G.T * w) @ G + np.diag(K * source / priors**2)
    # The inverse of the information takes into account that the estimated priors sum to 1.
    ones = np.ones((K, 1))
    inverse = np.linalg.inv(np.block([[information, ones], [ones.T, np.zeros((1, 1))]]))[:K, :K]
    variance = inverse @ (information + w.sum() ** 2 * spread) @ inverse
    half = float(ndtri((1 + LEVEL) / 2)) * np.sqrt(np.maximum(variance.diagonal(), 1e-300))
    p = np.clip(priors, 1e-12, 1 - 1e-12)
    signs = np.array([[-1.0], [1.0]])
    linear = np.clip(priors + signs * half, 0, 1)
    by_logit = expit(logit(p) + signs * half / (p * (1 - p)))
    return np.stack([np.minimum(linear, by_logit)[0], np.maximum(linear, by_logit)[1]])


def ks_pvalue(P: Float64Array, w: Float64Array, Q: Float64Array, r: Float64Array) -> float:
    """Return the p-value for rows P (weights w) and Q (weights r) having the same distribution.

    A Kolmogorov-Smirnov test of each class, with Bonferroni correction. The number of weighted rows
    Q is replaced by Kish's effective number of rows.
    """
    columns = slice(int(P.shape[1] == 2), None)
    values = np.concatenate([P, Q])[:, columns]
    steps = np.concatenate([w / w.sum(), -r / r.sum()])
    order = values.argsort(axis=0)
    gaps = np.abs(steps[order].cumsum(axis=0))[:-1]
    untied = np.diff(np.take_along_axis(values, order, axis=0), axis=0) > 0
    n, m = w.sum(), r.sum() ** 2 / (r @ r)
    largest = gaps[untied].max(initial=0.0)
    return min(1.0, values.shape[1] * float(kstwobign.sf(largest * np.sqrt(n * m / (n + m)))))


class PriorCorrection(ClassifierWrapper):
    r"""Adjust the probabilities of a classifier to new class priors.

    The probabilities must be calibrated on the source data, and the scores of each class must have
    the same distribution in the source data and in the new data: for example, ill patients have the
    same distribution of scores, and only the proportion of ill patients differs. Then, by Bayes'
    rule,

    .. math:: q_k = \frac{P_k \pi_k / s_k}{\sum_l P_l \pi_l / s_l}

    with P the probabilities of the classifier, s the class priors in the source data, on which it
    was calibrated, and :math:`\pi` the class priors in the new data, which are given or estimated
    from rows without labels.

    Parameters
    ----------
    estimator : classifier
        A fitted calibrator of this package, a fitted `CalibratedClassifier`, or any fitted
        classifier whose probabilities are calibrated. It is not fitted again.
    priors : array-like of shape (K,), Series or dict by label, or float, default=None
        Class priors in the new data, in the order of `classes_`. A Series is read by its index. A
        Series or a dict may leave out one class. A number is the prior of the second of two
        classes. None: the priors are estimated from the rows of ``fit``.
    source_priors : array-like of shape (K,), Series or dict by label, or float, default=None
        Class priors in the rows on which the estimator was calibrated. None: computed from its
        `class_count_`, where a class without rows counts as half a row.

    Attributes
    ----------
    classes_ : ndarray of shape (K,)
        Labels of the columns.
    source_priors_, priors_ : ndarray of shape (K,)
        Class priors in the source data and in the new data.
    priors_low_, priors_high_ : ndarray of shape (K,)
        Ends of 95 % confidence intervals of the estimated priors; NaN if priors were given.
    assumption_pvalue_ : float
        p-value of the test that the probabilities of the new rows have the same distribution as
        those of `X_source` with the class priors `priors_`; NaN without `X_source`. Not stored in
        files.
    frame : DataFrame
        The class priors, a row for each class.

    Warns
    -----
    UserWarning
        In ``fit``, if the interval of a prior is wider than 0.5, or if `assumption_pvalue_` is
        below 0.01: then not only the priors have changed.
    sklearn.exceptions.ConvergenceWarning
        In ``fit``, if the estimated priors still change after 3,000 steps.

    See Also
    --------
    CalibratedClassifier : Calibrates a classifier on data with labels.
    skcalib.metrics.calibration_test : Tests whether probabilities are calibrated in the new data.

    Notes
    -----
    Priors are estimated by the EM algorithm for the mixture of the classes, with K pseudo rows that
    have the priors `source_priors_`. The variance of an interval has two parts: that of the new
    rows, from the Fisher information of the mixture, and that of the class counts in the
    calibration rows, which is 0 without a `class_count_`. An interval contains both the linear
    interval and the interval for the log-odds. A row in which each possible class has probability 0
    gets `priors_`.

    The test of the assumption compares the distribution function of each class's probability in
    the new rows with that of the rows `X_source`, weighted by :math:`\sum_k P_k \pi_k / s_k`, by
    the Kolmogorov-Smirnov statistic; the p-value is the smallest one times the number of classes.
    The test cannot detect a change that looks like a change of priors.

    A new scanner or a different group of patients changes more than the priors. With 100 labels
    from the new data, test calibration by :func:`skcalib.metrics.calibration_test` and correct it
    by ``PlattScaling(fit_slope=False)``; with 300 or more labels, fit a new calibrator.

    References
    ----------
    Saerens, Latinne, Decaestecker (2002). Adjusting the outputs of a classifier to new a priori
    probabilities: a simple procedure. Neural Computation.

    Elkan (2001). The foundations of cost-sensitive learning. IJCAI.

    Examples
    --------
    >>> import numpy as np
    >>> from skcalib import PlattScaling, PriorCorrection
    >>> rng = np.random.default_rng(0)
    >>> y = np.where(rng.random(2000) < 0.12, "ill", "healthy")
    >>> z = rng.normal(2.0 * (y == "ill"))
    >>> calibrator = PlattScaling(input="logits").fit(z, y)

    Pass the prevalence if it is known:

    >>> adjusted = PriorCorrection(calibrator, priors={"ill": 0.03}).fit()
    >>> adjusted.predict_proba(np.array([2.0])).round(3)
    array([[0.823, 0.177]])

    Otherwise, estimate the prevalence from rows without labels:

    >>> new = rng.normal(2.0 * (rng.random(5000) < 0.03))
    >>> PriorCorrection(calibrator).fit(new).frame.round(3)  # doctest: +NORMALIZE_WHITESPACE
             before    now    low   high
    class
    healthy   0.876  0.976  0.958  0.989
    ill       0.124  0.024  0.011  0.042
    """

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        "estimator": [HasMethods("predict_proba"), HasMethods("decision_function")],
        "priors": ["array-like", dict, Real, None],
        "source_priors": ["array-like", dict, Real, None],
    }
    assumption_pvalue_ = float("nan")

    def __init__(self, estimator: Any, *, priors: Any = None, source_priors: Any = None) -> None:
        self.estimator = estimator
        self.priors = priors
        self.source_priors = source_priors

    def __sklearn_clone__(self) -> Self:
        return type(self)(self.estimator, priors=self.priors, source_priors=self.source_priors)

    def fit(
        self,
        X: Any = None,
        y: Any = None,  # noqa: ARG002  # as scikit-learn calls it
        sample_weight: ArrayLike | None = None,
        *,
        X_source: Any = None,
        **params: Any,
    ) -> Self:
        """Store the given class priors of the new data, or estimate the class priors from rows.

        Parameters
        ----------
        X : array-like, sparse matrix or whatever the estimator takes, of length n, default=None
            Rows of the new data. With given `priors`, used only for the test against `X_source`.
        y : None
            Not used: if labels of the new data are known, fit a calibrator instead.
        sample_weight : array-like of shape (n,), default=None
            Non-negative weights. Integers are counts: 2 is two copies of the row. Of floats only
            the ratios matter (see "Weights" under "Valid input" in the user guide). 0 is the row's
            absence.
        X_source : array-like, sparse matrix or whatever the estimator takes, default=None
            Rows of the source data, such as those on which the estimator was calibrated. The new
            rows are compared with these rows by a test (`assumption_pvalue_`). No labels needed.
        **params : dict
            Passed to ``predict_proba`` of the estimator, such as `groups`.

        Returns
        -------
        self : object
            Fitted classifier.

        Raises
        ------
        ValueError
            If priors are not in [0, 1], do not sum to 1, contain an unknown label or are missing,
            or if neither `priors` nor rows are given.
        """
        self._validate_params()
        estimator = without_frozen(self.estimator)
        name = type(estimator).__name__
        if not hasattr(estimator, "predict_proba"):
            raise ValueError(
                f"estimator: {name} has no predict_proba: pass a fitted CalibratedClassifier."
            )
        check_is_fitted(estimator)
        classes = np.asarray(from_tensor("classes_", estimator.classes_))
        # If the estimator has no class counts, source_priors must be given and is treated as exact.
        count = getattr(estimator, "class_count_", np.full(classes.size, np.inf))
        count = np.maximum(count, 0.5)
        if self.source_priors is not None:
            source = read_shares(self.source_priors, classes, "source_priors")
        elif np.isfinite(count).all():
            source = count / count.sum()
        else:
            raise ValueError(
                f"estimator: {name} has no class_count_: pass source_priors=, the class priors in "
                "the rows on which it was calibrated."
            )

        def proba(rows: Any) -> Float64Array:
            scores = class_scores(self.estimator, rows, "predict_proba", classes, **params)
            return np.asarray(compute_now(scores)[0], dtype=np.float64)

        tested = X is not None and X_source is not None
        if tested or (X is not None and self.priors is None):
            P = proba(X)
            w = effective(check_weight(sample_weight, len(P), warn=True))
            P, w = P[w > 0], w[w > 0]
        if tested:
            try:
                Q = proba(X_source)
            except ValueError as error:  # the estimator's message says X instead of X_source
                raise ValueError(f"X_source: {error}") from error
        ends = np.full((2, classes.size), np.nan)
        if self.priors is not None:
            priors = read_shares(self.priors, classes, "priors")
            unknown = (source == 0) & (priors > 0)
            if unknown.any():
                raise ValueError(
                    f"source_priors: the prior of {classes[unknown].tolist()[0]!r} is 0, so that "
                    "the scores of this class are unknown: its prior in priors must be 0, too."
                )
        else:
            if X is None:
                raise ValueError(
                    "X and priors are both None: pass rows of the new data, or priors=."
                )
            some = source > 0
            data = P[:, some], w, source[some]
            priors = np.zeros(classes.size)
            priors[some] = estimate_shares(*data)
            ends[:] = 0.0
            ends[:, some] = share_ends(*data, priors[some], count[some])
        self.classes_, self.source_priors_, self.priors_ = classes, source, priors
        self.priors_low_, self.priors_high_ = ends
        self.assumption_pvalue_ = ks_pvalue(P, w, Q, Q @ self._ratio) if tested else np.nan
        if self.assumption_pvalue_ < LEAST_PVALUE:
            warnings.warn(
                "X differs from X_source in more than the class priors (p = "
                f"{self.assumption_pvalue_:.2g}), so that the adjusted probabilities may be wrong: "
                "fit a calibrator on labelled rows of the new data.",
                stacklevel=2,
            )
        widest = int(np.argmax(ends[1] - ends[0]))
        if ends[1, widest] - ends[0, widest] > WIDE:
            warnings.warn(
                f"X hardly determines the prior of {classes.tolist()[widest]!r}, whose confidence "
                f"interval is {ends[0, widest]:.2g} to {ends[1, widest]:.2g}: pass priors= if the "
                "priors are known.",
                stacklevel=2,
            )
        return self

    @property
    def _ratio(self) -> Float64Array:
        """Factor of the probability of each class: its new prior divided by its old prior."""
        return self.priors_ / np.where(self.source_priors_ > 0, self.source_priors_, np.inf)

    def _proba(self, X: Any, **params: Any) -> FloatArray:
        check_is_fitted(self)
        P = class_scores(self.estimator, X, "predict_proba", self.classes_, **params)
        return corrected(P, self._ratio, self.priors_)

    @property
    def frame(self) -> pd.DataFrame:
        """Old and new prior of each class, and the ends of the interval of the new prior."""
        check_is_fitted(self)
        shares = [self.source_priors_, self.priors_, self.priors_low_, self.priors_high_]
        frame = pd.DataFrame(shares, ["before", "now", "low", "high"], self.classes_)
        return frame.T.rename_axis("class")

    @property
    def input_(self) -> str:
        """Whether the scores are "logits" or "proba", if the estimator is a calibrator."""
        return self.estimator.input_

    def _inner(self) -> Any:
        return self.estimator

    def _in_words(self) -> str:
        k = 1 if self.classes_.size == 2 else int(np.argmax(np.abs(np.log(self._ratio + 1e-300))))
        ends = ""
        if not np.isnan(self.priors_low_[k]):
            ends = f" ({self.priors_low_[k]:.3g} to {self.priors_high_[k]:.3g})"
        change = f"{self.source_priors_[k]:.3g} -> {self.priors_[k]:.3g}{ends}"
        return f"prior of {self.classes_.tolist()[k]!r}: {change}"


def read_shares(priors: Any, classes: NDArray[Any], name: str) -> Float64Array:
    """Check class priors in any form, and return them as an array ``(K,)`` that sums to 1."""
    labels = classes.tolist()
    if isinstance(priors, Real):
        if len(labels) != 2:
            raise ValueError(
                f"{name}={priors} is one number, but there are {len(labels)} classes: pass one "
                "prior for each class, or a dict of label to prior."
            )
        priors = {labels[1]: priors}
    if isinstance(priors, pd.Series):
        if not priors.index.is_unique:
            raise ValueError(
                f"{name}: a label occurs twice in the index: pass one prior for each label."
            )
        priors = priors.to_dict()
    if isinstance(priors, dict):
        unknown = [label for label in priors if label not in labels]
        if unknown:
            raise ValueError(
                f"{name}: {unknown[0]!r} is not one of the labels {short_repr(labels)}: correct "
                "it, or pass priors without labels as an array in the order of classes_."
            )
        missing = [label for label in labels if label not in priors]
        if len(missing) > 1:
            raise ValueError(
                f"{name} lacks {missing[0]!r} and {missing[1]!r}: leave out at most one label."
            )
        for label, share in priors.items():
            is_number = isinstance(share, Real) and not isinstance(share, bool)
            if not is_number or not -ROUNDING <= share <= 1 + ROUNDING:
                value = np.array(share).tolist()
                raise ValueError(
                    f"{name}: the prior of {label!r} is {value!r}, but must be a number in [0, 1]."
                )
        rest = 1 - sum(priors.values())
        priors = [priors.get(label, rest) for label in labels]
    shares = np.asarray(priors, dtype=np.float64)
    if shares.shape != classes.shape:
        raise ValueError(f"{name} has shape {shares.shape}: pass {len(labels)} priors.")
    k = int(shares.argmin() if shares.max() <= 1 + ROUNDING else shares.argmax())
    if not -ROUNDING <= shares[k] <= 1 + ROUNDING:  # this condition also refuses NaN
        raise ValueError(f"{name}: the prior of {labels[k]!r} is {shares[k]:.6g}, not in [0, 1].")
    if abs(shares.sum() - 1) > ROUNDING:
        raise ValueError(f"{name}: the priors sum to {shares.sum():.6g}, but must sum to 1.")
    shares = np.maximum(shares, 0.0)
    return shares / shares.sum()
