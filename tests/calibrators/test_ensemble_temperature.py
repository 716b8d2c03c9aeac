"""Ensemble temperature scaling: the best weights of three members, and what every mixture keeps."""

import numpy as np
import pytest
from scipy.special import softmax

from skcalib import EnsembleTemperatureScaling, TemperatureScaling


def data(n=600, n_classes=4, seed=0, scale=2.0, drawn=0.1):
    """Over-confident logits, labels of which a share is drawn by lot, and weights."""
    rng = np.random.default_rng(seed)
    Z = 2 * rng.normal(size=(n, n_classes))
    y = (Z + rng.gumbel(size=Z.shape)).argmax(axis=1)
    lot = rng.random(n) < drawn
    y[lot] = rng.integers(n_classes, size=lot.sum())
    return scale * Z, y, rng.integers(1, 5, n) * 0.5


def nll(P, y, w=None):
    with np.errstate(divide="ignore"):
        return -np.average(np.log(P[np.arange(len(y)), y]), weights=w)


def members(Z, T):
    return np.stack([softmax(Z / T, axis=1), softmax(Z, axis=1), np.full(Z.shape, 1 / Z.shape[1])])


def ratios(ensemble, Z, y, w=None):
    """Weighted mean of what each member gives the true class over what the mixture gives it."""
    F = members(Z, ensemble.temperature_)[:, np.arange(len(y)), y]
    return np.average(F / (ensemble.weights_ @ F), axis=1, weights=w)


# ------------------------------------------------------------------ the optimum


@pytest.mark.parametrize("n_classes", [2, 5])
@pytest.mark.parametrize(("scale", "drawn"), [(0.3, 0.1), (0.9, 0.0), (1.1, 0.2), (4.0, 0.1)])
def test_no_direction_on_the_simplex_lowers_the_loss(n_classes, scale, drawn):
    """The closed condition of the optimum: no member's mean ratio to the mixture exceeds 1."""
    Z, y, w = data(300, n_classes, scale=scale, drawn=drawn)
    ensemble = EnsembleTemperatureScaling().fit(Z, y, w)
    v, T = ensemble.weights_, ensemble.temperature_
    ratio = ratios(ensemble, Z, y, w)
    assert v.min() >= 0
    assert v.sum() == pytest.approx(1, abs=1e-14)
    assert ratio.max() <= 1 + 1e-11
    np.testing.assert_allclose(ratio[v > 1e-6], 1, atol=1e-6)
    assert TemperatureScaling().fit(Z, y, w).temperature_ == T
    expected = np.tensordot(v, members(Z, T), 1)
    np.testing.assert_allclose(ensemble.predict_proba(Z), expected, atol=1e-14)


# ------------------------------------------------------------------ the order stays


@pytest.mark.parametrize(("kind", "dtype"), [("logits", np.float32), ("proba", np.float64)])
@pytest.mark.parametrize("drawn", [0.0, 1.0])
def test_the_predicted_class_stays(drawn, kind, dtype):
    """Also where logits differ in their last bits, or all the weight is on uniform rows."""
    Z, y, _ = data(500, 7, drawn=drawn)
    Z[:50] = 1 + np.random.default_rng(1).permuted(np.tile(np.arange(7), (50, 1)), axis=1) * 2**-22
    X = (Z if kind == "logits" else softmax(Z, axis=1)).astype(dtype)
    ensemble = EnsembleTemperatureScaling(input=kind)
    assert (ensemble.fit(X, y).predict(X) == X.argmax(axis=1)).all()
    ensemble.weights_ = np.array([0.0, 0.0, 1.0])
    assert (ensemble.predict(X) == X.argmax(axis=1)).all()
    np.testing.assert_allclose(ensemble.predict_proba(X), 1 / 7, rtol=1e-6)


# ------------------------------------------------------------------ the edges


def test_rows_that_are_hopelessly_wrong_keep_a_finite_loss():
    """The probability of their class underflows to 0 in the members that know the logits."""
    Z, y, _ = data(1000, 4, drawn=0.0, scale=1.0)
    Z[:3], y[:3] = [1e6, 0.0, 0.0, 0.0], 1
    Z[3:6], y[3:6] = [1e6, 0.0, 0.0, 0.0], 0
    ensemble = EnsembleTemperatureScaling().fit(Z, y)
    assert (softmax(Z[:3], axis=1)[:, 1] == 0).all()
    assert ensemble.weights_[1:].min() > 0
    assert ratios(ensemble, Z, y).max() <= 1 + 1e-11
    assert nll(ensemble.predict_proba(Z), y) < nll(
        TemperatureScaling().fit(Z, y).predict_proba(Z), y
    )


@pytest.mark.parametrize("seed", [14, 55, 365])
def test_members_that_all_but_agree_end_the_fit(seed):
    """Of logits that say nothing T is so large that its member is uniform, but for rounding."""
    rng = np.random.default_rng(seed)
    Z, y = 1e4 * rng.normal(size=(500, 3)), rng.integers(3, size=500)
    ensemble = EnsembleTemperatureScaling().fit(Z, y)
    assert ensemble.temperature_ > 1e5
    assert ensemble.n_iter_ < 20
    assert ratios(ensemble, Z, y).max() <= 1 + 1e-12
    loss = nll(ensemble.predict_proba(Z), y)
    for member in members(Z, ensemble.temperature_):
        assert loss <= nll(member, y) + 1e-12


@pytest.mark.parametrize("deficit", [300.0, 370.0, 372.0, 800.0])
@pytest.mark.parametrize("n", [1, 3])
@pytest.mark.filterwarnings("ignore:TemperatureScaling reached the upper bound")
def test_a_member_that_all_rows_refute_has_no_weight(deficit, n):
    """What it gives them is so small that its square leaves the range of float64."""
    Z = np.tile([deficit, 0.0, 0.0], (n, 1))
    told = EnsembleTemperatureScaling(input="logits", classes=[0, 1, 2])
    ensemble = told.fit(Z, np.ones(n, dtype=int))
    assert ensemble.weights_[1] == 0
    np.testing.assert_allclose(ensemble.predict_proba(Z), 1 / 3, atol=1e-4)


def test_scores_that_say_nothing_are_answered_uniform():
    Z = np.zeros((6, 3)) + 5
    ensemble = EnsembleTemperatureScaling(input="logits").fit(Z, [0, 1, 2, 0, 1, 2])
    assert ensemble.temperature_ == 1
    np.testing.assert_allclose(ensemble.predict_proba([[7.0, 7.0, 7.0]]), 1 / 3, atol=1e-15)


@pytest.mark.parametrize("deficit", [40.0, 200.0, 290.0, 330.0])
def test_a_step_to_a_vertex_is_cut_short_where_a_row_would_all_but_vanish(deficit):
    """Of thousands of rows one is hopeless: without it the uniform member gets no weight."""
    rng = np.random.default_rng(0)
    Z = 3 * rng.normal(size=(5000, 5))
    y = (2 * Z + rng.gumbel(size=Z.shape)).argmax(axis=1)
    Z[0], y[0] = [deficit, 0.0, 0.0, 0.0, 0.0], 1
    ensemble = EnsembleTemperatureScaling().fit(Z, y)
    assert ratios(ensemble, Z, y).max() <= 1 + 1e-11
    assert ensemble.weights_[2] > 1e-4


def test_a_tiny_temperature_does_not_magnify_the_rounding_of_what_all_columns_share():
    """Of probabilities of 1/4 and differences of 1e-12 the log ratios are known exactly."""
    rng = np.random.default_rng(0)
    steps = rng.integers(-400, 400, size=(200, 4))
    steps[:, 3] = -steps[:, :3].sum(axis=1)
    P = 0.25 + steps * 2.0**-50
    y = (steps / 100 + rng.gumbel(size=steps.shape)).argmax(axis=1)
    fitted = EnsembleTemperatureScaling(input="proba").fit(P, y)
    assert fitted.temperature_ < 1e-10
    # log(1/4 + d) - log(1/4 + d') of the same row, without log 1/4.
    log_ratio = np.log1p(4 * steps * 2.0**-50)
    tempered = softmax(log_ratio / fitted.temperature_, axis=1)
    Q = np.stack([tempered, P, np.full(P.shape, 0.25)], axis=-1) @ fitted.weights_
    # Logs near log 1/4 are known to 2.2e-16, a part in 1e6 of these temperatures' differences.
    atol = 4 * 2.2e-16 / fitted.temperature_
    np.testing.assert_allclose(fitted.predict_proba(P), Q, rtol=0, atol=atol)
    before = fitted.predict_proba(P)
    fitted.temperature_ *= 1 + 1e-14
    np.testing.assert_allclose(fitted.predict_proba(P), before, rtol=0, atol=1e-10)
