"""Predict rows by calibrators that were not fitted on these rows."""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from inspect import signature
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn import clone, config_context
from sklearn.model_selection import StratifiedGroupKFold

from skcalib.extending import (  # isort: skip
    ALL, NAMES, OF_COUNTS, EventBy, InnerPredictions as Predictions, Intp, Kind, ScoreCalibrator,
    ScoredRows, Source, Survey, TrainingData, as_columns, as_sample_weight, as_source,
    calibrated_proba, check_classes, check_inner_predictions as check_predictions, check_kind,
    check_labels, check_option, check_values, check_weight, convert_rows, drop_zero_weight,
    effective, fit_calibrator, fit_checked, folds_of, in_class_order, is_dask, labels_of_rows,
    number_of, numbered, read_clusters, read_event, read_groups, recorded_warnings, refuse_features,
    refuse_labels, refuse_nan, resolve_kind, to_array, warn_of_order,
)  # fmt: skip

WHOLE = "X, y, sample_weight, groups, clusters"


class TestRows(NamedTuple):
    """Scores, labels, weights, groups and clusters of test rows, as the user passes them."""

    X: Any
    y: Any
    sample_weight: Any = None
    groups: Any = None
    clusters: Any = None


@dataclass(frozen=True)
class OpenRows:
    """Checked rows, including rows of weight 0; with soft labels, also the most frequent label."""

    scores: Source
    survey: Survey
    labels: NDArray[Any]
    shares: NDArray[np.float64] | None
    w: NDArray[np.float64]
    classes: ArrayLike | None
    by_position: bool


class HeldOutRows(NamedTuple):
    """Checked scores and labels, split into calibration rows and measured rows.

    ``scores (n, K)`` are a source or a Dask array; ``code (n,)`` are the columns of the true
    classes; ``w (n,)`` are positive weights, or None without weights; ``splits`` are pairs of
    arrays of indices (calibration rows, measured rows), and no row is measured twice; ``event`` and
    ``event_by`` are those of `Predictions`; ``groups (n,)`` or ``(n, g)`` are labels of groups, or
    None; ``shares (n, K)`` are soft labels, or None, and ``code`` then has the most frequent
    labels; ``cluster (n,)`` is the label of each row's cluster, or None.
    """

    scores: Any
    kind: Kind
    code: Intp
    classes: NDArray[Any]
    w: NDArray[np.float64] | None
    splits: list[tuple[Intp, Intp]]
    event: int | None = None
    event_by: EventBy | None = None
    groups: NDArray[Any] | None = None
    shares: NDArray[np.float64] | None = None
    cluster: NDArray[Any] | None = None

    def clusters(self, rows: Intp) -> Intp | None:
        """Return the cluster number of each selected row, or None if rows are independent."""
        if self.cluster is None:
            return None
        w = np.ones(rows.size) if self.w is None else self.w[rows]
        return numbered(self.cluster[rows], w)

    @property
    def n_clusters(self) -> int | None:
        """Number of clusters among the measured rows, or None if rows are independent."""
        cluster = self.clusters(np.concatenate([rows for _, rows in self.splits]))
        return None if cluster is None else number_of(cluster)

    @property
    def folds(self) -> list[Intp]:
        """Indices of the measured rows of each split, among all measured rows in their order."""
        order = np.sort(np.concatenate([rows for _, rows in self.splits]))
        return [np.searchsorted(order, rows) for _, rows in self.splits]

    def read(self, rows: Intp) -> Any:
        """Return the scores of the selected rows, as an array or as a Dask array."""
        return self.scores[rows] if is_dask(self.scores) else self.scores.read(rows)

    @property
    def y(self) -> NDArray[Any]:
        """Labels or soft labels that calibrators are fitted on."""
        return self.classes[self.code] if self.shares is None else self.shares


def in_folds(data: HeldOutRows, cv: Any) -> HeldOutRows:
    """Split the calibration rows into folds, so that each row is predicted at most once.

    Test rows are in no fold.
    """
    rows = data.splits[0][0] if data.splits else np.arange(data.code.size)
    cluster, place = data.clusters(rows), np.arange(rows.size)
    training = TrainingData(data.read(rows), data.classes[data.code[rows]], data.classes, None, {})
    with warnings.catch_warnings():
        # A class with fewer rows than folds is missing from some folds. Calibrators allow this.
        warnings.filterwarnings("ignore", message="The least populated class", module="sklearn")
        folds = folds_of(_splitter(cv, data, rows, cluster), training, {"groups": cluster}, level=4)
    seen: Intp = np.empty(0, dtype=np.intp)
    splits = []
    for train, test in folds:
        new = np.setdiff1d(place[test], seen)
        seen = np.concatenate([seen, new])
        if new.size:
            splits.append((rows[train], rows[new]))
    return data._replace(splits=splits)


def read_rows(
    X: ArrayLike,
    y: ArrayLike,
    sample_weight: ArrayLike | None,
    *,
    test: TestRows | None = None,
    input: str,
    classes: ArrayLike | None,
    pos_label: Any = None,
    groups: Any = None,
    clusters: Any = None,
) -> HeldOutRows:
    """Check calibration rows and test rows.

    `test` is a result of `test_rows`.
    """
    check_option("input", input, ("auto", "logits", "proba"))
    rows = _open(X, y, sample_weight, classes, input)
    S, survey, labels, shares, w = rows.scores, rows.survey, rows.labels, rows.shares, rows.w
    kind = resolve_kind(S, survey, input)
    if S.shape[1] == 1 and kind == "proba":
        refuse_labels(X)
    columns = as_columns(S, survey, kind, input)
    n_rows, n_fit = w.size, int((w > 0).sum())
    weighted = sample_weight is not None or (test is not None and test.sample_weight is not None)
    if test is not None:
        known = rows.classes if classes is None else classes
        tested = _open(test.X, test.y, test.sample_weight, known, kind, "test ")
        certain = kind == "logits" and not survey.is_simplex
        check_kind(tested.scores, tested.survey, kind, certain, "test X")
        columns_test = as_columns(tested.scores, tested.survey, kind, name="test X")
        check_same_classes(columns_test.shape[1], columns.shape[1])
        columns = as_source(np.concatenate([to_array(columns), to_array(columns_test)]))
        labels = check_labels([*labels.tolist(), *tested.labels.tolist()])
        if (shares is None) != (tested.shares is None):
            raise ValueError(
                "y and the y of test: one has soft labels, the other class labels: pass the same "
                "kind of labels in both."
            )
        if shares is not None and tested.shares is not None:
            shares = np.concatenate([shares, tested.shares])
        w = np.concatenate([w, tested.w])
    read = read_event(labels, rows.classes, S.shape[1], pos_label, NAMES)
    code = read.code
    if S.shape[1] == 1:
        way = "pass pos_label= with the label of the column, or 1 - X or -X with another name"
        columns = in_class_order(columns, X, read, "X", way)
    elif kind == "logits":
        refuse_features(columns, survey, code, w, input, not rows.by_position)
    of_rows = groups_of_rows("groups", groups, w, test, n_rows)
    cluster = groups_of_rows("clusters", clusters, w, test, n_rows)
    shares = None if shares is None else shares[w > 0]
    columns, code, w = drop_zero_weight(columns, code, w)
    if rows.by_position and not survey.has_nan:
        warn_of_order(columns, code, w, read.classes)
    splits = [] if test is None else [(np.arange(n_fit), np.arange(n_fit, code.size))]
    return HeldOutRows(
        columns,
        kind,
        code,
        read.classes,
        w if weighted else None,
        splits,
        event=read.column,
        event_by=read.event_by,
        groups=of_rows,
        shares=shares,
        cluster=cluster,
    )


def test_rows(test: Any) -> TestRows:
    """Convert the parameter `test`, a tuple (X, y) or longer, to test rows."""
    if not isinstance(test, tuple | list) or not 2 <= len(test) <= 5:
        raise ValueError(
            f"test must be (X, y), (X, y, sample_weight) or ({WHOLE}) of the test rows; "
            "entries after y may be omitted or None."
        )
    return TestRows(*test)


def groups_of_rows(
    name: str, groups: Any, w: NDArray[np.float64], test: TestRows | None, n_fit: int
) -> NDArray[Any] | None:
    """Return the labels of groups or clusters of all rows with a weight above 0, or None.

    `w` contains the weights of the `n_fit` calibration rows, followed by those of the test rows.
    """
    parts = [(groups, w[:n_fit], name)]
    if test is not None:
        parts.append((getattr(test, name), w[n_fit:], f"test {name}"))
    if all(labels is None for labels, *_ in parts):
        return None
    for labels, weights, whose in parts:
        if labels is None:
            raise ValueError(f"{whose} is missing: pass both {name}= and test=({WHOLE}).")
        if name == "groups":
            read_groups(labels, weights.size, whose)
        else:
            read_clusters(labels, weights)
    joined = np.concatenate([labels_of_rows(labels).astype(object) for labels, *_ in parts])
    return joined[w > 0]


def check_same_classes(n_test: int, n: int) -> None:
    """Raise an error unless test rows and calibration rows have the same number of classes."""
    if n_test != n:
        raise ValueError(
            f"the X of test has scores of {n_test} classes, but X has scores of {n} classes: pass "
            "scores of the same classes."
        )


def sorted_classes(classes: ArrayLike, n_classes: int) -> tuple[Intp | None, NDArray[Any]]:
    """Return the indices that sort the classes (None if they are sorted) and the sorted classes."""
    labels = check_classes(classes, n_classes, "classes")
    order = np.argsort(labels)
    return None if (order == np.arange(order.size)).all() else order, labels[order]


def _open(
    X: ArrayLike,
    y: ArrayLike,
    sample_weight: ArrayLike | None,
    classes: ArrayLike | None,
    input: str,
    whose: str = "",
) -> OpenRows:
    """Check rows, and sort the columns of scores by their labels."""
    X_name = f"{whose}X"
    rows = convert_rows(X, y, sample_weight, classes, (X_name, f"{whose}y", "classes"), soft=False)
    S, shares, known = rows.scores, rows.shares, rows.classes
    if known is not None and rows.order is None:  # the columns of X are in the order of `classes`
        order, known = sorted_classes(known, max(S.shape[1], 2))
        if S.shape[1] > 1 and order is not None:
            S = as_source(to_array(S)[:, order])
            shares = None if shares is None else shares[:, order]
    survey = check_values(S, X_name, input, options=True)
    if survey.has_nan:
        refuse_nan(S, survey, input, range(S.shape[1]) if known is None else np.asarray(known))
    w = check_weight(rows.weights, S.shape[0], warn=not whose)
    # If several labels have the most raters, use the first of these labels in sorted order.
    labels = rows.labels if shares is None else np.asarray(known)[shares.argmax(axis=1)]
    return OpenRows(S, survey, labels, shares, w, known, rows.by_position)


def _splitter(cv: Any, data: HeldOutRows, rows: Intp, cluster: Intp | None) -> Any:
    """Convert the parameter `cv`, if it is a number of folds, to folds or a splitter."""
    if not isinstance(cv, int | np.integer) or cv < 2:
        return cv
    code = data.code[rows]
    if data.groups is not None and cluster is None:
        return folds_in_groups(int(cv), code, data.groups[rows])
    most = np.bincount(code).max()
    if most < cv:
        raise ValueError(
            f"cv={cv}, but no class has more than {most} rows: pass fewer folds, or a splitter "
            "such as KFold(5, shuffle=True)."
        )
    return cv if cluster is None else StratifiedGroupKFold(min(int(cv), number_of(cluster)))


def folds_in_groups(n_folds: int, code: Intp, groups: NDArray[Any]) -> list[tuple[Intp, Intp]]:
    """Split rows into folds that are stratified by label and group.

    Rows with the same label and group stay in their order, as in scikit-learn's `StratifiedKFold`.
    """
    n = code.size
    if n < n_folds:
        raise ValueError(f"cv={n_folds}, but there are only {n} rows: pass fewer folds.")
    stratum = read_groups(groups, n).code * (code.max() + 1) + code
    order = np.argsort(stratum, kind="stable")
    dealt = np.arange(n) % n_folds
    fold = np.empty(n, dtype=np.intp)
    fold[order] = dealt[np.lexsort((dealt, stratum[order]))]
    return [(np.flatnonzero(fold != k), np.flatnonzero(fold == k)) for k in range(n_folds)]


def takes_groups(method: Callable[..., Any]) -> bool:
    """Whether a method has a parameter `groups`."""
    return "groups" in signature(method).parameters


def fit_rows(calibrator: Any, data: HeldOutRows, rows: Any = ALL) -> Any:
    """Fit a clone of a calibrator, or of any classifier, on some of the rows."""
    if is_dask(data.scores) and not isinstance(calibrator, ScoreCalibrator):
        raise TypeError(
            f"{type(calibrator).__name__} needs all scores in memory, but X is a dask array: pass "
            "X.compute() if it fits into memory, or some of its rows"
        )
    response = "decision_function" if data.kind == "logits" else "predict_proba"
    rows = np.arange(data.code.size)[rows]
    scored = ScoredRows(None, rows, data.read(rows), response, data.classes, data.classes)
    w = None if data.w is None else as_sample_weight(data.w)
    groups = data.groups if takes_groups(calibrator.fit) else None
    training = TrainingData(None, data.y, data.classes, w, {}, groups)
    # Without metadata routing, weights are passed to every calibrator that accepts them.
    with config_context(enable_metadata_routing=False), recorded_warnings() as caught:
        fitted = fit_calibrator(calibrator, scored, training)
    for each in caught:
        # The warning that weights are read as counts was already given for all rows.
        if not str(each.message).startswith(OF_COUNTS):
            warnings.warn(each.message, stacklevel=3)
    return fitted


def takes_checked(calibrator: Any, data: HeldOutRows) -> bool:
    """Whether a calibrator can be fitted on the checked rows without a second check."""
    return (
        isinstance(calibrator, ScoreCalibrator)
        and type(calibrator).fit is ScoreCalibrator.fit
        and type(calibrator).predict_proba is ScoreCalibrator.predict_proba
        and calibrator.input in ("auto", data.kind)
        and calibrator.classes is data.shares is None
        and isinstance(data.scores, Source)
    )


def predict_held_out(calibrator: Any, data: HeldOutRows) -> tuple[Predictions, list[float]]:
    """Fit a calibrator on the calibration rows of each split, and predict the measured rows.

    Returns the predictions in the order of the rows, and the seconds of each fit. Predictions for a
    Dask array are computed chunk by chunk, and are in the order of the folds.
    """
    are_checked, kind, classes = takes_checked(calibrator, data), data.kind, data.classes
    weights = np.ones(data.code.size) if data.w is None else data.w
    parts, seconds = [], []
    for train, test in data.splits:
        start, params = time.perf_counter(), {}
        if are_checked:  # the rows were checked before
            S, w = as_source(data.scores.read(train)), effective(weights[train])
            fitted = fit_checked(clone(calibrator), S, kind, data.code[train], w, classes)
        else:
            fitted = fit_rows(calibrator, data, train)
        seconds.append(time.perf_counter() - start)
        if are_checked:
            parts.append(fitted._map_rows(as_source(data.scores.read(test))))
        else:
            if data.groups is not None and takes_groups(fitted.predict_proba):
                params["groups"] = data.groups[test]
            parts.append(calibrated_proba(fitted, data.read(test), kind, classes, **params))
    rows, P = np.concatenate([test for _, test in data.splits]), np.concatenate(parts)
    if not is_dask(P):
        order = np.argsort(rows)
        rows, P = rows[order], P[order]
    if are_checked:
        checked = Predictions(as_source(P), data.code[rows], np.ones(rows.size), classes)
    else:
        checked = check_predictions(data.y[rows], P, None, classes, soft=True)
    w = checked.w if data.w is None else effective(data.w[rows])
    cluster = data.clusters(rows)
    return checked._replace(w=w, event=data.event, event_by=data.event_by, cluster=cluster), seconds
