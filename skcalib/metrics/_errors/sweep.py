"""Monotone sweep: as many bins as leave the accuracy rising with the score."""

from __future__ import annotations

from functools import partial
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from skcalib._arrays.types import Bools, Float64Array, FloatArray, Intp
from skcalib._binning.bins import Bins
from skcalib._binning.quantiles import rank_cuts
from skcalib._scores.one_vs_rest import stable_order
from skcalib._validation.keywords import MeanNorm, check_norm, exponent
from skcalib._validation.weights import is_whole
from skcalib.metrics._errors.binned import Average, Closed, Strategy, check_bins
from skcalib.metrics._errors.modes import Mode, error_by_mode
from skcalib.metrics._listed import listed

# Edges of several M are looked up together: enough of them to outweigh the call, not the cache.
MOST_EDGES = 1 << 16


class Distinct(NamedTuple):
    """Distinct scores ``(m,)`` in order, with the weight of the rows of each and of their hits.

    Hits ``(R, m)`` are those of R sets of labels. Where an edge cuts through rows of one score,
    each side gets its part of their weight and hits.
    """

    score: FloatArray
    weight: Float64Array
    hits: Float64Array
    weight_below: Float64Array
    hits_below: Float64Array

    @classmethod
    def of(cls, score: FloatArray, weight: Float64Array, hits: Float64Array) -> Distinct:
        """Add the sums of weights and hits below each score, and of all."""
        return cls(score, weight, hits, running(weight), running(hits))

    def cuts(self, j: Intp, n_bins: Intp | int, bins: Bins) -> Float64Array:
        """Return the weight below each edge j / `n_bins`, by the method of `bins`."""
        if bins.method == "rank":
            return rank_cuts(j, n_bins, float(self.weight_below[-1]), is_whole(self.weight))
        edges = (j / n_bins).astype(self.score.dtype)
        return self.weight_below[np.searchsorted(self.score, edges, side=bins.closed)]

    def at(self, cuts: Float64Array, below: Float64Array) -> Float64Array:
        """Return sums ``(..., cuts)`` up to cumulative weights, from those below each score."""
        position = self.weight_below
        # The last step up: weights that vanish beside the others make none.
        last = np.searchsorted(position, position[-1])
        i = np.minimum(np.searchsorted(position, cuts, side="right"), last) - 1
        share = (cuts - position[i]) / (position[i + 1] - position[i])
        return np.asarray(below[..., i] + share * (below[..., i + 1] - below[..., i]))


def running(amount: Float64Array) -> Float64Array:
    """Return the sums of the amounts before each place and of all, along the last axis."""
    below = np.zeros((*amount.shape[:-1], amount.shape[-1] + 1))
    np.cumsum(amount, axis=-1, out=below[..., 1:])
    return below


def distinct_scores(score: FloatArray, hit: NDArray[Any], w: Float64Array) -> Distinct:
    """Join the rows of equal scores, so that their order means nothing."""
    order = stable_order(score)
    values, hits, weights = score[order], hit[order], w[order]
    start = np.flatnonzero(np.append(True, values[1:] != values[:-1]))
    true = np.add.reduceat(weights * hits, start)
    return Distinct.of(values[start], np.add.reduceat(weights, start), true[None])


def monotone_bins(rows: Distinct, n_rows: float, bins: Bins) -> Intp:
    """Return for each set of labels M - 1 for the first M with an accuracy below the one before.

    M is tried from 2 to n - 1. `bins` says how to bin, but not their number.
    """
    values, weights, hits, position, _ = rows
    whole, total = is_whole(weights), position[-1]
    most = max(1, round(n_rows) - 1)
    n_bins = np.full(len(hits), most)
    # Bins below the first hit have accuracy 0 and bins above the last miss 1: neither breaks the
    # order, and where the classes are nearly apart there is little between.
    some, missed = hits > 0.0, hits < weights
    first, last = some.argmax(axis=1), values.size - 1 - missed[:, ::-1].argmax(axis=1)
    (left,) = np.nonzero(some.any(axis=1) & missed.any(axis=1) & (first <= last))
    start, size = 2, 8
    while start <= most and left.size:
        sweep = np.arange(start, min(start + size, most + 1))
        low, high = first[left].min(), last[left].max()
        if bins.method == "rank":
            M, j = _edges_between(sweep, position[low] / total, position[high + 1] / total)
        else:
            M, j = _edges_between(sweep, values[low], values[high])
        failed = _first_fall(rows, left, M, j, bins, whole)
        fell = failed > 0
        n_bins[left[fell]] = failed[fell] - 1
        left = left[~fell]
        start += sweep.size
        size = min(2 * size, max(8, MOST_EDGES * sweep.size // (j.size * max(1, left.size))))
    return n_bins


def _edges_between(sweep: Intp, low: float, high: float) -> tuple[Intp, Intp]:
    """Each M with the numbers j of its edges, from safely below `low` to above `high`.

    The first j of each M stands for the edge at 0, its last j for the edge at 1.
    """
    first = np.maximum(0, (low * sweep).astype(np.intp) - 2)
    last = np.minimum(sweep, (high * sweep).astype(np.intp) + 3)
    count = last - first + 1
    j = np.arange(count.sum()) - np.repeat(np.cumsum(count) - count - first, count)
    return np.repeat(sweep, count), j


def _first_fall(rows: Distinct, sets: Intp, M: Intp, j: Intp, bins: Bins, whole: bool) -> Intp:
    """Return for some sets the first M with a fall from one non-empty bin to the next, or 0.

    The j of each M are the numbers of its edges.
    """
    hits, weight = rows.hits_below[sets], rows.weight_below[-1]
    weight_below = rows.cuts(j, M, bins)
    hits_below = rows.at(weight_below, hits)
    change = M[1:] != M[:-1]
    first, last = np.append(True, change), np.append(change, True)
    weight_below[first], hits_below[:, first] = 0.0, 0.0
    weight_below[last], hits_below[:, last] = weight, hits[:, -1:]
    bin_weight = np.diff(weight_below)
    full = bin_weight > 0  # from the last edge of one M to the first of the next it is negative
    bin_weight, owner = bin_weight[full], M[1:][full]
    accuracy = np.diff(hits_below)[:, full] / bin_weight
    # Equal accuracies differ by the rounding of the sums over a bin's weight.
    light = np.minimum(bin_weight[1:], bin_weight[:-1])
    fall = np.diff(accuracy) < -4e-15 * weight / light - (0.0 if whole else 1e-12)
    fall &= owner[1:] == owner[:-1]
    none = M[-1] + 1
    first_of = np.where(fall, owner[1:], none).min(axis=1, initial=none)
    return np.where(first_of < none, first_of, 0)


def sweep_error(
    score: Float64Array, hit: Bools, w: Float64Array, bins: Bins, norm: MeanNorm
) -> float:
    """Binned error with the number of bins that the sweep finds."""
    rows = distinct_scores(score, hit, w)
    score_below = running(rows.weight * rows.score)
    return float(sweep_errors(rows, score_below, float(w.sum()), bins, norm)[0])


def sweep_errors(
    rows: Distinct, score_below: Float64Array, n_rows: float, bins: Bins, norm: MeanNorm
) -> Float64Array:
    """Error of each set of labels; bins of equal weight may cut through copies."""
    n_bins = monotone_bins(rows, n_rows, bins)
    errors = np.empty(len(n_bins))
    total, q = rows.weight_below[-1], exponent(norm)
    for B in np.unique(n_bins):
        with_b_bins = n_bins == B
        cuts = rows.cuts(np.arange(B + 1), int(B), bins)
        cuts[0], cuts[-1] = 0.0, total
        W, S = np.diff(cuts), np.diff(rows.at(cuts, score_below))
        H = np.diff(rows.at(cuts, rows.hits_below[with_b_bins]))
        gap = np.divide(np.abs(H - S), W, out=np.zeros_like(H), where=W > 0)
        errors[with_b_bins] = (gap**q @ W / total) ** (1 / q)
    return errors


@listed("Roelofs et al. 2022", scorer=True)
def sweep_calibration_error(
    y_true: ArrayLike,
    y_proba: ArrayLike,
    *,
    mode: Mode = None,
    average: Average = "macro",
    strategy: Strategy = "quantile",
    norm: MeanNorm = "l2",
    closed: Closed = "right",
    pos_label: Any = None,
    sample_weight: ArrayLike | None = None,
    labels: ArrayLike | None = None,
) -> float | Float64Array:
    r"""Sweep calibration error (ECE-sweep): ECE with as many bins as keep the accuracies sorted.

    For each binary problem the number of bins M is raised from 2 until, for the first time, the
    accuracy of some non-empty bin lies below that of the one before. With the last M that kept
    the order, or 1, and weight :math:`W_b` of W in bin b,

    .. math:: \Big(\sum_b \frac{W_b}{W} |\mathrm{acc}_b - \mathrm{conf}_b|^q\Big)^{1/q}

    A true calibration curve increases. Bins in which it seems to decrease are too narrow and show
    noise. The number of bins need not be chosen.

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
        For "classwise": the mean over classes, of the q-th powers and below one root, or None
        for the error of each.
    strategy : {"uniform", "quantile"}, default="quantile"
        Bins of equal width on [0, 1], or of equal weight: rank i goes to bin floor(M i / n).
        Equal scores may lie in two bins, each of which then has the same share of hits of them.
    norm : {"l1", "l2"} or float in [1, 10], default="l2"
        q.
    closed : {"right", "left"}, default="right"
        The closed side of uniform bins; 0 always falls in the first and 1 in the last.
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
    The sweep ends at the first M that breaks the order, even if a larger M would keep it again. M
    stays below the number of rows.

    References
    ----------
    Roelofs, Cain, Shlens, Mozer (2022). Mitigating Bias in Calibration Error Estimation. AISTATS.

    Examples
    --------
    >>> from skcalib.metrics import sweep_calibration_error
    >>> y = [0, 1, 1, 0]
    >>> P = [[0.9, 0.1], [0.2, 0.8], [0.6, 0.4], [0.7, 0.3]]
    >>> round(sweep_calibration_error(y, P), 4)
    0.3464
    """
    bins = check_bins(15, strategy, closed, "rank")  # their number is found below
    check_norm(norm, has_max=False)
    data = (y_true, y_proba, sample_weight, labels, pos_label)
    error, name = partial(sweep_error, bins=bins, norm=norm), "sweep_calibration_error"
    return error_by_mode(data, error, mode, average, norm, dtype=None, caller=name)
