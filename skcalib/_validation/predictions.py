"""Labels and probabilities of a metric, checked together."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple, TypeVar

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike, NDArray

from skcalib._arrays.selection import take_rows
from skcalib._arrays.source import ALL, Source
from skcalib._arrays.tensors import as_dispatched, on_host
from skcalib._arrays.types import FloatArray
from skcalib._validation.clusters import numbered, read_clusters
from skcalib._validation.column_order import warn_of_order
from skcalib._validation.event import EventBy, class_column, in_class_order, read_event
from skcalib._validation.kind import as_columns, refuse_labels
from skcalib._validation.remote import read_remote
from skcalib._validation.rows import open_rows
from skcalib._validation.shares import refuse_soft, split_shares
from skcalib._validation.survey import Survey, first_flaw, merge_surveys, sum_tolerance, survey_rows
from skcalib._validation.weights import check_weight, drop_zero_weight, effective

# The arguments of a metric in messages: scores, labels, labels of the columns.
NAMES = ("y_proba", "y_true", "labels")
# Metrics that an error names as taking soft hits.
TAKERS = "expected_calibration_error, ks_calibration_error or top_label_brier_score"

Metric = TypeVar("Metric", bound=Callable[..., Any])


class Predictions(NamedTuple):
    """Checked predictions: what every metric works on.

    ``P (n, K)`` probabilities, ``code (n,)`` column of the true class, ``w (n,)`` float64
    weights, ``classes (K,)`` labels of the columns. ``event`` is the column of the measured event:
    of one column of probabilities (stored here as two), of two columns, or of ``pos_label``, as
    ``event_by`` says. Both are None where more columns are measured. ``order (K,)`` are the classes
    in the order of a frame's columns, if it was read by name. ``cluster (n,)`` numbers the clusters
    of rows that were drawn together; None if rows are independent.

    Of several raters, ``code (n, K)`` contains float64 shares of each class; of soft hits, those of
    the classes 0 and 1.
    """

    P: Source
    code: NDArray[Any]
    w: NDArray[np.float64]
    classes: NDArray[Any]
    event: int | None = None
    event_by: EventBy | None = None
    order: NDArray[np.intp] | None = None
    cluster: NDArray[np.intp] | None = None

    @property
    def n_clusters(self) -> int | None:
        """Number of clusters; None if rows are independent."""
        return None if self.cluster is None else int(self.cluster.max()) + 1

    @property
    def units(self) -> NDArray[np.intp]:
        """The cluster of each row ``(n,)``, or the number of the row if rows are independent."""
        return np.arange(len(self.code)) if self.cluster is None else self.cluster

    @property
    def are_shares(self) -> bool:
        """Whether hits are shares of raters, or soft."""
        return self.code.ndim == 2

    def of_event(self) -> tuple[FloatArray, NDArray[Any]]:
        """Return the probability of the event ``(n,)``, and whether it happened, or its share."""
        assert self.event is not None
        return self.column(self.event), self.hits(self.event)

    def hits(self, predicted: NDArray[np.intp] | int) -> NDArray[Any]:
        """Return whether a predicted class is the true one ``(n,)``, or its share of the raters."""
        if self.are_shares:
            return self.code[np.arange(len(self.code)), predicted]
        return self.code == predicted

    def split(self) -> Predictions:
        """Return a row for each label that raters gave, with its share of the row's weight."""
        return self._rows(*split_shares(self.code, self.w)) if self.are_shares else self

    def column(self, k: int) -> FloatArray:
        """Return the probabilities of a class ``(n,)``."""
        return self.P.read(ALL, slice(k, k + 1))[:, 0]

    def of_classes(self, values: NDArray[np.float64], y_proba: Any) -> Any:
        """Return a number for each class: a Series by the columns of a frame read by name.

        Otherwise an array in the order of the classes, on the device of `y_proba`.
        """
        if self.order is None:
            return as_dispatched(values, y_proba)
        return pd.Series(values, pd.Index(self.classes)).iloc[self.order]

    def take(self, rows: NDArray[np.intp]) -> Predictions:
        """Return some rows, with their weights scaled to the number of rows they count as."""
        return self._rows(rows, self.code[rows], effective(self.w[rows]))

    def _rows(self, rows: NDArray[np.intp], code: Any, w: NDArray[np.float64]) -> Predictions:
        cluster = None if self.cluster is None else numbered(self.cluster[rows], w)
        return self._replace(P=take_rows(self.P, rows), code=code, w=w, cluster=cluster)

    def named(self, pos_label: Any) -> Predictions:
        """Return the predictions with the event of this label."""
        column = class_column(pos_label, self.classes, "pos_label")
        return self._replace(event=column, event_by="pos_label")

    def without_event(self) -> Predictions:
        """Return the predictions as those of classes."""
        return self._replace(event=None, event_by=None)

    def as_classes(self) -> Predictions:
        """Return two columns as those of two classes; an event that is named stays."""
        return self.without_event() if self.event_by == "columns" else self

    def of_mode(self, mode: str | None, r: int = 1, average: str | None = "macro") -> Predictions:
        """Return the predictions without an event if `mode` or the rank `r` ranks the classes.

        Without `average` there is none either: each class is measured, one as the other.
        """
        if average is None:
            return self.without_event()
        if mode not in ("top", "within_top") and r == 1:
            return self
        if self.event_by == "pos_label":
            ranks = "r" if mode is None else f"mode={mode!r}"
            raise ValueError(
                f"{ranks} ranks the classes of a row, but pos_label= names one event: leave out "
                f"pos_label to measure the ranked classes, or {ranks.split('=')[0]} to measure the "
                "event."
            )
        return self.without_event()


def takes_predictions(metric: Metric) -> Metric:
    """Mark a metric that passes its arguments to `check_predictions`: it takes checked ones."""
    metric.takes_predictions = True  # type: ignore[attr-defined]
    return metric


def check_chunk(P: Source, rows: range, options: bool = False) -> tuple[Survey, bool]:
    """Return the survey of a chunk, and whether its rows can be used as they are."""
    survey = survey_rows(P, rows, "y_proba", sum_tolerance("proba"), options=options)
    return survey, survey.is_simplex and not survey.is_rounded


def as_probabilities(P: Source, surveys: list[Survey]) -> Source:
    """Return probabilities of two or more columns; refuse rows that are not probability vectors."""
    survey = merge_surveys(surveys)
    if not survey.is_simplex:
        raise ValueError(
            f"y_proba: {first_flaw(P, survey)}; pass class probabilities (the softmax of "
            "logits, percentages divided by 100, or rows divided by their sum)."
        )
    return as_columns(P, survey, "proba", name="y_proba")


def check_predictions(
    y_true: ArrayLike,
    y_proba: ArrayLike,
    sample_weight: ArrayLike | None = None,
    labels: ArrayLike | None = None,
    pos_label: Any = None,
    *,
    soft: bool = False,
    caller: str = "this metric",
    clusters: Any = None,
    on_device: bool = False,
    options: bool = False,
    way: str = "pass labels=",
) -> Predictions:
    """Check the arguments of a metric and drop rows of weight 0.

    With `on_device`, codes and weights may be tensors where no single event is measured. With
    `options`, NaN in several columns is an option that was not offered, and rows stay as they are
    stated. `way` says how the columns are named, in the warning of their order.

    `y_proba` may be checked predictions, which include labels and weights: a metric that is
    evaluated a thousand times then checks its data once. Soft hits, and the shares of several
    raters, are refused in the name of `caller` unless `soft` says that the metric takes them.
    """
    if isinstance(y_proba, Predictions):
        if y_proba.are_shares and not soft:
            refuse_soft(y_proba.code, "y_true", caller, TAKERS)
        return y_proba if pos_label is None else y_proba.named(pos_label)
    y_proba, y_true, sample_weight = read_remote(
        y_proba, y_true, sample_weight, "y_proba", "y_true"
    )
    given = y_proba, y_true, sample_weight, labels, NAMES
    refuse = (
        None if soft else partial(refuse_soft, y_name="y_true", caller=caller, supported=TAKERS)
    )
    rows = open_rows(*given, sort=False, refuse_soft=refuse, shares=soft, on_device=on_device)
    P, n_columns = rows.scores, rows.scores.shape[1]
    refuse_labels(rows.X, P, name="y_proba")
    if P.remote is None:
        survey, _ = check_chunk(P, range(P.shape[0]), options)
        survey = survey._replace(away=0.0) if options else survey  # rows are not divided
        P, by_position = as_probabilities(P, [survey]), rows.by_position and not survey.absent
    else:  # its first pass checks it too, so that a metric reads it once
        P, by_position = P.remote.checked(check_chunk, partial(as_probabilities, P)), False
    w = check_weight(sample_weight, P.shape[0], labels=rows.labels, warn=True)
    read = read_event(rows.labels, rows.classes, n_columns, pos_label, NAMES)
    code: Any = read.code if rows.shares is None else rows.shares
    if read.column is not None:
        code, w = on_host(code), on_host(w)
    if n_columns == 1:
        other = "pass pos_label= with its label, or 1 - y_proba with another name"
        P = in_class_order(P, rows.X, read, "y_proba", other)
    cluster = None if clusters is None else read_clusters(clusters, w)
    if sample_weight is not None:
        P, code, w = drop_zero_weight(P, code, w)
    if by_position:
        warn_of_order(P, code, w, read.classes, way)
    return Predictions(P, code, w, *read[1:], rows.order, cluster)
