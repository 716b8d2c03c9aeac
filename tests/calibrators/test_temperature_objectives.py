"""Temperatures that are best by a calibration error: the lowest minimum, not the nearest."""

from functools import partial

import numpy as np
import pytest
from calls import refused
from scipy.special import softmax
from sklearn.exceptions import ConvergenceWarning

from skcalib import TemperatureScaling, metrics

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
    "no weights": (lambda y, P: 0.0, None, 2, "no such keyword: pass a metric that takes"),
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
