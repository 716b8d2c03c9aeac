"""The integrated calibration index equals loops over the rows' distances from the smooth curve."""

import pickle

import numpy as np
import pytest
from scipy.special import expit, logit

from skcalib._validation.rows import check_predictions
from skcalib.metrics import (
    bootstrap_interval,
    calibration_curve,
    calibration_interval,
    calibration_test,
    integrated_calibration_index,
)
from skcalib.metrics._curves.curves import distances_by_cells, four_distances


def sample(n=80, seed=0, slope=0.6, digits=3):
    rng = np.random.default_rng(seed)
    x = rng.normal(-1.0, 1.2, n)
    return (rng.random(n) < expit(-1 + slope * (x + 1))).astype(int), expit(x).round(digits)


def ends(index, name="ici"):
    return index.frame.loc[name, ["low", "high"]]


def slow(gaps, w):
    """Mean, and the smallest gaps that half and nine tenths of the weight do not exceed."""
    total = sum(w)
    found = [sum(g * v for g, v in zip(gaps, w, strict=True)) / total]
    for share in (0.5, 0.9):
        reached = [
            g
            for g in gaps
            if sum(v for h, v in zip(gaps, w, strict=True) if h <= g) >= share * total - 1e-9
        ]
        found.append(min(reached))
    return [*found, max(g for g, v in zip(gaps, w, strict=True) if v > 0)]


@pytest.mark.parametrize("weighted", [False, True])
def test_the_four_numbers_are_those_of_the_rows_distances(weighted):
    """The curve is given at each of up to a hundred distinct scores."""
    y, p = sample()
    w = np.random.default_rng(1).integers(0, 3, p.size) if weighted else np.ones(p.size, int)
    curve = calibration_curve(y, p, sample_weight=w)
    gaps = [abs(float(np.interp(s, curve.prob_pred, curve.prob_true)) - s) for s in p]
    index = integrated_calibration_index(y, p, sample_weight=w)
    found = [index.ici, index.e50, index.e90, index.emax]
    assert found == pytest.approx(slow(gaps, w.tolist()), abs=1e-9)


def test_soft_hits_have_the_four_numbers_and_no_intervals():
    _, p = sample()
    f = np.clip(p + np.random.default_rng(2).normal(0, 0.2, p.size), 0, 1)
    curve = calibration_curve(f, p)
    gaps = [abs(float(np.interp(s, curve.prob_pred, curve.prob_true)) - s) for s in p]
    index = integrated_calibration_index(f, p)
    found = [index.ici, index.e50, index.e90, index.emax]
    assert found == pytest.approx(slow(gaps, [1] * p.size), abs=1e-9)
    assert index.frame["estimate"].tolist() == found
    assert index.frame.columns.tolist() == ["estimate"]
    assert repr(index).startswith(f"IntegratedCalibrationIndex(ici={index.ici:.4g}, e50=")
    assert " to " not in repr(index)
    with pytest.raises(ValueError, match="y_true contains soft labels.*use bootstrap_interval"):
        _ = index.interval
    resampled = bootstrap_interval(
        integrated_calibration_index, f, p, n_resamples=50, random_state=0
    )
    assert resampled.estimate == index
    assert resampled.low < resampled.high


def test_certain_scores_are_measured_by_their_shares_of_hits():
    y = [0, 0, 0, 1, 1, 1, 1, 0]
    p = [0.0, 0, 0, 0, 1, 1, 1, 1]
    index = integrated_calibration_index(y, p)
    assert (index.ici, index.e50, index.e90, index.emax) == (0.25,) * 4
    assert integrated_calibration_index(p, p) == 0


def test_intervals_are_those_of_calibration_interval_and_computed_once():
    y, p = sample(400)
    index = integrated_calibration_index(y, p)
    assert "interval" not in vars(index)
    low, high = ends(index)
    assert low <= index.interval.debiased[0] <= high
    assert index.interval is index.interval
    assert index.interval.estimate[0] == index.ici
    # One number by itself: the same method, with truths that are spread for it alone.
    alone = calibration_interval(integrated_calibration_index, y, p, random_state=0)
    assert alone.estimate == index.ici
    assert (alone.low, alone.high) == pytest.approx((low, high), abs=0.02)
    four = calibration_interval(four_distances, y, p, random_state=0)
    np.testing.assert_array_equal(index.interval.low, four.low)
    np.testing.assert_array_equal(index.interval.high[:3], four.high[:3])
    assert list(index.frame.index) == ["ici", "e50", "e90", "emax"]
    inner = ends(integrated_calibration_index(y, p, confidence_level=0.5))
    assert low <= inner["low"] <= inner["high"] <= high


@pytest.mark.usefixtures("few_label_sets")
@pytest.mark.parametrize("weighted", [False, True])
def test_the_interval_of_emax_ends_where_the_pointwise_band_is_farthest(weighted):
    y, p = sample(70)
    w = np.random.default_rng(1).integers(0, 3, p.size) if weighted else None
    curve = calibration_curve(y, p, sample_weight=w, confidence_level=0.9)
    farthest = max(np.maximum(curve.high - curve.prob_pred, curve.prob_pred - curve.low))
    index = integrated_calibration_index(y, p, sample_weight=w, confidence_level=0.9)
    low, high = ends(index, "emax")
    assert high == pytest.approx(farthest)
    assert low <= index.emax <= high


@pytest.mark.usefixtures("few_label_sets")
def test_it_is_a_float_that_prints_its_intervals_and_can_be_stored():
    y, p = sample(200)
    index = integrated_calibration_index(y, p)
    assert isinstance(index, float)
    text = repr(index)
    assert text.startswith(f"IntegratedCalibrationIndex(ici={index.ici:.4g} (")
    assert "\n" not in text
    copy = pickle.loads(pickle.dumps(index))
    assert copy == index
    assert repr(copy) == text


def test_the_top_label_of_several_classes_and_resampling():
    rng = np.random.default_rng(0)
    P = rng.dirichlet(np.ones(3), 150)
    y = rng.integers(3, size=150)
    top = integrated_calibration_index((P.argmax(axis=1) == y).astype(int), P.max(axis=1))
    assert integrated_calibration_index(y, P) == pytest.approx(top.ici, abs=1e-9)
    test = calibration_test(integrated_calibration_index, y, P, n_resamples=20, random_state=0)
    assert test.pvalue == pytest.approx(1 / 21)


def test_the_limit_of_an_interval_is_the_distance_of_the_truth_without_chance():
    """0 of the scores themselves, exact 0 and 1 among them; else what loops over the rows say."""
    rng = np.random.default_rng(0)
    p = np.concatenate([[0.0, 1.0], expit(rng.normal(-1.5, 1.2, 500))])
    q = expit(-1.5 + 0.6 * (logit(np.clip(p, 0.01, 0.99)) + 1.5))
    predictions = check_predictions((p > 0.5).astype(int), p)
    error = distances_by_cells(predictions, {}, which=slice(0, 4))
    null, truth = (error.limits(np.column_stack([1 - r, r])) for r in (p, q))
    assert null.max() < 1e-9
    expected = slow(np.abs(q - p).tolist(), [1] * p.size)
    assert truth[:3] == pytest.approx(expected[:3], rel=0.03)
