"""Calibration intercept and slope equal statsmodels, Newton's method in loops and PlattScaling."""

import numpy as np
import pytest
from calls import refused
from scipy import stats

from skcalib import PlattScaling
from skcalib.metrics import calibration_intercept_slope

# 60 rows without random numbers: p, y and weights of 1 to 3.
ROW = np.arange(60)
P = ((37 * ROW) % 61 + 1) / 62
Y = (8.8 * np.sqrt(P) > (ROW * ROW * 7 + 3 * ROW) % 11).astype(int)
W = ROW % 3 + 1

# statsmodels 0.15.0: GLM(y, X, family=Binomial(), freq_weights=w).fit(tol=1e-14), X with a constant
# and logit p or, of the second model, a constant alone and offset=logit p; params, conf_int(), bse,
# and twice the difference of the log-likelihoods of the first model and of p.
RECORDED = {
    "rows": [
        0.2369219377574667, -0.10003592533022523, 0.5738798008451587, 0.17192043616391556,
        0.7168965603831554, 0.1669057945115051, 1.2668873262548057, 0.2806126899320127,
        1.0164448415161385, 0.21743169939451967, 1.8154579836377573, 0.40766725737010095,
        24.991814438521004,
    ],
    "weights": [
        0.13979179276550294, -0.08834061239576196, 0.36792419792676784, 0.11639622307386473,
        0.547854250265494, 0.1740332247894541, 0.9216752757415339, 0.19072851767924942,
        0.7876046276091779, 0.21524047561530157, 1.359968779603054, 0.2920278926085436,
        54.185009869879565,
    ],
}  # fmt: skip


@pytest.mark.parametrize("kind", RECORDED)
def test_equals_statsmodels(kind):
    found = calibration_intercept_slope(Y, P, sample_weight=W if kind == "weights" else None)
    *_, ratio = RECORDED[kind]
    np.testing.assert_allclose(found[:13], RECORDED[kind], atol=1e-9)
    assert found.pvalue == pytest.approx(stats.chi2.sf(ratio, 2), rel=1e-6)


def with_certain(seed=3):
    """Multiples of .1 with exact 0 and 1, some of them wrong."""
    rng = np.random.default_rng(seed)
    p = rng.integers(0, 11, 300) / 10
    return p, rng.random(300) < 0.1 + 0.8 * p


def test_exact_0_and_1_are_clipped_as_by_platt_scaling():
    p, t = with_certain()
    platt, found = PlattScaling().fit(p, t), calibration_intercept_slope(t, p)
    assert found.slope == pytest.approx(platt.coef_[0], abs=1e-9)
    assert found.intercept == pytest.approx(platt.intercept_[0], abs=1e-9)
    f = np.log(np.maximum(p, 0.05) / np.maximum(1 - p, 0.05))  # half the smallest above 0
    near = calibration_intercept_slope(t, 1 / (1 + np.exp(-f)))
    assert found[:8] == pytest.approx(near[:8], abs=1e-8)
    shift = PlattScaling(fit_slope=False).fit(p, t).intercept_[0]
    assert found.in_the_large == pytest.approx(shift, abs=1e-9)


def three_classes(n=300):
    rng = np.random.default_rng(1)
    Z = rng.normal(size=(n, 3))
    y = (Z + rng.gumbel(size=Z.shape)).argmax(axis=1)
    E = np.exp(1.7 * Z)
    return E / E.sum(axis=1, keepdims=True), y, rng.integers(0, 3, n)


def test_a_class_of_several_is_its_column_against_the_rest_as_in_platt_scaling():
    Q, y, w = three_classes()
    platt = PlattScaling().fit(Q, y, w)
    for k in range(3):
        found = calibration_intercept_slope(y, Q, pos_label=k, sample_weight=w)
        assert found.slope == pytest.approx(platt.coef_[k], abs=1e-9)
        assert found.intercept == pytest.approx(platt.intercept_[k], abs=1e-9)
        column = calibration_intercept_slope(y == k, Q[:, k], sample_weight=w)
        np.testing.assert_allclose(found, column, rtol=1e-6)


@pytest.mark.parametrize(
    ("y", "p", "message"),
    [
        ([0, 0, 0], [0.1, 0.2, 0.4], "y_true: the event occurs in no row"),
        ([1, 1, 1], [0.1, 0.2, 0.4], "y_true: the event occurs in every row"),
        ([0, 1, 1], [0.2, 0.2, 0.2], "the same value in every row.*observed_expected_ratio"),
        ([0, 0, 1], [0.1, 0.2, 0.4], "separates the rows with the event"),
        ([0, 1, 1], [0.2, 0.4, 0.4], "separates the rows with the event"),
        ([0, 1, 0, 1], [0.0, 1.0, 0.0, 1.0], "separates the rows with the event"),
    ],
)
def test_what_has_no_finite_slope_is_refused_in_one_line(y, p, message):
    refused(message, calibration_intercept_slope, y, p)


def test_a_row_that_outweighs_all_others_has_no_slope():
    """What could tell a slope weighs nothing: refused, not infinite."""
    y, p, w = [1, 0, 0, 1], [0.5, 0.6, 0.7, 0.8], [3e-11, 8e-13, 1.0, 1e-5]
    refused("no finite slope exists", calibration_intercept_slope, y, p, sample_weight=w)


def test_printed_in_one_line():
    found = calibration_intercept_slope(Y, P)
    assert repr(found) == (
        "CalibrationInterceptSlope(slope=0.2369 (-0.1 to 0.5739), intercept=0.7169 (0.1669 to "
        "1.267), in_the_large=1.016 (0.2174 to 1.815), pvalue=3.742e-06)"
    )
    rng = np.random.default_rng(0)
    p = rng.random(30_000)
    assert "pvalue<1e-300" in repr(calibration_intercept_slope(rng.random(30_000) < p, p**3))
