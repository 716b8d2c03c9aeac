"""One softmax, one clip, one normalisation of rows, whichever way the scores are read."""

import numpy as np
import pytest
from scipy.special import logsumexp, softmax

from skcalib._arrays.rowwise import FEW_COLUMNS, exponentiate, row_max, row_sums
from skcalib._arrays.sources import as_source
from skcalib._maps.formulas import normalise_rows
from skcalib._scores.scores import Scores, softmax_inplace, top_label


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
    score, predicted = top_label(as_source(P))
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


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_rows_are_divided_by_their_sum_and_empty_ones_become_uniform(dtype):
    Q = np.array([[1.0, 3.0, 0.0], [0.0, 0.0, 0.0], [0.2, 0.2, 0.1]], dtype=dtype)
    expected = [[0.25, 0.75, 0.0], [1 / 3] * 3, [0.4, 0.4, 0.2]]
    assert normalise_rows(Q) is Q
    assert Q.dtype == dtype
    np.testing.assert_allclose(Q, expected, rtol=1e-6)


@pytest.mark.parametrize("K", [3, FEW_COLUMNS + 1])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_exponentials_of_near_rows_are_not_shifted_and_of_far_ones_are(dtype, K):
    """In float32, what lies 50 below the largest counts as 50 below."""
    Z = np.random.default_rng(0).normal(size=(6, K)).astype(dtype)
    Z[1] += 200
    Z[2, 0] = -np.inf
    Z[3, 1] = -1e30
    Z[4] -= 3000
    Q = Z.copy()
    shift, total = exponentiate(Q)
    far = np.array([False, True, True, True, True, False])
    np.testing.assert_array_equal(shift, np.where(far, Z.max(axis=1), 0))
    least = -50.0 if dtype == np.float32 else -np.inf
    expected = np.exp(np.maximum(Z.astype(float) - shift[:, None], least))
    np.testing.assert_allclose(Q, expected, rtol=5e-7 if dtype == np.float32 else 1e-15)
    np.testing.assert_allclose(total, Q.sum(axis=1), rtol=1e-6)
    assert exponentiate(Z.copy()[:1], 10.0)[0].tolist() == [0.0]


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_log_odds_of_logits_are_those_against_all_others_however_far(dtype):
    Z = np.random.default_rng(0).normal(size=(40, 5)).astype(dtype)
    Z[::2, 3] += 60  # all but 1e-26 of the mass, which 1 - p would lose
    Z[1::4] = Z[1::4].round()  # ties
    expected = [
        [z[k] - logsumexp(np.delete(z, k).astype(float)) for z in Z] for k in range(Z.shape[1])
    ]
    found = Scores(Z, "logits").log_odds_columns(slice(0, 5))
    np.testing.assert_allclose(found, expected, rtol=1e-6 if dtype == np.float32 else 1e-12)
    np.testing.assert_array_equal(Scores(Z, "logits").log_odds_columns(slice(3, 5)), found[3:])


def test_log_odds_of_two_logits_are_their_difference_to_the_last_bit():
    Z = np.random.default_rng(0).normal(size=(40, 2))
    difference = Z[:, 1] - Z[:, 0]
    found = Scores(Z, "logits").log_odds_columns(slice(0, 2))
    np.testing.assert_array_equal(found, [-difference, difference])


def test_log_odds_do_not_depend_on_what_all_logits_have_in_common():
    """Multiples of 2^-20, so that the sums are exact."""
    Z = np.round(np.random.default_rng(0).normal(size=(40, 4)) * 2**20) / 2**20
    expected = Scores(Z, "logits").log_odds_columns(slice(0, 4))
    found = Scores(Z + 2.0**26, "logits").log_odds_columns(slice(0, 4))
    np.testing.assert_allclose(found, expected, rtol=1e-13, atol=1e-13)


def test_log_odds_of_probabilities_are_clipped_at_1e_12_on_both_sides():
    P = np.array([[0.0, 1.0], [0.25, 0.75], [1e-14, 1 - 1e-14], [0.5, 0.5]])
    far = np.log(1e-12)
    expected = [far, np.log(1 / 3), far, 0.0]
    found = Scores(P, "proba").log_odds_columns(slice(0, 2))
    np.testing.assert_allclose(found, [expected, -np.array(expected)], rtol=1e-12)
