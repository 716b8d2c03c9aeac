r"""Numbers that displays show: score and hit of an event, bins, bands, errors and statistics.

An average over a bin of width h has a squared bias of order h^2 and, of n rows, a variance of
order 1/(n h). Their sum is least at a width of order :math:`n^{-1/3}`: the number of bins is the
cube root of n, rounded up, at most 15.

For a calibrated model whose n scores of a bin have mean p, the number of hits is binomial(n, p) if
the scores are equal, and has a slightly smaller variance if they are not. Its quantiles are the
band. Its mean deviation, with :math:`m = \lfloor n p \rfloor + 1` (De Moivre),

.. math:: \frac{1}{n} E |X - n p| = \frac{2 m (1 - p)}{n} P(X = m) ,

is the mean gap that n rows of a calibrated model show by chance.
"""

from __future__ import annotations

from typing import Any, Literal

import numpy as np
import pandas as pd
from scipy.stats import binom
from sklearn.metrics import roc_auc_score

from skcalib._arrays.source import to_array
from skcalib._arrays.types import Float64Array, FloatArray, Intp
from skcalib._binning.bins import NumberOfBins
from skcalib._binning.quantiles import bin_index
from skcalib._validation.keywords import check_between, number_of_bins
from skcalib._validation.predictions import Predictions, check_predictions
from skcalib.metrics import (
    calibration_curve,
    calibration_intercept_slope,
    expected_calibration_error,
    integrated_calibration_index,
    local_calibration,
    reliability_table,
    score_decomposition,
)
from skcalib.metrics._clusters import cluster_sums, design_effect
from skcalib.metrics._curves.bands import wilson_interval
from skcalib.metrics._curves.calibration_curve import CalibrationCurve
from skcalib.metrics._errors.binned import Strategy, check_bins
from skcalib.metrics._errors.ks import reduce_top
from skcalib.metrics._statistics.by_group import FEWEST_ROWS
from skcalib.plotting._drawing import WHOLE, Limits, percent

Mode = Literal["top", "within_top"]
Curve = Literal["bins", "smooth", "isotonic", "local"]

# Statistics in a picture, line by line.
LINES = (("n", "events", "O:E"), ("slope", "in the large"), ("C", "ICI", "E90"))

# Ends of a smaller square, from 0 up or from 1 down; with a wider range of data, all is shown.
ENDS = (0.01, 0.02, 0.05, 0.1, 0.15, 0.2, 0.3, 0.4, 0.5)
# Share of the rows with scores beyond the square, at each end.
BEYOND = 0.01
# Bins of fewer rows are faint, and no line goes through them.
FEWEST = 10
# Bins of the errors, of the histogram, and of the diagram at most.
USUAL = 15
# Clusters of which curves are drawn, at most.
MOST_CURVES = 50
# Where most scores lie within so small a part of [0, 1], even bins would hold all rows in a few.
PART = 0.25


def reliability(
    predictions: Predictions,
    mode: Mode | Literal["all"] | None,
    r: int,
    threshold: float | None,
    curve: Curve,
    n_bins: NumberOfBins | None,
    strategy: Strategy | None,
    confidence_level: float,
    statistics: bool,
) -> dict[str, Any]:
    """Return what a reliability diagram shows, as keywords of its display."""
    predictions, rows, names = event_view(predictions, mode, r)
    if threshold is not None:
        check_between("threshold", threshold, 0, 1, "None or a number in [0, 1)", low_too=True)
        above = np.flatnonzero(rows.column(1) > threshold)
        if not above.size:
            raise ValueError(f"no score is above threshold={threshold:g}: pass a smaller one.")
        rows = rows.take(above)
    (score, hit), w, cluster = rows.of_event(), rows.w, rows.cluster
    even: Strategy = strategy or "uniform"
    if n_bins is None:
        number, drawn = USUAL, fillable(float(w.sum()))
        low, high = most_scores(score, w)
        way = strategy or ("quantile" if high - low < PART else "uniform")
    else:
        number = drawn = number_of_bins(n_bins, w.sum())
        way = even
    given: Any = rows, rows  # predictions may stand in the place of labels and probabilities
    table = reliability_table(*given, n_bins=drawn, strategy=way)
    bin_of_row: Intp = bin_index(score, table["left"].to_numpy()[1:], check_bins(drawn, way))
    residual = hit - table["accuracy"].to_numpy()[bin_of_row]
    effect = design_effect(rows, residual, confidence_level, bin_of_row)
    add_intervals(table, confidence_level, effect)
    line = None
    if curve == "bins":
        filled, _ = full_and_few(table)
        x, rate = (filled[name].to_numpy() for name in ("confidence", "accuracy"))
        error = float(expected_calibration_error(*given, n_bins=number, strategy=even))
    else:
        line, error = curve_and_error(curve, rows, confidence_level)
        x, rate = line.prob_pred, line.prob_true
    limits = WHOLE
    if predictions.event is not None:
        limits = limits_of(score.astype(np.float64), w, x, rate, line is None)
    return {
        "table": table,
        "histogram": count_rows(rows, limits, number),
        "error": error,
        "axis_names": names,
        "curve": line,
        "limits": limits,
        "numbers": numbers_of(rows) if statistics else None,
        "curves": None if cluster is None else curves_of_clusters(rows, cluster),
        "means": (float(np.average(score, weights=w)), float(np.average(hit, weights=w))),
    }


def event_view(
    predictions: Predictions, mode: Mode | Literal["all"] | None, r: int
) -> tuple[Predictions, Predictions, tuple[str, str]]:
    """Return predictions with their event, if it is shown, those of what is shown, names of axes.

    ``mode="all"`` of several classes shows all n K probabilities, else a score of each row.
    """
    if mode == "all" and r != 1:
        raise ValueError(f"mode='all' shows every probability, r={r} one rank: leave out r.")
    score, hit = reduce_top(predictions, None if mode == "all" else mode, r)
    predictions = predictions.of_mode(mode, int(r))
    P, code, w, classes, event, *_, cluster = predictions
    if event is not None:
        label = classes.tolist()[event]
        names = (f"Probability of class {label}", f"Share of class {label}")
        if label is True:
            names = ("Probability of the event", "Share of events")
    elif mode == "all":
        hit = code if predictions.are_shares else code[:, None] == np.arange(classes.size)
        names = ("Probability of a class", "Share of rows of the class")
        score, hit, w = to_array(P).ravel(), hit.ravel(), np.repeat(w, classes.size)
        cluster = None if cluster is None else np.repeat(cluster, classes.size)
    elif r == 1:
        names = ("Confidence (top label)", "Accuracy")
    elif mode == "within_top":
        names = (f"Probability of the {r} likeliest", "Share of hits")
    else:
        names = (f"Probability of rank {r}", "Share of hits")
    rows = check_predictions(hit, score, pos_label=True, soft=True)
    return predictions, rows._replace(w=w, cluster=cluster), names


def most_scores(score: FloatArray, w: Float64Array) -> Limits:
    """Return the range of all scores but those of 1 % of the rows at each end."""
    order = np.argsort(score)
    share = np.cumsum(w[order]) / w.sum()
    places = np.searchsorted(share, (BEYOND, 1.0 - BEYOND))
    low, high = score[order][np.minimum(places, score.size - 1)].tolist()
    return low, high


def limits_of(
    score: FloatArray, w: Float64Array, x: Float64Array, rate: Float64Array, bins: bool
) -> Limits:
    """Return the square of nearly all scores and of all bins, or of the rates of a curve there."""
    low, high = most_scores(score, w)
    drawn = [*x, *rate] if bins else rate[(x >= low) & (x <= high)].tolist()
    low, high = min([low, *drawn]), max([high, *drawn])
    end = next((end for end in ENDS if high <= end), 1.0)
    start = 1.0 - next((end for end in ENDS if 1.0 - low <= end), 1.0)
    return (0.0, end) if end < 1.0 else (start, 1.0)


def full_and_few(table: pd.DataFrame) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Return the bins that are drawn in full, and the others that have rows.

    If none has enough rows, all that have rows are drawn in full.
    """
    weight = table["weight"].to_numpy()
    enough = weight >= FEWEST
    enough = enough if enough.any() else weight > 0
    return table[enough], table[(weight > 0) & ~enough]


def with_gaps(table: pd.DataFrame) -> pd.DataFrame:
    """Return the bins that have rows, NaN for those that no line goes through."""
    return full_and_few(table)[0].reindex(table.index[table["weight"] > 0])


def fillable(n_rows: float) -> int:
    """Return the number of bins that `n_rows` rows can fill."""
    return min(USUAL, number_of_bins("cube_root", n_rows))


def add_intervals(table: pd.DataFrame, confidence_level: float, effect: float = 1.0) -> None:
    """Add interval and band of each bin to a table; `effect` divides the number of rows."""
    n = table["weight"].to_numpy() / effect
    ends = {
        "accuracy": wilson_interval(table["accuracy"].to_numpy(), n, confidence_level),
        "band": consistency_band(table["confidence"].to_numpy(), n, confidence_level),
    }
    for what, (low, high) in ends.items():
        table[f"{what}_low"], table[f"{what}_high"] = low, high


def consistency_band(
    confidence: Float64Array, n: Float64Array, confidence_level: float
) -> tuple[Float64Array, Float64Array]:
    """Return quantiles of the share of hits of a calibrated bin; NaN where there are no rows."""
    copies = _copies(n)
    tail = (1 - confidence_level) / 2
    p = np.clip(confidence, 0.0, 1.0)
    return binom.ppf(tail, copies, p) / copies, binom.ppf(1 - tail, copies, p) / copies


def expected_deviation(confidence: Float64Array, n: Float64Array) -> Float64Array:
    """Mean distance of the share of hits of a calibrated bin from its confidence; 0 if empty."""
    copies = _copies(n)
    p = np.clip(np.where(n > 0, confidence, 0.0), 0.0, 1.0)
    m = np.floor(copies * p) + 1
    return np.asarray(2 * m * (1 - p) * binom.pmf(m, copies, p) / copies)


def _copies(n: Float64Array) -> Float64Array:
    """Return a whole number of rows, at least one: sums of weights may be fractions."""
    return np.maximum(np.round(n), 1.0)


def curve_and_error(
    method: Literal["smooth", "isotonic", "local"], rows: Predictions, level: float
) -> tuple[CalibrationCurve, float]:
    """Return the curve that is drawn in place of bins, and the number in the legend.

    A local curve has no bands; its number is the mean distance of the rows from the diagonal. That
    of a smooth one is the ICI, that of an isotonic one the miscalibration.
    """
    given: Any = rows, rows
    if method == "local":
        score = rows.column(1)
        distance = np.abs(local_calibration(*given, at=score) - score)
        at = np.unique(np.clip(np.linspace(0.0, 1.0, 101), score.min(), score.max()))
        rate, none = local_calibration(*given, at=at), np.full(at.size, np.nan)
        curve = CalibrationCurve(at, rate, none, none, none, none, none, method, level)
        return curve, float(np.average(distance, weights=rows.w))
    curve = calibration_curve(*given, method=method, confidence_level=level)
    if method == "smooth":
        return curve, integrated_calibration_index(*given).ici
    return curve, float(score_decomposition(*given).miscalibration)


def error_text(error: float, curve: CalibrationCurve | None) -> str:
    """Return the error of bins or of a curve, with its name."""
    if curve is not None and curve.method == "isotonic":
        return f"MCB {error:.3g}"
    names = {"bins": "ECE", "smooth": "ICI", "local": "mean gap"}
    return f"{names['bins' if curve is None else curve.method]} {percent(error)}"


def curves_of_clusters(rows: Predictions, cluster: Intp) -> list[CalibrationCurve]:
    """Return the smooth curves of the largest clusters, of those that have enough rows."""
    sizes = cluster_sums(rows.w, cluster)
    largest = np.argsort(-sizes, kind="stable")[:MOST_CURVES]
    alone: Any = rows._replace(cluster=None)
    parts = [np.flatnonzero(cluster == c) for c in largest if sizes[c] >= FEWEST_ROWS]
    return [calibration_curve(*[alone.take(part)] * 2, method="smooth") for part in parts]


def count_rows(rows: Predictions, limits: Limits, n_bins: int) -> pd.DataFrame:
    """Return the shares of all rows, events and other rows in even parts of the limits."""
    (score, hit), w, edges = rows.of_event(), rows.w, np.linspace(*limits, n_bins + 1)
    shares = [
        np.histogram(score, edges, weights=amount)[0] / max(float(amount.sum()), 1e-300)
        for amount in (w, w * hit, w * (1.0 - hit))
    ]
    names = ("left", "right", "share", "events", "others")
    return pd.DataFrame(dict(zip(names, (edges[:-1], edges[1:], *shares), strict=True)))


def numbers_of(rows: Predictions) -> dict[str, float]:
    """Return the statistics by their names, without those that these rows do not have."""
    (score, hit), w = rows.of_event(), rows.w
    given: Any = [rows._replace(cluster=None)] * 2  # a slope may have no interval of clusters
    events = float((w * hit).sum())
    numbers = {"n": float(w.sum()), "events": events}
    try:
        line = calibration_intercept_slope(*given)
        numbers |= {"slope": line.slope, "in the large": line.in_the_large}
    except ValueError:  # soft hits, one outcome alone, equal scores, or no finite slope
        pass
    if score.any():
        numbers["O:E"] = events / float(w @ score)
    if hit.dtype.kind == "b" and 0 < events < numbers["n"]:
        numbers["C"] = float(roc_auc_score(hit, score, sample_weight=w))
    index = integrated_calibration_index(*given)
    return {**numbers, "ICI": index.ici, "E90": index.e90}


def text_of(numbers: dict[str, float]) -> str:
    """Return the numbers in lines that fit above a diagram."""
    texts = {name: f"{name} {value:.3g}" for name, value in numbers.items()}
    texts |= {name: f"{name} {numbers[name]:,.0f}" for name in ("n", "events")}
    lines = [[texts[name] for name in line if name in texts] for line in LINES]
    return "\n".join(", ".join(line) for line in lines if line)
