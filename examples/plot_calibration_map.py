"""
What does a calibrator do to a probability?
===========================================

These plots show the probability after calibration against the probability before. With two classes
the calibration function is a curve: smooth for most calibrators, with steps for isotonic
regression. With more classes, the result also depends on the other probabilities of the row. The
plot then has a point for each row, the median of the points, and a band.
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
# The first plot has two classes. The probabilities are out-of-fold predictions of naive Bayes on
# the breast cancer data.
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
# All four calibrators lower large probabilities, because naive Bayes is over-confident. They change
# the predicted class of few rows, or of none.
#
# The second plot has ten classes and shows the top label of each row. ``describe()`` reports which
# classes change.
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
# The coefficients of matrix scaling are a matrix, because each new logit is a weighted sum of all
# old logits. A light entry off the diagonal raises the class of its row if the class of its column
# is likely.
display.plot_coef()

# %%
# Conclusion: matrix scaling moves probability between classes, and changes the predicted class of
# one row in eleven. Temperature scaling changes no predicted class.
plt.show()
