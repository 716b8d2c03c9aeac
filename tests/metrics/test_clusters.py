"""Rows in clusters: every interval by a plain formula, in loops over clusters."""

import numpy as np
import pytest
from scipy import stats

from skcalib.metrics import (
    calibration_intercept_slope,
    observed_expected_ratio,
    score_decomposition,
)
from skcalib.metrics._statistics.row_means import mean_interval

Z = stats.norm.ppf(0.975)
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


def in_score_interval(r, D, N):
    return sum(D - r * N) ** 2 <= Z**2 * sum((D - r * N) ** 2)


def score_ends(D, N):
    """By trying: the ends of all ratios that the score test does not reject."""
    ratio = sum(D) / sum(N)
    ends = []
    for direction in (-1, 1):
        inside, outside = ratio, ratio + direction * 10 * max(ratio, 1)
        for _ in range(200):
            middle = (inside + outside) / 2
            inside, outside = (
                (middle, outside) if in_score_interval(middle, D, N) else (inside, middle)
            )
        ends.append(inside)
    return ends


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
def test_a_mean_has_the_hull_of_halls_and_of_the_score_interval(clusters, score):
    y, p, cluster = sample(clusters=clusters)
    losses = (p - y) ** 2 if score == "brier" else -np.log(np.where(y, p, 1 - p))
    D, N = (
        np.array([values[rows].sum() for rows in members(cluster)])
        for values in (losses, np.ones(y.size))
    )
    both = np.array([hall_ends(D, N), score_ends(D, N)])
    found = score_decomposition(y, p, score=score, clusters=cluster)
    expected = both[:, 0].min(), both[:, 1].max()
    assert (found.score_low, found.score_high) == pytest.approx(expected, rel=1e-9)
    assert found == score_decomposition(y, p, score=score)  # the parts stay as they are


@pytest.mark.parametrize("clusters", [5, 15, 60])
def test_a_ratio_has_the_hull_of_that_of_rows_and_of_the_score_interval(clusters):
    y, p, cluster = sample(clusters=clusters)
    D, N = (np.array([values[rows].sum() for rows in members(cluster)]) for values in (y, p))
    plain, found = observed_expected_ratio(y, p), observed_expected_ratio(y, p, clusters=cluster)
    score = score_ends(D, N)
    most = y.size / p.sum()
    expected = max(min(plain.low, score[0]), 0), min(max(plain.high, score[1]), most)
    assert (found.low, found.high) == pytest.approx(expected, rel=1e-9)
    assert (found.ratio, found.observed, found.expected) == (plain[0], *plain[3:])


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
def test_new_names_and_another_order_of_the_clusters_change_nothing(name):
    y, p, cluster = sample()
    measure = FUNCTIONS[name]
    found = measure(y, p, clusters=cluster)
    assert measure(y, p, clusters=[f"ward {100 - c}" for c in cluster]) == found
    assert measure(y, p, clusters=cluster, sample_weight=np.ones(y.size, dtype=int)) == found


@pytest.mark.parametrize("name", FUNCTIONS)
def test_a_weight_of_2_is_two_copies_in_the_cluster(name):
    y, p, cluster = sample()
    w = np.random.default_rng(0).integers(0, 3, y.size)
    rows = np.repeat(np.arange(y.size), w)
    copies = FUNCTIONS[name](y[rows], p[rows], clusters=cluster[rows])
    counted = FUNCTIONS[name](y, p, clusters=cluster, sample_weight=w)
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
    if clusters == 3 and name != "slope":  # the score interval has no end
        assert few[ends[0]] == 0


def test_one_cluster_with_most_of_the_rows_leaves_wide_intervals():
    y, p, cluster = sample()
    big = np.where(np.arange(y.size) < 200, 99, cluster)
    with pytest.warns(UserWarning, match="clusters: 99 has 67 % of the rows"):
        found = calibration_intercept_slope(y, p, clusters=big)
    plain = calibration_intercept_slope(y, p)
    assert found.slope_high - found.slope_low > 3 * (plain.slope_high - plain.slope_low)


def test_a_slope_that_one_cluster_alone_determines_is_refused():
    p = np.r_[np.full(20, 0.3), np.linspace(0.1, 0.9, 10)]
    y = np.r_[np.arange(20) % 3 == 0, np.arange(10) % 2 == 0]
    with pytest.raises(ValueError, match=r"^clusters: without one of them no finite slope exists"):
        calibration_intercept_slope(y, p, clusters=np.r_[np.arange(20) % 2, np.full(10, 2)])


def test_a_share_of_rows_has_wilsons_interval_of_fewer_rows():
    rng = np.random.default_rng(0)
    cluster = rng.integers(0, 12, 200)
    hit = (rng.random(200) < np.linspace(0.1, 0.9, 12)[cluster]).astype(float)
    low, high = mean_interval(hit, np.ones(200), 0.95, low=0.0, high=1.0, cluster=cluster)
    residual, rows = hit - hit.mean(), members(cluster)
    inflation = 12 / 11 * sum(residual[i].sum() ** 2 for i in rows) / (residual**2).sum()
    t = stats.t.ppf(0.975, equal_clusters([i.size for i in rows]) - 1)
    n, m = 200 / (inflation * (t / Z) ** 2), hit.mean()
    for end in (low, high):  # Wilson: the ends are where the score test is at its level
        assert abs(end - m) == pytest.approx(Z * np.sqrt(end * (1 - end) / n), rel=1e-9)
    never = mean_interval(0 * hit, np.ones(200), 0.95, low=0.0, high=1.0, cluster=cluster)
    n = 200 / (t / Z) ** 2
    assert never == pytest.approx((0, Z**2 / (n + Z**2)), rel=1e-9)


def test_the_pseudo_row_of_a_mean_is_a_cluster_more():
    rng = np.random.default_rng(0)
    values, cluster = rng.random(50), np.arange(50) % 8
    keywords = {"low": 0.0, "high": np.inf}
    found = mean_interval(values, np.ones(50), 0.9, pseudo=3.0, cluster=cluster, **keywords)
    more = np.append(values, 3.0), np.ones(51), 0.9
    assert found == mean_interval(*more, cluster=np.append(cluster, 8), **keywords)
