"""
A clinical risk model
=====================

A model was developed on few patients. It predicts the risk of an event for patients of another
hospital, where the event is rarer. This example validates the predicted risks in the new hospital,
and corrects them by an update of intercept and slope.
"""

import matplotlib.pyplot as plt
import numpy as np
from scipy.special import expit
from sklearn.linear_model import LogisticRegression

from skcalib import PlattScaling, ReliabilityDisplay
from skcalib.metrics import calibration_summary

rng = np.random.default_rng(3)
effects = rng.normal(scale=0.25, size=30)


def patients(n, intercept):
    """Draw measurements of patients, and whether each has the event."""
    X = rng.normal(size=(n, 30))
    return X, rng.random(n) < expit(X @ effects + intercept)


X, y = patients(400, intercept=-1.5)
model = LogisticRegression(C=1e6, max_iter=1000).fit(X, y)
X_new, y_new = patients(1000, intercept=-2.2)
p = model.predict_proba(X_new)[:, 1]

# %%
# The smoothness of the curve is estimated from the data. The inner band is a 95 % confidence band
# at each risk, and the outer band is one for the whole curve. High risks are too high: the curve is
# below the diagonal, and the slope is below 1.
ReliabilityDisplay.from_predictions(y_new, p, statistics=True)

# %%
# All statistics in a table, as in R's ``val.prob``:
print(calibration_summary(y_new, p, random_state=0))

# %%
# Conclusion: there are fewer events than predicted (``observed_expected`` below 1), and the risks
# are too extreme (``slope`` below 1). Therefore, update intercept and slope on the first 200
# patients. The plot shows the other 800 patients.
first, rest = slice(0, 200), slice(200, None)
updated = PlattScaling().fit(p[first], y_new[first]).predict_proba(p[rest])[:, 1]
ReliabilityDisplay.from_predictions(y_new[rest], updated, statistics=True)

# %%
# Isotonic regression (CORP) assumes only that the rate of events does not decrease with the
# predicted risk. Its band is valid for every curve that does not decrease.
ReliabilityDisplay.from_predictions(y_new[rest], updated, curve="isotonic")

# %%
# Conclusion: after the update, the diagonal is within the bands of both curves. 200 patients were
# enough to update intercept and slope.
plt.show()
