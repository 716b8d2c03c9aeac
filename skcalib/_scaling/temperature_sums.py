r"""The fit of softmax(z / T) from sums over rows, for scores that are slow to read, or read once.

With :math:`\beta = 1 / T` and the gaps :math:`g_{ik} = \max_j z_{ij} - z_{ik}`, the NLL is least
where the expected gap equals that of the true class,

.. math:: \sum_i w_i \sum_k q_{ik}(\beta) \, g_{ik} = \sum_i w_i g_{i y_i},
          \qquad q_i(\beta) = \mathrm{softmax}(\beta z_i).

The logarithm of the left side is smooth in :math:`\beta`. One pass takes it at nine scales about a
guess; the polynomial through the nine replaces all further passes.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import NamedTuple

import numpy as np

from skcalib._arrays.passes import sum_rows
from skcalib._arrays.tensors import rows_of
from skcalib._arrays.types import Float64Array, Intp
from skcalib._scaling.root import LOG_TOLERANCE, rising_root
from skcalib._scaling.scale_losses import lowest_of, sums_of_gaps
from skcalib._scaling.temperature_bounds import Temperature, within_bounds
from skcalib._scores.scores import Scores

# A window: equidistant scales within 15 % of a guess. A guess from 2,000 rows is off by some 1 %.
N_SCALES = 9
HALF_WIDTH = 0.15
# The window about a root whose interpolation error exceeds the tolerance (many equal rows).
NARROW = 0.01
PLACES = np.linspace(-1.0, 1.0, N_SCALES)


class GapSums(NamedTuple):
    """Sums of a block, or of all rows: of weights and of weighted gaps.

    ``true`` is the gap of the true class, ``every`` the mean gap of all classes, and ``expected``
    has the expected gap at each scale of a window.
    """

    weight: float
    true: float
    every: float
    expected: Float64Array


def scales_about(log_beta: float, half_width: float = HALF_WIDTH) -> Float64Array:
    """Return the scales of the window about a guess."""
    return np.exp(log_beta) * (1.0 + half_width * PLACES)


def covers(scales: Float64Array, log_beta: float) -> bool:
    """Whether exp(log_beta) lies between the ends of a window."""
    return bool(scales[0] <= np.exp(log_beta) <= scales[-1])


def gaps_of_block(Z: Float64Array, code: Intp, w: Float64Array, scales: Float64Array) -> GapSums:
    """Return the sums of a block of finite logits.

    Equidistant scales need two exponentials for each logit: the others are products of them.
    """
    r = rows_of(Z)
    U = r.minus(Z, r.row_max(Z))
    gaps = sums_of_gaps(U, lowest_of(U))
    true, every = r.weighted_sum(w, r.at(U, code)), r.weighted_sum(w, gaps) / U.shape[1]
    first, step = float(scales[0]), float(scales[1] - scales[0])
    r.at_least_(U, r.LEAST / float(scales[-1]))
    Q, factor = r.exp_(U * first), r.exp_(U * step)
    expected = [r.weighted_sum(w, r.row_dots(Q, U) / r.row_sums(Q))]
    for _ in scales[1:]:
        Q *= factor
        expected.append(r.weighted_sum(w, r.row_dots(Q, U) / r.row_sums(Q)))
    return GapSums(w.sum(), -true, -every, -r.vector(expected))


class Window:
    """The slope of the NLL in log beta, interpolated between the scales of a window.

    As in the search on all rows, it is the logarithm of the gap of the true class minus that of
    the expected gap.
    """

    def __init__(self, scales: Float64Array, expected: Float64Array) -> None:
        self.scales = scales
        self._middle, self._half = scales[N_SCALES // 2], (scales[-1] - scales[0]) / 2
        logs = np.log(expected)
        self._polynomial = _through(PLACES, logs)
        # Through all scales but the first, and but the last: their distance from the polynomial
        # through all is of the order of its error, a seventh of it in the hardest case known.
        self._fewer = _through(PLACES[1:], logs[1:]), _through(PLACES[:-1], logs[:-1])
        self._rise = self._polynomial.deriv()

    def log_expected(self, log_beta: float) -> tuple[float, float]:
        """Return the logarithm of the expected gap, and its derivative in log beta."""
        beta = np.exp(log_beta)
        place = (beta - self._middle) / self._half
        return float(self._polynomial(place)), float(self._rise(place) * beta / self._half)

    def error(self, log_beta: float) -> float:
        """Return an estimate of the error of a root at `log_beta`."""
        place = (np.exp(log_beta) - self._middle) / self._half
        value, rise = self.log_expected(log_beta)
        return max(abs(float(fewer(place)) - value) for fewer in self._fewer) / abs(rise)


def _through(places: Float64Array, values: Float64Array) -> np.polynomial.Polynomial:
    return np.polynomial.Polynomial.fit(places, values, places.size - 1, domain=[-1, 1])


# A pass: scales -> sums over all rows.
Total = Callable[[Float64Array], GapSums]


def sums_of(scores: Scores, code: Intp, w: Float64Array, scales: Float64Array) -> GapSums:
    """Return the sums over all rows, in one pass."""
    logits = scores.device_logits() or scores.as_logits()
    return sum_rows(partial(gaps_of_block, scales=scales), logits, code, w)


def guess_of(few: Temperature) -> float:
    """Return the log beta to begin at, from the temperature of a sample of the rows."""
    # A sample without a misclassified row shows no more than the scale of the logits.
    return 1.0 - float(np.log(few.mean_gap)) if few.bound else -float(np.log(few.value))


def temperature_by_passes(total: Total, n_classes: int, guess: float) -> Temperature:
    """Return T of softmax(z / T) by the NLL, to 1e-8, without a warning at a bound.

    Each call of `total` is a pass over the data: one if log beta is within the window about
    `guess`, else one for each window that the search enters.
    """
    scales = scales_about(guess)
    sums = total(scales)

    def search(low: float, high: float) -> tuple[float, str]:
        if sums.true >= sums.every:
            return low, "low"
        window = Window(scales, sums.expected)

        def slope(log_beta: float) -> tuple[float, float]:
            nonlocal window
            if not covers(window.scales, log_beta):
                window = window_about(log_beta)
            value, fall = window.log_expected(log_beta)
            return float(np.log(sums.true)) - value, -fall

        root, end = rising_root(slope, min(max(guess, low), high), low, high)
        if not end and window.error(root) > LOG_TOLERANCE:
            window = window_about(root, NARROW)
            root, end = rising_root(slope, root, low, high)
        return root, end

    def window_about(log_beta: float, half_width: float = HALF_WIDTH) -> Window:
        scales = scales_about(log_beta, half_width)
        return Window(scales, total(scales).expected)

    return within_bounds(n_classes, sums.true / sums.weight, sums.every / sums.weight, search)
