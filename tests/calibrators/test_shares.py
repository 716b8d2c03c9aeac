"""Shares of several raters as labels."""

import numpy as np
import pandas as pd
import pytest
from calls import refused
from samples import rated
from scipy.optimize import brentq
from scipy.special import softmax

import skcalib
from skcalib import (
    AutoCalibrator,
    IdentityCalibrator,
    IsotonicCalibrator,
    TemperatureScaling,
    calibrators,
)
from skcalib.calibrators import _base

RATERS = 4
ALL = [getattr(calibrators, name)() for name in calibrators.__all__]


@pytest.mark.parametrize("calibrator", ALL, ids=str)
def test_shares_of_a_row_that_counts_for_each_rater_are_the_labels_of_the_raters(calibrator):
    Z, labels, share = rated()
    P = softmax(Z, axis=1)
    Q = calibrator.fit(P, share, np.full(300, RATERS)).predict_proba(P)
    copies = calibrator.fit(np.repeat(P, RATERS, axis=0), labels.ravel()).predict_proba(P)
    np.testing.assert_allclose(Q, copies, atol=1e-6)


@pytest.mark.parametrize("calibrator", ALL, ids=str)
def test_shares_are_k_rows_behind_the_check_of_weights(calibrator, monkeypatch):
    Z, _, share = rated()
    w = np.random.default_rng(1).uniform(0.5, 2, 300)
    Q = calibrator.fit(Z, share, w).predict_proba(Z)
    scaled = _base.check_weight(w, 300)
    row, code = np.nonzero(share)
    monkeypatch.setattr(_base, "check_weight", lambda given, *_, **__: given)
    parts = calibrator.fit(Z[row], code, scaled[row] * share[row, code])
    np.testing.assert_allclose(Q, parts.predict_proba(Z), atol=1e-10)


def test_shares_beside_a_frame_are_those_of_its_classes_in_any_order_of_classes():
    Z, _, share = rated()
    X, y = (pd.DataFrame(part, columns=["cat", "dog", "owl"]) for part in (Z, share))
    expected = skcalib.VectorScaling().fit(Z, share).predict_proba(Z)
    for names in (None, ["owl", "cat", "dog"]):
        fitted = skcalib.VectorScaling(classes=names).fit(X, y)
        assert fitted.classes_.tolist() == ["cat", "dog", "owl"]
        np.testing.assert_allclose(fitted.predict_proba(X), expected, atol=1e-12)


def test_the_temperature_of_shares_has_the_least_mean_loss_over_raters():
    Z, _, share = rated()
    fitted = TemperatureScaling().fit(Z, share)

    def slope(log_T):
        """The derivative of the mean of -log softmax(Z / T)."""
        U = Z / np.exp(log_T)
        return ((share - softmax(U, axis=1)) * U).sum()

    assert fitted.temperature_ == pytest.approx(np.exp(brentq(slope, -2, 3, xtol=1e-13)), rel=1e-8)


def test_frames_of_shares_are_read_by_name():
    Z, _, share = rated()
    names = ["dog", "ant", "cat"]
    sorted_ = AutoCalibrator(classes=["ant", "cat", "dog"]).fit(
        Z[:, [1, 2, 0]], share[:, [1, 2, 0]]
    )
    expected = sorted_.predict_proba(Z[:, [1, 2, 0]])
    X, y = pd.DataFrame(Z, columns=names), pd.DataFrame(share, columns=names)
    moved = y[["cat", "dog", "ant"]]
    for given in (y, moved.where(moved > 0)):  # a share of NaN is 0
        fitted = AutoCalibrator().fit(X, given)
        assert fitted.classes_.tolist() == ["ant", "cat", "dog"]
        np.testing.assert_allclose(fitted.predict_proba(X), expected, atol=1e-10)
    refused("y has the columns .*, but X has no names: pass X as a", AutoCalibrator().fit, Z, y)
    in_order = r"in the order \['ant', 'cat', 'dog'\]"
    for refuses in (AutoCalibrator(), AutoCalibrator(classes=["ant", "cat", "dog"])):
        refused(f"X has the columns .*, but y has no names.*{in_order}", refuses.fit, X, share)
    in_sorted_order = AutoCalibrator().fit(X[["ant", "cat", "dog"]], share[:, [1, 2, 0]])
    np.testing.assert_allclose(in_sorted_order.predict_proba(X), expected, atol=1e-10)
    P = pd.DataFrame(softmax(Z, axis=1), columns=names)
    with pytest.raises(
        ValueError, match=f"y_proba has the columns .*y_true has no names.*{in_order}"
    ):
        skcalib.metrics.expected_calibration_error(share, P)
    with pytest.raises(ValueError, match="y has soft labels for .*, but classes="):
        AutoCalibrator(classes=["ant", "cat", "eel"]).fit(X, y)


def test_shares_of_options():
    Z, _, share = rated()
    P = softmax(np.where(share > 0, Z, -np.inf), axis=1)
    P[share == 0] = np.nan
    row, code = np.nonzero(share)
    fitted = TemperatureScaling().fit(P, np.where(share > 0, share, np.nan))
    copies = TemperatureScaling().fit(P[row], code, (RATERS * share[row, code]).round().astype(int))
    assert fitted.temperature_ == pytest.approx(copies.temperature_, rel=1e-7)
    share[5] = 0.2, 0.3, 0.5
    P[5] = np.nan, 0.4, 0.6
    refused("y: the label of row 5, 0, .*not available", TemperatureScaling().fit, P, share)
    w = np.ones(300)
    w[5] = 0
    TemperatureScaling().fit(P, share, w)


@pytest.mark.parametrize(
    ("row", "says"),
    [
        (
            [0.5, 0.3, np.nan],
            r"y: the soft labels of row 3 are \[0.5, 0.3, nan\]; .* must .* sum to 1 in each row",
        ),
        ([0.7, 0.4, -0.1], r"y: the soft labels of row 3 are \[0.7, 0.4, -0.1\]; .* be at least 0"),
        ([np.inf, 0.0, 0.0], "the soft labels of row 3 are .* must .*sum to 1"),
    ],
)
def test_shares_that_do_not_sum_to_1_are_refused(row, says):
    Z, _, share = rated()
    share[3] = row
    refused(says, IdentityCalibrator().fit, Z, share)


def test_what_takes_no_shares_says_what_to_pass():
    Z, labels, share = rated()
    with pytest.raises(ValueError, match=r"y has shape \(300, 3\), but X has shape \(300, 1\)"):
        IdentityCalibrator().fit(Z[:, 0], share)
    refused(r"inconsistent numbers of samples", IdentityCalibrator().fit, Z[:9], share)
    refused(r"it is one-hot: pass y.argmax", IdentityCalibrator().fit, Z, np.eye(3)[labels[:, 0]])
    with pytest.raises(
        ValueError, match=r"draw the label of one rater per row, rng.choice\(K, p=row\)"
    ):
        skcalib.metrics.avuc_loss(share, softmax(Z, axis=1))
    with pytest.raises(ValueError, match="ignore_index=0 needs one label for each row"):
        IsotonicCalibrator().fit(Z, share, ignore_index=0)


def test_shares_to_two_decimals_are_divided_by_their_sum():
    Z, _, share = rated()
    T = TemperatureScaling().fit(Z, share).temperature_
    assert TemperatureScaling().fit(Z, 0.995 * share).temperature_ == pytest.approx(T, rel=1e-7)
