"""A classifier where other shares of the classes are met: known ones, or estimated."""

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

# The EM algorithm ends when no share moves by TOLERANCE, or after MOST_STEPS.
TOLERANCE, MOST_STEPS = 1e-9, 3000
LEVEL = 0.95
# An interval of a share that is wider says little.
WIDE = 0.5
# Shares may differ by this from a sum of 1.
ROUNDING = 1e-6
# A smaller p-value of the test of the assumption is a warning.
LEAST_PVALUE = 0.01


def corrected(P: FloatArray, ratio: Float64Array, priors: Float64Array) -> FloatArray:
    """Return P times ``ratio``, rows divided by their sums; rows that vanish become `priors`."""
    if is_dask(P):
        return mapped(partial(corrected, ratio=ratio, priors=priors), P, priors.shape, P.dtype)
    Q = P * ratio.astype(P.dtype)
    Q = np.where(Q.sum(axis=1, keepdims=True) > 0, Q, priors.astype(P.dtype))
    return np.asarray(Q / Q.sum(axis=1, keepdims=True))


def estimate_shares(P: Float64Array, w: Float64Array, source: Float64Array) -> Float64Array:
    """Return shares by the EM algorithm (Saerens et al. 2002), with K pseudo rows in `source`.

    Every third step goes further in the direction of the last two (SQUAREM, Varadhan and Roland
    2008), which saves hundreds where the rows say little.
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
        f"after {MOST_STEPS:,} steps the shares still moved by {np.abs(change).max():.1g}: the "
        "rows say little about them; give priors= if they are known.",
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
    """Return the ends of intervals of estimated shares, ``(2, K)``.

    The variance is that of the new rows, by their information, and that of the class counts of
    the rows that the probabilities were calibrated on.
    """
    K, G = source.size, P / source
    G /= (G @ priors)[:, None]
    weight = w[:, None] * G * priors
    total = weight.sum(axis=0)
    means = (weight.T @ G) / total[:, None]
    # Sum over the classes l of priors_l^2 Cov(g | l) / count_l.
    of_row = weight @ (priors**2 / (count * total))
    spread = (G.T * of_row) @ G - (means.T * (priors**2 / count)) @ means
    information = (G.T * w) @ G + np.diag(K * source / priors**2)
    # The shares sum to 1.
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
    """Return the p-value of a test that P, with weights w, is distributed as Q with weights r.

    Kolmogorov and Smirnov's test of each class, by Bonferroni's inequality. Kish's number of rows
    takes the place of that of the weighted rows Q.
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
    r"""The probabilities of a classifier where the classes have other shares.

    The probabilities must be calibrated for the rows that the classifier comes from, and each
    class must look there as it does here: of those who are ill, scores are distributed alike in
    both places, only more or fewer are ill. Then, by the rule of Bayes,

    .. math:: q_k = \frac{P_k \pi_k / s_k}{\sum_l P_l \pi_l / s_l}

    with P the probabilities of the classifier, s the shares of the classes where it was calibrated
    and :math:`\pi` those of the new place, which are given or estimated from rows without labels.

    Parameters
    ----------
    estimator : classifier
        A fitted calibrator of this package, a fitted `CalibratedClassifier`, or any fitted
        classifier whose probabilities are calibrated. It is not fitted again.
    priors : array-like of shape (K,), Series or dict by label, or float, default=None
        Shares of the classes in the new place, in the order of `classes_`. A Series is read by its
        index. It or a dict may leave out one class; a number is the share of the second of two
        classes. None: they are estimated from the rows of ``fit``.
    source_priors : array-like of shape (K,), Series or dict by label, or float, default=None
        Shares of the classes in the rows that the estimator was calibrated on. None: those of its
        `class_count_`, where a class without rows counts as half a row.

    Attributes
    ----------
    classes_ : ndarray of shape (K,)
        Labels of the columns.
    source_priors_, priors_ : ndarray of shape (K,)
        Shares of the classes before, and in the new place.
    priors_low_, priors_high_ : ndarray of shape (K,)
        Ends of 95 % intervals of the estimated shares; NaN if they were given.
    assumption_pvalue_ : float
        p-value of the test that the probabilities of the new rows are distributed as those of
        `X_source` with the shares `priors_`; NaN without `X_source`. It is not stored in files.
    frame : DataFrame
        The shares, a row for each class.

    Warns
    -----
    UserWarning
        In ``fit``, if the interval of a share is wider than 0.5, or if `assumption_pvalue_` is
        below 0.01: then more than the shares has changed.
    sklearn.exceptions.ConvergenceWarning
        In ``fit``, if the estimated shares still move after 3,000 steps.

    See Also
    --------
    CalibratedClassifier : Calibrates a classifier where there are labels.
    skcalib.metrics.calibration_test : Whether the probabilities are calibrated in the new place.

    Notes
    -----
    Shares are estimated by the EM algorithm for the mixture of the classes, with K pseudo rows that
    have the shares `source_priors_`. Intervals add the chance of the new rows, from the information
    of the mixture, to that of the class counts of the calibration rows; they are the hull of
    the linear interval and that of the log-odds. Without a `class_count_`, the second part is 0.
    A row in which each possible class had probability 0 gets `priors_`.

    The test of the assumption compares the distribution function of each class's probability in
    the new rows with that of the rows `X_source`, weighted by :math:`\sum_k P_k \pi_k / s_k`, by
    Kolmogorov and Smirnov's statistic; the p-value is the smallest one times the number of
    classes. It cannot see a change that looks like other shares.

    A new scanner or other patients are more than other shares. With 100 labels of the new place,
    test by :func:`skcalib.metrics.calibration_test` and correct by
    ``PlattScaling(fit_slope=False)``; with 300 or more, fit a calibrator there.

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

    The prevalence is known:

    >>> there = PriorCorrection(calibrator, priors={"ill": 0.03}).fit()
    >>> there.predict_proba(np.array([2.0])).round(3)
    array([[0.823, 0.177]])

    It is estimated from rows without labels:

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
        """Read the shares of the new place, or estimate them.

        Parameters
        ----------
        X : array-like, sparse matrix or whatever the estimator takes, of length n, default=None
            Rows of the new place; of use with given `priors` only for the test of `X_source`.
        y : None
            Not used: with labels of the new place, fit a calibrator there.
        sample_weight : array-like of shape (n,), default=None
            Non-negative weights. Integers are counts: 2 is two copies of the row. Of floats only
            the ratios matter (see "Weights" under "Valid input" in the user guide). 0 is the row's
            absence.
        X_source : array-like, sparse matrix or whatever the estimator takes, default=None
            Rows that the estimator was calibrated on, or others from there: the new rows are
            tested against them (`assumption_pvalue_`). They need no labels.
        **params : dict
            Passed to ``predict_proba`` of the estimator, such as `groups`.

        Returns
        -------
        self : object
            Fitted classifier.

        Raises
        ------
        ValueError
            If shares are not in [0, 1] or do not sum to 1, name a label that is not a class, are
            needed but not given, or if there are neither `priors` nor rows.
        """
        self._validate_params()
        estimator = without_frozen(self.estimator)
        name = type(estimator).__name__
        if not hasattr(estimator, "predict_proba"):
            raise ValueError(
                f"{name} has no predict_proba: calibrate it, as CalibratedClassifier(estimator)."
            )
        check_is_fitted(estimator)
        classes = np.asarray(from_tensor("classes_", estimator.classes_))
        # Without counts, source_priors is given, and has no error.
        count = getattr(estimator, "class_count_", np.full(classes.size, np.inf))
        count = np.maximum(count, 0.5)
        if self.source_priors is not None:
            source = read_shares(self.source_priors, classes, "source_priors")
        elif np.isfinite(count).all():
            source = count / count.sum()
        else:
            raise ValueError(
                f"{name} has no class_count_: pass source_priors=, the shares of the classes in "
                "the rows that it was calibrated on."
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
            except ValueError as error:  # the estimator calls these rows X
                raise ValueError(f"X_source: {error}") from error
        ends = np.full((2, classes.size), np.nan)
        if self.priors is not None:
            priors = read_shares(self.priors, classes, "priors")
            unknown = (source == 0) & (priors > 0)
            if unknown.any():
                raise ValueError(
                    f"source_priors: the share of {classes[unknown].tolist()[0]!r} is 0, so that "
                    "nothing is known about this class: its share in priors must be 0, too."
                )
        else:
            if X is None:
                raise ValueError("fit() needs rows of the new place, or pass priors=.")
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
                "the new rows are not X_source with other shares of the classes (p = "
                f"{self.assumption_pvalue_:.2g}): the classes themselves look different, and the "
                "corrected probabilities may be wrong; fit a calibrator on labelled rows.",
                stacklevel=2,
            )
        widest = int(np.argmax(ends[1] - ends[0]))
        if ends[1, widest] - ends[0, widest] > WIDE:
            warnings.warn(
                f"the rows say little about the share of {classes.tolist()[widest]!r} "
                f"({ends[0, widest]:.2g} to {ends[1, widest]:.2g}): give priors= if it is known.",
                stacklevel=2,
            )
        return self

    @property
    def _ratio(self) -> Float64Array:
        """What the probability of each class is multiplied by."""
        return self.priors_ / np.where(self.source_priors_ > 0, self.source_priors_, np.inf)

    def _proba(self, X: Any, **params: Any) -> FloatArray:
        check_is_fitted(self)
        P = class_scores(self.estimator, X, "predict_proba", self.classes_, **params)
        return corrected(P, self._ratio, self.priors_)

    @property
    def frame(self) -> pd.DataFrame:
        """The shares of each class: before, now, and the ends of the interval."""
        check_is_fitted(self)
        shares = [self.source_priors_, self.priors_, self.priors_low_, self.priors_high_]
        frame = pd.DataFrame(shares, ["before", "now", "low", "high"], self.classes_)
        return frame.T.rename_axis("class")

    @property
    def input_(self) -> str:
        """What the columns of `X` are, if the estimator is a calibrator."""
        return self.estimator.input_

    def _inner(self) -> Any:
        return self.estimator

    def _in_words(self) -> str:
        k = 1 if self.classes_.size == 2 else int(np.argmax(np.abs(np.log(self._ratio + 1e-300))))
        ends = ""
        if not np.isnan(self.priors_low_[k]):
            ends = f" ({self.priors_low_[k]:.3g} to {self.priors_high_[k]:.3g})"
        change = f"{self.source_priors_[k]:.3g} -> {self.priors_[k]:.3g}{ends}"
        return f"share of {self.classes_.tolist()[k]!r}: {change}"


def read_shares(priors: Any, classes: NDArray[Any], name: str) -> Float64Array:
    """Return the shares of the classes, ``(K,)``, which sum to 1."""
    labels = classes.tolist()
    if isinstance(priors, Real):
        if len(labels) != 2:
            raise ValueError(
                f"{name}={priors} is one number, but there are {len(labels)} classes: pass a share "
                "for each, or a dict of label to share."
            )
        priors = {labels[1]: priors}
    if isinstance(priors, pd.Series):
        if not priors.index.is_unique:
            raise ValueError(f"{name}: a label is in the index twice; pass one share for each.")
        priors = priors.to_dict()
    if isinstance(priors, dict):
        unknown = [label for label in priors if label not in labels]
        if unknown:
            raise ValueError(
                f"{name}: {unknown[0]!r} is not one of the labels {short_repr(labels)}; shares "
                "without labels are passed as an array in the order of classes_."
            )
        missing = [label for label in labels if label not in priors]
        if len(missing) > 1:
            raise ValueError(
                f"{name} lacks {missing[0]!r} and {missing[1]!r}; it may leave out one label."
            )
        for label, share in priors.items():
            is_number = isinstance(share, Real) and not isinstance(share, bool)
            if not is_number or not -ROUNDING <= share <= 1 + ROUNDING:
                value = np.array(share).tolist()
                raise ValueError(
                    f"{name}: the share of {label!r} is {value!r}, not a number in [0, 1]."
                )
        rest = 1 - sum(priors.values())
        priors = [priors.get(label, rest) for label in labels]
    shares = np.asarray(priors, dtype=np.float64)
    if shares.shape != classes.shape:
        raise ValueError(f"{name} has shape {shares.shape}; pass {len(labels)} shares.")
    k = int(shares.argmin() if shares.max() <= 1 + ROUNDING else shares.argmax())
    if not -ROUNDING <= shares[k] <= 1 + ROUNDING:  # NaN neither
        raise ValueError(f"{name}: the share of {labels[k]!r} is {shares[k]:.6g}, not in [0, 1].")
    if abs(shares.sum() - 1) > ROUNDING:
        raise ValueError(f"{name}: the shares sum to {shares.sum():.6g}, not to 1.")
    shares = np.maximum(shares, 0.0)
    return shares / shares.sum()
