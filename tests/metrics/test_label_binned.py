"""The label-binned error equals a loop over rows."""

import math

import numpy as np
import pytest
import reference as ref

from skcalib import metrics

every_strategy = pytest.mark.parametrize("strategy", ["uniform", "quantile"])


def slow(pairs, n_bins, norm, strategy):
    """Distance of each score from the share of hits among the rows of its bin."""
    where = ref.bins_of([s for s, _ in pairs], n_bins, strategy, "right", "edges")
    gaps = []
    for (score, _), b in zip(pairs, where, strict=True):
        hits = [t for (_, t), c in zip(pairs, where, strict=True) if c == b]
        gaps.append(abs(sum(hits) / len(hits) - score))
    if norm == "max":
        return max(gaps)
    q = {"l1": 1, "l2": 2}.get(norm, norm)
    return (math.fsum(gap**q for gap in gaps) / len(gaps)) ** (1 / q)


@every_strategy
@pytest.mark.parametrize("kind", ["plain", "ties", "hard", "sparse"])
def test_it_equals_the_loop(strategy, kind):
    y, P = ref.predictions(4, 61, seed=3, kind=kind)
    kinds = ["plain", "ties", "hard", "sparse"]
    for i, norm in enumerate(["l1", "l2", "max", 3]):
        n_bins = [1, 4, 15, 80][(i + kinds.index(kind)) % 4]  # each beside each norm
        keywords = {"strategy": strategy, "norm": norm, "n_bins": n_bins}
        (pairs,) = ref.problems(y, P, True, False, None)
        actual = metrics.label_binned_calibration_error(y, P, labels=range(4), **keywords)
        assert actual == pytest.approx(slow(pairs, **keywords), abs=1e-12), keywords
        each = [slow(pairs, **keywords) for pairs in ref.problems(y, P, False, True, None)]
        actual = metrics.label_binned_calibration_error(
            y, P, mode="classwise", average=None, labels=range(4), **keywords
        )
        np.testing.assert_allclose(actual, each, atol=1e-12)


def test_one_bin_measures_the_spread_about_the_accuracy():
    p = np.array([0.1, 0.3, 0.5, 0.9])
    error = metrics.label_binned_calibration_error([0, 1, 0, 1], p, n_bins=1)
    assert error == pytest.approx(np.sqrt(((p - 0.5) ** 2).mean()))


@pytest.mark.parametrize(
    ("keywords", "message"),
    [
        ({"n_bins": 0}, "n_bins must be a whole number >= 1"),
        ({"strategy": "even"}, "strategy must be one of"),
    ],
)
def test_wrong_keywords_are_named_with_the_mend(keywords, message):
    with pytest.raises(ValueError, match=message):
        metrics.label_binned_calibration_error([0, 1], [0.2, 0.7], **keywords)
