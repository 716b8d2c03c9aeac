"""Comparisons on Dask arrays, against those on arrays in memory."""

import numpy as np
import pandas as pd
import pytest
from calls import refused
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import accuracy_score

from skcalib import TemperatureScaling, compare_calibrators

da = pytest.importorskip("dask.array", reason="needs the extra dask")

N, K = 300, 3
METRICS = ["log_loss", "brier_score", "error_rate", "static_calibration_error"]
NAMES = ["temperature", "isotonic"]


def sample(kind="logits"):
    rng = np.random.default_rng(0)
    y = rng.integers(K, size=N)
    Z = 3 * (rng.normal(size=(N, K)) + 1.5 * np.eye(K)[y])
    if kind == "logits":
        return Z, y
    P = np.exp(Z - Z.max(axis=1, keepdims=True))
    return P / P.sum(axis=1, keepdims=True), y


def lazy(X, rows=70):
    return da.from_array(X, chunks=(rows, *X.shape[1:]))


def assert_same(found, expected):
    """All numbers that need no simulation are the same, and those that do are not there."""
    assert found.choice == expected.choice
    assert found.verdict == expected.verdict
    assert found.as_good == expected.as_good
    means = ["log_loss", "brier_score", "error_rate"]
    for metric in [name for name in found.metrics if name in means]:
        pd.testing.assert_frame_equal(found.frame[metric], expected.frame[metric], atol=1e-6)
    for metric in [name for name in found.metrics if name not in means]:
        one, other = found.frame[metric], expected.frame[metric]
        np.testing.assert_allclose(one["value"], other["value"], atol=1e-6)
        gain = one["value"].iloc[0] - one["value"]
        np.testing.assert_allclose(one["gain"].iloc[1:], gain.iloc[1:], atol=1e-12)
        assert one[["debiased", "if calibrated"]].isna().all(axis=None)
        assert one[["low", "high"]].iloc[1:].isna().all(axis=None)
    np.testing.assert_allclose(found.frame["argmax changed"], expected.frame["argmax changed"])


@pytest.mark.parametrize("kind", ["logits", "proba"])
@pytest.mark.parametrize("weighted", [False, True])
def test_a_comparison_in_folds_is_that_of_an_array(kind, weighted):
    X, y = sample(kind)
    w = np.random.default_rng(1).integers(3, size=N).astype(float) if weighted else None
    keywords = {"metrics": METRICS, "cv": 2, "random_state": 0}
    expected = compare_calibrators(X, y, NAMES, sample_weight=w, **keywords)
    lazy_w = None if w is None else lazy(w, 90)
    found = compare_calibrators(lazy(X), lazy(y, 90), NAMES, sample_weight=lazy_w, **keywords)
    assert_same(found, expected)
    np.testing.assert_allclose(
        found.fit("isotonic").predict_proba(X), expected.fit("isotonic").predict_proba(X), atol=1e-6
    )


@pytest.mark.parametrize("test_is_lazy", [False, True])
def test_a_comparison_on_test_rows_is_that_of_an_array(test_is_lazy):
    """Also with rows of weight 0, in both parts."""
    X, y = sample()
    w = np.random.default_rng(1).integers(3, size=N)
    X, y, new = X[:200].astype(np.float32), y[:200], (X[200:].astype(np.float32), y[200:], w[200:])
    keywords = {"metrics": METRICS, "cv": 2, "random_state": 0, "sample_weight": w[:200]}
    expected = compare_calibrators(X, y, NAMES, test=new, **keywords)
    test = (lazy(new[0], 33), *new[1:]) if test_is_lazy else new
    found = compare_calibrators(lazy(X), y, NAMES, test=test, **keywords)
    assert_same(found, expected)


def test_text_labels_in_another_order_and_chunks_of_unknown_length():
    X, y = sample()
    words, order = np.array(["cat", "dog", "owl"]), [2, 0, 1]
    kept = np.arange(N) % 5 > 0
    given = {"classes": words[order], "metrics": ["log_loss"], "cv": 2}
    expected = compare_calibrators(X[kept][:, order], words[y][kept], NAMES, **given)
    masked = lazy(X[:, order])[lazy(kept)]
    found = compare_calibrators(masked, words[y][kept], NAMES, **given)
    assert_same(found, expected)
    P = found.fit("temperature").predict_proba(X)
    np.testing.assert_allclose(P, expected.fit("temperature").predict_proba(X), atol=1e-8)


def test_one_column_is_brought():
    P, y = sample("proba")
    p, hit = P[:, 1], y == 1
    given = {"metrics": ["log_loss", "expected_calibration_error"], "cv": 2, "random_state": 0}
    expected = compare_calibrators(p, hit, ["platt"], **given).frame
    found = compare_calibrators(lazy(p), hit, ["platt"], **given).frame
    numbers = [name for name in found if name != ("fit seconds", "")]
    pd.testing.assert_frame_equal(found[numbers], expected[numbers])


def test_what_needs_all_rows_is_refused_by_name():
    X, y = sample()
    soft = TemperatureScaling(objective="soft_binned")
    named = {"soft": soft, "logistic": LogisticRegression(), "T": "temperature"}
    frame = compare_calibrators(lazy(X), y, named, metrics=["log_loss"], cv=2).frame
    assert "X is a dask.Array" in frame["error"]["soft"]
    assert "LogisticRegression needs all scores in memory" in frame["error"]["logistic"]
    assert frame["error"]["T"] == ""
    for metric in ("roc_auc_ovr", accuracy_score):
        with pytest.raises(ValueError, match=r"metrics: '(roc_auc_ovr|accuracy_score)' would load"):
            compare_calibrators(lazy(X), y, NAMES, metrics=["log_loss", metric])
    with pytest.raises(ValueError, match="choose_by='ks_calibration_error': .* pass 'log_loss'"):
        compare_calibrators(lazy(X), y, NAMES, choose_by="ks_calibration_error")
    with pytest.raises(TypeError, match="test y is a dask array but test X is not"):
        compare_calibrators(X, y, NAMES, test=(X, lazy(y)))
    with pytest.raises(
        ValueError, match="the X of test has scores of 2 classes, but X has scores of 3"
    ):
        compare_calibrators(lazy(X), y, NAMES, test=(lazy(X[:, :2]), y))
    with pytest.raises(ValueError, match="test X has 300 rows, test y has 299"):
        compare_calibrators(lazy(X), y, NAMES, test=(lazy(X), y[1:]))


def test_no_pass_reads_all_rows(monkeypatch):
    """No chunk is joined to another."""
    X, y = sample()
    widest = []
    proba = TemperatureScaling.predict_proba

    def predict(self, rows):
        if isinstance(rows, np.ndarray):
            widest.append(len(rows))
        return proba(self, rows)

    monkeypatch.setattr(TemperatureScaling, "predict_proba", predict)
    compare_calibrators(lazy(X), y, ["temperature"], metrics=["log_loss"], cv=2)
    assert max(widest) <= 70


def test_ordered_categories_in_another_order_are_refused():
    """As with an array in memory: the order of the columns is not known."""
    names = np.array(["low", "mid", "high"])
    y = pd.Series(pd.Categorical(names[np.arange(60) % 3], categories=names, ordered=True))
    Z = da.from_array(np.random.default_rng(0).normal(size=(60, 3)), chunks=(20, 3))
    refused(r"y has the categories .*classes=", compare_calibrators, Z, y, ["temperature"])
