"""The range of the temperature of softmax(z / T)."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

# T is within exp(+-10) of the mean gap of the logits, or of the mean gap of the true logit if that
# is far smaller. Beyond, softmax(z / T) is practically a hard decision or uniform.
LOG_BOUND = 10.0
# Smaller mean gaps count as 0.
LEAST_GAP = 1e-30
# From a range of log beta to log beta and "low", "high" or "": the end of the range it met, if any.
Search = Callable[[float, float], tuple[float, str]]


class Temperature(NamedTuple):
    """A fitted temperature; `bound` is "low" or "high" if 1 / T is at that end of its range."""

    value: float
    bound: str
    mean_gap: float


def within_bounds(
    n_classes: int, mean_true_gap: float, mean_gap: float, search: Search
) -> Temperature:
    """Return T by a search within the range of log beta that the mean gaps allow."""
    if mean_gap <= LEAST_GAP:
        # All rows are constant, so any T gives uniform probabilities.
        return Temperature(1.0, "", 1.0)
    middle = -float(np.log(mean_gap))
    log_beta, end = middle + LOG_BOUND, "high"
    if mean_true_gap > LEAST_GAP:
        sharpest = sharpest_of(n_classes, mean_true_gap)
        log_beta, end = search(middle - LOG_BOUND, max(middle, sharpest) + LOG_BOUND)
    return Temperature(float(np.exp(-log_beta)), end, mean_gap)


def sharpest_of(n_classes: int, mean_true_gap: float) -> float:
    """Return a log beta that the NLL's optimum cannot exceed.

    At the optimum, the NLL is at most log K and at least beta times the mean gap of the true logit.
    A bound from the mean gap of all logits would fail: a single logit of -1e10 (a constant feature
    in naive Bayes) can move it far away from the optimum.
    """
    return float(np.log(np.log(n_classes)) - np.log(mean_true_gap))
