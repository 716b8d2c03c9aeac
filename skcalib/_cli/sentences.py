"""Results in sentences, for readers who do not know the metrics."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from skcalib._scores.top_label import event_or_top
from skcalib._validation.predictions import Predictions
from skcalib.metrics._clusters import cluster_sums, student_of_rows

# A difference of fewer standard errors may be chance.
STANDARD_ERRORS = 1.96


class Confidence(NamedTuple):
    """Mean score, share of hits, and the standard error of their difference if calibrated.

    The score is that of the top label and a hit a correct prediction, or the probability of one
    event and its occurrence.
    """

    score: float
    hits: float
    standard_error: float
    one_event: bool


def confidence_of(predictions: Predictions) -> Confidence:
    """Return how sure and how right predictions are."""
    score, hit = event_or_top(predictions)
    n = predictions.w.sum()
    score, w = np.asarray(score, dtype=np.float64), predictions.w / n
    error = np.sqrt(w @ (score * (1 - score)) / n)
    if predictions.cluster is not None:
        sums = cluster_sums(w * (hit - score), predictions.cluster)
        t = student_of_rows(predictions.cluster, w, 0.95)
        error = np.sqrt(sums @ sums) * t / STANDARD_ERRORS
    return Confidence(float(w @ score), float(w @ hit), float(error), predictions.event is not None)


def confidence_sentence(confidence: Confidence) -> str:
    """Say whether predictions claim too much."""
    score, hits, standard_error, one_event = confidence
    mean, rate, more = percent(score), percent(hits), score > hits
    # Of the numbers as they are written, so that they agree.
    points = f"{abs(round(100 * score, 1) - round(100 * hits, 1)):.1f} points"
    if one_event:
        start = f"Predicts {mean} on average, and {rate} of the rows are events"
        none, fault = "as often as predicted", f"too {'high' if more else 'low'} by {points}"
    else:
        start = f"The model is {mean} confident on average and right {rate} of the time"
        none = "calibrated on average"
        fault = f"{'over' if more else 'under'}-confident by {points}"
    if points == "0.0 points":
        return f"{start}: {none}."
    chance = abs(score - hits) <= STANDARD_ERRORS * standard_error
    return f"{start}: {fault}{', which may be chance' if chance else ''}."


def percent(share: float) -> str:
    """Write a share in per cent."""
    return f"{100 * share:.1f} %"
