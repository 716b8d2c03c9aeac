"""The decision curve: net benefit, acting on all and on none."""

import numpy as np

from skcalib import DecisionCurveDisplay
from skcalib.metrics import net_benefit

rng = np.random.default_rng(0)
P = rng.beta(1, 3, 500)
Y = rng.random(500) < P


def test_it_draws_the_net_benefit_beside_acting_on_all_and_on_none():
    thresholds = [0.3, 0.1, 0.2]
    display = DecisionCurveDisplay.from_predictions(Y, P, thresholds=thresholds, name="net")
    frame = net_benefit(Y, P, sorted(thresholds))
    assert display.line_.get_xdata().tolist() == [0.1, 0.2, 0.3]
    assert (display.line_.get_ydata() == frame["net_benefit"]).all()
    assert np.allclose(display.all_.get_ydata(), frame["net_benefit"] - frame["gain_over_all"])
    assert set(display.none_.get_ydata()) == {0}
    assert display.line_.get_label() == "net"
    vertices = display.band_.get_paths()[0].vertices[:, 1]
    assert np.isin(vertices, frame[["low", "high"]]).all()
    other = DecisionCurveDisplay.from_predictions(Y, P**2, ax=display.ax_)
    assert other.all_ is display.all_  # once for all models
    assert repr(display).startswith("<DecisionCurveDisplay net: better than acting on all")
    useless = DecisionCurveDisplay.from_predictions(Y, np.full(500, 0.5), thresholds=[0.2, 0.9])
    assert "at no threshold significantly better" in repr(useless)
