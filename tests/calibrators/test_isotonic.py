"""Isotonic calibration against scikit-learn's regression and a least-squares reference."""

import itertools
from fractions import Fraction

import numpy as np
import pytest
from calls import refused
from edges import minmax_isotonic
from sklearn.isotonic import IsotonicRegression

from skcalib import IsotonicCalibrator


def data(n=200, n_classes=4, seed=0, digits=2):
    """Ties, exact 0 and 1; class 1 is missing where there are more than two."""
    rng = np.random.default_rng(seed)
    P = np.round(rng.dirichlet(np.full(n_classes, 0.5), size=n), digits)
    P[:, -1] = np.maximum(np.round(1 - P[:, :-1].sum(axis=1), digits), 0)
    P = np.round(P / P.sum(axis=1, keepdims=True), 6)
    P[0], P[0, -1] = 0, 1
    mild = P + 0.05
    mild /= mild.sum(axis=1, keepdims=True)
    y = np.array([rng.choice(n_classes, p=p) for p in mild])
    if n_classes > 2:
        y[y == 1] = 0
    return P, y, rng.integers(1, 5, n) * 0.5


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("n_classes", [2, 3])
@pytest.mark.filterwarnings("ignore:no row of class")
def test_linear_is_scikit_learns_regression_of_each_column(n_classes, weighted):
    P, y, w = data(300, n_classes)
    w = w if weighted else None
    new = np.random.default_rng(1).dirichlet(np.full(n_classes, 0.4), size=100)
    new = np.vstack([P, new, np.eye(n_classes)])
    Q = IsotonicCalibrator(classes=np.arange(n_classes)).fit(P, y, w).predict_proba(new)
    expected = np.empty(new.shape)
    for k in range(n_classes):
        regression = IsotonicRegression(y_min=0, y_max=1, out_of_bounds="clip")
        expected[:, k] = regression.fit(P[:, k], y == k, w).predict(new[:, k])
    if n_classes == 2:
        expected[:, 0] = 1 - expected[:, 1]
    total = expected.sum(axis=1)
    expected[total == 0], total[total == 0] = 1, n_classes
    np.testing.assert_allclose(Q, expected / total[:, None], rtol=0, atol=1e-12)


@pytest.mark.parametrize("interpolation", ["linear", "step"])
@pytest.mark.parametrize("seed", range(3))
@pytest.mark.filterwarnings("ignore:.*no better than the base rates")
def test_the_fit_is_the_min_max_solution(seed, interpolation):
    rng = np.random.default_rng(seed)
    x = np.round(rng.random(40), 1 + seed % 2)
    t = rng.random(40) < [0.1, 0.5, 0.9][seed % 3]
    w = rng.random(40) + 0.1
    levels, fitted = minmax_isotonic(x, t, w)
    calibrator = IsotonicCalibrator(interpolation=interpolation, classes=[False, True])
    calibrator.fit(x, t, w)
    at_scores = calibrator.predict_proba(levels)[:, 1]
    np.testing.assert_allclose(at_scores, fitted, rtol=0, atol=1e-12)
    between = [(a + b) / 2 for a, b in itertools.pairwise(levels)]
    answers = calibrator.predict_proba(between)[:, 1]
    for low, high, answer in zip(fitted, fitted[1:], answers, strict=False):
        expected = (low + high) / 2 if interpolation == "linear" else low
        assert answer == pytest.approx(expected, abs=1e-12)
    low, high = calibrator.predict_proba([0.0, 1.0])[:, 1]
    assert low == pytest.approx(fitted[0], abs=1e-12)
    assert high == pytest.approx(fitted[-1], abs=1e-12)


def test_thresholds_are_the_ends_of_constant_blocks():
    """Negatives, one positive out of order, positives: values 0, 1/2, 1."""
    p, y = [0.1, 0.2, 0.3, 0.4, 0.6, 0.7, 0.8], [0, 0, 0, 1, 0, 1, 1]
    calibrator = IsotonicCalibrator().fit(p, y)
    assert [x.tolist() for x in calibrator.X_thresholds_] == [[0.1, 0.3, 0.4, 0.6, 0.7, 0.8]]
    assert [v.tolist() for v in calibrator.y_thresholds_] == [[0, 0, 0.5, 0.5, 1, 1]]


@pytest.mark.filterwarnings("ignore:no row of class")
def test_a_missing_class_answers_zero_and_an_all_zero_row_is_uniform():
    P = np.array([[0.6, 0.3, 0.1], [0.5, 0.2, 0.3], [0.2, 0.2, 0.6], [0.1, 0.5, 0.4]])
    calibrator = IsotonicCalibrator(classes=[0, 1, 2]).fit(P, [0, 0, 2, 2])
    assert calibrator.y_thresholds_[1].tolist() == [0] * calibrator.y_thresholds_[1].size
    assert (calibrator.predict_proba(P)[:, 1] == 0).all()
    # Low scores of both classes that occur: nothing but zeros is left.
    nowhere = calibrator.predict_proba([[0.15, 0.75, 0.1]])
    np.testing.assert_allclose(nowhere, [[1 / 3, 1 / 3, 1 / 3]], rtol=0, atol=1e-15)


def test_maps_of_several_classes_do_not_decrease_by_rounding():
    """All classes are fitted at once, their values apart by 2."""
    rng = np.random.default_rng(2)
    P = np.round(rng.dirichlet(np.ones(40), size=300), 2) + 1e-9
    P /= P.sum(axis=1, keepdims=True)
    y, w = rng.integers(0, 40, 300), 10.0 ** rng.uniform(-12, 6, 300)
    calibrator = IsotonicCalibrator().fit(P, y, w)
    assert all((np.diff(v) >= 0).all() for v in calibrator.y_thresholds_)


@pytest.mark.parametrize("centered", [False, True])
def test_wild_weights_and_tiny_scores_give_a_map(centered):
    """Rounding of the sums must not push a block of nothing but positives above 1."""
    rng = np.random.default_rng(0)
    w = 10.0 ** rng.uniform(-12, 6, 500)
    p = np.round(rng.random(500), 2) * np.where(rng.random(500) < 0.3, 1e-310, 1)
    y = rng.random(500) < np.minimum(p, 0.9) + 0.05
    calibrator = IsotonicCalibrator(centered=centered).fit(p, y, w)
    for x, v in zip(calibrator.X_thresholds_, calibrator.y_thresholds_, strict=True):
        assert (np.diff(x) > 0).all()
        assert p.min() <= x[0] <= x[-1] <= p.max()
        assert (np.diff(v) >= 0).all()
        assert 0 <= v[0] <= v[-1] <= 1
    assert np.isfinite(calibrator.predict_proba(p)).all()


def test_scores_too_small_for_a_straight_line_are_interpolated_all_the_same():
    """The slope between 0 and 1e-311 is beyond any float."""
    p = np.array([0.0, 0.0, 0.0, 2e-311, 2e-311, 1.0])
    isotonic = IsotonicCalibrator().fit(p, [0, 0, 1, 1, 0, 1])
    Q = isotonic.predict_proba(np.array([0.0, 1e-311, 2e-311]))
    np.testing.assert_allclose(Q[:, 1], [1 / 3, (1 / 3 + 1 / 2) / 2, 1 / 2], rtol=1e-9)


# ------------------------------------------------------------------------------- centred


def centred_points(x, t, w):
    """Scores and values of the centred fit, in exact fractions and loops over its blocks."""
    x, w = [Fraction(float(v)) for v in x], [Fraction(float(v)) for v in w]
    levels, fitted = minmax_isotonic(x, [int(v) for v in t], w)
    at = dict(zip(levels, fitted, strict=True))
    points = []
    for value in sorted(set(fitted)):
        rows = [i for i, v in enumerate(x) if at[v] == value]
        if value in (0, 1):
            points += [(min(x[i] for i in rows), value), (max(x[i] for i in rows), value)]
        else:
            mean = sum(w[i] * x[i] for i in rows) / sum(w[i] for i in rows)
            points.append((mean, value))
    return sorted(set(points))


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("seed", [0, 5])
@pytest.mark.filterwarnings("ignore:no row of class")
@pytest.mark.filterwarnings("ignore:.*no better than the base rates")
def test_centred_blocks_are_points_at_their_mean_scores(seed, weighted):
    rng = np.random.default_rng(seed)
    x = np.round(rng.random(40), 1 + seed % 2)
    t = rng.random(40) < x if seed < 4 else rng.random(40) < [0.1, 0.9][seed % 2]
    w = rng.integers(1, 9, 40) / 4 if weighted else np.ones(40)
    points = centred_points(x, t, w)
    calibrator = IsotonicCalibrator(centered=True, classes=[False, True])
    calibrator.fit(x, t, w if weighted else None)
    (X,), (Y,) = calibrator.X_thresholds_, calibrator.y_thresholds_
    np.testing.assert_allclose(X, [float(a) for a, _ in points], rtol=0, atol=1e-12)
    np.testing.assert_allclose(Y, [float(b) for _, b in points], rtol=0, atol=1e-12)
    new = np.linspace(0, 1, 27)
    expected = np.interp(new, *np.array(points, dtype=float).T)
    answers = calibrator.predict_proba(new)[:, 1]
    np.testing.assert_allclose(answers, expected, rtol=0, atol=1e-12)


def test_blocks_that_differ_by_rounding_are_one():
    """A third of the weight at two neighbouring scores: 1 / 3 and 1.2 / 3.6, a last bit more."""
    x = np.repeat([0.1, 0.2, 0.5, 0.9], [1, 2, 2, 1])
    t, w = [0, 1, 0, 0, 1, 1], [1.0, 1.0, 2.0, 2.4, 1.2, 1.0]
    calibrator = IsotonicCalibrator(centered=True).fit(x, t, w)
    middle = (3 * 0.2 + 3.6 * 0.5) / 6.6
    np.testing.assert_allclose(calibrator.X_thresholds_[0], [0.1, middle, 0.9], atol=1e-12)
    x = np.repeat([0.1, 0.2, 0.3, 0.5, 0.6, 0.9], [1, 2, 2, 2, 2, 1])
    t, w = [0, *[1, 0] * 4, 1], [1.0, *[1.0, 2.0] * 2, *[1.2, 2.4] * 2, 1.0]
    ends = IsotonicCalibrator().fit(x, t, w)
    assert ends.X_thresholds_[0].tolist() == [0.1, 0.2, 0.6, 0.9]


def test_large_logits_of_float32_are_between_their_neighbours():
    """Their product with a large number is beyond float32."""
    x = np.float32([-3e24, -1e24, 1e24, 2e24, 3e24, 4e24])
    calibrator = IsotonicCalibrator(input="logits").fit(x, [0, 0, 1, 0, 1, 1])
    answers = calibrator.predict_proba(np.float32([-2e24, 1.5e24, 2.5e24, 3.5e24]))[:, 1]
    np.testing.assert_allclose(answers, [0.0, 0.5, 0.75, 1.0], atol=1e-6)


def test_centred_steps_are_refused():
    refused(
        'pass interpolation="linear"',
        IsotonicCalibrator(centered=True, interpolation="step").fit,
        [0.2, 0.7],
        [0, 1],
    )
