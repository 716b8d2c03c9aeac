"""Monitor of calibration over time, which tests the predicted probabilities by betting."""

from __future__ import annotations

import re
import warnings
from html import escape
from numbers import Integral, Real
from typing import Any, ClassVar, NamedTuple, Self

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike, NDArray
from scipy.special import logit
from sklearn.base import BaseEstimator
from sklearn.exceptions import NotFittedError
from sklearn.utils._param_validation import Interval

from skcalib.extending import ALL, Float64Array, read_groups
from skcalib.extending import InnerPredictions as Predictions
from skcalib.extending import check_inner_predictions as check_predictions

# Rounding of predictions: the interval of probabilities that a predicted probability may represent.
#
# A predicted p represents the interval :math:`[p - d/2, p + d/2]`. The width d is :math:`10^{-k}`
# if all scores so far have k <= 4 decimals, else 0. If d is 0, an exact 0 represents
# :math:`[0, e/2]` and an exact 1 represents :math:`[1 - e/2, 1]`. Here e is the smallest distance
# of the other scores so far from 0 or from 1, at most 0.1.
#
# Intervals depend only on scores, not on labels, and can only shrink from batch to batch.


MOST_PLACES = 4
# Largest rounding error of a decimal number that is stored in float32.
ROUNDING = 1e-7
# Upper bound of e, the smallest distance of the other scores from 0 or from 1.
FARTHEST = 0.1


class Resolution(NamedTuple):
    """Number of decimals of all probabilities so far, and their least distances from 0 and 1.

    ``places`` is the number of decimals, 5 for more than 4. ``from_0`` and ``from_1`` are the
    smallest distances from 0 and from 1 of the scores between 0 and 1.
    """

    places: int = 1
    from_0: float = FARTHEST
    from_1: float = FARTHEST

    def add_batch(self, P: Float64Array, event: int | None) -> Resolution:
        """Update the resolution by a batch of probabilities, where NaN means a masked class.

        Distances from 0 and 1 are measured for the event, or for all classes.
        """
        places = self.places
        while places <= MOST_PLACES and (np.abs(P - P.round(places)) > ROUNDING).any():
            places += 1
        p = P if event is None else P[:, event]
        inner = p[(p > 0) & (p < 1)]
        from_0, from_1 = inner.min(initial=self.from_0), (1 - inner).min(initial=self.from_1)
        return Resolution(places, float(from_0), float(from_1))

    def intervals(self, p: Float64Array) -> Float64Array:
        """Return the log-odds of probabilities and of the ends of their rounding intervals.

        The last row is 1 for rounded probabilities of 0 and 1, and 0 for others. Log-odds of 0 and
        1 are infinite, so that bets that multiply log-odds ignore such probabilities.
        """
        step = 10.0**-self.places if self.places <= MOST_PLACES else 0.0
        end_0, end_1 = (step or self.from_0) / 2, 1 - (step or self.from_1) / 2
        low, high = p - step / 2, p + step / 2
        high[p == 0], low[p == 1] = end_0, end_1
        odds = logit(np.clip([np.clip(p, end_0, end_1), low, high], 0.0, 1.0))
        return np.vstack([odds, ((p == 0) | (p == 1)) & (step > 0)])


# Bets against the predicted probabilities, batch by batch.
#
# An event has predicted log-odds :math:`z_i` and outcomes :math:`y_i`. A predicted probability
# represents an interval (`Resolution`), with log-odds from :math:`l_i` to :math:`h_i`. A bet (a, b)
# assumes that the true log-odds are :math:`t_i = a z_i + b`, or :math:`z_i + b \pm w` if a is 1.
# The null hypothesis is that the true log-odds are in :math:`[l_i - w, h_i + w]`, where
# :math:`w = \log(1 + \tau)` for a tolerance :math:`\tau`. Let :math:`t^0_i` be the value in this
# interval that is nearest to :math:`t_i`. A batch multiplies the stake of the bet by
#
# .. math:: L = \prod_i \exp\left(
#           y_i (t_i - t^0_i) - \log(1 + e^{t_i}) + \log(1 + e^{t^0_i})\right),
#
# The mean of L is at most 1 under the null hypothesis. It is 1 if the true log-odds are
# :math:`t^0`, and decreases with the distance of the true log-odds from :math:`t`, because L is
# monotone in y. For soft labels with the same mean, the mean of L is not larger, because the
# exponential function is convex.
#
# A drift may begin at any batch: :math:`R \leftarrow (R + 1) L` (Shiryaev 1963, Roberts 1966). For
# weights v of the bets that sum to 1, :math:`\sum_j v_j R_j` minus the number of batches is a
# supermartingale, so that, for the `period` p and the error probability :math:`\alpha`, Doob's
# inequality gives
#
# .. math:: P\left(\max_{t \le T} \frac{1}{p} \sum_j v_j R_{tj} \ge \frac{1}{\alpha}\right)
#           \le \frac{\alpha T}{p} .


SHIFTS = [(1.0, sign * b) for b in (0.1, 0.2, 0.4, 0.8) for sign in (-1, 1)]
SLOPES = [(a, 0.0) for c in (1.1, 1.25, 1.5, 2.0) for a in (c, 1 / c)]
BOTH = [(a, sign * b) for b in (0.25, 0.6) for sign in (-1, 1) for a in (1.3, 1 / 1.3)]
# Each bet (a, b) claims that the true log-odds are a times the predicted ones plus b. All bets have
# the same stake. If a = 1, the tolerance of the monitor increases the absolute value of b.
BETS = np.array([*SHIFTS, *SLOPES, *BOTH])
IS_SHIFT = BETS[:, 0] == 1.0
IS_SLOPE = BETS[:, 1] == 0.0
ALL_ROWS = "all rows"
MOST_COMPONENTS = 1000
# Number of rows in a block. The alternative probabilities of a block are computed at a time, so the
# size of a block bounds the memory.
BLOCK_ROWS = 2000
# Logarithm of the largest e-value that is reported.
MOST_LOG = 700.0
# In error messages, "pass labels=" and "pass pos_label=" are replaced by this advice.
OF_CONSTRUCTOR = r"use CalibrationMonitor(\1=...)"


def bets_beyond(width: float) -> Float64Array:
    """Return bets on shifts beyond the tolerance, because bets on smaller shifts cannot win."""
    bets = BETS.copy()
    bets[IS_SHIFT, 1] += np.sign(bets[IS_SHIFT, 1]) * min(width, 9.0)  # keeps exp(t) finite
    return bets


def log_gains(stated: Float64Array, y: NDArray[Any], width: float) -> Float64Array:
    """Return the logarithm of the factor L by which a batch multiplies the stake of each bet.

    ``stated (4, n)`` are the `Resolution.intervals` of the probabilities of the batch.
    """
    gains = np.zeros(len(BETS))
    a, b = np.hsplit(bets_beyond(width), 2)
    for start in range(0, y.size, BLOCK_ROWS):
        rows = slice(start, start + BLOCK_ROWS)
        z, low, high, is_end = stated[:, rows]
        t = a * z + b
        t[np.ix_(IS_SLOPE, is_end > 0)] = z[is_end > 0]
        t0 = np.clip(t, low - width, high + width)
        # The logarithm of a ratio of two sums is faster than logaddexp. As t is below 80, exp(t) is
        # finite.
        gains += (y[rows] * (t - t0) + np.log((1 + np.exp(t0)) / (1 + np.exp(t)))).sum(axis=1)
    return gains


# Summary of a batch: number of rows, mean probability, and frequency of the event.
Means = tuple[int, float, float]
# Data of a component (all rows, a class or a group): log-odds with the ends of their rounding
# intervals ``(4, n)``, and outcomes.
Event = tuple[Float64Array, NDArray[Any]]


def read_batch(
    predictions: Predictions, groups: Any, before: Resolution
) -> tuple[Resolution, dict[str, Event], Means]:
    """Return the resolution after a batch, the data of each component, and a summary."""
    # Probabilities within a few rounding errors of 0 or 1 are set to exactly 0 or 1.
    block, roundings = predictions.P.read(ALL), 4 * np.finfo(predictions.P.dtype).eps
    P = block.astype(np.float64)
    P = np.where(np.abs(P - np.round(P)) <= roundings, np.round(P), P)
    resolution = before.add_batch(P, predictions.event)
    one_event = predictions.event is not None
    best = np.full(len(P), predictions.event) if one_event else np.nanargmax(P, axis=1)
    p, y = np.nan_to_num(P[np.arange(len(P)), best]), predictions.hits(best)
    stated = resolution.intervals(p)
    events = {ALL_ROWS: (stated, y)}
    for k, label in enumerate(predictions.classes):
        offered, hits = ~np.isnan(P[:, k]), predictions.hits(k)
        if (wrong := np.flatnonzero((hits > 0) & ~offered)).size:
            why = "has no probability (NaN in y_proba): correct the label, or leave the row out."
            raise ValueError(f"y_true: label {label} at row {wrong[0]} {why}")
        if not one_event:
            events[f"class {label}"] = resolution.intervals(P[offered, k]), hits[offered]
    if groups is not None:
        code, labels, _ = read_groups(groups, p.size)
        for g, label in enumerate(labels):
            events[f"group {', '.join(map(str, label))}"] = stated[:, code == g], y[code == g]
    return resolution, events, (p.size, float(p.mean()), float(y.mean()))


def is_empty(values: Any) -> bool:
    """Return whether an array-like has no rows; a number, which a later check refuses, has some."""
    return hasattr(values, "__len__") and getattr(values, "ndim", 1) > 0 and len(values) == 0


class CalibrationMonitor(BaseEstimator):
    r"""Monitor whether probabilities are still calibrated, from batches of labels.

    The probability of an alarm within `period` updates is at most `alpha` as long as the predicted
    odds are correct within `tolerance`, even if the monitor is read after each update. The mean
    time to a false alarm is at least ``period / alpha`` updates. A drift may begin at any update.
    Probabilities may be rounded, and may be exactly 0 and 1 (see Notes).

    The monitor tests all rows together (one event, or the top label), each class if there are more
    than two, and each group of the first update.

    Parameters
    ----------
    alpha : float, default=0.05
        Probability of a false alarm within `period` updates, in (0, 1).
    period : int, default=52
        Number of updates: 52 for a year of weekly batches, 365 for a year of daily batches.
    tolerance : float, default=0.1
        Relative error of the odds that must not give an alarm, at least 0. With 0.1, a true
        probability may be 47.6 to 52.4 % for a predicted 50 %, and 9.2 to 10.9 % for 10 %.
    labels : array-like of shape (K,), default=None
        Sorted labels of the columns; needed if the first update does not show all of them.
    pos_label : label, default=None
        The event of one or two columns; default: 1 or True, else the second.

    Attributes
    ----------
    alarm_ : bool
        Whether there has been an alarm. An alarm is not reset: after a change of the calibrator,
        begin with a new monitor, ``sklearn.base.clone(monitor)``.
    e_value_ : float
        Evidence against calibration; an alarm is raised at ``1 / alpha``.
    advice_ : {"nothing", "shift the offset", "fit again"}
        Recommended action.
    where_ : str
        "all rows", or the class or the group with the largest evidence against calibration.
    since_ : int
        Update at which the strongest bet on `where_` began to win.
    shift_ : float
        Log-odds by which the probabilities of `where_` are too low.
    n_updates_ : int
        Number of updates.
    frame : DataFrame
        A row for each update: number of rows, mean probability, frequency of the event, their gap,
        e-value.

    Raises
    ------
    ValueError
        In ``update``, for input that metrics refuse (except NaN in several columns), for a label
        whose probability is NaN, for another number of columns, and for more than 1,000 classes and
        groups. A failed update changes nothing.

    Warns
    -----
    UserWarning
        If a group was not in the first update: its rows count only in "all rows".

    See Also
    --------
    skcalib.metrics.calibration_test : Test of calibration for one set of rows.

    Notes
    -----
    A calibrator that was fitted on few rows is miscalibrated by noise, and the monitor detects
    this. With 500 rows a week, a calibrator fitted on 500 rows gives an alarm in 33 % of the years,
    and a calibrator fitted on 2,000 rows in 3 % (``python -m benchmarks.coverage.monitor``). Rows
    must be independent: pass only one of several rows of a patient or a document. The selection of
    rows that get labels may depend on the probabilities, but not on the outcomes.

    The evidence is the sum of 24 bets (see the user guide) on each component. All rows together get
    half of the stakes, classes and groups the other half.

    **The null hypothesis.** A predicted p represents the interval [p - d/2, p + d/2]. The step d is
    0.1, 0.01, 0.001 or 0.0001 if all probabilities so far have at most this number of decimals,
    else 0. If d is 0, an exact 0 represents [0, e/2] and an exact 1 represents [1 - e/2, 1], where
    e is the smallest distance of the other probabilities so far from 0 or from 1, at most 0.1.
    Under the null hypothesis, the true log-odds of each row are within ``log(1 + tolerance)`` of
    the interval.

    *Proof of the bound.* A bet on log-odds t multiplies its stake by L = f(y; t) / f(y; t0), where
    f is the likelihood and t0 the point of the null hypothesis nearest to t. E[L] is 1 at t0, and
    smaller at other points of the null hypothesis, because L is monotone in y, and t0 lies between
    t and these points. The intervals depend only on probabilities, so that E[L] is at most 1 for
    each batch, given the batches before. Doob's inequality for the sum of all stakes gives
    ``alpha``.

    References
    ----------
    .. [1] A. N. Shiryaev, "On optimum methods in quickest detection problems", Theory of
       Probability and its Applications 8, 1963; S. W. Roberts, "A comparison of some control chart
       procedures", Technometrics 8, 1966.
    .. [2] J. Shin, A. Ramdas and A. Rinaldo, "E-detectors: a nonparametric framework for sequential
       change detection", New England Journal of Statistics in Data Science 2, 2024.
    .. [3] E. S. Page, "Continuous inspection schemes", Biometrika 41, 1954.

    Examples
    --------
    >>> import numpy as np
    >>> from skcalib import CalibrationMonitor
    >>> rng = np.random.default_rng(0)
    >>> monitor = CalibrationMonitor()
    >>> for week in range(1, 53):
    ...     z = rng.normal(0, 1.5, 500)
    ...     drift = 0.4 if week > 20 else 0.0
    ...     y = rng.random(500) < 1 / (1 + np.exp(-z - drift))
    ...     if monitor.update(y, 1 / (1 + np.exp(-z))).alarm_:
    ...         break
    >>> monitor.advice_, monitor.where_
    ('shift the offset', 'all rows')
    """

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        "alpha": [Interval(Real, 0, 1, closed="neither")],
        "period": [Interval(Integral, 1, None, closed="left")],
        "tolerance": [Interval(Real, 0, None, closed="left")],
        "labels": ["array-like", None],
        "pos_label": "no_validation",  # type: ignore[dict-item]
    }

    def __init__(
        self,
        *,
        alpha: float = 0.05,
        period: int = 52,
        tolerance: float = 0.1,
        labels: ArrayLike | None = None,
        pos_label: Any = None,
    ) -> None:
        self.alpha = alpha
        self.period = period
        self.tolerance = tolerance
        self.labels = labels
        self.pos_label = pos_label

    def update(self, y_true: ArrayLike, y_proba: ArrayLike, *, groups: Any = None) -> Self:
        """Update the evidence against calibration with a batch of labels.

        Parameters
        ----------
        y_true : array-like of shape (n,) or (n, K)
            Labels; soft labels of one event in [0, 1]; or the shares of several raters, a column
            for each class. A batch may be empty.
        y_proba : array-like of shape (n, K), (n, 1) or (n,)
            The probabilities that were used for decisions: a column for each label in sorted order,
            or one column for an event. NaN is a class that is not available in the row (an option
            that was not offered): the row is not used for this class.
        groups : array-like of shape (n,), default=None
            Group label of each row.

        Returns
        -------
        self : object
        """
        self._validate_params()
        resolution = Resolution(*getattr(self, "_resolution", ()))
        if not (is_empty(y_true) and is_empty(y_proba)):
            labels = getattr(self, "classes_", self.labels)
            try:
                predictions = check_predictions(
                    y_true,
                    y_proba,
                    labels=labels,
                    pos_label=self.pos_label,
                    soft=True,
                    caller="update",
                    options=True,
                    way="use CalibrationMonitor(labels=...)",
                )
            except ValueError as error:  # the advice in the message is for metrics: replace it
                text = re.sub("pass (labels|pos_label)=", OF_CONSTRUCTOR, str(error))
                text = text.replace("give the row weight 0", "leave the row out")
                raise ValueError(text) from None
            resolution, events, means = read_batch(predictions, groups, resolution)
            if len(events) > MOST_COMPONENTS:
                raise ValueError(
                    f"groups: the number of classes and groups together is {len(events) - 1:,}, "
                    f"more than {MOST_COMPONENTS - 1:,}: pass fewer groups, or none."
                )
            self.classes_ = predictions.classes
        else:
            events, means = {}, (0, np.nan, np.nan)
        self._bet(events, means)
        self._resolution = tuple(resolution)
        return self

    def _bet(self, events: dict[str, Event], means: Means) -> None:
        """Update the e-value of each bet with a batch of all rows, classes and groups."""
        history = getattr(self, "_history", [])
        n_updates = len(history) + 1
        names = getattr(self, "_names", None)
        if names is None and "classes_" in vars(self):
            names = list(events)
            shares = np.full(len(names), 0.5 / max(1, len(names) - 1))
            shares[0] = 1.0 if len(names) == 1 else 0.5
            form = (len(names), len(BETS))
            with np.errstate(divide="ignore"):  # before the first update, the evidence R is 0
                self._log_r = np.full(form, np.log(n_updates - 1.0))
            self._page, self._start = np.zeros(form), np.ones(form, dtype=int)
            self._names, self._shares = names, shares
        if new := [name for name in events if names is not None and name not in names]:
            warnings.warn(
                f"{new[0]} was not in the first update, so its rows are not tested separately, "
                "only together with all other rows.",
                stacklevel=3,
            )
        e_value = 0.0  # the e-value is 0 before the first label
        if names is not None:
            gains = np.zeros_like(self._log_r)
            for c, name in enumerate(names):
                if name in events:
                    gains[c] = log_gains(*events[name], np.log1p(self.tolerance))
            self._log_r = np.logaddexp(self._log_r, 0.0) + gains
            self._start = np.where(self._page <= 0, n_updates, self._start)
            self._page = np.maximum(self._page, 0.0) + gains
            total = np.logaddexp.reduce(self._evidence(), axis=None) - np.log(self.period)
            e_value = float(np.exp(min(total, MOST_LOG)))
        self._history = [*history, (*means, e_value)]
        self.e_value_ = e_value
        self.alarm_ = getattr(self, "alarm_", False) or e_value >= 1 / self.alpha
        self.n_updates_ = n_updates

    def _evidence(self) -> Float64Array:
        """Return the log-evidence of each bet for each component (all rows, class or group)."""
        return self._log_r + np.log(self._shares / len(BETS))[:, None]

    def _check_updated(self) -> None:
        if not hasattr(self, "_log_r"):
            raise NotFittedError("This CalibrationMonitor has no labels yet: call update first.")

    def _strongest(self) -> int:
        """Return the index of the component (all rows, a class or a group) with most evidence."""
        self._check_updated()
        return int(np.logaddexp.reduce(self._evidence(), axis=1).argmax())

    @property
    def where_(self) -> str:
        """The component with the largest evidence: "all rows", a class or a group."""
        c = self._strongest()
        return self._names[c]

    @property
    def since_(self) -> int:
        """Number of the update at which the strongest bet on `where_` began to win."""
        c = self._strongest()
        return int(self._start[c, self._page[c].argmax()])

    @property
    def shift_(self) -> float:
        """Estimated shift of the log-odds for the rows, class or group in `where_`."""
        c = self._strongest()
        log_r = self._log_r[c, IS_SHIFT]
        weight = np.exp(log_r - log_r.max())
        shifts = bets_beyond(np.log1p(self.tolerance))[IS_SHIFT, 1]
        return float(weight @ shifts / weight.sum())

    @property
    def advice_(self) -> str:
        """Recommended action: "nothing" before an alarm, then "shift the offset" or "fit again"."""
        if not self.alarm_:
            return "nothing"
        log_r = self._log_r[self._strongest()]
        shifts, others = (np.logaddexp.reduce(log_r[bets]) for bets in (IS_SHIFT, ~IS_SHIFT))
        return "shift the offset" if shifts >= others else "fit again"

    @property
    def frame(self) -> pd.DataFrame:
        """Table of the updates: number of rows, mean probability, frequency, gap, e-value."""
        history = getattr(self, "_history", [])
        update = pd.RangeIndex(1, len(history) + 1, name="update")
        frame = pd.DataFrame(history, update, ["rows", "mean_proba", "rate", "e_value"])
        frame.insert(3, "gap", frame["rate"] - frame["mean_proba"])
        return frame

    def __repr__(self, *args: Any, **keywords: Any) -> str:
        if not hasattr(self, "n_updates_"):
            return super().__repr__(*args, **keywords)
        rows = sum(row[0] for row in self._history)
        return f"{self.n_updates_:,} updates, {rows:,} rows: {self.in_words()}"

    def in_words(self) -> str:
        """Return a line of text with the e-value and, after an alarm, the advice."""
        text = f"e-value {self.e_value_:.2g}"
        if not self.alarm_:
            return f"{text}; no alarm, which is raised at {1 / self.alpha:.3g}"
        text += f"; ALARM in {self.where_} since about update {self.since_}: {self.advice_}"
        return text + (f" by {self.shift_:+.2f} log-odds" if "shift" in self.advice_ else "")

    _repr_mimebundle_ = None  # scikit-learn would show a diagram of parameters in notebooks

    def _repr_html_(self) -> str:
        """Return the table of all updates as HTML, for notebooks."""
        return f"<p>{escape(repr(self))}</p>{self.frame.to_html()}"
