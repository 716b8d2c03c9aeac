"""The pages for those who come from other libraries say what their program measures."""

import sys
from pathlib import Path

import numpy as np
import pytest

# The benchmarks are not installed; last, so that it is the installed package that is tested.
sys.path.append(str(Path(__file__).parents[2]))

from benchmarks._shared.peers import version
from benchmarks.studies import coming_from
from benchmarks.studies.coming_from import IMPORTS, SCORES, distance, pairs_of, verdict
from skcalib.metrics import reliability_table

pytestmark = pytest.mark.slow

# What must agree to rounding, or as closely as two optimisers of the same objective.
EQUAL = {
    "A fitted model with probabilities: isotonic": 1e-12,
    "A fitted model with decision values: temperature": 1e-6,
    "In folds, a model for each fold: isotonic": 1e-12,
    "In folds, one model of all rows: isotonic": 1e-12,
    "In folds, one model of all rows, decision values: temperature": 1e-6,
}


def test_where_numbers_equal_those_of_scikit_learn():
    """The same map, but for ties of scikit-learn."""
    equal = [pair for pair in pairs_of("scikit-learn") if pair.title in EQUAL]
    assert len(equal) == len(EQUAL)
    for pair in equal:
        for kind in set(pair.kinds) - {"naive Bayes of digits"}:
            for n_classes in pair.classes:
                most, _ = distance(pair, "scikit-learn", kind, n_classes)
                assert most < EQUAL[pair.title]


@pytest.mark.parametrize("n_classes", [2, 10])
def test_rows_have_gaps_of_both_signs_ties_and_zeros(n_classes):
    """Equal on over-confident rows alone says nothing of the edges of bins, or of exact zeros."""
    _, _, both, ties, votes = (coming_from.scores(kind, n_classes) for kind in SCORES)
    assert both["P_new"].shape == (1000, n_classes)
    table = reliability_table(both["y_new"], both["P_new"])
    gap = (table["accuracy"] - table["confidence"])[table["count"] > 30]
    assert gap.min() < -0.05
    assert gap.max() > 0.05
    assert np.unique(ties["P_new"]).size <= 40
    assert ties["P_new"].min() > 0
    assert votes["P_new"].min() == 0


def test_verdict_says_of_which_rows():
    assert verdict({"a": (0.0, 0.0), "b": (1e-11, 0.0)}) == "equal"
    assert verdict({"a": (0.0, 0.0), "b": (2e-6, 0.0)}) == "equal to within 1e-05"
    assert verdict({"a": (2e-6, 0.0), "b": (0.25, 0.02), "c": (np.nan, np.nan)}) == (
        "equal to within 1e-05 but different for b by up to 0.25 (0.02) but an error there for c"
    )
    assert verdict({"a": (0.5, 0.5), "b": (0.25, 0.25)}) == "different by up to 0.5"


@pytest.mark.parametrize("library", IMPORTS)
def test_a_page_has_what_its_lines_give(library):
    """As they stand there; numbers of another version may differ a little."""
    if version(library) is None:
        pytest.skip(f"{library} is not installed")
    page = coming_from.page_of(library).read_text().split(coming_from.MARK)[1]
    pairs = list(pairs_of(library))
    assert len(pairs) == page.count("\n### ") >= 4
    for pair in pairs:
        (block,) = (each for each in page.split("\n### ") if each.startswith(pair.title + "\n"))
        kind, n_classes = pair.kinds[0], pair.classes[0]
        said = block.split("```")[2].split("; with")[0]
        differs = f"for {kind} by" in said or "qual" not in said
        assert (distance(pair, library, kind, n_classes)[0] > 1e-3) == differs, pair.title
