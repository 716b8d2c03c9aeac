"""Which errors are functions of the hits of cells, and how each of them is made one."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from inspect import signature
from typing import Any

import numpy as np
from numpy.typing import NDArray

from skcalib._arrays.source import Source
from skcalib._arrays.types import Float64Array, FloatArray, Intp
from skcalib._binning.bins import exceeds, quotient
from skcalib._binning.quantiles import bin_index
from skcalib._scores.one_vs_rest import map_columns
from skcalib._scores.scores import Scores
from skcalib._validation.predictions import Predictions
from skcalib.metrics._errors.binned import EACH, bin_predictions, check_bins, norm_of_gaps
from skcalib.metrics._errors.debiased import debiased_squares
from skcalib.metrics._errors.ks import reduce_top
from skcalib.metrics._intervals import grid
from skcalib.metrics._intervals.any_metric import AnyError
from skcalib.metrics._intervals.cells import (
    CellError,
    ClassCurveError,
    Close,
    cells_of_classes,
    cells_of_rows,
)
from skcalib.metrics._intervals.label_error import LabelError
from skcalib.metrics._intervals.scored_rows import in_order, scored_rows
from skcalib.metrics._intervals.signs import SignedError
from skcalib.metrics._listed import SCORED
from skcalib.metrics._resampling import Evaluation, name_of

Keywords = dict[str, Any]
BINS = ("n_bins", "strategy", "closed", "quantile_method")
# With more distinct scores, the KS error looks at its curve at this many places.
MANY_RANKS, JOINED_RANKS = 1 << 17, 1 << 14
# The same where the hits of cells are drawn, not labels, and of clusters.
DRAWN_RANKS, SIGNED_RANKS = 1 << 9, 1 << 8


def label_error(evaluate: Evaluation, predictions: Predictions) -> LabelError:
    """Return a metric as a function of the labels of these predictions."""
    metric, keywords = evaluate.function, evaluate.all_keywords
    predictions = evaluate.measured(predictions)
    name, is_known = name_of(metric), metric in SCORED
    by_cells = getattr(metric, "_by_cells", None) or (BY_CELLS.get(name) if is_known else None)
    if by_cells is not None and evaluate.own:
        parameters = signature(metric).parameters.items()
        defaults = {key: p.default for key, p in parameters if p.default is not p.empty}
        error = by_cells(predictions, {**defaults, **keywords})
        if error is not None:
            return error if predictions.cluster is None else SignedError(error, predictions)
    if predictions.cluster is not None:
        raise ValueError(
            "clusters= is for calibration errors of skcalib, with bins that do not split ties, not "
            f"for {name}: use bootstrap_interval."
        )
    return AnyError(evaluate, predictions, is_known and name == "sweep_calibration_error")


def binned(predictions: Predictions, keywords: Keywords, **reduction: Any) -> CellError | None:
    """Return a binned error; `reduction` as in `bin_predictions`."""
    average = keywords.get("average", "macro")
    weighting = keywords.get("class_weight", "uniform"), keywords.get("bin_weight", "count")

    def close(H: Float64Array, S: Float64Array, W: Float64Array) -> Float64Array:
        total, errors = norm_of_gaps(quotient(H - S, W), W, keywords["norm"], *weighting)
        return total[..., None] if average == "macro" else errors

    return _with_bins(predictions, keywords, close, **reduction)


def debiased(predictions: Predictions, keywords: Keywords) -> CellError | None:
    """Return the signed root of the debiased square: the debiased error where it is above 0.

    Its limit is the plain l2 error.
    """
    average, classwise = keywords["average"], keywords["mode"] == "classwise"

    def root(H: Float64Array, S: Float64Array, W: Float64Array, noisy: bool) -> Float64Array:
        gap = quotient(H - S, W)
        square = debiased_squares(quotient(H, W), gap, W) if noisy else gap**2
        share = W / np.maximum(W.sum(axis=-1, keepdims=True), np.finfo(float).tiny)
        power = (share * square).sum(axis=-1)
        mean = power.mean(axis=-1, keepdims=True) if average == "macro" else power
        return np.sign(mean) * np.sqrt(np.abs(mean))

    roots = partial(root, noisy=True), partial(root, noisy=False)
    return _with_bins(predictions, keywords, *roots, **(EACH if classwise else {}))


def thresholded(predictions: Predictions, keywords: Keywords) -> CellError | None:
    """Return TACE; the first version cuts its bins in a way of its own and is left to calls."""
    if keywords["version"] == 1:
        return None
    keywords = {**keywords, "bin_weight": keywords["bin_weight"] or "count"}
    return binned(predictions, keywords, **EACH, threshold=keywords["threshold"])


def general(predictions: Predictions, keywords: Keywords) -> CellError | None:
    """Return the general error."""
    names = ("max_prob", "class_conditional", "threshold")
    return binned(predictions, keywords, **{name: keywords[name] for name in names})


def cumulative(predictions: Predictions, keywords: Keywords) -> CellError:
    """Return the KS error: a cell for each distinct score."""
    mode, average = keywords["mode"], keywords["average"]
    P, w, event = predictions.P, predictions.w, predictions.event
    most = None if predictions.cluster is None else SIGNED_RANKS

    def close(H: Float64Array, S: Float64Array, W: Float64Array) -> Float64Array:
        curve = H - S
        np.cumsum(curve, axis=-1, out=curve)
        largest = np.maximum(curve.max(axis=-1), -curve.min(axis=-1))
        errors = largest / np.maximum(W.sum(axis=-1), np.finfo(float).tiny)
        return errors.mean(axis=-1, keepdims=True) if average == "macro" else errors

    if not grid.classwise(predictions, keywords):
        if event is not None or (mode in (None, "top") and keywords["r"] == 1):
            rows = scored_rows(predictions)
        else:
            score, _ = reduce_top(predictions, mode, keywords["r"])
            rows = in_order(score, _hit_classes(P, mode, int(keywords["r"])), w)
        rank, number = _ranks(rows.score, most or (DRAWN_RANKS if rows.are_many else None))
        return CellError(cells_of_rows(rows, rank, (1, number)), close)
    ties = list(map_columns(lambda _, column: _ranks(column, most), Scores(P, "proba")))
    cells = max(number for _, number in ties)
    of_classes = cells_of_classes((t for t, _ in ties), P, w, (P.shape[1], cells))
    return ClassCurveError(of_classes, close, average)


def _hit_classes(P: Source, mode: str | None, r: int) -> NDArray[Any]:
    """Return the class of each row that is a hit, or whether each class is ``(n, K)``."""
    # Stable, so that equal probabilities are ranked by column.
    order = np.argsort(-P.read(slice(None)), axis=1, kind="stable")
    if mode != "within_top":
        return order[:, r - 1]
    member = np.zeros(P.shape, dtype=bool)
    np.put_along_axis(member, order[:, :r], True, axis=1)
    return member


def _ranks(score: FloatArray, most: int | None) -> tuple[Intp, int]:
    """Return the rank of each score among the distinct ones, from 0, and their number.

    More than `most`, or very many, are joined, a few neighbours at a time.
    """
    distinct, rank = np.unique(score, return_inverse=True)
    most = most or (JOINED_RANKS if distinct.size > MANY_RANKS else distinct.size)
    step = -(-distinct.size // most)
    return rank // step, -(-distinct.size // step)


def _with_bins(
    predictions: Predictions,
    keywords: Keywords,
    close: Close,
    close_limit: Close | None = None,
    **reduction: Any,
) -> CellError | None:
    """Return an error by bins; None where bins split tied rows, which have no bin of their own.

    Scores up to the threshold, if there is one, are in bin B, which is left out.
    """
    bins = check_bins(**{name: keywords[name] for name in BINS if name in keywords})
    bins = bins.of_rows(predictions.w)
    if bins.method == "rank":
        return None
    if keywords.get("average", "macro") is None:  # each class, though one may be the event
        predictions = predictions.without_event()
    table, _ = bin_predictions(predictions, bins, **reduction)
    P, w, event = predictions.P, predictions.w, predictions.event
    edges, B = table.left[:, 1:], bins.n_bins
    m, threshold = len(edges), reduction.get("threshold")

    def find(score: FloatArray, j: int) -> NDArray[np.integer]:
        place = bin_index(score, edges[j], bins)
        return place if threshold is None else np.where(exceeds(score, threshold), place, B)

    if event is None and not reduction.get("max_prob", True):
        columns = map_columns(lambda k, column: find(column, k % m), Scores(P, "proba"))
        return CellError(cells_of_classes(columns, P, w, (m, B)), close, close_limit)
    rows = scored_rows(predictions)
    if m == 1:
        index = find(rows.score, 0)
    else:  # the bins of each top class
        index = np.empty(w.size, dtype=np.intp)
        for j in np.unique(rows.hit):
            of_class = rows.hit == j
            index[of_class] = j * (B + 1) + find(rows.score[of_class], j)
    return CellError(cells_of_rows(rows, index, (m, B)), close, close_limit)


# By name; a metric that is not here is called for each set of labels.
BY_CELLS: dict[str, Callable[[Predictions, Keywords], CellError | None]] = {
    "general_calibration_error": general,
    "expected_calibration_error": binned,
    "maximum_calibration_error": binned,
    "root_mean_squared_calibration_error": binned,
    "static_calibration_error": partial(binned, **EACH),
    "adaptive_calibration_error": partial(binned, **EACH),
    "thresholded_adaptive_calibration_error": thresholded,
    "debiased_calibration_error": debiased,
    "ks_calibration_error": cumulative,
    "smooth_calibration_error": grid.smooth,
    "kde_calibration_error": grid.kernel,
    "soft_binned_calibration_error": grid.soft_binned,
    "label_binned_calibration_error": grid.label_binned,
    "maximum_mean_calibration_error": grid.mean_kernel,
    "sweep_calibration_error": grid.sweep,
}
