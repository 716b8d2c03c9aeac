"""Vector scaling: a scale and a shift for the logit of each class."""

from __future__ import annotations

from typing import Any, ClassVar

from sklearn.utils._param_validation import StrOptions

from skcalib.calibrators._affine import AffineCalibrator


class VectorScaling(AffineCalibrator):
    r"""Calibrate by softmax(a ∘ z + b), with a factor and an offset for each class.

    Vector scaling is for classes that are wrong in different ways, for example after changed
    class shares or with label noise in some classes.

    .. math:: Q = \mathrm{softmax}(a \odot Z + b)

    with :math:`a, b \in \mathbb{R}^K` that minimise the weighted mean negative log-likelihood and,
    by default, a penalty that draws the map towards temperature scaling, more so with fewer rows:
    with T the temperature of `TemperatureScaling` and :math:`a = (1 + d) / T`,

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
        Logits of probabilities are their logarithms, where 0 counts as `clip_`.
    classes : array-like of shape (K,), default=None
        Labels of the columns, sorted; needed if they cannot be inferred from `y`.

    Attributes
    ----------
    coef_ : ndarray of shape (K,)
        a, for the logits as given; a binary logit f in one column is the pair (0, f).
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
    skcalib.TemperatureScaling : One scale for all classes and no shift.
    skcalib.MatrixScaling : Each new logit from all logits.

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
