"""Automatic calibration: a flexible convex map with ridge strengths set by the data.

`smoothing` has the scale and the position of a score, `few` the map for up to 30 classes, `many`
the map for more, `order_preserving` the terms for ``order_preserving=True``, `fits` the fit of
each, `identity` the weight of no calibration, and `changes` what the map changes.
"""

from __future__ import annotations

import warnings
from numbers import Integral, Real
from typing import Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils._param_validation import Interval
from sklearn.utils.validation import check_is_fitted

from skcalib._arrays.passes import ROWS
from skcalib._arrays.tensors import on_host
from skcalib._arrays.threads import one_blas_thread
from skcalib._arrays.types import Float64Array, Intp
from skcalib._maps.operations import Plan
from skcalib._scaling.evidence import EvidenceFit
from skcalib._scores.scores import Scores
from skcalib.calibrators._auto import order_preserving
from skcalib.calibrators._auto.changes import mean_changes
from skcalib.calibrators._auto.fits import LARGEST_WHOLE, NO_POSITION, fit_terms
from skcalib.calibrators._auto.formula import Map, plan_auto
from skcalib.calibrators._auto.identity import weigh_identity
from skcalib.calibrators._auto.smoothing import Position, Smoothing, fit_scale
from skcalib.calibrators._base import ScoreCalibrator
from skcalib.calibrators._fit_warnings import warn_of_flat_maps
from skcalib.calibrators._shown_fit import softness
from skcalib.calibrators._temperature import plan_temperature


class AutoCalibrator(ScoreCalibrator):
    r"""Calibrate by a flexible model that sets its own regularisation from the data.

    Automatic calibration is temperature scaling first, then corrections that all classes share,
    corrections of single classes, and corrections across classes, each regularised as strongly
    as the data suggest. The more rows there are, the more of its flexibility it uses. It has no
    parameters to tune, and is the default of `CalibratedClassifier`.

    Parameters
    ----------
    order_preserving : bool, default=False
        Keep the order of the classes in each row, and so the predicted class: fit only terms that
        all classes share and that increase with the score, eight of those above and eight steps of
        the rank.
    max_iter : int, default=200
        Largest number of steps of each fit for given strengths; there are up to 10 such fits.
    tol : float, default=1e-3
        A fit ends when the gradient is this small in units of posterior standard deviations.
    verbose : int, default=0
        Above 0, print a line for each round of strengths.
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
        :math:`1 / \beta`.
    strengths_ : dict of str to float
        :math:`\lambda_g` of each group fitted; with ``order_preserving=True``, of t and R, the
        steps of the rank.
    effective_dof_ : dict of str to float
        Effective number of parameters of each group, from 0 to the group's size.
    evidence_path_ : ndarray of shape (n_rounds,)
        Laplace's estimate of the log evidence for the strengths of each round.
    identity_weight_ : float
        :math:`\omega`, the weight of no calibration, from 0 to 1.
    class_shift_ : ndarray of shape (K,)
        Mean change of each class's probability on the calibration rows, compared with temperature
        scaling alone.
    cross_share_ : float
        Share of the terms M and L in the change of the logits beyond the temperature, from 0 to 1,
        measured by the mean variance within a row under its probabilities.
    n_iter_ : int
        Total number of steps of all fits.
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
        If a fit does not end within `max_iter` steps, if all rows have one label, or, with
        ``order_preserving=True``, if uniform probabilities would predict the labels as well.

    See Also
    --------
    skcalib.TemperatureScaling : A single parameter.
    skcalib.MatrixScaling : A matrix of the logits, with fixed ridge strengths.

    Notes
    -----
    With :math:`\beta` the inverse temperature that minimises the NLL under a weak prior,
    :math:`p = \mathrm{softmax}(\beta z)`, n the sum of the weights,
    :math:`q = (1 - \epsilon) p + \epsilon / K`, :math:`\epsilon = 1/(n+1)`,
    :math:`a = \log q`, a' the same with :math:`\epsilon / 10`, :math:`s = \log(nK)`, H the entropy
    of q, and :math:`u_k` in [0, 1] the rank of :math:`a_k` among all log-scores of the calibration
    rows, the map is :math:`\mathrm{softmax}(\eta)`,

    .. math::

        \eta_k = a'_k & + t_1 q_k + t_2 \frac{a_k^2}{s} + t_3 a_k H + t_4 a_k \max_l a_l
                        + t_5 \log(1 - q_k + 1/(nK)) \\
                 & + b_k + \sum_{j=1}^{6} R_{jk} \frac{\sqrt 2}{j} \cos(\pi j u_k)
                   + \sum_l M_{kl} p_l + \sum_l L_{kl} (a_l - \bar a_l)

    with parameters that minimise :math:`\sum_i w_i \mathrm{NLL}_i + \sum_g \lambda_g
    \|\theta_g\|^2`, and a strength :math:`\lambda_g` for each group t, b, R, M and L found by
    empirical Bayes (MacKay's fixed point). If all parameters are 0, the map is temperature scaling,
    smoothed. With two classes, M and L are left out; with more than 30 classes, a slope :math:`U_k
    a_k` replaces R and L, and a replaces a'; with more than 1,000, M is left out too, because its
    fit would take some 300 bytes for each pair of classes.

    No calibration is an alternative hypothesis: probabilities are
    :math:`(1 - \omega) \mathrm{softmax}(\eta) + \omega \mathrm{softmax}(z)`, the latter mixed with
    :math:`\epsilon / 10` of the uniform distribution, and :math:`\omega` is its weight by evidence.

    The sum of the weights counts as the number of rows: weights that sum to 1 count as one row.

    The result depends slightly on the order of the columns: with 200 classes, another order changes
    probabilities by up to 6e-4.

    Logits of -inf, in rows that are no log-probabilities, and probabilities of NaN are options that
    were not offered; their probability is 0. If there are such rows in ``fit``, where options
    differ, all terms but the scale are left out: the map is
    :math:`\mathrm{softmax}(\beta z)`, with a normal prior on :math:`\log \beta` of standard
    deviation 0.7.

    The predicted class may change unless ``order_preserving=True``. With it, the predicted class is
    that of the largest score, and equal scores stay equal.

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
            shift, cross_share = mean_changes(scores, w, fitted_map)
        if shared and useless:
            warn_of_flat_maps("AutoCalibrator", "uniform probabilities")
        if not fitted.converged:
            warnings.warn(
                f"AutoCalibrator: a fit did not converge in max_iter={self.max_iter} steps; "
                "raise max_iter.",
                ConvergenceWarning,
                stacklevel=3,
            )
        return attributes(fitted, fitted_map, shift, cross_share)

    def _plan(self) -> Plan:
        if not self._theta.size:
            return plan_temperature(self.temperature_)
        smoothing = Smoothing(1.0 / self.temperature_, self._weight, self.classes_.size)
        position = Position(self._knots, self._levels)
        weight = self.identity_weight_
        fitted = Map(is_shared(self), self._theta, smoothing, position, self._centre, weight)
        options = self.input_ == "proba" or self._options
        return plan_auto(fitted, options)

    def _in_words(self) -> str:
        shrunk = f"{100 * self.identity_weight_:.0f}"
        return (
            f"{softness(self.temperature_)}; {sum(self.effective_dof_.values()):.1f} effective "
            f"parameters; {'no shrinkage' if shrunk == '0' else f'shrunk by {shrunk} %'}"
        )

    def describe(self) -> str:
        """Describe the fitted map in words.

        Returns
        -------
        text : str
            One sentence for each line: the temperature, the effective number of parameters, the
            classes that change most, the part of the change that comes from terms that link
            classes, and the shrinkage towards the original probabilities.
        """
        check_is_fitted(self)
        dof, T = self.effective_dof_, f"{self.temperature_:.3g}"
        change = "as they are" if T == "1" else "less extreme" if float(T) > 1 else "more extreme"
        lines = [f"Temperature {T}: {'leaves' if T == '1' else 'makes'} probabilities {change}."]
        if not self._theta.size:
            return f"{lines[0]}\nNo other term was fitted, since some options were not offered."
        if is_shared(self):
            lines += [
                f"The rows determine {sum(dof.values()):.1f} parameters, which all classes share.",
                "The order of the classes in each row stays, and so does the predicted class.",
            ]
        else:
            own = sum(dof.get(group, 0.0) for group in ("b", "R", "U"))
            across = sum(dof.get(group, 0.0) for group in ("M", "L"))
            lines.append(
                f"The rows determine {dof['t'] + own + across:.1f} parameters: {dof['t']:.1f} that "
                f"all classes share, {own:.1f} of single classes, {across:.1f} that link classes."
            )
        most = np.argsort(-np.abs(self.class_shift_), kind="stable")[:3]
        moved = ", ".join(f"{self.classes_[k]} {100 * self.class_shift_[k]:+.2f}" for k in most)
        lines.append(
            "Largest mean changes of class probabilities beyond the temperature, in points: "
            f"{moved}."
        )
        if "M" in dof:
            lines.append(
                f"Terms that link classes make up {self.cross_share_:.0%} of the change beyond the "
                "temperature."
            )
        none = self.identity_weight_
        shrunk = "No shrinkage" if f"{none:.0%}" == "0%" else f"Shrunk by {none:.0%}"
        why = ", because the rows do not show that the map is better" if none > 0.5 else ""
        lines.append(f"{shrunk} towards the original probabilities{why}.")
        return "\n".join(lines)


def attributes(
    fitted: EvidenceFit, fitted_map: Map, shift: Float64Array, cross_share: float
) -> dict[str, Any]:
    """Return the fitted attributes."""
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
        "_theta": theta,
        "_weight": smoothing.n,
        "_centre": centre,
        "_knots": position.knots,
        "_levels": position.levels,
    }


def is_shared(fitted: AutoCalibrator) -> bool:
    return tuple(fitted.strengths_) == tuple(order_preserving.GROUPS)
