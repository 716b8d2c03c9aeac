"""The result of a comparison: gains, tables, choice and verdict."""

from __future__ import annotations

import textwrap
from collections.abc import Mapping
from html import escape
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike, NDArray
from scipy.special import stdtrit

from skcalib._comparison.held_out import HeldOutRows, fit_rows, takes_groups
from skcalib._comparison.measures import Measure
from skcalib.plotting import ComparisonDisplay
from skcalib.plotting._comparison import metric_names, ordered

from skcalib.extending import (  # isort: skip
    SHORT_NAMES, Evaluation, Gain, GainSimulation, GroupwiseCalibrator,
    InnerPredictions as Predictions, RowLosses, ScoreCalibrator, calibrated, clusters_text,
    draw_counts, format_table, hall_interval, interval_of, mean_and_error, number_of, repeat_rows,
    resample, resampling_factor, separate_rows, to_html, too_few, top_label, with_input_and_classes,
)  # fmt: skip

# The choice of a calibrator by the log losses of held-out rows.


# Number of standard errors by which another calibrator must be better than AutoCalibrator to be
# chosen. The best of a dozen calibrators is often better by two standard errors by chance.
CLEAR_LEAD = 3.0
# A calibrator is as good as the chosen one if its log loss is higher by at most 2 standard errors
# and by at most 2 %.
AS_GOOD = 2.0
# A gain of at most 2 % of the log loss is small: calibration is not needed.
SMALL_SHARE = 0.02
# There is no gain if the interval of the gain is within plus or minus 0.1 % of the log loss.
NOTHING_SHARE = 0.001

# With at most 10 wrong predictions, the assumption of one more wrong prediction may decide whether
# there is a gain.
FEW_WRONG = 10.0


class Outcome(NamedTuple):
    """Mean losses before and after calibration, and the interval of the gain."""

    before: float
    after: float
    low: float
    high: float

    @property
    def gain(self) -> float:
        """Mean loss before calibration minus mean loss after it."""
        return self.before - self.after


class Choice(NamedTuple):
    """The chosen calibrator and the reason.

    ``name`` is the chosen calibrator, and ``candidate`` the best calibrator except the identity.
    ``anchor`` is the default calibrator (AutoCalibrator), or None if it was not compared.
    ``outcome`` is the outcome of the candidate. ``kind`` is the reason:

    * "sure": the interval of the gain is above 0;
    * "likely": there is a gain, but its interval contains 0;
    * "few errors": few predictions are wrong, and there is a gain only if one more is assumed;
    * "nothing": the identity is chosen, because the interval is close to 0;
    * "small": the identity is chosen, and a gain could only be small;
    * "open": the identity is chosen, but more rows could show a gain;
    * "alone": no calibrator except the identity has numbers.

    ``lead`` is the difference in log loss between the anchor and the candidate, if the candidate is
    chosen instead of the anchor, otherwise None.
    """

    name: str
    candidate: str
    anchor: str | None
    kind: str
    outcome: Outcome
    lead: float | None


def mean_gain_interval(before: RowLosses, after: RowLosses, level: float) -> tuple[float, float]:
    """Return the interval of the mean difference of two losses of the same rows."""
    return hall_interval(before.less(after), level)


def outcome_of(before: RowLosses, after: RowLosses, level: float) -> Outcome:
    """Compute the outcome of a calibrator from the losses of rows before and after calibration."""
    return Outcome(before.mean(), after.mean(), *mean_gain_interval(before, after, level))


def mean_gain_and_se(before: RowLosses, after: RowLosses) -> tuple[float, float]:
    """Return the mean loss reduction and its standard error, with an added wrong prediction."""
    return mean_and_error(*before.less(after).observations())[:2]


def level_of(name: str, n_others: int, anchor: str | None, level: float) -> float:
    """Return the confidence level at which the gain of a calibrator has its interval.

    The anchor is chosen before the data are seen. The intervals of the `n_others` other calibrators
    are simultaneous (Sidak), so that the interval of the best of them is valid.
    """
    return level if name == anchor else level ** (1 / max(n_others, 1))


def find_as_good(by_name: Mapping[str, RowLosses], name: str) -> list[str]:
    """Return the names of all calibrators whose log loss is as good as that of `name`."""
    best, names = by_name[name], []
    for other, held in by_name.items():
        lead, error = mean_gain_and_se(held, best)
        if lead <= AS_GOOD * error and held.mean() <= (1 + SMALL_SHARE) * best.mean():
            names.append(other)
    return names


def choose(
    by_name: Mapping[str, RowLosses],
    *,
    identity: str = "identity",
    anchor: str | None = "auto",
    level: float = 0.95,
    n_others: int | None = None,
) -> Choice:
    """Choose a calibrator by the log losses of held-out rows.

    The anchor (AutoCalibrator) is chosen, unless another calibrator is better by more than three
    standard errors. Both losses include a pseudo row: an added row with an assumed wrong
    prediction. Without an anchor, the calibrator with the lowest loss is chosen, with half a pseudo
    row included. The identity is chosen instead of this calibrator if it has no gain, or nearly
    none, on the held-out rows and the pseudo row. A gain by the pseudo row alone counts only if few
    labels have a probability below one half.

    ``n_others`` is the number of calibrators without the anchor, including calibrators that failed.
    """
    others = [name for name in by_name if name != identity]
    anchor = anchor if anchor in others else None
    unchanged = by_name[identity]
    if not others:
        alone = Outcome(unchanged.mean(), unchanged.mean(), 0.0, 0.0)
        return Choice(identity, identity, None, "alone", alone, None)
    if anchor is None:
        n = float(unchanged.w.sum())
        losses = {c: by_name[c].mean() + (by_name[c].pseudo_error or 0.0) / (2 * n) for c in others}
        candidate, lead = min(losses, key=losses.__getitem__), None
    else:
        leads = {c: mean_gain_and_se(by_name[anchor], by_name[c]) for c in others if c != anchor}
        clear = {c: lead for c, (lead, error) in leads.items() if lead > CLEAR_LEAD * error}
        candidate = max(clear, key=clear.__getitem__, default=anchor)
        lead = clear.get(candidate)
    tried = len(others) - (anchor is not None) if n_others is None else n_others
    own_level = level_of(candidate, tried, anchor, level)
    outcome = outcome_of(unchanged, by_name[candidate], own_level)
    before, _, low, high = outcome
    if max(-low, high) <= NOTHING_SHARE * before:
        name, kind = identity, "nothing"
    elif mean_gain_and_se(unchanged, by_name[candidate])[0] > 0 and (
        outcome.gain > 0 or unchanged.w[unchanged.losses > np.log(2)].sum() <= FEW_WRONG
    ):
        kind = "sure" if low > 0 else "likely" if outcome.gain > 0 else "few errors"
        name = candidate
    else:
        name, kind = identity, "small" if high < SMALL_SHARE * before else "open"
    return Choice(name, candidate, anchor, kind, outcome, lead)


# The summary table of a comparison, which is printed.


# Characters in a line of a terminal.
TERMINAL = 80
SHORT = {
    "log_loss": "log loss",
    "brier_score": "Brier",
    "error_rate": "error rate",
    **{metric: name.upper() for name, metric in SHORT_NAMES.items()},
}


def short(metric: str) -> str:
    """Return the short name of a metric, for the heading of a column."""
    return SHORT.get(metric, metric.replace("_", " "))


def summary_table(frame: pd.DataFrame) -> list[list[str]]:
    """Return the cells of the summary table, with the headings first.

    Its columns are log loss with its gain and interval ("+" for a significant gain, "-" for a
    significant loss), changed classes, the AUC of a binary problem, and the other metrics. A star
    marks debiased errors.
    """
    names = metric_names(frame)
    table, has_gains = ordered(frame), "log_loss" in names
    losses = table[("log_loss", "value") if has_gains else ("choice", "log loss")]
    numbers = [("AUC", table["AUC", ""])] if ("AUC", "") in frame else []
    for name in names:
        if name != "log_loss":
            biased = table[name, "debiased"].isna().all()
            column = table[name, "value" if biased else "debiased"]
            numbers.append((short(name) if biased else f"{short(name)}*", column))
    head = ["calibrator", "log\nloss", *["gain", "interval"] * has_gains, "classes\nchanged"]
    rows = [[*head, *(heading for heading, _ in numbers)]]
    for i, name in enumerate(table.index):
        cells = [str(name), f"{losses.iloc[i]:.4f}"]
        if has_gains:
            gain, low, high = (table["log_loss", part].iloc[i] for part in ("gain", "low", "high"))
            sign = "+" if low > 0 else "-" if high < 0 else " "
            ends = f"[{low + 0.0:.4f}, {high + 0.0:.4f}] {sign}"
            cells += ["", ""] if name == frame.index[0] else [f"{gain + 0.0:.4f}", ends]
        cells += [f"{100 * table['argmax changed'].iloc[i]:.1f} %"]
        rows.append([*cells, *(f"{column.iloc[i]:.4f}" for _, column in numbers)])
    return rows


# The result of a comparison: the choice, all measured numbers, and the chosen calibrator.


class Inputs(NamedTuple):
    """The inputs of a comparison: checked rows, and the arguments for a new fit.

    ``in_order`` is true if a calibrator can be fitted on `X` itself: its columns follow the sorted
    labels, or its single column is the score of the second label.
    """

    data: HeldOutRows
    calibrators: dict[str, Any]
    X: ArrayLike
    y: ArrayLike
    sample_weight: ArrayLike | None
    in_order: bool
    groups: Any = None


class CalibratorComparison:
    """Result of `compare_calibrators`: the recommended calibrator, the reason and all numbers.

    Its ``repr`` shows the verdict, a table with the recommended calibrator first and the others
    sorted by log loss, and the calibrators that are as good.

    Attributes
    ----------
    choice : str
        Name of the recommended calibrator; "identity" if no calibration is recommended.
    verdict : str
        The choice and its reason.
    as_good : list of str
        Calibrators whose log loss is higher than that of the choice by at most two standard errors
        and at most 2 %, including the choice.
    frame : pandas.DataFrame
        A row for each calibrator, the identity first. Each metric has the columns
        ``(metric, "value")``, computed from all held-out rows together; ``"debiased"``, the error
        minus its small-sample bias; ``"if calibrated"``, the error of a calibrated model on as many
        rows (both NaN for a metric that is not a calibration error of this package); ``"rank"`` by
        value (1 is best, ties share the lower rank); ``"gain"`` over the identity, positive if the
        calibrator is better, and its interval, ``"low"`` and ``"high"``. The other columns are
        ``("choice", "log loss")`` on the rows on which the choice was made, ``("choice",
        "chosen")``, ``("choice", "as good")``, for binary problems "AUC" (mean over folds, because
        each fold has its own calibrator), "fit seconds" (mean over fits), "argmax changed"
        (fraction of rows whose predicted class changes), "warning" (the first warning of the
        calibrator) and "error" (why the calibrator has no numbers). The last two are empty strings
        if there is none.

    See Also
    --------
    compare_calibrators : Compare calibrators, and create this object.
    metric_rank_correlation : Compute how much the metrics agree.

    Examples
    --------
    >>> import numpy as np
    >>> from skcalib import compare_calibrators
    >>> rng = np.random.default_rng(0)
    >>> y = rng.integers(3, size=900)
    >>> Z = 4 * (rng.normal(size=(900, 3)) + 1.5 * np.eye(3)[y])  # logits 2.7 times too large
    >>> found = compare_calibrators(Z, y, ["auto", "temperature"], metrics=["log_loss"])
    >>> found.choice
    'auto'
    >>> found.fit().predict_proba(Z[:2]).shape
    (2, 3)
    """

    def __init__(
        self, frame: pd.DataFrame, choice: str, verdict: str, as_good: list[str], given: Inputs
    ) -> None:
        self.frame = frame
        self.choice = choice
        self.verdict = verdict
        self.as_good = as_good
        self._inputs = given

    @property
    def metrics(self) -> list[str]:
        """Names of the metrics, in the order of the columns."""
        return metric_names(self.frame)

    def fit(self, name: str | None = None) -> Any:
        """Fit a calibrator on all calibration rows.

        Parameters
        ----------
        name : str, default=None
            Name of a compared calibrator; None means the choice.

        Returns
        -------
        calibrator : object
            Fitted clone. The columns of its scores are those of `X`; if the columns of `X` did not
            follow the sorted labels, they are in the order of the calibrator's ``classes_``.

        Raises
        ------
        ValueError
            If no calibrator has this name.
        """
        inputs, data = self._inputs, self._inputs.data
        name = self.choice if name is None else name
        if name not in inputs.calibrators:
            names = ", ".join(inputs.calibrators)
            raise ValueError(f"name must be one of {names}; got {name!r}.")
        calibrator = inputs.calibrators[name]
        if inputs.in_order and isinstance(calibrator, ScoreCalibrator | GroupwiseCalibrator):
            own = with_input_and_classes(calibrator, data.kind, data.classes)
            params = {"groups": inputs.groups} if takes_groups(own.fit) else {}
            return own.fit(inputs.X, inputs.y, sample_weight=inputs.sample_weight, **params)
        rows = slice(None) if len(data.splits) > 1 else data.splits[0][0]
        return fit_rows(calibrator, data, rows)

    def plot(self, *, metrics: Any = None, ax: Any = None) -> ComparisonDisplay:
        """Plot the gain of every calibrator by every metric.

        Parameters
        ----------
        metrics, ax
            See `skcalib.plotting.ComparisonDisplay.plot`.

        Returns
        -------
        display : skcalib.plotting.ComparisonDisplay

        Raises
        ------
        ValueError
            If the metric does not exist, or there are too few or too many axes.
        ImportError
            If matplotlib is missing.
        """
        return ComparisonDisplay.from_frame(self.frame, metrics=metrics, ax=ax)

    def __repr__(self) -> str:
        table = format_table(summary_table(self.frame), TERMINAL)
        verdict, *notes = (textwrap.fill(text, TERMINAL) for text in (self.verdict, *self._notes()))
        return "\n".join([verdict, "", table, *notes])

    def _repr_html_(self) -> str:
        table = to_html(summary_table(self.frame), self.choice)
        notes = "".join(f"<p>{escape(note)}</p>" for note in self._notes())
        return f"<p><strong>{escape(self.verdict)}</strong></p>{table}{notes}"

    def _notes(self) -> list[str]:
        others = [name for name in self.as_good if name != self.choice]
        clusters = clusters_text(self._inputs.data.n_clusters)
        lines = [f"Intervals of {clusters}."] if clusters else []
        if "*" in "".join(summary_table(self.frame)[0]):
            lines.append(
                "* debiased: the error minus its estimated small-sample bias; 0 means no more "
                "error than a calibrated model shows."
            )
        if others:
            lines.append(
                f"As good as {self.choice} (log loss higher by at most {AS_GOOD:.0f} standard "
                f"errors and {100 * SMALL_SHARE:.0f} %): {', '.join(others)}."
            )
        failed = [str(name) for name in self.frame.index[self.frame["error"] != ""]]
        if failed:
            lines.append(f'Failed or left out (see frame["error"]): {", ".join(failed)}.')
        return lines


def rows_of(comparison: CalibratorComparison) -> HeldOutRows:
    """Return the rows of data on which a comparison fitted and measured calibrators."""
    return comparison._inputs.data


# Metrics of one calibrator: values, debiased errors, and gains with intervals.


# Limit of the number of resamples of a metric: all resamples together may read this many
# probabilities. There are at least FEWEST_RESAMPLES and at most MOST_RESAMPLES resamples.
RESAMPLED_ENTRIES = 100_000_000
FEWEST_RESAMPLES, MOST_RESAMPLES = 20, 200


class Size(NamedTuple):
    """Value of a metric, debiased value, and the value expected for a calibrated model.

    Only calibration errors of this package have the last two; for other metrics they are NaN.
    """

    value: float
    debiased: float
    expected: float


def affordable_resamples(n: int, n_classes: int) -> int:
    """Return the number of resamples of a metric that take seconds instead of minutes."""
    return min(max(RESAMPLED_ENTRIES // (n * n_classes), FEWEST_RESAMPLES), MOST_RESAMPLES)


def sizes_of(measures: list[Measure], predictions: Predictions, seed: int) -> list[Size]:
    """Compute the value and the debiased value of each metric of the predictions."""
    errors = simulated(measures, predictions)
    smooth = calibrated(repeat_rows(predictions)) if errors else None
    sizes = []
    for measure in measures:
        if measure.evaluate in errors:
            one = interval_of(measure.evaluate, predictions, random_state=seed, smooth=smooth)
            sizes.append(Size(one.estimate, one.debiased, one.expected_if_calibrated))
        else:
            sizes.append(Size(measure.value(predictions), np.nan, np.nan))
    return sizes


def simulated(measures: list[Measure], predictions: Predictions) -> list[Evaluation]:
    """Return the calibration errors whose intervals are computed by simulation.

    The list is empty for predictions in a Dask array or for soft labels.
    """
    if predictions.P.remote is not None or predictions.are_shares:
        return []
    return [m.evaluate for m in measures if m.evaluate is not None and m.evaluate.is_error]


class Gains:
    """Calculator of the gain of other predictions over the predictions `before` in each metric.

    `sizes` are the metrics of `before`. For a Dask array, only means over rows have intervals. With
    too few clusters, calibration errors have no intervals.
    """

    def __init__(
        self, measures: list[Measure], before: Predictions, sizes: list[Size], seed: int
    ) -> None:
        self.measures = measures
        self.before = before
        self.sizes = sizes
        self.predicted = top_label(before.P)[1]
        self.seed = seed
        few, is_remote = too_few(before.n_clusters), before.P.remote is not None
        own = [] if few else simulated(measures, before)
        self.simulation = GainSimulation(own, before, random_state=seed) if own else None
        self.losses = {m.name: m.loss.losses(before) for m in measures if m.loss is not None}
        others = [m for m in measures if m.loss is None and m.evaluate not in own]
        drawn = [m for m in others if not (is_remote or (few and m.is_own_error))]
        self.resampled = {m.name: _resampled(m, before, seed) for m in drawn}

    def measure(self, after: Predictions, sizes: list[Size], level: float) -> list[Gain]:
        """Compute the gains of the predictions `after`, with the metrics `sizes`, over `before`."""
        by_sets, gains = self.simulation, []
        drawn = iter([] if by_sets is None else by_sets.gains(after, level))
        for measure, old, new in zip(self.measures, self.sizes, sizes, strict=True):
            if by_sets is not None and measure.is_own_error:
                gains.append(next(drawn))
            else:
                gains.append(self._gain(measure, old.value - new.value, after, level))
        return gains

    def changed(self, after: Predictions) -> float:
        """Return the fraction of rows whose predicted class changes."""
        predicted = top_label(after.P)[1]
        return float(np.average(predicted != self.predicted, weights=after.w))

    def _gain(self, measure: Measure, gain: float, after: Predictions, level: float) -> Gain:
        if measure.loss is not None:
            before, losses = self.losses[measure.name], measure.loss.losses(after)
            return Gain(gain, *mean_gain_interval(before, losses, level))
        if measure.name not in self.resampled:
            return Gain(measure.sign * gain, np.nan, np.nan)
        # The metrics before and after calibration are computed in the same resamples. The mean of
        # their differences minus the gain is the bootstrap estimate of the gain's bias, which is
        # subtracted.
        drawn = self.resampled[measure.name] - _resampled(measure, after, self.seed)
        t = resampling_factor(separate_rows(self.before), level) * stdtrit(
            drawn.size - 1, (1 + level) / 2
        )
        gain, half = measure.sign * (2 * gain - drawn.mean()), t * drawn.std(ddof=1)
        return Gain(float(gain), float(gain - half), float(gain + half))


def _resampled(measure: Measure, predictions: Predictions, seed: int) -> NDArray[np.float64]:
    """Return a metric in resamples of the rows; the same seed draws the same resamples."""
    assert measure.evaluate is not None
    n_resamples = affordable_resamples(*predictions.P.shape)
    return resample(measure.evaluate, draw_counts, repeat_rows(predictions), n_resamples, seed)


# The verdict of a comparison: the chosen calibrator and the reason, in words.


# Simple calibrators, the simplest first. The verdict mentions a simple calibrator that is as good
# as the chosen one.
SIMPLE = ("TemperatureScaling", "PlattScaling", "VectorScaling")
# The 1.1 % and 16 % in the text WHY_AUTO are from benchmarks/arena/regret.md ("always auto" and
# "lowest held-out loss").
WHY_AUTO = (
    " AutoCalibrator is the default because its log loss is on average 1.1 % above that of the "
    "best calibrator on 51 data sets; choosing the lowest held-out loss is 16 % above."
)
# If more predicted classes change than this fraction, the columns are probably in a wrong order.
MANY_CHANGED = 0.5


def format_rows(n: int, clusters: int | None, kind: str = "held-out") -> str:
    """Format the number of rows and, if any, of clusters."""
    return f"{n:,} {kind} rows" + ("" if clusters is None else f" in {clusters:,} clusters")


def format_choice(choice: Choice, n: int, level: float = 0.95, clusters: int | None = None) -> str:
    """Describe the choice of a calibrator and its reason, for `n` rows in `clusters` clusters."""
    if choice.kind == "alone":
        return "Nothing to compare: no calibrator except the identity has results."
    best, outcome = choice.candidate, choice.outcome
    change, ends = format_change(outcome), format_interval(outcome, level)
    calibrate = f"Calibrate by {best}: cross-validated {change}"
    rows = format_rows(n, clusters)
    no_gain = f"{best} does not lower the log loss ({format_loss(outcome.before)}) of {rows}"
    if choice.kind == "sure":
        text = f"{calibrate} {format_gain(outcome, level)}."
    elif choice.kind == "likely":
        text = (
            f"{calibrate}. This is probably a gain ({format_number(outcome.gain)}), but "
            f"{few(n, clusters)} are too few to be sure ({ends})."
        )
    elif choice.kind == "few errors":
        text = (
            f"{calibrate}, but few of the {n:,} predicted classes are wrong, and one more wrong "
            f"prediction would turn the loss into a gain ({ends})."
        )
    elif choice.kind == "nothing":
        text = f"Keep the probabilities: nothing to gain. With {best}, {change} on {rows} ({ends})."
    elif choice.kind == "small":
        text = (
            f"Keep the probabilities: {no_gain}, and a gain on other rows would be below "
            f"{format_number(max(outcome.high, 0.0))} ({ends})."
        )
    else:
        text = (
            f"Keep the probabilities for now: {no_gain}, but a gain of up to "
            f"{format_number(outcome.high)} is not ruled out ({ends}); more "
            f"{'rows' if clusters is None else 'clusters'} are needed to decide."
        )
    return text + _about_anchor(choice)


def few(n: int, clusters: int | None) -> str:
    """Format the number of independent units: the clusters, or without clusters the rows."""
    return f"{n:,} rows" if clusters is None else f"{clusters:,} clusters"


def sentence_on_test(
    choice: Choice, outcome: Outcome, n: int, level: float, clusters: int | None = None
) -> str:
    """Describe the calibrator chosen in folds of calibration rows, and its gain on test rows."""
    rows = format_rows(n, clusters, "test")
    change = f"{format_change(outcome)} on the {rows} {format_gain(outcome, level)}."
    if choice.name != choice.candidate:
        return (
            f"Keep the probabilities: no gain in folds of the calibration rows. With "
            f"{choice.candidate}, {change}{_about_anchor(choice)}"
        )
    text = f"Calibrate by {choice.name}, chosen in folds of the calibration rows: {change}"
    if outcome.high < 0:
        text += " This is a loss: check that the test rows are from the same source."
    elif outcome.low <= 0:
        alone = "test rows" if clusters is None else f"{clusters:,} clusters of the test rows"
        text += f" The {alone} are too few to be sure of a gain."
    return text + _about_anchor(choice)


def error_sentence(
    name: str, identity: str, best: str, metric: str, errors: Mapping[str, float]
) -> str:
    """Describe the choice by debiased error among the calibrators that are as good as `best`."""
    among = f"of the calibrators whose log loss is as good as that of {best}"
    before = format_number(errors[identity])
    if name == identity:
        return (
            f"Keep the probabilities: {among}, the identity has the lowest debiased {metric} "
            f"({before})."
        )
    return (
        f"Calibrate by {name}: {among}, it has the lowest debiased {metric} "
        f"({format_number(errors[name])}; without calibration {before})."
    )


def gain_sentence(outcome: Outcome, n: int, level: float, clusters: int | None) -> str:
    """Describe how the log loss changes if the calibrator is chosen by another metric."""
    return f" On {format_rows(n, clusters)} {format_change(outcome)} {format_gain(outcome, level)}."


def _about_anchor(choice: Choice) -> str:
    if choice.lead is None:
        return ""
    return (
        f" {choice.candidate} is better than {choice.anchor}: its log loss is lower by "
        f"{format_number(choice.lead)}, more than {CLEAR_LEAD:.0f} standard errors."
    )


def advice(choice: Choice) -> str:
    """Recommend comparing with AutoCalibrator, if it was not compared."""
    if choice.anchor is None and choice.kind != "alone":
        return ' Add "auto" to the calibrators: it is the default for any number of rows.'
    return ""


def changes_sentence(changed: float) -> str:
    """Describe how many predicted classes change, and warn if most classes change."""
    if changed == 0:
        return " No predicted class changes."
    share = f"{100 * changed:.1f} %" if changed >= 0.0005 else "less than 0.1 %"
    text = f" The predicted class changes in {share} of the rows."
    if changed > MANY_CHANGED:
        text += (
            " Calibration seldom changes so many classes: check that the columns are in the order "
            "of the sorted labels."
        )
    return text


def simpler_sentence(
    name: str, as_good: list[str], kinds: Mapping[str, str], rows: Mapping[str, Any]
) -> str:
    """Describe a simpler calibrator that is as good as the chosen one, if there is one.

    ``kinds`` contains the class of each calibrator by its name, and ``rows`` the results.
    """
    own = kinds[name]
    simpler = SIMPLE[: SIMPLE.index(own)] if own in SIMPLE else SIMPLE
    names = [other for kind in simpler for other in as_good if kinds[other] == kind]
    if not names:
        return ""
    after, changed = rows[names[0]].reported.mean(), rows[names[0]].changed
    share = f"{100 * changed:.1f} % of the predicted classes" if changed else "no predicted class"
    return (
        f" {names[0]}, which is simpler, is as good here (log loss {format_loss(after)}) and "
        f"changes {share}."
    )


def format_gain(outcome: Outcome, level: float) -> str:
    """Format a gain and its interval."""
    return f"(gain {format_number(outcome.gain)}, {format_interval(outcome, level)})"


def format_interval(outcome: Outcome, level: float) -> str:
    """Format the interval of a gain and its level."""
    low, high = format_number(outcome.low), format_number(outcome.high)
    return f"{100 * level:.4g} % interval {low} to {high}"


def format_change(outcome: Outcome) -> str:
    """Describe how a log loss changes."""
    before, after = format_loss(outcome.before), format_loss(outcome.after)
    if before == after:
        return f"log loss stays at {before}"
    return f"log loss {'falls' if outcome.gain > 0 else 'rises'} from {before} to {after}"


def format_loss(value: float) -> str:
    """Format a loss with three digits, so that a small gain is visible."""
    return f"{value:#.3g}".removesuffix(".")


def format_number(value: float) -> str:
    """Format a gain or an error with two digits, and 0 without a sign."""
    return f"{value + 0.0:.2g}"


# Rank correlation of the metrics of a comparison.


def metric_rank_correlation(comparison: CalibratorComparison | pd.DataFrame) -> pd.DataFrame:
    r"""Compute the rank correlation of the metrics of a comparison, over the calibrators.

    Without ties, Spearman's rank correlation of two metrics is

    .. math:: \rho = 1 - \frac{6 \sum_c (r_c - r'_c)^2}{m (m^2 - 1)} ,

    where :math:`r_c` and :math:`r'_c` are the ranks of calibrator c by the two metrics, and m is
    the number of calibrators. With ties, it is Pearson's correlation of the ranks. Metrics that
    disagree measure different things: choose the one that your application needs.

    Parameters
    ----------
    comparison : CalibratorComparison or pandas.DataFrame
        Result of `compare_calibrators`, or its `frame`. Rows without numbers are left out.

    Returns
    -------
    correlation : pandas.DataFrame of shape (metrics, metrics)
        Correlations in [-1, 1]; NaN if all calibrators have the same rank by a metric.

    Raises
    ------
    ValueError
        If fewer than two calibrators have numbers, or the frame does not come from a comparison.

    Notes
    -----
    Section 5.3 of the paper prints :math:`|r_c - r'_c|` instead of the square. For three
    calibrators in inverse order this would result in 0, while the text of the paper states -1.

    References
    ----------
    Nixon, Dusenberry, Jerfel, Nguyen, Liu, Zhang, Tran (2020). Measuring Calibration in Deep
    Learning. arXiv:1904.01685v2, sections 5.3 and 5.4.

    Examples
    --------
    >>> import numpy as np
    >>> from skcalib import compare_calibrators, metric_rank_correlation
    >>> rng = np.random.default_rng(0)
    >>> y = rng.integers(3, size=600)
    >>> Z = 4 * (rng.normal(size=(600, 3)) + 1.5 * np.eye(3)[y])
    >>> found = compare_calibrators(Z, y, metrics=["log_loss", "brier_score"])
    >>> metric_rank_correlation(found).shape
    (2, 2)
    """
    frame = comparison.frame if isinstance(comparison, CalibratorComparison) else comparison
    names = metric_names(frame)
    if not names:
        raise ValueError("comparison must be a result of compare_calibrators, or its frame.")
    ranks = pd.DataFrame({name: frame[name, "rank"] for name in names}).dropna()
    if len(ranks) < 2:
        raise ValueError(
            f"comparison has results for {len(ranks)} calibrators, but at least two are needed: "
            "compare more calibrators."
        )
    return ranks.corr("spearman")


# The result of a comparison: the chosen calibrator, the verdict, and the calibrators that are as
# good as the chosen one.


class Row(NamedTuple):
    """Results of one calibrator: values and gain of each metric, and its losses.

    ``held`` contains the log losses by which the calibrator is chosen, ``reported`` the log losses
    of the reported rows; they differ only if there are test rows. ``chosen_error`` is the debiased
    error of ``choose_by``, or NaN if that is log loss.
    """

    sizes: list[Size]
    gains: list[Gain]
    held: RowLosses
    reported: RowLosses
    chosen_error: float
    fit_seconds: float
    changed: float
    warning: str = ""
    error: str = ""
    auc: float = np.nan


def decide(
    rows: dict[str, Row],
    *,
    identity: str,
    anchor: str | None,
    n_others: int,
    level: float,
    chosen_by: str | None,
    kinds: dict[str, str],
    has_test: bool,
) -> tuple[str, str, list[str]]:
    """Return the chosen calibrator, the verdict, and calibrators with an equally good log loss.

    ``kinds`` contains the class of each calibrator.
    """
    held_out = {name: row.held for name, row in rows.items() if not row.error}
    choice = choose(held_out, identity=identity, anchor=anchor, level=level, n_others=n_others)
    as_good = find_as_good(held_out, choice.name)
    before, name = rows[identity].reported, choice.name
    n, cluster = round(before.w.sum()), before.cluster
    clusters = None if cluster is None else number_of(cluster)

    def outcome(other: str) -> Outcome:
        own_level = level_of(other, n_others, anchor, level)
        return outcome_of(before, rows[other].reported, own_level)

    if chosen_by is not None and choice.kind != "alone":
        errors = {other: rows[other].chosen_error for other in held_out}
        # If errors are equal (all may be 0), the calibrator chosen by log loss comes first.
        name = min(as_good, key=lambda other: (errors[other], other != choice.name))
        text = error_sentence(name, identity, choice.name, chosen_by, errors)
        text += "" if name == identity else gain_sentence(outcome(name), n, level, clusters)
        as_good = find_as_good(held_out, name)
    elif has_test and choice.kind != "alone":
        text = sentence_on_test(choice, outcome(choice.candidate), n, level, clusters)
    else:
        text = format_choice(choice, n, level, clusters)
    if name != identity:
        text += changes_sentence(rows[name].changed)
        lowest = min(rows[other].reported.mean() for other in held_out)
        if name == anchor and chosen_by is None and lowest < rows[name].reported.mean():
            text += WHY_AUTO
        text += simpler_sentence(name, as_good, kinds, rows)
    return name, text + advice(choice), as_good
