"""The operations of formulas on NumPy arrays: a block of rows, or some of its columns."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array

from skcalib._arrays.blocks import TALL_BLOCK_BYTES, column_blocks
from skcalib._arrays.rowwise import block_order, row_max, row_sums
from skcalib._arrays.source import ALL
from skcalib._arrays.types import Bools, Float64Array, FloatArray, Intp
from skcalib._maps.operations import LIFT, ColumnPlan, Constants, Lines, Piecewise, Plan, Steps
from skcalib._maps.shared import SharedOperations
from skcalib._scaling.affine_softmax import affine_softmax
from skcalib._scaling.logistic import expit
from skcalib._scores.scores import MOST_ODDS, Scores
from skcalib._scores.softmax import ABSENT, log_sum_exp, normalise_rows, softmax_inplace
from skcalib._scores.top_label import keep_top

# Columns of this many bytes are mapped at once: a map compares each number with several others.
MAPPED_BYTES = 1 << 18
# With at most FEW_LIMITS limits and at least LONG scores for each of them, comparing every score
# with every limit takes a quarter of the time of a binary search.
FEW_LIMITS, LONG = 32, 64
# Among more knots than this, scores are looked up in their order: each look-up starts where the
# last one ended.
FEW_KNOTS = 256
# Up to this many columns, products with sparse rows are faster if their zeros are stored.
LARGEST_DENSE = 300


def predict(scores: Scores, plan: Plan | ColumnPlan) -> FloatArray:
    """Return the probabilities of a block of scores."""
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
    # A few columns at a time, because they take several arrays of their size.
    for columns in column_blocks(n, n_classes, TALL_BLOCK_BYTES, plan.first):
        block = read(columns)
        start = columns.start - plan.first
        for part in column_blocks(n, len(block), MAPPED_BYTES):
            maps = slice(start + part.start, start + part.stop)
            constants = of_columns(plan.constants, maps)
            mapped = plan.formula(o, block[part].T, constants)
            values[maps] = (expit(mapped) if of_odds and not plan.first else mapped).T
    if plan.first:
        q = values[0]
        # 1 - P(second) would be 0 from log-odds of 37 on.
        return np.column_stack([expit(-q), expit(q)] if of_odds else [1 - q, q])
    return normalise_rows(values.T)


def of_columns(constants: Constants, maps: slice) -> Constants:
    """Return the constants of some maps; those that all columns share are left as they are."""

    def choose(value: Any) -> Any:
        if isinstance(value, Piecewise):
            return value.of_columns(maps)
        return value if np.shape(value)[-1:] in ((), (1,)) else value[:, maps]

    return {name: choose(value) for name, value in constants.items()}


class ArrayOperations(SharedOperations):
    """What formulas may compute with, for a block of scores: on arrays of float64.

    Sums, maxima and places are those of each row.
    """

    def __init__(self, scores: Scores) -> None:
        self.scores, self.dtype, self.n_classes = scores, scores.dtype, scores.shape[1]

    def proba(self) -> Float64Array:
        """Return the probabilities of the scores."""
        return self.scores.proba(ALL)

    def logits(self) -> Float64Array:
        """Return finite logits of the scores: of probabilities, logarithms of clipped ones."""
        return self.scores.logits(ALL)

    def ordered(self) -> Float64Array:
        """Return what classes are sorted by: probabilities, but log-odds of logits."""
        if self.scores.kind == "proba":
            return self.proba()
        odds = self.scores.ordered().log_odds_columns(slice(0, self.n_classes)).T
        return np.clip(odds, -MOST_ODDS, MOST_ODDS, order=block_order(self.n_classes))

    def affine_softmax(
        self, coef: Any, intercept: Any = None, *, full: bool = False, of_log_proba: bool = False
    ) -> FloatArray:
        """Return softmax(W z + b) of logits or log-probabilities z.

        W is `full` or has the diagonal `coef`, a number or ``(K,)``.
        """
        scores = self.scores.log_proba() if of_log_proba else self.scores
        Z = scores.finite_logits(ALL)
        return affine_softmax(Z, coef, intercept, scores.max_abs_logit, scores.out)

    def keep_top(self, q: FloatArray) -> FloatArray:
        """Make the class of the largest score the first of the largest probabilities.

        Probabilities are rounded to the type of the scores first.
        """
        return keep_top(q.astype(self.dtype, copy=False), self.scores.best(ALL))

    def without_options(self, q: FloatArray) -> FloatArray:
        """Set probabilities of logits of -inf to 0, and divide the others by their sum."""
        if self.scores.max_abs_logit < np.inf:
            return q
        return normalise_rows(np.where(self.logits() > ABSENT, q, 0.0))

    # Of each entry, as NumPy's: exp(x), |x|, log(x), sin(x), the larger and the smaller of two, x
    # where a condition is true, else y, and x within two numbers.
    exp: Any = staticmethod(np.exp)
    absolute: Any = staticmethod(np.abs)
    log: Any = staticmethod(np.log)
    sin: Any = staticmethod(np.sin)
    maximum: Any = staticmethod(np.maximum)
    minimum: Any = staticmethod(np.minimum)
    where: Any = staticmethod(np.where)
    clip: Any = staticmethod(np.clip)
    # The softmax of each row, and 1 / (1 + exp(-x)) with all digits where it is small; x may be
    # overwritten.
    softmax: Any = staticmethod(softmax_inplace)
    expit: Any = staticmethod(expit)
    # Rows divided by their sums, of which one of zeros becomes uniform; x may be overwritten.
    normalise: Any = staticmethod(normalise_rows)
    # Where probabilities are equal, and the entries of each row in ascending order.
    tied: Any = staticmethod(np.equal)
    ascending: Any = staticmethod(np.sort)

    def take_along(self, x: NDArray[Any], place: NDArray[Any]) -> NDArray[Any]:
        """Return the entries of each row at its own places."""
        return np.take_along_axis(x, place, axis=1)

    def lines(self, lines: Lines, x: FloatArray, *, computed: bool = False) -> Float64Array:
        """Return broken lines, a constant, of columns.

        Exports take x for a knot up to rounding if it was `computed` or scores are logits.
        """
        if len(lines.x) < x.shape[1]:  # one line of all columns
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
        """Return step functions, a constant, of columns.

        A limit is passed by larger numbers and, if `reached` counts, by equal ones: in exports of
        maps of logits up to rounding, unless comparisons are `exact`. It may be `rounded` to the
        type of the scores first.
        """
        limits, values, columns = steps.x, steps.y, x.T
        if rounded:
            limits = np.asarray(limits, dtype=self.dtype).astype(np.float64)
        most = max(map(len, limits))
        if isinstance(limits, np.ndarray) and most <= FEW_LIMITS and len(x) >= LONG * most:
            passed = np.greater_equal if reached else np.greater
            place = passed(columns.astype(np.float64, copy=False)[:, None], limits[:, :, None])
            place = place.view(np.uint8).sum(axis=1, dtype=np.uint8)
            place = place + (most + 1) * np.arange(len(values))[:, None]
            # No index is clipped: this mode takes half the time, as it does not look for errors.
            return np.ravel(values).take(place, mode="clip").T
        side: Any = "right" if reached else "left"
        y = np.empty(columns.shape)
        for j, column in enumerate(columns):
            own, levels = limits[j % len(limits)], values[j % len(values)]
            order = np.argsort(column) if len(own) > FEW_KNOTS else slice(None)
            y[j, order] = levels.take(np.searchsorted(own, column[order], side), mode="clip")
        return y.T

    def row_sum(self, x: Float64Array) -> Float64Array:
        """Return sums of rows, ``(n, 1)``."""
        return row_sums(x)[:, None]

    def row_max(self, x: Float64Array) -> Float64Array:
        """Return maxima of rows, ``(n, 1)``."""
        return row_max(x)[:, None]

    def log_sum_exp(self, x: Float64Array) -> Float64Array:
        """Return logarithms of sums of exponentials of rows, ``(n, 1)``."""
        return log_sum_exp(x)[:, None]

    def combine(self, weights: Float64Array, *terms: Float64Array) -> Float64Array:
        """Return the sum of m matrices with weights: constants ``(m, 1)`` or ``(m, K)``."""
        total = weights[0] * terms[0]
        part = np.empty_like(total)
        for weight, term in zip(weights[1:], terms[1:], strict=True):
            total += np.multiply(weight, term, out=part)
        return total

    def map_sparse_rows(self, W_T: Float64Array, x: Float64Array) -> Any:
        """Return ``W x_i`` of each row of x, given W transposed; few columns of x are above 0.

        No entry of x is below 0.
        """
        return (x if x.shape[1] <= LARGEST_DENSE else csr_array(x)) @ W_T

    def sorted_top(self, x: Float64Array, k: int) -> tuple[Float64Array, Intp]:
        """Return the k largest entries of each row, descending, and their columns."""
        if 2 * k > x.shape[1]:  # to sort all takes less than to choose first
            place = np.argsort(-x, axis=1)[:, :k]
            return np.take_along_axis(x, place, axis=1), place
        place = np.argpartition(x, x.shape[1] - k, axis=1)[:, x.shape[1] - k :]
        best = np.take_along_axis(x, place, axis=1)
        order = np.argsort(-best, axis=1)
        return np.take_along_axis(best, order, axis=1), np.take_along_axis(place, order, axis=1)

    def share_ties(self, best: Float64Array, q: Float64Array, n: int) -> Float64Array:
        """Give equal neighbours among n descending probabilities the mean of their values."""
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
        """Join columns."""
        return np.concatenate(parts, axis=1)

    def first_of_largest(self) -> Bools:
        """Return where each row has its largest score, the first one on ties."""
        return np.arange(self.n_classes) == self.scores.best(ALL)[:, None]

    def cumulative(self, x: Float64Array) -> Float64Array:
        """Return cumulative sums along rows."""
        return x.cumsum(axis=1)

    def put_along(self, x: Float64Array, place: Intp, entries: Float64Array) -> Float64Array:
        """Return `x` with the entries at the places of each row replaced."""
        x = x.copy()
        np.put_along_axis(x, place, entries, axis=1)
        return x

    def to_float(self, x: NDArray[Any]) -> Float64Array:
        """Return booleans or whole numbers as float64."""
        return x.astype(np.float64)

    def to_whole(self, x: Float64Array) -> Intp:
        """Return non-negative numbers as whole numbers, rounded down."""
        return x.astype(np.intp)
