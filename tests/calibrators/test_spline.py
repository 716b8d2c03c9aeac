"""Spline calibration against quadrature and loops, and the run-outs against SciPy's splines."""

import itertools

import numpy as np
import pytest
from calls import peak_memory
from scipy.interpolate import CubicSpline
from scipy.special import expit, logsumexp
from sklearn.base import clone

from skcalib import SplineCalibrator
from skcalib._scores.one_vs_rest import sort_problem
from skcalib._validation.rows import check_weight
from skcalib.calibrators import _spline as spline_module


def binary(n=60, seed=0, digits=1):
    rng = np.random.default_rng(seed)
    p = np.round(rng.random(n), digits)
    y = (rng.random(n) < p**2).astype(int)
    y[:2] = 0, 1
    return p, y, check_weight(rng.random(n) + 0.1, n)


def several(n=70, n_classes=4, seed=0):
    rng = np.random.default_rng(seed)
    P = np.round(rng.dirichlet(np.full(n_classes, 0.6), size=n) * 50) / 50
    P[:, -1] = np.maximum(1 - P[:, :-1].sum(axis=1), 0)
    P /= P.sum(axis=1, keepdims=True)
    P[0] = np.eye(n_classes)[0]
    y = np.append(np.arange(n_classes), rng.integers(0, n_classes, n - n_classes))
    return P, y, rng.integers(1, 4, n)


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


def reference_map(score, hit, w, n_knots, runout, proba=float):
    """Knot values, distinct scores and mapped values, by quadrature of the definition."""
    levels = distinct(score)
    ends, d_at, total = [0.0], [0.0], sum(w)
    for level in levels:
        rows = [i for i in range(len(score)) if 0 <= score[i] - level <= 1e-12]
        mass = sum(w[i] for i in rows)
        share = sum(w[i] * hit[i] for i in rows) / mass
        ends.append(ends[-1] + mass / total)
        d_at.append(d_at[-1] + (share - proba(level)) * mass / total)
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
        mapped.append((f(b) - f(a)) / (b - a) + proba(level))
    return knot_values, levels, mapped


@pytest.mark.parametrize(("runout", "n_knots"), [("natural", 6), ("parabolic", 5), ("cubic", 4)])
def test_the_map_is_the_definition_integrated(runout, n_knots):
    p, y, w = binary()
    new = np.linspace(0, 1, 37)
    for weight in (None, w):
        spline = SplineCalibrator(n_knots=n_knots, mode="classwise", runout=runout)
        spline.fit(p, y, weight)
        expected = reference_map(
            p, y == 1, np.ones(len(p)) if weight is None else w, n_knots, runout
        )
        np.testing.assert_allclose(spline.knot_values_[0], expected[0], rtol=0, atol=1e-11)
        assert spline.X_thresholds_[0].tolist() == expected[1]
        np.testing.assert_allclose(spline.y_thresholds_[0], expected[2], rtol=0, atol=1e-10)
        mapped = np.clip(np.interp(new, expected[1], expected[2]), 0, 1)
        Q = spline.predict_proba(new)
        np.testing.assert_allclose(Q[:, 1], mapped, rtol=0, atol=1e-10)
        np.testing.assert_allclose(Q[:, 0], 1 - mapped, rtol=0, atol=1e-10)


def test_classwise_is_a_map_for_each_column_and_rows_that_sum_to_one():
    n_classes = 3
    P, y, w = several(70, n_classes)
    spline = SplineCalibrator(n_knots=6, mode="classwise").fit(P, y, w)
    assert spline.knot_values_.shape == (n_classes, 6)
    raw = np.empty(P.shape)
    for k in range(n_classes):
        _, x, v = reference_map(P[:, k], y == k, w, 6, "natural")
        np.testing.assert_allclose(spline.y_thresholds_[k], v, rtol=0, atol=1e-10)
        x, v = spline.X_thresholds_[k], spline.y_thresholds_[k]
        assert x.tolist() == distinct(P[:, k])
        for i in range(len(P)):
            raw[i, k] = min(max(np.interp(P[i, k], x, v), 0), 1)
    total = raw.sum(axis=1)
    raw[total == 0], total[total == 0] = 1, n_classes
    np.testing.assert_allclose(spline.predict_proba(P), raw / total[:, None], rtol=0, atol=1e-12)


def filled(row, best, value):
    """Raise the level of what the others get, in proportion and up to `value`, to a sum of 1."""
    n_classes = len(row)
    value = max(value, 1 / n_classes)
    parts = [p if sum(row) > row[best] else 1.0 for p in row]

    def at(level):
        answer = [min(level * p, value) for p in parts]
        answer[best] = value
        return answer

    low, high = 0.0, 1.0
    while sum(at(high)) < 1 - 1e-13 and high < 1e30:
        high *= 2
    for _ in range(300):
        middle = (low + high) / 2
        low, high = (middle, high) if sum(at(middle)) < 1 else (low, middle)
    answer = at(high)
    zeros = [k for k in range(n_classes) if parts[k] == 0 and k != best]
    for k in zeros:  # what is left when all others are full
        answer[k] = max(1 - sum(at(high)), 0.0) / len(zeros)
    return answer


@pytest.mark.parametrize("n_classes", [2, 4])
@pytest.mark.parametrize("hard", [False, True])
def test_top_is_the_map_of_the_top_score_and_fills_the_others_up_to_it(n_classes, hard):
    P, y, w = several(n_classes=n_classes)
    if hard:  # the top label is wrong mostly: the map is low
        y = (P.argmax(axis=1) + (np.arange(len(P)) % 4 > 0)) % n_classes
        y[: 2 * n_classes] = np.arange(2 * n_classes) % n_classes
    new = np.vstack([P, np.random.default_rng(1).dirichlet(np.full(n_classes, 0.4), size=60)])
    top = P.argmax(axis=1)
    score = P[np.arange(len(P)), top]
    _, x, v = reference_map(score, top == y, w, 6, "natural")
    spline = SplineCalibrator(n_knots=6, mode="top").fit(P, y, w)
    assert spline.knot_values_.shape == (1, 6)
    assert len(spline.X_thresholds_) == len(spline.y_thresholds_) == 1
    for row, answer in zip(new, spline.predict_proba(new), strict=True):
        best = list(row).index(max(row))
        value = min(max(np.interp(row[best], x, v), 0), 1)
        assert answer.argmax() == best
        assert answer[best] == pytest.approx(max(value, 1 / n_classes), abs=1e-10)
        np.testing.assert_allclose(answer, filled(list(row), best, value), rtol=0, atol=1e-9)


def test_others_too_small_to_divide_by_share_the_rest_of_the_top_all_the_same():
    P = np.array([[1.0, 1e-310, 0.0]] * 8)
    spline = SplineCalibrator(n_knots=6, mode="top", input="proba").fit(P, [0, 1, 0, 2, 0, 1, 0, 0])
    Q = spline.predict_proba(P)
    assert Q[0, 1] == pytest.approx(1 - Q[0, 0])
    assert Q[0, 2] == 0.0


# ------------------------------------------------------------------------------ closed forms


# ------------------------------------------------------------------------ weights, ties, size


def test_rows_of_almost_no_weight_get_the_slope_where_they_stand():
    """A stretch of 1e-30 of the fractile has no difference quotient; its middle has a slope."""
    p, y, w = binary(digits=6)
    light = SplineCalibrator(n_knots=6, mode="classwise").fit(
        np.append(p, [0.3, 0.3000001]), np.append(y, [1, 0]), np.append(w, [1e-30, 1e-30])
    )
    at = np.linspace(0, 1, 101)
    without = SplineCalibrator(n_knots=6, mode="classwise").fit(p, y, w)
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
    full = SplineCalibrator(n_knots=6, mode="classwise").fit(p, y)
    assert full.X_thresholds_[0].size == 5000
    monkeypatch.setattr(spline_module, "MAX_THRESHOLDS", 500)
    thin = SplineCalibrator(n_knots=6, mode="classwise").fit(p, y)
    assert thin.X_thresholds_[0].size == 500
    assert thin.X_thresholds_[0][[0, -1]].tolist() == [p.min(), p.max()]
    assert (thin.knot_values_ == full.knot_values_).all()
    at = np.linspace(0, 1, 2000)
    np.testing.assert_allclose(thin.predict_proba(at), full.predict_proba(at), rtol=0, atol=1e-3)


# --------------------------------------------------------------------------------- by rank


def ranks_of(P, y):
    """Scores and hits of each rank; equal classes share the hit."""
    score = np.array([sorted(row, reverse=True) for row in P])
    hit = (score == P[np.arange(len(P)), y][:, None]).astype(float)
    return score, hit / hit.sum(axis=1, keepdims=True)


def put_back(row, values, apart=None, tail=0.0, least=0.0):
    """Mapped ranks in place of a row's classes, equal ones sharing; ranks from `apart` on share."""
    order = sorted(range(len(row)), key=lambda k: (-row[k], k))
    answer = dict(zip(order, values, strict=False))
    if apart is not None and apart < len(row):
        parts = {k: max(row[k], least) for k in order[apart:]}
        if len(parts) == 1:
            parts = dict.fromkeys(parts, 1.0)
        total = sum(parts.values())
        answer |= {k: tail * part / total for k, part in parts.items()}
    shared = {k: np.mean([answer[j] for j in order if row[j] == row[k]]) for k in order}
    total = sum(shared.values())
    return [shared[k] / total if total > 0 else 1 / len(row) for k in range(len(row))]


def test_rank_with_a_number_of_knots_is_the_papers_spline_of_each_rank():
    n_classes = 3
    P, y, w = several(n_classes=n_classes)
    score, hit = ranks_of(P, y)
    spline = SplineCalibrator(n_knots=5, mode="rank").fit(P, y, w)
    assert spline.knot_values_.shape == (n_classes, 5)
    assert spline.n_knots_.tolist() == [5] * n_classes
    assert spline.kept_.tolist() == [1.0] * n_classes
    maps = []
    for r in range(n_classes):
        values, x, v = reference_map(score[:, r], hit[:, r], w, 5, "natural")
        np.testing.assert_allclose(spline.knot_values_[r], values, rtol=0, atol=1e-11)
        maps.append((x, v))
    new = np.vstack([P, np.random.default_rng(1).dirichlet(np.ones(n_classes), size=20)])
    for row, answer in zip(new, spline.predict_proba(new), strict=True):
        ordered = sorted(row, reverse=True)
        values = [min(max(np.interp(s, *one), 0), 1) for s, one in zip(ordered, maps, strict=True)]
        np.testing.assert_allclose(answer, put_back(row, values), rtol=0, atol=1e-9)


def test_equal_probabilities_of_a_row_get_equal_answers_whatever_the_columns():
    rng = np.random.default_rng(0)
    counts = rng.multinomial(6, np.full(30, 1 / 30), size=500)
    P = counts / 6
    y = np.array([rng.choice(30, p=row) for row in P])
    for n_knots in (6, "auto"):
        spline = SplineCalibrator(n_knots=n_knots, classes=np.arange(30)).fit(P, y)
        Q = spline.predict_proba(P)
        for row, answer in zip(counts, Q, strict=True):
            assert all(np.ptp(answer[row == count]) <= 1e-15 for count in np.unique(row))
        columns = rng.permutation(30)
        np.testing.assert_allclose(
            spline.predict_proba(P[:, columns]), Q[:, columns], rtol=0, atol=1e-14
        )
        moved = clone(spline).fit(P[:, columns], np.argsort(columns)[y])
        np.testing.assert_allclose(
            moved.predict_proba(P[:, columns]), Q[:, columns], rtol=0, atol=1e-12
        )


def test_two_classes_have_one_map_of_the_second_by_rank_as_by_class():
    p, y, w = binary()
    for n_knots in (6, "auto"):
        by_rank = SplineCalibrator(n_knots=n_knots, mode="rank").fit(p, y, w)
        by_class = SplineCalibrator(n_knots=n_knots, mode="classwise").fit(p, y, w)
        assert by_rank.knot_values_.shape[0] == 1
        assert (by_rank.predict_proba(p) == by_class.predict_proba(p)).all()


# --------------------------------------------------------------------- scores beyond P = 1


def test_log_odds_of_any_size_keep_their_order():
    """Half of the probabilities are 1 exactly; lines between scores are of what is added."""
    rng = np.random.default_rng(0)
    f = np.round(rng.uniform(0, 80, 60), 1)
    y = rng.random(60) < expit((f - 40) / 8)
    spline = SplineCalibrator(n_knots=5, input="logits").fit(f, y)
    values, x, v = reference_map(f, y, np.ones(60), 5, "natural", expit)
    np.testing.assert_allclose(spline.knot_values_[0], values, rtol=0, atol=1e-11)
    assert spline.X_thresholds_[0].tolist() == x
    np.testing.assert_allclose(spline.y_thresholds_[0], v, rtol=0, atol=1e-10)
    new = np.linspace(-10, 90, 97)
    change = np.interp(new, x, v - expit(x))
    expected = np.clip(change + np.clip(expit(new), expit(x[0]), expit(x[-1])), 0, 1)
    np.testing.assert_allclose(spline.predict_proba(new)[:, 1], expected, rtol=0, atol=1e-10)


@pytest.mark.parametrize("n_maps", [3, 6])
@pytest.mark.parametrize("shift", [0, 2**30])
def test_ranks_of_logits_are_sorted_by_log_odds(n_maps, shift):
    """Also if some or all but one are -inf, or if a large number is added to each logit."""
    rng, own = np.random.default_rng(0), n_maps - 1
    Z = rng.integers(-4000, 4000, size=(30, 6)) / 256.0
    Z[:10, 2] = Z[:5, 1:] = -np.inf
    expected = []
    for row in -np.sort(-Z, axis=1):
        others = [np.append(row[:r], row[r + 1 :]) for r in range(own)]
        odds = [row[r] - logsumexp(others[r]) for r in range(own)]
        expected.append([*odds, logsumexp(row[own:]) - logsumexp(row[:own])])
    x = spline_module.scores_of_block(Z + shift, "logits", n_maps, slice(None))
    np.testing.assert_allclose(x, np.clip(expected, -1e38, 1e38), rtol=1e-12)


@pytest.mark.parametrize("apart", [4, 2])
def test_ranks_of_logits_of_any_size_keep_their_order(apart, monkeypatch):
    """Scales of 1 to 10^4; a map for each rank, and one for the last two together."""
    monkeypatch.setattr(spline_module, "MOST_RANKS", apart - 1)
    rng = np.random.default_rng(1)
    Z = rng.normal(size=(80, 4)) * np.geomspace(1, 1e4, 80)[:, None]
    y = (Z / Z.std(axis=1, keepdims=True) + rng.gumbel(size=Z.shape)).argmax(axis=1)
    spline = SplineCalibrator(n_knots="auto" if apart < 4 else 5).fit(Z, y)
    falling = -np.sort(-Z, axis=1)
    own = range(4) if apart == 4 else range(apart - 1)
    parts = [([j], [k for k in range(4) if k != j]) for j in own]
    parts += [] if apart == 4 else [([k for k in range(4) if k not in own], list(own))]
    assert len(spline.X_thresholds_) == len(parts)
    for x, (inside, outside) in zip(spline.X_thresholds_, parts, strict=True):
        odds = logsumexp(falling[:, inside], axis=1) - logsumexp(falling[:, outside], axis=1)
        np.testing.assert_allclose(x, np.sort(odds), rtol=1e-13, atol=1e-13)


# ----------------------------------------------------------------------- chosen from the data


def chosen(score, hit, w):
    """Knots, part of the change kept and mapped values, by loops over the criterion's rows."""
    n = sum(w)
    best = None
    for m in (4, 7, 13):
        _, levels, mapped = reference_map(score, hit, w, m, "natural")
        h = (m - 1) / n
        if h >= 0.5:
            continue
        rows = []
        for s, t, weight in zip(score, hit, w, strict=True):
            level = max(x for x in levels if x <= s + 1e-15)
            e = float(t) - level
            change = mapped[levels.index(level)] - level
            rows.append((weight, e, (change - h * e) / (1 - h)))
        # A grid instead of the closed form: the best part kept, to 1e-4.
        parts = np.linspace(0, 1, 10_001)
        errors = sum(weight * (e - parts * d) ** 2 for weight, e, d in rows)
        error, kept = errors.min(), parts[errors.argmin()]
        if best is None or error < best[0] - 1e-12:
            best = (error, m if kept > 0 else 0, kept, levels, mapped)
    _, m, kept, levels, mapped = best
    return m, kept, [x + kept * (v - x) for x, v in zip(levels, mapped, strict=True)]


@pytest.mark.parametrize("seed", range(4))
def test_auto_takes_the_least_generalised_cross_validation(seed):
    rng = np.random.default_rng(seed)
    p = np.round(rng.random(60), 2)
    bent = (p, p**3, 0.5 + 0.45 * np.sin(9 * p), np.full(60, 0.5))[seed]
    y = (rng.random(60) < bent).astype(int)
    w = rng.integers(1, 4, 60)
    spline = SplineCalibrator(mode="classwise", classes=[0, 1]).fit(p, y, w)
    m, kept, mapped = chosen(p, y == 1, w)
    assert spline.n_knots_.tolist() == [m]
    assert spline.kept_[0] == pytest.approx(kept, abs=1e-4)
    np.testing.assert_allclose(spline.y_thresholds_[0], mapped, rtol=0, atol=1e-3)
    assert spline.knots_.size == 13


def test_scores_that_are_right_already_are_left_by_auto():
    p = np.repeat([0.25, 0.5, 0.75], 40)
    y = np.concatenate([np.tile([0, 0, 0, 1], 10), np.tile([0, 1], 20), np.tile([0, 1, 1, 1], 10)])
    spline = SplineCalibrator().fit(p, y)
    assert spline.n_knots_.tolist() == [0]
    assert spline.kept_.tolist() == [0.0]
    assert (spline.knot_values_ == 0).all()
    np.testing.assert_allclose(spline.predict_proba(p)[:, 1], p, rtol=0, atol=1e-15)


def test_of_one_effective_row_nothing_is_learnt():
    p, y, w = binary()
    spline = SplineCalibrator().fit(p, y, np.where(np.arange(p.size), 1e-6, 1.0) * w)
    assert spline.n_knots_.tolist() == [0]


def test_ranks_from_the_first_with_few_hits_on_share_one_map_in_proportion():
    rng = np.random.default_rng(7)
    P = rng.dirichlet(np.full(12, 0.3), size=250)
    y = np.array([rng.choice(12, p=row) for row in P**0.7 / (P**0.7).sum(axis=1, keepdims=True)])
    score, hit = ranks_of(P, y)
    hits = hit.sum(axis=0)
    apart = next(r for r in range(12) if hits[r] < 4)
    assert hits[apart - 1 : apart + 1].tolist() == [4, 3]
    spline = SplineCalibrator(classes=np.arange(12)).fit(P, y)
    assert len(spline.X_thresholds_) == apart + 1
    rest = score[:, apart:].sum(axis=1)
    np.testing.assert_allclose(spline.X_thresholds_[-1], np.sort(rest), rtol=0, atol=1e-15)
    one = SplineCalibrator(mode="classwise").fit(rest, hit[:, apart:].any(axis=1))
    assert spline.n_knots_[-1] == one.n_knots_[0]
    assert spline.kept_[-1] == pytest.approx(one.kept_[0], abs=1e-10)

    def mapped(j, s):
        value = np.interp(s, spline.X_thresholds_[j], spline.y_thresholds_[j])
        low, high = (max(min(x, spline.rare_proba_), spline.least_proba_) for x in (s, 1 - s))
        return min(max(value, low), 1 - high)

    new = rng.dirichlet(np.full(12, 0.3), size=50)
    new[0] = np.eye(12)[3]
    new[1] = [0.5] + [0.05] * 10 + [0]
    Q = spline.predict_proba(new)
    for row, answer in zip(new, Q, strict=True):
        ordered = sorted(row, reverse=True)
        values = [mapped(r, ordered[r]) for r in range(apart)]
        tail = mapped(apart, min(sum(ordered[apart:]), 1))
        expected = put_back(row, values, apart, tail, spline.least_proba_)
        np.testing.assert_allclose(answer, expected, rtol=0, atol=1e-12)


@pytest.mark.parametrize("mode", ["rank", "classwise", "top"])
def test_auto_answers_no_zero_and_lowers_nothing_below_what_rows_can_tell(mode):
    rng = np.random.default_rng(0)
    P = (rng.multinomial(5, np.full(6, 1 / 6), size=300) / 5).astype(np.float32)
    P[:100] = np.eye(6)[rng.integers(0, 6, 100)]
    y = P.argmax(axis=1)  # no score below the first ever comes true
    spline = SplineCalibrator(mode=mode, classes=np.arange(6)).fit(P, y)
    assert spline.rare_proba_ == pytest.approx(1 / 301, rel=1e-12)
    assert spline.least_proba_ == pytest.approx(min(0.2 / 2, 1 / 600), rel=1e-6)
    Q = spline.predict_proba(P)
    assert Q.min() > 1e-7
    if mode == "classwise":
        assert Q[P >= 0.2 - 1e-6].min() > 0.5 / 301


def test_what_no_row_can_tell_is_left_where_it_was():
    """Of 400 rows with scores of 1e-6 none is a hit, and none is lowered."""
    p = np.concatenate([np.full(400, 1e-6), np.linspace(0.1, 0.9, 100)])
    y = np.concatenate([np.zeros(400), np.arange(100) % 10 > 4]).astype(int)
    spline = SplineCalibrator().fit(p, y)
    q = spline.predict_proba([0.0, 1e-9, 1e-6])[:, 1]
    assert q[2] >= 1e-6
    assert q[1] >= spline.least_proba_ == 5e-7
    assert q[0] >= 5e-7


def test_a_thousand_classes_of_which_most_are_missing():
    rng = np.random.default_rng(0)
    Z = rng.normal(size=(200, 1000)).astype(np.float32)
    y = Z.argmax(axis=1)
    y[::3] = rng.integers(0, 1000, 67)
    for n_knots in ("auto", 6):
        spline = SplineCalibrator(n_knots=n_knots, classes=np.arange(1000)).fit(3 * Z, y)
        assert len(spline.X_thresholds_) == (1000 if n_knots == 6 else 2)
        Q = spline.predict_proba(3 * Z)
        assert Q.dtype == np.float32
        np.testing.assert_allclose(Q.sum(axis=1), 1, rtol=0, atol=1e-5)


def test_a_fit_of_many_rows_needs_few_numbers_per_row():
    n = 1 << 19  # more pieces than are kept from problem to problem
    rng = np.random.default_rng(0)
    p = rng.uniform(size=n)
    problem = sort_problem(p, rng.uniform(size=n) < p, None)
    basis = spline_module.spline_basis((4, 7, 13), "natural")

    def fit():
        pieces = spline_module.cut(basis.value.x, np.arange(n + 1.0))
        spline_module.fit_spline(problem, basis, pieces, 1000)

    assert peak_memory(fit) < 10.5 * 8 * n


@pytest.mark.parametrize("n_knots", ["auto", 6])
def test_powers_that_are_kept_change_no_number(monkeypatch, n_knots):
    rng = np.random.default_rng(0)
    P = rng.dirichlet(np.ones(3), size=60_000).round(4)  # several blocks of rows, and ties
    y = (P.cumsum(axis=1) < rng.uniform(size=(60_000, 1))).sum(axis=1)
    kept = SplineCalibrator(n_knots=n_knots).fit(P, y)
    monkeypatch.setattr(spline_module, "FEW_PIECES", 0)
    computed = SplineCalibrator(n_knots=n_knots).fit(P, y)
    for a, b in zip(kept.y_thresholds_, computed.y_thresholds_, strict=True):
        np.testing.assert_array_equal(a, b)
