"""The metrics of a comparison, and intervals of the gain of one set of predictions over another."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from copy import copy
from inspect import signature
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.special import stdtrit
from sklearn.metrics import get_scorer_names

from skcalib._arrays.passes import map_rows
from skcalib._arrays.types import Float64Array
from skcalib._comparison.held_out import ScoresAsGiven
from skcalib._comparison.row_losses import row_brier_score, row_error_rate, row_log_loss
from skcalib._validation.predictions import Predictions
from skcalib.metrics import SCORERS, get_scorer
from skcalib.metrics._bootstrap import draw_counts
from skcalib.metrics._resampling import Evaluation, evaluate_chunks
from skcalib.metrics._scorers import CalibrationScorer

# Entries of P that the resamples of one metric and calibrator may read, and the limits of their
# number.
RESAMPLED_ENTRIES = 100_000_000
FEWEST_RESAMPLES, MOST_RESAMPLES = 20, 200


# Losses that are means over rows: their intervals need no resampling.
ROW_LOSSES: dict[str, Callable[..., NDArray[Any]]] = {
    "log_loss": row_log_loss,
    "brier_score": row_brier_score,
    "error_rate": row_error_rate,
}


class Measure(NamedTuple):
    """A metric of a comparison: the mean of ``loss(P, code)`` over rows, or ``evaluate(...)``.

    ``sign`` is 1 if smaller is better, -1 if larger is better.
    """

    name: str
    sign: int
    loss: Callable[..., NDArray[Any]] | None
    evaluate: Evaluation | None

    def losses(self, predictions: Predictions) -> Float64Array:
        """Return the loss of each row."""
        assert self.loss is not None
        losses = np.empty(predictions.code.size)
        map_rows(self.loss, predictions.P, predictions.code, out=losses)
        return losses

    def value(self, predictions: Predictions) -> float:
        """Return the metric of checked predictions."""
        if self.loss is not None:
            return float(np.average(self.losses(predictions), weights=predictions.w))
        assert self.evaluate is not None
        return float(self.evaluate(predictions))


class Scored:
    """A scikit-learn scorer, times `sign`, as a metric of labels and probabilities."""

    def __init__(self, scorer: Callable[..., Any], sign: int) -> None:
        self.scorer = scorer
        self.sign = sign

    def __call__(
        self, y_true: NDArray[Any], y_proba: NDArray[Any], *, labels: Any, sample_weight: Any
    ) -> float:
        classifier = ScoresAsGiven(labels, "proba")
        scorer = _with_labels(self.scorer, labels)
        return self.sign * float(scorer(classifier, y_proba, y_true, sample_weight=sample_weight))


def _with_labels(scorer: Any, labels: NDArray[Any]) -> Any:
    """Return a scorer that passes the classes to its metric: rows of a fold may lack one."""
    asks_for_proba = "predict_proba" in getattr(scorer, "_response_method", ())
    if not asks_for_proba or "labels" not in signature(scorer._score_func).parameters:
        return scorer
    labelled = copy(scorer)
    labelled._kwargs = {"labels": labels, **scorer._kwargs}
    return labelled


def as_measures(metrics: Any) -> list[Measure]:
    """Return the metrics given by name, function or scorer, in a list or by name in a dict."""
    if isinstance(metrics, str) or callable(metrics):
        metrics = [metrics]
    if isinstance(metrics, Mapping):
        measures = [_as_measure(metric, name) for name, metric in metrics.items()]
    elif not np.iterable(metrics):
        raise TypeError(f"metrics must be a list or a dict of metrics; got {metrics!r}.")
    else:
        measures = [_as_measure(metric, None) for metric in metrics]
    names = [measure.name for measure in measures]
    if not names:
        raise ValueError("metrics is empty: give at least one.")
    for name in names:
        if names.count(name) > 1:
            raise ValueError(f"metrics has {name!r} twice: pass a dict that names each.")
    return measures


def _as_measure(metric: Any, name: str | None) -> Measure:
    if isinstance(metric, str):
        bare = metric.removeprefix("neg_")
        name = name or bare
        if bare in ROW_LOSSES:
            return Measure(name, 1, ROW_LOSSES[bare], None)
        if f"neg_{bare}" in SCORERS:
            metric = SCORERS[f"neg_{bare}"]
        elif metric in get_scorer_names():
            # A negated metric of scikit-learn is shown as the loss that it is.
            sign = 1 if metric.startswith("neg_") else -1
            return Measure(
                name, sign, None, Evaluation(Scored(get_scorer(metric), -sign), {}, False)
            )
        else:
            known = [*ROW_LOSSES, *(scorer.removeprefix("neg_") for scorer in SCORERS)]
            raise ValueError(
                f"metrics: {metric!r} is not the name of a metric: use one of {', '.join(known)}, "
                "a scorer of scikit-learn, or a function metric(y_true, y_proba)."
            )
    if not callable(metric):
        raise TypeError(f"metrics are names or functions metric(y_true, y_proba); got {metric!r}.")
    if isinstance(metric, CalibrationScorer):
        function, keywords = metric._score_func, metric._kwargs
        return Measure(name or _name(function), 1, None, Evaluation(function, keywords, False))
    if hasattr(metric, "_score_func"):
        name = name or _name(metric._score_func)
        return Measure(name, -1, None, Evaluation(Scored(metric, 1), {}, False))
    return Measure(name or _name(metric), 1, None, Evaluation(metric, {}, False))


def _name(metric: Any) -> str:
    while hasattr(metric, "func"):  # functools.partial
        metric = metric.func
    return str(getattr(metric, "__name__", type(metric).__name__))


def affordable_resamples(n: int, n_classes: int) -> int:
    """Return the number of resamples of a metric that take seconds, not minutes."""
    affordable = RESAMPLED_ENTRIES // (n * n_classes)
    return min(max(affordable, FEWEST_RESAMPLES), MOST_RESAMPLES)


class Measured(NamedTuple):
    """Data for an interval: a metric, and its value for each row or for each resample."""

    value: float
    parts: Float64Array


def measure_resampled(
    measure: Measure,
    predictions: Predictions,
    row: NDArray[np.intp],
    chunks: list[tuple[np.random.SeedSequence, int]],
) -> Measured:
    """Return the losses of all rows, or the metric in resamples given by the seeds.

    ``row (n,)`` says which row of the data each prediction is for: where folds overlap, a row
    is drawn with all its predictions.
    """
    if measure.loss is not None:
        losses = measure.losses(predictions)
        return Measured(float(np.average(losses, weights=predictions.w)), losses)
    assert measure.evaluate is not None
    draws = [(predictions, *chunk, row) for chunk in chunks]
    values = evaluate_chunks(measure.evaluate, draw_counts, draws, None)
    return Measured(measure.value(predictions), values)


class PairedGain(NamedTuple):
    """Gain of a metric, and the ends of its interval."""

    gain: float
    low: float
    high: float


def paired_gain(
    measure: Measure,
    before: Measured,
    after: Measured,
    row: NDArray[np.intp],
    w: Float64Array,
    level: float,
) -> PairedGain:
    r"""Interval of a gain, from measures of the same rows and the same resamples.

    For a mean of row losses, with d the difference of a row's losses:

    .. math:: g = \frac{\sum_i w_i d_i}{\sum_i w_i}, \qquad
              s^2 = \frac{n}{n - 1} \frac{\sum_i w_i^2 (d_i - g)^2}{(\sum_i w_i)^2}

    and for any other metric, with :math:`d_b` the difference in resample b and d that of the
    data: :math:`g = 2 d - \bar d_b`, which subtracts the bootstrap estimate of the bias, and s
    the standard deviation of the :math:`d_b`. The interval is :math:`g \mp t s`.
    """
    parts = before.parts - after.parts
    if measure.loss is not None:
        gain = before.value - after.value
        n = int(row.max()) + 1
        away = np.bincount(row, w * (parts - gain))
        error = np.sqrt(away @ away * n / max(n - 1, 1)) / w.sum()
    else:
        n = parts.size
        if n < 2:
            return PairedGain(measure.sign * (before.value - after.value), np.nan, np.nan)
        gain = 2 * (before.value - after.value) - parts.mean()
        error = parts.std(ddof=1)
    half = stdtrit(max(n - 1, 1), (1 + level) / 2) * error
    gain = measure.sign * gain
    return PairedGain(float(gain), float(gain - half), float(gain + half))
