"""What the property tests generate: calibration samples, drawn as recipes that are short to read.

A recipe says in words what is odd about a sample; a seed does the rest. So an example is drawn in
no time, shrinks to the oddity that matters, and its repr is all that is needed to make it again.
"""

from dataclasses import dataclass
from functools import cached_property

import numpy as np
import pandas as pd
from hypothesis import strategies as st
from scipy.special import softmax

LABEL_KINDS = ("ints", "shifted", "negative", "strings", "objects", "categorical", "bools")
SCALES = (1e-300, 1e-12, 1e-3, 1.0, 1.0, 5.0, 30.0, 1e6)
ROWS = ("ties", "one row over and over", "certain", "-inf", "a constant column", "uniform")
LABELS = ("one class", "always right", "always wrong", "rare classes")


def names_of(kind, n_classes):
    """Labels of the columns, sorted, the k-th being that of column k."""
    code = np.arange(n_classes)
    if kind == "shifted":
        return code + 1
    if kind == "negative":
        return 3 * code - 2 * n_classes
    if kind == "bools" and n_classes == 2:
        return code == 1
    if kind in ("strings", "objects", "categorical"):
        names = np.array([f"class {k:02d}" for k in code])
        return names.astype(object) if kind == "objects" else names
    return code


def attempt(call, *arguments):
    """What the call returns and "", or None and what its ValueError says."""
    try:
        return call(*arguments), ""
    except ValueError as error:
        return None, str(error)


@dataclass(frozen=True)
class Recipe:
    """A sample of `n` rows and `n_classes` classes with everything that is said about it."""

    kind: str
    n: int
    n_classes: int
    seed: int = 0
    dtype: str = "float64"
    scale: float = 1.0
    rows: frozenset = frozenset()
    labels: frozenset = frozenset()
    label_kind: str = "ints"

    @cached_property
    def S(self):
        """Scores ``(n, K)``."""
        rng = np.random.default_rng(self.seed)
        n, n_classes = self.n, self.n_classes
        Z = rng.normal(size=(n, n_classes))
        if "one row over and over" in self.rows:
            Z[:] = Z[0]
        if "a constant column" in self.rows:
            Z[:, rng.integers(n_classes)] = 0.5
        if "uniform" in self.rows:
            Z[rng.random(n) < 0.3] = 0.0
        Z *= self.scale
        if "ties" in self.rows:
            Z[::2] = Z[rng.integers(n, size=Z[::2].shape[0])]
        if "-inf" in self.rows:
            hole = rng.random(Z.shape) < 0.3
            hole[np.arange(n), rng.integers(n_classes, size=n)] = False
            Z[hole] = -np.inf
        if "certain" in self.rows:
            sure = rng.random(n) < 0.4
            Z[sure] = np.where(np.eye(n_classes)[Z.argmax(axis=1)] == 1, 0.0, -np.inf)[sure]
        S = Z if self.kind == "logits" else softmax(Z, axis=1)
        return S.astype(self.dtype)

    @cached_property
    def code(self):
        """Columns of the true classes."""
        rng = np.random.default_rng(self.seed + 1)
        n, n_classes = self.n, self.n_classes
        P = self.S if self.kind == "proba" else softmax(self.S.astype(float), axis=1)
        best = P.argmax(axis=1)
        code = (P.cumsum(axis=1, dtype=float) < rng.random((n, 1))).sum(axis=1)
        code = np.minimum(code, n_classes - 1)
        if "rare classes" in self.labels:
            code = np.where(rng.random(n) < 0.9, 0, code)
        if "always right" in self.labels:
            code = best
        if "always wrong" in self.labels:
            code = (best + 1 + rng.integers(n_classes - 1, size=n)) % n_classes
        if "one class" in self.labels:
            code = np.full(n, rng.integers(n_classes))
        absent = np.isneginf(self.S[np.arange(n), code])  # a class that was not offered is no label
        return np.where(absent, best, code)

    @property
    def classes(self):
        return names_of(self.label_kind, self.n_classes)

    @cached_property
    def y(self):
        """Labels of the rows, of the kind that is said."""
        y = self.classes[self.code]
        if self.label_kind == "categorical":
            # Any order of categories, and one that does not occur.
            return pd.Series(pd.Categorical(y, categories=["none", *self.classes[::-1]]))
        return y

    @cached_property
    def w(self):
        """Whole weights, many of them 0, not all."""
        rng = np.random.default_rng(self.seed + 2)
        w = rng.integers(0, 4, self.n)
        w[rng.integers(self.n)] = 2
        return w

    @property
    def seen(self):
        """Scores of the rows that count: of others a fit without a unique minimum says nothing."""
        return self.S[self.w > 0]

    def other(self):
        """Scores of the same kind that no fit has seen, of all scales, and edge rows."""
        rng = np.random.default_rng(self.seed + 3)
        far = rng.normal(size=(8, self.n_classes)) * np.geomspace(1e-6, 1e6, 8)[:, None]
        sure = np.where(np.eye(self.n_classes) == 1, 0.0, -np.inf)[:3]
        T = np.vstack([far, sure, 0 * far[:1]])
        return (T if self.kind == "logits" else softmax(T, axis=1)).astype(self.dtype)

    def only(self, keep):
        """S, y (as codes) and w of some rows."""
        return self.S[keep], self.code[keep], self.w[keep]


def some_of(names):
    return st.frozensets(st.sampled_from(names), max_size=2)


def recipes(
    *,
    kinds=("logits", "proba"),
    n_classes=None,
    dtypes=("float64", "float32"),
    scales=SCALES,
    rows=ROWS,
    labels=LABELS,
):
    """Samples of 2 to 50 classes and 1 to 300 rows."""
    few_or_many = st.one_of(st.integers(2, 5), st.integers(2, 50))
    return st.builds(
        Recipe,
        kind=st.sampled_from(kinds),
        n=st.one_of(st.integers(1, 300), st.integers(1, 40)),
        n_classes=few_or_many if n_classes is None else st.just(n_classes),
        seed=st.integers(0, 10**6),
        dtype=st.sampled_from(dtypes),
        scale=st.sampled_from(scales),
        rows=some_of(rows),
        labels=some_of(labels),
        label_kind=st.sampled_from(LABEL_KINDS),
    )
