"""Logits of -inf: options that were not offered, or logarithms of 0."""

import json

import numpy as np
import pandas as pd
import pytest
from calls import onnx_predictions, refused
from scipy.optimize import brentq, minimize_scalar
from scipy.special import expit, log_softmax, softmax
from sklearn.base import clone

import skcalib
from skcalib import (
    AutoCalibrator,
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
    """The loss of each row, over the list of its options, and its derivative in log T."""
    values = []
    for z, label in zip(Z.astype(float), y, strict=True):
        options = np.flatnonzero(z > -np.inf)
        u, hit = z[options] / np.exp(log_T), options == label
        q = softmax(u)
        if loss == "nll":
            values.append((-np.log(q[hit][0]), q @ (u[hit] - u)))
        else:
            values.append((((q - hit) ** 2).sum(), -2 * (q - hit) @ (q * (u - q @ u))))
    return np.array(values)


def best(height):
    """The temperature of the least height: near its smallest value, its slope is 0."""
    bounds = {"bounds": (-3, 6), "method": "bounded"}
    near = minimize_scalar(lambda log_T: height(log_T)[0], **bounds).x
    log_T = brentq(lambda log_T: height(log_T)[1], near - 0.01, near + 0.01, xtol=1e-13)
    return float(np.exp(log_T))


def test_the_scale_of_auto_alone_is_fitted_under_its_prior():
    Z, y = drawn(60, scale=30.0)
    fitted = AutoCalibrator().fit(Z, y)
    found = best(lambda t: losses_of(Z, y, t, "nll").sum(axis=0) + np.array([t**2 / 2, t]) / 0.7**2)
    assert fitted.temperature_ == pytest.approx(found, rel=1e-8)
    assert fitted.identity_weight_ == 0
    np.testing.assert_allclose(
        fitted.predict_proba(Z), softmax(Z / fitted.temperature_, axis=1), atol=1e-12
    )
    assert "not available" in fitted.describe()


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
        TemperatureScaling().fit(Z, y).temperature_, rel=1e-8
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
    says = rf"y: the label of row 3, '{names[at]}', is a class that was not available"
    refused(says, calibrator.fit, Z, names)
    w = np.ones(len(Z))
    w[at] = 0
    calibrator.fit(Z, names, w)


@pytest.mark.parametrize("calibrator", [VectorScaling(), MatrixScaling(), PlattScaling()])
def test_calibrators_without_options_say_what_they_do(calibrator):
    Z, y = drawn()
    with pytest.warns(UserWarning, match="-inf is read as a small probability"):
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


@pytest.mark.parametrize("calibrator", TAKERS, ids=str)
def test_files_and_onnx_models_give_the_same(calibrator, tmp_path):
    Z, y = drawn()
    Q = calibrator.fit(Z, y).predict_proba(Z)
    skcalib.save_json(calibrator, tmp_path / "map.json")
    stored = skcalib.load_json(tmp_path / "map.json")
    np.testing.assert_array_equal(stored.predict_proba(Z), Q)
    assert json.loads((tmp_path / "map.json").read_text())["fitted"]["_options"] is True
    _, exported = onnx_predictions(calibrator, Z, dtype="float64")
    np.testing.assert_allclose(exported, Q, atol=1e-9)
    assert (exported[np.isneginf(Z)] == 0).all()


def of_logits(Z):
    """Return the probabilities of logits, NaN where an option was not offered."""
    return np.where(np.isneginf(Z), np.nan, softmax(Z.astype(float), axis=1))


@pytest.mark.parametrize("loss", ["nll", "brier"])
def test_options_not_offered_are_left_out_of_lists_of_rows(loss):
    Z, y = drawn(120, least=2)
    w = np.random.default_rng(1).integers(0, 3, size=120)
    P = of_logits(Z)
    found = best(lambda t: w @ losses_of(Z, y, t, loss))
    for X in (Z, P):
        fitted = TemperatureScaling(objective=loss).fit(X, y, w)
        assert fitted.temperature_ == pytest.approx(found, rel=1e-8)
    twice = np.repeat(np.arange(120), w)
    copies = TemperatureScaling(objective=loss, classes=range(6)).fit(P[twice], y[twice])
    assert copies.temperature_ == pytest.approx(fitted.temperature_, rel=1e-8)


def test_zeros_that_were_offered_are_small_by_the_options_of_a_row():
    Z, y = drawn(400, K=3, scale=3.0)
    P = of_logits(Z).round(2)
    P /= np.nansum(P, axis=1, keepdims=True)
    offered = ~np.isnan(P)
    zeros = (P == 0)[np.arange(400), y]
    assert zeros.any()
    wide = np.column_stack([P, np.full((400, 9), np.nan)])
    fitted = TemperatureScaling(classes=range(12)).fit(wide, y)
    clip = min(P[P > 0].min() / 2, 0.5 / offered.sum(axis=1).max())
    assert fitted.clip_ == clip
    logs = np.where(offered, np.log(np.maximum(P, clip, where=offered, out=P.copy())), -np.inf)
    found = best(lambda t: losses_of(logs, y, t, "nll").sum(axis=0))
    assert fitted.temperature_ == pytest.approx(found, rel=1e-8)
    Q = fitted.predict_proba(wide)
    assert (Q[:, :3][P == 0] > 0).all()
    assert (
        IdentityCalibrator(classes=range(12)).fit(wide, y).predict_proba(wide)[:, :3][P == 0] == 0
    ).all()


@pytest.mark.parametrize("loss", ["nll", "brier"])
def test_the_temperature_of_shares_of_options_is_that_of_lists_of_ratings(loss):
    """A minimisation by SciPy of the mean over the raters, each of whom rated what was offered."""
    Z, y = drawn(120, scale=3.0, least=2)
    rng = np.random.default_rng(1)
    other = np.where(np.isneginf(Z), -np.inf, rng.gumbel(size=Z.shape)).argmax(axis=1)
    a = rng.choice([0.25, 0.4, 1.0], size=120)
    shares = a[:, None] * np.eye(6)[y] + (1 - a[:, None]) * np.eye(6)[other]
    w = rng.uniform(0.5, 2.0, size=120)
    fitted = TemperatureScaling(objective=loss).fit(of_logits(Z), shares, w)

    def height(t):
        return (w * a) @ losses_of(Z, y, t, loss) + (w * (1 - a)) @ losses_of(Z, other, t, loss)

    assert fitted.temperature_ == pytest.approx(best(height), rel=1e-8)


@pytest.mark.parametrize("calibrator", TAKERS, ids=str)
def test_columns_with_nan_may_be_moved_added_and_split(calibrator):
    """A column of two questions may be a column for each of them."""
    Z, y = drawn()
    P = of_logits(Z)
    Q = clone(calibrator).fit(P, y).predict_proba(P)
    order = np.array([3, 1, 5, 0, 4, 2])
    moved = clone(calibrator).fit(P[:, order], np.argsort(order)[y]).predict_proba(P[:, order])
    np.testing.assert_allclose(moved, Q[:, order], atol=1e-10)
    question = np.arange(len(P)) % 2
    wide = np.full((len(P), 13), np.nan)
    np.put_along_axis(wide, 6 * question[:, None] + np.arange(6), P, axis=1)
    fitted = clone(calibrator).set_params(classes=range(13)).fit(wide, y + 6 * question)
    split = fitted.predict_proba(wide)
    assert (split[np.isnan(wide)] == 0).all()
    np.testing.assert_allclose(
        np.where(question[:, None], split[:, 6:12], split[:, :6]), Q, atol=1e-10
    )


def test_an_option_that_fit_did_not_have_is_an_error():
    Z, y = drawn()
    frame = pd.DataFrame(of_logits(Z), columns=list("abcdef"))
    fitted = TemperatureScaling().fit(frame, np.array(list("abcdef"))[y])
    refused("'g'", fitted.predict_proba, frame.assign(g=np.nan))


@pytest.mark.parametrize("calibrator", TAKERS, ids=str)
@pytest.mark.parametrize("full", [False, True])
def test_nan_becomes_0_whether_or_not_fit_had_it(calibrator, full):
    Z, y = drawn()
    P = of_logits(Z)
    given = of_logits(np.where(np.isneginf(Z), -3.0, Z)) if full else P
    for X in (P, P.astype(np.float32)):
        Q = calibrator.fit(given.astype(X.dtype), y).predict_proba(X)
        assert Q.dtype == X.dtype
        assert (Q[np.isnan(P)] == 0).all()
        np.testing.assert_allclose(Q.sum(axis=1), 1, atol=1e-12 if X is P else 1e-6)
    of_inf = calibrator.fit(np.where(np.isneginf(Z), -3.0, Z) if full else Z, y).predict_proba(Z)
    assert (of_inf[np.isneginf(Z)] == 0).all()
    np.testing.assert_allclose(Q, of_inf, atol=1e-5)


@pytest.mark.parametrize("calibrator", TAKERS, ids=str)
def test_a_frame_of_dicts_is_read_by_name(calibrator):
    Z, y = drawn()
    P, names = of_logits(Z), np.array(["refund", "ärger", "c", "d", "e", "f"])
    records = [{name: p for name, p in zip(names, row, strict=True) if p == p} for row in P]
    frame = pd.DataFrame(records)
    fitted = calibrator.fit(frame, names[y])
    Q = fitted.predict_proba(frame[frame.columns[::-1]])
    order = np.argsort(names)
    expected = calibrator.fit(P[:, order], np.argsort(order)[y]).predict_proba(P[:, order])
    np.testing.assert_allclose(Q, expected, atol=1e-10)


def test_rows_that_were_rounded_to_two_decimals_are_declared_probabilities():
    Z, y = drawn(300, K=12, scale=2.0)
    P = of_logits(Z).round(2)
    assert np.abs(np.nansum(P, axis=1) - 1).max() > 0.011
    with pytest.warns(UserWarning, match="divided by their sums"):
        fitted = IdentityCalibrator(input="proba").fit(P, y)
    with pytest.warns(UserWarning, match="divided by their sums"):
        Q = fitted.predict_proba(P)
    np.testing.assert_allclose(Q, np.nan_to_num(P) / np.nansum(P, axis=1)[:, None], atol=1e-12)
    one = np.array([[0.5, 0.5, np.nan], [np.nan, 0.5, 0.49]])
    with pytest.raises(ValueError, match=r"sum to 1; these sum to 0.99: pass input='proba'\.$"):
        IdentityCalibrator(classes=range(3)).fit(one, [0, 1])


NAN_MISTAKES = [
    ([[np.nan] * 3], r"X has only NaN in row 3, so that no class is available: drop the row\."),
    (
        [[0.5, np.nan, 0.23]],
        r"X contains NaN at row 3, column 'b': NaN \(class not available\) is allowed in "
        r"probabilities, whose other entries sum to 1; these sum to 0\.73\.",
    ),
    (
        [[2.5, -1.0, 0.5]],
        r"X contains NaN \(first at row 0, column 'c'\); drop or repair such rows\. In "
        r"probabilities, NaN is a class that is not available in the row, but row 3 "
        r"contains 2\.5, outside",
    ),
    ([[np.nan, -np.inf, 1.0]], "these sum to -inf"),
    ([[0.5, 0.5, np.nan]], r"y: the label of row 3, 'c', .* not available.*\(NaN in X\)"),
]


@pytest.mark.parametrize("calibrator", TAKERS, ids=str)
@pytest.mark.parametrize(("row", "says"), NAN_MISTAKES)
def test_mistakes_with_nan_are_one_line(calibrator, row, says):
    X = [[0.5, 0.5, np.nan], [np.nan, 0.4, 0.6], [0.2, 0.3, 0.5]]
    frame = pd.DataFrame([*X, *row], columns=list("abc"))
    refused(says, calibrator.fit, frame, list("bbac"))
    if "label" not in says:
        fitted = calibrator.fit(frame[:3], list("abc"))
        refused(says, fitted.predict_proba, frame)


def test_nan_is_refused_where_it_says_nothing():
    Z, y = drawn()
    P, nan = of_logits(Z), np.where(np.isneginf(Z), np.nan, Z)
    for X in (P, nan):
        refused("NaN .* AutoCalibrator, TemperatureScaling and", VectorScaling().fit, X, y)
    refused(r"X contains NaN at row \d, column \d: ", TemperatureScaling(input="logits").fit, P, y)
    refused("X contains NaN .first at row", TemperatureScaling().fit(Z, y).predict_proba, nan)
    refused("partial_fit: X contains NaN", TemperatureScaling().partial_fit, P, y)
    with pytest.raises(ValueError, match="y_proba contains NaN .* fill with 0: a class"):
        skcalib.metrics.expected_calibration_error(y, P)
    many = np.column_stack([P, np.full((len(P), 1000), np.nan)])
    with pytest.raises(ValueError, match="X has 1,006 columns and NaN, .* column 0"):
        IdentityCalibrator(classes=range(1006)).fit(many, y)
    assert TemperatureScaling().__sklearn_tags__().input_tags.allow_nan
    assert not VectorScaling().__sklearn_tags__().input_tags.allow_nan
    assert TemperatureScaling(input="proba").__sklearn_tags__().input_tags.allow_nan
    assert not TemperatureScaling(input="logits").__sklearn_tags__().input_tags.allow_nan  # refused


@pytest.mark.parametrize("calibrator", TAKERS, ids=str)
def test_a_fit_with_nan_is_stored_and_is_no_model(calibrator, tmp_path):
    Z, y = drawn()
    P = of_logits(Z)
    Q = calibrator.fit(P, y).predict_proba(P)
    skcalib.save_json(calibrator, tmp_path / "map.json")
    np.testing.assert_array_equal(skcalib.load_json(tmp_path / "map.json").predict_proba(P), Q)
    refused("to_onnx: .* was fitted on probabilities with NaN", skcalib.to_onnx, calibrator)


def test_dask_chunks_with_nan():
    da = pytest.importorskip("dask.array")
    Z, y = drawn()
    P = of_logits(Z)
    fitted = TemperatureScaling().fit(P, y)
    lazy = da.from_array(P, chunks=(200, 6))
    np.testing.assert_array_equal(fitted.predict_proba(lazy).compute(), fitted.predict_proba(P))
    refused(r"X contains NaN .* \(no Dask array\)", TemperatureScaling().fit, lazy, y)
