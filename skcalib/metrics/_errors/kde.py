r"""Kernel density error: calibration curve and density of the scores with the same kernel."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import spherical_jn

from skcalib._arrays.types import Bools, Float64Array
from skcalib._binning.bins import quotient
from skcalib._validation.keywords import MeanNorm, check_norm, exponent
from skcalib.metrics._errors.binned import Average
from skcalib.metrics._errors.modes import Mode, error_by_mode
from skcalib.metrics._errors.smoothing import (
    cosine_coefficients,
    integral,
    share_to_grid,
    smoothed_density,
)
from skcalib.metrics._listed import listed

# Silverman's normal reference rule, h = 3.15 sigma n^(-1/5), for the triweight kernel.
RULE = 3.15
CELLS = 1 << 14


def kernel_width(score: Float64Array, w: Float64Array) -> float:
    """Half-width of the kernel by the normal reference rule; 0 where all scores are equal."""
    if score.min() == score.max():
        return 0.0
    share = w / w.sum()
    mean = (share * score).sum()
    deviation = np.sqrt((share * (score - mean) ** 2).sum())
    return float(RULE * deviation * float(w.sum()) ** -0.2)


def triweight_transform(frequency: Float64Array) -> Float64Array:
    """Fourier transform of 35/32 (1 - u^2)^3 on [-1, 1]; near 0, where it is 0/0, its series."""
    near = frequency < 1e-2
    v = np.where(near, 1.0, frequency)
    return np.where(near, 1.0 - frequency**2 / 18.0, 105.0 * spherical_jn(3, v) / v**3)


def kde_error(score: Float64Array, hit: Bools, w: Float64Array, norm: MeanNorm) -> float:
    """Return the norm of calibration curve minus diagonal, weighted by the smoothed density."""
    share = w / w.sum()
    density, hits = (share_to_grid(score, mass, CELLS) for mass in (share, share * hit))
    return float(kde_of_masses(density, hits, kernel_width(score, w), norm))


def kde_of_masses(
    weights: Float64Array, hits: Float64Array, width: float, norm: MeanNorm
) -> Float64Array:
    """Return the errors of masses ``(..., m)`` at nodes: of all rows, of sum 1, and of the hits."""
    cells = weights.shape[-1] - 1
    nodes = np.linspace(0.0, 1.0, cells + 1)
    if width == 0.0:
        return np.abs((hits - nodes * weights).sum(axis=-1))
    # The cosines of the grid do not resolve a kernel of fewer cells.
    transform = triweight_transform(max(width, 16.0 / cells) * np.pi * cells * nodes)
    density, hits = (
        smoothed_density(cosine_coefficients(mass), transform) for mass in (weights, hits)
    )
    # Rounding leaves small values far from all scores.
    density = np.maximum(density, 0.0)
    surplus = np.clip(hits, 0.0, density) - nodes * density
    if norm == "l1":
        return np.asarray(integral(np.abs(surplus)) / integral(density))
    q = exponent(norm)
    gap = quotient(surplus, density)
    return np.asarray((integral(np.abs(gap) ** q * density) / integral(density)) ** (1 / q))


@listed("Zhang et al. 2020", scorer=True)
def kde_calibration_error(
    y_true: ArrayLike,
    y_proba: ArrayLike,
    *,
    mode: Mode = None,
    average: Average = "macro",
    norm: MeanNorm = "l1",
    pos_label: Any = None,
    sample_weight: ArrayLike | None = None,
    labels: ArrayLike | None = None,
) -> float | Float64Array:
    r"""Kernel density calibration error (ECE-KDE): ECE without bins, by kernel estimates.

    For a binary problem with scores s, outcomes t and weights w of sum W, a kernel
    :math:`K_h` gives the density of the scores and the calibration curve,

    .. math:: \hat p(x) = \frac{1}{W} \sum_i w_i K_h(x, s_i), \qquad
              \hat\pi(x) = \frac{\sum_i w_i t_i K_h(x, s_i)}{\sum_i w_i K_h(x, s_i)}, \qquad
              \Big(\int_0^1 |\hat\pi(x) - x|^q \, \hat p(x)\, dx\Big)^{1/q}

    :math:`K_h(x, s)` is the triweight kernel :math:`\frac{35}{32 h} (1 - u^2)^3`,
    :math:`u = (x - s)/h`, on :math:`|u| \le 1`, reflected at 0 and 1 so that no mass is lost. Its
    half-width is that of the normal reference rule, :math:`h = 3.15\, \hat\sigma\, n^{-1/5}`,
    with :math:`\hat\sigma` the standard deviation of the scores (divisor W), and at least
    1/1024. If all scores are equal, the error is the limit :math:`|\mathrm{acc} - s|`.

    Parameters
    ----------
    y_true : array-like of shape (n,)
        Labels.
    y_proba : array-like of shape (n, K), (n,) or (n, 1)
        Class probabilities, a column for each of the sorted labels, or of `labels` in their
        order; a frame whose columns are named by the labels is read by name. One or two columns
        give the probability of one event, `pos_label`, and are measured as that.
    mode : {"top", "classwise"} or None, default=None
        The top label and whether it is true, or each class against the rest; None means the event
        of one or two columns, and of more the top label.
    average : {"macro", None}, default="macro"
        For "classwise": the q-th root of the mean over classes of the q-th powers; None returns
        the error of each.
    norm : {"l1", "l2"} or float in [1, 10], default="l1"
        q.
    pos_label : label, default=None
        The event whose probability is measured. None means 1 or True for labels {0, 1}, {-1, 1} or
        booleans; of other labels the second of two columns, while one column needs it. With more
        columns, None means what `mode` says.
    sample_weight : array-like of shape (n,), default=None
        Non-negative weights. Integers are counts: 2 is two copies of the row. Of floats only the
        ratios matter (see "Weights" under "Valid input" in the user guide). 0 is the row's absence.
    labels : array-like of shape (K,), default=None
        Labels of the columns, in their order; needed if they cannot be inferred from `y_true`.

    Returns
    -------
    error : float, or ndarray of shape (K,) if ``average=None``
        In [0, 1]; 0 is best.

    Raises
    ------
    ValueError
        If probabilities, labels, weights or keywords are invalid.

    Notes
    -----
    It tends to the true error as n grows if the scores have a density. Scores that accumulate at 0
    and 1 have none: a single width then blurs the ends, and even a perfect predictor keeps an
    error of the order of h. `smooth_calibration_error` does not have this problem.

    References
    ----------
    Zhang, Kailkhura, Han (2020). Mix-n-Match: Ensemble and Compositional Methods for Uncertainty
    Calibration in Deep Learning. ICML.

    Silverman (1986). Density Estimation for Statistics and Data Analysis. Chapman and Hall.

    Examples
    --------
    >>> from skcalib.metrics import kde_calibration_error
    >>> y = [0, 1, 1, 0]
    >>> P = [[0.9, 0.1], [0.2, 0.8], [0.6, 0.4], [0.7, 0.3]]
    >>> round(kde_calibration_error(y, P), 4)
    0.0846
    """
    check_norm(norm, has_max=False)
    data = (y_true, y_proba, sample_weight, labels, pos_label)
    error, name = partial(kde_error, norm=norm), "kde_calibration_error"
    return error_by_mode(data, error, mode, average, norm, caller=name)
