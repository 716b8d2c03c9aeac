"""The sidebar: the chapters of a page's section, with their pages."""

from typing import Any

from docutils import nodes
from sphinx import addnodes


def chapters_of(env: Any, section: str) -> list[tuple[str, list[str]]]:
    """Return (title, pages) of each table of contents of a section's first page."""
    found = []
    for table in env.get_doctree(section).findall(addnodes.toctree):
        title, parent = table.get("caption"), table.parent
        while title is None and parent is not None:
            if isinstance(parent, nodes.section) and isinstance(parent.parent, nodes.section):
                title = parent.next_node(nodes.title).astext()
            parent = parent.parent
        found.append((title or "", list(table["includefiles"])))
    return found


def below(env: Any, page: str) -> set[str]:
    """Return a page and all that its tables of contents lead to."""
    return {page}.union(*(below(env, child) for child in env.toctree_includes.get(page, [])))


def add_chapters(
    app: Any, pagename: str, templatename: str, context: dict[str, Any], doctree: Any
) -> None:
    """Give the template the chapters of the section that a page belongs to."""
    env = app.env
    for section in env.toctree_includes.get(env.config.root_doc, []):
        if pagename in below(env, section):
            context["section"] = (section, env.titles[section].astext())
            context["chapters"] = [
                (title, [(page, env.titles[page].astext()) for page in pages])
                for title, pages in chapters_of(env, section)
            ]


def setup(app: Any) -> dict[str, bool]:
    """Connect the hook."""
    app.connect("html-page-context", add_chapters)
    return {"parallel_read_safe": True}
