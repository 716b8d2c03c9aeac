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
        sums = [P.sum(), code.sum(), 0 if w is None else w.sum()]
        yield f"inputs | {name}", partial(list, sums)


def without_addresses(text):
    """A text with the names of functions in place of their representations."""
    return re.sub(r"<function (\w+) at 0x\w+>", r"\1", text)


def name_of(calibrator):
    """As it is printed, without the address of a function."""
    return without_addresses(" ".join(str(calibrator).split()))


def calibrators():
    """Yield probabilities of new rows, by calibrators fitted on logits and on probabilities."""
    Z, code, w = several_classes()
    p, truth, counts = two_classes()
    asked = several_classes(8, seed=2)[0]

    def proba(calibrator, X, y, weights, new):
        return clone(calibrator).fit(X, y, weights).predict_proba(new)

    def of_two(calibrator):
        return proba(calibrator, p, truth, counts, np.linspace(0, 1, 12))[:, 1]

    for calibrator in CALIBRATORS:
        name, of_logits = name_of(calibrator), partial(proba, calibrator, Z, code)
        yield f"{name} | logits of 4 classes", partial(of_logits, None, asked)
        yield f"{name} | logits of 4 classes, weights", partial(of_logits, w, asked)
        yield f"{name} | probabilities of 2 classes, weights", partial(of_two, calibrator)


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
        if isinstance(default, (int, float)) and default not in spelled:
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


def value_or_error(metric, code, P, w, keywords):
    try:
        return metric(code, P, sample_weight=w, **keywords)
    except ValueError:
        return "ValueError"  # options that exclude each other


def errors():
    """Yield the value of every error, by every option that its signature spells out."""
    for metric in ERRORS:
        for keywords in settings(metric):
            for data, P, code, w in samples():
                name = f"{metric.__name__}({keywords_text(keywords)}) | {data}"
                yield name, partial(value_or_error, metric, code, P, w, keywords)


def scorers():
    """Yield every scorer's score of a fitted calibrator."""
    Z, code, w = several_classes()

    def score(name):
        fitted = TemperatureScaling().fit(Z[:100], code[:100])
        return metrics.get_scorer(name)(fitted, Z[100:], code[100:], sample_weight=w[100:])

    for name in metrics.SCORERS:
        yield f"{name} | 4 classes, weights", partial(score, name)


def loss_values():
    """Yield every loss."""
    Z, code, w = several_classes()
    for name in losses.__all__:
        loss = getattr(losses, name)
        for keywords in settings(loss):
            value = partial(loss, Z, code, sample_weight=w, **keywords)
            yield f"losses.{name}({keywords_text(keywords)}) | 4 classes, weights", value


def other_measures():
    """Yield what is public among the metrics and no error."""
    for data, P, code, w in samples():
        for call, value in measures_of(P, code, w).items():
            yield f"{call} | {data}", value


def measures_of(P, code, w):
    """Return functions of one sample, by their names in the record."""
    sce, seeded = metrics.static_calibration_error, {"n_resamples": 50, "random_state": 0}

    def call(name, part=None, before=(), after=(), **keywords):
        def value():
            found = getattr(metrics, name)(*before, code, P, *after, sample_weight=w, **keywords)
            return found if part is None else part(found)

        return value

    def tenth(values):
        return np.asarray(values)[::10]

    groups = {"after": [np.arange(len(code)) % 3], "labels": range(code.max() + 1)}
    indicator = code if P.ndim == 1 else np.eye(P.shape[1])[code]
    calls = {
        "binary_view()": lambda: np.hstack([x[:10] for x in metrics.binary_view(code, P)]),
        "local_calibration()": call("local_calibration", tenth),
        "local_calibration(decay=0.5)": call("local_calibration", tenth, decay=0.5),
        "reliability_table()": call(
            "reliability_table", lambda frame: frame.select_dtypes("number"), n_bins=5
        ),
        "calibration_test()": call("calibration_test", lambda x: x[:4], before=[sce], **seeded),
        # The other parts are places on a grid, where rounding may move them by a step.
        "calibration_interval()": call(
            "calibration_interval", lambda x: x[::4], before=[sce], random_state=0
        ),
        "calibration_by_group()": call(
            "calibration_by_group", lambda x: x.frame[["n", "gap"]], random_state=0, **groups
        ),
        "calibration_by_label()": lambda: (
            metrics.calibration_by_label(indicator, P, sample_weight=w, random_state=0)
            .frame[["n", "gap"]]
            .sort_index()
        ),
    }
    if w is None or w.dtype.kind == "i":  # relative weights are refused
        calls["selective_threshold()"] = call("selective_threshold", accuracy=0.5)
    event = {"pos_label": 2 if P.ndim == 2 else None}
    calls["net_benefit()"] = call("net_benefit", after=[[0.1, 0.3]], **event)
    calls["risk_coverage_curve()"] = call("risk_coverage_curve", lambda x: x.frame[::20])
    for method in ("smooth", "isotonic", "bins"):
        calls[f"calibration_curve(method={method!r})"] = call(
            "calibration_curve", lambda x: x.frame[::7], method=method
        )
    for method in ("percentile", "bca"):
        calls[f"bootstrap_interval(method={method!r})"] = call(
            "bootstrap_interval", before=[sce], method=method, **seeded
        )
    for fitted in (False, True):
        calls[f"hosmer_lemeshow_test(fitted={fitted})"] = call(
            "hosmer_lemeshow_test", pos_label=2 if P.ndim == 2 else None, fitted=fitted
        )
    for score in ("brier", "log"):
        for mode in ("top", "classwise"):
            calls[f"score_decomposition(score={score!r}, mode={mode!r})"] = call(
                "score_decomposition", score=score, mode=mode
            )
    for name in ("calibration_intercept_slope", "observed_expected_ratio", "spiegelhalter_test"):
        calls[f"{name}()"] = call(name)
    calls["calibration_summary()"] = call(
        "calibration_summary", lambda x: x.frame[["value", "pvalue"]], random_state=0
    )
    return calls


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
                lines.append(without_addresses(f"{module.__name__}.{name}{Signature(bare)}"))
    return lines
