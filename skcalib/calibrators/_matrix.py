"""Matrix scaling: each new logit is a linear function of all logits."""

from __future__ import annotations

from typing import Any, ClassVar

from sklearn.utils._param_validation import StrOptions

from skcalib._scaling.affine_softmax import IN_PLACE
from skcalib.calibrators._affine import AffineCalibrator


class MatrixScaling(AffineCalibrator):
    r"""Calibrate by softmax(W z + b), a linear map of all logits.

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
        Logits of probabilities are their logarithms, where 0 counts as `clip_`.
    classes : array-like of shape (K,), default=None
        Labels of the columns, sorted; needed if they cannot be inferred from `y`.

    Attributes
    ----------
    coef_ : ndarray of shape (K, K)
        W, for the logits as given: row k gives the new logit of class k.
    intercept_ : ndarray of shape (K,)
        b; they sum to 0.
    n_iter_ : int
        Steps taken.
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
        If the gradient does not come down to `tol` within `max_iter` steps, or if nothing is
        penalised and the probabilities separate the classes without error: then no finite
        optimum exists, and the probabilities of other rows depend on where the fit ended.

    See Also
    --------
    skcalib.VectorScaling : The diagonal alone.

    Notes
    -----
    Kull et al. [2]_ print their penalties divided by the number of terms,
    :math:`\frac{\lambda}{K (K - 1)} \sum_{j \ne k} W_{jk}^2 + \frac{\mu}{K} \sum_k b_k^2`: their
    :math:`\lambda` and :math:`\mu` are ``reg_lambda=lambda / (K * (K - 1))`` and
    ``reg_mu=mu / K`` here. Their programs do not divide: numbers chosen with these are
    ``reg_lambda`` and ``reg_mu`` unchanged, if they were chosen with ``ref_row=False``. The paper
    chose both by cross-validated log loss, as ``GridSearchCV`` with ``scoring="neg_log_loss"``
    does; the defaults are not tuned.

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
