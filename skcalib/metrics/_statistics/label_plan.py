"""How many rows to label, by simulating labels of rows that have only probabilities."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any, Literal

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike, NDArray

from skcalib._arrays.rowwise import FloatArray
from skcalib._arrays.selection import take_rows
from skcalib._arrays.sources import as_source, refuse_remote, to_array
from skcalib._scores.scores import event_or_top, top_label
from skcalib._validation.keywords import check_between, check_level, check_option, spawn_seeds
from skcalib._validation.rows import Predictions, check_predictions
from skcalib.calibrators import AutoCalibrator
from skcalib.calibrators._base import map_checked
from skcalib.metrics._common import SCORED, event_log_odds, event_rows, listed, reduce_to_event
from skcalib.metrics._curves.risk_coverage import rank_rows
from skcalib.metrics._intervals.interval import interval_of
from skcalib.metrics._intervals.truths import LEAST, draw_codes, fit_some_rows, raise_to_power
from skcalib.metrics._resampling import Evaluation, name_of
from skcalib.metrics._statistics.event import ratio_interval, recalibration
from skcalib.metrics._statistics.scores import RowLosses, mean_interval, vector_scores
from skcalib.metrics._statistics.selective_threshold import find_threshold
from skcalib.metrics._top_label import expected_calibration_error

# Labels are drawn for n rows of the unlabelled probabilities P, from an assumed truth: P itself, or
# probabilities proportional to :math:`P^{1/T}`. The width of an interval is
#
# .. math:: w(n) = c(n) / \sqrt n ,
#
# where c changes slowly with n. It is simulated at a first n, and then at :math:`(c(n) / w)^2` for
# the requested width w, until n changes little. The probability that a sample has a threshold with
# the required accuracy, or a calibrator that is better than none, is simulated for growing n and
# interpolated in log n.


# The largest number of rows of a plan: for a width, and for a threshold or a calibrator, whose
# samples are all simulated. `SIZES` are the numbers of rows in tables of plans.
MOST_ROWS, MOST_SAMPLED = 10**7, 10**6
SIZES = np.array([digit * 10**power for power in range(2, 9) for digit in (1, 2, 5)])
# Labels are drawn for rows of a random subset of at most this size.
POOL = 100_000
# The first and the smallest number of rows for which widths are simulated, and the largest number
# of steps. A step to less than `NEAR` times as many rows is the last.
FIRST, FEWEST, STEPS, NEAR = 200, 20, 8, 1.15
# Widths are simulated in batches until the standard error of their mean is below a fraction of the
# mean. The numbers are the size of a batch, this fraction, the largest number of samples, the
# largest number of rows of a sample, and the largest number of matrix entries, of a sample and of
# several batches. Intervals of errors take a thousand times as long as other intervals.
Effort = tuple[int, float, int, int, int]
OF_ERRORS: Effort = 6, 0.02, 60, 20_000, 400_000
OF_OTHERS: Effort = 50, 0.005, 1_000, 300_000, 3_000_000
# The numbers of samples and of rows in all of them, for the chance of a threshold and of a better
# calibrator, and the fewest samples. Near the answer there are `REFINED` times as many samples.
THRESHOLDS, CALIBRATORS, FEWEST_SAMPLES, REFINED = (200, 4_000_000), (60, 400_000), 20, 4
# The chances of a threshold and of a better calibrator for which rows are planned.
CHANCE_TO_ACT, CHANCE_TO_IMPROVE = 0.8, 0.9
# The number of rows on which a calibrator is compared with no calibration.
TEST_ROWS = 2_000
# The fraction of the rows that `draw` draws with equal probabilities. It limits the weights, in
# case that labels of confident rows vary more than the probabilities say.
DRAWN_EVENLY = 0.5
# Names in sentences of the metrics that are not calibration errors.
RATIO, SLOPE = "observed_expected_ratio", "calibration_intercept_slope"
WORDS = {
    "log_loss": "log loss",
    "brier_score": "Brier score",
    "brier_score_loss": "Brier score",
    SLOPE: "calibration slope",
    RATIO: "observed-expected ratio",
}

# Functions that draw n rows with labels from a power of their probabilities, that return the width
# of an interval, and that return whether n labelled rows are enough in a new sample.
Draw = Callable[[int, float], Predictions]
Width = Callable[[Predictions], float]
Success = Callable[[int], bool]


@dataclass(frozen=True, eq=False, repr=False)
class LabelPlan:
    """Result of `label_plan`: how many rows to label, and a function that draws them.

    Attributes
    ----------
    rows : int
        Number of rows to label.
    table : DataFrame
        A row for each of several numbers of rows. Columns: ``rows``, and ``width``, the mean width
        of the interval, or ``chance``, the fraction of samples with a threshold or with a
        calibrator that is better than none.
    truth : str
        The assumed truth that needs more rows: "calibrated", or the temperature, such as "T = 1.5".
    """

    rows: int
    table: pd.DataFrame
    truth: str
    _summary: str
    _read: Callable[[Any], Predictions]
    _is_weighted: bool

    def draw(
        self, y_proba: ArrayLike, *, random_state: Any = None
    ) -> tuple[NDArray[np.intp], NDArray[Any]]:
        r"""Draw the rows to label.

        In a plan for a calibration error or O:E, rows are stratified by score, and row i is drawn
        with probability

        .. math:: \pi_i = n \Big(\frac{1 - \lambda}{N} + \lambda
                  \frac{\sqrt{s_i (1 - s_i)}}{\sum_j \sqrt{s_j (1 - s_j)}}\Big) ,

        where n is the number of rows to label, N the number of rows, and s the probability of the
        event or of the top label: labels of rows with a score near 0 or 1 vary little. The fraction
        :math:`\lambda` is 1 / 2, or less if some :math:`\pi_i` would be above 1. In the order of
        their scores, rows are drawn at equal distances on the cumulative sum of :math:`\pi`.

        In other plans, rows are drawn with equal probabilities. Intervals of mean losses would be
        wider with weights, and a threshold has no guarantee with weights.

        Parameters
        ----------
        y_proba : array-like of shape (N, K), (N,) or (N, 1)
            Probabilities of unlabelled rows, with the columns that `label_plan` got.
        random_state : int, RandomState instance or None, default=None
            Seed of the draw.

        Returns
        -------
        rows : ndarray of shape (n,)
            Indices of the rows to label, in ascending order.
        weight : ndarray of shape (n,)
            Weights :math:`1 / \pi_i`, to pass as `sample_weight`. In other plans, integers 1.

        Raises
        ------
        ValueError
            If there are fewer rows than the plan needs, or if probabilities are invalid.
        """
        score, _ = event_or_top(self._read(y_proba))
        n, total = self.rows, score.size
        if n > total:
            raise ValueError(
                f"y_proba has {total:,} rows, but the plan needs {n:,}: pass more rows, or plan "
                "for a larger width or a lower accuracy."
            )
        random = np.random.default_rng(spawn_seeds(random_state, 1)[0])
        if not self._is_weighted:
            return np.sort(random.choice(total, n, replace=False)), np.ones(n, dtype=np.intp)
        s = np.clip(score.astype(np.float64), 0.0, 1.0)
        spread, part = np.sqrt(s * (1 - s)), 0.0
        if np.ptp(spread) > 0:
            spread /= spread.mean()
            part = min(1 - DRAWN_EVENLY, (total / n - 1) / (float(spread.max()) - 1))
        chance = n / total * (1 - part + part * spread)
        order = random.permutation(total)
        order = order[np.argsort(score[order], kind="stable")]
        ends = np.cumsum(chance[order])
        at = (random.random() + np.arange(n)) * (ends[-1] / n)
        rows = np.sort(order[np.searchsorted(ends, at, side="right")])
        return rows, 1 / chance[rows]

    def __repr__(self) -> str:
        return self._summary


def read_unlabelled(y_proba: Any, labels: Any, pos_label: Any) -> Predictions:
    """Check probabilities without labels; the labels of the result have no meaning."""
    n_rows, *n_columns = np.shape(y_proba) or (1,)
    if labels is None and n_columns not in ([], [1]):
        labels = list(getattr(y_proba, "columns", range(n_columns[0])))
    elif labels is None and pos_label is None:
        labels = [0, 1]
    label = np.ravel([pos_label] if labels is None else labels)[:1]
    y_true = np.repeat(label, n_rows)
    predictions = check_predictions(y_true, y_proba, None, labels, pos_label, caller="label_plan")
    refuse_remote(predictions.P, "label_plan")
    return predictions


def sample(pool: Predictions, random: np.random.Generator, n: int, power: float) -> Predictions:
    """Draw n rows with replacement, and labels from a power of their probabilities."""
    P = take_rows(pool.P, random.integers(len(pool.code), size=n))
    q = to_array(P) if power == 1 else raise_to_power(to_array(P), power)
    seed = np.random.SeedSequence(random.integers(1 << 32, size=4).tolist())
    code = draw_codes(q, 1, seed)[0].astype(np.intp)
    return pool._replace(P=P, code=code, w=np.ones(n))


# The width of the confidence interval of each metric.


def width_of(
    metric: Any, keywords: dict[str, Any], level: float, random: np.random.Generator
) -> Width:
    """Return the width of the interval of a metric as a function of predictions."""
    name = name_of(metric)

    def error(predictions: Predictions) -> float:
        assert evaluate is not None
        seed = int(random.integers(1 << 31))
        interval = interval_of(evaluate, predictions, level=level, random_state=seed)
        return float(interval.high - interval.low)

    def loss(predictions: Predictions) -> float:
        rows = predictions if predictions.event is None else reduce_to_event(predictions)
        P = np.maximum(to_array(rows.P), LEAST)
        losses = vector_scores(P, rows.code, "log" if name == "log_loss" else "brier")
        low, high = mean_interval(RowLosses(losses, None, rows.w), level, 0.0, np.inf)
        return high - low

    def slope_or_ratio(predictions: Predictions) -> float:
        rows = event_rows(predictions)
        if name == RATIO:
            _, low, high = ratio_interval(rows, level)
        else:
            _, low, high, *_ = recalibration(event_log_odds(predictions), rows, level)
        return high - low

    if name in WORDS:
        if keywords:
            raise ValueError(f"{min(keywords)} is not a keyword of {name}: leave it out.")
        return slope_or_ratio if name in (RATIO, SLOPE) else loss
    if isinstance(metric, str):
        metric = {each.__name__: each for each in SCORED}.get(name)
    evaluate = Evaluation(metric, keywords, False) if callable(metric) else None
    if evaluate is None or not evaluate.is_error:
        raise ValueError(
            "metric must be a calibration error of skcalib.metrics, calibration_intercept_slope, "
            f"observed_expected_ratio, 'log_loss' or 'brier_score'; got {name}."
        )
    if evaluate.all_keywords.get("average", "macro") is None:
        raise ValueError("average=None gives an interval for each class: plan for one of them.")
    return error


def plan_width(
    width: Width, effort: Effort, wanted: float, n_classes: int, draw: Draw, powers: list[float]
) -> tuple[int, pd.DataFrame]:
    """Return the number of rows for the wanted mean width, and widths for other numbers of rows.

    Only the power for which widths are larger is left in the list of powers.
    """
    batch, precision, most_samples, largest, entries = effort
    largest = min(largest, entries // n_classes)

    def simulate(n: int, power: float) -> float:
        """Return the mean width, or infinity if some sample has no interval."""
        values: list[float] = []
        while len(values) < max(1, min(most_samples, entries // (n * n_classes))):
            try:
                new = [width(draw(n, power)) for _ in range(batch)]
            except ValueError:  # such as a slope without events
                return math.inf
            values += new
            mean, error = np.mean(values), np.std(values, ddof=1) / math.sqrt(len(values))
            if not error > precision * mean:
                break
        return float(mean) if math.isfinite(mean) else math.inf

    n, c, rows = min(FIRST, largest), {}, 0
    for _ in range(STEPS):
        means = {power: simulate(n, power) for power in powers}
        mean = max(means.values())
        if math.isinf(mean):
            if n == largest:
                raise ValueError(
                    f"metric: some samples of {n:,} rows have no interval, because events are too "
                    "rare or all probabilities are equal: plan for another metric."
                )
            n = min(4 * n, largest)
            continue
        powers[:] = [max(powers, key=means.__getitem__)]
        c[n] = mean * math.sqrt(n)
        rows = max(FEWEST, math.ceil(min((c[n] / wanted) ** 2, 2.0 * MOST_ROWS)))
        before, n = n, min(rows, largest)
        if 1 / NEAR < n / before < NEAR:
            break
    if rows > MOST_ROWS:
        least = c[max(c)] / math.sqrt(MOST_ROWS)
        raise ValueError(
            f"width={wanted:g} needs more than {MOST_ROWS:,} rows, for which the width is "
            f"{least:.2g}: pass a larger width."
        )
    sizes = SIZES[: np.searchsorted(SIZES, 2 * rows) + 1]
    factor = np.interp(np.log(sizes), np.log(sorted(c)), [c[size] for size in sorted(c)])
    return rows, pd.DataFrame({"rows": sizes, "width": factor / np.sqrt(sizes)})


# The probability that a sample has a threshold, or a calibrator that is better than none.


def plan_chance(
    succeeds: Success, wanted: float, samples: tuple[int, int]
) -> tuple[int, pd.DataFrame]:
    """Return the number of rows for which a chance is at least `wanted`, and all chances."""
    chances: dict[int, float] = {}

    def simulate(n: int, factor: int = 1) -> float:
        number = max(FEWEST_SAMPLES, min(factor * samples[0], samples[1] // n))
        chances[n] = float(np.mean([succeeds(n) for _ in range(number)]))
        return chances[n]

    sizes = [FEWEST, 50, *SIZES[SIZES <= MOST_SAMPLED].tolist()]
    above = next((n for n in sizes if simulate(n) >= wanted), None)
    if above is None:
        raise ValueError(
            f"more than {MOST_SAMPLED:,} rows are needed in the assumed truth: pass a lower "
            "accuracy or act_on, or another temperature."
        )
    below = max((n for n in sizes if n < above), default=above)
    while above > NEAR * below:
        near = np.interp(wanted, [chances[below], chances[above]], np.log([below, above]))
        rows = round(float(np.exp(near)))
        if rows in chances:
            break
        if simulate(rows, REFINED) >= wanted:
            above = rows
        else:
            below = rows
    table = pd.DataFrame(sorted(chances.items()), columns=["rows", "chance"])
    return above, table


def threshold_exists(
    pool: Predictions,
    power: float,
    accuracy: float,
    act_on: float | None,
    level: float,
    random: np.random.Generator,
) -> Success:
    """Return whether a sample of n rows has a threshold that accepts enough rows of the pool."""
    score, column = top_label(pool.P)
    if pool.event is not None:
        score, column = pool.column(pool.event), np.full(len(score), pool.event)
    q = raise_to_power(to_array(pool.P), power)[np.arange(score.size), column]
    order = np.argsort(-score, kind="stable")
    score, q = score[order], q[order]
    if act_on is not None:
        last = np.flatnonzero(score >= score[math.ceil(act_on * score.size) - 1])[-1] + 1
        possible = float(q[:last].mean())
        if possible <= accuracy:
            raise ValueError(
                f"accuracy={accuracy:g} cannot be reached: {100 * possible:.1f} % of predictions "
                f"for the {100 * act_on:g} % of the rows with the highest scores are correct if "
                f"the temperature is {1 / power:g}: pass a lower accuracy, act_on or temperature."
            )

    def exists(n: int) -> bool:
        rows = random.integers(score.size, size=n)
        hit = random.random(n) < q[rows]
        found = find_threshold(rank_rows(score[rows], hit, np.ones(n)), accuracy, level)
        return bool((score >= found.threshold).mean() >= (act_on or 0.5 / score.size))

    return exists


def calibrator_helps(pool: Predictions, power: float, draw: Draw) -> Success:
    """Return whether a calibrator fitted on n rows lowers the expected log loss of other rows."""
    P = to_array(pool.P)[:: -(-len(pool.code) // TEST_ROWS)]
    q = raise_to_power(P, power)

    def loss(Q: FloatArray) -> float:
        return -float((q * np.log(np.maximum(Q, LEAST))).sum(axis=1).mean())

    def helps(n: int) -> bool:
        rows = draw(n, power)
        calibrator, _, _ = fit_some_rows(AutoCalibrator, to_array(rows.P), rows)
        return loss(map_checked(calibrator, as_source(P))) < loss(P)

    return helps


# The public function.


@listed("this package")
def label_plan(
    y_proba: ArrayLike,
    metric: Any = expected_calibration_error,
    *,
    width: float | None = None,
    accuracy: float | None = None,
    act_on: float | None = None,
    purpose: Literal["calibrate"] | None = None,
    temperature: float = 1.5,
    confidence_level: float = 0.95,
    pos_label: Any = None,
    labels: ArrayLike | None = None,
    random_state: Any = None,
    **keywords: Any,
) -> LabelPlan:
    r"""Plan how many rows to label, from the probabilities of unlabelled rows.

    Pass one of `width`, `accuracy` and ``purpose="calibrate"``. The result is a number of rows n:

    - with `width`, the interval of the metric of n rows has this mean width;
    - with `accuracy`, `selective_threshold` finds a threshold for this accuracy in 80 % of samples
      of n rows, which accepts at least the fraction `act_on` of the rows in `y_proba`;
    - with ``purpose="calibrate"``, :class:`skcalib.AutoCalibrator` fitted on n rows lowers the
      expected log loss of other rows in 90 % of samples.

    Rows are drawn from `y_proba`, and labels from two assumed truths: the probabilities themselves,
    and probabilities :math:`q \propto P^{1/T}` with the temperature T. The truth that needs more
    rows determines the plan.

    Parameters
    ----------
    y_proba : array-like of shape (N, K), (N,) or (N, 1)
        Class probabilities of rows without labels, such as the rows among which you would choose
        rows to label. One column is the probability of an event.
    metric : callable or {"log_loss", "brier_score"}, default=expected_calibration_error
        With `width`: the metric whose interval is planned. A calibration error of this package
        (the interval of `calibration_interval`), `calibration_intercept_slope` (the interval of the
        slope), `observed_expected_ratio`, or the log loss or Brier score, also as the functions
        `log_loss` and `brier_score_loss` of scikit-learn.
    width : float, default=None
        Mean width of the interval, from its lower to its upper end.
    accuracy : float in (0, 1), default=None
        The accuracy that `selective_threshold` guarantees.
    act_on : float in (0, 1], default=None
        With `accuracy`: the fraction of the rows that the threshold accepts. None means that any
        threshold is sufficient.
    purpose : {"calibrate"}, default=None
        "calibrate" plans rows for fitting a calibrator.
    temperature : float, default=1.5
        T. Above 1, the model is over-confident in this assumed truth, and below 1 it is
        under-confident. With 1, all labels are drawn from the probabilities themselves.
    confidence_level : float in (0, 1), default=0.95
        Confidence level of the interval, or of the guarantee of the threshold.
    pos_label : label, default=None
        Label of the event whose probability is measured, as in the metric. A threshold for two
        columns is one of the top label, unless `pos_label` names the event.
    labels : array-like of shape (K,), default=None
        Labels of the columns, in their order. None means the names of the columns of a frame, or 0
        to K - 1.
    random_state : int, RandomState instance or None, default=None
        Seed of the simulation.
    **keywords : object
        Keywords of a calibration error, such as ``n_bins=10``.

    Returns
    -------
    plan : LabelPlan
        ``plan.rows`` is the number of rows, and ``plan.table`` shows the mean width or the chance
        for other numbers of rows. ``print(plan)`` prints the plan with its assumptions.
        ``plan.draw(y_proba)`` draws the rows to label, with their weights.

    Raises
    ------
    ValueError
        If probabilities or keywords are invalid, if not exactly one of `width`, `accuracy` and
        `purpose` is passed, or if the number of rows would be too large: above 10,000,000 for a
        width, and above 1,000,000 for a threshold.

    See Also
    --------
    calibration_interval : The interval of a calibration error of labelled rows.
    selective_threshold : The threshold with a guaranteed accuracy.

    Notes
    -----
    In 12 simulations, the mean width for the planned number of rows was within 6 % of the requested
    width, and in 5 simulations, 79 to 83 % of samples had a threshold (``python -m
    benchmarks.coverage.label_plan``). If probabilities are wrong in another way than assumed, more
    or fewer rows are needed.

    For a temperature of 1.5, rare events are much more frequent than the probabilities say. Pass a
    temperature nearer to 1 if you do not expect this.

    Widths of calibration errors are simulated for at most 10,000 to 50,000 rows, those of other
    metrics for at most 300,000, and extrapolated by :math:`w(n) = c / \sqrt n`.

    Examples
    --------
    >>> import numpy as np
    >>> from skcalib.metrics import label_plan
    >>> p = np.random.default_rng(0).beta(1, 4, size=5000)
    >>> plan = label_plan(p, "brier_score", width=0.02, random_state=0)
    >>> bool(2300 < plan.rows < 2800)
    True
    >>> rows, weight = plan.draw(p, random_state=0)
    >>> len(rows) == plan.rows
    True
    """
    check_level(confidence_level)
    check_option("purpose", purpose, (None, "calibrate"))
    if (width is not None) + (accuracy is not None) + (purpose is not None) != 1:
        raise ValueError("pass exactly one of width=, accuracy= and purpose='calibrate'.")
    if act_on is not None:
        check_between("act_on", act_on, 0, np.nextafter(1, 2), "a number in (0, 1]")
        if accuracy is None:
            raise ValueError("act_on is for a threshold: pass accuracy= too, or leave it out.")
    check_between("temperature", temperature, 0, np.inf, "a number above 0, such as 1.5")
    predictions = read_unlabelled(y_proba, labels, pos_label)
    random = np.random.default_rng(spawn_seeds(random_state, 1)[0])
    pool, total = predictions, len(predictions.code)
    if total > POOL:
        pool = predictions.take(np.sort(random.choice(total, POOL, replace=False)))
    draw = partial(sample, pool, random)
    powers = [1.0] if temperature == 1 else [1.0, 1 / temperature]
    sure, name = f"{100 * confidence_level:g} %", name_of(metric)
    if width is not None:
        check_between("width", width, 0, np.inf, "a number above 0, such as 0.04")
        of_metric = width_of(metric, keywords, confidence_level, random)
        effort = OF_OTHERS if name in WORDS else OF_ERRORS
        rows, table = plan_width(of_metric, effort, width, pool.P.shape[1], draw, powers)
        what = WORDS.get(name, name.replace("_", " "))
        aim = f"the {sure} interval of the {what} is then {width:g} wide on average"
    elif accuracy is not None:
        check_between("accuracy", accuracy, 0, 1, "a number in (0, 1)")
        plans = {}
        for power in powers:
            goal = accuracy, act_on, confidence_level
            exists = threshold_exists(pool.as_classes(), power, *goal, random)
            plans[power] = plan_chance(exists, CHANCE_TO_ACT, THRESHOLDS)
        powers = sorted(powers, key=lambda power: -plans[power][0])
        rows, table = plans[powers[0]]
        some = "some rows" if act_on is None else f"{100 * act_on:g} % of the rows"
        aim = (
            f"a threshold that accepts {some} with an accuracy of {100 * accuracy:g} % ({sure} "
            f"confidence) then exists in {100 * CHANCE_TO_ACT:g} % of samples"
        )
    else:
        powers = powers[1:]
        if not powers:
            raise ValueError(
                "temperature=1: no calibrator improves calibrated probabilities; pass another "
                "temperature, such as 1.5."
            )
        helps = calibrator_helps(pool, powers[0], draw)
        rows, table = plan_chance(helps, CHANCE_TO_IMPROVE, CALIBRATORS)
        aim = (
            "AutoCalibrator then has a lower log loss than no calibrator in "
            f"{100 * CHANCE_TO_IMPROVE:g} % of samples"
        )
    truth = kind = "calibrated"
    if powers[0] != 1:
        truth = f"T = {temperature:g}"
        kind = f"{'over' if temperature > 1 else 'under'}-confident ({truth})"
    summary = (
        f"Label {rows:,} rows: {aim}. Assumed: new rows are like these {total:,}, and the model is "
        f"{kind}."
    )
    is_weighted = width is not None and name not in WORDS.keys() - {RATIO}
    read = partial(read_unlabelled, labels=labels, pos_label=pos_label)
    return LabelPlan(rows, table, truth, summary, read, is_weighted)
