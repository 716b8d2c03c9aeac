"""A matrix of coefficients as a heat map."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from skcalib.plotting._room import NAME, is_small, name_ticks, shorten, shrink_text

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.image import AxesImage

# Largest numbers of classes for which a matrix shows its numbers, and all its labels.
WRITTEN, WRITTEN_SMALL, LABELLED = 6, 4, 12


def draw_matrix(ax: Axes, W: NDArray[np.float64], classes: NDArray[Any]) -> AxesImage:
    """Draw ``W (K, K)``; colours span plus and minus its largest entry off the diagonal."""
    K = classes.size
    span = float(np.abs(W[~np.eye(K, dtype=bool)]).max()) or 1.0
    # The lightness of this map is monotone, so that signs are visible in grey, too.
    image = ax.imshow(W, cmap="cividis", vmin=-span, vmax=span)
    beyond = {(False, False): "neither", (True, False): "min", (False, True): "max"}
    extend = beyond.get((bool(W.min() < -span), bool(W.max() > span)), "both")
    figure: Any = ax.figure
    figure.colorbar(image, ax=ax, extend=extend).set_label("Coefficient")
    if is_small(ax):
        shrink_text(ax)
    if (WRITTEN_SMALL if is_small(ax) else WRITTEN) >= K:
        digits = int(np.clip(1 - np.floor(np.log10(span)), 2, 4))
        for (row, column), value in np.ndenumerate(W):
            # Adding 0 turns -0.00 into 0.00.
            text = f"{round(value, digits) + 0.0:.{digits}f}"
            color = "black" if value > 0 else "white"
            ax.text(column, row, text, ha="center", va="center", color=color, size=8)
    if K <= LABELLED:
        for axis in (ax.xaxis, ax.yaxis):
            name_ticks(axis, [str(label) for label in classes], 0, 0.6)
    else:
        ticks = np.linspace(0, K - 1, 6).astype(np.intp)
        names = [shorten(str(label), NAME // 2) for label in classes[ticks]]
        slant: dict[str, Any] = {"rotation": 40, "ha": "right", "rotation_mode": "anchor"}
        ax.set_xticks(ticks, names, **(slant if max(map(len, names)) > 3 else {}))
        ax.set_yticks(ticks, names)
    ax.set(xlabel="From the score of class", ylabel="To the score of class")
    low, high = (f"{end(np.diag(W)):.2f}" for end in (np.min, np.max))
    size = "small" if is_small(ax) else "medium"
    ax.set_title(f"diagonal {low}" if low == high else f"diagonal {low} to {high}", size=size)
    return image


def figure_size(classes: NDArray[Any]) -> tuple[float, float]:
    """Return the size of a figure in which long names take nothing from the matrix."""
    letters = (
        max(min(len(str(label)), NAME) for label in classes) if classes.size <= LABELLED else 3
    )
    room = 0.085 * max(letters - 3, 0)
    return 4.4 + room, 3.8 + 0.7 * room
