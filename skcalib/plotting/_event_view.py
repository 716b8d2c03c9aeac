"""What a display shows of predictions: a score, whether it was a hit, and the names of both."""

from __future__ import annotations

from typing import Literal

import numpy as np
from numpy.typing import NDArray

from skcalib._arrays.source import whole
from skcalib._arrays.types import Float64Array, FloatArray
from skcalib._validation.keywords import check_count, check_option
from skcalib._validation.predictions import Predictions
from skcalib.metrics._ks import reduce_top

Mode = Literal["top", "within_top"]
Strategy = Literal["uniform", "quantile"]
Hits = NDArray[np.bool_]


def every_probability(
    predictions: Predictions,
) -> tuple[FloatArray, Hits, Float64Array, tuple[str, str]]:
    """Return all n K probabilities, whether the class of each is true, weights, names of axes."""
    P = whole(predictions.P)
    hit = predictions.code[:, None] == np.arange(P.shape[1])
    names = ("Probability of a class", "Share of rows of the class")
    return P.ravel(), hit.ravel(), np.repeat(predictions.w, P.shape[1]), names


def as_shown(predictions: Predictions, mode: Mode | None, r: int) -> Predictions:
    """Return the predictions with the event that is shown, or without one."""
    check_option("mode", mode, (None, "top", "within_top"))
    check_count("r", r, 1, predictions.P.shape[1])
    return predictions.of_mode(mode, int(r))


def event_view(
    predictions: Predictions, mode: Mode | None, r: int
) -> tuple[FloatArray, Hits, tuple[str, str]]:
    """Return score and hit of the shown event, and the names of the axes."""
    score, hit = reduce_top(predictions, mode, r)
    if predictions.event is not None:
        label = predictions.classes.tolist()[predictions.event]
        names = (f"Probability of class {label}", f"Share of class {label}")
        if label is True:
            names = ("Probability of the event", "Share of events")
    elif r == 1:
        names = ("Confidence (top label)", "Accuracy")
    elif mode == "within_top":
        names = (f"Probability of the {r} likeliest", "Share of hits")
    else:
        names = (f"Probability of rank {r}", "Share of hits")
    return score, hit, names
