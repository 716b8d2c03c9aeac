# ruff: noqa: ARG001 -- Sphinx fixes the arguments of a hook
"""The site: ``python -m sphinx -W --keep-going -b html docs docs/_build/html``."""

import os
import re
from importlib.metadata import version as installed_version
from pathlib import Path
from typing import Any

from docutils import nodes
from latex2mathml.converter import convert
from sphinx.util import logging

DOCS = Path(__file__).parent
ROOT = DOCS.parent

project = "skcalib"
author = "The skcalib developers"
version = release = installed_version("skcalib")

extensions = [
    "myst_parser",
    "numpydoc",
    "sphinx.ext.autodoc",
    "sphinx.ext.autosummary",
    "sphinx_gallery.gen_gallery",
]
exclude_patterns = ["_build", "gallery/*.ipynb", "gallery/*.py", "gallery/*.zip"]
templates_path = ["_templates"]

# Formulas become MathML when the site is built: browsers read it as it stands, and nothing comes
# from elsewhere.
html_math_renderer = "mathml"

html_theme = "pydata_sphinx_theme"
html_title = "skcalib"
html_theme_options = {
    "show_prev_next": False,
    "navigation_with_keys": False,
    "footer_start": ["copyright"],
    "footer_end": [],
}

myst_heading_anchors = 4  # links to headings are those that a repository's own view makes

autosummary_generate = True
autodoc_typehints = "none"  # types stand in the docstrings
numpydoc_show_class_members = False  # the template lists them

sphinx_gallery_conf = {
    "examples_dirs": [str(ROOT / "examples")],
    "gallery_dirs": ["gallery"],
    "filename_pattern": r"\.py$",
    "abort_on_example_error": True,
    "backreferences_dir": "generated/examples",
    "doc_module": ("skcalib",),
    "download_all_examples": False,
    "remove_config_comments": True,
    "show_memory": False,
    "show_signature": False,
    "write_computation_times": False,
}

# ------------------------------------------------------------------- pages and links
# Links are written for readers of the repository. Here those to a program lead to its page in the
# gallery, those to a page outside docs/ to a copy of it, and any others become plain text.

COPIES = ["CHANGELOG.md", "CONTRIBUTING.md", "benchmarks/README.md", "benchmarks/studies/README.md"]
LINK = re.compile(r"(?<!!)\[([^\]]*)\]\((?![a-z]+:)([^)#\s]+)(#[^)\s]*)?\)")
HEADING_OR_LINK = re.compile(r"^## (.*)$|^\* \[[^\]]*\]\(([^)#\s]+)\)", re.MULTILINE)


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

    if docname == "index":
        source[0] += navigation(source[0])
    source[0] = LINK.sub(rewrite, source[0])


def navigation(index: str) -> str:
    """Return the tables of contents that the lists of links on the first page stand for."""
    tables: dict[str, list[str]] = {}
    for heading, target in HEADING_OR_LINK.findall(index):
        if heading:
            tables[heading] = []
        else:
            page = page_of(Path(os.path.normpath(DOCS / target)))
            tables[next(reversed(tables))].append(os.path.relpath(page, DOCS))
    return "".join(
        f"\n```{{toctree}}\n:hidden:\n:caption: {caption}\n\n" + "\n".join(pages) + "\n```\n"
        for caption, pages in tables.items()
    )


def skip_inherited(
    app: Any, what: str, name: str, member: Any, skip: bool, options: Any
) -> bool | None:
    """Leave out what a class has from scikit-learn, which documents it."""
    module = getattr(member, "__module__", None) or "skcalib"
    return None if module.startswith("skcalib") else True


def mathml(node: Any, display: str) -> str:
    """Return a formula as MathML; a command that the converter does not know is a warning."""
    formula = node.astext()
    written = convert(formula.replace(r"\arg", r"\operatorname{arg}\,"), display=display)
    if "\\" in written:
        logging.getLogger(__name__).warning("not known in a formula: %s", formula, location=node)
    return written


def write_inline(writer: Any, node: Any) -> None:
    """Write a formula within a line."""
    writer.body.append(mathml(node, "inline"))
    raise nodes.SkipNode


def write_block(writer: Any, node: Any) -> None:
    """Write a formula on lines of its own."""
    writer.body.append(f'<div class="math">{mathml(node, "block")}</div>')
    raise nodes.SkipNode


def setup(app: Any) -> None:
    """Connect the hooks."""
    app.add_html_math_renderer("mathml", (write_inline, None), (write_block, None))
    app.connect("builder-inited", copy_pages, priority=0)
    app.connect("source-read", rewrite_links)
    app.connect("autodoc-skip-member", skip_inherited)
