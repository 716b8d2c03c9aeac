"""The threshold with a guarantee: the rule in exact numbers, and how often the promise is kept."""

from fractions import Fraction
from math import comb

import numpy as np
import pytest
from scipy.special import betainc, expit
from scipy.stats import beta, binom
from sklearn.datasets import load_digits
from sklearn.naive_bayes import GaussianNB

from skcalib.metrics import selective_threshold

# ------------------------------------------------------------------ a slow reference


def at_most(m, n, accuracy):
    """P(Bin(n, 1 - accuracy) <= m), exactly; of an effective number n by the Beta integral."""
    if isinstance(n, float):
        return 1.0 if m >= n else beta.cdf(float(accuracy), n - m, m + 1)
    return sum(comb(n, k) * (1 - accuracy) ** k * accuracy ** (n - k) for k in range(m + 1))


def allowed(n, accuracy, alpha):
    """How many of n rows may be wrong, -1 if not even none."""
    most = -1
    while most < n and at_most(most + 1, n, accuracy) <= alpha:
        most += 1
    return most


def reference(score, hit, accuracy, alpha, w=None):
    """(threshold, rows, wrong) by loops over thresholds, the highest first; w are relative."""
    accuracy, alpha = Fraction(accuracy), Fraction(alpha)
    levels = sorted(set(score), reverse=True)
    above = [np.flatnonzero(np.asarray(score) >= t) for t in levels]
    wrong = [sum(not hit[i] for i in some) for some in above]
    rows, share_of = (
        [len(rows) for rows in above],
        [Fraction(len(rows), len(hit)) for rows in above],
    )
    if w is not None:
        wrong = [np.average(~hit[some], weights=w[some]) for some in above]
        rows = [float(sum(w[some]) ** 2 / sum(w[some] ** 2)) for some in above]
        wrong = [n * m for n, m in zip(rows, wrong, strict=True)]
        share_of = [sum(w[some]) / sum(w) + 1e-12 for some in above]

    def start(share, alpha):
        most = -1
        for i, count in enumerate(rows):
            before, most = most, allowed(count, accuracy, alpha)
            if share_of[i] >= share and most > before:
                return i
        return len(levels)

    def walk(first, end, alpha):
        best = -1
        for i in range(first, end):
            if at_most(wrong[i], rows[i], accuracy) > alpha:
                break
            best = i
        return best

    main, upper = start(Fraction(1, 5), alpha), start(Fraction(1, 20), alpha / 10)
    best, rest = -1, alpha
    if upper < main and share_of[upper] <= Fraction(1, 10):
        main = start(Fraction(1, 5), 9 * alpha / 10)
        best = walk(upper, main, alpha / 10)
        rest = alpha if best == main - 1 else 9 * alpha / 10
    best = max(best, walk(main, len(levels), rest))
    return (np.inf, 0, 0) if best < 0 else (levels[best], rows[best], wrong[best])


def test_it_is_the_rule_in_exact_numbers():
    """Ties, copies, rows of weight 0, and rows in any order."""
    rng, found = np.random.default_rng(0), set()
    for _ in range(200):
        n = int(rng.integers(1, 61))
        score = rng.beta(3, 1, n).round(int(rng.integers(1, 4)))
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


def test_relative_weights_are_the_rule_with_the_effective_number_of_rows():
    """Blocks of thresholds and their ends; the effective number may fall from one to the next."""
    rng, results = np.random.default_rng(2), set()
    for n in (1, 5, 130, 200, 300, 400) * 4:
        score, w = rng.beta(3, 1, n).round(int(rng.integers(1, 5))), rng.lognormal(0, 1, n)
        hit = rng.random(n) < score ** rng.choice([0.02, 0.2, 0.5])
        accuracy = rng.choice([0.5, 0.8, 0.9])
        threshold, rows, wrong = reference(score, hit, accuracy, 0.05, w)
        result = selective_threshold(hit, score, accuracy=accuracy, sample_weight=w)
        assert result.threshold == threshold
        assert (result.rows, result.wrong) == pytest.approx((rows, wrong))
        results.add(np.isfinite(threshold))
    assert results == {True, False}


@pytest.mark.parametrize("weights", ["none", "counts", "relative"])
def test_blocks_of_thresholds_pass_by_one_test(weights, monkeypatch):
    """Otherwise relative weights take many times as long as the sort."""
    rng, tests = np.random.default_rng(0), []

    def counting(a, b, x):
        tests.append(np.size(a))
        return betainc(a, b, x)

    monkeypatch.setattr("skcalib.metrics._statistics.selective_threshold.betainc", counting)
    score, n = expit(np.abs(rng.normal(0, 3, 200_000))), 200_000
    w = {"none": None, "counts": rng.integers(1, 4, n), "relative": rng.exponential(size=n)}
    selective_threshold(rng.random(n) < score, score, sample_weight=w[weights])
    assert 0 < sum(tests) < n / 20


def test_relative_weights_count_as_the_effective_number_of_the_rows_above():
    """Weights as floats; scaling them changes nothing, and equal ones are none."""
    rng = np.random.default_rng(1)
    score, w = rng.random(400), rng.exponential(size=400)
    hit = rng.random(400) < 0.5 + score / 2
    result = selective_threshold(hit, score, accuracy=0.7, sample_weight=w)
    above = score >= result.threshold
    effective = w[above].sum() ** 2 / (w[above] ** 2).sum()
    assert result.rows == pytest.approx(effective, rel=1e-12)
    assert result.wrong == pytest.approx(effective * np.average(~hit[above], weights=w[above]))
    assert result.coverage == pytest.approx(w[above].sum() / w.sum())
    scaled = selective_threshold(hit, score, accuracy=0.7, sample_weight=1e6 * w)
    assert scaled == pytest.approx(result)
    equal = selective_threshold(hit, score, accuracy=0.7, sample_weight=np.full(400, 2.0))
    assert equal == selective_threshold(hit, score, accuracy=0.7)


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
    assert repr(none).endswith("wrong=0): no threshold; 59 rows without a wrong one would do")
    assert selective_threshold([1], [1.0], accuracy=0.5, confidence_level=0.5).rows == 1
    assert selective_threshold([1], [1.0]).threshold == np.inf


@pytest.mark.parametrize(
    ("keywords", "message"),
    [
        ({"accuracy": 1.0}, r"accuracy must be a number in \(0, 1\); got 1.0."),
        ({"accuracy": True}, r"accuracy must be a number in \(0, 1\); got True."),
        ({"confidence_level": 0}, r"confidence_level must be a number in \(0, 1\)"),
    ],
)
def test_numbers_outside_0_and_1_are_refused(keywords, message):
    with pytest.raises(ValueError, match=message):
        selective_threshold([0, 1], [0.2, 0.9], **keywords)


def test_soft_hits_are_refused():
    with pytest.raises(ValueError, match="selective_threshold takes labels of 0 and 1 only"):
        selective_threshold([0.5, 1.0], [0.2, 0.9])


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
