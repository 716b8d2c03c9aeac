"""Automatic calibration: a flexible convex map with ridge strengths learnt from the data.

`features` has the features, `nll` the loss and `evidence` the strengths; `order_preserving` has the
terms for ``order_preserving=True``.
"""

from __future__ import annotations

import warnings
from functools import partial
from numbers import Integral, Real
from typing import Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils._param_validation import Interval
from sklearn.utils.validation import check_is_fitted

from skcalib._arrays.passes import sum_rows
from skcalib._arrays.source import ALL
from skcalib._arrays.threads import one_blas_thread
from skcalib._arrays.types import Float64Array, FloatArray, Intp
from skcalib._scaling.root import rising_root
from skcalib._scaling.scale_losses import ShiftedLogits
from skcalib._scaling.temperature import find_temperature
from skcalib._scores.scores import Scores
from skcalib._scores.softmax import softmax_inplace
from skcalib._scores.top_label import keep_top
from skcalib.calibrators._auto.evidence import EvidenceFit, fit_by_evidence
from skcalib.calibrators._auto.features import Layout, Smoothing, logits, make_features, smooth
from skcalib.calibrators._auto.nll import FeatureNLL
from skcalib.calibrators._auto.order_preserving import OrderPreservingNLL, smallest
from skcalib.calibrators._base import ScoreCalibrator

WHOLE = ("t", "b", "U", "V", "M", "L")
MANY_CLASSES = ("t", "b", "U", "M")
SHARED = ("t",)
# Up to this many classes, all terms are fitted with the full Hessian (1,955 parameters); with more,
# fewer terms are fitted, on features in float32.
LARGEST_WHOLE = 30
# Updates of the strengths. A large full Hessian takes long, and later updates change little.
ROUNDS, FEW_ROUNDS, CHEAP_SIZE = 8, 4, 500
# Far outside the range that the prior of log beta allows.
LOG_SCALE_BOUND = 700.0


def fit_scale(scores: Scores, code: Intp, w: Float64Array) -> float:
    r"""Return the minimum of :math:`\sum_i w_i \mathrm{NLL}_i(\beta) + (\log \beta)^2 / 2`.

    The prior keeps the scale finite if (nearly) no row is misclassified.
    """
    total = float(w.sum())
    shifted = ShiftedLogits(scores, code, w)

    def slope(log_beta: float) -> tuple[float, float]:
        beta = np.exp(log_beta)
        _, first, second = shifted.nll(beta)
        by_log = beta * first
        with np.errstate(over="ignore"):  # rising_root handles inf
            return total * by_log + log_beta, total * (by_log + beta * (beta * second)) + 1.0

    temperature = find_temperature(scores, code, w)
    start = 0.0 if temperature.bound else -float(np.log(temperature.value))
    return float(np.exp(rising_root(slope, start, -LOG_SCALE_BOUND, LOG_SCALE_BOUND)[0]))


def fit_smoothing(scores: Scores, code: Intp, w: Float64Array) -> Smoothing:
    """Return the scale, the sum of weights and the mean log-scores of a calibration set."""
    beta, n = fit_scale(scores, code, w), float(w.sum())
    kernel = partial(sum_logs, beta=beta, n=n)
    return Smoothing(beta, n, sum_rows(kernel, scores.as_logits(), w) / n)


def sum_logs(Z: Float64Array, w: Float64Array, beta: float, n: float) -> Float64Array:
    """Return the weighted sum of the log-scores of a block of logits."""
    return w @ np.log(smooth(Z, beta, n))


def prior_strengths(n_classes: int) -> dict[str, float]:
    r"""Return :math:`\lambda^0` of each group."""
    K = n_classes
    return {"t": 1.0, "b": 10.0 * K, "U": 10.0 * K, "V": 5.0 * K, "M": 1.0, "L": 2.0 * K * (K - 1)}


def fit_whole(
    scores: Scores, code: Intp, w: Float64Array, smoothing: Smoothing, **keywords: Any
) -> tuple[Layout, EvidenceFit]:
    """Fit all terms or, for many classes, only some of them."""
    n_classes = scores.shape[1]
    exact = n_classes <= LARGEST_WHOLE
    layout = Layout(n_classes, WHOLE if exact else MANY_CLASSES)
    dtype = np.float64 if exact else np.float32
    problem = FeatureNLL(scores, code, w, smoothing, layout, exact=exact, dtype=dtype)
    return layout, fit_by_evidence(
        problem,
        np.zeros(layout.size),
        layout.groups,
        prior_strengths(n_classes),
        rounds=ROUNDS if layout.size <= CHEAP_SIZE else FEW_ROUNDS,
        moved=0.1 if exact else 0.2,
        **keywords,
    )


def fit_order_preserving(
    scores: Scores, code: Intp, w: Float64Array, smoothing: Smoothing, **keywords: Any
) -> tuple[Layout, EvidenceFit]:
    """Fit the shared terms that preserve the order of the classes."""
    layout = Layout(scores.shape[1], SHARED, n_shared=6)
    problem = OrderPreservingNLL(FeatureNLL(scores, code, w, smoothing, layout, exact=True))
    low = smallest()
    start = np.zeros(low.size)
    start[0] = 1.0
    fitted = fit_by_evidence(
        problem,
        start,
        {"t": slice(0, start.size)},
        prior_strengths(scores.shape[1]),
        rounds=ROUNDS,
        moved=0.1,
        low=low,
        **keywords,
    )
    return layout, fitted._replace(theta=problem.theta(fitted.theta))


class AutoCalibrator(ScoreCalibrator):
    r"""Take the softmax of bounded features of z, with the strength of each group set by the data.

    With :math:`\beta` the inverse temperature that minimises the NLL under a weak prior,
    :math:`p = \mathrm{softmax}(\beta z)`, n the sum of the weights,
    :math:`q = (1 - \epsilon) p + \epsilon / K`, :math:`\epsilon = 1/(n+1)`,
    :math:`a = \log q`, :math:`s = \log(nK)`, H the entropy of q and
    :math:`r_k = \log(1 - q_k + 1/(nK))`, probabilities are :math:`\mathrm{softmax}(\eta)`,

    .. math::

        \eta_k = a_k & + t_1 q_k + t_2 \frac{a_k^2}{s} + t_3 a_k H + t_4 a_k \max_l a_l + t_5 r_k \\
                 & + b_k + U_k a_k + V_{1k} q_k + V_{2k} \frac{a_k^2}{s} + V_{3k} r_k \\
                 & + \sum_l M_{kl} p_l + \sum_l L_{kl} (a_l - \bar a_l)

    with parameters that minimise
    :math:`\sum_i w_i \mathrm{NLL}_i + \sum_g \lambda_g \|\theta_g\|^2`, and a strength
    :math:`\lambda_g` for each group t, b, U, V, M and L found by empirical Bayes (MacKay's fixed
    point). Temperature, vector, matrix, Platt and beta scaling of q are special cases.
    With more than 30 classes, V and L are left out.

    Parameters
    ----------
    order_preserving : bool, default=False
        Keep the order of the classes in each row, and so the predicted class: fit only terms that
        all classes share and that increase with the score.
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
        Logits of probabilities are their logarithms, clipped at the logarithm of `clip_`.
    classes : array-like of shape (K,), default=None
        Labels of the columns, sorted; needed if they cannot be inferred from `y`.

    Attributes
    ----------
    temperature_ : float
        :math:`1 / \beta`.
    strengths_ : dict of str to float
        :math:`\lambda_g` of each group fitted.
    effective_dof_ : dict of str to float
        Number of parameters of each group that the rows determine, from 0 to the group's size.
    evidence_path_ : ndarray of shape (n_rounds,)
        Laplace's estimate of the log evidence for the strengths of each round.
    class_shift_ : ndarray of shape (K,)
        Mean change of each class's probability on the calibration rows, compared with temperature
        scaling alone.
    cross_share_ : float
        Share of the terms M and L in the change of the logits beyond the temperature, from 0 to 1,
        measured by the mean variance within a row under its probabilities.
    n_iter_ : int
        Total number of steps of all fits.
    clip_ : float, or ndarray of shape (2,) for two classes
        What 0, and any smaller probability, counts as where its logarithm is taken: half the
        smallest probability above 0 in ``fit``, within limits; of each column of two classes.
    classes_ : ndarray of shape (K,)
        Sorted labels of the columns.
    input_ : {"logits", "proba"}
        What the columns of `X` were in ``fit``.
    n_features_in_ : int
        Number of columns of `X`.

    Warns
    -----
    sklearn.exceptions.ConvergenceWarning
        If a fit does not end within `max_iter` steps.

    See Also
    --------
    skcalib.TemperatureScaling : A single parameter; for few rows.
    skcalib.MatrixScaling : A matrix of the logits, with fixed ridge strengths.

    Notes
    -----
    The sum of the weights counts as the number of rows: weights that sum to 1 count as one row.

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
    _takes_logs = True

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
        fit = fit_order_preserving if self.order_preserving else fit_whole
        keywords = {"tol": self.tol, "max_iter": self.max_iter, "verbose": int(self.verbose)}
        with one_blas_thread():
            smoothing = fit_smoothing(scores, code, w)
            layout, fitted = fit(scores, code, w, smoothing, **keywords)
            shift, cross_share = _changes(scores, w, smoothing, layout, fitted.theta)
        if not fitted.converged:
            warnings.warn(
                f"AutoCalibrator: a fit did not converge in max_iter={self.max_iter} steps; "
                "raise max_iter.",
                ConvergenceWarning,
                stacklevel=3,
            )
        return {
            "temperature_": 1.0 / smoothing.beta,
            "strengths_": fitted.strengths,
            "effective_dof_": fitted.dof,
            "evidence_path_": fitted.path,
            "class_shift_": shift,
            "cross_share_": cross_share,
            "n_iter_": fitted.n_iter,
            "_theta": fitted.theta,
            "_weight": smoothing.n,
            "_centre": smoothing.centre,
        }

    @property
    def _preserves_top_label(self) -> bool:
        return self.order_preserving

    @property
    def _class_specific(self) -> bool:
        return not self.order_preserving

    @property
    def _monotone(self) -> bool:
        return self.order_preserving

    def _layout(self) -> Layout:
        return Layout(self._centre.size, tuple(self.strengths_), 6 if _is_shared(self) else 5)

    def _map(self, scores: Scores) -> FloatArray:
        smoothing = Smoothing(1.0 / self.temperature_, self._weight, self._centre)
        layout = self._layout()
        terms = layout.unpack(self._theta)
        f = make_features(scores.logits(ALL), smoothing, layout.names)
        P = softmax_inplace(logits(f, terms, smoothing.square_scale)).astype(scores.dtype)
        return keep_top(P, scores.best(ALL)) if _is_shared(self) else P

    def describe(self) -> str:
        """Describe the fitted map in words.

        Returns
        -------
        text : str
            Temperature, effective numbers of parameters, the classes that change most, and the
            share of the change from terms across classes.
        """
        check_is_fitted(self)
        dof = self.effective_dof_
        shared = dof["t"]
        own = sum(dof.get(g, 0.0) for g in ("b", "U", "V"))
        across = sum(dof.get(g, 0.0) for g in ("M", "L"))
        T = self.temperature_
        effect = "softer" if T > 1 else "sharper"
        lines = [
            f"Temperature {T:.3g}: makes probabilities {effect}.",
            f"{shared + own + across:.1f} effective parameters: {shared:.1f} shared by all "
            f"classes, {own:.1f} of single classes, {across:.1f} across classes.",
        ]
        if _is_shared(self):
            lines.append("Keeps the order of the classes in every row.")
        most = np.argsort(-np.abs(self.class_shift_), kind="stable")[:3]
        moved = ", ".join(f"{self.classes_[k]} by {self.class_shift_[k]:+.2%}" for k in most)
        lines.append(f"Classes moved most, on average over the calibration rows: {moved}.")
        lines.append(
            f"{self.cross_share_:.0%} of the change beyond the temperature is cross-class."
        )
        return "\n".join(lines)


def _is_shared(fitted: AutoCalibrator) -> bool:
    return tuple(fitted.strengths_) == SHARED


def _changes(
    scores: Scores, w: Float64Array, smoothing: Smoothing, layout: Layout, theta: Float64Array
) -> tuple[Float64Array, float]:
    """Return the mean change of each class's probability, and the share of M and L in eta - a."""
    kernel = partial(sum_changes, smoothing=smoothing, layout=layout, theta=theta)
    shift, across, within = sum_rows(kernel, scores.as_logits(), w)
    across, within = max(across, 0.0), max(within, 0.0)
    return shift / smoothing.n, float(across / (across + within)) if across > 0.0 else 0.0


def sum_changes(
    Z: Float64Array, w: Float64Array, smoothing: Smoothing, layout: Layout, theta: Float64Array
) -> tuple[Float64Array, float, float]:
    """Return the sums of `_changes` over a block: by class, and squares across and within."""
    f, terms = make_features(Z, smoothing, layout.names), layout.unpack(theta)
    eta = logits(f, terms, smoothing.square_scale)
    across: Any = np.zeros_like(eta) if f.cross is None else f.cross @ terms.cross
    within = eta - f.a - across
    squares = [float(w @ _variance(part, f.q)) for part in (across, within)]
    return w @ (softmax_inplace(eta) - f.q), *squares


def _variance(D: Float64Array, q: Float64Array) -> Float64Array:
    """Return the variance of each row of `D` under the probabilities `q`."""
    mean = np.einsum("ij,ij->i", q, D)
    return np.einsum("ij,ij,ij->i", q, D, D) - mean * mean
