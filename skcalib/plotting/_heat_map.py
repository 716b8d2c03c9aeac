"""A matrix of coefficients as a heat map."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.image import AxesImage

# Largest numbers of classes for which a matrix shows its numbers, and all its labels.
WRITTEN, LABELLED = 6, 10


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
    if K <= WRITTEN:
        for (row, column), value in np.ndenumerate(W):
            # Adding 0 turns -0.00 into 0.00.
            text, color = f"{round(value, 2) + 0.0:.2f}", "black" if value > 0 else "white"
            ax.text(column, row, text, ha="center", va="center", color=color, size=8)
    ticks = np.arange(K) if K <= LABELLED else np.linspace(0, K - 1, 6).astype(np.intp)
    names = [str(label) for label in classes[ticks]]
    ax.set_xticks(ticks, names, rotation=90 if max(map(len, names)) > 1 else 0)
    ax.set_yticks(ticks, names)
    ax.set(xlabel="From the score of class", ylabel="To the score of class")
    diagonal = np.diag(W)
    ax.set_title(f"diagonal {diagonal.min():.2f} to {diagonal.max():.2f}", size="medium")
    return image
