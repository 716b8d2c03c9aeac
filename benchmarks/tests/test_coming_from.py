"""The page for those who come from other libraries says what its program measures."""

import numpy as np
import pytest

from benchmarks._shared.peers import version
from benchmarks.studies import coming_from
from benchmarks.studies.coming_from import IMPORTS, ROW, SCORES, distance, pairs_of, short, verdict
from skcalib.metrics import reliability_table

# What must agree to rounding, or as closely as two optimisers of the same objective.
EQUAL = {
    'probabilities: CalibratedClassifierCV(FrozenEstimator(model), method="isotonic")': 1e-12,
    'decision values: CalibratedClassifierCV(FrozenEstimator(model), method="temperature")': 1e-6,
    'in folds: CalibratedClassifierCV(model, method="isotonic", ensemble=True)': 1e-12,
    'in folds: CalibratedClassifierCV(model, method="isotonic", ensemble=False)': 1e-12,
    'in folds, decision values: CalibratedClassifierCV(model, method="temperature", ensemble=False)'
    "": 1e-6,
}


@pytest.mark.slow
def test_where_numbers_equal_those_of_scikit_learn():
    """The same map, but for ties of scikit-learn."""
    found = {pair.title.removesuffix(".fit(X, y).predict_proba(X_new)"): pair
             for pair in pairs_of("scikit-learn")}  # fmt: skip
    for title, tolerance in EQUAL.items():
        pair = found[title]
        for kind in set(pair.kinds) - {"naive Bayes of digits"}:
            for n_classes in pair.classes:
                assert distance(pair, "scikit-learn", kind, n_classes) < tolerance


@pytest.mark.slow
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
    assert verdict({"a": 0.0, "b": 1e-11}) == "yes"
    assert verdict({"a": 0.0, "b": 2e-6}) == "to 1e-05"
    assert verdict({"a": 2e-6, "b": 0.25, "c": np.nan}) == (
        "to 1e-05, but b 0.25; the other package raises an error for c"
    )
    assert verdict({"a": 0.5, "b": 0.25}) == "no, up to 0.5"


@pytest.mark.slow
@pytest.mark.parametrize("library", IMPORTS)
def test_the_page_has_what_its_lines_give(library):
    """As they stand there; numbers of another version may differ a little."""
    if version(library) is None:
        pytest.skip(f"{library} is not installed")
    section = coming_from.section_of(library)
    rows = list(ROW.finditer(section))
    assert len(rows) == section.count("\n| ") - 1 >= 4
    for pair, row in zip(pairs_of(library), rows, strict=True):
        kind, n_classes = pair.kinds[0], pair.classes[0]
        said = row[5].split("; 10 classes")[0]
        differs = f"{kind} 0" in said or said.split(": ")[-1].startswith("no")
        assert (distance(pair, library, kind, n_classes) > 1e-3) == differs, pair.title


def test_the_guide_says_in_short_what_was_measured():
    assert short("2 classes: yes, but ties 0.1; 10 classes: to 1e-06", "; why: ties") == (
        "2 classes: yes; 10 classes: to 1e-06 (*ties*)"
    )
    assert short("2 classes: to 1e-06; 10 classes: to 1e-04, but ties 0.1", "") == "to 1e-04"
    assert short("to 1e-03, but a 0.1, b 0.1, c 0.1", "; why: a, b") == "no (*a*, *b*)"
    guide = coming_from.GUIDE.read_text()
    rows = [row for library in IMPORTS for row in ROW.finditer(coming_from.section_of(library))]
    assert len(rows) > 30
    for row in rows:
        said = short(row[5], row[6].removesuffix(" |"))
        assert f"\n{row[1]}{said} |\n" in guide, row[1]
