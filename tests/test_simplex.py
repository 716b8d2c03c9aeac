"""One softmax, one clip, one normalisation of rows, whichever way the scores are read."""

import numpy as np
import pytest
from scipy.special import softmax

from skcalib._reductions import top_label
from skcalib._simplex import FEW_COLUMNS, Scores, normalise_rows, row_max, row_sums, softmax_inplace


def whole(scores, method):
    return getattr(scores, method)(slice(None))


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_rows_and_columns_hold_the_same_probabilities(dtype):
    Z = (20 * np.random.default_rng(0).normal(size=(500, 30))).astype(dtype)
    scores = Scores(Z, "logits")
    P = whole(scores, "proba")
    np.testing.assert_allclose(P, softmax(Z.astype(float), axis=1), rtol=1e-13)
    np.testing.assert_array_equal(whole(scores, "proba_columns"), P.T.astype(dtype))
    np.testing.assert_array_equal(scores.proba_columns(slice(3, 5)), P.T[3:5].astype(dtype))


@pytest.mark.parametrize("K", [2, 3, FEW_COLUMNS, FEW_COLUMNS + 1, 300])
def test_a_row_is_the_same_in_any_company(K):
    Z = 20 * np.random.default_rng(K).normal(size=(57, K))
    Q = softmax_inplace(Z.copy())
    np.testing.assert_allclose(Q, softmax(Z, axis=1), rtol=1e-13)
    if K <= FEW_COLUMNS:
        np.testing.assert_array_equal(softmax_inplace(np.asfortranarray(Z)), Q)
    np.testing.assert_array_equal(np.vstack([softmax_inplace(z[None].copy()) for z in Z]), Q)
    np.testing.assert_array_equal(row_max(Z), Z.max(axis=1))
    np.testing.assert_allclose(row_sums(Q), 1.0, rtol=1e-14)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("K", [2, 3, 24, 25, 300])
def test_the_top_label_is_the_lowest_of_equals(K, dtype):
    # Halves, so that most rows have several largest entries.
    P = (np.random.default_rng(K).integers(3, size=(400, K)) / 2).astype(dtype)
    score, predicted = top_label(P)
    np.testing.assert_array_equal(predicted, [list(row).index(max(row)) for row in P])
    np.testing.assert_array_equal(score, [max(row) for row in P])
    assert score.dtype == dtype


def test_a_probability_of_nought_has_the_logarithm_of_1e_12():
    scores = Scores(np.array([[0.0, 0.25, 0.75]]), "proba")
    np.testing.assert_allclose(whole(scores, "logits"), np.log([[1e-12, 0.25, 0.75]]), rtol=1e-14)


def test_a_logit_of_minus_infinity_is_a_probability_of_nought():
    Z = np.array([[-np.inf, 1.0, 2.0]])
    log_total = np.log(np.exp([1.0, 2.0]).sum())
    expected = [[np.log(1e-12) + log_total, 1.0, 2.0]]
    np.testing.assert_allclose(whole(Scores(Z, "logits"), "logits"), expected, rtol=1e-14)
    assert whole(Scores(Z, "logits"), "proba")[0, 0] == 0.0


def test_scores_are_read_and_never_written():
    P = np.array([[0.0, 1.0], [0.5, 0.5]])
    P.flags.writeable = False
    for method in ("logits", "proba", "proba_columns"):
        block = whole(Scores(P, "proba"), method)
        block += 1.0
    assert P.tolist() == [[0.0, 1.0], [0.5, 0.5]]


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_rows_are_divided_by_their_sum_and_empty_ones_become_uniform(dtype):
    Q = np.array([[1.0, 3.0, 0.0], [0.0, 0.0, 0.0], [0.2, 0.2, 0.1]], dtype=dtype)
    expected = [[0.25, 0.75, 0.0], [1 / 3] * 3, [0.4, 0.4, 0.2]]
    assert normalise_rows(Q) is Q
    assert Q.dtype == dtype
    np.testing.assert_allclose(Q, expected, rtol=1e-6)
