"""The operations of formulas as nodes of an ONNX graph; of equal nodes there is one."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
from numpy.typing import NDArray
from onnx import TensorProto, helper, numpy_helper

# From this version of the operators on, axes of a maximum are an input.
AXES_AS_INPUT = 18
# Larger constants are not compared with others.
LARGEST_COMPARED = 1000
TYPES = {"float64": TensorProto.DOUBLE, "int64": TensorProto.INT64, "bool": TensorProto.BOOL}


class Value:
    """A named value of a graph, with the operators of arrays."""

    def __init__(self, graph: OnnxOperations, name: str, dtype: str) -> None:
        self.graph, self.name, self.dtype = graph, name, dtype

    def _with(self, op: str, other: Any, swapped: bool = False, boolean: bool = False) -> Value:
        pair = (self, self.graph.value(other, self.dtype))
        return self.graph.emit(
            op, *(pair[::-1] if swapped else pair), dtype="bool" if boolean else self.dtype
        )

    def __add__(self, other: Any) -> Value:
        return self._with("Add", other)

    __radd__ = __add__

    def __sub__(self, other: Any) -> Value:
        return self._with("Sub", other)

    def __rsub__(self, other: Any) -> Value:
        return self._with("Sub", other, swapped=True)

    def __mul__(self, other: Any) -> Value:
        return self._with("Mul", other)

    __rmul__ = __mul__

    def __truediv__(self, other: Any) -> Value:
        return self._with("Div", other)

    def __rtruediv__(self, other: Any) -> Value:
        return self._with("Div", other, swapped=True)

    def __lt__(self, other: Any) -> Value:
        return self._with("Less", other, boolean=True)

    def __le__(self, other: Any) -> Value:
        return self._with("LessOrEqual", other, boolean=True)

    def __gt__(self, other: Any) -> Value:
        return self._with("Greater", other, boolean=True)

    def __ge__(self, other: Any) -> Value:
        return self._with("GreaterOrEqual", other, boolean=True)

    def __and__(self, other: Any) -> Value:
        return self._with("And", other)

    def __neg__(self) -> Value:
        return self.graph.emit("Neg", self, dtype=self.dtype)

    def __invert__(self) -> Value:
        return self.graph.emit("Not", self, dtype=self.dtype)


class OnnxOperations:
    """Nodes and constants of a graph that is being made.

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
        self.epsilon = float(np.finfo(dtype).eps)

    def emit(self, op: str, *inputs: Value, dtype: str = "float64", **attributes: Any) -> Value:
        """Add a node of one output, unless the same one is there."""
        names = [value.name for value in inputs]
        key = (op, *names, *sorted(attributes.items()))
        if key not in self._made:
            self._made[key] = Value(self, f"v{len(self.nodes)}", dtype)
            self.nodes.append(helper.make_node(op, names, [self._made[key].name], **attributes))
        return self._made[key]

    def constant(self, array: NDArray[Any]) -> Value:
        """Add a constant, unless the same one is there."""
        content = array.tobytes() if array.size <= LARGEST_COMPARED else len(self.constants)
        key = (array.dtype.name, array.shape, content)
        if key not in self._made:
            name = f"c{len(self.constants)}"
            self.constants[name] = numpy_helper.from_array(array, name)
            self._made[key] = Value(self, name, array.dtype.name)
        return self._made[key]

    def value(self, x: Any, dtype: str = "float64") -> Value:
        """Return a value; a number becomes a constant."""
        return x if isinstance(x, Value) else self.constant(np.array(x, dtype=dtype))

    def _cast(self, x: Value, dtype: str) -> Value:
        kind = TensorProto.FLOAT if dtype == "float32" else TYPES[dtype]
        return self.emit("Cast", x, dtype=dtype, to=kind)

    def scores(self, name: str) -> Value:
        """Return the input of the graph as float64."""
        given = Value(self, name, self.dtype)
        return given if self.dtype == "float64" else self._cast(given, "float64")

    def in_type_of_scores(self, x: Value) -> Value:
        """Return float64 numbers in the type of the scores."""
        return x if self.dtype == "float64" else self._cast(x, self.dtype)

    def exp(self, x: Value) -> Value:
        return self.emit("Exp", x)

    def log(self, x: Value) -> Value:
        return self.emit("Log", x)

    def cos(self, x: Value) -> Value:
        return self.emit("Cos", x)

    def maximum(self, x: Value, y: Any) -> Value:
        return self.emit("Max", x, self.value(y))

    def minimum(self, x: Value, y: Any) -> Value:
        return self.emit("Min", x, self.value(y))

    def equal(self, x: Value, y: Any) -> Value:
        return self.emit("Equal", x, self.value(y, x.dtype), dtype="bool")

    def where(self, condition: Value, x: Any, y: Any) -> Value:
        dtype = next((part.dtype for part in (x, y) if isinstance(part, Value)), "float64")
        return self.emit(
            "Where", condition, self.value(x, dtype), self.value(y, dtype), dtype=dtype
        )

    def row_sum(self, x: Value) -> Value:
        return self.emit("ReduceSum", x, self.value([1], "int64"), keepdims=1)

    def row_max(self, x: Value) -> Value:
        if self.opset >= AXES_AS_INPUT:
            return self.emit("ReduceMax", x, self.value([1], "int64"), keepdims=1)
        return self.emit("ReduceMax", x, axes=(1,), keepdims=1)

    def argmax(self, x: Value) -> Value:
        return self.emit("ArgMax", x, dtype="int64", axis=1, keepdims=1)

    def map_rows(self, W: Value, x: Value) -> Value:
        # ONNX Runtime would copy the second factor at each run: let it not be the constant.
        return self._transposed(self.emit("MatMul", W, self._transposed(x)))

    def _transposed(self, x: Value) -> Value:
        return self.emit("Transpose", x, perm=(1, 0))

    def map_sparse_rows(self, W_T: Value, x: Value) -> Value:
        # Only the rows of W_T are read that count for some row of x.
        total = self.emit("ReduceSum", x, self.value([0], "int64"), keepdims=0)
        used = total > 0.0
        x, W_T = (self.emit("Compress", y, used, axis=a) for y, a in ((x, 1), (W_T, 0)))
        return self.emit("MatMul", x, W_T)

    def take(self, table: Value, place: Value) -> Value:
        return self.emit("Gather", table, place, dtype=table.dtype, axis=0)

    def concat(self, *parts: Value) -> Value:
        return self.emit("Concat", *parts, axis=1)

    def columns(self, x: Value, start: int, stop: int) -> Value:
        ends = (self.value([end], "int64") for end in (start, stop, 1))
        return self.emit("Slice", x, *ends, dtype=x.dtype)

    def sorted_top(self, x: Value, k: int) -> tuple[Value, Value]:
        top = self.emit("TopK", x, self.value([k], "int64"), axis=1)
        node = next(node for node in self.nodes if node.output[0] == top.name)
        if len(node.output) == 1:
            node.output.append(f"{top.name}_places")
        return top, Value(self, node.output[1], "int64")

    def cumulative(self, x: Value) -> Value:
        return self.emit("CumSum", x, self.value(1, "int64"), dtype=x.dtype)

    def take_along(self, x: Value, place: Value) -> Value:
        return self.emit("GatherElements", x, place, dtype=x.dtype, axis=1)

    def put_along(self, x: Value, place: Value, entries: Value) -> Value:
        return self.emit("ScatterElements", x, place, entries, axis=1)

    def add_along(self, x: Value, place: Value, entries: Value) -> Value:
        return self.emit("ScatterElements", x, place, entries, axis=1, reduction="add")

    def filled(self, x: Value, number: float) -> Value:
        return self.emit("Expand", self.value(number), self.emit("Shape", x, dtype="int64"))

    def to_float(self, x: Value) -> Value:
        return self._cast(x, "float64")

    def to_whole(self, x: Value) -> Value:
        return self._cast(x, "int64")

    def rounded(self, x: Value) -> Value:
        return x if self.dtype == "float64" else self._cast(self._cast(x, "float32"), "float64")

    def used_constants(self) -> list[onnx.TensorProto]:
        """Return the constants that a node takes."""
        taken = {name for node in self.nodes for name in node.input}
        return [tensor for name, tensor in self.constants.items() if name in taken]

    def squeezed(self, x: Value) -> Value:
        """Return the only column, ``(n,)``."""
        return self.emit("Squeeze", x, self.value([1], "int64"), dtype=x.dtype)

    def name_output(self, x: Value, name: str) -> None:
        """Let a value be the output `name`."""
        self.nodes.append(helper.make_node("Identity", [x.name], [name]))
