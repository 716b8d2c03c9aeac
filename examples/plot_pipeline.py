"""
A calibrated classifier inside a pipeline
=========================================

A support vector machine predicts scores, not probabilities. :class:`~skcalib.CalibratedClassifier`
turns them into calibrated probabilities, inside a pipeline that scales the features.

The second part calibrates a model that is already fitted. :class:`~skcalib.ClassifierScores` makes
the scores of the model a separate step of a pipeline. The pipeline can then cache the scores
(``memory``) while a grid search compares calibrators.
"""

from tempfile import TemporaryDirectory

import matplotlib.pyplot as plt
from sklearn.datasets import load_digits
from sklearn.frozen import FrozenEstimator
from sklearn.metrics import log_loss
from sklearn.model_selection import GridSearchCV, train_test_split
from sklearn.neural_network import MLPClassifier
from sklearn.pipeline import Pipeline, make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import LinearSVC

from skcalib import (
    AutoCalibrator,
    CalibratedClassifier,
    ClassifierScores,
    IdentityCalibrator,
    ReliabilityDisplay,
    TemperatureScaling,
)
from skcalib.metrics import ks_calibration_error

X, y = load_digits(return_X_y=True)
X_rest, X_test, y_rest, y_test = train_test_split(X, y, test_size=0.3, stratify=y, random_state=0)
X_train, X_held_out, y_train, y_held_out = train_test_split(
    X_rest, y_rest, test_size=0.5, stratify=y_rest, random_state=0
)


def report(name, model):
    """Print accuracy, calibration error and log loss of the test rows; return the log loss."""
    proba = model.predict_proba(X_test)
    accuracy = (model.classes_[proba.argmax(axis=1)] == y_test).mean()
    ks, loss = ks_calibration_error(y_test, proba), log_loss(y_test, proba)
    print(f"{name:<30} accuracy {accuracy:.1%}  KS {ks:6.2%}  log loss {loss:.3f}")
    return loss


# %%
# Fit the model and the calibrator together. The calibrator is fitted on out-of-fold scores from
# five stratified folds, and the model is then fitted on all rows. ``AutoCalibrator`` is the default
# of ``CalibratedClassifier``. Temperature scaling never changes the predicted class.

machine = LinearSVC(random_state=0)
losses, display = {}, None
for calibrator in (IdentityCalibrator(), TemperatureScaling(), AutoCalibrator()):
    calibrated = make_pipeline(StandardScaler(), CalibratedClassifier(machine, calibrator, cv=5))
    calibrated.fit(X_rest, y_rest)
    name = type(calibrator).__name__
    losses[name] = report(f"LinearSVC + {name}", calibrated)
    ax = None if display is None else display.ax_
    display = ReliabilityDisplay.from_estimator(calibrated, X_test, y_test, name=name, ax=ax)
print(f"Conclusion: {min(losses, key=losses.get)} has the lowest log loss.")

# %%
# Calibrate a model that is already fitted. The model is frozen, and the calibrator is fitted on
# rows that are new to the model. The grid search computes the scores of each fold once, and then
# reads them from the cache.

over_fitted = MLPClassifier((64, 64), alpha=0, solver="lbfgs", max_iter=500, random_state=0)
network = make_pipeline(StandardScaler(), over_fitted).fit(X_train, y_train)
with TemporaryDirectory() as cache:
    steps = [
        ("scores", ClassifierScores(FrozenEstimator(network))),
        ("calibrator", IdentityCalibrator()),
    ]
    search = GridSearchCV(
        Pipeline(steps, memory=cache),
        {"calibrator": [IdentityCalibrator(), TemperatureScaling(), AutoCalibrator()]},
        scoring="neg_log_loss",
    )
    search.fit(X_held_out, y_held_out)
chosen = type(search.best_params_["calibrator"]).__name__
before, after = report("network", network), report(f"network + {chosen}", search)
print(
    f"Conclusion: the search chooses {chosen}. It lowers log loss from {before:.3f} to {after:.3f}."
)
plt.show()
