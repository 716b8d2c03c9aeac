"""A comparison says what each calibrator does to rows that it was not fitted on."""

import re
import sys
import threading
import warnings
from functools import partial

import joblib
import numpy as np
import pandas as pd
import pytest
from calls import refused
from samples import Failing, scores
from scipy import stats
from scipy.special import softmax
from sklearn import metrics as metrics_of_scikit_learn
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import brier_score_loss, log_loss, roc_auc_score
from sklearn.model_selection import KFold, StratifiedKFold

import skcalib
from skcalib import (
    HistogramBinning,
    IdentityCalibrator,
    IsotonicCalibrator,
    TemperatureScaling,
    VectorScaling,
    compare_calibrators,
    metric_rank_correlation,
)
from skcalib._arrays.sources import recorded_warnings
from skcalib._comparison.compare import HEAVY_CLASSES, METRICS
from skcalib._comparison.held_out import in_folds, read_rows
from skcalib._validation.rows import check_predictions
from skcalib.calibrators._names import calibrators_by_name
from skcalib.metrics import (
    get_scorer,
    ks_calibration_error,
    make_calibration_scorer,
    static_calibration_error,
)
from skcalib.metrics._intervals.bootstrap import draw_counts
from skcalib.metrics._resampling import random_chunks
from skcalib.metrics._statistics.scores import RowLosses, hall_interval

TWO = ["temperature", "vector"]


@pytest.fixture(autouse=True)
def _few_resamples(monkeypatch):
    """The scorers of scikit-learn take milliseconds each."""
    monkeypatch.setattr("skcalib._comparison.comparison.MOST_RESAMPLES", 6)


def brier(y, P):
    return np.mean(
        [sum((p[k] - (k == c)) ** 2 for k in range(len(p))) for c, p in zip(y, P, strict=True)]
    )


def frame_of(*args, **keywords):
    return compare_calibrators(*args, **keywords).frame


class Alarmed(IdentityCalibrator):
    def _fit(self, scores, code, w):
        import warnings

        warnings.warn("is this right?", stacklevel=1)
        return {}


@pytest.mark.usefixtures("few_label_sets")
def test_columns_and_rows():
    """A row a calibrator, the identity first; metric x parts, then the four single columns."""
    y, Z = scores()
    frame = frame_of(Z, y, TWO, random_state=0)
    assert list(frame.index) == ["identity", *TWO]
    parts = ["value", "debiased", "if calibrated", "rank", "gain", "low", "high"]
    single = ["fit seconds", "argmax changed", "warning", "error"]
    assert list(frame.columns) == [
        *((m, p) for m in METRICS for p in parts),
        ("choice", "log loss"),
        ("choice", "chosen"),
        ("choice", "as good"),
        *((s, "") for s in single),
    ]
    assert (frame["fit seconds"] > 0).all()
    assert (frame["error"] == "").all()
    assert (frame["warning"] == "").all()
    assert frame.loc["identity", "log_loss"][["gain", "low", "high"]].tolist() == [0, 0, 0]


def auc_by_pairs(y, p, w):
    """The share of pairs of an event and another row in which the event has the larger score."""
    pairs = [(p[i], p[j], w[i] * w[j]) for i in np.flatnonzero(y) for j in np.flatnonzero(1 - y)]
    return sum(((a > b) + (a == b) / 2) * v for a, b, v in pairs) / sum(v for *_, v in pairs)


@pytest.mark.parametrize("has_test", [False, True])
def test_the_auc_of_an_event_is_the_mean_over_folds(has_test):
    """By counting pairs; the last fold has no event. Rows are weighted."""
    rng = np.random.default_rng(0)
    z = rng.normal(size=120)
    y = (rng.random(120) < 1 / (1 + np.exp(-z))).astype(int)
    w, fold = rng.integers(1, 4, size=120), np.arange(120) % 4
    y[fold == 3] = 0
    data = {"calibrators": ["isotonic"], "metrics": ["log_loss"]}
    if has_test:
        i, j = fold < 2, fold >= 2
        frame = frame_of(z[i], y[i], sample_weight=w[i], test=(z[j], y[j], w[j]), **data)
        splits = [(i, j)]
    else:
        splits = [(fold != k, fold == k) for k in range(4)]
        cv = [tuple(map(np.flatnonzero, pair)) for pair in splits]
        frame = frame_of(z, y, sample_weight=w, cv=[*cv[1:], cv[0]], **data)
    for name, calibrator in {"identity": None, "isotonic": IsotonicCalibrator()}.items():
        aucs, weights = [], []
        for fit, test in splits:
            p = z[test]
            if calibrator is not None:
                calibrator.fit(z[fit], y[fit], sample_weight=w[fit])
                p = calibrator.predict_proba(p)[:, 1]
            if y[test].any():
                aucs.append(auc_by_pairs(y[test], p, w[test]))
                weights.append(w[test].sum())
        expected = np.average(aucs, weights=weights)
        assert frame.loc[name, ("AUC", "")] == pytest.approx(expected), name


def test_soft_labels_and_rows_without_events_in_a_fold_have_no_auc():
    z = np.linspace(-2, 2, 60)
    y = (z > 0).astype(int)
    soft = np.column_stack([1 - y, y]) * 0.8 + 0.1
    two = np.column_stack([np.zeros(60), z])
    by_label = [(np.arange(60), np.flatnonzero(y)), (np.arange(60), np.flatnonzero(1 - y))]
    for labels, cv in ((soft, 3), (y, by_label)):
        frame = frame_of(two, labels, ["platt"], metrics=["log_loss"], classes=[0, 1], cv=cv)
        assert "AUC" not in frame


def test_the_metrics_of_an_event_lack_the_sce_which_equals_its_ece():
    """By default; a name that is passed is measured."""
    z = np.linspace(-2, 2, 60)
    y = (z > np.sin(40 * z)).astype(int)
    asked = ["expected_calibration_error", "static_calibration_error"]
    frame = frame_of(z, y, ["platt"])
    assert set(frame.columns.get_level_values(0)) >= {"log_loss", "AUC", "ks_calibration_error"}
    assert asked[1] not in frame
    both = frame_of(z, y, ["platt"], metrics=asked)
    np.testing.assert_array_equal(both[asked[0]]["value"], both[asked[1]]["value"])
    y, Z = scores()
    assert asked[1] in frame_of(Z, y, ["temperature"])


def test_values_are_of_the_held_out_rows_of_all_folds_together():
    """Each fold fitted by hand, all predictions pooled, and measured by other programs."""
    y, Z = scores()
    metrics = ["log_loss", "brier_score", "error_rate", "static_calibration_error"]
    frame = frame_of(Z, y, TWO, metrics=metrics, cv=4)
    for name, calibrator in {"identity": None, "temperature": TemperatureScaling()}.items():
        P = softmax(Z, axis=1)
        if calibrator is not None:
            for train, test in StratifiedKFold(4).split(Z, y):
                P[test] = calibrator.fit(Z[train], y[train]).predict_proba(Z[test])
        expected = [
            log_loss(y, P),
            brier(y, P),
            np.mean(P.argmax(axis=1) != y),
            static_calibration_error(y, P),
        ]
        found = [frame.loc[name, (metric, "value")] for metric in metrics]
        np.testing.assert_allclose(found, expected, rtol=1e-9)


def test_gain_of_a_mean_over_rows_has_halls_interval():
    """With the pseudo row by hand; AutoCalibrator at the plain level, two others at Sidak's."""
    y, Z = scores()
    y_test, Z_test = scores(150, seed=1)
    metrics = ["log_loss", "brier_score", "error_rate"]
    frame = frame_of(
        Z, y, ["auto", *TWO], test=(Z_test, y_test), metrics=metrics, confidence_level=0.9
    )
    P, rows = softmax(Z_test, axis=1), np.arange(150)
    for name, level in {"auto": 0.9, "temperature": 0.9**0.5, "vector": 0.9**0.5}.items():
        Q = calibrators_by_name()[name].fit(Z, y).predict_proba(Z_test)
        p, q = (np.log(np.maximum(1 - A.max(axis=1), 1e-6)).mean() for A in (P, Q))
        squares = [((A - np.eye(3)[y_test]) ** 2).sum(axis=1) for A in (P, Q)]
        differences = [
            [*(np.log(Q[rows, y_test]) - np.log(P[rows, y_test])), q - p],
            [*(squares[0] - squares[1]), 2 * np.mean(P.max(axis=1) ** 2 - Q.max(axis=1) ** 2)],
            (P.argmax(axis=1) != y_test).astype(float) - (Q.argmax(axis=1) != y_test),
        ]
        for metric, d in zip(metrics, map(np.array, differences), strict=True):
            found = frame.loc[name, metric]
            assert found["gain"] == pytest.approx(d[:150].mean(), abs=1e-9)
            ends = hall_interval(RowLosses(d, None, np.ones(d.size)), level)
            assert (found["low"], found["high"]) == pytest.approx(ends, rel=1e-6, abs=1e-9)


@pytest.mark.usefixtures("few_label_sets")
def test_numbers_of_a_metric_depend_on_neither_other_metrics_nor_the_order_of_the_folds():
    """Sorted folds, shuffled ones, and a split that lists its rows backwards."""
    y, Z = scores()
    backwards = [(np.arange(200), np.arange(200, 400)), (np.arange(200, 400), np.arange(200)[::-1])]
    ks, more = ["ks_calibration_error"], [*METRICS, "adaptive_calibration_error"]
    parts = ["value", "debiased", "if calibrated", "gain", "low", "high"]
    one, *others = (
        frame_of(Z, y, ["temperature"], metrics=metrics, cv=cv, random_state=0)[
            "ks_calibration_error"
        ]
        for metrics, cv in (
            (ks, 4),
            (more, 4),
            (ks, KFold(3, shuffle=True, random_state=0)),
            (ks, backwards),
            (ks, [(np.arange(400), np.arange(400)[::-1])]),
        )
    )
    for found in others:
        pd.testing.assert_series_equal(found.loc["identity", parts], one.loc["identity", parts])
    pd.testing.assert_frame_equal(others[0][parts], one[parts])


def test_gain_of_a_function_of_ones_own_is_a_paired_bootstrap(monkeypatch):
    """Resamples rebuilt by repeating rows, the same ones for both; bias taken off once."""
    monkeypatch.setattr("skcalib._comparison.comparison.MOST_RESAMPLES", 20)
    y, Z = scores()
    y_test, Z_test = scores(150, seed=1)

    def largest_gap(y_true, y_proba):
        return ks_calibration_error(y_true, y_proba, labels=[0, 1, 2])

    test = (Z_test, y_test)
    frame = frame_of(Z, y, ["temperature"], test=test, metrics=[largest_gap], random_state=5)
    P, Q = softmax(Z_test, axis=1), TemperatureScaling().fit(Z, y).predict_proba(Z_test)
    checked = check_predictions(y_test, P)
    gains = []
    for seed, size in random_chunks(20, 5):
        for drawn in draw_counts(checked, seed, size):
            i = np.repeat(np.arange(150), drawn.w.astype(int))
            gains.append(largest_gap(y_test[i], P[i]) - largest_gap(y_test[i], Q[i]))
    middle = 2 * (largest_gap(y_test, P) - largest_gap(y_test, Q)) - np.mean(gains)
    half = stats.t(19).ppf(0.975) * np.std(gains, ddof=1)
    found = frame.loc["temperature", "largest_gap"]
    assert found["gain"] == pytest.approx(middle, rel=1e-9)
    assert found["low"] == pytest.approx(middle - half, rel=1e-9)
    assert found["high"] == pytest.approx(middle + half, rel=1e-9)


def test_a_row_left_out_by_several_folds_is_measured_once():
    """By the first fold: predicting every row twice over changes nothing."""
    y, Z = scores()
    fold = [(np.arange(200), np.arange(200, 400))]
    again = [(np.arange(100), np.arange(150, 400))]
    once, twice = (
        frame_of(Z, y, ["temperature"], metrics=["log_loss", "error_rate"], cv=cv)
        for cv in (fold, [*fold, *fold])
    )
    pd.testing.assert_frame_equal(
        once.drop(columns="fit seconds", level=0), twice.drop(columns="fit seconds", level=0)
    )
    P = softmax(Z[150:], axis=1)
    more = frame_of(Z, y, [], metrics=["log_loss"], cv=fold + again)
    assert more.loc["identity", ("log_loss", "value")] == pytest.approx(log_loss(y[150:], P))


def test_share_of_rows_whose_class_changes():
    """Counted against the argmax of the scores, by weight."""
    y, Z = scores(factor=1.0)
    w = np.random.default_rng(1).integers(1, 4, size=400)
    frame = frame_of(Z, y, [HistogramBinning()], cv=KFold(3), sample_weight=w, metrics=["log_loss"])
    changed = 0
    for train, test in KFold(3).split(Z):
        model = HistogramBinning().fit(Z[train], y[train], sample_weight=w[train])
        changed += w[test] @ (model.predict(Z[test]) != Z[test].argmax(axis=1))
    expected = changed / w.sum()
    assert 0 < expected < 1
    assert frame.loc["HistogramBinning", ("argmax changed", "")] == pytest.approx(expected)


@pytest.mark.parametrize("n_jobs", [None, pytest.param(2, marks=pytest.mark.slow)])
def test_a_failing_calibrator_is_a_row_that_says_why(n_jobs):
    """And a warning is a column, not a line on the screen."""
    y, Z = scores()
    tried = {"bad": Failing(), "loud": Alarmed(), "good": TemperatureScaling()}
    frame = frame_of(Z, y, tried, metrics=["log_loss"], n_jobs=n_jobs)
    assert frame["error"].to_dict() == {
        "identity": "", "bad": "RuntimeError: no luck at all", "loud": "", "good": "",
    }  # fmt: skip
    assert frame["warning"].to_dict()["loud"] == "is this right?"
    assert np.isnan(frame.loc["bad", ("log_loss", "value")])
    assert frame["log_loss"]["rank"].drop("bad").notna().all()


def test_jobs_do_not_change_numbers():
    y, Z = scores()
    data = {"metrics": ["log_loss", "ks_calibration_error"], "random_state": 0}
    one, two = (frame_of(Z, y, TWO, n_jobs=j, **data) for j in (None, 2))
    pd.testing.assert_frame_equal(
        one.drop(columns="fit seconds", level=0), two.drop(columns="fit seconds", level=0)
    )


def test_the_jobs_of_an_enclosing_configuration_are_taken():
    """Each of two calibrators waits in its fits for the other."""
    barrier = threading.Barrier(2, timeout=20)

    class Waiting(IdentityCalibrator):
        def _fit(self, scores, code, w):
            barrier.wait()
            return super()._fit(scores, code, w)

    y, Z = scores()
    with joblib.parallel_config("threading", n_jobs=2):
        frame = frame_of(Z, y, {"a": Waiting(), "b": Waiting()}, metrics=["log_loss"], cv=2)
    assert (frame["error"] == "").all()


def test_every_calibrator_by_default():
    """One for each public class, and all work on the same small data."""
    y, Z = scores(200)
    frame = frame_of(Z, y, metrics=["brier_score"], cv=2)
    assert list(frame.index) == list(calibrators_by_name())
    kinds = {type(c).__name__ for c in calibrators_by_name().values()}
    assert kinds == set(skcalib.calibrators.__all__)
    assert (frame["error"] == "").all()


def test_many_classes_leave_out_the_heavy_with_a_reason():
    """Unless they are named."""
    K = HEAVY_CLASSES + 1
    y, Z = scores(4 * K, n_classes=K)
    y[: 4 * K] = np.arange(4 * K) % K
    frame = frame_of(Z, y, metrics=["error_rate"], cv=2)
    assert "101 classes" in frame.loc["matrix", ("error", "")]
    assert list(frame.index[frame["error"] != ""]) == ["dirichlet", "matrix"]
    assert frame.index[1] == "auto", "the recommended one stands below the identity"
    named = frame_of(Z, y, [VectorScaling()], metrics=["error_rate"], cv=2)
    assert (named["error"] == "").all()


def test_ways_to_name_calibrators():
    y, Z = scores(150)
    listed = [TemperatureScaling(), TemperatureScaling(objective="brier"), "vector"]
    frame = frame_of(Z, y, listed, metrics=["log_loss"], cv=2)
    assert list(frame.index) == [
        "identity", "TemperatureScaling()", "TemperatureScaling(objective='brier')", "vector",
    ]  # fmt: skip
    given = {"as it is": IdentityCalibrator(), "t": TemperatureScaling()}
    fast = {"metrics": ["log_loss"], "cv": 2}
    assert list(frame_of(Z, y, given, **fast).index) == ["as it is", "t"]
    assert list(frame_of(Z, y, "temperature", **fast).index) == ["identity", "temperature"]


def test_any_classifier_may_be_compared():
    y, Z = scores()
    frame = frame_of(Z, y, [LogisticRegression()], metrics=["log_loss"])
    assert frame.loc["LogisticRegression", ("log_loss", "rank")] == 1


@pytest.mark.usefixtures("few_label_sets")
def test_ways_to_name_metrics():
    """Names with and without neg_, functions, scorers of both libraries, own functions."""
    y, Z = scores(200)
    cut = partial(static_calibration_error, n_bins=5)
    metrics = {
        "a": "neg_static_calibration_error",
        "b": static_calibration_error,
        "c": get_scorer("neg_static_calibration_error"),
        "d": make_calibration_scorer(static_calibration_error, n_bins=5),
        "e": cut,
        "f": lambda y_true, y_proba: 1 - np.mean(y_proba.argmax(axis=1) == y_true),
        "g": "error_rate",
    }
    table = frame_of(Z, y, ["temperature"], metrics=metrics, cv=2, random_state=0)
    value = {name: table[name]["value"] for name in metrics}
    np.testing.assert_array_equal(value["a"], value["b"])
    np.testing.assert_array_equal(value["a"], value["c"])
    np.testing.assert_array_equal(value["d"], value["e"])
    assert not np.allclose(value["a"], value["d"])
    np.testing.assert_allclose(value["f"], value["g"], atol=1e-12)
    listed, named = (
        frame_of(Z, y, ["temperature"], metrics=m, cv=2)
        for m in (["neg_log_loss", cut], ["log_loss"])
    )
    assert list(listed["log_loss"]["value"]) == list(named["log_loss"]["value"])
    assert ("static_calibration_error", "value") in listed


def test_scores_of_scikit_learn_are_best_where_large():
    """Rank 1 is the largest AUC, and a gain is an increase."""
    y, Z = scores(300, n_classes=2, factor=1.0)
    y_test, Z_test = scores(300, n_classes=2, factor=1.0, seed=1)
    data = {"test": (Z_test, y_test), "random_state": 0}
    turned = {"turned": LogisticRegression().fit(-Z, y)}
    metrics = ["roc_auc", "accuracy", "neg_brier_score"]
    frame = frame_of(Z, y, {"lr": LogisticRegression()} | turned, metrics=metrics, **data)
    auc = frame["roc_auc"]
    P = LogisticRegression().fit(Z, y).predict_proba(Z_test)
    assert auc.loc["lr", "value"] == pytest.approx(roc_auc_score(y_test, P[:, 1]))
    assert auc["rank"].tolist() == auc["value"].rank(ascending=False, method="min").tolist()
    better = auc.loc["lr", "value"] - auc.loc["identity", "value"]
    assert auc.loc["lr", "gain"] == pytest.approx(better, abs=0.02)
    brier = brier_score_loss(y_test, P[:, 1])
    assert frame.loc["lr", ("brier_score", "value")] == pytest.approx(brier)


@pytest.mark.parametrize("name", ["roc_auc", "neg_log_loss"])
def test_a_scorer_of_scikit_learn_is_taken_as_it_is(name):
    """Passed itself, its own score is shown, sign and all, and more of it is better."""
    y, Z = scores(300, n_classes=2)
    scorer = metrics_of_scikit_learn.get_scorer(name)
    given = {"itself": scorer, "by name": name}
    frame = frame_of(Z, y, TWO, metrics=given, cv=2, random_state=0)
    sign = -1 if name.startswith("neg") else 1
    np.testing.assert_allclose(frame["itself"]["value"], sign * frame["by name"]["value"])
    np.testing.assert_array_equal(frame["itself"]["rank"], frame["by name"]["rank"])
    assert (frame["itself"]["gain"] > 0).tolist() == (frame["by name"]["gain"] > 0).tolist()
    (alone,) = compare_calibrators(Z, y, [], metrics=scorer, cv=2).metrics
    assert alone == {"roc_auc": "roc_auc_score", "neg_log_loss": "log_loss"}[name]


@pytest.mark.usefixtures("few_label_sets")
def test_the_verdict_gives_the_number_that_weighted_rows_count_as():
    rng = np.random.default_rng(3)
    Z = rng.normal(size=(900, 3))
    y = (Z + rng.gumbel(size=Z.shape)).argmax(axis=1)  # calibrated: a gain is not settled
    w = rng.lognormal(size=900)
    said = compare_calibrators(
        Z, y, ["temperature"], metrics=["log_loss"], sample_weight=w, random_state=0
    ).verdict
    assert f"{round(w.sum() ** 2 / (w @ w)):,} " in said
    assert "900" not in said


def test_rare_and_missing_classes():
    """A class with one row, and one with none, keep their columns; no warning."""
    y, Z = scores(200, n_classes=4)
    y[y == 1] = 0
    y[y == 2] = 3
    y[5] = 1
    data = {"classes": [0, 1, 2, 3], "cv": 2}
    frame = frame_of(Z, y, **data, metrics=["log_loss"])
    assert (frame["error"] == "").all()


FOLDS = {
    "each fold lacks one": lambda y: [(y != k, y == k) for k in range(3)],
    "one class alone": lambda y: [(y == 0, y != 0), (y != 0, y == 0)],
    "one class in both": lambda y: [((y == 0) & (np.arange(len(y)) < 100), y == 0), (y > 0, y > 0)],
}


@pytest.mark.filterwarnings("ignore:cv. fold . has no training row:RuntimeWarning")
@pytest.mark.parametrize(
    ("folds", "input"), list(zip(FOLDS, ["logits", "proba", "logits"], strict=True))
)
def test_every_calibrator_has_numbers_where_training_rows_lack_a_class(folds, input):
    """Its column is what the calibrator says of a class without rows; log loss clips."""
    y, Z = scores(120)
    names = np.array(["ape", "bee", "cat"])[y]
    X = Z if input == "logits" else softmax(Z, axis=1)
    metrics = ["log_loss", "brier_score"]
    w = np.random.default_rng(0).random(120) + 0.5
    frame = frame_of(X, names, cv=FOLDS[folds](y), metrics=metrics, sample_weight=w)
    assert (frame["error"] == "").all()
    assert np.isfinite(frame.xs("value", axis=1, level=1)).all(axis=None)
    # A weighted mean of equal losses may be larger by a rounding error.
    assert frame["log_loss"]["value"].max() <= -np.log(1e-12) * (1 + 1e-15)


def test_sorted_rows_warn_once_of_folds_that_lack_a_class():
    y, Z = scores(120)
    order = np.argsort(y, kind="stable")
    with pytest.warns(RuntimeWarning, match="fold 0 has no training row of label 0") as caught:
        compare_calibrators(Z[order], y[order], ["temperature", "histogram"], cv=KFold(3))
    assert sum(issubclass(each.category, RuntimeWarning) for each in caught) == 1


def test_scorers_of_scikit_learn_are_told_the_classes_that_the_rows_lack():
    """Of test rows without a class, the log loss is that of all three columns."""
    y, Z = scores(300)
    P = softmax(Z, axis=1)
    scorer = metrics_of_scikit_learn.get_scorer("neg_log_loss")
    some = y > 0
    data = {"test": (P[some], y[some]), "metrics": [scorer, "top_k_accuracy"]}
    frame = frame_of(P, y, ["temperature"], **data)
    assert (frame["error"] == "").all()
    expected = -log_loss(y[some], P[some], labels=[0, 1, 2])
    assert frame.loc["identity", ("log_loss", "value")] == pytest.approx(expected)


@pytest.mark.parametrize(
    ("change", "complaint"),
    [
        ({"X": np.full((60, 3), np.nan)}, "NaN"),
        ({"y": np.arange(60) % 3 + 0.5}, "continuous"),
        ({"metrics": ["no_such"]}, "'no_such' is not the name of a metric"),
        ({"metrics": []}, "metrics is empty"),
        ({"metrics": ["log_loss", "neg_log_loss"]}, "twice"),
        ({"metrics": [3]}, "got 3"),
        ({"metrics": 3}, "a list or a dict of these; got 3"),
        ({"metrics": np.array(3)}, "a list or a dict of these; got array(3)"),
        ({"calibrators": ["no_such"]}, "'no_such' is not a calibrator name: use one of identity"),
        ({"calibrators": ["temperature_scaling"]}, "not a calibrator name: did you mean temp"),
        ({"calibrators": [TemperatureScaling]}, "TemperatureScaling()"),
        ({"calibrators": [3]}, "got 3"),
        ({"calibrators": 3}, "calibrators must be a list or a dict; got 3"),
        ({"calibrators": np.array(3)}, "calibrators must be a list or a dict; got array(3)"),
        ({"calibrators": {"identity": TemperatureScaling()}}, "baseline"),
        ({"calibrators": ["vector", "vector"]}, "twice"),
        ({"cv": 100}, "cv=100"),
        ({"cv": []}, "cv contains no folds: pass a number of folds"),
        ({"test": (np.zeros((2, 3)),)}, "test must be"),
        ({"test": (np.ones((5, 2)), [0, 1, 0, 1, 0])}, "2 classes"),
        ({"test": (np.full((5, 3), 1 / 3), [0, 1, 2, 1, 0])}, "probability vectors"),
        ({"test": (2 * np.eye(3), ["a", "b", "c"])}, "labels of type int, str"),
        ({"confidence_level": 95}, "confidence_level"),
        ({"sample_weight": np.zeros(60)}, "zero"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_what_is_wrong_is_said(change, complaint):
    """Before anything is fitted, in one line."""
    rng = np.random.default_rng(0)
    given = {"X": rng.normal(size=(60, 3)), "y": np.arange(60) % 3, **change}
    with pytest.raises((ValueError, TypeError)) as raised:
        compare_calibrators(given.pop("X"), given.pop("y"), **given)
    assert complaint in str(raised.value)
    assert "\n" not in str(raised.value)


@pytest.mark.parametrize("verbose", [None, 0, 1, 2])
@pytest.mark.parametrize("terminal", [True, False])
def test_progress_is_shown_on_stderr_before_any_work(monkeypatch, capsys, verbose, terminal):
    """A bar that a terminal removes, or lines; without `verbose`, files and pipes get nothing."""
    y, Z = scores(100)
    monkeypatch.setattr(sys.stderr, "isatty", lambda: terminal)
    written = []

    def metric(y, P):
        written.append(capsys.readouterr().err)
        return 0.0

    frame_of(
        Z, y, ["temperature", "vector", Failing()], metrics={"own": metric}, cv=2, verbose=verbose
    )
    out, end = capsys.readouterr()
    assert out == ""
    first, last = written[0], "".join(written) + end
    names = ["identity", *TWO, "Failing"]
    if verbose == 0 or (verbose is None and not terminal):
        assert last == ""
    elif terminal and verbose != 2:
        assert first == f"\033[K[{' ' * 20}] 1/4 identity\r"
        bars = [f"[{'#' * 5 * i:<20}] {i + 1}/4 {name}\r" for i, name in enumerate(names)]
        assert last == "".join(f"\033[K{bar}" for bar in bars) + "\033[K"
    else:
        assert first == "1/4 identity: "
        *fitted, failed = last.splitlines()
        for i, (line, name) in enumerate(zip(fitted, names[:-1], strict=True), 1):
            assert re.fullmatch(rf"{i}/4 {name}: fitted in 0\.\d\d s", line)
        assert failed == "4/4 Failing: RuntimeError: no luck at all"


def test_the_bar_is_removed_if_the_comparison_fails(monkeypatch, capsys):
    """And a program without stderr, such as one without a console, works."""
    y, Z = scores(100)

    def metric(y, P):
        raise KeyboardInterrupt

    monkeypatch.setattr(sys.stderr, "isatty", lambda: True)
    with pytest.raises(KeyboardInterrupt):
        compare_calibrators(Z, y, TWO, metrics={"own": metric})
    assert capsys.readouterr().err.endswith("1/3 identity\r\033[K")
    monkeypatch.setattr(sys, "stderr", None)
    compare_calibrators(Z, y, TWO, metrics=["log_loss"])


def test_rank_correlation_is_spearmans():
    """SciPy's coefficient of the means of each pair of metrics; larger is better turns round."""
    y, Z = scores(300)
    metrics = ["log_loss", "static_calibration_error", "accuracy"]
    names = ("identity", "temperature", "vector", "isotonic", "histogram")
    tried = {"bad": Failing(), **{name: calibrators_by_name()[name] for name in names}}
    frame = frame_of(Z, y, tried, metrics=metrics, cv=2)
    table = metric_rank_correlation(frame)
    assert list(table.index) == list(table.columns) == metrics
    means = {name: frame[name]["value"].drop("bad") for name in metrics}
    means["accuracy"] = -means["accuracy"]
    for a in metrics:
        for b in metrics:
            expected = stats.spearmanr(means[a], means[b]).statistic
            assert table.loc[a, b] == pytest.approx(expected)


def test_rank_correlation_of_inverse_orders_is_minus_one_and_needs_a_comparison():
    """By the square; the paper's formula without it, 1 - 6 (2 + 0 + 2) / (3 (9 - 1)), is 0."""
    columns = pd.MultiIndex.from_product([["a", "b"], ["value", "rank"]])
    frame = pd.DataFrame([[0.1, 1, 0.3, 3], [0.2, 2, 0.2, 2], [0.3, 3, 0.1, 1]], columns=columns)
    assert metric_rank_correlation(frame).loc["a", "b"] == pytest.approx(-1, abs=1e-12)
    refused("compare_calibrators", metric_rank_correlation, pd.DataFrame({"a": [1]}))
    y, Z = scores(60)
    frame = frame_of(Z, y, [Failing()], metrics=["log_loss"])
    refused("1 calibrators", metric_rank_correlation, frame)


def test_filters_of_warnings_are_left_alone_in_threads():
    """Only the main thread swaps them; a thread gets no list and shows warnings as they come."""
    before, seen = warnings.filters, []

    def look():
        with recorded_warnings() as caught:
            seen.append((warnings.filters is before, caught))

    thread = threading.Thread(target=look)
    thread.start()
    thread.join()
    assert seen == [(True, [])]
    with recorded_warnings() as caught:
        warnings.warn("kept", stacklevel=1)
    assert [str(w.message) for w in caught] == ["kept"]


def test_a_function_that_is_no_metric_is_named():
    rng = np.random.default_rng(0)
    with pytest.raises(TypeError, match=r"metric len failed: .*pass a function"):
        frame_of(rng.normal(size=(60, 3)), rng.integers(3, size=60), metrics=len, cv=2)


def in_groups(n=300, seed=0):
    """Logits of three classes in four groups, each with a scale and a shift of its own."""
    rng = np.random.default_rng(seed)
    groups = rng.choice(["a", "b", "c", "d"], n, p=[0.5, 0.3, 0.15, 0.05])
    Z = 2 * rng.normal(size=(n, 3))
    scale, shift = {"a": 1.0, "b": 0.3, "c": 2.0, "d": 0.5}, {"a": 0, "b": 2, "c": -2, "d": 0}
    truth = Z * np.vectorize(scale.get)(groups)[:, None]
    truth[:, 0] += np.vectorize(shift.get)(groups)
    return (truth + rng.gumbel(size=(n, 3))).argmax(axis=1), Z, groups


def test_groups_are_cut_along_with_the_folds():
    """A loop over the folds, each with its part of groups and weights; other fits are the same."""
    y, Z, groups = in_groups()
    w = np.random.default_rng(1).integers(3, size=300)
    folds = list(StratifiedKFold(4).split(Z, y))
    named = {"T": "temperature", "G": skcalib.GroupwiseCalibrator("temperature")}
    given = {"cv": folds, "metrics": ["log_loss"], "sample_weight": w}
    rows = np.flatnonzero(w)
    given["cv"] = list(StratifiedKFold(4).split(Z[rows], y[rows]))
    found = compare_calibrators(Z, y, named, groups=groups, **given)
    P = np.full((300, 3), np.nan)
    for train, test in given["cv"]:
        i, j = rows[train], rows[test]
        fitted = skcalib.GroupwiseCalibrator("temperature").fit(Z[i], y[i], w[i], groups[i])
        P[j] = fitted.predict_proba(Z[j], groups=groups[j])
    expected = log_loss(y[rows], P[rows], sample_weight=w[rows])
    assert found.frame.loc["G", ("log_loss", "value")] == pytest.approx(expected, rel=1e-12)
    plain = frame_of(Z, y, ["temperature"], **given)
    pd.testing.assert_series_equal(
        found.frame["log_loss"].loc["T", ["value"]],
        plain["log_loss"].loc["temperature", ["value"]],
        check_names=False,
    )
    whole = skcalib.GroupwiseCalibrator("temperature").fit(Z, y, w, groups)
    np.testing.assert_array_equal(found.fit("G").coef_, whole.coef_)


def test_test_rows_have_groups_too():
    y, Z, groups = in_groups()
    test = (Z[200:], y[200:], None, groups[200:])
    keywords = {"groups": groups[:200], "metrics": ["log_loss"]}
    frame = frame_of(Z[:200], y[:200], ["groupwise"], test=test, **keywords)
    fitted = skcalib.GroupwiseCalibrator().fit(Z[:200], y[:200], groups=groups[:200])
    expected = log_loss(y[200:], fitted.predict_proba(Z[200:], groups=groups[200:]))
    assert frame.loc["groupwise", ("log_loss", "value")] == pytest.approx(expected, rel=1e-9)
    with pytest.raises(ValueError, match="test groups is missing: pass both groups= and test="):
        frame_of(Z[:200], y[:200], ["groupwise"], test=test[:2], **keywords)
    with pytest.raises(ValueError, match="test groups has 99 rows"):
        frame_of(Z[:200], y[:200], test=(*test[:3], groups[201:]), **keywords)


def test_folds_have_equal_shares_of_each_label_in_each_group():
    """Counts in folds differ by at most one, for labels, too; of groups smaller than the folds."""
    y, Z, groups = in_groups(1000)
    groups[:60] = [f"small {i}" for i in np.arange(60) // 3]
    data = in_folds(read_rows(Z, y, None, input="auto", classes=None, groups=groups), 5)
    fold = np.full(1000, -1)
    for k, (train, test) in enumerate(data.splits):
        assert sorted([*train, *test]) == list(range(1000))
        fold[test] = k
    assert (fold >= 0).all()
    for g in np.unique(groups):
        counts = [np.sum((fold == k) & (groups == g)) for k in range(5)]
        assert max(counts) - min(counts) <= 1
        for label in range(3):
            counts = [np.sum((fold == k) & (groups == g) & (y == label)) for k in range(5)]
            assert max(counts) - min(counts) <= 1


@pytest.mark.parametrize("cv", [1, 0, -1])
def test_fewer_than_two_folds_are_refused_with_groups_too(cv):
    y, Z, groups = in_groups(60)
    with pytest.raises(ValueError, match=f"^cv: .*got n_splits={cv}; pass a number of folds"):
        compare_calibrators(Z, y, ["temperature"], groups=groups, cv=cv)


def test_groups_join_groupwise_to_the_default_calibrators(monkeypatch):
    """Beside the others, with a gain in groups that need their own maps."""
    few = {name: calibrators_by_name()[name] for name in ("identity", "auto", "temperature")}
    monkeypatch.setattr("skcalib._comparison.compare.calibrators_by_name", lambda: dict(few))
    y, Z, groups = in_groups(1500)
    found = compare_calibrators(Z, y, groups=groups, metrics=["log_loss"])
    assert list(found.frame.index) == ["identity", "auto", "temperature", "groupwise"]
    assert found.choice == "groupwise"
    frame = compare_calibrators(Z, y, metrics=["log_loss"]).frame
    assert "groupwise" not in frame.index
    missing = compare_calibrators(Z, y, [skcalib.GroupwiseCalibrator()], metrics=["log_loss"])
    assert "pass groups= with a label" in missing.frame.loc["GroupwiseCalibrator", ("error", "")]


def rated(n=300, raters=4, seed=0):
    """Logits twice too large, the shares of raters, groups and weights."""
    _, Z, groups = in_groups(n, seed)
    rng = np.random.default_rng(seed)
    labels = (Z[:, None] / 2 + rng.gumbel(size=(n, raters, 3))).argmax(axis=2)
    w = rng.integers(0, 3, n)
    return Z, (labels[:, :, None] == np.arange(3)).mean(axis=1), groups, w


def test_shares_are_measured_and_fitted_as_they_are():
    """A loop over the ratings of the folds; weight 0 is a row's absence; groups are cut along."""
    Z, shares, groups, w = rated()
    shown = {"T": TemperatureScaling(), "G": skcalib.GroupwiseCalibrator("temperature")}
    metrics = ["log_loss", "brier_score", "error_rate", "expected_calibration_error"]
    given = {"groups": groups, "sample_weight": w, "metrics": metrics}
    comparison = compare_calibrators(Z, shares, shown, **given)
    data = in_folds(read_rows(Z, shares, w, input="auto", classes=None, groups=groups), 5)
    kept = w > 0
    Z, shares, groups, w = Z[kept], shares[kept], groups[kept], w[kept]
    losses, Q = np.zeros(4), np.empty(Z.shape)
    for train, test in data.splits:
        fitted = TemperatureScaling().fit(Z[train], shares[train], w[train])
        Q[test] = fitted.predict_proba(Z[test])
    for q, row, weight in zip(Q, shares, w, strict=True):
        for k, share in enumerate(row):
            of_label = -np.log(q[k]), ((q - np.eye(3)[k]) ** 2).sum(), q.argmax() != k, 1
            losses += weight * share * np.array(of_label, dtype=float)
    values = comparison.frame.xs("value", axis=1, level=1).loc["T"]
    np.testing.assert_allclose(values[metrics[:3]], losses[:3] / losses[3], rtol=1e-9)
    ece = skcalib.metrics.expected_calibration_error(shares, Q, sample_weight=w)
    assert values["expected_calibration_error"] == pytest.approx(ece, rel=1e-9)
    assert np.isnan(comparison.frame.loc["T", ("expected_calibration_error", "debiased")])
    gain = comparison.frame.loc["T", "expected_calibration_error"][["low", "gain", "high"]]
    assert gain.is_monotonic_increasing
    whole = skcalib.GroupwiseCalibrator("temperature").fit(Z, shares, w, groups=groups)
    np.testing.assert_allclose(comparison.fit("G").coef_, whole.coef_, rtol=1e-6)


def test_shares_of_columns_in_another_order_and_of_frames():
    Z, shares, _, _ = rated()
    names, order = ["a", "b", "c"], [2, 0, 1]
    keywords = {"calibrators": ["temperature"], "metrics": ["log_loss"]}
    expected = compare_calibrators(Z, shares, **keywords).frame["log_loss"]
    moved = [names[k] for k in order]
    found = compare_calibrators(Z[:, order], shares[:, order], classes=moved, **keywords)
    np.testing.assert_allclose(found.frame["log_loss"], expected, rtol=1e-9)
    assert found.fit("temperature").classes_.tolist() == names
    X, y = pd.DataFrame(Z, columns=names)[moved], pd.DataFrame(shares, columns=names)
    found = compare_calibrators(X, y, **keywords)
    np.testing.assert_allclose(found.frame["log_loss"], expected, rtol=1e-9)


def test_shares_of_test_rows_and_what_takes_no_shares():
    Z, shares, _, w = rated()
    few = {"calibrators": ["temperature"], "metrics": ["log_loss"]}
    test = (Z[200:], shares[200:], w[200:])
    frame = compare_calibrators(
        Z[:200], shares[:200], sample_weight=w[:200], test=test, **few
    ).frame
    Q = TemperatureScaling().fit(Z[:200], shares[:200], w[:200]).predict_proba(Z[200:])
    expected = -(w[200:] @ (shares[200:] * np.log(Q)).sum(axis=1)) / w[200:].sum()
    assert frame.loc["temperature", ("log_loss", "value")] == pytest.approx(expected, rel=1e-9)
    with pytest.raises(
        ValueError, match="y and the y of test: one has soft labels, the other class labels"
    ):
        compare_calibrators(Z, shares, test=(Z, shares.argmax(axis=1)), **few)
    with pytest.raises(ValueError, match=r"y has shape \(300, 3\), but X has shape \(300, 1\)"):
        compare_calibrators(Z[:, :1], shares, **few)
    with pytest.raises(
        ValueError,
        match="choose_by='ks_calibration_error' does not support soft labels in y: pass 'log_loss'",
    ):
        compare_calibrators(Z, shares, choose_by="ks_calibration_error", **few)
    with pytest.raises(
        ValueError, match="avuc_loss takes one label for each row; draw the label of one rater"
    ):
        compare_calibrators(Z, shares, ["temperature"], metrics=["avuc_loss"])


def test_shares_beside_options():
    """The default calibrators, by question; what was not offered is 0."""
    Z, shares, groups, _ = rated()
    P = np.where(shares > 0, np.exp(Z), np.nan)
    P /= np.nansum(P, axis=1, keepdims=True)
    frame = compare_calibrators(P, shares, groups=groups, metrics=["log_loss"]).frame
    assert sorted(frame.index) == ["auto", "groupwise", "identity", "temperature"]
    assert (frame["error"] == "").all()
