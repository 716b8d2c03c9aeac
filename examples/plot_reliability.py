"""
Is it calibrated? Three pictures
================================

Naive Bayes counts the same evidence again and again: on digits it is nearly always certain, and
too often wrong. The reliability diagram shows it bin by bin, the KS graphs without bins, and the
class-wise display says for which digits. A calibrator fitted on held-out rows corrects most of it.
"""

from sklearn.datasets import load_digits
from sklearn.frozen import FrozenEstimator
from sklearn.model_selection import train_test_split
from sklearn.naive_bayes import GaussianNB

from skcalib import (
    CalibratedClassifier,
    ClasswiseDisplay,
    KSDisplay,
    ReliabilityDisplay,
)

X, y = load_digits(return_X_y=True)
X_train, X_rest, y_train, y_rest = train_test_split(
    X, y, train_size=0.4, stratify=y, random_state=0
)
X_calibration, X_test, y_calibration, y_test = train_test_split(
    X_rest, y_rest, test_size=0.5, stratify=y_rest, random_state=0
)
model = GaussianNB().fit(X_train, y_train)
calibrated = CalibratedClassifier(FrozenEstimator(model))
calibrated.fit(X_calibration, y_calibration)

# %%
# Below the diagonal a model is over-confident. The bars are intervals of each accuracy; the shaded
# band is where the accuracies of a calibrated model with as many rows would lie.
before = ReliabilityDisplay.from_estimator(model, X_test, y_test, n_bins=10)
after = ReliabilityDisplay.from_estimator(
    calibrated, X_test, y_test, n_bins=10, ax=before.ax_, name="calibrated"
)
print(f"expected calibration error: {before.error:.1%} before, {after.error:.1%} after")

# %%
# Cumulative score and accuracy part by the KS error, where the bar is; no bin has been chosen.
ks_before = KSDisplay.from_estimator(model, X_test, y_test)
ks_after = KSDisplay.from_estimator(
    calibrated, X_test, y_test, ax=ks_before.axes_, name="calibrated"
)
print(f"KS error: {ks_before.error:.1%} before, {ks_after.error:.1%} after")

# %%
# Which digits? The worst come first, with their own reliability curves. Where a bar does not rise
# above the dotted line, so few rows would show as much of a calibrated model.
digits = ClasswiseDisplay.from_estimator(calibrated, X_test, y_test, n_bins=10)
print(f"worst after calibration: {digits.order_[:3].tolist()}")
