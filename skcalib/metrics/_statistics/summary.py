r"""The statistics of one event on one page.

The area under the ROC curve has the interval of Newcombe 2006 (method 5).
The area A is the share of pairs of an event and a non-event in which the event has the larger
probability; ties count half. With :math:`n_1` events, :math:`n_0` non-events and
:math:`m = (n_0 + n_1) / 2 - 1`, the interval contains all areas t with

.. math:: (A - t)^2 \le z^2 \frac{t (1 - t)}{n_0 n_1}
          \Big(1 + m \frac{1 - t}{2 - t} + m \frac{t}{1 + t}\Big) .

The variance is that of a model, which few events allow: a variance estimated from ten events makes
95 % intervals that contain the truth in 90 % of samples.
"""

from __future__ import annotations

from dataclasses import dataclass
from html import escape
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike
from scipy.optimize import brentq
from scipy.special import expit, ndtri

from skcalib._arrays.types import Float64Array, FloatArray
from skcalib._validation.keywords import check_level
from skcalib._validation.predictions import check_predictions
from skcalib.metrics._clusters import design_effect, in_units
from skcalib.metrics._curves.integrated_index import NAMES, distance_intervals
from skcalib.metrics._event import EventRows, as_binary, event_log_odds, event_rows
from skcalib.metrics._intervals.intervals import NULL_SETS, interval_of
from skcalib.metrics._intervals.signs import clusters_text
from skcalib.metrics._intervals.truths import calibrated
from skcalib.metrics._listed import listed
from skcalib.metrics._printing import SMALLEST, p_text
from skcalib.metrics._resampling import Evaluation, in_copies
from skcalib.metrics._statistics.decomposition import score_decomposition
from skcalib.metrics._statistics.hosmer_lemeshow import hosmer_lemeshow_test
from skcalib.metrics._statistics.intercept_slope import in_the_large, recalibration
from skcalib.metrics._statistics.observed_expected import ratio_interval
from skcalib.metrics._statistics.score_parts import event_scores
from skcalib.metrics._statistics.spiegelhalter import spiegelhalter_test
from skcalib.metrics._top_label import expected_calibration_error

COLUMNS = ("value", "low", "high", "pvalue", "debiased")
N_BINS = 10
# The smallest p-value of those that are found by drawing labels.
FLOORS = dict.fromkeys(("ece", *NAMES), 1 / (1 + NULL_SETS))
# A statistic: its value, the ends of its interval, its p-value and its debiased value, as many as
# there are.
Line = tuple[float, ...]


@dataclass(frozen=True, repr=False)
class CalibrationSummary:
    """What `calibration_summary` returns.

    Attributes
    ----------
    frame : DataFrame
        A row for each statistic, with the columns ``value``, ``low``, ``high``, ``pvalue`` and
        ``debiased``, an error less what chance adds to it, to which the interval belongs; NaN
        stands for what there is not.
    notes : list of str
        Why a value is missing, and as what the slope reads probabilities of 0 and 1.
    """

    frame: pd.DataFrame
    notes: list[str]

    def _texts(self) -> pd.DataFrame:
        """Return the frame as it is printed."""
        value, low, high, pvalue, debiased = (self.frame[name] for name in COLUMNS)
        numbers = {
            "": [f"{x:.4g}" if abs(x) < 1e4 else f"{x:,.0f}" for x in value],
            "debiased": ["" if np.isnan(x) else f"{x:.4g}" for x in debiased],
            "interval": [
                "" if np.isnan(a) else f"{a:.4g} to {b:.4g}" for a, b in zip(low, high, strict=True)
            ],
            "pvalue": [
                "" if np.isnan(x) else p_text(x, FLOORS.get(str(name), SMALLEST))
                for name, x in pvalue.items()
            ],
        }
        return pd.DataFrame(numbers, index=self.frame.index)

    def __repr__(self) -> str:
        lines = self._texts().to_string().splitlines()
        return "\n".join([*(line.rstrip() for line in lines), *self.notes])

    def _repr_html_(self) -> str:
        notes = "".join(f"<p>{escape(note)}</p>" for note in self.notes)
        return f"{self._texts().to_html(border=0)}{notes}"


def recalibration_lines(
    odds: Float64Array, rows: EventRows, level: float, notes: list[str]
) -> dict[str, Line]:
    """Return calibration-in-the-large, intercept, slope and their test."""
    p, hit, w, _ = rows
    if ends := [end for end in (0, 1) if (p == end).any()]:
        n = float(w[np.isin(p, ends)].sum())
        some = f"{n:,.6g} row{'s' * (n != 1)} of probability {' or '.join(map(str, ends))}"
        values = (f"{expit(odds[p == end][0]):.3g}" for end in ends)
        notes.append(f"slope: {some}, read as {' and '.join(values)}.")
    lines: dict[str, Line] = dict.fromkeys(("in_the_large", "intercept", "slope", "cox"), (np.nan,))
    try:
        line = recalibration(odds, rows, level)
    except ValueError as reason:
        notes.append(f"intercept, slope: {reason}")
        if hit.any() and not hit.all():
            lines["in_the_large"] = in_the_large(odds, rows, level)[:3]
        return lines
    cox = line.statistic, np.nan, np.nan, line.pvalue
    return {"in_the_large": line[8:11], "intercept": line[4:7], "slope": line[:3], "cox": cox}


def auc_interval(rows: EventRows, level: float) -> tuple[float, float, float]:
    """Return area, low and high; NaN without events or without non-events."""
    p, hit, w, _ = rows
    _, place = np.unique(p, return_inverse=True)
    events, others = np.bincount(place, w * hit), np.bincount(place, w * ~hit)
    sizes = np.array([events.sum(), others.sum()])
    if not sizes.all():
        return np.nan, np.nan, np.nan
    below = np.cumsum(others) - others / 2
    area = min(float(events @ below) / float(sizes.prod()), 1.0)  # rounding
    # How far the share of the other class on the right side is from the area, as a row's share.
    above = sizes[0] - np.cumsum(events) + events / 2
    away = np.where(hit, below[place] / sizes[1], above[place] / sizes[0]) - area
    fewer = design_effect(in_units(rows), away / np.where(hit, *sizes), level)
    end: Any = (*(sizes / fewer).tolist(), float(ndtri((1 + level) / 2)))
    return area, lowest_area(area, *end), 1 - lowest_area(1 - area, *end)


def lowest_area(area: float, n_events: float, n_others: float, z: float) -> float:
    """Return the smallest area of the interval."""
    if area == 0:
        return 0.0
    m = max((n_events + n_others) / 2 - 1, 0.0)

    def beyond(t: float) -> float:
        # Both sides are divided by 1 - t: otherwise an area of 1 would be a root.
        away = (area - t) ** 2 / (1 - t) if t < 1 else 0.0
        factor = 1 + m * (1 - t) / (2 - t) + m * t / (1 + t)
        return away - z * z * t * factor / (n_events * n_others)

    return float(brentq(beyond, 0.0, area, xtol=1e-14))


def score_lines(checked: Any, rows: EventRows, level: float, notes: list[str]) -> dict[str, Line]:
    """Return the Brier score with its parts, the log loss, and the AUC."""
    parts = score_decomposition(checked.code, checked, confidence_level=level)
    area = auc_interval(rows, level)
    loss = event_scores(rows.p, rows.hit, "log")
    if np.isnan(area[0]):
        notes.append(
            "scaled_brier_score, auc, interval of brier_score: they need rows with and without the "
            "event."
        )
    return {
        "brier_score": (parts.score, parts.score_low, parts.score_high),
        "miscalibration": (parts.miscalibration,),
        "discrimination": (parts.discrimination,),
        "uncertainty": (parts.uncertainty,),
        "scaled_brier_score": (parts.scaled_score,),
        "log_loss": (float(np.average(loss, weights=rows.w)),),
        "auc": area,
    }


def measured_lines(
    checked: Any, level: float, random_state: Any, smooth: FloatArray
) -> dict[str, Line]:
    """Return the error of tenths of the rows, the distances of the curve, and the tests.

    All take `checked` predictions; `smooth` are the calibrated ones.
    """
    keywords = {"n_bins": N_BINS, "strategy": "quantile"}
    ece = Evaluation(expected_calibration_error, keywords, column=False)
    # Each by itself, so that the numbers are those of its own function.
    error = interval_of(ece, checked, level=level, random_state=random_state, smooth=smooth)
    four = distance_intervals(checked, level, random_state, smooth)
    four_lines = four.estimate, four.low, four.high, four.p_value, four.debiased
    deciles = hosmer_lemeshow_test(checked.code, checked, n_bins=N_BINS)
    brier = spiegelhalter_test(checked.code, checked)
    pvalue = deciles.pvalue if checked.cluster is None else np.nan
    return {
        "ece": (error.estimate, error.low, error.high, error.p_value, error.debiased),
        **{name: tuple(line) for name, line in zip(NAMES, np.transpose(four_lines), strict=True)},
        "hosmer_lemeshow": (deciles.statistic, np.nan, np.nan, pvalue),
        "spiegelhalter": (brier.statistic, np.nan, np.nan, brier.pvalue),
    }


@listed("Harrell 2015")
def calibration_summary(
    y_true: ArrayLike,
    y_proba: ArrayLike,
    *,
    confidence_level: float = 0.95,
    pos_label: Any = None,
    sample_weight: ArrayLike | None = None,
    labels: ArrayLike | None = None,
    clusters: Any = None,
    random_state: Any = None,
) -> CalibrationSummary:
    r"""Table of all statistics of one event: calibration, discrimination, tests.

    The counterpart of `val.prob` of R's package rms.

    Parameters
    ----------
    y_true : array-like of shape (n,)
        Labels.
    y_proba : array-like of shape (n, K), (n,) or (n, 1)
        Class probabilities, a column for each of the sorted labels, or of `labels` in their
        order; a frame whose columns are named by the labels is read by name. One or two columns
        give the probability of one event, `pos_label`, and are measured as that.
    confidence_level : float in (0, 1), default=0.95
        Share of intervals that contain the true value, in the long run.
    pos_label : label, default=None
        The event whose probability is measured. None means 1 or True for labels {0, 1}, {-1, 1} or
        booleans; of other labels the second of two columns, while one column needs it. With more
        columns, None means the top label: the event that the predicted class is right.
    sample_weight : array-like of shape (n,), default=None
        Non-negative weights. Integers are counts: 2 is two copies of the row. Of floats only the
        ratios matter (see "Weights" under "Valid input" in the user guide). 0 is the row's absence.
    labels : array-like of shape (K,), default=None
        Labels of the columns, in their order; needed if they cannot be inferred from `y_true`.
    clusters : array-like of shape (n,), default=None
        Label of each row's cluster, such as the hospital of a patient: rows of a cluster were drawn
        together, and may go wrong together. At least 3; see "Rows that belong together" in the user
        guide. None means that rows are independent.
    random_state : int, RandomState instance or None, default=None
        Seed of the intervals of the ECE and of the distances.

    Returns
    -------
    summary : CalibrationSummary
        Printed as a table. Its `frame` has the columns ``value``, ``low``, ``high`` and ``pvalue``
        and the rows

        * ``rows``, ``events``, ``mean_probability``: sum of the weights, that of rows with the
          event, mean of p;
        * ``observed_expected``: see `observed_expected_ratio`;
        * ``in_the_large``, ``intercept``, ``slope``, and ``cox``, the test of intercept 0 and slope
          1: see `calibration_intercept_slope`;
        * ``ece``: the expected calibration error of 10 bins of equal weight, with its interval and
          p-value by `calibration_interval`;
        * ``ici``, ``e50``, ``e90``, ``emax``: mean, median, 90th percentile and largest distance of
          the smooth curve from the diagonal, likewise: see `integrated_calibration_index`;
        * ``brier_score``, which is ``miscalibration - discrimination + uncertainty``, with its
          interval, and ``scaled_brier_score``, 1 minus its ratio to the uncertainty: see
          `score_decomposition`;
        * ``auc``: area under the ROC curve, the C statistic;
        * ``hosmer_lemeshow`` and ``spiegelhalter``: their statistics and p-values; with `clusters`,
          the former has none.

        A statistic that does not exist is NaN, and `notes` says why.

    Raises
    ------
    ValueError
        If probabilities, labels, weights or keywords are invalid.

    See Also
    --------
    reliability_table : The bins behind a reliability diagram.

    Notes
    -----
    The interval of the AUC is that of Newcombe (2006), method 5, which covers the truth with ten
    events too (``python -m benchmarks.coverage statistics``). With `clusters` or relative weights,
    rows count as fewer, by the design effect of the share of the other class that a row is on the
    right side of.

    References
    ----------
    Harrell (2015). Regression Modeling Strategies, 2nd edition. Springer.

    Newcombe (2006). Confidence intervals for an effect size measure based on the Mann-Whitney
    statistic, part 2. Statistics in Medicine 25.

    Examples
    --------
    >>> import numpy as np
    >>> from skcalib.metrics import calibration_summary
    >>> rng = np.random.default_rng(0)
    >>> f = rng.normal(size=2000) - 2
    >>> y = rng.random(2000) < 1 / (1 + np.exp(-f))
    >>> summary = calibration_summary(y, 1 / (1 + np.exp(-1.5 * f)), random_state=0)
    >>> summary  # doctest: +NORMALIZE_WHITESPACE
                                 debiased              interval     pvalue
    rows                    2000
    events                   300
    mean_probability     0.09354
    observed_expected      1.604                 1.451 to 1.772
    in_the_large          0.6693               0.5213 to 0.8174
    intercept            0.07104              -0.1846 to 0.3267
    slope                 0.7085               0.6067 to 0.8103
    cox                    108.4                                 2.938e-24
    ece                  0.05646  0.05673    0.04155 to 0.07097   < 0.0034
    ici                  0.05671  0.05653    0.04123 to 0.07085   < 0.0034
    e50                   0.0604  0.06198    0.04469 to 0.07927   < 0.0034
    e90                  0.08588  0.08397     0.04975 to 0.1159   < 0.0034
    emax                 0.08757  0.06573           0 to 0.2377     0.2292
    brier_score           0.1151               0.1041 to 0.1269
    miscalibration      0.006112
    discrimination       0.01853
    uncertainty           0.1275
    scaled_brier_score   0.09736
    log_loss               0.3922
    auc                   0.7551               0.7242 to 0.7833
    hosmer_lemeshow        183.7                                 4.011e-34
    spiegelhalter          11.39                                 4.525e-30
    >>> round(float(summary.frame.loc["slope", "value"]), 2)
    0.71
    """
    check_level(confidence_level)
    arguments = y_true, y_proba, sample_weight, labels, pos_label
    given = check_predictions(*arguments, caller="calibration_summary", clusters=clusters)
    given = in_copies(given)
    odds, rows, predictions = event_log_odds(given), event_rows(given), as_binary(given)
    total, level = float(given.w.sum()), confidence_level
    notes: list[str] = []
    lines: dict[str, Line] = {
        "rows": (total,),
        "events": (float(given.w @ rows.hit),),
        "mean_probability": (float(given.w @ rows.p) / total,),
        "observed_expected": ratio_interval(rows, level) if rows.p.any() else (np.nan,),
    }
    if not rows.p.any():
        notes.append("observed_expected: y_proba is 0 in every row, so that no event is expected.")
    with np.errstate(under="ignore"):
        lines |= recalibration_lines(odds, rows, level, notes)
        smooth = calibrated(predictions)
        tests = measured_lines(predictions, level, random_state, smooth)
        lines |= {name: tests.pop(name) for name in ("ece", *NAMES)}
        lines |= score_lines(predictions, rows, level, notes) | tests
    if given.cluster is not None:
        notes.append(f"intervals: {100 * level:g} %, {clusters_text(given.n_clusters)}.")
        notes.append("hosmer_lemeshow: no p-value, because the test takes rows as independent.")
    table = {name: [*line, *[np.nan] * (len(COLUMNS) - len(line))] for name, line in lines.items()}
    frame = pd.DataFrame.from_dict(table, orient="index", columns=list(COLUMNS), dtype=float)
    return CalibrationSummary(frame, notes)
