"""Without matplotlib everything but drawing works, and drawing says how to install it."""

import subprocess
import sys

CALLS = (
    "ReliabilityDisplay.from_predictions(y, P)",
    "KSDisplay.from_predictions(y, P)",
    "ClasswiseDisplay.from_estimator(calibrator, P, y)",
    "DecompositionDisplay.from_predictions(y, P)",
    "CalibrationMapDisplay.from_estimator(calibrator, P)",
    "CalibrationMapDisplay.from_predictions(P, P)",
    "ComparisonDisplay.from_frame(frame)",
)
CODE = f"""
import sys
sys.modules["matplotlib"] = None
import skcalib
y, P = [0, 1, 1, 0], [0.2, 0.7, 0.6, 0.1]
calibrator = skcalib.IdentityCalibrator().fit(P, y)
frame = skcalib.compare_calibrators(P, y, [], metrics=["log_loss"], cv=2).frame
for call in {CALLS}:
    try:
        eval("skcalib." + call)
    except ImportError as error:
        print(error)
"""


def test_missing_matplotlib_is_one_line():
    """The error names the method and the extra that has matplotlib."""
    run = subprocess.run([sys.executable, "-c", CODE], capture_output=True, text=True, check=True)
    assert run.stdout.splitlines() == [
        f'{call.split("(")[0]} needs matplotlib: install it with `pip install "skcalib[plot]"`.'
        for call in CALLS
    ]
