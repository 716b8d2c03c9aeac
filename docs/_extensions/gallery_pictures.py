"""Pictures of the examples, for light and for dark pages.

A block that has drawn runs again in the dark style. Examples without a picture are shown in the
gallery by the first lines that they print.
"""

import ast
import contextlib
import io
import re
import textwrap
import warnings
from pathlib import Path
from typing import Any

from styles import STYLES, options, save

DOCS = Path(__file__).parents[1]
GALLERY, LISTS = DOCS / "gallery", DOCS / "generated" / "examples"
THUMBS = GALLERY / "images" / "thumb"
SIZE = (400, 280)
OUTPUT = re.compile(
    r"sphx-glr-script-out\n\n \.\. code-block:: none\n\n(.*?)(?=\n\S|\Z)", re.DOTALL
)
THUMB = re.compile(r"^( *\.\. image:: \S+_thumb)(\.png\n *):alt:.*\n(?! *:class:)", re.MULTILINE)


def dark(path: Path) -> Path:
    """Return the path of the dark version of a picture."""
    return path.with_stem(f"{path.stem}_dark")


def save_pictures(block: Any, block_vars: dict[str, Any], gallery_conf: dict[str, Any]) -> str:
    """Save what a block of an example has drawn, and draw it again in the dark style."""
    import matplotlib.pyplot as plt

    source, shown = Path(block_vars["src_file"]), ""
    title = (ast.get_docstring(ast.parse(source.read_text())) or "").partition("\n")[0]
    paths = [Path(next(block_vars["image_path_iterator"])) for _ in plt.get_fignums()]
    for style in STYLES if paths else ():
        with plt.style.context(STYLES[style]):
            if style == "dark":
                plt.close("all")
                paths = [dark(path) for path in paths]
                names = dict(block_vars["example_globals"])
                with contextlib.redirect_stdout(io.StringIO()), warnings.catch_warnings():
                    warnings.simplefilter("ignore")
                    exec(compile(block[1], source, "exec"), names)
            for number, path in zip(plt.get_fignums(), paths, strict=True):
                save(plt.figure(number), path)
                lines = [f".. image:: /{path.relative_to(DOCS).as_posix()}"]
                lines += [f"   {option}" for option in options(path, title, style)]
                shown += "\n".join(lines) + "\n\n"
    plt.close("all")
    return shown


def draw_prints(page: Path) -> None:
    """Write the small pictures of an example that prints and does not draw."""
    from matplotlib import pyplot as plt

    found = OUTPUT.search(page.read_text())
    printed = textwrap.dedent(found[1]) if found else (page.read_text().split("::\n")[-1])
    lines = [line[:40] for line in printed.strip("\n").splitlines() if line.strip()][:12]
    light = THUMBS / f"sphx_glr_{page.stem}_thumb.png"
    for style, path in (("light", light), ("dark", dark(light))):
        with plt.style.context(STYLES[style]):
            figure = plt.figure(figsize=(4, 2.8), dpi=100)
            figure.text(0.03, 0.96, "\n".join(lines), family="monospace", size=9, va="top")
            figure.savefig(path, transparent=True)
            plt.close(figure)


def add_thumbs(app: Any) -> None:
    """Give each example small pictures for light and for dark pages, wherever it is listed."""
    from sphinx_gallery.utils import scale_image

    for thumb in THUMBS.glob("*_thumb.png"):
        name = thumb.stem.removesuffix("_thumb")
        drawn = GALLERY / "images" / f"{name}_001_dark.png"
        page = GALLERY / f"{name.removeprefix('sphx_glr_')}.rst"
        if drawn.exists():
            scale_image(drawn, dark(thumb), *SIZE)
        elif page.exists():
            draw_prints(page)
    for page in (GALLERY / "index.rst", *LISTS.glob("*.examples")):
        text = page.read_text()
        both = THUMB.sub(
            r"\1\2:alt:\n    :class: only-light\n\n\1_dark\2:alt:\n    :class: only-dark\n", text
        )
        if both != text:
            page.write_text(both)


def setup(app: Any) -> dict[str, bool]:
    """Connect the hook, after the gallery's own."""
    app.connect("builder-inited", add_thumbs, priority=900)
    return {"parallel_read_safe": True}
