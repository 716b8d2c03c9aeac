"""Errors of scores that are rounded to a grid: kernel, soft-binned, label-binned and sweep errors.

With rounded scores, a set of labels is a vector of event counts at the nodes of the grid. Each node
stores the mean of its scores, so that rounding changes errors only within a node.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.signal import lfilter

from skcalib._arrays.rowwise import Float64Array, FloatArray, Intp
from skcalib._binning import bin_index, quotient
from skcalib._differentiable import WIDTH, bin_centres, memberships
from skcalib._scores.one_vs_rest import map_columns
from skcalib._scores.scores import Scores
from skcalib._validation.keywords import exponent, number_of_bins
from skcalib._validation.rows import Predictions
from skcalib.metrics._binned import Distinct, bin_predictions, check_bins, running, sweep_errors
from skcalib.metrics._common import mean_of_classes
from skcalib.metrics._intervals.label_errors import (
    COPIES,
    CellError,
    cells_of_classes,
    cells_of_rows,
    sort_scores,
)
from skcalib.metrics._smooth import COARSE, kde_of_masses, kernel_width, smooth_sizes

Keywords = dict[str, Any]
# Type of a function that computes errors ``(R, problems)`` from three arrays: the weights of the
# events ``(R, problems, cells)``, and the sums of scores and of weights ``(problems, cells)``.
Size = Callable[[Float64Array, Float64Array, Float64Array], Float64Array]

# Number of cells of the grid of scores for the smooth error and the MMCE. Moving all scores by half
# a cell changes these errors by less than 5e-4.
FEWER_CELLS = 1 << 10
# The largest number of grid nodes, summed over all classes. The limit saves memory in the
# jackknife, which stores a table for each group of rows that is left out.
MOST_NODES = 1 << 17
# The largest number of bins when the sweep error is computed in the limit of many rows. More bins
# hardly change this error.
LIMIT_BINS = 100


def smooth(predictions: Predictions, keywords: Keywords) -> CellError | None:
    """Return the smooth calibration error as a function of the event counts in score ranges."""

    def size(H: Float64Array, S: Float64Array, W: Float64Array) -> Float64Array:
        return smooth_sizes((H - S) / W.sum(axis=-1, keepdims=True))

    return grid_error(predictions, keywords, size, grid=FEWER_CELLS)


def kernel(predictions: Predictions, keywords: Keywords) -> CellError | None:
    """Return a function that computes the kernel density error from event counts in ranges."""
    norm = keywords["norm"]
    w = predictions.w if classwise(predictions, keywords) else sort_scores(predictions).w
    widths: dict[int, float] = {}

    def size(
        H: Float64Array, _: Float64Array, W: Float64Array, narrower: float = 1.0
    ) -> Float64Array:
        errors = np.empty(H.shape[:-1])
        for j, width in widths.items():
            weight = W[..., j, :]
            total = weight.sum(axis=-1, keepdims=True)
            hits = H[..., j, :] / total
            errors[..., j] = kde_of_masses(weight / total, hits, narrower * width, norm)
        return errors

    def measure(score: FloatArray, j: int) -> int:
        widths[j] = kernel_width(score.astype(np.float64), w)
        return 0

    # With many more rows, the bandwidth of the kernel is smaller. But the kernel must still cover
    # enough rows to average out differences between rows with similar scores, because these would
    # count as calibration error.
    limit = partial(size, narrower=COPIES**-0.2)
    return grid_error(predictions, keywords, size, limit, shift=measure)


def soft_binned(predictions: Predictions, keywords: Keywords) -> CellError | None:
    """Return the soft-binned error as a function of the event counts in score ranges."""
    q = exponent(keywords["norm"])
    at = np.linspace(0.0, 1.0, COARSE + 1)
    number = number_of_bins(keywords["n_bins"], predictions.w.sum())
    U = memberships(at, bin_centres(at, number, np), keywords["temperature"], np)

    def sum_by_bin(table: Float64Array) -> Float64Array:
        # A single matrix product for all label vectors takes half the time of a product for each
        # label vector.
        flat = table.reshape(-1, table.shape[-1]) @ U
        return np.asarray(flat.reshape(*table.shape[:-1], -1))

    def size(H: Float64Array, S: Float64Array, W: Float64Array) -> Float64Array:
        mass = sum_by_bin(W)
        if keywords["kind"] == "bin":
            power = (mass * np.abs(quotient(sum_by_bin(H - S), mass)) ** q).sum(axis=-1)
        else:
            accuracy = quotient(sum_by_bin(H), mass)
            score = quotient(S, W)
            power = np.zeros(H.shape[:-1])
            for b, share in enumerate(U.T):
                gap = np.abs(accuracy[..., b, None] - score) ** q
                power += (W * share * gap).sum(axis=-1)
        return np.asarray((power / W.sum(axis=-1)) ** (1 / q))

    return grid_error(predictions, keywords, size)


def label_binned(predictions: Predictions, keywords: Keywords) -> CellError | None:
    """Return the label-binned error as a function of the event counts in score ranges.

    A cell is the part of a node that is in one bin.
    """
    bins = check_bins(keywords["n_bins"], keywords["strategy"]).resolve(predictions.w)
    norm, B = keywords["norm"], bins.n_bins
    by_class = classwise(predictions, keywords)
    # With average=None, the result has an error for each class, even if `pos_label` names one
    # class.
    if keywords["average"] is None:
        predictions = predictions.without_event()
    table, _ = bin_predictions(predictions, bins, max_prob=not by_class, class_conditional=by_class)
    edges = table.left[:, 1:]
    bin_of = np.zeros((len(edges), COARSE + B), dtype=np.intp)

    def shift(score: FloatArray, j: int) -> NDArray[np.integer]:
        index = bin_index(score, edges[j], bins)
        bin_of[j, nearest(score, COARSE) + index] = index
        return index

    def sum_by_bin(table: Float64Array) -> Float64Array:
        return (table[..., None, :] @ indicator)[..., 0, :]

    def size(H: Float64Array, S: Float64Array, W: Float64Array) -> Float64Array:
        accuracy = quotient(sum_by_bin(H), sum_by_bin(W))
        bins_of_cells = np.broadcast_to(of_cell, H.shape)
        gap = np.abs(np.take_along_axis(accuracy, bins_of_cells, axis=-1) - quotient(S, W))
        if norm == "max":
            return np.asarray(np.where(W > 0, gap, 0.0).max(axis=-1))
        q = exponent(norm)
        return np.asarray(((W * gap**q).sum(axis=-1) / W.sum(axis=-1)) ** (1 / q))

    error = grid_error(predictions, keywords, size, shift=shift, n_shifts=B)
    # The bin index increases with the score. So a cell (range of scores) without rows gets the bin
    # of the cell below.
    of_cell = np.maximum.accumulate(bin_of, axis=1)
    indicator = (of_cell[..., None] == np.arange(B)).astype(np.float64)
    return error


def mean_kernel(predictions: Predictions, keywords: Keywords) -> CellError | None:
    """Return the MMCE as a function of the event counts in score ranges."""
    decay = np.exp(-1.0 / (FEWER_CELLS * WIDTH))

    def size(H: Float64Array, S: Float64Array, W: Float64Array) -> Float64Array:
        residual = (H - S) / W.sum(axis=-1, keepdims=True)
        # `before` is the sum of the residuals up to each node of the grid, weighted by the kernel.
        before = lfilter([1.0], [1.0, -decay], residual, axis=-1)
        square = (residual * (2.0 * before - residual)).sum(axis=-1)
        return np.asarray(np.sqrt(np.maximum(square, 0.0)))

    return grid_error(predictions, keywords, size, grid=FEWER_CELLS)


def sweep(predictions: Predictions, keywords: Keywords) -> CellError | None:
    """Return the sweep error as a function of event counts; None for bins of equal width."""
    norm = keywords["norm"]
    bins = check_bins(15, keywords["strategy"], keywords["closed"], "rank")
    if bins.method != "rank":
        return None
    n_rows = float(predictions.w.sum())

    def size(H: Float64Array, S: Float64Array, W: Float64Array, many: bool) -> Float64Array:
        if many:  # with very many rows, an edge of a bin can divide rows with equal scores
            total = W.sum(axis=-1, keepdims=True)
            H, S, W = H / total, S / total, W / total
        most = LIMIT_BINS + 1 if many else n_rows
        result = np.empty(H.shape[:-1])
        for j in range(H.shape[1]):
            if W.ndim == 2:  # all label vectors have the same row weights
                result[:, j] = errors(H[:, j], S[j], W[j], most)
            else:
                result[:, j] = [
                    errors(*one, most)[0]
                    for one in zip(H[:, j, None], S[:, j], W[:, j], strict=True)
                ]
        return result

    def errors(H: Float64Array, S: Float64Array, W: Float64Array, most: float) -> Float64Array:
        full = W > 0
        rows = Distinct.with_sums(S[full] / W[full], W[full], H[:, full])
        return sweep_errors(rows, running(S[full]), most, bins, norm)

    sizes, limits = (partial(size, many=many) for many in (False, True))
    return grid_error(predictions, keywords, sizes, limits)


def grid_error(
    predictions: Predictions,
    keywords: Keywords,
    size: Size,
    limit: Size | None = None,
    *,
    grid: int = COARSE,
    shift: Callable[[FloatArray, int], Any] = lambda *_: 0,
    n_shifts: int = 1,
) -> CellError | None:
    """Return an error with scores rounded to a grid, or None if the grid has too many nodes.

    The cell of a score of problem j is its node plus ``shift(score, j)``. This shift is less than
    `n_shifts` and does not decrease with the score.
    """
    average, norm = keywords["average"], keywords.get("norm", "l1")
    P, w = predictions.P, predictions.w
    n_classes, n_cells = P.shape[1], grid + n_shifts

    def cell(score: FloatArray, j: int) -> Intp:
        return nearest(score, grid) + shift(score, j)

    if classwise(predictions, keywords):
        if n_classes * n_cells > MOST_NODES:
            return None
        columns = map_columns(lambda k, column: cell(column, k), Scores(P, "proba"))
        cells = cells_of_classes(columns, P, w, (n_classes, n_cells))
    else:
        rows = sort_scores(predictions)
        cells = cells_of_rows(rows, cell(rows.score, 0), (1, n_cells))

    def error_of_table(*table: Float64Array, size: Size) -> Float64Array:
        errors = size(*table)
        return errors if average is None else mean_of_classes(errors, norm)[..., None]

    labels, truth = (partial(error_of_table, size=each) for each in (size, limit or size))
    return CellError(cells, labels, truth)


def classwise(predictions: Predictions, keywords: Keywords) -> bool:
    """Return whether an error is computed for each class, not for one event or the top label."""
    event = predictions.event is not None and keywords["average"] is not None
    return keywords["mode"] == "classwise" and not event


def nearest(score: FloatArray, grid: int) -> Intp:
    """Return the index of the grid node that is nearest to each score."""
    return np.rint(score * grid).astype(np.intp)
