"""Errors of soft hits, shares of the event, equal loops over rows and bins."""

import numpy as np
import pytest
import reference as ref

from skcalib.metrics import (
    adaptive_calibration_error,
    ks_calibration_error,
    reliability_table,
    static_calibration_error,
    top_label_brier_score,
)


@pytest.mark.parametrize("strategy", ["uniform", "quantile"])
def test_binned_errors_equal_the_loop(strategy):
    """With heavy ties: bins depend on the scores alone, accuracies are means of shares."""
    rng = np.random.default_rng(3)
    p = rng.integers(0, 21, 77) / 20
    f = rng.random(77)
    where = ref.bins_of(p, 10, strategy, "right", "edges")
    gaps = [
        sum(float(s) - t for s, t, b in zip(p, f, where, strict=True) if b == k) for k in range(10)
    ]
    found = static_calibration_error(f, p, n_bins=10) if strategy == "uniform" else (
        adaptive_calibration_error(f, p, n_bins=10)
    )  # fmt: skip
    assert found == pytest.approx(sum(map(abs, gaps)) / 77, abs=1e-12)
    table = reliability_table(f, p, n_bins=10, strategy=strategy)
    assert table["count"].sum() == 77
    assert table["count"].tolist() == [where.count(k) for k in range(10)]


def test_ks_and_brier_score_equal_the_loop():
    rng = np.random.default_rng(4)
    p, f = rng.integers(0, 21, 50) / 20, rng.random(50)
    assert ks_calibration_error(f, p) == pytest.approx(ref.ks(p.tolist(), f.tolist()), abs=1e-12)
    brier = sum(t * (1 - s) ** 2 + (1 - t) * s**2 for s, t in zip(p, f, strict=True)) / 50
    assert top_label_brier_score(f, p) == pytest.approx(brier, abs=1e-12)
