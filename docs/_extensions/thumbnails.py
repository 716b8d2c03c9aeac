"""An example without a picture is shown in the gallery by the first lines that it prints."""

import re
import textwrap
from pathlib import Path
from typing import Any

GALLERY = Path(__file__).parents[1] / "gallery"
OUTPUT = re.compile(
    r"sphx-glr-script-out\n\n \.\. code-block:: none\n\n(.*?)(?=\n\S|\Z)", re.DOTALL
)


def draw_prints(app: Any) -> None:
    """Write the thumbnails of examples that print and do not draw."""
    from matplotlib.figure import Figure

    for page in GALLERY.glob("*.rst"):
        name = page.stem
        thumb = GALLERY / "images" / "thumb" / f"sphx_glr_{name}_thumb.png"
        found = OUTPUT.search(page.read_text())
        if not thumb.exists() or (GALLERY / "images" / f"sphx_glr_{name}_001.png").exists():
            continue
        printed = textwrap.dedent(found[1]) if found else (page.read_text().split("::\n")[-1])
        lines = [line[:40] for line in printed.strip("\n").splitlines() if line.strip()][:12]
        figure = Figure(figsize=(4, 2.8), dpi=100, facecolor="#f6f8fa")
        figure.text(0.03, 0.96, "\n".join(lines), family="monospace", size=9, va="top")
        figure.savefig(thumb)


def setup(app: Any) -> dict[str, bool]:
    """Connect the hook, after the gallery's own."""
    app.connect("builder-inited", draw_prints, priority=900)
    return {"parallel_read_safe": True}
