"""Names in prose lead to the API."""

import re
from functools import cache
from pathlib import Path
from typing import Any

from docutils import nodes
from sphinx import addnodes

API = Path(__file__).parents[1] / "api.rst"
ENTRY = re.compile(r"^\.\. currentmodule:: (\S+)|^   ([A-Za-z_][\w.]*)$", re.MULTILINE)
NAME = re.compile(r"(?:skcalib\.)?([A-Za-z_][\w.]*)(?:\(.*\))?", re.DOTALL)


@cache
def public_names() -> dict[str, str]:
    """Return the full name behind each short name that the API lists; the first counts."""
    module, names = "", {}
    for heading, entry in ENTRY.findall(API.read_text()):
        module = heading or module
        if entry:
            full = f"{module}.{entry}"
            for short in (entry, full.removeprefix("skcalib.")):
                names.setdefault(short, full)
    return names


def link_names(app: Any, doctree: Any) -> None:
    """Wrap each name in a reference to its page, but for those in titles and links."""
    names = public_names()
    for literal in list(doctree.findall(nodes.literal)):
        found = NAME.fullmatch(literal.astext())
        target = names.get(found[1]) if found else None
        parents = []
        node = literal.parent
        while node is not None:
            parents.append(node)
            node = node.parent
        if target is None or any(
            isinstance(node, nodes.title | nodes.reference | addnodes.pending_xref)
            for node in parents
        ):
            continue
        link = addnodes.pending_xref(
            "", refdomain="py", reftype="obj", reftarget=target, refexplicit=True, refwarn=True
        )
        literal.replace_self(link)
        link += literal


def setup(app: Any) -> dict[str, bool]:
    """Connect the hook."""
    app.connect("doctree-read", link_names)
    return {"parallel_read_safe": True}
