"""The operations that formulas are written in, which ONNX and PyTorch both have.

A value is a matrix ``(n, K)`` or ``(n, 1)`` of float64, whole numbers or booleans; a constant is an
array of a formula. Values and constants take ``+ - * / < <= > >= & ~``, also with Python numbers,
which keep the type of the value.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

Value = Any
Constants = Mapping[str, Value]


class Operations(Protocol):
    """What a formula may compute with. Sums, maxima and places are those of each row."""

    def exp(self, x: Value) -> Value:
        """Return exp(x); 0 for -inf."""

    def log(self, x: Value) -> Value:
        """Return log(x)."""

    def sin(self, x: Value) -> Value:
        """Return sin(x)."""

    def absolute(self, x: Value) -> Value:
        """Return the absolute values."""

    def softmax(self, x: Value) -> Value:
        """Return the softmax of each row."""

    def log_sum_exp(self, x: Value) -> Value:
        """Return the logarithm of the sum of exponentials of each row, ``(n, 1)``."""

    def maximum(self, x: Value, y: Value) -> Value:
        """Return the larger of two entries."""

    def minimum(self, x: Value, y: Value) -> Value:
        """Return the smaller of two entries."""

    def equal(self, x: Value, y: Value) -> Value:
        """Return where entries are equal."""

    def clip(self, x: Value, low: Value, high: Value) -> Value:
        """Return x within two numbers."""

    def where(self, condition: Value, x: Value, y: Value) -> Value:
        """Return x where the condition is true, else y."""

    def total(self, *parts: Value) -> Value:
        """Return the sum of several matrices or rows."""

    def row_sum(self, x: Value) -> Value:
        """Return sums of rows, ``(n, 1)``."""

    def row_max(self, x: Value) -> Value:
        """Return maxima of rows, ``(n, 1)``."""

    def argmax(self, x: Value) -> Value:
        """Return the place of the maximum of each row, the first one on ties, ``(n, 1)``."""

    def map_rows(self, W: Value, x: Value) -> Value:
        """Return ``W z`` of each row z of ``x (n, K)``, for a constant ``W (m, K)``."""

    def map_sparse_rows(self, W_T: Value, x: Value) -> Value:
        """Return the same, given the transpose, where few columns of x have an entry above 0.

        No entry is below 0.
        """

    def take(self, table: Value, place: Value) -> Value:
        """Return the entries of a constant ``(m,)``, or its rows, at places of any shape."""

    def search_rows(self, table: Value, row: Value, shift: Value, p: Value, reached: bool) -> Value:
        """Return ``width * row + shift`` plus how many limits of that row of a constant p passes.

        A row has an empty entry, ascending limits and NaN; its width is a power of two. A limit is
        passed by larger numbers and, if `reached` counts, by equal ones.
        """

    def concat(self, *parts: Value) -> Value:
        """Join columns."""

    def concat_rows(self, *parts: Value) -> Value:
        """Put matrices below each other."""

    def weighted_sum(self, weights: Value, x: Value, n_columns: int) -> Value:
        """Return the sum of m matrices that stand below each other, with weights ``(1, m)``."""

    def columns(self, x: Value, start: int, stop: int) -> Value:
        """Return columns `start` up to `stop`."""

    def choose(self, x: Value, columns: list[int]) -> Value:
        """Return some columns, which may repeat."""

    def split(self, x: Value, sizes: list[int]) -> list[Value]:
        """Return consecutive parts of the columns, of these sizes."""

    def sorted_top(self, x: Value, k: int) -> list[Value]:
        """Return the k largest entries of each row, descending, and their columns."""

    def cumulative(self, x: Value) -> Value:
        """Return cumulative sums along rows."""

    def take_along(self, x: Value, place: Value) -> Value:
        """Return the entries of each row at its own places."""

    def put_along(self, x: Value, place: Value, entries: Value) -> Value:
        """Return `x` with the entries at the places of each row replaced."""

    def add_along(self, x: Value, place: Value, entries: Value) -> Value:
        """Return `x` with the entries added at the places of each row, which may repeat."""

    def filled(self, x: Value, number: float) -> Value:
        """Return a float64 matrix of the shape of `x`, all entries equal to `number`."""

    def to_float(self, x: Value) -> Value:
        """Return booleans or whole numbers as float64."""

    def to_whole(self, x: Value) -> Value:
        """Return booleans or non-negative numbers as whole numbers, rounded down."""

    def rounded(self, x: Value) -> Value:
        """Round float64 to the type of the scores, and return it as float64."""

    @property
    def epsilon(self) -> float:
        """Distance from 1 to the next number of the type of the scores."""


Formula = Callable[[Operations, Value, Constants], Any]


class Line(NamedTuple):
    """Straight pieces: one below `limits`, one between each two of them and one from the last on.

    Piece j has the value ``level[j] + slope[j] * (lift * p - left[j])``, where a number that is
    beyond `left` by no more than `blur` times it counts as equal. `lift` is a power of two.
    """

    limits: NDArray[Any]
    left: NDArray[Any]
    level: NDArray[Any]
    slope: NDArray[Any]
    blur: float
    lift: float


class Plan(NamedTuple):
    """A formula, its arrays, and what is done before and after it for all calibrators alike.

    Attributes
    ----------
    formula : callable
        ``formula(o, x, c)`` returns a list of matrices ``(n, K)``. If there are `lines`, it returns
        what they map, a column for each, and a function that returns the list given their values.
    constants : dict
        Arrays by name.
    label : str
        How the predicted class follows. "largest": the first of the largest probabilities; "near":
        the first of those that are the largest up to rounding, where equal logits have equal
        probabilities, but for the last bit of an exponential; "top": that of the largest score.
    last : {"softmax", "normalise", "none"}
        What makes the matrices probabilities.
    weights, uniform : tuple of float, float
        The prediction is the sum of these times the probabilities, plus `uniform`.
    lines : tuple of Line
        A line for each column.
    options : bool
        Whether the probability of a logit of -inf becomes 0, and the others are divided by their
        sum.
    """

    formula: Formula
    constants: dict[str, NDArray[Any]]
    label: str = "largest"
    last: str = "softmax"
    weights: tuple[float, ...] = (1.0,)
    uniform: float = 0.0
    lines: tuple[Line, ...] = ()
    options: bool = False


def constant(array: Any) -> NDArray[Any]:
    """Return float64 or int64 numbers that broadcast against ``(n, K)``."""
    found = np.asarray(array)
    return found.astype(np.int64 if found.dtype.kind in "iu" else np.float64)


def equal_row(number: float, n_classes: int) -> NDArray[np.float64]:
    """Return a row of equal numbers: ONNX Runtime drops a product with one number near 1."""
    return np.full((1, n_classes), number)
