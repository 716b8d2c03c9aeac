"""Score decompositions equal loops; intervals of means of scores and of shares."""

import math

import numpy as np
import pytest
import reference as ref
from calls import refused
from edges import minmax_isotonic
from scipy.stats import t
from sklearn.linear_model import LogisticRegression

from skcalib import IsotonicCalibrator, TemperatureScaling, VectorScaling
from skcalib.metrics import score_decomposition
from skcalib.metrics._statistics.scores import RowLosses, mean_interval

SCORES = ["brier", "log"]


def loss(p, t, score):
    """Score of one probability."""
    if score == "brier":
        return (p - t) ** 2
    of_truth = p if t else 1 - p
    return -math.log(of_truth) if of_truth > 0 else math.inf


def decomposition(scores, hits, weights, score, recalibrated=None):
    """Score, MCB, DSC and UNC of one binary problem, by loops."""
    if recalibrated is None:
        level = dict(zip(*minmax_isotonic(scores, hits, weights), strict=True))
        recalibrated = [level[s] for s in scores]
    total = sum(weights)
    base = sum(w * t for w, t in zip(weights, hits, strict=True)) / total

    def mean(probabilities):
        rows = zip(probabilities, hits, weights, strict=True)
        return sum(w * loss(p, t, score) for p, t, w in rows) / total

    s, c, r = mean(scores), mean(recalibrated), mean([base] * len(scores))
    return [s, s - c, r - c, r]


def close(found, expected):
    np.testing.assert_allclose(np.array(found[:4]).T, np.array(expected), atol=1e-12)


@pytest.mark.parametrize("score", SCORES)
@pytest.mark.parametrize("kind", ["ties", "hard"])
@pytest.mark.parametrize("weighted", [False, True])
def test_equals_the_loop(score, kind, weighted):
    """One event, the top label, each class, and their mean."""
    for K in (2, 4):
        y, P = ref.predictions(K, 24, seed=K, kind=kind)
        y[5:12] = 1  # of four classes, the last never occurs
        w = np.random.default_rng(K).uniform(0.2, 3, 24) if weighted else None
        weights = np.ones(24) if w is None else w
        given = {"score": score, "sample_weight": w, "labels": range(K)}
        each = [
            decomposition(P[:, k].tolist(), (y == k).astype(int).tolist(), weights, score)
            for k in range(K)
        ]
        close(score_decomposition(y, P, pos_label=1, **given), each[1])
        top = decomposition(*ref.top(y, P, 1, within=False), weights, score)
        close(score_decomposition(y, P, mode="top", **given), top)
        close(score_decomposition(y, P, **given), each[1] if K == 2 else top)
        apart = score_decomposition(y, P, mode="classwise", average=None, **given)
        close(apart, each)
        macro = score_decomposition(y, P, mode="classwise", **given)
        close(macro, each[1] if K == 2 else np.mean(each, axis=0))
        if np.isfinite(macro.score):
            assert macro.scaled_score == pytest.approx(1 - macro.score / macro.uncertainty)


def test_what_had_probability_zero_makes_the_log_score_infinite():
    """The miscalibration too; the other parts and the Brier score stay finite."""
    found = score_decomposition([0, 1, 1, 0], [0.0, 0.0, 1.0, 0.4], score="log")
    assert found.score == found.miscalibration == math.inf
    assert found.scaled_score == -math.inf
    blocks = decomposition([0.2, 0.2, 0.9, 0.4], [0, 1, 1, 0], [1] * 4, "log")
    assert found.discrimination == pytest.approx(blocks[2])
    assert found.uncertainty == pytest.approx(math.log(2))
    assert "miscalibration=inf" in repr(found)


@pytest.mark.parametrize("only", [0, 1])
def test_one_label_only_has_no_uncertainty(only):
    """Neither is there anything to tell apart; a scaled score does not exist."""
    for score in SCORES:
        found = score_decomposition([only] * 3, [0.2, 0.5, 0.7], score=score)
        assert found.uncertainty == found.discrimination == 0
        assert found.miscalibration == found.score > 0
        assert math.isnan(found.scaled_score)


# ------------------------------------------------------------------ by a calibrator


@pytest.mark.parametrize("score", SCORES)
def test_vectors_by_a_fitted_calibrator_equal_the_loop(score):
    """In the order of the columns, whatever that of the calibrator; weights count."""
    y, P = ref.predictions(3, 60, seed=0)
    y[:3] = 0, 1, 2
    P = 0.9 * P + 0.1 / 3
    w = np.random.default_rng(0).uniform(0.5, 2, 60)
    fitted = VectorScaling().fit(P, y)
    Q = fitted.predict_proba(P)
    share = [w[y == k].sum() / w.sum() for k in range(3)]

    def mean(probabilities):
        total = 0.0
        for i in range(60):
            if score == "brier":
                each = sum((probabilities[i][k] - (y[i] == k)) ** 2 for k in range(3))
            else:
                each = -math.log(probabilities[i][y[i]])
            total += w[i] * each / w.sum()
        return total

    s, c, r = mean(P), mean(Q), mean([share] * 60)
    given = {"score": score, "calibrator": fitted, "mode": "joint", "sample_weight": w}
    close(score_decomposition(y, P, **given), [s, s - c, r - c, r])
    close(score_decomposition(y, P[:, [2, 0, 1]], labels=[2, 0, 1], **given), [s, s - c, r - c, r])


@pytest.mark.parametrize("score", SCORES)
def test_a_calibrator_recalibrates_the_event_the_top_label_and_each_class(score):
    y, P = ref.predictions(3, 60, seed=2)
    y[:3] = 0, 1, 2
    Q = TemperatureScaling().fit(P, y).predict_proba(P)
    given = {"score": score, "calibrator": TemperatureScaling().fit(P, y)}
    ones = [1] * 60
    each = [
        decomposition(P[:, k].tolist(), (y == k).tolist(), ones, score, Q[:, k].tolist())
        for k in range(3)
    ]
    close(score_decomposition(y, P, mode="classwise", average=None, **given), each)
    close(score_decomposition(y, P, pos_label=2, **given), each[2])
    top = Q[np.arange(60), P.argmax(axis=1)].tolist()
    expected = decomposition(*ref.top(y, P, 1, within=False), ones, score, top)
    close(score_decomposition(y, P, **given), expected)


def test_a_calibrator_of_one_column():
    """Isotonic calibration fitted on the same rows is the default; strings too."""
    rng = np.random.default_rng(3)
    p = rng.random(300).round(2)
    y = (rng.random(300) < p**2).astype(int)
    named = np.where(y, "yes", "no")
    default = score_decomposition(y, p)
    for labels, keywords in ((y, {}), (named, {"pos_label": "yes"})):
        isotonic_map = IsotonicCalibrator().fit(p, labels)
        found = score_decomposition(labels, p, calibrator=isotonic_map, **keywords)
        np.testing.assert_allclose(found, default, atol=1e-12)
    both = IsotonicCalibrator().fit(np.column_stack([1 - p, p]), y)
    np.testing.assert_allclose(score_decomposition(y, p, calibrator=both), default, atol=1e-12)
    logistic = LogisticRegression().fit(p[:, None], y)  # any classifier on probabilities
    assert score_decomposition(y, p, calibrator=logistic).discrimination > 0


# ------------------------------------------------------------------ refusals and forms


def test_what_cannot_be_decomposed():
    y, P = ref.predictions(3, 30, seed=0)
    y[:3] = 0, 1, 2
    refused("mode='joint' .* pass a fitted calibrator=", score_decomposition, y, P, mode="joint")
    with pytest.raises(TypeError, match="must be fitted and have predict_proba"):
        score_decomposition(y, P, calibrator="isotonic")
    refused("not fitted", score_decomposition, y, P, calibrator=TemperatureScaling())
    other = TemperatureScaling().fit(P, np.array(list("abc"))[y])
    refused("fitted on the labels", score_decomposition, y, P, calibrator=other)
    of_logits = TemperatureScaling().fit(3 * np.log(P) + 1, y)
    refused("logits", score_decomposition, y, P, calibrator=of_logits)
    never = IsotonicCalibrator().fit([0.1, 0.2, 0.8, 0.9], [0, 0, 1, 1])
    with pytest.raises(ValueError, match="infinite: pass score='brier'"):
        score_decomposition([1, 0, 1], [0.1, 0.2, 0.9], score="log", calibrator=never)


def test_printed_it_is_one_line():
    y, P = ref.predictions(8, 60, seed=0)
    found = score_decomposition(y, P, labels=range(8))
    score, ends = f"{found.score:.4g}", f"{found.score_low:.4g} to {found.score_high:.4g}"
    names = "miscalibration", "discrimination", "uncertainty", "scaled_score"
    others = ", ".join(f"{name}={getattr(found, name):.4g}" for name in names)
    assert repr(found) == f"ScoreDecomposition(score={score} ({ends}), {others})"
    each = score_decomposition(y, P, labels=range(8), mode="classwise", average=None)
    assert "..." in repr(each)
    assert "\n" not in repr(each)


# ------------------------------------------------------------------ the interval of the score


def sample(n=200):
    rng = np.random.default_rng(0)
    p = rng.beta(1, 2, n).round(2).clip(0.01, 0.99)
    return (rng.random(n) < p**1.4).astype(int), p


def hall(values, level=0.95):
    """Hall's interval of a mean, by loops: values of all copies."""
    n = len(values)
    mean = sum(values) / n
    sd = math.sqrt(sum((x - mean) ** 2 for x in values) / n)
    a = sum((x - mean) ** 3 for x in values) / n / sd**3 / math.sqrt(n)
    q = t.ppf((1 + level) / 2, n - 1)
    low, high = (3 / a * (math.cbrt(1 + a * (x - a / 6)) - 1) for x in (q, -q))
    return mean - sd / math.sqrt(n - 1) * low, mean - sd / math.sqrt(n - 1) * high


def ends(found):
    return found.score_low, found.score_high


@pytest.mark.parametrize("score", SCORES)
def test_the_score_has_the_interval_of_a_mean(score):
    """Of one event, vectors, each class, their mean."""
    level = 0.8
    y, p = sample()
    asked = {"score": score, "confidence_level": level}
    found = score_decomposition(y, p, **asked)
    rows = [loss(a, b, score) for a, b in zip(p, y, strict=True)]
    assert ends(found) == pytest.approx(hall(rows, level), abs=1e-12)
    assert found.confidence_level == level
    y, P = ref.predictions(3, 90, seed=0)
    y[:3] = 0, 1, 2
    P = 0.9 * P + 0.1 / 3
    each = np.array([[loss(P[i, k], int(y[i] == k), score) for i in range(90)] for k in range(3)])
    apart = score_decomposition(y, P, mode="classwise", average=None, **asked)
    for k in range(3):
        assert [end[k] for end in ends(apart)] == pytest.approx(hall(each[k].tolist(), level))
    mean = score_decomposition(y, P, mode="classwise", **asked)
    assert ends(mean) == pytest.approx(hall(each.mean(axis=0).tolist(), level), abs=1e-12)

    def of_vector(p, k):
        if score == "log":
            return -math.log(p[k])
        return sum((p[j] - (j == k)) ** 2 for j in range(3))

    fitted = TemperatureScaling().fit(P, y)
    joint = score_decomposition(y, P, mode="joint", calibrator=fitted, **asked)
    rows = [of_vector(r, k) for r, k in zip(P, y, strict=True)]
    assert ends(joint) == pytest.approx(hall(rows, level), abs=1e-12)


@pytest.mark.parametrize("score", SCORES)
def test_scores_of_one_outcome_soft_hits_and_single_rows_have_no_interval(score):
    p = np.linspace(0.2, 0.7, 40)
    P = np.tile([0.5, 0.3, 0.2], (40, 1))
    fitted = VectorScaling().fit(P, np.arange(40) % 3)
    given = {"score": score, "labels": range(3)}
    for found in (
        score_decomposition(np.ones(40, dtype=int), p, score=score),
        score_decomposition(np.sqrt(p), p, score=score),
        score_decomposition([1], [0.2], score=score),
        score_decomposition([1] * 40, P, mode="classwise", average=None, **given),
        score_decomposition([1] * 40, P, mode="joint", calibrator=fitted, **given),
        score_decomposition(np.tile([0, 1], 20), np.full(40, 0.5), score=score),  # all 1/4
    ):
        assert np.isnan(ends(found)).all()
        assert "score=" in repr(found)
        assert " to " not in repr(found)


def test_a_log_score_of_exact_0_and_1_may_be_infinite():
    y, p = sample(80)
    p[:2], y[:2] = (0.0, 1.0), (0, 1)
    found = score_decomposition(y, p, score="log")
    assert np.isfinite(found.score)
    assert np.isnan(ends(found)).all()
    assert np.isfinite(ends(score_decomposition(y, p))).all()
    assert score_decomposition(1 - y, p, score="log").score == math.inf


# ------------------------------------------------------------------ intervals of means


Z = 1.959963984540054


def wilson(hits, n):
    """The two roots of ``(r - a)^2 = z^2 r (1 - r) / n``, a the share of hits."""
    a, b, c = 1 + Z**2 / n, -(2 * hits / n + Z**2 / n), (hits / n) ** 2
    root = math.sqrt(max(b * b - 4 * a * c, 0))
    return (-b - root) / (2 * a), (-b + root) / (2 * a)


@pytest.mark.parametrize(("hits", "most"), [(0, 1), (1, 1), (7, 1), (80, 1), (1, 2)])
def test_a_share_of_rows_has_wilsons_interval(hits, most):
    """Of no hit in 80 rows it ends at .046; every row's score may be 0 or 2 as well."""
    values = most * np.repeat([1.0, 0.0], [hits, 80 - hits])
    expected = [most * end for end in wilson(hits, 80)]
    found = mean_interval(RowLosses(values, None, np.ones(80)), 0.95, 0.0, most)
    assert found == pytest.approx(expected, abs=1e-12)
    copies = mean_interval(RowLosses(values[[0, -1]], None, np.array([40, 40])), 0.95, 0.0, most)
    half = 40 * (values[0] + values[-1]) / most
    assert copies == pytest.approx([most * end for end in wilson(half, 80)], abs=1e-12)


def test_no_end_is_outside_of_the_range():
    losses = np.array([0.01, 0.02, 0.05, 0.1, 3.0])
    low, high = mean_interval(RowLosses(losses, None, np.ones(5)), 0.95, 0.0, np.inf)
    assert low == 0.0
    assert high > losses.mean()
    unbounded = mean_interval(RowLosses(losses, None, np.ones(5)), 0.95, -np.inf, np.inf)
    assert unbounded == (pytest.approx(unbounded[0]), high)
    assert unbounded[0] < 0
    squares = np.array([0.98, 0.99, 1.0, 0.999, 0.4])
    assert mean_interval(RowLosses(squares, None, np.ones(5)), 0.95, 0.0, 1.0)[1] == 1.0


def test_a_pseudo_row_is_one_row_more_except_of_shares():
    losses = np.array([0.1, 0.2, 0.4, 0.3])
    found = mean_interval(RowLosses(losses, 2.0, np.ones(4)), 0.9, 0.0, np.inf)
    more = RowLosses(np.append(losses, 2.0), None, np.ones(5))
    assert found == mean_interval(more, 0.9, 0.0, np.inf)
    hits = np.array([0.0, 0.0, 1.0])
    plain = mean_interval(RowLosses(hits, None, np.ones(3)), 0.9, 0.0, 1.0)
    assert mean_interval(RowLosses(hits, 1.0, np.ones(3)), 0.9, 0.0, 1.0) == plain
