"""Run the blocks of README and of docs/, without pytest.

The python blocks of a page run in order in one namespace, in an empty directory; a ``text`` block
right after a python block is what that block prints. The commands of a ``console`` block print what
stands below them.

``python tests/project/pages.py`` runs all pages with the required packages alone. A block that
needs another package must import it, or raise an ImportError that says how to install it.
"""

import contextlib
import importlib.util
import io
import re
import shlex
import sys
import tempfile
import warnings
from pathlib import Path
from types import ModuleType

from skcalib.__main__ import main

ROOT = Path(__file__).parents[2]
DOCS = sorted((ROOT / "docs").glob("*.md"))
PAGES = [ROOT / "README.md", *DOCS]
BLOCK = re.compile(r"^```(\w*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
COMMAND = re.compile(r"^\$ skcalib (.*)\n((?:(?!\$ ).*\n)*)", re.MULTILINE)
EXTRAS = ("matplotlib", "torch", "onnx", "dask")


def blocks(path):
    """Yield (language, source, number of its first line, text between it and the one before)."""
    page, end = path.read_text(encoding="utf-8"), 0
    for match in BLOCK.finditer(page):
        line = page.count("\n", 0, match.start(2))
        yield match[1], match[2], line, page[end : match.start()]
        end = match.end()


def printed_by(call, *args):
    with contextlib.redirect_stdout(io.StringIO()) as out:
        call(*args)
    return out.getvalue()


def names_its_package(error, source):
    """Whether an ImportError says what to install, or is about a module that the block imports."""
    if isinstance(error, ModuleNotFoundError):
        return re.search(rf"^import {error.name}\b", source, re.MULTILINE)
    return "pip install" in str(error)


def run_page(path, required_alone=False):
    """Run the blocks of a page in the current directory; return the errors of missing packages.

    Blocks run in the main module, as in a script, so that functions and classes can be pickled.
    """
    errors, printed = [], None
    for language, source, line, between in blocks(path):
        where = f"{path.name}, line {line}"
        if language != "text":
            printed = None
        if language == "python":
            # The empty lines keep the page's own line numbers in a traceback.
            code = compile("\n" * line + source, str(path), "exec")
            try:
                printed = printed_by(exec, code, vars(sys.modules["__main__"]))
            except ImportError as error:
                if not (required_alone and names_its_package(error, source)):
                    raise
                errors.append(f"{where}: {error}")
            except NameError as error:  # of a block that could not be run
                if not errors:
                    raise
                errors.append(f"{where}: {error}")
        elif language == "console":
            for command, shown in COMMAND.findall(source):
                assert printed_by(main, shlex.split(command)) == shown, where
        elif language == "text":
            if printed is not None and not between.strip():
                assert printed == source, where
            printed = None
    return errors


if __name__ == "__main__":
    installed = list(filter(importlib.util.find_spec, EXTRAS))
    if installed or "site-packages" not in Path(main.__code__.co_filename).parts:
        raise SystemExit(f"not an installation of the required packages alone: {installed}")
    warnings.simplefilter("error")
    for page in PAGES:
        sys.modules["__main__"] = ModuleType("__main__")
        with tempfile.TemporaryDirectory() as empty, contextlib.chdir(empty):
            lines = run_page(page, required_alone=True) or [f"{page.name}: all run"]
        sys.stdout.write("".join(f"{line}\n" for line in lines))
