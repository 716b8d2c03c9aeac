"""Dirichlet calibration: matrix scaling of log-probabilities."""

from __future__ import annotations

from numpy.typing import ArrayLike

from skcalib.calibrators._matrix import MatrixScaling


class DirichletCalibrator(MatrixScaling):
    r"""Calibrate by softmax(W log p + b), a linear map of all log-probabilities.

    Dirichlet calibration is for classes that are systematically mistaken for one another, with
    n far above :math:`K^2`, or if only probabilities are known.

    .. math:: Q = \mathrm{softmax}(\log(P)\, W^\top + b)

    is the calibration map of a model whose probability vectors have a Dirichlet distribution in
    each class. W and b minimise the weighted mean negative log-likelihood plus a penalty; "odir"
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
        A probability of 0 counts as `clip_` before its logarithm is taken.
    classes : array-like of shape (K,), default=None
        Labels of the columns, sorted; needed if they cannot be inferred from `y`.

    Attributes
    ----------
    coef_ : ndarray of shape (K, K)
        W: row k gives the new logit of class k.
    intercept_ : ndarray of shape (K,)
        b.
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
        optimum exists, and the probabilities of other rows depend on where the fit ended. If a
        class has no row and the penalty is "odir": its probabilities are then almost 0.

    See Also
    --------
    skcalib.MatrixScaling : The same map, applied to the logits as given.
    skcalib.BetaCalibrator : One class at a time.

    Notes
    -----
    Kull et al. [1]_ print their penalties divided by the number of terms,
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
