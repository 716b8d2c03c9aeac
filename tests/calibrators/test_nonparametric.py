"""What histogram binning, isotonic regression and splines promise alike, whatever their options."""

from __future__ import annotations

import pickle

import numpy as np
import pytest
from sklearn.base import clone

from skcalib import HistogramBinning, IsotonicCalibrator, SplineCalibrator

CALIBRATORS = {
    "histogram": HistogramBinning(n_bins=7),
    "histogram, quantile": HistogramBinning(n_bins=7, strategy="quantile"),
    "histogram, pooled": HistogramBinning(n_bins=7, class_conditional=False),
    "histogram, pooled quantile": HistogramBinning(
        n_bins=7, strategy="quantile", class_conditional=False
    ),
    "isotonic": IsotonicCalibrator(),
    "isotonic, step": IsotonicCalibrator(interpolation="step"),
    "spline": SplineCalibrator(),
    "spline, top": SplineCalibrator(mode="top"),
    "spline, class-wise": SplineCalibrator(n_knots=6, mode="classwise"),
    "spline, parabolic": SplineCalibrator(runout="parabolic", n_knots=5),
    "spline, cubic": SplineCalibrator(runout="cubic", n_knots=4),
}
BOOTSTRAPPED = {
    "bootstrap": HistogramBinning(n_bins=7, n_bootstraps=8, random_state=0),
    "bootstrap, quantile": HistogramBinning(
        n_bins=5, strategy="quantile", n_bootstraps=8, random_state=0
    ),
    "bootstrap, pooled quantile": HistogramBinning(
        n_bins=5, strategy="quantile", class_conditional=False, n_bootstraps=8, random_state=0
    ),
}


@pytest.fixture(params=[*CALIBRATORS, *BOOTSTRAPPED])
def calibrator(request):
    return clone({**CALIBRATORS, **BOOTSTRAPPED}[request.param])


@pytest.fixture(params=list(CALIBRATORS))
def exact(request):
    """A calibrator without random resamples."""
    return clone(CALIBRATORS[request.param])


def problem(n=80, n_classes=4, seed=0, digits=2):
    """Probabilities with ties and exact 0 and 1, labels drawn from a milder version of them."""
    rng = np.random.default_rng(seed)
    parts = rng.dirichlet(np.full(n_classes, 0.5), size=n)
    grid = 10**digits
    P = np.floor(parts * grid)
    P[np.arange(n), parts.argmax(axis=1)] += grid - P.sum(axis=1)
    P /= grid
    P[0] = np.eye(n_classes)[0]
    P[1] = np.eye(n_classes)[-1]
    mild = P + 0.1
    mild /= mild.sum(axis=1, keepdims=True)
    y = np.array([rng.choice(n_classes, p=p) for p in mild])
    y[:n_classes] = np.arange(n_classes)
    return P, y, rng.integers(1, 4, n).astype(float)


def assert_simplex(Q, n, n_classes):
    assert Q.shape == (n, n_classes)
    assert np.isfinite(Q).all()
    assert (Q >= 0).all()
    assert (Q <= 1).all()
    atol = 1e-12 if Q.dtype == np.float64 else 1e-5
    np.testing.assert_allclose(Q.sum(axis=1, dtype=float), 1, rtol=0, atol=atol)


@pytest.mark.parametrize("n_classes", [2, 3, 10, 40])
def test_answers_are_probability_vectors(calibrator, n_classes):
    P, y, w = problem(150, n_classes)
    new = problem(150, n_classes, seed=9, digits=3)[0]
    for weight in (None, w):
        calibrator.fit(P, y, weight)
        assert_simplex(calibrator.predict_proba(P), 150, n_classes)
        assert_simplex(calibrator.predict_proba(new), 150, n_classes)


@pytest.mark.parametrize("n_classes", [2, 4])
def test_a_weight_is_repetition(exact, n_classes):
    P, y, w = problem(n_classes=n_classes)
    times = w.astype(int)
    weighted = clone(exact).fit(P, y, times).predict_proba(P)
    repeated = clone(exact).fit(np.repeat(P, times, axis=0), np.repeat(y, times)).predict_proba(P)
    np.testing.assert_allclose(weighted, repeated, rtol=0, atol=1e-10)


def test_weight_zero_is_absence(calibrator):
    P, y, w = problem()
    w = w.astype(int)
    w[::3] = 0
    weighted = clone(calibrator).fit(P, y, w).predict_proba(P)
    absent = clone(calibrator).fit(P[w > 0], y[w > 0], w[w > 0]).predict_proba(P)
    np.testing.assert_allclose(weighted, absent, rtol=0, atol=0)


@pytest.mark.parametrize("n_classes", [2, 4])
@pytest.mark.parametrize("weighted", [False, True])
def test_row_order_does_not_matter(exact, n_classes, weighted):
    P, y, w = problem(n_classes=n_classes)
    w = w * 0.7 if weighted else None
    order = np.random.default_rng(1).permutation(len(y))
    straight = clone(exact).fit(P, y, w).predict_proba(P)
    shuffled = clone(exact).fit(P[order], y[order], w[order] if weighted else None)
    np.testing.assert_allclose(shuffled.predict_proba(P), straight, rtol=0, atol=1e-12)
    np.testing.assert_allclose(
        shuffled.predict_proba(P[order]), straight[order], rtol=0, atol=1e-12
    )


def test_equal_rows_get_equal_answers(calibrator):
    P, y, _ = problem(digits=1)
    Q = calibrator.fit(P, y).predict_proba(P)
    for row in range(len(P)):
        same = (P[row] == P).all(axis=1)
        assert (Q[same] == Q[row]).all()


@pytest.mark.parametrize("kind", ["proba", "logits"])
def test_float32_in_is_float32_out_and_the_same_answer(calibrator, kind):
    X, y, _ = problem(digits=3)
    if kind == "logits":
        X = X + np.random.default_rng(0).normal(size=X.shape)
    X = X.astype(np.float32).astype(float)
    options = {"input": kind}
    wide = clone(calibrator).set_params(**options).fit(X, y)
    narrow = clone(calibrator).set_params(**options).fit(X.astype(np.float32), y)
    Q = narrow.predict_proba(X.astype(np.float32))
    assert Q.dtype == np.float32
    assert wide.predict_proba(X).dtype == np.float64
    np.testing.assert_allclose(Q, wide.predict_proba(X), rtol=0, atol=1e-5)
    assert_simplex(Q, *X.shape)


def test_logits_answer_as_their_softmax(exact):
    rng = np.random.default_rng(4)
    Z = rng.normal(scale=2, size=(90, 3))
    y = np.append([0, 1, 2], rng.integers(0, 3, 87))
    P = np.exp(Z) / np.exp(Z).sum(axis=1, keepdims=True)
    from_logits = clone(exact).fit(Z, y).predict_proba(Z)
    from_proba = clone(exact).fit(P, y).predict_proba(P)
    np.testing.assert_allclose(from_logits, from_proba, rtol=0, atol=1e-9)


def test_logits_of_minus_infinity_are_probabilities_of_zero(calibrator):
    P, y, _ = problem()
    with np.errstate(divide="ignore"):
        Z = np.log(P)
    Q = clone(calibrator).fit(Z, y).predict_proba(Z)
    assert_simplex(Q, *P.shape)
    # 0 and 1 come back exactly; other entries may sit a rounding away from an edge.
    np.testing.assert_allclose(
        Q[:2], clone(calibrator).fit(P, y).predict_proba(P)[:2], rtol=0, atol=0.1
    )


@pytest.mark.parametrize("shape", [(-1,), (-1, 1)])
def test_one_column_is_the_second_of_two(calibrator, shape):
    P, y, w = problem(n_classes=2)
    # In 64ths 1 - p is exact, so that the two forms have the same ties.
    P = np.round(P * 64) / 64
    two = clone(calibrator).fit(P, y, w).predict_proba(P)
    one = clone(calibrator).fit(P[:, 1].reshape(shape), y, w)
    np.testing.assert_allclose(one.predict_proba(P[:, 1].reshape(shape)), two, rtol=0, atol=1e-12)


def test_exact_zero_and_one_are_scores_like_any_other(calibrator):
    P = np.array([[1.0, 0.0], [1.0, 0.0], [1.0, 0.0], [0.0, 1.0], [0.0, 1.0], [0.0, 1.0]])
    y = np.array([0, 0, 1, 1, 1, 0])
    assert_simplex(calibrator.fit(P, y).predict_proba(P), 6, 2)
    assert_simplex(calibrator.predict_proba([[0.5, 0.5], [0.3, 0.7]]), 2, 2)


@pytest.mark.filterwarnings("ignore:no row of class")
def test_a_class_missing_from_the_calibration_rows_keeps_its_column(calibrator):
    P, y, _ = problem(n_classes=4)
    y[y == 2] = 0
    calibrator.set_params(classes=[0, 1, 2, 3]).fit(P, y)
    assert calibrator.classes_.tolist() == [0, 1, 2, 3]
    assert_simplex(calibrator.predict_proba(P), *P.shape)


@pytest.mark.filterwarnings("ignore:no row of class")
def test_a_single_row_and_a_single_class_can_be_fitted(calibrator):
    calibrator.set_params(classes=[0, 1, 2])
    assert_simplex(calibrator.fit([[0.2, 0.3, 0.5]], [2]).predict_proba(np.eye(3)), 3, 3)
    P, _, w = problem(n_classes=3)
    assert_simplex(calibrator.fit(P, np.ones(len(P), dtype=int), w).predict_proba(P), len(P), 3)


def test_labels_may_be_strings(calibrator):
    P, y, _ = problem(n_classes=3)
    names = np.array(["bird", "cat", "dog"])
    named = clone(calibrator).fit(P, names[y])
    assert named.classes_.tolist() == names.tolist()
    plain = clone(calibrator).fit(P, y)
    assert (named.predict_proba(P) == plain.predict_proba(P)).all()
    assert (named.predict(P) == names[plain.predict(P)]).all()


def test_a_refit_forgets_the_first_fit(calibrator):
    P, y, w = problem()
    other, other_y, _ = problem(200, n_classes=7, seed=5)
    fresh = clone(calibrator).fit(P, y, w).predict_proba(P)
    again = calibrator.fit(other, other_y).fit(P, y, w).predict_proba(P)
    assert (again == fresh).all()


def test_a_failed_fit_changes_nothing(calibrator):
    P, y, _ = problem()
    before = calibrator.fit(P, y).predict_proba(P)
    with pytest.raises(ValueError, match="inconsistent numbers of samples"):
        calibrator.fit(P, y[:-1])
    assert (calibrator.predict_proba(P) == before).all()


def test_clone_and_pickle(calibrator):
    P, y, _ = problem()
    fitted = clone(calibrator).fit(P, y)
    assert clone(fitted).get_params() == calibrator.get_params()
    assert not hasattr(clone(fitted), "classes_")
    loaded = pickle.loads(pickle.dumps(fitted))
    assert (loaded.predict_proba(P) == fitted.predict_proba(P)).all()


def test_neither_scores_nor_weights_are_written_to(calibrator):
    P, y, w = problem()
    for array in (P, y, w):
        array.setflags(write=False)
    calibrator.fit(P, y, w).predict_proba(P)


def test_blocks_are_not_seen(calibrator, monkeypatch, small_blocks):
    P, y, w = problem(n_classes=5)
    whole = clone(calibrator).fit(P, y, w).predict_proba(P)
    small_blocks(10)
    monkeypatch.setattr("skcalib._arrays.blocks.column_blocks.__defaults__", (1300, 0))
    pieces = clone(calibrator).fit(P, y, w).predict_proba(P)
    np.testing.assert_allclose(pieces, whole, rtol=0, atol=1e-12)


@pytest.mark.parametrize(
    ("estimator", "match"),
    [
        (HistogramBinning(n_bins=0), "n_bins"),
        (HistogramBinning(strategy="even"), "strategy"),
        (HistogramBinning(n_bootstraps=-1), "n_bootstraps"),
        (IsotonicCalibrator(interpolation="cubic"), "interpolation"),
        (SplineCalibrator(n_knots=3), "n_knots"),
        (SplineCalibrator(n_knots="many"), "n_knots"),
        (SplineCalibrator(mode="all"), "mode"),
        (SplineCalibrator(runout="clamped"), "runout"),
    ],
)
def test_a_parameter_out_of_range_is_named(estimator, match):
    P, y, _ = problem()
    with pytest.raises(ValueError, match=match):
        estimator.fit(P, y)


def test_scores_too_small_for_a_straight_line_are_interpolated_all_the_same():
    """The slope between 0 and 1e-311 is beyond any float."""
    p = np.array([0.0, 0.0, 0.0, 2e-311, 2e-311, 1.0])
    y = np.array([0, 0, 1, 1, 0, 1])
    isotonic = IsotonicCalibrator().fit(p, y)
    Q = isotonic.predict_proba(np.array([0.0, 1e-311, 2e-311]))
    np.testing.assert_allclose(Q[:, 1], [1 / 3, (1 / 3 + 1 / 2) / 2, 1 / 2], rtol=1e-9)


def test_others_too_small_to_divide_by_share_the_rest_of_the_top_all_the_same():
    P = np.array([[1.0, 1e-310, 0.0]] * 8)
    spline = SplineCalibrator(n_knots=6, mode="top", input="proba").fit(P, [0, 1, 0, 2, 0, 1, 0, 0])
    Q = spline.predict_proba(P)
    assert Q[0, 1] == pytest.approx(1 - Q[0, 0])
    assert Q[0, 2] == 0.0
