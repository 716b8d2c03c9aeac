"""Formulas as MathML when the site is built: browsers read it, and nothing comes from elsewhere."""

from typing import Any

from docutils import nodes
from latex2mathml.converter import convert
from sphinx.util import logging


def mathml(node: Any, display: str) -> str:
    """Return a formula as MathML; a command that the converter does not know is a warning."""
    formula = node.astext()
    if "&" in formula and r"\begin" not in formula:  # lines, aligned where & stands
        formula = rf"\begin{{align*}} {formula} \end{{align*}}"
    written = convert(formula.replace(r"\arg", r"\operatorname{arg}\,"), display=display)
    if "\\" in written:
        logging.getLogger(__name__).warning("not known in a formula: %s", formula, location=node)
    return written


def write_inline(writer: Any, node: Any) -> None:
    """Write a formula within a line."""
    writer.body.append(mathml(node, "inline"))
    raise nodes.SkipNode


def write_block(writer: Any, node: Any) -> None:
    """Write a formula on lines of its own; its box scrolls where the formula is wider."""
    writer.body.append(f'<div class="formula" tabindex="0">{mathml(node, "block")}</div>')
    raise nodes.SkipNode


def setup(app: Any) -> dict[str, bool]:
    """Connect the hooks."""
    app.add_html_math_renderer("mathml", (write_inline, None), (write_block, None))
    return {"parallel_read_safe": True}
