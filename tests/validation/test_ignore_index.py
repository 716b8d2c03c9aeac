"""Rows of weight 0, and of a label that is ignored, are left out."""

import numpy as np
import pandas as pd
import pytest
from calls import refused
from scipy.special import softmax
from sklearn.discriminant_analysis import LinearDiscriminantAnalysis

from skcalib import (
    GroupwiseCalibrator,
    TemperatureScaling,
    VectorScaling,
    compare_calibrators,
    metrics,
)

rng = np.random.default_rng(0)
Z = 2 * rng.normal(size=(900, 5))
y = (Z / 2 + rng.gumbel(size=Z.shape)).argmax(axis=1)
ignored = rng.random(900) < 0.2


@pytest.mark.parametrize("calibrator", [TemperatureScaling, VectorScaling])
@pytest.mark.parametrize("label", [255, -1, -100, 0])
@pytest.mark.parametrize("weights", [None, "counts", "floats", 2.0])
def test_rows_of_the_label_are_left_out(calibrator, label, weights):
    w = {"counts": rng.integers(0, 3, 900), "floats": rng.random(900)}.get(weights, weights)
    marked = np.where(ignored, label, y)
    keep = marked != label
    few = w[keep] if isinstance(w, np.ndarray) else w
    expected = calibrator(classes=range(5)).fit(Z[keep], y[keep], few)
    fitted = calibrator(classes=range(5)).fit(Z, marked, w, ignore_index=label)
    # Relative weights are scaled by sums that also add the zeros of the ignored rows.
    found, few = fitted.predict_proba(Z), expected.predict_proba(Z)
    np.testing.assert_allclose(found, few, rtol=1e-12)


def test_labels_of_every_type():
    names = np.array(list("abcde"))[y]
    marked = np.where(ignored, "void", names)
    expected = TemperatureScaling().fit(Z[~ignored], names[~ignored])
    for given in (marked, marked.astype(object), marked.tolist()):
        fitted = TemperatureScaling().fit(Z, given, ignore_index="void")
        assert fitted.temperature_ == expected.temperature_
        assert fitted.classes_.tolist() == list("abcde")
    assert TemperatureScaling().fit(Z, names, ignore_index=255).classes_.size == 5


def test_weights_of_another_number_of_rows_are_refused():
    with pytest.raises(ValueError, match=r"sample_weight.shape == \(3,\), expected \(900,\)"):
        TemperatureScaling().fit(Z, np.where(ignored, 255, y), np.ones(3), ignore_index=255)


def test_batches_leave_them_out_too():
    marked = np.where(ignored, 255, y)
    stream = TemperatureScaling()
    for rows in np.split(np.arange(900), 3):
        stream.partial_fit(Z[rows], marked[rows], classes=range(5), ignore_index=255)
    expected = TemperatureScaling().fit(Z[~ignored], y[~ignored])
    assert stream.temperature_ == pytest.approx(expected.temperature_, rel=1e-9)


def test_groups_leave_them_out_too():
    groups = np.arange(900) % 3
    marked = np.where(ignored, 255, y)
    keep = ~ignored
    for w in (None, np.random.default_rng(1).random(900)):
        few = None if w is None else w[keep]
        expected = GroupwiseCalibrator("vector").fit(Z[keep], y[keep], few, groups[keep])
        fitted = GroupwiseCalibrator("vector").fit(Z, marked, w, groups, ignore_index=255)
        np.testing.assert_allclose(
            fitted.predict_proba(Z, groups), expected.predict_proba(Z, groups), rtol=1e-9
        )
    with pytest.raises(ValueError, match="takes no sample_weight.*drop the rows with this label"):
        GroupwiseCalibrator(LinearDiscriminantAnalysis()).fit(
            Z, marked, groups=groups, ignore_index=255
        )


@pytest.mark.parametrize("void", [-1, None, np.nan, "void"])
def test_a_row_of_weight_0_is_absent_whatever_it_contains(void):
    """Labels that are none, missing ones, and NaN among the scores."""
    few, w = ~ignored, np.where(ignored, 0, 2)
    marked = np.where(ignored, void, y.astype(object))
    lost = np.where(ignored[:, None], np.nan, Z)
    P = softmax(Z, axis=1)
    lost_P = np.where(ignored[:, None], np.nan, P)
    expected = TemperatureScaling().fit(Z[few], y[few], w[few]).predict_proba(Z)
    groups = np.arange(900) % 3
    for labels in (marked, marked.tolist(), pd.Series(marked)):
        for given in (lost, pd.DataFrame(lost, columns=range(5))):
            fitted = TemperatureScaling().fit(given, labels, w)
            np.testing.assert_allclose(fitted.predict_proba(Z), expected, rtol=1e-12)
        fitted = GroupwiseCalibrator("temperature").fit(lost, labels, w, groups)
        np.testing.assert_allclose(fitted.calibrator_.predict_proba(Z), expected, rtol=1e-12)
        error = metrics.static_calibration_error(labels, lost_P, sample_weight=w)
        assert error == metrics.static_calibration_error(y[few], P[few])
    found = compare_calibrators(lost, marked, ["temperature"], sample_weight=w, random_state=0)
    known = compare_calibrators(Z[few], y[few], ["temperature"], random_state=0)
    assert found.choice == known.choice == "temperature"


def test_an_ignored_label_is_dropped_before_labels_and_scores_are_read():
    lost = np.where(ignored[:, None], np.nan, Z)
    expected = TemperatureScaling().fit(Z[~ignored], y[~ignored]).temperature_
    mixed = ["void" if out else int(label) for out, label in zip(ignored, y, strict=True)]
    assert TemperatureScaling().fit(lost, mixed, ignore_index="void").temperature_ == expected


def test_one_event_with_an_ignored_row():
    """What torchmetrics writes as ignore_index=-1."""
    p = [0.2, 0.7, 0.4]
    error = metrics.expected_calibration_error([0, 1, -1], p, sample_weight=[1, 1, 0])
    assert error == metrics.expected_calibration_error([0, 1], p[:2])
    model = LinearDiscriminantAnalysis().fit(Z, y == 0)
    scorer = metrics.get_scorer("neg_expected_calibration_error")
    marked = np.where(ignored, None, y == 0)
    found = scorer(model, Z, marked, sample_weight=(~ignored).astype(int))
    assert found == scorer(model, Z[~ignored], (y == 0)[~ignored])


def test_rows_keep_their_numbers_in_messages():
    lost, w = Z.copy(), np.where(np.arange(900) < 10, 0, 1)
    lost[20, 3] = np.nan
    refused("row 20", VectorScaling().fit, lost, y, w)
    marked = np.where(np.arange(900) == 20, -7, y)
    message = r"label -7 at row 20 is not in labels=.*, or give the row weight 0\.$"
    with pytest.raises(ValueError, match=message):
        metrics.static_calibration_error(
            marked, softmax(Z, axis=1), sample_weight=w, labels=range(5)
        )


def test_no_row_left_is_an_error():
    with pytest.raises(ValueError, match="y: every label is ignore_index=255; no row is left"):
        TemperatureScaling().fit(Z, np.full(900, 255), ignore_index=255)
