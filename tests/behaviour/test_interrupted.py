"""Ctrl-C in the middle of a fit leaves everything as it was, ready for the next fit."""

import _thread
import signal
import threading
from contextlib import contextmanager

import joblib
import pytest
from discovery import CALIBRATORS, DEFAULTS
from numpy.testing import assert_array_equal
from sklearn.base import clone
from sklearn.naive_bayes import GaussianNB

import skcalib._arrays.rowwise
import skcalib._arrays.sources
from skcalib import CalibratedClassifier, IdentityCalibrator, MatrixScaling, compare_calibrators
from skcalib._scores.scores import Scores
from skcalib.testing._promises import make_sample

Z, CODE, _ = make_sample("logits", 3, n=60)
OTHER, OTHER_CODE, _ = make_sample("logits", 3, n=60, seed=5)

# What every fit stands on: the scores as logits, as probabilities, and by class.
KERNELS = ("logits", "proba", "proba_columns", "log_odds_columns", "best")


@contextmanager
def interrupted_at(m):
    """Interrupt the m-th use of the scores; yield the list of the uses so far."""
    used = []

    def counted(whole):
        def kernel(*args, **keywords):
            used.append(1)
            if len(used) == m:
                raise KeyboardInterrupt
            return whole(*args, **keywords)

        return kernel

    with pytest.MonkeyPatch.context() as patch:
        for name in KERNELS:
            patch.setattr(Scores, name, counted(getattr(Scores, name)))
        yield used


def moments(call):
    """Return a moment in the middle of a call, and the last one."""
    with interrupted_at(-1) as used:
        call()
    return sorted({(len(used) + 1) // 2, len(used)} - {0})


@pytest.mark.parametrize("calibrator", CALIBRATORS, ids=str)
def test_an_interrupted_calibrator_is_as_before_and_reusable(calibrator):
    expected = clone(calibrator).fit(Z, CODE).predict_proba(Z)
    fitted, unfitted = clone(calibrator).fit(Z, CODE), clone(calibrator)
    states = [joblib.hash(vars(subject)) for subject in (fitted, unfitted)]
    found = moments(lambda: clone(calibrator).fit(OTHER, OTHER_CODE))
    assert found or isinstance(calibrator, IdentityCalibrator)
    for m in found:
        for subject, state in zip((fitted, unfitted), states, strict=True):
            with interrupted_at(m), pytest.raises(KeyboardInterrupt):
                subject.fit(OTHER, OTHER_CODE)
            assert joblib.hash(vars(subject)) == state
    assert_array_equal(fitted.predict_proba(Z), expected)
    assert_array_equal(unfitted.fit(Z, CODE).predict_proba(Z), expected)


@pytest.mark.parametrize("ensemble", [False, True])
def test_an_interrupted_calibrated_classifier_is_as_before_and_reusable(ensemble):
    model = CalibratedClassifier(GaussianNB(), cv=2, ensemble=ensemble).fit(Z, CODE)
    expected, state = model.predict_proba(Z), joblib.hash(vars(model))
    for m in moments(lambda: clone(model).fit(OTHER, OTHER_CODE)):
        with interrupted_at(m), pytest.raises(KeyboardInterrupt):
            model.fit(OTHER, OTHER_CODE)
        assert joblib.hash(vars(model)) == state
    assert_array_equal(model.predict_proba(Z), expected)
    assert_array_equal(model.fit(Z, CODE).predict_proba(Z), expected)


def test_an_interrupted_comparison_stops_and_leaves_its_calibrators_alone():
    """It is not one more calibrator that has no numbers."""
    calibrators = {type(c).__name__: clone(c) for c in DEFAULTS[-3:]}

    def compare():
        return compare_calibrators(Z, CODE, calibrators, metrics=["log_loss"], cv=2)

    before = {name: joblib.hash(vars(c)) for name, c in calibrators.items()}
    for m in moments(compare):
        with interrupted_at(m), pytest.raises(KeyboardInterrupt):
            compare()
        assert {name: joblib.hash(vars(c)) for name, c in calibrators.items()} == before
    assert set(compare().frame.index) >= set(calibrators)


# ------------------------------------------------------------------ in threads, and for real


def pool_threads():
    """Threads are kept for the next loop: those that there are once a loop has run."""
    return {t for t in threading.enumerate() if t.name.startswith("skcalib")}


@pytest.fixture
def many_blocks(monkeypatch, small_blocks):
    """Make loops of small arrays use the pool of threads, as those of large ones do."""
    monkeypatch.setattr(skcalib._arrays.sources, "thread_count", lambda: 3)
    small_blocks(20)


@pytest.mark.parametrize("calibrator", DEFAULTS, ids=str)
def test_an_interrupt_in_a_thread_reaches_the_caller(calibrator, many_blocks):
    """And no thread is left behind."""
    X, code, _ = make_sample("logits", 3, n=800)
    subject, middle = clone(calibrator), moments(lambda: clone(calibrator).fit(X, code))[:1]
    before, state = pool_threads(), joblib.hash(vars(subject))
    for m in middle:
        with interrupted_at(m), pytest.raises(KeyboardInterrupt):
            subject.fit(X, code)
        assert joblib.hash(vars(subject)) == state
    assert pool_threads() == before


def fit_for_ever(calibrator, X, code):
    while True:
        calibrator.fit(X, code)


@pytest.mark.skipif(not hasattr(signal, "setitimer"), reason="this system has no interval timers")
@pytest.mark.parametrize("threads", [1, 2])
def test_a_real_interrupt_ends_fits_within_seconds(threads, monkeypatch):
    """Fits that would go on for ever, interrupted by a timer's signal."""
    monkeypatch.setattr(skcalib._arrays.sources, "thread_count", lambda: threads)
    X, code, _ = make_sample("logits", 4, n=60_000)
    subject = MatrixScaling().fit(X, code)
    before = pool_threads()
    guard = threading.Timer(20, _thread.interrupt_main)
    previous = signal.signal(signal.SIGALRM, signal.default_int_handler)
    guard.start()
    signal.setitimer(signal.ITIMER_REAL, 0.2)
    try:
        with pytest.raises(KeyboardInterrupt):
            fit_for_ever(subject, X, code)
        assert guard.is_alive()
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, previous)
        guard.cancel()
        guard.join()
    assert pool_threads() == before
    expected = MatrixScaling().fit(Z, CODE).predict_proba(Z)
    assert_array_equal(subject.fit(Z, CODE).predict_proba(Z), expected)
