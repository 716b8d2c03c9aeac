"""Columns in another order than the sorted labels are noticed, where nothing names them."""

import re
import warnings

import numpy as np
import pandas as pd
import pytest
from calls import peak_memory

from skcalib import IsotonicCalibrator, TemperatureScaling, compare_calibrators, metrics
from skcalib._arrays.selection import take_rows
from skcalib._arrays.sources import ArraySource
from skcalib._validation.survey import warn_of_order
from skcalib.plotting import ReliabilityDisplay

MESSAGE = (
    "The largest score of a row belongs to its label in {} % of the rows, but in {} % if the "
    "columns are {}: pass"
)


def matches(n=2000, seed=0):
    """Probabilities of home, draw and away, in this order, and what happened."""
    rng = np.random.default_rng(seed)
    P = rng.dirichlet([1, 1, 1], n)
    y = np.array(["H", "D", "A"])[(P.cumsum(axis=1) < rng.random((n, 1))).sum(axis=1)]
    return P, y


def agreement(P, y, order):
    return f"{100 * (np.array(order)[P.argmax(axis=1)] == y).mean():.0f}"


P, y = matches()
GIVEN, RIGHT = agreement(P, y, ["A", "D", "H"]), agreement(P, y, ["H", "D", "A"])
WAYS = {
    "fit": lambda P, y: IsotonicCalibrator().fit(P, y),
    "logits": lambda P, y: TemperatureScaling().fit(2 * np.log(P), y),
    "metric": lambda P, y: metrics.expected_calibration_error(y, P),
    "float32": lambda P, y: metrics.ks_calibration_error(y, P.astype(np.float32)),
    "display": lambda P, y: ReliabilityDisplay.from_predictions(y, P),
    "compare": lambda P, y: compare_calibrators(P, y, ["temperature"], metrics=["log_loss"]),
}


@pytest.mark.parametrize("way", WAYS)
def test_another_order_that_agrees_better_is_named_once(way):
    argument = "classes" if way in ("fit", "logits", "compare") else "labels"
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        WAYS[way](P, y)
    end = "; or are these features?" if way == "logits" else "."
    expected = MESSAGE.format(GIVEN, RIGHT, "H, D, A") + f" {argument}= or a frame{end}"
    assert [str(each.message) for each in caught] == [expected]


def test_weights_count(recwarn):
    """Rows of weight 0, of which another order would be right, are absent."""
    odd = np.arange(2000) % 2 == 1
    right = P.copy()
    right[odd] = P[odd][:, ::-1]
    metrics.static_calibration_error(y, right, sample_weight=odd.astype(int))
    metrics.static_calibration_error(y, P, labels=["H", "D", "A"])
    metrics.static_calibration_error(y, pd.DataFrame(P, columns=["H", "D", "A"]))
    metrics.static_calibration_error(y, P[:, ::-1])
    metrics.calibration_intercept_slope(y == "H", 1 - P[:, 0])  # one column
    assert not recwarn.list
    metrics.static_calibration_error(y, right, sample_weight=1 - odd.astype(int))
    assert len(recwarn.list) == 1


@pytest.mark.parametrize("n_classes", [2, 3, 10, 30, 200])
def test_scores_without_a_hint_of_an_order_are_no_reason(n_classes, recwarn):
    """Chance, ties, and one class that is always the largest."""
    rng = np.random.default_rng(n_classes)
    for n in (n_classes + 3, 21 * n_classes, 6000):
        labels = rng.permutation(np.arange(n) % n_classes)
        metrics.expected_calibration_error(labels, rng.dirichlet(np.ones(n_classes), n))
    labels = np.where(rng.random(6000) < 0.7, 1, labels)
    always = np.full((6000, n_classes), 1 / n_classes)
    metrics.expected_calibration_error(labels, always)
    always[:, 0] += 1
    metrics.expected_calibration_error(labels, always / 2)
    assert not recwarn.list


@pytest.mark.parametrize("n_classes", [2, 10, 100, 1000])
def test_many_columns(n_classes):
    rng = np.random.default_rng(1)
    n = 25 * n_classes + 500
    code = rng.permutation(np.arange(n) % n_classes)
    powers = rng.exponential(size=(n, n_classes)).astype(np.float32)
    powers[np.arange(n), code] += 8
    P = powers / powers.sum(axis=1, keepdims=True)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        metrics.expected_calibration_error(code, P)
    order = np.roll(np.arange(n_classes), 1)
    given, right = (100 * (P[:, by].argmax(axis=1) == code).mean() for by in (order, slice(None)))
    shown = ", ".join(map(str, order[:10])) + (", ..." if n_classes > 10 else "")
    message = MESSAGE.format(f"{given:.0f}", f"{right:.0f}", shown)
    with pytest.warns(UserWarning, match=re.escape(message)):
        metrics.expected_calibration_error(code, P[:, order])


def test_selected_rows_are_read_in_blocks():
    """Labels at random agree with no column, so that all rows are looked at: 18 MiB."""
    rng = np.random.default_rng(0)
    n, K = 24_000, 100
    S = take_rows(ArraySource(rng.random((n, K))), np.delete(np.arange(n), 7))
    code, w = rng.integers(K, size=n - 1), np.ones(n - 1)
    assert peak_memory(warn_of_order, S, code, w, np.arange(K)) < 8 << 20
