"""Formulas of spline calibration: for each class, for each rank of a row, or for the top one."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

from skcalib._arrays.types import Kind
from skcalib._export.class_maps import blur_of, plan_of_lines
from skcalib._export.lines import broken_line
from skcalib._export.operations import (
    Constants,
    Operations,
    Plan,
    Value,
    constant,
)
from skcalib._export.scores import ROUNDING, first_of_largest, moved, place_constants, proba

# What a formula asks lines for, and what it does with their values.
Asked = tuple[Value, Callable[[Value], list[Value]]]


def plan_spline(calibrator: Any) -> Plan:
    """Return the plan of a spline for each class, each rank or the top label."""
    x, y = calibrator.X_thresholds_, calibrator.y_thresholds_
    kind, n_classes = calibrator.input_, calibrator.classes_.size
    lines = [broken_line(*each, blur_of(kind)) for each in zip(x, y, strict=True)]
    constants = {}
    if calibrator.n_knots == "auto":
        least = calibrator.least_proba_
        rare = max(calibrator.rare_proba_, least)
        bounds = {"least": least, "rare": rare, "most": 1.0 - least, "frequent": 1.0 - rare}
        constants = {name: constant(bound) for name, bound in bounds.items()}
    if calibrator.mode == "top":
        constants |= place_constants(n_classes) | {"others": np.arange(1.0, n_classes)[None]}
        formula = partial(top, kind=kind, n_classes=n_classes)
        return Plan(formula, constants, "top", last="none", lines=tuple(lines))
    if calibrator.mode == "classwise" or n_classes == 2:
        return plan_of_lines(calibrator, lines, bounded, constants)
    formula = partial(ranks, kind=kind, n_classes=n_classes, n_maps=len(x))
    return Plan(formula, constants, last="normalise", lines=tuple(lines))


def bounded(o: Operations, p: Value, y: Value, c: Constants) -> Value:
    """Return values of splines within [0, 1] or, where knots are chosen, bounds that depend on p.

    The least probability is p up to `rare` ones, but not below `least`, and so is that of the
    other classes.
    """
    if "least" not in c:
        return o.clip(y, 0.0, 1.0)
    low, high = o.clip(p, c["least"], c["rare"]), o.clip(p, c["frequent"], c["most"])
    return o.minimum(o.maximum(y, low), high)


def ranks(o: Operations, x: Value, c: Constants, kind: Kind, n_classes: int, n_maps: int) -> Asked:
    """Return maps of the largest probability of each row, the next one, and so on.

    The last map is for the sum of all remaining ranks, which share its value in proportion; equal
    probabilities get the mean of their values.
    """
    near, own = kind == "logits", n_maps - 1
    p = proba(o, x, kind)
    if n_maps == n_classes:  # no rank shares a map
        falling, place = o.sorted_top(p, n_classes)

        def put(q: Value) -> list[Value]:
            q = share_ties(o, falling, bounded(o, falling, q, c), near, n_classes)
            return [o.put_along(p, place, q)]

        return falling, put
    best, place = o.sorted_top(p, own)
    rest = o.put_along(p, place, best * 0.0)
    asked = o.concat(best, o.row_sum(rest))

    def then(q: Value) -> list[Value]:
        q = bounded(o, asked, q, c)
        q, last = o.split(q, [own, 1])
        if own > 1:
            q = share_ties(o, best, q, near, own)
        share = o.maximum(rest, c["least"])
        total = o.row_sum(share) - own * c["least"]  # columns of the best count `least` in it
        q = o.put_along(share * (last / total), place, q)
        # The last rank with a map of its own may be tied with some of the others.
        lowest = o.columns(best, own - 1, own)
        tied = o.absolute(p - lowest) <= lowest * (ROUNDING if near else 0.0)
        mean = o.row_sum(o.where(tied, q, 0.0)) / o.row_sum(o.to_float(tied))
        return [o.where(tied, mean, q)]

    return asked, then


def share_ties(o: Operations, best: Value, q: Value, near: bool, n: int) -> Value:
    """Give equal neighbours among n descending probabilities the mean of their values."""
    before = o.choose(best, [0, *range(n - 1)])
    falls = before > (moved(best, ROUNDING) if near else best)
    group = o.cumulative(o.to_whole(falls))
    none = q * 0.0
    sums = o.add_along(none, group, q)
    counts = o.add_along(none, group, none + 1.0)
    return o.take_along(sums, group) / o.take_along(counts, group)


def top(o: Operations, x: Value, c: Constants, kind: Kind, n_classes: int) -> Asked:
    """Return the map of the top probability; the others share the rest, none of them gets more.

    If the j smallest of the others share what is left and the larger ones have the most they may,
    j is the largest number for which none of the j gets more.
    """
    p = proba(o, x, kind)
    is_top = first_of_largest(o, x, c)
    largest = o.row_sum(o.where(is_top, p, 0.0))

    def then(q: Value) -> list[Value]:
        score = o.maximum(bounded(o, largest, q, c), 1.0 / n_classes)
        above = o.maximum(p, c["least"]) if "least" in c else p
        falling, _ = o.sorted_top(-o.where(is_top, 2.0, above), n_classes - 1)
        total = o.cumulative(-falling)
        left = o.maximum(1.0 - score * (n_classes - c["others"]), 0.0)
        fits = -falling * left <= score * total
        count = o.maximum(o.row_max(o.to_float(fits) * c["others"]), 1.0)
        at = o.to_whole(count - 1.0)
        left, total = o.take_along(left, at), o.take_along(total, at)
        none = total <= 0.0
        shared = o.minimum(above / o.where(none, 1.0, total) * left, score)
        q = o.where(none & (above <= 0.0), left / count, o.where(none, score, shared))
        return [o.where(is_top, score, q)]

    return largest, then
