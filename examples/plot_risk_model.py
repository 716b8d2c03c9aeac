"""
A clinical risk model
=====================

A model that was developed on few patients predicts the risk of an event for patients of another
hospital, where the event is rarer. Its risks are validated there, and corrected by an update of
intercept and slope.
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
# The smoothness of the curve is estimated from the data; the inner band is a 95 % confidence band
# at each risk, the outer one of the whole curve. High risks are too high: the curve is below the
# diagonal, and the slope below 1.
ReliabilityDisplay.from_predictions(y_new, p, curve="smooth", statistics=True)

# %%
# All statistics in a table, as by R's ``val.prob``:
print(calibration_summary(y_new, p, random_state=0))

# %%
# Conclusion: there are fewer events than predicted (``observed_expected`` below 1), and the risks
# are too extreme (``slope`` below 1). So intercept and slope are updated on the first 200 patients.
# The plot shows the other 800.
first, rest = slice(0, 200), slice(200, None)
updated = PlattScaling().fit(p[first], y_new[first]).predict_proba(p[rest])[:, 1]
ReliabilityDisplay.from_predictions(y_new[rest], updated, curve="smooth", statistics=True)

# %%
# Isotonic regression (CORP) assumes only that the rate does not decrease with the risk. Its band is
# valid for any such curve.
ReliabilityDisplay.from_predictions(y_new[rest], updated, curve="isotonic")

# %%
# Conclusion: after the update the diagonal lies within the bands of both curves: 200 patients were
# enough for intercept and slope.
plt.show()
