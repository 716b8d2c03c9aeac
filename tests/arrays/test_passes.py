"""Passes over a source that has no array: everything reads blocks, and few passes of them."""

import pickle
from functools import partial

import cloudpickle
import numpy as np
import pytest
from calls import refused
from discovery import CALIBRATORS, DEFAULTS, ERRORS
from scores_and_labels import K, N, sample
from sklearn.base import clone

from skcalib import TemperatureScaling, VectorScaling, metrics
from skcalib._arrays import sources


class CountingSource(sources.Source):
    """Numbers of which only blocks can be read, by kernels that were sent to another process.

    ``passes`` is the number of numbers read, as a multiple of all of them.
    """

    def __init__(self, array, most_rows):
        self.shape, self.dtype = array.shape, array.dtype
        self.array = array
        self.most_rows = most_rows
        self.n_read = 0

    @property
    def passes(self):
        return self.n_read / self.array.size

    def read(self, rows, columns=sources.ALL):
        block = self.array[rows, columns]
        assert len(block) <= self.most_rows or block.shape[1] == 1, "more than a block is read"
        self.n_read += block.size
        return block

    def run(self, task, blocks, at_a_time):
        assert at_a_time >= 1
        if getattr(task, "func", None) in (sources.apply, sources.fill):
            # Other tasks read whole columns, or features.
            kernel, *rest = task.args
            task = partial(task.func, pickle.loads(cloudpickle.dumps(kernel)), *rest)
        return map(task, blocks)


@pytest.fixture
def counting(monkeypatch, small_blocks):
    """Make counting sources; blocks have 25 rows and selections are not copied."""
    monkeypatch.setattr("skcalib._arrays.selection.COPIED_BYTES", 0)
    monkeypatch.setattr("skcalib._arrays.rowwise.row_blocks.__defaults__", (8 * K * 25,))
    small_blocks(25)
    return partial(CountingSource, most_rows=2 * 25)


@pytest.mark.parametrize(("kind", "weighted"), [("logits", True), ("proba", False)])
@pytest.mark.parametrize("calibrator", CALIBRATORS, ids=repr)
def test_a_calibrator_of_a_source_is_that_of_an_array(calibrator, kind, weighted, counting):
    X, code = sample(kind)
    w = np.random.default_rng(1).integers(0, 3, N).astype(float) if weighted else None
    expected = clone(calibrator).fit(X, code, w).predict_proba(X)
    found = clone(calibrator).fit(counting(X), code, w).predict_proba(counting(X))
    np.testing.assert_array_equal(found, expected, strict=True)


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("metric", ERRORS, ids=lambda metric: metric.__name__)
def test_an_error_of_a_source_is_that_of_an_array(metric, weighted, counting):
    P, code = sample("proba")
    w = np.random.default_rng(1).integers(0, 3, N).astype(float) if weighted else None
    expected = metric(code, P, sample_weight=w)
    assert metric(code, counting(P), sample_weight=w) == expected


@pytest.mark.parametrize("kind", ["logits", "proba"])
@pytest.mark.parametrize("calibrator", DEFAULTS, ids=repr)
def test_a_prediction_reads_its_scores_once(calibrator, kind, counting):
    """They are checked as they are mapped."""
    X, code = sample(kind)
    source = counting(X)
    clone(calibrator).fit(X, code).predict_proba(source)
    assert source.passes == 1


@pytest.mark.parametrize(
    ("metric", "passes"),
    [
        (metrics.expected_calibration_error, 2),
        (metrics.static_calibration_error, 3),
        (metrics.ks_calibration_error, 2),
        (partial(metrics.ks_calibration_error, mode="classwise"), 2),
        (metrics.top_label_brier_score, 2),
        (metrics.avuc_loss, 3),
    ],
)
def test_an_error_reads_probabilities_few_times(metric, passes, counting):
    """Once to check them, and once to measure; SCE reads columns of many large entries again."""
    P, code = sample("proba")
    source = counting(P)
    metric(code, source)
    assert source.passes <= passes + 0.1


@pytest.mark.parametrize("calibrator", [TemperatureScaling(), VectorScaling()], ids=repr)
def test_a_fit_of_few_logits_reads_them_a_few_times(calibrator, counting):
    """What the passes of the optimiser read is cached."""
    X, code = sample("logits")
    source = counting(X)
    calibrator.fit(source, code)
    assert source.passes <= 8


def test_a_refused_row_is_named_by_its_number(counting):
    P, code = sample("proba")
    calibrator = TemperatureScaling().fit(P, code)
    P[131, 2] = np.nan
    for call in (calibrator.predict_proba, partial(TemperatureScaling().fit, y=code)):
        refused(r"NaN at row 131, column 2: NaN \(class not", call, counting(P))


# ------------------------------------------------------------------ the passes themselves


def double(block, w=None):
    return 2 * block if w is None else 2 * block * w[:, None]


def totals(block, w):
    return block.sum(axis=0), float(len(block)), w @ block


def first_and_sum(block, rows):
    return block[:, 0], rows.start


@pytest.mark.parametrize(
    "work", [sources.ROWS, sources.LIGHT, sources.Work(1, 1), sources.Work(100, 3, products=True)]
)
def test_passes_are_what_they_are_of_the_whole(work):
    A, w = np.random.default_rng(0).normal(size=(70, 3)), np.arange(70.0)
    source = sources.ArraySource(A)
    columns, count, weighted = sources.sum_rows(totals, source, w, work=work)
    np.testing.assert_allclose(columns, A.sum(axis=0), rtol=1e-12)
    np.testing.assert_allclose(weighted, w @ A, rtol=1e-12)
    assert count == 70
    parts = sources.merge_rows(double, source, None, work=work)
    np.testing.assert_array_equal(np.concatenate(parts), 2 * A)
    out, first = np.empty((70, 3)), np.empty(70)
    assert sources.map_rows(double, source, w, out=out, work=work)[0] is None
    np.testing.assert_array_equal(out, 2 * A * w[:, None])
    starts = sources.map_rows(first_and_sum, source, range(70), out=(first,), work=work)
    np.testing.assert_array_equal(first, A[:, 0])
    assert starts == [rows.start for rows in work.blocks(source)]
