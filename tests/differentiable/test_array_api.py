"""Formulas that metrics and losses share use names of the newest array API alone."""

import array_api_strict
import numpy as np
import pytest

from skcalib import _differentiable

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
