"""Soft hits are taken, each as a hit and a miss that share its weight, or refused by name."""

from functools import partial
from inspect import signature

import numpy as np
import pandas as pd
import pytest
from calls import refused
from discovery import CALIBRATORS
from listing import METRICS
from sklearn.base import clone
from sklearn.linear_model import LogisticRegression

from skcalib import CalibratedClassifier, HistogramBinning, PlattScaling, compare_calibrators
from skcalib.extending import check_predictions
from skcalib.metrics import (
    SCORERS,
    bootstrap_interval,
    expected_calibration_error,
    ks_calibration_error,
    reliability_table,
    score_decomposition,
    static_calibration_error,
    top_label_brier_score,
)
from skcalib.plotting import DecompositionDisplay, KSDisplay, ReliabilityDisplay

TAKEN = {
    "adaptive_calibration_error", "expected_calibration_error", "general_calibration_error",
    "ks_calibration_error", "label_binned_calibration_error", "local_calibration",
    "maximum_calibration_error", "reliability_table", "root_mean_squared_calibration_error",
    "score_decomposition", "smooth_calibration_error", "static_calibration_error",
    "thresholded_adaptive_calibration_error", "top_label_brier_score",
}  # fmt: skip
MAPS = {"PlattScaling", "BetaCalibrator", "IsotonicCalibrator", "HistogramBinning"}
OF_GROUPS = {"calibration_by_group"}
# Its errors name the label of an entry; tests/metrics/test_by_label.py has them.
OF_LABELS = {"calibration_by_label"}
# Taken too; how sure a curve is of its shape depends on the number of rows, not on weights alone.
CURVES = {"calibration_curve", "integrated_calibration_index"}
NEEDED = {
    "net_benefit": {"thresholds": [0.1, 0.3]},
    "calibration_summary": {"random_state": 0},
    "calibration_by_label": {"random_state": 0},
}
OF_METRICS = {"bootstrap_interval", "calibration_interval", "calibration_test"}


def judged(n=60, seed=0):
    """Confidences and shares in tenths, exact 0 and 1 among them; no two confidences are equal.

    As many rows as make the bins of equal weight begin at whole rows.
    """
    rng = np.random.default_rng(seed)
    p = rng.permutation(np.linspace(0.02, 0.98, n))
    f = np.round(np.clip(p**1.5 + rng.normal(0, 0.3, n), 0, 1), 1)
    return f, p


def hits_and_misses(f, p, w=None):
    """Ten copies of each row: its tenths are hits, the others misses, in two rows of a count."""
    w = np.ones(f.size) if w is None else w
    weight = np.concatenate([np.rint(10 * f) * w, np.rint(10 - 10 * f) * w])
    return np.repeat([1, 0], f.size), np.concatenate([p, p]), weight.astype(int)


def numbers(found):
    if isinstance(found, pd.DataFrame):
        found = found[["confidence", "accuracy", "gap"]].to_numpy()
    return np.asarray(found, dtype=float)


@pytest.mark.parametrize("name", sorted(set(METRICS) - OF_METRICS - CURVES - OF_LABELS))
def test_a_metric_takes_them_or_refuses_by_name(name):
    metric = METRICS[name]
    f, p = judged()
    if name in OF_GROUPS:
        metric = partial(metric, groups=np.zeros(f.size))
    metric = partial(metric, **NEEDED.get(name, {}))
    if name not in TAKEN:
        takes = f"{name} takes labels of 0 and 1 only; round y_true"
        refused(rf"y_true has 0\.\d at row \d+: .*{takes}", metric, f, p)
        return
    y, doubled, weight = hits_and_misses(f, p)
    expected = numbers(metric(y, doubled, sample_weight=weight))
    np.testing.assert_allclose(numbers(metric(f, p)), expected, atol=1e-9)
    w = np.random.default_rng(1).integers(1, 4, f.size)
    even = {"strategy": "uniform"} if "strategy" in signature(metric).parameters else {}
    if even or name not in {"adaptive_calibration_error", "thresholded_adaptive_calibration_error"}:
        weight = hits_and_misses(f, p, w)[2]
        expected = numbers(metric(y, doubled, sample_weight=weight, **even))
        found = numbers(metric(f, p, sample_weight=w, **even))
        np.testing.assert_allclose(found, expected, atol=1e-9)


def test_refusals_of_what_measures_a_metric_name_it():
    f, p = judged()
    for name in ("calibration_interval", "calibration_test"):
        with pytest.raises(ValueError, match=f"{name} takes labels of 0 and 1 only"):
            METRICS[name](expected_calibration_error, f, p)
    with pytest.raises(ValueError, match="debiased_calibration_error takes labels of 0 and 1"):
        bootstrap_interval(METRICS["debiased_calibration_error"], f, p)
    with pytest.raises(ValueError, match="this metric takes labels of 0 and 1 only"):
        check_predictions(f, p)  # metrics of other packages


@pytest.mark.filterwarnings("ignore:sample_weight contains whole numbers")
@pytest.mark.parametrize("calibrator", CALIBRATORS, ids=str)
def test_a_calibrator_takes_them_or_refuses_by_name(calibrator):
    f, p = judged(200)
    name = type(calibrator).__name__
    counts_rows = name == "HistogramBinning" and calibrator.strategy == "quantile"
    if name not in MAPS or counts_rows:
        both = r"round y, or use two columns of X with np.column_stack\(\[1 - y, y\]\), or PlattSc"
        refused(f"{name} takes labels of 0 and 1 only; {both}", clone(calibrator).fit, p, f)
        way_out = clone(calibrator).fit(np.column_stack([1 - p, p]), np.column_stack([1 - f, f]))
        assert way_out.classes_.tolist() == [0, 1]
        return
    w = np.random.default_rng(1).integers(0, 4, f.size)
    y, doubled, weight = hits_and_misses(f, p, w)
    asked = np.linspace(0, 1, 41)
    for X, X2 in ((p, doubled), (3 * p - 1, 3 * doubled - 1), (p[:, None], doubled)):
        doubles = clone(calibrator).fit(X2, y, sample_weight=weight)
        expected = doubles.predict_proba(asked)
        fitted = clone(calibrator).fit(X, f, sample_weight=10 * w)
        np.testing.assert_allclose(fitted.predict_proba(asked), expected, atol=1e-7)
        assert fitted.classes_.tolist() == [0, 1]


def test_resampled_bins_count_rows():
    f, p = judged()
    with pytest.raises(ValueError, match="HistogramBinning with even bins, which accept soft"):
        HistogramBinning(n_bootstraps=3).fit(p, f)


# ------------------------------------------------------------------ what is unchanged


@pytest.mark.usefixtures("few_label_sets")
def test_zeros_and_ones_as_floats_are_labels_as_ever():
    """In every metric, those too that refuse fractions."""
    f, p = judged()
    y = (f > 0.4).astype(int)
    for name in set(METRICS) - OF_METRICS - OF_GROUPS:
        metric = partial(METRICS[name], **NEEDED.get(name, {}))
        found, expected = (metric(labels, p) for labels in (y.astype(float), y))
        if not isinstance(found, float):
            found, expected = (getattr(each, "frame", each) for each in (found, expected))
        if isinstance(found, pd.DataFrame):
            found, expected = (
                each.drop(columns="class", errors="ignore") for each in (found, expected)
            )
            pd.testing.assert_frame_equal(found, expected)
        else:
            np.testing.assert_array_equal(found, expected)


def test_the_event_may_be_the_miss():
    """pos_label=0: the column is the probability of 0, of which 1 - f is the share."""
    f, p = judged()
    for metric in (expected_calibration_error, ks_calibration_error, top_label_brier_score):
        assert metric(f, 1 - p, pos_label=0) == pytest.approx(metric(1 - f, 1 - p), abs=1e-12)
        assert metric(f, p, pos_label=1) == metric(f, p, labels=[0, 1]) == metric(f, p)
    with pytest.raises(ValueError, match=r"pos_label='yes' is not one of the labels \[0, 1\]"):
        expected_calibration_error(f, p, pos_label="yes")
    refused("labels=.* with soft labels", expected_calibration_error, f, p, labels=["no", "yes"])
    refused("classes=.* with soft labels", PlattScaling(classes=["no", "yes"]).fit, p, f)


def test_bootstrap_draws_rows_with_their_shares():
    """Of own metrics and of others, which get the shares."""
    f, p = judged()

    def squared(y, p):
        return float(((np.asarray(y) - p) ** 2).mean())

    found = bootstrap_interval(squared, f, p, n_resamples=200, random_state=0)
    assert found.estimate == pytest.approx(squared(f, p))
    each = (f - p) ** 2
    assert found.standard_error == pytest.approx(each.std() / np.sqrt(each.size), rel=0.2)
    own = bootstrap_interval(ks_calibration_error, f, p, n_resamples=50, random_state=0)
    assert own.estimate == ks_calibration_error(f, p)
    assert own.low < own.high


# ------------------------------------------------------------------ refused elsewhere


@pytest.mark.parametrize(
    ("metric", "apart"),
    [
        (static_calibration_error, {}),
        (ks_calibration_error, {"mode": "classwise"}),
        (METRICS["smooth_calibration_error"], {"mode": "classwise"}),
        (score_decomposition, {"mode": "classwise"}),
    ],
)
def test_the_errors_of_both_classes_are_those_of_the_event_and_of_the_other(metric, apart):
    f, p = judged()
    both = np.stack(metric(f, p, average=None, **apart), axis=-1)
    alone = [metric(1 - f, 1 - p), metric(f, p)]
    np.testing.assert_allclose(both, alone, atol=1e-9)


def test_several_columns_and_numbers_beyond_one_are_refused():
    f, p = judged()
    both = np.column_stack([1 - p, p])
    for call in (expected_calibration_error, top_label_brier_score, reliability_table):
        refused("y_proba has 2 columns.*soft labels in .0, 1. need one", call, f, both)
    refused("X has 2 columns.*soft labels", PlattScaling().fit, both, f)
    for bad in (f * 2, f - 0.5, np.where(f == 0.3, np.nan, f)):
        refused("y_true", expected_calibration_error, bad, p)


def test_joins_comparisons_scorers_and_displays_refuse_them():
    f, p = judged()
    y = (f > 0.4).astype(int)
    fitted = LogisticRegression().fit(p[:, None], y)
    uses = [
        lambda: CalibratedClassifier(LogisticRegression(), PlattScaling()).fit(p[:, None], f),
        lambda: compare_calibrators(p, f, ["platt"]),
        lambda: SCORERS["neg_ks_calibration_error"](fitted, p[:, None], f),
        lambda: ReliabilityDisplay.from_predictions(f, p, groups=y),
        lambda: KSDisplay.from_predictions(f, p),
    ]
    for call in uses:
        refused("Unknown label type: continuous", call)


@pytest.mark.parametrize("name", sorted(CURVES))
def test_curves_of_shares_and_of_their_misses_mirror_one_another(name):
    f, p = judged()
    metric = METRICS[name]
    assert metric(f, 1 - p, pos_label=0) is not None
    found, other = metric(f, p), metric(1 - f, 1 - p)
    if name == "calibration_curve":
        found, other = found.prob_true, 1 - other.prob_true[::-1]
    np.testing.assert_allclose(found, other, atol=1e-7)


def test_the_decomposition_of_shares_is_drawn():
    f, p = judged()
    display = DecompositionDisplay.from_predictions(f, p)
    assert display.frame.loc["model"].tolist() == list(score_decomposition(f, p))
