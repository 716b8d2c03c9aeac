r"""Net benefit of acting on an event at or above a threshold, with intervals.

Both net benefits are :math:`x / n - o\, y / n` with counts x and y of one multinomial sample. Their
interval joins Wilson's limits of both shares (MOVER), with the correlation of multinomial shares,
:math:`r = -\sqrt{a b / ((1 - a)(1 - b))}`.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike

from skcalib._arrays.types import Float64Array
from skcalib._scores.top_label import event_or_top
from skcalib._validation.keywords import check_level, shown
from skcalib._validation.predictions import check_predictions
from skcalib.metrics._curves.bands import wilson_interval
from skcalib.metrics._listed import listed


def difference(
    a: Float64Array, b: Float64Array, odds: Float64Array, n: float, level: float
) -> tuple[Float64Array, Float64Array, Float64Array]:
    """Return ``a - odds * b`` of two shares of n rows, and the ends of its interval."""
    (a_low, a_high), (b_low, b_high) = (wilson_interval(x, n, level) for x in (a, b))
    inner = (a > 0) & (a < 1) & (b > 0) & (b < 1)
    spread = np.where(inner, (1 - a) * (1 - b), 1.0)
    r = np.where(inner, -np.sqrt(a * b / spread), 0.0)

    def distance(of_a: Float64Array, of_b: Float64Array) -> Float64Array:
        square = of_a**2 + (odds * of_b) ** 2 - 2 * r * of_a * odds * of_b
        return np.sqrt(np.maximum(square, 0.0))

    value = a - odds * b
    return value, value - distance(a - a_low, b_high - b), value + distance(a_high - a, b - b_low)


@listed("Vickers and Elkin 2006; Zou and Donner 2008")
def net_benefit(
    y_true: ArrayLike,
    y_proba: ArrayLike,
    thresholds: ArrayLike,
    *,
    confidence_level: float = 0.95,
    pos_label: Any = None,
    sample_weight: ArrayLike | None = None,
    labels: ArrayLike | None = None,
) -> pd.DataFrame:
    r"""Net benefit of acting where the probability of an event is at or above a threshold.

    .. math:: \mathrm{NB}(t) = \frac{\mathrm{TP}}{n} - \frac{t}{1 - t} \frac{\mathrm{FP}}{n}, \qquad
              \mathrm{NB}(t) - \mathrm{NB}_{\text{all}}(t)
              = \frac{t}{1 - t} \frac{\mathrm{TN}}{n} - \frac{\mathrm{FN}}{n}

    A threshold t says that a miss costs (1 - t) / t times as much as a false alarm. The unit is
    true positives per row. A model is useful at t if it is above 0, which is acting on no row, and
    above acting on all rows.

    Parameters
    ----------
    y_true : array-like of shape (n,)
        Labels.
    y_proba : array-like of shape (n, K), (n,) or (n, 1)
        Class probabilities, a column for each of the sorted labels, or of `labels` in their
        order; a frame whose columns are named by the labels is read by name. One or two columns
        give the probability of one event, `pos_label`.
    thresholds : float or array-like of shape (m,)
        Probabilities in [0, 1) at or above which one acts. At 0 one acts on all rows.
    confidence_level : float in (0, 1), default=0.95
        Level of the intervals, each of one threshold by itself.
    pos_label : label, default=None
        The event. None means 1 or True for labels {0, 1}, {-1, 1} or booleans; of other labels the
        second of two columns. One column of other labels, and more columns, need it.
    sample_weight : array-like of shape (n,), default=None
        Non-negative weights. Integers are counts: 2 is two copies of the row. Of floats only the
        ratios matter (see "Weights" under "Valid input" in the user guide). 0 is the row's absence.
    labels : array-like of shape (K,), default=None
        Labels of the columns, in their order; needed if they cannot be inferred from `y_true`.

    Returns
    -------
    frame : DataFrame
        A row for each threshold: ``threshold``; ``net_benefit``, ``low``, ``high``; and the gain
        over acting on all rows, ``gain_over_all``, ``gain_low``, ``gain_high``.

    Raises
    ------
    ValueError
        If probabilities, labels, weights or keywords are invalid, or there are more than two
        columns and no `pos_label`.

    See Also
    --------
    skcalib.DecisionCurveDisplay : A plot of it.
    selective_threshold : A threshold with a guaranteed precision.

    References
    ----------
    Vickers, Elkin (2006). Decision curve analysis: a novel method for evaluating prediction models.
    Medical Decision Making 26.

    Zou, Donner (2008). Construction of confidence limits about effect measures: a general approach.
    Statistics in Medicine 27.

    Examples
    --------
    >>> import numpy as np
    >>> from skcalib.metrics import net_benefit
    >>> rng = np.random.default_rng(0)
    >>> p = rng.beta(1, 4, size=1000)
    >>> frame = net_benefit(rng.random(1000) < p, p, [0.1, 0.3])
    >>> frame[["threshold", "net_benefit", "low", "high"]].round(3).to_numpy().tolist()
    [[0.1, 0.149, 0.123, 0.177], [0.3, 0.06, 0.038, 0.083]]
    """
    check_level(confidence_level)
    try:
        t = np.atleast_1d(np.asarray(thresholds, dtype=np.float64))
    except (TypeError, ValueError):  # no numbers
        t = np.array([np.nan])
    if t.ndim != 1 or not ((t >= 0) & (t < 1)).all():
        at_one = ": at 1 a false alarm costs infinitely more than a miss" if (t == 1).any() else ""
        raise ValueError(
            "thresholds must be numbers in [0, 1), such as [0.1, 0.2]; got "
            f"{shown(thresholds)}{at_one}."
        )
    given = y_true, y_proba, sample_weight, labels, pos_label
    predictions = check_predictions(*given, caller="net_benefit")
    if predictions.event is None:
        raise ValueError(
            "net benefit is that of one event: pass pos_label= with its label, one of "
            f"{predictions.classes.tolist()}."
        )
    (p, hit), w = event_or_top(predictions), predictions.w
    order, n = np.argsort(p), float(w.sum())
    below = np.searchsorted(p[order], t.astype(p.dtype))  # 0.7 of float32 is at 0.7
    counts = [np.append(0.0, np.cumsum((w * each)[order])) / n for each in (hit, ~hit)]
    (missed, spared), (events, others) = (x[below] for x in counts), (x[-1] for x in counts)
    odds = t / (1 - t)
    model = difference(events - missed, others - spared, odds, n, confidence_level)
    lost = difference(missed, spared, odds, n, confidence_level)
    gain, high, low = (np.where(t > 0, -each, 0.0) for each in lost)  # at 0 one acts on all rows
    names = ("threshold", "net_benefit", "low", "high", "gain_over_all", "gain_low", "gain_high")
    return pd.DataFrame(dict(zip(names, (t, *model, gain, low, high), strict=True)))
