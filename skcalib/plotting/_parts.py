"""Parts of a reliability diagram beside its curve, and which of them several models leave out."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from skcalib._arrays.types import Float64Array
from skcalib.metrics._calibration_curve import CalibrationCurve
from skcalib.plotting._display import count_models
from skcalib.plotting._room import is_small
from skcalib.plotting._style import percent, veil

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.axes import Axes

# Parts that the user has not asked for, and the number of models up to which they are drawn.
MOST = {"interval": 2, "band": 2, "gaps": 1, "means": 1}
# Marks on them, and on those that the user has asked for.
AUTO, ASKED = "skcalib-auto-", "skcalib-"
# Marks on what the legend is not to cover.
CLEAR = (f"{AUTO}interval", f"{ASKED}interval", f"{AUTO}means", f"{ASKED}means")


class Parts:
    """Draws the parts of the next model on an axes, and takes away what has become too much."""

    def __init__(
        self, ax: Axes, style: dict[str, Any], asked: dict[str, bool | None], level: float
    ) -> None:
        self.ax, self.style, self.color = ax, style, style["color"]
        self.level = f"{100 * level:g}%"
        self.first = not count_models(ax)
        n_models = count_models(ax) + 1
        self.gid: dict[str, str | None] = {}
        for what, most in MOST.items():
            room = n_models <= most and (most > 1 or not is_small(ax))
            drawn = room if asked[what] is None else asked[what]
            mark = AUTO if asked[what] is None else ASKED
            self.gid[what] = f"{mark}{what}" if drawn else None
            if n_models > most:
                for artist in ax.get_children():
                    if artist.get_gid() == f"{AUTO}{what}":
                        artist.remove()

    def band_of_bins(self, table: pd.DataFrame) -> Any:
        """Shade where the accuracies of a calibrated model lie."""
        low, high = (table[f"band_{end}"].to_numpy() for end in ("low", "high"))
        label = f"{self.level} if calibrated"
        return self._shade("band", table["confidence"].to_numpy(), low, high, 0.15, label)

    def interval_of_bins(self, table: pd.DataFrame) -> Any:
        """Draw the interval of each accuracy."""
        gid = self.gid["interval"]
        if gid is None:
            return None
        low, high = (table[f"accuracy_{end}"].to_numpy() for end in ("low", "high"))
        look: dict[str, Any] = {"color": self.color, "lw": 1, "zorder": 1.8}
        look["label"] = f"{self.level} interval" if self.first else None
        return self.ax.vlines(table["confidence"].to_numpy(), low, high, gid=gid, **look)

    def gaps_of_bins(self, x: Float64Array, y: Float64Array) -> Any:
        """Draw a wide bar from the diagonal to each point."""
        gid = self.gid["gaps"]
        if gid is None:
            return None
        look: dict[str, Any] = {"color": self.color, "alpha": veil(self.ax, 0.3), "zorder": 1.7}
        look["lw"], look["label"] = 3 if is_small(self.ax) else 5, "gap" if self.first else None
        return self.ax.vlines(x, np.minimum(x, y), np.maximum(x, y), gid=gid, **look)

    def bands_of_curve(self, curve: CalibrationCurve) -> tuple[Any, Any]:
        """Shade the simultaneous and the pointwise band of a curve."""
        x, whole = curve.prob_pred, (curve.low_simultaneous, curve.high_simultaneous)
        return (
            self._shade("band", x, *whole, 0.1, f"{self.level}, whole curve"),
            self._shade("interval", x, curve.low, curve.high, 0.2, f"{self.level}, each score"),
        )

    def star(self, means: tuple[float, float], names: tuple[str, str]) -> Any:
        """Mark the mean score and the share of hits of all rows."""
        gid = self.gid["means"]
        if gid is None:
            return None
        what = "accuracy" if names[1] == "Accuracy" else "share"
        look: dict[str, Any] = {"marker": "*", "ms": 8 if is_small(self.ax) else 11, "ls": "none"}
        look |= {"mew": 1.2, "mec": self.color, "mfc": self.ax.get_facecolor(), "zorder": 4}
        label = f"mean {percent(means[0])}, {what} {percent(means[1])}"
        return self.ax.plot(*means, label=label, gid=gid, **look)[0]

    def _shade(
        self, what: str, x: Float64Array, low: Any, high: Any, alpha: float, label: str
    ) -> Any:
        gid = self.gid[what]
        if gid is None:
            return None
        look: dict[str, Any] = {"color": self.color, "alpha": veil(self.ax, alpha), "lw": 0}
        look["label"] = label if self.first else None
        return self.ax.fill_between(x, low, high, zorder=1, gid=gid, **look)
