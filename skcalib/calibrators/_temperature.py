"""Temperature scaling: one number for all logits; the order of the classes stays."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.utils._param_validation import StrOptions

from skcalib._affine import SCALE_FITS, fit_temperature
from skcalib._base import ScoreCalibrator
from skcalib._blocks import row_blocks
from skcalib._simplex import FloatArray, Scores, softmax_inplace


class TemperatureScaling(ScoreCalibrator):
    r"""Divide all logits by one temperature.

    .. math:: Q = \mathrm{softmax}(Z / T), \qquad
              T = \arg\min_T \frac{1}{\sum_i w_i} \sum_i w_i\, \ell(Q_i, y_i)

    T above 1 softens over-confident probabilities, T below 1 sharpens under-confident ones. The
    predicted class never changes.

    Parameters
    ----------
    objective : {"nll", "brier"}, default="nll"
        Loss :math:`\ell`: minus the log of the true class's probability, or the squared distance
        to the true class's indicator.
    objective_params : dict, default=None
        Keywords of the objective; these two have none.
    input : {"auto", "logits", "proba"}, default="auto"
        What the columns of `X` are. "auto" decides once, in ``fit``, and only where it is
        certain: a value outside [0, 1] means logits, rows that sum to 1 mean probabilities.
        Probabilities are taken to logits by their log, clipped at 1e-12.
    classes : array-like of shape (K,), default=None
        Labels of the columns; needed where they cannot be told from `y`.

    Attributes
    ----------
    temperature_ : float
        T, above 0. For a binary logit f in one column, P(second class) = expit(f / T).
    classes_ : ndarray of shape (K,)
        Sorted labels of the columns.
    input_ : {"logits", "proba"}
        What the scores were.
    n_features_in_ : int
        Number of columns of `X`.

    Warns
    -----
    sklearn.exceptions.ConvergenceWarning
        If T met a bound: no row is misclassified, so that T tends to 0, or the scores say less
        than uniform probabilities would, so that T tends to infinity.

    See Also
    --------
    skcalib.VectorScaling : A scale and a shift for each class.

    Notes
    -----
    T is found to 1e-8 by Newton's method on log T within a bracket; it is the same for logits
    multiplied by a constant, but for that constant.

    References
    ----------
    .. [1] C. Guo, G. Pleiss, Y. Sun and K. Q. Weinberger, "On calibration of modern neural
       networks", ICML 2017.

    Examples
    --------
    >>> import numpy as np
    >>> from skcalib import TemperatureScaling
    >>> rng = np.random.default_rng(0)
    >>> Z = rng.normal(size=(2000, 3))
    >>> y = (Z + rng.gumbel(size=Z.shape)).argmax(axis=1)
    >>> round(TemperatureScaling().fit(5 * Z, y).temperature_, 1)
    5.0
    """

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        **ScoreCalibrator._parameter_constraints,
        "objective": [StrOptions(set(SCALE_FITS))],
        "objective_params": [dict, None],
    }

    def __init__(
        self,
        *,
        objective: str = "nll",
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
        if self.objective_params:
            raise ValueError(
                f"objective={self.objective!r} takes no objective_params; got "
                f"{dict(self.objective_params)!r}: leave them out."
            )
        return {"temperature_": fit_temperature(scores, code, w, self.objective)}

    def _map(self, scores: Scores) -> FloatArray:
        out = np.empty(scores.shape, dtype=scores.dtype)
        for rows in row_blocks(*scores.shape):
            Z = scores.logits(rows)
            Z /= self.temperature_
            out[rows] = softmax_inplace(Z)
        return out
