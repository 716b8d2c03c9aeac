"""
Calibration errors as scorers
=============================

Calibration errors can be scorers of :func:`~sklearn.model_selection.cross_validate` and
:class:`~sklearn.model_selection.GridSearchCV`, together with accuracy and log loss. In this grid
search, log loss chooses the model. Scorers return the negative error, so that greater is better.
"""

from sklearn.datasets import load_digits
from sklearn.ensemble import RandomForestClassifier
from sklearn.model_selection import GridSearchCV, cross_validate

from skcalib import AutoCalibrator, CalibratedClassifier, TemperatureScaling
from skcalib.metrics import get_scorer, ks_calibration_error, make_calibration_scorer

X, y = load_digits(return_X_y=True)
forest = RandomForestClassifier(25, random_state=0)

# %%
# `get_scorer` returns a scorer by its name. `make_calibration_scorer` makes a scorer with other
# keywords. The scorers measure a random forest before and after calibration.

scoring = {
    "accuracy": get_scorer("accuracy"),
    "log loss": get_scorer("neg_log_loss"),
    "ECE": get_scorer("neg_expected_calibration_error"),
    "SCE": get_scorer("neg_static_calibration_error"),
    "KS within top 2": make_calibration_scorer(ks_calibration_error, mode="within_top", r=2),
}
means = {}
for name, model in {
    "forest": forest,
    "forest, calibrated": CalibratedClassifier(forest, cv=3),
}.items():
    print(name)
    scores = cross_validate(model, X, y, scoring=scoring, cv=3)
    for metric in scoring:
        values = scores[f"test_{metric}"]
        means[name, metric] = values.mean()
        print(f"  {metric:<16} {values.mean():8.4f} +- {values.std():.4f}")
before, after = (-means[name, "ECE"] for name in ("forest", "forest, calibrated"))
print(f"Conclusion: calibration lowers the ECE from {before:.1%} to {after:.1%}.")

# %%
# A grid search reports all scorers, and chooses by the one that ``refit`` names. This search tries
# calibrators and values of a parameter of the forest together.

search = GridSearchCV(
    CalibratedClassifier(forest, cv=3),
    {
        "calibrator": [AutoCalibrator(), TemperatureScaling()],
        "estimator__min_samples_leaf": [1, 10],
    },
    scoring=scoring,
    refit="log loss",
    cv=3,
)
search.fit(X, y)
print("\ngrid search, refit on log loss")
for i, parameters in enumerate(search.cv_results_["params"]):
    mark = "*" if i == search.best_index_ else " "
    calibrator = type(parameters["calibrator"]).__name__
    leaf = parameters["estimator__min_samples_leaf"]
    values = (f"{name} {search.cv_results_[f'mean_test_{name}'][i]:.3f}" for name in scoring)
    print(f"{mark} {calibrator:<19} leaf {leaf:>2}  " + "  ".join(values))
best = search.best_params_
print(
    f"Conclusion: {type(best['calibrator']).__name__} with min_samples_leaf="
    f"{best['estimator__min_samples_leaf']} has the lowest log loss (marked by *)."
)
