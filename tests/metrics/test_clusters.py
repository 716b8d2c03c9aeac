"""Rows in clusters: every interval by a plain formula, in loops over clusters."""

import warnings
from fractions import Fraction

import numpy as np
import pytest
from reference import balanced, student_ends
from scipy import stats

from skcalib.metrics import (
    bootstrap_interval,
    calibration_curve,
    calibration_intercept_slope,
    calibration_summary,
    expected_calibration_error,
    integrated_calibration_index,
    observed_expected_ratio,
    score_decomposition,
)
from skcalib.metrics._common import balance
from skcalib.metrics._curves.curves import place_rows, tube_factor, wilson_interval
from skcalib.metrics._curves.smooth import Smoother
from skcalib.metrics._statistics.event import lowest_area
from skcalib.metrics._statistics.scores import RowLosses, mean_interval

Z = stats.norm.ppf(0.975)
# Log loss and O:E of 20,000,000 rows whose log-odds are shifted by a normal number each.
TRUE_LOSS, TRUE_RATIO = 0.616, 1.036
# Results whose last numbers are intervals, by name.
FUNCTIONS = {
    "slope": calibration_intercept_slope,
    "ratio": observed_expected_ratio,
    "score": lambda *args, **keywords: _with_ends(score_decomposition(*args, **keywords)),
}


def _with_ends(parts):
    return (*parts, parts.score_low, parts.score_high)


def sample(n=300, clusters=15, seed=0, spread=0.8):
    """Rows of clusters of different sizes, whose events go wrong together."""
    rng = np.random.default_rng(seed)
    size = np.exp(0.5 * rng.normal(size=clusters))
    cluster = rng.choice(clusters, n, p=size / size.sum())
    odds = rng.normal(size=n) - 0.5
    shift = spread * rng.normal(size=clusters)
    y = rng.random(n) < 1 / (1 + np.exp(-odds - shift[cluster]))
    return y, 1 / (1 + np.exp(-odds)), cluster


def members(cluster):
    return [np.flatnonzero(cluster == c) for c in np.unique(cluster)]


def equal_clusters(shares):
    return sum(shares) ** 2 / sum(s * s for s in shares)


def root_ends(D, N, level=0.95):
    """Student's interval of the square root of a mean, by the delta method."""
    mean = sum(D) / sum(N)
    half = (student_ends(D, N, level)[1] - mean) / (2 * np.sqrt(mean))
    return max(np.sqrt(mean) - half, 0) ** 2, (np.sqrt(mean) + half) ** 2


def score_ends(D, N, level=0.95):
    """Numbers r whose distance from the ratio is at most the half length at r: roots of both."""
    ratio = sum(D) / sum(N)
    half = student_ends(D, N, level)[1] - ratio
    return np.sort(np.roots([1, -2 * ratio - half**2 / ratio, ratio**2]))


def fewer_rows(w, residual, cluster, level=0.95):
    """By how much the number of rows is divided, by the residuals of one cell."""
    parts = members(cluster)
    part, freedom = balanced([w[rows].sum() for rows in parts])
    above = sum((w[rows] @ residual[rows]) ** 2 / p for rows, p in zip(parts, part, strict=True))
    t, z = stats.t.ppf((1 + level) / 2, freedom), stats.norm.ppf((1 + level) / 2)
    return max(above / (w @ residual**2), 1) * (t / z) ** 2


def hall_ends(D, N):
    C, mean = len(D), sum(D) / sum(N)
    u = [(d - mean * m) / sum(N) for d, m in zip(D, N, strict=True)]
    square = sum(x * x for x in u)
    a = sum(x**3 for x in u) / square**1.5
    ends = []
    for level in (0.975, 0.025):
        t = stats.t.ppf(level, C - 1)
        h = 3 / a * (np.cbrt(1 + a * (t - a / 6)) - 1)
        ends.append(mean - np.sqrt(square * C / (C - 1)) * h)
    return ends


@pytest.mark.parametrize("clusters", [5, 6, 15, 60])
@pytest.mark.parametrize("score", ["brier", "log"])
def test_a_mean_has_the_hull_of_halls_interval_and_of_that_of_its_root(clusters, score):
    y, p, cluster = sample(clusters=clusters)
    losses = (p - y) ** 2 if score == "brier" else -np.log(np.where(y, p, 1 - p))
    D, N = (
        np.array([values[rows].sum() for rows in members(cluster)])
        for values in (losses, np.ones(y.size))
    )
    both = np.array([hall_ends(D, N), root_ends(D, N)])
    found = score_decomposition(y, p, score=score, clusters=cluster)
    expected = both[:, 0].min(), both[:, 1].max()
    assert (found.score_low, found.score_high) == pytest.approx(expected, rel=1e-9)
    assert found == score_decomposition(y, p, score=score)  # the parts stay as they are


@pytest.mark.parametrize("clusters", [3, 15])
def test_clusters_of_the_same_mean_have_an_interval_that_is_the_mean(clusters):
    y, p = np.tile([0, 1], 30), np.tile([0.3, 0.7, 0.2, 0.6], 15)
    found = score_decomposition(y, p, clusters=np.repeat(np.arange(clusters), 60 // clusters))
    assert (found.score_low, found.score_high) == pytest.approx((0.095, 0.095), rel=1e-12)
    same = score_decomposition(y, np.where(y, 0.7, 0.3), clusters=np.arange(60) % clusters)
    assert np.isnan([same.score_low, same.score_high]).all()  # as of independent rows


@pytest.mark.parametrize("clusters", [5, 15, 60])
def test_a_ratio_has_the_hull_of_the_score_intervals_of_rows_and_of_clusters(clusters):
    y, p, cluster = sample(clusters=clusters)
    D, N = (np.array([values[rows].sum() for rows in members(cluster)]) for values in (y, p))
    plain, found = observed_expected_ratio(y, p), observed_expected_ratio(y, p, clusters=cluster)
    score = score_ends(D, N)
    most = y.size / p.sum()
    expected = max(min(plain.low, score[0]), 0), min(max(plain.high, score[1]), most)
    assert (found.low, found.high) == pytest.approx(expected, rel=1e-9)
    assert (found.ratio, found.observed, found.expected) == (plain[0], *plain[3:])


@pytest.mark.parametrize("events", [1, 3, 20])
def test_few_events_in_the_largest_of_few_clusters_have_the_same_intervals(events):
    cluster = np.repeat(np.arange(5), [200, 60, 30, 20, 10])
    y, p = np.arange(cluster.size) < events, np.linspace(0.01, 0.05, cluster.size)
    D, N, observed, expected = (
        np.bincount(cluster, x) for x in ((p - y) ** 2, np.ones(y.size), y, p)
    )
    with warnings.catch_warnings(action="ignore"):  # a cluster has more than half of the rows
        score = score_decomposition(y, p, clusters=cluster)
        ratio = observed_expected_ratio(y, p, clusters=cluster)
    ends = np.array([hall_ends(D, N), root_ends(D, N)])
    hull = max(ends[:, 0].min(), 0), min(ends[:, 1].max(), 1)
    assert (score.score_low, score.score_high) == pytest.approx(hull, rel=1e-9)
    plain = observed_expected_ratio(y, p)
    low, high = score_ends(observed, expected)
    hull = min(plain.low, low), min(max(plain.high, high), y.size / p.sum())
    assert (ratio.low, ratio.high) == pytest.approx(hull, rel=1e-9)


def test_without_events_the_ratio_of_clusters_has_the_interval_of_rows():
    y, p, cluster = np.zeros(60), np.full(60, 0.02), np.arange(60) % 5
    assert observed_expected_ratio(y, p, clusters=cluster) == observed_expected_ratio(y, p)


def newton_steps(X, w, y, eta, cluster):
    """Return the step away from each cluster ``(C, d)``, and its share of the information."""
    q, d = 1 / (1 + np.exp(-eta)), X.shape[1]
    information = [
        sum((w[i] * q[i] * (1 - q[i]) * np.outer(X[i], X[i]) for i in rows), np.zeros((d, d)))
        for rows in members(cluster)
    ]
    total = sum(information)
    inverse = np.linalg.inv(total)
    steps, shares = [], []
    for rows, part in zip(members(cluster), information, strict=True):
        score = sum(w[i] * (y[i] - q[i]) * X[i] for i in rows)
        steps.append(np.linalg.inv(total - part) @ -score)
        shares.append(np.diag(inverse @ part @ inverse))
    return np.array(steps), np.array(shares)


@pytest.mark.parametrize("weights", ["none", "counts"])
def test_intercept_and_slope_have_the_variance_of_fits_without_each_cluster(weights):
    y, p, cluster = sample()
    w = np.ones(y.size) if weights == "none" else np.random.default_rng(1).integers(0, 3, y.size)
    odds, C = np.log(p / (1 - p)), np.unique(cluster).size
    plain = calibration_intercept_slope(y, p, sample_weight=w.astype(int))
    found = calibration_intercept_slope(y, p, sample_weight=w.astype(int), clusters=cluster)
    X = np.column_stack([np.ones_like(odds), odds])
    steps, shares = newton_steps(X, w, y, plain.intercept + plain.slope * odds, cluster)
    V = (C - 1) / C * steps.T @ steps
    alone, of_alone = newton_steps(X[:, :1], w, y, plain.in_the_large + odds, cluster)
    expected = {
        "intercept": (V[0, 0], shares[:, 0]),
        "slope": (V[1, 1], shares[:, 1]),
        "in_the_large": ((C - 1) / C * float((alone**2).sum()), of_alone[:, 0]),
    }
    for name, (variance, share) in expected.items():
        t = stats.t.ppf(0.975, equal_clusters(share) - 1)
        value, low, high, error = (
            getattr(found, f"{name}{end}") for end in ("", "_low", "_high", "_standard_error")
        )
        assert value == getattr(plain, name)
        assert error == pytest.approx(np.sqrt(variance), rel=1e-7)
        assert (high - value, value - low) == pytest.approx((t * error,) * 2, rel=1e-7)
    away = np.array([plain.intercept, plain.slope - 1])
    freedom = min(equal_clusters(share) for share in shares.T) - 2
    F = away @ np.linalg.inv(V) @ away * freedom / (2 * (freedom + 1))
    assert found.statistic == pytest.approx(F, rel=1e-6)
    assert found.pvalue == pytest.approx(stats.f.sf(F, 2, freedom), rel=1e-6)


@pytest.mark.parametrize("name", FUNCTIONS)
def test_rows_of_their_own_have_the_numbers_of_independent_rows(name):
    y, p, _ = sample()
    measure = FUNCTIONS[name]
    w = np.random.default_rng(0).uniform(0.5, 2, y.size)
    for weight in (None, w):
        plain = measure(y, p, sample_weight=weight)
        assert measure(y, p, sample_weight=weight, clusters=np.arange(y.size)) == plain


@pytest.mark.parametrize("name", FUNCTIONS)
def test_names_of_clusters_mean_nothing_and_a_weight_of_2_is_two_copies(name):
    y, p, cluster = sample()
    w = np.random.default_rng(0).integers(0, 3, y.size)
    rows = np.repeat(np.arange(y.size), w)
    counted = FUNCTIONS[name](y, p, clusters=[f"ward {100 - c}" for c in cluster], sample_weight=w)
    copies = FUNCTIONS[name](y[rows], p[rows], clusters=cluster[rows])
    assert counted == pytest.approx(copies, rel=1e-9)


@pytest.mark.parametrize("name", FUNCTIONS)
def test_two_copies_of_each_row_as_clusters_say_no_more_than_the_rows(name):
    """Twice the rows as independent ones: intervals are narrower by the root of 2."""
    y, p, _ = sample(n=2000, spread=0)
    measure = FUNCTIONS[name]
    rows = np.r_[:2000, :2000]
    plain, twice = measure(y, p), measure(y[rows], p[rows], clusters=rows)
    ends = {"slope": (1, 2), "ratio": (1, 2), "score": (5, 6)}[name]
    width, same, alone = (
        r[ends[1]] - r[ends[0]] for r in (plain, twice, measure(y[rows], p[rows]))
    )
    assert same == pytest.approx(width, rel=0.03)
    assert alone == pytest.approx(width / np.sqrt(2), rel=0.03)


@pytest.mark.parametrize("name", FUNCTIONS)
@pytest.mark.parametrize("clusters", [3, 5, 6])
def test_few_clusters_have_wide_intervals(name, clusters):
    y, p, _ = sample()
    ends = {"slope": (1, 2), "ratio": (1, 2), "score": (5, 6)}[name]
    few = FUNCTIONS[name](y, p, clusters=np.arange(y.size) % clusters)
    assert few[ends[0]] <= few[0] <= few[ends[1]]
    assert np.isfinite([few[end] for end in ends]).all()


@pytest.mark.parametrize("C", [5, 8, 12, 15])
def test_few_clusters_of_different_sizes_have_finite_intervals_that_contain_the_mean(C):
    """Of 60 samples, 3 and 3 standard errors more miss a mean of 95 % intervals at most 8 times."""
    rng, missed = np.random.default_rng(C), np.zeros(2)
    for _ in range(60):
        size = np.exp(rng.normal(size=C))
        cluster = rng.choice(C, 400, p=size / size.sum())
        shift, slope = rng.normal(size=C)[cluster], 1 + 0.3 * rng.normal(size=C)[cluster]
        odds = rng.normal(size=400) - 0.5
        y = rng.random(400) < 1 / (1 + np.exp(-shift - slope * odds))
        p = 1 / (1 + np.exp(-odds))
        with warnings.catch_warnings(action="ignore"):
            loss = score_decomposition(y, p, score="log", clusters=cluster)
            ratio = observed_expected_ratio(y, p, clusters=cluster)
        assert loss.score_high < 10  # of rows alone it is about 0.8
        missed += [
            not loss.score_low <= TRUE_LOSS <= loss.score_high,
            not ratio.low <= TRUE_RATIO <= ratio.high,
        ]
    assert (missed <= 8).all()


def test_one_cluster_with_most_of_the_rows_leaves_wide_intervals():
    y, p, cluster = sample()
    big = np.where(np.arange(y.size) < 200, 99, cluster)
    with pytest.warns(UserWarning, match="clusters: 99 has 67 % of the rows"):
        found = calibration_intercept_slope(y, p, clusters=big)
    plain = calibration_intercept_slope(y, p)
    assert found.slope_high - found.slope_low > 3 * (plain.slope_high - plain.slope_low)


@pytest.mark.parametrize("rest", [1e-3, 1e-5, 1e-8, 1e-11])
def test_one_cluster_with_almost_all_rows_has_exact_parts(rest):
    """Where a share is almost 1, rounding must not take the place of what the others add."""
    s = [1 - 3 * Fraction(rest), Fraction(rest), 2 * Fraction(rest)]
    squares = sum(x * x for x in s)
    S = [[(i == j) - s[i] - s[j] + squares for j in range(3)] for i in range(3)]
    d = [s[i] ** 2 / S[i][i] for i in range(3)]
    B = [d[i] * d[j] * S[i][j] ** 2 for i in range(3) for j in range(3)]
    part, freedom = balance(np.array(s, dtype=float))
    np.testing.assert_allclose(part, [float(S[i][i]) for i in range(3)], rtol=1e-3)
    assert max(freedom, 1) == pytest.approx(float(squares**2 / sum(B)), rel=0.01)


@pytest.mark.filterwarnings("error")
def test_clusters_without_expected_events_leave_the_ratio_finite():
    cluster, y = np.repeat(np.arange(4), 50), np.tile([0, 1], 100)
    p = np.where(cluster == 0, 0.5, 1e-13)
    ratio = observed_expected_ratio(np.where(cluster == 0, y, 0), p, clusters=cluster)
    assert ratio.low < ratio.ratio < ratio.high < np.inf


def test_a_slope_that_one_cluster_alone_determines_is_refused():
    p = np.r_[np.full(20, 0.3), np.linspace(0.1, 0.9, 10)]
    y = np.r_[np.arange(20) % 3 == 0, np.arange(10) % 2 == 0]
    with pytest.raises(ValueError, match=r"^clusters: .*interval of the slope leaves out"):
        calibration_intercept_slope(y, p, clusters=np.r_[np.arange(20) % 2, np.full(10, 2)])


def test_a_share_of_rows_has_wilsons_interval_of_fewer_rows():
    rng = np.random.default_rng(0)
    cluster = rng.integers(0, 12, 200)
    hit = (rng.random(200) < np.linspace(0.1, 0.9, 12)[cluster]).astype(float)
    low, high = mean_interval(RowLosses(hit, None, np.ones(200), cluster), 0.95, 0.0, 1.0)
    n, m = 200 / fewer_rows(np.ones(200), hit - hit.mean(), cluster), hit.mean()
    for end in (low, high):  # Wilson: the ends are where the score test is at its level
        assert abs(end - m) == pytest.approx(Z * np.sqrt(end * (1 - end) / n), rel=1e-9)
    never = mean_interval(RowLosses(0 * hit, None, np.ones(200), cluster), 0.95, 0.0, 1.0)
    freedom = balanced(np.bincount(cluster))[1]
    n = 200 / (stats.t.ppf(0.975, freedom) / Z) ** 2
    assert never == pytest.approx((0, Z**2 / (n + Z**2)), rel=1e-9)


@pytest.mark.filterwarnings("ignore:clusters. 0 has")
def test_a_cluster_of_most_rows_gives_a_wide_interval_by_bca_too():
    """It counts as 1.2 clusters: Student's t has hardly a degree of freedom."""
    y, p, cluster = sample(clusters=12)
    cluster = np.where(np.arange(300) < 270, 0, cluster)
    keywords = {"method": "bca", "n_resamples": 50, "random_state": 0, "clusters": cluster}
    found = bootstrap_interval(expected_calibration_error, y, p, **keywords)
    usual = bootstrap_interval(expected_calibration_error, y, p, **{**keywords, "clusters": None})
    assert found.low <= found.estimate <= found.high
    assert found.high - found.low > 3 * (usual.high - usual.low)


def test_the_pseudo_row_of_a_mean_is_a_cluster_more():
    rng = np.random.default_rng(0)
    values, cluster = rng.random(50), np.arange(50) % 8
    found = mean_interval(RowLosses(values, 3.0, np.ones(50), cluster), 0.9, 0.0, np.inf)
    more = RowLosses(np.append(values, 3.0), None, np.ones(51), np.append(cluster, 8))
    assert found == mean_interval(more, 0.9, 0.0, np.inf)


def widened(y, p, cluster):
    """Return the logits of the smooth curve, and half widths of both bands, in loops."""
    cells = place_rows(p, np.ones(y.size))
    smoother = Smoother(cells.x, cells.W)
    fitted = smoother.fit(cells.hits(y, np.ones(y.size))[None])
    X, S = smoother.X, fitted.covariance[0]
    eta = smoother.logits(fitted.theta)[0]
    q, C = 1 / (1 + np.exp(-eta)), np.unique(cluster).size
    meat = np.zeros_like(S)
    for rows in members(cluster):
        score = sum((y[i] - q[cells.of_row[i]]) * X[cells.of_row[i]] for i in rows)
        meat += C / (C - 1) * np.outer(score, score)
    for j in range(q.size):
        meat -= cells.W[j] * q[j] * (1 - q[j]) * np.outer(X[j], X[j])
    values, vectors = np.linalg.eigh(S + S @ meat @ S)
    V = sum(max(v, 1e-12) * np.outer(u, u) for v, u in zip(values, vectors.T, strict=True))
    sd = np.sqrt([max(x @ S @ x, x @ V @ x) for x in X])
    t = stats.t.ppf(0.975, balanced([rows.size for rows in members(cluster)])[1])
    return eta, t * sd, t / Z * tube_factor(X @ np.linalg.cholesky(V), 0.95) * sd


@pytest.mark.parametrize("clusters", [3, 15])
def test_bands_of_a_smooth_curve_are_those_of_rows_or_of_clusters_where_these_are_wider(clusters):
    y, p, cluster = sample(clusters=clusters)
    p = np.round(p, 2)  # up to a hundred points: each is a cell
    plain, found = calibration_curve(y, p), calibration_curve(y, p, clusters=cluster)
    eta, half, whole = widened(y, p, cluster)
    for name, away in (("low", -half), ("high", half)):
        of_clusters = 1 / (1 + np.exp(-eta - away))
        pick = np.minimum if name == "low" else np.maximum
        expected = pick(getattr(plain, name), of_clusters)
        np.testing.assert_allclose(getattr(found, name), expected, rtol=1e-6)
        whole = -abs(whole) if name == "low" else abs(whole)
        of_clusters = 1 / (1 + np.exp(-eta - whole))
        expected = pick(getattr(plain, f"{name}_simultaneous"), of_clusters)
        np.testing.assert_allclose(getattr(found, f"{name}_simultaneous"), expected, rtol=1e-6)
    np.testing.assert_array_equal(found.prob_true, plain.prob_true)
    assert found.n_clusters == np.unique(cluster).size
    assert repr(found).endswith(f"confidence_level=0.95, {found.n_clusters} clusters)")


@pytest.mark.parametrize("keywords", [{"n_bins": 6}, {"n_bins": 6, "strategy": "quantile"}])
@pytest.mark.parametrize("weighted", [False, True])
def test_rows_of_bins_count_as_fewer_by_their_residuals_over_bins_together(keywords, weighted):
    y, p, cluster = sample(clusters=6)
    w = np.random.default_rng(0).integers(1, 3, y.size) if weighted else np.ones(y.size, dtype=int)
    keywords = {**keywords, "sample_weight": w}
    plain = calibration_curve(y, p, **keywords)
    found = calibration_curve(y, p, clusters=cluster, **keywords)
    bounds = np.linspace(0, 1, 7)
    if keywords.get("strategy") == "quantile":
        bounds = np.quantile(np.repeat(p, w), bounds)
    cell = np.searchsorted(bounds[1:-1], p, side="left")
    residual, parts = y - plain.prob_true[cell], members(cluster)
    part, freedom = balanced([w[rows].sum() for rows in parts])
    above = sum(
        (w[rows] * residual[rows])[cell[rows] == b].sum() ** 2 / p
        for b in range(6)
        for rows, p in zip(parts, part, strict=True)
    )
    for level, ends in ((0.95, ("low", "high")), (1 - 0.05 / 6, ("low_simultaneous", None))):
        t, z = stats.t.ppf((1 + level) / 2, freedom), stats.norm.ppf((1 + level) / 2)
        rows = plain.weight / (max(above / (w @ residual**2), 1) * (t / z) ** 2)
        expected = wilson_interval(plain.prob_true, rows, level)
        for name, end in zip(ends, expected, strict=True):
            if name is not None:
                np.testing.assert_allclose(getattr(found, name), end, rtol=1e-9)
    np.testing.assert_array_equal(found.weight, plain.weight)
    assert calibration_curve(y, p, clusters=cluster, n_bins="cube_root").frame.equals(
        calibration_curve(y, p, clusters=cluster, n_bins=7).frame
    )


@pytest.mark.parametrize("keywords", [{}, {"method": "isotonic"}, {"n_bins": 5}])
def test_bands_of_curves_know_copies_names_and_single_rows(keywords):
    y, p, cluster = sample(n=1000, clusters=40, spread=0)
    plain = calibration_curve(y, p, **keywords).frame
    alone = calibration_curve(y, p, clusters=np.arange(y.size), **keywords).frame
    assert alone.equals(plain)
    found = calibration_curve(y, p, clusters=cluster, **keywords).frame
    renamed = calibration_curve(y, p, clusters=[f"ward {c}" for c in cluster], **keywords).frame
    assert renamed.equals(found)
    rows = np.r_[:1000, :1000]
    twice = calibration_curve(y[rows], p[rows], clusters=rows, **keywords).frame
    independent = calibration_curve(y[rows], p[rows], **keywords).frame
    widths = [(frame["high"] - frame["low"]).mean() for frame in (twice, plain, independent)]
    assert widths[0] == pytest.approx(widths[1], rel=0.05)
    assert widths[0] > 1.2 * widths[2]


def test_a_certain_model_has_the_shares_of_its_two_scores():
    y, _, cluster = sample(clusters=6)
    p = np.round(sample()[1])
    found, plain = calibration_curve(y, p, clusters=cluster), calibration_curve(y, p)
    assert (found.high - found.low > plain.high - plain.low).all()


def mean_of(y_true, y_proba, sample_weight):
    return np.average(y_true, weights=sample_weight)


def whole_clusters(y_true, y_proba, sample_weight):
    """Probabilities are names of clusters: rows of a cluster are drawn as often."""
    assert all(np.ptp(sample_weight[rows]) == 0 for rows in members(y_proba))
    return np.average(y_true, weights=sample_weight)


@pytest.mark.parametrize("method", ["percentile", "bca"])
def test_the_bootstrap_draws_clusters(method):
    y, _, cluster = sample(clusters=30)
    keywords = {"clusters": cluster, "random_state": 0, "method": method, "n_resamples": 200}
    found = bootstrap_interval(whole_clusters, y, cluster / 64, **keywords)
    assert found.estimate == pytest.approx(y.mean())
    assert repr(found).endswith(f", 95 %, {np.unique(cluster).size} clusters)")
    alone = {**keywords, "clusters": np.arange(y.size)}
    del keywords["clusters"]
    assert bootstrap_interval(mean_of, y, cluster / 64, **alone) == bootstrap_interval(
        mean_of, y, cluster / 64, **keywords
    )


def test_quantiles_of_the_bootstrap_are_those_of_student():
    """Clusters of equal size: the deviation of a mean is known, and 12 clusters are as normal."""
    rng = np.random.default_rng(0)
    cluster = np.repeat(np.arange(12), 50)
    y = rng.random(600) < np.linspace(0.3, 0.6, 12)[cluster]
    means = y.reshape(12, 50).mean(axis=1)
    found = bootstrap_interval(
        mean_of, y, np.full(600, 0.5), clusters=cluster, n_resamples=20000, random_state=0
    )
    sd = means.std() / np.sqrt(12)
    assert found.standard_error == pytest.approx(sd, rel=0.03)
    half = stats.t.ppf(0.975, 11) * np.sqrt(12 / 11) * sd
    assert (found.high - found.low) / 2 == pytest.approx(half, rel=0.04)
    few = bootstrap_interval(
        mean_of, y, np.full(600, 0.5), clusters=cluster % 3, n_resamples=500, random_state=0
    )
    # Resamples do not leave the range of the thirds; Student's interval does.
    half = stats.t.ppf(0.975, 2) * np.sqrt(3 / 2) * few.standard_error
    assert (few.low, few.high) == pytest.approx((y.mean() - half, y.mean() + half))


def test_the_summary_says_of_how_many_clusters_its_intervals_are():
    y, p, cluster = sample()
    summary = calibration_summary(y, p, random_state=0, clusters=cluster)
    number = np.unique(cluster).size
    assert summary.notes[-2:] == [
        f"intervals: 95 %, {number} clusters.",
        "hosmer_lemeshow: no p-value, because the test needs independent rows.",
    ]
    index = integrated_calibration_index(y, p, clusters=cluster)
    assert repr(index).endswith(f", 95 %, {number} clusters)")
    curve = calibration_curve(y, p, clusters=cluster)
    farthest = max((curve.high - curve.prob_pred).max(), (curve.prob_pred - curve.low).max())
    assert summary.frame.loc["emax", "high"] == pytest.approx(farthest, abs=2e-3)
    alone = calibration_summary(y, p, random_state=0, clusters=np.arange(y.size))
    plain = calibration_summary(y, p, random_state=0)
    assert alone.frame.equals(plain.frame)
    assert alone.notes == plain.notes


def test_five_clusters_have_no_intervals_of_errors():
    y, p, cluster = sample(clusters=5)
    summary = calibration_summary(y, p, clusters=cluster, random_state=0)
    errors = ["ece", "ici", "e50", "e90", "emax"]
    assert summary.frame.loc[errors, "value"].notna().all()
    assert summary.frame.loc[errors, ["low", "high", "pvalue"]].isna().all(axis=None)
    assert summary.frame.loc[["slope", "observed_expected", "auc"], "high"].notna().all()
    assert summary.notes[-2] == "intervals: 95 %, 5 clusters: intervals of errors need at least 6."
    index = integrated_calibration_index(y, p, clusters=cluster)
    assert np.isnan(index.interval.high).all()
    assert repr(index).count("to") == 0


def test_the_auc_counts_fewer_rows_by_how_many_of_the_other_class_are_on_the_right_side():
    y, p, cluster = sample()
    p = np.round(p, 1)  # ties count half
    n_events, n_others = int(y.sum()), int((~y).sum())
    area = calibration_summary(y, p, random_state=0).frame.loc["auc", "value"]
    away = np.empty(y.size)
    for i in range(y.size):
        others = p[~y] if y[i] else p[y]
        right = np.mean(others < p[i]) if y[i] else np.mean(others > p[i])
        right += np.mean(others == p[i]) / 2
        away[i] = (right - area) / (n_events if y[i] else n_others)
    effect = fewer_rows(np.ones(y.size), away, cluster)
    low = lowest_area(area, n_events / effect, n_others / effect, Z)
    found = calibration_summary(y, p, clusters=cluster, random_state=0).frame.loc["auc"]
    assert found["low"] == pytest.approx(low, rel=1e-9)
    assert found["value"] == area
