"""Vector scaling, matrix scaling and Dirichlet calibration."""

from __future__ import annotations

from functools import partial
from numbers import Integral, Real
from typing import Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike
from sklearn.utils._param_validation import Interval, StrOptions

from skcalib._arrays.rowwise import Float64Array, Intp
from skcalib._maps.formulas import Constants, Operations, Plan, Value
from skcalib._scaling.affine import Penalty, fit_affine
from skcalib._scaling.affine_softmax import IN_PLACE
from skcalib._scores.scores import Scores
from skcalib.calibrators._base import ScoreCalibrator, span

# The base class of vector scaling, matrix scaling and Dirichlet calibration.


# Largest weight of a ridge penalty. With this weight, parameters move by about 1e-8, below the
# tolerance of a fit. With a larger weight, rounding errors would dominate the objective.
LARGEST_PENALTY = 1e8


class AffineCalibrator(ScoreCalibrator):
    """Base class of calibrators that compute softmax(W z + b), with a matrix W and offsets b.

    A subclass defines whether W is a full matrix or diagonal, and which penalties it offers.
    """

    _takes_logs = True
    _fits_on_device = True
    _full: ClassVar[bool]
    _of_log_proba: ClassVar[bool] = False
    _work = IN_PLACE

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        **ScoreCalibrator._parameter_constraints,
        "reg_lambda": [Interval(Real, 0, None, closed="left"), None],
        "reg_mu": [Interval(Real, 0, None, closed="left"), None],
        "tol": [Interval(Real, 0, None, closed="neither")],
        "max_iter": [Interval(Integral, 1, None, closed="left")],
        "verbose": ["verbose"],
    }

    def __init__(
        self,
        *,
        penalty: str | None = "structured",
        reg_lambda: float | None = None,
        reg_mu: float | None = None,
        tol: float = 1e-6,
        max_iter: int = 500,
        verbose: int = 0,
        input: str = "auto",
        classes: ArrayLike | None = None,
    ) -> None:
        super().__init__(input=input, classes=classes)
        self.penalty = penalty
        self.reg_lambda = reg_lambda
        self.reg_mu = reg_mu
        self.tol = tol
        self.max_iter = max_iter
        self.verbose = verbose

    def _penalty(self, n_classes: int, n: float) -> Penalty:
        if self.penalty is None:
            return Penalty(0.0, 0.0, 0.0)
        on_diagonal, off_diagonal = n_classes / n, n_classes * (n_classes - 1) / n
        if self.reg_lambda is not None:
            on_diagonal = off_diagonal = float(self.reg_lambda)
        mu = n_classes / n if self.reg_mu is None else float(self.reg_mu)
        return Penalty(
            0.0 if self.penalty == "odir" else min(on_diagonal, LARGEST_PENALTY),
            min(off_diagonal, LARGEST_PENALTY),
            min(mu, LARGEST_PENALTY),
        )

    def _fit(self, scores: Scores, code: Intp, w: Float64Array) -> dict[str, Any]:
        fitted = fit_affine(
            scores.log_proba() if self._of_log_proba else scores,
            code,
            w,
            full=self._full,
            penalty=self._penalty(scores.shape[1], float(w.sum())),
            about_temperature=self.penalty == "structured",
            tol=self.tol,
            max_iter=self.max_iter,
            verbose=self.verbose,
        )
        return {"coef_": fitted.coef, "intercept_": fitted.intercept, "n_iter_": fitted.n_iter}

    def _in_words(self) -> str:
        coef, across = self.coef_, ""
        if coef.ndim == 2:
            others = coef[~np.eye(len(coef), dtype=bool)]
            coef, across = coef.diagonal(), f", of other classes {span(others)}"
        return f"factors {span(coef)}{across}; offsets {span(self.intercept_)}"

    def _plan(self) -> Plan:
        constants = {"coef": self.coef_, "intercept": self.intercept_}
        formula = partial(affine, full=self._full, of_log_proba=self._of_log_proba)
        return Plan(formula, constants)


def affine(o: Operations, c: Constants, full: bool, of_log_proba: bool) -> Value:
    """Return the calibrated probabilities softmax(W z + b) of a block of rows."""
    return o.affine_softmax(c["coef"], c["intercept"], full=full, of_log_proba=of_log_proba)


# Matrix scaling: each calibrated logit is a linear function of all logits of the row.


class MatrixScaling(AffineCalibrator):
    r"""Calibrate by softmax(W z + b), with a matrix W and offsets b for the logits z.

    Matrix scaling is for classes that are systematically mistaken for one another, if K is
    moderate; without a penalty it overfits unless n is much larger than K (K + 1). It is a
    multinomial logistic regression on the logits.

    .. math:: Q = \mathrm{softmax}(Z W^\top + b)

    with :math:`W \in \mathbb{R}^{K \times K}` and :math:`b \in \mathbb{R}^K` that minimise the
    weighted mean negative log-likelihood plus a penalty. "structured": with T the temperature
    of `TemperatureScaling` and :math:`W = (I + D) / T`,

    .. math:: \lambda_d \sum_k D_{kk}^2 + \lambda_o \sum_{j \ne k} D_{jk}^2 + \mu \sum_k b_k^2 ,

    which is closer to temperature scaling the fewer rows there are. "odir" (off-diagonal and
    intercept regularisation) does not penalise the diagonal:

    .. math:: \lambda \sum_{j \ne k} W_{jk}^2 + \mu \sum_k b_k^2 .

    Parameters
    ----------
    penalty : {"structured", "odir", None}, default="structured"
        One of the penalties above, or none, as in Guo et al.
    reg_lambda : float, default=None
        :math:`\lambda_d` and :math:`\lambda_o`, or :math:`\lambda`, at least 0. None means
        :math:`\lambda_d = K / n` and :math:`\lambda_o = \lambda = K (K - 1) / n`, n being the
        sum of the weights.
    reg_mu : float, default=None
        :math:`\mu`, at least 0; None means K / n. More than 1e8 counts as 1e8, here and above.
    tol : float, default=1e-6
        Largest absolute entry of the objective's gradient at which the fit ends.
    max_iter : int, default=500
        Largest number of steps.
    verbose : int, default=0
        Whether to print a line for each step: objective, gradient and seconds so far.
    input : {"auto", "logits", "proba"}, default="auto"
        What the columns of `X` are. "auto" decides once, in ``fit``: rows that sum to 1 within
        0.001 are probabilities, others logits; rows of both kinds, or rows that all sum to 100,
        raise an error.
        Probabilities are replaced by their logarithms, and 0 by the logarithm of `clip_`.
    classes : array-like of shape (K,), default=None
        Labels of the columns, sorted; needed if they cannot be inferred from `y`.

    Attributes
    ----------
    coef_ : ndarray of shape (K, K)
        W: row k gives the new logit of class k.
    intercept_ : ndarray of shape (K,)
        b, whose entries sum to 0.
    n_iter_ : int
        Number of steps.
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
        If the gradient does not fall below `tol` within `max_iter` steps. Without a penalty, also
        if the scores separate the classes without error: then no finite optimum exists, and the
        probabilities of other rows depend on where the fit ended.

    See Also
    --------
    skcalib.VectorScaling : Only the diagonal of W.

    Notes
    -----
    Kull et al. [2]_ divide their penalties by the number of terms,
    :math:`\frac{\lambda}{K (K - 1)} \sum_{j \ne k} W_{jk}^2 + \frac{\mu}{K} \sum_k b_k^2`: their
    :math:`\lambda` and :math:`\mu` are ``reg_lambda=lambda / (K * (K - 1))`` and
    ``reg_mu=mu / K`` here. Their programs do not divide: values chosen by these programs with
    ``ref_row=False`` are used here unchanged. The paper chose both values by cross-validated log
    loss, as ``GridSearchCV`` with ``scoring="neg_log_loss"`` does; the defaults are not tuned.

    Rows are computed in threads (``n_jobs`` of an enclosing ``joblib.parallel_config``). While
    ``fit`` of up to 400 classes or ``predict_proba`` runs, BLAS has one thread in the whole
    process.

    References
    ----------
    .. [1] C. Guo, G. Pleiss, Y. Sun and K. Q. Weinberger, "On calibration of modern neural
       networks", ICML 2017.
    .. [2] M. Kull, M. Perello Nieto, M. Kaengsepp, T. Silva Filho, H. Song and P. Flach, "Beyond
       temperature scaling: obtaining well-calibrated multi-class probabilities with Dirichlet
       calibration", NeurIPS 2019.
    .. [3] E. Berta, D. Holzmueller, M. I. Jordan and F. Bach, "Structured matrix scaling for
       multi-class calibration", arXiv:2511.03685v2, 2026.

    Examples
    --------
    >>> import numpy as np
    >>> from skcalib import MatrixScaling
    >>> rng = np.random.default_rng(0)
    >>> Z = rng.normal(size=(4000, 3))
    >>> y = (Z + rng.gumbel(size=Z.shape)).argmax(axis=1)
    >>> mixed = Z @ np.linalg.inv([[1, 0, 0], [0, 1, 0.5], [0, 0.5, 1]])
    >>> MatrixScaling().fit(mixed, y).coef_.shape
    (3, 3)
    """

    _paper = "Guo et al. 2017; penalties: Kull et al. 2019, Berta et al. 2026"
    _full = True
    _work = IN_PLACE._replace(products=True)

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        **AffineCalibrator._parameter_constraints,
        "penalty": [StrOptions({"structured", "odir"}), None],
    }


# Vector scaling: the logit of each class is multiplied by a factor and shifted by an offset.


class VectorScaling(AffineCalibrator):
    r"""Calibrate by softmax(a ∘ z + b), with a factor a and an offset b for each class logit z.

    Vector scaling is for errors that differ between classes, for example after a change of the
    class priors or with label noise in some classes.

    .. math:: Q = \mathrm{softmax}(a \odot Z + b)

    with :math:`a, b \in \mathbb{R}^K` that minimise the weighted mean negative log-likelihood and,
    by default, a penalty that shrinks the result towards temperature scaling, more strongly with
    fewer rows: with T the temperature of `TemperatureScaling` and :math:`a = (1 + d) / T`,

    .. math:: \mathrm{NLL}(a, b) + \lambda \sum_k d_k^2 + \mu \sum_k b_k^2 .

    Parameters
    ----------
    penalty : {"structured", None}, default="structured"
        The penalty above, or none, as in Guo et al.
    reg_lambda, reg_mu : float, default=None
        :math:`\lambda` and :math:`\mu`, at least 0; None means K / n each, n being the sum of the
        weights. More than 1e8 counts as 1e8: temperature scaling, to rounding.
    tol : float, default=1e-6
        Largest absolute entry of the objective's gradient at which the fit ends.
    max_iter : int, default=500
        Largest number of steps.
    verbose : int, default=0
        Whether to print a line for each step: objective, gradient and seconds so far.
    input : {"auto", "logits", "proba"}, default="auto"
        What the columns of `X` are. "auto" decides once, in ``fit``: rows that sum to 1 within
        0.001 are probabilities, others logits; rows of both kinds, or rows that all sum to 100,
        raise an error.
        Probabilities are replaced by their logarithms, and 0 by the logarithm of `clip_`.
    classes : array-like of shape (K,), default=None
        Labels of the columns, sorted; needed if they cannot be inferred from `y`.

    Attributes
    ----------
    coef_ : ndarray of shape (K,)
        a: the factor of each logit; a binary logit f in one column is the pair (0, f).
    intercept_ : ndarray of shape (K,)
        b, whose entries sum to 0.
    n_iter_ : int
        Number of steps.
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
        If the gradient does not fall below `tol` within `max_iter` steps. Without a penalty, also
        if the scores separate the classes without error: then no finite optimum exists, and the
        probabilities of other rows depend on where the fit ended.

    See Also
    --------
    skcalib.TemperatureScaling : One scale for all classes and no shift.
    skcalib.MatrixScaling : Each new logit depends on all logits.

    Notes
    -----
    Rows are computed in threads (``n_jobs`` of an enclosing ``joblib.parallel_config``). While
    ``fit`` runs, BLAS has one thread in the whole process.

    References
    ----------
    .. [1] C. Guo, G. Pleiss, Y. Sun and K. Q. Weinberger, "On calibration of modern neural
       networks", ICML 2017.
    .. [2] E. Berta, D. Holzmueller, M. I. Jordan and F. Bach, "Structured matrix scaling for
       multi-class calibration", arXiv:2511.03685v2, 2026.

    Examples
    --------
    >>> import numpy as np
    >>> from skcalib import VectorScaling
    >>> rng = np.random.default_rng(0)
    >>> Z = rng.normal(size=(4000, 3))
    >>> y = (Z + [0.0, 1.0, 0.0] + rng.gumbel(size=Z.shape)).argmax(axis=1)
    >>> VectorScaling().fit(2 * Z, y).intercept_.round(1)
    array([-0.4,  0.7, -0.3])
    """

    _paper = "Guo et al. 2017; penalty: Berta et al. 2026"
    _full = False

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        **AffineCalibrator._parameter_constraints,
        "penalty": [StrOptions({"structured"}), None],
    }


# Dirichlet calibration: matrix scaling of log-probabilities.


class DirichletCalibrator(MatrixScaling):
    r"""Calibrate by softmax(W log p + b), which is matrix scaling of log-probabilities.

    Dirichlet calibration is for classes that are systematically mistaken for one another, with
    n far above :math:`K^2`, or if only probabilities are known.

    .. math:: Q = \mathrm{softmax}(\log(P)\, W^\top + b)

    is the calibration function of a model whose probability vectors have a Dirichlet distribution
    in each class. W and b minimise the weighted mean negative log-likelihood plus a penalty; "odir"
    (off-diagonal and intercept regularisation) is

    .. math:: \lambda \sum_{j \ne k} W_{jk}^2 + \mu \sum_k b_k^2 .

    Logits are first normalised to log-probabilities, so that, unlike in matrix scaling, a
    constant added to all logits of a row changes nothing.

    Parameters
    ----------
    penalty : {"odir", "structured", None}, default="odir"
        The penalty above, the "structured" one of `MatrixScaling`, or none.
    reg_lambda : float, default=None
        :math:`\lambda`, at least 0; None means K (K - 1) / n, n being the sum of the weights
        ("structured": K / n on the diagonal).
    reg_mu : float, default=None
        :math:`\mu`, at least 0; None means K / n. More than 1e8 counts as 1e8, here and above.
    tol : float, default=1e-6
        Largest absolute entry of the objective's gradient at which the fit ends.
    max_iter : int, default=500
        Largest number of steps.
    verbose : int, default=0
        Whether to print a line for each step: objective, gradient and seconds so far.
    input : {"auto", "logits", "proba"}, default="auto"
        What the columns of `X` are. "auto" decides once, in ``fit``: rows that sum to 1 within
        0.001 are probabilities, others logits; rows of both kinds, or rows that all sum to 100,
        raise an error.
        A probability of 0 is replaced by `clip_` before its logarithm is computed.
    classes : array-like of shape (K,), default=None
        Labels of the columns, sorted; needed if they cannot be inferred from `y`.

    Attributes
    ----------
    coef_ : ndarray of shape (K, K)
        W: row k gives the new logit of class k.
    intercept_ : ndarray of shape (K,)
        b.
    n_iter_ : int
        Number of steps.
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
        If the gradient does not fall below `tol` within `max_iter` steps. Without a penalty, also
        if the probabilities separate the classes without error: then no finite optimum
        exists, and the probabilities of other rows depend on where the fit ended. With
        the penalty "odir", also if a class has no row: its probabilities are then almost 0.

    See Also
    --------
    skcalib.MatrixScaling : The same function of the unchanged logits.
    skcalib.BetaCalibrator : A similar function for each class separately.

    Notes
    -----
    Kull et al. [1]_ divide their penalties by the number of terms,
    :math:`\frac{\lambda}{K (K - 1)} \sum_{j \ne k} W_{jk}^2 + \frac{\mu}{K} \sum_k b_k^2`: their
    :math:`\lambda` and :math:`\mu` are ``reg_lambda=lambda / (K * (K - 1))`` and
    ``reg_mu=mu / K`` here. Their programs do not divide: values chosen by these programs with
    ``ref_row=False`` are used here unchanged. The paper chose both values by cross-validated log
    loss, as ``GridSearchCV`` with ``scoring="neg_log_loss"`` does; the defaults are not tuned.

    Rows are computed in threads (``n_jobs`` of an enclosing ``joblib.parallel_config``). While
    ``fit`` of up to 400 classes or ``predict_proba`` runs, BLAS has one thread in the whole
    process.

    References
    ----------
    .. [1] M. Kull, M. Perello Nieto, M. Kaengsepp, T. Silva Filho, H. Song and P. Flach, "Beyond
       temperature scaling: obtaining well-calibrated multi-class probabilities with Dirichlet
       calibration", NeurIPS 2019.

    Examples
    --------
    >>> import numpy as np
    >>> from skcalib import DirichletCalibrator
    >>> rng = np.random.default_rng(0)
    >>> y = rng.integers(0, 3, 4000)
    >>> P = np.array([rng.dirichlet(np.eye(3)[k] + 1) for k in y])
    >>> dirichlet = DirichletCalibrator().fit(P, y)
    >>> dirichlet.coef_.diagonal().round(0)
    array([1., 1., 1.])
    """

    _paper = "Kull et al. 2019"
    _of_log_proba = True

    def __init__(
        self,
        *,
        penalty: str | None = "odir",
        reg_lambda: float | None = None,
        reg_mu: float | None = None,
        tol: float = 1e-6,
        max_iter: int = 500,
        verbose: int = 0,
        input: str = "auto",
        classes: ArrayLike | None = None,
    ) -> None:
        super().__init__(
            penalty=penalty,
            reg_lambda=reg_lambda,
            reg_mu=reg_mu,
            tol=tol,
            max_iter=max_iter,
            verbose=verbose,
            input=input,
            classes=classes,
        )

    @property
    def _absent_class(self) -> str | None:  # type: ignore[override]
        return "almost 0" if self.penalty == "odir" else None
