"""What goes by order sorts log-odds: large logits, whose probabilities round to 1, keep theirs."""

import numpy as np
import pytest
from scipy.special import expit, logsumexp, softmax
from sklearn.datasets import load_breast_cancer
from sklearn.exceptions import ConvergenceWarning
from sklearn.isotonic import IsotonicRegression
from sklearn.linear_model import SGDClassifier
from sklearn.metrics import log_loss, roc_auc_score
from sklearn.model_selection import train_test_split

import skcalib

BY_RANKS = [
    skcalib.IsotonicCalibrator(interpolation="step"),
    skcalib.VennAbersCalibrator(),
    skcalib.HistogramBinning(strategy="quantile"),
    skcalib.HistogramBinning(strategy="quantile", n_bootstraps=3, random_state=0),
]


def margins(n=2000, seed=0):
    """Scores from 0 to 80, of which more than half have a probability of 1 exactly."""
    rng = np.random.default_rng(seed)
    f = rng.uniform(0, 80, n)
    return f, (rng.random(n) < expit((f - 40) / 8)).astype(int)


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_isotonic_of_a_score_is_scikit_learns_regression(dtype, weighted):
    f, y = margins()
    f = f.astype(dtype)
    w = np.random.default_rng(1).integers(1, 4, f.size) if weighted else None
    new = np.linspace(-10, 90, 1001, dtype=dtype)
    regression = IsotonicRegression(y_min=0, y_max=1, out_of_bounds="clip")
    expected = regression.fit(f.astype(np.float64), y, w).predict(new.astype(np.float64))
    Q = skcalib.IsotonicCalibrator(input="logits").fit(f, y, w).predict_proba(new)
    assert Q.dtype == dtype
    np.testing.assert_allclose(Q[:, 1], expected, rtol=0, atol=1e-12 if dtype == "f8" else 1e-6)


def test_isotonic_of_several_classes_is_the_regression_of_their_log_odds():
    """Of each class against the others, by their log-sum-exp; scales of 1 to 10^4."""
    rng = np.random.default_rng(0)
    Z = rng.normal(size=(600, 3)) * np.geomspace(1, 1e4, 600)[:, None]
    y = (Z / Z.std(axis=1, keepdims=True) + rng.gumbel(size=Z.shape)).argmax(axis=1)
    others = [[k for k in range(3) if k != j] for j in range(3)]
    odds = np.stack([Z[:, j] - logsumexp(Z[:, rest], axis=1) for j, rest in enumerate(others)], 1)
    expected = np.empty((300, 3))
    for k in range(3):
        regression = IsotonicRegression(y_min=0, y_max=1, out_of_bounds="clip")
        expected[:, k] = regression.fit(odds[:300, k], y[:300] == k).predict(odds[300:, k])
    expected /= expected.sum(axis=1, keepdims=True)
    Q = skcalib.IsotonicCalibrator().fit(Z[:300], y[:300]).predict_proba(Z[300:])
    np.testing.assert_allclose(Q, expected, rtol=0, atol=1e-9)


@pytest.mark.parametrize("calibrator", BY_RANKS, ids=str)
def test_a_map_of_ranks_is_that_of_any_scores_in_the_same_order(calibrator):
    """Such as probabilities that are evenly spread: infinite logits are the ends of the order."""
    f, y = margins(500)
    f[:2], f[2:4] = np.inf, -np.inf
    f[4:40] *= -1e25
    p = np.unique(f, return_inverse=True)[1] / np.unique(f).size
    Q = calibrator.set_params(input="logits").fit(f, y).predict_proba(f)
    expected = calibrator.set_params(input="proba").fit(p, y).predict_proba(p)
    np.testing.assert_allclose(Q, expected, rtol=0, atol=1e-12)


@pytest.mark.parametrize("weighted", [False, True])
def test_entries_of_all_classes_in_one_order(weighted):
    """The log-odds of all entries have the order of their probabilities."""
    rng = np.random.default_rng(0)
    Z, y = rng.normal(size=(500, 4)), rng.integers(4, size=500)
    w = rng.integers(1, 4, 500) if weighted else None
    binning = skcalib.HistogramBinning(strategy="quantile", class_conditional=False)
    Q = binning.fit(Z, y, w).predict_proba(Z)
    P = softmax(Z, axis=1)
    np.testing.assert_allclose(Q, binning.fit(P, y, w).predict_proba(P), rtol=0, atol=1e-12)


@pytest.mark.parametrize(
    "calibrator",
    [
        skcalib.IsotonicCalibrator(),
        skcalib.IsotonicCalibrator(centered=True),
        skcalib.VennAbersCalibrator(),
        skcalib.HistogramBinning(strategy="quantile"),
        skcalib.SplineCalibrator(),
    ],
    ids=str,
)
def test_saturated_margins_lose_no_log_loss(calibrator):
    """Half of the rows with one value between them lose a fifth of it."""
    f, y = margins()
    Q = calibrator.set_params(input="logits").fit(f, y).predict_proba(f)
    assert log_loss(y, Q) < 1.03 * log_loss(y, expit((f - 40) / 8))


def test_even_bins_of_saturated_margins_warn():
    f, y = margins()
    with pytest.warns(ConvergenceWarning, match="half of the .* strategy='quantile', which keeps"):
        skcalib.HistogramBinning(input="logits").fit(f, y)
    few = np.where(f > 40, 1, 1000)  # of most of the weight, the probability is below 1
    skcalib.HistogramBinning(input="logits").fit(f - 36, y, few)


def test_infinite_logits_have_no_part_in_the_mean_of_a_block():
    f, y = np.array([-np.inf, -50.0, -40.0, 60.0, 70.0, np.inf]), [1, 0, 0, 1, 1, 0]
    isotonic = skcalib.IsotonicCalibrator(centered=True, input="logits").fit(f, y)
    np.testing.assert_allclose(isotonic.X_thresholds_[0], [-45, 65])
    np.testing.assert_allclose(isotonic.y_thresholds_[0], [1 / 3, 2 / 3])


def test_an_unscaled_linear_model_keeps_its_ranking():
    """Decision values of some 10^4, of either sign."""
    X, y = load_breast_cancer(return_X_y=True)
    X, new, y, truth = train_test_split(X, y, test_size=0.5, random_state=0)
    model = skcalib.CalibratedClassifier(SGDClassifier(random_state=0), "isotonic").fit(X, y)
    raw = roc_auc_score(truth, model.estimator_.decision_function(new))
    assert roc_auc_score(truth, model.predict_proba(new)[:, 1]) > raw - 0.02
