"""
How many rows to label?
=======================

A neural network recognises handwritten digits, and there are 1,297 new digits without labels. How
many of them must be labelled to measure how well the network is calibrated? ``label_plan`` answers
this question from the probabilities alone. In this example the labels are known, so that plans can
be checked.
"""

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_digits
from sklearn.model_selection import train_test_split
from sklearn.neural_network import MLPClassifier

from skcalib.metrics import calibration_interval, expected_calibration_error, label_plan

X, y = load_digits(return_X_y=True)
X = X[:, ::4] / 16  # a quarter of the pixels
X_train, X_new, y_train, y_new = train_test_split(X, y, train_size=500, random_state=0)
model = MLPClassifier(learning_rate_init=0.01, max_iter=1000, random_state=0).fit(X_train, y_train)
P = model.predict_proba(X_new)

# %%
# Plan the rows for an interval of the ECE that is 0.07 wide:
plan = label_plan(P, width=0.07, random_state=0)
print(plan)
print(plan.table.round(3).to_string(index=False))


# %%
# ``plan.draw`` chooses the rows to label. It prefers rows whose top probability is far from 1,
# because the labels of such rows vary more. Pass the weights to the metric:
def interval(rows, weight=None):
    """Return the interval of the ECE of some rows."""
    return calibration_interval(
        expected_calibration_error,
        y_new[rows],
        P[rows],
        sample_weight=weight,
        labels=range(10),
        random_state=0,
    )


rows, weight = plan.draw(P, random_state=0)
print(f"{len(rows)} labels: {interval(rows, weight)}")
print(f"{len(P)} labels: {interval(np.arange(len(P)))}")

# %%
# Compare the planned widths with those of intervals of true labels. Each point is the mean of ten
# samples:
plans = {width: label_plan(P, width=width, random_state=0) for width in (0.05, 0.07, 0.1)}
found = {"rows drawn by the plan": [], "random rows": []}
for each in plans.values():
    drawn = [interval(*each.draw(P, random_state=seed)) for seed in range(10)]
    rng = np.random.default_rng(0)
    plain = [interval(rng.choice(len(P), each.rows, replace=False)) for _ in range(10)]
    for widths, intervals in zip(found.values(), (drawn, plain), strict=True):
        widths.append(np.mean([one.high - one.low for one in intervals]))

sizes = [each.rows for each in plans.values()]
for name, widths in found.items():
    pairs = zip(plans, widths, strict=True)
    print(name, ", ".join(f"{width:.3f} (planned {planned})" for planned, width in pairs))

# %%
# Both against the number of rows:
figure, ax = plt.subplots(figsize=(6, 4), layout="constrained")
ax.plot(plan.table["rows"], plan.table["width"], color="0.5", label="plan (T = 1.5)")
styles = zip(found.items(), ("#0072B2", "#D55E00"), "os", strict=True)
for (name, widths), color, marker in styles:
    ax.plot(sizes, widths, marker, color=color, label=name)
ax.set(xscale="log", yscale="log", xlabel="Labelled rows", ylabel="Width of the 95 % interval")
ax.set_xticks([100, 200, 500, 1000, 2000], ["100", "200", "500", "1,000", "2,000"])
ax.set_yticks([0.03, 0.05, 0.07, 0.1, 0.15], ["0.03", "0.05", "0.07", "0.1", "0.15"])
ax.minorticks_off()
ax.legend(frameon=False)

# %%
# The widths of intervals of true labels are close to the planned widths, although the network is
# not over-confident by exactly T = 1.5. Intervals of rows drawn by the plan are slightly narrower
# than intervals of random rows. To halve the width, four times as many labels are needed.
plt.show()
