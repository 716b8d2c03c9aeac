"""Shares that move: log losses as sums over the classes."""

import numpy as np
import pytest

from benchmarks.prior_shift import __main__ as prior_shift
from skcalib import AutoCalibrator, PlattScaling, PriorCorrection

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


def test_the_assumption_is_tested_by_the_p_value_of_fit(monkeypatch):
    """Two samples, with a loop over rows in place of the program's."""
    from benchmarks.prior_shift import assumption

    monkeypatch.setattr(assumption, "ROWS", 300)
    found = assumption.warned(0.3, 0.1, 200, 2.0, samples=2)
    count = 0
    for sample in range(2):
        rng = np.random.default_rng([sample, 200])
        y = rng.random(300) < 0.3
        z = np.array([rng.normal(2.0 * label) for label in y])
        truth = rng.random(200) < 0.1
        new = np.array([rng.normal(2.0 * label) + 2.0 for label in truth])
        fitted = PlattScaling(input="logits").fit(z, y)
        count += PriorCorrection(fitted).fit(new, X_source=z).assumption_pvalue_ < 0.01
    assert found == count / 2
    assert "| 0.12 to 0.03 |" in "\n".join(assumption.table(samples=1))
