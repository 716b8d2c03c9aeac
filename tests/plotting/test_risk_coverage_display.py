"""The risk-coverage display: its steps, band, target and guaranteed point."""

import numpy as np
import pytest
from matplotlib.figure import Figure
from scipy.special import expit, softmax

from skcalib import RiskCoverageDisplay, TemperatureScaling
from skcalib.metrics import risk_coverage_curve, selective_threshold

rng = np.random.default_rng(0)
P = expit(np.abs(rng.normal(0, 3, 500)))
HIT = rng.random(500) < P


def test_it_draws_the_curve_its_band_and_the_area():
    display = RiskCoverageDisplay.from_predictions(HIT, P, name="net", color="k")
    curve = risk_coverage_curve(HIT, P)
    x, y = display.line_.get_data()
    assert (x[1:] == curve.coverage).all()
    assert (y[1:] == curve.risk).all()
    assert (x[0], y[0]) == (0, curve.risk[0])
    assert display.line_.get_drawstyle() == "steps-pre"
    assert display.line_.get_color() == "k"
    vertices = display.band_.get_paths()[0].vertices[:, 1]
    assert np.isin(vertices, np.concatenate([curve.low, curve.high])).all()
    area = f"net\nAURC {curve.aurc:.3g}, {curve.aurc_low:.3g} to {curve.aurc_high:.3g}"
    assert display.line_.get_label() == area
    assert display.target_ is display.point_ is None
    assert repr(display).startswith("<RiskCoverageDisplay net: AURC 0.")


def test_an_accuracy_draws_the_allowed_risk_and_the_guaranteed_threshold():
    display = RiskCoverageDisplay.from_predictions(HIT, P, accuracy=0.9)
    found = selective_threshold(HIT, P, accuracy=0.9)
    assert display.threshold == found
    assert display.target_.get_ydata()[0] == pytest.approx(0.1)
    assert display.point_.get_xydata().tolist() == [[found.coverage, 1 - found.accuracy]]
    other = RiskCoverageDisplay.from_predictions(HIT, P**2, accuracy=0.9, ax=display.ax_)
    assert other.target_ is display.target_  # once for all models
    assert other.line_.get_color() != display.line_.get_color()
    none = RiskCoverageDisplay.from_predictions(HIT[:9], P[:9], accuracy=0.9)
    assert none.point_ is None
    assert repr(none).endswith("no threshold for accuracy 0.9>")


def test_the_legend_fits_small_axes():
    """Of two models with long intervals, beside the names of the axis."""
    figure = Figure(figsize=(3.4, 2.6), layout="constrained")
    ax = figure.subplots()
    for name, p in {"temperature": P, "no calibration": P**2}.items():
        RiskCoverageDisplay.from_predictions(HIT, p, accuracy=0.9, name=name, ax=ax)
    figure.draw_without_rendering()
    assert ax.get_legend().get_window_extent().width < ax.get_window_extent().width


def test_before_and_after_on_the_same_axes():
    y = rng.integers(3, size=400)
    Z = 3 * (rng.normal(size=(400, 3)) + 1.5 * np.eye(3)[y])
    model = TemperatureScaling().fit(Z[:200], y[:200])
    display = RiskCoverageDisplay.from_estimator(model, Z[200:], y[200:], before=True)
    assert display.before_.ax_ is display.ax_
    before = risk_coverage_curve(y[200:], softmax(Z[200:], axis=1))
    assert display.before_.curve.aurc == pytest.approx(before.aurc)


def test_many_points_are_thinned_and_a_wrong_first_row_does_not_set_the_scale():
    score, hit = np.linspace(1, 0, 20_000), np.arange(20_000) % 10 > 0
    display = RiskCoverageDisplay.from_predictions(hit, score)
    assert display.line_.get_xdata().size <= 1001
    assert display.curve.risk[0] == 1
    assert display.ax_.get_ylim()[1] < 0.2


def test_an_accuracy_of_1_is_refused():
    with pytest.raises(ValueError, match=r"accuracy must be a number in \(0, 1\)"):
        RiskCoverageDisplay.from_predictions(HIT, P, accuracy=1)
