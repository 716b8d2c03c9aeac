"""Net benefit by counts, and how often its intervals contain the truth."""

import numpy as np
import pytest
from calls import refused
from scipy.special import expit
from scipy.stats import binomtest, norm

from skcalib.metrics import net_benefit

rng = np.random.default_rng(0)
P = rng.beta(1, 3, 400).round(2)
Y = rng.random(400) < P
COLUMNS = ["threshold", "net_benefit", "low", "high", "gain_over_all", "gain_low", "gain_high"]


def by_counts(y, p, t):
    """(net benefit, gain over acting on all) by loops."""
    n, odds, act = len(y), t / (1 - t), [x >= t for x in p]
    right = sum(a and b for a, b in zip(act, y, strict=True))
    false = sum(a and not b for a, b in zip(act, y, strict=True))
    everything = (sum(y) - odds * (n - sum(y))) / n
    value = (right - odds * false) / n
    return value, value - everything


def mover(x, y, n, odds):
    """Interval of x / n - odds y / n, with counts of one multinomial, as Zou and Donner give it."""
    z, a, b = norm.ppf(0.975), x / n, y / n

    def wilson(p):
        half = z * np.sqrt(p * (1 - p) / n + z**2 / (4 * n**2))
        return [(p + z**2 / (2 * n) + sign * half) / (1 + z**2 / n) for sign in (-1, 1)]

    (la, ua), (lb, ub) = wilson(a), wilson(b)
    r = -np.sqrt(a * b / ((1 - a) * (1 - b)))
    down = (a - la) ** 2 + (odds * (ub - b)) ** 2 - 2 * r * (a - la) * odds * (ub - b)
    up = (ua - a) ** 2 + (odds * (b - lb)) ** 2 - 2 * r * (ua - a) * odds * (b - lb)
    return a - odds * b - np.sqrt(down), a - odds * b + np.sqrt(up)


def test_it_is_the_formula_of_counts():
    frame = net_benefit(Y, P, [0.02, 0.2, 0.5])
    assert frame.columns.tolist() == COLUMNS
    for _, row in frame.iterrows():
        t = row["threshold"]
        assert (row["net_benefit"], row["gain_over_all"]) == pytest.approx(by_counts(Y, P, t))
        act = t <= P
        ends = mover((act & Y).sum(), (act & ~Y).sum(), 400, t / (1 - t))
        assert (row["low"], row["high"]) == pytest.approx(ends)
        missed, spared = (~act & Y).sum(), (~act & ~Y).sum()
        if missed:
            low, high = mover(missed, spared, 400, t / (1 - t))
            assert (row["gain_low"], row["gain_high"]) == pytest.approx((-high, -low))


# What dca of dcurves 1.1.7 prints for the rows below: net benefit, and that of acting on all rows.
DCURVES = {
    0.05: (0.421053, 0.421053),
    0.1: (0.400000, 0.388889),
    0.2: (0.312500, 0.312500),
    0.3: (0.242857, 0.214286),
    0.5: (0.150000, -0.100000),
    0.7: (0.033333, -0.833333),
    0.9: (0.100000, -4.500000),
}


def test_it_is_that_of_dcurves():
    """Some probabilities equal thresholds: one acts on these rows."""
    p = [5, 5, 10, 10, 15, 20, 20, 25, 30, 30, 35, 40, 45, 50, 55, 60, 70, 80, 90, 95]
    y = [0, 0, 0, 1, 0, 0, 1, 0, 0, 1, 0, 1, 0, 0, 1, 1, 0, 1, 1, 1]
    frame = net_benefit(y, np.array(p) / 100, list(DCURVES))
    all_rows = frame["net_benefit"] - frame["gain_over_all"]
    expected = np.array(list(DCURVES.values()))
    assert np.column_stack([frame["net_benefit"], all_rows]) == pytest.approx(expected, abs=5e-7)


def test_columns_and_events():
    three = np.column_stack([P / 2, 1 - P, P / 2])
    names = np.where(Y, "yes", "no")
    named = net_benefit(names, three, 0.3, pos_label="no", labels=["a", "no", "yes"])
    assert np.allclose(named, net_benefit(~Y, 1 - P, 0.3))
    with pytest.raises(ValueError, match="pos_label is missing: .* pass one of the labels"):
        net_benefit(names, three, 0.3, labels=["a", "no", "yes"])


@pytest.mark.parametrize("thresholds", [-0.1, [0.2, 1.5], [[0.5]], [np.nan], "low", None])
def test_thresholds_are_between_0_and_1(thresholds):
    refused(r"thresholds must be numbers in \[0, 1\)", net_benefit, Y, P, thresholds)


def test_a_threshold_of_0_acts_on_all_rows_and_1_has_no_net_benefit():
    """At 0 a false alarm costs nothing: the share of events, with its interval by Wilson."""
    frame = net_benefit(Y, P, np.linspace(0, 0.9, 10))
    first = frame.iloc[0]
    low, high = binomtest(int(Y.sum()), 400).proportion_ci(method="wilson")
    assert first.tolist() == pytest.approx([0, Y.mean(), low, high, 0, 0, 0])
    with pytest.raises(ValueError, match="at 1, a false positive has an infinite cost"):
        net_benefit(Y, P, np.linspace(0, 1, 11))


def test_float32_is_compared_as_float32():
    """As ``p >= 0.7`` of NumPy does; 0.7 and 0.9 of float32 are below those of float64."""
    tenths, y = np.arange(1000) % 10 / 10, np.arange(1000) % 7 < 3
    expected = net_benefit(y, tenths, [0.1, 0.3, 0.7, 0.9])
    single = tenths.astype(np.float32)
    assert np.allclose(net_benefit(y, single, [0.1, 0.3, 0.7, 0.9]), expected)
    two = np.column_stack([1 - single, single])
    assert np.allclose(net_benefit(y, two, [0.1, 0.3, 0.7, 0.9]), expected)


@pytest.mark.parametrize(("base", "n", "t"), [(-3.5, 300, 0.05), (-2.0, 500, 0.2), (0, 200, 0.5)])
def test_intervals_contain_the_truth(base, n, t):
    """95 % intervals in 92 % of samples or more, of both net benefits."""
    rng = np.random.default_rng(0)

    def draw(n):
        p = expit(base + rng.normal(size=n))
        return rng.random(n) < p, p

    truth = net_benefit(*draw(1_000_000), t).iloc[0]
    inside = np.zeros(2)
    for _ in range(400):
        row = net_benefit(*draw(n), t).iloc[0]
        inside += [
            row["low"] <= truth["net_benefit"] <= row["high"],
            row["gain_low"] <= truth["gain_over_all"] <= row["gain_high"],
        ]
    assert (inside / 400 >= 0.92).all()
