"""
A clinical risk model
=====================

A model that was developed on few patients gives the risk of one event to the patients of another
hospital, where the event is rarer. Its risks are drawn against what happened, before and after an
update of intercept and slope.
"""

import numpy as np
from scipy.special import expit
from sklearn.linear_model import LogisticRegression

from skcalib import PlattScaling, ReliabilityDisplay
from skcalib.metrics import calibration_summary

rng = np.random.default_rng(3)
effects = rng.normal(scale=0.25, size=30)


def patients(n, intercept):
    """Draw measurements of patients, and who has the event."""
    X = rng.normal(size=(n, 30))
    return X, rng.random(n) < expit(X @ effects + intercept)


X, y = patients(400, intercept=-1.5)
model = LogisticRegression(C=1e6, max_iter=1000).fit(X, y)
X_new, y_new = patients(1000, intercept=-2.2)
p = model.predict_proba(X_new)[:, 1]

# %%
# The curve is smooth, its smoothness chosen by the data; the band covers it at each risk with 95 %
# confidence. High risks are too high: the curve lies below the diagonal, and the slope below 1.
ReliabilityDisplay.from_predictions(y_new, p, curve="smooth", statistics=True)

# %%
# The same on a page: the counterpart of R's ``val.prob``.
print(calibration_summary(y_new, p, random_state=0))

# %%
# Updated on the first 200 patients, drawn on the other 800.
first, rest = slice(0, 200), slice(200, None)
updated = PlattScaling().fit(p[first], y_new[first]).predict_proba(p[rest])[:, 1]
ReliabilityDisplay.from_predictions(y_new[rest], updated, curve="smooth", statistics=True)

# %%
# Without any assumption but that the rate does not fall with the risk: isotonic regression (CORP),
# with a band that covers any such curve.
ReliabilityDisplay.from_predictions(y_new[rest], updated, curve="isotonic")
