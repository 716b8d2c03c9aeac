"""Curves equal slow penalised fits with loops, scikit-learn's isotonic regression, and bins."""

import math
import sys
from itertools import pairwise

import numpy as np
import pytest
import sklearn.calibration
from calls import refused
from scipy.interpolate import CubicSpline
from scipy.optimize import brentq
from scipy.special import expit
from scipy.stats import beta, norm
from sklearn.isotonic import IsotonicRegression

from skcalib.metrics import calibration_curve, reliability_table
from skcalib.metrics._curves.curves import bounds_by_runs, place_rows, tube_factor, wilson_interval
from skcalib.metrics._curves.smooth import TAUS, Smoother, place_knots

METHODS = ("smooth", "isotonic", "bins")
BANDS = ("low", "high", "low_simultaneous", "high_simultaneous")
ARRAYS = ("prob_pred", "prob_true", *BANDS, "weight")


def sample(n=300, slope=0.7, rate=-2.0, seed=0, digits=None):
    rng = np.random.default_rng(seed)
    x = rng.normal(rate, 1.2, n)
    p = expit(x) if digits is None else expit(x).round(digits)
    return (rng.random(n) < expit(rate + slope * (x - rate))).astype(int), p


def same(a, b, tol=1e-7):
    for name in ARRAYS:
        np.testing.assert_allclose(getattr(a, name), getattr(b, name), rtol=tol, atol=tol)


# ------------------------------------------------------------------ the smooth curve


def slow_columns(x, w, at):
    """The columns at logits `at`, up to a rotation of the wiggles."""
    least = np.maximum(expit(x) * (1 - expit(x)), 1e-3)
    v = w * least
    ends = [each[np.cumsum(amount) >= 0.1][0] for each, amount in ((x, v), (x[::-1], v[::-1]))]
    v = v / v.sum()
    centre = v @ x
    deviation = math.sqrt(v @ (x - centre) ** 2)
    z, at = ((np.clip(part, *ends) - centre) / deviation for part in (x, at))
    root = w * np.sqrt(least)
    knots = np.interp(np.linspace(0, 1, 16), (np.cumsum(root) - root / 2) / root.sum(), z)
    spline = CubicSpline(knots, np.eye(16), bc_type="natural")
    S = np.zeros((16, 16))
    for a, b in pairwise(knots):  # second derivatives are straight there: Simpson's rule is exact
        for t, share in ((a, 1), ((a + b) / 2, 4), (b, 1)):
            S += (b - a) / 6 * share * np.outer(spline(t, 2), spline(t, 2))
    value, vector = np.linalg.eigh(S)
    root_of_inverse = vector[:, 2:] @ np.diag(value[2:] ** -0.5) @ vector[:, 2:].T

    def raw(zi):  # straight beyond the knots
        edge = min(max(zi, knots[0]), knots[-1])
        return (spline(edge) + (zi - edge) * spline(edge, 1)) @ root_of_inverse

    R, L, V = np.array([raw(zi) for zi in z]), np.column_stack([np.ones(len(z)), z]), np.diag(v)
    along = np.linalg.solve(L.T @ V @ L, L.T @ V @ R)
    scale = math.sqrt(np.trace((R - L @ along).T @ V @ (R - L @ along)))
    lines = [np.array([1.0, zi]) for zi in at]
    wide = np.array([1.0, max(deviation, 1.0)])
    return np.array([[*(line * wide), *((raw(line[1]) - line @ along) / scale)] for line in lines])


def slow_smooth(x, w, hits, at, taus=TAUS):
    """Mean and covariance of the logit at `at`: Newton's method for each tau, by evidence."""
    X, A = slow_columns(x, w, x), slow_columns(x, w, at)
    means, covariances, logs = [], [], []
    for tau in taus:
        ridge = np.array([1 / 25, 1 / 25] + [tau**-2] * (X.shape[1] - 2))
        theta = np.zeros(X.shape[1])
        for _ in range(60):
            eta = x + X @ theta
            q = expit(eta)
            H = X.T @ np.diag(w * q * (1 - q)) @ X + np.diag(ridge)
            value = (w * np.log1p(np.exp(eta)) - hits * eta).sum() + (ridge * theta**2).sum() / 2
            theta = theta + np.linalg.solve(H, X.T @ (hits - w * q) - ridge * theta)
        # Sixteen columns of the slow root span fourteen wiggles: two are 0 and cancel.
        log = -value + 0.5 * np.log(ridge[2:]).sum() - 0.5 * np.linalg.slogdet(H)[1]
        logs.append(log + math.log(tau) - tau**2 / 2)
        means.append(A @ theta)
        covariances.append(A @ np.linalg.inv(H) @ A.T)
    weight = np.exp(np.array(logs) - max(logs))
    weight /= weight.sum()
    mean = weight @ means
    spread = [C + np.outer(m - mean, m - mean) for C, m in zip(covariances, means, strict=True)]
    return at + mean, np.einsum("t,tij->ij", weight, spread)


@pytest.mark.parametrize("soft", [False, True])
def test_the_smooth_curve_and_its_covariance_equal_a_slow_penalised_fit(soft):
    y, p = sample(40, seed=3)
    y[:3] = 1
    if soft:
        y = np.clip(p + np.random.default_rng(5).normal(0, 0.2, 40), 0, 1)
    order = np.argsort(p)
    y, p = y[order], p[order]
    w = np.random.default_rng(0).integers(1, 4, p.size)
    x = np.log(p / (1 - p))
    at = x[[0, 1, 11, 20, 33, 39]]
    eta, covariance = slow_smooth(x, w, w * y, at, TAUS)
    smoother = Smoother(x, w)
    found = smoother.fit((w * y)[None])
    X = smoother.basis.columns(at)
    np.testing.assert_allclose(at + X @ found.theta[0], eta, atol=1e-6)
    np.testing.assert_allclose(X @ found.covariance[0] @ X.T, covariance, rtol=1e-5, atol=1e-8)
    curve = calibration_curve(y, p, sample_weight=w)
    np.testing.assert_allclose(curve.prob_true[[0, 1, 11, 20, 33, 39]], expit(eta), atol=1e-7)


def test_knots_reach_both_ends_also_of_places_that_are_close():
    z = np.array([0.0, 1.0, 2.0, 2.0005])
    knots = place_knots(z, np.ones(4), 16)
    assert (knots[0], knots[-1]) == (0.0, 2.0005)
    assert np.diff(knots).min() > 1e-3


def test_ends_of_bands_are_where_the_likelihood_says():
    """Along the direction of a logit the fall of the log posterior is half the squared factor."""
    y, p = sample(60, rate=-3, seed=1)
    cells = place_rows(p, np.ones(60))
    smoother = Smoother(cells.x, cells.W)
    fitted = smoother.fit(cells.hits(y == 1, np.ones(60))[None])
    theta, V = fitted.theta[0], fitted.covariance[0]
    fall, rise = smoother.spread(theta, V, cells.x, 1.96)
    for i in (0, 10, 30, 59):
        column = smoother.basis.columns(cells.x[i : i + 1])[0]
        direction = V @ column / math.sqrt(column @ V @ column)

        def loss(t, direction=direction):
            value = 0.0
            for x, row in zip(cells.x, smoother.X, strict=True):
                eta, move = x + row @ theta, t * row @ direction
                q = expit(eta)
                value += math.log1p(math.exp(eta + move)) - math.log1p(math.exp(eta)) - q * move
                value -= q * (1 - q) * move**2 / 2
            return t**2 + 2 * value - 1.96**2

        for found, start in ((rise, 0.1), (fall, -0.1)):
            t = brentq(loss, start, 40 * np.sign(start))
            assert found[i] == pytest.approx(abs(t) * math.sqrt(column @ V @ column), rel=1e-4)
    assert (rise < fall).mean() > 0.8  # few events


def test_the_factor_of_the_simultaneous_band_is_that_of_a_simulation():
    """Share of Gaussian curves that stay within the band: at least 95 %, and not much more."""
    z = np.linspace(0, 6, 80)
    C = np.exp(-0.5 * (z[:, None] - z) ** 2) + 1e-9 * np.eye(80)
    path = np.linalg.cholesky(C)
    factor = tube_factor(path, 0.95)
    curves = path @ np.random.default_rng(0).normal(size=(80, 20000))
    inside = (np.abs(curves).max(axis=0) <= factor).mean()
    assert 0.945 < inside < 0.965
    # A curve of one dimension has the factor of a point.
    assert tube_factor(np.ones((5, 1)), 0.95) == pytest.approx(norm.ppf(0.975), abs=1e-6)


# ------------------------------------------------------------------ rising curve, bins, lowess


@pytest.mark.parametrize("digits", [None, 1])
@pytest.mark.parametrize("weighted", [False, True])
def test_isotonic_equals_scikit_learn(digits, weighted):
    y, p = sample(500, digits=digits)
    w = np.random.default_rng(1).integers(0, 4, 500) if weighted else np.ones(500)
    curve = calibration_curve(y, p, method="isotonic", sample_weight=w)
    kept = w > 0
    expected = IsotonicRegression(out_of_bounds="clip").fit(p[kept], y[kept], w[kept])
    at = np.unique(np.concatenate([p[kept], np.linspace(p[kept].min(), p[kept].max(), 301)]))
    found = np.interp(at, curve.prob_pred, curve.prob_true)
    np.testing.assert_allclose(found, expected.predict(at), rtol=0, atol=1e-10)


def test_isotonic_curves_and_bins_of_soft_hits():
    """Those of scikit-learn, and shares of bins in a loop; bands around them."""
    _, p = sample(200, seed=4, digits=2)
    f = np.clip(p**1.2 + np.random.default_rng(5).normal(0, 0.2, 200), 0, 1)
    rising = calibration_curve(f, p, method="isotonic")
    expected = IsotonicRegression().fit(p, f).predict(rising.prob_pred)
    np.testing.assert_allclose(rising.prob_true, expected, atol=1e-9)
    bins = calibration_curve(f, p, n_bins=5)
    rows = [np.ceil(5 * p).clip(1) == b + 1 for b in range(5)]
    shares = [f[of_bin].mean() for of_bin in rows if of_bin.any()]
    np.testing.assert_allclose(bins.prob_true, shares, atol=1e-12)
    for curve in (rising, bins):
        for low, high in (BANDS[:2], BANDS[2:]):
            assert (getattr(curve, low) <= curve.prob_true + 1e-12).all()
            assert (getattr(curve, high) >= curve.prob_true - 1e-12).all()


@pytest.mark.slow
@pytest.mark.parametrize("method", METHODS)
def test_bands_of_soft_hits_cover_at_least_as_often_as_they_say(method):
    """Beta-distributed shares, whose mean is a power of the score; 60 samples of 400 rows."""
    covered = []
    for seed in range(60):
        rng = np.random.default_rng(seed)
        p = rng.uniform(0.05, 0.95, 400)
        q = p**1.4
        curve = calibration_curve(rng.beta(4 * q, 4 * (1 - q)), p, method=method)
        truth = curve.prob_pred**1.4
        covered.append(((curve.low <= truth) & (truth <= curve.high)).mean())
    assert np.mean(covered) > 0.95


def test_bounds_by_runs_equal_loops():
    rng = np.random.default_rng(0)
    W = rng.integers(1, 6, 13).astype(float)
    H = rng.binomial(W.astype(int), np.linspace(0.05, 0.9, 13)).astype(float)
    point, whole = bounds_by_runs(W, H, 0.9)
    lengths = (1, 2, 4, 8)
    for found, runs, everywhere in ((point, 4, False), (whole, 52, True)):
        tail = 0.1 / 2 / runs
        for i in range(13):
            lows, highs = [0.0], [1.0]
            for length in lengths:
                for start in range(13 - length + 1):
                    n, k = W[start : start + length].sum(), H[start : start + length].sum()
                    end = start + length - 1
                    if k > 0 and (end == i or (everywhere and end < i)):
                        lows.append(beta.ppf(tail, k, n - k + 1))
                    if k < n and (start == i or (everywhere and start > i)):
                        highs.append(beta.isf(tail, k + 1, n - k))
            ends = found[0][i], found[1][i]
            assert ends == pytest.approx((max(lows), min(highs)), abs=1e-12)


@pytest.mark.parametrize("strategy", [None, "uniform", "quantile"])
def test_it_unpacks_to_the_pair_of_scikit_learn(strategy):
    rng = np.random.default_rng(0)
    keywords = {} if strategy is None else {"strategy": strategy}
    for i in range(250):
        p = rng.beta(0.7, 0.7, rng.integers(2, 300))
        p = (p, p.round(1), p.round(2), np.where(p < 0.5, 0.0, p))[i % 4]
        y = (rng.random(p.size) < p).astype(int)
        y[:2] = [0, 1]
        n_bins = int(rng.integers(1, 25))
        expected = sklearn.calibration.calibration_curve(y, p, n_bins=n_bins, **keywords)
        prob_true, prob_pred = calibration_curve(y, p, n_bins=n_bins, **keywords)
        np.testing.assert_allclose(prob_true, expected[0], rtol=0, atol=1e-12)
        np.testing.assert_allclose(prob_pred, expected[1], rtol=0, atol=1e-12)


def test_the_probabilities_go_by_their_name_in_scikit_learn():
    y, p = sample()
    same(calibration_curve(y, y_prob=p), calibration_curve(y, p))
    with pytest.raises(ValueError, match="y_prob is another name of y_proba: pass one of them"):
        calibration_curve(y, p, y_prob=p)
    refused("got None instead: y_proba must be", calibration_curve, y)


def test_without_a_number_of_bins_there_are_fifteen_by_edges():
    y, p = sample(400, digits=2)
    for keywords in ({"method": "bins"}, {"strategy": "quantile"}):
        table = reliability_table(y, p, pos_label=1, n_bins=15, strategy="quantile")
        prob_true, _ = calibration_curve(y, p, **keywords)
        np.testing.assert_allclose(prob_true, table["accuracy"][table["weight"] > 0])


@pytest.mark.parametrize("strategy", ["quantile", "uniform"])
def test_bins_are_those_of_the_table_with_wilsons_intervals(strategy):
    y, p = sample(400)
    w = np.random.default_rng(0).integers(0, 3, 400)
    curve = calibration_curve(y, p, method="bins", n_bins=7, strategy=strategy, sample_weight=w)
    keywords = {"n_bins": 7, "strategy": strategy, "quantile_method": "linear"}
    table = reliability_table(y, p, pos_label=1, sample_weight=w, **keywords)
    table = table[table["weight"] > 0]
    np.testing.assert_allclose(curve.prob_pred, table["confidence"])
    np.testing.assert_allclose(curve.prob_true, table["accuracy"])
    np.testing.assert_allclose(curve.weight, table["weight"])
    assert calibration_curve(y, p, n_bins=7).method == "bins"
    for method in ("smooth", "isotonic", "lowess"):
        with pytest.raises(ValueError, match=rf"method='{method}' has no bins: .*method='bins'"):
            calibration_curve(y, p, method=method, strategy=strategy)
    for level, ends in ((0.95, BANDS[:2]), (1 - 0.05 / len(table), BANDS[2:])):
        expected = wilson_interval(curve.prob_true, curve.weight, level)
        np.testing.assert_allclose([getattr(curve, end) for end in ends], expected)


def test_lowess_needs_statsmodels_and_says_so(monkeypatch):
    monkeypatch.setitem(sys.modules, "statsmodels.nonparametric.smoothers_lowess", None)
    with pytest.raises(ImportError, match=r"`pip install statsmodels`, or use method='smooth'\.$"):
        calibration_curve(*sample(), method="lowess")


def test_lowess_is_that_of_statsmodels():
    lowess = pytest.importorskip("statsmodels.nonparametric.smoothers_lowess").lowess
    y, p = sample(300)
    curve = calibration_curve(y, p, method="lowess")
    expected = lowess(y, p, frac=2 / 3, it=0, delta=0.01 * np.ptp(p))
    at = np.interp(curve.prob_pred, expected[:, 0], np.clip(expected[:, 1], 0, 1))
    np.testing.assert_allclose(curve.prob_true, at, atol=1e-12)
    assert np.isnan(curve.low).all()
    with pytest.raises(ValueError, match="takes no sample_weight"):
        calibration_curve(y, p, method="lowess", sample_weight=np.arange(300))


# ------------------------------------------------------------------ every method


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("seed", range(2))
def test_bands_are_in_order_and_grow_with_the_level(method, seed):
    y, p = sample(60, rate=-1.0, seed=seed, digits=1 if seed % 2 else None)
    narrow, wide = (
        calibration_curve(y, p, method=method, confidence_level=level) for level in (0.5, 0.99)
    )
    for curve in (narrow, wide):
        assert (np.diff(curve.prob_pred) > 0).all()
        ends = (curve.low_simultaneous, curve.low, curve.prob_true)
        others = (curve.prob_true, curve.high, curve.high_simultaneous)
        rows = [np.zeros(curve.low.size), *ends, *others[1:], np.ones(curve.low.size)]
        assert (np.diff(rows, axis=0) >= -1e-12).all()
        assert curve.weight.sum() == pytest.approx(60)
    for end in BANDS:
        move = getattr(wide, end) - getattr(narrow, end)
        assert (move <= 1e-9).all() if end.startswith("low") else (move >= -1e-9).all()


@pytest.mark.parametrize("method", METHODS)
def test_weights_are_copies_and_the_order_of_rows_means_nothing(method):
    y, p = sample(150, digits=2)
    w = np.random.default_rng(0).integers(0, 4, 150)
    expected = calibration_curve(y, p, method=method, sample_weight=w)
    same(expected, calibration_curve(y.repeat(w), p.repeat(w), method=method))
    order = np.random.default_rng(1).permutation(150)
    same(expected, calibration_curve(y[order], p[order], method=method, sample_weight=w[order]))
    # Fractions stand for the number of rows that they are worth, whatever their scale.
    fractions = w + 0.25
    tenth = calibration_curve(y, p, method=method, sample_weight=fractions / 10)
    whole = calibration_curve(y, p, method=method, sample_weight=fractions)
    np.testing.assert_allclose(tenth.high, whole.high, atol=1e-9)


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize(
    ("y", "p"),
    [
        ([0, 1, 1], [0.2, 0.3, 0.9]),
        ([0, 1, 1], [0.3, 0.3, 0.3]),
        ([0, 0, 0], [0.2, 0.3, 0.9]),
        ([1, 1, 1], [0.0, 0.2, 1.0]),
        ([1, 1, 0], [1.0, 0.0, 1.0]),
        ([0, 1, 0, 1], [0.0, 0.0, 1e-30, 1 - 1e-16]),
        ([0] * 50 + [1] * 50, [1e-20] * 50 + [0.5] * 50),
    ],
)
def test_few_rows_ties_and_certainty_have_an_answer(method, y, p):
    curve = calibration_curve(y, p, method=method)
    for name in ARRAYS:
        assert np.isfinite(getattr(curve, name)).all()
    assert (curve.low <= curve.prob_true).all()
    assert (curve.prob_true <= curve.high).all()
    assert curve.low.min() < 0.5 or sum(y) > 3


def test_exact_0_and_1_count_as_half_the_smallest_distance():
    rng = np.random.default_rng(0)
    p = rng.integers(0, 21, 400) / 20
    y = (rng.random(400) < 0.1 + 0.8 * p).astype(int)
    curve = calibration_curve(y, p)
    moved = calibration_curve(y, np.clip(p, 0.025, 0.975))
    assert curve.prob_pred[[0, -1]].tolist() == [0.0, 1.0]
    np.testing.assert_allclose(curve.prob_true, moved.prob_true, atol=1e-9)


def test_networks_that_are_far_too_sure_are_seen_through():
    """Nine rows in ten have a probability of 1e-9 but a rate of 2 %."""
    rng = np.random.default_rng(0)
    p = np.where(rng.random(20000) < 0.9, 10.0 ** rng.uniform(-12, -6, 20000), rng.random(20000))
    y = rng.random(20000) < np.maximum(p, 0.02)
    curve = calibration_curve(y, p)
    assert 0.015 < np.interp(1e-9, curve.prob_pred, curve.prob_true) < 0.025


def test_joined_scores_change_little():
    y, p = sample(6000)
    cells = place_rows(p, np.ones(6000), 6000)
    exact = Smoother(cells.x, cells.W).fit(cells.hits(y == 1, np.ones(6000))[None])
    curve = calibration_curve(y, p)
    x = np.interp(curve.prob_pred, cells.p, cells.x)
    q = expit(x + Smoother(cells.x, cells.W).basis.columns(x) @ exact.theta[0])
    np.testing.assert_allclose(curve.prob_true, q, rtol=2e-3)
    assert place_rows(p, np.ones(6000)).W.size <= 2048


def test_the_result_prints_in_one_line_and_is_a_frame():
    curve = calibration_curve(*sample())
    assert "\n" not in repr(curve)
    assert repr(curve).startswith("CalibrationCurve(method='smooth', ")
    assert list(curve.frame.columns) == list(ARRAYS)
    assert len(curve.frame) == curve.prob_pred.size
