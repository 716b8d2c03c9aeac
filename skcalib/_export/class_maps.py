"""Formulas of calibrators with a map for each class: `ColumnwiseCalibrator`."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

from skcalib._arrays.types import Kind
from skcalib._export.operations import Constants, Operations, Plan, Value, constant
from skcalib._export.scores import (
    ROUNDING,
    clip_constants,
    expit,
    log_odds,
    moved,
    normalise,
    place_constants,
    proba,
)
from skcalib._export.thresholds import (
    line,
    line_constants,
    passed,
    search_constants,
    step,
    step_constants,
    value_places,
)
from skcalib.calibrators._isotonic import LIFT

# ------------------------------------------------------------------------------ maps of log-odds


def plan_platt(calibrator: Any) -> Plan:
    """Return the plan of expit(a f + b), or with a square."""
    a, *bend = np.atleast_2d(calibrator.coef_.T)
    constants = {"slope": constant(a[None])} | ({"bend": constant(bend[0][None])} if bend else {})
    return _plan_of_odds(calibrator, platt_eta, constants)


def platt_eta(o: Operations, odds: Value, c: Constants) -> Value:
    """Return the new log-odds less the intercept."""
    return (c["bend"] * odds + c["slope"]) * odds if "bend" in c else c["slope"] * odds


def plan_beta(calibrator: Any) -> Plan:
    """Return the plan of logit q = a log p - b log(1 - p) + c."""
    a, b = calibrator.coef_.T
    return _plan_of_odds(calibrator, beta_eta, {"a": constant(a[None]), "b": constant(b[None])})


def beta_eta(o: Operations, odds: Value, c: Constants) -> Value:
    """Return the new log-odds less the intercept."""
    shared = o.log(1.0 + o.exp(-o.maximum(odds, -odds)))
    log_p, no_log = o.minimum(odds, 0.0) - shared, o.maximum(odds, 0.0) + shared
    return c["a"] * log_p + c["b"] * no_log


def _plan_of_odds(calibrator: Any, eta: Callable[..., Value], constants: dict[str, Any]) -> Plan:
    n_classes = calibrator.classes_.size
    constants["intercept"] = constant(calibrator.intercept_[None])
    constants |= clip_constants(calibrator) | place_constants(n_classes)
    kind = calibrator.input_
    return Plan(partial(of_odds, kind=kind, n_classes=n_classes, eta=eta), constants)


def of_odds(
    o: Operations,
    x: Value,
    c: Constants,
    kind: Kind,
    n_classes: int,
    eta: Callable[..., Value],
) -> Value:
    """Return a logistic map of log-odds of each class."""
    q = expit(o, eta(o, log_odds(o, x, c, kind, n_classes), c) + c["intercept"])
    return finish(o, q, n_classes, rounded=False)


# ------------------------------------------------------------------------- maps of probabilities


def plan_isotonic(calibrator: Any) -> Plan:
    """Return the plan of an isotonic map, with straight lines or steps between blocks."""
    x, y = calibrator.X_thresholds_, calibrator.y_thresholds_
    if calibrator.interpolation == "linear":
        return plan_of_proba(calibrator, isotonic_line, line_constants(x, y, LIFT))
    return plan_of_proba(calibrator, step, step_constants(x, y))


def isotonic_line(o: Operations, p: Value, c: Constants, near: bool) -> Value:
    """Return the values of broken lines."""
    return line(o, p, c, near, LIFT)


def plan_bayesian_binning(calibrator: Any) -> Plan:
    """Return the plan of a mean of binnings, which is one step function."""
    constants = step_constants(calibrator.X_thresholds_, calibrator.y_thresholds_)
    return plan_of_proba(calibrator, step, constants)


def plan_histogram(calibrator: Any) -> Plan:
    """Return the plan of the values of bins."""
    constants = search_constants(list(calibrator.bin_edges_[:, 1:-1]))
    constants["values"] = constant(calibrator.bin_values_.ravel())
    above = calibrator.strategy == "quantile"
    first = calibrator._first_column(calibrator.classes_.size)
    return plan_of_proba(calibrator, partial(bins, reached=above), constants, first)


def bins(o: Operations, p: Value, c: Constants, near: bool, reached: bool) -> Value:
    """Return the values of the bins; an edge belongs to the bin above it if `reached` counts."""
    place = passed(o, p, c, reached=reached, near=near, rounded=True)
    return o.take(c["values"], value_places(place, c))


def plan_venn_abers(calibrator: Any) -> Plan:
    """Return the plan of p1 / (1 - p0 + p1)."""
    constants = search_constants(calibrator.X_thresholds_)
    constants["p0"] = np.concatenate([np.append(0.0, own) for own in calibrator.p0_])
    constants["p1"] = np.concatenate([np.append(own, 1.0) for own in calibrator.p1_])
    return plan_of_proba(calibrator, venn_abers, constants)


def venn_abers(o: Operations, p: Value, c: Constants, near: bool) -> Value:
    """Return the merged probability; at a threshold p0 is that from it on, p1 that up to it."""
    place = passed(o, p, c, reached=True, near=near)
    last = o.take(c["thresholds"], place)
    at = moved(last, ROUNDING) >= p if near else last >= p
    at = at & (place > c["start"])
    p0 = o.take(c["p0"], value_places(place, c))
    p1 = o.take(c["p1"], value_places(place - o.to_whole(at), c))
    return p1 / (1.0 - p0 + p1)


def plan_of_proba(
    calibrator: Any,
    map_columns: Callable[..., Value],
    constants: dict[str, Any],
    first: int | None = None,
) -> Plan:
    kind, n_classes = calibrator.input_, calibrator.classes_.size
    if first is None:
        first = calibrator._first_column(n_classes)
    formula = partial(
        of_proba, kind=kind, n_classes=n_classes, first=first, map_columns=map_columns
    )
    return Plan(formula, constants)


def of_proba(
    o: Operations,
    x: Value,
    c: Constants,
    kind: Kind,
    n_classes: int,
    first: int,
    map_columns: Callable[..., Value],
) -> Value:
    """Return maps of the probabilities of classes from `first` on."""
    p = o.rounded(proba(o, x, kind))
    p = o.columns(p, first, n_classes) if first else p
    q = map_columns(o, p, c, near=kind == "logits")
    return finish(o, q, n_classes if first else 0, rounded=True)


def finish(o: Operations, q: Value, n_classes: int, rounded: bool) -> Value:
    """Return probabilities of all classes from the maps; the second of two has the only one."""
    if rounded:
        q = o.rounded(q)
    if n_classes == 2:
        return o.concat(1.0 - q, q)
    return normalise(o, q)
