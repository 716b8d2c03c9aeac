"""What stated probabilities stand for, by loops over bets and rows, and in simulated years."""

import math
from itertools import product

import numpy as np
import pandas as pd
import pytest
from calls import refused
from scipy.special import expit, logit

from skcalib import CalibrationMonitor, from_dict, to_dict
from skcalib._monitor import BETS, Resolution


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
    refused(rf"label yes at row {row} was not offered \(NaN in y_pro", monitor.update, wrong, P)
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
        refused("The stored CalibrationMonitor is refused", from_dict, {**document, "state": state})


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
