"""Risk-coverage curves: the error rate of the rows with the highest scores."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple, Self

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike
from scipy.special import ndtri, xlogy

from skcalib._arrays.rowwise import Bools, Float64Array, FloatArray, is_unit
from skcalib._scores.scores import event_or_top
from skcalib._validation.keywords import check_flags, check_level
from skcalib._validation.rows import Predictions, check_predictions, is_whole
from skcalib.metrics._common import equals_text, interval_text, listed
from skcalib.metrics._curves.curves import exact_bounds


class RankedRows(NamedTuple):
    """Distinct scores, highest first, with the number of rows and errors at or above each score.

    ``rows`` is the number of these rows, ``wrong`` the number of wrong predictions among them, and
    ``share`` their fraction of all rows. Numbers are integers if the weights `are_counts`, and
    effective numbers if weights are relative.
    """

    scores: Float64Array
    rows: Float64Array
    wrong: Float64Array
    share: Float64Array
    are_counts: bool


def rank_rows(score: FloatArray, hit: Bools, w: Float64Array) -> RankedRows:
    """Sort rows by score, highest first, and count the rows and the wrong predictions.

    For relative weights, the effective number of rows is computed at each score, because weights
    may vary with the score.
    """
    order = np.argsort(score)[::-1]
    s, wrong = score[order], ~hit[order]
    # Of all rows with equal scores, only the last row is kept.
    last = np.flatnonzero(np.append(s[1:] != s[:-1], True))
    at = last if last.size < s.size else slice(None)
    if is_unit(w):
        W, M = np.add(last, 1.0, dtype=np.float64), np.cumsum(wrong, dtype=np.float64)[at]
    else:
        # Weights are raised to 1e-100 of the largest weight, because the squares of smaller weights
        # would be rounded to 0.
        w = np.maximum(w[order], 1e-100 * w.max())
        W, M = np.cumsum(w)[at], np.cumsum(w * wrong)[at]
    are_counts = is_whole(w)
    ratio = 1.0 if are_counts else W / np.cumsum(w * w)[at]
    return RankedRows(s[at].astype(np.float64), W * ratio, M * ratio, W / W[-1], are_counts)


def rank_predictions(predictions: Predictions) -> RankedRows:
    """Sort rows by the probability of the event, or of the top label if there is no event."""
    predictions = predictions.as_classes()
    return rank_rows(*event_or_top(predictions), predictions.w)


def read_ranked(
    caller: str, y_true: Any, y_proba: Any, sample_weight: Any, labels: Any, pos_label: Any
) -> RankedRows:
    """Check predictions, and sort their rows by score."""
    rows = check_predictions(y_true, y_proba, sample_weight, labels, pos_label, caller=caller)
    return rank_predictions(rows)


def area_of(ranked: RankedRows, level: float = 0.95) -> tuple[float, float, float, float]:
    """Return the AURC, both ends of its interval (influence function), and the excess AURC."""
    a, n = ranked.share, float(ranked.rows[-1])
    b = np.append(0.0, a[:-1])
    size, mean_risk = a - b, ranked.wrong / ranked.rows
    some = np.where(size > 0, size, 1.0)  # avoids a division by 0 for rows of negligible weight
    # `risk` is the error rate of the rows with each distinct score.
    risk = np.diff(mean_risk * a, prepend=0.0) / some
    mean_log = np.diff(a - xlogy(a, a), prepend=0.0) / some
    area = float(size @ (risk * mean_log))
    steps = np.log(a / np.where(b > 0, b, a))
    after = np.append(np.cumsum((risk * steps)[::-1])[::-1][1:], 0.0)
    # `base` is the influence of a correct prediction on the AURC. The influence of a wrong
    # prediction is larger by `mean_log`.
    base = -after - risk * (1 - b / some * steps)
    mean = float(size @ (risk * mean_log + base))
    square = float(size @ (risk * (mean_log + base) ** 2 + (1 - risk) * base**2))
    # The interval assumes half an additional error at a random rank, which adds 1 / 2n to the area
    # and 1 / n^2 to the variance. So the interval has a positive length even if all predictions are
    # correct.
    centre = area + 0.5 / n
    deviation = np.sqrt(max(square - mean**2, 0.0) / n + 1 / n**2)
    factor = float(np.exp(ndtri((1 + level) / 2) * deviation / centre))
    right = max(1.0 - float(mean_risk[-1]), 0.0)
    excess = max(area - (1 - right + float(xlogy(right, right))), 0.0)
    return area, min(centre / factor, area), min(centre * factor, 1.0), excess


@dataclass(frozen=True, eq=False, repr=False)
class RiskCoverageCurve:
    """Result of `risk_coverage_curve`: a point for each distinct score, the highest first."""

    aurc: float
    aurc_low: float
    aurc_high: float
    excess_aurc: float
    confidence_level: float
    _ranked: RankedRows

    @classmethod
    def of(cls, ranked: RankedRows, level: float) -> Self:
        """Create the risk-coverage curve from rows that are sorted by score."""
        return cls(*area_of(ranked, level), level, ranked)

    coverage = property(lambda self: self._ranked.share, doc="Fraction of accepted rows.")
    risk = property(lambda self: self._ranked.wrong / self._ranked.rows, doc="Error rates.")
    thresholds = property(lambda self: self._ranked.scores, doc="The distinct scores.")
    low = property(lambda self: self._ends[0], doc="Lower ends of the intervals of the risk.")
    high = property(lambda self: self._ends[1], doc="Upper ends of the intervals of the risk.")

    @cached_property
    def _ends(self) -> tuple[Float64Array, Float64Array]:
        # Intervals are computed on first use, because many of them take much longer than the curve.
        return self._ends_at(slice(None))

    def _ends_at(self, points: Any) -> tuple[Float64Array, Float64Array]:
        rows, wrong = self._ranked.rows, self._ranked.wrong
        return exact_bounds(wrong[points], rows[points], (1 - self.confidence_level) / 2)

    @property
    def frame(self) -> pd.DataFrame:
        """Points of the curve as a table: a column for each array and a row for each point."""
        names = ("coverage", "risk", "thresholds", "low", "high")
        return pd.DataFrame({name: getattr(self, name) for name in names})

    def __repr__(self) -> str:
        area = f"{equals_text(self.aurc)}{interval_text(self.aurc_low, self.aurc_high)}"
        return (
            f"RiskCoverageCurve({self.coverage.size} points, aurc{area}, excess_aurc"
            f"{equals_text(self.excess_aurc)}, confidence_level={self.confidence_level:g})"
        )

    def _repr_html_(self) -> str:
        places = np.linspace(0, self.coverage.size - 1, 7).round().astype(np.intp)
        some = self.frame.iloc[np.unique(places)]
        return f"<p>{self!r}</p>{some.to_html(float_format='{:.3g}'.format, border=0)}"


@listed("El-Yaniv and Wiener 2010; Geifman and El-Yaniv 2017")
def risk_coverage_curve(
    y_true: ArrayLike,
    y_proba: ArrayLike,
    *,
    confidence_level: float = 0.95,
    pos_label: Any = None,
    sample_weight: ArrayLike | None = None,
    labels: ArrayLike | None = None,
) -> RiskCoverageCurve:
    r"""Error rate of the accepted rows (highest scores), as a function of the fraction accepted.

    .. math:: \mathrm{risk}(t) = P(\text{wrong} \mid s \ge t), \qquad
              \mathrm{coverage}(t) = P(s \ge t)

    Parameters
    ----------
    y_true, y_proba, pos_label, labels
        As in `selective_threshold`. The score s is the confidence, or the probability of an event.
    sample_weight : array-like of shape (n,), default=None
        Non-negative weights. Integers are counts: 2 is two copies of the row. Of floats only the
        ratios matter (see "Weights" under "Valid input" in the user guide). 0 is the row's absence.
    confidence_level : float in (0, 1), default=0.95
        Level of the intervals.

    Returns
    -------
    curve : RiskCoverageCurve
        Arrays of shape (g,) with a point for each distinct score, the highest first: ``coverage``,
        ``risk``, ``thresholds``, and pointwise Clopper-Pearson intervals from ``low`` to ``high``.
        ``frame`` contains these arrays as columns. ``aurc`` is the area, ``aurc_low`` and
        ``aurc_high`` are the ends of its interval, and ``excess_aurc`` is the area minus that of
        the best order of these rows.

    Raises
    ------
    ValueError
        If probabilities, labels, weights or `confidence_level` are invalid.

    See Also
    --------
    selective_threshold : A threshold with a guarantee, unlike these pointwise intervals.
    skcalib.RiskCoverageDisplay : A plot of the curve.

    References
    ----------
    El-Yaniv, Wiener (2010). On the foundations of noise-free selective classification. JMLR 11.

    Geifman, El-Yaniv (2017). Selective classification for deep neural networks. NeurIPS.

    Examples
    --------
    >>> from skcalib.metrics import risk_coverage_curve
    >>> curve = risk_coverage_curve([1, 1, 0, 1, 0], [0.9, 0.8, 0.7, 0.6, 0.2])
    >>> curve.frame[["coverage", "risk", "thresholds"]].round(2).to_numpy().tolist()
    [[0.2, 0.0, 0.9], [0.4, 0.0, 0.8], [0.6, 0.33, 0.7], [0.8, 0.25, 0.6], [1.0, 0.4, 0.2]]
    """
    check_level(confidence_level)
    ranked = read_ranked("risk_coverage_curve", y_true, y_proba, sample_weight, labels, pos_label)
    return RiskCoverageCurve.of(ranked, confidence_level)


@listed("Geifman, Uziel and El-Yaniv 2019", scorer=True, error=False, has_event=False)
def aurc_loss(
    y_true: ArrayLike,
    y_proba: ArrayLike,
    *,
    excess: bool = False,
    pos_label: Any = None,
    sample_weight: ArrayLike | None = None,
    labels: ArrayLike | None = None,
) -> float:
    r"""Area under the risk-coverage curve (AURC): whether wrong predictions have low scores.

    .. math:: \mathrm{AURC} = \int_0^1 \mathrm{risk}(c)\, dc
              = \sum_b r_b \big(g(a_b) - g(a_{b-1})\big), \qquad g(u) = u - u \log u

    where :math:`r_b` is the risk of the rows with the b-th highest distinct score, and :math:`a_b`
    the coverage at this score. Rows with equal scores are in random order. The AURC does not
    measure calibration.

    Parameters
    ----------
    y_true, y_proba, pos_label, sample_weight, labels
        As in `risk_coverage_curve`.
    excess : bool, default=False
        Whether to subtract the area of the best order of the same rows (E-AURC), which is
        :math:`e + (1 - e) \log(1 - e)` for an error rate of e.

    Returns
    -------
    loss : float
        In [0, 1]; 0 is best.

    Raises
    ------
    ValueError
        If probabilities, labels, weights or `excess` are invalid.

    References
    ----------
    Geifman, Uziel, El-Yaniv (2019). Bias-reduced uncertainty estimation for deep neural
    classifiers. ICLR.

    Zhou, Van Landeghem, Popordanoska, Blaschko (2025). A novel characterization of the population
    area under the risk coverage curve (AURC) and rates of finite sample estimators. ICML.

    Examples
    --------
    >>> from skcalib.metrics import aurc_loss
    >>> y, p = [1, 1, 0, 1, 0], [0.9, 0.8, 0.7, 0.6, 0.2]
    >>> round(aurc_loss(y, p), 4), round(aurc_loss(y, p, excess=True), 4)
    (0.1615, 0.068)
    """
    check_flags(excess=excess)
    ranked = read_ranked("aurc_loss", y_true, y_proba, sample_weight, labels, pos_label)
    area, _, _, over_best = area_of(ranked)
    return over_best if excess else area
