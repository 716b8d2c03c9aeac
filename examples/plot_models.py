"""
Which models are miscalibrated, and how?
========================================

Six kinds of models learn handwritten digits from a quarter of the pixels. For each model, a
reliability diagram compares confidence with accuracy, before and after calibration. The calibrator
is fitted on rows that are new to the model.
"""

import matplotlib.pyplot as plt
import pandas as pd
from sklearn.datasets import load_digits
from sklearn.ensemble import HistGradientBoostingClassifier, RandomForestClassifier
from sklearn.frozen import FrozenEstimator
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import train_test_split
from sklearn.naive_bayes import GaussianNB
from sklearn.neural_network import MLPClassifier
from sklearn.svm import SVC

from skcalib import CalibratedClassifier, ReliabilityDisplay

X, y = load_digits(return_X_y=True)
X = X[:, ::4] / 16
X_train, X_rest, y_train, y_rest = train_test_split(X, y, train_size=500, random_state=0)
X_fit, X_test, y_fit, y_test = train_test_split(X_rest, y_rest, test_size=0.5, random_state=0)

models = {
    "logistic regression": LogisticRegression(),
    "naive Bayes": GaussianNB(),
    "random forest": RandomForestClassifier(random_state=0),
    "gradient boosting": HistGradientBoostingClassifier(max_iter=30, random_state=0),
    "SVC": SVC(),
    "neural network": MLPClassifier(learning_rate_init=0.01, max_iter=1000, random_state=0),
}
figure, panels = plt.subplots(2, 3, figsize=(8, 6), layout="constrained")
rows = {}
for (name, model), ax in zip(models.items(), panels.flat, strict=True):
    model.fit(X_train, y_train)
    calibrated = CalibratedClassifier(FrozenEstimator(model)).fit(X_fit, y_fit)
    after = ReliabilityDisplay.from_estimator(
        calibrated, X_test, y_test, before=True, ax=ax, histogram=False, n_bins=8
    )
    before = after.before_
    ax.set_title(f"{name}\nECE {before.error:.0%} before, {after.error:.0%} after", size="medium")
    ax.get_legend().remove()
    ax.label_outer()
    says, right = before.means
    rows[name] = {"says": says, "right": right, "before": before.error, "after": after.error}
lines = [before.line_, after.line_, after.band_]
names = ["before", "after calibration", "95% if calibrated"]
figure.legend(lines, names, loc="outside lower center", ncols=3)
print(pd.DataFrame(rows).T.map("{:.0%}".format))

# %%
# * **Logistic regression** is under-confident on these data: its penalty is strong for 500 rows,
#   and moves the probabilities towards each other.
# * **Naive Bayes** is very over-confident: it treats the correlated neighbouring pixels as
#   independent evidence.
# * **A random forest** is under-confident: the mean of many trees is rarely close to 0 or 1.
# * **Gradient boosting and neural networks** are over-confident: training continues to lower the
#   loss when the predictions of the training rows are already correct.
# * **An SVC** has no probabilities. The softmax of its decision values is nearly the same for all
#   rows. A calibrator turns the decision values into useful probabilities.
#
# Conclusion: most models are miscalibrated, and 648 rows are enough to correct each of them. On
# other data, the same kind of model can be wrong in the other direction: measure your own model.
plt.show()
