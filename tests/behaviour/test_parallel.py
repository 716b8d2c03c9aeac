"""Fits at the same time give the numbers that they give alone, and nothing global changes."""

import os
import random
import warnings
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from inspect import signature

import joblib
import numpy as np
import pytest
from discovery import CALIBRATORS, DEFAULTS, ERRORS
from numpy.testing import assert_array_equal
from sklearn.base import clone
from sklearn.naive_bayes import GaussianNB
from threadpoolctl import threadpool_info

import skcalib
import skcalib._arrays.sources
import skcalib._validation.labels
import skcalib.calibrators
import skcalib.losses
import skcalib.metrics
from skcalib import CalibratedClassifier, ClassifierScores, compare_calibrators
from skcalib.testing._promises import make_sample

AT_ONCE = 32
NAMES = {str(calibrator) for calibrator in DEFAULTS}
SAMPLES = [make_sample(kind, 3, n=60, seed=seed)[:2] for seed in (0, 1)
           for kind in ("logits", "proba")]  # fmt: skip
P, CODE, _ = make_sample("proba", 3, n=60)


def fit(calibrator, sample):
    X, y = SAMPLES[sample]
    return clone(calibrator).fit(X, y).predict_proba(X)


@pytest.mark.parametrize(
    "calibrator",
    [pytest.param(c, marks=() if str(c) in NAMES else pytest.mark.slow) for c in CALIBRATORS],
    ids=str,
)
def test_32_fits_in_threads_are_those_alone(calibrator):
    alone = [fit(calibrator, sample) for sample in range(len(SAMPLES))]
    turns = [i % len(SAMPLES) for i in range(AT_ONCE)]
    with ThreadPoolExecutor(AT_ONCE) as pool:
        for sample, found in zip(turns, pool.map(lambda i: fit(calibrator, i), turns), strict=True):
            assert_array_equal(found, alone[sample])


@pytest.mark.parametrize("calibrator", DEFAULTS, ids=str)
def test_a_fitted_calibrator_answers_32_threads_at_once(calibrator):
    X, y = SAMPLES[0]
    fitted = clone(calibrator).fit(X, y)
    alone, state = fitted.predict_proba(X), joblib.hash(vars(fitted))
    with ThreadPoolExecutor(AT_ONCE) as pool:
        for found in pool.map(fitted.predict_proba, [X] * AT_ONCE):
            assert_array_equal(found, alone)
    assert joblib.hash(vars(fitted)) == state


@pytest.mark.parametrize("metric", ERRORS, ids=lambda metric: metric.__name__)
def test_32_metrics_in_threads_are_those_alone(metric):
    alone = metric(CODE, P)
    with ThreadPoolExecutor(AT_ONCE) as pool:
        found = list(pool.map(lambda _: metric(CODE, P), range(AT_ONCE)))
    assert found == [alone] * AT_ONCE


def answer(task):
    """Fit a calibrator on a sample, or take a metric."""
    which, sample = task
    return ERRORS[which](CODE, P) if sample is None else fit(DEFAULTS[which], sample)


# Some 60 tasks, all handed over at once.
TASKS = [
    *[(which, sample) for which in range(len(DEFAULTS)) for sample in range(len(SAMPLES))],
    *[(which, None) for which in range(0, len(ERRORS), 3)],
]


def test_fits_in_processes_are_those_alone():
    found = joblib.Parallel(n_jobs=2)(joblib.delayed(answer)(task) for task in TASKS)
    for task, given in zip(TASKS, found, strict=True):
        assert_array_equal(given, answer(task), err_msg=str(task))


@pytest.mark.parametrize("ensemble", [False, True])
@pytest.mark.parametrize("backend", ["loky", "threading"])
def test_folds_in_parallel_are_those_alone(backend, ensemble):
    X, y = SAMPLES[0]
    model = CalibratedClassifier(GaussianNB(), cv=4, ensemble=ensemble)
    alone = clone(model).fit(X, y).predict_proba(X)
    with joblib.parallel_config(backend=backend):
        found = clone(model).set_params(n_jobs=2).fit(X, y).predict_proba(X)
    assert_array_equal(found, alone)


# ------------------------------------------------------------------ what is not ours


MODULES = (skcalib, skcalib.calibrators, skcalib.metrics, skcalib.losses,
           skcalib._validation.labels, skcalib._arrays.sources)  # fmt: skip


def outside():
    """Everything of the process that a call might have changed."""
    return {
        "numpy's random state": joblib.hash(np.random.get_state()),  # noqa: NPY002
        "Python's random state": random.getstate(),
        "warnings.filters": list(warnings.filters),
        "np.geterr": np.geterr(),
        "np.get_printoptions": str(np.get_printoptions()),
        "os.environ": dict(os.environ),
        "working directory": os.getcwd(),
        "threads": [pool["num_threads"] for pool in threadpool_info()],
        "skcalib": {
            module.__name__: {name: id(value) for name, value in vars(module).items()}
            for module in MODULES
        },
    }


def public_calls():
    X, y = SAMPLES[0]
    for calibrator in CALIBRATORS:
        yield str(calibrator), lambda c=calibrator: clone(c).fit(X, y).predict(X)
    for name in skcalib.metrics.__all__:
        metric = getattr(skcalib.metrics, name)
        if not callable(metric) or "y_true" not in signature(metric).parameters:
            continue
        seeded = {"n_resamples": 8, "random_state": 0}
        few = {name: x for name, x in seeded.items() if name in signature(metric).parameters}
        if "metric" in signature(metric).parameters:
            few["metric"] = skcalib.metrics.static_calibration_error
        if name == "hosmer_lemeshow_test":
            few["pos_label"] = 1
        if name == "net_benefit":
            few |= {"thresholds": [0.2], "pos_label": 1}
        if name == "calibration_by_group":
            few["groups"] = CODE
        if name == "calibration_by_label":
            few["y_true"] = np.eye(P.shape[1])[CODE]
        given = {"y_true": CODE, "y_proba": P} | few
        yield name, lambda m=metric, given=given: m(**given)
    for name in skcalib.losses.__all__:
        loss = getattr(skcalib.losses, name)
        yield f"losses.{name}", lambda loss=loss: loss(X, y)
    plan = partial(skcalib.metrics.label_plan, P, "brier_score", width=0.3, random_state=0)
    yield "label_plan", lambda: plan().draw(P, random_state=0)
    model = CalibratedClassifier(GaussianNB(), cv=3)
    yield "CalibratedClassifier", lambda: clone(model).fit(X, y).predict(X)
    yield "ClassifierScores", lambda: ClassifierScores(GaussianNB()).fit(X, y).transform(X)
    yield (
        "compare_calibrators",
        lambda: compare_calibrators(X, y, ["temperature"], cv=2, random_state=0),
    )


@pytest.mark.usefixtures("few_label_sets")
@pytest.mark.parametrize("name_and_call", list(public_calls()), ids=lambda pair: pair[0])
def test_a_call_changes_nothing_outside(name_and_call):
    """What is drawn, is drawn from NumPy's own state only where no random_state is given."""
    name, call = name_and_call
    call()  # what is imported or found on the first use
    before = outside()
    call()
    assert outside() == before, name
