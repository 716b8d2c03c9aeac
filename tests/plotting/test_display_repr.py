"""A display says in a line what it shows."""

import pytest
from drawings import predictions

from skcalib import TemperatureScaling, compare_calibrators
from skcalib.metrics import expected_calibration_error, ks_calibration_error

pytest.importorskip("matplotlib")

from skcalib import plotting


def test_every_display_says_in_a_line_what_it_shows():
    y, P, Z = predictions(300, 3)
    score = ((P.max(axis=1) - (P.argmax(axis=1) == y)) ** 2).mean()  # of the top label
    ks = plotting.KSDisplay.from_predictions(y, P)
    classes = plotting.ClasswiseDisplay.from_predictions(y, P)
    first = classes.order_[0]
    comparison = compare_calibrators(Z, y, ["temperature"], metrics=["log_loss"])
    fitted = TemperatureScaling().fit(Z, y)
    expected = {
        plotting.ReliabilityDisplay.from_predictions(y, P, name="net"): (
            "net: accuracy against confidence (top label), 300 rows: error "
            f"{expected_calibration_error(y, P):.4f}"
        ),
        ks: f"KS error {ks_calibration_error(y, P):.4f} at a score of {ks.score[ks.place]:.3g}",
        classes: (
            f"SCE {classes.errors.mean():.4f}, 3 classes; largest error: {first}, "
            f"{classes.errors[first]:.4f}"
        ),
        plotting.CalibrationMapDisplay.from_estimator(fitted, Z): (
            "TemperatureScaling: 300 rows, 0.0 % change their top label"
        ),
        plotting.ComparisonDisplay.from_frame(comparison.frame): (
            "1 calibrator and the identity, 1 metric; chosen: temperature"
        ),
        plotting.DecompositionDisplay.from_predictions(y, P, name="net"): (
            f"brier score: net {score:.4f}"
        ),
    }
    for display, text in expected.items():
        assert repr(display) == f"<{type(display).__name__} {text}>"
