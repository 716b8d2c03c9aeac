"""Assumed true probabilities for simulating intervals, and the jackknife over groups of rows."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import DTypeLike, NDArray

from skcalib._arrays.rowwise import Float64Array, FloatArray, Intp
from skcalib._arrays.sources import Source, as_source, map_rows, to_array
from skcalib._binning import Bins, bin_index, flat_table
from skcalib._scores.scores import softmax_inplace, top_label
from skcalib._validation.rows import Predictions, effective
from skcalib.calibrators import AutoCalibrator, TemperatureScaling
from skcalib.calibrators._base import fit_checked, map_checked
from skcalib.metrics._common import merge_clusters

# Jackknife estimates of the variance and the bias of an error over samples of rows, by leaving out
# groups of rows.
#
# With :math:`e_{-g}` the error without group g of G, :math:`\bar e` the mean of these errors and e
# the error of all rows, the variance and the bias are
#
# .. math:: \frac{G - 1}{G} \sum_g (e_{-g} - \bar e)^2, \qquad (G - 1) (\bar e - e) .


# The number of groups of rows in the jackknife, each of which is left out in turn.
GROUPS = 30
# The largest small-sample bias relative to the error, and the smallest error that is not a rounding
# error.
LARGEST_EXCESS, TINY_ERROR = 0.9, 1e-6


def random_groups(units: Intp) -> Intp:
    """Assign rows to random groups for the jackknife, without dividing clusters."""
    return merge_clusters(units, np.random.default_rng(0), GROUPS)


def jackknife_variance(without: Float64Array) -> Float64Array:
    """Return jackknife variances of errors, from errors with one group of rows left out."""
    n_groups = len(without)
    away = without - without.mean(axis=0)
    return np.asarray((n_groups - 1) / n_groups * (away**2).sum(axis=0))


def excess_of_few_rows(without: Float64Array, limits: Float64Array) -> Float64Array:
    r"""Estimate the small-sample bias of calibration errors, as a fraction of each error.

    In bins with few rows, gaps vary even if labels are not random, so that their mean absolute
    value is larger than with many rows. The jackknife estimates the full bias if the bias is
    proportional to 1 / n, and half of it if the bias is proportional to one over the root of n.
    """
    bias = (len(without) - 1) * (without.mean(axis=0) - limits)
    return np.clip(bias / np.maximum(limits, TINY_ERROR), 0.0, LARGEST_EXCESS)


# Assumed true probabilities q ("truths"), from which labels are drawn. They are on paths that begin
# at the predictions P.
#
# .. math:: q_t = P + t (Q - P), \quad 0 \le t \le 1; \qquad
#           q_t \propto Q \exp((t - 1) r), \quad r = \log(Q / P) \text{ clipped to } [-3, 3],
#           \quad t > 1 .
#
# Q is the calibrated model, because errors of models are mostly smooth functions of their scores.
# Or Q is a model in which the odds of the top label, or of the event, are :math:`e^{-1/2}` times
# those of P. Or Q is a model in which the odds of half of the classes are divided by this factor,
# and the odds of the others are multiplied by it.
#
# Truths may also have rough errors, which no smooth function corrects: a different error in each
# range of scores. Rows are put into B bins of equal weight by the top probability s of a smooth
# truth. Let :math:`e_b` be the accuracy minus the mean score of bin b, and :math:`v_b` the sampling
# variance of the accuracy. If the errors of bins are normal with variance :math:`\tau^2 v_b`, then,
# given the labels,
#
# .. math:: \delta_b \sim N(a e_b, a v_b), \quad a = \frac{\tau^2}{1 + \tau^2}, \qquad
#           1 + \tau^2 = \max\Bigl(1, \bigl(1 + c \sqrt{2 / B}\bigr)
#           \frac{1}{B} \sum_b \frac{e_b^2}{v_b}\Bigr) .
#
# With c = 0, errors are as large as the labels suggest (James & Stein 1961). With c > 0, errors are
# larger by c standard errors, because random deviations may hide errors. The top probability
# changes by :math:`\delta_b`, and the other probabilities are scaled so that they sum to the rest.


# With more than `MANY_CLASSES` classes, the calibrated model uses temperature scaling, because
# temperature scaling is faster.
MANY_CLASSES = 100
# The calibrator is fitted on at most this number of rows or matrix entries. This is enough, because
# only the direction of its correction matters.
FITTED_ROWS, FITTED_ENTRIES = 20_000, 1 << 22
# Lower bound of probabilities in the ratio of calibrated and predicted probabilities, lower bound
# of calibrated probabilities, and largest absolute logarithm of the ratio.
LEAST_RATIO, LEAST, LARGEST_LOG_RATIO = 1e-9, 1e-12, 3.0
# The change of the log-odds in assumed models with too high or too low odds.
LOG_ODDS = 0.5
# Probabilities are tempered (raised to a power) with three exponents: the most likely exponent, and
# two exponents at this distance from it, in standard errors.
NEAR = 1.5
# The calibrator may mix its output with the predictions P. If the weight of P is larger than
# `LARGEST_SHARE`, the output is not separated from P, because rounding errors would dominate.
LARGEST_SHARE = 0.9999
# Probability matrices with more than `FLOAT64_ENTRIES` entries are stored in float32, whose
# precision of 6e-8 is sufficient.
FLOAT64_ENTRIES = 1 << 21
# With more than `COMPARED` classes, labels are drawn by binary search instead of comparisons with
# all cumulative probabilities.
COMPARED = 100


def calibrated(predictions: Predictions) -> FloatArray:
    """Return calibrated probabilities ``(n, K)``, by a calibrator fitted on the same rows."""
    P = to_array(predictions.P)
    kind = AutoCalibrator if P.shape[1] <= MANY_CLASSES else TemperatureScaling
    calibrator, _, _ = fit_some_rows(kind, P, predictions)
    # Removing `_line` makes a calibrator of two classes use its fitted terms, which include a
    # mixture with the predictions P. With more classes, calibrators always use these terms.
    calibrator._line = None
    Q = map_checked(calibrator, as_source(P))
    # The mixture of the calibrator's output with the predictions P is undone, to get the direction
    # of the correction.
    share = float(getattr(calibrator, "identity_weight_", 0.0))
    if 0.0 < share <= LARGEST_SHARE:
        Q = np.maximum(P + (Q - P) / (1.0 - share), 0.0)
        Q /= Q.sum(axis=1, keepdims=True)
    return np.asarray(Q)


def fit_some_rows(
    kind: Any, P: FloatArray, predictions: Predictions
) -> tuple[Any, Intp, Float64Array]:
    """Fit a calibrator on a subset of the rows; also return these rows and their weights."""
    n, n_classes = P.shape
    row_step = -(-n // min(FITTED_ROWS, max(1, FITTED_ENTRIES // n_classes)))
    rows = np.arange(0, n, row_step)
    code, w = predictions.code[rows], effective(predictions.w[rows])
    some, classes = as_source(P[::row_step]), np.arange(n_classes)
    with warnings.catch_warnings():
        # Warnings about the subset, such as classes without rows, are irrelevant.
        warnings.simplefilter("ignore")
        return fit_checked(kind(), some, "proba", code, effective(w), classes), rows, w


def tempered_truths(q: FloatArray, predictions: Predictions) -> list[FloatArray]:
    r"""Return three powers of the probabilities q: with the most likely exponent, and two others.

    The other two are :math:`b \pm 1.5 / \sqrt{I}` with the information
    :math:`I = \sum_i w_i \operatorname{var}_{q_i} \log q_i`.
    """
    calibrator, rows, weights = fit_some_rows(TemperatureScaling, q, predictions)
    part, most_likely = q[rows], 1.0 / calibrator.temperature_
    r = raise_to_power(part, most_likely)
    log = np.log(np.maximum(part, LEAST))
    variance = (r * log**2).sum(axis=1) - (r * log).sum(axis=1) ** 2
    information = (weights @ variance) * len(q) / len(part)
    away = NEAR / np.sqrt(max(information, 1.0))
    return [raise_to_power(q, max(most_likely + d, 0.0)) for d in (0.0, -away, away)]


def raise_to_power(q: FloatArray, power: float) -> FloatArray:
    """Raise the probabilities q to a power, and normalise each row."""
    return truth_of(partial(shift_logits, power=power), as_source(q))


def overconfident_truth(P: Source, event: int | None) -> FloatArray:
    """Lower the odds of the top label, or of the event, in all rows of the probabilities P."""
    column = top_label(P)[1] if event is None else np.full(P.shape[0], event)
    return truth_of(lower_odds, P, column)


def shifted_classes(P: Source, random: np.random.Generator) -> FloatArray:
    """Lower the odds of a random half of the classes in P, and raise the odds of the others."""
    shift = np.where(np.arange(P.shape[1]) % 2, LOG_ODDS, -LOG_ODDS)
    return truth_of(partial(shift_logits, shift=random.permutation(shift)), P)


def shift_logits(block: FloatArray, power: float = 1.0, shift: Any = 0.0) -> Float64Array:
    """Multiply the log-probabilities of a block of rows by a factor, and add a shift to them."""
    Z = np.log(np.maximum(block.astype(np.float64), LEAST))
    return softmax_inplace(power * Z + shift)


def lower_odds(block: FloatArray, column: Intp) -> Float64Array:
    """Lower the odds of one class in each row of a block of probabilities."""
    shift = -LOG_ODDS * (column[:, None] == np.arange(block.shape[1]))
    return shift_logits(block, shift=shift)


def truth_type(P: Source) -> np.dtype[np.floating]:
    """Return the floating point type for storing assumed true probabilities of the shape of P."""
    return np.dtype(np.float64 if P.shape[0] * P.shape[1] <= FLOAT64_ENTRIES else np.float32)


def truth_of(kernel: Callable[..., FloatArray], P: Source, *parts: Any) -> FloatArray:
    """Return the assumed true probabilities that a function computes from blocks of P."""
    out = np.empty(P.shape, dtype=truth_type(P))
    map_rows(kernel, P, *parts, out=out)
    return out


def truth_on_path(P: Source, Q: FloatArray, t: float) -> FloatArray:
    """Return the assumed true probabilities at position t of a path: P at t = 0, Q at t = 1."""
    return truth_of(partial(extrapolate if t > 1 else interpolate, t=t, dtype=truth_type(P)), P, Q)


def interpolate(P: FloatArray, Q: FloatArray, t: float, dtype: DTypeLike) -> FloatArray:
    """Return assumed true probabilities between P and Q, by linear interpolation of a block."""
    return (1.0 - t) * P.astype(dtype) + t * Q.astype(dtype)


def extrapolate(P: FloatArray, Q: FloatArray, t: float, dtype: DTypeLike) -> FloatArray:
    """Return assumed true probabilities beyond Q, by extrapolating the log ratio of Q and P."""
    P, Q = P.astype(dtype), Q.astype(dtype)
    r = np.log(np.maximum(Q, LEAST_RATIO) / np.maximum(P, LEAST_RATIO))
    r = np.clip(r, -LARGEST_LOG_RATIO, LARGEST_LOG_RATIO)
    return softmax_inplace(np.log(np.maximum(Q, LEAST)) + (t - 1.0) * r)


def draw_codes(
    q: FloatArray, n_sets: int, seed: np.random.SeedSequence
) -> NDArray[np.unsignedinteger]:
    """Draw label vectors from true probabilities; results do not depend on threads."""
    n, n_classes = q.shape
    codes = np.empty((n_sets, n), dtype=np.min_scalar_type(n_classes - 1))
    kernel = partial(draw_block, n_sets=n_sets, entropy=seed.generate_state(4).tolist())
    map_rows(kernel, as_source(q), range(n), out=codes.T)
    return codes


def draw_block(
    block: FloatArray, rows: range, n_sets: int, entropy: list[int]
) -> NDArray[np.unsignedinteger]:
    """Draw labels ``(rows, n_sets)`` from a block of true probabilities."""
    random = np.random.default_rng([*entropy, rows.start])
    at = random.random((n_sets, len(block)), dtype=np.float32)
    n_classes = block.shape[1]
    kind = np.min_scalar_type(n_classes - 1)
    if n_classes > COMPARED:
        edges = np.cumsum(block, axis=1, dtype=np.float32)[:, :-1]
        pairs = zip(edges, at.T, strict=True)
        return np.stack([edge.searchsorted(each, "right") for edge, each in pairs]).astype(kind)
    cumulative = np.cumsum(block.T, axis=0, dtype=np.float64)[:-1]
    code = np.zeros(at.shape, dtype=kind)
    # A loop over contiguous rows takes a tenth of the time of a loop over strided rows.
    for edge in np.ascontiguousarray(cumulative, dtype=np.float32):
        code += at >= edge
    return code.T


# Pairs of a number of bins and a number c. The mean squared gap of the bins, in units of its
# sampling variance, is enlarged by c of its standard errors. With these pairs, intervals contain
# errors of 0.07 that change sign every 0.07 along the score.
ROUGH = ((30, 0.0), (15, 2.5), (15, 4.0), (15, 6.0))
TINY = 1e-12


def rough_truths(
    q: FloatArray, predictions: Predictions, random: np.random.Generator
) -> Iterator[FloatArray]:
    """Yield assumed true probabilities whose top probability has a different error in each bin."""
    P = as_source(q)
    score, top = top_label(P)
    for n_bins, c in ROUGH:
        bins = Bins(n_bins, "edges", "left")
        table = flat_table(score, top == predictions.code, predictions.w, bins)
        full = table.weight[0] > 0
        rows, error = table.weight[0, full], table.gap[0, full]
        # Half a row with the event and half a row without it are added to each bin. Otherwise, a
        # single wrong prediction with a confidence near 1 would be millions of times the sampling
        # variance.
        mean = (table.confidence[0, full] * rows + 0.5) / (rows + 1)
        chance = mean * (1 - mean) / rows
        size = float((error**2 / chance).mean()) * (1 + c * np.sqrt(2 / rows.size))
        share = 1 - 1 / max(size, 1.0)
        shift = np.zeros(full.size)
        noise = np.sqrt(share * chance) * random.standard_normal(rows.size)
        shift[full] = share * error + noise
        moved = np.clip(score + shift[bin_index(score, table.left[0, 1:], bins)], 0.0, 1.0)
        yield truth_of(move_top, P, top, score, moved)


def move_top(block: FloatArray, top: Intp, score: FloatArray, moved: Float64Array) -> Float64Array:
    """Replace the top probability of each row of a block, and rescale the other probabilities."""
    out = block * ((1 - moved) / np.maximum(1 - score.astype(np.float64), TINY))[:, None]
    out[np.arange(len(out)), top] = moved
    out /= out.sum(axis=1, keepdims=True)
    return out
