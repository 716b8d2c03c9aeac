"""Every block of README and of docs/ does what it shows: see `pages.py`."""

import ast
import re
import shlex
import sys
import textwrap
import tomllib
from types import ModuleType, SimpleNamespace

import numpy as np
import pytest
from pages import BLOCK, DOCS, PAGES, ROOT, blocks, run_page
from sklearn.datasets import load_digits, make_classification
from sklearn.frozen import FrozenEstimator
from sklearn.linear_model import LogisticRegression
from sklearn.naive_bayes import GaussianNB

import skcalib
from skcalib.__main__ import main

LINK = re.compile(r"\]\((?!https?:)([^)#\s]*)(#[^)\s]*)?\)")


def page_id(path):
    return str(path.relative_to(ROOT))


def anchors(path):
    """The anchors that the headings of a page make."""
    outside_blocks = BLOCK.sub("", path.read_text())
    headings = re.findall(r"^#+ (.*)$", outside_blocks, re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", h.lower()).replace(" ", "-") for h in headings}


@pytest.mark.usefixtures("closed_figures")
@pytest.mark.parametrize(
    "path", [PAGES[0], *(pytest.param(page, marks=pytest.mark.slow) for page in DOCS)], ids=page_id
)
def test_blocks_run_and_print_what_is_shown(path, tmp_path, monkeypatch):
    """Python blocks run without a warning; the text block after one is its output."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setitem(sys.modules, "__main__", ModuleType("__main__"))
    run_page(path)


@pytest.mark.parametrize(
    ("source", "message"),
    [
        ("import nowhere\nx = 1", "No module named 'nowhere'"),
        ("raise ImportError('pip install \"skcalib[plot]\"')", "skcalib.plot"),
        ("__import__('nowhere')", None),
        ("raise ImportError('no such name')", None),
        ("print(undefined)", None),
    ],
)
def test_a_block_may_lack_only_a_package_that_it_names(source, message, tmp_path, monkeypatch):
    """With the required packages alone; a block that needs the names of this one is not run."""
    monkeypatch.setitem(sys.modules, "__main__", ModuleType("__main__"))
    page = tmp_path / "page.md"
    page.write_text(f"```python\n{source}\n```\n```text\n1\n```\n```python\nprint(x)\n```\n")
    if message is None:
        with pytest.raises((ImportError, NameError)):
            run_page(page, required_alone=True)
    else:
        first, second = run_page(page, required_alone=True)
        assert re.search(f"page.md, line 1: .*{message}", first)
        assert "name 'x'" in second
        with pytest.raises(ImportError):
            run_page(page)


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


def test_the_lines_of_the_start_page_run(tmp_path, monkeypatch):
    """Each card, with a model and rows that have the names of the card."""
    monkeypatch.chdir(tmp_path)
    X, y = load_digits(return_X_y=True)
    X_cal, y_cal = X[600:1200], y[600:1200]
    Z = GaussianNB().fit(X[:600], y[:600]).predict_joint_log_proba(X)
    rows = {"X": X[:900], "y": y[:900], "X_cal": X_cal, "y_cal": y_cal, "X_new": X[1200:],
            "Z": Z[:900], "Z_new": Z[900:]}  # fmt: skip
    page = (ROOT / "docs" / "index.md").read_text()
    cards = re.findall(r"^  ```\n(.*?)^  ```$", page, re.MULTILINE | re.DOTALL)
    assert len(cards) == 4
    for card in map(textwrap.dedent, cards):
        assert card.count("\n") == 2
        if not card.startswith("skcalib"):
            fitted = "FrozenEstimator" in card
            model = GaussianNB().fit(X[:600], y[:600]) if fitted else GaussianNB()
            exec(
                card, {**vars(skcalib), **rows, "model": model, "FrozenEstimator": FrozenEstimator}
            )
            continue
        for line in card.splitlines():
            options = ["--calibrators", "temperature"] if "compare" in line else []
            assert main([*shlex.split(line)[1:], *options]) == 0
