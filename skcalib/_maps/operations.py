"""The operations that formulas of calibrators are written in.

NumPy computes them on blocks of scores, PyTorch on tensors, and ONNX writes them into a graph. A
value is a matrix ``(n, K)`` or ``(n, 1)`` of float64, whole numbers or booleans. Values and
constants take ``+ - * / < <= > >= & ~``, also with Python numbers, which keep the type of the
value. No formula changes a value in place: PyTorch needs them for gradients.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

# Relative rounding error up to which probabilities of logits count as equal: exponentials of two
# libraries, or of two places in an array, differ in their last bits.
ROUNDING = 16 * float(np.finfo(np.float64).eps)

Value = Any
Constants = dict[str, Any]


@dataclass(frozen=True)
class Steps:
    """Step functions, one for each column or a single one: m + 1 values, m ascending limits."""

    limits: Sequence[NDArray[Any]] | NDArray[Any]
    values: Sequence[NDArray[Any]] | NDArray[Any]

    def of_columns(self, columns: slice) -> Steps:
        """Return the functions of some columns; a single one is that of all columns."""
        return self if len(self.limits) == 1 else Steps(self.limits[columns], self.values[columns])


@dataclass(frozen=True)
class Lines:
    """Broken lines, one for each column or a single one, through points with ascending `x`.

    They are constant beyond the ends. `lift`, a power of two, keeps slopes between tiny x finite.
    """

    x: Sequence[NDArray[Any]]
    y: Sequence[NDArray[Any]]
    lift: float = 1.0

    def of_columns(self, columns: slice) -> Lines:
        """Return the lines of some columns; a single one is that of all columns."""
        return self if len(self.x) == 1 else Lines(self.x[columns], self.y[columns], self.lift)


class Operations(Protocol):
    """What a formula may compute with. Sums, maxima and places are those of each row."""

    n_classes: int

    # ---------------------------------------------------------------------------- of the scores

    def proba(self) -> Value:
        """Return the probabilities of the scores."""

    def logits(self) -> Value:
        """Return finite logits of the scores: of probabilities, logarithms of clipped ones."""

    def ordered(self) -> Value:
        """Return what classes are sorted by: probabilities, but log-odds of logits."""

    def affine_softmax(
        self,
        coef: Value,
        intercept: Value = None,
        *,
        full: bool = False,
        of_log_proba: bool = False,
    ) -> Value:
        """Return softmax(W z + b) of logits or log-probabilities z.

        W is `full` or has the diagonal `coef`, a number or ``(K,)``.
        """

    def keep_top(self, q: Value) -> Value:
        """Make the class of the largest score the first of the largest probabilities.

        Probabilities are rounded to the type of the scores first.
        """

    def without_options(self, q: Value) -> Value:
        """Set probabilities of logits of -inf to 0, and divide the others by their sum."""

    # ----------------------------------------------------------------------------- of each entry

    def log(self, x: Value) -> Value:
        """Return log(x)."""

    def log_tail(self, x: Value) -> Value:
        """Return log(1 + exp(-|x|))."""

    def sin(self, x: Value) -> Value:
        """Return sin(x)."""

    def expit(self, x: Value) -> Value:
        """Return 1 / (1 + exp(-x)), with all digits where it is small; x may be overwritten."""

    def maximum(self, x: Value, y: Value) -> Value:
        """Return the larger of two entries."""

    def minimum(self, x: Value, y: Value) -> Value:
        """Return the smaller of two entries."""

    def clip(self, x: Value, low: Value, high: Value) -> Value:
        """Return x within two numbers."""

    def where(self, condition: Value, x: Value, y: Value) -> Value:
        """Return x where the condition is true, else y."""

    def lines(self, lines: Value, x: Value, *, computed: bool = False) -> Value:
        """Return broken lines, a constant, of columns.

        Exports take x for a knot up to rounding if it was `computed` or scores are logits.
        """

    def steps(
        self,
        steps: Value,
        x: Value,
        *,
        reached: bool = True,
        rounded: bool = False,
        exact: bool = False,
    ) -> Value:
        """Return step functions, a constant, of columns.

        A limit is passed by larger numbers and, if `reached` counts, by equal ones: in exports of
        maps of logits up to rounding, unless comparisons are `exact`. It may be `rounded` to the
        type of the scores first.
        """

    # ------------------------------------------------------------------------------- of each row

    def softmax(self, x: Value) -> Value:
        """Return the softmax of each row; x may be overwritten."""

    def row_sum(self, x: Value) -> Value:
        """Return sums of rows, ``(n, 1)``."""

    def row_max(self, x: Value) -> Value:
        """Return maxima of rows, ``(n, 1)``."""

    def log_sum_exp(self, x: Value) -> Value:
        """Return logarithms of sums of exponentials of rows, ``(n, 1)``."""

    def combine(self, weights: Value, *terms: Value) -> Value:
        """Return the sum of m matrices with weights: constants ``(m, 1)`` or ``(m, K)``."""

    def mix(self, weights: Value, constant: Value, *members: Value) -> Value:
        """Return the same plus a number; the matrices may be overwritten."""

    def map_rows(self, W: Value, x: Value) -> Value:
        """Return ``W z`` of each row z of ``x (n, K)``, for a constant ``W (m, K)``."""

    def log_complement(self, x: Value) -> Value:
        """Return log(1 - x), where few entries of x are above 0."""

    def map_sparse_rows(self, W_T: Value, x: Value) -> Value:
        """Return the same, given the transpose, where few columns of x have an entry above 0.

        No entry is below 0.
        """

    def concat(self, *parts: Value) -> Value:
        """Join columns."""

    def normalise(self, q: Value) -> Value:
        """Divide rows by their sums; a row of zeros becomes uniform. q may be overwritten."""

    def columns(self, x: Value, start: int, stop: int) -> Value:
        """Return columns `start` up to `stop`."""

    def sorted_top(self, x: Value, k: int) -> Sequence[Value]:
        """Return the k largest entries of each row, descending, and their columns."""

    def share_ties(self, best: Value, q: Value, n: int) -> Value:
        """Give equal neighbours among n descending probabilities the mean of their values."""

    def tied(self, x: Value, y: Value) -> Value:
        """Return where probabilities are equal."""

    def share_equally(self, q: Value, tied: Value) -> Value:
        """Give the entries of a row that are `tied` their mean."""

    def ascending(self, x: Value) -> Value:
        """Return the entries of each row in ascending order."""

    def first_of_largest(self) -> Value:
        """Return where each row has its largest score, the first one on ties."""

    def cumulative(self, x: Value) -> Value:
        """Return cumulative sums along rows."""

    def take_along(self, x: Value, place: Value) -> Value:
        """Return the entries of each row at its own places."""

    def put_along(self, x: Value, place: Value, entries: Value) -> Value:
        """Return `x` with the entries at the places of each row replaced."""

    def to_float(self, x: Value) -> Value:
        """Return booleans or whole numbers as float64."""

    def to_whole(self, x: Value) -> Value:
        """Return non-negative numbers as whole numbers, rounded down."""


class Plan(NamedTuple):
    """A fitted map: its formula and the constants of the formula.

    Attributes
    ----------
    formula : callable
        ``formula(o, c)`` returns probabilities ``(n, K)``, given operations and constants.
    constants : dict
        Numbers, arrays that broadcast against ``(n, K)``, `Steps` and `Lines`, by name.
    label : str
        How the predicted class follows. "largest": the first of the largest probabilities; "near":
        the first of those that are the largest up to rounding, where equal logits have equal
        probabilities, but for the last bit of an exponential; "top": that of the largest score.
    """

    formula: Callable[..., Value]
    constants: Constants
    label: str = "largest"


class ColumnPlan(NamedTuple):
    """A fitted map of each class; rows are then divided by their sums.

    With two classes and `first` = 1 there is one map, for the second class.

    Attributes
    ----------
    formula : callable
        ``formula(o, x, c)`` returns values in [0, 1] of columns ``x (n, m)``.
    constants : dict
        As for a `Plan`, with a column for each map; in NumPy only those of some columns are passed.
    first : int
        The first class that has a map.
    read : {"proba", "log_odds", "ordered"}
        Whether columns are probabilities of each class, log-odds, or what its scores are sorted
        by: probabilities, but log-odds of logits.
    """

    formula: Callable[..., Value]
    constants: Constants
    first: int
    read: Literal["proba", "log_odds", "ordered"] = "proba"
    label: str = "largest"


def steps_from(x: Sequence[NDArray[Any]], y: Sequence[NDArray[Any]]) -> Steps:
    """Return functions with the value ``y[j]`` from ``x[j]`` on, and ``y[0]`` below ``x[0]``."""
    return Steps([each[1:] for each in x], y)


def steps(o: Operations, p: Value, c: Constants, exact: bool = False) -> Value:
    """Return the step functions ``c["map"]``: a formula of columns."""
    return o.steps(c["map"], p, exact=exact)


def row(values: Any) -> NDArray[np.float64]:
    """Return numbers of columns as a constant ``(1, m)``."""
    return np.asarray(values, dtype=np.float64)[None]
