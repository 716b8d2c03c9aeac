"""Repeated evaluation of a metric on resampled rows or labels.

Predictions are checked once. A metric of this package gets checked predictions, with the counts of
the resample as weights, and checks nothing again. Any other metric is called like a public
function, with ``sample_weight`` if it has this parameter, otherwise with repeated rows.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import cached_property, partial
from inspect import Parameter, signature
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.utils.parallel import Parallel, delayed

from skcalib._arrays.rowwise import is_unit
from skcalib._arrays.sources import refuse_remote, to_array
from skcalib._validation.keywords import spawn_seeds
from skcalib._validation.rows import (
    Predictions,
    as_sample_weight,
    check_predictions,
    drop_zero_weight,
    effective,
    is_whole,
)

# The number of resamples that one process computes with one seed. The number does not depend on
# `n_jobs`, so that results do not depend on `n_jobs` either.
CHUNK = 50
# The largest number of rows that can be resampled. A row with the integer weight w counts as w
# rows.
MOST_COPIES = 10**8

Draw = Callable[..., Iterator[Predictions]]


class Evaluation:
    """A metric that is evaluated on checked predictions, in which some rows may have weight 0."""

    def __init__(self, metric: Callable[..., Any], keywords: dict[str, Any], column: bool) -> None:
        self.metric = metric
        self.keywords = keywords
        self.column = column
        self.is_skcalib_metric = is_skcalib_metric(metric)
        self.function, self.all_keywords = unwrapped(metric, keywords)
        self.is_error = self.is_skcalib_metric and getattr(self.function, "_is_error", False)
        self.takes_weights = self.is_skcalib_metric or "sample_weight" in self.accepted

    @cached_property
    def accepted(self) -> set[str]:
        """Names of the parameters in the signature of the metric."""
        try:
            parameters = signature(self.metric).parameters.values()
        except ValueError:  # some built-in functions have no signature
            return set()
        kinds = (Parameter.KEYWORD_ONLY, Parameter.POSITIONAL_OR_KEYWORD)
        return {parameter.name for parameter in parameters if parameter.kind in kinds}

    def __call__(self, predictions: Predictions) -> NDArray[np.float64]:
        P, code, classes = predictions.P, predictions.code, predictions.classes
        # Weights are scaled again, because the rows may be a resample, a fold or a group.
        w = effective(predictions.w)
        if self.is_skcalib_metric:
            P, code, w = drop_zero_weight(P, code, w)
            counted = predictions._replace(P=P, code=code, w=w, order=None, cluster=None)
            return np.asarray(self.metric(None, counted, **self.keywords), dtype=np.float64)
        keywords = dict(self.keywords)
        if "labels" in self.accepted:
            keywords["labels"] = classes
        y_true = classes[code] if code.ndim == 1 else code[:, 1] if self.column else code
        y_proba = predictions.of_event()[0] if self.column else to_array(P)
        event = predictions.as_classes().event
        if event is not None and "pos_label" in self.accepted:
            keywords["pos_label"] = classes.tolist()[event]
        if "sample_weight" in self.accepted:
            keywords["sample_weight"] = as_sample_weight(w)
        else:
            copies = w.astype(np.intp)
            y_true, y_proba = (np.repeat(part, copies, axis=0) for part in (y_true, y_proba))
        try:
            return np.asarray(self.metric(y_true, y_proba, **keywords), dtype=np.float64)
        except TypeError as error:
            raise TypeError(
                f"metric {name_of(self.metric)} failed: {error}; pass a function "
                "metric(y_true, y_proba) that returns a number."
            ) from error

    def measured(self, predictions: Predictions) -> Predictions:
        """Return the predictions as the metric reads them: with an event, or without an event."""
        if not self.is_skcalib_metric:
            return predictions
        keywords = self.all_keywords
        if keywords.get("pos_label") is not None:
            predictions = predictions.named(keywords["pos_label"])
        if not getattr(self.function, "_has_event", True):
            return predictions.as_classes()
        return predictions.of_mode(keywords.get("mode"), keywords.get("r", 1))


def check_is_metric(metric: object) -> None:
    """Raise an error if a metric is not callable."""
    if not callable(metric):
        raise TypeError(
            "metric must be a function such as skcalib.metrics.static_calibration_error; got "
            f"{metric!r}."
        )


def name_of(metric: Any) -> str:
    """Return the name of a metric or a scorer for printing."""
    if isinstance(metric, str):
        return metric.removeprefix("neg_")
    metric, _ = unwrapped(getattr(metric, "_score_func", metric), {})
    return str(getattr(metric, "__name__", type(metric).__name__))


def name_metrics(metrics: Any) -> dict[str, Any]:
    """Return a dict of metrics by name, from a name, a function, or a list or dict of both."""
    if isinstance(metrics, str) or callable(metrics):
        metrics = [metrics]
    if not np.iterable(metrics):
        raise TypeError(
            f"metrics must be a name, a function, or a list or a dict of these; got {metrics!r}."
        )
    if isinstance(metrics, Mapping):
        pairs = [(str(name), metric) for name, metric in metrics.items()]
    else:
        pairs = [(name_of(metric), metric) for metric in metrics]
    named: dict[str, Any] = {}
    for name, metric in pairs:
        if name in named:
            raise ValueError(f"metrics contains {name!r} twice: pass a dict with distinct names.")
        named[name] = metric
    if not named:
        raise ValueError("metrics is empty: pass at least one metric.")
    return named


def is_single_column(y_proba: ArrayLike) -> bool:
    """Return whether `y_proba` contains only the probabilities of one event, as a single column."""
    if isinstance(y_proba, Predictions):
        return y_proba.event_by == "column"
    return np.ndim(y_proba) == 1 or np.shape(y_proba)[1] == 1


def refuse_relative(evaluate: Evaluation, predictions: Predictions) -> None:
    """Raise an error if weights are relative, but the metric does not accept weights."""
    if not evaluate.takes_weights and not is_whole(predictions.w):
        raise ValueError(
            "sample_weight contains floats, which are relative weights, but the metric "
            f"{name_of(evaluate.metric)} takes no weights: use metrics that accept weights, or "
            "pass integers, which count copies of rows."
        )


def prepare(
    metric: Callable[..., Any],
    keywords: dict[str, Any],
    y_true: ArrayLike,
    y_proba: ArrayLike,
    sample_weight: ArrayLike | None,
    labels: ArrayLike | None,
    pos_label: Any,
    name: str,
    clusters: Any,
    soft: bool = False,
) -> tuple[Evaluation, Predictions, NDArray[np.float64]]:
    """Check the arguments of a resampling function, and evaluate the metric on the original data.

    The arguments from `y_true` on are those of `check_predictions`, and `name` is its `caller`. The
    returned predictions have a row for each copy of a row, because copies are drawn separately.
    """
    check_is_metric(metric)
    predictions = check_predictions(
        y_true, y_proba, sample_weight, labels, pos_label, soft=soft, caller=name, clusters=clusters
    )
    refuse_remote(predictions.P, name)
    evaluate = Evaluation(metric, keywords, is_single_column(y_proba))
    refuse_relative(evaluate, predictions)
    predictions = repeat_rows(predictions)
    return evaluate, predictions, evaluate(predictions)


def repeat_rows(predictions: Predictions) -> Predictions:
    """Repeat rows by their integer weights, so that each copy is resampled separately."""
    w = predictions.w
    if is_unit(w) or not is_whole(w):
        return predictions
    n_copies = int(w.sum())
    if n_copies > MOST_COPIES:
        raise ValueError(
            f"sample_weight contains counts of {n_copies:,} rows in total, but at most "
            f"{MOST_COPIES:,} can be drawn; pass fewer rows, or pass floats if only the ratios of "
            "weights matter."
        )
    rows = np.repeat(np.arange(w.size), w.astype(np.intp))
    return predictions.take(rows)._replace(w=np.ones(n_copies))


def random_chunks(n_resamples: int, random_state: Any) -> list[tuple[np.random.SeedSequence, int]]:
    """Divide resamples into chunks with a seed each; the chunks do not depend on `n_jobs`."""
    starts = range(0, n_resamples, CHUNK)
    seeds = spawn_seeds(random_state, len(starts))
    return [
        (seed, min(CHUNK, n_resamples - start)) for seed, start in zip(seeds, starts, strict=True)
    ]


def evaluate_chunks(
    evaluate: Evaluation, draw: Draw, chunks: list[tuple[Any, ...]], n_jobs: int | None
) -> NDArray[np.float64]:
    """Evaluate the metric on all predictions that ``draw(*chunk)`` yields, chunk by chunk."""
    parts = Parallel(n_jobs=n_jobs)(delayed(_values)(evaluate, draw, chunk) for chunk in chunks)
    return np.array([value for part in parts for value in part])


def resample(
    evaluate: Evaluation,
    draw: Draw,
    predictions: Predictions,
    n_resamples: int,
    random_state: Any,
    n_jobs: int | None = None,
) -> NDArray[np.float64]:
    """Evaluate the metric on resamples that ``draw(predictions, seed, size)`` yields."""
    draws = [(predictions, *chunk) for chunk in random_chunks(n_resamples, random_state)]
    return evaluate_chunks(evaluate, draw, draws, n_jobs)


def make_result(
    kind: Callable[..., Any], numbers: Iterable[Any], evaluate: Evaluation, predictions: Predictions
) -> Any:
    """Create a result object, with floats or arrays as the metric returns them."""

    def form(value: NDArray[np.float64]) -> Any:
        if value.ndim == 0:
            return float(value)
        return predictions.of_classes(value, None) if evaluate.is_skcalib_metric else value

    return kind(*(form(np.asarray(number)) for number in numbers))


def _values(evaluate: Evaluation, draw: Draw, chunk: tuple[Any, ...]) -> list[NDArray[np.float64]]:
    return [evaluate(predictions) for predictions in draw(*chunk)]


def is_skcalib_metric(metric: Callable[..., Any]) -> bool:
    """Return whether a metric accepts checked predictions, as all metrics of this package do."""
    metric, _ = unwrapped(metric, {})
    # functools.wraps copies the attribute `takes_predictions` to the wrapper, which may compute
    # something else.
    return hasattr(metric, "takes_predictions") and not hasattr(metric, "__wrapped__")


def unwrapped(metric: Any, keywords: dict[str, Any]) -> tuple[Any, dict[str, Any]]:
    """Return the function inside `functools.partial`, together with all keywords."""
    while isinstance(metric, partial):
        metric, keywords = metric.func, {**metric.keywords, **keywords}
    return metric, keywords
