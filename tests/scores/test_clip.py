"""What 0 counts as where a logarithm is taken: half of what calibration rows can tell from it."""

import numpy as np
import pytest
from calls import refused
from numpy.testing import assert_allclose, assert_array_equal
from samples import drawn
from scipy.special import expit, logit, softmax
from sklearn.base import clone

import skcalib
from skcalib._scores.scores import LEAST_CLIP, Scores, find_clip

TAKE_LOGS = [
    skcalib.TemperatureScaling(),
    skcalib.EnsembleTemperatureScaling(),
    skcalib.VectorScaling(tol=1e-9),
    skcalib.MatrixScaling(tol=1e-9),
    skcalib.DirichletCalibrator(tol=1e-9),
    skcalib.PlattScaling(),
    skcalib.BetaCalibrator(),
    skcalib.AutoCalibrator(tol=1e-6),
]
each = pytest.mark.parametrize("calibrator", TAKE_LOGS, ids=lambda c: type(c).__name__)


def multiples(n=1500, seed=0):
    """Confidences in multiples of 5 %, 0 and 1 among them, that say far too much; and hits."""
    rng = np.random.default_rng(seed)
    p = rng.integers(0, 21, size=n) / 20
    truth = expit(0.4 * logit(np.clip(p, 0.15, 0.85)))
    return p, (rng.random(n) < truth).astype(int)


def votes(n=1200, n_classes=4, n_trees=20, seed=0):
    """Shares of the trees of a forest: exact zeros, also of the true class."""
    rng = np.random.default_rng(seed)
    truth = rng.dirichlet(np.full(n_classes, 0.5), size=n)
    P = rng.multinomial(n_trees, truth) / n_trees
    y = (truth.cumsum(axis=1) < rng.random((n, 1))).sum(axis=1)
    return P, y


def reference(P):
    """The clip of each column, entry by entry."""
    n_classes, found = P.shape[1], []
    for k in range(n_classes):
        columns = [k] if n_classes == 2 else range(n_classes)
        smallest, any_zero = np.inf, False
        for row in P:
            for j in columns:
                any_zero |= row[j] == 0
                if 0 < row[j] < smallest:
                    smallest = row[j]
        clip = min(smallest / 2, 1 / (2 * n_classes))
        found.append((max(clip, float(np.finfo(np.float32).tiny)), any_zero))
    return found


# ------------------------------------------------------------------ the rule


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("zeros", [False, True])
@pytest.mark.parametrize(("n", "n_classes"), [(1, 2), (400, 2), (400, 3), (5, 30), (300, 40)])
def test_the_clip_is_half_the_smallest_probability(n, n_classes, zeros, dtype):
    rng = np.random.default_rng(n + n_classes)
    P = rng.dirichlet(np.full(n_classes, 0.5), size=n)
    if zeros:
        P[P < 0.02] = 0
        P /= P.sum(axis=1, keepdims=True)
    P = P.astype(dtype)
    clip, any_zero = find_clip(Scores(P, "proba"))
    assert np.shape(clip) == np.shape(any_zero) == ((2,) if n_classes == 2 else ())
    found = [np.broadcast_to(each, n_classes) for each in (clip, any_zero)]
    assert_allclose(np.column_stack(found), reference(P), rtol=1e-15)


@pytest.mark.parametrize("n_classes", [2, 3])
def test_the_clip_of_many_blocks_is_that_of_all_rows(n_classes):
    P = np.full((300_000, n_classes), 1 / n_classes)
    P[200_000, :2] = 1e-9, 2 / n_classes - 1e-9
    P[-1, :2] = 0, 2 / n_classes
    clip, _ = find_clip(Scores(P, "proba"))
    assert_allclose(np.broadcast_to(clip, n_classes)[0], 5e-10)


def test_probabilities_below_the_range_of_float32_are_no_resolution():
    P = np.array([[1e-300, 0.5, 0.5], [0.0, 1.0, 0.0]])
    assert find_clip(Scores(P, "proba")) == (LEAST_CLIP, True)
    assert pytest.approx(1.1754944e-38) == LEAST_CLIP


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("n_classes", [2, 3])
def test_zeros_of_either_sign_are_above_no_number(n_classes, dtype):
    P = np.zeros((4, n_classes), dtype=dtype)
    P[:, 0], P[1:, -1] = 1, -0.0
    clip, _ = find_clip(Scores(P, "proba"))
    assert np.broadcast_to(clip, n_classes)[1] == 1 / (2 * n_classes)
    P[2, :2] = 0.75, 0.25
    clip, _ = find_clip(Scores(P, "proba"))
    assert np.broadcast_to(clip, n_classes)[1] == 0.125


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_what_rounding_leaves_of_1_counts_as_0(dtype):
    """Ten weights of .1 add up to 1 - 1.1e-16, which says nothing of a probability of 1e-16."""
    p = np.array([0.0, 0.05, 0.5, 0.9, 1.0], dtype=dtype)
    p[-1] -= np.finfo(dtype).eps / 2
    assert p[-1] < 1
    clip, any_zero = find_clip(Scores(np.column_stack([1 - p, p]), "proba"))
    assert_allclose(clip, [0.05, 0.025], rtol=1e-6)
    assert any_zero.all()
    # A number of its own is none: 1e-17 is not 1 - 1.
    own = np.array([[1e-17, 1.0], [0.0, 1.0], [0.5, 0.5]])
    assert_allclose(find_clip(Scores(own, "proba"))[0], [5e-18, 0.25])


@each
def test_the_clip_is_kept_and_used_for_new_rows(calibrator):
    P, y = votes()
    fitted = clone(calibrator).fit(P, y)
    assert fitted.clip_ == 0.025
    asked = np.array([[1.0, 0.0, 0.0, 0.0], [0.3, 0.7, 0.0, 0.0]])
    answer = fitted.predict_proba(asked)
    for small in (1e-9, 1e-300):
        assert_allclose(fitted.predict_proba(np.maximum(asked, small)), answer, rtol=1e-8)
    # Dirichlet calibration normalises logits, and raised rows do not sum to 1.
    if not isinstance(calibrator, skcalib.DirichletCalibrator):
        by_hand = clone(calibrator).fit(np.log(np.maximum(P, 0.025)), y)
        logs = np.log(np.maximum(asked, 0.025))
        assert_allclose(by_hand.predict_proba(logs), answer, rtol=1e-6)


ONE_COLUMN = [
    c for c in TAKE_LOGS if not isinstance(c, skcalib.VectorScaling | skcalib.MatrixScaling)
]


@pytest.mark.parametrize("calibrator", ONE_COLUMN, ids=lambda c: type(c).__name__)
def test_without_zeros_new_probabilities_are_calibrated_like_their_logits(calibrator):
    """Also those far below all of the fit."""
    rng = np.random.default_rng(0)
    f = 2 * rng.normal(size=300)
    y = rng.random(300) < expit(f / 2)
    of_proba, of_logits = clone(calibrator).fit(expit(f), y), clone(calibrator).fit(f, y)
    new = np.array([1e-2, 1e-3, 1e-4, 1e-5, 1e-30, 0.9999])
    assert new[2] < expit(f).min() / 2
    expected = of_logits.predict_proba(logit(new))
    assert_allclose(of_proba.predict_proba(new), expected, rtol=1e-12)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@each
def test_without_zeros_a_new_zero_is_half_of_the_smallest_of_the_fit_and_of_its_row(
    calibrator, dtype
):
    rng = np.random.default_rng(0)
    truth = rng.dirichlet([0.5, 1, 2], size=400)
    y = (truth.cumsum(axis=1) < rng.random((400, 1))).sum(axis=1)
    P = (0.9 * truth + 0.1 / 3).astype(dtype)
    fitted = clone(calibrator).fit(P, y)
    m = float(P.min())
    rows = np.array([[1, 0, 0], [0.3, 0.7, 0], [0.99999, 1e-5, 0], [0.999, 1e-3, 1e-30]])
    asked = rows.astype(dtype)
    expected = asked.astype(np.float64)
    expected[:2][rows[:2] == 0] = m / 2
    expected[2, 2] = expected[2, 1] / 2
    logs = np.log(expected)
    if isinstance(calibrator, skcalib.DirichletCalibrator):  # it normalises logits
        Q = softmax(logs @ fitted.coef_.T + fitted.intercept_, axis=1)
    else:
        Q = clone(calibrator).fit(np.log(P.astype(np.float64)), y).predict_proba(logs)
    assert_allclose(fitted.predict_proba(asked), Q, rtol=1e-6)


@each
def test_a_logit_of_minus_infinity_is_a_probability_of_0(calibrator):
    """The logarithms of a forest's shares and the shares themselves are the same."""
    P, y = votes()
    with np.errstate(divide="ignore"):
        Z = np.log(P)
    proba, logits = clone(calibrator).fit(P, y), clone(calibrator).fit(Z, y)
    assert logits.input_ == "logits"
    assert_allclose(logits.clip_, proba.clip_, rtol=1e-12)
    assert_allclose(logits.predict_proba(Z), proba.predict_proba(P), atol=1e-6)


@each
def test_logits_without_minus_infinity_are_not_read_for_a_clip(calibrator):
    assert clone(calibrator).fit(*drawn(500, 3, noise=1, scale=1)).clip_ == LEAST_CLIP


def test_calibrators_that_take_no_logarithm_have_no_clip():
    P, y = votes()
    assert not hasattr(skcalib.IsotonicCalibrator().fit(P, y), "clip_")


# ------------------------------------------------------------------ what it is good for


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_temperature_of_probabilities_is_that_of_their_logits(dtype):
    """As of a DenseNet: more than half of the probabilities lie below 1e-12."""
    rng = np.random.default_rng(0)
    y = rng.integers(10, size=5000)
    Z = rng.normal(size=(5000, 10))
    Z[np.arange(5000), y] += 2.5
    Z *= 14
    P = softmax(Z, axis=1).astype(dtype)
    assert (P < 1e-12).mean() > 0.5
    T = skcalib.TemperatureScaling().fit(Z, y).temperature_
    assert skcalib.TemperatureScaling().fit(P, y).temperature_ == pytest.approx(T, abs=1e-5)
    by_logits, by_proba = skcalib.PlattScaling().fit(Z, y), skcalib.PlattScaling().fit(P, y)
    assert_allclose(by_proba.predict_proba(P), by_logits.predict_proba(Z), atol=1e-5)
    by_logits, by_proba = (
        skcalib.DirichletCalibrator().fit(Z, y),
        skcalib.DirichletCalibrator().fit(P, y),
    )
    assert_allclose(by_proba.predict_proba(P), by_logits.predict_proba(Z), atol=1e-5)


@pytest.mark.parametrize("n_classes", [2, 3, 40])
def test_log_odds_of_probabilities_know_what_rounding_takes_from_1(n_classes):
    Z = np.random.default_rng(0).normal(size=(200, n_classes))
    Z[:, 1] += np.linspace(0, 80, 200)
    P = softmax(Z, axis=1)
    assert (P[:, 1] == 1).any()
    expected = Scores(Z, "logits").log_odds_columns(slice(0, n_classes))
    scores = Scores(P, "proba", clip=LEAST_CLIP)
    assert_allclose(scores.log_odds_columns(slice(0, n_classes)), expected, rtol=1e-11, atol=1e-12)
    assert_allclose(scores.log_odds_columns(slice(1, 2)), expected[1:2], rtol=1e-11, atol=1e-12)


# ------------------------------------------------------------------ promises


@each
def test_a_weight_of_2_is_two_copies_for_the_clip_too(calibrator):
    p, y = multiples(300)
    p = np.clip(p, 0.001, 1)
    w = np.random.default_rng(1).integers(0, 3, size=300)
    p[:10], w[:10] = 1e-7, 0  # rows that are not there
    copies = np.repeat(np.arange(300), w)
    weighted = clone(calibrator).fit(p, y, w)
    repeated = clone(calibrator).fit(p[copies], y[copies])
    shuffled = clone(calibrator).fit(p[copies[::-1]], y[copies[::-1]])
    assert_array_equal(weighted.clip_, repeated.clip_)
    assert_array_equal(weighted.clip_, shuffled.clip_)
    assert_allclose(weighted.clip_, [0.025, 0.0005], rtol=1e-12)
    asked = np.linspace(0, 1, 11)
    assert_allclose(weighted.predict_proba(asked), repeated.predict_proba(asked), atol=1e-6)


@pytest.mark.parametrize("calibrator", TAKE_LOGS[:2], ids=lambda c: type(c).__name__)
def test_the_largest_probability_stays_the_largest(calibrator):
    """Also of rows of one class only, and of fewer rows than classes."""
    n_classes = 50
    fitted = clone(calibrator).set_params(classes=range(n_classes))
    fitted.fit(np.eye(n_classes)[:10], np.arange(10).clip(2))
    assert fitted.clip_ == 0.01
    P = np.random.default_rng(0).dirichlet(np.ones(n_classes), size=300)
    assert_array_equal(fitted.predict_proba(P).argmax(axis=1), P.argmax(axis=1))


# ------------------------------------------------------------------ files


@pytest.mark.parametrize("clip", [0, 0.3, -1e-3, "half", None, True, [0.1], [0.1, 0.1, 0.1]])
def test_a_file_without_a_clip_that_a_fit_may_find_is_refused(clip):
    document = skcalib.to_dict(skcalib.TemperatureScaling().fit(*votes()))
    document["fitted"]["clip_"] = clip
    refused("clip_", skcalib.from_dict, document)
    two = skcalib.to_dict(skcalib.TemperatureScaling().fit(*multiples()))
    two["fitted"]["clip_"]["array"] = [0.1, 0.0]
    refused("clip_", skcalib.from_dict, two)
    del two["fitted"]["clip_"]
    refused("clip_", skcalib.from_dict, two)


def test_a_file_keeps_whether_rows_had_zeros():
    fitted = skcalib.TemperatureScaling().fit([0.2, 0.4, 0.6, 0.8], [0, 1, 0, 1])
    document = skcalib.to_dict(fitted)
    asked = [1e-9, 0.0, 1.0]
    assert_array_equal(
        skcalib.from_dict(document).predict_proba(asked), fitted.predict_proba(asked)
    )
    assert fitted.predict_proba(asked)[0, 1] < fitted.predict_proba(asked)[1, 1]
    document["fitted"]["_had_zeros"]["array"] = [0.5, 0.5]
    document["fitted"]["_had_zeros"]["dtype"] = "float64"
    refused("_had_zeros must be true or false", skcalib.from_dict, document)
