"""Dask arrays on a cluster of processes, and in little memory."""

import os
import signal
import subprocess
import sys
import threading
import time

import numpy as np
import pytest
from calls import refused

import skcalib
from skcalib._arrays.dask import check_workers

da = pytest.importorskip("dask.array", reason="needs the extra dask")
distributed = pytest.importorskip("distributed", reason="needs the extra dask")

N, K = 3000, 5


@pytest.fixture(scope="module")
def client():
    with (
        distributed.LocalCluster(
            n_workers=2, threads_per_worker=1, dashboard_address=None, memory_limit="1GiB"
        ) as cluster,
        distributed.Client(cluster) as client,
    ):
        yield client


def problem(n=N):
    rng = np.random.default_rng(0)
    Z = 2 * rng.normal(size=(n, K))
    y = (Z / 2 + rng.gumbel(size=Z.shape)).argmax(axis=1)
    return Z, y, rng.integers(0, 3, n).astype(float)


@pytest.mark.slow
def test_fits_and_errors_on_a_cluster_are_those_of_one_process(client):
    Z, y, w = problem()
    X = da.from_array(Z, chunks=(700, 3)).persist()
    for calibrator in (
        skcalib.IsotonicCalibrator(),
        skcalib.PlattScaling(),
        skcalib.BayesianBinning(),
        skcalib.VennAbersCalibrator(),
        skcalib.HistogramBinning(strategy="quantile"),
        skcalib.SplineCalibrator(mode="classwise"),
    ):
        expected = calibrator.fit(Z, y, w).predict_proba(Z)
        found = calibrator.fit(X, y, w).predict_proba(X).compute()
        np.testing.assert_array_equal(found, expected)
    P = skcalib.PlattScaling().fit(Z, y).predict_proba(Z)
    lazy = da.from_array(P, chunks=(700, 3)).persist()
    for metric in (
        skcalib.metrics.expected_calibration_error,
        skcalib.metrics.static_calibration_error,
        skcalib.metrics.adaptive_calibration_error,
    ):
        assert metric(y, lazy, sample_weight=w) == pytest.approx(
            metric(y, P, sample_weight=w), abs=1e-12
        )
    assert skcalib.metrics.ks_calibration_error(y, lazy, mode="classwise") == (
        skcalib.metrics.ks_calibration_error(y, P, mode="classwise")
    )
    for calibrator in (skcalib.TemperatureScaling(), skcalib.VectorScaling()):
        expected = calibrator.fit(Z, y, w).predict_proba(Z)
        found = calibrator.fit(X, y, w).predict_proba(X).compute()
        np.testing.assert_allclose(found, expected, rtol=0, atol=1e-6)


def slowly(block, seconds=0.2):
    time.sleep(seconds)
    return block


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")  # of the cluster, about its lost worker
def test_a_fit_survives_the_end_of_a_worker(client):
    Z, y, _ = problem()
    X = da.from_array(Z, chunks=(300, K)).map_blocks(slowly, dtype=float)
    expected = skcalib.VectorScaling().fit(Z, y)
    workers = client.run(os.getpid)
    killer = threading.Timer(1.5, os.kill, (next(iter(workers.values())), signal.SIGKILL))
    killer.start()
    fitted = skcalib.VectorScaling().fit(X, y)
    killer.join()
    assert set(client.run(os.getpid).values()) != set(workers.values())
    np.testing.assert_allclose(
        fitted.predict_proba(Z), expected.predict_proba(Z), rtol=0, atol=1e-6
    )


def test_columns_larger_than_a_worker_are_refused():
    class Client:
        def scheduler_info(self):
            return {"workers": {"a": {"memory_limit": 8e9}, "b": {"memory_limit": 4e9}}}

    check_workers(Client(), 8e8, 10**8)
    message = (
        "needs 32 GB for a whole column of 1,000,000,000 rows, .* worker has 4 GB: use fewer rows "
        r"\(X\[::k\]\) or larger workers"
    )
    refused(message, check_workers, Client(), 8e9, 10**9)


PEAK = """
import resource
import sys

import dask
import dask.array as da
import numpy as np

from skcalib import {name}, metrics

N, K, ROWS = 600_000, 200, 20_000
few = np.random.default_rng(0).normal(size=(1000, K)).astype(np.float32)


def made(block_info):
    start = block_info[None]["array-location"][0][0]
    return np.tile(few, (ROWS // 1000, 1)) + np.float32(start % 7 / 1000) * few[0]


def peak():
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


y = np.random.default_rng(0).integers(0, K, N)
X = da.map_blocks(made, chunks=((ROWS,) * (N // ROWS), (K,)), dtype=np.float32)
{name}().fit(few, y[:1000])
before = peak()
with dask.config.set(scheduler="threads", num_workers=2):
    fitted = {name}().fit(X, y)
    metrics.expected_calibration_error(y, fitted.predict_proba(X))
print(peak() - before)
"""


@pytest.mark.slow
@pytest.mark.skipif(sys.platform == "win32", reason="resource is not there")
@pytest.mark.parametrize("name", ["TemperatureScaling", "IsotonicCalibrator"])
def test_the_peak_is_a_few_chunks_a_thread(name):
    """The array has 458 MiB, a chunk 15.3 MiB: 4 chunks for each of two threads, and 200 MB."""
    done = subprocess.run(
        [sys.executable, "-c", PEAK.format(name=name)], capture_output=True, text=True, check=True
    )
    assert float(done.stdout) <= 2 * 4 * 15.3 + 191
