"""Docstrings as they are read by Sphinx."""

import re
from typing import Any

INITIAL = re.compile(r"^(\s*(?:\.\. \[[\w-]+\] )?)([A-Z])\. ")


def skip_inherited(
    app: Any, what: str, name: str, member: Any, skip: bool, options: Any
) -> bool | None:
    """Leave out what a class has from scikit-learn, which documents it."""
    module = getattr(member, "__module__", None) or "skcalib"
    return None if module.startswith("skcalib") else True


def keep_initials(
    app: Any, what: str, name: str, member: Any, options: Any, lines: list[str]
) -> None:
    """Keep a line that begins with an author's initial ("A. Karandikar") from being a list."""
    lines[:] = [INITIAL.sub(r"\1\2\\. ", line) for line in lines]


def setup(app: Any) -> dict[str, bool]:
    """Connect the hooks."""
    app.connect("autodoc-skip-member", skip_inherited)
    app.connect("autodoc-process-docstring", keep_initials, priority=900)  # after numpydoc
    return {"parallel_read_safe": True}
