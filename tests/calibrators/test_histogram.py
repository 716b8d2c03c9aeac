"""Histogram binning against loops over rows and bins."""

import numpy as np
import pytest

from skcalib import HistogramBinning


def data(n=120, n_classes=4, seed=0):
    """Ties, exact 0 and 1, whole weights; class 0 is rare and never scores in the middle."""
    rng = np.random.default_rng(seed)
    P = np.round(rng.dirichlet(np.full(n_classes, 0.4), size=n) * 20) / 20
    P[:, -1] = np.maximum(1 - P[:, :-1].sum(axis=1), 0)
    P /= P.sum(axis=1, keepdims=True)
    P[0], P[0, 1] = 0, 1
    y = np.append(np.arange(n_classes), rng.integers(0, n_classes, n - n_classes))
    return P, y, rng.integers(1, 4, n)


# ------------------------------------------------------------------ the slow, obvious reference


def edges_of(column, w, n_bins, strategy):
    if strategy == "uniform":
        return list(np.linspace(0, 1, n_bins + 1))
    repeated = sorted(s for s, times in zip(column, w, strict=True) for _ in range(int(times)))
    n = len(repeated)
    inner = [repeated[min(round(r * n / n_bins), n - 1)] for r in range(1, n_bins)]
    return [0.0, *inner, 1.0]


def bin_of(s, edges, strategy):
    inner = edges[1:-1]
    if strategy == "uniform":
        return sum(e < s for e in inner)
    return sum(e <= s for e in inner)


def map_of(column, hit, w, n_bins, strategy):
    edges = edges_of(column, w, n_bins, strategy)
    values = []
    for b in range(n_bins):
        mass = hits = 0.0
        for s, t, weight in zip(column, hit, w, strict=True):
            if bin_of(s, edges, strategy) == b:
                mass += weight
                hits += weight * t
        values.append(hits / mass if mass > 0 else (edges[b] + edges[b + 1]) / 2)
    return edges, values


def columns_of(P, y, w, new, n_bins, strategy, class_conditional=True):
    """The value of each new score, before rows are divided by their sums."""
    n_classes = P.shape[1]
    raw = np.zeros(new.shape)
    pooled = None
    if not class_conditional:
        hit, weight = np.eye(n_classes)[y].ravel(), np.repeat(w, n_classes)
        pooled = map_of(P.ravel(), hit, weight, n_bins, strategy)
    for k in range(n_classes):
        edges, values = pooled or map_of(P[:, k], y == k, w, n_bins, strategy)
        raw[:, k] = [values[bin_of(s, edges, strategy)] for s in new[:, k]]
    if n_classes == 2 and class_conditional:
        raw[:, 0] = 1 - raw[:, 1]
    return raw


def reference(*arguments, **keywords):
    raw = columns_of(*arguments, **keywords)
    total = raw.sum(axis=1, keepdims=True)
    return np.where(total > 0, raw / np.where(total > 0, total, 1), 1 / raw.shape[1])


@pytest.mark.parametrize("class_conditional", [True, False])
@pytest.mark.parametrize("strategy", ["uniform", "quantile"])
@pytest.mark.parametrize(("n_classes", "weighted"), [(2, True), (3, False), (3, True)])
def test_it_is_the_share_of_positives_of_the_bin(n_classes, strategy, class_conditional, weighted):
    P, y, w = data(n_classes=n_classes)
    w = w if weighted else np.ones(len(w))
    new = np.vstack([P[::3], np.random.default_rng(1).dirichlet(np.ones(n_classes), size=30)])
    for n_bins in (1, 8):
        options = {"n_bins": n_bins, "strategy": strategy}
        binning = HistogramBinning(class_conditional=class_conditional, **options)
        Q = binning.fit(P, y, w).predict_proba(new)
        expected = reference(P, y, w, new, class_conditional=class_conditional, **options)
        np.testing.assert_allclose(Q, expected, rtol=0, atol=1e-12)


def test_attributes_have_a_row_for_each_map():
    P, y, w = data(n_classes=3)
    binning = HistogramBinning(n_bins=4).fit(P, y, w)
    for k in range(3):
        edges, values = map_of(P[:, k], y == k, w, 4, "uniform")
        np.testing.assert_allclose(binning.bin_edges_[k], edges, rtol=0, atol=1e-15)
        np.testing.assert_allclose(binning.bin_values_[k], values, rtol=0, atol=1e-12)
    pooled = HistogramBinning(n_bins=4, class_conditional=False).fit(P, y, w)
    binary = HistogramBinning(n_bins=4).fit(P[:, 1] / 2, y == 1)
    assert pooled.bin_edges_.shape == binary.bin_edges_.shape == (1, 5)


def test_a_score_on_an_edge_is_mapped_by_the_bin_it_was_fitted_in():
    """Uniform bins take their right edge; an edge of quantile bins belongs to the bin above."""
    p, y = np.array([0.25, 0.5, 0.75, 1.0]), np.array([0, 1, 0, 1])
    even = HistogramBinning(n_bins=4).fit(p, y)
    assert even.predict_proba(p)[:, 1].tolist() == [0, 1, 0, 1]
    assert even.predict_proba([0.0, 0.2500001])[:, 1].tolist() == [0, 1]
    mass = HistogramBinning(n_bins=4, strategy="quantile").fit(p, y)
    assert mass.bin_edges_.tolist() == [[0, 0.5, 0.75, 1.0, 1]]
    assert mass.predict_proba(p)[:, 1].tolist() == [0, 1, 0, 1]
    assert mass.predict_proba([0.49999, 0.7499999])[:, 1].tolist() == [0, 1]


def test_equal_logits_stay_in_the_bin_of_their_probability():
    """The logit 0 is exactly one half, the right edge of the second of four bins."""
    z = np.array([0.0, 0.0, 0.1, 3.0])
    binning = HistogramBinning(n_bins=4, input="logits").fit(z, [1, 1, 0, 0])
    assert binning.predict_proba([0.0, 0.1])[:, 1].tolist() == [1, 0]


# ------------------------------------------------------------------------------- bootstraps


@pytest.mark.parametrize("class_conditional", [True, False])
@pytest.mark.parametrize("strategy", ["uniform", "quantile"])
@pytest.mark.parametrize("n_classes", [2, 4])
def test_bootstraps_average_the_binnings_of_resampled_rows(n_classes, strategy, class_conditional):
    P, y, w = data(60, n_classes)
    new = np.vstack([P, np.random.default_rng(1).dirichlet(np.ones(n_classes), size=20)])
    options = {"n_bins": 4, "strategy": strategy, "class_conditional": class_conditional}
    bagged = HistogramBinning(n_bootstraps=5, random_state=3, **options).fit(P, y, w)
    draws = np.random.RandomState(3).multinomial(int(w.sum()), w / w.sum(), size=5)
    expected = sum(columns_of(P, y, counts, new, **options) for counts in draws)
    expected /= expected.sum(axis=1, keepdims=True)
    np.testing.assert_allclose(bagged.predict_proba(new), expected, rtol=0, atol=1e-12)


def test_rows_of_weight_zero_are_not_drawn_by_a_bootstrap():
    P, y, w = data(80)
    w[::3] = 0
    bagged = HistogramBinning(n_bins=5, strategy="quantile", n_bootstraps=8, random_state=0)
    weighted = bagged.set_params(classes=range(4)).fit(P, y, w).predict_proba(P)
    absent = bagged.fit(P[w > 0], y[w > 0], w[w > 0]).predict_proba(P)
    np.testing.assert_array_equal(weighted, absent)


@pytest.mark.parametrize("strategy", ["uniform", "quantile"])
def test_a_whole_number_of_any_type_counts_bins(strategy):
    rng = np.random.default_rng(0)
    P, y = rng.dirichlet(np.ones(3), size=60), rng.integers(3, size=60)
    short, plain = (
        HistogramBinning(n_bins=n, strategy=strategy).fit(P, y).predict_proba(P)
        for n in (np.int8(7), 7)
    )
    np.testing.assert_array_equal(short, plain)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("strategy", ["uniform", "quantile"])
def test_a_row_is_in_the_same_bin_whatever_rows_it_stands_among(dtype, strategy):
    """Also where it alone looks like a number of a shorter type on the edge of a bin."""
    rng = np.random.default_rng(0)
    p = rng.random(2000).astype(dtype)
    calibrator = HistogramBinning(n_bins=10, strategy=strategy).fit(p, rng.random(2000) < p)
    edges = np.arange(11) / 10
    asked = np.concatenate([edges.astype(kind).astype(dtype) for kind in (np.float16, np.float32)])
    together = calibrator.predict_proba(np.concatenate([asked, p[:9]]))[: asked.size]
    alone = np.vstack([calibrator.predict_proba(asked[i : i + 1]) for i in range(asked.size)])
    np.testing.assert_array_equal(alone, together)


@pytest.mark.parametrize("strategy", ["uniform", "quantile"])
def test_a_float64_score_next_to_an_edge_is_mapped_as_its_float32_rounding(strategy):
    rng = np.random.default_rng(0)
    p = rng.random(300).astype(np.float32)
    binning = HistogramBinning(n_bins=10, strategy=strategy).fit(p, rng.random(300) < p)
    edges = binning.bin_edges_[0, 1:-1]
    asked = np.concatenate([edges, edges - 2 * np.spacing(edges), edges + 2 * np.spacing(edges)])
    rounded = binning.predict_proba(asked.astype(np.float32))
    np.testing.assert_allclose(binning.predict_proba(asked), rounded, rtol=1e-6)
