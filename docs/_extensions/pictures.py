"""Pictures of what a page's own code draws, for light and for dark pages.

``<!-- picture: expression | what it shows -->`` in a page becomes the figure of the expression,
after the page's python blocks and the commands of its console blocks above it have run.
``gallery:name`` is a picture of an example, and ``<!-- file: report.html | what it shows -->`` is
for a page that the blocks have written.
"""

import contextlib
import io
import os
import re
import shlex
import tempfile
import warnings
from pathlib import Path
from typing import Any

from styles import STYLES, options, save

DOCS = Path(__file__).parents[1]
PICTURES = DOCS / "generated" / "pictures"
FILES = DOCS / "generated" / "static"
PART = re.compile(
    r"^```(?P<language>python|console)\n(?P<code>.*?)^```$"
    r"|^<!-- (?P<kind>picture|file): (?P<value>[^|]*?) \| (?P<alt>[^\n]*?) -->$",
    re.MULTILINE | re.DOTALL,
)


@contextlib.contextmanager
def inside(folder: str) -> Any:
    """Run what follows in a folder, without its prints and pictures."""
    before = os.getcwd()
    os.chdir(folder)
    try:
        with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()):
            yield
    finally:
        os.chdir(before)


def run(docname: str, parts: list[re.Match[str]], style: str) -> None:
    """Run the blocks of a page and save what its marks name, in one style."""
    import matplotlib.pyplot as plt

    import skcalib
    from skcalib.__main__ import main

    names: dict[str, Any] = {"__name__": "__main__"}
    with tempfile.TemporaryDirectory() as folder, plt.style.context(STYLES[style]):
        for i, part in enumerate(parts):
            with inside(folder), warnings.catch_warnings():
                warnings.simplefilter("ignore")
                if part["language"] == "console":
                    for command in re.findall(r"^\$ skcalib (.*)$", part["code"], re.MULTILINE):
                        main(shlex.split(command))
                    continue
                if part["code"]:
                    exec(compile(part["code"], docname, "exec"), names)
                    continue
                value = part["value"]
                if part["kind"] == "file" and style == "light":
                    (FILES / f"{docname}_{value}").write_bytes(Path(value).read_bytes())
                elif part["kind"] == "picture" and not value.startswith("gallery:"):
                    figure = eval(value, {**vars(skcalib), **names})
                    save(figure, PICTURES / f"{docname}_{i}_{style}.png")
        plt.close("all")


def image(path: str, alt: str, style: str) -> str:
    """Return the Markdown of a picture that is shown on light or on dark pages."""
    lines = "\n".join(options(DOCS / path, alt, style))
    return f"```{{image}} {path}\n{lines}\n```\n"


def add_pictures(app: Any, docname: str, source: list[str]) -> None:
    """Put the pictures of a page in place of their marks."""
    parts = list(PART.finditer(source[0]))
    marks = [i for i, part in enumerate(parts) if part["kind"]]
    if not marks or Path(app.env.doc2path(docname)).suffix != ".md":
        return
    PICTURES.mkdir(parents=True, exist_ok=True)
    needed = parts[: marks[-1] + 1]
    for style in STYLES:
        run(docname, needed, style)
    text = source[0]
    for i in reversed(marks):
        part = parts[i]
        value, alt = part["value"], part["alt"]
        if part["kind"] == "file":
            address = f"_static/{docname}_{value}"
            shown = (
                f'<p><a href="{address}">{alt}</a></p>\n'
                f'<iframe class="page" src="{address}" title="{alt}" loading="lazy"></iframe>\n'
            )
        else:
            names = {style: f"generated/pictures/{docname}_{i}_{style}.png" for style in STYLES}
            if value.startswith("gallery:"):
                first = f"gallery/images/sphx_glr_{value.removeprefix('gallery:')}_001"
                names = {"light": f"{first}.png", "dark": f"{first}_dark.png"}
            shown = "\n".join(image(names[style], alt, style) for style in STYLES)
        text = text[: part.start()] + shown + text[part.end() :]
    source[0] = text


def setup(app: Any) -> dict[str, bool]:
    """Connect the hook."""
    FILES.mkdir(parents=True, exist_ok=True)
    app.connect("source-read", add_pictures, priority=400)
    return {"parallel_read_safe": False}
