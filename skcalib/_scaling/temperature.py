"""Fit of the temperature T of softmax(z / T)."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from copy import copy
from dataclasses import dataclass
from functools import partial, reduce
from typing import Any, NamedTuple

import numpy as np
from sklearn.exceptions import ConvergenceWarning

from skcalib._arrays.rowwise import Float64Array, FloatArray, Intp, block_order, minus, row_sums
from skcalib._arrays.selection import take_rows
from skcalib._arrays.sources import CACHED_ENTRIES, ArraySource, add, map_rows, sum_rows
from skcalib._arrays.tensors import concatenate, on_host, ops_for
from skcalib._scaling.optimise import GRID_STEP, LOG_TOLERANCE, Slope, rising_root
from skcalib._scores.scores import ABSENT, NO_ROWS, RunningClip, Scores, find_clip
from skcalib._validation.scores import read_scores

# Log loss and Brier score as functions of the scale of the logits, summed over blocks of rows.
#
# With weights normalised to :math:`\sum_i w_i = 1` and :math:`q_i = \mathrm{softmax}(\beta z_i)`,
#
# .. math:: \mathrm{NLL} = -\sum_i w_i \log q_{i y_i}, \qquad
#           \mathrm{Brier} = \sum_i w_i \sum_k (q_{ik} - 1[y_i = k])^2,
#
# with first and second derivatives in :math:`\beta`. Large problems are read in blocks, without an
# array of the size of the scores.


# Tolerance of log beta (beta = 1 / T) if exponentials are computed in float32, whose sums have
# errors of 1e-8.
FLOAT32_TOLERANCE = 1e-7
# Largest number of entries in a sample of rows. A sample may always have LEAST_SAMPLE rows.
SAMPLE_ENTRIES, LEAST_SAMPLE = 1 << 26, 200


class Derivatives(NamedTuple):
    """Value, first and second derivative of a loss with respect to one parameter."""

    value: float
    first: float
    second: float


def sums_of_gaps(U: Float64Array, lowest: float) -> Float64Array:
    """Return the row sums of shifted logits U; masked classes count as the mean of the others."""
    if lowest > ABSENT / 2:
        return ops_for(U).row_sums(U)
    offered = ABSENT / 2 < U
    return row_sums(np.where(offered, U, 0.0)) * (U.shape[1] / offered.sum(axis=1))


def lowest_of(U: Float64Array) -> float:
    """Return the smallest entry of a block, or 0.0 if the block is on a device such as a GPU.

    On a device, the smallest entry is not needed, and reading it would wait for the device.
    """
    return float(U.min()) if np.isfinite(ops_for(U).LEAST) else 0.0


def of_shifted(Z: Float64Array, top: Float64Array | None, *per_row: Any, kernel: Any) -> Any:
    """Apply a function to the logits minus their row maximum `top` (None if already subtracted)."""
    return kernel(Z if top is None else ops_for(Z).minus(Z, top), *per_row)


def exponentials(U: Float64Array, beta: float, lowest: float) -> tuple[Float64Array, Float64Array]:
    """Return exp(beta U) of shifted logits U and its row sums, without subnormal numbers."""
    r = ops_for(U)
    Q = beta * U
    if beta * lowest < r.LEAST:
        r.at_least_(Q, r.LEAST)
    r.exp_(Q)
    return Q, r.row_sums(Q)


class ShiftedLogits:
    """Logits minus the largest logit of their row, and sums of losses over all rows.

    Parameters
    ----------
    scores : Scores of shape (n, K)
    code : ndarray of shape (n,)
    w : ndarray of shape (n,)
        Positive weights.

    Attributes
    ----------
    source : Source of shape (n, K)
        ``U``; on a device and for a Dask array, the logits Z.
    top : ndarray of shape (n,) or None
        The largest logit of each row; None if the source contains ``U``.
    share : ndarray of shape (n,)
        Weights that sum to 1.
    true : ndarray of shape (n,)
        ``U`` of the true class.
    mean_true_gap : float
        Mean of ``-true``, which is 0 only if the true class of every row has the largest logit.
    mean_gap : float
        Mean of ``-U`` over rows and classes: the expected value of ``-true`` for uniform
        probabilities.
    """

    tolerance = LOG_TOLERANCE

    def __init__(self, scores: Scores, code: Intp, w: Float64Array) -> None:
        n, self.n_classes = scores.shape
        self._rows = scores, code
        device = scores.device_logits()
        logits = device or scores.as_logits()
        top, self.true, self._row_sums = out = [logits.empty_rows() for _ in range(3)]
        if device is not None and scores.dtype == np.float32:
            self.tolerance = FLOAT32_TOLERANCE
        self.source, self.top = logits, top
        elsewhere = device is not None or logits.remote is not None
        keep = n * self.n_classes <= CACHED_ENTRIES and not elsewhere
        if keep:
            out.append(np.empty((n, self.n_classes), order=block_order(self.n_classes)))
            self.source, self.top = ArraySource(out[-1]), None
        elif not elsewhere:
            # The shifted logits U are computed when they are read, so that memory does not contain
            # both U and the logits.
            self.source = logits.computed(lambda rows: minus(logits.read(rows), top[rows]))
            self.top = None

        def kernel(Z: Float64Array, code: Intp) -> tuple[Any, ...]:
            r = ops_for(Z)
            largest = r.row_max(Z)
            U = r.minus(Z, largest)
            lowest = lowest_of(U)
            sums = largest, r.at(U, code), sums_of_gaps(U, lowest)
            return (*sums, U, lowest) if keep else (*sums, lowest)

        self._lowest = min(map_rows(kernel, logits, code, out=tuple(out)))
        self._weigh(logits.rows_to_device(w))

    def _weigh(self, w: Float64Array) -> None:
        self.share, r = w / w.sum(), ops_for(w)
        self.mean_true_gap = -float(r.weighted_sum(self.share, self.true))
        self.mean_gap = -float(r.weighted_sum(self.share, self._row_sums)) / self.n_classes

    def subsample(self, n_rows: int) -> ShiftedLogits:
        """Return `n_rows` to ``2 * n_rows`` evenly spaced rows, or all rows if there are fewer.

        For remote scores, the sample consists of the rows that an earlier pass has stored.
        """
        if self.source.remote is not None:
            scores, code = self._rows
            sample, rows = scores.sample()
            return ShiftedLogits(sample, code[rows], self.share[rows])
        n_rows = min(n_rows, max(LEAST_SAMPLE, SAMPLE_ENTRIES // self.n_classes))
        step = self.source.shape[0] // n_rows
        if step < 2:
            return self
        few = copy(self)
        if isinstance(self.source, ArraySource):
            few.source = ArraySource(self.source.array[::step].copy(order="K"))
        else:
            some = take_rows(self.source, np.arange(0, self.source.shape[0], step))
            few.source = some.on_device() or some
        few.top = None if self.top is None else self.top[::step]
        few.true, few._row_sums = self.true[::step], self._row_sums[::step]
        few._weigh(self.share[::step])
        return few

    def nll(self, beta: float) -> Derivatives:
        """Return the log loss at beta = 1 / T, with derivatives in beta; it is convex."""
        lowest = self._lowest

        def kernel(U: Float64Array, share: Float64Array, true: Float64Array) -> Derivatives:
            r = ops_for(U)
            Q, total = exponentials(U, beta, lowest)
            Q *= U
            mean = r.row_sums(Q) / total
            square = r.row_dots(Q, U) / total
            return Derivatives(
                r.weighted_sum(share, r.log(total) - beta * true),
                r.weighted_sum(share, mean - true),
                r.weighted_sum(share, square - mean * mean),
            )

        return self._sum(kernel)

    def brier(self, beta: float) -> Derivatives:
        """Return the Brier score at beta = 1 / T, with derivatives in beta; it is not convex."""
        lowest = self._lowest

        def kernel(U: Float64Array, share: Float64Array, true: Float64Array) -> Derivatives:
            r = ops_for(U)
            Q, total = exponentials(U, beta, lowest)
            q_true = r.exp(beta * true) / total
            r.divide_rows_(Q, total)
            mean = r.row_dots(Q, U)
            V = r.minus(U, mean)
            true = true - mean
            norm = r.row_dots(Q, Q)
            dQ = Q * V
            slope = r.row_dots(Q, dQ)
            curve = r.row_dots(dQ, dQ)
            variance = r.row_dots(dQ, V)
            bend = 4 * curve - 2 * variance * norm - 2 * q_true * (true**2 - variance)
            return Derivatives(
                r.weighted_sum(share, norm - 2 * q_true + 1),
                r.weighted_sum(share, 2 * slope - 2 * q_true * true),
                r.weighted_sum(share, bend),
            )

        return self._sum(kernel)

    def brier_value(self, beta: float) -> float:
        """Return the Brier score without its derivatives, in a third of the time."""
        lowest = self._lowest

        def kernel(U: Float64Array, share: Float64Array, true: Float64Array) -> float:
            r = ops_for(U)
            Q, total = exponentials(U, beta, lowest)
            q_true = r.exp(beta * true) / total
            return r.weighted_sum(share, r.row_dots(Q, Q) / total**2 - 2 * q_true + 1)

        return float(self._sum(kernel))

    def _sum(self, kernel: Callable[..., Any]) -> Any:
        if self.top is None:
            return sum_rows(kernel, self.source, self.share, self.true)
        shifted = partial(of_shifted, kernel=kernel)
        return sum_rows(shifted, self.source, self.top, self.share, self.true)


# Range of temperatures in which the fit searches.


# The fit searches T within a factor of exp(10) of the mean gap between logits and the largest logit
# of a row, or of the mean gap of the true class if that is far smaller. Outside this range,
# softmax(z / T) is practically uniform, or 0 and 1.
LOG_BOUND = 10.0
# Mean gaps between logits below this number count as 0.
LEAST_GAP = 1e-30
# Type of a function that searches for the inverse temperature beta in a range of log beta. The
# function returns log beta, and "low" or "high" if log beta is at this end of the range, otherwise
# "".
Search = Callable[[float, float], tuple[float, str]]


class Temperature(NamedTuple):
    """A fitted temperature T; `bound` is "low" or "high" if 1 / T is at an end of its range."""

    value: float
    bound: str
    mean_gap: float


def within_bounds(
    n_classes: int, mean_true_gap: float, mean_gap: float, search: Search
) -> Temperature:
    """Search for the temperature in a range that depends on the mean gaps between logits."""
    if mean_gap <= LEAST_GAP:
        # In each row, all logits are equal, so that probabilities are uniform for any T.
        return Temperature(1.0, "", 1.0)
    middle = -float(np.log(mean_gap))
    log_beta, end = middle + LOG_BOUND, "high"
    if mean_true_gap > LEAST_GAP:
        sharpest = sharpest_of(n_classes, mean_true_gap)
        log_beta, end = search(middle - LOG_BOUND, max(middle, sharpest) + LOG_BOUND)
    return Temperature(float(np.exp(-log_beta)), end, mean_gap)


def sharpest_of(n_classes: int, mean_true_gap: float) -> float:
    """Return an upper bound of log beta (beta = 1 / T) at the minimum of the log loss.

    At the minimum, the log loss is at most log K and at least beta times the mean gap of the true
    logit. The mean gap of all logits would not give a bound, because a single logit of -1e10 (such
    as from a constant feature in naive Bayes) can change it by orders of magnitude.
    """
    return float(np.log(np.log(n_classes)) - np.log(mean_true_gap))


# Fit of T from sums over rows, for scores that are slow to read or that can be read only once.
#
# With :math:`\beta = 1 / T` and the gaps :math:`g_{ik} = \max_j z_{ij} - z_{ik}`, the log loss is
# smallest where the expected gap equals the gap of the true class,
#
# .. math:: \sum_i w_i \sum_k q_{ik}(\beta) \, g_{ik} = \sum_i w_i g_{i y_i},
#           \qquad q_i(\beta) = \mathrm{softmax}(\beta z_i).
#
# The logarithm of the left side is smooth in :math:`\beta`. One pass over the data computes it at
# nine scales around a guess, and the polynomial through these nine values replaces further passes.


# Around a guess of beta = 1 / T, sums are computed at N_SCALES evenly spaced values of beta, a
# window of 15 % on each side. A guess from 2,000 rows has an error of about 1 %.
N_SCALES = 9
HALF_WIDTH = 0.15
# A narrow window of values of beta ends at this relative distance from its middle. It is used if
# the interpolation error of the fitted beta is above the tolerance, as with many equal rows.
NARROW = 0.01
POSITIONS = np.linspace(-1.0, 1.0, N_SCALES)


class GapSums(NamedTuple):
    """Sums of row weights, and of weighted gaps to the largest logit of each row.

    ``true`` is for the gap of the true class, ``every`` for the mean gap of all classes, and
    ``expected`` for the expected gap at each scale of a window.
    """

    weight: float
    true: float
    every: float
    expected: Float64Array


def scales_about(log_beta: float, half_width: float = HALF_WIDTH) -> Float64Array:
    """Return inverse temperatures beta = 1 / T in a window around a guess, given as log beta."""
    return np.exp(log_beta) * (1.0 + half_width * POSITIONS)


def covers(scales: Float64Array, log_beta: float) -> bool:
    """Return whether the inverse temperature exp(log_beta) is in the range of `scales`."""
    return bool(scales[0] <= np.exp(log_beta) <= scales[-1])


class Window:
    """Interpolated log of the expected gap to the largest logit, by inverse temperature beta.

    The log loss is smallest where it equals the logarithm of the gap of the true class.
    """

    def __init__(self, scales: Float64Array, expected: Float64Array) -> None:
        self.scales = scales
        self._middle, self._half = scales[N_SCALES // 2], (scales[-1] - scales[0]) / 2
        logs = np.log(expected)
        self._polynomial = _through(POSITIONS, logs)
        # Polynomials through all points except the first or the last one. Their distance from the
        # polynomial through all points estimates its interpolation error. In the hardest known
        # case, the distance is a seventh of this error.
        self._fewer = _through(POSITIONS[1:], logs[1:]), _through(POSITIONS[:-1], logs[:-1])
        self._rise = self._polynomial.deriv()

    def log_expected(self, log_beta: float) -> tuple[float, float]:
        """Return the logarithm of the expected gap of logits, and its derivative in log beta."""
        beta = np.exp(log_beta)
        scaled = (beta - self._middle) / self._half
        return float(self._polynomial(scaled)), float(self._rise(scaled) * beta / self._half)

    def error(self, log_beta: float) -> float:
        """Estimate the interpolation error of a fitted log beta."""
        scaled = (np.exp(log_beta) - self._middle) / self._half
        value, rise = self.log_expected(log_beta)
        return max(abs(float(fewer(scaled)) - value) for fewer in self._fewer) / abs(rise)


def _through(positions: Float64Array, values: Float64Array) -> np.polynomial.Polynomial:
    return np.polynomial.Polynomial.fit(positions, values, positions.size - 1, domain=[-1, 1])


# Type of a function that reads all rows once, and returns sums over the rows for several values of
# beta = 1 / T.
Total = Callable[[Float64Array], GapSums]


def sums_of(scores: Scores, code: Intp, w: Float64Array, scales: Float64Array) -> GapSums:
    """Compute sums of gaps between logits for several inverse temperatures, in one pass.

    Evenly spaced scales need only two exponentials for each logit, because the others are products
    of these two.
    """
    first, step, last = float(scales[0]), float(scales[1] - scales[0]), float(scales[-1])

    def kernel(Z: Float64Array, code: Intp, w: Float64Array) -> GapSums:
        r = ops_for(Z)
        U = r.minus(Z, r.row_max(Z))
        gaps = sums_of_gaps(U, lowest_of(U))
        true, every = r.weighted_sum(w, r.at(U, code)), r.weighted_sum(w, gaps) / U.shape[1]
        r.at_least_(U, r.LEAST / last)
        Q, factor = r.exp_(U * first), r.exp_(U * step)
        expected = [r.weighted_sum(w, r.row_dots(Q, U) / r.row_sums(Q))]
        for _ in scales[1:]:
            Q *= factor
            expected.append(r.weighted_sum(w, r.row_dots(Q, U) / r.row_sums(Q)))
        return GapSums(w.sum(), -true, -every, -r.vector(expected))

    return sum_rows(kernel, scores.device_logits() or scores.as_logits(), code, w)


def guess_of(few: Temperature) -> float:
    """Return the -log T at which the search for T begins, from a fit to a sample of rows."""
    # If no row of the sample is misclassified, the sample only determines the scale of the logits.
    return 1.0 - float(np.log(few.mean_gap)) if few.bound else -float(np.log(few.value))


def temperature_by_passes(total: Total, n_classes: int, guess: float) -> Temperature:
    """Fit T by the log loss to 1e-8 with few passes over the data, without warning at a bound.

    Each call of `total` is a pass over the data. One pass is enough if log beta is within the
    window around `guess`; otherwise there is one pass for each window of the search.
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


# Number of rows in the subsample on which the search for the temperature starts.
SAMPLE_ROWS = 2000
# A local minimum of the subsample is discarded if its Brier score on all rows exceeds the smallest
# Brier score by more than this number. From thousands of rows to all rows, Brier scores change far
# less.
CLEARLY_WORSE = 0.05


def fit_temperature(scores: Scores, code: Intp, w: Float64Array, objective: str = "nll") -> float:
    """Fit the temperature T to 1e-8 by an objective of `SCALE_FITS`; warn if T is at a bound."""
    temperature = find_temperature(scores, code, w, objective)
    if temperature.bound:
        warn_at_bound(temperature)
    return temperature.value


def warn_at_bound(temperature: Temperature) -> None:
    """Warn that the fitted temperature is at a bound of the range of its search."""
    warnings.warn(_AT_BOUND[temperature.bound], ConvergenceWarning, stacklevel=3)


def find_temperature(
    scores: Scores, code: Intp, w: Float64Array, objective: str = "nll"
) -> Temperature:
    """Fit the temperature T, without a warning if T is at a bound of its range."""
    if objective == "nll" and scores.source.remote is not None:
        few, rows = scores.sample()
        guess = guess_of(find_temperature(few, code[rows], w[rows]))
        return temperature_by_passes(partial(sums_of, scores, code, w), scores.shape[1], guess)
    shifted = ShiftedLogits(scores, code, w)
    search = partial(SCALE_FITS[objective], shifted)
    return within_bounds(shifted.n_classes, shifted.mean_true_gap, shifted.mean_gap, search)


_AT_BOUND = {
    "high": "TemperatureScaling reached the lower bound of T: the true class has the largest score "
    "in (nearly) every row, so that sharper is always better: fit on held-out rows, some of which "
    "are misclassified.",
    "low": "TemperatureScaling reached the upper bound of T: the scores predict the labels no "
    "better than uniform probabilities: check that the columns of X are in the order of the sorted "
    "labels.",
}


def _by_nll(shifted: ShiftedLogits, low: float, high: float) -> tuple[float, str]:
    """Minimise the log loss, which is smallest where the expected gap is that of the true class."""

    def slope_on(rows: ShiftedLogits) -> Slope:
        def slope(log_beta: float) -> tuple[float, float]:
            beta = np.exp(log_beta)
            _, first, second = rows.nll(beta)
            expected = rows.mean_true_gap - first
            if expected <= 0.0:
                return np.inf, 0.0
            return float(np.log(rows.mean_true_gap / expected)), beta * second / expected

        return slope

    if shifted.mean_true_gap >= shifted.mean_gap:
        return low, "low"
    sharpest = sharpest_of(shifted.n_classes, shifted.mean_true_gap)
    start = min(high, max(low + LOG_BOUND + 1.0, sharpest - LOG_BOUND / 2))
    few = shifted.subsample(SAMPLE_ROWS)
    if few is not shifted and 0.0 < few.mean_true_gap < few.mean_gap:
        guess, end = rising_root(slope_on(few), start, low, high, 1e-3)
        start = start if end else guess
    return rising_root(slope_on(shifted), start, low, high, shifted.tolerance)


def _by_brier(shifted: ShiftedLogits, low: float, high: float) -> tuple[float, str]:
    """Minimise the Brier score, starting at the local minima on a subsample of rows."""

    def slope_on(rows: ShiftedLogits) -> Slope:
        def slope(log_beta: float) -> tuple[float, float]:
            beta = np.exp(log_beta)
            _, first, second = rows.brier(beta)
            return beta * first, beta * first + beta * beta * second

        return slope

    few = shifted.subsample(SAMPLE_ROWS)
    grid = np.linspace(low, high, 1 + round((high - low) / GRID_STEP))
    brier = np.array([few.brier_value(np.exp(t)) for t in grid])
    padded = np.concatenate([[np.inf], brier, [np.inf]])
    basins = grid[(brier < padded[:-2]) & (brier <= padded[2:])]
    starts = []
    for start in basins:
        guess, end = rising_root(slope_on(few), start, low, high, 1e-3)
        starts.append(start if end else guess)
    if len(starts) > 1:
        # Most local minima of the Brier score are plateaus at an end of the range of log beta.
        brier = np.array([shifted.brier_value(np.exp(t)) for t in starts])
        starts = [starts[i] for i in np.flatnonzero(brier <= brier.min() + CLEARLY_WORSE)]
    roots = [
        rising_root(slope_on(shifted), start, low, high, shifted.tolerance) for start in starts
    ]
    if len(roots) == 1:
        return roots[0]
    return min(roots, key=lambda root: shifted.brier_value(np.exp(root[0])))


# For each objective, a function of the logits and of a range of log beta (beta = 1 / T). It returns
# log beta, and "low" or "high" if log beta is at this end of the range, otherwise "".
SCALE_FITS: dict[str, Callable[[ShiftedLogits, float, float], tuple[float, str]]] = {
    "nll": _by_nll,
    "brier": _by_brier,
}


# Fit of T to batches of rows, for `partial_fit`.
#
# The first rows are stored, and T is fitted to all of them. With more rows, only a sample is
# stored. The temperature of the sample is the middle of a window, and `GapSums` of each batch are
# computed at the scales of the window. If T leaves the window, a new window begins. Sums of an
# earlier window are extrapolated from its end to T, by the change of the expected gap of the stored
# rows of this window.


# Largest number of stored rows, and their largest size in bytes. A sample may always have
# LEAST_KEPT rows. If not all rows are stored, the sample has at least half of the largest number,
# evenly spaced.
KEPT_ROWS = 4000
KEPT_BYTES = 1 << 27
LEAST_KEPT = 100
# A window is a range of beta. Outside the window, its sums are estimated from its stored rows, or
# from all stored rows if fewer than LEAST_SHAPE rows of the window are stored.
LEAST_SHAPE = 30


class StreamRows(NamedTuple):
    """The scores, labels and weights of the rows of a batch or of a sample."""

    scores: Scores
    code: Intp
    w: Float64Array

    def temperature(self) -> Temperature:
        """Return the temperature that is fitted to the stored rows alone."""
        return find_temperature(self.scores, self.code, self.w)

    def take(self, rows: Intp) -> StreamRows:
        """Return the scores, labels and weights of the rows at some indices."""
        few = take_rows(self.scores.source, rows)
        return StreamRows(self.scores.of(few), self.code[rows], self.w[rows])


class SampledRows(NamedTuple):
    """Sampled rows, each with the index of the temperature window in which it arrived."""

    scores: FloatArray
    code: Intp
    w: Float64Array
    window: Intp


@dataclass(frozen=True)
class RowSample:
    """An evenly spaced sample of all rows so far: every `step`-th of `count` rows."""

    rows: SampledRows | None = None
    step: int = 1
    count: int = 0
    max_abs: float = 0.0

    def __getstate__(self) -> dict[str, Any]:
        """Return the state for pickle, in which tensors on a device are replaced by arrays."""
        return {**vars(self), "rows": self.rows and SampledRows(*map(on_host, self.rows))}

    def with_rows(self, batch: StreamRows, window: int) -> RowSample:
        """Add a batch of rows, whose temperature window has the index `window`, to the sample."""
        n, n_classes = batch.scores.shape
        row_bytes = n_classes * batch.scores.dtype.itemsize
        most = max(LEAST_KEPT, min(KEPT_ROWS, KEPT_BYTES // row_bytes))
        step = self.step
        while -(-(self.count + n) // step) > most:
            step *= 2
        chosen = np.arange(-self.count % step, n, step)
        source: Any = batch.scores.source
        scores = (source.on_device() or source).read(chosen)
        parts = [[scores, batch.code[chosen], batch.w[chosen], np.full(chosen.size, window)]]
        if self.rows is not None:
            parts.insert(0, [part[:: step // self.step] for part in self.rows])
        rows = SampledRows(*map(concatenate, zip(*parts, strict=True)))
        max_abs = max(self.max_abs, batch.scores.max_abs_logit)
        return RowSample(rows, step, self.count + n, max_abs)

    def batch(self, like: Scores) -> StreamRows:
        """Return the sampled rows as scores that have the kind, classes and clip of `like`."""
        assert self.rows is not None
        scores = like.of(read_scores(self.rows.scores))
        scores.max_abs_logit = self.max_abs
        return StreamRows(scores, self.rows.code, self.rows.w)


class WindowSums(NamedTuple):
    """A window of inverse temperatures, and sums over rows that arrived while 1 / T was in it."""

    scales: Float64Array
    sums: GapSums

    @classmethod
    def about(cls, log_beta: float) -> WindowSums:
        """Return a window of inverse temperatures beta around a guess of log beta, without rows."""
        scales = scales_about(log_beta)
        return cls(scales, GapSums(0.0, 0.0, 0.0, np.zeros(scales.size)))

    def plus(self, rows: StreamRows) -> WindowSums:
        """Return the window of temperatures after adding the sums of more rows."""
        more = sums_of(rows.scores, rows.code, rows.w, self.scales)
        return WindowSums(self.scales, add(self.sums, more))

    def end(self, log_beta: float) -> float:
        """Return the end of the window, as log beta, that is closest to a log beta outside it."""
        return float(np.log(self.scales[0 if np.exp(log_beta) < self.scales[0] else -1]))


class StreamFit(NamedTuple):
    """The temperature after several batches, and its error.

    `continued` is the fraction of the weight of rows whose sums belong to another window than that
    of T. `error` is the relative standard error of T due to the extrapolation of these sums.
    """

    temperature: Temperature
    continued: float = 0.0
    error: float = 0.0


@dataclass(frozen=True)
class TemperatureStream:
    """State of `partial_fit` after several batches: a sample of rows, and sums over all rows.

    ``parts[active]`` is the window for the next rows.
    """

    sample: RowSample = RowSample()
    clip: RunningClip = NO_ROWS
    parts: tuple[WindowSums, ...] = ()
    active: int = 0
    log_beta: float = 0.0

    def with_rows(self, batch: StreamRows) -> tuple[TemperatureStream, StreamFit]:
        """Return the state after a new batch, and the temperature of all rows so far."""
        sample = self.sample.with_rows(batch, self.active)
        sampled = sample.batch(batch.scores)
        if sample.step == 1:
            clip = RunningClip(*find_clip(sampled.scores))
            sampled.scores.set_clip(clip.clip)
            return TemperatureStream(sample, clip), StreamFit(sampled.temperature())
        new, clip = [batch], self.clip if self.parts else NO_ROWS
        if self.sample.rows is not None and not self.parts:
            # Until now, all rows were stored. From now on, only a sample is stored: add the sums of
            # the earlier rows now.
            new.insert(0, self.sample.batch(batch.scores))
        for rows in new:
            clip = clip.with_rows(rows.scores)
        for rows in (*new, sampled):
            rows.scores.set_clip(clip.clip)
        parts, active, log_beta = self.parts, self.active, self.log_beta
        if not parts:
            log_beta = guess_of(sampled.temperature())
            parts = (reduce(WindowSums.plus, new[:-1], WindowSums.about(log_beta)),)
        more = _added(parts, active, batch)
        fit = solve(more, Shapes(sample, sampled), log_beta)
        root = -float(np.log(fit.temperature.value))
        if not fit.temperature.bound and not covers(parts[active].scales, root):
            # Compute the sums of the batch again, in a window (range of beta) around the new
            # temperature.
            covering = [i for i, part in enumerate(parts) if covers(part.scales, root)]
            active = covering[0] if covering else len(parts)
            more = _added(parts if covering else (*parts, WindowSums.about(root)), active, batch)
            sample = self.sample.with_rows(batch, active)
            fit = solve(more, Shapes(sample, sampled), root)
        if not fit.temperature.bound:
            log_beta = -float(np.log(fit.temperature.value))
        return TemperatureStream(sample, clip, more, active, log_beta), fit


def _added(parts: tuple[WindowSums, ...], active: int, batch: StreamRows) -> tuple[WindowSums, ...]:
    return (*parts[:active], parts[active].plus(batch), *parts[active + 1 :])


class Shapes:
    """Extrapolation of sums of gaps to temperatures outside a window, by a sample of rows."""

    def __init__(self, sample: RowSample, sampled: StreamRows) -> None:
        assert sample.rows is not None
        self._owner = sample.rows.window
        self._sampled = sampled
        self.n_classes = sampled.scores.shape[1]
        self._batches: dict[int, StreamRows] = {}
        self._windows: dict[int, list[Window | None]] = {}

    def rows_of_window(self, i: int) -> StreamRows:
        """Return the stored rows of a window, or all stored rows if the window has too few."""
        if i not in self._batches:
            own = np.flatnonzero(self._owner == i)
            self._batches[i] = self._sampled if own.size < LEAST_SHAPE else self._sampled.take(own)
        return self._batches[i]

    def change(self, i: int, start: float, log_beta: float) -> tuple[float, float] | None:
        """Return the change of the log expected gap from `start` to `log_beta`, and its derivative.

        Returns None if, in each of the stored rows of the window, all logits are equal.
        """
        there, here = self._window(i, log_beta), self._window(i, start)
        if there is None or here is None:
            return None
        value, rise = there.log_expected(log_beta)
        return value - here.log_expected(start)[0], rise

    def change_error(self, i: int, start: float, log_beta: float) -> float:
        """Return the standard error of the extrapolated change of the log expected gap."""
        batch = self.rows_of_window(i)
        if self._window(i, start) is None:
            return np.inf
        logits = batch.scores.device_logits() or batch.scores.as_logits()
        betas = [float(np.exp(at)) for at in (start, log_beta)]
        out = logits.empty_rows(), logits.empty_rows()

        def expected_gaps(Z: Float64Array) -> tuple[Float64Array, ...]:
            r = ops_for(Z)
            U = r.minus(Z, r.row_max(Z))
            parts = (exponentials(U, beta, -np.inf) for beta in betas)
            return tuple(-r.row_dots(Q, U) / total for Q, total in parts)

        map_rows(expected_gaps, logits, out=out)
        before, after, w = map(on_host, (*out, batch.w))
        influence = w * (after / (w @ after) - before / (w @ before))
        return float(np.sqrt(influence @ influence))

    def _window(self, i: int, log_beta: float) -> Window | None:
        windows = self._windows.setdefault(i, [])
        for window in windows:
            if window is None or covers(window.scales, log_beta):
                return window
        scales = scales_about(log_beta)
        rows = self.rows_of_window(i)
        sums = sums_of(rows.scores, rows.code, rows.w, scales)
        windows.append(Window(scales, sums.expected) if sums.every else None)
        return windows[-1]


def solve(parts: Sequence[WindowSums], shapes: Shapes, start: float) -> StreamFit:
    """Fit the temperature to the sums of all windows of inverse temperatures."""
    weight = sum(part.sums.weight for part in parts)
    true, every = sum(part.sums.true for part in parts), sum(part.sums.every for part in parts)
    # Windows without gaps between logits, because all logits of a row are equal, are left out.
    windows = {
        i: Window(part.scales, part.sums.expected)
        for i, part in enumerate(parts)
        if part.sums.every > 0.0
    }

    def each_log_expected(log_beta: float) -> tuple[Float64Array, Float64Array]:
        gaps = []
        for i, window in windows.items():
            if covers(window.scales, log_beta):
                gaps.append(window.log_expected(log_beta))
                continue
            end = parts[i].end(log_beta)
            value, rise = window.log_expected(end)
            # Without stored rows for the extrapolation, the logarithm of the expected gap is
            # extrapolated with its slope at the end of the window (range of beta).
            change, rise = shapes.change(i, end, log_beta) or (rise * (log_beta - end), rise)
            gaps.append((value + change, rise))
        values, rises = np.array(gaps).T
        return values, rises

    def slope(log_beta: float) -> tuple[float, float]:
        values, rises = each_log_expected(log_beta)
        total = np.logaddexp.reduce(values)
        return float(np.log(true) - total), -float(np.exp(values - total) @ rises)

    def search(low: float, high: float) -> tuple[float, str]:
        if true >= every:
            return low, "low"
        return rising_root(slope, min(max(start, low), high), low, high)

    n_classes = shapes.n_classes
    temperature = within_bounds(n_classes, float(true / weight), float(every / weight), search)
    root = -float(np.log(temperature.value))
    outside = [i for i in windows if not covers(windows[i].scales, root)]
    if temperature.bound or not outside:
        return StreamFit(temperature)
    values, rises = each_log_expected(root)
    share = np.exp(values - np.logaddexp.reduce(values))
    error = np.zeros(len(windows))
    for index, i in enumerate(windows):
        if i in outside:
            error[index] = shapes.change_error(i, parts[i].end(root), root)
    continued = float(sum(parts[i].sums.weight for i in outside) / weight)
    return StreamFit(
        temperature, continued, float(np.sqrt((share * error) @ (share * error)) / -(share @ rises))
    )
