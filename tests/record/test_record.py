"""Every number of the package stays where it was recorded, or the change is seen."""

import json
from pathlib import Path

import pytest
from discovery import CALIBRATORS
from listing import NOT_METRICS
from recorded import differs, everything, name_of, rounded, signatures, tolerance

from skcalib import losses, metrics

RECORD = json.loads((Path(__file__).parent / "values.json").read_text())
KEPT = RECORD["values"]
FOUND = everything()
AGAIN = "if it is meant to be so: python tests/record/write.py"
ADD = "python tests/write.py"


def family(name):
    """The class or function whose number it is."""
    return name.split("(")[0].split(" |")[0]


@pytest.mark.parametrize("subject", sorted({family(name) for name in FOUND}))
def test_numbers_are_those_of_the_record(subject):
    """Each calibrator, metric, scorer and loss gives its recorded numbers."""
    moved, unrecorded = [], []
    for name in (name for name in FOUND if family(name) == subject):
        if name not in KEPT:
            unrecorded.append(name)
        elif how := differs(name, rounded(FOUND[name]()), KEPT[name]):
            moved.append(f"{name}: {how}")
    assert not moved, "\n".join([f"{len(moved)} numbers moved; {AGAIN}", *moved])
    assert not unrecorded, f"no record of {unrecorded[0]} and {len(unrecorded) - 1} more: {ADD}"


def test_arguments_and_defaults_are_those_of_the_record():
    """What users have typed goes on to mean the same."""
    kept = (Path(__file__).parent / "signatures.txt").read_text().splitlines()
    found = signatures()
    assert not set(kept) ^ set(found), AGAIN
    assert found == kept


def test_nothing_is_recorded_that_is_gone():
    """A record without its calibrator, metric or option is struck out."""
    assert not set(KEPT) - set(FOUND), ADD


def test_everything_public_has_a_record():
    """Each calibrator, metric and loss, by name, apart from what the record itself discovers."""
    families = {family(name) for name in KEPT}
    for calibrator in CALIBRATORS:
        assert any(name.startswith(f"{name_of(calibrator)} |") for name in KEPT), calibrator
    assert {*metrics.__all__} - NOT_METRICS <= families
    assert {*metrics.SCORERS} <= families
    assert {f"losses.{name}" for name in losses.__all__} <= families


@pytest.mark.parametrize(
    ("name", "allowed"),
    [("VectorScaling(penalty=None) | logits", 1e-6), ("ks_calibration_error() | 2 classes", 1e-9)],
)
def test_a_number_that_moves_by_more_is_told_in_one_line(name, allowed):
    """The comparison sees three times the tolerance, and not a third of it."""
    assert tolerance(name) == allowed
    assert differs(name, [1.0, 2.0 * (1 + allowed / 3)], [1.0, 2.0]) == ""
    how = differs(name, [1.0, 2.0 * (1 + 3 * allowed)], [1.0, 2.0])
    assert "instead of 2.0 (number 1 of 2" in how
    assert "\n" not in how
