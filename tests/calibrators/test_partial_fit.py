"""Temperature scaling of batches that are seen once: against `fit` to all rows."""

import copy
import pickle
import re
import warnings

import numpy as np
import pytest
from calls import refused
from samples import drawn
from scipy.special import softmax
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning

import skcalib
from skcalib import TemperatureScaling

LEFT = "is outside the range of temperatures"


def streamed(X, y, size=500, w=None, calibrator=None, **keywords):
    """Return a calibrator fitted on batches of `size` rows; a list of sizes is repeated."""
    calibrator = TemperatureScaling() if calibrator is None else calibrator
    sizes = [size] if isinstance(size, int) else size
    start, turn = 0, 0
    while start < len(y):
        rows = slice(start, start + sizes[turn % len(sizes)])
        weight = None if w is None else w[rows]
        calibrator.partial_fit(X[rows], y[rows], sample_weight=weight, **keywords)
        start, turn = rows.stop, turn + 1
    return calibrator


def of_fit(calibrator, X, y, w=None):
    """Return T of `fit` to all rows over that of the calibrator, minus 1."""
    fitted = TemperatureScaling(classes=calibrator.classes_).fit(X, y, w)
    np.testing.assert_array_equal(fitted.classes_, calibrator.classes_)
    return fitted.temperature_ / calibrator.temperature_ - 1


@pytest.mark.parametrize("size", [[7, 100], 3000])
def test_few_rows_are_kept_and_give_the_numbers_of_fit(size):
    Z, y = drawn(3000)
    calibrator = streamed(Z, y, size, classes=range(4))
    fitted = TemperatureScaling().fit(Z, y)
    assert calibrator.temperature_ == fitted.temperature_
    assert calibrator.clip_ == fitted.clip_
    np.testing.assert_array_equal(calibrator.predict_proba(Z), fitted.predict_proba(Z))


@pytest.mark.parametrize(
    ("n", "K", "noise", "scale", "size"),
    [(20000, 4, 1.5, 2, [3900, 200]), (9000, 2, 1.5, 2, [300, 5000, 33]), (9000, 10, 50, 50, 500)],
)
def test_many_rows_give_the_temperature_of_fit(n, K, noise, scale, size):
    Z, y = drawn(n, K, noise, scale)
    assert abs(of_fit(streamed(Z, y, size, classes=np.arange(K)), Z, y)) < 1e-8


def test_each_batch_leaves_the_temperature_of_all_rows_so_far():
    Z, y = drawn(9000)
    calibrator = TemperatureScaling()
    for stop in range(1000, 9001, 1000):
        rows = slice(stop - 1000, stop)
        calibrator.partial_fit(Z[rows], y[rows])
        assert abs(of_fit(calibrator, Z[:stop], y[:stop])) < 2e-9


def test_weights_count_and_rows_of_weight_0_do_not():
    Z, y = drawn(12000)
    w = np.random.default_rng(1).exponential(size=len(y)) ** 2
    w[::3] = 0.0
    Z[::3] = 1e20
    assert abs(of_fit(streamed(Z, y, w=w), Z, y, w)) < 2e-9


def test_float32_one_column_and_a_missing_class():
    Z, y = drawn(9000)
    single = streamed(Z.astype(np.float32), y)
    assert abs(of_fit(single, Z.astype(np.float32), y)) < 2e-9
    assert single.predict_proba(Z[:3].astype(np.float32)).dtype == np.float32
    lacks = np.where(y == 2, 3, y)
    assert abs(of_fit(streamed(Z, lacks, classes=range(4)), Z, lacks)) < 2e-9
    f, hit = Z[:, 0], (Z[:, 0] + np.random.default_rng(1).logistic(size=9000) > 0).astype(int)
    calibrator = streamed(f, hit)
    fitted = TemperatureScaling().fit(f, hit)
    assert calibrator.temperature_ == pytest.approx(fitted.temperature_, rel=2e-9)


def test_probabilities_and_their_clip():
    Z, y = drawn(9000)
    P = softmax(Z, axis=1)
    calibrator = streamed(P, y)
    assert calibrator.input_ == "proba"
    assert abs(of_fit(calibrator, P, y)) < 2e-9
    assert calibrator.clip_ == TemperatureScaling().fit(P, y).clip_
    two = softmax(Z[:, :2], axis=1)
    calibrator = streamed(two, y % 2)
    np.testing.assert_array_equal(calibrator.clip_, TemperatureScaling().fit(two, y % 2).clip_)


def test_the_first_zero_settles_the_clip():
    """The smallest probability is 0.001 in each batch: the clip is that of `fit`."""
    Z, y = drawn(9000)
    P = np.maximum(softmax(Z, axis=1), 0.001)
    top = np.arange(len(y)), P.argmax(axis=1)
    P[top] += 1 - P.sum(axis=1)
    late = P.copy()
    late[8000::7] = 0.0
    late[top] += 1 - late.sum(axis=1)
    for rows in (P, late):
        calibrator = streamed(rows, y)
        fitted = TemperatureScaling().fit(rows, y)
        assert calibrator.clip_ == pytest.approx(fitted.clip_, rel=1e-12)
        assert calibrator.temperature_ == pytest.approx(fitted.temperature_, rel=2e-9)
    # Smaller ones that come later leave it as it is.
    late[8900] = [1 - 3e-9, 1e-9, 1e-9, 1e-9]
    assert streamed(late, y, [8500, 500]).clip_ == pytest.approx(0.0005)


def test_logits_of_minus_infinity():
    Z, y = drawn(9000)
    Z[8200::5, 3] = -np.inf
    y[8200:] %= 3
    calibrator = streamed(Z, y)
    # With a clip that is far below every probability, -inf has no part in the sums.
    Z[np.isneginf(Z)] = -60.0
    assert calibrator.clip_ < 1e-3
    assert abs(of_fit(calibrator, Z, y)) < 1e-2


def drifting(seed=0, n=16000):
    """Rows whose temperature is 1.5 in the first half, and 4 in the second."""
    Z, y = drawn(n, noise=1.5, seed=seed)
    later, y_later = drawn(n, noise=4.0, seed=seed + 1000)
    half = n // 2
    return np.r_[Z[:half], later[:half]], np.r_[y[:half], y_later[:half]]


def measured_error(message):
    return float(re.search(r"error of ([\d.e-]+) %", message)[1]) / 100


def test_a_temperature_that_leaves_the_range_warns_with_its_error():
    Z, y = drifting()
    with pytest.warns(ConvergenceWarning, match=LEFT) as caught:
        calibrator = streamed(Z, y)
    assert abs(of_fit(calibrator, Z, y)) < 5e-3
    assert all(len(str(each.message).splitlines()) == 1 for each in caught)
    order = np.random.default_rng(0).permutation(len(y))
    assert abs(of_fit(streamed(Z[order], y[order]), Z[order], y[order])) < 2e-9


def test_the_standard_error_is_of_the_size_of_the_error():
    ratios = []
    for seed in range(12):
        Z, y = drifting(seed)
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            # So that the last batch is the one that leaves the range.
            calibrator = streamed(Z, y, [8000])
        (message,) = [str(each.message) for each in caught if LEFT in str(each.message)]
        ratios.append(of_fit(calibrator, Z, y) / measured_error(message))
    assert max(map(abs, ratios)) < 4
    assert 0.3 < np.sqrt(np.mean(np.square(ratios))) < 2


def test_a_start_without_a_misclassified_row():
    Z, y = drawn(16000)
    y[:6000] = Z[:6000].argmax(axis=1)
    calibrator = TemperatureScaling()
    with pytest.warns(ConvergenceWarning, match="lower bound of T"):
        streamed(Z[:5000], y[:5000], calibrator=calibrator)
    fitted = TemperatureScaling()
    with pytest.warns(ConvergenceWarning, match="lower bound of T"):
        fitted.fit(Z[:5000], y[:5000])
    assert calibrator.temperature_ == pytest.approx(fitted.temperature_, rel=1e-9)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        streamed(Z[5000:], y[5000:], calibrator=calibrator)
    assert abs(of_fit(calibrator, Z, y)) < 2e-2


@pytest.mark.filterwarnings("ignore:The largest score of a row belongs to its label")
def test_scores_that_know_nothing_meet_the_upper_bound():
    Z, y = drawn(9000)
    y = Z.argmin(axis=1)
    with pytest.warns(ConvergenceWarning, match="upper bound of T"):
        calibrator = streamed(Z, y)
    with pytest.warns(ConvergenceWarning, match="upper bound of T"):
        assert abs(of_fit(calibrator, Z, y)) < 1e-9


def test_constant_rows():
    unknown = TemperatureScaling(input="logits")
    calibrator = streamed(np.zeros((9000, 2)), np.arange(9000) % 2, calibrator=unknown)
    assert calibrator.temperature_ == 1.0
    # The kept rows know nothing of the few that have a gap.
    Z, y = np.zeros((9000, 2)), np.arange(9000) % 2
    Z[8701:8999:2, 0], y[8701:8999:2] = 3.0, 0
    y[8701:8711:2] = 1
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        calibrator = streamed(Z, y, calibrator=clone(unknown))
    # 144 of 149 rows are right: 3 / T = log(144 / 5)
    assert calibrator.temperature_ == pytest.approx(3 / np.log(144 / 5), rel=1e-6)


def test_fit_forgets_all_batches_and_partial_fit_does_not_go_on_from_fit():
    Z, y = drawn(6000)
    calibrator = streamed(Z, y)
    calibrator.fit(Z[:100], y[:100])
    assert calibrator.temperature_ == TemperatureScaling().fit(Z[:100], y[:100]).temperature_
    refused("fitted by fit", calibrator.partial_fit, Z, y)
    fresh = clone(calibrator).partial_fit(Z, y)
    assert abs(of_fit(fresh, Z, y)) < 2e-9


def test_classes_of_the_first_call():
    Z, y = drawn(300)
    first, later = np.isin(y, [1, 2]), slice(None)
    refused("pass classes=", TemperatureScaling().partial_fit, Z[first], y[first])
    calibrator = TemperatureScaling().partial_fit(Z[first], y[first], classes=[0, 1, 2, 3])
    calibrator.partial_fit(Z[later], y[later]).partial_fit(Z, y, classes=[0, 1, 2, 3])
    refused("differ from earlier batches", calibrator.partial_fit, Z, y, classes=[0, 1, 2, 4])
    refused("label 7 at row 2 is not in classes", calibrator.partial_fit, Z[:3], [0, 1, 7])
    with pytest.raises(ValueError, match="differ from the parameter classes"):
        TemperatureScaling(classes=range(4)).partial_fit(Z, y, classes=range(1, 5))
    given = TemperatureScaling(classes=range(4)).partial_fit(Z[first], y[first])
    np.testing.assert_array_equal(given.classes_, range(4))


def test_later_batches_are_checked_against_the_first():
    Z, y = drawn(300)
    calibrator = TemperatureScaling().partial_fit(Z, y)
    refused("fitted on logits", calibrator.partial_fit, softmax(Z, axis=1), y)
    refused("features", calibrator.partial_fit, Z[:, :3], y % 3)
    on_proba = TemperatureScaling().partial_fit(softmax(Z, axis=1), y)
    refused("row 0", on_proba.partial_fit, Z, y)
    refused("NaN", calibrator.partial_fit, np.full((2, 4), np.nan), [0, 1])
    refused("None was passed", calibrator.partial_fit, Z, None)
    for objective in ("brier", "soft_binned", skcalib.metrics.static_calibration_error):
        calibrator = TemperatureScaling(objective=objective)
        assert not hasattr(calibrator, "partial_fit")
        with pytest.raises(AttributeError, match="has no attribute 'partial_fit'") as error:
            calibrator.partial_fit(Z, y)
        assert "supports only objective='nll'" in str(error.value.__cause__)


def test_a_dask_array_is_for_fit():
    dask_array = pytest.importorskip("dask.array", reason="needs the extra dask")
    Z, y = drawn(300)
    calibrator = TemperatureScaling()
    for _ in range(2):
        with pytest.raises(TypeError, match="would be loaded whole"):
            calibrator.partial_fit(dask_array.from_array(Z), dask_array.from_array(y))
        calibrator.partial_fit(Z, y)


def test_a_failed_batch_changes_nothing():
    Z, y = drawn(9000)
    calibrator = streamed(Z[:8000], y[:8000])
    for bad in (np.full((5, 4), np.nan), np.ones((5, 3))):
        refused("NaN|features", calibrator.partial_fit, bad, np.zeros(5, dtype=int))
    assert abs(of_fit(calibrator.partial_fit(Z[8000:], y[8000:]), Z, y)) < 2e-9


def test_a_copy_goes_on_by_itself():
    Z, y = drawn(9000)
    calibrator = streamed(Z[:5000], y[:5000])
    T = calibrator.temperature_
    for twin in (copy.deepcopy(calibrator), pickle.loads(pickle.dumps(calibrator))):
        assert abs(of_fit(twin.partial_fit(Z[5000:], y[5000:]), Z, y)) < 2e-9
    assert calibrator.temperature_ == T


def test_a_file_predicts_and_does_not_go_on(tmp_path):
    Z, y = drawn(6000)
    calibrator = streamed(Z, y)
    path = tmp_path / "calibrator.json"
    skcalib.save_json(calibrator, path)
    assert path.stat().st_size < 2000  # no rows
    read = skcalib.load_json(path)
    np.testing.assert_array_equal(read.predict_proba(Z), calibrator.predict_proba(Z))
    refused("read from a file", read.partial_fit, Z, y)
