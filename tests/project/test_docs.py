"""The site: every page is reached, every link leads somewhere, all that is public is described."""

import ast
import importlib
import importlib.util
import re
from pathlib import Path

import numpy as np
import pytest
from listing import CALIBRATORS, KEEPS

import skcalib.metrics

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"
PAGES = sorted([*DOCS.glob("*.md"), *DOCS.glob("*.rst")])
CONTENTS = ["index.md", "guide.md"]


def entries():
    """The public names that docs/api.rst lists, in full."""
    module, names = "", set()
    for line in (DOCS / "api.rst").read_text().splitlines():
        if match := re.match(r"\.\. currentmodule:: (\S+)", line):
            module = match[1]
        elif match := re.match(r"   ([\w.]+)$", line):
            names.add(f"{module}.{match[1]}")
    return names


def resolve(name):
    module, _, attribute = name.rpartition(".")
    return getattr(importlib.import_module(module), attribute)


def test_every_page_is_in_one_table_of_contents():
    """The lists below `<!-- contents -->` are the site's navigation, two clicks deep."""
    listed = []
    for page in CONTENTS:
        lists = (DOCS / page).read_text().split("<!-- contents -->")[1]
        listed += re.findall(r"^\* \[[^\]]*\]\(([^)#\s]+)\)", lists, re.MULTILINE)
    here = [target for target in listed if not target.startswith("../")]
    assert sorted(here) == sorted(page.name for page in PAGES if page.name != "index.md")


def test_the_guide_calls_pages_by_their_titles():
    """So that the sidebar and the links say the same."""
    for text, name in re.findall(
        r"^\* \[([^\]]*)\]\((\w+\.md)\)", (DOCS / "guide.md").read_text(), re.M
    ):
        assert (DOCS / name).read_text().startswith(f"# {text}\n"), name


def test_the_gallery_has_a_place_for_each_example():
    """Begins with how to read a diagram; printed examples are not before the first pictures."""
    source = (DOCS / "_extensions" / "gallery_pictures.py").read_text()
    order = ast.literal_eval(re.search(r"^ORDER = (\(.*?^\))", source, re.M | re.S)[1])
    assert sorted(order) == sorted(path.stem for path in (ROOT / "examples").glob("*.py"))
    assert order[0] == "plot_how_to_read"
    assert all(name.startswith("plot_") for name in order[:4])


def test_no_line_of_a_page_is_taken_for_a_comment():
    """A line of prose that begins with % does not appear on the site."""
    for page in [*ROOT.glob("*.md"), *DOCS.glob("*.md"), *ROOT.glob("benchmarks/**/*.md")]:
        prose = re.sub(r"^```.*?^```", "", page.read_text(), flags=re.MULTILINE | re.DOTALL)
        assert not re.findall(r"^\s*%.*", prose, re.MULTILINE), page


def test_api_lists_what_exists():
    """Each entry of docs/api.rst is in `__all__` of the module that it names."""
    for name in entries():
        module, _, attribute = name.rpartition(".")
        assert attribute in importlib.import_module(module).__all__, name


@pytest.mark.parametrize(
    "module", ["", ".metrics", ".losses", ".plotting", ".testing", ".extending"]
)
def test_api_lists_everything_public(module):
    """All of `__all__` is in docs/api.rst, under one name or another."""
    listed = [resolve(name) for name in entries()]
    package = importlib.import_module(f"skcalib{module}")
    for name in set(package.__all__) - {"__version__", "SCORERS"}:
        assert any(getattr(package, name) is thing for thing in listed), name


def test_pages_that_say_how_many_rows_send_to_the_one_table():
    """docs/choosing.md has it."""
    for page in ("docs/index.md", "benchmarks/arena/README.md"):
        assert "choosing.md#how-many-rows" in (ROOT / page).read_text(), page


def test_the_calibrator_for_most_rows_is_the_lowest_of_the_arena():
    """docs/choosing.md says so: lowest mean log loss of this package at each number of rows."""
    part = (DOCS / "choosing.md").read_text().split("## How many rows")[1].split("## What you")[0]
    lowest = (
        "`AutoCalibrator` has the lowest [log loss](glossary.md#log-loss) on average at each number"
    )
    assert lowest in " ".join(part.split())
    arena = (ROOT / "benchmarks" / "arena" / "README.md").read_text()
    lowest = re.findall(r"^\| n = [\d,]+ \| `([^`]+)` \|", arena, re.MULTILINE)
    assert lowest == 4 * ["AutoCalibrator"]


@pytest.mark.parametrize("name", ["comparing.md", "fitting.md"])
def test_numbers_in_prose_are_printed_on_the_page(name):
    """What the blocks of these pages print is tested; prose has no other decimal number."""
    text = (DOCS / name).read_text()
    printed = "".join(re.findall(r"^```text\n(.*?)^```$", text, re.M | re.S))
    prose = re.sub(r"^```.*?^```$", "", text, flags=re.M | re.S)
    for number in re.findall(r"(?<![\d.])\d+\.\d+(?![\d.])", prose):
        assert number in printed, number


def test_every_picture_of_a_page_is_in_the_repository():
    """A mark and an image below it: the site draws both anew, a repository shows the image."""
    listed = []
    for page in DOCS.glob("*.md"):
        text = page.read_text()
        found = re.findall(
            r"<!-- picture: [^\n]* -->\n!\[[^\]\n]+\]\((pictures/\S+\.png)\)\n", text
        )
        assert len(found) == text.count("<!-- picture"), page.name
        listed += found
    files = [f"pictures/{path.name}" for path in (DOCS / "pictures").glob("*.png")]
    assert sorted(listed) == sorted(files)
    assert len(listed) > 15


def test_the_tree_of_questions_ends_in_lines_of_this_package(monkeypatch):
    """Its image is what its program draws, its pages exist, and its lines are code."""
    monkeypatch.syspath_prepend(DOCS / "_extensions")
    import question_tree

    image = DOCS / question_tree.COPY
    assert image.read_text(encoding="utf-8") == f"{question_tree.draw()}\n"
    assert f"]({question_tree.COPY})" in (DOCS / "index.md").read_text()
    names = {*vars(skcalib), *vars(skcalib.metrics), "FrozenEstimator"}
    used = set()
    for _, _, page, lines in question_tree.TREE:
        assert not page or (DOCS / f"{page}.md").is_file()
        if "(" in lines:
            tree = ast.walk(ast.parse(lines))
            used |= {node.func.id for node in tree
                     if isinstance(node, ast.Call) and isinstance(node.func, ast.Name)}  # fmt: skip
    assert used <= names
    assert sum(text.endswith("?") for _, text, _, _ in question_tree.TREE) == 4


PLAIN = re.compile(
    r"\b(mend(?:s|ed|ing)?|told|waist|strangers?|who does not want)\b", re.IGNORECASE
)


def test_pages_are_in_plain_words():
    """CONTRIBUTING.md names words that a reader of the field would have to read twice."""
    for page in [*ROOT.glob("*.md"), *PAGES, *(ROOT / "examples").glob("*")]:
        if page.is_file() and page.name != "CONTRIBUTING.md":
            assert not PLAIN.findall(page.read_text()), page


def keeps_class(calibrator):
    """Whether no predicted class of new rows changes, on two kinds of scores."""
    rng = np.random.default_rng(0)
    for K in (2, 4):
        Z = 2 * rng.normal(size=(900, K))
        y = (0.4 * Z + np.arange(K) + rng.gumbel(size=Z.shape)).argmax(axis=1)
        P = calibrator.fit(Z[:300], y[:300]).predict_proba(Z[300:])
        if (P.argmax(axis=1) != Z[300:].argmax(axis=1)).any():
            return False
    return True


@pytest.mark.parametrize("name", CALIBRATORS)
def test_the_table_of_calibrators_says_which_keep_the_predicted_class(name):
    """By trying: "always" changes none, and another some, but none with the keyword it names."""
    kind, says = CALIBRATORS[name], KEEPS.get(name, "no")
    assert keeps_class(kind()) == (says == "always")
    for keyword, value in re.findall(r"`(\w+)=([^`]*)`", says):
        assert keeps_class(kind(**{keyword: ast.literal_eval(value)})), keyword
