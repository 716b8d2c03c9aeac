"""Temperatures by a calibration error, the lowest minimum, and mixtures with a temperature."""

from functools import partial

import numpy as np
import pytest
from calls import refused
from scipy.special import softmax
from sklearn.exceptions import ConvergenceWarning

from skcalib import EnsembleTemperatureScaling, TemperatureScaling, metrics

GRID = np.geomspace(0.2, 10, 801)


def data(n=300, n_classes=3, seed=0, scale=2.0):
    rng = np.random.default_rng(seed)
    Z = 1.5 * rng.normal(size=(n, n_classes))
    y = (Z + rng.gumbel(size=Z.shape)).argmax(axis=1)
    return scale * Z * (1 + 0.2 * rng.normal(size=(n, 1))), y, rng.integers(1, 5, n) * 0.5


def soft_binned(Z, y, w, T, kind, n_bins=15, temperature=0.01, norm="l2"):
    """SB-ECE of the top label as the paper writes it, rows and bins in arrays of their own."""
    P = softmax(Z / T, axis=1)
    c, t, w = P.max(axis=1), P.argmax(axis=1) == y, w / w.sum()
    centres = (np.arange(n_bins) + 0.5) / n_bins
    U = softmax(-((c[:, None] - centres) ** 2) / temperature, axis=1)
    q = {"l1": 1, "l2": 2}[norm]
    S = (w[:, None] * U).sum(axis=0)
    A = (w[:, None] * U * t[:, None]).sum(axis=0) / S
    C = (w[:, None] * U * c[:, None]).sum(axis=0) / S
    if kind == "bin":
        return (S * np.abs(A - C) ** q).sum() ** (1 / q)
    return (w[:, None] * U * np.abs(A - c[:, None]) ** q).sum() ** (1 / q)


OTHER_BINS = {"n_bins": 8, "temperature": 0.003, "norm": "l1"}


@pytest.mark.parametrize(
    ("kind", "params", "seed"),
    [("bin", {}, 0), ("bin", OTHER_BINS, 1), ("label", {}, 1), ("label", OTHER_BINS, 0)],
)
def test_soft_binned_temperature_is_the_global_minimum(kind, params, seed):
    """No worse than a fine grid on [0.2, 10], by a formula written apart."""
    Z, y, w = data(seed=seed, scale=[2.0, 0.7][seed])
    objective = "soft_binned" if kind == "bin" else "soft_label_binned"
    scaling = TemperatureScaling(objective=objective, objective_params=params or None)
    found = scaling.fit(Z, y, w).temperature_
    best = min(soft_binned(Z, y, w, t, kind, **params) for t in GRID)
    assert soft_binned(Z, y, w, found, kind, **params) <= best * (1 + 1e-6)


MEMBERS = {
    "ACE": metrics.adaptive_calibration_error,
    "KS": metrics.ks_calibration_error,
    "class-conditional l2": partial(
        metrics.general_calibration_error,
        max_prob=False,
        class_conditional=True,
        norm="l2",
        n_bins=7,
    ),
}


@pytest.mark.parametrize("name", MEMBERS)
def test_a_metric_is_at_most_one_percent_above_a_fine_grid(name):
    metric = MEMBERS[name]
    Z, y, _ = data(200, seed=len(name))
    found = TemperatureScaling(objective=metric).fit(Z, y).temperature_
    best = min(metric(y, softmax(Z / t, axis=1)) for t in GRID)
    assert metric(y, softmax(Z / found, axis=1)) <= 1.01 * best


@pytest.mark.parametrize("scale", [1e-6, 1e4])
def test_the_scale_of_the_logits_only_scales_the_temperature(scale):
    """The search also goes where the NLL says that the logits are."""
    Z, y, _ = data()
    expected = TemperatureScaling(objective="soft_binned").fit(Z, y).temperature_
    found = TemperatureScaling(objective="soft_binned").fit(scale * Z, y).temperature_
    assert found == pytest.approx(scale * expected, rel=2e-4)


def test_of_many_minima_the_lowest_wins():
    """A metric with a wide shallow basin at 1 and a narrow deep one elsewhere."""
    Z = np.array([[0.0, 1.0], [0.0, 2.0], [1.0, 0.0]])

    def two_basins(y_true, y_proba):
        T = 1 / (np.log(y_proba[0, 1]) - np.log(y_proba[0, 0]))
        t = np.log(T)
        return min(1 + t * t, 5 * abs(t - np.log(4.321)))

    told = TemperatureScaling(objective=two_basins, input="logits")
    found = told.fit(Z, [0, 1, 0]).temperature_
    assert found == pytest.approx(4.321, rel=1e-4)


def test_of_equal_temperatures_the_one_closest_to_one_is_taken():
    Z, y, _ = data(50)
    assert TemperatureScaling(objective=lambda y, P: 0.5).fit(Z, y).temperature_ == 1.0

    def plateau(y_true, y_proba):
        logits = np.log(y_proba[0])
        T = (Z[0, 1] - Z[0, 0]) / (logits[1] - logits[0])
        return float(not 2 <= T <= 5)

    found = TemperatureScaling(objective=plateau).fit(Z, y).temperature_
    assert 2 <= found < 2.001


def test_what_a_metric_is_given():
    """Original labels, probabilities of all classes, labels, weights where not all 1, keywords."""
    Z, y, w = data(40)
    names = np.array(["c", "d", "e"])
    seen = []

    def metric(y_true, y_proba, *, labels, sample_weight=None, extra):
        seen.append((y_true, y_proba, labels, sample_weight, extra))
        return 0.0

    scaling = TemperatureScaling(objective=metric, objective_params={"extra": 7})
    w = np.arange(40) % 3 + 1
    scaling.fit(Z.astype(np.float32), names[y], w)
    y_true, y_proba, labels, weight, extra = seen[-1]
    assert y_true.tolist() == names[y].tolist()
    assert y_proba.shape == Z.shape
    assert y_proba.dtype == np.float32
    assert labels.tolist() == ["c", "d", "e"]
    assert weight.tolist() == w.tolist()
    assert extra == 7
    np.testing.assert_allclose(y_proba.sum(axis=1), 1, atol=1e-6)
    scaling.fit(Z, names[y])
    assert seen[-1][3] is None


BAD = {
    "NaN": (lambda y, P: np.nan, None, None, "NaN at T=.*pass a metric"),
    "a vector": (
        partial(metrics.static_calibration_error, average=None),
        None,
        None,
        r"shape \(3,\).*averages",
    ),
    "no weights": (lambda y, P: 0.0, None, 2, "sample_weight: the objective .*: pass a metric"),
    "unknown parameter": ("soft_binned", {"bins": 3}, None, r"got \['bins'\]: leave"),
    "no bins": ("soft_binned", {"n_bins": 0}, None, "n_bins.*whole number >= 1"),
    "no width": ("soft_label_binned", {"temperature": 0.0}, None, "positive number; got 0.0"),
    "norm": ("soft_binned", {"norm": "max"}, None, "norm.*must be one of"),
    "parameters of none": ("nll", {"n_bins": 3}, None, "takes no objective_params"),
    "unheard-of": ("ece", None, None, "'objective' parameter"),
}


@pytest.mark.parametrize("case", BAD)
def test_a_bad_objective_says_what_and_the_mend(case):
    objective, params, weight, message = BAD[case]
    Z, y, _ = data(60)
    scaling = TemperatureScaling(objective=objective, objective_params=params)
    refused(message, scaling.fit, Z, y, None if weight is None else np.full(60, weight))
    assert not hasattr(scaling, "temperature_")


def test_the_end_of_the_range_is_warned_of():
    """Every row is right: sharper is better without end."""
    Z = 3.0 * np.eye(3)

    def largest_error(y_true, y_proba):
        return 1 - y_proba[[0, 1, 2], y_true].min()

    with pytest.warns(ConvergenceWarning, match="lower end of the range"):
        scaling = TemperatureScaling(objective=largest_error, input="logits").fit(Z, [0, 1, 2])
    assert np.isfinite(scaling.temperature_)


# ------------------------------------------------------------------ ensembles


def over_confident(n=600, n_classes=4, seed=0, scale=2.0, drawn=0.1):
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
    Z, y, w = over_confident(300, n_classes, scale=scale, drawn=drawn)
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
    Z, y, _ = over_confident(500, 7, drawn=drawn)
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
    Z, y, _ = over_confident(1000, 4, drawn=0.0, scale=1.0)
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
