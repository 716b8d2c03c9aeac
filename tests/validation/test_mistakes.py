"""Mistakes that would give a wrong number without a word."""

import numpy as np
import pandas as pd
import polars as pl
import pytest
from calls import refused
from scipy.special import log_softmax
from sklearn.datasets import load_digits, load_iris, load_wine, make_moons
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import make_scorer

from skcalib import (
    AutoCalibrator,
    HistogramBinning,
    IdentityCalibrator,
    IsotonicCalibrator,
    PlattScaling,
    ReliabilityDisplay,
    TemperatureScaling,
    compare_calibrators,
    losses,
)
from skcalib.losses import brier_loss, focal_loss, nll_loss
from skcalib.metrics import (
    avuc_loss,
    bootstrap_interval,
    calibration_curve,
    calibration_interval,
    expected_calibration_error,
    make_calibration_scorer,
    static_calibration_error,
)

rng = np.random.default_rng(0)
p = rng.random(400)
y = (rng.random(400) < p).astype(int)


@pytest.mark.parametrize("outcome", [y, y.astype(float), y.astype(bool), pd.Series(y), y.tolist()])
def test_labels_and_probabilities_in_each_others_place(outcome):
    asks = "y_true has fractions and y_proba is 0 or 1 in every row: were .* exchanged"
    refused(asks, expected_calibration_error, p, outcome)
    refused(asks, bootstrap_interval, expected_calibration_error, p, outcome, n_resamples=5)
    refused(asks, calibration_interval, expected_calibration_error, p, outcome)
    refused(asks, calibration_curve, p, outcome)
    refused(asks, ReliabilityDisplay.from_predictions, p, outcome)
    asks = "y has fractions and X is 0 or 1 in every row: were y and X exchanged"
    for calibrator in (PlattScaling(), IsotonicCalibrator(), HistogramBinning()):
        refused(asks, calibrator.fit, outcome, p)
    refused(asks, TemperatureScaling().fit, outcome, p)
    refused("were labels and probabilities exchanged", compare_calibrators, outcome, p)


def test_soft_hits_beside_probabilities_are_soft_hits():
    share = np.where(y == 1, 0.75, 0.25)
    sure = np.where(p < 0.5, 0.0, 1.0)
    sure[0] = 0.5
    assert 0 <= expected_calibration_error(share, sure) <= 1


@pytest.mark.parametrize(
    "labels", [y, y.astype(bool), y.astype(np.uint8), y[:, None], pd.Series(y), y.tolist()]
)
def test_labels_are_no_probabilities(labels):
    these = r"one column of .* values: these are labels; pass probabilities, predict_proba\(X\)"
    refused("y_proba is " + these, expected_calibration_error, y, labels)
    refused("X is " + these, PlattScaling().fit, labels, y)
    refused("X is " + these, compare_calibrators, labels, y)
    confidences = np.resize([55, 80, 100], y.size)
    refused("or percentages divided by 100.$", expected_calibration_error, y, confidences)
    refused("percentages divided by 100", expected_calibration_error, y, confidences / 1)
    assert IdentityCalibrator(input="logits").fit(labels, y).input_ == "logits"
    assert expected_calibration_error(y, np.asarray(labels, dtype=float)[:, ...]) + 1 > 0


def test_a_scorer_of_scikit_learn_that_passes_labels_fails():
    model = LogisticRegression().fit(p[:, None], y)
    refused("these are labels", make_scorer(expected_calibration_error), model, p[:, None], y)
    assert make_calibration_scorer(expected_calibration_error)(model, p[:, None], y) <= 0


K = 19
Z = rng.normal(size=(1900, K))
CODE = np.arange(1900) % K
PROBA = np.exp(Z) / np.exp(Z).sum(axis=1, keepdims=True)


@pytest.mark.parametrize("dtype", [int, float, np.int8])
@pytest.mark.parametrize("ignored", [100, -1, -100])
@pytest.mark.parametrize("absent", [[7], [7, 11], []])
def test_an_ignore_label_takes_the_place_of_no_class(ignored, absent, dtype):
    label = CODE.astype(dtype)
    label[:40] = ignored
    keep = ~np.isin(label, absent)
    label, scores, proba = label[keep], Z[keep], PROBA[keep]
    rows = int((label == ignored).sum())
    says = f"label {ignored} of {rows} rows is outside 0..18: drop these rows"
    way = f"pass ignore_index={ignored}, or pass classes="
    refused(f"y: {says}.*{way}", IdentityCalibrator().fit, scores, label)
    refused(f"y_true: {says}.*pass labels=", static_calibration_error, label, proba)
    refused(f"y: {says}.*pass classes=", compare_calibrators, scores, label)
    if len(absent) == 1:
        names = np.unique(label)
        assert IdentityCalibrator(classes=names).fit(scores, label).classes_[-1] == names[-1]


THREE = [[1, 2, 3], [-1, 0, 1], [0, 1, 2], [10, 20, 30], [-3, 5, 7], [0, 3, 4]]


@pytest.mark.parametrize("names", [*THREE, [-1, 1], [0, 255], [1, 7], [1, 2], [0, -100]])
def test_labels_that_are_usual_or_clearly_names_are_classes(names):
    """Two labels always are."""
    K = len(names)
    label = np.array(names)[CODE % K]
    assert IdentityCalibrator().fit(Z[:, :K], label).classes_.tolist() == sorted(names)


def test_scores_with_few_labels_are_scores_where_they_can_be():
    label = CODE % 9
    assert IdentityCalibrator().fit(PROBA, label).input_ == "proba"  # features do not sum to 1
    assert IdentityCalibrator(classes=range(K)).fit(Z, label).classes_.size == K
    few = slice(0, 5 * K - 1)
    assert IdentityCalibrator().fit(Z[few], label[few]).classes_.size == K
    assert IdentityCalibrator().fit(Z, CODE % 10).classes_.size == K
    assert IdentityCalibrator().fit(Z[:, :2], np.zeros(len(Z), dtype=int)).classes_.size == 2


@pytest.mark.parametrize("shape", [(8, 5, 30), (8, 5, 6, 5)])
def test_scores_of_several_axes_say_how_to_make_rows(shape):
    S = rng.random(shape)
    K = shape[1]
    line = np.moveaxis(S, 1, -1).reshape(-1, K)  # what the message says
    words = (
        rf"shape \({', '.join(map(str, shape))}\): .*numpy.moveaxis\(.*, 1, -1\).reshape\(-1, 5\)"
    )
    label = rng.integers(K, size=len(line))
    refused("X has " + words, IdentityCalibrator().fit, S, label)
    refused("y_proba has " + words, expected_calibration_error, label, S)
    refused("logits has " + words, nll_loss, S, label)
    refused(r"X has shape \(8, 5", IdentityCalibrator().fit, S.tolist(), label)
    refused(r"y_true.reshape\(-1\)", expected_calibration_error, label.reshape(8, -1, 5), line)
    refused(r"pass y.reshape\(-1\)", IdentityCalibrator().fit, line, label.reshape(8, -1))
    assert IdentityCalibrator(input="logits").fit(line, label.reshape(-1)).classes_.size == K


def test_soft_labels_say_what_to_pass():
    says = r"its rows sum to 1: pass y_true.argmax\(axis=1\) if these are soft labels.*exchanged"
    refused(says, avuc_loss, PROBA, PROBA)
    refused("were y_true and y_proba exchanged", expected_calibration_error, PROBA, CODE)


def test_losses_leave_out_a_label_as_pytorch_does():
    label = np.where(rng.random(1900) < 0.3, -100, CODE)
    keep, w = label >= 0, rng.random(1900)
    log_p = log_softmax(Z, axis=1)[np.arange(1900), np.maximum(label, 0)]
    expected = np.where(keep, -log_p, 0.0)
    np.testing.assert_allclose(nll_loss(Z, label, ignore_index=-100, reduction="none"), expected)
    np.testing.assert_allclose(
        nll_loss(Z, label, ignore_index=-100, reduction="none", sample_weight=w), w * expected
    )
    for loss in (getattr(losses, name) for name in losses.__all__):
        value = loss(Z, label, ignore_index=-100)
        assert value == pytest.approx(loss(Z[keep], label[keep]), rel=1e-12)
        refused("no row is left", loss, Z, np.full(1900, -100), ignore_index=-100)
    Q = np.exp(log_softmax(Z, axis=1))
    brier = ((Q - np.eye(K)[CODE]) ** 2).sum(axis=1)
    np.testing.assert_allclose(brier_loss(Z, CODE, reduction="none"), brier)
    q = Q[np.arange(1900), CODE]
    np.testing.assert_allclose(
        focal_loss(Z, CODE, reduction="none"), -((1 - q) ** 2) * np.log(q), rtol=1e-10
    )


@pytest.mark.parametrize(
    "loss", [losses.soft_binned_loss, losses.avuc_loss, losses.soft_avuc_loss, losses.mmce_loss]
)
def test_a_calibration_error_has_no_value_for_each_row(loss):
    refused("a calibration error is not a mean over rows", loss, Z, CODE, reduction="none")
    refused("reduction must be one of", loss, Z, CODE, reduction=pd.NA)
    refused("reduction must be one of", nll_loss, Z, CODE, reduction="sum")


@pytest.mark.parametrize("ignored", [[255, -1], np.empty(0), pd.NA, object()])
def test_an_ignored_label_is_one_label(ignored):
    labels = rng.integers(0, 3, 40)
    Z = rng.normal(size=(40, 3))
    for function in (nll_loss, TemperatureScaling().fit):
        refused("ignore_index=.* is not a label", function, Z, labels, ignore_index=ignored)


def test_labels_of_longdouble_have_an_event_too():
    """0 and 1 of any type of number: the second column is the event."""
    P = np.column_stack([1 - p, p])
    expected = static_calibration_error(y, P)
    assert static_calibration_error(y.astype(np.longdouble), P) == expected


FLOWERS, SPECIES = load_iris(return_X_y=True)


DIGITS, DIGIT = load_digits(return_X_y=True)
WINES, WINE = load_wine(return_X_y=True)
OF_FLOWERS = "X has 4 columns for 3 labels of y.*classes= if 1 class has no row"
OF_DIGITS = "X has 64 columns for 10 labels of y.*classes= if 54 classes"
FEATURES = [
    (FLOWERS, SPECIES, OF_FLOWERS),
    ((FLOWERS - FLOWERS.mean(axis=0)) / FLOWERS.std(axis=0), SPECIES, OF_FLOWERS),
    (pd.DataFrame(FLOWERS, columns=["a", "b", "c", "d"]), SPECIES, OF_FLOWERS),
    (WINES[:, :5], WINE, "X has 5 columns for 3 labels of y.*classes= if 2 classes have no row"),
    (DIGITS, DIGIT, OF_DIGITS),
]


@pytest.mark.parametrize(("X", "label", "asks"), FEATURES)
def test_more_features_than_labels_are_no_scores(X, label, asks):
    """Iris was calibrated: four columns, of which a fourth class had no row."""
    asks = asks.replace("of y", "of y: are these features")
    for calibrator in (AutoCalibrator(), TemperatureScaling(), PlattScaling()):
        refused(asks, calibrator.fit, X, label)
    refused(asks, compare_calibrators, X, label, ["temperature"], cv=2)
    n_columns = X.shape[1]
    fitted = IdentityCalibrator(classes=range(n_columns), input="logits").fit(X, label)
    assert fitted.classes_.size == n_columns


def test_as_many_features_as_labels_are_in_the_warning_of_the_order():
    X, moon = make_moons(500, noise=0.1, random_state=0)
    with pytest.warns(UserWarning, match=r"pass classes= or a frame; or are these features\?$"):
        IdentityCalibrator().fit(X, moon)


@pytest.mark.parametrize("scale", [0.1, 2.0])
@pytest.mark.parametrize("shift", [0.0, 4.0])
@pytest.mark.parametrize("known", [True, False])
def test_a_class_may_be_missing_from_the_labels_of_scores(scale, shift, known):
    """Also from those of a model that always predicts one class, or that knows no shares."""
    r = np.random.default_rng(0)
    Z = scale * r.normal(size=(900, 4))
    shares = np.array([shift, 0, 0, 0])
    label = (Z + shares + r.gumbel(size=Z.shape)).argmax(axis=1)
    row = r.normal(0, 20, (900, 1))  # logits have no level
    given, keep = (Z + shares * known) + row, label < 3
    assert IdentityCalibrator().fit(given[keep], label[keep]).classes_.size == 4
    noise = r.normal(size=(900, 4))
    assert IdentityCalibrator().fit(noise, r.integers(0, 3, 900)).classes_.size == 4


def test_a_list_of_arrays_is_to_be_joined():
    """One array for each sentence."""
    parts = np.split(np.arange(400), [10, 50, 51, 300])
    scores, labels, weights = ([A[rows] for rows in parts] for A in (p, y, np.ones(400)))
    says = r"{} is a list of 5 arrays of different shapes: pass np.concatenate\({}\)"
    fit = TemperatureScaling().fit
    refused(says.format("X", "X"), fit, scores, y)
    refused(says.format("y", "y"), fit, p, labels)
    refused(says.format("y", "y"), fit, scores, labels, ignore_index=-100)
    refused(says.format("y_true", "y_true"), expected_calibration_error, labels, scores)
    refused(says.format("y_proba", "y_proba"), expected_calibration_error, y, scores)
    refused(says.format("sample_weight", "sample_weight"), fit, p, y, weights)
    assert fit(np.concatenate(scores), np.concatenate(labels)).classes_.tolist() == [0, 1]


@pytest.mark.filterwarnings("ignore:A column-vector y was passed")
def test_labels_in_a_frame_that_is_not_loaded_are_read_as_scores_are():
    """As a relation of DuckDB, which NumPy cannot convert."""
    nw = pytest.importorskip("narwhals")
    frame = nw.from_native(pl.DataFrame({"y": y, "p": p}).lazy())
    assert not hasattr(frame, "__array__")
    scores, labels = frame.select("p"), frame.select("y")
    assert expected_calibration_error(labels, scores) == expected_calibration_error(y, p)
    fitted = IsotonicCalibrator().fit(scores, labels)
    np.testing.assert_array_equal(
        fitted.predict_proba(scores), IsotonicCalibrator().fit(p, y).predict_proba(p)
    )
    refused("inconsistent numbers of samples", TemperatureScaling().fit, p[1:], labels)


def test_nan_in_one_column_is_no_option():
    lost = np.where(np.arange(400) == 7, np.nan, p)
    says = r"contains NaN \(first at row 7, column 0\); drop or repair such rows\.$"
    refused("y_proba " + says, expected_calibration_error, y, lost)
    refused("X " + says, TemperatureScaling().fit, lost, y)
    both = np.column_stack([1 - lost, p])
    refused("or fill with 0: a class that is not available", expected_calibration_error, y, both)
