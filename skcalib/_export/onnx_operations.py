"""The operations of prediction formulas as nodes of an ONNX graph, without duplicate nodes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import onnx
from numpy.typing import NDArray
from onnx import TensorProto, helper, numpy_helper

from skcalib.extending import (
    ROUNDING,
    ColumnPlan,
    Constants,
    Plan,
    SharedOperations,
    probabilities,
    scaled,
)

# From this version of the ONNX operator set on, the axes of ReduceMax and ReduceLogSumExp are an
# input of the operator.
AXES_AS_INPUT = 18
# Constants with at most this number of entries are compared, to store equal constants once.
LARGEST_COMPARED = 1000
# Operations on two constants that are computed when the graph is created.
FOLDED: dict[str, Any] = {"Add": np.add, "Sub": np.subtract, "Mul": np.multiply}
# If a constant matrix has more than 10,000 entries, it is faster to transpose the scores before the
# matrix product than to let each run of the graph copy the matrix.
LARGEST_COPIED = 10_000
TYPES = {"float32": TensorProto.FLOAT, "float64": TensorProto.DOUBLE, "int64": TensorProto.INT64}


def _binary(op: str, swapped: bool = False, boolean: bool = False) -> Callable[..., Value]:
    """Return a method of `Value` for a binary operation: it adds a node or combines constants."""

    def method(self: Value, other: Any) -> Value:
        other = self.graph.value(other, self.dtype)
        pair = (other, self) if swapped else (self, other)
        if op in FOLDED and self.array is not None and other.array is not None:
            return self.graph.constant(FOLDED[op](*(value.array for value in pair)))
        return self.graph.emit(op, *pair, dtype="bool" if boolean else self.dtype)

    return method


def _unary(op: str) -> Callable[..., Value]:
    """Return a method of `OnnxOperations` that adds a node with one input."""
    return lambda self, x: self.emit(op, x)


class Value:
    """A named value of an ONNX graph, with the operators of arrays; constants have an `array`."""

    def __init__(
        self, graph: OnnxOperations, name: str, dtype: str, array: NDArray[Any] | None = None
    ) -> None:
        self.graph, self.name, self.dtype, self.array = graph, name, dtype, array

    __add__ = __radd__ = _binary("Add")
    __mul__ = __rmul__ = _binary("Mul")
    __sub__, __rsub__ = _binary("Sub"), _binary("Sub", swapped=True)
    __truediv__, __rtruediv__ = _binary("Div"), _binary("Div", swapped=True)
    __lt__, __le__ = _binary("Less", boolean=True), _binary("LessOrEqual", boolean=True)
    __gt__, __ge__ = _binary("Greater", boolean=True), _binary("GreaterOrEqual", boolean=True)
    __and__ = _binary("And")

    def __neg__(self) -> Value:
        return self.graph.emit("Neg", self, dtype=self.dtype)

    def __invert__(self) -> Value:
        return self.graph.emit("Not", self, dtype=self.dtype)


class OnnxOperations(SharedOperations):
    """Builder of an ONNX graph: its nodes, its constants and the operations of prediction formulas.

    Parameters
    ----------
    dtype : {"float32", "float64"}
        Type of the scores and probabilities.
    opset : int
        Version of the operators.
    """

    def __init__(self, dtype: str, opset: int) -> None:
        self.dtype, self.opset = dtype, opset
        self.nodes: list[onnx.NodeProto] = []
        self.constants: dict[str, onnx.TensorProto] = {}
        self._made: dict[Any, Value] = {}
        # For each value that was converted to float64, by its name: the original float32 value.
        self._widened: dict[str, Value] = {}
        self._outputs: list[str] = []
        self.epsilon = float(np.finfo(dtype).eps)

    def emit(self, op: str, *inputs: Value, dtype: str = "float64", **attributes: Any) -> Value:
        """Add a node with one output, unless the graph already has the same node."""
        names = [value.name for value in inputs]
        key = (op, *names, *sorted(attributes.items()))
        if key not in self._made:
            self._made[key] = Value(self, f"v{len(self.nodes)}", dtype)
            self.nodes.append(helper.make_node(op, names, [self._made[key].name], **attributes))
        return self._made[key]

    def constant(self, array: NDArray[Any]) -> Value:
        """Add a constant, unless the graph already has the same constant."""
        content = array.tobytes() if array.size <= LARGEST_COMPARED else len(self.constants)
        key = (array.dtype.name, array.shape, content)
        if key not in self._made:
            name = f"c{len(self.constants)}"
            self.constants[name] = numpy_helper.from_array(array, name)
            self._made[key] = Value(self, name, array.dtype.name, array)
        return self._made[key]

    def constants_of(self, values: Constants) -> Constants:
        """Add all constants of a formula, also those in nested dicts."""
        return {
            name: self.constants_of(value) if isinstance(value, dict) else self.constant(value)
            for name, value in values.items()
        }

    def probabilities(self, plan: Plan | ColumnPlan, x: Value, calibrator: Any) -> Value:
        """Return the probabilities for scores ``(n, K)``, rounded to the type of the output."""
        constants, n_classes = self.constants_of(plan.constants), calibrator.classes_.size
        return self.rounded(probabilities(self, plan, constants, x, calibrator.input_, n_classes))

    def value(self, x: Any, dtype: str = "float64") -> Value:
        """Convert a number to a constant of the graph; return a value of the graph unchanged."""
        return x if isinstance(x, Value) else self.constant(np.array(x, dtype=dtype))

    def _cast(self, x: Value, dtype: str) -> Value:
        if x.array is not None:
            return self.constant(x.array.astype(dtype))
        if (short := self._widened.get(x.name)) and short.dtype == dtype:
            return short
        cast = self.emit("Cast", x, dtype=dtype, to=TYPES[dtype])
        if (x.dtype, dtype) == ("float32", "float64"):
            self._widened[cast.name] = x
        return cast

    def scores(self, name: str) -> Value:
        """Return the input of the graph as float64."""
        value = Value(self, name, self.dtype)
        return value if self.dtype == "float64" else self._cast(value, "float64")

    def cast_to_scores(self, x: Value) -> Value:
        """Convert float64 numbers to the type of the scores."""
        return x if self.dtype == "float64" else self._cast(x, self.dtype)

    exp, log, sin, absolute = map(_unary, ("Exp", "Log", "Sin", "Abs"))

    def softmax(self, x: Value) -> Value:
        return self.emit("Softmax", x, axis=1)

    def log_sum_exp(self, x: Value) -> Value:
        return self._reduce_rows("ReduceLogSumExp", x)

    def maximum(self, x: Value, y: Any) -> Value:
        return self.emit("Max", x, self.value(y))

    def minimum(self, x: Value, y: Any) -> Value:
        return self.emit("Min", x, self.value(y))

    def equal(self, x: Value, y: Any) -> Value:
        return self.emit("Equal", x, self.value(y, x.dtype), dtype="bool")

    def clip(self, x: Value, low: Any, high: Any) -> Value:
        return self.emit("Clip", x, self.value(low), self.value(high))

    def where(self, condition: Value, x: Any, y: Any) -> Value:
        dtype = next((part.dtype for part in (x, y) if isinstance(part, Value)), "float64")
        return self.emit(
            "Where", condition, self.value(x, dtype), self.value(y, dtype), dtype=dtype
        )

    def row_sum(self, x: Value) -> Value:
        return self.emit("ReduceSum", x, self.value([1], "int64"), keepdims=1)

    def row_max(self, x: Value) -> Value:
        return self._reduce_rows("ReduceMax", x)

    def _reduce_rows(self, op: str, x: Value) -> Value:
        if self.opset >= AXES_AS_INPUT:
            return self.emit(op, x, self.value([1], "int64"), keepdims=1)
        return self.emit(op, x, axes=(1,), keepdims=1)

    def argmax(self, x: Value) -> Value:
        return self.emit("ArgMax", self._widened.get(x.name, x), dtype="int64", axis=1, keepdims=1)

    def map_rows(self, W: Value, x: Value) -> Value:
        # ONNX Runtime copies the second factor at each run, so it should not be a large constant.
        if W.array is not None and W.array.size <= LARGEST_COPIED:
            return self.emit("MatMul", x, self.constant(W.array.T.copy()))
        return self._transposed(self.emit("MatMul", W, self._transposed(x)))

    def _transposed(self, x: Value) -> Value:
        return self.emit("Transpose", x, perm=(1, 0))

    def map_sparse_rows(self, W_T: Value, x: Value) -> Value:
        if W_T.array is not None and W_T.array.size <= LARGEST_COPIED:
            return self.emit("MatMul", x, W_T)
        # Use only the rows of the matrix W_T that belong to columns of x with a nonzero entry.
        total = self.emit("ReduceSum", x, self.value([0], "int64"), keepdims=0)
        used = total > 0.0
        x, W_T = (self.emit("Compress", y, used, axis=a) for y, a in ((x, 1), (W_T, 0)))
        return self.emit("MatMul", x, W_T)

    def take(self, table: Value, index: Value) -> Value:
        if table.array is not None and index.array is not None:
            return self.constant(table.array[index.array])
        return self.emit("Gather", table, index, dtype=table.dtype, axis=0)

    def search_rows(self, table: Value, row: Value, shift: Value, p: Value, reached: bool) -> Value:
        assert table.array is not None
        axis, limits = self.value([2], "int64"), self.take(table, row)
        p = self.emit("Unsqueeze", p, axis)
        # ONNX Runtime sums integers several times more slowly than floats.
        ones = self._cast(limits <= p if reached else limits < p, "float32")
        count = self.emit("ReduceSum", ones, axis, dtype="float32", keepdims=0)
        return (row * table.array.shape[1] + shift) + self._cast(count, "int64")

    def concat(self, *parts: Value) -> Value:
        return self.emit("Concat", *parts, axis=1) if len(parts) > 1 else parts[0]

    def combine(self, weights: Value, *terms: Value) -> Value:
        assert weights.array is not None
        rows = [self.constant(own[None]) for own in weights.array]
        return self.emit("Sum", *(w * term for w, term in zip(rows, terms, strict=True)))

    def columns(self, x: Value, start: int, stop: int) -> Value:
        return self._slice(x, start, stop, axis=1)

    def _slice(self, x: Value, start: int, stop: int, axis: int) -> Value:
        ends = (self.value([end], "int64") for end in (start, stop, axis))
        return self.emit("Slice", x, *ends, dtype=x.dtype)

    def sorted_top(self, x: Value, k: int) -> list[Value]:
        # Many versions of ONNX Runtime crash on an empty array, so one row is added.
        longer = self.emit("Pad", x, self.value([0, 0, 1, 0], "int64"))
        best = self.emit("TopK", longer, self.value([k], "int64"), axis=1)
        node = next(node for node in self.nodes if node.output[0] == best.name)
        node.output[:] = [best.name, f"{best.name}_columns"]
        outputs = best, Value(self, node.output[1], "int64")
        return [self._slice(y, 0, -1, axis=0) for y in outputs]

    def cumulative(self, x: Value) -> Value:
        return self.emit("CumSum", x, self.value(1, "int64"), dtype=x.dtype)

    def take_along(self, x: Value, index: Value) -> Value:
        return self.emit("GatherElements", x, index, dtype=x.dtype, axis=1)

    def put_along(self, x: Value, index: Value, entries: Value) -> Value:
        return self.emit("ScatterElements", x, index, entries, axis=1)

    def add_along(self, x: Value, index: Value, entries: Value) -> Value:
        return self.emit("ScatterElements", x, index, entries, axis=1, reduction="add")

    def filled(self, x: Value, number: float) -> Value:
        return self.emit("Expand", self.value(number), self.emit("Shape", x, dtype="int64"))

    def to_float(self, x: Value) -> Value:
        return self._cast(x, "float64")

    def to_int(self, x: Value) -> Value:
        return self._cast(x, "int64")

    def rounded(self, x: Value) -> Value:
        return x if self.dtype == "float64" else self._cast(self._cast(x, "float32"), "float64")

    def drop_unused(self) -> list[onnx.TensorProto]:
        """Remove nodes that no output needs, and return the constants of the remaining nodes."""
        needed, nodes = set(self._outputs), []
        for node in reversed(self.nodes):
            if needed.intersection(node.output):
                needed.update(node.input)
                nodes.append(node)
        self.nodes = nodes[::-1]
        return [tensor for name, tensor in self.constants.items() if name in needed]

    def predicted(self, x: Value, q: Value, label: str) -> Value:
        """Return the index of the predicted class of each row, by the rule `label` of a formula."""
        if label == "near":
            q = self.to_float(q >= scaled(self.row_max(q), -ROUNDING))
        best = x if label == "top" else q
        best = self._widened.get(best.name, best)
        return self.emit("ArgMax", best, dtype="int64", axis=1, keepdims=0)

    def name_output(self, x: Value, name: str) -> None:
        """Make a value an output of the graph with the given name."""
        self._outputs.append(name)
        # If no node computes x, then x is an input or a constant of the graph.
        if not any(x.name in node.output for node in self.nodes):
            self.nodes.append(helper.make_node("Identity", [x.name], [name]))
            return
        for node in self.nodes:
            for names in (node.input, node.output):
                names[:] = [name if other == x.name else other for other in names]
        x.name = name
