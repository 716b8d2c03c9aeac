"""Temperature scaling: all logits are divided by one number."""

from __future__ import annotations

import inspect
import warnings
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils._param_validation import StrOptions

from skcalib._arrays.passes import map_rows
from skcalib._arrays.rowwise import row_sums
from skcalib._arrays.source import ALL
from skcalib._arrays.types import Float64Array, FloatArray, Intp
from skcalib._differentiable.soft_binning import Kind, SoftBins, soft_binned_error
from skcalib._scaling.affine_softmax import IN_PLACE, affine_softmax
from skcalib._scaling.scale_losses import ShiftedLogits
from skcalib._scaling.temperature import SCALE_FITS, find_temperature, fit_temperature
from skcalib._scores.one_vs_rest import is_unit
from skcalib._scores.scores import Scores
from skcalib._validation.keywords import check_between, check_count
from skcalib._validation.norm import check_norm
from skcalib.calibrators._base import ScoreCalibrator

Metric = Callable[..., float]
# An objective as a function of T.
Objective = Callable[[float], float]

SOFT_KINDS: dict[str, Kind] = {"soft_binned": "bin", "soft_label_binned": "label"}

# ------------------------------------------------------------------- multi-resolution search

GRID = np.geomspace(0.2, 10.0, 61)
LOG_STEP = float(np.log(50.0) / 60)


# A round refines the grid around the best temperatures: how many, and how many times finer.
Rounds = tuple[tuple[int, int], ...]
SMOOTH_ROUNDS = ((3, 10), (3, 10), (3, 10))
# A binned error jumps at every T at which a row changes its bin, so its minima are narrow.
ROUGH_ROUNDS = ((12, 40), (3, 10), (3, 10))


def search_temperature(height: Objective, centre: float, rounds: Rounds) -> float:
    """Return the T that minimises `height`; of equal ones, the one closest to 1.

    A grid of 61 temperatures, even in log T, on [0.2, 10], continued by the same grid about
    `centre` if that reaches further; then each round.
    """
    shifted = centre / np.sqrt(2.0) * GRID
    step = LOG_STEP
    log_t = np.log(np.concatenate([GRID, [1.0], shifted[(shifted < 0.2) | (shifted > 10.0)]]))
    low, high = log_t.min(), log_t.max()
    found = {float(t): height(float(np.exp(t))) for t in log_t}
    for n_best, n_parts in rounds:
        step /= n_parts
        offsets = step * np.arange(1 - n_parts, n_parts)
        near = np.add.outer(_best_first(found)[:n_best], offsets).ravel()
        for t in _apart(np.sort(near), np.sort(np.array(list(found))), step / 2):
            found[t] = height(float(np.exp(t)))
    best = float(_best_first(found)[0])
    if not low < best < high:
        end = "lower" if best <= low else "upper"
        warnings.warn(
            f"TemperatureScaling found T={np.exp(best):.4g} at the {end} end of the range "
            "searched: the objective may fall further beyond it; fit on more held-out rows, or "
            "take objective='nll'.",
            ConvergenceWarning,
            stacklevel=2,
        )
    return float(np.exp(best))


def _best_first(found: dict[float, float]) -> Float64Array:
    """Order log T by height up to rounding, then by distance from 0, then as numbers."""
    log_t, height = np.array(list(found)), np.array(list(found.values()))
    finite = np.abs(height[np.isfinite(height)])
    level = np.round(height / (finite.max(initial=0.0) or 1.0), 12)
    return log_t[np.lexsort([log_t, np.round(np.abs(log_t), 12), level])]


def _apart(new: Float64Array, old: Float64Array, least: float) -> list[float]:
    """Return those of the sorted `new` that lie `least` or more from each other and from `old`."""
    once = new[np.diff(new, prepend=-np.inf) > least]
    at = np.searchsorted(old, once)
    after = old[np.minimum(at, old.size - 1)]
    before = old[np.maximum(at - 1, 0)]
    return once[np.minimum(np.abs(once - after), np.abs(once - before)) > least].tolist()


# ------------------------------------------------------------------- objectives as functions of T


def scaled_softmax(scores: Scores, T: float) -> FloatArray:
    """Return softmax(z / T), in the type of the scores."""
    out = np.empty(scores.shape, dtype=scores.dtype)
    kernel = partial(affine_softmax, coef=1.0 / T, max_abs_logit=scores.max_abs_logit)
    map_rows(kernel, scores.as_logits(), out=out)
    return out


def hits_of_block(U: Float64Array, code: Intp) -> NDArray[np.bool_]:
    """Return whether the true class of each row of a block has the largest logit."""
    return U.argmax(axis=1) == code


def top_of_block(U: Float64Array, T: float) -> Float64Array:
    """Return the largest probability of each row of a block of shifted logits."""
    Q = U / T
    return 1.0 / row_sums(np.exp(Q, out=Q))


def soft_binned_height(scores: Scores, code: Intp, w: Float64Array, bins: SoftBins) -> Objective:
    """Return the soft-binned error of the top label as a function of T."""
    check_count("objective_params['n_bins']", bins.n_bins, 1)
    check_norm(bins.norm, name="objective_params['norm']", has_max=False)
    wanted = "a positive number"
    check_between("objective_params['temperature']", bins.temperature, 0, np.inf, wanted)
    bins = bins._replace(n_bins=int(bins.n_bins))
    shifted = ShiftedLogits(scores, code, w)
    hit, top = np.empty(code.size, dtype=bool), np.empty(code.size)
    map_rows(hits_of_block, shifted.source, code, out=hit)

    def height(T: float) -> float:
        map_rows(partial(top_of_block, T=T), shifted.source, out=top)
        return float(soft_binned_error(top, hit, w, bins))

    return height


def metric_height(
    scores: Scores, code: Intp, w: Float64Array, metric: Metric, params: Mapping[str, Any]
) -> Objective:
    """Return ``metric(y_true, softmax(z / T), **params)`` as a function of T."""
    y_true = scores.classes[code]
    taken = inspect.signature(metric).parameters
    keywords: dict[str, Any] = {}
    if "labels" in taken:
        keywords["labels"] = scores.classes
    if not is_unit(w):
        if "sample_weight" not in taken:
            raise ValueError(
                "TemperatureScaling was given sample_weight, but its objective has no such "
                "keyword: pass a metric that takes sample_weight, or leave the weights out."
            )
        keywords["sample_weight"] = w
    keywords.update(params)

    def height(T: float) -> float:
        value = np.asarray(metric(y_true, scaled_softmax(scores, T), **keywords))
        if value.ndim:
            raise ValueError(
                f"The objective returned an array of shape {value.shape} instead of one number: "
                "pass a metric that averages over classes."
            )
        if np.isnan(value):
            raise ValueError(
                f"The objective is NaN at T={T:.4g}: pass a metric that is defined for these "
                "labels, or fit on rows of every class."
            )
        return float(value)

    return height


# ------------------------------------------------------------------------------- the calibrator


class TemperatureScaling(ScoreCalibrator):
    r"""Take softmax(z / T), with T by log loss, Brier score, a soft-binned error or any metric.

    .. math:: Q = \mathrm{softmax}(Z / T), \qquad T = \arg\min_T \ell(y, Q)

    where :math:`\ell` is a mean loss or an error of all rows.

    T above 1 softens over-confident probabilities, T below 1 sharpens under-confident ones. The
    predicted class never changes, except where rounding makes the largest probabilities equal.

    Parameters
    ----------
    objective : {"nll", "brier", "soft_binned", "soft_label_binned"} or callable, default="nll"
        Objective minimised over T: minus the log of the true class's probability; the squared
        distance to the true class's indicator; the soft-binned calibration error of the top
        label, in the bin or in the label form; or any ``metric(y_true, y_proba) -> float``,
        smaller is better. A metric with keywords ``labels`` and ``sample_weight`` gets the labels
        of the columns and, if they are not all 1, the weights.
    objective_params : dict, default=None
        Keywords of the objective: ``n_bins=15``, ``temperature=0.01`` and ``norm="l2"`` for the
        soft-binned errors, those of the metric for a callable; the first two have none.
    input : {"auto", "logits", "proba"}, default="auto"
        What the columns of `X` are. "auto" decides once, in ``fit``: rows that sum to 1 within
        0.001 are probabilities, others logits; rows of both kinds, or rows that all sum to 100,
        raise an error.
        Logits of probabilities are their logarithms, clipped at the logarithm of `clip_`.
    classes : array-like of shape (K,), default=None
        Labels of the columns, sorted; needed if they cannot be inferred from `y`.

    Attributes
    ----------
    temperature_ : float
        T, above 0. For a binary logit f in one column, P(second class) = expit(f / T).
    clip_ : float, or ndarray of shape (2,) for two classes
        Lower limit of probabilities before their logarithm is taken: half the smallest
        probability above 0 in ``fit``, within limits; with two classes, one for each column.
    classes_ : ndarray of shape (K,)
        Sorted labels of the columns.
    input_ : {"logits", "proba"}
        What the columns of `X` were in ``fit``.
    n_features_in_ : int
        Number of columns of `X`.

    Warns
    -----
    sklearn.exceptions.ConvergenceWarning
        If T met a bound: no row is misclassified, so that T tends to 0, or the scores say less
        than uniform probabilities would, so that T tends to infinity.

    Raises
    ------
    ValueError
        In ``fit``, if a metric returns NaN or more than one number, or does not take weights
        although weights are given.

    See Also
    --------
    skcalib.VectorScaling : A scale and a shift for each class.

    Notes
    -----
    "nll" and "brier": T is computed to 1e-8 by Newton's method on log T within a bracket. Logits
    multiplied by a constant give T multiplied by that constant.

    Any other objective may have many minima; the lowest is searched at several resolutions: 61
    temperatures, even in log T, on [0.2, 10] and, if that reaches further (logits of another
    scale), as many from 1/7 to 7 times the temperature of the NLL; then three rounds around the
    best 3, each ten times finer. For a callable the first of these rounds covers the best 12, 40
    times finer, because the minima of a binned error are narrow. Of equally good temperatures the
    one closest to 1, in log T, is taken.

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
    _work = IN_PLACE
    _preserves_top_label = True
    _class_specific = False
    _monotone = True

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

    def _fit(
        self, scores: Scores, code: NDArray[np.intp], w: NDArray[np.float64]
    ) -> dict[str, Any]:
        params = dict(self.objective_params or {})
        if self.objective in SCALE_FITS:
            if params:
                raise ValueError(
                    f"objective={self.objective!r} takes no objective_params; got {params!r}: "
                    "leave them out."
                )
            return {"temperature_": fit_temperature(scores, code, w, str(self.objective))}
        if callable(self.objective):
            height, rounds = metric_height(scores, code, w, self.objective, params), ROUGH_ROUNDS
        else:
            unknown = set(params) - {"n_bins", "temperature", "norm"}
            if unknown:
                raise ValueError(
                    f"objective={self.objective!r} takes objective_params 'n_bins', "
                    f"'temperature' and 'norm'; got {sorted(unknown)}: leave them out."
                )
            bins = SoftBins(kind=SOFT_KINDS[self.objective], **params)
            height, rounds = soft_binned_height(scores, code, w, bins), SMOOTH_ROUNDS
        found = find_temperature(scores, code, w)
        centre = found.mean_gap if found.bound else found.value
        return {"temperature_": search_temperature(height, centre, rounds)}

    def _map(self, scores: Scores) -> FloatArray:
        Z = scores.finite_logits(ALL)
        return affine_softmax(Z, 1.0 / self.temperature_, None, scores.max_abs_logit, scores.out)
