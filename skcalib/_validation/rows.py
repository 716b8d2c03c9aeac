"""Checks of scores, labels, weights, groups and clusters, for `fit` and for metrics."""

from __future__ import annotations

import numbers
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple, TypeVar

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike, NDArray
from sklearn.utils import _safe_indexing

from skcalib._arrays.dask import DaskSource, bring_chunks, compute_now
from skcalib._arrays.rowwise import Float64Array, FloatArray, Intp
from skcalib._arrays.selection import take_rows
from skcalib._arrays.sources import ALL, ArraySource, Source, is_dask
from skcalib._arrays.tensors import as_dispatched, as_type_of, is_beside, is_far, is_tensor, on_host
from skcalib._validation.keywords import short_repr
from skcalib._validation.labels import (
    EventBy,
    are_soft,
    check_shape,
    check_soft_hits,
    class_column,
    in_class_order,
    name_columns,
    read_categories,
    read_event,
    read_labels,
    refuse_soft,
    shares_of_soft,
    split_shares,
)
from skcalib._validation.scores import (
    as_array,
    as_matrix,
    describe_lazy,
    from_tensor,
    naming_errors_of,
    read_frame,
    read_scores,
)
from skcalib._validation.survey import (
    SUM_TOLERANCE_DECLARED,
    Survey,
    as_columns,
    first_flaw,
    merge_surveys,
    refuse_labels,
    survey_rows,
    warn_of_order,
)

# Rows of weight 0 must not cause errors: other rows replace them before values are checked.


def rows_replacing_weight_0(sample_weight: Any) -> NDArray[np.intp] | None:
    """Return the index of each row or, if its weight is 0, of a row with a positive weight.

    None if no row has weight 0, or if the weights are invalid and refused later.
    """
    if sample_weight is None or is_far(sample_weight):
        return None
    w = as_array("sample_weight", sample_weight, "pass one number for each row")
    if w.ndim != 1 or w.dtype.kind not in "biuf":
        return None
    counts = w != 0
    if counts.all() or not counts.any():
        return None
    return np.maximum.accumulate(np.where(counts, np.arange(counts.size), counts.argmax()))


def replace_absent_rows(y: Any, rows: NDArray[np.intp] | None) -> Any:
    """Replace rows of weight 0 in an array by rows that have a positive weight."""
    fits = rows is not None and hasattr(y, "__len__") and len(y) == rows.size
    return _safe_indexing(y, rows) if fits else y


def ignore_label(y: Any, sample_weight: Any, label: Any) -> Any:
    """Set the weights of rows to 0 if their label is to be ignored."""
    if not isinstance(label, str | np.generic | numbers.Number):
        raise ValueError(f"ignore_index={label!r} is not a label; pass one label, such as 255.")
    labels = as_array("y", y, "pass one label for each row")
    if isinstance(y, list | tuple):  # NumPy would convert numbers to strings
        labels = np.asarray(y, dtype=object)
    if labels.dtype.kind == "O":
        labels = labels.copy()
        labels[pd.isna(labels)] = None  # a comparison with pandas.NA gives NA
    ignored = np.zeros(labels.shape, dtype=bool) | (labels == label)
    if not ignored.any() or ignored.size != len(ignored):
        return sample_weight
    ignored = ignored.reshape(-1)
    if ignored.all():
        raise ValueError(
            f"y: every label is ignore_index={short_repr(label)}; no row is left: pass rows with "
            "other labels."
        )
    w = from_tensor("sample_weight", 1 if sample_weight is None else sample_weight)
    return np.where(ignored, 0, w) if np.shape(w) in ((), ignored.shape) else sample_weight


# Groups of rows: the labels of one column, or the combinations of labels of several columns.


# Name of the group of rows whose group label is missing (None, NaN, NA).
MISSING = "(missing)"
# A column with more distinct fractions than this limit has measurements, not group labels.
MOST_FRACTIONS = 50


class Groups(NamedTuple):
    """Groups of rows: the group of each row, and the labels of each group.

    ``code (n,)`` is the index of the group of each row in ``labels``. The label of a group is a
    tuple with an entry for each column. ``names`` are the names of the columns, which may be None.
    With a single column, an unused category is a group without rows.
    """

    code: NDArray[np.intp]
    labels: list[tuple[Any, ...]]
    names: list[str | None]

    def members(self) -> list[NDArray[np.intp]]:
        """Return the rows of each group."""
        ends = np.cumsum(np.bincount(self.code, minlength=len(self.labels)))
        return np.split(np.argsort(self.code, kind="stable"), ends[:-1])

    @property
    def complete(self) -> NDArray[np.bool_]:
        """Whether each group has a label in every group column, instead of a missing one."""
        return np.array([MISSING not in label for label in self.labels], dtype=bool)


def read_groups(groups: Any, n_rows: int, name: str = "groups") -> Groups:
    """Read the group labels of rows, from one column or from several."""
    # Cluster labels are a single column. Group labels may have several columns.
    several = "" if name == "clusters" else ", or a column for each of several"
    advice = f"pass one label for each row{several}"
    groups = read_frame(from_tensor(name, groups), name)
    if groups is None:
        raise ValueError(f"{name} is required, but None was passed: {advice}.")
    with naming_errors_of(name, groups, advice):
        columns = _columns(groups)
        coded = [_read_column(values) for _, values in columns]
    names = [column_name for column_name, _ in columns]
    for column_name, (code, labels) in zip(names, coded, strict=True):
        if code.size != n_rows:
            raise ValueError(
                f"{name} has {code.size} rows, but there are {n_rows} rows of scores: pass one "
                "label for each row."
            )
        _refuse_measurements(labels, name, column_name)
    if len(coded) == 1:
        code, labels = coded[0]
        return Groups(code, [(label,) for label in labels], names)
    codes = np.column_stack([code for code, _ in coded])
    places, crossed = np.unique(codes, axis=0, return_inverse=True)
    crossed_labels = [
        tuple(labels[i] for (_, labels), i in zip(coded, row, strict=True)) for row in places
    ]
    return Groups(crossed.reshape(-1).astype(np.intp), crossed_labels, names)


def _columns(groups: Any) -> list[tuple[str | None, Any]]:
    """Return the name and the values of each column of group labels, after checking the shape."""
    if hasattr(groups, "columns"):
        if not len(groups.columns):
            raise ValueError("it has no columns")
        return [(str(name), _series(groups[name])) for name in groups.columns]
    if hasattr(groups, "to_list") or isinstance(groups, pd.Categorical):
        name = getattr(groups, "name", None)
        return [(None if name in (None, "") else str(name), _series(groups))]
    # NumPy would convert numbers among strings to strings.
    table = groups if isinstance(groups, np.ndarray) else np.asarray(groups, dtype=object)
    if table.ndim not in (1, 2) or (table.shape[-1:] == (0,) and table.ndim == 2):
        raise ValueError(f"it has shape {table.shape}")
    if any(isinstance(label, list | tuple | np.ndarray) for label in table.ravel()[:1000]):
        raise ValueError("its rows have different numbers of labels")
    table = table[:, None] if table.ndim == 1 else table
    return [(None, pd.Series(table[:, j])) for j in range(table.shape[1])]


def _series(values: Any) -> Any:
    if isinstance(values, pd.Series | pd.Index | pd.Categorical):
        return pd.Series(values)
    return pd.Series(values.to_list(), dtype=object)


def _read_column(values: Any) -> tuple[NDArray[np.intp], list[Any]]:
    """Return the distinct group labels, and for each row the index of its label."""
    if isinstance(values.dtype, pd.CategoricalDtype):
        code, labels = values.cat.codes.to_numpy().astype(np.intp), _plain(values.cat.categories)
    else:
        code, distinct = pd.factorize(values.to_numpy(), sort=True)
        labels = _plain(pd.Index(distinct))
    lost = code < 0
    if lost.any():
        if MISSING not in labels:
            labels.append(MISSING)
        code = np.where(lost, labels.index(MISSING), code)
    return code, labels


def _plain(index: Any) -> list[Any]:
    """Convert group labels to Python numbers and strings; whole floats become integers."""
    values = [label.item() if isinstance(label, np.generic) else label for label in index]
    are_integers = all(isinstance(v, float) and v.is_integer() for v in values)
    return [int(v) for v in values] if are_integers else values


def _refuse_measurements(labels: list[Any], name: str, column_name: str | None) -> None:
    """Refuse group labels that look like measurements: many distinct numbers with decimals."""
    fractions = [v for v in labels if isinstance(v, float) and not v.is_integer()]
    if len(fractions) > MOST_FRACTIONS:
        column = "" if column_name is None else f" column {column_name!r}"
        raise ValueError(
            f"{name}{column} has {len(labels)} different numbers, such as {fractions[0]:g}: cut "
            "them into ranges first, for instance by pandas.cut."
        )


# Dask arrays: scores stay in their chunks; labels and weights become NumPy arrays.


def read_remote(
    X: Any, y: Any, sample_weight: Any, X_name: str = "X", y_name: str = "y"
) -> tuple[Any, Any, Any]:
    """Convert Dask scores to a `DaskSource`, and Dask labels and weights to NumPy arrays.

    A single column of scores becomes a NumPy array too. Labels in a frame of another library are
    converted to pandas. Anything else is returned unchanged.
    """
    y = read_frame(y, y_name)
    beside = ((y_name, y), ("sample_weight", sample_weight))
    if not is_dask(X):
        for name, each in beside:
            if is_dask(each) and not isinstance(X, Source):
                raise TypeError(
                    f"{name} is a dask array but {X_name} is not: pass both as dask arrays, or "
                    f"{name}.compute()."
                )
        return X, y, sample_weight
    if X.ndim != 2 or X.shape[1] == 1:
        return compute_now(X, y, sample_weight)
    if np.isnan(X.shape[1]):
        raise ValueError(
            f"{X_name} is a dask array whose number of columns is unknown; call "
            f"{X_name}.compute_chunk_sizes() first."
        )
    dtype = as_matrix(np.zeros((1, X.shape[1]), dtype=X.dtype), X_name).dtype
    lengths = None
    if np.isnan(X.shape[0]) and is_dask(y) and y.numblocks[0] == X.numblocks[0]:
        y, lengths = bring_chunks(y)
    y, sample_weight = compute_now(y, sample_weight)
    source = DaskSource(X, lengths, dtype, describe_lazy(X_name, X))
    if not source.shape[0]:
        as_matrix(np.empty((0, X.shape[1])), X_name)
    return source, y, sample_weight


# Sample weights: counts, or relative weights that are scaled to the effective number of rows.
#
# Integers are counts: 2 is two copies of a row. Floating-point weights are relative: only their
# ratios matter, and they are scaled to sum to the effective number of rows,
#
# .. math:: n_{\mathrm{eff}} = \Big(\sum_i w_i\Big)^2 \Big/ \sum_i w_i^2 .
#
# Checked weights are float64 and sum to the number of rows that they count as. Counts are whole
# numbers. Scaled relative weights are not, except for 0 and 1. So the weights of a subset of the
# rows show whether they are counts.


# Allowed range of the sum of sample weights, whose squares do not overflow or underflow.
WEIGHT_LOW, WEIGHT_HIGH = 1e-100, 1e100
# Largest sum of counts: float64 represents all whole numbers up to 2**53.
MOST_COUNTED = 2**53
# Largest plausible mean of counts. Integer weights with a larger mean, none of them 1, are probably
# relative weights, and give a warning.
MOST_OF_MEAN = 10
OF_COUNTS = "sample_weight contains whole numbers"
# The largest float64 number below 1.
BELOW_ONE = 1 - 2**-53


def check_weight(
    sample_weight: ArrayLike | None,
    n_rows: int,
    name: str = "sample_weight",
    *,
    scaled: bool = True,
    labels: Any = None,
    warn: bool = False,
) -> NDArray[np.float64]:
    """Check sample weights; return weights that sum to the effective number of rows.

    None gives weights of 1. Negative weights are refused, and weights that are all 0. Without
    `scaled`, relative weights keep their values, so that they can be compared with those of other
    batches. If `labels` are a tensor, the weights are a tensor on the same device. With `warn`,
    whole numbers that may be relative weights give a warning.
    """
    if sample_weight is None:
        return labels.new_ones(n_rows).double() if is_tensor(labels) else np.ones(n_rows)
    if is_tensor(labels):
        tensor = _on_device(sample_weight, labels, scaled)
        if tensor is not None:
            return tensor
        w = check_weight(sample_weight, n_rows, name, scaled=scaled, warn=warn)
        return as_type_of(w, labels)
    checked = read_weight(sample_weight, n_rows, name)
    w = checked.astype(np.float64, copy=False)
    if checked.dtype.kind == "f":
        return _scaled(w) if scaled else w
    n, total = (w > 0).sum(), w.sum()
    if warn and total > MOST_OF_MEAN * n and not (w == 1).any():
        warnings.warn(
            f"{OF_COUNTS}, none of them 1, among {n:,} rows: these counts are read as "
            f"{total:,.0f} rows; if they are relative weights, pass w.astype(float).",
            stacklevel=4,
        )
    return w


def _on_device(weights: Any, labels: Any, scaled: bool) -> Any:
    """Check weights that are a tensor on the device of the labels; return None otherwise."""
    if not is_beside(weights, labels) or weights.shape != labels.shape:
        return None
    w, are_counts = weights.detach().double(), not weights.is_floating_point()
    total = float(w.sum())
    valid = float(w.amin()) >= 0 and total >= WEIGHT_LOW
    if not valid or total > (MOST_COUNTED if are_counts else WEIGHT_HIGH):  # also refuses NaN
        return None
    return w if are_counts or not scaled else _scaled(w)


def read_weight(
    sample_weight: ArrayLike, n_rows: int, name: str = "sample_weight"
) -> NDArray[np.int64] | NDArray[np.float64]:
    """Read sample weights: return counts as int64, and relative weights as float64."""
    if isinstance(sample_weight, numbers.Number):
        sample_weight = np.full(n_rows, sample_weight)
    sample_weight = from_tensor(name, sample_weight)
    with naming_errors_of(name, sample_weight, "pass one number for each row"):
        array = np.asarray(sample_weight)
        if array.dtype.kind in "cmMV":
            raise ValueError(f"{array.dtype} numbers cannot be weights")
        w = array.astype(np.float64)
    if w.ndim != 1:
        raise ValueError(
            f"{name} must be a 1D array with a weight for each row; got shape {w.shape}."
        )
    if w.shape[0] != n_rows:
        raise ValueError(
            f"{name}.shape == {w.shape}, expected {(n_rows,)}: give one weight for each row."
        )
    bad = np.flatnonzero(~(np.isfinite(w) & (w >= 0)))
    if bad.size:
        raise ValueError(
            f"{name} must be finite and non-negative; row {bad[0]} has {w[bad[0]]:.6g}."
        )
    if not w.any():
        raise ValueError(f"{name}: all weights are zero; at least one has to be positive.")
    with np.errstate(over="ignore"):
        total = float(w.sum())
    if _are_counts(array):
        if total > MOST_COUNTED:
            raise ValueError(
                f"{name}: integers are counts of rows, and these sum to {total:.3g}, more than "
                "2**53; pass floats for weights of which only the ratios matter."
            )
        return w.astype(np.int64)
    if not WEIGHT_LOW <= total <= WEIGHT_HIGH:
        raise ValueError(
            f"{name} sums to {total:.3g}, outside [{WEIGHT_LOW:g}, {WEIGHT_HIGH:g}]; divide "
            "the weights by their mean."
        )
    return w


def _are_counts(w: NDArray[Any]) -> bool:
    """Return whether all weights are integers or booleans."""
    if w.dtype.kind == "O":
        return all(isinstance(each, numbers.Integral | np.bool_) for each in w.tolist())
    return w.dtype.kind in "biu"


def is_whole(w: NDArray[np.float64]) -> bool:
    """Return whether all checked weights are whole numbers: counts, or 0 and 1."""
    return bool((w == w.round()).all())


def effective(w: NDArray[np.float64]) -> NDArray[np.float64]:
    """Scale the weights of a subset of rows to the effective number of rows of the subset."""
    return w if is_whole(w) else _scaled(w)


def as_sample_weight(w: NDArray[np.float64]) -> NDArray[Any]:
    """Convert checked weights to a `sample_weight` argument: counts become integers."""
    return w.astype(np.int64) if is_whole(w) else w


def _scaled(w: NDArray[np.float64]) -> NDArray[np.float64]:
    """Scale relative weights to sum to the effective number of rows."""
    positive = w > 0
    if not positive.all():  # rows of weight 0 must not affect rounding errors of sums
        scaled = 0 * w
        scaled[positive] = _scaled(w[positive])
        return scaled
    scaled = w / w.max()  # prevents an underflow of squared weights
    if scaled.min() < 1:
        scaled *= scaled.sum() / (scaled @ scaled)
        # Scaled weights must not be whole numbers such as 2.0, which would be read as counts.
        scaled[(scaled > 1) & (scaled == scaled.round())] *= BELOW_ONE
    return scaled


def check_lengths(y: NDArray[Any], n_rows: int, y_name: str, S_name: str) -> None:
    """Refuse labels and scores with different numbers of rows."""
    if y.shape[0] != n_rows:
        raise ValueError(
            f"Found input variables with inconsistent numbers of samples: {S_name} has "
            f"{n_rows} rows, {y_name} has {y.shape[0]}; they must have the same rows."
        )


def drop_zero_weight(
    S: Source, code: NDArray[Any], w: NDArray[np.float64]
) -> tuple[Source, NDArray[Any], NDArray[np.float64]]:
    """Drop rows of weight 0 from scores, labels and weights."""
    if (keep := w > 0).all():
        return S, code, w
    rows = np.flatnonzero(on_host(keep))
    # Indexing with row numbers is three times as fast as with a mask. Tensors need a mask.
    index = rows if isinstance(keep, np.ndarray) else keep
    return take_rows(S, rows), code[index], w[index]


# Clusters of dependent rows, such as the rows of one patient: each row has a cluster label.


# Smallest number of clusters of dependent rows for a confidence interval.
FEWEST = 3


def read_clusters(clusters: Any, w: NDArray[np.float64]) -> NDArray[np.intp] | None:
    """Read cluster labels; return the cluster number of each row with a positive weight.

    `w (n,)` are the checked weights of all rows. Labels of rows of weight 0 are ignored.
    """
    (clusters,) = compute_now(clusters)
    read = read_groups(clusters, w.size, "clusters")
    if len(read.names) > 1:
        raise ValueError(
            f"clusters has {len(read.names)} columns: pass one label for each row; if clusters "
            "are nested, pass the outermost one (the hospital, not the patient)."
        )
    lost = np.flatnonzero((w > 0) & ~read.complete[read.code])
    if lost.size:
        raise ValueError(
            f"clusters has no label in row {lost[0]}: give each row a label, and a row without a "
            "cluster a label of its own."
        )
    size = np.bincount(read.code, w)
    number, share = int((size > 0).sum()), float(size.max() / size.sum())
    if number < FEWEST:
        raise ValueError(
            f"clusters has {number} different label{'s' * (number != 1)}: an interval needs "
            f"{FEWEST}. Without clusters=, the interval describes only the clusters in the data."
        )
    if share > 0.5:
        name, equal = read.labels[size.argmax()][0], size.sum() ** 2 / (size @ size)
        warnings.warn(
            f"clusters: {name!r} has {100 * share:.0f} % of the rows, so that the {number} "
            f"clusters count as {equal:.2g} of equal size: intervals are wide.",
            stacklevel=4,
        )
    return numbered(read.code[w > 0], w[w > 0])


def numbered(code: NDArray[Any], w: NDArray[np.float64]) -> NDArray[np.intp] | None:
    """Renumber C clusters of dependent rows as 0 to C - 1, in order of first appearance.

    None if rows are independent: each row is its own cluster, and no row counts as several.
    """
    number, labels = pd.factorize(code)
    alone = labels.size == code.size and not (is_whole(w) and (w > 1).any())
    return None if alone else number


# Conversion of scores, labels and weights to arrays.


# Names of the arguments of `fit` in error messages: scores, labels, and labels of the columns.
NAMES = ("X", "y", "classes")


@dataclass(frozen=True)
class ConvertedRows:
    """Scores, labels and weights of the same rows, converted to arrays.

    A row of weight 0 has the scores and the label of another row. ``X`` are the scores of the
    caller; columns of a frame are in the order of the classes. ``scores (n, K)`` are the same
    scores as a source. ``labels (n,)`` are the labels. ``weights`` are the weights of the caller, 0
    in rows of an ignored label, or None. ``classes (K,)`` are the labels of the columns; None if
    they have to be inferred. ``by_position`` is true if columns have no names, and `classes` was
    not passed. ``shares`` are soft labels: ``(n, K)`` of several raters, ``(n, 2)`` of one event,
    else None. ``order (K,)`` is the index of each column of a frame among the classes if the frame
    was read by name, else None.
    """

    X: Any
    scores: Source
    labels: NDArray[Any]
    weights: Any
    classes: ArrayLike | None
    by_position: bool
    shares: Float64Array | None = None
    order: Intp | None = None


def are_plain(X: Any, y: Any, w: Any) -> bool:
    """Return whether scores, labels and weights are arrays that need no conversion."""
    if not (type(X) is type(y) is np.ndarray and X.ndim == 2 and X.size > 0):
        return False
    if not (X.dtype in (np.float64, np.float32) and y.dtype.kind in "iubU"):
        return False
    are_above_0 = w is None or (type(w) is np.ndarray and rows_replacing_weight_0(w) is None)
    return are_above_0 and y.shape == X.shape[:1]


def convert_rows(
    X: Any,
    y: Any,
    sample_weight: Any,
    classes: ArrayLike | None,
    names: tuple[str, str, str] = NAMES,
    *,
    sort: bool = True,
    in_fit: bool = False,
    ignore_index: Any = None,
    **keywords: Any,
) -> ConvertedRows:
    """Convert scores, labels and weights to arrays.

    `names` are the names of the arguments in messages. `classes` are in the order of the columns;
    with `sort`, the classes of a frame are sorted. With `in_fit`, messages say that the columns of
    a calibrator must be in sorted order. Keywords are those of `read_labels`.
    """
    if ignore_index is None and are_plain(X, y, sample_weight):
        unnamed = classes is None and X.shape[1] > 1
        return ConvertedRows(X, ArraySource(X), y, sample_weight, classes, unnamed)
    X_name, y_name, argument = names
    X, y, sample_weight = read_remote(X, y, sample_weight, X_name, y_name)
    if ignore_index is not None:
        sample_weight = ignore_label(y, sample_weight, ignore_index)
    standing = rows_replacing_weight_0(sample_weight)
    y = replace_absent_rows(y, standing)
    keywords.update(warn=in_fit, ignore_index=ignore_index)
    labels, shares, classes = read_labels(X, y, classes, names, **keywords)
    is_soft = are_soft(labels)
    order: Intp | None = None
    if not is_soft:
        unordered = classes
        X, classes, order = name_columns(
            X, labels, unordered, name=X_name, argument=argument, sort=sort
        )
        if shares is not None and sort and order is not None:
            shares = shares[:, np.argsort(np.asarray(unordered))]
    S = read_scores(X, X_name)
    if standing is not None and S.remote is None and S.shape[0] == standing.size:
        S = take_rows(S, standing)
    check_lengths(labels, S.shape[0], y_name, X_name)
    if shares is not None:
        check_shape(shares, S, y_name, X_name)
    if is_soft:
        check_soft_hits(labels, S, classes, names)
        labels, shares = np.ceil(labels), shares_of_soft(labels)
        classes = [0, 1] if classes is None else classes
    n_columns = S.shape[1]
    by_position = classes is None and n_columns > 1
    if classes is None and (by_position or in_fit):
        classes = read_categories(y, n_columns, name=y_name, argument=argument, sort=in_fit)
    return ConvertedRows(X, S, labels, sample_weight, classes, by_position, shares, order)


# The input of a metric: checked labels and probabilities.


# Names of the arguments of a metric in error messages: scores, labels, and labels of the columns.
METRIC_NAMES = ("y_proba", "y_true", "labels")
# Names of the metrics that accept soft labels, which the error message of other metrics lists.
TAKERS = "expected_calibration_error, ks_calibration_error or top_label_brier_score"

Metric = TypeVar("Metric", bound=Callable[..., Any])


class Predictions(NamedTuple):
    """Checked predictions, labels and weights, the input of every metric.

    ``P (n, K)`` are probabilities, ``code (n,)`` is the column of the true class, ``w (n,)`` are
    float64 weights, and ``classes (K,)`` the labels of the columns. ``event`` is the column of the
    measured event. ``event_by`` is the reason why it is measured: there is one column (stored here
    as two), there are two columns, or ``pos_label`` was passed. Both are None if all classes are
    measured. ``order (K,)`` are the classes in the order of the columns of a frame that was read by
    name. ``cluster (n,)`` are the numbers of the clusters; None if rows are independent.

    For soft labels, ``code (n, K)`` contains the share of each class as float64.
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
        """Number of clusters of dependent rows; None if rows are independent."""
        return None if self.cluster is None else int(self.cluster.max()) + 1

    @property
    def units(self) -> NDArray[np.intp]:
        """Cluster of dependent rows of each row, as a number; row numbers without clusters."""
        return np.arange(len(self.code)) if self.cluster is None else self.cluster

    @property
    def are_shares(self) -> bool:
        """Whether labels are soft labels, with a number for each class."""
        return self.code.ndim == 2

    def of_event(self) -> tuple[FloatArray, NDArray[Any]]:
        """Return the probability of the event in each row, and the outcome (or soft label)."""
        assert self.event is not None
        return self.column(self.event), self.hits(self.event)

    def hits(self, predicted: NDArray[np.intp] | int) -> NDArray[Any]:
        """Return whether the predicted class is correct in each row, or its soft label."""
        if self.are_shares:
            return self.code[np.arange(len(self.code)), predicted]
        return self.code == predicted

    def split(self) -> Predictions:
        """Replace each row with soft labels by several weighted rows with a single label."""
        return self._rows(*split_shares(self.code, self.w)) if self.are_shares else self

    def column(self, k: int) -> FloatArray:
        """Return the probability of class k in each row."""
        return self.P.read(ALL, slice(k, k + 1))[:, 0]

    def of_classes(self, values: NDArray[np.float64], y_proba: Any) -> Any:
        """Return class-wise results: a Series if columns have names, otherwise an array.

        The Series has the order of the columns of the frame. The array has the order of the classes
        and is on the device of `y_proba`.
        """
        if self.order is None:
            return as_dispatched(values, y_proba)
        return pd.Series(values, pd.Index(self.classes)).iloc[self.order]

    def take(self, rows: NDArray[np.intp]) -> Predictions:
        """Select rows, and scale their weights to the effective number of rows."""
        return self._rows(rows, self.code[rows], effective(self.w[rows]))

    def _rows(self, rows: NDArray[np.intp], code: Any, w: NDArray[np.float64]) -> Predictions:
        cluster = None if self.cluster is None else numbered(self.cluster[rows], w)
        return self._replace(P=take_rows(self.P, rows), code=code, w=w, cluster=cluster)

    def named(self, pos_label: Any) -> Predictions:
        """Return the predictions with the class `pos_label` as the measured event."""
        column = class_column(pos_label, self.classes, "pos_label")
        return self._replace(event=column, event_by="pos_label")

    def without_event(self) -> Predictions:
        """Return the predictions without an event: all classes are measured."""
        return self._replace(event=None, event_by=None)

    def as_classes(self) -> Predictions:
        """Return predictions without an event, unless `pos_label` or one column names the event."""
        return self.without_event() if self.event_by == "columns" else self

    def of_mode(self, mode: str | None, r: int = 1, average: str | None = "macro") -> Predictions:
        """Return the predictions for a metric's mode; modes that rank classes have no event.

        With ``average=None`` there is no event either, because each class is measured.
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
    """Mark a metric as accepting `Predictions` objects in place of arrays."""
    metric.takes_predictions = True  # type: ignore[attr-defined]
    return metric


def check_chunk(P: Source, rows: range) -> tuple[Survey, bool]:
    """Check a Dask chunk of probabilities; return its summary, and whether it stays unchanged."""
    survey = survey_rows(P, rows, "y_proba", SUM_TOLERANCE_DECLARED)
    return survey, survey.is_simplex and not survey.is_rounded


def as_probabilities(P: Source, survey: Survey) -> Source:
    """Return probabilities with a column for each class; refuse rows that do not sum to 1."""
    if not survey.is_simplex:
        raise ValueError(
            f"y_proba: {first_flaw(P, survey)}; pass class probabilities (the softmax of "
            "logits, percentages divided by 100, or rows divided by their sum)."
        )
    return as_columns(P, survey, "proba", name="y_proba")


def _as_probabilities_of_chunks(P: Source, surveys: list[Survey]) -> Source:
    return as_probabilities(P, merge_surveys(surveys))


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

    With `on_device`, codes and weights may be tensors if no single event is measured. With
    `options`, NaN in several columns marks a class that is not available in the row, and
    rows are not divided by their sums. `way` is the advice in the warning about the order of the
    columns.

    `y_proba` may be checked predictions, which include labels and weights, so that a metric that is
    evaluated a thousand times checks its data once. Soft labels are refused, with the name of the
    `caller`, unless `soft` is true.
    """
    if isinstance(y_proba, Predictions):
        if y_proba.are_shares and not soft:
            refuse_soft(y_proba.code, "y_true", caller, TAKERS)
        return y_proba if pos_label is None else y_proba.named(pos_label)
    names, keywords = METRIC_NAMES, {"shares": soft, "on_device": on_device}
    rows = convert_rows(y_proba, y_true, sample_weight, labels, names, sort=False, **keywords)
    if rows.shares is not None and not soft:
        refuse_soft(rows.shares, "y_true", caller, TAKERS)
    P, n_columns = rows.scores, rows.scores.shape[1]
    if n_columns == 1:
        refuse_labels(rows.X, name="y_proba")
    if P.remote is None:
        n = P.shape[0]
        survey = survey_rows(P, range(n), "y_proba", SUM_TOLERANCE_DECLARED, options=options)
        # If classes can be masked (NaN), rows are not divided by their sums.
        survey = survey._replace(largest_error=0.0) if options else survey
        P, by_position = as_probabilities(P, survey), rows.by_position and not survey.has_nan
    else:  # chunks are read once: the first pass checks them
        by_position = False
        P = P.remote.checked(check_chunk, partial(_as_probabilities_of_chunks, P))
    w = check_weight(rows.weights, P.shape[0], labels=rows.labels, warn=True)
    read = read_event(rows.labels, rows.classes, n_columns, pos_label, METRIC_NAMES)
    code: Any = read.code if rows.shares is None else rows.shares
    if read.column is not None:
        code, w = on_host(code), on_host(w)
    if n_columns == 1:
        other = "pass pos_label= with its label, or 1 - y_proba with another name"
        P = in_class_order(P, rows.X, read, "y_proba", other)
    cluster = None if clusters is None else read_clusters(clusters, w)
    if rows.weights is not None:
        P, code, w = drop_zero_weight(P, code, w)
    if by_position:
        warn_of_order(P, code, w, read.classes, way)
    return Predictions(P, code, w, read.classes, read.column, read.event_by, rows.order, cluster)
