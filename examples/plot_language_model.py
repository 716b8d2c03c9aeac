"""
Is my language model calibrated?
================================

A language model answers questions and states its confidence in multiples of 5 %. The data are two
columns: the stated confidence, and whether the answer is correct (0 or 1). Ties and confidences of
exactly 0 or 1 need no special treatment.
"""

import matplotlib.pyplot as plt
import numpy as np

from skcalib import AutoCalibrator, DecompositionDisplay, ReliabilityDisplay
from skcalib.metrics import calibration_interval, expected_calibration_error

rng = np.random.default_rng(0)
able = rng.beta(2, 1, 2000)  # probability that the answer is correct
stated = np.round(20 / (1 + np.exp(-1.5 * np.log(able / (1 - able)) - 1))) / 20
correct = (rng.random(2000) < able).astype(int)
fit, test = slice(0, 1000), slice(1000, 2000)

calibrator = AutoCalibrator().fit(stated[fit], correct[fit])
calibrated = calibrator.predict_proba(stated[test])[:, 1]
for name, p in {"stated": stated[test], "calibrated": calibrated}.items():
    error = calibration_interval(
        expected_calibration_error, correct[test], p, n_bins=20, random_state=0
    )
    print(f"{name}: ECE {error.estimate:.3f}, 95 % interval {error.low:.3f} to {error.high:.3f}")

# %%
# Conclusion: the stated confidences are wrong by more than 10 points on average. After calibration,
# the interval of the error contains 0.
#
# With 20 bins, each multiple of 5 % is a point. Below the diagonal the model is over-confident.
picture = ReliabilityDisplay.from_predictions(correct[test], stated[test], n_bins=20, name="stated")
ReliabilityDisplay.from_predictions(
    correct[test], calibrated, n_bins=20, ax=picture.ax_, name="calibrated"
)

# %%
# In this plot, calibration moves the model to the left, at the same height. So the model is better
# calibrated, and its confidence separates correct from wrong answers as well as before. All points
# on a grey line have the same Brier score.
parts = DecompositionDisplay.from_predictions(
    correct[test], {"stated": stated[test], "calibrated": calibrated}
)
print(parts.frame[["score", "miscalibration", "discrimination"]].round(3))

# %%
# Conclusion: after calibration, a confidence of 80 % means that about 80 % of such answers are
# correct.
plt.show()
