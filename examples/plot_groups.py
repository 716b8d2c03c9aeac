"""
Calibration by group
====================

A model that does not use the site of a patient can be calibrated on average, but miscalibrated at
some sites. This example measures the calibration of each site, with p-values corrected for the
number of sites. Then it fits a calibrator for each site. Calibrators of sites with few patients are
shrunk towards a common calibrator.
"""

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
from sklearn.compose import make_column_transformer
from sklearn.frozen import FrozenEstimator
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline

from skcalib import CalibratedClassifier, GroupwiseCalibrator, ReliabilityDisplay

rng = np.random.default_rng(0)
patients = {"Ash": 0.45, "Birch": 0.3, "Cedar": 0.15, "Dale": 0.07, "Elm": 0.028, "Firth": 0.002}
effect = {"Ash": 0.0, "Birch": -0.1, "Cedar": 0.9, "Dale": -0.9, "Elm": 0.7, "Firth": 0.0}
X = pd.DataFrame(rng.normal(size=(6000, 3)), columns=["age", "pressure", "marker"])
X["site"] = rng.choice(list(patients), 6000, p=list(patients.values()))
logit = X["age"] + 0.5 * X["pressure"] - 1 + X["site"].map(effect)
y = (rng.random(6000) < 1 / (1 + np.exp(-logit))).astype(int)
train, cal, test = np.split(rng.permutation(6000), [2000, 4000])
numbers = make_column_transformer(("passthrough", ["age", "pressure", "marker"]))
model = make_pipeline(numbers, LogisticRegression()).fit(X.iloc[train], y[train])

# %%
# There is a panel for each site. The first is the site whose miscalibration is most certain: the
# lower end of its interval is the largest. Where the curve is below the diagonal, the predicted
# risk is too high.
p = model.predict_proba(X.iloc[test])[:, 1]
site, look = X["site"].iloc[test], {"curve": "smooth", "n_bins": 8}
before = ReliabilityDisplay.from_predictions(y[test], p, groups=site, **look)
print(before.by_group_)

# %%
# Conclusion: two sites are miscalibrated. After calibration by site, there is no evidence of
# miscalibration.
by_site = CalibratedClassifier(FrozenEstimator(model), GroupwiseCalibrator(group_column="site"))
p = by_site.fit(X.iloc[cal], y[cal]).predict_proba(X.iloc[test])[:, 1]
after = ReliabilityDisplay.from_predictions(y[test], p, groups=site, **look)
print(after.by_group_.verdict)

# %%
# Conclusion: calibrators for each site correct errors that a common calibrator cannot correct. A
# site with few patients gets nearly the common calibrator.
plt.show()
