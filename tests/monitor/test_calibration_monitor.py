"""`CalibrationMonitor` against enumeration, sums over all starts, and simulated drifts."""

from fractions import Fraction
from itertools import product

import numpy as np
import pandas as pd
import pytest
from scipy.special import expit, logit, logsumexp
from sklearn.base import clone
from sklearn.exceptions import NotFittedError

from skcalib import CalibrationMonitor, from_dict, to_dict
from skcalib._monitor.monitor import BETS, log_gains


def batch(rng, n, shift=0.0, scale=1.0):
    z = rng.normal(0, 1.5, n)
    return (rng.random(n) < expit(scale * z + shift)).astype(int), expit(z)


def mean_of_bets(z, true, width):
    """Return E[L] of each bet over all outcomes, by enumeration."""
    total = np.zeros(len(BETS))
    for outcome in product([0, 1], repeat=z.size):
        y = np.array(outcome)
        total += np.prod(np.where(y, true, 1 - true)) * np.exp(log_gains(z, y, width))
    return total


@pytest.mark.parametrize("n", [1, 3, 7])
def test_a_bet_gains_nothing_in_the_mean_if_odds_are_right_within_the_tolerance(n):
    rng = np.random.default_rng(n)
    for _ in range(40):
        z = rng.normal(0, 2, n)
        np.testing.assert_allclose(mean_of_bets(z, expit(z), 0.0), 1.0, rtol=1e-12)
        width = rng.uniform(0.01, 0.5)
        true = expit(z + rng.uniform(-width, width, n))
        assert (mean_of_bets(z, true, width) <= 1 + 1e-12).all()


def test_shares_with_the_same_mean_gain_no_more():
    rng = np.random.default_rng(0)
    points = np.array([0.0, 0.4, 1.0])
    for _ in range(200):
        weights = rng.dirichlet(np.ones(3))
        z = logit(weights @ points)
        gains = [np.exp(log_gains(np.array([z]), np.array([y]), 0.0)) for y in points]
        assert (weights @ np.array(gains) <= 1 + 1e-12).all()


def test_the_evidence_is_the_sum_over_all_starts_of_a_drift():
    rng = np.random.default_rng(1)
    monitor = CalibrationMonitor(tolerance=0.05)
    gains = []
    for t in range(12):
        y, p = batch(rng, 40, shift=0.3 * (t > 5))
        monitor.update(y, p)
        gains.append(log_gains(logit(p), y, np.log(1.05)))
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
        shares[name] * np.exp(log_gains(logit(p), hit, 0.0)).mean() / 52
        for name, (p, hit) in events.items()
    )
    assert monitor.e_value_ == pytest.approx(expected, rel=1e-10)
    alone = [
        shares[name] * np.exp(log_gains(logit(p), hit, 0.0)).mean()
        for name, (p, hit) in events.items()
    ]
    assert monitor.where_ == list(events)[int(np.argmax(alone))]


def test_order_means_nothing():
    rng = np.random.default_rng(3)
    P = rng.dirichlet([2, 3, 4], 90)
    y, groups = rng.integers(0, 3, 90), rng.integers(0, 4, 90)
    order = rng.permutation(90)
    expected = CalibrationMonitor().update(y, P, groups=groups).e_value_
    found = CalibrationMonitor().update(y[order], P[order], groups=groups[order]).e_value_
    assert found == pytest.approx(expected, rel=1e-12)
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
        with pytest.raises(ValueError, match=message):
            monitor.update(*arguments, **keywords)
    assert to_dict(monitor) == before
    with pytest.raises(ValueError, match="1,001 classes and groups: pass at most 999"):
        CalibrationMonitor().update(np.arange(1001) % 2, np.full(1001, 0.5), groups=np.arange(1001))
    for keywords in ({"alpha": 1.0}, {"period": 0}, {"tolerance": -0.1}):
        with pytest.raises(ValueError, match=next(iter(keywords))):
            CalibrationMonitor(**keywords).update(y, p)


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
        with pytest.raises(ValueError, match="The stored CalibrationMonitor is refused") as caught:
            from_dict(broken)
        assert "\n" not in str(caught.value)
    with pytest.raises(ValueError, match="alpha"):
        from_dict({**document, "parameters": {**document["parameters"], "alpha": 2}})
    with pytest.raises(ValueError, match="'monitor', 'parameters' and 'state'"):
        from_dict({k: v for k, v in document.items() if k != "state"})
    with pytest.raises(ValueError, match="its parameters are alpha"):
        from_dict({**document, "parameters": {"alpha": 0.1}})
    with pytest.raises(ValueError, match="period is a Fraction, which cannot be stored"):
        to_dict(CalibrationMonitor(period=Fraction(12)))


def test_what_is_shown():
    assert repr(CalibrationMonitor()) == "CalibrationMonitor()"
    assert set(CalibrationMonitor()._repr_mimebundle_()) == {"text/plain", "text/html"}
    y, p = batch(np.random.default_rng(8), 500, shift=1.0)
    monitor = CalibrationMonitor().update(y[:20], p[:20])
    assert repr(monitor).startswith("1 updates, 20 rows: e-value 0.0")
    assert repr(monitor).endswith("no alarm, which is given at 20")
    assert monitor.advice_ == "nothing"
    monitor.update(y, p)
    text = repr(monitor)
    assert "; ALARM in all rows since about update " in text
    assert "shift the offset by +" in text
    assert "<table" in monitor._repr_mimebundle_()["text/html"]


# ------------------------------------------------------------------ drifts


def first_alarm(rng, n, true, start=12, **keywords):
    """Return the monitor and the number of updates from the drift to the alarm."""
    monitor = CalibrationMonitor(**keywords)
    for t in range(52):
        z = rng.normal(0, 1.5, n)
        y = rng.random(n) < expit(true(z) if t >= start else z)
        if monitor.update(y, expit(z)).alarm_:
            return monitor, t - start + 1
    return monitor, np.inf


def test_advice_and_start_of_a_drift():
    rng = np.random.default_rng(9)
    right = {"shift the offset": lambda z: z + 0.3, "fit again": lambda z: z / 1.5}
    for advice, drift in right.items():
        runs = [first_alarm(rng, 500, drift) for _ in range(20)]
        assert np.mean([monitor.advice_ == advice for monitor, _ in runs]) >= 0.8
        assert abs(np.median([monitor.since_ for monitor, _ in runs]) - 13) <= 1
    shifts = [first_alarm(rng, 500, lambda z: z + 0.3)[0].shift_ for _ in range(10)]
    assert np.mean(shifts) == pytest.approx(0.3, abs=0.1)


@pytest.mark.slow
@pytest.mark.parametrize("tolerance", [0.0, 0.1])
def test_false_alarms_of_a_year(tolerance):
    width = np.log1p(tolerance)
    for true in (lambda z: z, lambda z: z + width, lambda z: z - width * np.sign(z)):
        rng = np.random.default_rng(10)
        alarms = [first_alarm(rng, 50, true, 0, tolerance=tolerance)[1] for _ in range(400)]
        assert np.isfinite(alarms).mean() <= 0.072  # 5 % and two standard errors


@pytest.mark.slow
@pytest.mark.parametrize(
    ("n", "tolerance", "drift", "weeks"),
    [
        (50, 0.0, lambda z: z / 1.5, 10),
        (50, 0.1, lambda z: z / 1.5, 15),
        (50, 0.1, lambda z: z + np.log(1.5), 18),
        (500, 0.0, lambda z: z / 1.5, 2),
        (500, 0.1, lambda z: z / 1.2, 12),
        (500, 0.1, lambda z: z + 0.3, 6),
        (500, 0.0, lambda z: z + 0.3, 3),
    ],
)
def test_median_delays(n, tolerance, drift, weeks):
    delays = [
        first_alarm(np.random.default_rng([7, r]), n, drift, tolerance=tolerance)[1]
        for r in range(60)
    ]
    assert abs(np.median(delays) - weeks) <= 1 + (n == 50)
