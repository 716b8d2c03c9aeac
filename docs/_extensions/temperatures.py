"""Numbers of the slider on the page Try it: errors and bins of a model at each temperature."""

import json
from typing import Any

import numpy as np
from pictures import FILES

# Temperatures from 1/4 to 16, in factors of 2 ** (1/5); T = 1 is one of them.
TEMPERATURES = 2.0 ** (np.arange(-10, 21) / 5)


def measure(Z: Any, y: Any, T: float) -> dict[str, Any]:
    """Return the temperature T, the errors of softmax(Z / T), and the bins of its diagram."""
    from scipy.special import softmax
    from sklearn.metrics import log_loss

    from skcalib.metrics import expected_calibration_error, reliability_table

    P = softmax(Z / T, axis=1)
    table = reliability_table(y, P)
    table = table[table["count"] > 0]
    return {
        "T": round(float(T), 3),
        "ece": round(expected_calibration_error(y, P), 4),
        "loss": round(log_loss(y, P), 4),
        "bins": table[["confidence", "accuracy", "weight"]].round(4).to_numpy().tolist(),
    }


def write(app: Any) -> None:
    """Write the numbers as a script, which the page can load without a web server."""
    from sklearn.datasets import load_digits
    from sklearn.linear_model import LogisticRegression

    X, y = load_digits(return_X_y=True)
    model = LogisticRegression(C=100, max_iter=5000).fit(X[:200], y[:200])
    Z = model.decision_function(X[200:])
    rows = [measure(Z, y[200:], T) for T in TEMPERATURES]
    (FILES / "temperatures.js").write_text(f"const TEMPERATURES = {json.dumps(rows)};\n")


def setup(app: Any) -> dict[str, bool]:
    """Connect the hook."""
    app.connect("builder-inited", write)
    return {"parallel_read_safe": True}
