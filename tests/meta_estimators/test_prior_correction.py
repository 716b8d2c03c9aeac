"""`PriorCorrection` against the rule of Bayes, a plain EM algorithm and sums in loops."""

import sys
import warnings

import dask.array as da
import numpy as np
import pandas as pd
import pytest
from calls import onnx_predictions, refused
from scipy.special import expit, kolmogorov, logit, softmax
from scipy.stats import norm
from sklearn.base import clone
from sklearn.datasets import load_digits
from sklearn.exceptions import ConvergenceWarning, NotFittedError
from sklearn.frozen import FrozenEstimator
from sklearn.linear_model import LogisticRegression
from sklearn.svm import LinearSVC

from skcalib import (
    AutoCalibrator,
    CalibratedClassifier,
    GroupwiseCalibrator,
    IdentityCalibrator,
    IsotonicCalibrator,
    PlattScaling,
    PriorCorrection,
    SelectiveClassifier,
    TemperatureScaling,
    from_dict,
    load_json,
    save_json,
    to_dict,
    to_torch,
)


def draw(rng, n, shares, distance=2.0):
    """Return logits that are calibrated for equal shares, and labels with these shares."""
    K = len(shares)
    y = rng.choice(K, size=n, p=shares)
    return distance * (rng.normal(size=(n, K)) + distance * np.eye(K)[y]), y


def fitted(K=3, seed=0, n=600):
    rng = np.random.default_rng(seed)
    Z, y = draw(rng, n, rng.dirichlet(np.full(K, 5.0)))
    return TemperatureScaling(classes=range(K)).fit(Z, y)


def plain_em(P, w, source):
    """Return shares after many steps."""
    pi = source.copy()
    for _ in range(100_000):
        Q = P * pi / source
        Q /= Q.sum(axis=1, keepdims=True)
        new = (w @ Q + len(source) * source) / (w.sum() + len(source))
        if np.abs(new - pi).max() < 1e-12:
            return new
        pi = new
    raise AssertionError("no convergence")


def plain_ends(P, w, source, pi, count):
    """Return the ends of the intervals by sums over rows and classes."""
    K = len(pi)
    information, spread = np.diag(K * source / pi**2), np.zeros((K, K))
    G = np.array([p / source / (p / source * pi).sum() for p in P])
    for g, weight in zip(G, w, strict=True):
        information = information + weight * np.outer(g, g)
    for k in range(K):
        r = w * G[:, k] * pi[k]
        mean = r @ G / r.sum()
        covariance = sum(
            weight * np.outer(g - mean, g - mean) for g, weight in zip(G, r / r.sum(), strict=True)
        )
        spread += pi[k] ** 2 / count[k] * covariance
    # Free shares: all but the last.
    A = np.vstack([np.eye(K - 1), -np.ones(K - 1)])
    inverse = A @ np.linalg.inv(A.T @ information @ A) @ A.T
    sd = np.sqrt(np.diag(inverse @ (information + w.sum() ** 2 * spread) @ inverse))
    z = norm.ppf(0.975)
    low, high = np.clip(pi - z * sd, 0, 1), np.clip(pi + z * sd, 0, 1)
    half = z * sd / (pi * (1 - pi))
    return np.minimum(low, expit(logit(pi) - half)), np.maximum(high, expit(logit(pi) + half))


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("calibrator", [TemperatureScaling(), IsotonicCalibrator()])
def test_known_shares_follow_the_rule_of_bayes(calibrator, dtype):
    rng = np.random.default_rng(0)
    Z, y = draw(rng, 500, [0.5, 0.3, 0.2])
    Z = Z.astype(dtype)
    calibrator = clone(calibrator).fit(Z, y)
    priors = {0: 0.1, 1: 0.0}
    model = PriorCorrection(calibrator, priors=priors).fit()
    source = np.bincount(y) / 500
    np.testing.assert_allclose(model.source_priors_, source, rtol=1e-15)
    np.testing.assert_allclose(model.priors_, [0.1, 0.0, 0.9], rtol=1e-15)
    Q = calibrator.predict_proba(Z) * (np.array([0.1, 0.0, 0.9]) / source)
    nothing = Q.sum(axis=1) == 0
    assert nothing.any() == isinstance(calibrator, IsotonicCalibrator)
    Q[nothing] = [0.1, 0.0, 0.9]
    Q /= Q.sum(axis=1, keepdims=True)
    P = model.predict_proba(Z)
    assert P.dtype == dtype
    np.testing.assert_allclose(P, Q, atol=1e-12 if dtype == np.float64 else 1e-6)
    np.testing.assert_array_equal(model.predict(Z), P.argmax(axis=1))
    with np.errstate(divide="ignore"):
        np.testing.assert_array_equal(model.predict_log_proba(Z), np.log(P))
    assert np.isnan([model.priors_low_, model.priors_high_]).all()


@pytest.mark.parametrize(("K", "n", "seed"), [(2, 60, 0), (3, 100, 1), (5, 80, 2), (12, 200, 3)])
@pytest.mark.parametrize("weights", [None, "counts", "floats"])
def test_estimated_shares_equal_a_plain_em_algorithm(K, n, seed, weights):
    rng = np.random.default_rng(seed)
    calibrator = fitted(K)
    Z, _ = draw(rng, n, rng.dirichlet(np.full(K, 2.0)))
    w = {None: None, "counts": rng.integers(0, 3, n), "floats": rng.random(n)}[weights]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model = PriorCorrection(calibrator).fit(Z, sample_weight=w)
    P = calibrator.predict_proba(Z)
    weight = np.ones(n) if w is None else w.astype(float)
    if weights == "floats":
        weight *= weight.sum() / (weight @ weight)
    count = np.maximum(calibrator.class_count_, 0.5)
    source = count / count.sum()
    expected = plain_em(P, weight, source)
    np.testing.assert_allclose(model.priors_, expected, atol=1e-7)
    low, high = plain_ends(P, weight, source, expected, count)
    np.testing.assert_allclose(model.priors_low_, low, atol=1e-6)
    np.testing.assert_allclose(model.priors_high_, high, atol=1e-6)


@pytest.mark.parametrize("seed", range(8))
def test_weak_scores_reach_the_optimum_too(seed):
    """The EM algorithm alone takes thousands of steps."""
    rng = np.random.default_rng(seed)
    Z, y = draw(rng, 400, [0.6, 0.3, 0.1], distance=0.4)
    calibrator = AutoCalibrator().fit(Z, y)
    new, _ = draw(rng, 300, [0.1, 0.1, 0.8], distance=0.4)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model = PriorCorrection(calibrator).fit(new)
    count = calibrator.class_count_
    expected = plain_em(calibrator.predict_proba(new), np.ones(300), count / count.sum())
    np.testing.assert_allclose(model.priors_, expected, atol=1e-6)


@pytest.mark.filterwarnings("ignore:X hardly determines")
def test_shares_that_still_move_are_a_warning():
    """Scores that say almost nothing, each of a million rows, take 11,000 rounds of three steps."""
    P = softmax(0.01 * np.random.default_rng(1).normal(size=(1000, 3)), axis=1)
    calibrator = IdentityCalibrator(input="proba").fit(P[1:], np.arange(999) % 3)
    message = r"^the estimated priors still changed by \S+ after 3,000 iterations, .*: pass priors="
    with pytest.warns(ConvergenceWarning, match=message) as caught:
        PriorCorrection(calibrator).fit(P, sample_weight=np.r_[1, np.full(999, 10**6)])
    assert caught[0].filename == __file__


def test_a_class_without_rows_counts_as_half_a_row():
    y = np.arange(40) % 2
    calibrator = IdentityCalibrator(classes=[0, 1, 2]).fit(np.eye(3)[y], y)
    model = PriorCorrection(calibrator, priors=[0.4, 0.4, 0.2]).fit()
    np.testing.assert_allclose(model.source_priors_, np.array([20, 20, 0.5]) / 40.5)


def test_class_counts_are_sums_of_weights():
    rng = np.random.default_rng(0)
    Z, y = draw(rng, 90, [0.5, 0.3, 0.2])
    w = rng.integers(0, 3, 90)
    count = np.bincount(y, w)
    groups = np.arange(90) % 2
    assert (TemperatureScaling().fit(Z, y, w).class_count_ == count).all()
    assert (GroupwiseCalibrator().fit(Z, y, w, groups).class_count_ == count).all()
    stream = TemperatureScaling(classes=range(3))
    for part in np.split(np.arange(90), 3):
        stream.partial_fit(Z[part], y[part], w[part])
    assert (stream.class_count_ == count).all()
    for ensemble in (False, True):
        model = CalibratedClassifier(LogisticRegression(), "temperature", cv=3, ensemble=ensemble)
        assert (model.fit(Z, y, w).class_count_ == count).all()
    shares = softmax(Z, axis=1)
    for calibrator in (TemperatureScaling(), GroupwiseCalibrator("temperature")):
        of_groups = {"groups": groups} if isinstance(calibrator, GroupwiseCalibrator) else {}
        calibrator.fit(Z, shares, **of_groups)
        np.testing.assert_allclose(calibrator.class_count_, shares.sum(axis=0), rtol=1e-12)


def test_a_plain_installation_has_no_dask(monkeypatch):
    rng = np.random.default_rng(0)
    monkeypatch.setitem(sys.modules, "dask", None)
    correction = PriorCorrection(fitted()).fit(draw(rng, 300, [0.2, 0.5, 0.3])[0])
    assert np.isfinite(correction.priors_low_).all()


def test_estimators_of_every_kind():
    rng = np.random.default_rng(1)
    Z, y = draw(rng, 400, [0.8, 0.2])
    names = np.array(["no", "yes"])[y]
    priors = {"yes": 0.05}
    logistic = LogisticRegression().fit(Z, names)
    with pytest.raises(ValueError, match="LogisticRegression has no class_count_: pass source_pr"):
        PriorCorrection(logistic, priors=priors).fit()
    source = {"yes": np.mean(y)}
    model = PriorCorrection(FrozenEstimator(logistic), priors=priors, source_priors=source).fit()
    P = logistic.predict_proba(Z) * model._ratio
    np.testing.assert_allclose(model.predict_proba(Z), P / P.sum(axis=1, keepdims=True))
    assert set(model.predict(Z)) <= {"no", "yes"}
    svm = LinearSVC().fit(Z, names)
    for estimator in (svm, FrozenEstimator(svm)):
        with pytest.raises(ValueError, match="LinearSVC has no predict_proba: .*CalibratedClass"):
            PriorCorrection(estimator, priors=priors).fit()
    calibrated = CalibratedClassifier(LinearSVC(), "platt").fit(Z, names)
    by_number = PriorCorrection(calibrated, priors=0.05).fit()
    assert by_number.predict_proba(Z)[:, 1].mean() < calibrated.predict_proba(Z)[:, 1].mean()
    groups = np.arange(400) % 2
    of_groups = GroupwiseCalibrator().fit(Z, names, groups=groups)
    moved = PriorCorrection(of_groups).fit(Z, groups=groups)
    assert moved.predict_proba(Z, groups=groups).shape == (400, 2)
    np.testing.assert_allclose(moved.priors_, of_groups.class_count_ / 400, atol=0.03)


def test_forms_of_scores():
    calibrator = fitted()
    Z, _ = draw(np.random.default_rng(2), 50, [0.2, 0.3, 0.5])
    model = PriorCorrection(calibrator, priors=[0.2, 0.3, 0.5]).fit()
    P = model.predict_proba(Z)
    frame = pd.DataFrame(Z[:, ::-1], columns=["2", "1", "0"])
    np.testing.assert_array_equal(model.predict_proba(frame), P)
    lazy = model.predict_proba(da.from_array(Z, chunks=(20, 3)))
    np.testing.assert_allclose(lazy.compute(), P, rtol=1e-12)
    estimated = PriorCorrection(calibrator).fit(da.from_array(Z, chunks=(20, 3)))
    np.testing.assert_allclose(estimated.priors_, PriorCorrection(calibrator).fit(Z).priors_)
    assert PriorCorrection(calibrator, priors=[0, 0, 1]).fit().predict(Z).tolist() == [2] * 50


@pytest.mark.parametrize(
    ("priors", "message"),
    [
        ({"a": 0.1}, r"priors: 'a' is not one of the labels \[0, 1, 2\]"),
        ({0: 0.1}, "priors lacks 1 and 2: leave out at most one label"),
        ([0.2, 0.3], r"priors has shape \(2,\): pass 3 priors"),
        ([0.2, 0.3, 0.4], "priors: the priors sum to 0.9, but must sum to 1"),
        ([0.2, 0.3, np.nan], "priors: the prior of 2 is nan, not in"),
        ({0: 1.5, 1: 0.2}, "priors: the prior of 0 is 1.5, but must be a number in"),
        # Not the share that is left out, which follows from the others.
        ({0: 0.5, 2: np.nan}, "priors: the prior of 2 is nan, but must be a number in"),
        ({0: 0.5, 2: -0.1}, "priors: the prior of 2 is -0.1, but must be a number in"),
        ({0: "0.5", 2: 0.2}, "priors: the prior of 0 is '0.5', but must be a number in"),
        ({0: 0.5, 2: pd.NA}, "priors: the prior of 2 is <NA>, but must be a number in"),
        (0.3, "priors=0.3 is one number, but there are 3 classes"),
    ],
)
def test_wrong_shares_are_refused(priors, message):
    refused(message, PriorCorrection(fitted(), priors=priors).fit)


def test_a_boolean_is_no_share():
    calibrator = PlattScaling(input="logits").fit([-1.0, 0.0, 1.0, 2.0], [0, 1, 0, 1])
    with pytest.raises(ValueError, match="priors: the prior of 1 is True, but must be a number in"):
        PriorCorrection(calibrator, priors=True).fit()


@pytest.mark.parametrize("name", ["priors", "source_priors"])
def test_a_series_is_read_by_its_index(name):
    """`value_counts` begins with the most frequent class."""
    rng = np.random.default_rng(0)
    Z, code = draw(rng, 300, [0.2, 0.5, 0.3])
    names = np.array(["a", "b", "c"])
    calibrator = TemperatureScaling(classes=names).fit(Z, names[code])
    counts = pd.Series(["b"] * 60 + ["c"] * 30 + ["a"] * 10).value_counts(normalize=True)
    given = {"priors": [0.3, 0.3, 0.4], name: counts}
    found = PriorCorrection(calibrator, **given).fit().predict_proba(Z)
    expected = PriorCorrection(calibrator, **{**given, name: [0.1, 0.6, 0.3]}).fit()
    np.testing.assert_allclose(found, expected.predict_proba(Z), rtol=1e-12)
    for index, message in (
        (None, f"{name}: 0 is not one of the labels .*an array in the order of classes_"),
        (["a", "a", "b"], f"{name}: a label occurs twice in the index"),
    ):
        wrong = pd.Series([0.1, 0.6, 0.3], index)
        refused(message, PriorCorrection(calibrator, **{**given, name: wrong}).fit)


def ks_reference(P, w, Q, r):
    """Largest difference of two distribution functions of any class, by loops."""
    largest = 0.0
    for k in range(1 if P.shape[1] == 2 else 0, P.shape[1]):
        for x in np.concatenate([P[:, k], Q[:, k]]):
            new = w[P[:, k] <= x].sum() / w.sum()
            old = r[Q[:, k] <= x].sum() / r.sum()
            largest = max(largest, abs(new - old))
    n, m = w.sum(), r.sum() ** 2 / (r**2).sum()
    tail = kolmogorov(largest * np.sqrt(n * m / (n + m)))
    return min(1.0, tail * (1 if P.shape[1] == 2 else P.shape[1]))


@pytest.mark.filterwarnings("ignore:X differs from X_source", "ignore:X hardly determines")
@pytest.mark.parametrize("K", [2, 4])
@pytest.mark.parametrize("known", [False, True])
def test_the_assumption_is_tested_by_kolmogorov_and_smirnov(K, known):
    rng = np.random.default_rng(2)
    old, y = draw(rng, 300, np.full(K, 1 / K), distance=1.0)
    old = old.round(1)  # ties
    calibrator = TemperatureScaling(classes=range(K)).fit(old, y)
    new = draw(rng, 80, np.arange(1, K + 1) / np.arange(1, K + 1).sum(), distance=1.3)[0].round(1)
    w = rng.integers(0, 3, 80)
    priors = np.full(K, 1 / K) if known else None
    found = PriorCorrection(calibrator, priors=priors).fit(new, None, w, X_source=old)
    P, Q = calibrator.predict_proba(new), calibrator.predict_proba(old)
    expected = ks_reference(P, w, Q, Q @ (found.priors_ / found.source_priors_))
    assert 0 < expected < 1
    assert found.assumption_pvalue_ == pytest.approx(expected, rel=1e-9)
    assert np.isnan(PriorCorrection(calibrator, priors=priors).fit(new).assumption_pvalue_)
    assert np.isnan(from_dict(to_dict(found)).assumption_pvalue_)


def test_a_second_fit_has_its_own_p_value_and_a_failed_one_changes_nothing():
    rng = np.random.default_rng(0)
    y = rng.random(300) < 0.3
    z = rng.normal(2.0 * y)
    model = PriorCorrection(PlattScaling(input="logits").fit(z, y))
    model.fit(z, X_source=z)
    before = model.priors_.copy()
    with pytest.raises(ValueError, match="^X_source: X contains NaN"):
        model.set_params(priors=0.9).fit(z, X_source=[np.nan, 1.0])
    np.testing.assert_array_equal(model.priors_, before)
    assert np.isnan(model.fit(z).assumption_pvalue_)


def test_moved_scores_are_a_warning_and_other_shares_are_not():
    rng = np.random.default_rng(0)

    def scores(n, share):
        y = rng.random(n) < share
        return rng.normal(2.0 * y), y

    calibrator = PlattScaling(input="logits").fit(*scores(1000, 0.12))
    old = scores(1000, 0.12)[0]
    new = scores(1000, 0.03)[0]
    assert PriorCorrection(calibrator).fit(new, X_source=old).assumption_pvalue_ > 0.01
    with pytest.warns(UserWarning, match=r"more than the class priors .p = .*labelled rows"):
        PriorCorrection(calibrator).fit(new + 0.8, X_source=old)


def test_other_errors_and_the_warning():
    calibrator = fitted()
    refused("both None: pass rows of the new data, or priors=", PriorCorrection(calibrator).fit)
    refused("0 sample", PriorCorrection(calibrator).fit, np.empty((0, 3)))
    with pytest.raises(NotFittedError):
        PriorCorrection(TemperatureScaling(), priors=[1, 0, 0]).fit()
    with pytest.raises(NotFittedError):
        PriorCorrection(calibrator).predict_proba(np.zeros((1, 3)))
    with pytest.raises(
        ValueError, match="the prior of 2 is 0, so that the scores of this class are"
    ):
        PriorCorrection(calibrator, priors=[0.5, 0.4, 0.1], source_priors=[0.5, 0.5, 0]).fit()
    absent = PriorCorrection(calibrator, source_priors=[0.5, 0.5, 0]).fit(9 * np.eye(3)[[0, 1] * 9])
    assert absent.priors_[2] == absent.priors_high_[2] == 0
    rng = np.random.default_rng(0)
    weak = PlattScaling(input="logits").fit(rng.normal(size=300), rng.random(300) < 0.3)
    with pytest.warns(UserWarning, match=r"hardly determines the prior of .* to .*: pass priors="):
        PriorCorrection(weak).fit(rng.normal(size=30))


class Percentages(LogisticRegression):
    def predict_proba(self, X):
        return 100 * super().predict_proba(X)


def test_probabilities_are_checked_in_the_name_of_their_estimator():
    Z, y = draw(np.random.default_rng(0), 60, [0.5, 0.5])
    model = PriorCorrection(Percentages().fit(Z, y), priors=0.1, source_priors=0.5).fit()
    refused("^predict_proba of Percentages: row 0 contains", model.predict_proba, Z)


def test_a_clone_keeps_the_fitted_estimator():
    model = PriorCorrection(fitted(), priors=[0.2, 0.3, 0.5]).fit()
    copy = clone(model)
    assert copy.estimator is model.estimator
    with pytest.raises(NotFittedError):
        copy.predict_proba(np.zeros((1, 3)))
    assert (copy.fit().priors_ == model.priors_).all()


def test_what_is_shown():
    calibrator = fitted(2)
    text = repr(PriorCorrection(calibrator, priors=0.03).fit())
    assert text.endswith(f"prior of 1: {calibrator.class_count_[1] / 600:.3g} -> 0.03")
    model = PriorCorrection(calibrator).fit(np.random.default_rng(0).normal(size=(99, 2)))
    assert f"({model.priors_low_[1]:.3g} to {model.priors_high_[1]:.3g})" in repr(model)
    assert model.frame.columns.tolist() == ["before", "now", "low", "high"]
    assert model.frame.loc[1, "now"] == model.priors_[1]
    rare = PriorCorrection(fitted(3), priors=[0.33, 0.66, 0.01]).fit()
    assert "prior of 2: " in repr(rare)


@pytest.mark.parametrize("K", [2, 4])
def test_json_and_onnx_give_the_same_probabilities(K, tmp_path):
    Z, y = draw(np.random.default_rng(0), 200, np.full(K, 1 / K))
    for calibrator in (TemperatureScaling(), IsotonicCalibrator(), AutoCalibrator()):
        model = PriorCorrection(calibrator.fit(Z, y)).fit(Z)
        save_json(model, tmp_path / "m.json")
        again = load_json(tmp_path / "m.json")
        assert to_dict(again) == to_dict(model)
        np.testing.assert_array_equal(again.predict_proba(Z), model.predict_proba(Z))
        label, P = onnx_predictions(model, Z, dtype="float64")
        np.testing.assert_allclose(P, model.predict_proba(Z), atol=1e-6)
        np.testing.assert_array_equal(label, model.predict(Z))


def test_a_gate_around_a_correction_and_a_correction_of_groups():
    Z, y = draw(np.random.default_rng(0), 300, [0.5, 0.5])
    model = PriorCorrection(TemperatureScaling().fit(Z, y), priors=0.4).fit()
    gate = SelectiveClassifier(FrozenEstimator(model), accuracy=0.9).fit(Z, y)
    assert gate.coverage_ > 0
    of_groups = GroupwiseCalibrator().fit(Z, y, groups=y)
    stored = from_dict(to_dict(PriorCorrection(of_groups, priors=0.4).fit()))
    assert stored.predict_proba(Z, groups=y).shape == (300, 2)


def test_broken_files_are_refused():
    document = to_dict(PriorCorrection(fitted(), priors=[0.2, 0.3, 0.5]).fit())
    shares = document["fitted"]["priors_"]
    for broken in ([0.2, 0.3, 0.6], [-0.2, 0.7, 0.5], [0.5, 0.5]):
        value = {**shares, "array": broken, "shape": [len(broken)]}
        with pytest.raises(ValueError, match=r"PriorCorrection.priors_ must be"):
            from_dict({**document, "fitted": {**document["fitted"], "priors_": value}})
    refused("A stored PriorCorrection must have the fitted", from_dict, {**document, "fitted": {}})
    refused("must have the parameter 'estimator'", from_dict, {**document, "parameters": {}})
    count = {"dtype": "float64", "shape": [2], "array": [1.0, 1.0]}
    inner = document["parameters"]["estimator"]
    inner = {**inner, "fitted": {**inner["fitted"], "class_count_": count}}
    with pytest.raises(ValueError, match="class_count_ must be a weight for each class"):
        from_dict({**document, "parameters": {**document["parameters"], "estimator": inner}})


@pytest.mark.torch
def test_torch_modules_and_tensors_give_the_same_probabilities():
    import torch

    Z, y = draw(np.random.default_rng(0), 200, [0.5, 0.3, 0.2])
    for calibrator in (TemperatureScaling(), IsotonicCalibrator()):
        model = PriorCorrection(calibrator.fit(Z, y), priors=[0.1, 0.0, 0.9]).fit()
        P = model.predict_proba(torch.tensor(Z))
        assert isinstance(P, torch.Tensor)
        np.testing.assert_allclose(P.numpy(), model.predict_proba(Z), atol=1e-12)
        np.testing.assert_allclose(to_torch(model)(torch.tensor(Z)).numpy(), P.numpy(), atol=1e-12)
        assert isinstance(model.predict(torch.tensor(Z)), torch.Tensor)
    assert PriorCorrection(calibrator).fit(torch.tensor(Z)).priors_.shape == (3,)


def test_estimated_shares_lower_the_log_loss():
    """Digits of which some are much rarer in the new place."""
    X, y = load_digits(return_X_y=True)
    rng = np.random.default_rng(0)
    order = rng.permutation(len(y))
    train, calibrate, new = order[:500], order[500:900], order[900:]
    network = LogisticRegression(C=1e-4, max_iter=2000).fit(X[train], y[train])
    calibrator = AutoCalibrator().fit(network.decision_function(X[calibrate]), y[calibrate])
    new = new[(y[new] > 4) | (rng.random(new.size) < 0.1)]
    Z = network.decision_function(X[new])
    model = PriorCorrection(calibrator).fit(Z)
    loss = [
        -np.log(P[np.arange(new.size), y[new]]).mean()
        for P in (calibrator.predict_proba(Z), model.predict_proba(Z))
    ]
    assert loss[1] < 0.85 * loss[0]
    share = np.bincount(y[new], minlength=10) / new.size
    assert ((model.priors_low_ <= share) & (share <= model.priors_high_)).mean() >= 0.8
