"""Pages are written for readers of the repository; their links become links of the site.

A link to a program leads to its page in the gallery, one to a page outside docs/ to a copy of it,
and any other becomes plain text; pictures stay where they are. In the pages in ``CONTENTS``, each
list of links below the line ``<!-- contents -->`` is a table of contents of the site, named by the
heading above it.
"""

import os
import re
from pathlib import Path
from typing import Any

DOCS = Path(__file__).parents[1]
ROOT = DOCS.parent

CONTENTS = ["index", "guide", "generated/benchmarks/README"]
COPIES = [
    "CHANGELOG.md",
    "CONTRIBUTING.md",
    "benchmarks/README.md",
    "benchmarks/arena/README.md",
    "benchmarks/arena/claim.md",
    "benchmarks/arena/regret.md",
    "benchmarks/coverage/README.md",
    "benchmarks/coverage/acting.md",
    "benchmarks/coverage/choosing.md",
    "benchmarks/coverage/table.md",
    "benchmarks/prior_shift/README.md",
    "benchmarks/studies/README.md",
    "benchmarks/studies/coming_from.md",
    "benchmarks/trust/README.md",
]
IMAGE = re.compile(r'(<img src=")(?![a-z]+:)([^"]+)')
LINK = re.compile(r"(?<!!)\[([^\]]*)\]\((?![a-z]+:)([^)#\s]+)(#[^)\s]*)?\)")
MARK = "<!-- contents -->"
HEADING_OR_LINK = re.compile(r"^##? (.*)$|^\* \[[^\]]*\]\(([^)#\s]+)\)", re.MULTILINE)


def copy_pages(app: Any) -> None:
    """Copy the pages that stand outside docs/."""
    for name in COPIES:
        copy = DOCS / "generated" / name
        copy.parent.mkdir(parents=True, exist_ok=True)
        text = (ROOT / name).read_text()
        if not copy.exists() or copy.read_text() != text:
            copy.write_text(text)


def page_of(path: Path) -> Path | None:
    """Return the page of the site that shows a file of the repository."""
    inside = path.relative_to(ROOT).as_posix()
    if inside in COPIES:
        return DOCS / "generated" / inside
    if path.parent == ROOT / "examples" and path.suffix == ".py":
        return DOCS / "gallery" / f"{path.stem}.rst"
    if path == ROOT / "examples":
        return DOCS / "gallery" / "index.rst"
    if inside == "README.md":
        return DOCS / "index.md"
    return path if path.parent == DOCS else None


def rewrite_links(app: Any, docname: str, source: list[str]) -> None:
    """Lead the links of a page to pages of the site."""
    page = Path(app.env.doc2path(docname))
    if page.suffix != ".md":
        return
    copied = DOCS / "generated"
    home = (ROOT / page.relative_to(copied) if page.is_relative_to(copied) else page).parent

    def rewrite(link: re.Match[str]) -> str:
        text, target, anchor = link.groups()
        shown = page_of(Path(os.path.normpath(home / target)))
        if shown is None:
            return text
        return f"[{text}]({os.path.relpath(shown, page.parent)}{anchor or ''})"

    if docname in CONTENTS:
        tables = navigation(source[0], home, page.parent)
        source[0] = source[0].replace(MARK, f"{tables}\n{MARK}", 1)
    source[0] = LINK.sub(rewrite, source[0])
    source[0] = IMAGE.sub(
        lambda image: f"{image[1]}{os.path.relpath(home / image[2], page.parent)}", source[0]
    )


def navigation(contents: str, home: Path, shown: Path) -> str:
    """Return the tables of contents that the lists of links of a page stand for."""
    tables: dict[str, list[str]] = {"": []}
    for heading, target in HEADING_OR_LINK.findall(contents.split(MARK)[1]):
        if heading:
            tables[heading] = []
        else:
            page = page_of(Path(os.path.normpath(home / target)))
            tables[next(reversed(tables))].append(os.path.relpath(page, shown))
    return "".join(
        "\n```{toctree}\n:hidden:\n"
        + (f":caption: {caption}\n" if caption else "")
        + "\n"
        + "\n".join(pages)
        + "\n```\n"
        for caption, pages in tables.items()
        if pages
    )


def setup(app: Any) -> dict[str, bool]:
    """Connect the hooks."""
    app.connect("builder-inited", copy_pages, priority=0)
    app.connect("source-read", rewrite_links)
    return {"parallel_read_safe": True}
