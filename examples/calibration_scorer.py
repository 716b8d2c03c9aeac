"""
A calibration error as scorer
=============================

Calibration errors are scorers like any other: in
:func:`~sklearn.model_selection.cross_validate`, beside accuracy and log loss, and in
:class:`~sklearn.model_selection.GridSearchCV`, where ``refit`` names the one that decides. As
scorers they are negative: greater is better.
"""

from sklearn.datasets import load_digits
from sklearn.ensemble import RandomForestClassifier
from sklearn.model_selection import GridSearchCV, cross_validate

from skcalib import CalibratedClassifier, TemperatureScaling, VectorScaling
from skcalib.metrics import get_scorer, ks_calibration_error, make_calibration_scorer

X, y = load_digits(return_X_y=True)
forest = RandomForestClassifier(25, random_state=0)

# %%
# Ready-made scorers have names; any other choice of keywords is made on the spot.

scoring = {
    "accuracy": get_scorer("accuracy"),
    "log loss": get_scorer("neg_log_loss"),
    "ECE": get_scorer("neg_expected_calibration_error"),
    "SCE": get_scorer("neg_static_calibration_error"),
    "KS within top 2": make_calibration_scorer(ks_calibration_error, mode="within_top", r=2),
}
for name, model in {
    "forest": forest,
    "forest, calibrated": CalibratedClassifier(forest, cv=3),
}.items():
    print(name)
    scores = cross_validate(model, X, y, scoring=scoring, cv=3)
    for metric in scoring:
        values = scores[f"test_{metric}"]
        print(f"  {metric:<16} {values.mean():8.4f} +- {values.std():.4f}")

# %%
# Several scorers in one search: all are reported, ``refit`` decides. The parameters of model and
# calibrator are searched together.

search = GridSearchCV(
    CalibratedClassifier(forest, TemperatureScaling(), cv=3),
    {
        "calibrator": [TemperatureScaling(), VectorScaling()],
        "estimator__min_samples_leaf": [1, 10],
    },
    scoring=scoring,
    refit="SCE",
    cv=3,
)
search.fit(X, y)
print("grid search, refit on SCE")
for i, parameters in enumerate(search.cv_results_["params"]):
    mark = "*" if i == search.best_index_ else " "
    calibrator = type(parameters["calibrator"]).__name__
    leaf = parameters["estimator__min_samples_leaf"]
    means = (f"{name} {search.cv_results_[f'mean_test_{name}'][i]:.3f}" for name in scoring)
    print(f"{mark} {calibrator:<19} leaf {leaf:>2}  " + "  ".join(means))
