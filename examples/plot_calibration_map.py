"""
What does a calibrator do to a score?
=====================================

A calibration map has the probability before on one axis and the probability after on the other.
With two classes it is a curve: smooth for most calibrators, a staircase for isotonic regression.
With more classes the same probability may become different ones, as the rest of the row decides:
then there is a point for each row, a median, and a band about it.
"""

from sklearn.datasets import load_breast_cancer, load_digits
from sklearn.model_selection import cross_val_predict
from sklearn.naive_bayes import GaussianNB

from skcalib import (
    AutoCalibrator,
    CalibrationMapDisplay,
    IsotonicCalibrator,
    MatrixScaling,
    SplineCalibrator,
    TemperatureScaling,
)

# %%
# Two classes: out-of-fold probabilities of naive Bayes on the breast cancer data.
X, y = load_breast_cancer(return_X_y=True)
P = cross_val_predict(GaussianNB(), X, y, method="predict_proba")
display = None
for calibrator in (
    TemperatureScaling(),
    AutoCalibrator(),
    IsotonicCalibrator(),
    SplineCalibrator(),
):
    display = CalibrationMapDisplay.from_estimator(
        calibrator.fit(P, y), P, ax=None if display is None else display.ax_
    )
    print(f"{display.name}: {display.flipped:.1%} of the rows change their class")

# %%
# Ten classes: the map of the top label. ``describe()`` says in words what the picture cannot show.
X, y = load_digits(return_X_y=True)
P = cross_val_predict(GaussianNB(), X, y, method="predict_proba")
auto = AutoCalibrator().fit(P, y)
CalibrationMapDisplay.from_estimator(auto, P)
print(auto.describe())

# %%
# The same picture of matrix scaling.
display = CalibrationMapDisplay.from_estimator(MatrixScaling().fit(P, y), P)
print(f"{display.name}: {display.flipped:.1%} of the rows change their class")

# %%
# Its matrix: each new score from all old ones. A light entry off the diagonal raises the class of
# its row where the class of its column is likely.
display.plot_coef()
