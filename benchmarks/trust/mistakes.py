"""Mistakes that people make with good data, and what a call with them must end in.

The numbers would be accepted one by one; what they are for is another thing than they seem: labels
for probabilities, features for scores, an ignored label for a class. A mistake may change several
arguments at once. Other forms of the same data, which must give the same result, stand beside them.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
from scipy.special import expit

from benchmarks.trust.hostile import Array, Hostile

# Weights that are counts equal copies only up to draws of rows or labels or up to folds; or there
# is a number for each row, or one that counts rows.
UNLIKE_COPIES = (
    "bootstrap_interval", "calibration_interval", "calibration_test", "calibration_summary",
    "calibration_by_group", "compare_calibrators", "CalibratedClassifier",
    "CalibratedClassifier(ensemble=True)", "calibration_curve", "reliability_table",
    "KSDisplay.from_predictions", "ReliabilityDisplay.from_predictions",
    "ClasswiseDisplay.from_predictions",
)  # fmt: skip
# Where two columns are the top label, or a picture of each class.
OF_THE_TOP_LABEL = (
    "general_calibration_error", "reliability_table", "top_label_brier_score", "avuc_loss",
    "soft_avuc_loss", "ClasswiseDisplay.from_predictions",
)  # fmt: skip
# What can be seen when a fitted calibrator gets scores, and no labels.
OF_SCORES_ALONE = ("named like", "pyarrow table", "a column beside", "percentages")
Mistakes = dict[str, Callable[[], Hostile]]
BETWEEN = ("X", "y", "y_true", "y_proba", "logits", "classes", "labels", "pos_label", "input")


def mistakes(role: str, clean: dict[str, Any], kind: str) -> Mistakes:
    """Return the mistakes with the argument of a role, by name."""
    if role in ("scores", "question"):
        table = clean["scores"].ndim == 2
        found = (_of_tables if table else _of_columns)(clean["scores"], clean["codes"], kind)
        every = role == "scores"
        return {name: found[name] for name in found if every or name.startswith(OF_SCORES_ALONE)}
    if role == "labels":
        return _of_labels(clean["labels"], clean["scores"], kind)
    return _of_weights(clean["weights"]) if role == "weights" else {}


def excused(name: str, group: str, mistake: str) -> bool:
    """Say whether a call may take what others refuse, or may give another result."""
    if mistake == "two columns":
        return name in OF_THE_TOP_LABEL
    if name == "CalibrationMapDisplay.from_predictions" and mistake == "arguments exchanged":
        return True  # it takes no labels
    if group == "losses":  # a batch may lack classes, and a gradient has the order of the columns
        return mistake.startswith(("named", "pyarrow table", "features", "ratings", "a column"))
    if name == "CalibratedClassifier(FrozenEstimator)" and mistake.startswith("named columns"):
        return True  # its estimator was fitted on an array: columns are read by position
    if group in ("joined", "scorers") and name != "compare_calibrators":  # classes come from labels
        return mistake.startswith(("ordered", "polars Enum", "ignored label"))
    return False


def _of_columns(s: Array, code: Array, kind: str) -> Mistakes:
    """Return mistakes with one column of scores."""
    if kind == "logits":
        return {"ratings from 0 to 10": refused(10 * expit(s), says="logits")}
    percent = 100 * s
    return {
        "two columns": same(np.column_stack([1 - s, s]), s),
        "predicted labels": refused((s > 0.5).astype(int), says="predict_proba|labels"),
        "predicted booleans": refused(s > 0.5, says="predict_proba|labels"),
        "percentages in a column": refused(percent),
        "percentages up to 101": refused(np.where(np.arange(len(s)) == 2, 101.0, percent)),
        "scores of the other class": either(1 - s),
        "arguments exchanged": refused(
            code.astype(float), says="exchange", also={"labels": s, "codes": s}
        ),
    }


def _of_tables(S: Array, code: Array, kind: str) -> Mistakes:
    """Return mistakes with a column of scores for each class."""
    n, n_classes = S.shape
    backwards, turned = range(n_classes)[::-1], S[:, ::-1]
    words = np.array([f"c{k}" for k in range(n_classes)])
    upper = pd.DataFrame(turned, columns=[f"C{k}" for k in backwards])
    named = [f"p_{k}" for k in backwards]
    site = np.arange(n) % 5
    features = np.random.default_rng(0).normal(size=(n, 2 * n_classes))
    boxes = np.moveaxis(S.reshape(n // 4, 4, n_classes), 2, 1)
    found: Mistakes = {
        f"named like {form.format('x')}": same(
            pd.DataFrame(turned, columns=[form.format(k) for k in backwards]), S
        )
        for form in ("{}_prob", "proba_{}", "P({})", "logit_{}", "{}.0")
    }
    found |= {
        "named in upper case": same(upper, S, also={"labels": words[code]}),
        "pyarrow table": same(pa.table(dict(zip(named, turned.T, strict=True))), S),
        "a column beside": careful(pd.DataFrame(turned, columns=named).assign(site=site), S),
        "named in part": refused(
            pd.DataFrame(S, columns=["p_0", *(f"x{k}" for k in range(1, n_classes))])
        ),
        "features": refused(features),
        "classes before time": refused(
            boxes,
            says="reshape" if n_classes > 2 else "",  # labels of two classes may be several a row
            also={"labels": code.reshape(-1, 4), "codes": code.reshape(-1, 4)},
        ),
    }
    if kind == "logits":
        not_offered = np.where(
            (np.arange(n_classes) == (code[:, None] + 1) % n_classes), -np.inf, S
        )
        found["options that are not offered"] = either(not_offered)
    return found


def _of_labels(code: Array, S: Array, kind: str) -> Mistakes:
    """Return mistakes with labels ``0..K-1``."""
    n_classes = int(code.max()) + 1
    words = np.array([f"c{k}" for k in range(n_classes)])
    found: Mistakes = {"pyarrow labels": careful(pa.chunked_array([code]), code)}
    if S.ndim == 2:
        backwards = pd.Categorical(words[code], categories=words[::-1], ordered=True)
        enum = pl.Series(words[code].tolist(), dtype=pl.Enum(words[::-1].tolist()))
        in_order = pd.Categorical(words[code], categories=words, ordered=True)
        found |= {
            "ordered categories": refused(backwards, says="order"),
            "ordered categories of a series": refused(pd.Series(backwards), says="order"),
            "polars Enum": refused(enum, says="order"),
            "categories in sorted order": same(in_order, code),
        }
        if kind == "proba":
            found["probabilities as labels"] = refused(S, also={"scores": code})
    if n_classes > 2:
        for ignored in (255, -100) if n_classes == 3 else (255, -1):  # -1, 0, 1 are labels
            spoilt = np.where(code == n_classes - 1, ignored, code)
            found[f"ignored label {ignored}"] = refused(spoilt, says="ignore|drop")
    return found


def _of_weights(w: Array) -> Mistakes:
    """Return forms of weights: floats are relative, integers are counts of rows."""
    whole = w.astype(int)
    return {
        "floats times 1000.5": same(1000.5 * w, w),
        "floats times 100": same(100.0 * w, w),
        "floats times 1e-7": same(1e-7 * w, w),
        "2.0 everywhere": same(np.full(len(w), 2.0), None),
        "integers": copies(whole),
        "small integers": copies(whole.astype(np.uint8)),
        "integers and 0": copies(whole - 1),
        "booleans": copies(w > 1),
        "pandas integers": copies(whole, pd.Series(whole, dtype="Int64")),
        "pyarrow weights": careful(pa.chunked_array([w]), w),
    }


# --- verdicts ---------------------------------------------------------------------------------


def same(value: Any, clean: Any, **more: Any) -> Callable[[], Hostile]:
    """Return a value whose result must be that of a clean one."""
    return lambda: Hostile(value, "same", clean, beside=BETWEEN, **more)


def refused(value: Any, **more: Any) -> Callable[[], Hostile]:
    """Return a value that must end in an error."""
    return lambda: Hostile(value, "refused", beside=BETWEEN, **more)


def either(value: Any, **more: Any) -> Callable[[], Hostile]:
    """Return a value whose result must be valid, or else an error."""
    return lambda: Hostile(value, "either", beside=BETWEEN, **more)


def careful(value: Any, clean: Any, **more: Any) -> Callable[[], Hostile]:
    """Return a value that must end in the result of a clean one, or else in an error."""
    return lambda: Hostile(value, "careful", clean, beside=BETWEEN, **more)


def copies(counts: Array, value: Any = None) -> Callable[[], Hostile]:
    """Return whole weights, whose result must be that of so many copies of each row."""
    value = counts if value is None else value
    return lambda: Hostile(value, "same", None, beside=BETWEEN, copies=counts.astype(int))
