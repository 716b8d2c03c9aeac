"""Write the stored calibrators of this release that are missing; none is ever written anew.

    python tests/write.py

A folder for each release, in it for each calibrator the file that `save_json` wrote, and beside it
scores and the probabilities that were made of them. All of them must load in every later release.
"""

import json
import sys
from pathlib import Path

import numpy as np

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


def write_missing():
    folder = HERE / skcalib.__version__
    folder.mkdir(exist_ok=True)
    Z, y = data()
    # Beside the rows of the fit: at an edge of a step the last bit of a softmax decides, and each
    # version of NumPy rounds it in its own way.
    near = Z[:6] + np.array([0.003, 0.0, -0.003])
    questions = np.vstack([near, [[0.0, -np.inf, 1.0], [50.0, -50.0, 0.0], [0.0, 0.0, 0.0]]])
    for name, calibrator in wanted():
        target = folder / f"{name}.json"
        if target.exists():
            continue
        in_groups = isinstance(calibrator, skcalib.GroupwiseCalibrator)
        X, asked = (with_group(Z), with_group(questions)) if in_groups else (Z, questions)
        calibrator.fit(X, y)
        answers = calibrator.predict_proba(asked)
        expected = {"scores": to_json(asked), "probabilities": to_json(answers)}
        lines = [f' "{key}": {json.dumps(value)}' for key, value in expected.items()]
        skcalib.save_json(calibrator, target)
        target.with_suffix(".expected.json").write_text("{\n" + ",\n".join(lines) + "\n}\n")
        sys.stdout.write(f"wrote {target.relative_to(HERE)}\n")


if __name__ == "__main__":
    write_missing()
