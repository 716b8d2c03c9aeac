"""Write the stored calibrators of this release that are missing; none is ever written anew.

    python tests/write.py

A folder for each release, in it for each calibrator the file that `save_json` wrote, and beside it
scores and what was made of them. All of them must load in every later release.
"""

import json
import sys
from pathlib import Path

import numpy as np
import pandas as pd
from scipy.special import softmax
from sklearn.frozen import FrozenEstimator

import skcalib
import skcalib.calibrators
from skcalib import metrics

HERE = Path(__file__).parent
N_ROWS = 40
NAMES = np.array(["ant", "bee", "cat"])

# Another way through a calibrator, by the name of its file.
MORE = {
    "TemperatureScaling-metric": lambda: skcalib.TemperatureScaling(
        objective=metrics.top_label_brier_score
    ),
    "SplineCalibrator-top": lambda: skcalib.SplineCalibrator(mode="top"),
    "SplineCalibrator-knots": lambda: skcalib.SplineCalibrator(n_knots=6, mode="classwise"),
    "HistogramBinning-bootstrapped": lambda: skcalib.HistogramBinning(
        n_bins=4, strategy="quantile", n_bootstraps=2, random_state=0
    ),
    "IsotonicCalibrator-centered": lambda: skcalib.IsotonicCalibrator(centered=True),
    "PlattScaling-quadratic": lambda: skcalib.PlattScaling(degree=2),
    "PlattScaling-intercept": lambda: skcalib.PlattScaling(fit_slope=False),
    "IsotonicCalibrator-step": lambda: skcalib.IsotonicCalibrator(interpolation="step"),
    "GroupwiseCalibrator": lambda: skcalib.GroupwiseCalibrator(
        "vector", shrinkage=1.0, group_column=-1
    ),
    "MultilabelCalibrator": lambda: skcalib.MultilabelCalibrator("temperature", shrinkage=1.0),
    # A fitted calibrator within.
    "SelectiveClassifier": lambda: skcalib.SelectiveClassifier(
        FrozenEstimator(skcalib.VectorScaling().fit(*data())), accuracy=0.6
    ),
    "PriorCorrection": lambda: skcalib.PriorCorrection(
        skcalib.VectorScaling().fit(*data()), priors=[0.1, 0.2, 0.7]
    ),
    "CalibrationMonitor": skcalib.CalibrationMonitor,
}


def wanted():
    """Yield (file name, unfitted calibrator)."""
    for name in skcalib.calibrators.__all__:
        yield name, getattr(skcalib.calibrators, name)()
    for name, make in MORE.items():
        yield name, make()


def data():
    """Logits with -inf among them, and labels."""
    rng = np.random.default_rng(0)
    Z = 3 * rng.normal(size=(N_ROWS, 3))
    y = (Z + 2 * rng.gumbel(size=Z.shape)).argmax(axis=1)
    Z = Z.round(2)
    return Z, NAMES[y]


def with_group(Z):
    """Scores with the group of each row in a last column."""
    return np.column_stack([Z, np.arange(len(Z)) % 4])


def to_json(values):
    return [[value if np.isfinite(value) else str(value) for value in row] for row in values]


def fit(estimator):
    """Fit, and return scores to predict of."""
    Z, y = data()
    # Beside the rows of the fit: at an edge of a step the last bit of a softmax decides, and each
    # version of NumPy rounds it in its own way.
    near = Z[:6] + np.array([0.003, 0.0, -0.003])
    asked = np.vstack([near, [[0.0, -np.inf, 1.0], [50.0, -50.0, 0.0], [0.0, 0.0, 0.0]]])
    if isinstance(estimator, skcalib.GroupwiseCalibrator):
        Z, asked = with_group(Z), with_group(asked)
    if isinstance(estimator, skcalib.MultilabelCalibrator):
        y = pd.DataFrame(y[:, None] == NAMES, columns=NAMES)
    if isinstance(estimator, skcalib.CalibrationMonitor):
        estimator.update(y, softmax(Z, axis=1))
    else:
        estimator.fit(Z, y)
    return asked


def results(estimator, asked):
    """Return what must come of a stored object, with the scores that it is asked."""
    scores = {"scores": to_json(asked)}
    if isinstance(estimator, skcalib.CalibrationMonitor):
        P = softmax(asked, axis=1)
        return scores | {"e_value": estimator.update(NAMES[P.argmin(axis=1)], P).e_value_}
    if isinstance(estimator, skcalib.SelectiveClassifier):
        scores["decisions"] = list(estimator.predict(asked))
    return scores | {"probabilities": to_json(estimator.predict_proba(asked))}


def write_missing():
    folder = HERE / skcalib.__version__.removesuffix(".dev0")
    folder.mkdir(exist_ok=True)
    for name, estimator in wanted():
        target = folder / f"{name}.json"
        if target.exists():
            continue
        asked = fit(estimator)
        skcalib.save_json(estimator, target)
        lines = [f' "{k}": {json.dumps(v)}' for k, v in results(estimator, asked).items()]
        target.with_suffix(".expected.json").write_text("{\n" + ",\n".join(lines) + "\n}\n")
        sys.stdout.write(f"wrote {target.relative_to(HERE)}\n")


if __name__ == "__main__":
    write_missing()
