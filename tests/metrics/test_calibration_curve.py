"""Curves equal slow penalised fits with loops, scikit-learn's isotonic regression, and bins."""

import math
import sys
from itertools import pairwise

import numpy as np
import pytest
from scipy.interpolate import CubicSpline
from scipy.optimize import brentq
from scipy.special import expit
from scipy.stats import beta, norm
from sklearn.isotonic import IsotonicRegression

from skcalib.metrics import calibration_curve, reliability_table
from skcalib.metrics._curves.bands import tube_factor, wilson_interval
from skcalib.metrics._curves.cells import place_rows
from skcalib.metrics._curves.methods import bounds_at, bounds_by_runs
from skcalib.metrics._curves.smooth import TAUS, Smoother

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


def natural(knots, values):
    """A natural cubic spline that goes on as a straight line; by SciPy."""
    inner = CubicSpline(knots, values, bc_type="natural")

    def at(z):
        if z < knots[0]:
            return inner(knots[0]) + (z - knots[0]) * inner(knots[0], 1)
        if z > knots[-1]:
            return inner(knots[-1]) + (z - knots[-1]) * inner(knots[-1], 1)
        return float(inner(z))

    return inner, at


def slow_columns(x, w, at):
    """The columns at logits `at`, up to a rotation of the wiggles; one number after the other."""
    least = [max(expit(v) * (1 - expit(v)), 1e-3) for v in x]
    v = [wi * c for wi, c in zip(w, least, strict=True)]
    centre = sum(vi * xi for vi, xi in zip(v, x, strict=True)) / sum(v)
    deviation = math.sqrt(
        sum(vi * (xi - centre) ** 2 for vi, xi in zip(v, x, strict=True)) / sum(v)
    )
    total, low = 0.0, None
    for vi, xi in zip(v, x, strict=True):
        total += vi
        if low is None and total >= 0.1:
            low = xi
    total, high = 0.0, None
    for vi, xi in zip(v[::-1], x[::-1], strict=True):
        total += vi
        if high is None and total >= 0.1:
            high = xi
    place = lambda xi: (min(max(xi, low), high) - centre) / deviation  # noqa: E731
    z = [place(xi) for xi in x]
    root = [wi * math.sqrt(c) for wi, c in zip(w, least, strict=True)]
    share = (np.cumsum(root) - np.array(root) / 2) / sum(root)
    knots = np.interp(np.linspace(0, 1, 16), share, z)
    k = len(knots)
    splines = [natural(knots, row) for row in np.eye(k)]
    S = np.zeros((k, k))
    for a, b in pairwise(knots):  # second derivatives are straight there
        for i in range(k):
            for j in range(k):
                f = [splines[i][0](t, 2) * splines[j][0](t, 2) for t in (a, (a + b) / 2, b)]
                S[i, j] += (b - a) / 6 * (f[0] + 4 * f[1] + f[2])
    value, vector = np.linalg.eigh(S)
    root_of_inverse = vector[:, 2:] @ np.diag(value[2:] ** -0.5) @ vector[:, 2:].T

    def raw(zi):
        return np.array([spline(zi) for _, spline in splines]) @ root_of_inverse

    R = np.array([raw(zi) for zi in z])
    L = np.column_stack([np.ones(len(z)), z])
    V = np.diag(v) / sum(v)
    along = np.linalg.solve(L.T @ V @ L, L.T @ V @ R)
    scale = math.sqrt(np.trace((R - L @ along).T @ V @ (R - L @ along)))
    places = [place(xi) for xi in at]
    return np.array(
        [
            [1.0, zi * max(deviation, 1.0), *((raw(zi) - np.array([1.0, zi]) @ along) / scale)]
            for zi in places
        ]
    )


def slow_smooth(x, w, hits, at, taus=TAUS):
    """Mean and covariance of the logit at `at`: IRLS for each tau, weighed by evidence."""
    X, A = slow_columns(x, w, x), slow_columns(x, w, at)
    means, covariances, logs = [], [], []
    for tau in taus:
        ridge = np.array([1 / 25, 1 / 25] + [tau**-2] * (X.shape[1] - 2))
        theta = np.zeros(X.shape[1])
        for _ in range(60):
            H, g, value = np.diag(ridge), -ridge * theta, 0.5 * (ridge * theta**2).sum()
            for xi, row, wi, hi in zip(x, X, w, hits, strict=True):
                eta = xi + row @ theta
                q = 1 / (1 + math.exp(-eta))
                value += wi * math.log1p(math.exp(eta)) - hi * eta
                g = g + (hi - wi * q) * row
                H = H + wi * q * (1 - q) * np.outer(row, row)
            theta = theta + np.linalg.solve(H, g)
        V = np.linalg.inv(H)
        log = -value + 0.5 * np.log(ridge[2:]).sum() - 0.5 * np.linalg.slogdet(H)[1]
        # Sixteen columns of the slow root span fourteen wiggles: two are 0 and cancel.
        logs.append(log + math.log(tau) - tau**2 / 2)
        means.append(A @ theta)
        covariances.append(A @ V @ A.T)
    weight = np.exp(np.array(logs) - max(logs))
    weight /= weight.sum()
    mean = sum(a * m for a, m in zip(weight, means, strict=True))
    covariance = sum(
        a * (C + np.outer(m - mean, m - mean))
        for a, m, C in zip(weight, means, covariances, strict=True)
    )
    return at + mean, covariance


def test_the_smooth_curve_and_its_covariance_equal_a_slow_penalised_fit():
    y, p = sample(40, seed=3)
    y[:3] = 1
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


def test_the_smooth_curve_of_soft_hits_equals_a_slow_fit_to_shares():
    _, p = sample(40, seed=3)
    p = np.sort(p)
    rng = np.random.default_rng(5)
    f = np.clip(p + rng.normal(0, 0.2, 40), 0, 1)
    w = rng.integers(1, 4, 40)
    x = np.log(p / (1 - p))
    eta, _ = slow_smooth(x, w, w * f, x[[0, 11, 39]], TAUS)
    curve = calibration_curve(f, p, sample_weight=w)
    np.testing.assert_allclose(curve.prob_true[[0, 11, 39]], expit(eta), atol=1e-7)


def test_isotonic_curves_and_bins_of_soft_hits():
    """Those of scikit-learn, and of the reliability table; NaN-free bands around them."""
    _, p = sample(200, seed=4, digits=2)
    f = np.clip(p**1.2 + np.random.default_rng(5).normal(0, 0.2, 200), 0, 1)
    rising = calibration_curve(f, p, method="isotonic")
    expected = IsotonicRegression().fit(p, f).predict(rising.prob_pred)
    np.testing.assert_allclose(rising.prob_true, expected, atol=1e-9)
    bins = calibration_curve(f, p, method="bins", n_bins=5)
    table = reliability_table(f, p, n_bins=5, strategy="quantile")
    np.testing.assert_allclose(bins.prob_true, table["accuracy"], atol=1e-12)
    for curve in (rising, bins):
        for low, high in (("low", "high"), ("low_simultaneous", "high_simultaneous")):
            assert (getattr(curve, low) <= curve.prob_true + 1e-12).all()
            assert (getattr(curve, high) >= curve.prob_true - 1e-12).all()


@pytest.mark.slow
@pytest.mark.parametrize("method", METHODS)
def test_bands_of_soft_hits_hold_at_least_as_often_as_they_say(method):
    """Beta-distributed shares, whose mean is a power of the score; 60 samples of 400 rows."""
    held = []
    for seed in range(60):
        rng = np.random.default_rng(seed)
        p = rng.uniform(0.05, 0.95, 400)
        q = p**1.4
        curve = calibration_curve(rng.beta(4 * q, 4 * (1 - q)), p, method=method)
        at = curve.prob_pred
        held.append(((curve.low <= at**1.4) & (at**1.4 <= curve.high)).mean())
    assert np.mean(held) > 0.95


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


def test_bounds_at_a_score_are_of_runs_wholly_on_one_side():
    runs = np.array([0.1, 0.2, 0.3]), np.array([0.5, 0.6, 0.7])
    low, high = bounds_at(np.arange(6), np.array([0, 0, 1, 1, 1, 2]), runs)
    assert low.tolist() == [0.0, 0.1, 0.1, 0.1, 0.2, 0.3]
    assert high.tolist() == [0.5, 0.6, 0.6, 0.7, 0.7, 0.7]


@pytest.mark.parametrize("strategy", ["quantile", "uniform"])
def test_bins_are_those_of_the_table_with_wilsons_intervals(strategy):
    y, p = sample(400)
    w = np.random.default_rng(0).integers(0, 3, 400)
    curve = calibration_curve(y, p, method="bins", n_bins=7, strategy=strategy, sample_weight=w)
    table = reliability_table(y, p, pos_label=1, n_bins=7, strategy=strategy, sample_weight=w)
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
        ([1], [0.4]),
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


def test_no_events_in_many_rows_leave_a_low_upper_end():
    """Rule of three: of 500 rows without the event, the rate is below 1 % or so."""
    p = np.random.default_rng(0).uniform(0.01, 0.03, 500)
    curve = calibration_curve(np.zeros(500, int), p)
    middle = curve.high[curve.high.size // 2]
    assert 0.003 < middle < 0.03


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
    page = curve._repr_html_()
    assert page.count("<tr") == 8
    assert len(page) < 4000


@pytest.mark.parametrize(
    ("keywords", "message"),
    [
        ({"method": "loess"}, "method must be one of"),
        ({"confidence_level": 1.0}, "confidence_level must be"),
        ({"confidence_level": 1e-300}, "confidence_level must be"),
        ({"n_bins": 0}, "n_bins must be"),
        ({"strategy": "even"}, "strategy must be"),
    ],
)
def test_odd_keywords_are_refused(keywords, message):
    with pytest.raises(ValueError, match=message):
        calibration_curve(*sample(20), **keywords)


@pytest.mark.slow
@pytest.mark.parametrize("method", METHODS)
def test_a_million_rows_take_seconds(method):
    rng = np.random.default_rng(0)
    p = rng.beta(1, 20, 1_000_000)
    curve = calibration_curve(rng.random(p.size) < p, p, method=method)
    inner = curve.prob_pred < 0.3
    assert np.abs(curve.prob_true - curve.prob_pred)[inner].max() < 0.05
