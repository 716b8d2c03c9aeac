"""PyTorch tensors as sources of scores, and computation on the GPU or other device of a tensor."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Iterator
from typing import Any, TypeVar

import numpy as np
from numpy.typing import DTypeLike, NDArray
from sklearn import get_config

from skcalib._arrays import rowwise
from skcalib._arrays.rowwise import FloatArray, Rows, column_blocks
from skcalib._arrays.sources import ALL, Source

# Tensors on a device, which are read in blocks that stay on the device.
#
# A pass over `DeviceBlocks` runs its kernel on tensors, with the operations of `ops_for`. The pass
# waits for the device once, at its end. Only sums and numbers of rows are copied to the host, not
# scores.


T = TypeVar("T")
# Number of entries in a block of a tensor: 64 MiB in float32. In smaller blocks, the overhead of an
# operation, 30 us, would dominate its time.
BLOCK_ENTRIES = 1 << 24


class DeviceBlocks(Source):
    """Source of numbers ``(n, K)`` whose blocks are tensors on a device.

    Parameters
    ----------
    tensor : torch.Tensor
        Numbers from which blocks are computed.
    n_rows : int
    compute : callable, default=None
        ``compute(rows)`` returns a block; without it, blocks are views of the tensor.
    """

    def __init__(
        self, tensor: Any, n_rows: int | None = None, compute: Callable[[Rows], Any] | None = None
    ) -> None:
        self.tensor = tensor
        self.shape = tensor.shape[0] if n_rows is None else n_rows, tensor.shape[1]
        self.dtype = np.dtype(np.float64 if tensor.element_size() == 8 else np.float32)
        self.block_bytes = 8 * BLOCK_ENTRIES
        self._compute = tensor.__getitem__ if compute is None else compute
        # Arrays with a number for each row are copied to the device once, and stay there.
        self._rows_on_device: dict[int, tuple[Any, Any]] = {}

    def read(self, rows: Rows, columns: slice = ALL) -> Any:
        """Return a block as a tensor that must not be modified."""
        block = self._compute(rows)
        return block if columns is ALL else block[:, columns]

    def computed(self, compute: Callable[[Rows], Any], n_rows: int | None = None) -> DeviceBlocks:
        """Return a source whose blocks are computed by ``compute(rows)`` on the device."""
        return DeviceBlocks(self.tensor, self.shape[0] if n_rows is None else n_rows, compute)

    def on_device(self) -> DeviceBlocks:
        """Return the source itself, whose blocks are on a device."""
        return self

    def run(self, task: Callable[[Any], T], parts: Iterable[Any], _: int = 1) -> Iterator[T]:
        """Yield ``task(part)`` for each part, in order, without waiting for the device.

        Gradients, autocast and TF32, which training sets for the whole process, are switched off.
        """
        torch, device = sys.modules["torch"], self.tensor.device.type
        before = torch.backends.cuda.matmul.allow_tf32
        torch.backends.cuda.matmul.allow_tf32 = False
        try:
            with torch.no_grad(), torch.autocast(device, enabled=False):
                yield from map(task, parts)
        finally:
            torch.backends.cuda.matmul.allow_tf32 = before

    @property
    def sums_in_order(self) -> bool:
        """Whether cumulative sums may be used: not if PyTorch must run deterministic algorithms."""
        return not sys.modules["torch"].are_deterministic_algorithms_enabled()

    def map_sorted(
        self, function: Callable[[Any], T], code: Any, w: Any, first: int
    ) -> Iterator[T]:
        """Yield ``function(columns)`` for blocks of classes with sorted scores, from `first` on."""
        # This module imports PyTorch, which is optional.
        from skcalib._arrays.torch_columns import SortedColumns

        code, w = self.rows_to_device(code), self.rows_to_device(w)
        blocks = column_blocks(*self.shape, self.block_bytes, first)
        return self.run(lambda k: function(SortedColumns(self, k, code, w)), blocks)

    def empty_rows(self, dtype: DTypeLike = np.float64) -> Any:
        """Return a new tensor with an entry for each row, on the device."""
        torch = sys.modules["torch"]
        kind = getattr(torch, np.dtype(dtype).name)
        return torch.empty(self.shape[0], dtype=kind, device=self.tensor.device)

    def rows_to_device(self, values: Any) -> Any:
        """Copy an array with an entry for each row to the device."""
        if not isinstance(values, np.ndarray):
            return values
        if id(values) not in self._rows_on_device:
            self._rows_on_device[id(values)] = values, self.to_device(values)
        return self._rows_on_device[id(values)][1]

    def to_device(self, values: Any) -> Any:
        """Copy an array of parameters to the device."""
        return sys.modules["torch"].tensor(values, device=self.tensor.device)

    def to_host(self, result: Any) -> Any:
        """Copy tensors to the host in one transfer, as float64 numbers and NumPy arrays."""
        if not isinstance(result, tuple):
            return self.to_host((result,))[0]
        torch = sys.modules["torch"]
        flat = torch.cat([part.double().reshape(-1) for part in result]).cpu().numpy()
        ends = np.cumsum([part.numel() for part in result])
        parts: list[Any] = [
            array.reshape(part.shape) if part.ndim else float(array[0])
            for part, array in zip(result, np.split(flat, ends[:-1]), strict=True)
        ]
        return type(result)(*parts) if hasattr(result, "_fields") else tuple(parts)


# Conversion of PyTorch tensors to NumPy. Importing this module does not import PyTorch.
#
# A tensor of float32 or float64 on the CPU is a NumPy array of the same memory. A tensor of a
# shorter type or on another device is converted block by block, when a block is read.


def is_tensor(x: Any) -> bool:
    """Return whether `x` is a PyTorch tensor, without importing PyTorch."""
    torch = sys.modules.get("torch")
    return torch is not None and isinstance(x, torch.Tensor)


def refuse_without_numbers(name: str, x: Any) -> None:
    """Refuse a sparse, nested or quantized tensor, and a tensor on the device meta."""
    way = f"pass {name}.to_dense()"
    if x.device.type == "meta":
        kind, way = "on the device meta, which has no numbers", "pass one on the CPU or a GPU"
    elif x.is_nested:
        kind, way = "of rows of several lengths", f"pass {name}.to_padded_tensor(...)"
    elif x.is_quantized:
        kind, way = f"of {x.dtype}", f"pass {name}.dequantize()"
    elif not str(x.layout).endswith("strided"):
        kind = f"of layout {x.layout}"
    else:
        return
    raise TypeError(f"{name} is a tensor {kind}: {way}.")


# Types of devices on which PyTorch does the computations. Tensors on other devices are converted to
# NumPy: MPS has no float64, and on a CPU NumPy is faster.
DEVICES = {"cuda", "xpu"}


def is_far(x: Any) -> bool:
    """Return whether `x` is a tensor on a device, such as a GPU, that also computes its metrics."""
    return is_tensor(x) and x.device.type in DEVICES


def is_on_device(x: Any) -> bool:
    """Return whether a tensor ``(n, K)`` is computed by PyTorch on its device."""
    several = x.ndim == 2 and x.shape[1] > 1
    return several and x.is_floating_point() and x.element_size() > 1 and x.device.type in DEVICES


def needs_blocks(x: Any) -> bool:
    """Return whether a tensor has to be converted block by block."""
    short = x.is_floating_point() and x.element_size() < 4
    elsewhere = x.device.type != "cpu" or is_on_device(x)
    return x.ndim in (1, 2) and x.numel() and (short or (elsewhere and not x.is_complex()))


def is_bfloat16(x: Any) -> bool:
    """Return whether `x` is a tensor of bfloat16."""
    return is_tensor(x) and str(x.dtype) == "torch.bfloat16"


def ops_for(block: Any) -> Any:
    """Return the module with operations on a block: `rowwise` (NumPy) or `torch_rows`."""
    if isinstance(block, np.ndarray):
        return rowwise
    # This module imports PyTorch, which is optional.
    from skcalib._arrays import torch_rows

    return torch_rows


def is_beside(x: Any, X: Any) -> bool:
    """Return whether `x` is a one-dimensional tensor of real numbers on the device of `X`."""
    strided = is_tensor(x) and is_tensor(X) and x.layout == X.layout
    return (
        strided and x.ndim == 1 and x.device == X.device and not (x.is_complex() or x.is_quantized)
    )


def are_labels_beside(y: Any, X: Any) -> bool:
    """Return whether `y` is a tensor of integers on the device on which `X` is computed."""
    integers = ("bool", "uint8", "int8", "int16", "int32", "int64")
    return is_beside(y, X) and is_on_device(X) and str(y.dtype).removeprefix("torch.") in integers


def array_of_tensor(x: Any) -> NDArray[Any]:
    """Convert a tensor to an array, in float32 if NumPy does not have its type.

    The array shares the memory of a tensor on the CPU if NumPy has its type.
    """
    x = x.detach().resolve_conj().resolve_neg().cpu()
    if is_bfloat16(x):  # the 16 bits of bfloat16 are the upper half of a float32
        bits = x.view(sys.modules["torch"].int16).numpy().view(np.uint16).astype(np.uint32)
        return np.left_shift(bits, 16, out=bits).view(np.float32)
    return (x.float() if x.is_floating_point() and x.element_size() < 2 else x).numpy()


def on_host(x: Any) -> Any:
    """Convert a tensor to an array; return anything else unchanged."""
    return array_of_tensor(x) if is_tensor(x) else x


def concatenate(parts: Iterable[Any]) -> Any:
    """Concatenate arrays or tensors on the device of the last one."""
    *_, last = parts = list(parts)
    if not is_tensor(last):
        return np.concatenate([on_host(part) for part in parts])
    return sys.modules["torch"].cat([as_type_of(part, last).to(last.device) for part in parts])


class TensorSource(Source):
    """Source of numbers in a tensor; blocks become NumPy arrays when they are read.

    Floats shorter than float64 become float32; all other numbers become float64.
    """

    def __init__(self, tensor: Any) -> None:
        self.tensor = tensor.detach() if tensor.ndim == 2 else tensor.detach()[:, None]
        self.shape = self.tensor.shape[0], self.tensor.shape[1]
        short = tensor.is_floating_point() and tensor.element_size() < 8
        self.dtype = np.dtype(np.float32 if short else np.float64)

    def read(self, rows: Rows, columns: slice = ALL) -> FloatArray:
        """Read a block of the tensor as a new NumPy array."""
        if not isinstance(rows, slice):
            torch = sys.modules["torch"]
            rows = torch.from_numpy(np.ascontiguousarray(rows)).to(self.tensor.device)
        return array_of_tensor(self.tensor[rows, columns]).astype(self.dtype, copy=False)

    def on_device(self) -> DeviceBlocks | None:
        """Return the tensor as blocks that stay on its device."""
        return DeviceBlocks(self.tensor) if is_on_device(self.tensor) else None


def as_type_of(result: Any, X: Any) -> Any:
    """Convert an array of numbers to a tensor on the device of `X`, if `X` is a tensor.

    Strings, and anything but an array, are returned unchanged.
    """
    if not is_tensor(X) or not isinstance(result, np.ndarray) or result.dtype.kind not in "biuf":
        return result
    return sys.modules["torch"].from_numpy(np.ascontiguousarray(result)).to(X.device)


def as_dispatched(result: Any, X: Any) -> Any:
    """Convert a result by `as_type_of` if scikit-learn's ``array_api_dispatch`` is set."""
    return as_type_of(result, X) if get_config()["array_api_dispatch"] else result
