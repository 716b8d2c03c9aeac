"""Shares that move: log losses as sums over the classes."""

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
