"""Whether rows planned by `label_plan` give the requested width, or a threshold in most samples.

``python -m benchmarks.coverage.label_plan`` fills three tables in README.md of this folder, in ten
minutes of one core. Rows are drawn from unlabelled probabilities, and labels from the truth that
the plan assumes, by the code of this file. Intervals and thresholds are those of the public
functions. No cell was used to choose a setting of `label_plan`.
"""

import argparse
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.special import softmax
from sklearn.datasets import load_breast_cancer, load_digits, load_wine
from sklearn.ensemble import RandomForestClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import cross_val_predict
from sklearn.naive_bayes import GaussianNB
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from benchmarks._shared.report import fill, markdown
from skcalib import metrics
from skcalib._comparison.measures import ROW_LOSSES
from skcalib._validation.rows import check_predictions
from skcalib.extending import mean_interval
from skcalib.metrics import calibration_interval, label_plan, selective_threshold

Array = NDArray[Any]

PAGE = Path(__file__).parent / "README.md"
SEED, LEVEL = 61, 0.95
SHORT = {
    "ECE": metrics.expected_calibration_error,
    "SCE": metrics.static_calibration_error,
    "KS": metrics.ks_calibration_error,
    "log loss": "log_loss",
    "Brier score": "brier_score",
    "slope": metrics.calibration_intercept_slope,
    "O:E": metrics.observed_expected_ratio,
}
# The data, the metric and the requested width of each cell.
WIDTHS = (
    ("risks around 0.2", "ECE", 0.05),
    ("risks around 0.2", "slope", 0.3),
    ("risks around 0.2", "O:E", 0.15),
    ("risks around 0.02", "O:E", 0.3),
    ("risks around 0.02", "KS", 0.01),
    ("breast cancer, logistic", "Brier score", 0.02),
    ("digits, forest", "ECE", 0.04),
    ("digits, forest", "SCE", 0.01),
    ("digits, forest", "log loss", 0.1),
    ("wine, naive Bayes", "ECE", 0.08),
    ("5 classes", "KS", 0.03),
    ("20 classes", "SCE", 0.008),
)
# The data, the accuracy and the fraction of rows of each threshold.
THRESHOLDS = (
    ("risks around 0.2", 0.5, 0.02),
    ("breast cancer, logistic", 0.9, 0.55),
    ("digits, forest", 0.75, 0.3),
    ("wine, naive Bayes", 0.95, 0.5),
    ("5 classes", 0.7, 0.3),
)
# The data, the metric and the requested width of each plan whose rows are drawn.
DRAWS = (
    ("5 classes", "ECE", 0.05),
    ("5 classes", "KS", 0.05),
    ("5 classes", "O:E", 0.1),
    ("5 classes", "log loss", 0.15),
    ("5 classes", "Brier score", 0.06),
    ("confident, 3 classes", "ECE", 0.04),
    ("confident, 3 classes", "SCE", 0.03),
    ("confident, 3 classes", "O:E", 0.05),
    ("confident, 3 classes", "Brier score", 0.06),
    ("risks around 0.02", "ECE", 0.02),
    ("risks around 0.02", "O:E", 0.5),
)


class Measured(NamedTuple):
    """An estimate and the ends of its interval."""

    estimate: float
    low: float
    high: float


def unlabelled(name: str) -> Array:
    """Return probabilities ``(N, K)`` or, of one event, ``(N,)``."""
    rng = np.random.default_rng(SEED)
    if name == "risks around 0.2":
        return rng.beta(1, 4, size=20_000)
    if name == "risks around 0.02":
        return rng.beta(0.5, 25, size=20_000)
    if name == "5 classes":
        return softmax(rng.normal(scale=2.2, size=(20_000, 5)), axis=1)
    if name == "20 classes":
        return softmax(rng.normal(scale=2.5, size=(10_000, 20)), axis=1)
    if name == "confident, 3 classes":
        return softmax(rng.normal(scale=6, size=(20_000, 3)), axis=1)
    load, model = {
        "breast cancer": (
            load_breast_cancer,
            make_pipeline(StandardScaler(), LogisticRegression()),
        ),
        "digits": (load_digits, RandomForestClassifier(random_state=0)),
        "wine": (load_wine, GaussianNB()),
    }[name.split(",")[0]]
    X, y = load(return_X_y=True)
    P = cross_val_predict(model, X, y, method="predict_proba")
    return P[:, 1] if P.shape[1] == 2 else P


def truth(P: Array, name: str) -> Array:
    """Return the true probabilities of all classes, by the name of the assumed truth."""
    P = np.column_stack([1 - P, P]) if P.ndim == 1 else P
    T = 1.0 if name == "calibrated" else float(name.removeprefix("T = "))
    q = np.maximum(P, 1e-12) ** (1 / T)
    return np.asarray(q / q.sum(axis=1, keepdims=True))


def draw_labels(q: Array, rng: np.random.Generator) -> Array:
    """Return a label for each row of the true probabilities."""
    edges = q.cumsum(axis=1)
    return (edges[:, :-1] <= rng.random((len(q), 1))).sum(axis=1)


def measure(name: str, y: Array, P: Array, w: Array | None, seed: int) -> Measured:
    """Return the estimate and the interval of a metric."""
    metric: Any = SHORT[name]
    keywords: Any = {"sample_weight": w, "labels": range(2 if P.ndim == 1 else P.shape[1])}
    if isinstance(metric, str):
        predictions = check_predictions(y, P, **keywords)
        loss = ROW_LOSSES[metric]
        losses = loss.losses(predictions)
        value, scale = losses.mean(), 1.0
        if P.ndim == 1 and metric == "brier_score":  # of the event, not of both classes
            scale = 0.5
        low, high = mean_interval(losses, LEVEL, 0.0, loss.most)
        return Measured(scale * value, scale * low, scale * high)
    if name in ("ECE", "SCE", "KS"):
        found = calibration_interval(metric, y, P, random_state=seed, **keywords)
        return Measured(found.debiased, found.low, found.high)
    result = metric(y, P, **keywords)
    part = "slope" if name == "slope" else "ratio"
    ends = ("slope_low", "slope_high") if name == "slope" else ("low", "high")
    return Measured(getattr(result, part), *(getattr(result, end) for end in ends))


def limit(name: str, P: Array, q: Array) -> float:
    """Return the metric if each row had each label in proportion to its true probability."""
    K, metric = q.shape[1], SHORT[name]
    y, w = np.tile(np.arange(K), len(q)), q.ravel()
    if isinstance(metric, str):
        full = P if P.ndim == 2 else np.column_stack([1 - P, P])
        if metric == "log_loss":
            return float(-(q * np.log(np.maximum(full, 1e-12))).sum(axis=1).mean())
        losses = (full**2).sum(axis=1, keepdims=True) - 2 * full + 1
        return float((q * losses).sum(axis=1).mean()) / (2 if P.ndim == 1 else 1)
    value = metric(y, np.repeat(P, K, axis=0), sample_weight=w, labels=range(K))
    return float(getattr(value, "ratio", value))


def width_rows(cells: Any, samples: int) -> list[list[str]]:
    """Simulate the mean width for the planned number of rows."""
    lines = []
    for name, short, width in cells:
        P = unlabelled(name)
        plan = label_plan(P, SHORT[short], width=width, random_state=SEED)
        q, rng = truth(P, plan.truth), np.random.default_rng(SEED + 1)
        widths = []
        for seed in range(samples):
            rows = rng.integers(len(P), size=plan.rows)
            found = measure(short, draw_labels(q[rows], rng), P[rows], None, seed)
            widths.append(found.high - found.low)
        ratio, error = np.mean(widths) / width, np.std(widths) / width / samples**0.5
        lines.append(
            [name, short, f"{width:g}", f"{plan.rows:,}", plan.truth, f"{ratio:.3f} ± {error:.3f}"]
        )
        print(*lines[-1], flush=True)
    return lines


def threshold_rows(cells: Any, samples: int) -> list[list[str]]:
    """Count samples of the planned number of rows with a threshold that accepts enough rows."""
    lines = []
    for name, accuracy, act_on in cells:
        P = unlabelled(name)
        plan = label_plan(P, accuracy=accuracy, act_on=act_on, random_state=SEED)
        q, rng = truth(P, plan.truth), np.random.default_rng(SEED + 1)
        score = P if P.ndim == 1 else P.max(axis=1)
        found = []
        for _ in range(samples):
            rows = rng.integers(len(P), size=plan.rows)
            y = draw_labels(q[rows], rng)
            result = selective_threshold(y, P[rows], accuracy=accuracy, labels=range(q.shape[1]))
            found.append(np.mean(score >= result.threshold) >= act_on)
        share = f"{100 * np.mean(found):.1f} %"
        lines.append([name, f"{accuracy:g}", f"{act_on:g}", f"{plan.rows:,}", plan.truth, share])
        print(*lines[-1], flush=True)
    return lines


def draw_rows(cells: Any, samples: int) -> list[list[str]]:
    """Measure bias and coverage with drawn rows and their weights, and widths with and without."""
    lines = []
    for name, short, width in cells:
        P = unlabelled(name)
        plan = label_plan(P, SHORT[short], width=width, random_state=SEED)
        q, rng = truth(P, "T = 1.5"), np.random.default_rng(SEED + 1)
        true, found, plain = limit(short, P, q), [], []
        number = samples if short in ("ECE", "SCE", "KS") else 5 * samples  # others are fast
        for seed in range(number):
            rows, w = plan.draw(P, random_state=seed)
            found.append(measure(short, draw_labels(q[rows], rng), P[rows], w, seed))
            if seed < number // 8:
                rows = rng.permutation(len(P))[: plan.rows]
                plain.append(measure(short, draw_labels(q[rows], rng), P[rows], None, seed))
        estimate, low, high = np.array(found).T
        bias = (estimate.mean() - true) / (estimate.std(ddof=1) / number**0.5)
        covered = np.mean((low <= true) & (true <= high))
        ratio = (high - low).mean() / np.mean([each.high - each.low for each in plain])
        numbers = f"{true:.4f}", f"{estimate.mean():.4f}", f"{bias:+.1f}", f"{100 * covered:.1f} %"
        lines.append([name, short, f"{plan.rows:,}", *numbers, f"{ratio:.2f}"])
        print(*lines[-1], flush=True)
    return lines


Table = tuple[list[str], Callable[[Any, int], list[list[str]]], Any, int, int]
TABLES: dict[str, Table] = {
    "planned widths": (
        ["data", "metric", "width", "rows", "truth", "mean width / requested width"],
        width_rows, WIDTHS, 80, 2,
    ),
    "planned thresholds": (
        ["data", "accuracy", "fraction", "rows", "truth", "samples with a threshold"],
        threshold_rows, THRESHOLDS, 400, 1,
    ),
    "drawn rows": (
        ["data", "metric", "rows", "true value", "mean estimate", "bias / se", "coverage",
         "width / width of equal draws"],
        draw_rows, DRAWS, 800, 2,
    ),
}  # fmt: skip


def main() -> None:
    """Fill the tables of README.md."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("tables", nargs="*", help=f"some of: {', '.join(TABLES)}")
    for name in parser.parse_args().tables or TABLES:
        header, rows_of, cells, samples, left = TABLES[name]
        fill(PAGE, name, markdown(header, rows_of(cells, samples), left))


if __name__ == "__main__":
    main()
