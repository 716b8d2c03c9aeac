"""The order of the rows of a binary problem: which calibrators keep it, and at which log loss.

``python -m benchmarks.studies.order`` fits six kinds of models to the data sets with two classes
that design decisions may look at, calibrates each on 100, 300, 1,000 and 5,000 rows, and prints for
each calibrator the change of the log loss of new rows, the share of fits that made it worse, and
the share that lowered the AUC. Then models are fitted with balanced class weights, which shift the
prevalence: the ratio of the log losses with ``order_preserving=True`` and by default.
"""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import pandas as pd
from scipy.special import softmax
from sklearn.ensemble import HistGradientBoostingClassifier, RandomForestClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import log_loss, roc_auc_score

from benchmarks._shared.model_scores import (
    CACHE,
    MODELS,
    Scores,
    Table,
    cached,
    design_half,
    known_sets,
    thinned,
)
from skcalib import AutoCalibrator, BetaCalibrator, IsotonicCalibrator, PlattScaling

SIZES, SEEDS = (100, 300, 1000, 5000), range(2)
CALIBRATORS = {
    "AutoCalibrator()": AutoCalibrator(),
    "AutoCalibrator(order_preserving=True)": AutoCalibrator(order_preserving=True),
    "PlattScaling()": PlattScaling(),
    "BetaCalibrator()": BetaCalibrator(),
    "IsotonicCalibrator()": IsotonicCalibrator(),
}
# As in the arena: log losses below FLOOR count as FLOOR. A fit is worse if its log loss is higher
# by more than 1 % and by more than FLOOR.
FLOOR, WORSE = 0.002, 0.01
# Smallest fall of the AUC that counts as lower: it changes an AUC with two decimals.
VISIBLE = 0.005


def binary_sets() -> dict[str, Table]:
    """Return the data sets with two classes, by name."""
    sets = {data: known_sets()[data]() for data in sorted(design_half(known_sets()))}
    return {data: table for data, table in sets.items() if table[1].max() == 1}


def fits(scores: Scores, n: int) -> dict[str, dict[str, float]]:
    """Return, by calibrator, what n calibration rows change on new rows."""
    y, test = scores.test_labels, scores.test
    raw = softmax(test, axis=1) if scores.kind == "logits" else test
    none, auc = max(log_loss(y, raw), FLOOR), roc_auc_score(y, test[:, 1] - test[:, 0])
    results = {}
    for name, calibrator in CALIBRATORS.items():
        calibrator.set_params(input=scores.kind).fit(scores.pool[:n], scores.pool_labels[:n])
        P = calibrator.predict_proba(test)
        loss = max(log_loss(y, P), FLOOR)
        results[name] = {
            "log ratio": float(np.log(loss / none)),
            "worse": loss > (1 + WORSE) * none and loss > none + FLOOR,
            "AUC lower": roc_auc_score(y, P[:, 1]) < auc - VISIBLE,
        }
    return results


def rebalanced() -> list[float]:
    """Return the ratios of log losses of models with balanced class weights."""
    ratios = []
    for table in binary_sets().values():
        X, y = thinned(table, 0)
        half = len(y) // 2
        for kind in (LogisticRegression, HistGradientBoostingClassifier, RandomForestClassifier):
            model = kind(class_weight="balanced", random_state=0).fit(X[:half], y[:half])
            P, labels = model.predict_proba(X[half:]), y[half:]
            for n in (300, 1000):
                default, kept = (
                    log_loss(labels[n:], calibrator.fit(P[:n], labels[:n]).predict_proba(P[n:]))
                    for calibrator in (AutoCalibrator(), AutoCalibrator(order_preserving=True))
                )
                ratios.append(kept / default)
    return ratios


def measure() -> list[dict[str, Any]]:
    """Return a row for each set, model, seed, number of rows and calibrator."""
    rows = []
    for data in binary_sets():
        for model in MODELS:
            for seed in SEEDS:
                scores = cached(CACHE, data, model, seed)
                for n in SIZES:
                    if n <= len(scores.pool_labels) and np.ptp(scores.pool_labels[:n]):
                        where = {"data": data, "model": model, "n": n}
                        for name, each in fits(scores, n).items():
                            rows.append({**where, "calibrator": name, **each})
    return rows


def main() -> None:
    """Print the table."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        rows, ratios = pd.DataFrame(measure()), rebalanced()
    cells = rows.groupby("calibrator", sort=False)[["log ratio", "worse", "AUC lower"]].mean()
    cells["log ratio"] = np.expm1(cells["log ratio"])
    n_fits = len(rows) // len(CALIBRATORS)
    print(f"{rows.data.nunique()} data sets, {n_fits:,} fits of each calibrator; per cent")
    print((100 * cells).round(1).to_string())
    print(f"balanced class weights, {len(ratios)} fits: {np.exp(np.log(ratios).mean()):.2f}")


if __name__ == "__main__":
    main()
