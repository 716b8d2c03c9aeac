"""Types of arrays."""

from __future__ import annotations

from typing import Literal, TypeVar

import numpy as np
from numpy.typing import NDArray

Kind = Literal["logits", "proba"]
FloatArray = NDArray[np.floating]
Float64Array = NDArray[np.float64]
Intp = NDArray[np.intp]
Bools = NDArray[np.bool_]
# Row numbers: contiguous, or in any order.
Rows = slice | Intp
Float = TypeVar("Float", bound=np.floating)
# One number for all classes, or one for each of two classes.
Clip = float | NDArray[np.float64]
