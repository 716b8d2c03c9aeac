"""Fits to export, rows that are hard for a model, and a session that runs it."""

import numpy as np
import pytest
from scipy.special import softmax
from sklearn.base import clone

# Largest difference from `predict_proba`, by the type of the scores.
LIMIT = {"float32": 5e-7, "float64": 1e-12}
MOST_NODES = 200


def sample(n_classes, n, kind, seed=0):
    """Scores of a model that is twice too sure, with equal rows and classes, and labels."""
    rng = np.random.default_rng(seed)
    Z = 3 * rng.normal(size=(n, n_classes))
    y = (Z / 2 + rng.gumbel(size=Z.shape)).argmax(axis=1)
    y[:n_classes] = np.arange(n_classes)[:n]
    Z[: n // 10] = Z[n // 2 : n // 2 + n // 10]
    Z[-2:, 0] = Z[-2:, 1]
    Z[-1] = 0.0
    return (Z if kind == "logits" else softmax(Z, axis=1)), y


def rows_to_try(X, n_classes, kind):
    """Rows of the fit, new ones, far ones, equal classes, and classes that are impossible."""
    new, _ = sample(n_classes, 60, kind, seed=1)
    if kind == "proba":
        certain = np.eye(n_classes)[: min(n_classes, 5)]
        half = np.zeros((1, n_classes))
        half[0, :2] = 0.5
        uniform = np.full((1, n_classes), 1 / n_classes)
        return {"fit": X, "new": new, "edges": np.vstack([certain, half, uniform])}
    impossible = new.copy()
    impossible[::2, 0] = -np.inf
    impossible[0, 1:] = -np.inf
    impossible[0, 0] = 0.0
    return {
        "fit": X,
        "new": new,
        "far": 1000 * new,
        "farther": 1e5 * new,
        "ties": np.vstack([0 * new[:1], np.where(np.arange(n_classes) < 2, new[:, :1], new)]),
        "-inf": impossible,
    }


def fitted(calibrator, n_classes, kind, dtype="float64", n=300, names=None):
    """A fitted copy, and its scores."""
    X, y = sample(n_classes, n, kind)
    X = X.astype(dtype)
    y = y if names is None else np.asarray(names)[y]
    return clone(calibrator).set_params(input=kind).fit(X, y), X


def runner(model):
    """What gives labels and probabilities of rows, by ONNX Runtime in one thread."""
    runtime = pytest.importorskip("onnxruntime", reason="models are run by ONNX Runtime")
    options = runtime.SessionOptions()
    options.intra_op_num_threads = 1
    session = runtime.InferenceSession(
        model.SerializeToString(), options, providers=["CPUExecutionProvider"]
    )
    return lambda X: session.run(None, {"scores": X if X.ndim == 2 else X[:, None]})
