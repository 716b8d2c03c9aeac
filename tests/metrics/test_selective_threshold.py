"""The threshold with a guarantee: the rule in exact numbers, and how often the promise is kept."""

from fractions import Fraction
from functools import cache
from math import comb

import numpy as np
import pytest
from calls import refused
from scipy.special import betainc, expit
from scipy.stats import binom
from sklearn.datasets import load_digits
from sklearn.naive_bayes import GaussianNB

from skcalib.metrics import selective_threshold

# ------------------------------------------------------------------ a slow reference


@cache
def at_most(m, n, accuracy):
    """P(Bin(n, 1 - accuracy) <= m), exactly."""
    return sum(comb(n, k) * (1 - accuracy) ** k * accuracy ** (n - k) for k in range(m + 1))


@cache
def allowed(n, accuracy, alpha):
    """How many of n rows may be wrong, -1 if not even none."""
    most = -1
    while most < n and at_most(most + 1, n, accuracy) <= alpha:
        most += 1
    return most


def reference(score, hit, accuracy, alpha):
    """(threshold, rows, wrong) by loops over thresholds, the highest first."""
    accuracy, alpha = Fraction(accuracy), Fraction(alpha)
    levels = sorted(set(score), reverse=True)
    above = [[i for i, s in enumerate(score) if s >= t] for t in levels]
    rows = [len(some) for some in above]
    wrong = [sum(not hit[i] for i in some) for some in above]
    means = [sum(Fraction(score[i]) for i in some) / len(some) for some in above]
    # Rounding of the mean score must not matter.
    accurate = [n for n, mean in zip(rows, means, strict=True) if mean >= accuracy - Fraction(1e-9)]
    predicted, n = max(accurate, default=len(hit)), len(hit)
    two_wrong = next(m for m in range(3, 10_000) if allowed(m, accuracy, alpha) >= 2)
    wanted = min(max(Fraction(predicted, 3), two_wrong), Fraction(n, 5))

    def start(wanted, alpha):
        most = [-1, *(allowed(n, accuracy, alpha) for n in rows)]
        possible = [i for i in range(len(rows)) if most[i + 1] > most[i]]
        below = [i for i in possible if rows[i] < wanted][-1:]
        others = [i for i in possible if rows[i] >= wanted][:1]
        if below and others:  # of a tie the one below if it is nearer in logarithms
            is_nearer = wanted / rows[below[0]] < rows[others[0]] / wanted
            return below[0] if is_nearer and rows[others[0]] > 2 * wanted else others[0]
        return (below + others + [len(levels)])[0]

    def walk(first, end, alpha):
        best = -1
        for i in range(first, end):
            if at_most(wrong[i], rows[i], accuracy) > alpha:
                break
            best = i
        return best

    main, upper = start(wanted, alpha), start(wanted / 4, alpha / 10)
    best, rest = -1, alpha
    if upper < main and rows[upper] <= wanted / 2:
        main = start(wanted, 9 * alpha / 10)
        best = walk(upper, main, alpha / 10)
        rest = alpha if best == main - 1 else 9 * alpha / 10
    best = max(best, walk(main, len(levels), rest))
    return (np.inf, 0, 0) if best < 0 else (levels[best], rows[best], wrong[best])


def test_it_is_the_rule_in_exact_numbers():
    """Ties, copies, rows of weight 0, and rows in any order."""
    rng, found = np.random.default_rng(0), set()
    for _ in range(100):
        n = int(rng.integers(1, rng.choice([51, 121])))
        score = (rng.beta(3, 1, n) ** rng.choice([1, 20])).round(int(rng.integers(1, 4)))
        hit = rng.random(n) < score ** rng.choice([0.02, 0.2, 1])
        w = rng.integers(0, 3, n) if rng.random() < 0.5 else np.ones(n, dtype=int)
        accuracy, level = rng.choice([0.5, 0.8, 0.9]), rng.choice([0.6, 0.9])
        if not w.any():
            continue
        copies = np.repeat(score, w).tolist(), np.repeat(hit, w).tolist()
        expected = reference(*copies, accuracy, 1 - level)
        result = selective_threshold(
            hit, score, accuracy=accuracy, confidence_level=level, sample_weight=w
        )
        assert (result.threshold, result.rows, result.wrong) == expected
        assert result.coverage == result.rows / w.sum()
        found.add(np.isfinite(result.threshold))
        assert np.isinf(result.threshold) or result.threshold in score
    assert found == {True, False}


@pytest.mark.parametrize("weights", ["none", "counts"])
def test_blocks_of_thresholds_pass_by_one_test(weights, monkeypatch):
    """Otherwise tests take many times as long as the sort."""
    rng, tests = np.random.default_rng(0), []

    def counting(a, b, x):
        tests.append(np.size(a))
        return betainc(a, b, x)

    monkeypatch.setattr("skcalib.metrics._statistics.selective_threshold.betainc", counting)
    score, n = expit(np.abs(rng.normal(0, 3, 200_000))), 200_000
    w = {"none": None, "counts": rng.integers(1, 4, n)}
    selective_threshold(rng.random(n) < score, score, sample_weight=w[weights])
    assert 0 < sum(tests) < n / 20


def test_relative_weights_are_refused_and_equal_ones_are_none():
    """A tenth of the negatives is kept, with weight 10: the guarantee would break in 30 %."""
    rng = np.random.default_rng(1)
    hit, score = rng.random(400) < 0.9, rng.random(400)
    message = r"may depend on the labels: keep each row with probability w / w.max\(\)"
    refused(message, selective_threshold, hit, score, sample_weight=np.where(hit, 1.0, 10.0))
    expected = selective_threshold(hit, score, accuracy=0.7)
    assert np.isfinite(expected.threshold)
    for w in (np.full(400, 2.5), np.ones(400)):
        assert selective_threshold(hit, score, accuracy=0.7, sample_weight=w) == expected


def test_rows_that_are_kept_by_their_weights_keep_the_promise():
    """What the message tells to do, in a cell where relative weights broke it in 43 %."""
    broken, found = [], 0
    for i in range(200):
        rng = np.random.default_rng(i)
        z = rng.normal(0, 1.5, 12_000)
        rate, score = expit(2.2 * z - 4), expit(2 * z - 4)
        y = rng.random(12_000) < rate
        rows = np.flatnonzero(y | (rng.random(12_000) < 0.1))[:1000]
        w = np.where(y[rows], 1.0, 10.0)
        kept = rows[rng.random(1000) < w / w.max()]
        threshold = selective_threshold(y[kept], score[kept], accuracy=0.7).threshold
        found += np.isfinite(threshold)
        broken.append(np.isfinite(threshold) and rate[score >= threshold].mean() < 0.7)
    assert found > 20
    assert np.mean(broken) <= may_break(200)


def test_a_rare_event_and_a_tie_at_the_top_have_a_threshold():
    """257 surest rows of 20,000 without a wrong one, and 516 rows of 1.00, 97.3 % of them right."""
    score = np.append(np.linspace(0.99, 0.97, 257), np.linspace(0.4, 0.0, 19_743))
    rare = selective_threshold(np.arange(20_000) < 257, score, accuracy=0.95)
    more = max(m for m in range(50) if binom.cdf(m, 257 + m, 0.05) <= 0.05)
    assert (rare.rows, rare.wrong) == (257 + more, more)
    score = np.repeat([1.0, 0.99, 0.9, 0.6], [516, 408, 1076, 1000])
    wrong = np.concatenate([np.arange(n) < m for n, m in ((516, 14), (408, 31), (2076, 900))])
    tied = selective_threshold(~wrong, score, accuracy=0.95)
    assert (tied.threshold, tied.rows, tied.wrong) == (1.0, 516, 14)


def test_the_reason_why_there_is_no_threshold():
    """Rows are too few only where the test of all rows, none of them wrong, would fail."""
    score = np.repeat([0.99, 0.6], [924, 2076])
    hit = np.concatenate([np.arange(924) >= 45, np.arange(2076) >= 900])
    found = selective_threshold(hit, score, accuracy=0.95)
    p = binom.cdf(45, 924, 0.05)
    assert found.reason == (
        "no tested threshold reaches 95 %: for scores of at least 0.99, 95.1 % of 924 predictions "
        f"are correct (p = {p:.2g} > 0.05)"
    )
    assert repr(found).endswith(f"wrong=0): {found.reason}")
    few = selective_threshold(hit[:58], score[:58], accuracy=0.95)
    assert few.reason == (
        "at least 59 rows are needed, even without a wrong prediction, but there are only 58"
    )
    assert few.rows_needed == 59
    assert selective_threshold(hit, score, accuracy=0.9).reason == ""


@pytest.mark.parametrize(
    ("accuracy", "wrong", "rows"),
    [(0.8, 0, 14), (0.9, 0, 29), (0.95, 0, 59), (0.98, 0, 149), (0.99, 0, 299)]
    + [(0.95, m, n) for m, n in zip(range(1, 6), (93, 124, 153, 181, 208), strict=True)],
)
def test_so_many_rows_are_enough_and_one_less_is_not(accuracy, wrong, rows):
    """Known sample sizes of success runs, by 95 % confidence; all rows have one score."""
    hit = np.arange(rows) >= wrong
    assert selective_threshold(hit, np.ones(rows), accuracy=accuracy).rows == rows
    fewer = selective_threshold(hit[:-1], np.ones(rows - 1), accuracy=accuracy)
    assert fewer.threshold == np.inf
    assert wrong > 0 or fewer.rows_needed == rows


def test_several_columns_are_the_top_label_two_too_and_pos_label_is_the_event():
    X, y = load_digits(return_X_y=True)
    P = GaussianNB().fit(X[::2], y[::2]).predict_proba(X[1::2])
    truth, top = y[1::2], P.max(axis=1)
    expected = selective_threshold(P.argmax(axis=1) == truth, top, accuracy=0.9)
    assert selective_threshold(truth, P, accuracy=0.9) == expected
    two = np.column_stack([1 - P[:, 3], P[:, 3]])
    hit = two.argmax(axis=1) == (truth == 3)
    assert selective_threshold(truth == 3, two) == selective_threshold(hit, two.max(axis=1))
    event = selective_threshold(truth == 3, P[:, 3], accuracy=0.9)
    assert selective_threshold(truth == 3, two, accuracy=0.9, pos_label=True) == event
    assert selective_threshold(truth, P, accuracy=0.9, pos_label=3) == event
    single = selective_threshold(truth == 3, P[:, 3].astype(np.float32), accuracy=0.9)
    assert np.float32(single.threshold) == single.threshold  # compared as it is stored


def test_all_right_all_wrong_and_a_single_row():
    rng = np.random.default_rng(0)
    score = rng.random(100)
    assert selective_threshold(np.ones(100), score, accuracy=0.9).threshold == score.min()
    none = selective_threshold(np.zeros(100), score)
    assert none[:2] == (np.inf, 0.0)
    assert np.isnan(none.accuracy)
    assert np.isinf(none.threshold)
    assert selective_threshold([1], [1.0], accuracy=0.5, confidence_level=0.5).rows == 1
    assert selective_threshold([1], [1.0]).threshold == np.inf


@pytest.mark.parametrize(
    ("keywords", "message"),
    [
        ({"accuracy": 1.0}, r"accuracy must be a number in \(0, 1\); got 1.0."),
        ({"accuracy": True}, r"accuracy must be a number in \(0, 1\); got True."),
    ],
)
def test_numbers_outside_0_and_1_are_refused(keywords, message):
    refused(message, selective_threshold, [0, 1], [0.2, 0.9], **keywords)


# ------------------------------------------------------------------ the promise

GRID = np.linspace(0, 1, 20001)


CONFIDENCES = np.sort(expit(np.abs(np.random.default_rng(0).normal(0, 4, 400_001))))[::-1]


def confident(u):
    """Calibrated confidences expit|x|, x normal with deviation 4, by their rank."""
    return CONFIDENCES[np.minimum((u * CONFIDENCES.size).astype(int), CONFIDENCES.size - 1)]


def truths(t):
    """Accuracies as functions of the rank u from the top, e being the errors that t allows."""
    e = 1 - t

    def waves(u):
        octave = np.floor(np.log2(np.maximum(u, 1e-6)) * 3).astype(int) % 2
        return np.where(octave == 0, 1 - 1.25 * e, 1 - 0.8 * e)

    return {
        "just below everywhere": lambda u: np.full_like(u, t - 0.0005),
        "crosses near .45": lambda u: np.select(
            [u < 0.2, u < 0.4], [1 - 0.98 * e, 1 - 1.06 * e], 1 - 1.2 * e
        ),
        "crosses sharply": lambda u: np.where(u < 0.3, 1 - 0.3 * e, 1 - 1.75 * e),
        "waves": waves,
        "wrong at the top": lambda u: np.select(
            [u < 0.1, u < 0.3], [1 - 1.3 * e, 1 - 0.7 * e], 1 - 1.5 * e
        ),
        "confident": confident,
    }


def simulate(name, n, t, ties, repetitions, seed=0, rule=selective_threshold):
    """Share of broken promises, and the mean share of rows that are acted on."""
    rng, truth = np.random.default_rng(seed), truths(t)[name]
    total = np.append(0.0, np.cumsum(truth((GRID[1:] + GRID[:-1]) / 2)) / (GRID.size - 1))
    broken = shares = 0.0
    for _ in range(repetitions):
        u = rng.random(n)
        hit = rng.random(n) < truth(u)
        if ties:  # scores in steps of 0.01, many of them at the top
            u = np.where(u < 0.3, 0.3, np.ceil(u * 100) / 100)
        share = 1 - rule(hit, 1 - u, accuracy=t)[0]
        if np.isfinite(share):
            broken += np.interp(share, GRID, total) / share < t - 1e-9
            shares += share
    return broken / repetitions, shares / repetitions


CELLS = [
    (name, n, t, ties)
    for n in (100, 300, 1000)
    for t in (0.8, 0.9, 0.95)
    for name in truths(0.9)
    for ties in (False, True)
]


def may_break(repetitions):
    return 0.05 + 2 * np.sqrt(0.05 * 0.95 / repetitions)


@pytest.mark.parametrize("cell", CELLS[::11])
def test_the_promise_is_broken_in_at_most_5_percent_of_samples(cell):
    assert simulate(*cell, repetitions=200)[0] <= may_break(200)


@pytest.mark.slow
def test_the_promise_in_every_cell():
    """Hostile truths too, 2,000 repetitions each."""
    above = {cell: b for cell in CELLS if (b := simulate(*cell, 2000)[0]) > may_break(2000)}
    assert not above


def test_a_search_of_all_thresholds_would_break_it():
    """So that the test above can fail."""

    def lowest(hit, score, accuracy):
        order = np.argsort(-score)
        m, n = np.cumsum(~hit[order]), np.arange(1, hit.size + 1)
        passed = np.flatnonzero(binom.cdf(m, n, 1 - accuracy) <= 0.05)
        return (score[order][passed[-1]] if passed.size else np.inf,)

    found = simulate("just below everywhere", 300, 0.9, False, 200, rule=lowest)
    assert found[0] > may_break(200)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("n", "t", "share"),
    [
        (300, 0.9, 0.794),
        (300, 0.95, 0.462),
        (1000, 0.9, 0.863),
        (1000, 0.95, 0.645),
        (10_000, 0.99, 0.356),
    ],
)
def test_it_acts_on_as_many_rows_as_the_rule_was_chosen_for(n, t, share):
    """Of confidences expit|x|: .919 of the rows are possible at .9, .730 at .95."""
    found = simulate("confident", n, t, False, 2000)[1]
    assert found == pytest.approx(share, abs=0.01)
