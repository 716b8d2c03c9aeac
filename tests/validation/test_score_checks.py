"""Logits or probabilities: rounded, odd and scaled rows are read as meant, or refused."""

import re

import numpy as np
import pandas as pd
import pytest
from calls import refused
from scipy.special import softmax
from sklearn.preprocessing import MinMaxScaler

from skcalib import IdentityCalibrator, TemperatureScaling, VectorScaling, compare_calibrators
from skcalib.metrics import expected_calibration_error

rng = np.random.default_rng(0)
N, K = 600, 4
Y = rng.integers(K, size=N)
Z = 3 * (rng.normal(size=(N, K)) + np.eye(K)[Y])
P = softmax(Z, axis=1)


@pytest.mark.parametrize("by", [3e-6, -3e-6, 9e-6, 5e-5, 9e-4, -9e-4])
def test_rows_within_a_thousandth_are_probabilities_without_a_warning(by):
    """What rounding leaves stays; those written with four decimals are divided by their sums."""
    given = P * (1 + by)
    fitted = IdentityCalibrator().fit(given, Y)
    assert fitted.input_ == "proba"
    expected, rtol = (given, 0) if abs(by) < 1e-5 else (P, 1e-12)
    np.testing.assert_allclose(fitted.predict_proba(given), expected, rtol=rtol)


def test_float16_probabilities_stay_as_they_are_without_a_warning():
    given = P.astype(np.float16)
    fitted = IdentityCalibrator().fit(given, Y)
    assert fitted.input_ == "proba"
    np.testing.assert_array_equal(fitted.predict_proba(given), given.astype(np.float32))


def as_bfloat16(A):
    """Round float32 to the nearest value whose last sixteen bits are 0."""
    bits = A.astype(np.float32).view(np.uint32)
    return ((bits + 0x7FFF + ((bits >> 16) & 1)) & 0xFFFF0000).astype(np.uint32).view(np.float32)


def test_bfloat16_probabilities_may_be_off_by_more():
    many = rng.dirichlet(np.full(40, 5.0), size=N)
    given = as_bfloat16(many)
    away = np.abs(given.sum(axis=1, dtype=float) - 1).max()
    assert 1e-3 < away < 8e-3
    y = rng.integers(40, size=N)
    with pytest.warns(UserWarning, match="divided by their sums"):
        fitted = IdentityCalibrator(classes=range(40)).fit(given, y)
    assert fitted.input_ == "proba"
    nudged = given.copy()
    nudged[0, 0] = np.nextafter(nudged[0, 0], np.float32(1))  # no bfloat16 any more
    refused("logits or probabilities", IdentityCalibrator(classes=range(40)).fit, nudged, y)


def test_one_odd_row_among_probability_vectors_is_named_with_both_ways_out():
    """The reproducer: a row that sums to 1.3 made logits of 599 probability vectors."""
    given = P.copy()
    given[17] *= 1.3 / given[17].max()
    message = (
        r"X: 599 of 600 rows are probability vectors, but row 17 contains 1.3, outside \[0, 1\].*"
        "input='proba' after repairing.* or input='logits'"
    )
    refused(message, TemperatureScaling().fit, given, Y)
    refused(message, compare_calibrators, given, Y, ["temperature"])
    assert TemperatureScaling(input="logits").fit(given, Y).input_ == "logits"


@pytest.mark.parametrize(
    "odd", [[2.0, 3.0, -1.0, 0.5], [0.4, 0.4, 0.4, 0.4], [-0.3, 0.5, 0.4, 0.4]]
)
@pytest.mark.parametrize("share", [0.001, 0.2, 0.5])
def test_half_the_rows_and_not_all_are_an_error(odd, share):
    given = P.copy()
    rows = np.arange(N)[: max(1, int(share * N))]
    given[rows] = odd
    with pytest.raises(ValueError, match=rf"{N - rows.size} of 600 rows are probability vectors, "
                                         "but row 0 "):  # fmt: skip
        IdentityCalibrator().fit(given, Y)


def test_a_few_rows_that_are_probability_vectors_by_chance_are_logits():
    given = Z.copy()
    given[: N // 3] = P[: N // 3]
    assert IdentityCalibrator().fit(given, Y).input_ == "logits"


@pytest.mark.parametrize("total", [100, 37])
def test_percentages_and_counts_are_an_error(total):
    with pytest.raises(ValueError, match=rf"every row sums to {total}: percentages, counts or log"):
        IdentityCalibrator().fit(total * P, Y)
    votes = rng.multinomial(50, P).astype(float)
    refused("every row sums to 50.*Divide each row by its sum", VectorScaling().fit, votes, Y)
    assert VectorScaling(input="logits").fit(votes, Y).input_ == "logits"


def test_one_column_is_read_by_the_same_tolerances():
    p = np.concatenate([[1.0005, -0.0004], rng.random(998)])
    y = (rng.random(1000) < p).astype(int)
    with pytest.warns(
        UserWarning, match=r"values lie outside \[0, 1\], by up to 0.0005; they were"
    ):
        fitted = IdentityCalibrator().fit(p, y)
    assert fitted.input_ == "proba"
    assert fitted.predict_proba(p)[:2].tolist() == [[0, 1], [1, 0]]
    with pytest.raises(
        ValueError, match=r"999 of 1,000 values lie in \[0, 1\], but row 0 contains -1"
    ):
        IdentityCalibrator().fit(np.concatenate([[-1.0], rng.random(999)]), y)
    assert IdentityCalibrator().fit(rng.normal(size=1000), y).input_ == "logits"


def test_new_rows_of_scaled_scores_may_lie_beyond_those_of_the_fit():
    scaler = MinMaxScaler().fit([[2.0], [10.0]])
    fitted = IdentityCalibrator().fit(scaler.transform(np.linspace(2, 10, 50)[:, None]), Y[:50] > 1)
    with pytest.raises(ValueError, match=r"contains 1.125, .*use MinMaxScaler\(clip=True\)"):
        fitted.predict_proba(scaler.transform([[4.0], [11.0]]))


@pytest.mark.parametrize(
    ("values", "words"),
    [
        ([0.0, 10.0, 7.5], "between 0 and 10: ratings or logits? Divide by the largest possible"),
        ([1.0, 2.0, 5.0], "between 1 and 5: ratings or logits"),
        (np.append(np.linspace(0, 100, 999), 101.0), "percentages or logits? Divide by the"),
    ],
)
def test_one_column_without_a_negative_value_may_be_ratings_or_percentages(values, words):
    y = np.arange(len(values)) % 2
    for calibrator in (IdentityCalibrator(), TemperatureScaling()):
        refused(re.escape(words), calibrator.fit, np.asarray(values), y)
    assert IdentityCalibrator(input="logits").fit(values, y).input_ == "logits"


def test_declared_probabilities_may_be_rounded_to_two_decimals():
    given = np.round(P, 2)
    away = np.abs(given.sum(axis=1) - 1).max()
    assert away > 5e-3
    with pytest.warns(UserWarning, match=rf"by up to {away:.2g}"):
        fitted = IdentityCalibrator(input="proba").fit(given, Y)
    expected = given / given.sum(axis=1, keepdims=True)
    with pytest.warns(UserWarning, match="rows do not sum to 1"):
        np.testing.assert_allclose(fitted.predict_proba(given), expected, rtol=1e-12)
    three = np.round(P, 3) / np.round(P, 3).sum(axis=1, keepdims=True) * 1.0009
    assert IdentityCalibrator(input="proba").fit(three, Y).input_ == "proba"  # without a warning
    with pytest.raises(ValueError, match="row 0 sums to 1.02, not 1, but input='proba'"):
        IdentityCalibrator(input="proba").fit(P * 1.02, Y)


def test_metrics_read_probabilities_as_declared_ones():
    expected = expected_calibration_error(Y, P)
    assert expected_calibration_error(Y, P * 1.0009) == pytest.approx(expected, rel=1e-12)
    with pytest.warns(UserWarning, match="y_proba: rows do not sum to 1, by up to 0.009"):
        value = expected_calibration_error(Y, P * 1.009)
    assert value == pytest.approx(expected, rel=1e-12)
    refused("y_proba: row 0 sums to 1.02, not 1", expected_calibration_error, Y, P * 1.02)
    refused("y_proba: row 0 contains", expected_calibration_error, Y, 100 * P)


def test_prediction_refuses_a_batch_of_which_half_are_of_the_other_kind():
    fitted = TemperatureScaling().fit(Z, Y)
    mixed = np.vstack([Z[:5], P[:5]])
    refused("5 of 10 rows are probability vectors.*fitted on logits", fitted.predict_proba, mixed)
    np.testing.assert_allclose(fitted.predict_proba(mixed[:9]), fitted.predict_proba(
        np.vstack([mixed[:9], Z[9:12]]))[:9])  # fmt: skip


def test_large_arrays_are_divided_block_by_block(monkeypatch):
    expected = expected_calibration_error(Y, P)
    vector = VectorScaling().fit(P, Y).predict_proba(P)
    monkeypatch.setattr("skcalib._arrays.selection.COPIED_BYTES", 0)
    assert expected_calibration_error(Y, P * 1.0005) == pytest.approx(expected, rel=1e-12)
    fitted = VectorScaling().fit(P * 1.0005, Y)
    np.testing.assert_allclose(fitted.predict_proba(P * 1.0005), vector, atol=1e-9)


def as_written(A, step):
    """Numbers to the nearest multiple of a step, by loops."""
    return np.array([[step * round(float(x) / step) for x in row] for row in A])


@pytest.mark.parametrize(
    ("n_classes", "step", "dtype"),
    [
        (3, 1e-2, float),
        (5, 1e-2, float),
        (10, 1e-2, np.float32),
        (50, 1e-2, float),
        (200, 1e-3, float),
        (200, 1e-3, np.float32),
        (35, 1 / 256, np.float32),
        (35, 1 / 255, float),
    ],
)
def test_sums_of_rounded_rows_may_differ_by_half_a_step_for_each_column(n_classes, step, dtype):
    many = np.random.default_rng(n_classes).dirichlet(np.full(n_classes, 0.5), size=400)
    y = np.r_[np.arange(n_classes), np.zeros(400 - n_classes, dtype=int)]
    given = as_written(many, step).astype(dtype)
    total = given.sum(axis=1, keepdims=True, dtype=float)
    assert 1e-3 < np.abs(total - 1).max() <= n_classes / 2 * step
    expected = given / total
    for input in ("auto", "proba"):
        with pytest.warns(UserWarning, match="X: rows do not sum to 1, by up to .* divided by"):
            fitted = IdentityCalibrator(input=input).fit(given, y)
        assert fitted.input_ == "proba"
        with pytest.warns(UserWarning, match="rows do not sum to 1"):
            np.testing.assert_allclose(fitted.predict_proba(given), expected, rtol=1e-6)
        worst = np.abs(total - 1).argmax()
        with pytest.warns(UserWarning, match="rows do not sum to 1"):
            one_row = fitted.predict_proba(given[worst : worst + 1])
        np.testing.assert_allclose(one_row[0], expected[worst], rtol=1e-6)
    with pytest.warns(UserWarning, match="y_proba: rows do not sum to 1"):
        found = expected_calibration_error(y, given)
    if dtype is float:
        assert found == pytest.approx(expected_calibration_error(y, expected), rel=1e-9)


@pytest.mark.parametrize("digits", [2, 3, 17])
def test_a_row_that_is_off_by_more_than_rounding_is_refused(digits):
    given = np.round(P, digits)  # with 17 digits, all of them
    given[7] = [0.5, 0.3, 0.1, 0.07] if digits < 17 else 0.985 * P[7]
    total = 0.97 if digits < 17 else 0.985
    refused(f"y_proba: row 7 sums to {total}, not 1", expected_calibration_error, Y, given)
    message = "599 of 600 rows are probability vectors, but row 7 sums"
    refused(message, IdentityCalibrator().fit, given, Y)


def test_eight_bits_are_not_taken_for_bfloat16():
    """Rows of multiples of 1 / 256 that sum to .77 lack a column."""
    given = np.tile(np.float32([100, 60, 36, 0]) / 256, (20, 1))
    message = r"row 0 sums to 0.765625, not 1 \(is a column missing"
    refused(message, expected_calibration_error, Y[:20], given)


def test_one_row_of_positive_weight_is_not_taken_for_percentages():
    """It stands in for the other rows, which therefore have one sum."""
    Z = np.random.default_rng(0).uniform(0.5, 3, (60, 3))
    y, w = np.arange(60) % 3, np.arange(60) == 7
    fitted = IdentityCalibrator(classes=[0, 1, 2]).fit(Z, y, sample_weight=1.0 * w)
    assert fitted.input_ == "logits"


@pytest.mark.parametrize("decimals", [0, 1])
def test_rounded_percentages_are_percentages(decimals):
    """The reproducer: T = 34 for whole percentages, which sum to 98 to 102."""
    many = np.random.default_rng(0).dirichlet(np.full(60, 5.0), size=400)
    y = np.arange(400) % 60
    given = np.round(100 * many, decimals)
    assert np.ptp(given.sum(axis=1)) > 1
    message = "every row sums to 100: percentages, counts or"
    refused(message, TemperatureScaling().fit, given, y)
    refused(message, compare_calibrators, given, y, ["temperature"])
    assert IdentityCalibrator(input="logits").fit(given, y).input_ == "logits"
    few = np.round(100 * P, decimals)  # sums that differ little are not reported as the largest
    refused(message, IdentityCalibrator().fit, few, Y)


VOTES = np.random.default_rng(1).poisson(10 * P)


@pytest.mark.parametrize("votes", [VOTES, VOTES.astype(float), VOTES.astype(np.uint8), VOTES + 1])
def test_whole_numbers_without_a_negative_one_are_no_logits(votes):
    asks = (
        "X: all values are whole numbers and none is negative: counts, percentages or logits.*or "
        "pass input='logits' if these are logits"
    )
    for calibrator in (TemperatureScaling(), TemperatureScaling(classes=range(K))):
        refused(asks, calibrator.fit, votes, Y)
    refused(asks, compare_calibrators, votes, Y, ["temperature"])
    assert IdentityCalibrator(input="logits").fit(votes, Y).input_ == "logits"
    shares = (votes + 1) / (votes + 1).sum(axis=1, keepdims=True)
    assert IdentityCalibrator().fit(shares, Y).input_ == "proba"


@pytest.mark.parametrize(
    "logits",
    [
        np.round(2 * Z),
        np.round(2 * Z).astype(np.int8),
        np.maximum(Z, 0),
        Z - Z.min(),
        np.round(Z - Z.min() + 0.5, 1),
        100 + np.round(Z, 1),
    ],
)
def test_logits_with_a_negative_one_or_a_fraction_are_logits(logits):
    assert IdentityCalibrator().fit(logits, Y).input_ == "logits"


def test_one_column_of_log_probabilities_is_refused():
    """The reproducer: no answer above .5."""
    p = np.random.default_rng(0).random(500)
    y = (np.random.default_rng(1).random(500) < p).astype(int)
    asks = r"no value of the column is positive: log-probabilities or logits\? Pass np.exp\(X\)"
    for given in (np.log(p), np.log(p)[:, None], np.append(np.log(p[1:]), -np.inf)):
        refused(asks, TemperatureScaling().fit, given, y)
    refused(asks, compare_calibrators, np.log(p), y, ["temperature"])
    assert TemperatureScaling().fit(np.exp(np.log(p)), y).temperature_ == pytest.approx(
        TemperatureScaling().fit(p, y).temperature_, rel=1e-6
    )
    assert TemperatureScaling(input="logits").fit(np.log(p), y).input_ == "logits"


@pytest.mark.parametrize(
    "logits", [np.linspace(-9, 0.1, 50), np.linspace(-2.9, -2, 50), np.linspace(-5, 5, 50)]
)
def test_one_column_with_a_positive_value_or_a_narrow_one_is_logits(logits):
    assert IdentityCalibrator().fit(logits, np.arange(50) % 2).input_ == "logits"


def test_one_row_without_an_axis_is_not_read_as_two():
    """A service passes model.predict_proba(x)[0]; the first answer was that of the other class."""
    p = np.random.default_rng(0).random(500)
    y = (np.random.default_rng(1).random(500) < p).astype(int)
    both = np.column_stack([1 - p, p])
    fitted = TemperatureScaling().fit(both, y)
    expected = fitted.predict_proba(both[:1])
    asks = r"with X.reshape\(1, -1\) if it is a single row, or X.reshape\(-1, 1\) if it is a single"
    for row in (both[0], both[0].tolist(), both[0].astype(np.float32), pd.Series(both[0])):
        for method in (fitted.predict_proba, fitted.predict, fitted.predict_log_proba):
            refused(asks, method, row)
    np.testing.assert_array_equal(fitted.predict_proba(both[0].reshape(1, -1)), expected)
    two = fitted.predict_proba(both[0].reshape(-1, 1))
    np.testing.assert_allclose(two[1], expected[0], rtol=1e-12)
    np.testing.assert_allclose(two[0], expected[0, ::-1], rtol=1e-12)
    assert fitted.predict_proba([0.3, 0.6]).shape == (2, 2)  # two rows of one column
    assert fitted.predict_proba(p[:3]).shape == (3, 2)
    assert TemperatureScaling().fit(p, y).predict_proba([0.3, 0.7]).shape == (2, 2)
    logits = TemperatureScaling().fit(np.column_stack([0 * p, 9 * p - 4]), y)
    assert logits.predict_proba([0.3, 0.7]).shape == (2, 2)
