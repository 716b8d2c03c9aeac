"""Without matplotlib everything but drawing works, and drawing says how to install it."""

import sys

import pytest

import skcalib

CALLS = (
    "ReliabilityDisplay.from_predictions(y, P)",
    "KSDisplay.from_predictions(y, P)",
    "ClasswiseDisplay.from_estimator(calibrator, P, y)",
    "DecompositionDisplay.from_predictions(y, P)",
    "CalibrationMapDisplay.from_estimator(calibrator, P)",
    "CalibrationMapDisplay.from_predictions(P, P)",
    "ComparisonDisplay.from_frame(frame)",
)


def test_missing_matplotlib_is_one_line(monkeypatch):
    """The error names the display and the extra that has matplotlib."""
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    y, P = [0, 1, 1, 0], [0.2, 0.7, 0.6, 0.1]
    things = {
        **vars(skcalib),
        "y": y,
        "P": P,
        "calibrator": skcalib.IdentityCalibrator().fit(P, y),
        "frame": skcalib.compare_calibrators(P, y, [], metrics=["log_loss"], cv=2).frame,
    }
    for call in CALLS:
        with pytest.raises(ImportError) as caught:
            eval(call, things)
        assert str(caught.value) == (
            f'{call.split(".")[0]} needs matplotlib: install it with `pip install "skcalib[plot]"`.'
        )
