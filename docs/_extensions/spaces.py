"""A number stays on one line with what belongs to it: ``95 %``, ``n = 100``, ``K = 2``."""

import re
from typing import Any

from docutils import nodes

TOGETHER = re.compile(r"(?<=\d) (?=%)|(?<=\b[nKT]) (?=[=<>] [\d.])|(?<=\b[nKT] [=<>]) (?=[\d.])")
KEPT = (nodes.literal, nodes.literal_block, nodes.math, nodes.math_block, nodes.raw)


def join_numbers(app: Any, doctree: Any) -> None:
    """Put spaces that do not break into the texts of a page."""
    for text in list(doctree.findall(nodes.Text)):
        if not isinstance(text.parent, KEPT):
            joined = TOGETHER.sub("\N{NO-BREAK SPACE}", text)
            if joined != text:
                text.parent.replace(text, nodes.Text(joined))


def setup(app: Any) -> dict[str, bool]:
    """Connect the hook."""
    app.connect("doctree-read", join_numbers)
    return {"parallel_read_safe": True}
