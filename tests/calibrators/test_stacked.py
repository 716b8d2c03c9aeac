"""Stacked calibration against slow loops, a general optimiser and closed forms."""

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy.optimize import minimize
from scipy.special import softmax

from skcalib import (
    AutoCalibrator,
    EnsembleTemperatureScaling,
    IdentityCalibrator,
    IsotonicCalibrator,
    PlattScaling,
    StackedCalibrator,
    TemperatureScaling,
    from_dict,
    to_dict,
)
from skcalib._arrays.source import as_source
from skcalib._validation.weights import CheckedWeight
from skcalib.calibrators._stacked.calibrator import default_members
from skcalib.calibrators._stacked.folds import fold_of_rows, make_folds
from skcalib.calibrators._stacked.weights import mixture_weights

TWO = ["temperature", "isotonic"]


def sample(n=300, n_classes=3, seed=0):
    """Logits that are twice too large, and labels."""
    rng = np.random.default_rng(seed)
    Z = 3 * rng.normal(size=(n, n_classes))
    return Z, (Z / 2 + rng.gumbel(size=Z.shape)).argmax(axis=1)


# ------------------------------------------------------------------ weights


def slow_em(F, w, prior):
    """One row and one member at a time, until nothing moves."""
    v = [1 / F.shape[1]] * F.shape[1]
    for _ in range(20000):
        counts = list(prior)
        for row, weight in zip(F.tolist(), w.tolist(), strict=True):
            mixture = sum(a * b for a, b in zip(v, row, strict=True))
            for m, p in enumerate(row):
                counts[m] += weight * v[m] * p / mixture
        new = [count / sum(counts) for count in counts]
        moved = max(abs(a - b) for a, b in zip(new, v, strict=True))
        v = new
        if moved < 1e-12:
            break
    return v


def members_and_weights(seed, n, n_members):
    rng = np.random.default_rng(seed)
    return rng.uniform(0.01, 1, (n, n_members)) ** 2, rng.uniform(0.1, 3, n)


@pytest.mark.parametrize("seed", range(4))
def test_weights_are_the_fixed_point_of_em(seed):
    F, w = members_and_weights(seed, 12, 3)
    prior = np.array([2.0, 0.5, 0.1])
    assert_allclose(mixture_weights(F, w, prior), slow_em(F, w, prior), atol=1e-6)


@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize("first", [1e-3, 20.0])
def test_weights_are_the_maximum_that_a_general_optimiser_finds(seed, first):
    F, w = members_and_weights(seed, 200, 6)
    F[:, 4] = F[:, 3] * (1 + 1e-6)  # nearly alike
    prior = np.array([first, *[first / 100] * 5])

    def loss(v):
        return -(w @ np.log(F @ v) + prior @ np.log(v)) / w.sum()

    found = mixture_weights(F, w, prior)
    start = np.full(6, 1 / 6)
    expected = minimize(
        loss,
        start,
        method="SLSQP",
        bounds=[(1e-12, 1)] * 6,
        constraints={"type": "eq", "fun": lambda v: v.sum() - 1},
        options={"ftol": 1e-12, "maxiter": 1000},
    )
    assert found.sum() == pytest.approx(1, abs=1e-12)
    assert loss(found) <= expected.fun + 1e-9


@pytest.mark.parametrize("n", [1, 100, 10**5])
def test_equal_members_share_as_the_prior_does(n):
    rng = np.random.default_rng(0)
    F = np.repeat(rng.random((n, 1)), 2, axis=1)
    assert_allclose(mixture_weights(F, np.ones(n), np.array([20.0, 0.2])), [20 / 20.2, 0.2 / 20.2])


def test_members_that_each_know_some_rows_get_their_number():
    """Each row is possible under one member alone: the weights are shares of counts."""
    F = np.eye(3)[[0] * 5 + [1] * 3 + [2] * 1]
    w = np.array([1.0] * 8 + [4.0])
    expected = np.array([5 + 20, 3 + 0.2, 4 + 0.2]) / (12 + 20.4)
    assert_allclose(mixture_weights(F, w, np.array([20.0, 0.2, 0.2])), expected, rtol=1e-8)


def test_rows_impossible_under_all_members_say_nothing():
    F = np.array([[0.0, 0.0], [0.5, 0.5]])
    found = mixture_weights(F, np.ones(2), np.array([3.0, 1.0]))
    assert_allclose(found, [0.75, 0.25])


# ------------------------------------------------------------------ folds


def folds_of(S, w=None, n_folds=5):
    return fold_of_rows(as_source(S), np.ones(len(S)) if w is None else w, n_folds)[0]


def test_folds_are_of_equal_size_and_depend_on_neither_order_nor_precision():
    S = sample(103)[0].astype(np.float32)
    fold = folds_of(S)
    assert sorted(np.bincount(fold)) == [20, 20, 21, 21, 21]
    order = np.random.default_rng(1).permutation(103)
    assert_array_equal(folds_of(S[order]), fold[order])
    assert_array_equal(folds_of(S[:, [2, 0, 1]]), fold)
    assert_array_equal(folds_of(S.astype(np.float64)), fold)


def test_copies_are_in_one_fold_and_are_weights():
    S = sample(60)[0]
    w = np.random.default_rng(2).integers(1, 4, 60)
    copies = np.repeat(np.arange(60), w)
    assert_array_equal(folds_of(S[copies]), folds_of(S, w.astype(float))[copies])


def test_both_zeros_are_one_score():
    S = np.vstack([np.eye(3)[[0, 0, 0]], sample(50)[0]])
    signed = S.copy()
    signed[1, 1] = -0.0
    assert_array_equal(folds_of(signed), folds_of(S))


def test_certain_rows_of_different_classes_are_told_apart_by_their_number():
    counts = [1, 2, 3, 4, 5, 6]
    S = np.vstack(
        [np.eye(6)[np.repeat(np.arange(6), counts)], np.random.default_rng(0).random((100, 6))]
    )
    fold = folds_of(S)
    assert len(set(fold[:21].tolist())) > 1


def test_a_score_of_many_rows_is_divided_among_all_folds():
    """Each fold holds out a fifth of its weight; the others are fitted on."""
    S = np.vstack([np.tile([1.0, 0.0], (30, 1)), sample(100, 2)[0]])
    w = np.random.default_rng(0).uniform(1, 2, 130)
    folds = make_folds(as_source(S), w, 5)
    held_out = np.zeros(130)
    for fold in folds:
        both = np.zeros(130)
        both[fold.train] += fold.train_weight
        both[fold.test] += fold.test_weight
        assert_allclose(both, w)
        assert set(range(30)) <= set(fold.train.tolist())
        assert_allclose(fold.train_weight[fold.train < 30], 0.8 * w[:30])
        assert not set(fold.train[fold.train >= 30]) & set(fold.test[fold.test >= 30])
        held_out[fold.test] += fold.test_weight
    assert_allclose(held_out, w)


def test_no_more_folds_than_different_scores():
    S = np.array([[0.0, 1.0]] * 4 + [[0.0, 2.0]] * 3)
    assert len(make_folds(as_source(S), np.ones(7), 5)) == 2
    assert make_folds(as_source(S[:4]), np.ones(4), 5) == []


# ------------------------------------------------------------------ the calibrator


def slow_stack(Z, y, w, members, prior, T):
    """The definition, with the public methods of the members."""
    F, weights = [], []
    for fold in make_folds(as_source(softmax(Z, axis=1)), w, 5):
        fitted = [
            type(m)(input="logits", classes=np.unique(y)).fit(
                Z[fold.train], y[fold.train], CheckedWeight(fold.train_weight)
            )
            for m in members
        ]
        answers = [m.predict_proba(Z[fold.test]) for m in fitted]
        for i, row in enumerate(fold.test):
            F.append([P[i, y[row]] for P in answers])
            weights.append(fold.test_weight[i])
    v = slow_em(np.array(F), np.array(weights), prior)
    mean = sum(
        share * m.fit(Z, y, CheckedWeight(w)).predict_proba(T)
        for share, m in zip(v, members, strict=True)
    )
    return v, mean


@pytest.mark.parametrize("n_classes", [2, 3])
def test_the_definition(n_classes):
    Z, y = sample(80, n_classes)
    w = np.random.default_rng(3).uniform(0.5, 2, 80)
    T = sample(20, n_classes, seed=1)[0]
    members = [TemperatureScaling(), IsotonicCalibrator(), IdentityCalibrator()]
    v, mean = slow_stack(Z, y, w, members, [5.0, 0.05, 0.05], T)
    stacked = StackedCalibrator([*TWO, "identity"], prior_rows=5).fit(Z, y, CheckedWeight(w))
    assert_allclose(stacked.weights_, v, atol=1e-5)
    assert_allclose(stacked.predict_proba(T), mean, atol=1e-5)


def test_the_better_member_gets_the_weight():
    Z, y = sample(3000)
    weights = StackedCalibrator(["identity", "temperature"], prior_rows=1).fit(Z, y).weights_
    assert weights[1] > 0.9


@pytest.mark.filterwarnings("ignore:no row of class")
@pytest.mark.filterwarnings("ignore:.*no better than the base rates")
def test_few_rows_leave_the_weights_to_the_prior():
    Z, y = sample(6)
    first = StackedCalibrator(TWO, prior_rows=1e5).fit(Z, y).weights_
    assert_allclose(first, [1 / 1.01, 0.01 / 1.01], atol=1e-3)
    same = StackedCalibrator(TWO, classes=[0, 1, 2]).fit(np.tile(Z[:1], (6, 1)), y)
    assert_allclose(same.weights_, [20 / 20.2, 0.2 / 20.2])


def test_a_single_member_has_all_the_weight():
    Z, y = sample(60)
    stacked = StackedCalibrator(["platt"]).fit(Z, y)
    assert_array_equal(stacked.weights_, [1.0])
    assert_array_equal(stacked.predict_proba(Z), PlattScaling().fit(Z, y).predict_proba(Z))


def test_a_member_of_no_weight_is_left_out():
    Z, y = sample(1000, seed=2)
    stacked = StackedCalibrator(["temperature", "identity"], prior_rows=1e-4).fit(Z, y)
    assert list(stacked.calibrators_) == ["temperature"]
    assert_array_equal(stacked.weights_, [1.0])
    assert_array_equal(stacked.predict_proba(Z), TemperatureScaling().fit(Z, y).predict_proba(Z))


def test_members_are_named_as_they_are_given():
    Z, y = sample(60)
    given = ["temperature", ("mine", PlattScaling(degree=2)), ("other", "platt"), PlattScaling()]
    stacked = StackedCalibrator(given, cv=2).fit(Z, y)
    assert list(stacked.calibrators_) == ["temperature", "mine", "other", "PlattScaling()"]
    assert stacked.calibrators_["mine"].degree == 2
    assert not hasattr(given[3], "classes_")


@pytest.mark.parametrize(
    ("given", "error", "message"),
    [
        ([], ValueError, "calibrators is empty"),
        (["hot"], ValueError, "'hot' is not the name of a calibrator; use one of identity, auto"),
        (["platt", "platt"], ValueError, "calibrators has platt twice"),
        ([TemperatureScaling], TypeError, "calibrators are names"),
        ([("a", "b", "c")], TypeError, "calibrators are names"),
        ("temperature", ValueError, "'calibrators' parameter"),
    ],
)
def test_lists_that_cannot_be_are_refused(given, error, message):
    with pytest.raises(error, match=message):
        StackedCalibrator(given).fit(*sample(30))


@pytest.mark.parametrize("keyword", [{"cv": 1}, {"cv": 2.5}, {"prior_rows": 0}])
def test_keywords_are_checked(keyword):
    with pytest.raises(ValueError, match=next(iter(keyword))):
        StackedCalibrator(TWO, **keyword).fit(*sample(30))


def test_an_error_names_its_member():
    with pytest.raises(ValueError, match=r"^calibrators: bad: .*'degree' parameter"):
        StackedCalibrator(["identity", ("bad", PlattScaling(degree=7))]).fit(*sample(30))


def test_what_members_keep_the_mean_keeps():
    Z, y = sample(300)
    keeping = ["temperature", "ensemble_temperature", AutoCalibrator(order_preserving=True)]
    stacked = StackedCalibrator(keeping)
    assert stacked._preserves_top_label
    assert stacked._monotone
    assert not stacked._class_specific
    T = np.float32(sample(2000, seed=5)[0])
    T[:, 2] = np.nextafter(T[:, :2].max(axis=1), np.float32(100))  # ties after rounding
    assert_array_equal(stacked.fit(Z, y).predict(T), T.argmax(axis=1))
    both = StackedCalibrator(["temperature", "vector"])
    assert not both._preserves_top_label
    assert both._class_specific


def test_the_default_list_has_no_squares_of_many_classes():
    assert list(default_members(100))[:2] == ["auto", "order_preserving_auto"]
    many = default_members(101)
    assert set(default_members(100)) - set(many) == {"auto", "matrix"}
    assert next(iter(many)) == "order_preserving_auto"


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@pytest.mark.parametrize("n", [1, 2, 3, 8])
def test_few_rows(n):
    """Classes without rows, folds without classes, fewer rows than folds."""
    Z, y = sample(n, 4)
    names = np.array(["a", "b", "c", "d"])
    stacked = StackedCalibrator([*TWO, "platt"], classes=names).fit(Z, names[y])
    P = stacked.predict_proba(Z)
    assert_allclose(P.sum(axis=1), 1)
    assert P.min() >= 0


def test_files_hold_the_members_and_how_they_were_given():
    Z, y = sample(60)
    given = ["temperature", ("own", EnsembleTemperatureScaling()), PlattScaling(degree=2)]
    before = StackedCalibrator(given, cv=3).fit(Z, y)
    after = from_dict(to_dict(before))
    assert_array_equal(after.predict_proba(Z), before.predict_proba(Z))
    assert str(after.calibrators) == str(before.calibrators)
    again = after.fit(Z, y).predict_proba(Z)
    assert_array_equal(again, before.predict_proba(Z))


def test_files_of_members_without_a_fit_or_of_parameters_with_one_are_refused():
    plain = to_dict(StackedCalibrator([TemperatureScaling(), "platt"], cv=2).fit(*sample(60)))
    member = plain["fitted"]["calibrators_"]["dict"][0][1]
    parameter = plain["parameters"]["calibrators"][0]
    assert set(parameter) == {"calibrator", "parameters"}
    fit = member.pop("fitted")
    with pytest.raises(ValueError, match="has 'calibrator', 'parameters' and 'fitted'; got"):
        from_dict(plain)
    member["fitted"] = parameter["fitted"] = fit
    with pytest.raises(ValueError, match="has 'calibrator' and 'parameters'; got"):
        from_dict(plain)
