r"""Smooth calibration error: the size of the residual, smoothed with a width equal to that size."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from skcalib._arrays.types import Bools, Float64Array
from skcalib.metrics._errors.binned import Average
from skcalib.metrics._errors.modes import Mode, error_by_mode
from skcalib.metrics._errors.smoothing import (
    cosine_coefficients,
    integral,
    share_to_grid,
    smoothed_density,
)
from skcalib.metrics._listed import listed

# The first grid starts the search, the second ends it: to 1e-7 for errors down to 0.001, since
# its cells of 1.5e-5 are far smaller than the width, which equals the error.
COARSE, FINE = 1 << 12, 1 << 16
# A wide density has no high frequencies: fewer nodes give the integral of its absolute value to
# 1e-7. Sharing the masses among nodes still needs all of them.
FINE_FEWEST, FINE_PER_WIDTH = 1 << 14, 1310.0
ROUNDING = 1e-12
# Tolerance of the width of one error on the fine grid, and of the widths of many errors. These are
# searched 38 at a time, so that their tables stay in the cache.
FINE_TOLERANCE, TOLERANCE, AT_ONCE = 1e-10, 1e-6, 38
# The grid of many has at least this many cells in all, and this many per width.
FEWEST_CELLS, CELLS_PER_WIDTH = 256, 8.0
# The excess of size over width falls at least as fast as the width grows, at first about so fast.
LEAST_SLOPE, FIRST_SLOPE = -1.0, -1.5


def smooth_error(score: Float64Array, hit: Bools, w: Float64Array) -> float:
    """Return the width that equals the size of the residual smoothed with it."""
    residual = w / w.sum() * (hit - score)
    least = abs(float(residual.sum()))
    # A residual of one sign cannot cancel: its size is the same at every width.
    if np.abs(residual).sum() - least <= ROUNDING:
        return least
    coarse, fine = (share_to_grid(score, residual, cells)[None] for cells in (COARSE, FINE))
    with np.errstate(under="ignore"):
        width = find_widths(fine, find_widths(coarse), FINE_TOLERANCE, FINE_FEWEST, FINE_PER_WIDTH)
    return float(width[0])


def smooth_sizes(nodes: Float64Array) -> Float64Array:
    """Return ``(...)`` widths that equal the sizes of masses ``(..., m)`` smoothed with them."""
    masses = nodes.reshape(-1, nodes.shape[-1])
    parts = [
        find_widths(masses[start : start + AT_ONCE]) for start in range(0, len(masses), AT_ONCE)
    ]
    return np.concatenate(parts).reshape(nodes.shape[:-1])


def find_widths(
    masses: Float64Array,
    width: Float64Array | None = None,
    tolerance: float = TOLERANCE,
    fewest: int = FEWEST_CELLS,
    per_width: float = CELLS_PER_WIDTH,
) -> Float64Array:
    """Find widths ``(r,)`` by secants from `width`, or by halves where a secant leads too far.

    Sizes are integrated over `per_width` cells per width, but at least the `fewest`.
    """
    low, high = np.abs(masses.sum(axis=-1)), np.abs(masses).sum(axis=-1)
    coefficients, rate = cosine_coefficients(masses), walk_rate(masses.shape[-1])

    def excess_of(width: Float64Array) -> Float64Array:
        needed = per_width / max(float(width.min()), 1.0 / rate.size)
        cells = slice(min(1 << int(np.log2(max(needed, fewest))), rate.size - 1) + 1)
        transform = np.exp(np.square(width)[:, None] * rate[cells])
        return np.asarray(
            integral(np.abs(smoothed_density(coefficients[:, cells], transform))) - width
        )

    width = np.sqrt(low * high) if width is None else width
    excess, slope = excess_of(width), np.full(low.size, FIRST_SLOPE)
    while True:
        # Size falls as the width grows: the fixed point lies between a width and its size.
        low = np.maximum(low, np.minimum(width, width + excess))
        high = np.minimum(high, np.maximum(width, width + excess))
        wrong = (np.abs(excess) > tolerance) & (high - low > tolerance)
        if not wrong.any():
            return width
        following = np.clip(width - excess / slope, low, high)
        following = np.where(following == width, (low + high) / 2, following)
        following = np.where(wrong, following, width)
        new = excess_of(following)
        np.divide(new - excess, following - width, out=slope, where=following != width)
        slope = np.minimum(slope, LEAST_SLOPE)
        width, excess = following, new


def walk_rate(n_nodes: int) -> Float64Array:
    """Return the logarithms of the frequencies' factors for a width of 1.

    They are those of a random walk on the grid. It is close to the Gaussian except at the narrowest
    widths, and there, too, it is positive and spreads more the larger the width.
    """
    cells = n_nodes - 1
    return cells**2 * (np.cos(np.pi * np.arange(n_nodes) / cells) - 1.0)


@listed("Błasiok and Nakkiran 2024", scorer=True)
def smooth_calibration_error(
    y_true: ArrayLike,
    y_proba: ArrayLike,
    *,
    mode: Mode = None,
    average: Average = "macro",
    pos_label: Any = None,
    sample_weight: ArrayLike | None = None,
    labels: ArrayLike | None = None,
) -> float | Float64Array:
    r"""Smooth calibration error (smECE): mean gap smoothed by a kernel, no bins.

    For a binary problem with scores s, outcomes t and weights w of sum W, let

    .. math:: e(\sigma) = \int_0^1
              \Big| \frac{1}{W} \sum_i w_i (t_i - s_i) K_\sigma(x, s_i) \Big| \, dx

    with :math:`K_\sigma` the Gaussian kernel of standard deviation :math:`\sigma`, reflected at
    0 and 1 as often as needed, so that it integrates to 1 over [0, 1]. The size e decreases with
    the width, and the error is its fixed point :math:`e(\sigma^*) = \sigma^*`.

    Parameters
    ----------
    y_true : array-like of shape (n,) or (n, K)
        Labels; with one column also soft hits, shares of the event in [0, 1]; or the shares of
        several raters, a column for each class.
    y_proba : array-like of shape (n, K), (n,) or (n, 1)
        Class probabilities, a column for each of the sorted labels, or of `labels` in their
        order; a frame whose columns are named by the labels is read by name. One or two columns
        give the probability of one event, `pos_label`, and are measured as that.
    mode : {"top", "classwise"} or None, default=None
        The top label and whether it is true, or each class against the rest; None means the event
        of one or two columns, and of more the top label.
    average : {"macro", None}, default="macro"
        For "classwise": the mean over classes; None returns the error of each.
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
        In [0, 1]; 0 is best. At least the gap between mean score and share of hits, and equal to
        it if all residuals have the same sign.

    Raises
    ------
    ValueError
        If probabilities, labels, weights or keywords are invalid.

    Notes
    -----
    A consistent measure: within constant factors of the (square root of the) distance to the
    nearest calibrated predictor, and continuous in the scores, which no binned error is. It is
    computed to 1e-6 by cosine transforms, in a time that hardly depends on n.

    References
    ----------
    Blasiok, Nakkiran (2024). Smooth ECE: Principled Reliability Diagrams via Kernel Smoothing.
    ICLR.

    Examples
    --------
    >>> from skcalib.metrics import smooth_calibration_error
    >>> y = [0, 1, 1, 0]
    >>> P = [[0.9, 0.1], [0.2, 0.8], [0.6, 0.4], [0.7, 0.3]]
    >>> round(smooth_calibration_error(y, P), 4)
    0.1496
    """
    data = (y_true, y_proba, sample_weight, labels, pos_label)
    return error_by_mode(data, smooth_error, mode, average, soft=True)
