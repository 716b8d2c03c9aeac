"""The soft-binned error equals its formula by loops, and hard bins in the limit."""

import itertools
import math

import numpy as np
import pytest
import reference as ref

from skcalib.metrics import (
    expected_calibration_error,
    label_binned_calibration_error,
    soft_binned_calibration_error,
)


def slow(pairs, *, n_bins, temperature, kind, norm):
    """Memberships of each score in each bin, and the sums over them, one by one."""
    n, q = len(pairs), {"l1": 1, "l2": 2}.get(norm, norm)
    centres = [(b + 0.5) / n_bins for b in range(n_bins)]
    members = []
    for s, _ in pairs:
        nearest = min((s - c) ** 2 for c in centres)
        u = [math.exp((nearest - (s - c) ** 2) / temperature) for c in centres]
        members.append([v / sum(u) for v in u])
    total = 0.0
    for b in range(n_bins):
        mass = math.fsum(u[b] for u in members)
        if mass < 1e-300:
            continue
        acc = math.fsum(u[b] * t for u, (_, t) in zip(members, pairs, strict=True)) / mass
        conf = math.fsum(u[b] * s for u, (s, _) in zip(members, pairs, strict=True)) / mass
        if kind == "bin":
            total += mass / n * abs(acc - conf) ** q
        else:
            rows = zip(members, pairs, strict=True)
            total += math.fsum(u[b] / n * abs(acc - s) ** q for u, (s, _) in rows)
    return total ** (1 / q)


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


def test_the_defaults_are_the_bin_form_under_l2_with_15_bins_at_a_hundredth():
    y, P = ref.predictions(4, 40, seed=2)
    (pairs,) = ref.problems(y, P, True, False, None)
    expected = slow(pairs, n_bins=15, temperature=0.01, kind="bin", norm="l2")
    assert soft_binned_calibration_error(y, P, labels=range(4)) == pytest.approx(expected)


@pytest.mark.parametrize("norm", ["l1", "l2"])
@pytest.mark.parametrize("mode", ["top", "classwise"])
def test_cold_bins_are_even_bins_with_sharp_edges(norm, mode):
    y, P = ref.predictions(3, 300, seed=5)
    keywords = {"norm": norm, "labels": range(3)}
    cold = {**keywords, "mode": mode, "temperature": 1e-7}
    if mode == "top":
        hard = expected_calibration_error(y, P, **keywords)
        assert soft_binned_calibration_error(y, P, **cold) == pytest.approx(hard, abs=1e-6)
    hard = label_binned_calibration_error(y, P, mode=mode, strategy="uniform", **keywords)
    soft = soft_binned_calibration_error(y, P, kind="label", **cold)
    assert soft == pytest.approx(hard, abs=1e-6)


@pytest.mark.parametrize(
    ("keywords", "message"),
    [
        ({"n_bins": 0}, "n_bins must be a whole number >= 1"),
        ({"temperature": 0}, "temperature must be a positive number; got 0"),
        ({"temperature": float("nan")}, "temperature must be a positive number; got nan"),
        ({"kind": "soft"}, "kind must be one of"),
        ({"norm": "max"}, "norm must be one of"),
    ],
)
def test_wrong_keywords_are_named_with_the_mend(keywords, message):
    with pytest.raises(ValueError, match=message):
        soft_binned_calibration_error([0, 1], [0.2, 0.7], **keywords)
