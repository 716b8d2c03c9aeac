"""`CalibrationMonitor` against enumeration, sums over all starts, and simulated drifts."""

from itertools import product

import numpy as np
import pandas as pd
import pytest
from calls import refused
from scipy.special import expit, logit, logsumexp
from sklearn.base import clone
from sklearn.exceptions import NotFittedError

from skcalib import CalibrationMonitor, from_dict, to_dict
from skcalib._monitor import BETS, log_gains


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
    with pytest.raises(ValueError, match="1,001 classes and groups: pass at most 999"):
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
        refused("The stored CalibrationMonitor is refused", from_dict, broken)
    refused("alpha", from_dict, {**document, "parameters": {**document["parameters"], "alpha": 2}})
    with pytest.raises(ValueError, match="'monitor', 'parameters' and 'state'"):
        from_dict({k: v for k, v in document.items() if k != "state"})
    refused("its parameters are alpha", from_dict, {**document, "parameters": {"alpha": 0.1}})
    with pytest.raises(ValueError, match="labels is a set, which is not stored"):
        to_dict(CalibrationMonitor().update([0, 1], [0.2, 0.7]).set_params(labels={0, 1}))


def test_what_is_shown():
    assert repr(CalibrationMonitor()) == "CalibrationMonitor()"
    y, p = batch(np.random.default_rng(8), 500, shift=1.0)
    monitor = CalibrationMonitor().update(y[:20], p[:20])
    assert repr(monitor).startswith("1 updates, 20 rows: e-value 0.0")
    assert repr(monitor).endswith("no alarm, which is given at 20")
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
