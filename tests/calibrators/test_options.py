"""Logits of -inf: options that were not offered, or logarithms of 0."""

import json

import numpy as np
import pytest
from scipy.optimize import minimize_scalar
from scipy.special import expit, log_softmax, softmax
from sklearn.base import clone

import skcalib
from skcalib import (
    AutoCalibrator,
    GroupwiseCalibrator,
    IdentityCalibrator,
    IsotonicCalibrator,
    MatrixScaling,
    PlattScaling,
    TemperatureScaling,
    VectorScaling,
)

TAKERS = [
    IdentityCalibrator(),
    TemperatureScaling(),
    TemperatureScaling(objective="brier"),
    AutoCalibrator(),
    AutoCalibrator(order_preserving=True),
]


def drawn(n=600, K=6, scale=8.7, seed=0, least=1):
    """Logits of 1 to K options a row, the others -inf; labels among those offered."""
    rng = np.random.default_rng(seed)
    Z = rng.normal(size=(n, K))
    offered = rng.random((n, K)) < 0.5
    for i in range(n):
        offered[i, rng.choice(K, size=least, replace=False)] = True
    y = np.where(offered, Z + rng.gumbel(size=Z.shape), -np.inf).argmax(axis=1)
    return np.where(offered, scale * Z, -np.inf), y


def losses_of(Z, y, log_T, loss):
    """The loss of each row, over the list of its options."""
    values = []
    for z, label in zip(Z.astype(float), y, strict=True):
        options = np.flatnonzero(z > -np.inf)
        q = softmax(z[options] / np.exp(log_T))
        hit = options == label
        values.append(-np.log(q[hit][0]) if loss == "nll" else ((q - hit) ** 2).sum())
    return np.array(values)


def best(height):
    return float(
        np.exp(
            minimize_scalar(height, bounds=(-3, 6), options={"xatol": 1e-11}, method="bounded").x
        )
    )


@pytest.mark.parametrize("loss", ["nll", "brier"])
def test_temperature_is_that_of_lists_of_rows(loss):
    Z, y = drawn(120, least=2)
    w = np.random.default_rng(1).integers(0, 3, size=120)
    fitted = TemperatureScaling(objective=loss).fit(Z, y, w)
    found = best(lambda t: w @ losses_of(Z, y, t, loss))
    assert fitted.temperature_ == pytest.approx(found, rel=1e-6)


def test_the_scale_of_auto_alone_is_fitted_under_its_prior():
    Z, y = drawn(60, scale=30.0)
    fitted = AutoCalibrator().fit(Z, y)
    found = best(lambda t: losses_of(Z, y, t, "nll").sum() + t**2 / (2 * 0.7**2))
    assert fitted.temperature_ == pytest.approx(found, rel=1e-6)
    assert fitted.identity_weight_ == 0
    np.testing.assert_allclose(
        fitted.predict_proba(Z), softmax(Z / fitted.temperature_, axis=1), atol=1e-12
    )
    assert "not offered" in fitted.describe()


@pytest.mark.parametrize("calibrator", TAKERS, ids=str)
def test_what_was_not_offered_stays_0(calibrator):
    Z, y = drawn()
    single = Z.astype(np.float32)
    Q = calibrator.fit(single, y).predict_proba(single)
    assert Q.dtype == np.float32
    assert (Q[np.isneginf(Z)] == 0).all()
    assert (Q[-np.inf < Z] > 0).any()
    np.testing.assert_allclose(Q.sum(axis=1), 1, atol=1e-6)
    padded = np.where(np.isneginf(Z), -1e9, Z)
    if not isinstance(calibrator, AutoCalibrator):
        exact = type(calibrator)(**calibrator.get_params()).fit(padded, y).predict_proba(padded)
        np.testing.assert_allclose(Q, exact, atol=1e-6)


@pytest.mark.parametrize("calibrator", TAKERS, ids=str)
def test_it_stays_0_if_only_new_rows_lack_options(calibrator):
    Z, y = drawn()
    full = np.where(np.isneginf(Z), -3.0, Z)
    Q = calibrator.fit(full, y).predict_proba(Z)
    assert (Q[np.isneginf(Z)] == 0).all()
    np.testing.assert_allclose(Q.sum(axis=1), 1, atol=1e-12)


@pytest.mark.parametrize("objective", ["soft_binned", skcalib.metrics.expected_calibration_error])
def test_other_objectives_are_of_the_options_offered(objective):
    Z, y = drawn(300)
    fit = TemperatureScaling(objective=objective, classes=range(6)).fit
    padded = np.where(np.isneginf(Z), -1e9, Z)
    assert fit(Z, y).temperature_ == pytest.approx(fit(padded, y).temperature_, rel=1e-9)


def test_columns_that_are_moved_or_never_offered_change_nothing():
    Z, y = drawn()
    T = TemperatureScaling().fit(Z, y).temperature_
    order = np.array([3, 1, 5, 0, 4, 2])
    moved = TemperatureScaling().fit(Z[:, order], np.argsort(order)[y]).temperature_
    wider = np.column_stack([Z, np.full(len(Z), -np.inf)])
    more = TemperatureScaling(classes=range(7)).fit(wider, y).temperature_
    assert [moved, more] == pytest.approx([T, T], rel=1e-9)


def test_batches_decide_as_the_first_did():
    Z, y = drawn(6000)
    stream = TemperatureScaling()
    for rows in np.split(np.arange(6000), 4):
        stream.partial_fit(Z[rows], y[rows], classes=range(6))
    assert stream.temperature_ == pytest.approx(
        TemperatureScaling().fit(Z, y).temperature_, rel=1e-6
    )
    P = np.exp(log_softmax(np.where(np.isneginf(Z), -np.inf, Z), axis=1))
    with np.errstate(divide="ignore"):
        L = np.log(P)
    logs = TemperatureScaling().partial_fit(L[:500], y[:500], classes=range(6))
    logs.partial_fit(L[500:900], y[500:900])
    assert not logs._options
    assert TemperatureScaling().partial_fit(Z, y).fit(L, y)._options is False


@pytest.mark.parametrize("calibrator", TAKERS, ids=str)
def test_the_logarithm_of_probabilities_is_fitted_like_them(calibrator):
    Z, y = drawn(500, scale=1.5)
    P = softmax(Z, axis=1).round(3)
    P /= P.sum(axis=1, keepdims=True)
    with np.errstate(divide="ignore"):
        L = np.log(P)
    of_logs, of_proba = calibrator.fit(L, y).predict_proba(L), calibrator.fit(P, y).predict_proba(P)
    np.testing.assert_allclose(of_logs, of_proba, atol=2e-6)
    y[0] = int(np.isneginf(L[0]).argmax())  # small, and offered
    calibrator.fit(L, y)


def test_a_row_of_one_option_is_a_log_probability_vector_only_among_such():
    Z, y = drawn(300)
    only = np.where(np.eye(6)[y] == 1, 0.0, -np.inf)
    mixed = np.vstack([only[:250], Z[250:]])
    assert TemperatureScaling().fit(mixed, y)._options
    assert not IdentityCalibrator(classes=range(6)).fit(only, y)._options


@pytest.mark.parametrize("calibrator", TAKERS, ids=str)
def test_a_label_that_was_not_offered_is_an_error(calibrator):
    Z, y = drawn()
    names = np.array(list("abcdef"))[y]
    at = 3
    names[at] = "abcdef"[int(np.isneginf(Z[at]).argmax())]
    says = rf"y: the label of row 3, '{names[at]}', was not offered there"
    with pytest.raises(ValueError, match=says):
        calibrator.fit(Z, names)
    w = np.ones(len(Z))
    w[at] = 0
    calibrator.fit(Z, names, w)


@pytest.mark.parametrize("calibrator", [VectorScaling(), MatrixScaling(), PlattScaling()])
def test_calibrators_without_options_say_what_they_do(calibrator):
    Z, y = drawn()
    with pytest.warns(UserWarning, match="-inf is read as a small probability here"):
        calibrator.fit(Z, y)
    P = softmax(Z, axis=1)
    with np.errstate(divide="ignore"):
        L = np.log(P)
    calibrator.fit(L, y)  # without a warning


def test_one_column_of_minus_infinity_is_a_probability_of_0():
    f, y = np.array([-np.inf, -1.0, 1.0, 0.5, -2.0, 2.0]), np.array([0, 1, 1, 0, 0, 1])
    y[1] = 0
    fitted = IdentityCalibrator().fit(f, y)
    assert fitted.predict_proba(f)[0].tolist() == [1, 0]
    assert not fitted._options


@pytest.mark.parametrize(
    "calibrator", [IdentityCalibrator(), IsotonicCalibrator(), PlattScaling(), AutoCalibrator()]
)
def test_one_column_of_plus_infinity_is_a_probability_of_1(calibrator):
    """The map of f and y is that of -f and the other labels; of several columns it is an error."""
    rng = np.random.default_rng(0)
    f = rng.normal(size=200)
    y = (rng.random(200) < expit(f)).astype(int)
    f[:4], y[:4] = [np.inf, np.inf, np.inf, -np.inf], [1, 1, 0, 0]
    found = clone(calibrator).fit(f, y).predict_proba(f)
    turned = clone(calibrator).fit(-f, 1 - y).predict_proba(-f)
    np.testing.assert_allclose(found, turned[:, ::-1], atol=1e-12)
    assert found[:, 1].argmax() == 0
    assert found[:, 1].argmin() == 3
    certain = np.where(np.isinf(f), f > 0, expit(f))
    if isinstance(calibrator, IsotonicCalibrator):  # ranks, and probabilities between them
        of_proba = IsotonicCalibrator().fit(certain, y).predict_proba(certain)
        np.testing.assert_allclose(found, of_proba, atol=1e-12)
    with pytest.raises(ValueError, match="X contains infinity .first at row 0, column 1"):
        clone(calibrator).fit(np.c_[np.zeros(200), f], y)


def test_groups_refuse_options():
    Z, y = drawn()
    groups = np.arange(len(Z)) % 3
    says = "GroupwiseCalibrator: X contains -inf, an option that was not offered"
    with pytest.raises(ValueError, match=says):
        GroupwiseCalibrator("temperature").fit(Z, y, groups=groups)
    full = np.where(np.isneginf(Z), -3.0, Z)
    fitted = GroupwiseCalibrator("temperature").fit(full, y, groups=groups)
    assert (fitted.predict_proba(Z, groups=groups)[np.isneginf(Z)] == 0).all()


@pytest.mark.parametrize("calibrator", TAKERS, ids=str)
def test_files_and_onnx_models_give_the_same(calibrator, tmp_path):
    ort = pytest.importorskip("onnxruntime")
    Z, y = drawn()
    Q = calibrator.fit(Z, y).predict_proba(Z)
    skcalib.save_json(calibrator, tmp_path / "map.json")
    stored = skcalib.load_json(tmp_path / "map.json")
    np.testing.assert_array_equal(stored.predict_proba(Z), Q)
    assert json.loads((tmp_path / "map.json").read_text())["fitted"]["_options"] is True
    model = skcalib.to_onnx(calibrator, dtype="float64")
    session = ort.InferenceSession(model.SerializeToString())
    inputs = {session.get_inputs()[0].name: Z}
    exported = next(out for out in session.run(None, inputs) if out.dtype.kind == "f")
    np.testing.assert_allclose(exported, Q, atol=1e-9)
    assert (exported[np.isneginf(Z)] == 0).all()
