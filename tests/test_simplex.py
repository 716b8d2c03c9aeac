"""One softmax, one clip, one normalisation of rows, whichever way the scores are read."""

import numpy as np
import pytest
from scipy.special import softmax

from skcalib._simplex import Scores, normalise_rows


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
