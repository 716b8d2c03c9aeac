"""Features and labels of three classes and of two."""

import pytest
from sklearn.datasets import make_classification


@pytest.fixture(scope="package")
def three():
    return make_classification(
        180, n_features=6, n_informative=4, n_redundant=0, n_classes=3, random_state=0
    )


@pytest.fixture(scope="package")
def two():
    return make_classification(160, n_features=5, flip_y=0.2, random_state=1)
