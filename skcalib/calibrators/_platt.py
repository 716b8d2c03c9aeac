"""Platt scaling: a logistic regression on the log-odds of each class."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit

from skcalib._base import ColumnwiseCalibrator
from skcalib._fitted import check_numbers
from skcalib._logistic import fit_logistic, map_log_odds, separates, warn_separated
from skcalib._simplex import FloatArray, Scores


class PlattScaling(ColumnwiseCalibrator):
    r"""Scale and shift the log-odds of each class against the rest.

    For class k,

    .. math:: g_k = \frac{1}{1 + \exp(-a_k f_k - b_k)}, \qquad
              f_k = \log \frac{p_k}{1 - p_k}, \qquad
              q_k = \frac{g_k}{\sum_j g_j}

    with :math:`a_k, b_k` of the largest likelihood; a row of zeros becomes uniform. With two
    classes the map of the second class serves both, and for logits :math:`f = z_2 - z_1`.

    Parameters
    ----------
    input : {"auto", "logits", "proba"}, default="auto"
        What the columns of `X` are. "auto" decides once, in ``fit``, and only where it is
        certain: a value outside [0, 1] means logits, rows that sum to 1 mean probabilities.
        Probabilities are clipped at 1e-12 before a logarithm is taken.
    classes : array-like of shape (K,), default=None
        Labels of the columns; needed where they cannot be told from `y`.

    Attributes
    ----------
    coef_ : ndarray of shape (K,), or (1,) for two classes
        Slopes :math:`a_k`.
    intercept_ : ndarray of shape (K,), or (1,) for two classes
        Shifts :math:`b_k`; minus infinity for a class without rows, which is answered 0.
    classes_ : ndarray of shape (K,)
        Sorted labels of the columns.
    input_ : {"logits", "proba"}
        What the scores were.
    n_features_in_ : int
        Number of columns of `X`.

    Warns
    -----
    sklearn.exceptions.ConvergenceWarning
        If the scores of a class separate it from the rest without error.

    See Also
    --------
    skcalib.BetaCalibrator : A third parameter, for maps that are no sigmoid of the log-odds.
    skcalib.VectorScaling : A scale and a shift for each class, fitted jointly.

    Notes
    -----
    The targets are 0 and 1, so that the fit is an unpenalised logistic regression; Platt's own
    targets, :math:`(n_+ + 1) / (n_+ + 2)` and :math:`1 / (n_- + 2)`, differ from it by a pseudo
    row of each class. A slope may be negative.

    References
    ----------
    .. [1] J. Platt, "Probabilistic outputs for support vector machines and comparisons to
       regularized likelihood methods", Advances in Large Margin Classifiers, 1999.

    Examples
    --------
    >>> import numpy as np
    >>> from skcalib import PlattScaling
    >>> rng = np.random.default_rng(0)
    >>> f = rng.normal(size=5000)
    >>> y = f + rng.logistic(size=5000) > 0
    >>> platt = PlattScaling().fit(4 * f + 2, y)
    >>> platt.coef_.round(2), platt.intercept_.round(2)
    (array([0.25]), array([-0.49]))
    """

    def _columns(self, scores: Scores, columns: slice) -> FloatArray:
        return scores.log_odds_columns(columns)

    def _fit(
        self, scores: Scores, code: NDArray[np.intp], w: NDArray[np.float64]
    ) -> dict[str, Any]:
        def fit_one(
            k: int, odds: NDArray[np.float64], hit: NDArray[np.bool_]
        ) -> tuple[float, float, int | None]:
            fitted = fit_logistic(odds[None, :], hit, w)
            apart = separates(odds, hit) or separates(-odds, hit)
            return fitted.coef[0], fitted.intercept, k if apart else None

        maps = map_log_odds(fit_one, scores, code, self._first_column(scores.shape[1]))
        coef, intercept, apart = zip(*maps, strict=True)
        separated = [k for k in apart if k is not None]
        warn_separated("PlattScaling", separated, len(coef))
        return {"coef_": np.array(coef), "intercept_": np.array(intercept)}

    def _check_fitted(self) -> None:
        check_numbers(self, "coef_", (self._map_count(),))
        check_numbers(self, "intercept_", (self._map_count(),), never=True)

    def _map_column(self, j: int, column: FloatArray) -> FloatArray:
        return expit(self.coef_[j] * column + self.intercept_[j])
