"""Predictions of a calibrator for rows of a Dask array that it was not fitted on.

Every fit gets all rows, those it must not see with weight 0, and predictions are computed chunk by
chunk, so that no scores are copied or brought to the caller.
"""

from __future__ import annotations

import time
from typing import Any

import numpy as np
from joblib import parallel_config
from numpy.typing import ArrayLike, NDArray

from skcalib._arrays.dask import bring, is_dask
from skcalib._arrays.types import Float64Array, FloatArray, Intp
from skcalib._comparison.held_out import (
    HeldOutRows,
    TestRows,
    check_same_classes,
    fit_rows,
    groups_of_rows,
    predict_held_out,
    read_rows,
    sorted_classes,
    test_rows,
)
from skcalib._comparison.measures import Measure
from skcalib._meta_estimators.out_of_fold import with_input_and_classes
from skcalib._validation.labels import check_category_order, check_labels
from skcalib._validation.predictions import Predictions, check_predictions
from skcalib._validation.remote import read_remote
from skcalib._validation.scores import as_matrix
from skcalib._validation.weights import as_given, check_lengths, check_weight, effective
from skcalib.calibrators._base import ScoreCalibrator


def open_data(
    X: Any, y: Any, sample_weight: Any, *, test: tuple[Any, ...] | None, **keywords: Any
) -> HeldOutRows:
    """Check all arguments once; the only split is that of the test rows, if there are any.

    The keywords are those of `read_rows`.
    """
    rows = None if test is None else test_rows(test)
    if is_dask(X) and X.ndim == 2 and X.shape[1] != 1:  # a single one is brought, like labels
        return _open_chunks(X, y, sample_weight, test=rows, **keywords)
    X, y, sample_weight = read_remote(X, y, sample_weight)
    if rows is not None:
        rows = (*read_remote(*rows[:3], "test X", "test y"), *rows[3:])
    return read_rows(X, y, sample_weight, test=rows, **keywords)


def _open_chunks(
    X: Any,
    y: Any,
    sample_weight: Any,
    *,
    test: TestRows | None,
    classes: ArrayLike | None,
    groups: Any,
    clusters: Any,
    **known: Any,
) -> HeldOutRows:
    """Check the rows of a Dask array and the test rows together."""
    import dask.array as da

    parts = [_known(X, y, sample_weight, "X", "y")]
    if test is not None:
        parts.append(_known(*test[:3], "test X", "test y"))
    arrays, labels, weights = zip(*parts, strict=True)
    n_fit, n_classes = arrays[0].shape
    if classes is None:
        check_category_order(y, n_classes)
    check_same_classes(arrays[-1].shape[1], n_classes)
    X = da.concatenate(arrays).rechunk({1: -1})
    if classes is not None:
        order, classes = sorted_classes(classes, n_classes)
        X = X if order is None else X[:, order]
    source, y, _ = read_remote(X, np.concatenate(labels), None)
    data = read_rows(source, y, None, classes=classes, **known)
    rows, ones = np.arange(data.code.size), np.ones(data.code.size)
    weighted = sample_weight is not None or (test is not None and test[2] is not None)
    return data._replace(
        scores=X,
        w=np.concatenate(weights) if weighted else None,
        splits=[] if test is None else [(rows[:n_fit], rows[n_fit:])],
        groups=groups_of_rows("groups", groups, ones, test, n_fit),
        cluster=groups_of_rows("clusters", clusters, ones, test, n_fit),
    )


def _known(
    X: Any, y: Any, sample_weight: Any, X_name: str, y_name: str
) -> tuple[Any, NDArray[Any], Float64Array]:
    """Return scores with chunks of known lengths, and checked labels and weights."""
    import dask.array as da

    X = X if is_dask(X) else da.from_array(np.asarray(X))
    X = X.copy().compute_chunk_sizes() if np.isnan(X.shape[0]) else X
    y, sample_weight = bring(y, sample_weight)
    labels = check_labels(y, y_name)
    check_lengths(labels, X.shape[0], y_name, X_name)
    return X, labels, check_weight(sample_weight, X.shape[0])


def fit_some(calibrator: Any, data: HeldOutRows, rows: Any) -> Any:
    """Fit a clone of a calibrator on some of the rows, in the order of the sorted labels."""
    if not is_dask(data.scores):
        return fit_rows(calibrator, data, rows)
    if not isinstance(calibrator, ScoreCalibrator):
        raise TypeError(
            f"{type(calibrator).__name__} would need all scores at once, but X is a dask array: "
            "pass X.compute() if it fits into memory, or some of its rows"
        )
    own = with_input_and_classes(calibrator, data.kind, data.classes)
    w = np.zeros(data.code.size)
    w[rows] = 1.0 if data.w is None else data.w[rows]
    return own.fit(data.scores, data.classes[data.code], sample_weight=as_given(w))


def predict_rows(calibrator: Any, data: HeldOutRows) -> tuple[Predictions, list[float]]:
    """Fit on the first part of each split and predict the second, as `predict_held_out` does."""
    if not is_dask(data.scores):
        return predict_held_out(calibrator, data)
    import dask.array as da

    n = data.code.size
    fold, fitted, seconds = np.full((n, 1), -1), [], []
    for k, (train, test) in enumerate(data.splits):
        start = time.perf_counter()
        fitted.append(fit_some(calibrator, data, train))
        seconds.append(time.perf_counter() - start)
        fold[test] = k
    dtype = as_matrix(np.zeros((1, data.classes.size), dtype=data.scores.dtype)).dtype
    P = da.map_blocks(
        predict_by_fold,
        data.scores,
        da.from_array(fold, chunks=(data.scores.chunks[0], 1)),
        fitted=fitted,
        like=np.empty(0, dtype=dtype),
        dtype=dtype,
        chunks=data.scores.chunks,
        meta=np.empty((0, 0), dtype=dtype),
    )
    w = np.where(fold[:, 0] >= 0, np.ones(n) if data.w is None else data.w, 0.0)
    y = data.classes[data.code]
    checked = check_predictions(y, P, as_given(w), data.classes)
    checked = checked._replace(w=effective(checked.w))
    return data.measured(checked, np.flatnonzero(w > 0)), seconds


def predict_by_fold(
    block: FloatArray, fold: Intp, fitted: list[Any], like: FloatArray
) -> FloatArray:
    """Return each row's probabilities by the calibrator of its fold, else equal ones."""
    P = np.full(block.shape, 1 / block.shape[1], dtype=like.dtype)
    with parallel_config(n_jobs=1):
        for k, calibrator in enumerate(fitted):
            rows = np.flatnonzero(fold[:, 0] == k)
            if rows.size:
                P[rows] = calibrator.predict_proba(np.asarray(block)[rows])
    return P


def refuse_metrics(measures: list[Measure], chosen_by: Measure | None) -> None:
    """Refuse what would need all rows of a Dask array at once, before any fit."""
    for measure in measures:
        if measure.evaluate is not None and not measure.evaluate.own:
            raise ValueError(
                f"metrics: {measure.name!r} would load X, a dask array, whole: pass log_loss, "
                "brier_score, error_rate or metrics of skcalib, or X.compute() if it fits into "
                "memory."
            )
    if chosen_by is not None:
        raise ValueError(
            f"choose_by={chosen_by.name!r}: what chance adds to an error is simulated on all "
            "rows at once, but X is a dask array: choose by 'log_loss', or pass X.compute()."
        )
