"""Losses of scaled logits: values and derivatives against the formula written out."""

import numpy as np
import pytest
from samples import uneven

from skcalib._scaling.temperature import ShiftedLogits
from skcalib._scores.scores import Scores


def loss(L, code, w, row_loss):
    """Weighted mean of a loss of each row's probabilities, row by row."""
    total = 0.0
    for i, row in enumerate(L):
        q = [np.exp(z - row.max()) for z in row]
        total += w[i] * row_loss(np.array(q) / sum(q), code[i])
    return total / w.sum()


def row_nll(q, k):
    return -np.log(q[k])


def row_brier(q, k):
    return sum((q[j] - (j == k)) ** 2 for j in range(len(q)))


@pytest.mark.parametrize(
    ("of_scale", "row_loss"), [(ShiftedLogits.nll, row_nll), (ShiftedLogits.brier, row_brier)]
)
@pytest.mark.parametrize("beta", [0.02, 0.4, 1.0, 3.0])
def test_loss_of_a_scale_and_its_two_derivatives(of_scale, row_loss, beta):
    Z, code, w = uneven()
    shifted = ShiftedLogits(Scores(Z, "logits"), code, w)
    found = of_scale(shifted, beta)
    assert found.value == pytest.approx(loss(beta * Z, code, w, row_loss), rel=1e-12)
    h = 1e-5 * beta
    up, down = of_scale(shifted, beta + h), of_scale(shifted, beta - h)
    assert found.first == pytest.approx((up.value - down.value) / (2 * h), rel=1e-6, abs=1e-9)
    assert found.second == pytest.approx((up.first - down.first) / (2 * h), rel=1e-6, abs=1e-9)


@pytest.mark.parametrize("beta", [0.02, 0.4, 1.0, 3.0, 300.0])
def test_the_brier_score_alone_is_the_same(beta):
    Z, code, w = uneven()
    shifted = ShiftedLogits(Scores(Z, "logits"), code, w)
    assert shifted.brier_value(beta) == pytest.approx(loss(beta * Z, code, w, row_brier), rel=1e-12)


@pytest.mark.parametrize("of_scale", [ShiftedLogits.nll, ShiftedLogits.brier])
def test_the_blocks_do_not_show_in_the_sums(of_scale, small_blocks):
    Z, code, w = uneven()
    whole = of_scale(ShiftedLogits(Scores(Z, "logits"), code, w), 0.7)
    small_blocks(7)
    in_pieces = of_scale(ShiftedLogits(Scores(Z, "logits"), code, w), 0.7)
    np.testing.assert_allclose(in_pieces, whole, rtol=1e-13)


def test_deficit_and_spread_are_the_slopes_of_the_nll_at_its_ends():
    """At scale 0 the NLL falls by mean_gap - mean_true_gap; far out it rises by mean_true_gap."""
    Z, code, w = uneven()
    shifted = ShiftedLogits(Scores(Z, "logits"), code, w)
    assert shifted.nll(0.0).first == pytest.approx(shifted.mean_true_gap - shifted.mean_gap)
    alone = np.sort(Z, axis=1)
    clear = alone[:, -1] > alone[:, -2]
    shifted = ShiftedLogits(Scores(Z[clear], "logits"), code[clear], w[clear])
    assert shifted.nll(1e6).first == pytest.approx(shifted.mean_true_gap)


def test_the_deficit_is_exactly_0_when_every_true_class_is_on_top():
    Z = np.array([[0.1, 0.3, 0.3], [1e6, 0.0, -np.inf]])
    assert ShiftedLogits(Scores(Z, "logits"), np.array([2, 0]), np.ones(2)).mean_true_gap == 0.0


@pytest.mark.parametrize(("n", "expected"), [(9, 9), (10, 5), (14, 7), (25, 5)])
def test_thinned_rows_are_evenly_spaced(n, expected):
    Z, code, w = uneven(n)
    few = ShiftedLogits(Scores(Z, "logits"), code, w).subsample(5)
    step = n // 5 if n >= 10 else 1
    assert few.true.size == expected
    np.testing.assert_array_equal(
        few.source.read(slice(None)), Z[::step] - Z[::step].max(axis=1, keepdims=True)
    )
    np.testing.assert_allclose(few.share, w[::step] / w[::step].sum())
