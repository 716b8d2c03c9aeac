"""Bayesian binning into quantiles (BBQ): histogram binnings, averaged by their evidence.

All binnings of a class are computed from one sorted column. A bin is a range of rows: its number of
rows and of positives are differences of cumulative sums. The mean of all binnings is a step
function. Its change at an edge is the sum of the changes of all binnings with this edge.
"""

from __future__ import annotations

from numbers import Integral, Real
from typing import Any, ClassVar, NamedTuple

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import gammaln, logit
from sklearn.utils._param_validation import Interval

from skcalib._arrays.rowwise import Float64Array, Intp
from skcalib._binning import ROUNDING
from skcalib._maps.formulas import ColumnPlan, steps, steps_from
from skcalib._scores.one_vs_rest import SortedProblem, map_sorted
from skcalib._scores.scores import LOG_PROBA_MIN, MOST_ODDS, Scores
from skcalib._validation.keywords import COUNT_HIGH
from skcalib._validation.rows import is_whole
from skcalib.calibrators._base import ColumnwiseCalibrator, counted, levels

# The numbers of bins are from 1 / SPREAD to SPREAD times the cube root of the number of rows.
SPREAD = 10

# Largest number of bin edges of all classes together. Edges and values then need 32 MiB.
MAX_THRESHOLDS = 1 << 21

# Log-odds that differ by less than this number are treated as equal.
SAME = 1e-12

# Binnings whose posterior probability is below this number are ignored.
NEGLIGIBLE = 1e-28

# Mid-points of bins are at least this far from the probabilities 0 and 1.
LEAST = float(np.exp(LOG_PROBA_MIN))

# The largest probability whose log-odds are finite.
MOST = float(np.nextafter(1.0, 0.0))


class Binnings(NamedTuple):
    """Several quantile binnings, as one array of all bins, binning after binning."""

    member: Intp  # for each bin, the index of its binning (set of bins)
    position: Float64Array  # for each bin, the cumulative weight at its lower edge
    prior: Float64Array  # for each binning, the weight of the beta prior of each of its bins


def quantile_binnings(w: Float64Array, max_bins: int, prior_strength: float) -> Binnings:
    """Return the quantile binnings of Naeini et al. for rows with weights `w`."""
    total = float(w.sum())
    # Processors may differ in the last bit of the cube root, which could change the number of bins.
    root = round(float(np.cbrt(total)), 9)
    most = int(max(1, min(SPREAD * root, total, max_bins)))
    fewest = min(most, int(np.ceil(root / SPREAD)))
    n_bins = np.arange(fewest, most + 1)
    first = np.cumsum(n_bins) - n_bins
    member = np.repeat(np.arange(n_bins.size), n_bins)
    position = (np.arange(member.size) - first[member]) * (total / n_bins)[member]
    if is_whole(w):
        np.round(position, out=position)
    else:  # rounding errors of sums of weights must not move a row to another bin
        position += ROUNDING * total
    return Binnings(member, position, prior_strength / n_bins)


class StepMap(NamedTuple):
    """Step function with value ``y[j]`` from ``x[j]`` on, and the row weight of each step."""

    x: Float64Array
    y: Float64Array
    weight: Float64Array


class CutBins(NamedTuple):
    """Bins of every binning of a binary problem with sorted scores, as arrays ``(b,)``."""

    member: Intp  # for each bin, the index of its binning (set of bins)
    opens: Intp  # for each bin, the index of its first row
    alpha: Float64Array  # for each bin, parameters of its beta prior
    beta: Float64Array
    hit: Float64Array  # for each bin, weights of its positives and negatives
    miss: Float64Array


def cut_bins(problem: SortedProblem, binnings: Binnings) -> CutBins:
    """Cut the rows of a sorted binary problem into the bins of all binnings, without empty bins."""
    n = problem.values.size
    if problem.weights is None:
        opens = binnings.position.astype(np.intp)
    else:
        above = problem.cumulative_weight()[1:]
        opens = np.minimum(above.searchsorted(binnings.position, side="right"), n - 1)
        del above
    # Rows with equal scores belong to the bin that begins among these rows.
    rises = problem.rises(float(problem.log_odds))
    start = np.arange(n)
    start[1:] *= rises
    opens = np.maximum.accumulate(start, out=start)[opens]
    del start
    member = binnings.member
    # If several bins of a binning begin at the same row, all of them except one are empty.
    distinct = np.append(True, (opens[1:] != opens[:-1]) | (member[1:] != member[:-1]))
    opens, member = opens[distinct], member[distinct]
    closes = np.append(opens[1:], 0)
    closes[closes == 0] = n

    # Cumulative weight of the positives up to each group of equal scores.
    index = problem.values.searchsorted(problem.positives)
    hits = np.cumsum(np.bincount(index + 1, problem.positive_weights, minlength=n + 1))
    hit = (hits[closes] - hits[opens]).astype(np.float64)
    del hits
    weight = np.subtract(*problem.weight_before(np.stack([closes, opens])))
    miss = np.maximum(weight - hit, 0.0)

    edge = np.append(problem.proba(), 1.0)
    edge[0] = 0.0
    below = edge[opens]
    if edge[-2] == 1.0:
        # A bin that only contains the score 1 would have width 0, so its lower edge is moved to the
        # next smaller score.
        certain = below == 1.0
        below[certain] = edge[opens[certain] - 1]
    middle = np.clip((below + edge[closes]) / 2, LEAST, 1 - LEAST)
    prior = binnings.prior[member]
    return CutBins(member, opens, prior * middle, prior * (1 - middle), hit, miss)


def log_rising(start: Float64Array, count: Float64Array) -> Float64Array:
    """Return log(Gamma(start + count) / Gamma(start)), which is exactly 0 where count is 0."""
    ratio = np.zeros(start.size)
    some = np.flatnonzero(count)
    ratio[some] = gammaln(start[some] + count[some]) - gammaln(start[some])
    return ratio


def average_binnings(problem: SortedProblem, binnings: Binnings) -> StepMap:
    """Average the binnings of a sorted binary problem, weighted by their evidence."""
    bins = cut_bins(problem, binnings)
    log_ratio = log_rising(bins.alpha, bins.hit) + log_rising(bins.beta, bins.miss)
    prior = binnings.prior[bins.member]
    log_ratio += gammaln(binnings.prior)[bins.member] - gammaln(prior + bins.hit + bins.miss)
    score = np.bincount(bins.member, log_ratio)
    share = np.exp(score - score.max())
    share /= share.sum()

    # Binnings with a negligible weight would only add steps as small as rounding errors.
    counts = (share > NEGLIGIBLE)[bins.member]
    member, opens, alpha, beta, hit, miss = (part[counts] for part in bins)
    mean = (alpha + hit) / (alpha + beta + hit + miss)
    part = share[member] * mean
    inner = np.flatnonzero(opens)
    change = part.copy()
    change[inner] -= part[inner - 1]
    edge = np.flatnonzero(np.bincount(opens))
    # Values mostly increase from left to right, so that the cumulative sum begins with small
    # numbers.
    y = np.cumsum(np.bincount(opens, weights=change)[edge])
    x = problem.values[edge].astype(np.float64)
    x[0] = -MOST_ODDS if problem.log_odds else 0.0
    weight = np.diff(problem.weight_before(np.append(edge, problem.values.size)))
    return StepMap(x, np.clip(y, mean.min(), mean.max()), weight)


def merge_steps(step: StepMap, most: int) -> StepMap:
    """Merge neighbouring steps with similar log-odds, until at most `most` steps remain.

    Steps that differ only by rounding errors are always merged.
    """
    odds = logit(np.minimum(step.y, MOST))
    path = np.append(0.0, np.cumsum(np.abs(odds[1:] - odds[:-1])))
    for width in (SAME, path[-1] / (most - 1)):
        cell = np.floor(path / width)
        start = np.flatnonzero(np.append(True, cell[1:] != cell[:-1]))
        if start.size <= most:
            break
    weight = np.add.reduceat(step.weight, start)
    y = np.add.reduceat(step.weight * step.y, start) / weight
    return StepMap(step.x[start], y, weight)


class BayesianBinning(ColumnwiseCalibrator):
    r"""Average histogram binnings with many numbers of bins (BBQ).

    Use Bayesian binning into quantiles instead of `HistogramBinning` if you do not know how many
    bins to use. Calibrated probabilities are 0 or 1 only if the scores almost are.

    For a class against the rest, binning M cuts the calibration rows into B quantile bins, for
    every whole number B from :math:`n^{1/3} / 10` to :math:`10\, n^{1/3}`, at most n. In bin b,
    with mid-point :math:`m_b`, :math:`n_b` rows and :math:`h_b` positives, the prior of the
    fraction of positives is :math:`\mathrm{Beta}(\alpha_b, \beta_b)`. The score of the binning is
    its marginal likelihood,

    .. math:: \alpha_b = \frac{N'}{B} m_b, \quad \beta_b = \frac{N'}{B} (1 - m_b), \qquad
              S_M = \prod_{b=1}^{B} \frac{\Gamma(N'/B)}{\Gamma(N'/B + n_b)}
                    \frac{\Gamma(\alpha_b + h_b)}{\Gamma(\alpha_b)}
                    \frac{\Gamma(\beta_b + n_b - h_b)}{\Gamma(\beta_b)} .

    The calibration function is the mean of the binnings' posterior means, weighted by their scores,

    .. math:: f_k(s) = \sum_M \frac{S_M}{\sum_{M'} S_{M'}}
                       \frac{\alpha_{b_M(s)} + h_{b_M(s)}}{N'/B_M + n_{b_M(s)}}, \qquad
              q_{ik} = \frac{f_k(p_{ik})}{\sum_j f_j(p_{ij})} .

    With two classes the function of the second class is used for both.

    Parameters
    ----------
    prior_strength : float, default=2.0
        :math:`N'`, from 1e-6 to 1e6: the weight of the priors of all bins, as a number of rows.
    max_bins : int, default=1000
        Largest number of bins of a binning. With more than a million rows, the default is below
        :math:`10\, n^{1/3}`.
    input : {"auto", "logits", "proba"}, default="auto"
        What the columns of `X` are. "auto" decides once, in ``fit``: rows that sum to 1 within
        0.001 are probabilities, others logits; rows of both kinds, or rows that all sum to 100,
        raise an error.
    classes : array-like of shape (K,), default=None
        Labels of the columns, sorted; needed if they cannot be inferred from `y`.

    Attributes
    ----------
    X_thresholds_ : list of ndarray
        For each function, 0 and the edges of all binnings with a relevant score; a list of K
        arrays, or of 1 for two classes. Log-odds if `input_` is "logits".
    y_thresholds_ : list of ndarray
        Values of the functions from each of these scores to the next, in [0, 1].
    classes_ : ndarray of shape (K,)
        Sorted labels of the columns.
    class_count_ : ndarray of shape (K,)
        Weight of the rows of each class in ``fit``.
    input_ : {"logits", "proba"}
        What the columns of `X` were in ``fit``.
    n_features_in_ : int
        Number of columns of `X`.

    See Also
    --------
    skcalib.HistogramBinning : One binning, or a mean over resamples.

    Notes
    -----
    Bins are those of ``HistogramBinning(strategy="quantile")``: inner edges are calibration
    scores, which belong to the bin above them, and tied scores share a bin. n is the sum of the
    weights. The prior of a bin with only the score 1 has its mid-point half-way to the next lower
    score.

    For logits, the scores are log-odds, because the probabilities of large logits round to 1.
    Mid-points are those of probabilities. A probability of 0 or 1 has log-odds of -1e38 or 1e38.

    A fit sorts each column once and then computes each bin of each binning: about
    :math:`50\, n^{2/3}` bins for each class.

    At most 2,097,152 edges are stored in total. If there are more, neighbouring steps with the most
    similar log-odds are merged into one step with their mean value. Edges at which the log-odds
    change by less than 1e-12 are always removed.

    References
    ----------
    .. [1] M. P. Naeini, G. F. Cooper and M. Hauskrecht, "Obtaining well calibrated probabilities
       using Bayesian binning", AAAI 2015.

    Examples
    --------
    >>> from skcalib import BayesianBinning
    >>> p, y = [0.1, 0.2, 0.3, 0.7, 0.8, 0.9], [0, 1, 0, 1, 1, 1]
    >>> binning = BayesianBinning().fit(p, y)
    >>> binning.predict_proba([0.25, 0.75]).round(3)
    array([[0.389, 0.611],
           [0.123, 0.877]])
    """

    _paper = "Naeini, Cooper and Hauskrecht 2015"
    _warns_of_one_label = True
    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        **ColumnwiseCalibrator._parameter_constraints,
        "prior_strength": [Interval(Real, 1e-6, 1e6, closed="both")],
        "max_bins": [Interval(Integral, 1, COUNT_HIGH, closed="both")],
    }

    def __init__(
        self,
        *,
        prior_strength: float = 2.0,
        max_bins: int = 1000,
        input: str = "auto",
        classes: ArrayLike | None = None,
    ) -> None:
        super().__init__(input=input, classes=classes)
        self.prior_strength = prior_strength
        self.max_bins = max_bins

    def _fit(self, scores: Scores, code: Intp, w: Float64Array) -> dict[str, Any]:
        first = self._first_column(scores.shape[1])
        binnings = quantile_binnings(w, self.max_bins, self.prior_strength)
        most = max(2, MAX_THRESHOLDS // (scores.shape[1] - first))

        def fit_one(problem: SortedProblem) -> StepMap:
            return merge_steps(average_binnings(problem, binnings), most)

        maps = list(map_sorted(fit_one, scores, code, w, first))
        return {
            "X_thresholds_": [step.x for step in maps],
            "y_thresholds_": [step.y for step in maps],
        }

    def _in_words(self) -> str:
        maps = counted(len(self.y_thresholds_), "function")
        return f"{maps} with {levels(self.y_thresholds_)}"

    def _plan(self) -> ColumnPlan:
        maps = steps_from(self.X_thresholds_, self.y_thresholds_)
        return self._column_plan(steps, {"map": maps}, "ordered")
