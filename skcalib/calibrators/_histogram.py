"""Histogram binning, which replaces each score by the fraction of positives in its bin."""

from __future__ import annotations

import warnings
from functools import partial
from numbers import Integral
from typing import Any, ClassVar, Literal, NamedTuple

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import expit
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils._param_validation import Interval, StrOptions

from skcalib._arrays.rowwise import Float64Array, FloatArray, Intp
from skcalib._arrays.sources import as_source, sum_rows
from skcalib._binning import Bins, NumberOfBins, columns_table, pooled_table
from skcalib._maps.formulas import ColumnPlan, Steps, steps
from skcalib._scores.scores import Scores
from skcalib._validation.keywords import COUNT_HIGH, check_seed, number_of_bins
from skcalib.calibrators._base import ColumnwiseCalibrator, counted, span

# If all logits are at most this number in absolute value, no probability rounds to 1, even in
# float32.
LEAST_CERTAIN = 8.0


class StepMaps(NamedTuple):
    """Step functions of m columns: ``edges (m, B + 1)``, and ``values (m, B)`` between edges."""

    edges: Float64Array
    values: Float64Array


def average_steps(maps: list[StepMaps]) -> StepMaps:
    """Average several step functions; the result has the inner edges of all of them.

    Every step includes its left edge.
    """
    inner = np.sort(np.hstack([step.edges[:, 1:-1] for step in maps]), axis=1)
    values = np.zeros((len(inner), inner.shape[1] + 1))
    for j, edges in enumerate(inner):
        start = np.append(-np.inf, edges)  # the first bin has no lower edge
        for step in maps:
            piece = np.searchsorted(step.edges[j, 1:-1], start, side="right")
            values[j] += step.values[j, piece] / len(maps)
    first, *_, last = maps[0].edges.T[..., None]
    return StepMaps(np.hstack([first, inner, last]), values)


def weight_of_certain(block: FloatArray, w: Float64Array, scores: Scores) -> float:
    """Return the weight of the rows of a block of logits with a probability of exactly 1."""
    odds = scores.of(as_source(block)).top_log_odds()
    return float(w[expit(odds).astype(block.dtype) == 1.0].sum())


def warn_of_certain_rows(scores: Scores, w: Float64Array) -> None:
    """Warn if more than half of the weight is on rows with a probability of exactly 1."""
    if scores.max_abs_logit <= LEAST_CERTAIN:
        return
    if sum_rows(partial(weight_of_certain, scores=scores), scores.source, w) > w.sum() / 2:
        warnings.warn(
            "HistogramBinning: half of the probabilities round to 0 or 1, so that their order is "
            "lost: pass strategy='quantile', which keeps their order.",
            ConvergenceWarning,
            stacklevel=4,
        )


class HistogramBinning(ColumnwiseCalibrator):
    r"""Replace each probability by the observed frequency of the class in its bin.

    Histogram binning is for probabilities that must be counted frequencies, if a small number of
    distinct values is enough. It needs many rows.

    For class k, with bins :math:`b` of its calibration scores :math:`p_{ik}` and weights
    :math:`w_i`,

    .. math:: q_{ik} = \mathrm{acc}_{k b(i)}, \qquad
              \mathrm{acc}_{kb} = \frac{\sum_{i \in b} w_i \mathbf{1}[y_i = k]}
                                       {\sum_{i \in b} w_i} ,

    after which each row is divided by its sum; a row of zeros becomes uniform. Fit and
    prediction use the same edges and close the same side of each bin.

    Parameters
    ----------
    n_bins : int or "cube_root", default=15
        Number of bins; "cube_root": the cube root of the number of rows, rounded up.
    strategy : {"uniform", "quantile"}, default="uniform"
        "uniform": bins of equal width, which include their right edge; 0 is in the first bin.
        "quantile": bins of equal weight, whose inner edges are calibration scores; tied scores
        share a bin, and a score equal to an edge belongs to the bin above the edge. Edges are
        rounded to the type of the scores, so that a float32 score is in the same bin as the same
        score in float64.
    class_conditional : bool, default=True
        Whether each class has its own function (with two classes: one, for the second class). False
        fits one function to the entries of all columns.
    n_bootstraps : int, default=0
        Above 0, bootstrap histogram binning: the number of resamples of the calibration rows. Each
        resample is binned with its own edges, and the predicted probabilities are averaged.
    random_state : int, RandomState instance or None, default=None
        Random numbers of the resamples.
    input : {"auto", "logits", "proba"}, default="auto"
        What the columns of `X` are. "auto" decides once, in ``fit``: rows that sum to 1 within
        0.001 are probabilities, others logits; rows of both kinds, or rows that all sum to 100,
        raise an error.
    classes : array-like of shape (K,), default=None
        Labels of the columns, sorted; needed if they cannot be inferred from `y`.

    Attributes
    ----------
    bin_edges_ : ndarray of shape (m, B + 1)
        Edges, a row for each function: K rows, or 1 for two classes or without `class_conditional`.
        B is `n_bins`; bootstrapped quantile bins have the edges of every resample. Always float64;
        for quantile bins of float32 scores, the lowest numbers that round to an edge. Log-odds for
        quantile bins of logits.
    bin_values_ : ndarray of shape (m, B)
        Calibrated probability of each bin; the mid-point of a bin without calibration rows.
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
        In ``fit``, with `class_conditional`, if a class has no row; with bins of equal width, if
        half of the rows have logits whose probabilities round to 0 or 1.

    See Also
    --------
    skcalib.IsotonicCalibrator : Bins chosen from the data so that the function never decreases.

    Notes
    -----
    For quantile bins of logits, the scores are log-odds, because the probabilities of large logits
    round to 1. A probability of 0 or 1 has log-odds of -1e38 or 1e38.

    Nixon et al. [3]_ mention bootstrap histogram binning but do not specify it, so that this method
    is defined here. A resample has as many rows as the sum of the weights, drawn with probabilities
    proportional to the weights.

    References
    ----------
    .. [1] B. Zadrozny and C. Elkan, "Obtaining calibrated probability estimates from decision
       trees and naive Bayesian classifiers", ICML 2001.
    .. [2] C. Guo, G. Pleiss, Y. Sun and K. Q. Weinberger, "On calibration of modern neural
       networks", ICML 2017.
    .. [3] J. Nixon, M. Dusenberry, G. Jerfel, T. Nguyen, J. Liu, L. Zhang and D. Tran,
       "Measuring calibration in deep learning", arXiv:1904.01685v2, 2020.

    Examples
    --------
    >>> from skcalib import HistogramBinning
    >>> p, y = [0.1, 0.2, 0.3, 0.7, 0.8, 0.9], [0, 1, 0, 1, 1, 1]
    >>> binning = HistogramBinning(n_bins=2).fit(p, y)
    >>> binning.predict_proba([0.25, 0.75]).round(3)
    array([[0.667, 0.333],
           [0.   , 1.   ]])
    """

    _paper = "Zadrozny and Elkan 2001; variants: Nixon et al. 2020"
    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        **ColumnwiseCalibrator._parameter_constraints,
        "n_bins": [Interval(Integral, 1, COUNT_HIGH, closed="both"), StrOptions({"cube_root"})],
        "strategy": [StrOptions({"uniform", "quantile"})],
        "class_conditional": ["boolean"],
        "n_bootstraps": [Interval(Integral, 0, COUNT_HIGH, closed="both")],
        "random_state": ["random_state"],
    }

    def __init__(
        self,
        *,
        n_bins: NumberOfBins = 15,
        strategy: Literal["uniform", "quantile"] = "uniform",
        class_conditional: bool = True,
        n_bootstraps: int = 0,
        random_state: int | np.random.RandomState | None = None,
        input: str = "auto",
        classes: ArrayLike | None = None,
    ) -> None:
        super().__init__(input=input, classes=classes)
        self.n_bins = n_bins
        self.strategy = strategy
        self.class_conditional = class_conditional
        self.n_bootstraps = n_bootstraps
        self.random_state = random_state

    def _first_column(self, n_classes: int) -> int:
        return super()._first_column(n_classes) if self.class_conditional else 0

    @property
    def _takes_soft_hits(self) -> bool:  # type: ignore[override]
        # Rows with soft labels are split in two, but quantile bins and resampling need whole rows.
        return self.strategy == "uniform" and self.n_bootstraps == 0

    @property
    def _absent_class(self) -> str | None:  # type: ignore[override]
        return "0, except in empty bins" if self.class_conditional else None

    def _fit(self, scores: Scores, code: Intp, w: Float64Array) -> dict[str, Any]:
        if self.strategy == "uniform" and scores.kind == "logits":
            warn_of_certain_rows(scores, w)
        if self.n_bootstraps == 0:
            maps = self._fit_once(scores, code, w)
        else:
            random = check_seed(self.random_state)
            n_draws = max(1, round(w.sum()))
            draws = random.multinomial(n_draws, w / w.sum(), size=self.n_bootstraps)
            resampled = [self._fit_once(scores, code, draw.astype(np.float64)) for draw in draws]
            if self.strategy == "uniform":
                maps = StepMaps(
                    resampled[0].edges, np.mean([step.values for step in resampled], axis=0)
                )
            else:
                maps = average_steps(resampled)
        return {"bin_edges_": maps.edges, "bin_values_": maps.values}

    def _fit_once(self, scores: Scores, code: Intp, w: Float64Array) -> StepMaps:
        n_classes = scores.shape[1]
        first = self._first_column(n_classes)
        uniform = self.strategy == "uniform"
        number = number_of_bins(self.n_bins, w.sum())
        bins = Bins(number, "uniform" if uniform else "edges")
        if self.class_conditional:
            table = columns_table(scores, code, w, bins, first=first, confidence=False)
        else:
            table = pooled_table(scores, code, w, bins)
        edges = np.hstack([table.left, table.right[:, -1:]])
        proba = expit(edges) if not uniform and scores.kind == "logits" else edges
        middle = (proba[:, :-1] + proba[:, 1:]) / 2  # the value of an empty bin is its mid-point
        maps = StepMaps(edges, np.where(table.weight > 0, table.accuracy, middle))
        # New rows use the edges of the calibration scores, so that the bin of a new row does not
        # depend on the other rows of its batch.
        inner = bins.edges(scores.dtype)[1:-1] if uniform else maps.edges[:, 1:-1]
        if scores.dtype != np.float64:
            # If scores have a shorter type, such as float32, an edge of bins of equal width is
            # replaced by the largest float64 number that rounds to the edge, and an edge of
            # quantile bins by the smallest. So a float64 score gets the same bin as after rounding.
            end = np.inf if uniform else -np.inf
            beyond = np.nextafter(inner.astype(scores.dtype), scores.dtype.type(end))
            inner = np.nextafter((inner + beyond.astype(np.float64)) / 2, -end)
            inner = np.maximum(inner, maps.edges[0, 0])
        maps.edges[:, 1:-1] = inner
        return maps

    def _in_words(self) -> str:
        maps, bins = self.bin_values_.shape
        values = span(self.bin_values_)
        return f"{counted(maps, 'function')} with {counted(bins, 'bin')}: values {values}"

    def _plan(self) -> ColumnPlan:
        bins = Steps(self.bin_edges_[:, 1:-1], self.bin_values_)
        # A score at an edge belongs to the bin above if bins are quantiles, else to the bin below.
        # As in ``fit``, edges are rounded to the type of the scores.
        formula = partial(steps, reached=self.strategy == "quantile", rounded=True)
        read: Any = "ordered" if self.strategy == "quantile" else "proba"
        return self._column_plan(formula, {"map": bins}, read)
