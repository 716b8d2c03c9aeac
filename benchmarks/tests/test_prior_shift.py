"""Shares that move: sums in a loop, and the numbers of the page of docs."""

from pathlib import Path

import numpy as np
import pytest

from benchmarks.prior_shift import __main__ as prior_shift
from skcalib import AutoCalibrator, PriorCorrection

pytestmark = pytest.mark.slow


def test_losses_are_those_of_rows_with_the_new_shares():
    """The mean log loss of each class, weighted by its share."""
    scores = prior_shift.of_cancer("logistic", 0)
    found = [run for run in prior_shift.runs(scores, 0) if run["n"] == 100]
    calibrator = AutoCalibrator(input="logits").fit(scores.pool, scores.pool_labels)
    before = calibrator.class_count_ / len(scores.pool)
    moved = prior_shift.moved(before, np.random.default_rng(0))
    assert [run["kind"] for run in found] == list(moved)
    for run, shares in zip(found, moved.values(), strict=True):
        assert shares.sum() == pytest.approx(1)
        P = PriorCorrection(calibrator, priors=shares).fit().predict_proba(scores.test)
        by_class = [-np.log(P[scores.test_labels == k, k]).mean() for k in (0, 1)]
        assert run["known"] == pytest.approx(shares @ by_class)


def test_the_page_of_docs_has_numbers_of_the_table():
    rows = prior_shift.PAGE.read_text().splitlines()
    cells = {cell.strip() for row in rows if row.startswith("|") for cell in row.split("|")}
    page = (Path(__file__).parents[2] / "docs" / "prevalence.md").read_text()
    quoted = page.split("## How much it helps")[1].split("\n## ")[0]
    numbers = [line for line in quoted.splitlines() if line.startswith("| ")]
    assert len(numbers) == 4
    for row in numbers:
        assert {cell.strip() for cell in row.split("|")} <= cells
