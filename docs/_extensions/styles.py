"""The two styles of pictures: on light and on dark pages."""

from pathlib import Path
from typing import Any

GROUND = "#14181e"  # of the theme's dark pages
STYLES = {"light": ["default"], "dark": ["dark_background", {"legend.facecolor": GROUND}]}
# Pixels of a picture for each of the page; how much larger than drawn the page shows it.
DENSITY, SCALE = 2, 1.15


def save(figure: Any, path: Path) -> None:
    """Write a picture without a ground of its own."""
    figure.savefig(path, dpi=100 * DENSITY, bbox_inches="tight", transparent=True)


def options(path: Path, alt: str, style: str) -> list[str]:
    """Return the options of the directive of a picture."""
    width = int(SCALE * int.from_bytes(path.read_bytes()[16:20], "big") / DENSITY)
    return [f":alt: {alt}", f":class: only-{style}", f":width: {width}px"]
