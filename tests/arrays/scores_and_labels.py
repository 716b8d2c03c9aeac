"""Scores and labels for tests of what lies in pieces."""

import numpy as np

N, K = 170, 4


def sample(kind, dtype=np.float64, n_classes=K, seed=0):
    """Logits, of which some are -inf, or probabilities; and the columns of the labels."""
    rng = np.random.default_rng(seed)
    Z = 2 * rng.normal(size=(N, n_classes))
    code = (Z / 2 + rng.gumbel(size=Z.shape)).argmax(axis=1)
    if kind == "logits":
        Z[::50, 0] = -np.inf
        code[::50] = np.maximum(code[::50], 1)
        return Z.astype(dtype), code
    P = np.exp(Z)
    P /= P.sum(axis=1, keepdims=True)
    return P.astype(dtype), code
