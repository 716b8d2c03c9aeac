"""Formulas of spline calibration: for each class, for each rank of a row, or for the top one."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np

from skcalib._arrays.types import Kind
from skcalib._export.class_maps import plan_of_proba
from skcalib._export.operations import Constants, Operations, Plan, Value, constant
from skcalib._export.scores import (
    ROUNDING,
    first_of_largest,
    keep_top,
    moved,
    normalise,
    place_constants,
    proba,
)
from skcalib._export.thresholds import line, line_constants


def plan_spline(calibrator: Any) -> Plan:
    """Return the plan of a spline for each class, each rank or the top label."""
    x, y = calibrator.X_thresholds_, calibrator.y_thresholds_
    kind, n_classes = calibrator.input_, calibrator.classes_.size
    constants = line_constants(x, y)
    bounded = calibrator.n_knots == "auto"
    if bounded:
        constants["least"] = constant(calibrator.least_proba_)
        constants["rare"] = constant(calibrator.rare_proba_)
    if calibrator.mode == "top":
        constants |= place_constants(n_classes) | {"others": np.arange(1.0, n_classes)[None]}
        return Plan(partial(top, kind=kind, n_classes=n_classes, bounded=bounded), constants, "top")
    if calibrator.mode == "classwise" or n_classes == 2:
        return plan_of_proba(calibrator, partial(spline, bounded=bounded), constants)
    formula = partial(ranks, kind=kind, n_classes=n_classes, n_maps=len(x), bounded=bounded)
    return Plan(formula, constants)


def spline(o: Operations, p: Value, c: Constants, near: bool, bounded: bool) -> Value:
    """Return the values of splines, within [0, 1] or, if `bounded`, bounds that depend on p."""
    y = line(o, p, c, near)
    if not bounded:
        return o.minimum(o.maximum(y, 0.0), 1.0)
    near_0 = o.maximum(o.minimum(p, c["rare"]), c["least"])
    near_1 = o.maximum(o.minimum(1.0 - p, c["rare"]), c["least"])
    return o.minimum(o.maximum(y, near_0), 1.0 - near_1)


def ranks(
    o: Operations, x: Value, c: Constants, kind: Kind, n_classes: int, n_maps: int, bounded: bool
) -> Value:
    """Return maps of the largest probability of each row, the next one, and so on.

    The last map is for the sum of all remaining ranks, which share its value in proportion; equal
    probabilities get the mean of their values.
    """
    near, own = kind == "logits", n_maps - 1
    p = proba(o, x, kind)
    best, place = o.sorted_top(p, own)
    is_rest = o.put_along(o.filled(p, 1.0), place, o.filled(best, 0.0)) > 0.5
    rest = o.where(is_rest, p, 0.0)
    q = spline(o, o.concat(best, o.row_sum(rest)), c, near, bounded)
    last, q = o.columns(q, own, n_maps), o.columns(q, 0, own)
    if own > 1:
        q = share_ties(o, best, q, near, own)
    share = o.where(is_rest, o.maximum(p, c["least"]) if own < n_classes - 1 else 1.0, 0.0)
    share = share * (last / o.row_sum(share))

    # The last rank with a map of its own may be tied with some of the others.
    lowest = o.columns(best, own - 1, own)
    above = best <= (moved(lowest, ROUNDING) if near else lowest)
    below = is_rest & (rest >= (moved(lowest, -ROUNDING) if near else lowest))
    total = o.row_sum(o.where(above, q, 0.0)) + o.row_sum(o.where(below, share, 0.0))
    mean = total / (o.row_sum(o.to_float(above)) + o.row_sum(o.to_float(below)))
    q, share = o.where(above, mean, q), o.where(below, mean, share)
    return normalise(o, o.put_along(share, place, q))


def share_ties(o: Operations, best: Value, q: Value, near: bool, n: int) -> Value:
    """Give equal neighbours among n descending probabilities the mean of their values."""
    before, after = o.columns(best, 0, n - 1), o.columns(best, 1, n)
    falls = o.to_float(before > (moved(after, ROUNDING) if near else after))
    first = o.filled(o.columns(best, 0, 1), 0.0)
    group = o.to_whole(o.cumulative(o.concat(first, falls)))
    none = o.filled(q, 0.0)
    sums = o.add_along(none, group, q)
    counts = o.add_along(none, group, o.filled(q, 1.0))
    return o.take_along(sums, group) / o.take_along(counts, group)


def top(o: Operations, x: Value, c: Constants, kind: Kind, n_classes: int, bounded: bool) -> Value:
    """Return the map of the top probability; the others share the rest, none of them gets more.

    If the j smallest of the others share what is left and the larger ones have the most they may,
    j is the largest number for which none of the j gets more.
    """
    p = proba(o, x, kind)
    is_top = first_of_largest(o, x, c)
    score = o.row_sum(o.where(is_top, p, 0.0))
    score = o.maximum(spline(o, score, c, kind == "logits", bounded), 1.0 / n_classes)
    if bounded:
        p = o.maximum(p, c["least"])
    falling, _ = o.sorted_top(-o.where(is_top, 2.0, p), n_classes - 1)
    total = o.cumulative(-falling)
    left = o.maximum(1.0 - score * (n_classes - c["others"]), 0.0)
    fits = -falling * left <= score * total
    count = o.maximum(o.row_max(o.to_float(fits) * c["others"]), 1.0)
    at = o.to_whole(count - 1.0)
    left, total = o.take_along(left, at), o.take_along(total, at)
    none = total <= 0.0
    shared = o.minimum(p / o.where(none, 1.0, total) * left, score)
    q = o.where(none & (p <= 0.0), left / count, o.where(none, score, shared))
    return keep_top(o, o.where(is_top, score, q), x, c)
