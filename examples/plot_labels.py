"""
Several labels for a row
========================

A picture can have several tags, and a patient several findings: the labels are a matrix of 0 and 1
with a column for each label. This example predicts attributes of handwritten digits, such as "has a
loop" and "is even". It measures the calibration of each attribute, and calibrates all attributes
together. Attributes with few events are shrunk towards a common calibrator.
"""

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
from sklearn.datasets import load_digits
from sklearn.ensemble import RandomForestClassifier

from skcalib import ClasswiseDisplay, MultilabelCalibrator
from skcalib.metrics import calibration_by_label

X, digit = load_digits(return_X_y=True)
attributes = {
    "loop": [0, 6, 8, 9],
    "two loops": [8],
    "straight line": [1, 4, 7],
    "open left": [1, 2, 3, 5, 7, 9],
    "even": [0, 2, 4, 6, 8],
    "above 4": [5, 6, 7, 8, 9],
}
Y = pd.DataFrame({name: np.isin(digit, digits) for name, digits in attributes.items()})
train, cal, test = np.split(np.random.default_rng(0).permutation(len(X)), [600, 900])
model = RandomForestClassifier(50, min_samples_leaf=5, random_state=0).fit(X[train], Y.iloc[train])

# %%
# The forest returns a list with the probabilities of each attribute. The probabilities are correct
# on average, but too close to the event rate: the slopes are far above 1, and all attributes are
# miscalibrated. The worst attribute comes first.
before = model.predict_proba(X[test])
print(calibration_by_label(Y.iloc[test], before, random_state=0))

# %%
# The calibrator is fitted on 300 rows that the model was not fitted on. The mean error falls from
# 0.138 to 0.010.
calibrator = MultilabelCalibrator().fit(model.predict_proba(X[cal]), Y.iloc[cal])
after = calibrator.predict_proba(before)
found = calibration_by_label(Y.iloc[test], after, random_state=0)
print(found.verdict)
print(f"Mean ECE over attributes after calibration: {found.macro:.3f}")

# %%
# The display shows the error of each attribute, and its reliability diagram, before and after the
# calibration.
display = ClasswiseDisplay.from_predictions(Y.iloc[test], before, name="forest")
ClasswiseDisplay.from_predictions(
    Y.iloc[test],
    after,
    ax=display.axes_,
    order=display.order_,
    classes=display.shown_,
    name="calibrated",
)

# %%
# Conclusion: one call calibrates all attributes, and each attribute is measured with a p-value
# that is corrected for the number of attributes.
plt.show()
