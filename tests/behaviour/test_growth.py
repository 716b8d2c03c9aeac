"""Time grows in proportion to the data: the exponent is asserted, never seconds."""

import gc
import time
from functools import cache

import joblib
import numpy as np
import pytest

import skcalib

pytestmark = pytest.mark.slow

FITS = [
    skcalib.TemperatureScaling(),
    skcalib.VectorScaling(),
    skcalib.PlattScaling(),
    skcalib.BetaCalibrator(),
    skcalib.HistogramBinning(),
    skcalib.IsotonicCalibrator(),
    skcalib.SplineCalibrator(),
    skcalib.EnsembleTemperatureScaling(),
    skcalib.VennAbersCalibrator(),
    skcalib.BayesianBinning(),
]
ERRORS = {
    "ece": skcalib.metrics.expected_calibration_error,
    "sce": skcalib.metrics.static_calibration_error,
    "ace": skcalib.metrics.adaptive_calibration_error,
    "ks": skcalib.metrics.ks_calibration_error,
    "ks classwise": lambda y, P: skcalib.metrics.ks_calibration_error(y, P, mode="classwise"),
    "smooth": skcalib.metrics.smooth_calibration_error,
    "kde": skcalib.metrics.kde_calibration_error,
    "sweep": skcalib.metrics.sweep_calibration_error,
    "mmce": skcalib.metrics.maximum_mean_calibration_error,
}
JOBS = {type(fit).__name__: fit for fit in FITS} | ERRORS
# A sort adds a logarithm, caches a little; a quadratic step would show as 2.
LINEAR = 1.35
# Of n K scores in all, a job of n^a work for each class grows with K by the exponent 1 - a. The
# bins of all binnings, 50 n^(2/3) a class, are most of what BayesianBinning looks at.
GROWTH_WITH_CLASSES = {"BayesianBinning": 1 / 3}


@cache
def sample(n, n_classes):
    rng = np.random.default_rng(0)
    Z = rng.normal(size=(n, n_classes))
    code = rng.integers(n_classes, size=n)
    Z[np.arange(n), code] += 0.5
    # Half of the labels are drawn afresh, so that a best temperature exists.
    code[::2] = rng.integers(n_classes, size=code[::2].size)
    P = np.exp(Z)
    P /= P.sum(axis=1, keepdims=True)
    return Z, P, code, np.arange(n_classes)


def seconds(name, data):
    """Least processor time of three runs, in one thread: what others run is not counted.

    Of those of a fifth of a second two are enough: the first one asks for memory.
    """
    Z, P, code, classes = data
    job = JOBS[name]

    def run():
        if name in ERRORS:
            job(code, P)
        else:
            job.set_params(classes=classes).fit(Z, code)

    times = []
    # A garbage collection walks over all that the tests before have left.
    gc.collect()
    gc.disable()
    try:
        with joblib.parallel_config(n_jobs=1):
            for _ in range(3):
                start = time.process_time()
                run()
                times.append(time.process_time() - start)
                if len(times) == 2 and times[1] > 0.2:
                    break
    finally:
        gc.enable()
    return min(times)


@pytest.mark.parametrize("name", JOBS)
def test_time_is_linear_in_the_number_of_rows(name):
    sizes = np.array([2_000, 20_000, 200_000])
    times = [seconds(name, sample(n, 10)) for n in sizes]
    slopes = np.diff(np.log(times)) / np.diff(np.log(sizes))
    assert slopes.max() < LINEAR, times


@pytest.mark.filterwarnings(
    "ignore:.*separate the rows", "ignore:no row of class"
)  # of 1 or 2 rows a class
@pytest.mark.parametrize("name", JOBS)
def test_time_does_not_grow_with_classes_where_the_array_stays_as_large(name):
    """From 2 classes to 1,000 in arrays of 1,000,000 scores: the cost of a class stays small."""
    few, many = (seconds(name, sample(1_000_000 // k, k)) for k in (2, 1000))
    growth = np.log(many / few) / np.log(500)
    assert growth - GROWTH_WITH_CLASSES.get(name, 0.0) < LINEAR - 1, (few, many)
