"""Loops over blocks: order, threads, memory."""

import os
import signal
import threading
import time

import joblib
import numpy as np
import pytest
from discovery import CALIBRATORS, ERRORS
from scores_and_labels import sample
from sklearn.base import clone
from threadpoolctl import threadpool_info, threadpool_limits

from skcalib._arrays.rowwise import column_blocks, row_blocks, transpose_into
from skcalib._arrays.sources import map_blocks, one_blas_thread, thread_count


def test_blocks_cover_every_row_and_every_column_once():
    for n, k in [(1, 1), (7, 3), (100_000, 10), (3, 200_000)]:
        for blocks, length in ((row_blocks(n, k), n), (column_blocks(n, k), k)):
            covered = [i for block in blocks for i in range(block.start, block.stop)]
            assert covered == list(range(length))


@pytest.mark.parametrize("blocks", [row_blocks, column_blocks])
@pytest.mark.parametrize("width", [1, 3, 1000, 5000])
def test_a_block_fills_the_bytes_it_may_and_no_more(blocks, width):
    """As many rows of 8-byte numbers as fit into 8000 bytes, at least one."""
    size = (2001, width) if blocks is row_blocks else (width, 2001)
    longest = max(block.stop - block.start for block in blocks(*size, block_bytes=8000))
    assert longest == max(1, 1000 // width)


@pytest.mark.parametrize("shape", [(1, 1), (3, 2000), (1500, 4), (512, 512), (1024, 1)])
def test_a_transposition_by_tiles_is_the_transposition(shape):
    A = np.arange(np.prod(shape), dtype=np.float32).reshape(shape)
    for given in (A, np.asfortranarray(A)):
        out = np.empty(shape[::-1])
        transpose_into(given, out)
        assert np.array_equal(out, A.T)


@pytest.mark.parametrize("n_jobs", [1, 2, 5])
@pytest.mark.parametrize("n_blocks", [0, 1, 3, 4, 8, 9, 100])
def test_results_come_in_the_order_of_the_blocks(n_jobs, n_blocks):
    def late_if_even(block):
        time.sleep(0.001 * (block.start % 2 == 0))
        return block.start

    blocks = [slice(i, i + 1) for i in range(n_blocks)]
    with joblib.parallel_config(n_jobs=n_jobs):
        assert list(map_blocks(late_if_even, blocks, at_a_time=4)) == list(range(n_blocks))


def test_a_long_loop_uses_the_threads_it_is_given_and_a_short_one_none():
    running, most, lock = 0, 0, threading.Lock()

    def who(_):
        nonlocal running, most
        with lock:
            running += 1
            most = max(most, running)
        time.sleep(0.005)
        with lock:
            running -= 1
        return threading.get_ident()

    here = threading.get_ident()
    with joblib.parallel_config(n_jobs=3):
        long = list(map_blocks(who, map(slice, range(40)), at_a_time=2))
        assert len(set(long)) == 3
        assert here not in long
        assert set(map_blocks(who, map(slice, range(2)), at_a_time=2)) == {here}
    assert most == 3
    with joblib.parallel_config(n_jobs=1):
        assert set(map_blocks(who, map(slice, range(40)), at_a_time=2)) == {here}


def test_n_jobs_decides_then_a_worker_stands_alone_then_threadpoolctl():
    with joblib.parallel_config(n_jobs=7):
        assert thread_count() == 7
    with joblib.parallel_config(n_jobs=-1):
        assert thread_count() == joblib.cpu_count()
    inside = joblib.Parallel(n_jobs=2, backend="threading")(
        joblib.delayed(thread_count)() for _ in range(2)
    )
    assert inside == [1, 1]
    with threadpool_limits(1):
        assert thread_count() == 1
        with joblib.parallel_config(n_jobs=2):
            assert thread_count() == 2


def blas_threads():
    return {pool["num_threads"] for pool in threadpool_info() if pool["user_api"] == "blas"}


def test_blas_has_one_thread_while_loops_have_as_many_as_before():
    with threadpool_limits(3):
        with one_blas_thread():
            assert blas_threads() == {1}
            assert thread_count() == min(3, joblib.cpu_count())
            with one_blas_thread():
                assert thread_count() == min(3, joblib.cpu_count())
            assert blas_threads() == {1}
            with joblib.parallel_config(n_jobs=5):
                assert thread_count() == 5
        assert blas_threads() == {3}
        with pytest.raises(RuntimeError, match="stopped"), one_blas_thread():
            raise RuntimeError("stopped")
        assert blas_threads() == {3}
    with threadpool_limits(1):
        assert thread_count() == 1
        with one_blas_thread():
            assert thread_count() == 1


def test_blas_has_its_threads_back_whoever_of_two_leaves_first():
    first_in, second_in, first_out = (threading.Event() for _ in range(3))

    def second():
        first_in.wait(20)
        with one_blas_thread():
            second_in.set()
            first_out.wait(20)

    with threadpool_limits(2):
        other = threading.Thread(target=second, daemon=True)
        other.start()
        with one_blas_thread():
            first_in.set()
            assert second_in.wait(20)
            assert blas_threads() == {1}
        assert blas_threads() == {2}
        first_out.set()
        other.join(20)
        assert blas_threads() == {2}


def test_threads_are_kept_and_a_loop_within_a_loop_has_its_own():
    def who(_):
        time.sleep(0.002)
        return threading.get_ident()

    def within(block):
        with joblib.parallel_config(n_jobs=3):
            return {who(block), *map_blocks(who, map(slice, range(12)), at_a_time=1)}

    def nested():
        with joblib.parallel_config(n_jobs=3):
            found.update(*map_blocks(within, map(slice, range(30)), at_a_time=1))

    with joblib.parallel_config(n_jobs=3):
        first = set(map_blocks(who, map(slice, range(30)), at_a_time=1))
        again = set(map_blocks(who, map(slice, range(30)), at_a_time=1))
    assert first == again
    found: set[int] = set()
    apart = threading.Thread(target=nested, daemon=True)
    apart.start()
    apart.join(20)
    assert not apart.is_alive(), "threads wait for each other"
    assert found > first


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system does not fork")
@pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning")
def test_a_forked_process_starts_threads_of_its_own():
    def total():
        with joblib.parallel_config(n_jobs=2):
            return sum(map_blocks(lambda block: block.stop, map(slice, range(100)), at_a_time=2))

    assert total() == 4950
    child = os.fork()
    if not child:
        signal.alarm(10)  # ends the child if it waits for threads that it does not have
        os._exit(0 if total() == 4950 else 1)
    assert os.waitpid(child, 0)[1] == 0


def test_waiting_results_are_few_and_an_abandoned_loop_stops():
    started = []

    def note(block):
        started.append(block)

    with joblib.parallel_config(n_jobs=2):
        loop = map_blocks(note, map(slice, range(1000)), at_a_time=1)
        next(loop)
        time.sleep(0.02)
        loop.close()
    assert len(started) <= 5


def test_an_error_in_a_thread_is_raised_and_its_first_block_wins():
    def fail(block):
        if block.start in (5, 30):
            raise ValueError(f"block {block.start}")

    with joblib.parallel_config(n_jobs=3), pytest.raises(ValueError, match="block 5"):
        list(map_blocks(fail, (slice(i, i + 1) for i in range(40)), at_a_time=2))


@pytest.fixture
def many_jobs(monkeypatch, small_blocks):
    """Blocks of a few rows or one column, so that small arrays make long loops."""
    small_blocks(5)
    monkeypatch.setattr("skcalib._arrays.rowwise.column_blocks.__defaults__", (1, 0))
    monkeypatch.setattr("skcalib._scores.one_vs_rest.SORTED_BLOCK_BYTES", 1)


@pytest.mark.parametrize("calibrator", CALIBRATORS, ids=repr)
def test_the_number_of_threads_changes_no_bit_of_a_calibrator(calibrator, many_jobs):
    Z, code = sample("logits")
    found = []
    for n_jobs in (1, 5):
        with joblib.parallel_config(n_jobs=n_jobs):
            found.append(clone(calibrator).fit(Z, code).predict_proba(Z))
    assert np.array_equal(found[0], found[1])


@pytest.mark.parametrize("metric", ERRORS, ids=lambda metric: metric.__name__)
def test_the_number_of_threads_changes_no_bit_of_a_metric(metric, many_jobs):
    P, code = sample("proba")
    found = []
    for n_jobs in (1, 2, 5):
        with joblib.parallel_config(n_jobs=n_jobs):
            found.append(metric(code, P))
    assert found[0] == found[1] == found[2]
