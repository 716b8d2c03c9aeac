"""Scores on the edges of even bins, in each type, against exact fractions."""

import itertools
from fractions import Fraction

import numpy as np
import pytest
from edges import bin_of

from skcalib import HistogramBinning, metrics
from skcalib._binning import Bins

TYPES = (np.float32, np.float64)
CLOSED = ("right", "left")


def tenths(*scores, dtype, copies=100):
    """Copies of scores, of which those of the first never come true and the others always do."""
    p = np.repeat(np.array(scores, dtype=dtype), copies)
    return (np.arange(p.size) >= copies).astype(int), p


@pytest.mark.parametrize("closed", CLOSED)
@pytest.mark.parametrize("dtype", TYPES)
def test_every_fraction_lies_in_the_bin_that_it_closes(dtype, closed):
    """k/B as its type writes it, B to 100; the numbers beside it lie on either side."""
    for n_bins in range(1, 101):
        bins = Bins(n_bins, closed=closed)
        score = np.array([dtype(k / n_bins) for k in range(n_bins + 1)])
        expected = [bin_of(Fraction(k, n_bins), n_bins, closed) for k in range(n_bins + 1)]
        assert bins.uniform_index(score).tolist() == expected
        inner = np.arange(1, n_bins)
        below, above = np.nextafter(score[inner], dtype(0)), np.nextafter(score[inner], dtype(1))
        assert bins.uniform_index(below).tolist() == (inner - 1).tolist()
        assert bins.uniform_index(above).tolist() == inner.tolist()


@pytest.mark.parametrize("dtype", TYPES)
def test_the_error_does_not_depend_on_the_type(dtype):
    """Two bins, one always wrong and one always right: joined, they would seem calibrated."""
    y, c = tenths(0.3, 0.35, dtype=dtype)
    expected = pytest.approx((0.3 + 0.65) / 2, abs=1e-7)
    assert metrics.expected_calibration_error(y, c, pos_label=1, n_bins=20) == expected
    P = np.column_stack([1 - c, c])
    assert metrics.static_calibration_error(y, P, average=None, n_bins=20)[1] == expected
    for metric in (metrics.label_binned_calibration_error, metrics.sweep_calibration_error):
        wide = metric(y, np.repeat([0.3, 0.35], 100), strategy="uniform", pos_label=1)
        assert metric(y, c, strategy="uniform", pos_label=1) == pytest.approx(wide, abs=1e-7)


@pytest.mark.parametrize("strategy", ["uniform", "quantile"])
@pytest.mark.parametrize("dtype", TYPES)
def test_a_score_equal_to_the_threshold_is_not_above_it(dtype, strategy):
    """In float32, 0.05 lies above the float64 number."""
    for hundredths in range(1, 100):
        threshold = hundredths / 100
        p = np.array([threshold, threshold, 1.0], dtype=dtype)
        P = np.column_stack([p, 1 - p, np.zeros(3, dtype=dtype)])
        keywords = {"class_conditional": True, "average": None, "labels": [0, 1, 2]}
        error = metrics.general_calibration_error(
            [0, 0, 1], P, max_prob=False, strategy=strategy, threshold=threshold, **keywords
        )
        assert error[0] == 1  # only the last row is left, which is wrong


@pytest.mark.parametrize("strategy", ["uniform", "quantile"])
@pytest.mark.parametrize(("fitted", "new"), list(itertools.product(TYPES, TYPES)))
def test_a_histogram_maps_a_score_alike_in_both_types(fitted, new, strategy):
    for n_bins in (5, 10, 20, 49):
        score = np.arange(n_bins + 1) / n_bins
        y = np.arange(n_bins + 1) % 3 == 0
        binning = HistogramBinning(n_bins=n_bins, strategy=strategy)
        expected = binning.fit(score, y).predict_proba(score)
        binning.fit(score.astype(fitted), y)
        assert binning.bin_edges_.dtype == np.float64
        np.testing.assert_allclose(binning.predict_proba(score.astype(new)), expected, atol=1e-7)
