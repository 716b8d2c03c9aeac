"""The rows of a comparison where their scores are a Dask array, which is read chunk by chunk."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from skcalib._arrays.dask import bring, is_dask
from skcalib._arrays.types import Float64Array
from skcalib._comparison.held_out import (
    HeldOutRows,
    TestRows,
    check_same_classes,
    groups_of_rows,
    read_rows,
    sorted_classes,
    test_rows,
)
from skcalib._comparison.measures import Measure
from skcalib._validation.labels import check_labels, read_categories
from skcalib._validation.remote import read_remote
from skcalib._validation.weights import check_lengths, check_weight


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
    check_same_classes(arrays[-1].shape[1], n_classes)
    X = da.concatenate(arrays).rechunk({1: -1})
    if classes is None:
        classes = read_categories(y, n_classes)
    else:
        order, classes = sorted_classes(classes, n_classes)
        X = X if order is None else X[:, order]
    source, y, _ = read_remote(X, np.concatenate(labels), None)
    data = read_rows(source, y, None, classes=classes, **known)
    w = np.concatenate(weights)
    kept, n_kept = np.flatnonzero(w > 0), int((w[:n_fit] > 0).sum())
    rows = np.arange(kept.size)
    weighted = sample_weight is not None or (test is not None and test[2] is not None)
    return data._replace(
        scores=X if kept.size == w.size else X[kept],
        code=data.code[kept],
        w=w[kept] if weighted else None,
        splits=[] if test is None else [(rows[:n_kept], rows[n_kept:])],
        groups=groups_of_rows("groups", groups, w, test, n_fit),
        cluster=groups_of_rows("clusters", clusters, w, test, n_fit),
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
    return X, labels, check_weight(sample_weight, X.shape[0], warn=True)


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
