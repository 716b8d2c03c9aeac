"""Pictures of the examples, for light and for dark pages.

A block that has drawn runs again in the dark style. Examples without a picture are shown in the
gallery by the first lines that they print. The first picture of an example is above its code.
"""

import ast
import contextlib
import io
import re
import textwrap
import warnings
from pathlib import Path
from typing import Any

from docutils import nodes
from styles import STYLES, options, save

DOCS = Path(__file__).parents[1]
GALLERY = DOCS / "gallery"
THUMBS = GALLERY / "images" / "thumb"
SIZE = (400, 280)
# Examples in the order in which readers need them: read a diagram, measure, calibrate, choose a
# calibrator; then models of one event, special cases, and training.
ORDER = (
    "plot_how_to_read",
    "plot_models",
    "plot_reliability",
    "plot_before_after",
    "compare_calibrators",
    "plot_risk_model",
    "plot_groups",
    "plot_labels",
    "plot_label_plan",
    "plot_language_model",
    "plot_calibration_map",
    "plot_pipeline",
    "calibration_scorer",
    "plot_metric_bias",
    "plot_neural_network_scaling",
    "train_with_soft_calibration",
)
OUTPUT = re.compile(
    r"sphx-glr-script-out\n\n \.\. code-block:: none\n\n(.*?)(?=\n\S|\Z)", re.DOTALL
)
CODE = re.compile(r"code-block:: Python\n\n(.*?)(?=\n\S|\Z)", re.DOTALL)


def dark(path: Path) -> Path:
    """Return the path of the dark version of a picture."""
    return path.with_stem(f"{path.stem}_dark")


def place(example: str | Path) -> int:
    """Return the place of an example in the gallery."""
    return ORDER.index(Path(example).stem)


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

    text = page.read_text()
    block = OUTPUT.search(text) or CODE.search(text)  # code that does not run here
    printed = textwrap.dedent(block[1]) if block else ""
    lines = [line[:40] for line in printed.strip("\n").splitlines() if line.strip()][:12]
    light = THUMBS / f"sphx_glr_{page.stem}_thumb.png"
    for style, path in (("light", light), ("dark", dark(light))):
        with plt.style.context(STYLES[style]):
            figure = plt.figure(figsize=(4, 2.8), dpi=100)
            figure.text(0.03, 0.96, "\n".join(lines), family="monospace", size=9, va="top")
            figure.savefig(path, transparent=True)
            plt.close(figure)


def draw_thumbs(app: Any) -> None:
    """Write the small pictures for dark pages, and those of examples that print."""
    from sphinx_gallery.utils import scale_image

    for page in GALLERY.glob("*.rst"):
        thumb = THUMBS / f"sphx_glr_{page.stem}_thumb.png"
        drawn = GALLERY / "images" / f"sphx_glr_{page.stem}_001_dark.png"
        if drawn.exists():
            scale_image(drawn, dark(thumb), *SIZE)
        elif thumb.exists():
            draw_prints(page)


def show_thumbs(app: Any, doctree: Any) -> None:
    """Put both small pictures of an example wherever it is listed."""
    for light in list(doctree.findall(nodes.image)):
        path = Path(light["uri"])
        if path.parent.name == "thumb":
            other = light.deepcopy()
            other["uri"] = dark(path).as_posix()
            light["classes"].append("only-light")
            other["classes"].append("only-dark")
            light.parent.insert(light.parent.index(light) + 1, other)


def lift_picture(app: Any, doctree: Any) -> None:
    """Move the first picture of an example, in both styles, above its first code."""
    code = next(doctree.findall(nodes.literal_block), None)
    drawn = [
        image
        for image in doctree.findall(nodes.image)
        if Path(image["uri"]).name.startswith("sphx_glr_plot_")
        and Path(image["uri"]).parent.name == "images"
    ]
    if app.env.docname.startswith("gallery/") and code is not None:
        for picture in drawn[: len(STYLES)]:
            picture.parent.remove(picture)
            code.parent.insert(code.parent.index(code), picture)


def setup(app: Any) -> dict[str, bool]:
    """Connect the hooks, after the gallery's own and before images are collected."""
    app.connect("builder-inited", draw_thumbs, priority=900)
    app.connect("doctree-read", show_thumbs, priority=100)
    app.connect("doctree-read", lift_picture, priority=100)
    return {"parallel_read_safe": True}
