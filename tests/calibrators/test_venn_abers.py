"""Venn-Abers intervals against isotonic fits made anew for every row and either label."""

import numpy as np
import pytest
from sklearn.isotonic import IsotonicRegression

from skcalib import VennAbersCalibrator
from skcalib._validation.rows import check_weight
from skcalib.calibrators import _venn_abers


def refit(x, t, w, s):
    """Isotonic fits of the calibration scores with (s, 0) and with (s, 1): p0 and p1."""
    fitted = []
    for label in (0, 1):
        regression = IsotonicRegression(y_min=0, y_max=1)
        regression.fit(np.append(x, s), np.append(t, label), np.append(w, 1.0))
        fitted.append(regression.predict([s])[0])
    return fitted


def binary(seed, n=40):
    """Ties by rounding; few, half or most rows are hits; weights from 1/1000 to 1000."""
    rng = np.random.default_rng(seed)
    x = np.round(rng.random(n), 1 + seed % 2)
    t = rng.random(n) < [0.1, 0.5, 0.9][seed % 3]
    uneven = check_weight(10.0 ** rng.uniform(-3, 3, n), n)
    w = [np.ones(n), rng.integers(1, 4, n), uneven][seed // 2 % 3]
    new = np.concatenate([x[:8], rng.random(8), [0.0, 1.0]])
    return x, t, w, new


@pytest.mark.filterwarnings("ignore:VennAbersCalibrator. the scores predict")
@pytest.mark.parametrize("seed", range(6))
def test_bounds_are_two_isotonic_fits_with_the_new_row(seed):
    x, t, w, new = binary(seed)
    calibrator = VennAbersCalibrator(classes=[False, True]).fit(x, t, w)
    expected = np.array([refit(x, t, w, s) for s in new])
    interval = calibrator.predict_interval(new)
    np.testing.assert_allclose(interval[:, 1], expected, rtol=0, atol=1e-12)
    np.testing.assert_allclose(interval[:, 0], 1 - expected[:, ::-1], rtol=0, atol=1e-12)
    p0, p1 = expected.T
    merged = p1 / (1 - p0 + p1)
    P = calibrator.predict_proba(new)
    np.testing.assert_allclose(P, np.column_stack([1 - merged, merged]), rtol=0, atol=1e-12)


@pytest.mark.filterwarnings("ignore:VennAbersCalibrator. the scores predict")
@pytest.mark.parametrize("light", [False, True])
def test_a_new_row_that_outweighs_many_blocks_is_followed_across_them(light):
    """Levels that rise all the way: with light rows the new one merges most blocks."""
    x = np.arange(1, 41) / 41
    w = np.where(np.arange(80) % 2, 1, np.repeat(np.arange(1, 41), 2))
    scores, hit = np.repeat(x, 2), np.tile([True, False], 40)
    if light:  # beside ten heavy rows
        scores, hit = np.append(scores, np.ones(10)), np.append(hit, np.ones(10, dtype=bool))
        w = check_weight(np.append(1.0 * w, np.full(10, 200.0)), 90)
    calibrator = VennAbersCalibrator(classes=[False, True]).fit(scores, hit, w)
    new = np.concatenate([x, x - 0.01])
    expected = [refit(scores, hit, w, s) for s in new]
    np.testing.assert_allclose(calibrator.predict_interval(new)[:, 1], expected, rtol=0, atol=1e-12)


def multiclass(n, n_classes, seed=0):
    """Probabilities with ties and exact zeros; class 1 never occurs."""
    rng = np.random.default_rng(seed)
    P = np.round(rng.dirichlet(np.full(n_classes, 0.5), size=n), 2)
    P[:, -1] = np.maximum(1 - P[:, :-1].sum(axis=1), 0)
    # The reference takes scores that differ by rounding for one.
    P = np.round(P / P.sum(axis=1, keepdims=True), 6)
    P[0] = np.eye(n_classes)[-1]
    y = rng.integers(n_classes, size=n)
    y[y == 1] = 0
    return P, y, rng.integers(1, 5, n)


@pytest.mark.parametrize("weighted", [False, True])
def test_classes_are_fitted_against_the_rest_and_rows_divided_by_their_sum(weighted):
    n_classes = 3
    P, y, w = multiclass(60, n_classes)
    w = w if weighted else np.ones(60)
    new = np.vstack([P[:6], np.eye(n_classes)])
    calibrator = VennAbersCalibrator(classes=np.arange(n_classes)).fit(P, y, w)
    expected = np.array(
        [[refit(P[:, k], y == k, w, row[k]) for k in range(n_classes)] for row in new]
    )
    np.testing.assert_allclose(calibrator.predict_interval(new), expected, rtol=0, atol=1e-12)
    merged = expected[..., 1] / (1 - expected[..., 0] + expected[..., 1])
    merged /= merged.sum(axis=1, keepdims=True)
    np.testing.assert_allclose(calibrator.predict_proba(new), merged, rtol=0, atol=1e-12)


@pytest.mark.filterwarnings("ignore:y. all 10 rows have the label 0")
def test_without_hits_the_upper_bound_is_one_among_the_rows_from_there_on():
    """Closed form: of n misses, a hit that comes before h of them makes 1 / (h + 1)."""
    x = np.arange(1, 11) / 11
    calibrator = VennAbersCalibrator(classes=[0, 1]).fit(x, np.zeros(10, int))
    new = np.concatenate([x, [0.0, 1.0]])
    from_here = [sum(v >= s for v in x) for s in new]
    expected = [[0, 1 / (h + 1)] for h in from_here]
    np.testing.assert_allclose(calibrator.predict_interval(new)[:, 1], expected, rtol=0, atol=1e-15)


def test_no_answer_is_certain_and_answers_lie_within_their_interval():
    rng = np.random.default_rng(0)
    p = rng.random(300)
    y = p > 0.5  # separable: plain isotonic calibration answers 0 and 1
    calibrator = VennAbersCalibrator().fit(p, y)
    at = np.linspace(0, 1, 400)
    P, interval = calibrator.predict_proba(at), calibrator.predict_interval(at)
    assert P.min() > 0
    assert P.max() < 1
    assert (interval[..., 0] <= P).all()
    assert (interval[..., 1] >= P).all()
    assert (np.diff(interval[:, 1], axis=0) >= 0).all()


def test_the_interval_of_float32_scores_is_float32():
    P, y, _ = multiclass(60, 3)
    calibrator = VennAbersCalibrator(classes=[0, 1, 2]).fit(P, y)
    interval = calibrator.predict_interval(P.astype(np.float32))
    assert interval.dtype == np.float32
    assert interval.shape == (60, 3, 2)


def test_fewer_thresholds_widen_the_interval_and_move_the_answer_little(monkeypatch):
    """A tenth of the scores is kept: each step of log-odds is at most a part of their range."""
    rng = np.random.default_rng(1)
    p = rng.random(2000) ** 3
    y = rng.random(2000) < p
    at = np.concatenate([p, rng.random(500)])
    exact = VennAbersCalibrator().fit(p, y)
    monkeypatch.setattr(_venn_abers, "MAX_THRESHOLDS", 60)
    few = VennAbersCalibrator().fit(p, y)
    assert exact.X_thresholds_[0].size > 120
    assert few.X_thresholds_[0].size <= 60
    inner, outer = exact.predict_interval(at)[:, 1], few.predict_interval(at)[:, 1]
    assert (outer[:, 0] <= inner[:, 0]).all()
    assert (outer[:, 1] >= inner[:, 1]).all()
    ends = [np.log(b.p1_[0][[0, -1]]) - np.log1p(-b.p0_[0][[0, -1]]) for b in (exact, few)]
    np.testing.assert_array_equal(*ends)
    odds = [np.log(b.predict_proba(at)) @ [-1, 1] for b in (exact, few)]
    assert np.abs(odds[0] - odds[1]).max() <= np.diff(ends[0])[0] / 30


def test_weights_that_others_drown_count_as_nothing():
    """They vanish in the rounding of the sum; no step of the diagram may be divided by 0."""
    rng = np.random.default_rng(0)
    P = rng.dirichlet(np.ones(4), 60)
    y = rng.integers(0, 4, 60)
    w = np.where(np.arange(60) % 2, 1e-12, 1e12)
    both = VennAbersCalibrator().fit(P, y, sample_weight=w).predict_proba(P)
    heavy = VennAbersCalibrator().fit(P[::2], y[::2], sample_weight=w[::2]).predict_proba(P)
    np.testing.assert_allclose(both, heavy, rtol=0, atol=1e-9)


@pytest.mark.parametrize("seed", [0, 3])
def test_a_bound_changes_at_each_score_kept_and_nowhere_else(seed):
    """Long runs of misses between few hits: the rows where p1 rises begin within them."""
    rng = np.random.default_rng(seed)
    p = rng.permutation(np.arange(1, 81)) / 128
    t = rng.random(80) < 1.5 * p * [0.1, 0.4, 0.8, 1.0][seed]
    calibrator = VennAbersCalibrator(classes=[False, True]).fit(p, t)
    x = np.sort(p)
    p0, p1 = np.array([refit(p, t, np.ones(80), s) for s in x]).T
    told = (np.diff(p1, append=1.0) > 1e-12) | (np.diff(p0, prepend=0.0) > 1e-12)
    np.testing.assert_array_equal(calibrator.X_thresholds_[0], x[told])
    np.testing.assert_allclose(calibrator.p0_[0], p0[told], rtol=0, atol=1e-12)
    np.testing.assert_allclose(calibrator.p1_[0], p1[told], rtol=0, atol=1e-12)
