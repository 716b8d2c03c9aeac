"""Dask arrays: the same results as of NumPy arrays, in few passes, and never loaded whole."""

import gc
import importlib
import io
import weakref
from functools import partial

import numpy as np
import pandas as pd
import pytest
from calls import refused
from discovery import CALIBRATORS, DEFAULTS, ERRORS
from samples import drawn
from scores_and_labels import K, N, sample
from sklearn.base import clone
from sklearn.exceptions import NotFittedError

from skcalib import (
    AutoCalibrator,
    DirichletCalibrator,
    EnsembleTemperatureScaling,
    HistogramBinning,
    IsotonicCalibrator,
    MatrixScaling,
    PlattScaling,
    TemperatureScaling,
    VectorScaling,
    VennAbersCalibrator,
    metrics,
)
from skcalib._arrays.dask import DaskSource, dumped
from skcalib._arrays.sources import Remote
from skcalib._scores.scores import Scores

cloudpickle = pytest.importorskip("cloudpickle", reason="needs the extra dask")
dask = pytest.importorskip("dask", reason="needs the extra dask")
da = pytest.importorskip("dask.array", reason="needs the extra dask")

# Sizes of chunks: uneven rows with columns in pieces, and single rows.
CHUNKS = {"uneven": ((70, 1, 60, 39), (3, 1)), "rows": ((1,) * 3 + (100, 67), (4,))}
# Sums are added chunk by chunk, so their last digits differ; all else is the same code on the same
# numbers.
SUMS = (
    AutoCalibrator,
    DirichletCalibrator,
    EnsembleTemperatureScaling,
    MatrixScaling,
    TemperatureScaling,
    VectorScaling,
)


def weights():
    return np.random.default_rng(1).integers(0, 3, N).astype(float)


def lazy(A, chunks="uneven"):
    rows, columns = CHUNKS[chunks]
    return da.from_array(A, chunks=(rows, columns) if A.ndim == 2 else (rows,))


@pytest.fixture
def passes(monkeypatch):
    """A list with an entry for each pass over an array."""
    made = []
    computed = DaskSource._computed

    def counted(self, *args, **keywords):
        made.append(self)
        return computed(self, *args, **keywords)

    monkeypatch.setattr(DaskSource, "_computed", counted)
    return made


@pytest.fixture(autouse=True)
def no_labels_with_a_kernel(monkeypatch):
    """Fail where the labels of all rows are sent to each chunk."""

    def refuse_labels(thing, remote):
        def chunk_id(part):
            labels = isinstance(part, np.ndarray) and part.dtype.kind in "iu" and len(part) == N
            assert not labels, "a kernel refers to the labels of all rows"
            return "chunk" if isinstance(part, Remote) else None

        pickler = cloudpickle.CloudPickler(io.BytesIO())
        pickler.persistent_id = chunk_id
        pickler.dump(thing)
        return dumped(thing, remote)

    monkeypatch.setattr("skcalib._arrays.dask.dumped", refuse_labels)


def needs_all_rows(calibrator):
    return isinstance(calibrator, TemperatureScaling) and calibrator.objective == "soft_binned"


# ------------------------------------------------------------------ calibrators


@pytest.mark.parametrize(
    ("kind", "chunks", "weighted"), [("logits", "uneven", True), ("proba", "rows", False)]
)
@pytest.mark.parametrize(
    "calibrator", [each for each in CALIBRATORS if not needs_all_rows(each)], ids=repr
)
def test_a_calibrator_of_a_dask_array_is_that_of_an_array(calibrator, kind, chunks, weighted):
    X, code = sample(kind)
    w = weights() if weighted else None
    expected = clone(calibrator).fit(X, code, w)
    fitted = clone(calibrator).fit(
        lazy(X, chunks), lazy(code, chunks), None if w is None else lazy(w, chunks)
    )
    found = fitted.predict_proba(lazy(X, chunks))
    assert isinstance(found, da.Array)
    assert found.chunks[0] == CHUNKS[chunks][0]
    P = expected.predict_proba(X)
    if isinstance(calibrator, SUMS):
        np.testing.assert_allclose(found.compute(), P, rtol=0, atol=1e-6)
    elif isinstance(calibrator, HistogramBinning):
        np.testing.assert_allclose(found.compute(), P, rtol=0, atol=1e-12)
    else:
        np.testing.assert_array_equal(found.compute(), P)
    labels = fitted.predict(lazy(X, chunks))
    assert labels.dtype == fitted.classes_.dtype
    np.testing.assert_array_equal(labels.compute(), expected.predict(X))


@pytest.mark.parametrize(
    ("calibrator", "kind", "most"),
    [
        (TemperatureScaling(), "logits", 2),
        (TemperatureScaling(), "proba", 2),
        (EnsembleTemperatureScaling(), "proba", 3),
        (IsotonicCalibrator(), "proba", 2),
        (VennAbersCalibrator(), "proba", 2),
        (HistogramBinning(), "proba", 2),
        (PlattScaling(), "proba", 2),
        (VectorScaling(), "proba", 14),
        (MatrixScaling(), "proba", 27),
    ],
)
def test_a_fit_reads_an_array_a_few_times(calibrator, kind, most, passes):
    X, code = sample(kind)
    calibrator.fit(lazy(np.maximum(X, -30)), code)
    assert len(passes) <= most


@pytest.mark.parametrize("calibrator", [VectorScaling(), MatrixScaling()], ids=repr)
def test_steps_on_chunks_are_those_on_all_rows(calibrator):
    """Their direction comes from the same sample of the rows."""
    Z, code = drawn(5000, 3, noise=2, scale=3)
    expected = calibrator.fit(Z, code).predict_proba(Z)
    found = calibrator.fit(da.from_array(Z, chunks=(700, 3)), code).predict_proba(Z)
    np.testing.assert_allclose(found, expected, rtol=0, atol=1e-9)


def test_an_isotonic_fit_of_two_classes_and_a_venn_abers_interval():
    P, code = sample("proba", n_classes=2)
    X = da.from_array(P, chunks=(50, 1))
    venn_abers = VennAbersCalibrator().fit(X, code)
    found = venn_abers.predict_interval(X)
    assert found.shape == (N, 2, 2)
    expected = VennAbersCalibrator().fit(P, code).predict_interval(P)
    np.testing.assert_array_equal(found.compute(), expected)


@pytest.mark.parametrize("shape", ["(n,)", "(n, 1)"])
def test_one_column_is_a_number_for_each_row(shape):
    P, code = sample("proba", n_classes=2)
    p = P[:, 1] if shape == "(n,)" else P[:, 1:]
    X = da.from_array(p, chunks=50)
    expected = IsotonicCalibrator().fit(p, code).predict_proba(p)
    isotonic = IsotonicCalibrator().fit(X, da.from_array(code, chunks=60))
    np.testing.assert_array_equal(isotonic.predict_proba(X).compute(), expected)
    np.testing.assert_array_equal(isotonic.predict(X).compute(), expected.argmax(axis=1))
    soft = np.where(code == 1, 0.75, 0.25)
    found = PlattScaling().fit(X, da.from_array(soft, chunks=60)).coef_
    np.testing.assert_array_equal(found, PlattScaling().fit(p, soft).coef_)
    assert ECE(da.from_array(code, chunks=60), X) == ECE(code, p)


def test_strings_integers_and_short_floats():
    Z, code = sample("logits")
    names = np.array(["ant", "bee", "cat", "dog"])[code]
    X = lazy(np.round(Z.clip(-9, 9)).astype(int))
    fitted = TemperatureScaling().fit(X, da.from_array(names, chunks=60))
    expected = TemperatureScaling().fit(X.compute(), names)
    assert fitted.temperature_ == pytest.approx(expected.temperature_, rel=1e-8)
    np.testing.assert_array_equal(fitted.predict(X).compute(), expected.predict(X.compute()))
    short = lazy(Z.clip(-9, 9).astype(np.float16))
    fitted = TemperatureScaling().fit(short, code)
    assert fitted.predict_proba(short).compute().dtype == np.float32
    expected = TemperatureScaling().fit(short.compute(), code).temperature_
    assert fitted.temperature_ == pytest.approx(expected, rel=1e-8)


@pytest.mark.filterwarnings("ignore:The largest score of a row belongs to its label")
def test_a_calibrator_changed_later_does_not_change_a_prediction():
    X, code = sample("proba")
    isotonic = IsotonicCalibrator().fit(X, code)
    expected, lazily = isotonic.predict_proba(X), isotonic.predict_proba(lazy(X))
    isotonic.fit(X, (code + 1) % K)
    np.testing.assert_array_equal(lazily.compute(), expected)


# ------------------------------------------------------------------ metrics


@pytest.mark.parametrize(("chunks", "weighted"), [("uneven", True), ("rows", False)])
@pytest.mark.parametrize("metric", ERRORS, ids=lambda metric: metric.__name__)
def test_an_error_of_a_dask_array_is_that_of_an_array(metric, chunks, weighted, passes):
    P, code = sample("proba")
    w = weights() if weighted else None
    expected = metric(code, P, sample_weight=w)
    found = metric(lazy(code, chunks), lazy(P, chunks), sample_weight=w)
    assert found == pytest.approx(expected, abs=1e-12)
    assert len(passes) == 1
    if metric is not metrics.static_calibration_error:
        assert found == expected


POOLED = partial(metrics.general_calibration_error, max_prob=False, class_conditional=False)
PRESETS = {
    "KS of classes": partial(metrics.ks_calibration_error, mode="classwise"),
    "quantile bins": partial(metrics.expected_calibration_error, strategy="quantile"),
    "event": partial(metrics.expected_calibration_error, pos_label=2),
    "each class": partial(metrics.static_calibration_error, average=None),
    "above": partial(POOLED, class_conditional=True, threshold=0.1),
    "pooled": POOLED,
}


@pytest.mark.parametrize("n_classes", [2, K])
@pytest.mark.parametrize("name", PRESETS)
def test_presets_of_errors(name, n_classes, passes):
    P, code = sample("proba", n_classes=n_classes)
    code = code if n_classes == K else 2 * code  # labels 0 and 2
    found = PRESETS[name](code, da.from_array(P, chunks=(60, 1)))
    assert len(passes) == 1
    np.testing.assert_allclose(found, PRESETS[name](code, P), rtol=0, atol=1e-12)


STATISTICS = {
    "table": metrics.reliability_table,
    "curve": partial(metrics.calibration_curve, pos_label=1),
    "slope": partial(metrics.calibration_intercept_slope, pos_label=1),
    "test": partial(metrics.hosmer_lemeshow_test, pos_label=1),
    "z": partial(metrics.spiegelhalter_test, pos_label=1),
    "ratio": partial(metrics.observed_expected_ratio, pos_label=1),
    "local": metrics.local_calibration,
    "decomposition": metrics.score_decomposition,
    "summary": partial(metrics.calibration_summary, pos_label=1, random_state=0),
}


@pytest.mark.parametrize("n_classes", [2, K])
@pytest.mark.parametrize("name", STATISTICS)
def test_statistics_of_gathered_numbers(name, n_classes, few_label_sets):
    P, code = sample("proba", n_classes=n_classes)
    found = STATISTICS[name](code, da.from_array(P, chunks=(60, 1)))
    expected = STATISTICS[name](code, P)
    assert repr(found) == repr(expected)


def test_rounded_probabilities_are_divided_as_those_of_an_array(passes):
    """One chunk has to be divided, so all are: the pass is run again."""
    P, code = sample("proba")
    P[150:] = np.round(P[150:], 3)
    for metric in (metrics.static_calibration_error, metrics.expected_calibration_error):
        passes.clear()
        found = metric(code, lazy(P))
        assert len(passes) == 2
        assert found == pytest.approx(metric(code, P), abs=1e-12)
    isotonic = IsotonicCalibrator(input="proba").fit(lazy(P), code)
    expected = IsotonicCalibrator(input="proba").fit(P, code).X_thresholds_
    for own, other in zip(isotonic.X_thresholds_, expected, strict=True):
        np.testing.assert_array_equal(own, other)
    P[160] *= 1.005
    with pytest.warns(UserWarning, match="rows do not sum to 1, by up to 0.005; they were divided"):
        metrics.expected_calibration_error(code, lazy(P))


COMPUTED = {
    **{repr(each): each for each in DEFAULTS},
    **{metric.__name__: metric for metric in ERRORS},
    **STATISTICS,
}


@pytest.mark.filterwarnings("ignore:.*-inf is read", "ignore:fitting stopped")
@pytest.mark.parametrize("job", COMPUTED.values(), ids=list(COMPUTED))
def test_a_computed_chunk_is_freed_without_the_garbage_collector(job, few_label_sets):
    """At most one is alive at a time, of 10."""
    A, code = sample("logits" if hasattr(job, "fit") else "proba")
    made, alive = [], []

    def chunk(block_info=None):
        start, stop = block_info[None]["array-location"][0]
        rows = A[start:stop].copy()
        made.append(weakref.ref(rows))
        alive.append(sum(each() is not None for each in made))
        return rows

    X = da.map_blocks(chunk, chunks=((N // 10,) * 10, (K,)), dtype=A.dtype, meta=A[:0])
    gc.collect()
    gc.disable()
    try:
        with dask.config.set(scheduler="synchronous"):
            clone(job).fit(X, code) if hasattr(job, "fit") else job(code, X)
    finally:
        gc.enable()
    assert len(made) == 10 if job in ERRORS else len(made) >= 10
    assert max(alive) == 1


@pytest.mark.parametrize("fit", [False, True])
def test_a_pass_brings_as_many_columns_as_fit(fit, monkeypatch, passes):
    """Here one."""
    monkeypatch.setattr("skcalib._arrays.dask.COLUMNS_BYTES", 8 * N)
    P, code = sample("proba")

    def measure(P):
        if fit:
            return IsotonicCalibrator(input="proba").fit(P, code).X_thresholds_
        return metrics.adaptive_calibration_error(code, P, average=None)

    expected = measure(P)
    passes.clear()
    for own, other in zip(measure(lazy(P)), expected, strict=True):
        np.testing.assert_array_equal(own, other)
    assert len(passes) == K + fit  # and the checks of a fit


@pytest.mark.parametrize("zeros", [False, True])
@pytest.mark.parametrize("n_classes", [2, K])
def test_the_clip_of_chunks_is_that_of_all_rows(n_classes, zeros, passes):
    """It is found in the pass that checks them, unless rows are dropped or divided."""
    P, code = sample("proba", n_classes=n_classes)
    if zeros:
        P[P < 0.02] = 0
        P /= P.sum(axis=1, keepdims=True)
    for w, most in ((None, 2), (weights(), 3)):
        passes.clear()
        found = TemperatureScaling().fit(da.from_array(P, chunks=(60, 1)), code, w)
        assert len(passes) == most
        np.testing.assert_array_equal(found.clip_, TemperatureScaling().fit(P, code, w).clip_)
    P[150:] = np.round(P[150:], 3)
    found = TemperatureScaling(input="proba").fit(da.from_array(P, chunks=(60, 1)), code).clip_
    np.testing.assert_array_equal(found, TemperatureScaling(input="proba").fit(P, code).clip_)


# ------------------------------------------------------------------ lengths and errors


def test_chunks_of_unknown_length():
    X, code = sample("logits")
    kept = np.arange(N) % 3 > 0
    kept[70:131] = False  # two chunks are empty
    mask = lazy(kept)
    expected = TemperatureScaling().fit(X[kept], code[kept])
    for y in (lazy(code)[mask], code[kept]):  # lengths are those of y's chunks, or computed
        fitted = TemperatureScaling().fit(lazy(X)[mask], y)
        assert fitted.temperature_ == pytest.approx(expected.temperature_, rel=1e-8)
    found = fitted.predict_proba(lazy(X)[mask]).compute()
    np.testing.assert_allclose(found, expected.predict_proba(X[kept]), atol=1e-6)


def test_chunks_of_other_lengths_than_the_labels():
    X, code = sample("logits")
    mask = lazy(np.arange(N) % 3 > 0)
    with pytest.raises(ValueError, match="a chunk of X has 46 rows, that of y has 47"):
        TemperatureScaling().fit(lazy(X)[mask], lazy(code)[lazy(np.arange(N) % 3 < 2)])


def test_a_refused_row_is_named_by_its_number():
    P, code = sample("proba")
    P[131, 2] = np.nan
    P[150, 1] = np.nan
    for call in (TemperatureScaling().fit, metrics.static_calibration_error):
        arguments = (code, lazy(P)) if call is metrics.static_calibration_error else (lazy(P), code)
        refused(r"contains NaN .first at row 131, column 2.", call, *arguments)


@pytest.mark.parametrize(
    "name", ["predict", "predict_proba", "predict_log_proba", "predict_interval"]
)
def test_a_calibrator_that_is_not_fitted_says_so(name):
    for X in (np.eye(3), da.from_array(np.eye(3))):
        refused("not fitted yet", getattr(VennAbersCalibrator(), name), X, error=NotFittedError)


def test_errors_say_what_they_say_of_arrays():
    P, code = sample("proba")
    Z, _ = sample("logits")
    for bad, message in ((P / 2, "row 0 sums to 0.5, not 1"), (P - 0.5, "outside .0, 1.")):
        refused(message, metrics.expected_calibration_error, code, lazy(bad))
    refused("X has 170 rows, y has 169", TemperatureScaling().fit, lazy(Z), code[:-1])
    with pytest.raises(ValueError, match="X has 170 rows, y has 169"):
        TemperatureScaling().fit(lazy(Z), da.from_array(code[:-1], chunks=50))
    vector = VectorScaling().fit(Z, code)
    Z[140] = np.nan
    found = vector.predict_proba(lazy(Z))
    refused("In the chunk of rows 131 to 169: X contains NaN", found.compute)
    with pytest.raises(ValueError, match="has 3 features, but TemperatureScaling is expecting 4"):
        TemperatureScaling().fit(P, code).predict_proba(lazy(P)[:, :3])
    refused("0 sample", TemperatureScaling().fit, lazy(P)[:0], code[:0])


def test_a_dask_array_beside_a_numpy_array():
    P, code = sample("proba")
    with pytest.raises(TypeError, match="y is a dask array but X is not: pass both as dask arrays"):
        TemperatureScaling().fit(P, lazy(code))
    with pytest.raises(
        TypeError, match="y_true is a dask array but y_proba is not: .* y_true.comp"
    ):
        metrics.expected_calibration_error(lazy(code), P)
    with pytest.raises(TypeError, match="sample_weight is a dask array but y_proba is not"):
        metrics.expected_calibration_error(code, P, sample_weight=lazy(weights()))


ECE = metrics.expected_calibration_error
LOADED = {
    "soft-binned": TemperatureScaling(objective="soft_binned"),
    "a metric as its objective": TemperatureScaling(objective=metrics.static_calibration_error),
    "calibration_interval": partial(metrics.calibration_interval, ECE),
    "bootstrap_interval": partial(metrics.bootstrap_interval, ECE),
    "calibration_test": partial(metrics.calibration_test, ECE),
    "Calibration by group": partial(metrics.calibration_by_group, groups=np.arange(N) % 2),
    "Quantile bins of the probabilities of all classes": partial(POOLED, strategy="quantile"),
}


@pytest.mark.parametrize("name", LOADED)
def test_what_would_load_an_array_is_refused_by_its_size(name, passes):
    P, code = sample("proba")
    message = (
        rf"{name}.*: (X|y_proba) is a dask.Array of shape \(170, 4\), 5.31 KiB, which would be "
        r"loaded whole: pass (X|y_proba).compute\(\) if it fits into memory, or some of its rows"
    )
    job = LOADED[name]
    with pytest.raises(TypeError, match=message):
        job.fit(lazy(P), code) if hasattr(job, "fit") else job(code, lazy(P))
    assert len(passes) <= 2  # the checks of a fit


def test_no_code_reads_an_array_whole():
    P, _ = sample("proba")
    source = DaskSource(lazy(P), CHUNKS["uneven"][0], float, "X would be loaded whole")
    refused("X would be loaded whole", source.read, slice(None), error=TypeError)
    np.testing.assert_array_equal(source.read(slice(None), slice(1, 2)), P[:, 1:2])
    rows = np.array([140, 3, 71, 70])
    np.testing.assert_array_equal(source.read(rows), P[rows])
    refused("X would be loaded whole", source.take, rows, error=TypeError)
    np.testing.assert_array_equal(source.take(np.sort(rows)).read(slice(1, 3)), P[[70, 71]])


def test_labels_in_a_dask_series_are_passed_as_an_array():
    try:
        frames = importlib.import_module("dask.dataframe")
    except ImportError as error:  # it needs a newer pyarrow than the oldest here
        pytest.skip(str(error))
    P, code = sample("proba")
    y = frames.from_pandas(pd.Series(code), npartitions=2)
    way = r"pass y.compute\(\) if .*, y.to_dask_array\(lengths=True\) together with .*, or some"
    refused(way, IsotonicCalibrator().fit, lazy(P), y, error=TypeError)
    fitted = IsotonicCalibrator().fit(lazy(P), y.to_dask_array(lengths=True))
    expected = IsotonicCalibrator().fit(P, code)
    np.testing.assert_array_equal(fitted.predict_proba(P), expected.predict_proba(P))


def test_sums_over_all_rows_are_not_sent_to_each_chunk():
    Z = np.random.default_rng(0).normal(size=(5_000, 3))
    source = DaskSource(da.from_array(Z, chunks=(500, 3)), (500,) * 10, float, "")
    scores = Scores(source, "logits")
    np.testing.assert_allclose(scores.top_log_odds(), Scores(Z, "logits").top_log_odds())
    assert len(dumped(scores, source)) < 5_000
