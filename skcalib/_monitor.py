"""Is it still calibrated? Bets on batches of labels."""

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

# What stated probabilities stand for: the probabilities that may have been rounded to them.
#
# A stated p stands for the interval :math:`[p - d/2, p + d/2]`. The step d is :math:`10^{-k}` if
# all scores so far are decimals of k <= 4 places, else 0. Where d is 0, an exact 0 stands for
# :math:`[0, e/2]` and an exact 1 for :math:`[1 - e/2, 1]`; e is the smallest distance of another
# score so far from 0 or from 1, at most 0.1.
#
# Intervals depend on the scores alone, and they only shrink from batch to batch.


MOST_PLACES = 4
# Largest distance of a decimal from its float32.
ROUNDING = 1e-7
# Largest e.
FARTHEST = 0.1


class Resolution(NamedTuple):
    """The resolution of all scores so far.

    ``places`` are their decimals, 5 if they are no decimals; ``from_0`` and ``from_1`` the smallest
    distances of scores from 0 and from 1 without those that are 0 or 1.
    """

    places: int = 1
    from_0: float = FARTHEST
    from_1: float = FARTHEST

    def add_batch(self, P: Float64Array, event: int | None) -> Resolution:
        """Return the resolution with a batch ``(n, K)``; NaN is an option that was not offered.

        Distances are those of the event, or of all classes.
        """
        places = self.places
        while places <= MOST_PLACES and (np.abs(P - P.round(places)) > ROUNDING).any():
            places += 1
        p = P if event is None else P[:, event]
        inner = p[(p > 0) & (p < 1)]
        from_0, from_1 = inner.min(initial=self.from_0), (1 - inner).min(initial=self.from_1)
        return Resolution(places, float(from_0), float(from_1))

    def intervals(self, p: Float64Array) -> Float64Array:
        """Return the log-odds of probabilities and of the ends of their intervals, ``(4, n)``.

        The last row is 1 for decimals of 0 and 1, and 0 elsewhere: their log-odds are infinite, so
        that a bet that multiplies log-odds says nothing about them.
        """
        step = 10.0**-self.places if self.places <= MOST_PLACES else 0.0
        end_0, end_1 = (step or self.from_0) / 2, 1 - (step or self.from_1) / 2
        low, high = p - step / 2, p + step / 2
        high[p == 0], low[p == 1] = end_0, end_1
        odds = logit(np.clip([np.clip(p, end_0, end_1), low, high], 0.0, 1.0))
        return np.vstack([odds, ((p == 0) | (p == 1)) & (step > 0)])


# Calibration watched batch by batch: bets against the stated probabilities.
#
# One event has stated log-odds :math:`z_i` and outcomes :math:`y_i`. A stated probability stands
# for an interval (`Resolution`), with log-odds from :math:`l_i` to :math:`h_i`. A bet (a, b) says
# that the true log-odds are :math:`t_i = a z_i + b`, or :math:`z_i + b \pm w` where a is 1; the
# null hypothesis, that they lie in :math:`[l_i - w, h_i + w]`, where :math:`w = \log(1 + \tau)` for
# a tolerance :math:`\tau`. With :math:`t^0_i` the value there that is nearest to :math:`t_i`, a
# batch multiplies the bet by
#
# .. math:: L = \prod_i \exp\left(
#           y_i (t_i - t^0_i) - \log(1 + e^{t_i}) + \log(1 + e^{t^0_i})\right),
#
# whose mean is at most 1 under the null hypothesis: the mean is 1 if the true log-odds are
# :math:`t^0`, and falls as they move away from :math:`t`, because L is monotone in y. For shares
# with the same mean it is no larger, because the exponential is convex.
#
# A drift may begin at any batch: :math:`R \leftarrow (R + 1) L` (Shiryaev 1963, Roberts 1966). For
# weights v of the bets that sum to 1, :math:`\sum_j v_j R_j` minus the number of batches is a
# supermartingale, so that by Doob's inequality
#
# .. math:: P\left(\max_{t \le T} \frac{1}{p} \sum_j v_j R_{tj} \ge \frac{1}{\alpha}\right)
#           \le \frac{\alpha T}{p} .


SHIFTS = [(1.0, sign * b) for b in (0.1, 0.2, 0.4, 0.8) for sign in (-1, 1)]
SLOPES = [(a, 0.0) for c in (1.1, 1.25, 1.5, 2.0) for a in (c, 1 / c)]
BOTH = [(a, sign * b) for b in (0.25, 0.6) for sign in (-1, 1) for a in (1.3, 1 / 1.3)]
# The bets (a, b), all with the same weight; shifts are those beyond the tolerance.
BETS = np.array([*SHIFTS, *SLOPES, *BOTH])
IS_SHIFT = BETS[:, 0] == 1.0
IS_SLOPE = BETS[:, 1] == 0.0
ALL_ROWS = "all rows"
MOST_COMPONENTS = 1000
# Rows at a time, for all bets.
BLOCK_ROWS = 2000
# Logarithm of the largest e-value that is shown.
MOST_LOG = 700.0
# What is written in place of "pass labels=" and "pass pos_label=".
OF_CONSTRUCTOR = r"use CalibrationMonitor(\1=...)"


def bets_beyond(width: float) -> Float64Array:
    """Return the bets, with shifts that begin at the end of the tolerance: others cannot gain."""
    bets = BETS.copy()
    bets[IS_SHIFT, 1] += np.sign(bets[IS_SHIFT, 1]) * min(width, 9.0)  # so that exp is finite
    return bets


def log_gains(stated: Float64Array, y: NDArray[Any], width: float) -> Float64Array:
    """Return log L of each bet for a batch.

    ``stated (4, n)`` are the `Resolution.intervals` of its probabilities.
    """
    gains = np.zeros(len(BETS))
    a, b = np.hsplit(bets_beyond(width), 2)
    for start in range(0, y.size, BLOCK_ROWS):
        rows = slice(start, start + BLOCK_ROWS)
        z, low, high, is_end = stated[:, rows]
        t = a * z + b
        t[np.ix_(IS_SLOPE, is_end > 0)] = z[is_end > 0]
        t0 = np.clip(t, low - width, high + width)
        # Faster than logaddexp; t is below 80, as 1 - p is 0 or at least 1e-16.
        gains += (y[rows] * (t - t0) + np.log((1 + np.exp(t0)) / (1 + np.exp(t)))).sum(axis=1)
    return gains


# Number of rows, mean probability and rate of a batch.
Means = tuple[int, float, float]
# What the probabilities of a component stand for, ``(4, n)``, and its outcomes.
Event = tuple[Float64Array, NDArray[Any]]


def read_batch(
    predictions: Predictions, groups: Any, before: Resolution
) -> tuple[Resolution, dict[str, Event], Means]:
    """Return the resolution with a batch, the events of all rows, classes and groups, and means."""
    # A sum of probabilities may differ from 0 or 1 by some roundings.
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
            why = "was not offered (NaN in y_proba): correct the label, or leave the row out."
            raise ValueError(f"y_true: label {label} at row {wrong[0]} {why}")
        if not one_event:
            events[f"class {label}"] = resolution.intervals(P[offered, k]), hits[offered]
    if groups is not None:
        code, labels, _ = read_groups(groups, p.size)
        for g, label in enumerate(labels):
            events[f"group {', '.join(map(str, label))}"] = stated[:, code == g], y[code == g]
    return resolution, events, (p.size, float(p.mean()), float(y.mean()))


def is_empty(values: Any) -> bool:
    """Whether an array-like has no rows; a number is not empty, and is refused as an array."""
    return hasattr(values, "__len__") and getattr(values, "ndim", 1) > 0 and len(values) == 0


class CalibrationMonitor(BaseEstimator):
    r"""Watch whether probabilities are still calibrated, batch by batch of labels.

    The probability of an alarm within `period` updates is at most `alpha` as long as the stated
    odds are right within `tolerance`, however often one looks; the mean time to a false alarm is at
    least ``period / alpha`` updates. A drift may begin at any update. Probabilities may be rounded,
    and may be exactly 0 and 1 (see Notes).

    All rows are watched (one event, or the top label), each of more than two classes, and each
    group of the first update.

    Parameters
    ----------
    alpha : float, default=0.05
        Probability of a false alarm within `period` updates, in (0, 1).
    period : int, default=52
        Number of updates: 52 for a year of weekly batches, 365 for one of daily batches.
    tolerance : float, default=0.1
        Relative error of the odds that is no alarm, at least 0: with 0.1, a stated 50 % may be 47.6
        to 52.4 %, 10 % may be 9.2 to 10.9 %.
    labels : array-like of shape (K,), default=None
        Labels of the columns, sorted; needed if the first update cannot show them.
    pos_label : label, default=None
        The event of one or two columns; default: 1 or True, else the second.

    Attributes
    ----------
    alarm_ : bool
        Whether there has been an alarm. It stays: after a change of the map,
        ``sklearn.base.clone(monitor)`` begins anew.
    e_value_ : float
        Evidence against calibration; an alarm is given at ``1 / alpha``.
    advice_ : {"nothing", "shift the offset", "fit again"}
        What the evidence asks for.
    where_ : str
        "all rows", or the class or the group with the largest evidence.
    since_ : int
        Update at which the strongest bet there began to gain.
    shift_ : float
        Log-odds by which the probabilities there are too low.
    n_updates_ : int
        Number of updates.
    frame : DataFrame
        A row for each update: rows, mean probability, rate of the event, their gap, e-value.

    Raises
    ------
    ValueError
        In ``update``, for what metrics refuse (but for NaN in several columns), a label that was
        not offered, another number of columns, or more than 1,000 classes and groups. A failed
        update changes nothing.

    Warns
    -----
    UserWarning
        If groups appear that the first update did not have: they count in all rows only.

    See Also
    --------
    skcalib.metrics.calibration_test : A test of one set of rows.

    Notes
    -----
    A calibrator that was fitted on few rows is miscalibrated by its own noise, and the monitor says
    so: with 500 rows a week, a map fitted on 500 rows gives an alarm in 33 % of the years, on 2,000
    rows in 3 % (``python -m benchmarks.coverage.monitor``). Rows must be independent: pass one of
    several rows of a patient or a document. Which rows get labels may depend on the probabilities,
    not on the outcomes.

    The evidence is that of 24 bets (see the user guide) on each component: half of it on all rows,
    the rest on classes and groups.

    **The null hypothesis.** A stated p stands for the interval [p - d/2, p + d/2]: d is 0.1, 0.01,
    0.001 or 0.0001 if all probabilities so far have so few decimals, else 0. Where d is 0, an exact
    0 stands for [0, e/2] and an exact 1 for [1 - e/2, 1]: e is the smallest distance of the other
    probabilities so far from 0 or from 1, at most 0.1. Under the null hypothesis, the true log-odds
    of each row are within ``log(1 + tolerance)`` of this interval.

    *Proof of the bound.* A bet on log-odds t multiplies its stake by L = f(y; t) / f(y; t0), where
    f is the likelihood and t0 the point of the null hypothesis nearest to t. E[L] is 1 at t0, and
    smaller at the other points: L is monotone in y, and t0 lies between t and these points. The
    intervals depend on probabilities alone, so that this holds for each batch given those before;
    Doob's inequality for the sum of all stakes gives ``alpha``.

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
        """Count a batch of labels.

        Parameters
        ----------
        y_true : array-like of shape (n,) or (n, K)
            Labels, shares of one event in [0, 1], or the shares of several raters, a column for
            each class; a batch may be empty.
        y_proba : array-like of shape (n, K), (n, 1) or (n,)
            The probabilities that were acted on; a column for each label in sorted order, or that
            of one event. NaN is an option that was not offered: the row is no evidence about this
            class.
        groups : array-like of shape (n,), default=None
            Group of each row.

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
            except ValueError as error:  # labels and pos_label are given to the constructor
                text = re.sub("pass (labels|pos_label)=", OF_CONSTRUCTOR, str(error))
                text = text.replace("give the row weight 0", "leave the row out")
                raise ValueError(text) from None
            resolution, events, means = read_batch(predictions, groups, resolution)
            if len(events) > MOST_COMPONENTS:
                raise ValueError(
                    f"there are {len(events) - 1:,} classes and groups: pass at most "
                    f"{MOST_COMPONENTS - 1:,}, or no groups."
                )
            self.classes_ = predictions.classes
        else:
            events, means = {}, (0, np.nan, np.nan)
        self._bet(events, means)
        self._resolution = tuple(resolution)
        return self

    def _bet(self, events: dict[str, Event], means: Means) -> None:
        """Count the events of a batch, by the names of the components."""
        history = getattr(self, "_history", [])
        n_updates = len(history) + 1
        names = getattr(self, "_names", None)
        if names is None and "classes_" in vars(self):
            names = list(events)
            shares = np.full(len(names), 0.5 / max(1, len(names) - 1))
            shares[0] = 1.0 if len(names) == 1 else 0.5
            form = (len(names), len(BETS))
            with np.errstate(divide="ignore"):  # before the first update, R is 0
                self._log_r = np.full(form, np.log(n_updates - 1.0))
            self._page, self._start = np.zeros(form), np.ones(form, dtype=int)
            self._names, self._shares = names, shares
        if new := [name for name in events if names is not None and name not in names]:
            warnings.warn(
                f"{new[0]} was not in the first update: it counts in all rows only.",
                stacklevel=3,
            )
        e_value = 0.0  # before the first label
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
        """Return the logarithm of each bet's share of the evidence, ``(C, 24)``."""
        return self._log_r + np.log(self._shares / len(BETS))[:, None]

    def _check_updated(self) -> None:
        if not hasattr(self, "_log_r"):
            raise NotFittedError("This CalibrationMonitor has no labels yet: call update first.")

    def _strongest(self) -> int:
        """Return the place of the component with the largest evidence."""
        self._check_updated()
        return int(np.logaddexp.reduce(self._evidence(), axis=1).argmax())

    @property
    def where_(self) -> str:
        """All rows, or the class or group, with the largest evidence."""
        c = self._strongest()
        return self._names[c]

    @property
    def since_(self) -> int:
        """Update at which the strongest bet there began to gain."""
        c = self._strongest()
        return int(self._start[c, self._page[c].argmax()])

    @property
    def shift_(self) -> float:
        """Mean of the shifts there, weighted by their evidence."""
        c = self._strongest()
        log_r = self._log_r[c, IS_SHIFT]
        weight = np.exp(log_r - log_r.max())
        shifts = bets_beyond(np.log1p(self.tolerance))[IS_SHIFT, 1]
        return float(weight @ shifts / weight.sum())

    @property
    def advice_(self) -> str:
        """What the evidence there asks for, if there has been an alarm."""
        if not self.alarm_:
            return "nothing"
        log_r = self._log_r[self._strongest()]
        shifts, others = (np.logaddexp.reduce(log_r[bets]) for bets in (IS_SHIFT, ~IS_SHIFT))
        return "shift the offset" if shifts >= others else "fit again"

    @property
    def frame(self) -> pd.DataFrame:
        """A row for each update."""
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
        """Return the evidence and the advice in one line."""
        text = f"e-value {self.e_value_:.2g}"
        if not self.alarm_:
            return f"{text}; no alarm, which is given at {1 / self.alpha:.3g}"
        text += f"; ALARM in {self.where_} since about update {self.since_}: {self.advice_}"
        return text + (f" by {self.shift_:+.2f} log-odds" if "shift" in self.advice_ else "")

    _repr_mimebundle_ = None  # else notebooks show its diagram of parameters

    def _repr_html_(self) -> str:
        """Return the updates as a table, for notebooks."""
        return f"<p>{escape(repr(self))}</p>{self.frame.to_html()}"
