"""Bin tables against a reference that loops over rows and bins; scores on edges in each type."""

import itertools
from fractions import Fraction

import numpy as np
import pytest
from edges import bin_of, places

from skcalib import HistogramBinning, metrics
from skcalib._binning import (
    Bins,
    columns_table,
    flat_table,
    linear_edges,
    pooled_table,
    quantile_cuts,
)
from skcalib._scores.scores import Scores

METHODS = ["uniform", "edges", "linear", "floor", "split", "rank"]


# ------------------------------------------------------------------ the slow, obvious reference


def reference_table(score, hit, weight, bins, threshold=None):
    """Weight, score sum and hit sum of each bin, ``(3, n_bins)``."""
    if threshold is not None:
        kept = [i for i in range(len(score)) if score[i] > score.dtype.type(threshold)]
        score, hit, weight = ([a[i] for i in kept] for a in (score, hit, weight))
    table = np.zeros((3, bins.n_bins))
    for i, where in enumerate(places(score, weight, bins.n_bins, bins.method, bins.closed)):
        for b, w in where.items():
            table[:, b] += w, w * float(score[i]), w * bool(hit[i])
    return table


def sums(table):
    return np.stack([table.weight, table.score_sum, table.hit_sum], axis=1)


def coarse(n, n_classes, seed, digits=2, dtype=np.float64):
    """Probabilities with ties, exact 0 and 1, a missing class and whole weights."""
    rng = np.random.default_rng(seed)
    P = np.round(rng.dirichlet(np.full(n_classes, 0.3), size=n), digits).astype(dtype)
    P[0], P[0, -1] = 0, 1
    P[1], P[1, 0] = 0, 1
    code = np.array([rng.choice(n_classes, p=(p + 0.02) / (p + 0.02).sum()) for p in P])
    if n_classes > 2:
        code[code == 1] = 0
    return P, code, rng.integers(1, 4, n).astype(float)


# ---------------------------------------------------------------------------------- tables


@pytest.mark.parametrize("closed", ["right", "left"])
@pytest.mark.parametrize("threshold", [None, 0.0, 0.1, 0.35])
@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("method", METHODS)
def test_one_column_is_binned_as_the_definition_says(method, weighted, threshold, closed):
    for seed, n, n_bins in [(0, 60, 10), (1, 57, 7), (2, 9, 15), (3, 1, 4), (4, 40, 1)]:
        P, code, w = coarse(max(n, 2), 3, seed)
        score, hit, w = P[:n, 0], code[:n] == 0, w[:n] if weighted else np.ones(n)
        bins = Bins(n_bins, method, closed)
        table = flat_table(score, hit, w, bins, threshold=threshold)
        expected = reference_table(score, hit, w, bins, threshold)
        np.testing.assert_allclose(sums(table)[0], expected, rtol=0, atol=1e-12)


@pytest.mark.parametrize("threshold", [None, 0.01])
@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("n_classes", [2, 10])
def test_the_blocks_of_a_table_do_not_show(
    n_classes, weighted, threshold, monkeypatch, small_blocks
):
    """Entries summed a few at a time, in threads, give the table of all at once."""
    P, code, w = coarse(200, n_classes, seed=n_classes)
    w = w if weighted else np.ones(200)
    scores, bins, first = Scores(P, "proba"), Bins(7), int(n_classes == 2)
    whole = columns_table(scores, code, w, bins, threshold=threshold, first=first)
    monkeypatch.setattr("skcalib._binning.GATHERED", 5)
    small_blocks(3)
    monkeypatch.setattr("skcalib._arrays.sources.thread_count", lambda: 3)
    parts = columns_table(scores, code, w, bins, threshold=threshold, first=first)
    np.testing.assert_array_equal(parts.count, whole.count)
    np.testing.assert_allclose(sums(parts), sums(whole), rtol=0, atol=1e-12)


@pytest.mark.parametrize("threshold", [None, 0.01, 0.2])
@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("n_classes", [2, 3, 10, 40])
@pytest.mark.parametrize("method", METHODS)
def test_every_class_against_the_rest_is_its_own_column(method, n_classes, weighted, threshold):
    n = 60 if n_classes < 40 else 30
    P, code, w = coarse(n, n_classes, seed=n_classes)
    w = w if weighted else np.ones(n)
    bins = Bins(6, method)
    for first in (0, 1):
        table = columns_table(Scores(P, "proba"), code, w, bins, threshold=threshold, first=first)
        for j, k in enumerate(range(first, n_classes)):
            expected = reference_table(P[:, k], code == k, w, bins, threshold)
            np.testing.assert_allclose(sums(table)[j], expected, rtol=0, atol=1e-12)


@pytest.mark.parametrize("threshold", [None, 0.2])
@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("method", METHODS)
def test_a_pooled_table_bins_all_entries_together(method, weighted, threshold):
    P, code, w = coarse(25, 4, seed=7)
    w = w if weighted else np.ones(25)
    bins = Bins(6, method)
    table = pooled_table(Scores(P, "proba"), code, w, bins, threshold=threshold)
    score = np.array([P[i, k] for i in range(25) for k in range(4)])
    hit = [code[i] == k for i in range(25) for k in range(4)]
    weight = [w[i] for i in range(25) for _ in range(4)]
    expected = reference_table(score, hit, weight, bins, threshold)
    assert table.weight.shape == (1, 6)
    np.testing.assert_allclose(sums(table)[0], expected, rtol=0, atol=1e-12)


@pytest.mark.parametrize("method", METHODS)
def test_groups_of_one_column_are_separate_problems_and_may_be_empty(method):
    P, code, w = coarse(80, 5, seed=3)
    score, group = P.max(axis=1), P.argmax(axis=1)
    group[group == 2] = 3
    hit = group == code
    bins = Bins(4, method)
    table = flat_table(score, hit, w, bins, group=group, n_groups=5)
    for g in range(5):
        own = group == g
        expected = reference_table(score[own], hit[own], w[own], bins)
        np.testing.assert_allclose(sums(table)[g], expected, rtol=0, atol=1e-12)
    assert table.weight[2].sum() == 0
    assert (table.gap[2] == 0).all()


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_rows_of_logits_are_binned_as_the_columns_made_of_them(dtype):
    """A map reads columns where the table read rows: an entry on an edge must not change sides."""
    Z = np.zeros((200, 5), dtype=dtype)
    Z[:, 0] = np.linspace(-3, 3, 200)
    scores, code = Scores(Z, "logits"), np.zeros(200, dtype=np.intp)
    P = scores.proba_columns(slice(0, 5)).T
    bins = Bins(5)
    # A threshold that is an entry is an edge on which that entry lies exactly.
    for threshold in (None, *P[::40, 0].astype(float), *P[::40, 1].astype(float)):
        table = columns_table(scores, code, np.ones(200), bins, threshold=threshold)
        for k in (0, 1):
            expected = reference_table(P[:, k], code == k, np.ones(200), bins, threshold)
            np.testing.assert_allclose(sums(table)[k], expected, rtol=0, atol=1e-12)


@pytest.mark.parametrize("method", METHODS)
def test_float32_scores_are_compared_in_float32_and_summed_exactly(method):
    """Tenths in float32 lie beside the float64 edges: float32(0.3) is above 0.3."""
    P, code, w = coarse(50, 3, seed=11, digits=1, dtype=np.float32)
    bins = Bins(10, method)
    table = columns_table(Scores(P, "proba"), code, w, bins, threshold=0.1)
    for k in range(3):
        expected = reference_table(P[:, k], code == k, w, bins, 0.1)
        np.testing.assert_allclose(sums(table)[k], expected, rtol=0, atol=1e-12)
        flat = flat_table(P[:, k], code == k, w, bins, threshold=0.1)
        np.testing.assert_allclose(sums(flat)[0], expected, rtol=0, atol=1e-12)


def test_edges_are_the_numbers_next_to_the_fractions():
    """Those of `numpy.linspace` may lie beside: 3 times 1/10 is not 3/10."""
    for n_bins in range(1, 101):
        expected = [k / n_bins for k in range(n_bins + 1)]
        assert Bins(n_bins).edges().tolist() == expected


def test_quantile_bins_open_at_exact_rows():
    """r N / B in whole numbers: as a product of floats it may lie just below the row it is."""
    for n in range(1, 401, 3):
        for n_bins in range(1, 61):
            whole, rest = divmod(n * np.arange(n_bins), n_bins)
            down = quantile_cuts(Bins(n_bins, "floor"), float(n), True, n)
            assert down.tolist() == whole[1:].tolist()
            nearest = quantile_cuts(Bins(n_bins, "edges"), float(n), True, n)
            up = (2 * rest > n_bins) | ((2 * rest == n_bins) & (whole % 2 == 1))  # half to even
            assert nearest.tolist() == (whole + up)[1:].tolist()


@pytest.mark.parametrize("scale", [2.0**40, 2.0**57, 2.0**66, 2.0**200])
@pytest.mark.parametrize("method", METHODS)
def test_very_large_whole_weights_give_the_bins_of_ones(method, scale):
    """Of 60 rows in 15 bins, which cut no row in two: products leave 64 bits, results do not."""
    rng = np.random.default_rng(5)
    score, hit = rng.random(60), rng.random(60) < 0.5
    expected = sums(flat_table(score, hit, np.ones(60), Bins(15, method)))
    found = sums(flat_table(score, hit, np.full(60, scale), Bins(15, method))) / scale
    if method in ("split", "linear"):  # of copies, whose edges are scores, not between them
        expected, found = expected.sum(axis=-1), found.sum(axis=-1)
    np.testing.assert_allclose(found, expected, rtol=0, atol=1e-12)


@pytest.mark.parametrize("whole", [True, False])
def test_linear_edges_are_quantiles_of_copies(whole):
    """The rule for relative weights gives those of whole ones too."""
    rng = np.random.default_rng(3)
    for n in range(1, 120):
        values, w = np.sort(rng.random(n).round(1 + n % 3)), rng.integers(1, 5, n)
        cumulative = np.concatenate([[0.0], np.cumsum(w)])
        found = linear_edges(values, cumulative, 7, whole)
        expected = np.percentile(np.repeat(values, w), np.linspace(0, 1, 8)[1:-1] * 100)
        np.testing.assert_allclose(found, expected, rtol=0, atol=0 if whole else 1e-15)


def test_fractional_weights_cut_where_the_mass_is():
    """Bin r opens at the score of the row that holds the position r W / B of the weight."""
    rng = np.random.default_rng(2)
    score, hit = np.round(rng.random(40), 1), rng.random(40) < 0.5
    w = rng.random(40) + 0.01
    order = np.argsort(score, kind="stable")
    edges = []
    for r in range(1, 5):
        passed = 0.0
        for i in order:
            passed += w[i]
            if passed > r * w.sum() / 5:
                edges.append(score[i])
                break
    table = flat_table(score, hit, w, Bins(5, "edges"))
    for b in range(5):
        inside = [i for i in range(40) if sum(e <= score[i] for e in edges) == b]
        assert table.weight[0, b] == pytest.approx(sum(w[i] for i in inside), abs=1e-12)
        assert table.hit_sum[0, b] == pytest.approx(sum(w[i] * hit[i] for i in inside), abs=1e-12)


def test_a_class_of_large_scores_loses_no_digits_in_its_first_bin():
    """The first bin comes of a subtraction where most rows are there, of a sum where few are."""
    n = 4000
    p = np.full(n, 0.999)
    p[:3] = [1e-13, 2e-13, 0.0]
    P = np.column_stack([1 - p, p])
    table = columns_table(Scores(P, "proba"), np.zeros(n, dtype=np.intp), np.ones(n), Bins(15))
    assert table.score_sum[1, 0] == pytest.approx(3e-13, rel=1e-12)
    assert table.count[1].tolist() == [3] + [0] * 13 + [n - 3]


def test_confidence_accuracy_and_gap_are_means_and_zero_where_empty():
    score, hit, w = np.array([0.1, 0.2, 0.9]), np.array([True, False, True]), np.array([1.0, 3, 2])
    table = flat_table(score, hit, w, Bins(3))
    np.testing.assert_allclose(table.confidence, [[0.7 / 4, 0, 0.9]])
    np.testing.assert_allclose(table.accuracy, [[0.25, 0, 1.0]])
    np.testing.assert_allclose(table.gap, [[0.075, 0, 0.1]])
    assert table.count.tolist() == [[2, 0, 1]]


@pytest.mark.parametrize("method", METHODS)
def test_edges_enclose_the_scores_of_their_bin(method):
    P, code, w = coarse(60, 3, seed=17)
    table = columns_table(Scores(P, "proba"), code, w, Bins(8, method))
    full = table.weight > 0
    slack = 1e-12
    assert (table.left[full] <= table.confidence[full] + slack).all()
    assert (table.right[full] >= table.confidence[full] - slack).all()
    assert (np.diff(table.left, axis=1) >= 0).all()


@pytest.mark.parametrize("weighted", [False, True])
def test_edges_by_rank_are_the_least_and_the_largest_score_of_the_bin(weighted):
    rng = np.random.default_rng(3)
    score, bins = rng.random(23), Bins(5, "rank")
    w = rng.integers(1, 4, 23).astype(float) if weighted else np.ones(23)
    where = places(score, w, bins.n_bins, bins.method)
    held = [[s for s, its in zip(score, where, strict=True) if b in its] for b in range(5)]
    table = flat_table(score, score > 0.5, w, bins)
    assert table.left.tolist() == [[min(s) for s in held]]
    assert table.right.tolist() == [[max(s) for s in held]]


@pytest.mark.parametrize("method", METHODS)
def test_every_row_is_counted_in_one_bin(method):
    """Whole weights may cut a row of the "rank" method; it is counted where it begins."""
    rng = np.random.default_rng(3)
    score, bins = rng.random(23), Bins(5, method)
    for w in (np.ones(23), rng.integers(1, 4, 23).astype(float)):
        where = places(score, w, bins.n_bins, bins.method)
        held = [sum(min(its) == b for its in where) for b in range(5)]
        assert flat_table(score, score > 0.5, w, bins).count.tolist() == [held]


# ------------------------------------------------------------------ edges of even bins


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
