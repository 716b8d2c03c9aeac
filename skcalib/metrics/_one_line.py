"""Results of tests and intervals in one short line, for ``print`` and notebooks."""

from __future__ import annotations

from decimal import ROUND_UP, Context
from typing import Any

import numpy as np

# Entries shown at each end of an array that has more than twice as many.
SHOWN = 3


def shown(value: Any, smallest: float = np.nan) -> str:
    """Return "=0.0123", or "<0.02" for a value at its lower limit `smallest`."""
    each = [_number(x, smallest) for x in np.ravel(value).tolist()]
    if np.ndim(value) == 0:
        return each[0] if each[0].startswith("<") else f"={each[0]}"
    if len(each) > 2 * SHOWN:
        each[SHOWN:-SHOWN] = ["..."]
    return f"=[{', '.join(each)}]"


def p_text(p: float, smallest: float) -> str:
    """Write a p-value, and one at its smallest possible value as an inequality: "< 0.0034"."""
    return shown(p, smallest).removeprefix("=").replace("<", "< ")


def _number(x: float, smallest: float) -> str:
    if not x <= smallest:  # NaN too
        return f"{x:.4g}"
    bound = Context(prec=2, rounding=ROUND_UP).create_decimal(repr(smallest))
    return f"<{float(bound):g}"
