"""Plain arrays skip the conversions of rows: with all conversions the results are the same."""

import pickle
import warnings

import numpy as np
import pytest

from skcalib import IsotonicCalibrator, TemperatureScaling, VectorScaling, compare_calibrators
from skcalib._validation import rows
from skcalib.metrics import (
    expected_calibration_error,
    ks_calibration_error,
    static_calibration_error,
)

KINDS = ("logits", "proba", "three decimals", "percentages", "a missing number")


def draw(seed):
    """Return scores, labels and weights of one of many kinds, some of them invalid."""
    rng = np.random.default_rng(seed)
    n, K = int(rng.integers(20, 300)), int(rng.integers(2, 7))
    Z = rng.normal(size=(n, K)) * rng.choice([0.3, 2, 20])
    P = np.exp(Z - Z.max(axis=1, keepdims=True))
    P /= P.sum(axis=1, keepdims=True)
    kind = KINDS[seed % len(KINDS)]
    X = {"logits": Z, "percentages": 100 * P, "three decimals": P.round(3)}.get(kind, P)
    X = X.astype([np.float64, np.float32][seed % 2])
    if kind == "a missing number":
        X[rng.integers(n), rng.integers(K)] = np.nan
    y = rng.integers(K, size=n).astype([np.int64, np.int32, np.uint8, np.str_][seed % 4])
    if seed % 11 == 0:
        y = y[:-1]
    w = [None, rng.random(n), rng.integers(0, 3, n), rng.integers(1, 3, n), -np.ones(n)][seed % 5]
    return X, y, w


def outcome(call):
    """Return all fitted attributes and numbers as text, or the error, and the warnings."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        try:
            result = call()
        except (TypeError, ValueError) as error:
            result = error
    attributes = pickle.dumps(sorted(getattr(result, "__dict__", {}).items()))
    return repr(result), attributes, [str(each.message) for each in caught]


@pytest.mark.parametrize("seed", range(30))
def test_arrays_have_the_same_results_with_all_conversions(monkeypatch, seed):
    X, y, w = draw(seed)

    def fit_and_predict(calibrator):
        calibrator.fit(X, y, w)
        calibrator.predicted = calibrator.predict_proba(X)
        return calibrator

    calls = [
        lambda: fit_and_predict(TemperatureScaling()),
        lambda: fit_and_predict(IsotonicCalibrator(input="proba")),
        lambda: fit_and_predict(VectorScaling(classes=np.unique(y))),
        lambda: static_calibration_error(y, X, sample_weight=w),
        lambda: ks_calibration_error(y, X, sample_weight=w),
        lambda: expected_calibration_error(y, X, sample_weight=w, pos_label=y[0]),
    ]
    if seed % 6 == 0:
        calls.append(lambda: compare_calibrators(X, y, ["temperature"], sample_weight=w).verdict)
    plain = [outcome(call) for call in calls]
    monkeypatch.setattr(rows, "are_plain", lambda *_: False)
    assert plain == [outcome(call) for call in calls]


def test_plain_arrays_are_told_from_other_rows():
    X, y, w = np.zeros((3, 2)), np.zeros(3, dtype=int), np.ones(3)
    assert rows.are_plain(X, y, None)
    assert rows.are_plain(X, y, w)
    absent, short = np.array([1.0, 0.0, 1.0]), y[:2]
    for arguments in (
        (X.tolist(), y, None),
        (X, y.tolist(), None),
        (X, y, absent),
        (X, y, w.tolist()),
        (X, short, None),
        (X[:, 0], y, None),
        (X.astype(int), y, None),
        (X, y.astype(float), None),
        (X[:0], y[:0], None),
    ):
        assert not rows.are_plain(*arguments)
