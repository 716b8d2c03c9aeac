"""
Before and after calibration in one call
========================================

A random forest of shallow trees averages over trees that disagree. It is under-confident: its
accuracy is higher than its confidence. `CalibratedClassifier` corrects this. With ``before=True``,
each display shows the forest and the calibrated forest in the same plot.
"""

import matplotlib.pyplot as plt
from sklearn.datasets import load_digits
from sklearn.ensemble import RandomForestClassifier
from sklearn.model_selection import train_test_split

from skcalib import CalibratedClassifier, ClasswiseDisplay, KSDisplay, ReliabilityDisplay

X, y = load_digits(return_X_y=True)
X_train, X_test, y_train, y_test = train_test_split(X, y, test_size=0.5, stratify=y, random_state=0)
forest = RandomForestClassifier(20, max_depth=6, random_state=0)
calibrated = CalibratedClassifier(forest).fit(X_train, y_train)

# %%
# The curve of the forest is far above the diagonal, because the forest is under-confident. The
# curve of the calibrated forest is close to the diagonal, and mostly inside the shaded band.
display = ReliabilityDisplay.from_estimator(calibrated, X_test, y_test, before=True)
print(f"expected calibration error: {display.before_.error:.1%} before, {display.error:.1%} after")

# %%
# The KS graphs show the error without bins. For a calibrated model, the curves of score and
# accuracy coincide.
display = KSDisplay.from_estimator(calibrated, X_test, y_test, before=True)
print(f"KS error: {display.before_.error:.1%} before, {display.error:.1%} after")

# %%
# The class-wise display shows the error of each digit. Digits are in the order of their error
# before calibration, and the reliability curves are those of the worst digits.
display = ClasswiseDisplay.from_estimator(calibrated, X_test, y_test, before=True, n_bins=10)
mean = display.before_.errors.mean(), display.errors.mean()
print(f"static calibration error: {mean[0]:.1%} before, {mean[1]:.1%} after")

# %%
# Conclusion: calibration lowers the ECE, which measures the top label, from 32 to 2.5 points, and
# the mean error of the digits from 6 points to 1.
plt.show()
