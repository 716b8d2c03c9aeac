"""A calibrator or metric that is added is added everywhere, or one test says what is left."""

import complete
import pytest
from listing import BLOCKS, CALIBRATORS, COMMAND, METRICS, ROOT, page_with_blocks, summary

import skcalib
from skcalib.calibrators import IdentityCalibrator


class ToyCalibrator(IdentityCalibrator):
    """Leave everything as it is."""

    def _map(self, scores):
        return super()._map(scores)


def toy_error(y_true, y_proba):
    """Toy error (TOY): whatever it measures."""
    return 0.0


def test_each_calibrator_and_metric_is_everywhere():
    """All that is left to do for a new one is in this list."""
    things = {**CALIBRATORS, **METRICS}.items()
    left = [line for name, thing in things for line in complete.missing(name, thing)]
    assert not left, "\n".join(["left to do:", *left])


def test_all_that_a_new_calibrator_lacks_is_told_at_once():
    assert complete.missing("ToyCalibrator", ToyCalibrator) == [
        "ToyCalibrator: by hand, CHANGELOG.md: a line that names it",
        "ToyCalibrator: by hand, tests/calibrators/: tests of its own",
        "ToyCalibrator: by hand, `_plan`: its formula",
        "ToyCalibrator: by hand, a paper: `_paper`",
        "ToyCalibrator: by `python tests/write.py`, docs/api.rst: a row",
        "ToyCalibrator: by `python tests/write.py`, docs/choosing.md: a row",
        "ToyCalibrator: by `python tests/write.py`, tests/record/signatures.txt: a line",
        "ToyCalibrator: by `python tests/write.py`, tests/record/values.json: its numbers",
        "ToyCalibrator: by `python tests/write.py`, "
        f"tests/storage/stored/{skcalib.__version__.removesuffix('.dev0')}/ToyCalibrator.json",
    ]


@pytest.mark.parametrize("page", sorted({page for page, _ in BLOCKS}))
def test_rows_of_pages_say_what_the_code_says(page):
    """Names, first lines of docstrings and papers."""
    assert page_with_blocks(page) == (ROOT / page).read_text(), f"run {COMMAND}"


def test_a_summary_leaves_out_the_name_before_a_short_one():
    assert summary(toy_error) == "TOY: whatever it measures"
    assert summary(ToyCalibrator) == "Leave everything as it is"
