"""Scores on the edges of even bins, in every precision, against exact fractions."""

import itertools
from fractions import Fraction

import numpy as np
import pytest
from edges import bin_of, bins_of_fractions, even_bin, ways_to_write

from skcalib import HistogramBinning, metrics
from skcalib._arrays.precision import BFLOAT16, FLOAT16, FLOAT32, FLOAT64, significant_bits
from skcalib._arrays.source import as_source
from skcalib._binning.bins import Bins
from skcalib._binning.edges import rounded

TYPES = (np.float16, np.float32, np.float64)
CLOSED = ("right", "left")


def as_checked(score):
    """Scores as the checks of the package pass them on: of float32 or float64."""
    return score.astype(np.float32) if score.dtype == np.float16 else score


def tenths(*scores, dtype, copies=100):
    """Copies of scores, of which those of the first never come true and the others always do."""
    p = np.repeat(np.array(scores, dtype=dtype), copies)
    return (np.arange(p.size) >= copies).astype(int), p


# --------------------------------------------------------------------- reading the precision


def as_bfloat16(x):
    """Numbers of bfloat16, in float32: the upper half of the bits, rounded to even."""
    bits = np.asarray(x, dtype=np.float32).view(np.uint32).astype(np.int64)
    upper = (bits + 0x7FFF + ((bits >> 16) & 1)) >> 16 << 16
    return upper.astype(np.uint32).view(np.float32)


def test_the_precision_is_that_of_the_numbers():
    x = np.random.default_rng(0).random((300, 5))
    assert significant_bits(x) == FLOAT64
    assert significant_bits(x.astype(np.float32)) == FLOAT32
    assert significant_bits(x.astype(np.float32).astype(np.float64)) == FLOAT32
    assert significant_bits(x.astype(np.float16).astype(np.float32)) == FLOAT16
    assert significant_bits(as_bfloat16(x)) == BFLOAT16


def test_one_number_in_any_place_tells_the_precision():
    for place in ((0, 0), (0, 4), (150_000, 2), (299_999, 4)):
        x = np.full((300_000, 5), 0.25, dtype=np.float32)
        x[place] = 0.1
        assert significant_bits(x) == FLOAT32
        x[place] = np.float16(0.1)
        assert significant_bits(x) == FLOAT16


def test_counts_are_not_read_as_rounded_numbers():
    """Votes of 256 trees are exact: not numbers of bfloat16, and in float64 not of float16."""
    votes = np.arange(257) / 256
    assert significant_bits(votes.astype(np.float32)) == FLOAT16
    assert significant_bits(votes) == FLOAT32
    for n_bins, closed in itertools.product(range(1, 101), CLOSED):
        found = Bins(n_bins, closed=closed).uniform_index(votes)
        assert found.tolist() == [
            bin_of(Fraction(count, 256), n_bins, closed) for count in range(257)
        ]


def test_rounding_is_that_of_the_types():
    x = np.random.default_rng(1).random(2000)
    x = np.concatenate([x, [0.0, 1.0, 0.5, 1 / 3]])
    assert (rounded(x, FLOAT64) == x).all()
    assert (rounded(x, FLOAT32) == x.astype(np.float32)).all()
    ordinary = x[(x == 0) | (x > 1e-4)]
    assert (rounded(ordinary, FLOAT16) == ordinary.astype(np.float16)).all()
    assert (rounded(x, BFLOAT16) == as_bfloat16(x)).all()


# ------------------------------------------------------------------------------ one column


@pytest.mark.parametrize("closed", CLOSED)
@pytest.mark.parametrize("dtype", TYPES)
def test_every_fraction_lies_in_the_bin_that_it_closes(dtype, closed):
    """k/B as quotient or product, B to 100, all together and each alone."""
    for n_bins in range(1, 101):
        bins = Bins(n_bins, closed=closed)
        ways = [ways_to_write(k, n_bins, dtype) for k in range(n_bins + 1)]
        expected = bins_of_fractions(n_bins, closed)
        for i in range(3):
            score = as_checked(np.array([way[i] for way in ways]))
            assert bins.uniform_index(score).tolist() == expected
        alone = [bins.uniform_index(score[k : k + 1])[0] for k in range(n_bins + 1)]
        assert alone == expected


@pytest.mark.parametrize("closed", CLOSED)
def test_every_fraction_of_bfloat16_lies_in_the_bin_that_it_closes(closed):
    for n_bins in range(1, 101):
        score = as_bfloat16(np.arange(n_bins + 1) / n_bins)
        score = np.append(score, np.float32(0.001953125 * 1.5))  # small ones lie between 1/256
        expected = bins_of_fractions(n_bins, closed)
        found = Bins(n_bins, closed=closed).uniform_index(score)
        assert found[:-1].tolist() == expected


@pytest.mark.parametrize("closed", CLOSED)
@pytest.mark.parametrize("dtype", TYPES)
def test_complements_lie_where_the_fractions_do(dtype, closed):
    """Two columns: k/B and one less k/B, either of them the computed one."""
    for n_bins in range(1, 101):
        p = np.array([ways_to_write(k, n_bins, dtype)[0] for k in range(n_bins + 1)])
        expected = bins_of_fractions(n_bins, closed)
        for computed in (dtype(1) - p, 1 - as_checked(p)):
            P = np.column_stack([as_checked(computed), as_checked(p)])
            for both in (P, P[:, ::-1]):
                bins = Bins(n_bins, closed=closed).with_precision_of(as_source(both))
                own, other = (bins.uniform_index(both[:, k]).tolist() for k in (0, 1))
                assert sorted([own, other]) == sorted([expected, expected[::-1]])


def test_bins_narrower_than_the_steps_of_float16_keep_their_own_edges():
    score = np.float16(0.3).astype(np.float32)
    for n_bins in (1025, 5000):
        found = Bins(n_bins).uniform_index(np.array([score]))
        assert found == bin_of(Fraction(float(score)), n_bins, "right")


# ------------------------------------------------------------------------------- the metrics


@pytest.mark.parametrize("dtype", TYPES)
def test_the_error_does_not_depend_on_the_precision(dtype):
    """Two bins, one always wrong and one always right: joined, they would seem calibrated."""
    y, c = tenths(0.3, 0.35, dtype=dtype)
    expected = (0.3 + 0.65) / 2
    P = np.column_stack([1 - c, c])
    for scores in (c, P):
        found = metrics.expected_calibration_error(y, scores, pos_label=1, n_bins=20)
        assert found == pytest.approx(expected, abs=1e-3 if dtype is np.float16 else 1e-7)
        found = metrics.static_calibration_error(y, scores, n_bins=20)
        assert found == pytest.approx(expected, abs=1e-3 if dtype is np.float16 else 1e-7)
        found = metrics.expected_calibration_error(y, scores, n_bins=20)  # 0.7 and 0.65
        assert found == pytest.approx(expected, abs=1e-3 if dtype is np.float16 else 1e-7)
        found = metrics.general_calibration_error(y, scores, max_prob=False, n_bins=20)
        assert found == pytest.approx(expected, abs=1e-3 if dtype is np.float16 else 1e-7)


@pytest.mark.parametrize("dtype", TYPES)
@pytest.mark.parametrize("closed", CLOSED)
def test_a_reliability_table_counts_each_score_where_it_belongs(dtype, closed):
    for n_bins in (3, 7, 10, 30, 49, 100):
        p = np.array([dtype(k / n_bins) for k in range(n_bins + 1)])
        y = np.arange(n_bins + 1) % 2
        table = metrics.reliability_table(y, p, pos_label=1, n_bins=n_bins, closed=closed)
        expected = np.bincount([even_bin(s, n_bins, closed) for s in p], minlength=n_bins)
        assert table["count"].tolist() == expected.tolist()


@pytest.mark.parametrize("dtype", TYPES)
def test_label_binned_and_swept_errors_bin_alike(dtype):
    y, c = tenths(0.3, 0.35, 0.7, dtype=dtype, copies=40)
    wide = np.repeat([0.3, 0.35, 0.7], 40)
    for metric in (metrics.label_binned_calibration_error, metrics.sweep_calibration_error):
        keywords = {"strategy": "uniform", "mode": "classwise", "average": None}
        if metric is metrics.label_binned_calibration_error:
            keywords["n_bins"] = 20
        expected = metric(y, wide, **keywords)
        np.testing.assert_allclose(metric(y, c, **keywords), expected, rtol=0, atol=1e-3)


@pytest.mark.parametrize("dtype", TYPES)
def test_a_score_equal_to_the_threshold_is_not_above_it(dtype):
    """Of float32 or float16, 0.05 written in the type lies above the float64 number."""
    for hundredths in range(1, 100):
        threshold = hundredths / 100
        p = np.array([threshold, threshold, 1.0], dtype=dtype)
        P = np.column_stack([p, 1 - p, np.zeros(3, dtype=dtype)])
        error = metrics.general_calibration_error(
            [0, 0, 1],
            P,
            max_prob=False,
            class_conditional=True,
            threshold=threshold,
            average=None,
            labels=[0, 1, 2],
        )
        assert error[0] == 1  # only the last row is left, which is wrong


def test_float32_scores_give_the_error_of_the_same_numbers_in_float64():
    rng = np.random.default_rng(0)
    P = (rng.multinomial(20, [0.2, 0.3, 0.5], size=300) / 20).astype(np.float32)
    y = rng.integers(3, size=300)
    for closed in CLOSED:
        for each in (False, True):
            keywords = {"n_bins": 20, "closed": closed}
            keywords |= {"max_prob": not each, "class_conditional": each}
            single = metrics.general_calibration_error(y, P, **keywords)
            wide = P.astype(np.float64)
            assert single == metrics.general_calibration_error(y, wide, **keywords)


# ------------------------------------------------------------------------ histogram binning


@pytest.mark.parametrize("strategy", ["uniform", "quantile"])
@pytest.mark.parametrize(("fitted", "asked"), list(itertools.product(TYPES[1:], TYPES[1:])))
def test_a_histogram_answers_a_score_alike_in_both_precisions(fitted, asked, strategy):
    for n_bins in (5, 10, 20, 49):
        score = np.arange(n_bins + 1) / n_bins
        y = np.arange(n_bins + 1) % 3 == 0
        binning = HistogramBinning(n_bins=n_bins, strategy=strategy)
        expected = binning.fit(score, y).predict_proba(score)
        binning.fit(score.astype(fitted), y)
        assert binning.bin_edges_.dtype == np.float64
        np.testing.assert_allclose(binning.predict_proba(score.astype(asked)), expected, atol=1e-7)


def test_a_histogram_of_float16_scores_answers_them_as_it_was_fitted():
    for n_bins in (5, 10, 20, 49):
        score = np.arange(n_bins + 1) / n_bins
        y = np.arange(n_bins + 1) % 3 == 0
        binning = HistogramBinning(n_bins=n_bins)
        expected = binning.fit(score, y).predict_proba(score)
        half = binning.fit(score.astype(np.float16), y).predict_proba(score.astype(np.float16))
        np.testing.assert_allclose(half, expected, atol=1e-6)
        np.testing.assert_allclose(binning.predict_proba(score), expected, atol=1e-6)
