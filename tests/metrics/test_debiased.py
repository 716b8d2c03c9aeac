"""The debiased error equals a loop over bins, and is right on average."""

import math

import numpy as np
import pytest
import reference as ref

from skcalib.metrics import debiased_calibration_error, expected_calibration_error

OPTIONS = [
    {"strategy": "uniform", "closed": "right"},
    {"strategy": "uniform", "closed": "left"},
    {"strategy": "quantile", "quantile_method": "edges"},
    {"strategy": "quantile", "quantile_method": "rank"},
    {"strategy": "quantile", "quantile_method": "split"},
]


def slow_square(pairs, n_bins, strategy, closed="right", quantile_method="split"):
    """Squared gap less the variance of the share of hits, bin by bin."""
    where = ref.bins_of([s for s, _ in pairs], n_bins, strategy, closed, quantile_method)
    total = 0.0
    for b in range(n_bins):
        cell = [pair for pair, c in zip(pairs, where, strict=True) if c == b]
        if len(cell) < 2:
            continue
        acc = sum(t for _, t in cell) / len(cell)
        conf = math.fsum(s for s, _ in cell) / len(cell)
        noise = acc * (1 - acc) / (len(cell) - 1)
        total += len(cell) / len(pairs) * ((acc - conf) ** 2 - noise)
    return max(total, 0.0)


@pytest.mark.parametrize("options", OPTIONS, ids=lambda o: "-".join(o.values()))
@pytest.mark.parametrize("kind", ["ties", "hard", "sparse"])
def test_it_equals_the_loop_with_each_class_clipped_before_the_mean(options, kind):
    y, P = ref.predictions(4, 61, seed=3, kind=kind)
    for n_bins in (1, 4, 15, 50):
        keywords = {**options, "n_bins": n_bins}
        (pairs,) = ref.problems(y, P, True, False, None)
        actual = debiased_calibration_error(y, P, labels=range(4), **keywords)
        assert actual == pytest.approx(math.sqrt(slow_square(pairs, **keywords)), abs=1e-9)
        each = [slow_square(pairs, **keywords) for pairs in ref.problems(y, P, False, True, None)]
        actual = debiased_calibration_error(
            y, P, mode="classwise", average=None, labels=range(4), **keywords
        )
        np.testing.assert_allclose(actual, np.sqrt(each), atol=1e-9)
        actual = debiased_calibration_error(y, P, mode="classwise", labels=range(4), **keywords)
        assert actual == pytest.approx(math.sqrt(sum(each) / 4), abs=1e-9)


def test_a_bin_of_one_row_adds_nothing_and_keeps_its_weight():
    """Two rows at 0.5, both hits, and one at 0.9: two thirds of a squared gap of a half."""
    error = debiased_calibration_error([1, 1, 0], [0.5, 0.5, 0.9], strategy="uniform", n_bins=4)
    assert error == pytest.approx(math.sqrt(2 / 3 * 0.25))


def test_its_square_is_right_on_average_where_the_plain_one_is_not():
    """Scores of 0.1, 0.3, ... with a hit rate 0.05 above: a squared error of 0.0025."""
    rng = np.random.default_rng(0)
    p = np.repeat([0.1, 0.3, 0.5, 0.7, 0.9], 200)
    keywords = {"n_bins": 5, "strategy": "uniform"}
    plain, debiased = [], []
    for _ in range(400):
        y = (rng.random(p.size) < p + 0.05).astype(int)
        plain.append(expected_calibration_error(y, p, norm="l2", pos_label=1, **keywords) ** 2)
        debiased.append(debiased_calibration_error(y, p, **keywords) ** 2)
    assert np.mean(plain) > 0.0031
    assert np.mean(debiased) == pytest.approx(0.0025, abs=2e-4)
