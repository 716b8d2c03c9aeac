"""The soft-binned error and the kernel error: their formulas, limits, blocks and derivatives."""

import itertools
import math

import numpy as np
import pytest

from skcalib._differentiable import soft_binning
from skcalib._differentiable.mmce import kernel_mean_error
from skcalib._differentiable.soft_binning import (
    SoftBins,
    classwise_soft_binned_error,
    soft_binned_error,
)
from skcalib.metrics import root_mean_squared_calibration_error

FORMS = list(itertools.product(["bin", "label"], ["l1", "l2", 2.5, 3]))


def binary_problem(n=60, seed=0):
    """Scores with ties, 0, 1, a centre and an edge of 15 bins; hits; weights with a 0."""
    rng = np.random.default_rng(seed)
    score = rng.random(n)
    score[:8] = [0.0, 1.0, 1.0, 0.5, 1 / 3, 0.2, 0.2, 0.2]
    hit = rng.random(n) < score**2
    w = rng.random(n)
    w[9] = 0.0
    return score, hit, w


def slow_error(score, hit, w, n_bins, temperature, kind, norm):
    """The formula, one row and one bin at a time."""
    q, total = {"l1": 1, "l2": 2}.get(norm, norm), math.fsum(w)
    rows = range(len(score))
    u = []
    for i in rows:
        far = [(score[i] - (b + 0.5) / n_bins) ** 2 / temperature for b in range(n_bins)]
        e = [math.exp(min(far) - f) for f in far]
        u.append([v / math.fsum(e) for v in e])
    error = 0.0
    for b in range(n_bins):
        mass = math.fsum(w[i] * u[i][b] for i in rows)
        if mass < 1e-300:
            continue
        acc = math.fsum(w[i] * u[i][b] * hit[i] for i in rows) / mass
        conf = math.fsum(w[i] * u[i][b] * score[i] for i in rows) / mass
        if kind == "bin":
            error += mass * abs(acc - conf) ** q
        else:
            error += math.fsum(w[i] * u[i][b] * abs(acc - score[i]) ** q for i in rows)
    return (error / total) ** (1 / q)


@pytest.mark.parametrize(("kind", "norm"), FORMS)
@pytest.mark.parametrize(("n_bins", "temperature"), [(15, 0.01), (15, 1e-5), (4, 0.5), (1, 0.01)])
def test_the_error_is_its_formula(kind, norm, n_bins, temperature):
    keywords = {"n_bins": n_bins, "temperature": temperature, "kind": kind, "norm": norm}
    score, hit, w = binary_problem()
    expected = slow_error(score, hit, w, **keywords)
    assert soft_binned_error(score, hit, w, SoftBins(**keywords)) == pytest.approx(
        expected, abs=1e-13
    )


@pytest.mark.parametrize("seed", range(3))
def test_cold_bins_are_even_bins_with_sharp_edges(seed):
    """At T = 1e-7, with no score within 1/600 of an edge."""
    rng = np.random.default_rng(seed)
    p = (rng.integers(100, size=500) + 0.5) / 100
    P = np.column_stack([1 - p, p])
    y = (rng.random(500) < p**2).astype(int)
    hard = root_mean_squared_calibration_error(y, P, strategy="uniform")
    soft = soft_binned_error(p, y == 1, np.ones(500), SoftBins(temperature=1e-7))
    assert soft == pytest.approx(hard, abs=1e-12)


@pytest.mark.parametrize("norm", ["l1", "l2"])
@pytest.mark.parametrize("temperature", [1e-6, 0.01, 1.0])
def test_the_label_form_is_never_below_the_bin_form(norm, temperature):
    for seed in range(20):
        problem = binary_problem(25, seed)
        keywords = {"norm": norm, "temperature": temperature}
        label = soft_binned_error(*problem, SoftBins(kind="label", **keywords))
        assert label >= soft_binned_error(*problem, SoftBins(kind="bin", **keywords)) - 1e-14


@pytest.mark.parametrize(("kind", "norm"), FORMS)
def test_blocks_of_rows_change_nothing(kind, norm, monkeypatch):
    problem = binary_problem()
    whole = soft_binned_error(*problem, SoftBins(kind=kind, norm=norm))
    monkeypatch.setattr(
        soft_binning,
        "row_blocks",
        lambda n, n_bins: [slice(i, min(i + 7, n)) for i in range(0, n, 7)],
    )
    value = soft_binned_error(*problem, SoftBins(kind=kind, norm=norm))
    assert value == pytest.approx(whole, abs=1e-15)


def classwise_problem(n=40, K=6, seed=0):
    rng = np.random.default_rng(seed)
    P = rng.dirichlet(np.ones(K) / 2, size=n)
    return P, rng.integers(K, size=n)[:, None] == np.arange(K), rng.random(n)


@pytest.mark.parametrize(("kind", "norm"), FORMS)
def test_the_error_of_all_classes_is_the_mean_of_powers_below_one_root(kind, norm):
    P, true, w = classwise_problem()
    q = {"l1": 1, "l2": 2}.get(norm, norm)
    each = [slow_error(P[:, k], true[:, k], w, 15, 0.01, kind, norm) for k in range(6)]
    expected = (math.fsum(e**q for e in each) / 6) ** (1 / q)
    found = classwise_soft_binned_error(P, true, w, SoftBins(kind=kind, norm=norm))
    assert found == pytest.approx(expected, rel=1e-12)


@pytest.mark.parametrize("kind", ["bin", "label"])
def test_blocks_of_classes_change_nothing(kind, monkeypatch):
    problem = classwise_problem()
    whole = classwise_soft_binned_error(*problem, SoftBins(kind=kind))
    monkeypatch.setattr(
        soft_binning, "column_blocks", lambda n, K: [slice(0, 1), slice(1, 5), slice(5, 6)]
    )
    value = classwise_soft_binned_error(*problem, SoftBins(kind=kind))
    assert value == pytest.approx(whole, abs=1e-15)


@pytest.mark.parametrize("kind", ["bin", "label"])
def test_a_score_of_nan_gives_an_error_of_nan(kind):
    score, hit, w = binary_problem()
    score[5] = np.nan
    assert math.isnan(soft_binned_error(score, hit, w, SoftBins(kind=kind)))
    assert math.isnan(kernel_mean_error(score, hit, w))


def slow_kernel_error(score, hit, w):
    """All pairs of rows."""
    rows = range(len(score))
    a = [w[i] * (float(hit[i]) - score[i]) for i in rows]
    pairs = [a[i] * a[j] * math.exp(-abs(score[i] - score[j]) / 0.4) for i in rows for j in rows]
    return math.sqrt(max(math.fsum(pairs), 0.0)) / math.fsum(w)


@pytest.mark.parametrize("n", [1, 2, 60])
def test_the_kernel_error_is_the_sum_over_all_pairs(n):
    score, hit, w = (a[:n] for a in binary_problem())
    expected = slow_kernel_error(score, hit, w)
    assert kernel_mean_error(score, hit, w) == pytest.approx(expected, abs=1e-12)
