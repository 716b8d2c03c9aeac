"""What histogram binning, isotonic regression and splines have in common."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.base import clone

from skcalib import HistogramBinning, IsotonicCalibrator, SplineCalibrator

BAGGED = HistogramBinning(n_bins=5, strategy="quantile", n_bootstraps=8, random_state=0)
CALIBRATORS = {
    "histogram": HistogramBinning(n_bins=7),
    "histogram, pooled quantile": HistogramBinning(
        n_bins=7, strategy="quantile", class_conditional=False
    ),
    "bootstrap": BAGGED,
    "isotonic": IsotonicCalibrator(),
    "spline": SplineCalibrator(),
    "spline, top": SplineCalibrator(mode="top"),
    "spline, class-wise": SplineCalibrator(n_knots=6, mode="classwise"),
}


@pytest.fixture(params=list(CALIBRATORS))
def calibrator(request):
    return clone(CALIBRATORS[request.param])


def problem(n_classes=4, digits=2):
    """Probabilities with ties and exact 0 and 1, labels drawn from a milder version of them."""
    n, rng = 80, np.random.default_rng(0)
    parts = rng.dirichlet(np.full(n_classes, 0.5), size=n)
    grid = 10**digits
    P = np.floor(parts * grid)
    P[np.arange(n), parts.argmax(axis=1)] += grid - P.sum(axis=1)
    P /= grid
    P[0] = np.eye(n_classes)[0]
    P[1] = np.eye(n_classes)[-1]
    mild = P + 0.1
    mild /= mild.sum(axis=1, keepdims=True)
    y = np.array([rng.choice(n_classes, p=p) for p in mild])
    y[:n_classes] = np.arange(n_classes)
    return P, y, rng.integers(1, 4, n).astype(float)


def test_rows_of_weight_zero_are_not_drawn_by_a_bootstrap():
    P, y, w = problem()
    w = w.astype(int)
    w[::3] = 0
    weighted = clone(BAGGED).fit(P, y, w).predict_proba(P)
    absent = clone(BAGGED).fit(P[w > 0], y[w > 0], w[w > 0]).predict_proba(P)
    np.testing.assert_array_equal(weighted, absent)


@pytest.mark.filterwarnings("ignore:no row of class")
def test_a_single_row_and_a_single_class_can_be_fitted(calibrator):
    calibrator.set_params(classes=[0, 1, 2])
    P, _, w = problem(n_classes=3)
    one_row = calibrator.fit([[0.2, 0.3, 0.5]], [2]).predict_proba(np.eye(3))
    one_class = calibrator.fit(P, np.ones(len(P), dtype=int), w).predict_proba(P)
    for Q in (one_row, one_class):
        assert (Q >= 0).all()
        np.testing.assert_allclose(Q.sum(axis=1), 1, rtol=0, atol=1e-12)


def test_blocks_are_not_seen(calibrator, monkeypatch, small_blocks):
    P, y, w = problem(n_classes=5)
    whole = clone(calibrator).fit(P, y, w).predict_proba(P)
    small_blocks(10)
    monkeypatch.setattr("skcalib._arrays.blocks.column_blocks.__defaults__", (1300, 0))
    pieces = clone(calibrator).fit(P, y, w).predict_proba(P)
    np.testing.assert_allclose(pieces, whole, rtol=0, atol=1e-12)


@pytest.mark.parametrize(
    ("estimator", "match"),
    [
        (HistogramBinning(n_bins=0), "n_bins"),
        (HistogramBinning(strategy="even"), "strategy"),
        (HistogramBinning(n_bootstraps=-1), "n_bootstraps"),
        (IsotonicCalibrator(interpolation="cubic"), "interpolation"),
        (SplineCalibrator(n_knots=3), "n_knots"),
        (SplineCalibrator(n_knots="many"), "n_knots"),
        (SplineCalibrator(mode="all"), "mode"),
        (SplineCalibrator(runout="clamped"), "runout"),
    ],
)
def test_a_parameter_out_of_range_is_named(estimator, match):
    P, y, _ = problem()
    with pytest.raises(ValueError, match=match):
        estimator.fit(P, y)


def test_scores_too_small_for_a_straight_line_are_interpolated_all_the_same():
    """The slope between 0 and 1e-311 is beyond any float."""
    p = np.array([0.0, 0.0, 0.0, 2e-311, 2e-311, 1.0])
    y = np.array([0, 0, 1, 1, 0, 1])
    isotonic = IsotonicCalibrator().fit(p, y)
    Q = isotonic.predict_proba(np.array([0.0, 1e-311, 2e-311]))
    np.testing.assert_allclose(Q[:, 1], [1 / 3, (1 / 3 + 1 / 2) / 2, 1 / 2], rtol=1e-9)


def test_others_too_small_to_divide_by_share_the_rest_of_the_top_all_the_same():
    P = np.array([[1.0, 1e-310, 0.0]] * 8)
    spline = SplineCalibrator(n_knots=6, mode="top", input="proba").fit(P, [0, 1, 0, 2, 0, 1, 0, 0])
    Q = spline.predict_proba(P)
    assert Q[0, 1] == pytest.approx(1 - Q[0, 0])
    assert Q[0, 2] == 0.0
