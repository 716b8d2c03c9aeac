"""The soft-binned and the label-binned error equal loops over rows and bins."""

import itertools
import math

import numpy as np
import pytest
import reference as ref
from soft_references import slow_soft_power

from skcalib.metrics import label_binned_calibration_error, soft_binned_calibration_error


def slow(pairs, *, norm, **keywords):
    q = {"l1": 1, "l2": 2}.get(norm, norm)
    return slow_soft_power(pairs, [1] * len(pairs), q, **keywords) ** (1 / q)


@pytest.mark.parametrize("kind", ["bin", "label"])
@pytest.mark.parametrize("norm", ["l1", "l2", 3])
@pytest.mark.parametrize("data", ["ties", "hard"])
def test_it_equals_the_loop(kind, norm, data):
    y, P = ref.predictions(4, 40, seed=2, kind=data)
    for n_bins, temperature in itertools.product([1, 15], [1e-4, 0.01, 3.0]):
        keywords = {"n_bins": n_bins, "temperature": temperature, "kind": kind, "norm": norm}
        for mode in ("top", "classwise"):
            each = [
                slow(pairs, **keywords)
                for pairs in ref.problems(y, P, mode == "top", mode == "classwise", None)
            ]
            actual = soft_binned_calibration_error(
                y,
                P,
                mode=mode,
                average="macro" if mode == "top" else None,
                labels=range(4),
                **keywords,
            )
            np.testing.assert_allclose(actual, each if mode == "classwise" else each[0], atol=1e-12)


every_strategy = pytest.mark.parametrize("strategy", ["uniform", "quantile"])


def slow_label_binned(pairs, n_bins, norm, strategy):
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
def test_the_label_binned_error_equals_the_loop(strategy, kind):
    y, P = ref.predictions(4, 61, seed=3, kind=kind)
    kinds = ["plain", "ties", "hard", "sparse"]
    for i, norm in enumerate(["l1", "l2", "max", 3]):
        n_bins = [1, 4, 15, 80][(i + kinds.index(kind)) % 4]  # each beside each norm
        keywords = {"strategy": strategy, "norm": norm, "n_bins": n_bins}
        (pairs,) = ref.problems(y, P, True, False, None)
        actual = label_binned_calibration_error(y, P, labels=range(4), **keywords)
        assert actual == pytest.approx(slow_label_binned(pairs, **keywords), abs=1e-12), keywords
        each = [
            slow_label_binned(pairs, **keywords) for pairs in ref.problems(y, P, False, True, None)
        ]
        actual = label_binned_calibration_error(
            y, P, mode="classwise", average=None, labels=range(4), **keywords
        )
        np.testing.assert_allclose(actual, each, atol=1e-12)


def test_one_label_bin_measures_the_spread_about_the_accuracy():
    p = np.array([0.1, 0.3, 0.5, 0.9])
    error = label_binned_calibration_error([0, 1, 0, 1], p, n_bins=1)
    assert error == pytest.approx(np.sqrt(((p - 0.5) ** 2).mean()))
