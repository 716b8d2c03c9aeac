"""The numbers that are kept on record: what is computed, on which inputs, how closely it is held.

Found by discovery: a new calibrator, variant, metric, option of a metric or loss asks for its own.
"""

import platform
import re
from functools import partial
from inspect import Signature, signature
from types import UnionType
from typing import Literal, Union, get_args, get_origin, get_type_hints

import numpy as np
import pandas as pd
import scipy
import sklearn
from discovery import CALIBRATORS, ERRORS
from sklearn.base import clone

import skcalib
from skcalib import TemperatureScaling, losses, metrics, plotting, testing

DIGITS = 12
# Sums, sorts and closed forms: twelve digits less what the order of a sum may move.
CLOSED = 1e-9
# Whatever an optimiser finds: their tolerances on gradients, 1e-8 and below, leave fitted numbers
# within 1e-7 of the optimum, on whichever side a version of scipy stops.
ITERATIVE = 1e-6
CLOSED_CALIBRATORS = {
    "BayesianBinning",
    "HistogramBinning",
    "IdentityCalibrator",
    "IsotonicCalibrator",
    "VennAbersCalibrator",
}
# The width is the fixed point of a search to 1e-6; the slope and curves are fitted.
ITERATIVE_METRICS = {
    "calibration_curve",
    "integrated_calibration_index",
    "smooth_calibration_error",
    "calibration_intercept_slope",
    "calibration_summary",
}
# Numbers this small are held to be 0: cancellation leaves no digits of them.
NOTHING = 1e-13


# ------------------------------------------------------------------ inputs


def several_classes(n=200, seed=0):
    """Logits and labels of 4 classes, 2.5 times too large, and uneven weights."""
    rng = np.random.default_rng(seed)
    Z = rng.normal(size=(n, 4)) + np.linspace(0, 0.5, 4)
    code = (Z + rng.gumbel(size=Z.shape)).argmax(axis=1)
    return 2.5 * Z, code, rng.uniform(0.5, 2.0, size=n)


def two_classes(n=200, seed=1):
    """A probability with ties, 0 and 1 among them, and labels and weights of counts."""
    rng = np.random.default_rng(seed)
    p = rng.random(n).round(2)
    p[:2] = 0.0, 1.0
    code = (rng.random(n) < p**2).astype(int)
    return p, code, rng.integers(0, 3, size=n)


def softmax(Z):
    """By NumPy alone, so that the inputs owe nothing to the package."""
    E = np.exp(Z - Z.max(axis=1, keepdims=True))
    return E / E.sum(axis=1, keepdims=True)


def samples():
    """Yield (name, probabilities, labels, weights)."""
    Z, code, w = several_classes()
    yield "4 classes", softmax(Z), code, None
    yield "4 classes, weights", softmax(Z), code, w
    yield "2 classes", *two_classes()[:2], None
    yield "2 classes, weights", *two_classes()


# ------------------------------------------------------------------ what is computed


def inputs():
    """Yield sums of the inputs: if these move, the random numbers did, not the package."""
    for name, P, code, w in samples():
        yield (
            f"inputs | {name}",
            lambda P=P, code=code, w=w: [
                P.sum(),
                code.sum(),
                0 if w is None else w.sum(),
            ],
        )


def name_of(calibrator):
    """As it is printed, without the address of a function."""
    return re.sub(r"<function (\w+) at 0x\w+>", r"\1", " ".join(str(calibrator).split()))


def calibrators():
    """Yield probabilities of new rows, by calibrators fitted on logits and on probabilities."""
    Z, code, w = several_classes()
    p, truth, counts = two_classes()
    asked = several_classes(8, seed=2)[0]
    for calibrator in CALIBRATORS:

        def of_logits(calibrator=calibrator):
            return clone(calibrator).fit(Z, code).predict_proba(asked)

        def of_weights(calibrator=calibrator):
            return clone(calibrator).fit(Z, code, w).predict_proba(asked)

        def of_probabilities(calibrator=calibrator):
            fitted = clone(calibrator).fit(p, truth, counts)
            return fitted.predict_proba(np.linspace(0, 1, 12))[:, 1]

        name = name_of(calibrator)
        yield f"{name} | logits of 4 classes", of_logits
        yield f"{name} | logits of 4 classes, weights", of_weights
        yield f"{name} | probabilities of 2 classes, weights", of_probabilities


def options(hint):
    """The values that a type hint spells out."""
    if get_origin(hint) is Literal:
        return list(get_args(hint))
    if get_origin(hint) in (Union, UnionType):
        return [value for part in get_args(hint) for value in options(part)]
    return {bool: [False, True], type(None): [None]}.get(hint, [])


def settings(function):
    """Yield sets of keywords: none, each option alone, and each with the classes apart."""
    hints = get_type_hints(function)
    parameters = signature(function).parameters
    ways = []
    for name, parameter in parameters.items():
        default = parameter.default
        if name in {"y_true", "y_proba", "logits", "y", "sample_weight", "labels"}:
            continue
        spelled = options(hints[name])
        if isinstance(default, (int, float)) and not spelled:
            ways.append({name: default + 2 if isinstance(default, int) else default / 2})
        ways += [{name: value} for value in spelled if value != default]
    apart = [
        {name: value}
        for name, value in (("mode", "classwise"), ("class_conditional", True))
        if name in parameters
    ]
    yield {}
    yield from ways
    for base in apart:
        yield from (base | way for way in ways if not base.keys() & way.keys())


def keywords_text(keywords):
    return ", ".join(f"{name}={value!r}" for name, value in keywords.items())


def errors():
    """Yield the value of every error, by every option that its signature spells out."""
    for metric in ERRORS:
        for keywords in settings(metric):
            for data, P, code, w in samples():

                def value(metric=metric, keywords=keywords, P=P, code=code, w=w):
                    try:
                        return metric(code, P, sample_weight=w, **keywords)
                    except ValueError:
                        return "ValueError"  # options that exclude each other

                yield f"{metric.__name__}({keywords_text(keywords)}) | {data}", value


def scorers():
    """Yield every scorer's score of a fitted calibrator."""
    Z, code, w = several_classes()
    for name in metrics.SCORERS:

        def score(name=name):
            fitted = TemperatureScaling().fit(Z[:100], code[:100])
            return metrics.get_scorer(name)(fitted, Z[100:], code[100:], sample_weight=w[100:])

        yield f"{name} | 4 classes, weights", score


def loss_values():
    """Yield every loss."""
    Z, code, w = several_classes()
    for name in losses.__all__:
        loss = getattr(losses, name)
        for keywords in settings(loss):

            def value(loss=loss, keywords=keywords):
                return [loss(Z, code, sample_weight=w, **keywords)]

            yield f"losses.{name}({keywords_text(keywords)}) | 4 classes, weights", value


def other_measures():
    """Yield what is public among the metrics and no error."""
    sce = metrics.static_calibration_error
    seeded = {"n_resamples": 50, "random_state": 0}
    for data, P, code, w in samples():
        many = P.ndim == 2
        calls = {
            "binary_view()": lambda P=P, code=code: np.hstack(
                [part[:10] for part in metrics.binary_view(code, P)]
            ),
            "local_calibration()": lambda P=P, code=code, w=w: np.asarray(
                metrics.local_calibration(code, P, sample_weight=w)
            )[::10],
            "local_calibration(decay=0.5)": lambda P=P, code=code, w=w: np.asarray(
                metrics.local_calibration(code, P, decay=0.5, sample_weight=w)
            )[::10],
            "reliability_table()": lambda P=P, code=code, w=w: metrics.reliability_table(
                code, P, n_bins=5, sample_weight=w
            ).select_dtypes("number"),
            "calibration_test()": lambda P=P, code=code, w=w: metrics.calibration_test(
                sce, code, P, sample_weight=w, **seeded
            )[:4],
            # The other parts are places on a grid, where rounding may move them by a step.
            "calibration_interval()": lambda P=P, code=code, w=w: metrics.calibration_interval(
                sce, code, P, sample_weight=w, random_state=0
            )[::4],
            "calibration_by_group()": lambda P=P, code=code, w=w: metrics.calibration_by_group(
                code,
                P,
                np.arange(len(code)) % 3,
                sample_weight=w,
                labels=range(code.max() + 1),
                random_state=0,
            ).frame[["n", "gap"]],
        }
        for method in ("smooth", "isotonic", "bins"):
            calls[f"calibration_curve(method={method!r})"] = (
                lambda P=P, code=code, w=w, method=method: metrics.calibration_curve(
                    code, P, method=method, sample_weight=w
                ).frame[::7]
            )
        for method in ("percentile", "bca"):
            calls[f"bootstrap_interval(method={method!r})"] = partial(
                metrics.bootstrap_interval, sce, code, P, method=method, sample_weight=w, **seeded
            )
        for fitted in (False, True):
            calls[f"hosmer_lemeshow_test(fitted={fitted})"] = partial(
                metrics.hosmer_lemeshow_test,
                code,
                P,
                pos_label=2 if many else None,
                fitted=fitted,
                sample_weight=w,
            )
        for score in ("brier", "log"):
            for mode in ("top", "classwise"):
                calls[f"score_decomposition(score={score!r}, mode={mode!r})"] = partial(
                    metrics.score_decomposition, code, P, score=score, mode=mode, sample_weight=w
                )
        for measure in (
            metrics.calibration_intercept_slope,
            metrics.observed_expected_ratio,
            metrics.spiegelhalter_test,
        ):
            calls[f"{measure.__name__}()"] = partial(measure, code, P, sample_weight=w)
        calls["calibration_summary()"] = lambda P=P, code=code, w=w: metrics.calibration_summary(
            code, P, sample_weight=w, random_state=0
        ).frame[["value", "pvalue"]]
        for call, value in calls.items():
            yield f"{call} | {data}", value


def everything():
    """Return the functions that compute each number, by name."""
    parts = (inputs, calibrators, errors, scorers, loss_values, other_measures)
    found = [pair for part in parts for pair in part()]
    names = dict(found)
    assert len(names) == len(found), "two records have one name"
    return names


# ------------------------------------------------------------------ how it is kept and held


def rounded(value):
    """As a list of numbers to twelve digits, None for NaN; a text stays."""
    if isinstance(value, str):
        return value
    numbers = np.asarray(value, dtype=float).ravel()
    return [None if np.isnan(x) else float(f"{x:.{DIGITS}g}") for x in numbers]


def tolerance(name):
    """How far, relatively, a number may lie from its record."""
    first = re.match(r"[\w.]+", name)[0]
    if first[0].isupper():
        return CLOSED if first in CLOSED_CALIBRATORS else ITERATIVE
    if first.removeprefix("neg_") in ITERATIVE_METRICS or first.startswith("neg_"):
        return ITERATIVE  # a scorer is asked about a fitted temperature
    return CLOSED


def differs(name, found, kept):
    """Say in one line how a number left its record; an empty text if it did not."""
    if isinstance(found, str) or isinstance(kept, str):
        return "" if found == kept else f"{found} is not {kept}"
    if len(found) != len(kept):
        return f"{len(found)} numbers instead of {len(kept)}"
    a, b = (np.array([np.nan if x is None else x for x in numbers]) for numbers in (found, kept))
    off = ~((np.abs(a - b) <= tolerance(name) * np.abs(b) + NOTHING) | (np.isnan(a) & np.isnan(b)))
    if not off.any():
        return ""
    with np.errstate(all="ignore"):
        ratio = np.abs(a - b) / (tolerance(name) * np.abs(b) + NOTHING)
    worst = int(np.argmax(np.where(off, np.nan_to_num(ratio, nan=np.inf), 0)))
    return (
        f"{found[worst]} instead of {kept[worst]} (number {worst} of {len(kept)}; held to "
        f"{tolerance(name):g} of its size)"
    )


def made_with():
    """Return what makes the numbers here."""
    return {
        "skcalib": skcalib.__version__,
        "numpy": np.__version__,
        "scipy": scipy.__version__,
        "scikit-learn": sklearn.__version__,
        "pandas": pd.__version__,
        "python": platform.python_version(),
        "machine": f"{platform.system()} {platform.machine()}",
    }


# ------------------------------------------------------------------ names, arguments, defaults


def signatures():
    """A line for each public class and function: its arguments in order, and their defaults."""
    lines = []
    for module in (skcalib, metrics, losses, plotting, testing):
        for name in sorted(module.__all__):
            found = getattr(module, name)
            if callable(found) and not (isinstance(found, type) and issubclass(found, Exception)):
                bare = [p.replace(annotation=p.empty) for p in signature(found).parameters.values()]
                lines.append(f"{module.__name__}.{name}{Signature(bare)}")
    return lines
