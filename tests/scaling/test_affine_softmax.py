"""softmax(W z + b): the same numbers whatever stands beside a row, and nothing unchecked."""

import numpy as np
import pytest
from calls import refused
from numpy.testing import assert_allclose, assert_array_equal
from scipy.special import softmax

from skcalib import DirichletCalibrator, MatrixScaling, TemperatureScaling, VectorScaling
from skcalib._scaling.affine_softmax import affine_softmax
from skcalib._scores.scores import Scores

N_ROWS = 12_000  # of 40 classes: several blocks, in two threads
K = 40
AFFINE = [TemperatureScaling(), VectorScaling(), MatrixScaling(max_iter=5), DirichletCalibrator()]


def reference(Z, coef, intercept):
    """Softmax in long double, row by row."""
    A = np.asarray(coef, dtype=np.longdouble)
    Z = Z.astype(np.longdouble)
    Z = (Z @ A.T if A.ndim == 2 else Z * A) + (0 if intercept is None else intercept)
    E = np.exp(Z - Z.max(axis=1)[:, None])
    return E / E.sum(axis=1)[:, None]


@pytest.fixture(scope="module")
def logits():
    rng = np.random.default_rng(0)
    Z = 3 * rng.standard_normal((N_ROWS, K))
    y = np.r_[np.arange(K), rng.integers(0, K, N_ROWS - K)]
    Z[np.arange(N_ROWS), y] += 3
    return Z, y


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("n_classes", [2, 3, 32, 33, 150])
@pytest.mark.parametrize("pattern", ["scale", "diagonal", "full"])
@pytest.mark.parametrize("spread", [1.0, 30.0, 3000.0])
def test_it_is_the_softmax(pattern, n_classes, dtype, spread):
    rng = np.random.default_rng(n_classes)
    Z = (spread * rng.standard_normal((700, n_classes))).astype(dtype)
    size = {"scale": (), "diagonal": n_classes, "full": (n_classes, n_classes)}[pattern]
    coef = 0.7 + 0.1 * rng.standard_normal(size)
    intercept = None if pattern == "scale" else rng.standard_normal(n_classes)
    Q = affine_softmax(Z, coef, intercept, float(np.abs(Z).max()))
    # An exponent of 1e4 is known to 1e-12.
    atol = 1e-15 * spread * (n_classes if size else 1)
    assert_allclose(Q, reference(Z, coef, intercept).astype(float), rtol=0, atol=atol)
    assert Q.max() <= 1.0


def mapped(Z, coef, intercept):
    """Softmax of logits of which some may be -inf."""
    scores = Scores(Z, "logits", max_abs_logit=float(np.abs(Z).max()))
    Z = scores.finite_logits(slice(None))
    return affine_softmax(Z, coef, intercept, scores.max_abs_logit)


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("coef", [0.6, np.linspace(-0.5, 1.5, K), np.linspace(0.3, 0.9, K)])
def test_a_row_far_from_0_changes_no_other(logits, coef, dtype):
    """Rows near 0 are not shifted, to the same bits."""
    Z = logits[0].astype(dtype)
    intercept = np.linspace(-1, 1, K)
    near = mapped(Z, coef, intercept)
    for far in (300.0, -300.0, -np.inf):
        beside = Z.copy()
        beside[::500, 3] = far
        Q = mapped(beside, coef, intercept)
        rest = np.arange(N_ROWS) % 500 != 0
        assert_array_equal(Q[rest], near[rest])
        few = np.flatnonzero(~rest)[:5]
        assert_array_equal(mapped(beside[few], coef, intercept), Q[few])


@pytest.mark.parametrize("row", [0, 7])
def test_what_many_logits_add_up_to_is_far_though_each_of_them_is_near(row):
    coef = np.eye(K)
    coef[row] = 8.0
    Z = np.full((5, K), 5.0) + np.arange(K) / K
    Q = affine_softmax(Z, coef, np.zeros(K), 6.0)
    assert_allclose(Q, np.broadcast_to(np.eye(K)[row], Q.shape), rtol=0, atol=1e-15)


@pytest.mark.parametrize("n_classes", [2, 50])
def test_rows_that_are_certain_are_tied_at_1(n_classes):
    top = np.linspace(22, 63, 5000)
    Z = np.full((top.size, n_classes), -1.0)
    Z[:, 1] = top
    Z[:, 0] = -top
    Z[:, 2:] = -top[:, None]
    Q = affine_softmax(Z, 1.0, None, 63.0)
    assert (Q[:, 1] == 1.0).all()


@pytest.mark.parametrize("calibrator", AFFINE, ids=lambda c: type(c).__name__)
@pytest.mark.parametrize("row", [0, N_ROWS - 7])
@pytest.mark.parametrize(
    ("entry", "message"),
    [
        (np.nan, "contains NaN .first at row {row}, column 5"),
        (np.inf, "contains infinity .first at row {row}, column 5"),
        (2e30, "logits beyond 1e[+]30"),
        (-2e30, "logits beyond 1e[+]30"),
    ],
)
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_what_is_no_logit_is_refused_in_whichever_block(logits, calibrator, row, entry, message):
    Z, y = logits
    calibrator.fit(Z[:2000], y[:2000])
    Z = Z.copy()
    Z[row, 5] = entry
    refused(message.format(row=row), calibrator.predict_proba, Z)
    Z[row] = -np.inf
    refused(f"every logit of row {row} is -inf", calibrator.predict_proba, Z)


@pytest.mark.parametrize("row", [0, N_ROWS - 7])
def test_a_tiny_scale_hides_no_logit_that_is_too_large(logits, row):
    Z, y = logits
    temperature = TemperatureScaling().fit(Z, y)
    temperature.temperature_ = 1e30
    Z = Z.copy()
    Z[row, 5] = 2e30
    refused("logits beyond", temperature.predict_proba, Z)


@pytest.mark.parametrize("calibrator", AFFINE[1:], ids=lambda c: type(c).__name__)
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_a_logit_of_minus_infinity_is_that_of_the_smallest_probability(logits, calibrator):
    """As fit reads it: `clip_` of the row's sum, alone or in a batch."""
    Z, y = logits
    calibrator.fit(Z[:2000], y[:2000])
    Z = Z.copy()
    Z[-7, 5] = -np.inf
    finite = Z.copy()
    finite[-7, 5] = np.log(np.exp(Z[-7]).sum()) + np.log(calibrator.clip_)
    assert_allclose(
        calibrator.predict_proba(Z), calibrator.predict_proba(finite), rtol=1e-10, atol=1e-20
    )


@pytest.mark.parametrize("calibrator", AFFINE, ids=lambda c: type(c).__name__)
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_probabilities_are_checked_in_whichever_block(logits, calibrator):
    Z, y = logits
    P = softmax(Z, axis=1)
    calibrator.fit(P[:2000], y[:2000])
    plain = calibrator.predict_proba(P)
    off = P.copy()
    off[-7, 5] += 0.1
    refused(f"row {N_ROWS - 7} sums to 1.1, not 1", calibrator.predict_proba, off)
    off[11, 5] += 0.2
    refused("row 11 sums to 1.2, not 1", calibrator.predict_proba, off)
    off[11], off[-7] = P[11], np.nan
    refused(rf"row {N_ROWS - 7}\b", calibrator.predict_proba, off)
    # What rounding leaves outside [0, 1] is clipped, as it is in fit.
    P[-7] = 0.0
    P[-7, 5], clipped = 1 + 1e-7, P.copy()
    clipped[-7, 5] = 1.0
    assert_array_equal(calibrator.predict_proba(P), calibrator.predict_proba(clipped))
    assert_array_equal(calibrator.predict_proba(P)[:-7], plain[:-7])


@pytest.mark.parametrize("calibrator", AFFINE, ids=lambda c: type(c).__name__)
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_probabilities_for_logits_are_told_from_rows_that_happen_to_sum_to_1(logits, calibrator):
    Z, y = logits
    P = softmax(Z, axis=1)
    calibrator.fit(Z[:2000], y[:2000])
    refused("all rows are probability vectors", calibrator.predict_proba, P)
    P[-7] = Z[-7]
    refused(f"{len(P) - 1:,} of {len(P):,} rows are probability", calibrator.predict_proba, P)
    half = len(P) // 2 + 1
    P[-half:] = Z[-half:]  # fewer than half: these sum to 1 by chance
    answer = calibrator.predict_proba(P)
    # On some processors a matrix product rounds the last rows of a block otherwise.
    assert_allclose(calibrator.predict_proba(P[::-1])[::-1], answer, rtol=0, atol=1e-12)
