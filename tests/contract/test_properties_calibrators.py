"""Properties of every calibrator on generated samples, most of them odd; and those of only some."""

import re
import warnings
from contextlib import contextmanager

import numpy as np
import pytest
from discovery import CALIBRATORS
from hypothesis import assume, example, given
from listing import KEEPS
from numpy.testing import assert_array_equal
from scipy.special import softmax
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning
from strategies import Recipe, attempt, recipes

import skcalib
from skcalib.calibrators._base import ColumnwiseCalibrator

pytestmark = pytest.mark.slow

every_calibrator = pytest.mark.parametrize("calibrator", CALIBRATORS, ids=str)
TIED = Recipe(
    "logits", 14, 14, 244, "float32", 1.0, frozenset({"ties", "-inf"}), frozenset({"rare classes"})
)
NO_DOUBT = Recipe(
    "logits", 25, 25, 23698, "float32", 1e-300, frozenset({"certain"}), frozenset({"always wrong"})
)
SMALL = Recipe("logits", 33, 4, 228, "float64", 1e-12, frozenset({"certain"}))
# Scales at which neither p nor 1 - p of different rows become equal by rounding.
ORDINARY = (1e-3, 1.0, 5.0)
RISING = (
    *(skcalib.BetaCalibrator, skcalib.IsotonicCalibrator, skcalib.VennAbersCalibrator),
    *(skcalib.EnsembleTemperatureScaling, skcalib.IdentityCalibrator, skcalib.TemperatureScaling),
)


@contextmanager
def noting_failed_fits():
    """Fits that say that they have not converged; any other warning is an error."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("error")
        warnings.simplefilter("always", ConvergenceWarning)
        warnings.filterwarnings("ignore", ".*-inf is read as a small probability")
        warnings.filterwarnings(
            "ignore", "The largest score of a row belongs to its label"
        )  # labels always wrong
        yield caught


def fit(calibrator, S, y, w=None, *, kind, classes):
    told = clone(calibrator).set_params(input=kind, classes=classes)
    return told.fit(S, y, sample_weight=w)


def proba(calibrator, recipe, S, code, w, T):
    """Answers of a fit that ends as near to its optimum as rounding lets it."""
    assume(not has_steep_line(calibrator, recipe))
    if "tol" in calibrator.get_params():
        calibrator = clone(calibrator).set_params(tol=1e-9)
    fitted = fit(calibrator, S, code, w, kind=recipe.kind, classes=np.arange(recipe.n_classes))
    return fitted.predict_proba(T)


def refit_tolerance(calibrator, recipe):
    """What two fits of the same sample may owe to the order of their sums.

    A gradient of 1e-9 leaves less. Of many classes automatic calibration keeps its features in
    float32, whose sums end a fit somewhere within its default tolerance: a thousandth of a
    posterior standard deviation.
    """
    in_float32 = isinstance(calibrator, skcalib.AutoCalibrator) and recipe.n_classes > 30
    if in_float32 and not calibrator.order_preserving:
        return 2e-3
    two_each = (
        isinstance(calibrator, skcalib.BetaCalibrator) or getattr(calibrator, "degree", 1) == 2
    )
    if two_each and recipe.scale == 1e-12:
        return 2e-4  # coefficients of size 1e12 of log p near log 1/2, known to 1e-16
    if getattr(calibrator, "penalty", "structured") != "structured":
        return 2e-5  # nothing but the rows bends W's diagonal: as little as 1e-4
    return 1e-6


def has_steep_line(calibrator, recipe):
    """Whether a and b of a line a f + b are of size 1e12, or nearly so, and cancel.

    Log-odds f of more than two classes are known to 1e-16 of their size: where those of a class
    differ by 1e-12 of it, the line is known to 1e-4 only.
    """
    has_slope = isinstance(calibrator, skcalib.PlattScaling) and calibrator.fit_slope
    if not has_slope or calibrator.degree == 2 or recipe.n_classes == 2:
        return False
    p = recipe.seen if recipe.kind == "proba" else softmax(recipe.seen.astype(float), axis=1)
    spread = np.ptp(p, axis=0)
    return ((spread > 0) & (spread < 1e-9 * p.max(axis=0))).any()


def assert_simplex(P, S):
    assert P.shape == S.shape
    assert P.dtype == S.dtype
    assert np.isfinite(P).all()
    assert P.min() >= 0
    assert P.max() <= 1
    atol = 1e-9 if S.dtype == np.float64 else 1e-5
    assert np.abs(P.sum(axis=1, dtype=np.float64) - 1).max() <= atol


def assert_close(found, expected, atol):
    gap = np.abs(found.astype(float) - expected)
    assert gap.max() <= atol, f"row {gap.max(axis=1).argmax()} differs by {gap.max():.3g}"


@every_calibrator
@given(recipe=recipes())
def test_answers_are_probability_vectors(calibrator, recipe):
    with noting_failed_fits():
        fitted = fit(
            calibrator, recipe.S, recipe.y, recipe.w, kind=recipe.kind, classes=recipe.classes
        )
        for T in (recipe.S, recipe.other()):
            P = fitted.predict_proba(T)
            assert_simplex(P, T)
            assert_array_equal(fitted.predict(T), recipe.classes[P.argmax(axis=1)])
    assert_array_equal(fitted.classes_, recipe.classes)


@every_calibrator
@given(recipe=recipes())
def test_untold_scores_are_calibrated_or_refused_by_name(calibrator, recipe):
    """Neither `input` nor `classes` is given: what cannot be told is asked for in one line."""
    with noting_failed_fits():
        fitted, refusal = attempt(clone(calibrator).fit, recipe.S, recipe.y)
    if refusal:
        assert refusal.startswith(("X: ", "y has ", "y: label "))
        assert re.search(r"[Pp]ass input=|pass classes=|and classes=\[", refusal)
        assert "\n" not in refusal
    else:
        assert_simplex(fitted.predict_proba(recipe.S), recipe.S)


@every_calibrator
@given(recipe=recipes())
def test_rows_are_mapped_one_by_one_as_in_a_batch(calibrator, recipe):
    with noting_failed_fits():
        fitted = fit(
            calibrator, recipe.S, recipe.code, kind=recipe.kind, classes=range(recipe.n_classes)
        )
    T = np.vstack([recipe.S[:8], recipe.other()])
    single = np.vstack([fitted.predict_proba(row[None]) for row in T])
    assert_close(fitted.predict_proba(T), single, atol=1e-12 if T.dtype == float else 1e-6)


@every_calibrator
@example(recipe=SMALL)  # a gradient must tell logits of 1e-12 beside others of order 1
@given(recipe=recipes())
def test_the_order_of_rows_means_nothing(calibrator, recipe):
    order = np.random.default_rng(recipe.seed).permutation(recipe.n)
    T = recipe.seen
    with noting_failed_fits() as failed:
        expected = proba(calibrator, recipe, recipe.S, recipe.code, recipe.w, T)
        shuffled = proba(calibrator, recipe, *recipe.only(order), T)
    assume(not failed)
    assert_close(shuffled, expected, refit_tolerance(calibrator, recipe))


@every_calibrator
@given(recipe=recipes())
def test_a_weight_is_as_many_copies(calibrator, recipe):
    """And so 0 is the absence of the row."""
    copies = np.repeat(np.arange(recipe.n), recipe.w.astype(int))
    T = recipe.seen
    with noting_failed_fits() as failed:
        expected = proba(calibrator, recipe, recipe.S[copies], recipe.code[copies], None, T)
        weighted = proba(calibrator, recipe, recipe.S, recipe.code, recipe.w, T)
    assume(not failed)
    assert_close(weighted, expected, refit_tolerance(calibrator, recipe))


@every_calibrator
@example(recipe=TIED)  # rounding once left a parameter of a bounded fit 1e-20 off its bound
@given(recipe=recipes(scales=ORDINARY))
def test_the_order_of_classes_means_nothing(calibrator, recipe):
    """Of rows that have one largest score: of several the lowest column is the predicted one.

    And where p and 1 - p say the same: far out or close together, one of them is rounded more.
    So it is in float32 about 1/2. And of two classes quantile bins are those of the second, whose
    scores open them: seen from the first they would close them.
    """
    by_edges = isinstance(calibrator, skcalib.BayesianBinning) or (
        isinstance(calibrator, skcalib.HistogramBinning) and calibrator.strategy == "quantile"
    )
    assume(recipe.n_classes > 2 or (recipe.dtype == "float64" and not by_edges))
    keep = (recipe.S.max(axis=1, keepdims=True) == recipe.S).sum(axis=1) == 1
    assume(keep.any() and recipe.w[keep].any())
    S, code, w = recipe.only(keep)
    order = np.random.default_rng(recipe.seed).permutation(recipe.n_classes)
    with noting_failed_fits() as failed:
        T = S[w > 0]
        expected = proba(calibrator, recipe, S, code, w, T)[:, order]
        moved = proba(calibrator, recipe, S[:, order], np.argsort(order)[code], w, T[:, order])
    assume(not failed)
    assert_close(moved, expected, refit_tolerance(calibrator, recipe))


@every_calibrator
@example(recipe=NO_DOUBT)  # a curvature of 1e-312 has no inverse
@given(recipe=recipes(dtypes=["float32"]))
def test_float32_scores_give_the_answers_of_float64(calibrator, recipe):
    """But where logits become probabilities in float32: a steep map sees them rounded."""
    assume(recipe.kind == "proba" or not isinstance(calibrator, ColumnwiseCalibrator))
    if getattr(calibrator, "strategy", "quantile") == "uniform":
        # Even bins have edges in the type of the scores: 0.2 of float32 is above 0.2.
        edges = np.arange(1, calibrator.n_bins) / calibrator.n_bins
        assume(not np.isin(recipe.S, edges.astype(np.float32)).any())
    S, T = recipe.S.astype(np.float64), recipe.seen.astype(np.float64)
    with noting_failed_fits() as failed:
        single = proba(calibrator, recipe, recipe.S, recipe.code, recipe.w, recipe.seen)
        expected = proba(calibrator, recipe, S, recipe.code, recipe.w, T)
    assume(not failed)
    assert_close(single, expected, max(2e-6, refit_tolerance(calibrator, recipe)))


# ------------------------------------------------------------------ what only some promise


def keeps_the_class(calibrator):
    """Whether docs/choosing.md says that the predicted class stays, perhaps with a parameter."""
    said = KEEPS.get(type(calibrator).__name__)
    params = calibrator.get_params().items()
    return said in ("always", *(f"with `{name}={value!r}`" for name, value in params))


def never_falls(calibrator):
    """Whether, with two classes, P(second) never decreases as its score increases."""
    rising = getattr(calibrator, "order_preserving", not getattr(calibrator, "fit_slope", True))
    return rising or isinstance(calibrator, RISING)


@pytest.mark.parametrize("calibrator", [*filter(keeps_the_class, CALIBRATORS)], ids=str)
@given(recipe=recipes())
def test_the_class_of_the_largest_score_keeps_the_largest_probability(calibrator, recipe):
    with noting_failed_fits():
        fitted = fit(
            calibrator,
            recipe.S,
            recipe.code,
            recipe.w,
            kind=recipe.kind,
            classes=range(recipe.n_classes),
        )
    for T in (recipe.S, recipe.other()):
        P = fitted.predict_proba(T)
        assert_array_equal(P[np.arange(len(P)), T.argmax(axis=1)], P.max(axis=1))


@pytest.mark.parametrize("calibrator", [*filter(never_falls, CALIBRATORS)], ids=str)
@given(recipe=recipes(n_classes=2))
def test_the_probability_of_the_second_class_never_falls_as_its_score_rises(calibrator, recipe):
    with noting_failed_fits():
        fitted = fit(
            calibrator, recipe.S, recipe.code, recipe.w, kind=recipe.kind, classes=range(2)
        )
    span = 10.0 * min(recipe.scale, 1e3)
    f = np.linspace(-span, span, 200) if recipe.kind == "logits" else np.linspace(0, 1, 200)
    if recipe.kind == "proba" and not np.all(getattr(fitted, "_had_zeros", True)):
        # What an exact 0 means is not known then: it counts as half the smallest number of the fit.
        f[[0, -1]] = 1e-9, 1 - 1e-9
    T = np.column_stack([0 * f if recipe.kind == "logits" else 1 - f, f])
    rise = np.diff(fitted.predict_proba(T)[:, 1])
    assert rise.min() >= -1e-15
