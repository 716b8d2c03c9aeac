"""Temperature scaling and ensemble temperature scaling."""

from __future__ import annotations

import inspect
import warnings
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from itertools import combinations
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import ArrayLike
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils._param_validation import StrOptions
from sklearn.utils.metaestimators import available_if
from sklearn.utils.validation import validate_data

from skcalib._arrays.rowwise import Float64Array, Intp, is_unit, row_blocks, weighted_sum
from skcalib._arrays.sources import map_rows, refuse_remote
from skcalib._arrays.tensors import on_host, ops_for
from skcalib._differentiable import Kind, SoftBins, soft_binned_error
from skcalib._maps.formulas import Constants, Operations, Plan, Value
from skcalib._scaling.affine_softmax import IN_PLACE, affine_softmax
from skcalib._scaling.temperature import (
    SCALE_FITS,
    ShiftedLogits,
    StreamRows,
    TemperatureStream,
    find_temperature,
    fit_temperature,
    of_shifted,
    warn_at_bound,
)
from skcalib._scores.scores import Scores
from skcalib._validation.keywords import check_between, check_norm, number_of_bins, short_repr
from skcalib._validation.labels import check_labels
from skcalib._validation.rows import as_sample_weight
from skcalib._validation.survey import check_kind
from skcalib.calibrators._base import ScoreCalibrator, check_rows, softness

# Ensemble temperature scaling: a mixture of tempered, uncalibrated and uniform probabilities.


# The fit of the mixture weights ends when the mean log loss is this close to its minimum.
LOSS_TOLERANCE = 1e-12
MAX_STEPS = 100
# Relative rounding error of a mean log loss.
LOSS_ROUNDING = 1e-14
# All non-empty subsets of the three components of the mixture. One of them is the set of components
# with positive weight.
FACES = [list(face) for size in (1, 2, 3) for face in combinations(range(3), size)]


def likelihoods(scores: Scores, code: Intp, T: float) -> tuple[Any, Any]:
    """Return, for each row, the probability of the true class at temperature T and at T = 1."""
    logits = scores.device_logits() or scores.as_logits()
    out = logits.empty_rows(), logits.empty_rows()

    def kernel(Z: Float64Array, code: Intp) -> tuple[Float64Array, ...]:
        r = ops_for(Z)
        U = r.minus(Z, r.row_max(Z))
        true = r.at(U, code)
        uncalibrated = r.exp(true) / r.row_sums(r.exp(U))
        U /= T
        return r.exp(true / T) / r.row_sums(r.exp_(U)), uncalibrated

    map_rows(kernel, logits, code, out=out)
    return out


def mixture_weights(
    members: Sequence[Float64Array], uniform: float, w: Float64Array
) -> tuple[Float64Array, int]:
    """Return the mixture weights v with the smallest log loss, and the number of Newton steps.

    The loss is the weighted mean of ``-log(F @ v)``, where v >= 0 sums to 1. `members` are two
    columns of F, and all entries of the third column are `uniform`. The problem is convex. Each
    Newton step goes to the minimum of a quadratic model for v >= 0. Instead of the constraint
    sum(v) = 1, the objective contains the term sum(v), which gives the same optimum.
    """
    share = w / w.sum()
    v = np.full(3, 1.0 / 3.0)
    loss, gain, hessian = mixture_sums(members, uniform, share, v)
    last = False
    for n_iter in range(MAX_STEPS):
        if last:
            return v, n_iter
        # Because the loss is convex, it is at most log(max(gain)) above its minimum, where gain[k]
        # is the mean ratio of the probability of component k to that of the mixture, for the true
        # class. One more Newton step costs little and squares the remaining error.
        last = gain.max() <= 1.0 + LOSS_TOLERANCE
        towards = _model_step(hessian, gain, v)
        slope = float((1.0 - gain) @ towards)
        length, before = 1.0, loss
        while True:
            new = v + length * towards
            new /= new.sum()
            loss, gain, hessian = mixture_sums(members, uniform, share, new)
            if loss <= before + 1e-4 * length * slope + LOSS_ROUNDING * max(1.0, before):
                break
            length /= 2.0
            if length < 1e-12:
                return v, n_iter
        v = new
    return v, MAX_STEPS


def mixture_sums(
    members: Sequence[Float64Array], uniform: float, share: Float64Array, v: Float64Array
) -> tuple[float, Float64Array, Float64Array]:
    """Return the log loss of a mixture, its negative gradient ``(3,)`` and its Hessian ``(3, 3)``.

    In the best mixture, the probability of a row is at least the weight of the row times the
    largest probability of a member. Far below this limit ratios would overflow, so that the loss is
    returned as infinite.
    """
    loss, gain, hessian = 0.0, np.zeros(3), np.zeros((3, 3))
    for rows in row_blocks(share.size, 3):
        of_rows = share[rows]
        F = np.stack([*(member[rows] for member in members), np.full(of_rows.size, uniform)])
        mixture = np.einsum("ji,j->i", F, v)
        if (mixture < of_rows * F.max(axis=0) / 10.0).any():
            return np.inf, gain, hessian
        loss -= weighted_sum(of_rows, np.log(mixture))
        F /= mixture
        weighted = F * of_rows
        gain += weighted.sum(axis=1)
        hessian += np.einsum("ji,ki->jk", weighted, F)
    return loss, gain, hessian


def _model_step(hessian: Float64Array, gain: Float64Array, v: Float64Array) -> Float64Array:
    """Return the Newton step d for mixture weights v, under the constraint v + d >= 0.

    The step minimises ``d' hessian d / 2 + (1 - gain)' d``, by trying all sets of positive weights.
    Changes of the objective are compared, instead of objectives, because the objectives of nearly
    equal members differ by less than their rounding errors.
    """
    scale = np.sqrt(np.diag(hessian))
    # A component with a negligible scale is not rescaled, because 1 / scale**2 would overflow.
    scale = 1.0 / np.where(scale > 1e-100, scale, 1.0)
    H, c = hessian * np.outer(scale, scale), (2.0 * gain - 1.0) * scale
    best, lowest = np.zeros(3), np.inf
    for face in FACES:
        # If two components are equal, the Hessian is singular, so that least squares are used.
        part = np.linalg.lstsq(H[np.ix_(face, face)], c[face], rcond=None)[0]
        if (part < 0.0).any():
            continue
        step = -v / scale
        step[face] += part
        change = float(step @ H @ step / 2.0 + ((1.0 - gain) * scale) @ step)
        if change < lowest:
            best, lowest = step, change
    return best * scale


class EnsembleTemperatureScaling(ScoreCalibrator):
    r"""Calibrate by a mixture of softmax(z / T), softmax(z) and uniform probabilities.

    Ensemble temperature scaling is for data with some wrong labels, or with some rows unlike the
    training rows of the model: a few surprising labels then increase the weight of the uniform
    probabilities, instead of the temperature of all rows.

    .. math:: q = w_1 \, \mathrm{softmax}(z / T) + w_2 \, \mathrm{softmax}(z) + w_3 \, \frac{1}{K},
              \qquad w \ge 0, \quad w_1 + w_2 + w_3 = 1

    T is the temperature of `TemperatureScaling`, and the weights minimise the mean of
    :math:`-\log q_y`. The predicted class never changes.

    Parameters
    ----------
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
        T, above 0, as in `TemperatureScaling`.
    weights_ : ndarray of shape (3,)
        :math:`w_1, w_2, w_3`: the weights of softmax(z / T), softmax(z) and 1 / K.
    n_iter_ : int
        Number of Newton steps in the fit of the weights.
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
        If T reached a bound: T tends to 0 if no row is misclassified, and to infinity if the
        scores predict worse than uniform probabilities.

    See Also
    --------
    skcalib.TemperatureScaling : Only the first member of the mixture.

    Notes
    -----
    On the calibration rows the log loss is at most that of temperature scaling, of no calibration
    and of uniform probabilities, since each of these is a choice of weights. The uniform member
    makes every probability at least :math:`w_3 / K`, so that a few very wrong rows cost less and do
    not raise T.

    The loss is convex in the weights; the fit ends when the loss is within 1e-12 of its minimum.
    With T near 1 the first two members are equal, and their weights are not unique: all choices
    give the same probabilities.

    References
    ----------
    .. [1] J. Zhang, B. Kailkhura and T. Y.-J. Han, "Mix-n-Match: ensemble and compositional
       methods for uncertainty calibration in deep learning", ICML 2020.

    Examples
    --------
    >>> import numpy as np
    >>> from skcalib import EnsembleTemperatureScaling
    >>> rng = np.random.default_rng(0)
    >>> Z = 3 * rng.normal(size=(5000, 3))
    >>> y = (Z + rng.gumbel(size=Z.shape)).argmax(axis=1)
    >>> y[::5] = rng.integers(3, size=1000)  # a fifth of the labels is random
    >>> ensemble = EnsembleTemperatureScaling().fit(Z, y)
    >>> round(ensemble.temperature_, 1), ensemble.weights_.round(1)
    (2.1, array([0. , 0.8, 0.2]))
    """

    _paper = "Zhang et al. 2020"
    _takes_logs = True
    _fits_on_device = True

    def _fit(self, scores: Scores, code: Intp, w: Float64Array) -> dict[str, Any]:
        T = fit_temperature(scores, code, w)
        members, uniform = [*map(on_host, likelihoods(scores, code, T))], 1.0 / scores.shape[1]
        weights, n_iter = mixture_weights(members, uniform, on_host(w))
        return {"temperature_": T, "weights_": weights, "n_iter_": n_iter}

    def _in_words(self) -> str:
        tempered, uncalibrated, uniform = 100 * self.weights_
        return (
            f"{softness(self.temperature_)}; weights: {tempered:.1f} % this temperature, "
            f"{uncalibrated:.1f} % no calibration, {uniform:.1f} % equal probabilities"
        )

    def _plan(self) -> Plan:
        tempered, uncalibrated, uniform = self.weights_
        constants = {
            "temperature": self.temperature_,
            "weights": np.array([[tempered], [uncalibrated]][: 1 + (uncalibrated > 0.0)]),
            "uniform": uniform / self.classes_.size,
        }
        return Plan(partial(mixture, mixed=uncalibrated > 0.0), constants, "top")


def mixture(o: Operations, c: Constants, mixed: bool) -> Value:
    """Return a mixture of tempered, uniform and, if `mixed`, uncalibrated probabilities."""
    z = o.logits()
    # At a small temperature T, rounding errors of large logits would be magnified, so that a
    # constant is subtracted from the logits of each row.
    z = z - o.row_max(z)
    tempered = o.softmax(z / c["temperature"])
    members = [tempered, o.softmax(z)] if mixed else [tempered]
    return o.keep_top(o.combine(c["weights"], *members) + c["uniform"])


# Search for the best temperature of an objective that may have many local minima.


# Type of a function that returns the value of the objective at a temperature T.
Objective = Callable[[float], float]

GRID = np.geomspace(0.2, 10.0, 61)
LOG_STEP = float(np.log(50.0) / 60)
# For each round of refinement: the number of best temperatures around which the search continues,
# and the factor by which the grid becomes finer.
Rounds = tuple[tuple[int, int], ...]
SMOOTH_ROUNDS = ((3, 10), (3, 10), (3, 10))
# The error of a binned metric jumps at each temperature at which a row moves to another bin, so
# that minima are narrow and need a finer grid.
ROUGH_ROUNDS = ((12, 40), (3, 10), (3, 10))


def search_temperature(objective: Objective, centre: float, rounds: Rounds) -> float:
    """Return the temperature T with the smallest objective; on ties, the T closest to 1.

    The search starts on 61 temperatures from 0.2 to 10, evenly spaced in log T, and adds the same
    grid around `centre` where that grid reaches further. Each round then refines the best ones.
    """
    shifted = centre / np.sqrt(2.0) * GRID
    step = LOG_STEP
    log_t = np.log(np.concatenate([GRID, [1.0], shifted[(shifted < 0.2) | (shifted > 10.0)]]))
    low, high = log_t.min(), log_t.max()
    values = {float(t): objective(float(np.exp(t))) for t in log_t}
    for n_best, n_parts in rounds:
        step /= n_parts
        offsets = step * np.arange(1 - n_parts, n_parts)
        near = np.add.outer(_best_first(values)[:n_best], offsets).ravel()
        for t in _apart(np.sort(near), np.sort(np.array(list(values))), step / 2):
            values[t] = objective(float(np.exp(t)))
    best = float(_best_first(values)[0])
    if not low < best < high:
        end = "lower" if best <= low else "upper"
        warnings.warn(
            f"TemperatureScaling found T={np.exp(best):.4g} at the {end} end of the range of the "
            "search, beyond which the objective may be smaller: fit on more held-out rows, or pass "
            "objective='nll'.",
            ConvergenceWarning,
            stacklevel=2,
        )
    return float(np.exp(best))


def _best_first(values: dict[float, float]) -> Float64Array:
    """Sort log temperatures by the objective, ignoring differences due to rounding errors.

    Equal objectives are ordered by the distance of log T from 0, then by log T.
    """
    log_t, objective = np.array(list(values)), np.array(list(values.values()))
    finite = np.abs(objective[np.isfinite(objective)])
    level = np.round(objective / (finite.max(initial=0.0) or 1.0), 12)
    return log_t[np.lexsort([log_t, np.round(np.abs(log_t), 12), level])]


def _apart(new: Float64Array, old: Float64Array, least: float) -> list[float]:
    """Drop sorted `new` numbers that are closer than `least` to each other or to `old` numbers."""
    once = new[np.diff(new, prepend=-np.inf) > least]
    at = np.searchsorted(old, once)
    after = old[np.minimum(at, old.size - 1)]
    before = old[np.maximum(at - 1, 0)]
    return once[np.minimum(np.abs(once - after), np.abs(once - before)) > least].tolist()


# Objectives of the temperature that need all rows at once: soft-binned errors and user metrics.


Metric = Callable[..., float]


def soft_binned_objective(scores: Scores, code: Intp, w: Float64Array, bins: SoftBins) -> Objective:
    """Return a function that computes the soft-binned top-label error at a temperature T."""
    refuse_remote(scores.source, "TemperatureScaling with a soft-binned objective")
    number = number_of_bins(bins.n_bins, w.sum(), "objective_params['n_bins']")
    check_norm(bins.norm, name="objective_params['norm']", has_max=False)
    what = "a positive number"
    check_between("objective_params['temperature']", bins.temperature, 0, np.inf, what)
    bins = bins._replace(n_bins=number)
    shifted = ShiftedLogits(scores, code, w)
    U = shifted.source, shifted.top
    hit, top = shifted.source.empty_rows(np.bool_), shifted.source.empty_rows()
    is_hit = partial(of_shifted, kernel=lambda U, code: U.argmax(axis=1) == code)
    map_rows(is_hit, *U, code, out=hit)
    hit = on_host(hit)

    def objective(T: float) -> float:
        def top_proba(U: Float64Array) -> Float64Array:
            r = ops_for(U)
            return 1.0 / r.row_sums(r.exp_(U / T))

        map_rows(partial(of_shifted, kernel=top_proba), *U, out=top)
        return float(soft_binned_error(on_host(top), hit, w, bins))

    return objective


def metric_objective(
    scores: Scores, code: Intp, w: Float64Array, metric: Metric, params: Mapping[str, Any]
) -> Objective:
    """Return a function that computes a metric of softmax(z / T) at a temperature T."""
    refuse_remote(scores.source, "TemperatureScaling with a metric as its objective")
    y_true = scores.classes[code]
    parameters = inspect.signature(metric).parameters
    keywords: dict[str, Any] = {}
    if "labels" in parameters:
        keywords["labels"] = scores.classes
    if not is_unit(w):
        if "sample_weight" not in parameters:
            raise ValueError(
                "sample_weight: the objective of TemperatureScaling does not accept the keyword "
                "sample_weight: pass a metric that does, or leave the weights out."
            )
        keywords["sample_weight"] = as_sample_weight(w)
    keywords.update(params)

    def objective(T: float) -> float:
        P = np.empty(scores.shape, dtype=scores.dtype)
        kernel = partial(affine_softmax, coef=1.0 / T, max_abs_logit=scores.max_abs_logit)
        map_rows(kernel, scores.as_logits(), out=P)
        value = np.asarray(metric(y_true, P, **keywords))
        if value.ndim:
            raise ValueError(
                f"objective returned an array of shape {value.shape} instead of one number: pass a "
                "metric that averages over classes."
            )
        if np.isnan(value):
            raise ValueError(
                f"objective returned NaN at T={T:.4g}: pass a metric that is defined for these "
                "labels, or fit on rows of every class."
            )
        return float(value)

    return objective


# Temperature scaling: all logits are divided by one temperature T.


SOFT_KINDS: dict[str, Kind] = {"soft_binned": "bin", "soft_label_binned": "label"}


def plan_temperature(T: float) -> Plan:
    """Return the formula softmax(z / T) of the prediction, with its constants."""
    return Plan(tempered, {"coef": 1.0 / T}, "near")


def tempered(o: Operations, c: Constants) -> Value:
    """Return the probabilities softmax(z / T) of a block of rows."""
    return o.affine_softmax(c["coef"])


class TemperatureScaling(ScoreCalibrator):
    r"""Calibrate by softmax(z / T), with one temperature T for all classes.

    Temperature scaling makes all predictions more (T < 1) or less (T > 1) confident and never
    changes the predicted class. Use it with few rows, or if the correction has to be explained
    by one number; it cannot correct errors that differ between classes.

    .. math:: Q = \mathrm{softmax}(Z / T), \qquad T = \arg\min_T \ell(y, Q)

    where :math:`\ell` is a mean loss or a calibration error.

    T above 1 softens over-confident probabilities, T below 1 sharpens under-confident ones. The
    predicted class never changes, except where rounding makes the largest probabilities equal.

    Parameters
    ----------
    objective : {"nll", "brier", "soft_binned", "soft_label_binned"} or callable, default="nll"
        Objective that T minimises: "nll" is the log loss; "brier" is the Brier score;
        "soft_binned" and "soft_label_binned" are the bin form and the label form of the soft-binned
        calibration error of the top label. A callable is a ``metric(y_true, y_proba) -> float``
        where smaller is better. If it has keywords ``labels`` and ``sample_weight``, it gets the
        labels of the columns and, if they are not all 1, the weights.
    objective_params : dict, default=None
        Keywords of the objective. For the soft-binned errors: ``n_bins=15`` or "cube_root",
        ``temperature=0.01`` and ``norm="l2"``. For a callable: keywords of the metric. "nll" and
        "brier" have none.
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
        T, above 0. For a binary logit f in one column, P(second class) = expit(f / T).
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
        If T reached a bound: T tends to 0 if no row is misclassified, and to infinity if the
        scores predict worse than uniform probabilities.

    Raises
    ------
    ValueError
        In ``fit``, if a metric returns NaN or more than one number, or does not accept weights
        although weights are given.

    See Also
    --------
    skcalib.VectorScaling : A scale and a shift for each class.

    Notes
    -----
    Logits of -inf, in rows that are not log-probabilities, and probabilities of NaN are options
    that were not offered: they are left out of all sums, and their probability is 0.

    "nll" and "brier": T is computed to 1e-8 by Newton's method on log T within a bracket. If the
    logits are multiplied by a constant, T is multiplied by the same constant.

    Any other objective may have many minima, so that the search uses several resolutions. It begins
    with 61 temperatures from 0.2 to 10, evenly spaced in log T. For logits of another scale, it
    adds as many temperatures from 1/7 to 7 times the temperature with the smallest log loss. Three
    rounds then refine the grid around the best 3 temperatures, by a factor of 10 each. For a
    callable, the first round refines the grid around the best 12 temperatures by a factor of 40,
    because minima of a binned error are narrow. Of equally good temperatures, the one closest to 1
    in log T is used.

    References
    ----------
    .. [1] C. Guo, G. Pleiss, Y. Sun and K. Q. Weinberger, "On calibration of modern neural
       networks", ICML 2017.
    .. [2] A. Karandikar, N. Cain, D. Tran, B. Lakshminarayanan, J. Shlens, M. C. Mozer and
       B. Roelofs, "Soft calibration objectives for neural networks", NeurIPS 2021.
    .. [3] J. Nixon, M. Dusenberry, G. Jerfel, T. Nguyen, J. Liu, L. Zhang and D. Tran,
       "Measuring calibration in deep learning", arXiv:1904.01685v2, 2020.

    Examples
    --------
    >>> import numpy as np
    >>> from skcalib import TemperatureScaling
    >>> rng = np.random.default_rng(0)
    >>> Z = rng.normal(size=(2000, 3))
    >>> y = (Z + rng.gumbel(size=Z.shape)).argmax(axis=1)
    >>> round(TemperatureScaling().fit(5 * Z, y).temperature_)
    5
    """

    _paper = "Guo et al. 2017; Karandikar et al. 2021"
    _takes_logs = True
    _takes_options = True
    _work = IN_PLACE

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        **ScoreCalibrator._parameter_constraints,
        "objective": [StrOptions({*SCALE_FITS, *SOFT_KINDS}), callable],
        "objective_params": [dict, None],
    }

    def __init__(
        self,
        *,
        objective: str | Metric = "nll",
        objective_params: Mapping[str, Any] | None = None,
        input: str = "auto",
        classes: ArrayLike | None = None,
    ) -> None:
        super().__init__(input=input, classes=classes)
        self.objective = objective
        self.objective_params = objective_params

    def _fit(self, scores: Scores, code: Intp, w: Float64Array) -> dict[str, Any]:
        params = dict(self.objective_params or {})
        if self.objective in SCALE_FITS:
            if params:
                raise ValueError(
                    f"objective={self.objective!r} takes no objective_params; got {params!r}: "
                    "leave them out."
                )
            return {"temperature_": fit_temperature(scores, code, w, str(self.objective))}
        if callable(self.objective):
            objective = metric_objective(scores, code, w, self.objective, params)
            rounds = ROUGH_ROUNDS
        else:
            unknown = set(params) - {"n_bins", "temperature", "norm"}
            if unknown:
                raise ValueError(
                    f"objective={self.objective!r} takes objective_params 'n_bins', "
                    f"'temperature' and 'norm'; got {sorted(unknown)}: leave them out."
                )
            bins = SoftBins(kind=SOFT_KINDS[self.objective], **params)
            objective, rounds = soft_binned_objective(scores, code, w, bins), SMOOTH_ROUNDS
        start = find_temperature(scores, code, w)
        centre = start.mean_gap if start.bound else start.value
        return {"temperature_": search_temperature(objective, centre, rounds)}

    @property
    def _fits_on_device(self) -> bool:  # type: ignore[override]
        return isinstance(self.objective, str) and self.objective in SCALE_FITS

    def _check_objective(self) -> bool:
        """Raise an error if `partial_fit` does not support the objective."""
        if self.objective != "nll":
            raise AttributeError(
                f"partial_fit supports only objective='nll', not {self.objective!r}: use fit."
            )
        return True

    @available_if(_check_objective)  # type: ignore[untyped-decorator]
    def partial_fit(
        self,
        X: ArrayLike,
        y: ArrayLike,
        sample_weight: ArrayLike | None = None,
        classes: ArrayLike | None = None,
        *,
        ignore_index: Any = None,
    ) -> Self:
        """Update the fit with one more batch of rows, such as logits of a language model.

        Only ``objective="nll"`` has this method. Earlier batches are not needed again.

        The first 4,000 rows (fewer with more than 4,000 columns) are stored, and T is the same as
        from ``fit`` on these rows. Later, only every second, fourth, ... row is stored, and other
        rows of a batch are summarised by sums at nine temperatures within 15 % of the temperature
        of the stored rows. If T stays in this range, as it does for rows in random order, T is the
        same as from ``fit`` on all rows, to 1e-8. If T leaves the range, a warning gives the
        standard error of T.

        Parameters
        ----------
        X : array-like of shape (n, K), (n, 1) or (n,)
            Scores of a batch, as in ``fit``, of the same kind as in the first batch.
        y : array-like of shape (n,)
            Labels.
        sample_weight : array-like of shape (n,), default=None
            Non-negative weights. Integers are counts: 2 is two copies of the row. Of floats only
            the ratios matter (see "Weights" under "Valid input" in the user guide). 0 is the row's
            absence. The ratios between batches count too.
        classes : array-like of shape (K,), default=None
            Labels of the columns, sorted. Needed only in the first call, if the first batch lacks
            some labels and the parameter `classes` is None.
        ignore_index : label, default=None
            Rows of this label, such as 255 or -100, are left out.

        Returns
        -------
        self : object
            Calibrator fitted on all batches so far.

        Raises
        ------
        ValueError
            As in ``fit``; if the columns or labels differ from the first batch; or if the
            calibrator was fitted by ``fit`` or read from a file, which contains no sums.

        Warns
        -----
        sklearn.exceptions.ConvergenceWarning
            If T reached a bound, or left the range of temperatures of the sums.

        Notes
        -----
        At most 4,000 rows or 128 MiB are stored, but always up to 100 rows. ``fit`` discards all
        batches. Probabilities of 0 are raised to the clip of the batches up to the first 0.

        Examples
        --------
        >>> import numpy as np
        >>> from skcalib import TemperatureScaling
        >>> rng = np.random.default_rng(0)
        >>> calibrator = TemperatureScaling()
        >>> for _ in range(20):
        ...     Z = rng.normal(size=(1000, 3))
        ...     y = (Z + rng.gumbel(size=Z.shape)).argmax(axis=1)
        ...     _ = calibrator.partial_fit(5 * Z, y, classes=[0, 1, 2])
        >>> round(calibrator.temperature_)
        5
        """
        self._validate_params()
        stream: TemperatureStream | None = getattr(self, "_stream", None)
        if stream is None and hasattr(self, "temperature_"):
            raise ValueError(
                "partial_fit cannot continue a TemperatureScaling that was fitted by fit or read "
                "from a file: begin with a new one, sklearn.base.clone(calibrator)."
            )
        known = self._known_classes(classes, stream)
        input, options = self.input, None
        if stream is not None:
            self._as_seen(X, exactly=True)
            input, options = self.input_, self._options
        rows = check_rows(
            self, X, y, sample_weight, input, known, ignore_index, options, scaled=False
        )
        refuse_remote(rows.source, "TemperatureScaling.partial_fit")
        if rows.survey.has_nan:
            raise ValueError(
                "partial_fit: X contains NaN: use fit, or pass logits with -inf instead of NaN."
            )
        if stream is not None:
            check_kind(rows.source, rows.survey, self.input_, self._refuses_simplex)
        n_parts = 1 if stream is None else max(1, len(stream.parts))
        batch = StreamRows(rows.scores, rows.code, rows.w)
        stream, fit = (stream or TemperatureStream()).with_rows(batch)
        validate_data(self, rows.X, skip_check_array=True)
        fitted = rows.fitted()
        if hasattr(self, "temperature_"):
            fitted = {"class_count_": self.class_count_ + fitted["class_count_"]}
        fitted |= {"clip_": stream.clip.clip, "_had_zeros": stream.clip.any_zero}
        fitted |= {"temperature_": fit.temperature.value, "_stream": stream}
        self.__dict__.update(fitted)
        if fit.temperature.bound:
            warn_at_bound(fit.temperature)
        if fit.continued and len(stream.parts) > n_parts:
            warnings.warn(
                f"TemperatureScaling: T={self.temperature_:.4g} is outside the range of "
                f"temperatures for which earlier batches ({100 * fit.continued:.2g} % of the "
                f"weight) were summarised, which gives T a standard error of {100 * fit.error:.2g} "
                "%: pass batches in random order.",
                ConvergenceWarning,
                stacklevel=2,
            )
        return self

    def _known_classes(
        self, classes: ArrayLike | None, stream: TemperatureStream | None
    ) -> ArrayLike | None:
        """Return the labels of the columns, or None if they must be inferred from `y`."""
        before, where = (
            (self.classes, "the parameter classes")
            if stream is None
            else (self.classes_, "earlier batches")
        )
        if classes is None or before is None:
            return before if classes is None else classes
        if not np.array_equal(check_labels(classes, "classes"), check_labels(before, "classes")):
            raise ValueError(
                f"classes={short_repr(np.asarray(classes).tolist())} differ from {where}, "
                f"{short_repr(np.asarray(before).tolist())}: pass the same classes, or None."
            )
        return before

    def _in_words(self) -> str:
        return softness(self.temperature_)

    def _plan(self) -> Plan:
        return plan_temperature(self.temperature_)
