"""Formulas of calibrators with a map for each class: `ColumnwiseCalibrator`."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from skcalib._arrays.types import Kind
from skcalib._export.lines import broken_line, steps
from skcalib._export.operations import (
    Constants,
    Line,
    Operations,
    Plan,
    Value,
    constant,
)
from skcalib._export.scores import (
    ROUNDING,
    clip_constants,
    log_odds,
    moved,
    place_constants,
    proba,
)
from skcalib._export.thresholds import passed, search_constants
from skcalib.calibrators._isotonic import LIFT

# ------------------------------------------------------------------------------ maps of log-odds


def plan_platt(calibrator: Any) -> Plan:
    """Return the plan of expit(a f + b), or with a square."""
    a, *bend = -np.atleast_2d(calibrator.coef_.T)
    constants = {"slope": constant(a[None])} | ({"bend": constant(bend[0][None])} if bend else {})
    return _plan_of_odds(calibrator, platt_odds, constants)


def platt_odds(o: Operations, odds: Value, c: Constants) -> Value:
    """Return the new log-odds of the other classes."""
    slope = c["bend"] * odds + c["slope"] if "bend" in c else c["slope"]
    return slope * odds + c["intercept"]


def plan_beta(calibrator: Any) -> Plan:
    """Return the plan of logit q = a log p - b log(1 - p) + c."""
    a, b = -calibrator.coef_.T
    constants = {"a": constant(a[None]), "b": constant(b[None]), "bend": constant((b - a)[None])}
    return _plan_of_odds(calibrator, beta_odds, constants)


def beta_odds(o: Operations, odds: Value, c: Constants) -> Value:
    """Return the new log-odds of the other classes.

    With s = log(1 + exp(-|f|)), log p = min(f, 0) - s and -log(1 - p) = max(f, 0) + s.
    """
    shared = o.log(1.0 + o.exp(-o.absolute(odds)))
    straight = o.where(odds < 0.0, c["a"], c["b"]) * odds
    return o.total(straight, c["bend"] * shared, c["intercept"])


def _plan_of_odds(
    calibrator: Any, map_odds: Callable[..., Value], constants: dict[str, Any]
) -> Plan:
    n_classes = calibrator.classes_.size
    constants["intercept"] = constant(-calibrator.intercept_[None])
    constants |= clip_constants(calibrator) | place_constants(n_classes)
    kind = calibrator.input_
    formula = partial(of_odds, kind=kind, n_classes=n_classes, map_odds=map_odds)
    return Plan(formula, constants, last=last_of(n_classes))


def of_odds(
    o: Operations,
    x: Value,
    c: Constants,
    kind: Kind,
    n_classes: int,
    map_odds: Callable[..., Value],
) -> list[Value]:
    """Return a logistic map of log-odds of each class."""
    # A sigmoid of ONNX Runtime is 0 below -40, where relative sizes still count.
    q = 1.0 / (1.0 + o.exp(map_odds(o, log_odds(o, x, c, kind, n_classes), c)))
    return with_first(o, q, n_classes)


# ------------------------------------------------------------------------- maps of probabilities


def plan_isotonic(calibrator: Any) -> Plan:
    """Return the plan of an isotonic map, with straight lines or steps between blocks."""
    x, y = calibrator.X_thresholds_, calibrator.y_thresholds_
    if calibrator.interpolation == "step":
        return plan_of_steps(calibrator)
    blur = blur_of(calibrator.input_)
    return plan_of_lines(
        calibrator, [broken_line(*each, blur, LIFT) for each in zip(x, y, strict=True)]
    )


def blur_of(kind: Kind) -> float:
    """Return the relative rounding error of probabilities."""
    return ROUNDING if kind == "logits" else 0.0


def plan_of_steps(calibrator: Any) -> Plan:
    """Return the plan of a step function of each class; below its first score its value counts."""
    blur = blur_of(calibrator.input_)
    maps = zip(calibrator.X_thresholds_, calibrator.y_thresholds_, strict=True)
    return plan_of_lines(calibrator, [steps(moved(x[1:], -blur), y) for x, y in maps])


def plan_histogram(calibrator: Any) -> Plan:
    """Return the plan of the values of bins."""
    constants = search_constants(list(calibrator.bin_edges_[:, 1:-1]))
    constants["values"] = constant(calibrator.bin_values_.ravel())
    kind, n_classes = calibrator.input_, calibrator.classes_.size
    first = calibrator._first_column(n_classes)
    above, blur = calibrator.strategy == "quantile", blur_of(kind)
    formula = partial(
        bins,
        kind=kind,
        n_classes=n_classes,
        first=first,
        reached=above,
        share=blur if above else -blur,
    )
    return Plan(formula, constants, last=last_of(n_classes if first else 0))


def bins(
    o: Operations,
    x: Value,
    c: Constants,
    kind: Kind,
    n_classes: int,
    first: int,
    reached: bool,
    share: float,
) -> list[Value]:
    """Return the values of the bins; an edge belongs to the bin above it if `reached` counts.

    A probability that differs from an edge by less than a `share` is on it.
    """
    p = given_columns(o, x, kind, n_classes, first)
    p = moved(p, share) if share else p
    q = o.take(c["values"], passed(o, p, c, reached=reached, rounded=True))
    return with_first(o, o.rounded(q), n_classes if first else 0)


def plan_venn_abers(calibrator: Any) -> Plan:
    """Return the plan of p1 / (1 - p0 + p1)."""
    blur = blur_of(calibrator.input_)
    maps = zip(calibrator.X_thresholds_, calibrator.p0_, calibrator.p1_, strict=True)
    return plan_of_lines(calibrator, [venn_abers_steps(*each, blur) for each in maps])


def venn_abers_steps(x: NDArray[Any], p0: NDArray[Any], p1: NDArray[Any], blur: float) -> Line:
    """Return the merged probability as a step function.

    At a threshold p0 is that from it on, p1 that up to it: a step of its own, which ends with the
    last number that meets the threshold or where the next one begins.
    """
    limits = np.column_stack([moved(x, -blur), np.nextafter(moved(x, blur), np.inf)]).ravel()
    low, high = np.repeat(np.append(0.0, p0), 2)[1:], np.repeat(np.append(p1, 1.0), 2)[:-1]
    values = high / (1.0 - low + high)
    kept = np.diff(limits, append=np.inf) > 0.0
    return steps(limits[kept], values[np.append(True, kept)])


def given_columns(o: Operations, x: Value, kind: Kind, n_classes: int, first: int) -> Value:
    """Return the probabilities of classes from `first` on."""
    p = o.rounded(proba(o, x, kind))
    return o.columns(p, first, n_classes) if first else p


def plan_of_lines(
    calibrator: Any,
    lines: list[Line],
    bound: Callable[[Operations, Value, Value, Constants], Value] | None = None,
    constants: dict[str, Any] | None = None,
) -> Plan:
    """Return the plan of a line for each class, whose values `bound` may change."""
    kind, n_classes = calibrator.input_, calibrator.classes_.size
    first = calibrator._first_column(n_classes)
    formula = partial(of_lines, kind=kind, n_classes=n_classes, first=first, bound=bound)
    last = last_of(n_classes if first else 0)
    return Plan(formula, constants or {}, last=last, lines=tuple(lines))


def of_lines(
    o: Operations,
    x: Value,
    c: Constants,
    kind: Kind,
    n_classes: int,
    first: int,
    bound: Callable[[Operations, Value, Value, Constants], Value] | None,
) -> tuple[Value, Callable[[Value], list[Value]]]:
    """Return the probabilities that lines map, and what follows."""
    p = given_columns(o, x, kind, n_classes, first)

    def then(q: Value) -> list[Value]:
        q = q if bound is None else bound(o, p, q, c)
        return with_first(o, o.rounded(q), n_classes if first else 0)

    return p, then


def last_of(n_classes: int) -> str:
    """Return the last step of maps of each class: two classes have one map."""
    return "none" if n_classes == 2 else "normalise"


def with_first(o: Operations, q: Value, n_classes: int) -> list[Value]:
    """Return a column for each class: the map of two classes is that of the second."""
    return [o.concat(1.0 - q, q) if n_classes == 2 else q]
