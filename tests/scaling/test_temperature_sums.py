"""Sums of temperature scaling, its losses and their derivatives, against loops."""

import numpy as np
import pytest
from samples import drawn, uneven

from skcalib._scaling import temperature
from skcalib._scaling.optimise import LOG_TOLERANCE
from skcalib._scaling.temperature import ShiftedLogits
from skcalib._scores.scores import Scores


class Passes:
    """Sums of all rows, which count how often they are asked for."""

    def __init__(self, Z, code, w=None):
        self.scores = Scores(Z, "logits", max_abs_logit=float(np.abs(Z).max()))
        self.code = code
        self.w = np.ones(len(code)) if w is None else w
        self.count = 0

    def __call__(self, scales):
        self.count += 1
        return temperature.sums_of(self.scores, self.code, self.w, scales)

    def of_sample(self, step):
        few = self.scores.subsample(step)
        return temperature.guess_of(
            temperature.find_temperature(few, self.code[::step], self.w[::step])
        )


def both(Z, code, w=None, guess=None):
    """Return T by passes, T by the search on all rows, and the passes."""
    passes = Passes(Z, code, w)
    guess = passes.of_sample(max(1, len(code) // 2000)) if guess is None else guess
    found = temperature.temperature_by_passes(passes, Z.shape[1], guess)
    return found, temperature.find_temperature(passes.scores, code, passes.w), passes


def test_the_sums_are_those_of_loops():
    rng = np.random.default_rng(0)
    Z, code, w = np.round(2 * rng.normal(size=(9, 4))), rng.integers(0, 4, 9), rng.uniform(0, 3, 9)
    scales = temperature.scales_about(0.3)
    true = every = 0.0
    expected = np.zeros(scales.size)
    for i, row in enumerate(Z):
        true += w[i] * (row.max() - row[code[i]])
        every += w[i] * (row.max() - row).mean()
        for j, scale in enumerate(scales):
            q = np.exp(scale * row)
            expected[j] += w[i] * (q / q.sum() * (row.max() - row)).sum()
    found = Passes(Z, code, w)(scales)
    assert found.weight == pytest.approx(w.sum(), rel=1e-14)
    assert found.true == pytest.approx(true, rel=1e-14)
    assert found.every == pytest.approx(every, rel=1e-14)
    np.testing.assert_allclose(found.expected, expected, rtol=1e-13)


@pytest.mark.parametrize(
    ("n", "K", "scale", "noise"),
    [(50000, 2, 2.0, 1.5), (20000, 10, 2.0, 1.5), (20000, 10, 50.0, 50.0), (5000, 1000, 2.0, 1.5)],
)
def test_one_pass_after_a_sample(n, K, scale, noise):
    found, expected, passes = both(*drawn(n, K, scale, noise))
    assert found.value == pytest.approx(expected.value, rel=2e-9)
    assert found.bound == expected.bound == ""
    assert found.mean_gap == pytest.approx(expected.mean_gap, rel=1e-12)
    assert passes.count == 1


@pytest.mark.parametrize("off", [-3.0, -0.4, -0.14, 0.13, 0.4, 3.0])
def test_a_wrong_guess_costs_passes_and_no_digits(off):
    Z, code = drawn(3000, 10)
    found, expected, passes = both(Z, code, guess=off - np.log(1.5))
    assert found.value == pytest.approx(expected.value, rel=2e-9)
    assert (1 if abs(off) < 0.15 else 2) <= passes.count <= 8


@pytest.mark.parametrize("unit", [1e-20, 1e-6, 1e6, 1e20])
def test_logits_of_any_unit(unit):
    Z, code = drawn(3000, 4)
    found, expected, _ = both(unit * Z, code)
    assert found.value == pytest.approx(expected.value, rel=2e-9)


def test_one_logit_far_away():
    Z, code = drawn(5000, 5)
    Z[7, 3] = -1e10
    found, expected, _ = both(Z, np.where(code == 3, 0, code))
    assert found.value == pytest.approx(expected.value, rel=2e-9)


@pytest.mark.parametrize("off", [0.0, 0.14])
def test_the_sharpest_rows_take_a_narrow_window(off):
    """All rows are equal, with 99,999 classes below the top one: the expected gap falls fast."""
    Z, code = np.zeros((13, 100000)), np.r_[np.zeros(9, dtype=int), 1:5]
    Z[:, 0] = 12.0
    # softmax(12 beta) is 9 / 13 at the optimum
    beta = np.log(9 / 4 * 99999) / 12
    found, expected, passes = both(Z, code, guess=np.log(beta) + off)
    assert 1 / found.value == pytest.approx(beta, rel=1e-9)
    assert found.value == pytest.approx(expected.value, rel=2e-9)
    assert passes.count == (2 if off else 1)


def test_bounds_are_those_of_the_search_on_all_rows():
    Z, _ = drawn(5000, 3)
    order = np.argsort(Z, axis=1)
    wrong_once = order[:, -1].copy()
    wrong_once[1] = order[1, 0]
    for code, bound in ((order[:, -1], "high"), (order[:, 0], "low"), (wrong_once, "")):
        found, expected, _ = both(Z, code)
        assert (found.bound, expected.bound) == (bound, bound)
        assert found.value == pytest.approx(expected.value, rel=2e-9)


def test_blocks_do_not_show_in_the_sums(small_blocks):
    Z, code = drawn(100, 3)
    whole = Passes(Z, code)(temperature.scales_about(0.0))
    small_blocks(7)
    pieces = Passes(Z, code)(temperature.scales_about(0.0))
    for one, other in zip(whole, pieces, strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-13)


@pytest.mark.parametrize("middle", [0.5, 0.9, 1.02, 3.0])
def test_a_window_knows_where_its_error_is_too_large(middle):
    """Of 99,999 equal classes, the expected gap in closed form."""

    def expected(beta):
        return 12.0 / (1.0 + np.exp(12.0 * beta) / 99999)

    scales = temperature.scales_about(np.log(middle))
    window = temperature.Window(scales, expected(scales))
    for beta in np.linspace(0.86, 1.14, 23) * middle:
        value, rise = window.log_expected(np.log(beta))
        error = abs((value - np.log(expected(beta))) / rise)
        estimate = window.error(np.log(beta))
        assert error <= 1e-8 or estimate > LOG_TOLERANCE
        assert temperature.covers(window.scales, np.log(beta))
    assert not temperature.covers(window.scales, np.log(1.16 * middle))
    assert not temperature.covers(window.scales, np.log(0.84 * middle))


# ------------------------------------------------------------------ losses of a scale


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
