"""The site: every page is reached, every link leads somewhere, all that is public is described."""

import importlib
import importlib.util
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
DOCS = ROOT / "docs"
PAGES = sorted([*DOCS.glob("*.md"), *DOCS.glob("*.rst")])
LINK = re.compile(r"\]\((?!https?:)([^)#\s]+)(?:#[^)\s]*)?\)")
NEEDED = ["sphinx", "myst_parser", "numpydoc", "pydata_sphinx_theme", "sphinx_gallery"]
NEEDED += ["matplotlib", "latex2mathml"]


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


def test_every_page_is_on_the_first_page():
    """The lists of docs/index.md, which are the site's navigation, name every page once."""
    index = (DOCS / "index.md").read_text()
    listed = re.findall(r"^\* \[[^\]]*\]\(([^)#\s]+)\)", index, re.MULTILINE)
    here = [target for target in listed if not target.startswith("../")]
    assert sorted(here) == sorted(page.name for page in PAGES if page.name != "index.md")


@pytest.mark.parametrize("page", [p for p in PAGES if p.suffix == ".md"], ids=lambda p: p.name)
def test_relative_links_name_files(page):
    """A relative link names a file that exists, in docs/ or elsewhere in the repository."""
    for target in LINK.findall(page.read_text()):
        assert (DOCS / target).exists(), target


def test_api_lists_what_exists():
    """Each entry of docs/api.rst can be imported."""
    for name in entries():
        resolve(name)


@pytest.mark.parametrize(
    "module", ["", ".metrics", ".losses", ".plotting", ".testing", ".extending"]
)
def test_api_lists_everything_public(module):
    """All of `__all__` is in docs/api.rst, under one name or another."""
    listed = [resolve(name) for name in entries()]
    package = importlib.import_module(f"skcalib{module}")
    for name in set(package.__all__) - {"__version__", "SCORERS"}:
        assert any(getattr(package, name) is thing for thing in listed), name


@pytest.mark.skipif(
    os.environ.get("SKCALIB_BUILD_DOCS") != "1", reason="set SKCALIB_BUILD_DOCS=1: a minute or two"
)
@pytest.mark.skipif(
    any(importlib.util.find_spec(name) is None for name in NEEDED),
    reason='the site needs pip install -e ".[docs]"',
)
def test_site_builds_without_a_warning(tmp_path):
    """The one command builds the site."""
    command = [sys.executable, "-m", "sphinx", "-W", "--keep-going", "-q", "-b", "html"]
    run = subprocess.run(
        [*command, "-d", tmp_path / "doctrees", DOCS, tmp_path / "html"],
        capture_output=True,
        text=True,
        check=False,
    )
    assert run.returncode == 0, run.stderr
    assert (tmp_path / "html" / "index.html").exists()
