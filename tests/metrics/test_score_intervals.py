"""Intervals of the parts of a score equal loops over rows; those by isotonic regression hold."""

import math
import pickle

import numpy as np
import pytest
import reference as ref
from scipy.optimize import brentq
from scipy.stats import norm, t
from sklearn.isotonic import IsotonicRegression

from skcalib import TemperatureScaling
from skcalib._validation.predictions import check_predictions
from skcalib.metrics import calibration_interval, score_decomposition
from skcalib.metrics._interval.cells import CellError
from skcalib.metrics._interval.errors import label_errors
from skcalib.metrics._interval.intervals import Simulated, simulate
from skcalib.metrics._interval.label_sets import LabelSets, Truth
from skcalib.metrics._interval.score_cells import SharedRows
from skcalib.metrics._interval.truths import on_path, too_high
from skcalib.metrics._resampling import Evaluation
from skcalib.metrics._score_intervals import (
    discrimination_interval,
    miscalibration,
    parts_by_cells,
)
from skcalib.metrics._score_parts import Request, isotonic_means

PARTS = ("score", "miscalibration", "discrimination", "uncertainty")
SCORES = ["brier", "log"]


def sample(n=200, seed=0, digits=2):
    rng = np.random.default_rng(seed)
    p = rng.beta(1, 2, n).round(digits).clip(0.01, 0.99)
    return (rng.random(n) < p**1.4).astype(int), p


def ends(found, part):
    return getattr(found, f"{part}_low"), getattr(found, f"{part}_high")


def all_ends(found):
    return np.array([ends(found, part) for part in PARTS])


def loss(p, hit, score):
    if score == "brier":
        return (p - hit) ** 2
    return -math.log(p if hit else 1 - p)


def hall(values, level=0.95):
    """Hall's interval of a mean, by loops: values of all copies."""
    n = len(values)
    mean = sum(values) / n
    sd = math.sqrt(sum((x - mean) ** 2 for x in values) / n)
    a = sum((x - mean) ** 3 for x in values) / n / sd**3 / math.sqrt(n)
    q = t.ppf((1 + level) / 2, n - 1)
    low, high = (3 / a * (math.cbrt(1 + a * (x - a / 6)) - 1) for x in (q, -q))
    return mean - sd / math.sqrt(n - 1) * low, mean - sd / math.sqrt(n - 1) * high


def wilson(share, n, level=0.95):
    """The rates that a score test of the share does not reject."""
    z = norm.ppf((1 + level) / 2)

    def excess(r):
        return (share - r) ** 2 - z * z * r * (1 - r) / n

    low = brentq(excess, 0, share - 1e-9, xtol=1e-14) if share else 0.0
    return low, brentq(excess, share + 1e-9, 1, xtol=1e-14) if share < 1 else 1.0


def entropy(r, score):
    if score == "brier":
        return r * (1 - r)
    return -sum(x * math.log(x) for x in (r, 1 - r) if x)


# ------------------------------------------------------------------ means and rates


@pytest.mark.usefixtures("few_label_sets")
@pytest.mark.parametrize("level", [0.8, 0.95])
@pytest.mark.parametrize("score", SCORES)
def test_the_score_and_the_uncertainty_equal_loops(score, level):
    y, p = sample()
    found = score_decomposition(y, p, score=score, confidence_level=level)
    each = [loss(a, b, score) for a, b in zip(p, y, strict=True)]
    assert ends(found, "score") == pytest.approx(hall(each, level), abs=1e-12)
    rates = np.linspace(*wilson(y.mean(), y.size, level), 2001)
    image = [entropy(r, score) for r in rates]
    assert ends(found, "uncertainty") == pytest.approx((min(image), max(image)), abs=1e-7)
    assert found.confidence_level == level


@pytest.mark.usefixtures("few_label_sets")
def test_weights_are_copies_and_rows_of_weight_0_are_absent():
    y, p = sample(60)
    w = np.random.default_rng(1).integers(0, 4, 60)
    found = score_decomposition(y, p, sample_weight=w)
    copies = score_decomposition(np.repeat(y, w), np.repeat(p, w))
    for part in ("score", "uncertainty"):
        assert ends(found, part) == pytest.approx(ends(copies, part), abs=1e-12)
    absent = score_decomposition(y[w > 0], p[w > 0], sample_weight=w[w > 0])
    np.testing.assert_array_equal(all_ends(found), all_ends(absent))
    low, high = ends(found, "miscalibration")
    assert 0 <= low <= high


@pytest.mark.usefixtures("few_label_sets")
def test_rates_near_one_half_may_have_the_largest_uncertainty():
    y, p = np.array([0, 1] * 50), np.linspace(0.1, 0.9, 100)
    for score, most in (("brier", 0.25), ("log", math.log(2))):
        low, high = ends(score_decomposition(y, p, score=score), "uncertainty")
        assert low < most
        assert high == pytest.approx(most)


def shares_by_matrices(share, n, score, joint, level=0.95):
    """The interval of K classes with whole matrices of second derivatives and covariances."""
    K, z = len(share), norm.ppf((1 + level) / 2)
    r = np.array([(n * s + z * z / 2 / K) / (n + z * z / 2) for s in share])
    n = n + z * z / 2
    S = np.diag(r) - np.outer(r, r)

    def f(x):
        if score == "brier":
            return x - x * x if joint else x * (1 - x) / K
        return -x * np.log(x) if joint else (-x * np.log(x) - (1 - x) * np.log(1 - x)) / K

    h = 1e-4
    slope = (f(r + h) - f(r - h)) / (2 * h)
    D = np.diag((f(r + h) - 2 * f(r) + f(r - h)) / h**2)
    sd = np.sqrt(slope @ S @ slope / n + np.trace(D @ S @ D @ S) / (2 * n * n))
    middle = f(r).sum() - np.trace(D @ S) / (2 * n)
    return max(middle - z * sd, 0), min(middle + z * sd, K * f(1 / K))


@pytest.mark.usefixtures("few_label_sets")
@pytest.mark.parametrize("score", SCORES)
def test_several_classes_equal_matrices_and_loops(score):
    y, P = ref.predictions(3, 90, seed=0)
    y[:3] = 0, 1, 2
    P = 0.9 * P + 0.1 / 3
    share = [float(np.mean(y == k)) for k in range(3)]
    fitted = TemperatureScaling().fit(P, y)
    Q = fitted.predict_proba(P)
    joint = score_decomposition(y, P, score=score, mode="joint", calibrator=fitted)
    found = shares_by_matrices(share, 90, score, joint=True)
    assert ends(joint, "uncertainty") == pytest.approx(found, abs=1e-6)

    def of_vector(p, k):
        if score == "log":
            return -math.log(p[k])
        return sum((p[j] - (j == k)) ** 2 for j in range(3))

    given, after, base = ([of_vector(r, k) for r, k in zip(R, y, strict=True)]
                          for R in (P, Q, [share] * 90))  # fmt: skip
    parts = [given, np.subtract(given, after).tolist(), np.subtract(base, after).tolist()]
    for part, values in zip(PARTS, parts, strict=False):
        assert ends(joint, part) == pytest.approx(hall(values), abs=1e-12)
    each = score_decomposition(y, P, score=score, mode="classwise", average=None)
    mean = score_decomposition(y, P, score=score, mode="classwise")
    rows = np.array([
        [loss(P[i, k], int(y[i] == k), score) for i in range(90)] for k in range(3)
    ])  # fmt: skip
    assert ends(mean, "score") == pytest.approx(hall(rows.mean(axis=0).tolist()), abs=1e-12)
    found = shares_by_matrices(share, 90, score, joint=False)
    assert ends(mean, "uncertainty") == pytest.approx(found, abs=1e-6)
    for k in range(3):
        alone = score_decomposition(y, P, score=score, pos_label=k)
        for part in ("score", "uncertainty"):
            found = [end[k] for end in ends(each, part)]
            assert found == pytest.approx(ends(alone, part), abs=1e-12)
    assert all(end.shape == (3,) for part in PARTS for end in ends(each, part))


@pytest.mark.parametrize("score", SCORES)
def test_by_a_calibrator_parts_are_means_over_rows(score):
    """Of one event, the top label and the mean of the classes; they may be below 0."""
    y, P = ref.predictions(3, 80, seed=2)
    y[:3] = 0, 1, 2
    P = 0.9 * P + 0.1 / 3
    fitted = TemperatureScaling().fit(P, np.roll(y, 1))
    Q = fitted.predict_proba(P)
    top = P.argmax(axis=1)
    rows = np.arange(80)
    problems = {
        "event": [(P[:, 1], Q[:, 1], (y == 1).astype(int))],
        "top": [(P[rows, top], Q[rows, top], (top == y).astype(int))],
        "classwise": [(P[:, k], Q[:, k], (y == k).astype(int)) for k in range(3)],
    }
    for kind, each in problems.items():
        asked = {"pos_label": 1} if kind == "event" else {"mode": kind}
        found = score_decomposition(y, P, score=score, calibrator=fitted, **asked)
        parts = np.zeros((3, 80))
        for p, q, hit in each:
            given, after, base = (
                np.array([loss(a, b, score) for a, b in zip(r, hit, strict=True)])
                for r in (p, q, np.full(80, hit.mean()))
            )
            parts += np.array([given, given - after, base - after]) / len(each)
        for part, values in zip(PARTS, parts, strict=False):
            assert ends(found, part) == pytest.approx(hall(values.tolist()), abs=1e-12)
    assert ends(found, "miscalibration")[0] < 0


# ------------------------------------------------------------------ by isotonic regression


@pytest.mark.parametrize("score", SCORES)
def test_isotonic_means_of_many_tables_are_those_of_each(score):
    rng = np.random.default_rng(0)
    W = rng.integers(0, 4, (50, 30)).astype(float)
    W[:, 0] = 1
    H = rng.binomial(W.astype(int), 0.3)
    found = isotonic_means(H.astype(float), W, score)
    for hits, weight, mean in zip(H, W, found, strict=True):
        full = weight > 0
        h, w = hits[full], weight[full]
        level = IsotonicRegression(y_min=0, y_max=1).fit(range(h.size), h / w, w)
        rates = level.predict(range(h.size))
        total = sum(b * entropy(a, score) for a, b in zip(rates, w, strict=True))
        assert mean == pytest.approx(total / w.sum(), abs=1e-12)


@pytest.mark.parametrize("score", SCORES)
@pytest.mark.parametrize("part", ["miscalibration", "discrimination"])
@pytest.mark.parametrize("mode", ["top", "classwise"])
def test_parts_of_cells_are_those_of_the_rows(score, part, mode):
    """Up to 256 distinct scores; the limit is that of rows whose hits are their rates."""
    y, P = ref.predictions(3, 60, seed=1, kind="ties")
    P = 0.9 * P + 0.1 / 3
    w = np.random.default_rng(0).uniform(0.5, 2, 60)
    predictions = check_predictions(y, P, w, range(3), None)
    keywords = {"score": score, "mode": mode, "average": "macro"}
    error = parts_by_cells(predictions, keywords, SharedRows(), part=part)
    found = error.observed(LabelSets(predictions.code[None]))[0]
    asked = {"score": score, "mode": mode, "sample_weight": w, "labels": range(3)}
    assert found == pytest.approx(getattr(score_decomposition(y, P, **asked), part), abs=1e-12)
    if part == "miscalibration":
        assert error.limits(Truth(P))[0] == pytest.approx(0, abs=1e-12)
    else:
        none = np.full(P.shape, 1 / 3)
        assert error.limits(Truth(none))[0] == pytest.approx(0, abs=1e-12)


@pytest.mark.usefixtures("few_label_sets")
def test_the_miscalibration_has_the_interval_of_a_calibration_error():
    y, p = sample(300)
    own = calibration_interval(
        miscalibration, y, p, random_state=0, score="brier", mode=None, average="macro"
    )
    found = score_decomposition(y, p)
    assert ends(found, "miscalibration") == (own.low[0], own.high[0])


@pytest.mark.slow
@pytest.mark.parametrize("t", [0.5, 1, 2, 4])
def test_the_miscalibration_by_cells_is_simulated_as_the_one_by_calls(t):
    """Means and standard deviations of 500 sets of labels are within four standard errors."""
    y, p = sample(100)

    def by_calls(y, p, sample_weight=None):
        return score_decomposition(y, p, sample_weight=sample_weight).miscalibration

    predictions = check_predictions(y, p)
    keywords = {"score": "brier", "mode": None, "average": "macro"}
    evaluations = [
        Evaluation(miscalibration, keywords, column=False),
        Evaluation(by_calls, {}, column=True),
    ]
    np.testing.assert_allclose(*(each(predictions) for each in evaluations), rtol=1e-12)
    q = on_path(predictions.P, too_high(predictions.P, predictions.event), t)
    found = [
        simulate(label_errors([evaluate], predictions), q, 500, np.random.SeedSequence(seed))
        for seed, evaluate in enumerate(evaluations)
    ]
    assert isinstance(label_errors(evaluations[:1], predictions)[0], CellError)
    np.testing.assert_allclose(*(each.limits for each in found), rtol=1e-6)
    cells, calls = (each.values.ravel() for each in found)
    sd = calls.std()
    assert abs(cells.mean() - calls.mean()) < 4 * sd * np.sqrt(2 / 500)
    assert abs(cells.std() - sd) < 4 * sd * np.sqrt(1 / 500)


@pytest.mark.parametrize("observed", [0.012, 0.02, 0.05])
def test_the_discrimination_is_as_far_from_the_sample_as_labels_of_one_truth_vary(
    observed, monkeypatch
):
    """Bias, variance of labels and of rows are given; the ends are roots of the equation."""
    values = np.array([[0.04], [0.05], [0.06]])
    without = np.array([[0.03], [0.034], [0.029]])
    for name, result in (
        ("simulate", Simulated(np.array([0.04]), values)),
        ("limits_without", without),
        ("observed_of", np.array([observed])),
    ):
        monkeypatch.setattr(f"skcalib.metrics._score_intervals.{name}", lambda *_, r=result: r)
    y, p = sample(50)
    asked = Request(check_predictions(y, p), "brier", "top", "macro", None)
    (low,), (high,) = discrimination_interval(asked, 0.95, 0, np.column_stack([1 - p, p]))
    rows = 2 / 3 * sum((float(x) - without.mean()) ** 2 for x in without.ravel())
    square, value = 0.01**2 + rows, observed - 0.01
    z = norm.ppf(0.975)

    def excess(d):
        return (value - d) ** 2 - z * z * square * d / max(value, math.sqrt(square))

    assert high == pytest.approx(brentq(excess, value, 1, xtol=1e-14))
    if value > z * math.sqrt(square):
        assert low == pytest.approx(brentq(excess, 0, value, xtol=1e-14))
    else:
        assert low == 0


@pytest.mark.parametrize("score", SCORES)
def test_parts_of_very_many_rows_are_held(score):
    """Scores uniform in [0, 1], and the truth is their square."""
    rng = np.random.default_rng(5)
    p = rng.uniform(0.02, 0.98, 4000)
    found = score_decomposition(rng.random(4000) < p**2, p, score=score)
    s = np.linspace(0.02, 0.98, 100_001)
    q, r = s**2, np.mean(s**2)
    if score == "brier":
        given, best, base = (
            np.mean(q * (1 - s) ** 2 + (1 - q) * s**2),
            np.mean(q - q * q),
            r - r * r,
        )
    else:
        given = -np.mean(q * np.log(s) + (1 - q) * np.log(1 - s))
        best = -np.mean(q * np.log(q) + (1 - q) * np.log(1 - q))
        base = entropy(float(r), "log")
    true = [given, given - best, base - best, base]
    low, high = all_ends(found).T
    assert (low < true).all()
    assert (true < high).all()
    assert (high - low < [0.05, 0.05, 0.09, 0.03]).all()
    assert found.discrimination_high <= found.uncertainty_high


def test_a_calibrated_model_and_one_that_tells_nothing_apart():
    rng = np.random.default_rng(0)
    p = rng.beta(2, 3, 500)
    assert score_decomposition(rng.random(500) < p, p).miscalibration_low == 0
    alike = score_decomposition(rng.random(500) < 0.4, p)
    assert alike.discrimination_low == 0
    assert alike.discrimination_high > 0
    assert alike.miscalibration_low > 0


# ------------------------------------------------------------------ what has no interval


@pytest.mark.parametrize("only", [0, 1])
@pytest.mark.parametrize("score", SCORES)
def test_of_one_outcome_only_the_uncertainty_has_an_interval(score, only):
    found = score_decomposition([only] * 40, np.linspace(0.2, 0.7, 40), score=score)
    assert np.isnan(all_ends(found)[:3]).all()
    _, rate = wilson(0.0, 40)
    assert ends(found, "uncertainty") == pytest.approx((0, entropy(rate, score)), abs=1e-12)
    assert "score=" in repr(found)
    apart = score_decomposition([only] * 40, np.tile([0.5, 0.3, 0.2], (40, 1)), mode="classwise",
                                average=None, labels=range(3))  # fmt: skip
    assert np.isnan(apart.score_low).all()
    assert np.isfinite(apart.uncertainty_high).all()


@pytest.mark.usefixtures("few_label_sets")
def test_a_log_score_of_exact_0_and_1_may_be_infinite():
    y, p = sample(80)
    p[:2], y[:2] = (0.0, 1.0), (0, 1)
    found = score_decomposition(y, p, score="log")
    assert np.isfinite(found.score)
    assert np.isnan(all_ends(found)[:2]).all()
    assert np.isfinite(all_ends(found)[2:]).all()
    assert np.isfinite(all_ends(score_decomposition(y, p))).all()
    happened = score_decomposition(1 - y, p, score="log")
    assert happened.score == math.inf
    assert np.isnan(happened.score_high)


@pytest.mark.usefixtures("few_label_sets")
def test_constant_predictions_tell_nothing_apart():
    y = (np.random.default_rng(0).random(200) < 0.3).astype(int)
    found = score_decomposition(y, np.full(200, 0.5))
    assert ends(found, "discrimination") == (0, 0)
    assert np.isnan(found.score_low)  # every row has the score 1/4: none shows how it varies
    low, high = ends(found, "miscalibration")
    assert low < 0.2**2 < high
    other = score_decomposition(y, np.full(200, 0.3))
    assert other.score_low < 0.3 * 0.7 < other.score_high


@pytest.mark.parametrize("n", [1, 2, 3])
def test_of_a_few_rows_there_are_intervals_or_none(n):
    found = score_decomposition([0, 1, 0][:n], [0.2, 0.6, 0.3][:n])
    low, high = all_ends(found).T
    assert (np.isnan(low) | (low <= high)).all()
    assert np.isnan(low[:3]).all() == (n == 1)


def test_soft_hits_and_parts_made_by_hand_have_no_intervals():
    _, p = sample(50)
    found = score_decomposition(np.sqrt(p), p)
    assert np.isnan(all_ends(found)).all()
    assert " to " not in repr(found)
    made = type(found)(*found)
    assert made == found
    assert np.isnan(all_ends(made)).all()


@pytest.mark.usefixtures("few_label_sets")
def test_intervals_are_computed_once_and_stored():
    y, p = sample(100)
    found = score_decomposition(y, p)
    assert "_ends" not in vars(found)
    expected = all_ends(found)
    assert found._ends is found._ends
    copy = pickle.loads(pickle.dumps(score_decomposition(y, p)))
    assert copy == found
    np.testing.assert_array_equal(all_ends(copy), expected)
    narrow = score_decomposition(y, p, confidence_level=0.5)
    low, high = all_ends(narrow).T
    assert (expected[:, 0] <= low).all()
    assert (high <= expected[:, 1]).all()
