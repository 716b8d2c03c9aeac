"""Arrays that are not in memory are refused by their size, before anything is loaded."""

from functools import partial

import numpy as np
import polars as pl
import pytest
from calls import refused

from skcalib import TemperatureScaling
from skcalib.metrics import expected_calibration_error


class Lazy:
    """An array that would be computed when it is read."""

    def __init__(self, shape, dtype=np.float64):
        self.shape = shape
        self.dtype = np.dtype(dtype)

    def __dask_graph__(self):
        return {}

    def __array__(self, *args, **keywords):
        raise AssertionError("it was read")

    def compute(self):
        raise AssertionError("it was computed")


Lazy.__module__ = "dask.array.core"


ECE, FIT = expected_calibration_error, TemperatureScaling().fit
WHOLE = "which would be loaded whole"
LOADED = [
    (
        partial(FIT, Lazy((10**6, 1000)), [0, 1]),
        rf"X is a dask.Lazy of shape \(1000000, 1000\), 7.45 GiB, {WHOLE}: "
        r"pass X.compute\(\) if it fits into memory, or some of its rows",
    ),
    (
        partial(ECE, [0, 1], Lazy((np.nan, 10))),
        rf"y_proba is a dask.Lazy of shape \(nan, 10\), {WHOLE}",
    ),
    (partial(ECE, Lazy((2000,), np.int64), [[0.5, 0.5]]), r"y_true is .* \(2000,\), 15.6 KiB"),
    (
        partial(ECE, [0, 1], [0.2, 0.8], sample_weight=Lazy((2,))),
        r"sample_weight is a dask.Lazy of shape \(2,\), 16 bytes",
    ),
    (
        partial(FIT, pl.LazyFrame({"a": [0.5], "b": [0.5]}), [0]),
        rf"X is a polars.LazyFrame, {WHOLE}: pass X.collect\(\)",
    ),
]


@pytest.mark.parametrize(("call", "message"), LOADED)
def test_a_lazy_array_is_refused_by_name_and_size(call, message):
    refused(message, call, error=TypeError)


def test_a_memory_map_is_an_array(tmp_path):
    P = np.full((4, 2), 0.5)
    np.save(tmp_path / "P.npy", P)
    mapped = np.load(tmp_path / "P.npy", mmap_mode="r")
    assert expected_calibration_error([0, 1, 0, 1], mapped) == 0
