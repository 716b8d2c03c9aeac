"""Formulas of automatic calibration: bounded features of the scores, for few and many classes."""

from __future__ import annotations

from functools import partial
from typing import Any, NamedTuple

import numpy as np

from skcalib._arrays.types import Kind
from skcalib._export.operations import Constants, Operations, Plan, Value, constant, equal_row
from skcalib._export.scores import (
    ROUNDING,
    clip_constants,
    keep_top,
    logits,
    place_constants,
    softmax,
)
from skcalib._export.thresholds import line, line_constants
from skcalib.calibrators._auto import many
from skcalib.calibrators._auto.calibrator import LARGEST_WHOLE, is_shared
from skcalib.calibrators._auto.features import N_COSINES, N_SHARED, Layout
from skcalib.calibrators._auto.order_preserving import GROUPS, N_HINGES
from skcalib.calibrators._auto.smoothing import OFFSET_SHARE, Smoothing


def plan_auto(calibrator: Any) -> Plan:
    """Return the plan of the fitted map, mixed with no calibration."""
    K, theta = calibrator.classes_.size, calibrator._theta
    smoothing = Smoothing(1.0 / calibrator.temperature_, calibrator._weight, K)
    omega = calibrator.identity_weight_
    constants = {
        **clip_constants(calibrator),
        **smoothing_constants(smoothing),
        "mapped": equal_row(1.0 - omega, K),
        "identity": equal_row(omega, K),
    }
    keywords = {"kind": calibrator.input_, "mixed": bool(omega > 0.0)}
    shared = is_shared(calibrator)
    if not shared and K > LARGEST_WHOLE:
        terms = many.unpack(theta, K, np.float64)
        names = ("b", "slope", "cross")
        constants |= {name: constant(getattr(terms, name)) for name in names}
        constants |= {f"t{j}": equal_row(t, K) for j, t in enumerate(terms.t)}
        return Plan(partial(auto, terms=many_terms, **keywords), constants)
    constants |= line_constants([calibrator._knots], [calibrator._levels])
    if shared:
        shape, steps = (theta[GROUPS[name]] for name in ("t", "R"))
        constants |= {f"t{j}": equal_row(t, K) for j, t in enumerate(shape)}
        constants |= {"steps": steps, "below": np.cumsum(steps) - steps}
        constants |= {"log_K": equal_row(np.log(K), K)} | place_constants(K)
        return Plan(partial(auto, terms=rising_terms, **keywords, tops=True), constants, "top")
    own, cross = Layout(K).unpack(theta)
    constants |= {f"t{j}": constant(own[:, j]) for j in range(N_SHARED)}
    constants["b"] = constant(own[:, N_SHARED])
    for j in range(1, N_COSINES + 1):
        constants[f"cosine{j}"] = constant(own[:, N_SHARED + j] * (np.sqrt(2.0) / j))
    if K > 2:
        constants |= {"M": cross[:K].T, "L": cross[K:].T, "centre": constant(calibrator._centre)}
    return Plan(partial(auto, terms=whole_terms, **keywords), constants)


def smoothing_constants(smoothing: Smoothing) -> dict[str, Any]:
    """Return the numbers of `mix` and of features, a row each."""
    n, K, epsilon = smoothing.n, smoothing.n_classes, smoothing.epsilon
    small = OFFSET_SHARE * epsilon
    return {
        name: equal_row(number, K)
        for name, number in {
            "beta": smoothing.beta,
            "kept": 1.0 - epsilon,
            "uniform": epsilon / K,
            "kept_offset": 1.0 - small,
            "uniform_offset": small / K,
            "lift": 1.0 / (n * K),
            "square_scale": smoothing.square_scale,
        }.items()
    }


class Features(NamedTuple):
    """What all terms are made of: p, q, log q, the entropy of q and the largest log q."""

    p: Value
    q: Value
    a: Value
    entropy: Value
    top: Value


def auto(
    o: Operations,
    x: Value,
    c: Constants,
    kind: Kind,
    terms: Any,
    mixed: bool,
    tops: bool = False,
) -> Value:
    """Return the softmax of eta, mixed with smoothed probabilities of the scores."""
    z = logits(o, x, c, kind)
    p = softmax(o, c["beta"] * z)
    q = c["kept"] * p + c["uniform"]
    a = o.log(q)
    f = Features(p, q, a, -o.row_sum(q * a), o.row_max(a))
    P = softmax(o, terms(o, f, c))
    if mixed:
        P = P * c["mapped"] + offset_of(softmax(o, z), c) * c["identity"]
    return keep_top(o, P, x, c) if tops else P


def offset_of(p: Value, c: Constants) -> Value:
    """Return p mixed with a little of the uniform distribution."""
    return c["kept_offset"] * p + c["uniform_offset"]


def shared_terms(o: Operations, f: Features, c: Constants) -> Value:
    """Return the terms t of up to 30 classes."""
    square = f.a * f.a / c["square_scale"]
    rest = o.log(1.0 - f.q + c["lift"])
    return (
        f.q * c["t0"]
        + square * c["t1"]
        + f.a * f.entropy * c["t2"]
        + f.a * f.top * c["t3"]
        + rest * c["t4"]
    )


def whole_terms(o: Operations, f: Features, c: Constants) -> Value:
    """Return eta of up to 30 classes; the cosines by Clenshaw's recurrence."""
    double = 2.0 * o.cos(np.pi * line(o, f.a, c, near=True))
    later, now = 0.0, c[f"cosine{N_COSINES}"]
    for j in range(N_COSINES - 1, 0, -1):
        later, now = now, double * now - later + c[f"cosine{j}"]
    eta = shared_terms(o, f, c) + c["b"] + (double / 2.0 * now - later)
    eta = eta + o.log(offset_of(f.p, c))
    if "M" in c:
        eta = eta + o.map_rows(c["M"], f.p) + o.map_rows(c["L"], f.a - c["centre"])
    return eta


def rising_terms(o: Operations, f: Features, c: Constants) -> Value:
    """Return eta of terms that preserve the order of the classes."""
    p = o.maximum(f.q - c["uniform"], 0.0) / c["kept"]
    entropy, top = f.entropy / c["log_K"], -f.top / c["log_K"]
    slope = c["t0"] + entropy * c["t1"] + (1.0 - entropy) * c["t2"]
    slope = slope + top * c["t3"] + (1.0 - top) * c["t4"]
    eta = f.a * slope + f.q * c["t5"] - f.a * f.a / c["square_scale"] * c["t6"]
    eta = eta - o.log(1.0 - f.q + c["lift"]) * c["t7"]
    u = line(o, f.a, c, near=True) * float(N_HINGES)
    step = o.to_whole(o.minimum(u, N_HINGES - 1.0))
    eta = eta + o.take(c["below"], step) + o.take(c["steps"], step) * (u - o.to_float(step))
    return eta + o.log(offset_of(p, c))


def many_terms(o: Operations, f: Features, c: Constants) -> Value:
    """Return eta of more than 30 classes, where small probabilities count by their logs alone."""
    p = o.where(f.p >= many.SMALLEST * (1.0 - ROUNDING), f.p, 0.0)
    rest = o.log(1.0 - p / (1.0 + c["lift"]))
    by_row = 1.0 + f.entropy * c["t2"] + f.top * c["t3"]
    own = f.a * c["t1"] / c["square_scale"] + by_row + c["slope"]
    return o.map_sparse_rows(c["cross"], p) + p * c["t0"] + rest * c["t4"] + own * f.a + c["b"]
