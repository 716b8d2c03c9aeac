"""Formulas of calibrated probabilities, and the operations that compute them in NumPy."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from copy import copy
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array

from skcalib._arrays.rowwise import (
    TALL_BLOCK_BYTES,
    Bools,
    Clip,
    Float64Array,
    FloatArray,
    Intp,
    Kind,
    block_order,
    column_blocks,
    row_max,
    row_sums,
)
from skcalib._arrays.sources import ALL
from skcalib._scaling.affine_softmax import affine_softmax
from skcalib._scaling.logistic import expit
from skcalib._scores.scores import (
    ABSENT,
    LEAST_CLIP,
    MOST_ODDS,
    Scores,
    log_sum_exp,
    softmax_inplace,
)

# Parts of the formulas of calibrators: values, constants, and plans, which say how to compute a
# prediction.
#
# NumPy computes formulas for blocks of scores, PyTorch for tensors, and ONNX stores formulas as a
# graph. A value is a matrix ``(n, K)`` or ``(n, 1)`` of float64, integers or booleans. Values and
# constants support ``+ - * / < <= > >= & ~``, also with Python numbers, which do not change the
# type of a value. A formula does not change values in place, because PyTorch needs them for
# gradients.


# Probabilities that are computed from logits count as equal up to this relative rounding error,
# because exponentials of two libraries, or of two entries of an array, may differ in their last
# bits.
ROUNDING = 16 * float(np.finfo(np.float64).eps)
# Factor by which x is multiplied in piecewise linear functions. Without this factor, the slope
# between two values of x below 1e-308 would overflow. A power of two changes no other result.
LIFT = 2.0**60

Value = Any
Constants = dict[str, Any]
# Array operations that prediction formulas may use. `ArrayOperations` documents each of them.
Operations = Any


@dataclass(frozen=True)
class Piecewise:
    """Piecewise functions of columns (or one for all), from ascending `x` to values `y`."""

    x: Sequence[NDArray[Any]] | NDArray[Any]
    y: Sequence[NDArray[Any]] | NDArray[Any]

    def take_columns(self, columns: slice) -> Self:
        """Return the functions of some columns; a single function applies to all columns."""
        return self if len(self.x) == 1 else type(self)(self.x[columns], self.y[columns])


class Steps(Piecewise):
    """Step functions with m breakpoints and m + 1 values."""


class Lines(Piecewise):
    """Piecewise linear functions through points, constant beyond the first and the last point."""


class Plan(NamedTuple):
    """The formula of a prediction and its constants.

    Attributes
    ----------
    formula : callable
        ``formula(o, c)`` returns probabilities ``(n, K)``, given operations and constants.
    constants : dict
        Numbers, arrays that broadcast against ``(n, K)``, `Steps` and `Lines`, by name.
    label : str
        How the predicted class is determined. "largest": the first of the largest probabilities.
        "near", for a softmax of logits times a number: the first of the probabilities that are the
        largest up to rounding errors, because exponentials of equal logits may differ in the last
        bit. "top": the class of the largest score.
    """

    formula: Callable[..., Value]
    constants: Constants
    label: str = "largest"


class ColumnPlan(NamedTuple):
    """The formula of a prediction with a separate function for each class, and its constants.

    Rows are then divided by their sums. With two classes and `first` = 1 there is one function, for
    the second class.

    Attributes
    ----------
    formula : callable
        ``formula(o, x, c)`` returns values in [0, 1] for columns ``x (n, m)``, or log-odds if
        `read` is "log_odds".
    constants : dict
        As for a `Plan`, with a column for each function; NumPy passes only some of the columns.
    first : int
        The first class that has a function.
    read : {"proba", "log_odds", "ordered"}
        Whether columns are probabilities, log-odds, or numbers by which scores are sorted:
        probabilities, or log-odds for logits.
    """

    formula: Callable[..., Value]
    constants: Constants
    first: int
    read: Literal["proba", "log_odds", "ordered"] = "proba"
    label: str = "largest"


def steps_from(x: Sequence[NDArray[Any]], y: Sequence[NDArray[Any]]) -> Steps:
    """Return step functions with value ``y[j]`` from ``x[j]`` on, and ``y[0]`` below ``x[0]``."""
    return Steps([each[1:] for each in x], y)


def steps(o: Operations, p: Value, c: Constants, **keywords: bool) -> Value:
    """Apply the step functions ``c["map"]`` to columns; pass keywords to ``o.steps``."""
    return o.steps(c["map"], p, **keywords)


def lines(o: Operations, p: Value, c: Constants) -> Value:
    """Apply the piecewise linear functions ``c["map"]`` to columns of probabilities."""
    return o.lines(c["map"], p)


def row(values: Any) -> NDArray[np.float64]:
    """Convert m numbers, one for each column, to a constant of shape ``(1, m)``."""
    return np.asarray(values, dtype=np.float64)[None]


# Tables of piecewise functions for PyTorch and ONNX, with a search tree of the breakpoints.
#
# A node of the tree is a row of 16 entries, two cache lines: an empty entry and 15 breakpoints. The
# number of breakpoints below a score determines the row of the next level. After the last level,
# this number is the index of the value of the function, in an array with one more value than
# breakpoints for each function. Each 16th breakpoint of a level is in the level above. The first
# level has one row for each function. These rows may have another length than 16.


# Number of entries in a row of the search tree, and largest number of entries in a row of its first
# level. Both numbers are powers of 2.
WIDTH, MOST_FIRST = 16, 32


def tables(maps: Piecewise) -> dict[str, NDArray[Any]]:
    """Convert step functions or piecewise linear functions to arrays with names.

    Piece j of a linear function has the value ``level[j] + slope[j] * (LIFT * p - left[j])``.
    """
    if isinstance(maps, Steps):
        pairs = [_changes(*pair) for pair in zip(maps.x, maps.y, strict=True)]
        level = np.concatenate([values for _, values in pairs])
        return _tree([limits for limits, _ in pairs]) | {"level": level}
    x = [knots * LIFT for knots in maps.x]
    slopes = [
        np.concatenate([[0.0], np.diff(y) / np.diff(knots), [0.0]])
        for knots, y in zip(x, maps.y, strict=True)
    ]
    return {
        **_tree(x),
        "level": np.concatenate([np.append(y[:1], y) for y in maps.y]),
        "left": np.concatenate([np.append(knots[:1], knots) for knots in x]),
        "slope": np.concatenate(slopes),
    }


def _changes(limits: NDArray[Any], values: NDArray[Any]) -> tuple[NDArray[Any], NDArray[Any]]:
    """Remove the breakpoints between equal values from a step function."""
    changes = values[1:] != values[:-1]
    return limits[changes], values[np.append(True, changes)]


def _tree(limits: Sequence[NDArray[Any]]) -> dict[str, NDArray[Any]]:
    entries = [np.append(np.nan, own) for own in limits]
    start = _starts(entries)
    levels = []
    while (most := max(own.size for own in entries)) > MOST_FIRST:
        rows = [_fill_rows(own, WIDTH) for own in entries]
        levels.append((rows, start))
        entries, start = [own[::WIDTH] for own in entries], _starts(rows)
    width = max(2, 1 << int(most - 1).bit_length())
    levels.append(([_fill_rows(own, width) for own in entries], start))
    arrays: dict[str, NDArray[Any]] = {"row": np.arange(len(limits))[None]}
    for j, (rows, start) in enumerate(reversed(levels)):
        table = np.concatenate(rows)
        arrays[f"limits{j}"] = table
        arrays[f"shift{j}"] = (start - table.shape[1] * _starts(rows))[None]
    return arrays


def _starts(parts: Sequence[NDArray[Any]]) -> NDArray[np.int64]:
    """Return the index at which each array begins in the concatenation of all arrays."""
    return np.cumsum([0, *(len(own) for own in parts[:-1])], dtype=np.int64)


def _fill_rows(entries: NDArray[Any], width: int) -> NDArray[np.float64]:
    """Arrange entries in rows, with NaN in place of each row's first entry and at the end."""
    rows = np.full((-(-entries.size // width), width), np.nan)
    rows.ravel()[: entries.size] = entries
    rows[:, 0] = np.nan
    return rows


# Operations for PyTorch and ONNX: conversions of scores, and searches in trees.
#
# Scores are converted in the same order as in NumPy, so that results differ only by the last bit of
# an exponential or a logarithm, and by the order of sums.


# Logits below this number count as -inf. The number is within the range of float32. Finite logits
# are at most 1e30 in absolute value.
LEAST_LOGIT = -3e38


def fill_plan(
    plan: Plan | ColumnPlan,
    n_classes: int,
    clip: Clip | None,
    options: bool,
    any_zero: bool | Bools,
) -> Plan | ColumnPlan:
    """Return a plan whose constants are all arrays, including the clip and the search trees."""
    constants = {name: _constant(value, n_classes) for name, value in plan.constants.items()}
    constants["places"] = np.arange(n_classes)[None]
    if clip is not None:
        # If logits of -inf mark classes that are not available, their exponentials are 0.
        log_clip = LEAST_LOGIT if options else np.log(clip)
        constants |= {"clip": np.asarray(clip), "log_clip": np.asarray(log_clip)}
        constants["least"] = np.where(any_zero, clip, LEAST_CLIP)
    return plan._replace(constants=constants)


def _constant(value: Any, n_classes: int) -> Any:
    if isinstance(value, Piecewise):
        return tables(value)
    # A single number is repeated for all columns, because ONNX Runtime leaves out a multiplication
    # by a single number near 1.
    return np.asarray(value) if np.ndim(value) else np.full((1, n_classes), float(value))


def scaled(x: Value, share: float) -> Value:
    """Return ``x (1 + share)``, computed as a sum.

    ONNX Runtime omits a product with a number that is 1 in float32.
    """
    return x + x * share


def probabilities(
    o: Any, plan: Plan | ColumnPlan, c: Constants, x: Value, kind: Kind, n_classes: int
) -> Value:
    """Compute calibrated probabilities of scores ``x (n, K)`` by operations of PyTorch or ONNX."""
    o = copy(o)
    o.c, o.x, o.kind, o.n_classes = c, x, kind, n_classes
    if isinstance(plan, Plan):
        q = plan.formula(o, c)
    else:
        # With two classes, log-odds are the difference of two logits, whose rounding error is
        # proportional to the difference.
        o.noise = float(plan.read == "ordered" and kind == "logits" and n_classes > 2)
        columns = getattr(o, plan.read)()
        of_odds = plan.read == "log_odds"
        columns = columns if of_odds else o.rounded(columns)
        columns = o.columns(columns, plan.first, n_classes) if plan.first else columns
        q = plan.formula(o, columns, c)
        rest = o.expit(-q) if of_odds else 1.0 - o.rounded(q)
        q = o.expit(q) if of_odds else o.rounded(q)
        q = o.concat(rest, q) if plan.first else o.normalise(q)
    if "prior_ratio" in c:
        q = q * c["prior_ratio"]
        q = o.where(o.row_sum(q) > 0.0, q, c["priors"])
        q = q / o.row_sum(q)
    return q


class SharedOperations:
    """Operations of prediction formulas, composed of operations that PyTorch and ONNX have.

    `x` are the scores ``(n, K)`` of a `kind`, `c` are the constants of the formula, and `epsilon`
    is the distance from 1 to the next number in the type of the scores. NumPy inherits only
    `map_rows`, `columns`, `log_tail` and `share_equally`.
    """

    # Whether it is known that all logits are finite.
    finite = False
    # The rounding error of an entry is proportional to its absolute value plus this number.
    noise = 1.0

    def proba(self: Any) -> Value:
        return self.x if self.kind == "proba" else self.softmax(self.x)

    def logits(self: Any) -> Value:
        if self.kind == "proba":
            return self.log(self._clipped())
        if self.finite:
            return self.x
        floor = self.log_sum_exp(self.x) + self.c["log_clip"]
        return self.where(self.x > LEAST_LOGIT, self.x, floor)

    def _clipped(self: Any) -> Value:
        """Replace probabilities of 0 by the clip, in the same way as `clip_of_rows`."""
        smallest = -self.row_max(self.where(self.x > 0.0, -self.x, -1.0))
        zero = self.minimum(smallest * 0.5, self.c["clip"])
        return self.maximum(self.x, self.maximum(zero, self.c["least"]))

    def ordered(self: Any) -> Value:
        if self.kind == "proba":
            return self.x
        odds = self.log_odds_of(self.maximum(self.x, LEAST_LOGIT))
        return self.clip(odds, -MOST_ODDS, MOST_ODDS)

    def log_proba(self: Any) -> Value:
        """Return the logarithms of the clipped probabilities of the scores."""
        if self.kind == "proba":
            return self.logits()
        return self.maximum(self.x - self.log_sum_exp(self.x), self.c["log_clip"])

    def log_odds(self: Any) -> Value:
        """Return the log-odds of each class against the rest, ``(n, K)``."""
        if self.kind == "logits":
            return self.log_odds_of(self.logits())
        p = self._clipped()
        if self.n_classes == 2:
            odds = self.log(self.columns(p, 1, 2) / self.columns(p, 0, 1))
            return self.concat(-odds, odds)
        best = self._first_of_largest(p)
        rest = self.row_sum(self.where(best, 0.0, p))
        return self.log(p / self.where(best, rest, (self.row_max(p) + rest) - p))

    def log_odds_of(self: Any, z: Value) -> Value:
        """Return the log-odds of each class against the rest, from logits."""
        if self.n_classes == 2:
            odds = self.columns(z, 1, 2) - self.columns(z, 0, 1)
            return self.concat(-odds, odds)
        best, far = self._first_of_largest(z), z - self.row_max(z)
        rest = self.log_sum_exp(self.where(best, LEAST_LOGIT, far))
        mass = self.where(best, 1.0, 1.0 + self.exp(rest) - self.exp(far))
        return self.where(best, -rest, far - self.log(mass))

    def affine_softmax(
        self: Any,
        coef: Value,
        intercept: Value = None,
        *,
        full: bool = False,
        of_log_proba: bool = False,
    ) -> Value:
        z = self.log_proba() if of_log_proba else self.logits()
        z = self.map_rows(coef, z) if full else z * coef
        return self.softmax(z if intercept is None else z + intercept)

    def first_of_largest(self: Any) -> Value:
        return self._first_of_largest(self.x)

    def _first_of_largest(self: Any, x: Value) -> Value:
        return self.equal(self.c["places"], self.argmax(x))

    def keep_top(self: Any, q: Value) -> Value:
        q = self.rounded(q)
        lost = self.first_of_largest() & ~self._first_of_largest(q)
        return self.where(lost, scaled(self.row_max(q), self.epsilon), q)

    def zero_absent(self: Any, q: Value) -> Value:
        if self.kind == "proba":  # no masked classes: NaN is not supported here
            return q
        return self.normalise(self.where(self.x > LEAST_LOGIT, q, 0.0))

    def normalise(self: Any, q: Value) -> Value:
        """Divide each row by its sum; a row of zeros becomes uniform."""
        q = self.where(self.row_sum(q) <= 0.0, 1.0, q)
        return q / self.row_sum(q)

    def map_rows(self: Any, W: Value, x: Value) -> Value:
        """Multiply each row of ``x (n, K)`` by a constant matrix ``W (m, K)``."""
        return x @ W.T

    def columns(self: Any, x: Value, start: int, stop: int) -> Value:
        """Return the columns from `start` to `stop` - 1 of a matrix."""
        return x[:, start:stop]

    def log_tail(self: Any, x: Value) -> Value:
        """Return log(1 + exp(-abs(x))) for each entry x."""
        return self.log(1.0 + self.exp(-self.absolute(x)))

    def expit(self: Any, x: Value) -> Value:
        # Below -40, the sigmoid of ONNX Runtime is 0, but ratios of such small probabilities still
        # matter.
        return 1.0 / (1.0 + self.exp(-x))

    def lines(self: Any, lines: Any, x: Value, *, computed: bool = False) -> Value:
        x = x * LIFT
        if not computed and self.kind == "proba":
            at = self._passed(lines, x)
            beyond = x - self.take(lines["left"], at)
        else:  # the slope would magnify the rounding error of a score at a knot
            error = (self.absolute(x) + (0.0 if computed else self.noise * LIFT)) * ROUNDING
            at = self._passed(lines, x + error)
            beyond = x - self.take(lines["left"], at)
            beyond = self.where(beyond <= error, 0.0, beyond)
        return self.take(lines["level"], at) + self.take(lines["slope"], at) * beyond

    def steps(
        self: Any,
        steps: Any,
        x: Value,
        *,
        reached: bool = True,
        rounded: bool = False,
        exact: bool = False,
    ) -> Value:
        if self.kind == "logits" and not exact:
            error = (self.absolute(x) + self.noise) * ROUNDING
            x = x + error if reached else x - error
        return self.take(steps["level"], self._passed(steps, x, reached, rounded))

    def _passed(
        self: Any, tree: Constants, x: Value, reached: bool = True, rounded: bool = False
    ) -> Value:
        """Search a tree for each entry of ``x (n, m)``; return indices in the table of values."""
        index = tree["row"]
        for name in tree:
            if name.startswith("limits"):
                limits = self.rounded(tree[name]) if rounded else tree[name]
                shift = tree[name.replace("limits", "shift")]
                index = self.search_rows(limits, index, shift, x, reached)
        return index

    def share_ties(self: Any, best: Value, q: Value, n: int) -> Value:
        before = self.concat(self.columns(best, 0, 1), self.columns(best, 0, n - 1))
        falls = before > (scaled(best, ROUNDING) if self.kind == "logits" else best)
        group = self.cumulative(self.to_int(falls))
        none = q * 0.0
        sums = self.add_along(none, group, q)
        counts = self.add_along(none, group, none + 1.0)
        return self.take_along(sums, group) / self.take_along(counts, group)

    def tied(self: Any, x: Value, y: Value) -> Value:
        error = ROUNDING if self.kind == "logits" else 0.0
        return self.absolute(x - y) <= y * error

    def share_equally(self: Any, q: Value, tied: Value) -> Value:
        """Replace the entries of each row that `tied` marks (at least one) by their mean."""
        mean = self.row_sum(self.where(tied, q, 0.0)) / self.row_sum(self.to_float(tied))
        return self.where(tied, mean, q)

    def ascending(self: Any, x: Value) -> Value:
        falling, _ = self.sorted_top(-x, self.n_classes)
        return -falling


# Predictions in NumPy: operations of prediction formulas on NumPy arrays.


# Size in bytes of the columns that are computed together. It is small because each score is
# compared with several breakpoints.
MAPPED_BYTES = 1 << 18
# Every score is compared with every breakpoint if there are at most FEW_LIMITS breakpoints and at
# least LONG scores per breakpoint. This takes a quarter of the time of a binary search.
FEW_LIMITS, LONG = 32, 64
# If there are more knots than this number, scores are sorted before the search, because each search
# then starts at the result of the previous one.
FEW_KNOTS = 256
# Up to this number of columns, products with rows of mostly zeros are faster if the rows are stored
# as a dense array.
LARGEST_DENSE = 300


def predict(scores: Scores, plan: Plan | ColumnPlan) -> FloatArray:
    """Compute the calibrated probabilities of a block of scores by a formula."""
    o = ArrayOperations(scores)
    with np.errstate(over="ignore"):
        if isinstance(plan, ColumnPlan):
            return _predict_columns(o, plan)
        return plan.formula(o, plan.constants)


def _predict_columns(o: ArrayOperations, plan: ColumnPlan) -> FloatArray:
    n, n_classes = o.scores.shape
    scores = o.scores.ordered() if plan.read == "ordered" else o.scores
    read = scores.reader(plan.read)
    of_odds = plan.read == "log_odds"
    dtype = np.dtype(np.float64) if of_odds else o.dtype
    values = np.empty((n_classes - plan.first, n), dtype=dtype)
    # Columns are computed in small groups, because the computation needs several copies of each
    # column.
    for columns in column_blocks(n, n_classes, TALL_BLOCK_BYTES, plan.first):
        block = read(columns)
        start = columns.start - plan.first
        for part in column_blocks(n, len(block), MAPPED_BYTES):
            maps = slice(start + part.start, start + part.stop)
            constants = take_columns(plan.constants, maps)
            mapped = plan.formula(o, block[part].T, constants)
            values[maps] = (expit(mapped) if of_odds and not plan.first else mapped).T
    if plan.first:
        q = values[0]
        # For log-odds q above 37, 1 - expit(q) would be 0, so that expit(-q) is used.
        return np.column_stack([expit(-q), expit(q)] if of_odds else [1 - q, q])
    return normalise_rows(values.T)


def take_columns(constants: Constants, maps: slice) -> Constants:
    """Return the constants of some columns; constants that all columns share are unchanged."""

    def choose(value: Any) -> Any:
        if isinstance(value, Piecewise):
            return value.take_columns(maps)
        return value if np.shape(value)[-1:] in ((), (1,)) else value[:, maps]

    return {name: choose(value) for name, value in constants.items()}


def normalise_rows(Q: FloatArray) -> FloatArray:
    """Divide each row of non-negative `Q` by its sum, in place; a row of zeros becomes uniform."""
    total = row_sums(Q.astype(np.float64, copy=False))
    empty = total <= 0.0
    if empty.any():
        Q[empty] = 1.0
        total[empty] = Q.shape[1]
    return np.divide(Q, total[:, None], out=Q, casting="same_kind")


def keep_top(P: FloatArray, top: Intp) -> FloatArray:
    """Make column `top` the first largest column of each row, in place, despite rounding errors."""
    lost = np.flatnonzero(P.argmax(axis=1) != top)
    # In the rows `lost`, several classes have the largest probability up to rounding errors. So
    # this probability is below 1 and can be raised.
    P[lost, top[lost]] = np.nextafter(P[lost].max(axis=1), P.dtype.type(1))
    return P


class ArrayOperations(SharedOperations):
    """Operations of prediction formulas in NumPy, on float64 arrays for a block of scores.

    Sums, maxima and indices are those of each row.
    """

    def __init__(self, scores: Scores) -> None:
        self.scores, self.dtype, self.n_classes = scores, scores.dtype, scores.shape[1]

    def proba(self) -> Float64Array:
        """Return the uncalibrated probabilities of the scores."""
        return self.scores.proba(ALL)

    def logits(self) -> Float64Array:
        """Return finite logits; probabilities are clipped, and replaced by their logarithms."""
        return self.scores.logits(ALL)

    def ordered(self) -> Float64Array:
        """Return numbers that sort the classes: probabilities, or the log-odds of logits."""
        if self.scores.kind == "proba":
            return self.proba()
        odds = self.scores.ordered().log_odds_columns(slice(0, self.n_classes)).T
        return np.clip(odds, -MOST_ODDS, MOST_ODDS, order=block_order(self.n_classes))

    def affine_softmax(
        self, coef: Any, intercept: Any = None, *, full: bool = False, of_log_proba: bool = False
    ) -> FloatArray:
        """Return softmax(W z + b), where z are logits or log-probabilities.

        `coef` is W if `full`, and else the diagonal of W, a number or ``(K,)``.
        """
        scores = self.scores.log_proba() if of_log_proba else self.scores
        Z = scores.finite_logits(ALL)
        return affine_softmax(Z, coef, intercept, scores.max_abs_logit, scores.out)

    def keep_top(self, q: FloatArray) -> FloatArray:
        """Ensure that the class with the largest score has the first of the largest probabilities.

        Probabilities are rounded to the type of the scores first.
        """
        return keep_top(q.astype(self.dtype, copy=False), self.scores.best(ALL))

    def zero_absent(self, q: FloatArray) -> FloatArray:
        """Set probabilities of unavailable classes (logits of -inf) to 0; normalise each row."""
        if self.scores.max_abs_logit < np.inf:
            return q
        return normalise_rows(np.where(self.logits() > ABSENT, q, 0.0))

    # Functions that NumPy applies to each entry.
    exp: Any = staticmethod(np.exp)
    absolute: Any = staticmethod(np.abs)
    log: Any = staticmethod(np.log)
    sin: Any = staticmethod(np.sin)
    maximum: Any = staticmethod(np.maximum)
    minimum: Any = staticmethod(np.minimum)
    where: Any = staticmethod(np.where)
    clip: Any = staticmethod(np.clip)
    # The softmax of each row, and the sigmoid 1 / (1 + exp(-x)), which is accurate for small
    # results. Both functions may overwrite x.
    softmax: Any = staticmethod(softmax_inplace)
    expit: Any = staticmethod(expit)
    # `normalise` divides each row by its sum. A row of zeros becomes uniform. The function may
    # overwrite x.
    normalise: Any = staticmethod(normalise_rows)
    # `tied` returns whether two probabilities are equal, and `ascending` sorts the entries of each
    # row.
    tied: Any = staticmethod(np.equal)
    ascending: Any = staticmethod(np.sort)

    def take_along(self, x: NDArray[Any], index: NDArray[Any]) -> NDArray[Any]:
        """Return the entries of each row at the indices for this row."""
        return np.take_along_axis(x, index, axis=1)

    def lines(self, lines: Lines, x: FloatArray, *, computed: bool = False) -> Float64Array:
        """Apply a piecewise linear function to each column of a matrix.

        `computed` is only used in exports: x then counts as a knot up to rounding errors, as for
        logits.
        """
        if len(lines.x) < x.shape[1]:  # all columns share one function
            values = np.multiply(x.T if x.flags.f_contiguous else x, LIFT, dtype=np.float64)
            y = np.interp(values, lines.x[0] * LIFT, lines.y[0])
            return y.T if x.flags.f_contiguous else y
        y = np.empty(x.shape, order="F")
        for j, (column, knots, levels) in enumerate(zip(x.T, lines.x, lines.y, strict=True)):
            order = np.argsort(column) if len(knots) > FEW_KNOTS else slice(None)
            lifted = np.multiply(column[order], LIFT, dtype=np.float64)
            y[order, j] = np.interp(lifted, knots * LIFT, levels)
        return y

    def steps(
        self,
        steps: Steps,
        x: FloatArray,
        *,
        reached: bool = True,
        rounded: bool = False,
        exact: bool = False,
    ) -> Float64Array:
        """Apply a step function to each column of a matrix.

        A number is in the step above a limit if it is larger than the limit or, if `reached`, equal
        to it. In exports for logits, numbers are equal up to rounding errors unless `exact`. If
        `rounded`, limits are first rounded to the type of the scores.
        """
        limits, values, columns = steps.x, steps.y, x.T
        if rounded:
            limits = np.asarray(limits, dtype=self.dtype).astype(np.float64)
        most = max(map(len, limits))
        if isinstance(limits, np.ndarray) and most <= FEW_LIMITS and len(x) >= LONG * most:
            passed = np.greater_equal if reached else np.greater
            index = passed(columns.astype(np.float64, copy=False)[:, None], limits[:, :, None])
            index = index.view(np.uint8).sum(axis=1, dtype=np.uint8)
            index = index + (most + 1) * np.arange(len(values))[:, None]
            # All indices are valid, so that mode="clip", which skips the check, is safe and twice
            # as fast.
            return np.ravel(values).take(index, mode="clip").T
        side: Any = "right" if reached else "left"
        y = np.empty(columns.shape)
        for j, column in enumerate(columns):
            own, levels = limits[j % len(limits)], values[j % len(values)]
            order = np.argsort(column) if len(own) > FEW_KNOTS else slice(None)
            y[j, order] = levels.take(np.searchsorted(own, column[order], side), mode="clip")
        return y.T

    def row_sum(self, x: Float64Array) -> Float64Array:
        """Return the sum of each row, ``(n, 1)``."""
        return row_sums(x)[:, None]

    def row_max(self, x: Float64Array) -> Float64Array:
        """Return the maximum of each row, ``(n, 1)``."""
        return row_max(x)[:, None]

    def log_sum_exp(self, x: Float64Array) -> Float64Array:
        """Return the logarithm of the sum of exponentials of each row, ``(n, 1)``."""
        return log_sum_exp(x)[:, None]

    def combine(self, weights: Float64Array, *terms: Float64Array) -> Float64Array:
        """Return the sum of m matrices with weights ``(m, 1)``, or ``(m, K)`` for columns."""
        total = weights[0] * terms[0]
        part = np.empty_like(total)
        for weight, term in zip(weights[1:], terms[1:], strict=True):
            total += np.multiply(weight, term, out=part)
        return total

    def map_sparse_rows(self, W_T: Float64Array, x: Float64Array) -> Any:
        """Multiply each row of x by a matrix W, given W transposed.

        Entries of x are not negative, and most of them are 0.
        """
        return (x if x.shape[1] <= LARGEST_DENSE else csr_array(x)) @ W_T

    def sorted_top(self, x: Float64Array, k: int) -> tuple[Float64Array, Intp]:
        """Return the k largest entries of each row in descending order, and their columns."""
        if 2 * k > x.shape[1]:  # sorting all entries is faster than a partial sort
            index = np.argsort(-x, axis=1)[:, :k]
            return np.take_along_axis(x, index, axis=1), index
        index = np.argpartition(x, x.shape[1] - k, axis=1)[:, x.shape[1] - k :]
        best = np.take_along_axis(x, index, axis=1)
        order = np.argsort(-best, axis=1)
        return np.take_along_axis(best, order, axis=1), np.take_along_axis(index, order, axis=1)

    def share_ties(self, best: Float64Array, q: Float64Array, n: int) -> Float64Array:
        """Average the values q of equal neighbours in n descending probabilities."""
        same = best[:, 1:] == best[:, :-1]
        row = np.flatnonzero(same.any(axis=1))
        if row.size:
            differs = np.ones((row.size, n), dtype=bool)
            differs[:, 1:] = ~same[row]
            first = np.flatnonzero(differs)
            count = np.diff(first, append=differs.size)
            mean = np.add.reduceat(q[row].ravel(), first) / count
            q[row] = np.repeat(mean, count).reshape(row.size, -1)
        return q

    def concat(self, *parts: Float64Array) -> Float64Array:
        """Concatenate the columns of several matrices."""
        return np.concatenate(parts, axis=1)

    def first_of_largest(self) -> Bools:
        """Return, for each entry, whether it is the first of the largest scores of its row."""
        return np.arange(self.n_classes) == self.scores.best(ALL)[:, None]

    def cumulative(self, x: Float64Array) -> Float64Array:
        """Return the cumulative sums of each row."""
        return x.cumsum(axis=1)

    def put_along(self, x: Float64Array, index: Intp, entries: Float64Array) -> Float64Array:
        """Return a copy of `x` in which the entries at some indices of each row are replaced."""
        x = x.copy()
        np.put_along_axis(x, index, entries, axis=1)
        return x

    def to_float(self, x: NDArray[Any]) -> Float64Array:
        """Convert booleans or integers to float64."""
        return x.astype(np.float64)

    def to_int(self, x: Float64Array) -> Intp:
        """Round non-negative numbers down to integers."""
        return x.astype(np.intp)
