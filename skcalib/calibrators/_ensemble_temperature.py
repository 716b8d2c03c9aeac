"""Ensemble temperature scaling: a mixture of tempered, given and uniform probabilities."""

from __future__ import annotations

from functools import partial
from itertools import combinations
from typing import Any

import numpy as np

from skcalib._arrays.passes import map_rows
from skcalib._arrays.rowwise import weighted_columns, weighted_sum
from skcalib._arrays.tensors import on_host, rows_of
from skcalib._arrays.types import Float64Array, Intp
from skcalib._maps.operations import Constants, Operations, Plan, Value
from skcalib._scaling.temperature import fit_temperature
from skcalib._scores.scores import Scores
from skcalib.calibrators._base import ScoreCalibrator
from skcalib.calibrators._shown_fit import softness

# The fit ends when no other weights can have a mean loss that is lower by more than this.
LOSS_TOLERANCE = 1e-12
MAX_STEPS = 100
# Relative precision of a loss.
LOSS_ROUNDING = 1e-14
# All sets of members whose weights may be above 0.
FACES = [list(face) for size in (1, 2, 3) for face in combinations(range(3), size)]


def likelihoods_of_block(Z: Float64Array, code: Intp, T: float) -> tuple[Float64Array, ...]:
    """Return each member's probability of the true class of each row of a block of logits."""
    r = rows_of(Z)
    U = r.minus(Z, r.row_max(Z))
    true = r.at(U, code)
    given = r.exp(true) / r.row_sums(r.exp(U))
    U /= T
    tempered = r.exp(true / T) / r.row_sums(r.exp_(U))
    return tempered, given, 0.0 * true + 1.0 / U.shape[1]


def mixture_weights(F: Float64Array, w: Float64Array) -> tuple[Float64Array, int]:
    """Return v on the simplex that minimises the weighted mean of ``-log(F @ v)``, and the steps.

    The problem is convex. Each Newton step goes to the minimum of the quadratic model with v >= 0.
    Instead of the constraint sum(v) = 1 the objective has the term sum(v), with the same optimum.
    """
    share = w / w.sum()
    # In the best mixture, the probability of a row is at least its share times that of its best
    # member. Far below that, ratios would overflow: such steps are refused.
    lowest = share * F.max(axis=1) / 10.0
    v = np.full(3, 1.0 / 3.0)
    mixture = np.einsum("ij,j->i", F, v)
    loss = -weighted_sum(share, np.log(mixture))
    last = False
    for n_iter in range(MAX_STEPS):
        R = F / mixture[:, None]
        gain = weighted_columns(share, R)
        if last:
            return v, n_iter
        # The loss is convex, so no v is better than this one by more than log(max(gain)). One
        # more step costs little and squares the remaining error.
        last = gain.max() <= 1.0 + LOSS_TOLERANCE
        R *= np.sqrt(share)[:, None]
        towards = _model_step(np.einsum("ij,ik->jk", R, R), gain, v)
        slope = float((1.0 - gain) @ towards)
        length = 1.0
        while True:
            new = v + length * towards
            new /= new.sum()
            mixture = np.einsum("ij,j->i", F, new)
            if (mixture >= lowest).all():
                lower = -weighted_sum(share, np.log(mixture))
                if lower <= loss + 1e-4 * length * slope + LOSS_ROUNDING * max(1.0, loss):
                    break
            length /= 2.0
            if length < 1e-12:
                return v, n_iter
        v, loss = new, lower
    return v, MAX_STEPS


def _model_step(hessian: Float64Array, gain: Float64Array, v: Float64Array) -> Float64Array:
    """Return d with v + d >= 0 that minimises ``d' hessian d / 2 + (1 - gain)' d``.

    The minimum over all faces of v + d >= 0 is computed. Objectives are compared as changes by d,
    not as values at v + d: nearly equal members differ by less than the rounding of such values.
    """
    scale = np.sqrt(np.diag(hessian))
    # A member with a negligible scale is not rescaled: the squares of 1 / scale would overflow.
    scale = 1.0 / np.where(scale > 1e-100, scale, 1.0)
    H, c = hessian * np.outer(scale, scale), (2.0 * gain - 1.0) * scale
    best, lowest = np.zeros(3), np.inf
    for face in FACES:
        # Least squares, because equal members make the Hessian singular.
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

    Ensemble temperature scaling is for scores with some wrong labels, or some rows unlike
    anything that the model has seen: a few surprises then lead to a share of uniform
    probabilities, and not to a higher temperature of all rows. The predicted class never
    changes.

    .. math:: q = w_1 \, \mathrm{softmax}(z / T) + w_2 \, \mathrm{softmax}(z) + w_3 \, \frac{1}{K},
              \qquad w \ge 0, \quad w_1 + w_2 + w_3 = 1

    T is that of temperature scaling; then the weights minimise the mean of
    :math:`-\log q_y`. The predicted class never changes.

    Parameters
    ----------
    input : {"auto", "logits", "proba"}, default="auto"
        What the columns of `X` are. "auto" decides once, in ``fit``: rows that sum to 1 within
        0.001 are probabilities, others logits; rows of both kinds, or rows that all sum to 100,
        raise an error.
        Logits of probabilities are their logarithms, where 0 counts as `clip_`.
    classes : array-like of shape (K,), default=None
        Labels of the columns, sorted; needed if they cannot be inferred from `y`.

    Attributes
    ----------
    temperature_ : float
        T, above 0: that of `TemperatureScaling`.
    weights_ : ndarray of shape (3,)
        :math:`w_1, w_2, w_3`: of the tempered, the uncalibrated and the uniform probabilities.
    n_iter_ : int
        Newton steps of the fit of the weights.
    clip_ : float, or ndarray of shape (2,) for two classes
        What a probability of 0 counts as before its logarithm is taken: half the smallest
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
    skcalib.TemperatureScaling : The first member alone.

    Notes
    -----
    On the calibration rows the log loss is at most that of temperature scaling, of no calibration
    and of uniform probabilities, since each of these is a choice of weights. The uniform member
    keeps every probability at :math:`w_3 / K` or above, so that a few very wrong rows cost less
    and do not raise T.

    The loss is convex in the weights; the fit ends when no other weights can be better by more
    than 1e-12. With T near 1 the first two members are equal, and their weights are not unique:
    all choices give the same probabilities.

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
    >>> y[::5] = rng.integers(3, size=1000)  # a fifth of the labels drawn by lot
    >>> ensemble = EnsembleTemperatureScaling().fit(Z, y)
    >>> round(ensemble.temperature_, 1), ensemble.weights_.round(1)
    (2.1, array([0. , 0.8, 0.2]))
    """

    _paper = "Zhang et al. 2020"
    _takes_logs = True
    _fits_on_device = True

    def _fit(self, scores: Scores, code: Intp, w: Float64Array) -> dict[str, Any]:
        T = fit_temperature(scores, code, w)
        logits = scores.device_logits() or scores.as_logits()
        out = tuple(logits.empty_rows() for _ in range(3))
        map_rows(partial(likelihoods_of_block, T=T), logits, code, out=out)
        members = np.column_stack([on_host(part) for part in out])
        weights, n_iter = mixture_weights(members, on_host(w))
        return {"temperature_": T, "weights_": weights, "n_iter_": n_iter}

    def _in_words(self) -> str:
        tempered, given, uniform = 100 * self.weights_
        return (
            f"{softness(self.temperature_)}; {tempered:.1f} % of this, {given:.1f} % no "
            f"calibration, {uniform:.1f} % equal probabilities"
        )

    def _plan(self) -> Plan:
        tempered, given, uniform = self.weights_
        constants = {
            "temperature": self.temperature_,
            "weights": np.array([[tempered], [given]][: 1 + (given > 0.0)]),
            "uniform": uniform / self.classes_.size,
        }
        return Plan(partial(mixture, mixed=given > 0.0), constants, "top")


def mixture(o: Operations, c: Constants, mixed: bool) -> Value:
    """Return the mixture of tempered, uniform and, if they are `mixed`, given probabilities."""
    z = o.logits()
    # A small T would magnify the rounding error of an offset that all columns share.
    z = z - o.row_max(z)
    tempered = o.softmax(z / c["temperature"])
    members = [tempered, o.softmax(z)] if mixed else [tempered]
    return o.keep_top(o.combine(c["weights"], *members) + c["uniform"])
