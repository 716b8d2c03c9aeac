"""Programs as users of other packages write them; those whose package is installed are collected.

They import nothing but what users import, and run against an installed wheel:

    cd "$(mktemp -d)" && python -m pytest -c /dev/null --confcutdir "$TREE" "$TREE"

with TREE the path of this folder.
"""

from importlib.util import find_spec

import numpy as np
import pytest
from sklearn.datasets import make_classification
from sklearn.metrics import log_loss
from sklearn.model_selection import train_test_split

PACKAGES = [
    "catboost", "imblearn", "lightgbm", "mlflow", "optuna", "polars", "shap", "skops", "torch",
    "xgboost",
]  # fmt: skip
collect_ignore = [f"test_{name}.py" for name in PACKAGES if find_spec(name) is None]


def pytest_collection_modifyitems(items):
    """Warnings of other packages are no errors here."""
    for item in items:
        if item.path.parent.name == "downstream":
            item.add_marker(pytest.mark.filterwarnings("default"))


def split(n_classes, names=None):
    X, y = make_classification(
        1500, 10, n_informative=6, n_classes=n_classes, flip_y=0.2, random_state=0
    )
    y = y if names is None else np.array(names)[y]
    return train_test_split(X, y, test_size=0.4, random_state=0)


@pytest.fixture
def binary():
    """X_train, X_test, y_train, y_test of two classes."""
    return split(2)


@pytest.fixture
def football():
    """The same of three outcomes by name."""
    return split(3, ["Away", "Draw", "Home"])


@pytest.fixture
def loss_of():
    def of(model, X, y):
        P = model.predict_proba(X)
        assert P.dtype == np.float64
        np.testing.assert_allclose(P.sum(axis=1), 1, rtol=0, atol=1e-12)
        return log_loss(y, P, labels=model.classes_)

    return of
