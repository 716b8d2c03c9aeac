r"""
Choose a calibrator for a model that is over- or under-confident
================================================================

Each of five badly calibrated models is fitted on 40 % of its data set. On another 30 % of the rows,
cross-validation compares all calibrators and no calibration ("identity"), and chooses one. The
table shows the errors on the last 30 %; lower is better.
"""

from sklearn.datasets import load_breast_cancer, load_digits
from sklearn.ensemble import ExtraTreesClassifier, RandomForestClassifier
from sklearn.model_selection import train_test_split
from sklearn.naive_bayes import GaussianNB
from sklearn.neural_network import MLPClassifier

from skcalib import HistogramBinning, SplineCalibrator, TemperatureScaling, compare_calibrators

# A string is a calibrator with its default parameters. Any classifier can be a calibrator; the
# neural network is the most flexible one.
CALIBRATORS = {
    "temperature": "temperature",
    "temperature, SB-ECE": TemperatureScaling(objective="soft_binned"),
    "vector": "vector",
    "matrix": "matrix",
    "Dirichlet": "dirichlet",
    "Platt": "platt",
    "beta": "beta",
    "auto": "auto",
    "spline by rank": "spline",
    "spline top label": SplineCalibrator(mode="top"),
    "histogram even": "histogram",
    "histogram quantile": HistogramBinning(strategy="quantile"),
    "isotonic": "isotonic",
    "neural network": MLPClassifier(
        (16,), alpha=1.0, solver="lbfgs", max_iter=1000, random_state=0
    ),
}
METRICS = [
    "log_loss",
    "brier_score",
    "expected_calibration_error",
    "static_calibration_error",
    "ks_calibration_error",
]

digits, cancer = load_digits(return_X_y=True), load_breast_cancer(return_X_y=True)
network = MLPClassifier((64, 64), alpha=0, solver="lbfgs", max_iter=500, random_state=0)
trees = ExtraTreesClassifier(min_samples_leaf=5, random_state=0)
MODELS = {
    "digits, naive Bayes": (digits, GaussianNB()),
    "digits, over-fitted network": (digits, network),
    "digits, random forest": (digits, RandomForestClassifier(random_state=0)),
    "breast cancer, naive Bayes": (cancer, GaussianNB()),
    "breast cancer, extra trees": (cancer, trees),
}


def split(X, y, share):
    """Return the rows of two parts of the data, each with all classes."""
    return train_test_split(X, y, train_size=share, stratify=y, random_state=0)


# %%
# `compare_calibrators` chooses by cross-validation on the calibration rows, and measures all
# calibrators on the test rows.

for name, ((X, y), model) in MODELS.items():
    X_train, X_rest, y_train, y_rest = split(X, y, 0.4)
    X_calibration, X_test, y_calibration, y_test = split(X_rest, y_rest, 0.5)
    predict = model.fit(X_train, y_train).predict_proba
    comparison = compare_calibrators(
        predict(X_calibration),
        y_calibration,
        CALIBRATORS,
        metrics=METRICS,
        test=(predict(X_test), y_test),
        random_state=0,
    )
    print(f"\n{name}: {len(y_calibration)} calibration rows, {len(y_test)} test rows")
    print(comparison)
