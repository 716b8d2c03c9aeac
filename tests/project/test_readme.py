"""Every block of README and of docs/ does what it shows.

The python blocks of a file run in order in one namespace, in an empty directory; a ``text`` block
right after a python block is what that block prints. The commands of a ``console`` block print what
stands below them.
"""

import ast
import re
import shlex
import sys
import tomllib
from pathlib import Path
from types import ModuleType, SimpleNamespace

import numpy as np
import pytest
from sklearn.datasets import make_classification
from sklearn.linear_model import LogisticRegression

from skcalib.__main__ import main

ROOT = Path(__file__).parents[2]
DOCS = sorted((ROOT / "docs").glob("*.md"))
PAGES = [ROOT / "README.md", *DOCS]
BLOCK = re.compile(r"^```(\w*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
COMMAND = re.compile(r"^\$ skcalib (.*)\n((?:(?!\$ ).*\n)*)", re.MULTILINE)
LINK = re.compile(r"\]\((?!https?:)([^)#\s]*)(#[^)\s]*)?\)")


def page_id(path):
    return str(path.relative_to(ROOT))


def blocks(path):
    """Yield (language, source, number of its first line, text between it and the one before)."""
    page, end = path.read_text(), 0
    for match in BLOCK.finditer(page):
        line = page.count("\n", 0, match.start(2))
        yield match[1], match[2], line, page[end : match.start()]
        end = match.end()


def anchors(path):
    """The anchors that the headings of a page make."""
    outside_blocks = BLOCK.sub("", path.read_text())
    headings = re.findall(r"^#+ (.*)$", outside_blocks, re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", h.lower()).replace(" ", "-") for h in headings}


@pytest.mark.usefixtures("closed_figures")
@pytest.mark.parametrize(
    "path", [PAGES[0], *(pytest.param(page, marks=pytest.mark.slow) for page in DOCS)], ids=page_id
)
def test_blocks_run_and_print_what_is_shown(path, tmp_path, monkeypatch, capsys):
    """Python blocks run without a warning; the text block after one is its output."""
    monkeypatch.chdir(tmp_path)
    # The main module, as in a script, so that its functions and classes can be pickled.
    script = ModuleType("__main__")
    monkeypatch.setitem(sys.modules, "__main__", script)
    namespace = vars(script)
    printed = None
    for language, source, line, between in blocks(path):
        if language == "python":
            # The empty lines keep the page's own line numbers in a traceback.
            exec(compile("\n" * line + source, str(path), "exec"), namespace)
            printed = capsys.readouterr().out
        elif language == "console":
            for command, shown in COMMAND.findall(source):
                main(shlex.split(command))
                assert capsys.readouterr().out == shown, f"{page_id(path)}, line {line}"
        elif language == "text" and printed is not None and not between.strip():
            assert printed == source, f"{page_id(path)}, line {line}"
        if language != "python":
            printed = None


@pytest.mark.parametrize("path", PAGES, ids=page_id)
def test_links_lead_somewhere(path):
    """Relative links name files, and headings in them, that exist."""
    for target, anchor in LINK.findall(path.read_text()):
        page = (path.parent / target).resolve() if target else path
        assert page.exists(), f"{target} does not exist"
        if anchor:
            assert anchor[1:] in anchors(page), f"{target}{anchor}: no such heading"


RECIPES = [
    pytest.param(source, marks=pytest.mark.torch if "torch" in source else ())
    for language, source, _, _ in blocks(ROOT / "docs" / "fitting.md")
    if language == "py"
]


@pytest.mark.slow
@pytest.mark.parametrize("source", RECIPES, ids=range(len(RECIPES)))
def test_recipes_run_where_their_package_is_installed(source, tmp_path, monkeypatch):
    """On three parts of rows of one event; texts are their lengths."""
    monkeypatch.chdir(tmp_path)
    package = re.match(r"(?:from|import) (\w+)", source)[1]
    module = pytest.importorskip(package)
    X, y = make_classification(900, random_state=0)
    names = {
        f"{kind}_{part}": of[i : i + 300]
        for kind, of in {"X": X, "y": y, "texts": list(X)}.items()
        for i, part in ((0, "train"), (300, "cal"), (600, "test"))
    }
    if package == "torch":
        tensors = {key: module.tensor(of) for key, of in names.items() if "texts" not in key}
        network = module.nn.Linear(20, 2).double().requires_grad_(False)
        coef = LogisticRegression().fit(X, y).coef_
        network.weight.data = module.tensor(np.vstack([-coef, coef]))
        names |= {
            **tensors,
            "network": network,
            "tokenizer": lambda texts, **_: {"rows": module.tensor(np.array(texts))},
            "model": lambda rows: SimpleNamespace(logits=network(rows)),
        }
    exec(source, names)
    P = np.asarray(names["P"])
    assert P.shape == (300, 2)
    np.testing.assert_allclose(P.sum(axis=1), 1, rtol=1e-6)


def test_readme_has_two_commands():
    """The commands for a fresh machine are two, a line each: .ci/run types them as they stand."""
    commands = [source for language, source, _, _ in blocks(ROOT / "README.md") if language == "sh"]
    lines = [line for source in commands for line in source.splitlines()]
    assert len(lines) == 2
    assert lines[0].endswith("python examples/compare_calibrators.py")
    assert lines[1].endswith("pytest -n 2")


def test_contributing_gives_a_reason_for_each_private_import():
    """Every private part of scikit-learn that is imported has its line in CONTRIBUTING."""
    contributing = (ROOT / "CONTRIBUTING.md").read_text()
    for path in (ROOT / "skcalib").rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("sklearn"):
                for name in (alias.name for alias in node.names):
                    if "._" in node.module or name.startswith("_"):
                        listed = node.module, f"{node.module}.{name}"
                        assert any(f"`{part}`" in contributing for part in listed), listed


def test_contributing_gives_a_reason_for_each_dependency():
    """Every dependency, required or optional, has its reason in CONTRIBUTING."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    extras = project["optional-dependencies"].values()
    wanted = {
        re.match(r"[\w-]+", requirement)[0]
        for requirements in (project["dependencies"], *extras)
        for requirement in requirements
    }
    page = (ROOT / "CONTRIBUTING.md").read_text()
    reasons = page.split("## Dependencies")[1].split("\n## ")[0]
    assert wanted <= set(re.findall(r"[\w-]+", reasons))
