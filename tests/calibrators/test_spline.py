"""Spline calibration against quadrature and loops, and the run-outs against SciPy's splines."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from scipy.interpolate import CubicSpline

from skcalib import SplineCalibrator
from skcalib.calibrators import _spline
from skcalib.calibrators._spline import cardinal_splines


def binary(n=60, seed=0, digits=1):
    rng = np.random.default_rng(seed)
    p = np.round(rng.random(n), digits)
    y = (rng.random(n) < p**2).astype(int)
    y[:2] = 0, 1
    return p, y, rng.random(n) + 0.1


def several(n=70, n_classes=4, seed=0):
    rng = np.random.default_rng(seed)
    P = np.round(rng.dirichlet(np.full(n_classes, 0.6), size=n) * 50) / 50
    P[:, -1] = np.maximum(1 - P[:, :-1].sum(axis=1), 0)
    P /= P.sum(axis=1, keepdims=True)
    P[0] = np.eye(n_classes)[0]
    y = np.append(np.arange(n_classes), rng.integers(0, n_classes, n - n_classes))
    return P, y, rng.integers(1, 4, n).astype(float)


# ------------------------------------------------------------------ the slow, obvious reference


def unit_spline(n_knots, j, runout):
    """The cubic spline that is 1 at knot j, by SciPy's interpolation."""
    knots, value = np.linspace(0, 1, n_knots), np.eye(n_knots)[j]
    if runout == "natural":
        return CubicSpline(knots, value, bc_type="natural")
    if runout == "cubic":
        return CubicSpline(knots, value, bc_type="not-a-knot")

    # Parabolic: find the two end curvatures that their neighbours have as well.
    def excess(ends):
        spline = CubicSpline(knots, value, bc_type=((2, ends[0]), (2, ends[1])))
        bend = spline(knots, 2)
        return spline, np.array([bend[0] - bend[1], bend[-1] - bend[-2]])

    constant = excess((0.0, 0.0))[1]
    matrix = np.column_stack([excess((1.0, 0.0))[1], excess((0.0, 1.0))[1]]) - constant[:, None]
    return excess(np.linalg.solve(matrix, -constant))[0]


def distinct(score):
    """Scores in order, those that differ by rounding alone counted once."""
    levels = []
    for s in sorted(float(s) for s in score):
        if not levels or s - levels[-1] > 1e-12:
            levels.append(s)
    return levels


def reference_map(score, hit, w, n_knots, runout, target):
    """Knot values, distinct scores and mapped values, by quadrature of the definition."""
    levels = distinct(score)
    ends, d_at, total = [0.0], [0.0], sum(w)
    for level in levels:
        rows = [i for i in range(len(score)) if 0 <= score[i] - level <= 1e-12]
        mass = sum(w[i] for i in rows)
        share = sum(w[i] * hit[i] for i in rows) / mass
        ends.append(ends[-1] + mass / total)
        slope = share - level if target == "residual" else share
        d_at.append(d_at[-1] + slope * mass / total)
    knots = np.linspace(0, 1, n_knots)
    phi = [unit_spline(n_knots, j, runout) for j in range(n_knots)]
    point, weight = np.polynomial.legendre.leggauss(4)
    gram, moment = np.zeros((n_knots, n_knots)), np.zeros(n_knots)
    # Between two neighbouring breaks every integrand is a polynomial of degree 6 at most.
    for a, b in itertools.pairwise(sorted({*knots, *ends, 1.0})):
        for x, q in zip(a + (b - a) * (point + 1) / 2, weight * (b - a) / 2, strict=True):
            value = np.array([float(f(x)) for f in phi])
            gram += q * np.outer(value, value)
            moment += q * value * np.interp(x, ends, d_at)
    knot_values = np.linalg.solve(gram, moment)

    def f(u):
        return sum(v * float(p(u)) for v, p in zip(knot_values, phi, strict=True))

    mapped = []
    for level, a, b in zip(levels, ends, ends[1:], strict=False):
        slope = (f(b) - f(a)) / (b - a)
        mapped.append(slope + (level if target == "residual" else 0))
    return knot_values, levels, mapped


@pytest.mark.parametrize("target", ["residual", "cumulative"])
@pytest.mark.parametrize(
    ("runout", "n_knots"), [("natural", 6), ("parabolic", 5), ("cubic", 4), ("cubic", 7)]
)
@pytest.mark.parametrize("digits", [1, 3])
def test_the_map_is_the_definition_integrated(runout, n_knots, target, digits):
    p, y, w = binary(digits=digits)
    new = np.linspace(0, 1, 37)
    for weight in (None, w):
        spline = SplineCalibrator(n_knots=n_knots, runout=runout, target=target).fit(p, y, weight)
        expected = reference_map(
            p, y == 1, np.ones(len(p)) if weight is None else w, n_knots, runout, target
        )
        np.testing.assert_allclose(spline.knot_values_[0], expected[0], rtol=0, atol=1e-11)
        assert spline.X_thresholds_[0].tolist() == expected[1]
        np.testing.assert_allclose(spline.y_thresholds_[0], expected[2], rtol=0, atol=1e-10)
        mapped = np.clip(np.interp(new, expected[1], expected[2]), 0, 1)
        Q = spline.predict_proba(new)
        np.testing.assert_allclose(Q[:, 1], mapped, rtol=0, atol=1e-10)
        np.testing.assert_allclose(Q[:, 0], 1 - mapped, rtol=0, atol=1e-10)


def test_it_is_the_limit_of_least_squares_at_ever_finer_points():
    """The paper fits at the n points of the curve; here rows are cut into 500 pieces each."""
    p, y, _ = binary(40, digits=6)
    order = np.argsort(p)
    steps = np.repeat((y - p)[order], 500) / (40 * 500)
    middle = np.cumsum(steps) - steps / 2
    u = (np.arange(40 * 500) + 0.5) / (40 * 500)
    knots = np.linspace(0, 1, 6)
    phi = CubicSpline(knots, np.eye(6), bc_type="natural")
    discrete = np.linalg.lstsq(phi(u), middle, rcond=None)[0]
    spline = SplineCalibrator().fit(p, y)
    np.testing.assert_allclose(spline.knot_values_[0], discrete, rtol=0, atol=1e-8)
    np.testing.assert_array_equal(spline.knots_, knots)


@pytest.mark.parametrize("n_classes", [3, 10, 100])
def test_classwise_is_a_map_for_each_column_and_rows_that_sum_to_one(n_classes):
    P, y, w = several(70 if n_classes < 100 else 110, n_classes)
    spline = SplineCalibrator().fit(P, y, w)
    assert spline.knot_values_.shape == (n_classes, 6)
    raw = np.empty(P.shape)
    for k in range(n_classes):
        if k < 3:
            _, x, v = reference_map(P[:, k], y == k, w, 6, "natural", "residual")
            np.testing.assert_allclose(spline.y_thresholds_[k], v, rtol=0, atol=1e-10)
        x, v = spline.X_thresholds_[k], spline.y_thresholds_[k]
        assert x.tolist() == distinct(P[:, k])
        for i in range(len(P)):
            raw[i, k] = min(max(np.interp(P[i, k], x, v), 0), 1)
    total = raw.sum(axis=1)
    raw[total == 0], total[total == 0] = 1, n_classes
    np.testing.assert_allclose(spline.predict_proba(P), raw / total[:, None], rtol=0, atol=1e-12)


@pytest.mark.parametrize("n_classes", [2, 4])
def test_top_replaces_the_largest_and_shares_the_rest_in_proportion(n_classes):
    P, y, w = several(n_classes=n_classes)
    new = np.vstack([P, np.random.default_rng(1).dirichlet(np.ones(n_classes), size=40)])
    top = P.argmax(axis=1)
    score = P[np.arange(len(P)), top]
    _, x, v = reference_map(score, top == y, w, 6, "natural", "residual")
    spline = SplineCalibrator(mode="top").fit(P, y, w)
    assert spline.knot_values_.shape == (1, 6)
    assert len(spline.X_thresholds_) == len(spline.y_thresholds_) == 1
    Q = spline.predict_proba(new)
    for row, answer in zip(new, Q, strict=True):
        best = list(row).index(max(row))
        value = min(max(np.interp(row[best], x, v), 0), 1)
        others = sum(p for k, p in enumerate(row) if k != best)
        second = max(p for k, p in enumerate(row) if k != best)
        share = second / others if others > 0 else 1 / (n_classes - 1)
        value = max(value, share / (1 + share))
        assert answer.argmax() == best
        for k in range(n_classes):
            if k == best:
                expected = value
            elif others > 0:
                expected = (1 - value) * row[k] / others
            else:
                expected = (1 - value) / (n_classes - 1)
            assert answer[k] == pytest.approx(expected, abs=1e-10)


def test_top_takes_the_lowest_column_on_ties_and_spreads_over_zeros_evenly():
    P = np.array([[0.4, 0.4, 0.2]] * 4 + [[0.0, 1.0, 0.0]] * 4)
    y = np.array([0, 0, 2, 1, 1, 1, 0, 1])
    spline = SplineCalibrator(mode="top").fit(P, y)
    Q = spline.predict_proba(P)
    x, v = spline.X_thresholds_[0], spline.y_thresholds_[0]
    assert x.tolist() == [0.4, 1.0]
    np.testing.assert_allclose(Q[0], [v[0], (1 - v[0]) * 2 / 3, (1 - v[0]) / 3], atol=1e-15)
    np.testing.assert_allclose(Q[-1], [(1 - v[1]) / 2, v[1], (1 - v[1]) / 2], atol=1e-15)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_top_keeps_the_predicted_class(dtype):
    """A first score that comes out below the second's share is raised to where they meet."""
    rng = np.random.default_rng(0)
    P = rng.dirichlet([0.5, 0.5, 0.5, 0.5], size=400)
    P[:6] = [[0.4, 0.4, 0.2, 0], [0.1, 0.5, 0.4, 0], [0, 1, 0, 0], [0, 0.25, 0.5, 0.25],
             [0, 0, 0.499, 0.501], [0.25, 0.25, 0.25, 0.25]]  # fmt: skip
    P = P.astype(dtype)
    best = P.argmax(axis=1)
    never = (best + 1) % 4  # no first score is ever a hit: all of them are mapped to about 0
    for y in (never, rng.integers(0, 4, 400)):
        spline = SplineCalibrator(mode="top").fit(P, y)
        Q = spline.predict_proba(P)
        np.testing.assert_array_equal(Q.argmax(axis=1), best)
        np.testing.assert_array_equal(spline.predict(P), best)
    Q = SplineCalibrator(mode="top").fit(P, never).predict_proba(P)
    expected = [[0.4, 0.4, 0.2, 0], [1 / 9, 4 / 9, 4 / 9, 0], [0.25, 0.25, 0.25, 0.25],
                [0, 1 / 3, 1 / 3, 1 / 3], [0, 0, 0.5, 0.5], [0.25, 0.25, 0.25, 0.25]]  # fmt: skip
    np.testing.assert_allclose(Q[:6], expected, rtol=0, atol=1e-6)


# ------------------------------------------------------------------------------ closed forms


@pytest.mark.parametrize("runout", ["natural", "parabolic", "cubic"])
def test_scores_that_are_right_already_stay_as_they_are(runout):
    """A residual of nothing is fitted by the spline of nothing."""
    p = np.repeat([0.25, 0.5, 0.75], 4)
    y = np.array([0, 0, 0, 1, 0, 0, 1, 1, 0, 1, 1, 1])
    spline = SplineCalibrator(runout=runout).fit(p, y)
    np.testing.assert_allclose(spline.knot_values_, 0, atol=1e-15)
    at = np.array([0.25, 0.4, 0.5, 0.6, 0.75])
    np.testing.assert_allclose(spline.predict_proba(at)[:, 1], at, rtol=0, atol=1e-14)
    ends = spline.predict_proba([0.0, 1.0])[:, 1]
    np.testing.assert_allclose(ends, [0.25, 0.75], rtol=0, atol=1e-14)


@pytest.mark.parametrize("runout", ["natural", "parabolic", "cubic"])
def test_a_constant_gap_is_taken_off(runout):
    """Hits are 0.2 below the score everywhere: d is a straight line, which a spline can be."""
    p = np.repeat([0.4, 0.6, 0.9], 10)
    y = np.concatenate([np.arange(10) < hits for hits in (2, 4, 7)])
    spline = SplineCalibrator(runout=runout).fit(p, y)
    np.testing.assert_allclose(spline.y_thresholds_[0], [0.2, 0.4, 0.7], rtol=0, atol=1e-13)


def test_the_cumulative_target_of_certain_hits_is_one():
    p = np.linspace(0.1, 0.9, 30)
    spline = SplineCalibrator(target="cumulative", classes=[0, 1]).fit(p, np.ones(30, dtype=int))
    np.testing.assert_allclose(spline.y_thresholds_[0], 1, rtol=0, atol=1e-12)


def test_values_beyond_zero_and_one_are_clipped_after_interpolation():
    p = np.linspace(0, 1, 40)
    y = (p > 0.5).astype(int)
    spline = SplineCalibrator(n_knots=8).fit(p, y)
    v = spline.y_thresholds_[0]
    assert v.min() < 0
    assert v.max() > 1
    at = np.linspace(0, 1, 333)
    expected = np.clip(np.interp(at, p, v), 0, 1)
    np.testing.assert_allclose(spline.predict_proba(at)[:, 1], expected, rtol=0, atol=1e-15)


def test_an_all_zero_row_becomes_uniform():
    """Maps that lie at or below 0 leave nothing to divide by."""
    P, y, _ = several(n_classes=3)
    spline = SplineCalibrator().fit(P, y)
    spline.y_thresholds_ = [-np.abs(v) for v in spline.y_thresholds_]
    assert spline.predict_proba([[0.2, 0.3, 0.5]]).tolist() == [[1 / 3, 1 / 3, 1 / 3]]


# ------------------------------------------------------------------------------- the splines


@pytest.mark.parametrize("runout", ["natural", "parabolic", "cubic"])
@pytest.mark.parametrize("n_knots", [4, 5, 6, 14])
def test_cardinal_splines_are_scipys_and_end_as_their_run_out_says(runout, n_knots):
    knots, u = np.linspace(0, 1, n_knots), np.linspace(0, 1, 101)
    basis = cardinal_splines(n_knots, runout)
    for j in range(n_knots):
        expected = unit_spline(n_knots, j, runout)(u)
        np.testing.assert_allclose(basis(u)[:, j], expected, rtol=0, atol=1e-12)
    np.testing.assert_allclose(basis(knots), np.eye(n_knots), rtol=0, atol=1e-13)
    bend = basis.derivative(2)(knots)
    for M in (bend, bend[::-1]):
        left = {"natural": 0 * M[0], "parabolic": M[1], "cubic": 2 * M[1] - M[2]}[runout]
        np.testing.assert_allclose(M[0], left, rtol=0, atol=1e-9 * np.abs(bend).max())


# ------------------------------------------------------------------------ weights, ties, size


def test_weights_are_mass_whatever_their_scale():
    p, y, w = binary()
    plain = SplineCalibrator().fit(p, y, w).predict_proba(p)
    scaled = SplineCalibrator().fit(p, y, 1e-9 * w).predict_proba(p)
    np.testing.assert_allclose(scaled, plain, rtol=0, atol=1e-12)


def test_rows_of_almost_no_weight_get_the_slope_where_they_stand():
    """A stretch of 1e-30 of the fractile has no difference quotient; its middle has a slope."""
    p, y, w = binary(digits=6)
    light = SplineCalibrator().fit(
        np.append(p, [0.3, 0.3000001]), np.append(y, [1, 0]), np.append(w, [1e-30, 1e-30])
    )
    at = np.linspace(0, 1, 101)
    without = SplineCalibrator().fit(p, y, w)
    np.testing.assert_allclose(light.knot_values_, without.knot_values_, rtol=0, atol=1e-13)
    u = np.interp(0.3, np.sort(p), np.cumsum(w[np.argsort(p)]) / w.sum())
    slope = CubicSpline(light.knots_, light.knot_values_[0], bc_type="natural")(u, 1)
    assert light.predict_proba([0.3])[0, 1] == pytest.approx(0.3 + slope, abs=0.02)
    gap = np.abs(light.predict_proba(at) - without.predict_proba(at))
    assert gap.max() < 0.05


def test_many_distinct_scores_are_thinned_evenly_and_keep_their_ends(monkeypatch):
    rng = np.random.default_rng(0)
    p = rng.random(5000)
    y = rng.random(5000) < p**2
    full = SplineCalibrator().fit(p, y)
    assert full.X_thresholds_[0].size == 5000
    monkeypatch.setattr(_spline, "MAX_THRESHOLDS", 500)
    thin = SplineCalibrator().fit(p, y)
    assert thin.X_thresholds_[0].size == 500
    assert thin.X_thresholds_[0][[0, -1]].tolist() == [p.min(), p.max()]
    assert (thin.knot_values_ == full.knot_values_).all()
    at = np.linspace(0, 1, 2000)
    np.testing.assert_allclose(thin.predict_proba(at), full.predict_proba(at), rtol=0, atol=1e-3)


# ---------------------------------------------------------------------------- what it is for


@pytest.mark.parametrize("mode", ["classwise", "top"])
def test_it_mends_over_confident_scores_on_new_rows(mode):
    rng = np.random.default_rng(0)
    Z = rng.normal(scale=1.5, size=(8000, 3))
    truth = np.exp(Z) / np.exp(Z).sum(axis=1, keepdims=True)
    y = (rng.random(8000)[:, None] > truth.cumsum(axis=1)).sum(axis=1).clip(max=2)
    spline = SplineCalibrator(mode=mode).fit(2.5 * Z[:4000], y[:4000])
    over = np.exp(2.5 * Z) / np.exp(2.5 * Z).sum(axis=1, keepdims=True)
    mended = spline.predict_proba(2.5 * Z[4000:])
    top = Z[4000:].argmax(axis=1)
    row = np.arange(4000)
    before = np.abs(over[4000:][row, top] - truth[4000:][row, top]).mean()
    after = np.abs(mended[row, top] - truth[4000:][row, top]).mean()
    assert after < before / 3
