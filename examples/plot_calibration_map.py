"""
What does a calibrator do to a probability?
===========================================

A calibration map shows the probability before calibration on one axis and the probability after it
on the other. With two classes it is a curve: smooth for most calibrators, with steps for isotonic
regression. With more classes the result also depends on the other probabilities of the row: the
plot has a point for each row, their median, and a band.
"""

import matplotlib.pyplot as plt
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
# All four lower large probabilities, because naive Bayes is over-confident, and change few
# predicted classes or none.
#
# Ten classes: the map of the top label. ``describe()`` says in words which classes change.
X, y = load_digits(return_X_y=True)
P = cross_val_predict(GaussianNB(), X, y, method="predict_proba")
auto = AutoCalibrator().fit(P, y)
CalibrationMapDisplay.from_estimator(auto, P)
print(auto.describe())

# %%
# The same plot for matrix scaling.
display = CalibrationMapDisplay.from_estimator(MatrixScaling().fit(P, y), P)
print(f"{display.name}: {display.flipped:.1%} of the rows change their class")

# %%
# The matrix of its coefficients: each new logit is a sum over all old ones. A light entry off the
# diagonal raises the class of its row where the class of its column is likely.
display.plot_coef()

# %%
# Conclusion: matrix scaling moves the classes against each other and changes one predicted class in
# eleven; temperature scaling changes none, and its map is a curve.
plt.show()
