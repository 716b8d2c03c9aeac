"""Hostile calls end in a right answer or in an error that names the argument."""

from fractions import Fraction

import numpy as np
import pytest
from calls import refused

from benchmarks.trust import fuzz
from skcalib import VectorScaling
from skcalib.metrics import general_calibration_error


@pytest.mark.usefixtures("few_label_sets")
@pytest.mark.parametrize(
    ("calls", "seed"), [(60, 20), pytest.param(400, 21, marks=pytest.mark.slow)]
)
def test_hostile_calls_end_in_a_right_answer_or_a_named_error(calls, seed):
    """A slice of what ``python -m benchmarks.trust`` tries."""
    faults = [
        f"{outcome}: {case} (seed {own}): {fault}"
        for case, own, outcome, fault in fuzz.run(calls, seed)
        if fault
    ]
    assert not faults, "\n".join(faults)


P = np.array([[0.7, 0.3], [0.4, 0.6], [0.2, 0.8], [0.9, 0.1]])
Y = np.array([0, 1, 1, 0])
MASK = np.arange(4) == 2

# What was taken, crashed or did not say which argument it was about: keywords, what is said.
MENDED = {
    "masked probabilities": ({"y_proba": np.ma.masked_array(P, P == 0.4)}, "y_proba has masked"),
    "masked labels": ({"y_true": np.ma.masked_array(Y, MASK)}, "y_true has masked"),
    "masked weights": ({"sample_weight": np.ma.masked_array(P[:, 0], MASK)}, "weight has masked"),
    "dates as scores": ({"y_proba": P.astype("m8[s]")}, "y_proba: dates"),
    "dates as weights": ({"sample_weight": Y.astype("M8[s]")}, "sample_weight: datetime64"),
    "complex weights": ({"sample_weight": P[:, 0] + 1j}, "sample_weight: complex128"),
    "scores beyond float64": ({"y_proba": [[10**400, 0]] * 4}, "y_proba: int too large"),
    "labels beyond 64 bits": ({"y_true": [10**30, 1, 1, 0]}, "y_true has labels of type int; make"),
    "a fraction as a label": ({"y_true": [Fraction(1, 2), 1, 1, 0]}, "of type Fraction, int; make"),
    "ragged labels": ({"y_true": [[0], [1, 1], [1], [0]]}, "y_true: "),
    "a function as labels": ({"labels": print}, r"labels should be a 1d array"),
    "weights whose sum overflows": ({"sample_weight": P[:, 0] * 1e308}, "sample_weight sums to"),
    "words as weights": ({"sample_weight": ["much"] * 4}, "sample_weight: could not convert"),
    "a word for a flag": ({"max_prob": "no"}, "max_prob must be True or False"),
    "an array as threshold": ({"threshold": P}, "threshold must be None or"),
    "bins without end": ({"n_bins": 10**40}, "n_bins must be a whole number from 1 to"),
    "an array as a label": ({"pos_label": P}, "pos_label="),
}


@pytest.mark.parametrize("case", MENDED)
def test_what_once_slipped_through_is_refused_by_name(case):
    keywords, message = MENDED[case]
    keywords = {"y_true": Y, "y_proba": P, **keywords}
    refused(message, general_calibration_error, error=(ValueError, TypeError), **keywords)


def test_logits_beyond_1e30_are_refused():
    with pytest.raises(
        ValueError, match="X contains logits beyond 1e\\+30 .* divide all logits by"
    ):
        VectorScaling().fit(np.sign(P - 0.5) * 2e30, Y)
    VectorScaling(input="logits").fit([[1e30, 0.0], [0.0, 1.0], [1.0, 0.0]], [0, 0, 1])
