"""
Neural-network scaling: a small network as the calibrator
=========================================================

Any scikit-learn classifier can be a calibrator, fitted on the scores of another classifier. With
:class:`~sklearn.neural_network.MLPClassifier`, this is called neural-network scaling: a very
flexible calibrator that needs many rows. This example calibrates naive Bayes on the digits data by
a network, and compares the result with temperature scaling and with no calibration.
"""

import matplotlib.pyplot as plt
from sklearn.datasets import load_digits
from sklearn.frozen import FrozenEstimator
from sklearn.metrics import log_loss
from sklearn.model_selection import train_test_split
from sklearn.naive_bayes import GaussianNB
from sklearn.neural_network import MLPClassifier

from skcalib import (
    CalibratedClassifier,
    IdentityCalibrator,
    ReliabilityDisplay,
    TemperatureScaling,
)
from skcalib.metrics import expected_calibration_error, static_calibration_error

X, y = load_digits(return_X_y=True)
X_train, X_rest, y_train, y_rest = train_test_split(
    X, y, train_size=0.4, stratify=y, random_state=0
)
X_calibration, X_test, y_calibration, y_test = train_test_split(
    X_rest, y_rest, test_size=0.5, stratify=y_rest, random_state=0
)
model = FrozenEstimator(GaussianNB().fit(X_train, y_train))

# %%
# The network has one hidden layer of 16 units and strong weight decay. With about 540 calibration
# rows, a larger network would overfit. Naive Bayes alone is certain of nearly every row.
network = MLPClassifier((16,), alpha=1.0, solver="lbfgs", max_iter=1000, random_state=0)
sce, loss, display = {}, {}, None
for name, calibrator in {
    "none": IdentityCalibrator(),
    "temperature": TemperatureScaling(),
    "network": network,
}.items():
    calibrated = CalibratedClassifier(model, calibrator).fit(X_calibration, y_calibration)
    P = calibrated.predict_proba(X_test)
    ax = None if display is None else display.ax_
    display = ReliabilityDisplay.from_predictions(y_test, P, name=name, ax=ax)
    sce[name], loss[name] = static_calibration_error(y_test, P), log_loss(y_test, P)
    print(
        f"{name:<12} accuracy {calibrated.score(X_test, y_test):.1%}, "
        f"ECE {expected_calibration_error(y_test, P):.1%}, "
        f"SCE {sce[name]:.1%}, log loss {loss[name]:.3f}"
    )
print(f"Conclusion: the calibrator with the lowest SCE is '{min(sce, key=sce.get)}', ", end="")
print(f"the one with the lowest log loss '{min(loss, key=loss.get)}'.")
plt.show()
