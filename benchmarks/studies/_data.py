"""Scores to calibrate on and scores to measure on: digits, or a file."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from sklearn.datasets import load_digits
from sklearn.model_selection import train_test_split
from sklearn.neural_network import MLPClassifier


class Scores(NamedTuple):
    """Logits ``(n, K)`` and labels 0..K-1 of rows to calibrate on and rows to measure on."""

    fit_logits: NDArray[np.float64]
    fit_labels: NDArray[np.intp]
    test_logits: NDArray[np.float64]
    test_labels: NDArray[np.intp]
    classes: NDArray[np.intp]


def load_scores(path: str | None = None, *, model_seed: int = 0) -> Scores:
    """Read an .npz, or over-fit a small network to digits.

    A file holds ``logits`` or ``probs``, (n, K), and ``labels``, (n,); an optional ``split`` says 0
    for calibration rows and 1 for test rows, otherwise the rows are halved by a fixed seed.
    Probabilities become their logs, clipped at 1e-12, and labels their positions in sorted order.

    Without a file the network sees 200 of the 1,797 digits, so that it is right on nine in ten of
    the others and far too sure; `model_seed` starts it elsewhere, on the same rows.
    """
    if path is None:
        X, y = load_digits(return_X_y=True)
        X_train, X, y_train, code = train_test_split(
            X, y, train_size=200, stratify=y, random_state=0
        )
        network = MLPClassifier((32,), alpha=1e-3, solver="lbfgs", max_iter=500)
        network.set_params(random_state=model_seed).fit(X_train / 16, y_train)
        Z, split = np.log(np.maximum(network.predict_proba(X / 16), 1e-12)), None
    else:
        with np.load(path) as data:
            if "labels" not in data or not {"logits", "probs"} & set(data):
                raise ValueError(f"{path} needs labels and logits or probs; holds {sorted(data)}.")
            labels, split = data["labels"], data.get("split")
            if "logits" in data:
                Z = np.asarray(data["logits"], dtype=np.float64)
                Z = np.column_stack([np.zeros(len(Z)), Z]) if Z[0].size == 1 else Z
            else:
                P = np.asarray(data["probs"], dtype=np.float64)
                P = np.column_stack([1 - P, P]) if P[0].size == 1 else P
                Z = np.log(np.maximum(P, 1e-12))
        names = np.unique(labels)
        names = names if len(names) == Z.shape[1] else np.arange(Z.shape[1])
        code = np.searchsorted(names, labels)
        if not np.array_equal(names[code % len(names)], labels):
            raise ValueError(f"{path} has labels that are not of its {Z.shape[1]} columns.")
    if split is None:
        split = np.random.default_rng(0).permutation(len(code)) % 2
    fit, test = split == 0, split == 1
    return Scores(Z[fit], code[fit], Z[test], code[test], np.arange(Z.shape[1]))
