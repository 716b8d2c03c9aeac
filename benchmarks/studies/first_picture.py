"""The first picture of README: three models before and after calibration.

``python -m benchmarks.studies.first_picture`` draws ``docs/_static/models.png``. The models and the
data are those of ``examples/plot_models.py``.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
from matplotlib.figure import Figure
from sklearn.base import ClassifierMixin
from sklearn.datasets import load_digits
from sklearn.ensemble import RandomForestClassifier
from sklearn.frozen import FrozenEstimator
from sklearn.model_selection import train_test_split
from sklearn.naive_bayes import GaussianNB
from sklearn.neural_network import MLPClassifier

from skcalib import CalibratedClassifier, ReliabilityDisplay

PICTURE = Path(__file__).parents[2] / "docs" / "_static" / "models.png"
MODELS: dict[str, ClassifierMixin] = {
    "naive Bayes": GaussianNB(),
    "random forest": RandomForestClassifier(random_state=0),
    "neural network": MLPClassifier(learning_rate_init=0.01, max_iter=1000, random_state=0),
}


def draw() -> tuple[Figure, dict[str, tuple[float, float]]]:
    """Return the picture, and the ECE of each model before and after calibration."""
    X, y = load_digits(return_X_y=True)
    X = X[:, ::4] / 16
    X_train, X_rest, y_train, y_rest = train_test_split(X, y, train_size=500, random_state=0)
    X_fit, X_test, y_fit, y_test = train_test_split(X_rest, y_rest, test_size=0.5, random_state=0)
    figure = Figure(figsize=(9, 3.8), layout="constrained")
    errors = {}
    for (name, model), ax in zip(MODELS.items(), np.ravel(figure.subplots(1, 3)), strict=True):
        frozen = FrozenEstimator(model.fit(X_train, y_train))
        calibrated = CalibratedClassifier(frozen).fit(X_fit, y_fit)
        after = ReliabilityDisplay.from_estimator(
            calibrated, X_test, y_test, before=True, ax=ax, histogram=False, n_bins=8
        )
        errors[name] = after.before_.error, after.error
        before, now = (f"{error:.0%}" for error in errors[name])
        ax.set_title(f"{name}\n", fontsize=12)
        ax.text(0.5, 1.02, f"ECE {before} → {now}", transform=ax.transAxes, ha="center", size=15)
        ax.get_legend().remove()
        ax.label_outer()
    lines = [after.before_.line_, after.line_, after.band_]
    names = ["before", "after calibration", "95 % if calibrated"]
    figure.legend(lines, names, loc="outside lower center", ncols=3)
    return figure, errors


def main() -> None:
    """Draw and save the picture."""
    figure, errors = draw()
    figure.savefig(PICTURE, dpi=130, metadata={"Software": None})
    print(errors)


if __name__ == "__main__":
    main()
