"""Automatic calibration by a flexible model whose ridge penalties are estimated from the data.

`smoothing` computes scales and ranks of scores. The terms of the model are in `few` for up to 30
classes, in `many` for more classes, and in `order_preserving` for ``order_preserving=True``.
`binary` makes the function of two classes increasing.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from functools import partial, reduce
from numbers import Integral, Real
from typing import Any, ClassVar, NamedTuple

import numpy as np
from numpy.polynomial import chebyshev
from numpy.typing import ArrayLike
from scipy.special import expit
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils._param_validation import Interval
from sklearn.utils.validation import check_is_fitted

from skcalib._arrays.rowwise import Float64Array, Intp
from skcalib._arrays.sources import ROWS, Work, add, merge_rows, one_blas_thread, sum_rows
from skcalib._arrays.tensors import on_host, ops_for
from skcalib._maps.device import formula_of
from skcalib._maps.formulas import Constants, Lines, Operations, Plan, Value, row
from skcalib._scaling.evidence import EvidenceFit, fit_by_evidence
from skcalib._scores.scores import Scores
from skcalib.calibrators._auto import few, many, order_preserving
from skcalib.calibrators._auto.binary import BinaryMap, fit_line, plan_line
from skcalib.calibrators._auto.few import N_COSINES, N_SHARED
from skcalib.calibrators._auto.order_preserving import GROUPS, N_HINGES
from skcalib.calibrators._auto.smoothing import (
    OFFSET_SHARE,
    PRIOR_SD,
    Position,
    Smoothing,
    fit_position,
    fit_scale,
)
from skcalib.calibrators._base import ScoreCalibrator, softness, warn_of_flat_maps
from skcalib.calibrators._temperature import plan_temperature

# Formulas of the prediction for at most 30 classes, for more classes, and for
# order_preserving=True.


# In the features for large probabilities, a probability below this value counts as 0. The value is
# below `many.SMALLEST` by more than rounding errors.
LEAST = many.SMALLEST * (1.0 - 1e-14)

# Coefficients of sqrt(2) / j cos(j x) as polynomials in cos x, one row for each j.
IN_POWERS = np.array(
    [
        np.pad(chebyshev.cheb2poly(np.eye(j + 1)[j]) * (np.sqrt(2.0) / j), (0, N_COSINES - j))
        for j in range(1, N_COSINES + 1)
    ]
)


class Map(NamedTuple):
    """Fitted parameters of automatic calibration.

    With many classes, the `position` has no knots.
    """

    shared: bool
    theta: Float64Array
    smoothing: Smoothing
    position: Position
    centre: Float64Array | None
    identity_weight: float

    def without_cross(self) -> Map:
        """Return the parameters with the coefficients of pairs of classes set to 0."""
        form, theta = few if self.position.knots.size else many, self.theta.copy()
        groups = GROUPS if self.shared else form.groups_of(self.smoothing.n_classes)
        if "M" in groups:
            theta[groups["M"].start :] = 0.0
        return self._replace(theta=theta)


def plan_auto(fitted: Map, options: bool = False) -> Plan:
    """Return the formula of the calibrated probabilities, a mixture with the uncalibrated ones."""
    omega, smoothing = fitted.identity_weight, fitted.smoothing
    small = OFFSET_SHARE * smoothing.epsilon
    terms, constants = logits_of(fitted)
    if omega > 0.0:
        constants["weights"] = np.array([[1.0 - omega], [omega * (1.0 - small)]])
        constants["none"] = omega * small / smoothing.n_classes
    formula = partial(auto, terms=terms, options=options, shared=fitted.shared)
    return Plan(formula, constants, "top" if fitted.shared else "largest")


def plan_eta(fitted: Map) -> Plan:
    """Return the formula and the constants of the calibrated logits."""
    terms, constants = logits_of(fitted)
    return Plan(partial(eta, terms=terms), constants)


def eta(o: Operations, c: Constants, terms: Any) -> Value:
    """Return the calibrated logits, as the sum of the terms of the model."""
    return terms(o, features(o, c), c)


def logits_of(fitted: Map) -> tuple[Callable[..., Value], Constants]:
    """Return the function that computes the calibrated logits from `Features`, with constants."""
    theta, smoothing, (knots, levels) = fitted.theta, fitted.smoothing, fitted.position
    n, K, epsilon = smoothing.n, smoothing.n_classes, smoothing.epsilon
    small = OFFSET_SHARE * epsilon
    constants: Constants = {
        "beta": smoothing.beta,
        "share": 1.0 - epsilon,
        "uniform": epsilon / K,
        "share_offset": 1.0 - small,
        "uniform_offset": small / K,
        "lift": 1.0 / (n * K),
    }
    if fitted.shared:
        knots, levels = hinged(knots, levels, theta[GROUPS["R"]])
        constants["position"] = Lines([knots], [levels])
        return rising_terms, constants | rising_constants(theta[GROUPS["t"]], smoothing)
    if not knots.size:
        return many_terms, constants | many_constants(theta, smoothing)
    constants["position"] = Lines([knots], [np.pi * (0.5 - levels)])
    own, cross = few.unpack(theta, K)
    return whole_terms, constants | whole_constants(own, cross, fitted.centre, smoothing)


def whole_constants(
    own: Float64Array, cross: Float64Array, centre: Float64Array | None, smoothing: Smoothing
) -> Constants:
    """Return the coefficients of all terms for at most 30 classes.

    The cosines cos(j x) are polynomials in cos(x), so that the terms are powers of cos(x).
    """
    K, t, b, cosines = len(own), own[0, :N_SHARED], own[:, N_SHARED], own[:, N_SHARED + 1 :]
    powers = cosines @ IN_POWERS
    shared = np.outer([1.0, t[0], t[4], 1.0], np.ones(K))
    constants = {"terms": np.vstack([shared, powers[:, 1:].T]), "b": row(b + powers[:, 0])}
    if centre is not None:
        constants["b"] -= centre @ cross[K:]
        constants |= {"by_p": cross[:K].T, "by_log": cross[K:].T}
    return constants | log_constants(t[1] / smoothing.square_scale, -t[2], t[3], 0.0)


def rising_constants(t: Float64Array, smoothing: Smoothing) -> Constants:
    """Return the coefficients of the terms for ``order_preserving=True``."""
    log_K = np.log(smoothing.n_classes)
    by_entropy, by_top = (t[2] - t[1]) / log_K, (t[4] - t[3]) / log_K
    square, slope = -t[6] / smoothing.square_scale, t[0] + t[2] + t[4]
    terms = np.array([1.0, t[5], -t[7], 1.0, 1.0])[:, None]
    return {"terms": terms, **log_constants(square, by_entropy, by_top, slope)}


def log_constants(square: float, by_order: float, by_top: float, slope: Any) -> Constants:
    """Return the coefficients of the features that are multiples of log q."""
    return {"square": square, "by_row": np.array([[by_order], [by_top]]), "slope": slope}


def hinged(
    knots: Float64Array, levels: Float64Array, steps: Float64Array
) -> tuple[Float64Array, Float64Array]:
    """Convert a sum of hinge functions of the rank to a piecewise linear function of log q."""
    ends = np.linspace(0.0, 1.0, N_HINGES + 1)
    inner = ends[(ends > levels[0]) & (ends < levels[-1])]
    at = np.concatenate([knots, np.interp(inner, levels, knots)])
    position = np.concatenate([levels, inner])
    at, first = np.unique(at, return_index=True)
    return at, np.interp(position[first], ends, np.append(0.0, np.cumsum(steps)))


def many_constants(theta: Float64Array, smoothing: Smoothing) -> Constants:
    """Return the coefficients of all terms for more than 30 classes."""
    (by_p, square, by_entropy, by_top, by_rest), b, slope, cross = many.unpack(
        theta, smoothing.n_classes
    )
    square = square / smoothing.square_scale
    links = {"cross": cross} if cross.any() else {}
    return {
        **links,
        "by_p": by_p,
        **log_constants(square, -by_entropy, by_top, row(1.0 + slope)),
        "by_rest": by_rest,
        "most": 1.0 + 1.0 / (smoothing.n * smoothing.n_classes),
        "b": row(b),
    }


class Features(NamedTuple):
    """Numbers in the terms of the model: p, q, log q, negative entropy of q, and largest log q."""

    p: Value
    q: Value
    a: Value
    order: Value
    top: Value


def auto(o: Operations, c: Constants, terms: Any, options: bool, shared: bool) -> Value:
    """Return the calibrated probabilities, a mixture of the model and the uncalibrated ones."""
    result = o.softmax(eta(o, c, terms))
    if "weights" in c:
        result = o.combine(c["weights"], result, o.softmax(o.logits())) + c["none"]
    if options:
        result = o.zero_absent(result)
    return o.keep_top(result) if shared else result


def features(o: Operations, c: Constants) -> Features:
    """Compute the features of a block of scores, from which the terms of the model are built."""
    p = o.softmax(c["beta"] * o.logits())
    q = c["share"] * p + c["uniform"]
    a = o.log(q)
    return Features(p, q, a, o.row_sum(q * a), o.row_max(a))


def log_terms(o: Operations, f: Features, c: Constants) -> Value:
    """Return the part of the logits that comes from the features that are multiples of log q."""
    by_row = o.combine(c["by_row"], f.order, f.top) + c["slope"]
    return (c["square"] * f.a + by_row) * f.a


def position_terms(o: Operations, f: Features, c: Constants, *of_position: Value) -> Value:
    """Return the sum of the terms that use the rank of a score among the calibration scores."""
    rest = o.log(1.0 - f.q + c["lift"])
    offset = o.log(c["share_offset"] * f.p + c["uniform_offset"])
    return o.combine(c["terms"], log_terms(o, f, c), f.q, rest, offset, *of_position)


def whole_terms(o: Operations, f: Features, c: Constants) -> Value:
    """Return the calibrated logits eta for at most 30 classes."""
    angle = o.lines(c["position"], f.a, computed=True)  # the angle pi / 2 - pi u for ranks u
    # cos(pi u) is computed as sin(pi / 2 - pi u), because ONNX Runtime had no cosine of float64
    # before 2025.
    powers = [o.sin(angle)]
    for j in range(2, N_COSINES + 1):
        powers.append(powers[j // 2 - 1] * powers[(j + 1) // 2 - 1])
    own = position_terms(o, f, c, *powers) + c["b"]
    if "by_p" not in c:
        return own
    return own + o.map_rows(c["by_p"], f.p) + o.map_rows(c["by_log"], f.a)


def rising_terms(o: Operations, f: Features, c: Constants) -> Value:
    """Return the calibrated logits eta for ``order_preserving=True``."""
    return position_terms(o, f, c, o.lines(c["position"], f.a, computed=True))


def many_terms(o: Operations, f: Features, c: Constants) -> Value:
    """Return the calibrated logits eta for more than 30 classes."""
    p = o.where(f.p >= LEAST, f.p, 0.0)
    rest = c["by_rest"] * o.log(1.0 - p / c["most"])
    own = log_terms(o, f, c) + c["b"] + rest + c["by_p"] * p
    return own + o.map_sparse_rows(c["cross"], p) if "cross" in c else own


# Weight of the uncalibrated probabilities in the mixture, by the evidence for no calibration.
#
# A fitted model with the evidence ev of `evidence`, at the scale :math:`\beta` of `smoothing`, has
#
# .. math::
#
#     \log \mathrm{ev}(\mathrm{map}) = \log \mathrm{ev} + \log \mathcal{N}(\log \beta; 0, \sigma^2)
#                                      + \tfrac12 \log (2 \pi / h),
#
# where h is the second derivative by :math:`\log \beta` of the objective of :math:`\beta`, with
# :math:`\exp a'` instead of p. For no calibration, with the weight :math:`\epsilon` of the uniform
# distribution and :math:`\epsilon' = 0.1 \epsilon`,
#
# .. math::
#
#     \log \mathrm{ev}(\mathrm{none}) = \sum_i w_i \log ((1 - \epsilon') \mathrm{softmax}(z_i)_{y_i}
#                                       + \epsilon' / K) + \log (200 / n) .
#
# :math:`\omega = 1 / (1 + \exp(\log \mathrm{ev}(\mathrm{map}) - \log \mathrm{ev}(\mathrm{none})))`
# is the weight of no calibration.


# With this number of rows, no calibration and a fitted model are equally likely a priori.
EVEN_ROWS = 200.0
SMALLEST_CURVATURE = 1e-2


def weigh_identity(
    scores: Scores, code: Intp, w: Float64Array, smoothing: Smoothing, log_evidence: float
) -> float:
    """Return the weight of the uncalibrated probabilities, from the model's marginal likelihood."""

    def kernel(Z: Float64Array, code: Intp, w: Float64Array) -> tuple[Any, Any]:
        """Return the log-likelihood of the logits, and its curvature at the fitted scale."""
        r, none = ops_for(Z), smoothing._replace(beta=1.0)
        value = r.log(none.mix(r.at(none.proba(Z), code), OFFSET_SHARE))
        P = smoothing.proba(Z)
        F = smoothing.beta * Z
        F[P <= 0.0] = 0.0
        F -= r.row_max(F)[:, None]
        mean, spread = mean_and_variance(F, P)
        p = r.at(P, code)
        g = (p > 0.0) * (r.at(F, code) - mean)
        share = (1.0 - OFFSET_SHARE * smoothing.epsilon) * p / smoothing.mix(p, OFFSET_SHARE)
        return w @ value, w @ (share * (g * g + g - spread) - (share * g) ** 2)

    value, bend = sum_rows(kernel, scores.float64_logits(), code, w)
    log_beta = np.log(smoothing.beta)
    h = max(PRIOR_SD**-2 - bend, SMALLEST_CURVATURE)
    scale = -0.5 * (log_beta / PRIOR_SD) ** 2 - np.log(PRIOR_SD) - 0.5 * np.log(h)
    return float(expit(value + np.log(EVEN_ROWS / smoothing.n) - log_evidence - scale))


def mean_and_variance(D: Float64Array, p: Float64Array) -> tuple[Float64Array, Float64Array]:
    """Return the mean and the variance of each row of `D` under the probabilities `p`."""
    r = ops_for(D)
    mean = r.row_dots(p, D)
    return mean, r.row_dots(p * D, D) - mean * mean


# Sums of a loss over blocks of rows.
#
# The features of all blocks are stored. For a Dask array, they are computed again in each pass.


# Type of a function that creates an object for a block from its logits, labels and weights. The
# object has the methods `value_and_gradient`, `hessian` and, optionally, `rough_hessian` of theta.
Kernel = Callable[..., Any]


class BlockedNLL:
    """Weighted sum of the log loss over all rows, as a function of the parameters theta.

    Parameters
    ----------
    scores : Scores of shape (n, K)
    code : ndarray of shape (n,)
    w : ndarray of shape (n,)
        Positive weights.
    kernel : callable
    work : Work
    """

    def __init__(
        self, scores: Scores, code: Intp, w: Float64Array, kernel: Kernel, work: Work = ROWS
    ) -> None:
        self._rows = scores.float64_logits(), code, w
        self._kernel, self._work = kernel, work
        remote = scores.source.remote is not None
        self._blocks = None if remote else merge_rows(kernel, *self._rows, work=work)

    def __getattr__(self, method: str) -> Any:
        """Return a function that sums the results of a method over all blocks of rows."""
        return partial(self._sum, method)

    def _sum(self, method: str, theta: Float64Array) -> Any:
        features_of = self._kernel

        def evaluate(features: Any) -> Any:
            # A block without the method `rough_hessian` uses the complete Hessian.
            return getattr(features, method, features.hessian)(theta)

        def evaluate_rows(*rows: Any) -> Any:
            return evaluate(features_of(*rows))

        if self._blocks is None:
            return sum_rows(evaluate_rows, *self._rows, work=self._work)
        return reduce(add, self._rows[0].run(evaluate, self._blocks, self._work.at_a_time))


# Size of the changes by calibration: mean change of class probabilities, and the fraction of the
# change that is due to terms of pairs of classes.


def mean_changes(scores: Scores, w: Float64Array, fitted: Map) -> tuple[Float64Array, float]:
    """Return the mean change of each class probability, and the fraction by pairs of classes."""
    maps, logits = (fitted, fitted.without_cross()), scores.float64_logits()
    formulas = [formula_of(plan_eta(each), logits) for each in maps]
    smoothing, weight = fitted.smoothing, fitted.identity_weight
    none = smoothing._replace(beta=1.0)
    # A model without fitted terms returns the softmax p of the scaled logits, mixed with the
    # uniform distribution, which has the weight `share` * epsilon.
    share = OFFSET_SHARE if fitted.position.knots.size else 1.0

    def kernel(Z: Float64Array, w: Float64Array) -> tuple[Any, ...]:
        p, (eta, own) = smoothing.proba(Z), (formula(Z) for formula in formulas)
        offset = ops_for(p).log(smoothing.mix(p, share))
        result = none.proba(eta)
        if weight > 0.0:
            result = (1.0 - weight) * result + weight * none.mix(none.proba(Z), OFFSET_SHARE)
        across, within = (w @ mean_and_variance(D, p)[1] for D in (eta - own, own - offset))
        return w @ (result - p), across, within

    shift, across, within = sum_rows(kernel, logits, w)
    across, within = max(across, 0.0), max(within, 0.0)
    return shift / smoothing.n, float(across / (across + within)) if across > 0.0 else 0.0


# Fits by empirical Bayes, for at most 30 classes, for more classes, and for order_preserving=True.


# Up to this number of classes, all terms of the model are fitted. With more classes, fewer terms
# are fitted, in float32.
LARGEST_WHOLE = 30
# Largest number of updates of the penalties: ROUNDS for two classes and for order_preserving=True,
# otherwise FEW_ROUNDS. With 3 to 30 classes, the complete Hessian is computed only in the round
# EXACT_ROUND, and used again in later rounds.
ROUNDS, FEW_ROUNDS, EXACT_ROUND = 8, 5, 3
# With many classes, the model does not use the rank of a score.
NO_POSITION = Position(np.empty(0), np.empty(0))
# Exponents of q (1 - q), for the smoothed probability q, in the weights with which ranks of scores
# are computed: by default, and for order_preserving=True.
POWER, ORDER_PRESERVING_POWER = 0.5, 1.0


def fit_terms(
    scores: Scores, code: Intp, w: Float64Array, smoothing: Smoothing, shared: bool, **keywords: Any
) -> tuple[EvidenceFit, Position, Float64Array | None]:
    """Fit the model for few or many classes, or its `shared` terms, which preserve the order."""
    K, position, centre, work = scores.shape[1], NO_POSITION, None, ROWS
    # Initial strength of the ridge penalty of each group of parameters.
    prior = {
        "t": min(K - 1.0, 10.0),
        "b": 10.0 * K,
        "R": 10.0 if shared else 10.0 * K,
        "U": 10.0 * K,
        "M": 1.0,
        "L": 2.0 * K * (K - 1),
    }
    kernel: Any
    if shared:
        position = fit_position(scores, w, smoothing, ORDER_PRESERVING_POWER)
        kernel = partial(order_preserving.features_in_order, position=position)
        groups = order_preserving.GROUPS
        keywords |= {"rounds": ROUNDS, "low": order_preserving.LOWER_BOUNDS}
    elif K <= LARGEST_WHOLE:
        position = fit_position(scores, w, smoothing, POWER)
        if K > 2:

            def sum_logs(Z: Float64Array, w: Float64Array) -> Float64Array:
                return w @ np.log(smoothing.mix(smoothing.proba(Z)))

            centre = sum_rows(sum_logs, scores.as_logits(), w) / smoothing.n
        kernel = partial(few.features_of_few, position=position, centre=centre)
        groups = few.groups_of(K)
        rounds, exact_round = (ROUNDS, None) if K == 2 else (FEW_ROUNDS, EXACT_ROUND)
        keywords |= {"rounds": rounds, "exact_round": exact_round}
    else:
        kernel, groups, work = many.features_of_many, many.groups_of(K), many.work_of(K)
        keywords |= {"rounds": FEW_ROUNDS}
    problem = BlockedNLL(scores, code, w, partial(kernel, smoothing=smoothing), work)
    to_device = scores.float64_logits().to_device
    fitted = fit_by_evidence(problem, groups, prior, moved=0.1, to_device=to_device, **keywords)
    return fitted, position, centre


class AutoCalibrator(ScoreCalibrator):
    r"""Calibrate by a flexible model that sets its own regularisation from the data.

    Automatic calibration combines temperature scaling with corrections that all classes share,
    corrections of single classes, and corrections across classes. The strength of regularisation of
    each is estimated from the data: with more rows, the model is more flexible. Automatic
    calibration needs no tuning, and is the default of `CalibratedClassifier`.

    Parameters
    ----------
    order_preserving : bool, default=False
        Whether to keep the order of the classes in each row, and so the predicted class. Only terms
        that all classes share and that increase with the score are fitted: eight of the terms
        below, and eight steps of the rank. With two classes, a probability of .5 stays .5, so that
        a shifted prevalence is not corrected: for models with balanced class weights, the log loss
        is 18 % higher than by default, which also keeps the order of the rows.
    max_iter : int, default=200
        Largest number of steps of a fit for given strengths; there are up to 10 such fits.
    tol : float, default=1e-3
        A fit ends when the gradient is below this number, in units of posterior standard
        deviations.
    verbose : int, default=0
        Above 0, print a line for each update of the strengths.
    input : {"auto", "logits", "proba"}, default="auto"
        What the columns of `X` are. "auto" decides once, in ``fit``: rows that sum to 1 within
        0.001 are probabilities, others logits; rows of both kinds, or rows that all sum to 100,
        raise an error.
        Probabilities are replaced by their logarithms, and 0 by the logarithm of `clip_`.
    classes : array-like of shape (K,), default=None
        Labels of the columns, sorted; needed if they cannot be inferred from `y`.

    Attributes
    ----------
    temperature_ : float
        :math:`1 / \beta`.
    strengths_ : dict of str to float
        :math:`\lambda_g` of each group of parameters; with ``order_preserving=True``, of t and of
        the steps R of the rank.
    effective_dof_ : dict of str to float
        Effective number of parameters of each group, from 0 to the size of the group.
    evidence_path_ : ndarray of shape (n_rounds,)
        Laplace approximation of the log evidence, first for the initial strengths, then after each
        update of the strengths.
    identity_weight_ : float
        :math:`\omega`, the weight of no calibration, from 0 to 1.
    class_shift_ : ndarray of shape (K,)
        Mean change of each class's probability on the calibration rows, compared with temperature
        scaling alone.
    increasing_ : bool or None
        With two classes, whether calibrated probabilities increase with the score, so that the
        order of the rows does not change; False if the calibration rows show that the scores are in
        a wrong order. None with more classes.
    cross_share_ : float
        Fraction of the change of the logits beyond the temperature that is due to the terms M and
        L, from 0 to 1. The size of a change is its mean variance within rows, under the
        probabilities of each row.
    n_iter_ : int
        Total number of steps of all fits.
    clip_ : float, or ndarray of shape (2,) for two classes
        Replaces a probability of 0 before its logarithm is computed: half the smallest
        probability above 0 in ``fit``, within limits; with two classes, one for each column.
    classes_ : ndarray of shape (K,)
        Sorted labels of the columns.
    class_count_ : ndarray of shape (K,)
        Weight of the rows of each class in ``fit``.
    input_ : {"logits", "proba"}
        What the columns of `X` were in ``fit``.
    n_features_in_ : int
        Number of columns of `X`.

    Warns
    -----
    sklearn.exceptions.ConvergenceWarning
        If a fit does not end within `max_iter` steps, if all rows have the same label, or, with
        ``order_preserving=True``, if uniform probabilities predict the labels as well.

    See Also
    --------
    skcalib.TemperatureScaling : A single parameter.
    skcalib.MatrixScaling : A matrix times the logits, with fixed penalties.

    Notes
    -----
    With :math:`\beta` the inverse temperature that minimises the NLL under a weak prior,
    :math:`p = \mathrm{softmax}(\beta z)`, n the sum of the weights,
    :math:`q = (1 - \epsilon) p + \epsilon / K`, :math:`\epsilon = 1/(n+1)`,
    :math:`a = \log q`, a' the same with :math:`\epsilon / 10`, :math:`s = \log(nK)`, H the entropy
    of q, and :math:`u_k` in [0, 1] the rank of :math:`a_k` among all log-scores of the calibration
    rows, the calibrated probabilities are :math:`\mathrm{softmax}(\eta)`,

    .. math::

        \eta_k = a'_k & + t_1 q_k + t_2 \frac{a_k^2}{s} + t_3 a_k H + t_4 a_k \max_l a_l
                        + t_5 \log(1 - q_k + 1/(nK)) \\
                 & + b_k + \sum_{j=1}^{6} R_{jk} \frac{\sqrt 2}{j} \cos(\pi j u_k)
                   + \sum_l M_{kl} p_l + \sum_l L_{kl} (a_l - \bar a_l)

    with parameters that minimise :math:`\sum_i w_i \mathrm{NLL}_i + \sum_g \lambda_g
    \|\theta_g\|^2`. The strength :math:`\lambda_g` of each group t, b, R, M and L is estimated by
    empirical Bayes (MacKay's fixed point). If all parameters are 0, the result is smoothed
    temperature scaling. With two classes, M and L are left out. With more than 30 classes, a slope
    :math:`U_k a_k` replaces R and L, and a replaces a'. With more than 1,000 classes, M is left
    out as well, because its fit would need about 300 bytes for each pair of classes.

    No calibration is an alternative hypothesis: probabilities are
    :math:`(1 - \omega) \mathrm{softmax}(\eta) + \omega \mathrm{softmax}(z)`, the latter mixed with
    :math:`\epsilon / 10` of the uniform distribution. :math:`\omega` depends on the evidence for
    both hypotheses.

    With two classes, these probabilities are then projected onto increasing functions of the score,
    by isotonic regression at 128 quantiles of the calibration scores and beyond their ends. They
    are mixed with 1 % of temperature scaling with the same mean, so that they increase strictly,
    and their log-odds are joined by straight lines. So the order of the rows and the AUC do not
    change. If the projection increases the summed log loss of the calibration rows by more than 2
    nats, the scores are in a wrong order, and the probabilities are not projected.

    The sum of the weights counts as the number of rows: weights that sum to 1 count as one row.

    The result depends slightly on the order of the columns: with 200 classes, another order changes
    probabilities by up to 6e-4.

    Logits of -inf, in rows that are not log-probabilities, and probabilities of NaN are options
    that were not offered; their probability is 0. If rows of ``fit`` have such options, all terms
    except the scale are left out: the result is :math:`\mathrm{softmax}(\beta z)`, with a normal
    prior on :math:`\log \beta` of standard deviation 0.7.

    The predicted class may change unless ``order_preserving=True``. With
    ``order_preserving=True``, the predicted class is that of the largest score, and equal scores
    get equal probabilities.

    References
    ----------
    .. [1] D. J. C. MacKay, "Bayesian interpolation", Neural Computation 4(3), 1992.
    .. [2] E. Berta, D. Holzmueller, M. I. Jordan and F. Bach, "Structured matrix scaling for
       multi-class calibration", arXiv:2511.03685v2, 2026.

    Examples
    --------
    >>> import numpy as np
    >>> from skcalib import AutoCalibrator
    >>> rng = np.random.default_rng(0)
    >>> Z = rng.normal(size=(2000, 3))
    >>> y = (Z + rng.gumbel(size=Z.shape)).argmax(axis=1)
    >>> calibrator = AutoCalibrator().fit(4 * Z, y)
    >>> round(calibrator.temperature_)
    4
    """

    _paper = "MacKay 1992"
    _warns_of_one_label = True
    _takes_logs = True
    _work = ROWS._replace(products=True)
    _takes_options = True
    _fits_on_device = True
    # Knots and log-odds ``(2, m)`` of the fitted function of two classes. None with more classes.
    _line: Float64Array | None

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        **ScoreCalibrator._parameter_constraints,
        "order_preserving": ["boolean"],
        "max_iter": [Interval(Integral, 1, None, closed="left")],
        "tol": [Interval(Real, 0, None, closed="neither")],
        "verbose": ["verbose"],
    }

    def __init__(
        self,
        *,
        order_preserving: bool = False,
        max_iter: int = 200,
        tol: float = 1e-3,
        verbose: int = 0,
        input: str = "auto",
        classes: ArrayLike | None = None,
    ) -> None:
        super().__init__(input=input, classes=classes)
        self.order_preserving = order_preserving
        self.max_iter = max_iter
        self.tol = tol
        self.verbose = verbose

    def _fit(self, scores: Scores, code: Intp, w: Float64Array) -> dict[str, Any]:
        shared = self.order_preserving
        keywords = {"tol": self.tol, "max_iter": self.max_iter, "verbose": int(self.verbose)}
        with one_blas_thread():
            beta, useless = fit_scale(scores, code, w)
            smoothing = Smoothing(beta, float(w.sum()), scores.shape[1])
            if scores.options and scores.max_abs_logit == np.inf:
                none = EvidenceFit(np.empty(0), {}, {}, np.empty(0), 0, True)
                scale_alone = Map(False, none.theta, smoothing, NO_POSITION, None, 0.0)
                return attributes(none, scale_alone, np.zeros(smoothing.n_classes), 0.0)
            if shared or scores.shape[1] <= LARGEST_WHOLE:
                scores, code, w = scores.on_host(), on_host(code), on_host(w)
            fitted, position, centre = fit_terms(scores, code, w, smoothing, shared, **keywords)
            weight = weigh_identity(scores, code, w, smoothing, float(fitted.path[-1]))
            fitted_map = Map(shared, fitted.theta, smoothing, position, centre, weight)
            binary = None
            if scores.shape[1] == 2 and not shared:
                binary = fit_line(scores, code, w, beta, plan_auto(fitted_map))
                shift, cross_share = np.array([-binary.change, binary.change]), 0.0
            else:
                shift, cross_share = mean_changes(scores, w, fitted_map)
        if shared and useless:
            warn_of_flat_maps("AutoCalibrator", "uniform probabilities")
        if not fitted.converged:
            warnings.warn(
                f"AutoCalibrator: the fit did not converge in max_iter={self.max_iter} steps; "
                "raise max_iter.",
                ConvergenceWarning,
                stacklevel=3,
            )
        return attributes(fitted, fitted_map, shift, cross_share, binary)

    def _plan(self) -> Plan:
        options = self.input_ == "proba" or self._options
        # Calibrators from files of earlier versions have no attribute `_line`, and their
        # calibration function is not made increasing.
        if (points := getattr(self, "_line", None)) is not None:
            return plan_line(points, options)
        if not self._theta.size:
            return plan_temperature(self.temperature_)
        smoothing = Smoothing(1.0 / self.temperature_, self._weight, self.classes_.size)
        position = Position(self._knots, self._levels)
        weight = self.identity_weight_
        fitted = Map(is_shared(self), self._theta, smoothing, position, self._centre, weight)
        return plan_auto(fitted, options)

    def _in_words(self) -> str:
        shrunk = f"{100 * self.identity_weight_:.0f}"
        parts = [
            softness(self.temperature_),
            f"{sum(self.effective_dof_.values()):.1f} effective parameters",
            "no shrinkage" if shrunk == "0" else f"shrunk by {shrunk} %",
            self._order_in_words(),
        ]
        return "; ".join(filter(None, parts))

    def _order_in_words(self) -> str:
        """Describe whether calibration changes the order of rows; return "" if unknown."""
        increasing = getattr(self, "increasing_", None)  # older files lack this attribute
        if increasing is None:
            return ""
        wrong = "the scores are in a wrong order, so the order of the rows changes"
        return "keeps the order of the rows" if increasing else wrong

    def describe(self) -> str:
        """Describe the fitted calibrator in words.

        Returns
        -------
        text : str
            One sentence on each line: the temperature, the effective number of parameters, the
            classes that change most, the part of the change that is due to terms across classes,
            the shrinkage towards the original probabilities and, for two classes, whether the order
            of the rows changes.
        """
        check_is_fitted(self)
        dof, T = self.effective_dof_, f"{self.temperature_:.3g}"
        change = "as they are" if T == "1" else "less extreme" if float(T) > 1 else "more extreme"
        lines = [f"Temperature {T}: {'leaves' if T == '1' else 'makes'} probabilities {change}."]
        if not self._theta.size:
            lines.append(
                "Only the temperature was fitted: some classes were not available in some rows."
            )
            return "\n".join(lines)
        if is_shared(self):
            lines += [
                f"Effective parameters: {sum(dof.values()):.1f}, which all classes share.",
                "The order of the classes in each row stays, and so does the predicted class.",
            ]
        else:
            own = sum(dof.get(group, 0.0) for group in ("b", "R", "U"))
            across = sum(dof.get(group, 0.0) for group in ("M", "L"))
            lines.append(
                f"Effective parameters: {dof['t'] + own + across:.1f}, of which {dof['t']:.1f} are "
                f"shared by all classes, {own:.1f} belong to single classes and {across:.1f} link "
                "classes."
            )
        most = np.argsort(-np.abs(self.class_shift_), kind="stable")[:3]
        moved = ", ".join(f"{self.classes_[k]} {100 * self.class_shift_[k]:+.2f}" for k in most)
        lines.append(
            "Largest mean changes of class probabilities beyond the temperature, in percentage "
            f"points: {moved}."
        )
        if "M" in dof:
            lines.append(
                f"Parameters that link classes cause {self.cross_share_:.0%} of the change beyond "
                "the temperature."
            )
        none = self.identity_weight_
        shrunk = "No shrinkage" if f"{none:.0%}" == "0%" else f"Shrunk by {none:.0%}"
        why = ", because the rows do not show that calibration is better" if none > 0.5 else ""
        lines.append(f"{shrunk} towards the original probabilities{why}.")
        if order := self._order_in_words():
            lines.append(f"{order[0].upper()}{order[1:]}.")
        return "\n".join(lines)


def attributes(
    fitted: EvidenceFit,
    fitted_map: Map,
    shift: Float64Array,
    cross_share: float,
    binary: BinaryMap | None = None,
) -> dict[str, Any]:
    """Return the fitted attributes by name; `binary` is the fitted function of two classes."""
    _, theta, smoothing, position, centre, weight = fitted_map
    return {
        "temperature_": 1.0 / smoothing.beta,
        "strengths_": fitted.strengths,
        "effective_dof_": fitted.dof,
        "evidence_path_": fitted.path,
        "identity_weight_": weight,
        "class_shift_": shift,
        "cross_share_": cross_share,
        "n_iter_": fitted.n_iter,
        "increasing_": (not binary or binary.increasing) if smoothing.n_classes == 2 else None,
        "_line": binary.line if binary else None,
        "_theta": theta,
        "_weight": smoothing.n,
        "_centre": centre,
        "_knots": position.knots,
        "_levels": position.levels,
    }


def is_shared(fitted: AutoCalibrator) -> bool:
    return tuple(fitted.strengths_) == tuple(order_preserving.GROUPS)
