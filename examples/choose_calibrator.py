"""
Choose among six calibrators by grid search
===========================================

A grid search can choose the calibrator. :class:`~sklearn.model_selection.GridSearchCV` fits each
candidate on the training rows of a fold, measures a calibration error on the other rows, and
selects the candidate with the smallest error. Here the errors are SCE, ACE and KS, and no
calibration is also a candidate. The model is Gaussian naive Bayes on the digits data: its mean
confidence is 99 %, but only 83 % of its predictions are right.
"""

from sklearn.base import clone
from sklearn.datasets import load_digits
from sklearn.frozen import FrozenEstimator
from sklearn.model_selection import GridSearchCV, train_test_split
from sklearn.naive_bayes import GaussianNB
from sklearn.pipeline import Pipeline, make_pipeline
from sklearn.preprocessing import StandardScaler

from skcalib import (
    CalibratedClassifier,
    HistogramBinning,
    IdentityCalibrator,
    IsotonicCalibrator,
    MatrixScaling,
    SplineCalibrator,
    TemperatureScaling,
    VectorScaling,
)
from skcalib.metrics import get_scorer

CALIBRATORS = {
    "none": IdentityCalibrator(),
    "temperature": TemperatureScaling(),
    "vector": VectorScaling(),
    "matrix": MatrixScaling(),
    "spline": SplineCalibrator(),
    "histogram": HistogramBinning(class_conditional=True),
    "isotonic": IsotonicCalibrator(),
}
SCORING = {
    "SCE": get_scorer("neg_static_calibration_error"),
    "ACE": get_scorer("neg_adaptive_calibration_error"),
    "KS": get_scorer("neg_ks_calibration_error"),
}

X, y = load_digits(return_X_y=True)
X_rest, X_test, y_rest, y_test = train_test_split(X, y, test_size=600, stratify=y, random_state=0)
X_model, X_calibration, y_model, y_calibration = train_test_split(
    X_rest, y_rest, test_size=700, stratify=y_rest, random_state=0
)


def report(search, X, y, X_test, y_test):
    """Print the test errors of all candidates, in %, and what the search chose by each error."""
    errors = {}
    for name, candidate in zip(CALIBRATORS, search.cv_results_["params"], strict=True):
        fitted = clone(search.estimator).set_params(**candidate).fit(X, y)
        errors[name] = {error: -100 * s(fitted, X_test, y_test) for error, s in SCORING.items()}
    chosen = {
        error: list(CALIBRATORS)[search.cv_results_[f"mean_test_{error}"].argmax()]
        for error in SCORING
    }
    print(f"{'':<12}" + "".join(f"{error:>7}  " for error in SCORING).rstrip())
    for name, row in errors.items():
        cells = (f"{x:7.1f} {'*' if chosen[error] == name else ' '}" for error, x in row.items())
        print(f"{name:<12}{''.join(cells)}".rstrip())
    effects = (
        f"{name} by {error} ({errors['none'][error]:.1f} to {errors[name][error]:.1f})"
        for error, name in chosen.items()
    )
    print(f"Conclusion: choose {', '.join(effects)}.")


# %%
# If the model is already fitted, freeze it, and search on rows that it has not seen. One search
# measures all three errors; ``refit`` names the one that determines ``best_estimator_``. A star
# marks the choice by each error, which was made without the test rows.

model = GaussianNB().fit(X_model, y_model)
search = GridSearchCV(
    CalibratedClassifier(FrozenEstimator(model)),
    {"calibrator": list(CALIBRATORS.values())},
    scoring=SCORING,
    refit="KS",
).fit(X_calibration, y_calibration)
print("Around a fitted model: errors on 600 test rows, in %")
report(search, X_calibration, y_calibration, X_test, y_test)

# %%
# If you have an array of probabilities or logits and no model, search over a pipeline whose only
# step is the calibrator. The choice is the same.

in_hand = GridSearchCV(
    Pipeline([("calibrator", IdentityCalibrator())]),
    {"calibrator": list(CALIBRATORS.values())},
    scoring=SCORING,
    refit="KS",
).fit(model.predict_proba(X_calibration), y_calibration)
same = in_hand.best_index_ == search.best_index_
print(f"\nFrom an array of probabilities, the same choice by KS: {same}")

# %%
# If the model is not fitted yet, no separate rows are needed: the calibrator is fitted on the
# scores of the rows that each fold left out. Here the calibrated model is a step of a pipeline.

pipeline = make_pipeline(StandardScaler(), CalibratedClassifier(GaussianNB(), cv=3))
search = GridSearchCV(
    pipeline,
    {"calibratedclassifier__calibrator": list(CALIBRATORS.values())},
    scoring=SCORING,
    refit="KS",
    cv=3,
).fit(X_rest, y_rest)
print("\nInside a pipeline: errors on 600 test rows, in %")
report(search, X_rest, y_rest, X_test, y_test)

# %%
# The three errors measure different things. SCE has even bins, like histogram binning, which
# therefore looks better by SCE than by ACE, whose bins contain equal numbers of rows, or by KS,
# which has no bins. If the errors disagree, choose a calibrator that is good by all of them.
