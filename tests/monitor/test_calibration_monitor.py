"""`CalibrationMonitor` against enumeration and loops over bets and rows, and simulated drifts."""

import math
from itertools import product

import numpy as np
import pandas as pd
import pytest
from calls import refused
from scipy.special import expit, logit, logsumexp
from sklearn.base import clone
from sklearn.exceptions import NotFittedError

from skcalib import CalibrationMonitor, from_dict, to_dict
from skcalib._monitor import BETS, Resolution, log_gains


def batch(rng, n, shift=0.0, scale=1.0):
    z = rng.normal(0, 1.5, n)
    return (rng.random(n) < expit(scale * z + shift)).astype(int), expit(z)


def gains_at(z, y, width):
    """Return log L of each bet for stated log-odds without rounding."""
    return log_gains(np.array([z, z, z, 0 * z]), y, width)


def gains_of_outcomes(z, width):
    """Return all outcomes of some rows, and log L of each bet for each of them."""
    outcomes = np.array(list(product([0, 1], repeat=z.size)))
    rows = [[gains_at(x, np.array([y]), width) for y in (0, 1)] for x in np.split(z, z.size)]
    return outcomes, np.array(rows)[np.arange(z.size), outcomes].sum(axis=1)


def test_a_bet_gains_nothing_in_the_mean_if_odds_are_right_within_the_tolerance():
    def mean(outcomes, gains, true):
        return np.where(outcomes, true, 1 - true).prod(axis=1) @ np.exp(gains)

    for n in range(1, 11):
        rng = np.random.default_rng(n)
        z = rng.normal(0, 2, n)
        np.testing.assert_allclose(mean(*gains_of_outcomes(z, 0.0), expit(z)), 1.0, rtol=1e-12)
        width = rng.uniform(0.01, 0.5)
        outcomes, gains = gains_of_outcomes(z, width)
        np.testing.assert_allclose(gains[-2], gains_at(z, outcomes[-2], width), rtol=1e-12)
        for _ in range(100):
            true = expit(z + rng.uniform(-width, width, n))
            assert (mean(outcomes, gains, true) <= 1 + 1e-12).all()


def test_every_shift_gains_beyond_the_tolerance():
    """Where the event happens in each row, shifts upwards gain; a tolerance may be of any size."""
    for tolerance in (0.0, 0.1, 1.0, 1e300):
        gains = gains_at(np.zeros(5), np.ones(5), np.log1p(tolerance))
        assert np.isfinite(gains).all()
        assert (gains[(BETS[:, 0] == 1) & (BETS[:, 1] > 0)] > 0).all() == (tolerance < 1e4)


def test_rows_are_read_in_blocks():
    rng = np.random.default_rng(0)
    y, p = batch(rng, 4500)
    parts = [gains_at(logit(p[i : i + 900]), y[i : i + 900], 0.1) for i in range(0, 4500, 900)]
    np.testing.assert_allclose(gains_at(logit(p), y, 0.1), np.sum(parts, axis=0), rtol=1e-10)


def test_shares_with_the_same_mean_gain_no_more():
    rng = np.random.default_rng(0)
    points = np.array([0.0, 0.4, 1.0])
    for _ in range(200):
        weights = rng.dirichlet(np.ones(3))
        z = logit(weights @ points)
        gains = [np.exp(gains_at(np.array([z]), np.array([y]), 0.0)) for y in points]
        assert (weights @ np.array(gains) <= 1 + 1e-12).all()


def test_the_evidence_is_the_sum_over_all_starts_of_a_drift():
    rng = np.random.default_rng(1)
    monitor = CalibrationMonitor(tolerance=0.05)
    gains = []
    for t in range(12):
        y, p = batch(rng, 40, shift=0.3 * (t > 5))
        monitor.update(y, p)
        gains.append(gains_at(logit(p), y, np.log(1.05)))
        starts = [np.sum(gains[start:], axis=0) for start in range(t + 1)]
        total = logsumexp(starts) - np.log(len(BETS)) - np.log(52)
        assert np.log(monitor.e_value_) == pytest.approx(total, abs=1e-10)


def test_half_of_the_evidence_is_that_of_all_rows():
    rng = np.random.default_rng(2)
    P = rng.dirichlet([2, 3, 4], 60)
    y = np.array([rng.choice(3, p=row) for row in P])
    groups = rng.choice(["a", "b"], 60)
    monitor = CalibrationMonitor(tolerance=0).update(y, P, groups=groups)
    best = P.argmax(axis=1)
    events = {"all rows": (P.max(axis=1), best == y)}
    events |= {f"class {k}": (P[:, k], y == k) for k in range(3)}
    events |= {f"group {g}": tuple(v[groups == g] for v in events["all rows"]) for g in "ab"}
    shares = dict.fromkeys(events, 0.1) | {"all rows": 0.5}
    expected = sum(
        shares[name] * np.exp(gains_at(logit(p), hit, 0.0)).mean() / 52
        for name, (p, hit) in events.items()
    )
    assert monitor.e_value_ == pytest.approx(expected, rel=1e-10)
    alone = [
        shares[name] * np.exp(gains_at(logit(p), hit, 0.0)).mean()
        for name, (p, hit) in events.items()
    ]
    assert monitor.where_ == list(events)[int(np.argmax(alone))]


def test_order_means_nothing():
    rng = np.random.default_rng(3)
    P = rng.dirichlet([2, 3, 4], 90)
    y, groups = rng.integers(0, 3, 90), rng.integers(0, 4, 90)
    order = rng.permutation(90)
    expected = CalibrationMonitor().update(y, P, groups=groups).e_value_
    permuted = CalibrationMonitor().update(y[order], P[order], groups=groups[order]).e_value_
    assert permuted == pytest.approx(expected, rel=1e-12)
    classes = CalibrationMonitor().update(2 - y, P[:, ::-1], groups=3 - groups).e_value_
    assert classes == pytest.approx(expected, rel=1e-12)


def test_batches_without_rows_groups_without_rows_and_later_groups():
    rng = np.random.default_rng(4)
    y, p = batch(rng, 50)
    groups = np.repeat(["a", "b"], 25)
    monitor = CalibrationMonitor()
    monitor.update([], [])
    with pytest.raises(NotFittedError, match="call update first"):
        monitor.where_  # noqa: B018
    refused("call update first", to_dict, monitor, error=NotFittedError)
    monitor.update(y, p, groups=groups)
    monitor.update([], [], groups=[])
    monitor.update(y[:25], p[:25], groups=groups[:25])
    with pytest.warns(UserWarning, match="group c was not in the first update"):
        monitor.update(y, p, groups=np.repeat(["a", "c"], 25))
    assert monitor.n_updates_ == 5
    assert monitor.frame["rows"].tolist() == [0, 50, 0, 25, 50]
    assert monitor.frame["gap"].iloc[1] == pytest.approx(y.mean() - p.mean())


def test_forms_of_an_event():
    rng = np.random.default_rng(5)
    y, p = batch(rng, 80)
    expected = CalibrationMonitor().update(y, p).e_value_
    names = np.array(["no", "yes"])[y]
    forms = [
        CalibrationMonitor().update(y, np.column_stack([1 - p, p])),
        CalibrationMonitor(pos_label="yes").update(names, p),
        CalibrationMonitor().update(y.astype(bool), pd.Series(p)),
        CalibrationMonitor(pos_label="yes").update(names, pd.DataFrame({"no": 1 - p, "yes": p})),
        CalibrationMonitor().update(y.astype(float), p),
    ]
    for monitor in forms:
        assert monitor.e_value_ == pytest.approx(expected, rel=1e-9)
    single = CalibrationMonitor(labels=[0, 1]).update(np.ones(3, int), p[:3])
    assert single.n_updates_ == 1
    soft = CalibrationMonitor().update(np.where(y, 0.9, 0.1), p)
    assert 0 < soft.e_value_ < 1
    exact = CalibrationMonitor().update([1, 0, 1], [1.0, 0.0, 0.5])
    assert np.isfinite(exact.e_value_)


def test_a_failed_update_changes_nothing():
    rng = np.random.default_rng(6)
    y, p = batch(rng, 50)
    monitor = CalibrationMonitor().update(y, p)
    before = to_dict(monitor)
    wrong = [
        ((y, np.where(p > 0.9, np.nan, p)), {}, "contains NaN"),
        ((y, p + 1), {}, "y_proba"),
        ((y[:-1], p), {}, "rows"),
        ((y, np.column_stack([p / 2, p / 2, 1 - p])), {}, "columns|labels"),
        ((y, p), {"groups": ["a"]}, "groups has 1 rows"),
    ]
    for arguments, keywords, message in wrong:
        refused(message, monitor.update, *arguments, **keywords)
    assert to_dict(monitor) == before
    with pytest.raises(
        ValueError,
        match="number of classes and groups together is 1,001, more than 999: pass fewer",
    ):
        CalibrationMonitor().update(np.arange(1001) % 2, np.full(1001, 0.5), groups=np.arange(1001))
    for keywords in ({"alpha": 1.0}, {"period": 0}, {"tolerance": -0.1}):
        refused(next(iter(keywords)), CalibrationMonitor(**keywords).update, y, p)


def test_a_stored_monitor_goes_on_and_broken_ones_are_refused():
    rng = np.random.default_rng(7)
    one = other = CalibrationMonitor(period=12)
    for t in range(6):
        y, p = batch(rng, 60, shift=0.8 * (t > 2))
        groups = rng.choice(["x", "y"], 60)
        one = clone(one) if t == 0 else one
        one.update(y, p, groups=groups)
        other = from_dict(to_dict(other.update(y, p, groups=groups)))
        assert to_dict(one) == to_dict(other)
        assert repr(one) == repr(other)
    assert clone(one).get_params() == one.get_params()
    assert not hasattr(clone(one), "alarm_")
    document = to_dict(one)
    tampered = {
        "_log_r": {"dtype": "float64", "shape": [1, 24], "array": [0.0] * 24},
        "_shares": {"dtype": "float64", "shape": [3], "array": [1.0, 1.0, 1.0]},
        "n_updates_": 7,
        "alarm_": 1,
        "_names": ["group x"],
        "classes_": {"dtype": "int64", "shape": [2], "array": [1, 0]},
        "other": 3,
    }
    for name, value in tampered.items():
        broken = {**document, "state": {**document["state"], name: value}}
        refused("The stored CalibrationMonitor is not valid", from_dict, broken)
    refused("alpha", from_dict, {**document, "parameters": {**document["parameters"], "alpha": 2}})
    with pytest.raises(ValueError, match="'monitor', 'parameters' and 'state'"):
        from_dict({k: v for k, v in document.items() if k != "state"})
    refused(
        "its parameters are not those of .*, but alpha",
        from_dict,
        {**document, "parameters": {"alpha": 0.1}},
    )
    with pytest.raises(ValueError, match="labels is a set, which cannot be stored"):
        to_dict(CalibrationMonitor().update([0, 1], [0.2, 0.7]).set_params(labels={0, 1}))


def test_what_is_shown():
    assert repr(CalibrationMonitor()) == "CalibrationMonitor()"
    y, p = batch(np.random.default_rng(8), 500, shift=1.0)
    monitor = CalibrationMonitor().update(y[:20], p[:20])
    assert repr(monitor).startswith("1 updates, 20 rows: e-value 0.0")
    assert repr(monitor).endswith("no alarm, which is raised at 20")
    assert monitor.advice_ == "nothing"
    monitor.update(y, p)
    text = repr(monitor)
    assert "; ALARM in all rows since about update " in text
    assert "shift the offset by +" in text


def test_notebooks_show_the_updates():
    assert "CalibrationMonitor()" in CalibrationMonitor()._repr_html_()
    monitor = CalibrationMonitor().update([], [])
    assert "<td>0</td>" in monitor._repr_html_()
    y, p = batch(np.random.default_rng(8), 500)
    y[:250] = 1
    monitor.update(y, p, groups=np.repeat(["<b>", "a"], 250))
    html = monitor._repr_html_()
    assert "<td>500</td>" in html
    assert "ALARM in group &lt;b&gt; since" in html


# ------------------------------------------------------------------ drifts

DRIFTS = {
    "T 1.2": lambda z, g: z / 1.2,
    "T 1.5": lambda z, g: z / 1.5,
    "T 1/1.2": lambda z, g: z * 1.2,
    "offset .3": lambda z, g: z + 0.3,
    "odds x 1.5": lambda z, g: z + np.log(1.5),
    "1 of 8 groups +1": lambda z, g: z + (g == 3),
}


def first_alarm(run, n, drift, with_groups=False, **keywords):
    """Return the monitor of a year with a drift from week 13, and the weeks until its alarm."""
    rng = np.random.default_rng([7, run])
    monitor = CalibrationMonitor(labels=[0, 1], **keywords)
    for week in range(-11, 41):
        z, g = rng.normal(0, 1.5, n), rng.integers(8, size=n)
        true = DRIFTS[drift](z, g) if week > 0 else z
        y = (rng.random(n) < expit(true)).astype(int)
        if monitor.update(y, expit(z), groups=g if with_groups else None).alarm_:
            return monitor, week
    return monitor, np.inf


@pytest.mark.parametrize(
    ("drift", "advice"), [("offset .3", "shift the offset"), ("T 1.5", "fit again")]
)
def test_advice_and_start_of_a_drift(drift, advice):
    monitors = [first_alarm(run, 500, drift)[0] for run in range(20)]
    assert np.mean([monitor.advice_ == advice for monitor in monitors]) >= 0.85
    assert abs(np.median([monitor.since_ for monitor in monitors]) - 13) <= 1
    if drift == "offset .3":
        assert np.mean([monitor.shift_ for monitor in monitors]) == pytest.approx(0.3, abs=0.05)


NEVER = np.inf  # not within the year, in half of the runs


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:group .* was not in the first update")
@pytest.mark.parametrize(
    ("n", "runs", "keywords", "weeks"),
    [
        (50, 60, {"tolerance": 0}, [NEVER, 10, 30, 18, 11, NEVER]),
        (50, 60, {}, [NEVER, 15, NEVER, 35, 18, NEVER]),
        (50, 60, {"with_groups": True}, [NEVER, 16, NEVER, 38, 19, 24]),
        (500, 40, {"tolerance": 0}, [4, 2, 6, 3, 2, 13]),
        (500, 40, {}, [12, 2, 12, 6, 3, NEVER]),
        (500, 40, {"with_groups": True}, [12, 2, 12, 7, 3, 4]),
        (5000, 8, {"tolerance": 0}, [1, 1, 1, 1, 1, 2]),
        (5000, 8, {}, [2, 1, 3, 1, 1, NEVER]),
    ],
)
def test_median_delays(n, runs, keywords, weeks):
    for drift, expected in zip(DRIFTS, weeks, strict=True):
        delay = np.median([first_alarm(run, n, drift, **keywords)[1] for run in range(runs)])
        assert delay == expected or abs(delay - expected) <= 1, drift


# ------------------------------------------------------------------ false alarms


def shares(rng, p):
    """Draw shares with mean p: of ten raters, each right or wrong as the others are or alone."""
    return np.where(rng.random(p.size) < 0.5, rng.binomial(10, p) / 10, rng.random(p.size) < p)


def of_an_event(z=lambda rng: rng.normal(0, 1.5, 50), true=lambda z: z, step=0.0, groups=0):
    def draw(rng):
        scores = z(rng)
        p = expit(scores)
        stated = np.round(p / step) * step if step else p
        g = rng.integers(groups, size=p.size) if groups else None
        return (rng.random(p.size) < expit(true(scores))).astype(int), stated, g

    return draw


def of_four_classes(rng):
    P = rng.dirichlet(np.ones(4), 50)
    return (P.cumsum(axis=1) < rng.random((50, 1))).sum(axis=1).clip(max=3), P, None


def of_shares(rng):
    p = expit(rng.normal(0, 1.5, 50))
    return shares(rng, p), p, None


EDGE = np.log(1.1)  # the tolerance
CELLS = {
    "calibrated": of_an_event(),
    "all too low": of_an_event(true=lambda z: z + EDGE),
    "not extreme enough": of_an_event(true=lambda z: z + EDGE * np.sign(z)),
    "too extreme": of_an_event(true=lambda z: z - EDGE * np.sign(z)),
    "rare": of_an_event(z=lambda rng: rng.normal(-4, 1, 50)),
    "steps of .01": of_an_event(step=0.01),
    "20 groups": of_an_event(groups=20),
    "four classes": of_four_classes,
    "shares": of_shares,
}


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:group .* was not in the first update")
@pytest.mark.parametrize("cell", CELLS)
def test_false_alarms_of_a_year(cell):
    rng = np.random.default_rng(10)
    alarms = 0
    for _ in range(400):
        monitor = CalibrationMonitor(labels=range(4 if cell == "four classes" else 2))
        for _ in range(52):
            y, p, groups = CELLS[cell](rng)
            if monitor.update(y, p, groups=groups).alarm_:
                alarms += 1
                break
    assert alarms / 400 <= 0.072  # 5 % and two standard errors


# ------------------------------------------------------------------ stated probabilities


def log_odds(p):
    return -math.inf if p <= 0 else math.inf if p >= 1 else math.log(p / (1 - p))


def interval(p, step, e):
    """Return the stated log-odds, and the ends of what they stand for."""
    half_0, half_1 = (step or e[0]) / 2, (step or e[1]) / 2
    if p == 0:
        return log_odds(half_0), -math.inf, log_odds(half_0)
    if p == 1:
        return -log_odds(half_1), -log_odds(half_1), math.inf
    return log_odds(p), log_odds(p - step / 2), log_odds(p + step / 2)


def log_gain(bet, p, y, step, e, width):
    """Return log L of a row for a bet, from probabilities."""
    a, b = bet
    b += math.copysign(width, b) if a == 1 else 0.0  # shifts begin where the tolerance ends
    z, low, high = interval(p, step, e)
    t = z if step and p in (0, 1) and b == 0 else a * z + b
    t0 = min(max(t, low - width), high + width)
    bet_on, nearest = expit(t), expit(t0)
    return math.log(bet_on / nearest) if y else math.log((1 - bet_on) / (1 - nearest))


def e_value(batches, tolerance=0.1, period=52):
    """Return the evidence of batches (probabilities, outcomes, step, e)."""
    R = np.zeros(len(BETS))
    for p, y, step, e in batches:
        rows = list(zip(p, y, strict=True))
        for j, bet in enumerate(BETS):
            log_l = sum(log_gain(bet, q, h, step, e, math.log1p(tolerance)) for q, h in rows)
            R[j] = (R[j] + 1) * math.exp(log_l)
    return R.mean() / period


def draw(rng, p):
    return (rng.random(len(p)) < p).astype(int)


TENTHS = np.arange(11) / 10
CASES = {
    "tenths": ([TENTHS, TENTHS[:4]], [0.1, 0.1], [(0.1, 0.1)] * 2),
    "float32": ([TENTHS.astype("f4"), TENTHS.astype("f4")], [0.1, 0.1], [(0.1, 0.1)] * 2),
    "tenths, then hundredths": ([TENTHS, [0.0, 0.03, 0.97, 1.0]], [0.1, 0.01], [(0.1, 0.1)] * 2),
    "four decimals": ([[0.0, 0.0002, 0.5, 1.0]], [0.0001], [(0.1, 0.1)]),
    "five decimals": ([[0.0, 0.00002, 0.96, 1.0]], [0.0], [(0.00002, 0.04)]),
    "more and more digits": (
        [[0.0, 1 / 3, 1.0], [0.0, 0.013, 1.0], [0.0, 0.98765, 1.0]],
        [0.0, 0.0, 0.0],
        [(0.1, 0.1), (0.013, 0.1), (0.013, 1 - 0.98765)],
    ),
    "0 and 1 alone": ([[0.0, 1.0, 1.0, 0.0]], [0.1], [(0.1, 0.1)]),
    "a sum of ten tenths": ([[sum([0.1] * 10), 1 / 3, 2 / 3]], [0.0], [(0.1, 0.1)]),
}


@pytest.mark.parametrize("case", CASES)
def test_evidence_is_that_of_loops_over_bets_and_rows(case):
    rng = np.random.default_rng(0)
    monitor, batches = CalibrationMonitor(labels=[0, 1]), []
    for p, step, e in zip(*CASES[case], strict=True):
        p = np.asarray(p)
        y = rng.integers(2, size=p.size)
        y[(p == 0) | (p >= 1 - 1e-15)] ^= rng.random() < 0.5
        monitor.update(y, p)
        digits = [float(f"{q:.7g}") if p.dtype == "f4" else float(q) for q in p]
        batches.append((np.where(p >= 1 - 1e-15, 1, digits), y, step, e))
        assert monitor.e_value_ == pytest.approx(e_value(batches), rel=1e-5)
        monitor = from_dict(to_dict(monitor))


def test_a_bet_gains_nothing_in_the_mean_wherever_the_truth_is_in_the_intervals():
    rng = np.random.default_rng(1)
    p = np.array([0.0, 0.1, 0.4, 1.0, 0.9])
    outcomes = np.array(list(product([0, 1], repeat=p.size)))
    resolutions = [Resolution(1), Resolution(2), Resolution(5, 1e-3, 0.02)]
    for resolution, step in zip(resolutions, (0.1, 0.01, 0.0), strict=True):
        e, width = resolution[1:], math.log1p(0.1)
        gains = np.array(
            [[[log_gain(bet, q, y, step, e, width) for y in (0, 1)] for q in p] for bet in BETS]
        )
        ends = [interval(q, step, e)[1:] for q in p]
        for _ in range(20):
            true = [expit(rng.choice([low - width, high + width])) for low, high in ends]
            chance = np.where(outcomes, true, 1 - np.array(true)).prod(axis=1)
            L = np.exp(gains[:, np.arange(p.size), outcomes].sum(axis=2))
            assert (L @ chance <= 1 + 1e-12).all()


def alarms(years, cell, n, labels=(0, 1)):
    """Return in how many years there is an alarm."""
    total = 0
    for year in range(years):
        rng, monitor = np.random.default_rng([year, n]), CalibrationMonitor(labels=labels)
        total += any(monitor.update(*cell(rng, n)).alarm_ for _ in range(52))
    return total


def tenths(rng, n):
    p = rng.integers(0, 11, n) / 10
    return draw(rng, p), p


def rare_in_two_decimals(rng, n):
    p = rng.exponential(0.002, n).clip(0, 1)
    return draw(rng, p), p.round(2)


def always_right(rng, n):
    return np.ones(n, int), np.ones(n)


def five_in_two_decimals(rng, n):
    """Rows that sum to 0.99, 1 or 1.01."""
    P = rng.dirichlet(np.full(5, 0.3), 2 * n)
    P = P[abs(P.round(2).sum(axis=1) - 1) < 0.011][:n]
    return (P.cumsum(axis=1) < rng.random((n, 1))).sum(axis=1).clip(max=4), P.round(2)


@pytest.mark.parametrize("cell", [tenths, rare_in_two_decimals, always_right])
def test_rounded_probabilities_give_no_false_alarm(cell):
    """Before, these gave an alarm in 98 to 100 % of the years."""
    assert alarms(3, cell, 200) == 0


def test_rows_of_decimals_need_not_sum_to_1():
    monitor = CalibrationMonitor(labels=range(5))
    y, P = five_in_two_decimals(np.random.default_rng(0), 200)
    assert not np.allclose(P.sum(axis=1), 1)
    assert monitor.update(y, P)._resolution == (2, 0.01, pytest.approx(1 - P[P < 1].max()))
    assert alarms(2, five_in_two_decimals, 100, range(5)) == 0


def test_a_stated_1_that_is_right_in_90_per_cent_is_seen():
    monitor, rng = CalibrationMonitor(labels=[0, 1]), np.random.default_rng(0)
    while monitor.update(draw(rng, np.full(200, 0.9)), np.ones(200)).n_updates_ < 30:
        if monitor.alarm_:
            break
    assert monitor.alarm_
    assert monitor.n_updates_ <= 5


# ------------------------------------------------------------------ options that are not offered


def two_questions(rng, n, absent=np.nan):
    """Two questions with two options each: a or b, no or yes."""
    p, question = rng.integers(1, 20, n) / 20, rng.integers(2, size=n)
    P = np.full((n, 4), absent)
    P[np.arange(n), 2 * question], P[np.arange(n), 2 * question + 1] = 1 - p, p
    return np.array(["a", "b", "no", "yes"])[2 * question + draw(rng, p)], P, question


def test_options_that_are_not_offered_are_no_evidence_about_their_class():
    y, P, question = two_questions(np.random.default_rng(2), 60)
    labels = ["a", "b", "no", "yes"]
    monitor = CalibrationMonitor(labels=labels).update(y, P, groups=question)
    best = np.nanargmax(P, axis=1)
    p, hit = np.nanmax(P, axis=1), np.array(labels)[best] == y
    components = [(0.5, p, hit)]
    for k, label in enumerate(labels):
        rows = question == k // 2
        components.append((0.5 / 6, P[rows, k], y[rows] == label))
    components += [(0.5 / 6, p[question == g], hit[question == g]) for g in (0, 1)]
    e = 0.05, 0.05
    expected = sum(share * e_value([(q, h, 0.01, e)]) for share, q, h in components)
    assert monitor.e_value_ == pytest.approx(expected, rel=1e-10)
    assert monitor.frame["mean_proba"].iloc[0] == pytest.approx(p.mean())
    frame = pd.DataFrame(P, columns=labels)
    assert CalibrationMonitor().update(y, frame, groups=question).e_value_ == monitor.e_value_


@pytest.mark.parametrize("absent", [np.nan, 0.0])
def test_a_log_of_two_questions_gives_no_false_alarm(absent):
    """Before, with 0 in place of NaN, all years had an alarm."""
    labels = ["a", "b", "no", "yes"]
    assert alarms(2, lambda rng, n: two_questions(rng, n, absent)[:2], 100, labels) == 0


def test_a_label_that_was_not_offered_is_refused():
    y, P, _ = two_questions(np.random.default_rng(3), 30)
    monitor = CalibrationMonitor().update(y, P)
    before = to_dict(monitor)
    wrong = y.copy()
    row = np.flatnonzero(np.isnan(P[:, 3]))[0]
    wrong[row] = "yes"
    refused(rf"label yes at row {row} has no probability \(NaN in y_pro", monitor.update, wrong, P)
    refused("y_proba contains NaN", CalibrationMonitor().update, [0, 1], [0.2, np.nan])
    assert to_dict(monitor) == before


def test_a_row_with_nan_is_refused_for_its_sum():
    with pytest.raises(ValueError, match=r"y_proba: row 1 sums to 0\.8, not 1"):
        CalibrationMonitor(labels=[0, 1, 2]).update([0, 1], [[0.2, 0.3, 0.5], [0.5, 0.3, np.nan]])


def test_labels_without_probabilities_and_numbers_are_refused():
    """Only a batch without labels and without probabilities is an empty one."""
    monitor = CalibrationMonitor(labels=[0, 1])
    refused("y_proba has 2 rows, y_true has 0", monitor.update, [], [0.5, 0.2])
    for wrong in (1, np.array(1)):
        refused("y_true", monitor.update, wrong, 0.5)
    assert monitor.update([], []).n_updates_ == 1


@pytest.mark.parametrize("labels", [range(3), pd.Index([0, 1, 2]), pd.Series([0, 1, 2])])
def test_labels_of_every_form_are_stored(labels):
    monitor = CalibrationMonitor(labels=labels).update([0, 1], [[0.2, 0.3, 0.5], [0.5, 0.2, 0.3]])
    stored = from_dict(to_dict(monitor))
    assert np.array_equal(stored.labels, labels)
    assert stored.e_value_ == monitor.e_value_


# ------------------------------------------------------------------ files and messages


def test_a_state_without_a_resolution_loads():
    """The first files had none."""
    y, p = tenths(np.random.default_rng(4), 50)
    document = to_dict(CalibrationMonitor(labels=[0, 1]).update(y, p))
    assert document["state"].pop("_resolution") == {"tuple": [1, 0.1, pytest.approx(0.1)]}
    monitor = from_dict(document)
    assert monitor.update(y, p.round(1)).n_updates_ == 2
    assert to_dict(monitor)["state"]["_resolution"]["tuple"][0] == 1
    for wrong in ([0, 0.1, 0.1], [6, 0.1, 0.1], [2, 0.0, 0.1], [2, 0.1, 0.2], ["2", 1, 1]):
        state = {**document["state"], "_resolution": {"tuple": wrong}}
        refused(
            "The stored CalibrationMonitor is not valid", from_dict, {**document, "state": state}
        )


def test_messages_name_the_arguments_of_the_constructor():
    rng = np.random.default_rng(5)
    P = rng.dirichlet(np.ones(3), 200)
    y = (P.cumsum(axis=1) < rng.random((200, 1))).sum(axis=1).clip(max=2)
    with pytest.warns(
        UserWarning, match=r"columns are 1, 2, 0: use CalibrationMonitor\(labels=\.\."
    ):
        CalibrationMonitor().update(y, P[:, [1, 2, 0]])
    cases = [
        (
            np.array(["no", "yes"])[y % 2],
            P[:, 0],
            r"use CalibrationMonitor\(pos_label=\.\.\.\) with",
        ),
        (np.append(y[1:], 3), P, r"use CalibrationMonitor\(labels=\.\.\.\) with the 3 labels"),
    ]
    for labels, scores, message in cases:
        refused(message, CalibrationMonitor().update, labels, scores)
    with pytest.raises(ValueError, match="add it to labels, or leave the row out"):
        CalibrationMonitor().update(y, P).update([7, 1, 1], P[:3])


def test_log_odds_of_intervals():
    odds = Resolution(2).intervals(np.array([0.0, 0.3, 1.0]))
    assert expit(odds[:3]) == pytest.approx(
        np.array([[0.005, 0.3, 0.995], [0, 0.295, 0.995], [0.005, 0.305, 1]]), abs=1e-12
    )
    assert odds[3].tolist() == [1, 0, 1]
    free = Resolution(5, 0.02, 0.1).intervals(np.array([0.0, 0.3, 1.0]))
    assert free[:, 1].tolist() == [logit(0.3)] * 3 + [0]
    assert expit(free[:3, [0, 2]]) == pytest.approx(np.array([[0.01, 0.95], [0, 0.95], [0.01, 1]]))
