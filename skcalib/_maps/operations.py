"""What formulas of calibrators are made of: values, constants and plans.

NumPy computes formulas of blocks of scores, PyTorch of tensors, and ONNX writes them as a graph. A
value is a matrix ``(n, K)`` or ``(n, 1)`` of float64, whole numbers or booleans. Values and
constants take ``+ - * / < <= > >= & ~``, also with Python numbers, which keep the type of the
value. No formula changes a value in place: PyTorch needs them for gradients.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

# Relative rounding error up to which probabilities of logits count as equal: exponentials of two
# libraries, or of two places in an array, differ in their last bits.
ROUNDING = 16 * float(np.finfo(np.float64).eps)
# Between two x below 1e-308 the slope of a straight line overflows. Multiplying x by a power of two
# avoids this and changes no other result.
LIFT = 2.0**60

Value = Any
Constants = dict[str, Any]
# What a formula may compute with: `arrays.ArrayOperations` says what each operation returns.
Operations = Any


@dataclass(frozen=True)
class Piecewise:
    """Functions by pieces, one for each column or a single one: ascending `x`, and values `y`."""

    x: Sequence[NDArray[Any]] | NDArray[Any]
    y: Sequence[NDArray[Any]] | NDArray[Any]

    def of_columns(self, columns: slice) -> Self:
        """Return the functions of some columns; a single one is that of all columns."""
        return self if len(self.x) == 1 else type(self)(self.x[columns], self.y[columns])


class Steps(Piecewise):
    """Step functions: m + 1 values, m limits."""


class Lines(Piecewise):
    """Broken lines through points, constant beyond the ends."""


class Plan(NamedTuple):
    """A fitted map: its formula and the constants of the formula.

    Attributes
    ----------
    formula : callable
        ``formula(o, c)`` returns probabilities ``(n, K)``, given operations and constants.
    constants : dict
        Numbers, arrays that broadcast against ``(n, K)``, `Steps` and `Lines`, by name.
    label : str
        How the predicted class follows. "largest": the first of the largest probabilities; "near",
        of a softmax of logits times a number: the first of those that are the largest up to
        rounding, because equal logits have equal probabilities, but for the last bit of an
        exponential; "top": that of the largest score.
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
        ``formula(o, x, c)`` returns values in [0, 1] of columns ``x (n, m)``, or log-odds if it
        reads log-odds.
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


def steps(o: Operations, p: Value, c: Constants, **keywords: bool) -> Value:
    """Return the step functions ``c["map"]``: a formula of columns; keywords of `o.steps`."""
    return o.steps(c["map"], p, **keywords)


def row(values: Any) -> NDArray[np.float64]:
    """Return numbers of columns as a constant ``(1, m)``."""
    return np.asarray(values, dtype=np.float64)[None]
