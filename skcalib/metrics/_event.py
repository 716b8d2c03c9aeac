"""The one event that a statistic is about: its probability, its log-odds, whether it happened."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from skcalib._arrays.source import as_source
from skcalib._arrays.types import Float64Array, FloatArray, Intp
from skcalib._scores.clip import find_clip
from skcalib._scores.scores import Scores
from skcalib._scores.top_label import event_or_top
from skcalib._validation.predictions import Predictions


class EventRows(NamedTuple):
    """Rows: the event's probability ``p (n,)``, ``hit (n,)`` and positive weights ``w (n,)``.

    ``cluster (n,)`` are numbers of clusters, None if rows are independent.
    """

    p: FloatArray
    hit: NDArray[Any]
    w: Float64Array
    cluster: Intp | None = None


def as_binary(predictions: Predictions) -> Predictions:
    """Return the event against the rest as two columns, of which the event is one."""
    if predictions.classes.size == 2:
        if predictions.P.remote is None:
            return predictions
        both = np.column_stack([predictions.column(k) for k in (0, 1)])
        return predictions._replace(P=as_source(both))
    p, hit = event_or_top(predictions)
    two = as_source(np.column_stack([1 - p, p]))
    code, classes, cluster = hit.astype(np.intp), np.array([0, 1]), predictions.cluster
    return Predictions(two, code, predictions.w, classes, 1, "columns", cluster=cluster)


def event_rows(predictions: Predictions) -> EventRows:
    """Return the rows as one event sees them."""
    p, hit = event_or_top(predictions)
    return EventRows(p.astype(np.float64), hit, predictions.w, predictions.cluster)


def event_log_odds(predictions: Predictions) -> Float64Array:
    """Return the log-odds of the event ``(n,)``, as `PlattScaling` takes them: 0 and 1 clipped."""
    scores = Scores(predictions.P, "proba", predictions.classes)
    scores.set_clip(find_clip(scores)[0])
    if predictions.event is None:
        return scores.top_log_odds()
    return scores.log_odds_columns(slice(predictions.event, predictions.event + 1))[0]
