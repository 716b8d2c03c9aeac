"""Pictures of what a page's own code draws, for light and for dark pages.

A page has ``<!-- picture: expression -->`` above an image of docs/pictures, which a repository's
view of the page shows. On the site, both become the figure of the expression, after the page's
python blocks and the commands of its console blocks above it have run. ``gallery:name`` is a
picture of an example, and ``<!-- file: report.html | what it shows -->`` is for a page that the
blocks have written.

After a site is built, ``python docs/_extensions/pictures.py`` writes the images of docs/pictures.
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

from styles import DENSITY, STYLES, options, save

DOCS = Path(__file__).parents[1]
FILES = DOCS / "generated" / "static"
PART = re.compile(
    r"^```(?P<language>python|console)\n(?P<code>.*?)^```$"
    r"|^<!-- picture: (?P<picture>[^\n]*?) -->\n!\[(?P<alt>[^\n]*?)\]\((?P<copy>[^\n]*?)\)$"
    r"|^<!-- file: (?P<file>[^|]*?) \| (?P<title>[^\n]*?) -->$",
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
        for part in parts:
            with inside(folder), warnings.catch_warnings():
                warnings.simplefilter("ignore")
                if part["language"] == "console":
                    for command in re.findall(r"^\$ skcalib (.*)$", part["code"], re.MULTILINE):
                        main(shlex.split(command))
                    continue
                if part["code"]:
                    exec(compile(part["code"], docname, "exec"), names)
                    continue
                if part["file"] and style == "light":
                    (FILES / f"{docname}_{part['file']}").write_bytes(
                        Path(part["file"]).read_bytes()
                    )
                elif part["picture"] and not part["picture"].startswith("gallery:"):
                    figure = eval(part["picture"], {**vars(skcalib), **names})
                    save(figure, DOCS / drawn(docname, part, style))
        plt.close("all")


def drawn(docname: str, part: re.Match[str], style: str) -> str:
    """Return the path, inside docs/, of the picture of a mark in one style."""
    if part["picture"].startswith("gallery:"):
        name = f"gallery/images/sphx_glr_{part['picture'].removeprefix('gallery:')}_001"
        return f"{name}{'_dark' if style == 'dark' else ''}.png"
    return f"generated/pictures/{Path(part['copy']).stem}_{style}.png"


def image(path: str, alt: str, style: str) -> str:
    """Return the Markdown of a picture that is shown on light or on dark pages."""
    lines = "\n".join(options(DOCS / path, alt, style))
    return f"```{{image}} {path}\n{lines}\n```\n"


def add_pictures(app: Any, docname: str, source: list[str]) -> None:
    """Put the pictures of a page in place of their marks."""
    parts = list(PART.finditer(source[0]))
    marks = [i for i, part in enumerate(parts) if part["file"] or part["picture"]]
    if not marks or Path(app.env.doc2path(docname)).suffix != ".md":
        return
    (DOCS / "generated/pictures").mkdir(parents=True, exist_ok=True)
    needed = parts[: marks[-1] + 1]
    for style in STYLES:
        run(docname, needed, style)
    text = source[0]
    for i in reversed(marks):
        part = parts[i]
        if part["file"]:
            address, title = f"_static/{docname}_{part['file']}", part["title"]
            shown = (
                f'<p><a href="{address}">{title}</a></p>\n'
                f'<iframe class="page" src="{address}" title="{title}" loading="lazy"></iframe>\n'
            )
        else:
            shown = "\n".join(
                image(drawn(docname, part, style), part["alt"], style) for style in STYLES
            )
        text = text[: part.start()] + shown + text[part.end() :]
    source[0] = text


def write_copies() -> None:
    """Write the images of docs/pictures from the light pictures of the site built last."""
    from PIL import Image

    for page in sorted(DOCS.glob("*.md")):
        for part in PART.finditer(page.read_text(encoding="utf-8")):
            if part["picture"]:
                picture = Image.open(DOCS / drawn(page.stem, part, "light")).convert("RGBA")
                white = Image.new("RGBA", picture.size, "white")
                copy = Image.alpha_composite(white, picture).convert("RGB").reduce(DENSITY)
                copy.quantize(128).save(DOCS / part["copy"], optimize=True)


def setup(app: Any) -> dict[str, bool]:
    """Connect the hook."""
    FILES.mkdir(parents=True, exist_ok=True)
    app.connect("source-read", add_pictures, priority=400)
    return {"parallel_read_safe": False}


if __name__ == "__main__":
    write_copies()
