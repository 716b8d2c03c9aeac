"""Formulas that metrics and losses share: bins of many classes, names of the array API."""

import itertools
import math

import array_api_strict
import numpy as np
import pytest

from skcalib import _differentiable
from skcalib import _differentiable as soft_binning
from skcalib._differentiable import (
    SoftBins,
    classwise_soft_binned_error,
    kernel_mean_error,
    soft_binned_error,
)

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


# ------------------------------------------------------------------ the array API


RNG = np.random.default_rng(0)
P = RNG.dirichlet([1, 1, 1], 60)
W, HIT = RNG.random(60), RNG.random(60) < 0.6
SCORE = P.max(axis=1)


def formulas(convert, xp):
    """The value of each formula of arrays of `xp`."""
    p, w, score, hit = (convert(a) for a in (P, W, SCORE, HIT))
    h = _differentiable.entropy(p, xp)
    yield "mmce", _differentiable.kernel_mean_error(score, hit, w, xp=xp)
    yield "avuc", _differentiable.avuc(score, h, hit, w, xp=xp)
    yield "soft avuc", _differentiable.soft_avuc(h, hit, w, n_classes=3, xp=xp)
    for kind in ("bin", "label"):
        for norm in ("l1", "l2", 3.0):
            bins = _differentiable.SoftBins(10, 0.01, kind, norm)
            yield f"{kind} {norm}", _differentiable.soft_binned_error(score, hit, w, bins, xp)


def test_strict_arrays_give_the_numbers_of_numpy():
    strict = dict(formulas(array_api_strict.asarray, array_api_strict))
    for name, value in formulas(np.asarray, np):
        assert float(strict[name]) == pytest.approx(float(value), rel=1e-13), name
