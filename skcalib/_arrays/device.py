"""Tensors on a device, read in blocks that stay there.

A pass over `DeviceBlocks` runs its kernel on tensors, which `rows_of` computes, and waits for the
device once, at its end: sums and numbers of rows come to the host, scores do not.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Iterator
from typing import Any, TypeVar

import numpy as np
from numpy.typing import DTypeLike

from skcalib._arrays.blocks import column_blocks
from skcalib._arrays.source import ALL, Source
from skcalib._arrays.types import Rows

T = TypeVar("T")
# Entries of a block: temporaries of float32 take 64 MiB each. A small operation takes 30 us.
BLOCK_ENTRIES = 1 << 24


class DeviceBlocks(Source):
    """Floats ``(n, K)`` whose blocks are tensors on a device.

    Parameters
    ----------
    tensor : torch.Tensor
        Numbers that blocks are made of.
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
        # Numbers of rows are brought to the device once.
        self._placed: dict[int, tuple[Any, Any]] = {}

    def read(self, rows: Rows, columns: slice = ALL) -> Any:
        """Return a block, a tensor that must not be modified."""
        block = self._compute(rows)
        return block if columns is ALL else block[:, columns]

    def computed(self, compute: Callable[[Rows], Any], n_rows: int | None = None) -> DeviceBlocks:
        """Return the blocks that ``compute(rows)`` makes of these, by default of as many rows."""
        return DeviceBlocks(self.tensor, self.shape[0] if n_rows is None else n_rows, compute)

    def on_device(self) -> DeviceBlocks:
        """Return itself."""
        return self

    def run(self, task: Callable[[Any], T], parts: Iterable[Any], _: int = 1) -> Iterator[T]:
        """Yield ``task(part)`` for each part, in order, without waiting for the device.

        Gradients, autocast and TF32, which training sets for the whole process, are off.
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
        """Whether cumulative sums are allowed; on a GPU, PyTorch has no deterministic ones."""
        return not sys.modules["torch"].are_deterministic_algorithms_enabled()

    def map_sorted(
        self, function: Callable[[Any], T], code: Any, w: Any, first: int
    ) -> Iterator[T]:
        """Yield ``function(columns)`` of some `SortedColumns` at a time, from class `first` on."""
        from skcalib._arrays.torch_columns import SortedColumns  # late: PyTorch is optional

        code, w = self.place(code), self.place(w)
        blocks = column_blocks(*self.shape, self.block_bytes, first)
        return self.run(lambda k: function(SortedColumns(self, k, code, w)), blocks)

    def empty_rows(self, dtype: DTypeLike = np.float64) -> Any:
        """Return a new tensor for a number of each row."""
        torch = sys.modules["torch"]
        kind = getattr(torch, np.dtype(dtype).name)
        return torch.empty(self.shape[0], dtype=kind, device=self.tensor.device)

    def place(self, values: Any) -> Any:
        """Return an array with an entry for each row as a tensor on the device."""
        if not isinstance(values, np.ndarray):
            return values
        if id(values) not in self._placed:
            self._placed[id(values)] = values, self.constant(values)
        return self._placed[id(values)][1]

    def constant(self, values: Any) -> Any:
        """Return an array of parameters as a tensor on the device."""
        return sys.modules["torch"].tensor(values, device=self.tensor.device)

    def fetch(self, result: Any) -> Any:
        """Return a tensor, or a tuple of them, as float64 numbers and arrays, by one copy."""
        if not isinstance(result, tuple):
            return self.fetch((result,))[0]
        torch = sys.modules["torch"]
        flat = torch.cat([part.double().reshape(-1) for part in result]).cpu().numpy()
        ends = np.cumsum([part.numel() for part in result])
        parts: list[Any] = [
            array.reshape(part.shape) if part.ndim else float(array[0])
            for part, array in zip(result, np.split(flat, ends[:-1]), strict=True)
        ]
        return type(result)(*parts) if hasattr(result, "_fields") else tuple(parts)
