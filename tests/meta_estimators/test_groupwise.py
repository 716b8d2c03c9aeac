"""GroupwiseCalibrator: limits, odd groups, and the three ways in which groups reach it."""

import numpy as np
import pandas as pd
import polars as pl
import pytest
import scipy.sparse as sp
from calls import refused
from scipy.optimize import minimize
from scipy.special import expit, softmax
from sklearn import config_context
from sklearn.base import clone
from sklearn.compose import make_column_transformer
from sklearn.frozen import FrozenEstimator
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import KFold, cross_val_predict
from sklearn.pipeline import make_pipeline

from skcalib import (
    CalibratedClassifier,
    ClassifierScores,
    GroupwiseCalibrator,
    IdentityCalibrator,
    IsotonicCalibrator,
    TemperatureScaling,
)


def two_classes(n=600, seed=0, strength=1.0):
    """P(True) that is too low in group b and too high in c; labels are strings."""
    rng = np.random.default_rng(seed)
    f = rng.normal(size=n)
    site = rng.choice(["a", "b", "c"], n)
    truth = f + strength * ((site == "b") * 1.0 - (site == "c"))
    y = np.where(rng.random(n) < expit(truth), "yes", "no")
    return expit(f), y, site


def three_classes(n=900, seed=0):
    rng = np.random.default_rng(seed)
    Z = rng.normal(size=(n, 3))
    site = rng.integers(4, size=n)
    y = (Z + (site == 2)[:, None] * [0, 0, 1.5] + rng.gumbel(size=Z.shape)).argmax(axis=1)
    return Z, y, site


@pytest.mark.parametrize("data", [two_classes, three_classes])
@pytest.mark.parametrize("common", [None, "isotonic", TemperatureScaling()])
def test_strong_shrinkage_is_the_common_map(data, common):
    X, y, site = data()
    fitted = GroupwiseCalibrator(common, shrinkage=1e12).fit(X, y, groups=site)
    expected = fitted.calibrator_.predict_proba(X)
    np.testing.assert_allclose(fitted.predict_proba(X, groups=site), expected, atol=1e-7)


def test_weak_shrinkage_is_a_beta_map_for_each_group():
    """The likeliest map on log p and log (1 - p), by scikit-learn's unpenalised regression."""
    p, y, site = two_classes()
    fitted = GroupwiseCalibrator(IdentityCalibrator(), shrinkage=1e-7).fit(p, y, groups=site)
    found = fitted.predict_proba(p, groups=site)[:, 1]
    for g in "abc":
        own = site == g
        F = np.column_stack([np.log(p[own]), np.log1p(-p[own])])
        slow = LogisticRegression(C=np.inf, tol=1e-10, max_iter=1000).fit(F, y[own])
        np.testing.assert_allclose(found[own], slow.predict_proba(F)[:, 1], atol=1e-4)


def test_many_rows_make_groups_their_own():
    p, y, site = two_classes(60_000, strength=0.5)
    fitted = GroupwiseCalibrator("temperature").fit(p, y, groups=site)
    truth = expit(np.log(p / (1 - p)) + 0.5 * ((site == "b") * 1.0 - (site == "c")))
    found = fitted.predict_proba(p, groups=site)[:, 1]
    assert np.abs(found - truth).mean() < 0.01
    assert (fitted.effective_dof_ > 1).all()


def test_three_rows_stay_near_the_common_map():
    p, y, site = two_classes(900)
    site = site.astype(object)
    few = np.flatnonzero(site == "b")[:3]
    site[few] = "few"
    fitted = GroupwiseCalibrator("temperature").fit(p, y, groups=site)
    common = fitted.calibrator_.predict_proba(p)[:, 1]

    def away(label):
        asked = fitted.predict_proba(p, groups=np.full(p.size, label))[:, 1]
        return np.abs(asked - common).mean()

    assert away("few") < 0.5 * away("b")
    dof = dict(zip(fitted.groups_, fitted.effective_dof_, strict=True))
    assert dof["few"] < dof["b"] / 2


def test_a_row_is_mapped_by_slope_and_shift_of_its_group():
    Z, y, site = three_classes()
    fitted = GroupwiseCalibrator("temperature").fit(Z, y, groups=site)
    Q = fitted.calibrator_.predict_proba(Z[:20])
    found = fitted.predict_proba(Z[:20], groups=site[:20])
    for q, g, row in zip(Q, site[:20], found, strict=True):
        place = fitted.groups_.index(g)
        mass = q ** fitted.coef_[place] * np.exp(fitted.intercept_[place])
        np.testing.assert_allclose(row, mass / mass.sum(), atol=1e-12)
    assert fitted.strengths_.keys() == {"slope", "shift", "class slope"}


def test_new_and_missing_groups_get_the_common_map():
    p, y, site = two_classes()
    fitted = GroupwiseCalibrator("temperature").fit(p, y, groups=site)
    common = fitted.calibrator_.predict_proba(p[:4])
    asked = ["new", None, np.nan, "b"]
    found = fitted.predict_proba(p[:4], groups=asked)
    np.testing.assert_array_equal(found[:3], common[:3])
    assert (found[3] != common[3]).all()
    np.testing.assert_array_equal(fitted.predict_proba(p[:2], groups=[None, None]), common[:2])


def test_groups_of_another_kind_are_noticed():
    p, y, site = two_classes()
    number = np.unique(site, return_inverse=True)[1]
    fitted = GroupwiseCalibrator("temperature").fit(p, y, groups=number)
    with pytest.warns(UserWarning, match="no row has a group that was in fit"):
        fitted.predict_proba(p, groups=number.astype(str))


def test_rows_without_a_group_count_for_the_common_map():
    p, y, site = two_classes()
    site = site.astype(object)
    site[:200] = None
    fitted = GroupwiseCalibrator("temperature").fit(p, y, groups=site)
    assert fitted.groups_ == ["a", "b", "c"]
    assert fitted.calibrator_.temperature_ == TemperatureScaling().fit(p, y).temperature_


def test_several_columns_are_crossed():
    p, y, site = two_classes()
    half = np.arange(p.size) % 2
    frame = pd.DataFrame({"site": site, "half": half})
    fitted = GroupwiseCalibrator("temperature").fit(p, y, groups=frame)
    assert fitted.groups_[:2] == [("a", 0), ("a", 1)]
    found = fitted.predict_proba(p, groups=frame)
    same = fitted.predict_proba(p, groups=list(zip(site, half, strict=True)))
    np.testing.assert_array_equal(found, same)
    refused(r"groups has 1 column\(s\), but in fit it had 2", fitted.predict_proba, p, groups=site)


def test_rows_of_weight_0_are_no_group():
    p, y, site = two_classes(300)
    w = (site != site[0]).astype(float)
    assert site[0] not in GroupwiseCalibrator("temperature").fit(p, y, w, groups=site).groups_


def test_a_calibrator_without_weights_is_named():
    from sklearn.neighbors import KNeighborsClassifier

    Z, y, site = three_classes()
    with pytest.warns(UserWarning, match="KNeighborsClassifier takes no sample_weight"):
        GroupwiseCalibrator(KNeighborsClassifier()).fit(Z, y, np.ones(y.size), groups=site)


def test_zeros_stay_zeros_and_float32_stays_float32():
    p, y, site = two_classes()
    P = np.column_stack([1 - p, p]).astype(np.float32)
    fitted = GroupwiseCalibrator(IsotonicCalibrator()).fit(P, y, groups=site)
    found = fitted.predict_proba(P, groups=site)
    assert found.dtype == np.float32
    np.testing.assert_allclose(found.sum(axis=1), 1, atol=1e-6)
    np.testing.assert_array_equal(found == 0, fitted.calibrator_.predict_proba(P) == 0)
    assert (found == 0).any()


def frame_of(kind):
    p, y, site = two_classes()
    columns = {"prob_no": 1 - p, "prob_yes": p, "site": site}
    return (pl if kind == "polars" else pd).DataFrame(columns), p, y, site


@pytest.mark.parametrize("kind", ["pandas", "polars"])
@pytest.mark.parametrize("column", ["site", -1, ["site"]])
def test_groups_from_a_column_of_a_frame(kind, column):
    frame, p, y, site = frame_of(kind)
    named = GroupwiseCalibrator("temperature", group_column=column).fit(frame, y)
    P = np.column_stack([1 - p, p])
    given = GroupwiseCalibrator("temperature").fit(P, y, groups=site)
    np.testing.assert_allclose(
        named.predict_proba(frame), given.predict_proba(P, groups=site), atol=1e-12
    )
    assert (named.predict(frame) == given.predict(P, groups=site)).all()


def test_groups_from_a_column_of_an_array():
    Z, y, site = three_classes()
    table = np.column_stack([site, Z])
    named = GroupwiseCalibrator("temperature", group_column=0).fit(table, y)
    assert named.groups_ == [0, 1, 2, 3]
    given = GroupwiseCalibrator("temperature").fit(Z, y, groups=site)
    np.testing.assert_array_equal(named.predict_proba(table), given.predict_proba(Z, groups=site))
    twice = np.column_stack([Z, site, site % 2])
    crossed = GroupwiseCalibrator("temperature", group_column=[-2, -1]).fit(twice, y)
    assert crossed.groups_ == [(0, 0), (1, 1), (2, 0), (3, 1)]


@pytest.mark.parametrize("make", [sp.csr_matrix, sp.coo_array])
@pytest.mark.parametrize("column", [0, [-2, 0]])
def test_groups_from_columns_of_sparse_features(make, column):
    Z, y, site = three_classes()
    table = np.column_stack([site, Z[:, 0], site % 2, Z[:, 1]])
    model = CalibratedClassifier(
        LogisticRegression(), GroupwiseCalibrator("temperature", group_column=column), cv=3
    )
    expected = clone(model).fit(table, y).predict_proba(table)
    found = model.fit(make(table), y).predict_proba(make(table))
    np.testing.assert_allclose(found, expected, atol=1e-6)


# ------------------------------------------------------------------ joined to a classifier


def patients(n=800, seed=0):
    """Features and a site whose effect a model without it does not know."""
    rng = np.random.default_rng(seed)
    frame = pd.DataFrame(rng.normal(size=(n, 3)), columns=["age", "dose", "mass"])
    frame["site"] = rng.choice(["a", "b", "c"], n)
    logit = frame["age"] + 1.5 * (frame["site"] == "b") - 1.5 * (frame["site"] == "c")
    return frame, (rng.random(n) < expit(logit)).to_numpy().astype(int)


def blind():
    """A model that does not see the site."""
    return make_pipeline(
        make_column_transformer(("passthrough", ["age", "dose", "mass"])), LogisticRegression()
    )


def by_site(**keywords):
    return GroupwiseCalibrator("temperature", group_column="site", **keywords)


def test_with_a_frozen_classifier_it_is_fitted_to_its_scores():
    X, y = patients()
    model = FrozenEstimator(blind().fit(X[:300], y[:300]))
    joined = CalibratedClassifier(model, by_site()).fit(X[300:], y[300:])
    f = model.decision_function(X[300:])
    alone = GroupwiseCalibrator(TemperatureScaling(input="logits"))
    alone.fit(np.column_stack([0 * f, f]), y[300:], groups=X["site"][300:])
    expected = alone.predict_proba(np.column_stack([0 * f, f]), groups=X["site"][300:])
    np.testing.assert_allclose(joined.predict_proba(X[300:]), expected, atol=1e-12)


def test_a_fold_takes_the_groups_of_its_own_rows():
    X, y = patients()
    cal = np.arange(799, 300, -1)
    folds = [(np.arange(300), cal[:200]), (np.arange(300), cal[200:])]
    joined = CalibratedClassifier(blind(), by_site(), cv=folds).fit(X, y)
    f = blind().fit(X[:300], y[:300]).decision_function(X.iloc[301:])
    alone = GroupwiseCalibrator(TemperatureScaling(input="logits"))
    alone.fit(np.column_stack([0 * f, f]), y[301:], groups=X["site"].iloc[301:])
    np.testing.assert_allclose(joined.calibrator_.coef_, alone.coef_, atol=1e-9)


@pytest.mark.parametrize("ensemble", [False, True])
def test_cross_validation_needs_no_more_than_the_column(ensemble):
    X, y = patients()
    joined = CalibratedClassifier(blind(), by_site(), ensemble=ensemble, cv=3)
    held_out = cross_val_predict(joined, X, y, cv=KFold(3), method="predict_proba")
    plain = CalibratedClassifier(blind(), "temperature", ensemble=ensemble, cv=3)
    common = cross_val_predict(plain, X, y, cv=KFold(3), method="predict_proba")
    for g, sign in (("b", 1), ("c", -1)):
        own = (X["site"] == g).to_numpy()
        assert sign * (held_out[own, 1] - common[own, 1]).mean() > 0.05
    assert (joined.fit(X, y).predict(X) == joined.classes_[joined.predict_proba(X).argmax(1)]).all()


def test_metadata_routing_takes_groups_everywhere():
    X, y = patients()
    rest, site = X.drop(columns="site"), X["site"]
    expected = CalibratedClassifier(blind(), by_site(), cv=3).fit(X, y)
    with config_context(enable_metadata_routing=True):
        joined = CalibratedClassifier(
            LogisticRegression(), GroupwiseCalibrator("temperature"), cv=3
        )
        joined.fit(rest, y, groups=site)
        found = joined.predict_proba(rest, groups=site)
        np.testing.assert_allclose(found, expected.predict_proba(X), atol=1e-9)
        assert (joined.predict(rest, groups=site) == found.argmax(axis=1)).all()
        with pytest.raises(
            ValueError, match="needs groups: .*, which score and scorers cannot do, .*group_column="
        ):
            joined.score(rest, y)
        pipe = make_pipeline(
            ClassifierScores(FrozenEstimator(LogisticRegression().fit(rest, y))),
            GroupwiseCalibrator("temperature"),
        )
        pipe.fit(rest, y, groups=site)
        direct = pipe[-1].predict_proba(pipe[0].transform(rest), groups=site)
        np.testing.assert_array_equal(pipe.predict_proba(rest, groups=site), direct)
        np.testing.assert_array_equal(pipe.predict_log_proba(rest, groups=site), np.log(direct))
        plain = CalibratedClassifier(LogisticRegression(), "temperature").fit(rest, y)
        refused("groups", plain.predict_proba, rest, groups=site, error=TypeError)


def test_weights_reach_the_map_by_routing():
    X, y = patients()
    w = np.random.default_rng(0).integers(1, 3, y.size).astype(float)
    rest, site = X.drop(columns="site"), X["site"]
    model = LogisticRegression().fit(rest, y)
    f = model.decision_function(rest)
    direct = GroupwiseCalibrator(TemperatureScaling(input="logits"))
    direct.fit(np.column_stack([0 * f, f]), y, w, groups=site)
    joined = CalibratedClassifier(FrozenEstimator(model), GroupwiseCalibrator("temperature"))
    with config_context(enable_metadata_routing=True):
        joined.set_fit_request(sample_weight=True).fit(rest, y, sample_weight=w, groups=site)
    np.testing.assert_allclose(joined.calibrator_.coef_, direct.coef_, atol=1e-12)


# ------------------------------------------------------------------ what is refused


@pytest.mark.parametrize(
    ("keywords", "groups", "words"),
    [
        ({}, None, r"groups is None: pass groups= .* or group_column="),
        ({}, ["a"], "groups has 1 rows, but there are 600"),
        ({}, [None] * 600, "no row has a group"),
        ({"group_column": "sex"}, None, "group_column='sex': X has no column names"),
        ({"group_column": 2}, None, "group_column=2, but X has 2 columns"),
        ({"shrinkage": 0}, ["a"] * 600, "shrinkage"),
        ({"calibrator": "isotnic"}, ["a"] * 600, "is not a calibrator name"),
    ],
)
def test_bad_input_is_refused_in_one_line(keywords, groups, words):
    p, y, _ = two_classes()
    P = np.column_stack([1 - p, p])
    refused(words, GroupwiseCalibrator(**keywords).fit, P, y, groups=groups)


def test_a_column_that_is_not_there_is_named():
    frame, _, y, _ = frame_of("pandas")
    with pytest.raises(ValueError, match=r"'sex' is not a column of X: pass one of \['prob_no'"):
        GroupwiseCalibrator(group_column="sex").fit(frame, y)


def test_groups_without_routing_and_without_a_column_are_refused():
    X, y = patients(100)
    rest, site = X.drop(columns="site"), X["site"]
    joined = CalibratedClassifier(LogisticRegression(), GroupwiseCalibrator())
    with pytest.raises(
        ValueError, match=r"needs groups: .*set_config\(enable_metadata_routing=True\)"
    ):
        joined.fit(rest, y, groups=site)
    plain = CalibratedClassifier(LogisticRegression()).fit(rest, y)
    refused(
        r"groups: arguments are passed on only with metadata routing: .*set_config",
        plain.predict_proba,
        rest,
        groups=site,
    )
    with config_context(enable_metadata_routing=True), pytest.raises(ValueError, match="100"):
        joined.fit(rest, y, groups=site[:50])


def test_y_is_required_and_a_failed_fit_changes_nothing():
    p, y, site = two_classes()
    refused("y should be a 1d array", GroupwiseCalibrator().fit, p, None, groups=site)
    fitted = GroupwiseCalibrator("temperature").fit(p, y, groups=site)
    before = fitted.predict_proba(p, groups=site)
    refused("no row has a group", fitted.fit, p, y, groups=[None] * p.size)
    np.testing.assert_array_equal(fitted.predict_proba(p, groups=site), before)


def questions(n_questions=3, n=80, seed=0, n_options=3, differ=True):
    """Probabilities of questions with options of their own, labels, and the question of a row."""
    rng = np.random.default_rng(seed)
    group = np.repeat(np.arange(n_questions), n)
    T = np.exp(rng.normal(0.5, 0.4 * differ, n_questions))[group, None]
    shift = rng.normal(0, 0.5 * differ, (n_questions, n_options))[group]
    z = 2 * rng.normal(size=(group.size, n_options))
    best = (z / T + shift + rng.gumbel(size=z.shape)).argmax(axis=1)
    P = np.full((group.size, n_questions * n_options), np.nan)
    columns = n_options * group[:, None] + np.arange(n_options)
    np.put_along_axis(P, columns, softmax(z, axis=1), axis=1)
    return P, n_options * group + best, group


def log_loss_of(Q, y):
    return -np.log(Q[np.arange(len(y)), y]).mean()


@pytest.mark.parametrize("common", ["identity", "temperature", "auto"])
def test_options_that_a_row_does_not_offer_stay_0_in_groups(common):
    P, y, group = questions()
    P[::7, 1] = np.where(y[::7] == 1, P[::7, 1], np.nan)  # options differ within a group too
    P /= np.nansum(P, axis=1, keepdims=True)
    fitted = GroupwiseCalibrator(common, shrinkage=0.1).fit(P, y, groups=group)
    Q = fitted.predict_proba(P, groups=group)
    assert (Q[np.isnan(P)] == 0).all()
    np.testing.assert_allclose(Q.sum(axis=1), 1, atol=1e-12)
    assert fitted.__sklearn_tags__().input_tags.allow_nan
    assert not GroupwiseCalibrator("vector").__sklearn_tags__().input_tags.allow_nan


def test_logits_without_options_are_grouped_like_nan():
    P, y, group = questions()
    Z = np.where(np.isnan(P), -np.inf, np.log(P) + 1.0)
    of_logits = GroupwiseCalibrator("temperature").fit(Z, y, groups=group)
    of_nan = GroupwiseCalibrator("temperature").fit(P, y, groups=group)
    np.testing.assert_allclose(
        of_logits.predict_proba(Z, groups=group), of_nan.predict_proba(P, groups=group), atol=1e-8
    )


def test_options_of_groups_shrunk_to_nothing_have_the_common_map():
    P, y, group = questions()
    fitted = GroupwiseCalibrator("temperature", shrinkage=1e9).fit(P, y, groups=group)
    common = TemperatureScaling().fit(P, y).predict_proba(P)
    np.testing.assert_allclose(fitted.predict_proba(P, groups=group), common, atol=1e-6)


def test_the_map_of_a_group_with_options_is_that_of_lists_of_rows():
    P, y, group = questions(n_questions=1, n=100, n_options=4)
    rng = np.random.default_rng(1)
    for i, label in enumerate(y):
        P[i, rng.choice(np.setdiff1d(np.arange(4), label))] = np.nan
    P /= np.nansum(P, axis=1, keepdims=True)
    strength = 1e-3
    fitted = GroupwiseCalibrator("identity", shrinkage=strength).fit(P, y, groups=group)
    rows = [(np.flatnonzero(~np.isnan(p)), p[~np.isnan(p)], k) for p, k in zip(P, y, strict=True)]

    def mapped(theta, options, p):
        slope = 1 + theta[0] + theta[5:][options]
        return softmax(slope * np.log(p) + theta[1:5][options])

    def objective(theta):
        nll = -sum(np.log(mapped(theta, o, p)[o == k][0]) for o, p, k in rows)
        return nll + strength / 2 * theta @ theta

    best = minimize(objective, np.zeros(9), method="BFGS", options={"gtol": 1e-5}).x
    Q = fitted.predict_proba(P, groups=group)
    for q, (options, p, _) in zip(Q, rows, strict=True):
        np.testing.assert_allclose(q[options], mapped(best, options, p), atol=2e-5)


def test_columns_of_options_may_be_moved_added_and_split_by_group():
    P, y, group = questions(n_questions=2, n_options=3)
    shared = np.where(np.isnan(P[:, :3]), P[:, 3:], P[:, :3])  # a column for two options
    shared = np.column_stack([shared, np.full(len(P), np.nan)])
    fit = GroupwiseCalibrator(TemperatureScaling(classes=range(4))).fit
    Q = fit(shared, y % 3, groups=group).predict_proba(shared, groups=group)
    fit = GroupwiseCalibrator("temperature").fit
    split = fit(P, y, groups=group).predict_proba(P, groups=group)
    np.testing.assert_allclose(
        np.where(group[:, None] == 0, split[:, :3], split[:, 3:]), Q[:, :3], atol=1e-10
    )
    order = np.array([4, 2, 0, 5, 1, 3])
    moved = fit(P[:, order], np.argsort(order)[y], groups=group)
    np.testing.assert_allclose(
        moved.predict_proba(P[:, order], groups=group), split[:, order], atol=1e-10
    )


def test_an_option_that_a_group_never_offered_gets_its_common_slope():
    P, y, group = questions(n_questions=2)
    fitted = GroupwiseCalibrator("temperature").fit(P, y, groups=group)
    assert (fitted.intercept_[0, 3:] == 0).all()
    assert np.ptp(fitted.coef_[0, 3:]) == 0
    new = np.full((1, 6), np.nan)
    new[0, [0, 4]] = 0.4, 0.6
    q = TemperatureScaling().fit(P, y).predict_proba(new)
    mass = q ** fitted.coef_[0] * np.exp(fitted.intercept_[0])
    np.testing.assert_allclose(fitted.predict_proba(new, groups=[0]), mass / mass.sum(), atol=1e-12)


def rated(P, raters, seed=0):
    """Shares of raters, who draw from a sharper P, and their labels ``(n, raters)``."""
    rng = np.random.default_rng(seed)
    Q = np.nan_to_num(P) ** 1.4
    up_to = (Q / Q.sum(axis=1, keepdims=True)).cumsum(axis=1)
    labels = (up_to[:, None] < rng.random((len(P), raters, 1))).sum(axis=2)
    return (labels[:, :, None] == np.arange(P.shape[1])).mean(axis=1), labels


@pytest.mark.parametrize("common", ["temperature", "auto", "vector"])
@pytest.mark.parametrize("options", [False, True])
def test_shares_of_a_row_that_counts_for_each_rater_are_the_labels_of_the_raters(common, options):
    if common == "vector" and options:
        return
    P, _, group = questions()
    P = P if options else np.sort(P, axis=1)[:, :3]
    shares, labels = rated(P, 4)
    fit = GroupwiseCalibrator(common).fit
    four = np.full(len(P), 4)
    found = fit(P, shares, four, groups=group).predict_proba(P, groups=group)
    rows = np.repeat(np.arange(len(P)), 4)
    expected = fit(P[rows], labels.ravel(), groups=group[rows]).predict_proba(P, groups=group)
    np.testing.assert_allclose(found, expected, atol=1e-6)


def test_shares_keep_the_number_of_rows_of_relative_weights():
    """A row of weight w is one observation, however many raters share it."""
    P, _, group = questions()
    w = np.random.default_rng(1).uniform(0.5, 2, len(P))
    label = np.random.default_rng(2).permutation(len(P)) % 2 + 3 * group
    shares = 0.999 * np.eye(9)[label] + 0.001 * np.eye(9)[label // 3 * 3 + 2]
    found = GroupwiseCalibrator(shrinkage=5.0).fit(P, shares, w, groups=group)
    nearly = GroupwiseCalibrator(shrinkage=5.0).fit(P, label, w, groups=group)
    np.testing.assert_allclose(found.effective_dof_, nearly.effective_dof_, rtol=1e-2)
    np.testing.assert_allclose(found.coef_, nearly.coef_, atol=1e-2)


def test_soft_hits_are_the_shares_of_two_classes():
    p, _, site = two_classes()
    f = np.round(np.clip(p**1.5, 0, 1), 1)
    found = GroupwiseCalibrator("platt").fit(p, f, groups=site).predict_proba(p, groups=site)
    both = np.column_stack([1 - p, p]), np.column_stack([1 - f, f])
    fitted = GroupwiseCalibrator("platt").fit(*both, groups=site)
    np.testing.assert_allclose(found, fitted.predict_proba(both[0], groups=site), atol=1e-7)


def test_shares_that_a_map_cannot_take_are_refused():
    P, _, group = questions()
    shares, _ = rated(P, 4)
    with pytest.raises(ValueError, match="y should be a 1d array"):
        GroupwiseCalibrator(LogisticRegression()).fit(np.nan_to_num(P), shares, groups=group)
    shares[5] = np.eye(9)[8]
    with pytest.raises(ValueError, match="y: the label of row 5, 8, .*not available"):
        GroupwiseCalibrator().fit(P, shares, groups=group)


@pytest.mark.slow
@pytest.mark.parametrize(("differ", "most"), [(True, -0.05), (False, 0.001)])
def test_maps_of_a_hundred_questions_pay_where_they_differ(differ, most):
    P, y, group = questions(100, n=300, n_options=4, differ=differ)
    new = np.arange(len(y)) % 300 >= 50
    fitted = GroupwiseCalibrator().fit(P[~new], y[~new], groups=group[~new])
    one = log_loss_of(fitted.calibrator_.predict_proba(P[new]), y[new])
    many = log_loss_of(fitted.predict_proba(P[new], groups=group[new]), y[new])
    assert many - one <= most
