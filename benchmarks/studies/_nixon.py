"""The 32 metrics and the 8 recalibration methods of Nixon et al. (2020)."""

from __future__ import annotations

from functools import partial
from itertools import combinations, product
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from sklearn.neural_network import MLPClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from benchmarks.studies._data import Scores
from skcalib import (
    HistogramBinning,
    IsotonicCalibrator,
    MatrixScaling,
    TemperatureScaling,
    VectorScaling,
)
from skcalib.metrics import expected_calibration_error, general_calibration_error

# The order of appendix C. A threshold of 0 drops exact zeros, as in the paper's own program.
GCE = pd.DataFrame(
    list(product(("uniform", "quantile"), (True, False), (True, False), (0.0, 0.01), ("l1", "l2"))),
    columns=["strategy", "max_prob", "class_conditional", "threshold", "norm"],
)

# The rows of Tables 3 and 4: which of the 32 have the property.
PROPERTIES = {
    "even bins": GCE.strategy == "uniform",
    "adaptive bins": GCE.strategy == "quantile",
    "max probs": GCE.max_prob,
    "all probs": ~GCE.max_prob,
    "class conditional": GCE.class_conditional,
    "class unconditional": ~GCE.class_conditional,
    "thresholded": GCE.threshold > 0,
    "unthresholded": GCE.threshold == 0,
    "L1 norm": GCE.norm == "l1",
    "L2 norm": GCE.norm == "l2",
}


def gce_metrics(classes: NDArray[Any], n_bins: int) -> list[partial[float]]:
    """Return the 32 metrics as ``metric(y_true, y_proba)``."""
    return [
        partial(general_calibration_error, labels=classes, n_bins=n_bins, **settings)
        for settings in GCE.to_dict("records")
    ]


def recalibrate(scores: Scores) -> dict[str, NDArray[np.float64]]:
    """Probabilities of the test rows after each method, in the order of Table 5."""
    common: dict[str, Any] = {"input": "logits", "classes": scores.classes}
    ece = partial(expected_calibration_error, labels=scores.classes)
    network = MLPClassifier((32,), alpha=1, max_iter=2000, random_state=0)
    methods = {
        "histogram": HistogramBinning(**common),
        "bootstrap histogram": HistogramBinning(n_bootstraps=100, random_state=0, **common),
        "isotonic": IsotonicCalibrator(**common),
        "temperature": TemperatureScaling(**common),
        "temperature for ECE": TemperatureScaling(objective=ece, **common),
        "vector": VectorScaling(penalty=None, **common),
        "matrix": MatrixScaling(penalty=None, **common),
        "network": make_pipeline(StandardScaler(), network),
    }
    return {
        name: method.fit(scores.fit_logits, scores.fit_labels).predict_proba(scores.test_logits)
        for name, method in methods.items()
    }


def mean_rank_correlation(errors: NDArray[np.float64]) -> pd.Series:
    """Mean, by property, of Spearman's correlation over pairs of rows (32 metrics, m things)."""
    rho = pd.DataFrame(errors.T).corr("spearman").to_numpy()
    return pd.Series(
        {
            name: np.mean([rho[i, j] for i, j in combinations(np.flatnonzero(held), 2)])
            for name, held in {**PROPERTIES, "all 32": np.ones(32, dtype=bool)}.items()
        }
    )
