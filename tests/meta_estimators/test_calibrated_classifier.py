"""A classifier and its calibrator: who sees which rows, and all that scikit-learn users do."""

import json
import re
import warnings
from functools import partial

import array_api_strict
import joblib
import numpy as np
import pandas as pd
import polars as pl
import pytest
import scipy.sparse as sp
import sklearn
from calls import refused
from numpy.testing import assert_allclose, assert_array_equal
from scipy.special import expit, log_softmax, softmax
from sklearn.base import BaseEstimator, ClassifierMixin, clone
from sklearn.datasets import load_digits, load_wine
from sklearn.discriminant_analysis import LinearDiscriminantAnalysis
from sklearn.ensemble import HistGradientBoostingClassifier, RandomForestClassifier
from sklearn.feature_extraction.text import CountVectorizer
from sklearn.frozen import FrozenEstimator
from sklearn.linear_model import LinearRegression, LogisticRegression
from sklearn.model_selection import (
    GridSearchCV,
    GroupKFold,
    KFold,
    LeaveOneOut,
    RepeatedStratifiedKFold,
    ShuffleSplit,
    StratifiedKFold,
    cross_val_predict,
)
from sklearn.naive_bayes import GaussianNB
from sklearn.neighbors import KNeighborsClassifier
from sklearn.neural_network import MLPClassifier
from sklearn.pipeline import Pipeline, make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.semi_supervised import SelfTrainingClassifier
from sklearn.svm import SVC, LinearSVC
from sklearn.utils import get_tags

from skcalib import (
    CalibratedClassifier,
    HistogramBinning,
    IdentityCalibrator,
    SelectiveClassifier,
    TemperatureScaling,
    VectorScaling,
)
from skcalib.calibrators._names import calibrators_by_name


class Witness(ClassifierMixin, BaseEstimator):
    """A foreign calibrator that keeps what it is fitted on and answers the classes' shares."""

    def fit(self, X, y, sample_weight=None):
        self.X_, self.y_, self.sample_weight_ = X, np.asarray(y), sample_weight
        self.classes_ = np.unique(y)
        return self

    def predict_proba(self, X):
        share = np.array([(self.y_ == label).mean() for label in self.classes_])
        return np.tile(share, (len(X), 1))


class HouseWitness(IdentityCalibrator):
    """A calibrator of the package that keeps what it is fitted on."""

    def _fit(self, scores, code, w):
        return {"scores_": scores.source.array.copy(), "code_": code, "w_": w}


class Columns(ClassifierMixin, BaseEstimator):
    """A classifier whose decision values are its features; it notes its fits and its calls."""

    calls: list[tuple[str, int]] = []  # noqa: RUF012

    def fit(self, X, y, tint=None, shade=None):
        self.classes_ = np.unique(y)
        self.tint_, self.shade_ = tint, shade
        self.calls.append(("fit", len(X)))
        return self

    def decision_function(self, X):
        self.calls.append(("ask", len(X)))
        return np.asarray(X, dtype=float)[:, : len(self.classes_)]


# ------------------------------------------------------------------ who sees which rows


def test_the_calibrator_is_fitted_on_scores_of_rows_not_seen(three):
    """Each row scored by an estimator fitted on the other folds; one calibrator for all."""
    X, y = three
    model = CalibratedClassifier(GaussianNB(), HouseWitness(), cv=4).fit(X, y)
    expected = np.full((len(y), 3), np.nan)
    for train, test in StratifiedKFold(4).split(X, y):
        for i in test:
            expected[i] = GaussianNB().fit(X[train], y[train]).predict_proba(X[[i]])[0]
    assert_allclose(model.calibrator_.scores_, expected, rtol=1e-12)
    assert_array_equal(model.calibrator_.code_, y)


def test_the_estimator_is_refitted_on_all_rows(three):
    X, y = three
    model = CalibratedClassifier(GaussianNB(), IdentityCalibrator()).fit(X, y)
    assert_allclose(model.predict_proba(X), GaussianNB().fit(X, y).predict_proba(X))
    assert_array_equal(model.predict(X), GaussianNB().fit(X, y).predict(X))
    assert not hasattr(model, "pairs_")


def test_the_keyword_of_scikit_learn_is_explained():
    with pytest.raises(TypeError, match="method= is called calibrator= here: .*'platt'"):
        CalibratedClassifier(GaussianNB(), method="sigmoid")
    assert "method" not in CalibratedClassifier(GaussianNB()).get_params()


def test_an_ensemble_is_the_mean_of_its_pairs(three):
    X, y = three
    model = CalibratedClassifier(GaussianNB(), HistogramBinning(n_bins=4), cv=3, ensemble=True)
    model.fit(X, y)
    total = np.zeros((len(y), 3))
    for train, test in StratifiedKFold(3).split(X, y):
        inner = GaussianNB().fit(X[train], y[train])
        calibrator = HistogramBinning(n_bins=4).fit(inner.predict_proba(X[test]), y[test])
        total += calibrator.predict_proba(inner.predict_proba(X))
    assert_allclose(model.predict_proba(X), total / 3)
    assert len(model.pairs_) == 3
    assert not hasattr(model, "estimator_")
    assert not hasattr(model, "calibrator_")


@pytest.mark.parametrize("ensemble", [False, True])
def test_a_frozen_estimator_is_asked_once_and_never_fitted(three, ensemble):
    """The calibrator is fitted on all rows; cv and ensemble do not matter."""
    X, y = three
    net = Columns().fit(X, y)
    Columns.calls.clear()
    model = CalibratedClassifier(FrozenEstimator(net), HouseWitness(), cv=2, ensemble=ensemble)
    model.fit(X[100:], y[100:])
    assert Columns.calls == [("ask", 80)]
    assert_array_equal(model.calibrator_.scores_, X[100:, :3])
    assert_allclose(model.predict_proba(X), softmax(X[:, :3], axis=1))


def test_a_frozen_estimator_knows_classes_that_the_calibration_rows_lack(three):
    X, y = three
    names = np.array(["cat", "dog", "eel"])[y]
    net = GaussianNB().fit(X, names)
    some = names != "dog"
    model = CalibratedClassifier(FrozenEstimator(net), IdentityCalibrator())
    model.fit(X[some], names[some])
    assert_array_equal(model.classes_, ["cat", "dog", "eel"])
    assert_allclose(model.predict_proba(X), net.predict_proba(X))


def test_a_frozen_estimator_that_lists_its_classes_out_of_order_is_understood(three):
    X, y = three

    class Backwards(Columns):
        def fit(self, X, y):
            self.classes_ = np.unique(y)[::-1]
            return self

    names = np.array(["cat", "dog", "eel"])[y]
    model = CalibratedClassifier(FrozenEstimator(Backwards().fit(X, names)), IdentityCalibrator())
    proba = model.fit(X, names).predict_proba(X)
    assert_array_equal(model.classes_, ["cat", "dog", "eel"])
    assert_allclose(proba, softmax(X[:, :3], axis=1)[:, ::-1])


class ZeroShot(Columns):
    """A classifier that needs no fit, and says so in its tags."""

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.requires_fit = False
        return tags


class Pretrained(Columns):
    """A classifier that counts as fitted from the start."""

    def __sklearn_is_fitted__(self):
        return True


@pytest.mark.parametrize(
    "estimator",
    [
        GaussianNB(),
        make_pipeline(StandardScaler(), GaussianNB()),
        GridSearchCV(GaussianNB(), {"var_smoothing": [1e-9]}, cv=2),
    ],
)
def test_a_fitted_estimator_that_is_not_frozen_is_fitted_again_with_a_warning(three, estimator):
    """The reproducer: log loss .241 for .223, as 3,000 calibration rows replaced a fitted model."""
    X, y = three
    fitted = clone(estimator).fit(X[:90], y[:90])
    ways = {
        "CalibratedClassifier": lambda: CalibratedClassifier(fitted, IdentityCalibrator(), cv=2),
        "ensemble": lambda: CalibratedClassifier(fitted, "temperature", cv=2, ensemble=True),
        "SelectiveClassifier": lambda: SelectiveClassifier(fitted, accuracy=0.5, cv=2),
    }
    text = (
        "estimator: it is already fitted, and will be fitted again .*: "
        r"to keep the fitted estimator, pass FrozenEstimator\(model\)\.$"
    )
    for name, make in ways.items():
        with pytest.warns(UserWarning, match=text) as caught:
            model = make().fit(X[90:], y[90:])
        assert [each.filename for each in caught] == [__file__], name
    again = clone(estimator).fit(X[90:], y[90:])
    assert_array_equal(model.predict_proba(X), again.predict_proba(X))


@pytest.mark.parametrize(
    "estimator",
    [
        GaussianNB(),
        make_pipeline(StandardScaler(), GaussianNB()),
        FrozenEstimator(GaussianNB().fit(np.eye(3), range(3))),
        ZeroShot(),
        Pretrained(),
    ],
    ids=["unfitted", "pipeline", "frozen", "needs no fit", "pretrained"],
)
def test_estimators_that_lose_no_fit_are_fitted_without_a_warning(three, estimator):
    X, y = three[0][:, :3], three[1]
    model = CalibratedClassifier(estimator, IdentityCalibrator(), cv=2)
    model.fit(X, y)  # warnings are errors
    model.fit(X, y)
    if isinstance(estimator, FrozenEstimator):
        steps = make_pipeline(StandardScaler(), estimator)  # the scaler alone is fitted in folds
        CalibratedClassifier(steps, IdentityCalibrator(), cv=2).fit(X, y)


class Boosting(HistGradientBoostingClassifier):
    """Histogram boosting of one tree that notes its rows and whether it may stop early."""

    fits: list[tuple[int, bool]] = []  # noqa: RUF012

    def fit(self, X, y):
        super().fit(X, y)
        self.fits.append((len(X), self.do_early_stopping_))
        return self


class Undecided(Columns):
    """A classifier that stops early from 10,001 rows on, without a parameter for it."""

    def fit(self, X, y):
        self.do_early_stopping_ = len(X) > 10_000
        return super().fit(X, y)


@pytest.fixture(scope="module")
def rows_near_10_000():
    """ "auto" decides on early stopping by 10,000 rows, which folds of 12,000 rows do not have."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(12_000, 2))
    return X, (rng.random(len(X)) < expit(X[:, 0])).astype(int)


@pytest.mark.parametrize("wrap", [lambda model: model, make_pipeline, "search"])
def test_folds_stop_early_if_the_fit_on_all_rows_does(rows_near_10_000, wrap):
    """The reproducer: log loss .0612 for .0418 without calibration, and .0415 with this."""
    X, y = rows_near_10_000
    boosting = Boosting(max_iter=1, random_state=0)
    if wrap == "search":
        wrap = partial(GridSearchCV, param_grid={"max_depth": [2]}, cv=ShuffleSplit(1))
    for model in (
        CalibratedClassifier(wrap(boosting), "temperature", cv=3),
        SelectiveClassifier(wrap(boosting), accuracy=0.5, cv=3),
    ):
        Boosting.fits.clear()
        model.fit(X, y)
        assert {len(X), 8000} <= {n for n, _ in Boosting.fits}
        assert all(early for n, early in Boosting.fits if n in (len(X), 8000))
    for n, early in ((8000, False), (12_000, True)):
        model = CalibratedClassifier(Boosting(max_iter=1), "temperature", cv=2).fit(X[:n], y[:n])
        assert model.estimator.early_stopping == model.estimator_.early_stopping == "auto"
        assert Boosting.fits[-3:] == [(n, early), (n // 2, early), (n // 2, early)]
    told = Boosting(max_iter=1, early_stopping=False)
    CalibratedClassifier(told, "temperature", cv=2).fit(X, y)
    assert Boosting.fits[-3:] == [(12_000, False), (6000, False), (6000, False)]


def test_folds_that_stop_early_unlike_the_fit_on_all_rows_are_a_warning(rows_near_10_000):
    X, y = rows_near_10_000
    model = CalibratedClassifier(Undecided(), IdentityCalibrator(), cv=3)
    with pytest.warns(
        UserWarning,
        match="early stopping either in the fit on all rows or in the folds, but not in both",
    ) as caught:
        model.fit(X, y)
    assert [each.filename for each in caught] == [__file__]
    model.fit(X[:9000], y[:9000])  # warnings are errors
    model.set_params(ensemble=True).fit(X, y)


def test_searches_and_cross_validation_pass_clones_that_are_not_fitted(three):
    X, y = three
    model = CalibratedClassifier(GaussianNB().fit(X, y), IdentityCalibrator(), cv=2)
    cross_val_predict(model, X, y, cv=2)  # warnings are errors
    GridSearchCV(model, {"estimator__var_smoothing": [1e-9, 1e-3]}, cv=2).fit(X, y)


class Plain:
    """A network of another library: predictions and labels, without scikit-learn's methods."""

    classes_ = np.arange(3)

    def predict_proba(self, X):
        return softmax(2 * X[:, :3], axis=1)


def test_a_frozen_object_needs_predict_proba_and_classes_alone(three):
    """The reproducer: an error of three sentences on `__sklearn_tags__`."""
    X, y = three
    frozen = FrozenEstimator(Plain())
    model = CalibratedClassifier(frozen, VectorScaling()).fit(X[:90], y[:90])
    P = Plain().predict_proba(X)
    expected = VectorScaling().fit(P[:90], y[:90]).predict_proba(P)
    assert_allclose(model.predict_proba(X), expected)
    assert get_tags(clone(model)).estimator_type == "classifier"
    assert "VectorScaling" in repr(model)
    search = GridSearchCV(CalibratedClassifier(frozen), {"calibrator": ["platt", "vector"]}, cv=2)
    assert search.fit(X, y).predict(X).shape == y.shape
    gate = SelectiveClassifier(frozen, accuracy=0.2).fit(X, y)
    assert_array_equal(gate.predict_proba(X), P)


def test_a_frozen_object_without_classes_is_refused(three):
    class Nameless:
        def predict_proba(self, X):
            return Plain().predict_proba(X)

    with pytest.raises(ValueError, match="^Nameless has no classes_: set this attribute to the"):
        CalibratedClassifier(FrozenEstimator(Nameless())).fit(*three)


def test_folds_may_overlap_and_leave_rows_out(three):
    X, y = three
    repeated = RepeatedStratifiedKFold(n_splits=3, n_repeats=2, random_state=0)
    model = CalibratedClassifier(GaussianNB(), HouseWitness(), cv=repeated).fit(X, y)
    assert len(model.calibrator_.scores_) == 2 * len(y)
    assert_array_equal(model.calibrator_.code_, np.repeat(y, 2))
    held_out = ShuffleSplit(n_splits=1, test_size=50, random_state=0)
    model = CalibratedClassifier(GaussianNB(), HouseWitness(), cv=held_out).fit(X, y)
    (train, test) = next(held_out.split(X))
    rows = np.sort(test)
    expected = GaussianNB().fit(X[train], y[train]).predict_proba(X[rows])
    assert_allclose(model.calibrator_.scores_, expected)


def test_folds_may_be_a_list_of_indices_or_of_masks(three):
    X, y = three
    splits = list(StratifiedKFold(3).split(X, y))
    masks = [
        (np.isin(np.arange(len(y)), train), np.isin(np.arange(len(y)), test))
        for train, test in splits
    ]
    fits = [
        CalibratedClassifier(GaussianNB(), HouseWitness(), cv=cv).fit(X, y)
        for cv in (3, splits, splits[::-1], masks)
    ]
    for other in fits[1:]:
        assert_allclose(other.calibrator_.scores_, fits[0].calibrator_.scores_)


# ------------------------------------------------------------------ which scores


def test_a_binary_decision_value_is_a_logit(two):
    """One column f means P = expit(f), also when every f lies in [0, 1]."""
    X, y = two

    class Small(Columns):
        def decision_function(self, X):
            return expit(X[:, 0])

    for estimator in (LinearSVC(random_state=0), Small()):
        model = CalibratedClassifier(estimator, HouseWitness(), cv=3).fit(X, y)
        f = estimator.fit(X, y).decision_function(X)
        assert model.calibrator_.scores_.shape == (len(y), 2)
        assert_array_equal(model.calibrator_.scores_[:, 0], np.zeros(len(y)))
        assert_allclose(model.predict_proba(X)[:, 1], expit(f))


@pytest.mark.parametrize(
    ("method", "kind"),
    [
        ("auto", "logits"),
        ("predict_proba", "proba"),
        ("predict_log_proba", "logits"),
        ("decision_function", "logits"),
    ],
)
def test_the_named_response_is_asked_and_the_calibrator_told(three, method, kind):
    X, y = three
    model = CalibratedClassifier(
        LogisticRegression(), IdentityCalibrator(), response_method=method
    ).fit(X, y)
    assert model.response_method_ == ("decision_function" if method == "auto" else method)
    assert model.calibrator_.input == model.calibrator_.input_ == kind
    assert_allclose(model.predict_proba(X), LogisticRegression().fit(X, y).predict_proba(X))


def test_calibrators_within_pipelines_and_searches_are_told(three):
    X, y = three
    nested = GridSearchCV(
        Pipeline([("scale", StandardScaler()), ("cal", HistogramBinning())]),
        {"cal__n_bins": [3, 6]},
        cv=2,
    )
    model = CalibratedClassifier(LogisticRegression(), nested, cv=3).fit(X, y)
    inner = model.calibrator_.best_estimator_["cal"]
    assert inner.input == "logits"
    assert_array_equal(inner.classes, [0, 1, 2])
    assert nested.estimator["cal"].input == "auto"


def test_what_the_user_told_the_calibrator_stands(three):
    X, y = three
    told = IdentityCalibrator(input="logits", classes=[0, 1, 2])
    model = CalibratedClassifier(GaussianNB(), told).fit(X, y)
    assert model.calibrator_.input == "logits"
    assert model.calibrator_.classes == [0, 1, 2]


def test_a_frozen_calibrator_is_used_and_left_alone(three):
    X, y = three
    fitted = HistogramBinning(n_bins=3).fit(GaussianNB().fit(X, y).predict_proba(X), y)
    before = joblib.hash(vars(fitted))
    model = CalibratedClassifier(GaussianNB(), FrozenEstimator(fitted), cv=3).fit(X[:90], y[:90])
    raw = GaussianNB().fit(X[:90], y[:90]).predict_proba(X)
    assert_allclose(model.predict_proba(X), fitted.predict_proba(raw))
    assert joblib.hash(vars(fitted)) == before


@pytest.mark.parametrize(
    "estimator",
    [
        SVC(decision_function_shape="ovo"),
        make_pipeline(StandardScaler(), SVC(decision_function_shape="ovo")),
        GridSearchCV(SVC(decision_function_shape="ovo"), {"C": [1.0]}, cv=2),
    ],
)
@pytest.mark.parametrize("n_classes", [3, 4])
def test_scores_of_pairs_of_classes_are_refused(estimator, n_classes):
    """Three classes make three pairs: the parameter is looked at, not the columns alone."""
    X, y = load_digits(n_class=n_classes, return_X_y=True)
    X, y = X[:160], y[:160]
    frozen = FrozenEstimator(clone(estimator).fit(X, y))
    for inner in (estimator, frozen):
        with pytest.raises(ValueError, match=r"compare pairs of classes.*decision_function_shape"):
            CalibratedClassifier(inner, IdentityCalibrator(), cv=2).fit(X, y)


def test_a_score_that_is_missing_or_superfluous_is_refused(three):
    X, y = three

    class Narrow(Columns):
        def decision_function(self, X):
            return X[:, :2]

    with pytest.raises(ValueError, match="has 2 columns but there are 3 classes: pass"):
        CalibratedClassifier(Narrow(), IdentityCalibrator()).fit(X, y)


def test_estimators_that_answer_differently_by_fold_are_refused(three):
    X, y = three

    class Fickle(Columns):
        def __getattribute__(self, name):
            if name == "decision_function" and self.__dict__.get("shy_"):
                raise AttributeError(name)
            return super().__getattribute__(name)

        def fit(self, X, y):
            self.shy_ = len(X) == len(three[1])
            return super().fit(X, y)

        def predict_proba(self, X):
            return softmax(X[:, :3], axis=1)

    with pytest.raises(ValueError, match="have different methods .*pass response_method="):
        CalibratedClassifier(Fickle(), IdentityCalibrator()).fit(X, y)
    model = CalibratedClassifier(Fickle(), IdentityCalibrator(), response_method="predict_proba")
    assert_allclose(model.fit(X, y).predict_proba(X), softmax(X[:, :3], axis=1))


@pytest.mark.parametrize("response", ["decision_function", "predict_proba"])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_probabilities_are_float64_whatever_the_estimator_returns(three, dtype, response):
    X, y = three

    class Typed(Columns):
        def decision_function(self, X):
            return X[:, :3].astype(dtype)

        def predict_proba(self, X):
            return softmax(X[:, :3], axis=1).astype(dtype)

    for ensemble in (False, True):
        model = CalibratedClassifier(
            Typed(), IdentityCalibrator(), cv=2, ensemble=ensemble, response_method=response
        )
        proba = model.fit(X, y).predict_proba(X)
        assert proba.dtype == model.predict_log_proba(X).dtype == np.float64
        assert_allclose(proba, softmax(X[:, :3], axis=1), atol=1e-6)
        assert_allclose(proba.sum(axis=1), 1, rtol=0, atol=1e-15)
        json.dumps({"p": proba[0, 1]})


@pytest.mark.parametrize("ensemble", [False, True])
def test_tools_unwrap_it_as_the_class_of_scikit_learn(three, ensemble):
    X, y = three
    model = CalibratedClassifier(RandomForestClassifier(5), "platt", cv=3, ensemble=ensemble)
    assert not hasattr(model, "calibrated_classifiers_")
    model.fit(X, y)
    pairs = model.pairs_ if ensemble else [(model.estimator_, model.calibrator_)]
    for part, (estimator, calibrator) in zip(model.calibrated_classifiers_, pairs, strict=True):
        assert part.estimator is estimator
        assert part.calibrators == [calibrator]
        assert_array_equal(part.classes, model.classes_)
        assert part.estimator.feature_importances_.shape == X.shape[1:]
    with pytest.raises(AttributeError):
        model.calibrated_classifiers_ = []


def test_a_binary_calibrator_takes_one_column_or_two(three):
    """A fit on one column reads two logits by their difference; probabilities are refused still."""
    X, y = three[0], (three[1] > 0).astype(int)
    model = CalibratedClassifier(LinearSVC(), "platt").fit(X, y)
    f = model.estimator_.decision_function(X)
    assert_array_equal(model.calibrator_.predict_proba(f), model.predict_proba(X))
    of_one = VectorScaling().fit(f, y)
    expected = of_one.predict_proba(f)
    assert_allclose(of_one.predict_proba(np.c_[0 * f + 7, f + 7]), expected, atol=1e-12)
    assert_array_equal(of_one.predict(np.c_[0 * f, f]), of_one.predict(f))
    with pytest.raises(ValueError, match="rows are probability vectors .*fitted on logits"):
        of_one.predict_proba(model.predict_proba(X))
    refused("X has 3 features, but VectorScaling is expecting 1", of_one.predict_proba, X[:, :3])


# ------------------------------------------------------------------ classes missing from a fold


@pytest.fixture(scope="module")
def rare(three):
    """Two folds; all of class "c" is in the second, so that one estimator never saw it."""
    X, y = three
    names = np.array(["b", "a", "c"])[y]
    fold = np.where(names == "c", 1, np.arange(len(y)) % 2)
    splits = [(np.flatnonzero(fold == 0), np.flatnonzero(fold == 1))]
    splits.append((splits[0][1], splits[0][0]))
    return X, names, splits


@pytest.mark.parametrize("estimator", [LogisticRegression(), GaussianNB()])
@pytest.mark.filterwarnings("ignore:cv. fold . has no training row:RuntimeWarning")
def test_rows_of_a_class_that_a_fold_did_not_train_on_are_left_out(rare, estimator):
    """The class has a logit of -inf or a probability of 0 there; a 1-D decision value is (0, f)."""
    X, y, splits = rare
    model = CalibratedClassifier(estimator, HouseWitness(), cv=splits).fit(X, y)
    assert_array_equal(model.classes_, ["a", "b", "c"])
    rows, expected = [], []
    first = clone(estimator).fit(X[splits[0][0]], y[splits[0][0]])
    second = clone(estimator).fit(X[splits[1][0]], y[splits[1][0]])
    logits = hasattr(estimator, "decision_function")
    for i in range(len(y)):
        if i in splits[0][1]:
            if y[i] == "c":
                continue
            if logits:
                expected.append([0.0, first.decision_function(X[[i]])[0], -np.inf])
            else:
                expected.append([*first.predict_proba(X[[i]])[0], 0.0])
        else:
            ask = second.decision_function if logits else second.predict_proba
            expected.append(ask(X[[i]])[0])
        rows.append(i)
    assert len(rows) == len(y) - (y == "c").sum()
    assert_allclose(model.calibrator_.scores_, expected)
    assert_array_equal(model.classes_[model.calibrator_.code_], y[rows])


@pytest.mark.filterwarnings("ignore:cv. fold . has no training row:RuntimeWarning")
@pytest.mark.parametrize("cv", [LeaveOneOut(), KFold(101), "rare"])
def test_an_ensemble_refuses_folds_whose_test_rows_lack_a_class(rare, cv):
    """Each of 200 calibrators of one row would return the base rate."""
    X, y, splits = rare
    cv = splits if cv == "rare" else cv
    says = "does not allow all classes to be present in test splits.* or ensemble=False"
    refused(says, CalibratedClassifier(GaussianNB(), "platt", cv=cv, ensemble=True).fit, X, y)


@pytest.mark.filterwarnings("ignore:cv. fold . has no training row:RuntimeWarning")
def test_a_fold_that_trains_on_one_class_gives_one_column(three):
    X, y = three
    train = np.flatnonzero(y == 0)[:20]
    test = np.setdiff1d(np.arange(len(y)), train)
    forest = RandomForestClassifier(n_estimators=2, random_state=0)
    model = CalibratedClassifier(forest, HouseWitness(), cv=[(train, test), (test, train)])
    model.fit(X, y)
    in_test = np.isin(np.flatnonzero((y == 0) | np.isin(np.arange(len(y)), train)), test)
    assert_array_equal(model.calibrator_.scores_[in_test], np.tile([1.0, 0, 0], (in_test.sum(), 1)))


@pytest.mark.filterwarnings("ignore:cv. fold . has no training row:RuntimeWarning")
def test_folds_that_leave_no_row_are_an_error(two):
    X, y = two
    order = np.argsort(y, kind="stable")
    halves = [(order[:70], order[100:]), (order[100:], order[:70])]
    forest = RandomForestClassifier(n_estimators=2, random_state=0)
    ways = {False: "cv: no row is left.*StratifiedKFold", True: "fewer folds, or ensemble=False"}
    for ensemble, way in ways.items():
        refused(way, CalibratedClassifier(forest, cv=halves, ensemble=ensemble).fit, X, y)


@pytest.mark.parametrize("n_classes", [2, 3])
def test_rows_without_a_label_are_no_class(n_classes):
    """The reproducer: classes_ was [-1, 0, 1], so that column 1 was the probability of class 0."""
    rng = np.random.default_rng(0)
    y = rng.integers(n_classes, size=400)
    X = rng.normal(size=(400, 2)) + np.eye(3)[y][:, :2]
    known = np.where(rng.random(400) < 0.5, y, -1)
    learner, calibrator = SelfTrainingClassifier(GaussianNB()), VectorScaling(input="proba")
    labelled, scores, pairs = known >= 0, np.full((400, n_classes), np.nan), []
    for train, test in StratifiedKFold(3).split(X, known):
        inner = clone(learner).fit(X[train], known[train])
        scores[test] = inner.predict_proba(X[test])
        own = test[known[test] >= 0]
        pairs.append((inner, clone(calibrator).fit(scores[own], known[own])))
    model = CalibratedClassifier(learner, calibrator, cv=3).fit(X, known)
    assert model.classes_.tolist() == list(range(n_classes))
    assert_array_equal(model.class_count_, np.bincount(known[labelled]))
    pair = clone(learner).fit(X, known), clone(calibrator).fit(scores[labelled], known[labelled])
    ensemble = clone(model).set_params(ensemble=True).fit(X, known)
    assert_array_equal(ensemble.classes_, model.classes_)
    for fitted, used in ((model, [pair]), (ensemble, pairs)):
        expected = [each.predict_proba(inner.predict_proba(X)) for inner, each in used]
        assert_allclose(fitted.predict_proba(X), np.mean(expected, axis=0), atol=1e-12)


# ------------------------------------------------------------------ any classifier as calibrator


@pytest.mark.parametrize("inner", [GaussianNB(), LinearSVC(random_state=0)])
@pytest.mark.parametrize(
    "calibrator",
    [
        LogisticRegression(),
        GaussianNB(),
        MLPClassifier((4,), solver="lbfgs", random_state=0),
        make_pipeline(StandardScaler(), LogisticRegression()),
        GridSearchCV(LogisticRegression(), {"C": [0.1, 1.0]}, cv=2),
    ],
)
@pytest.mark.parametrize("data", ["two", "three"])
def test_any_classifier_is_a_calibrator(request, inner, calibrator, data):
    X, y = request.getfixturevalue(data)
    model = CalibratedClassifier(inner, calibrator, cv=3).fit(X, y)
    ask = "decision_function" if hasattr(inner, "decision_function") else "predict_proba"
    scores = cross_val_predict(inner, X, y, cv=3, method=ask)
    final = getattr(clone(inner).fit(X, y), ask)(X)
    if scores.ndim == 1:
        scores, final = np.c_[0 * scores, scores], np.c_[0 * final, final]
    expected = clone(calibrator).fit(scores, y).predict_proba(final)
    assert_allclose(model.predict_proba(X), expected, rtol=1e-6)


@pytest.mark.filterwarnings("ignore:cv. fold . has no training row:RuntimeWarning")
def test_a_foreign_calibrator_sees_only_finite_logits(rare):
    """-inf becomes the log of a probability of 1e-12."""
    X, y, splits = rare
    model = CalibratedClassifier(LogisticRegression(), Witness(), cv=splits).fit(X, y)
    seen = model.calibrator_.X_
    assert np.isfinite(seen).all()
    assert_allclose(np.exp(log_softmax(seen, axis=1)).min(axis=1).min(), 1e-12, rtol=1e-6)


def test_classes_that_a_foreign_calibrator_did_not_see_get_probability_zero(three):
    X, y = three
    names = np.array(["cat", "dog", "eel"])[y]
    net = GaussianNB().fit(X, names)
    some = names != "dog"
    model = CalibratedClassifier(FrozenEstimator(net), LogisticRegression())
    proba = model.fit(X[some], names[some]).predict_proba(X)
    expected = LogisticRegression().fit(net.predict_proba(X[some]), names[some])
    assert_array_equal(proba[:, 1], np.zeros(len(y)))
    assert_allclose(proba[:, [0, 2]], expected.predict_proba(net.predict_proba(X)))
    assert set(model.predict(X)) == {"cat", "eel"}


# ------------------------------------------------------------------ weights and other fit params


def test_the_calibrator_gets_the_weights_of_its_rows(three):
    X, y = three
    w = np.linspace(0.5, 2.0, len(y))
    model = CalibratedClassifier(GaussianNB(), Witness(), cv=3).fit(X, y, sample_weight=w)
    assert_array_equal(model.calibrator_.sample_weight_, w)
    frozen = FrozenEstimator(GaussianNB().fit(X, y))
    model = CalibratedClassifier(frozen, Witness()).fit(X, y, sample_weight=w)
    assert_array_equal(model.calibrator_.sample_weight_, w)
    model = CalibratedClassifier(GaussianNB(), Witness(), cv=3, ensemble=True)
    model.fit(X, y, sample_weight=list(w))
    for (_, calibrator), (_, test) in zip(
        model.pairs_, StratifiedKFold(3).split(X, y), strict=True
    ):
        assert_array_equal(calibrator.sample_weight_, w[test])
    assert CalibratedClassifier(frozen, Witness()).fit(X, y).calibrator_.sample_weight_ is None


def test_weights_reach_the_ends_of_pipelines_and_searches(two):
    X, y = two
    w = np.where(X[:, 0] > 0, 5.0, 0.2)
    pipe = make_pipeline(StandardScaler(), LogisticRegression())
    search = GridSearchCV(LogisticRegression(), {"C": [1.0]}, cv=2)
    model = CalibratedClassifier(pipe, search, cv=2).fit(X, y, sample_weight=w)
    expected = clone(pipe).fit(X, y, logisticregression__sample_weight=w)
    assert_allclose(model.estimator_[-1].coef_, expected[-1].coef_)
    f = np.empty(len(y))
    for train, test in StratifiedKFold(2).split(X, y):
        inner = clone(pipe).fit(X[train], y[train], logisticregression__sample_weight=w[train])
        f[test] = inner.decision_function(X[test])
    outer = LogisticRegression().fit(np.c_[0 * f, f], y, sample_weight=w)
    assert_allclose(model.calibrator_.best_estimator_.coef_, outer.coef_, rtol=1e-6)


def test_weights_that_cannot_be_passed_on_are_a_warning(two):
    X, y = two
    w = np.ones(len(y))
    with pytest.warns(
        UserWarning, match="KNeighborsClassifier takes no sample_weight.*calibration"
    ):
        CalibratedClassifier(KNeighborsClassifier(), IdentityCalibrator()).fit(
            X, y, sample_weight=w
        )
    with pytest.warns(UserWarning, match="KNeighborsClassifier takes no sample_weight.*classifier"):
        CalibratedClassifier(GaussianNB(), KNeighborsClassifier()).fit(X, y, sample_weight=w)


def test_groups_go_to_the_splitter_and_the_rest_to_the_estimator(three):
    """Parameters with a value for each row are cut with the rows."""
    X, y = three
    groups = np.arange(len(y)) % 7
    tint = np.arange(len(y)) * 10
    model = CalibratedClassifier(Columns(), IdentityCalibrator(), cv=GroupKFold(3), ensemble=True)
    model.fit(X, y, groups=groups, tint=tint, shade="dark")
    splits = GroupKFold(3).split(X, y, groups)
    for (estimator, _), (train, _) in zip(model.pairs_, splits, strict=True):
        assert_array_equal(estimator.tint_, tint[train])
        assert estimator.shade_ == "dark"


# ------------------------------------------------------------------ metadata routing


@pytest.fixture
def routing():
    with sklearn.config_context(enable_metadata_routing=True):
        yield


def test_routing_takes_weights_and_groups_where_they_are_requested(routing, two):
    X, y = two
    groups, w = np.arange(len(y)) % 6, np.where(y, 3.0, 0.5)
    estimator = LogisticRegression().set_fit_request(sample_weight=True)
    model = CalibratedClassifier(estimator, Witness(), cv=GroupKFold(3))
    model.fit(X, y, sample_weight=w, groups=groups)
    assert_array_equal(model.calibrator_.sample_weight_, w)
    assert_allclose(model.estimator_.coef_, LogisticRegression().fit(X, y, w).coef_)
    expected = np.empty(len(y))
    for train, test in GroupKFold(3).split(X, y, groups):
        inner = LogisticRegression().fit(X[train], y[train], w[train])
        expected[test] = inner.decision_function(X[test])
    assert_allclose(model.calibrator_.X_[:, 1], expected)


def test_routing_gives_the_estimator_no_weights_that_it_did_not_request(routing, two):
    X, y = two
    w = np.where(y, 3.0, 0.5)
    estimator = LogisticRegression().set_fit_request(sample_weight=False)
    model = CalibratedClassifier(estimator, Witness()).fit(X, y, sample_weight=w)
    assert_array_equal(model.calibrator_.sample_weight_, w)
    assert_allclose(model.estimator_.coef_, LogisticRegression().fit(X, y).coef_)


@pytest.mark.parametrize("requested", [True, False])
def test_routing_asks_a_pipeline_as_calibrator(routing, two, requested):
    X, y = two
    w = np.where(y, 3.0, 0.5)
    calibrator = make_pipeline(Witness().set_fit_request(sample_weight=requested))
    estimator = LogisticRegression().set_fit_request(sample_weight=True)
    model = CalibratedClassifier(estimator, calibrator)
    if requested:
        model.fit(X, y, sample_weight=w)
        assert_array_equal(model.calibrator_[-1].sample_weight_, w)
    else:
        with pytest.warns(UserWarning, match="Pipeline takes no sample_weight"):
            model.fit(X, y, sample_weight=w)
        assert model.calibrator_[-1].sample_weight_ is None


# ------------------------------------------------------------------ kinds of data


def test_sparse_data_stay_sparse(two):
    X, y = two

    class SparseOnly(LogisticRegression):
        def fit(self, X, y, sample_weight=None):
            assert sp.issparse(X)
            return super().fit(X, y, sample_weight)

        def decision_function(self, X):
            assert sp.issparse(X)
            return super().decision_function(X)

    dense = CalibratedClassifier(LogisticRegression(), HistogramBinning()).fit(X, y)
    for make in (sp.csr_matrix, sp.coo_array, sp.csc_array):
        model = CalibratedClassifier(SparseOnly(), HistogramBinning()).fit(make(X), y)
        assert_allclose(model.predict_proba(make(X)), dense.predict_proba(X))


def test_texts_go_to_the_estimator_as_they_are():
    texts = ["good fine", "bad awful", "fine fine good", "awful", "good", "bad bad"] * 5
    y = ["yes", "no"] * 15
    model = CalibratedClassifier(make_pipeline(CountVectorizer(), LogisticRegression()), cv=3)
    model.set_params(calibrator=IdentityCalibrator()).fit(texts, y)
    assert_array_equal(model.predict(["good", "awful"]), ["yes", "no"])
    assert not hasattr(model, "feature_names_in_")


def test_frames_stay_frames_and_name_the_features(two):
    X, y = two
    names = list("abcde")
    plain = CalibratedClassifier(GaussianNB(), HistogramBinning()).fit(X, y)
    frame = pd.DataFrame(X, columns=names, index=np.arange(len(y))[::-1] + 7)
    model = CalibratedClassifier(GaussianNB(), HistogramBinning()).fit(frame, y)
    assert_array_equal(model.feature_names_in_, names)
    assert model.n_features_in_ == 5
    assert_allclose(model.predict_proba(frame), plain.predict_proba(X))
    with pytest.raises(ValueError, match="feature names"):
        model.predict_proba(frame.rename(columns={"a": "z"}))
    ensemble = clone(model).set_params(ensemble=True).fit(frame, y)
    assert_array_equal(ensemble.feature_names_in_, names)
    table = pl.DataFrame({name: X[:, j] for j, name in enumerate(names)})
    model = CalibratedClassifier(GaussianNB(), HistogramBinning()).fit(table, y)
    assert_allclose(model.predict_proba(table), plain.predict_proba(X))


def test_a_precomputed_kernel_is_cut_in_rows_and_columns(three):
    X, y = three
    kernel = X @ X.T
    linear = CalibratedClassifier(SVC(kernel="linear"), HistogramBinning(), cv=3).fit(X, y)
    model = CalibratedClassifier(SVC(kernel="precomputed"), HistogramBinning(), cv=3)
    assert get_tags(model).input_tags.pairwise
    model.fit(kernel, y)
    assert_allclose(model.predict_proba(kernel), linear.predict_proba(X), atol=1e-6)


def test_arrays_of_other_namespaces_are_refused_in_a_line(three, monkeypatch):
    """The reproducer: AttributeError, 'numpy.ndarray' object has no attribute '_array'."""
    if sklearn.__version__.startswith("1.6."):  # later ones bring it along
        pytest.importorskip("array_api_compat")
    X, y = three
    strict = array_api_strict.asarray(X)
    fitted = FrozenEstimator(GaussianNB().fit(X, y))
    expected = CalibratedClassifier(fitted, "vector").fit(X, y).predict_proba(X)
    model = CalibratedClassifier(LinearDiscriminantAnalysis(), "temperature")
    # scikit-learn asks for it where dispatch is set.
    monkeypatch.setenv("SCIPY_ARRAY_API", "1")
    text = "X: CalibratedClassifier fits its estimator only on NumPy arrays and PyTorch"
    with sklearn.config_context(array_api_dispatch=True):
        refused(text, model.fit, strict, y)
        kept = CalibratedClassifier(fitted, "vector").fit(X, y).predict_proba(X)
        assert_allclose(kept, expected)


# ------------------------------------------------------------------ an estimator like others


def test_a_refit_forgets_the_last_fit(three):
    X, y = three
    frame = pd.DataFrame(X, columns=list("abcdef"))
    names = np.array(["x", "y", "z"])[y]
    model = CalibratedClassifier(GaussianNB(), TemperatureScaling(), cv=3, ensemble=True)
    model.fit(frame, names)
    model.set_params(ensemble=False).fit(X[y < 2], y[y < 2])
    fresh = clone(model).fit(X[y < 2], y[y < 2])
    assert set(vars(model)) == set(vars(fresh))
    assert not hasattr(model, "pairs_")
    assert not hasattr(model, "feature_names_in_")
    assert_array_equal(model.predict_proba(X), fresh.predict_proba(X))
    model.set_params(ensemble=True).fit(X, y)
    assert not hasattr(model, "calibrator_")


def test_a_failed_fit_changes_nothing(three):
    X, y = three
    model = CalibratedClassifier(GaussianNB(), HistogramBinning(), cv=3).fit(X, y)
    before, state = model.predict_proba(X), joblib.hash(vars(model))
    bad_w = np.ones(len(y))
    bad_w[5] = -1
    nan_y = y.astype(float)
    nan_y[7] = np.nan
    X_nan = X.copy()
    X_nan[3, 0] = np.nan
    for args, keywords, message in [
        ((X_nan, y), {}, "NaN"),
        ((X, y[:-1]), {}, "inconsistent numbers of samples"),
        ((X, nan_y), {}, "y contains NaN .*row 7"),
        ((X, y), {"sample_weight": bad_w}, "sample_weight must be finite.*row 5 has -1"),
        ((X, np.zeros(len(y))), {}, "at least two classes, but contains 1 class"),
    ]:
        with pytest.raises(ValueError, match=message):
            model.fit(*args, **keywords)
    assert joblib.hash(vars(model)) == state
    assert_array_equal(model.predict_proba(X), before)


def test_unknown_labels_for_a_frozen_estimator_are_refused(three):
    X, y = three
    frozen = FrozenEstimator(GaussianNB().fit(X, y))
    for calibrator in (IdentityCalibrator(), LogisticRegression()):
        with pytest.raises(ValueError, match=r"label 9 at row 2 is not in estimator.classes_"):
            CalibratedClassifier(frozen, calibrator).fit(X[:5], [0, 1, 9, 2, 0])
    with pytest.raises(ValueError, match="leave out the rows .*, or fit the estimator on all"):
        CalibratedClassifier(frozen).fit(X[:5], [0, 1, 9, 2, 0])


def test_a_frozen_estimator_of_one_class_is_refused(three):
    X, y = three
    frozen = FrozenEstimator(GaussianNB().fit(X[y == 1], y[y == 1]))
    with pytest.raises(ValueError, match=r"estimator.classes_ needs at least two .*: \[1\]"):
        CalibratedClassifier(frozen).fit(X[y == 1], y[y == 1])


def test_a_frozen_estimator_must_be_fitted(three):
    with pytest.raises(sklearn.exceptions.NotFittedError):
        CalibratedClassifier(FrozenEstimator(GaussianNB())).fit(*three)


@pytest.mark.parametrize(
    ("keywords", "message"),
    [
        ({"estimator": "svm"}, "'estimator' parameter"),
        ({"estimator": LinearRegression()}, "no decision_function and no predict_proba"),
        ({"calibrator": LinearRegression()}, "'calibrator' parameter"),
        ({"cv": "five"}, "'cv' parameter"),
        ({"cv": []}, "cv contains no folds: pass a number of folds or a splitter"),
        ({"ensemble": "yes"}, "'ensemble' parameter"),
        ({"response_method": "predict"}, "'response_method' parameter"),
        (
            {"estimator": LinearSVC(), "response_method": "predict_proba"},
            "LinearSVC has no predict_proba: pass response_method='auto'",
        ),
        ({"n_jobs": 1.5}, "'n_jobs' parameter"),
        ({"verbose": -1}, "'verbose' parameter"),
    ],
)
def test_parameters_that_mean_nothing_are_refused(three, keywords, message):
    model = CalibratedClassifier(GaussianNB()).set_params(**keywords)
    refused(message, model.fit, *three)


def test_verbose_prints_progress_over_the_folds(three, capfd):
    CalibratedClassifier(GaussianNB(), IdentityCalibrator(), cv=3, verbose=0).fit(*three)
    assert capfd.readouterr() == ("", "")
    CalibratedClassifier(GaussianNB(), IdentityCalibrator(), cv=3, verbose=10).fit(*three)
    assert re.search(r"Done +\d", "".join(capfd.readouterr()))


class TakesSparse(GaussianNB):
    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        return tags


def test_tags_are_those_of_the_estimator():
    assert get_tags(CalibratedClassifier(TakesSparse())).input_tags.sparse
    assert not get_tags(CalibratedClassifier(GaussianNB())).input_tags.sparse
    assert get_tags(CalibratedClassifier(RandomForestClassifier())).input_tags.allow_nan
    assert get_tags(CalibratedClassifier(RandomForestClassifier())).classifier_tags.multi_label
    assert not get_tags(CalibratedClassifier(GaussianNB())).classifier_tags.multi_label
    frozen = get_tags(CalibratedClassifier(FrozenEstimator(GaussianNB())))
    assert frozen.estimator_type == "classifier"
    assert not frozen._skip_test


# ------------------------------------------------------------------ choosing


@pytest.mark.filterwarnings("ignore:no row of class")  # of the calibrator
def test_sorted_rows_warn_once_of_folds_that_lack_a_class():
    """The reproducer: unshuffled folds of sorted rows, log loss .82 to 1.89 without a word."""
    X, y = load_wine(return_X_y=True)  # sorted by class
    model = CalibratedClassifier(GaussianNB(), "histogram", cv=KFold(3))
    with pytest.warns(RuntimeWarning, match="fold 0 has no training row of label 0") as caught:
        model.fit(X, y)
    assert len([each for each in caught if each.category is RuntimeWarning]) == 1
    mixed = CalibratedClassifier(GaussianNB(), "histogram", cv=KFold(3, shuffle=True))
    mixed.fit(X, y)  # warnings are errors
    alone = np.append(y[60:], 7)  # no folds give a single row to all
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="The least populated class")
        CalibratedClassifier(GaussianNB(), "histogram").fit(X[59:], alone)


@pytest.mark.filterwarnings("ignore:no row of class 'bee'")
@pytest.mark.parametrize("cv", [None, 3])
def test_a_pipeline_of_frozen_steps_is_frozen(cv):
    X, y = load_wine(return_X_y=True)
    y = np.array(["ape", "bee", "cat"])[y]
    scaler = StandardScaler().fit(X)
    fitted = LogisticRegression().fit(scaler.transform(X), y)
    steps = make_pipeline(FrozenEstimator(scaler), "passthrough", FrozenEstimator(fitted))
    some = y != "bee"
    model = CalibratedClassifier(steps, "histogram", cv=cv).fit(X[some], y[some])
    whole = FrozenEstimator(make_pipeline(scaler, fitted))
    same = CalibratedClassifier(whole, "histogram").fit(X[some], y[some])
    assert model.classes_.tolist() == ["ape", "bee", "cat"]
    assert_array_equal(model.predict_proba(X), same.predict_proba(X))
    open_step = make_pipeline(StandardScaler(), FrozenEstimator(fitted))
    message = "has a column for the class 'bee', which no row of y has: if the estimator is fitted"
    refused(message, CalibratedClassifier(open_step, "histogram", cv=cv).fit, X[some], y[some])


def test_the_old_word_for_a_fitted_estimator_is_answered_with_the_new_one():
    model = CalibratedClassifier(GaussianNB(), cv="prefit")
    with pytest.raises(ValueError, match=r"CalibratedClassifier\(FrozenEstimator\(estimator\)\)"):
        model.fit(np.eye(4), [0, 1, 0, 1])


@pytest.mark.parametrize(
    ("calibrator", "instead"), [(None, "AutoCalibrator"), ("histogram", "HistogramBinning")]
)
def test_parameters_of_none_and_of_a_name_are_refused_with_what_to_write(calibrator, instead):
    """In a search, and by hand; nothing is set."""
    X, y = load_wine(return_X_y=True)
    model = CalibratedClassifier(GaussianNB(), calibrator, cv=2)
    message = rf"calibrator={calibrator!r} has no parameters, .*: pass calibrator={instead}\(\)\.$"
    refused(message, GridSearchCV(model, {"calibrator__n_bins": [5]}).fit, X, y)
    refused(message, model.set_params, cv=3, calibrator__n_bins=5)
    with pytest.raises(ValueError, match=message):
        CalibratedClassifier(GaussianNB(), HistogramBinning()).set_params(
            calibrator=calibrator, calibrator__n_bins=5
        )
    assert model.cv == 2
    with pytest.raises(ValueError, match="'platts' is not a calibrator name"):
        model.set_params(calibrator="platts", calibrator__n_bins=5)


def test_set_params_is_that_of_scikit_learn():
    """A calibrator and its parameters in one call; unknown names are refused."""
    model = CalibratedClassifier(GaussianNB())
    assert model.set_params() is model
    model.set_params(
        calibrator=HistogramBinning(), calibrator__n_bins=5, estimator__var_smoothing=1
    )
    assert (model.calibrator.n_bins, model.estimator.var_smoothing) == (5, 1)
    refused("Invalid parameter 'bins'", model.set_params, calibrator__bins=5)
    refused("Invalid parameter 'calibrators'", model.set_params, calibrators__bins=5)


@pytest.mark.parametrize("name", sorted(calibrators_by_name()))
def test_a_calibrator_goes_by_its_name(name):
    """At its defaults, as in `compare_calibrators`."""
    X, y = load_wine(return_X_y=True)
    X, y = X[::2, :2], y[::2]  # hard to tell apart: no score separates a class
    by_name, by_object = (
        CalibratedClassifier(GaussianNB(), calibrator, cv=3).fit(X, y)
        for calibrator in (name, calibrators_by_name()[name])
    )
    assert type(by_name.calibrator_) is type(by_object.calibrator_)
    assert_array_equal(by_name.predict_proba(X), by_object.predict_proba(X))
    assert clone(by_name).calibrator == name


@pytest.mark.parametrize(
    ("typed", "hint"),
    [
        ("nonsense", "use one of identity, auto, bayesian, .*platt, spline"),
        ("temperature_scaling", r"did you mean temperature\?$"),
        ("temperatures", r"did you mean temperature\?$"),
        ("platt scaling", r"did you mean platt\?$"),
        ("LogisticCalibration", r"did you mean platt\?$"),
        ("sigmoid", r"did you mean platt\? The default is better\.$"),
        ("venn-abers", r"did you mean venn_abers\?$"),
        ("VennAbersCalibrator", r"did you mean venn_abers\?$"),
        ("isotonic_regression", r"did you mean isotonic\?$"),
        ("histogram-binning", r"did you mean histogram\?$"),
    ],
)
def test_a_name_that_is_none_is_refused_with_the_most_similar_one(typed, hint):
    X, y = load_wine(return_X_y=True)
    with pytest.raises(ValueError, match=f"'{typed}' is not a calibrator name: {hint}"):
        CalibratedClassifier(GaussianNB(), typed).fit(X, y)


class FirstFeature(Columns):
    """A binary classifier whose decision value is the first feature."""

    def decision_function(self, X):
        return X[:, 0]


def test_decision_values_of_1_are_no_probabilities():
    """Their columns (0, 1) sum to 1, as probabilities do, in more than half of the rows."""
    rng = np.random.default_rng(0)
    f = rng.choice([-1.0, 1.0, 0.9, 0.2], 400, p=[0.1, 0.8, 0.05, 0.05])
    y = rng.random(400) < 0.5 + 0.1 * f
    model = CalibratedClassifier(FrozenEstimator(FirstFeature().fit(f[:, None], y)), "platt")
    P = model.fit(f[::2, None], y[::2]).predict_proba(f[1::2, None])
    fitted = LogisticRegression(C=np.inf, tol=1e-10).fit(f[::2, None], y[::2])
    assert_allclose(P, fitted.predict_proba(f[1::2, None]), atol=1e-3)


class Percentages(BaseEstimator):
    """A classifier of another kind, which returns percentages."""

    def fit(self, X, y):
        self.classes_ = np.unique(y)
        return self

    def predict_proba(self, X):
        return np.tile([75.0, 25.0], (len(X), 1))


def test_percentages_of_a_frozen_estimator_are_refused_in_its_name():
    X, y = np.zeros((20, 2)), np.arange(20) % 2
    line = r"^predict_proba of Percentages: row 0 contains 75.*return probabilities: divide"
    with pytest.raises(ValueError, match=line):
        CalibratedClassifier(FrozenEstimator(Percentages().fit(X, y))).fit(X, y)
