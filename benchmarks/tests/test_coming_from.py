"""The pages for those who come from other libraries say what their program measures."""

import sys
from pathlib import Path

import pytest

# The benchmarks are not installed; last, so that it is the installed package that is tested.
sys.path.append(str(Path(__file__).parents[2]))

from benchmarks._shared.peers import version
from benchmarks.studies.coming_from import DOCS, LIBRARIES, MARK, SKLEARN, distance, shown

pytestmark = pytest.mark.slow

# What must agree to rounding, or as closely as two optimisers of the same objective.
EQUAL = {
    "A fitted model with probabilities: isotonic": 1e-12,
    "A fitted model with decision values: temperature": 1e-6,
    "In folds, a model for each fold: isotonic": 1e-12,
    "In folds, one model of all rows: isotonic": 1e-12,
    "In folds, one model of all rows: temperature": 1e-6,
}


@pytest.mark.parametrize("pair", SKLEARN, ids=lambda pair: pair.title)
@pytest.mark.parametrize("n_classes", [2, 10])
def test_where_numbers_equal_those_of_scikit_learn(pair, n_classes):
    """The same map, or not: what the page calls different is different."""
    most, mean = distance(pair, "scikit-learn", n_classes)
    if pair.title in EQUAL:
        assert most < EQUAL[pair.title]
    else:
        assert pair.why
        assert mean < 0.03


@pytest.mark.parametrize("library", LIBRARIES)
def test_the_page_has_every_pair_of_lines(library):
    name, pairs = LIBRARIES[library]
    page = (DOCS / name).read_text().split(MARK)[1]
    assert page.count("\n### ") == len(pairs)
    for pair in pairs:
        assert f"### {pair.title}\n\n```\n{shown(pair)}\n```\n" in page


@pytest.mark.parametrize("library", LIBRARIES)
def test_each_pair_of_an_installed_library_runs(library):
    if version(library) is None:
        pytest.skip(f"{library} is not installed")
    for pair in LIBRARIES[library][1]:
        for n_classes in pair.classes:
            assert distance(pair, library, n_classes)[0] < 0.5, pair.title
