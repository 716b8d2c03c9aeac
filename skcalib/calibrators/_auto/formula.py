"""Formulas of automatic calibration: bounded features of the scores, for few and many classes."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

import numpy as np
from numpy.polynomial import chebyshev

from skcalib._arrays.types import Float64Array
from skcalib._maps.operations import Constants, Lines, Operations, Plan, Value, row
from skcalib.calibrators._auto import few, many
from skcalib.calibrators._auto.few import N_COSINES, N_SHARED
from skcalib.calibrators._auto.order_preserving import GROUPS, N_HINGES
from skcalib.calibrators._auto.smoothing import OFFSET_SHARE, Position, Smoothing

# Equal probabilities of this size count, though their exponentials may be rounded down.
LEAST = many.SMALLEST * (1.0 - 1e-14)

# The terms sqrt(2) / j cos(j x) as polynomials in cos x, a row for each j from 1.
IN_POWERS = np.array(
    [
        np.pad(chebyshev.cheb2poly(np.eye(j + 1)[j]) * (np.sqrt(2.0) / j), (0, N_COSINES - j))
        for j in range(1, N_COSINES + 1)
    ]
)


class Map(NamedTuple):
    """A fitted map; without knots of the `position`, that for many classes."""

    shared: bool
    theta: Float64Array
    smoothing: Smoothing
    position: Position
    centre: Float64Array | None
    identity_weight: float

    def without_cross(self) -> Map:
        """Return the map with M and L, the last parameters, at 0."""
        form, theta = few if self.position.knots.size else many, self.theta.copy()
        groups = GROUPS if self.shared else form.groups_of(self.smoothing.n_classes)
        if "M" in groups:
            theta[groups["M"].start :] = 0.0
        return self._replace(theta=theta)


def plan_auto(fitted: Map, options: bool = False) -> Plan:
    """Return the plan of the fitted map, mixed with no calibration."""
    omega, smoothing = fitted.identity_weight, fitted.smoothing
    small = OFFSET_SHARE * smoothing.epsilon
    terms, constants = logits_of(fitted)
    if omega > 0.0:
        constants["weights"] = np.array([[1.0 - omega], [omega * (1.0 - small)]])
        constants["none"] = omega * small / smoothing.n_classes
    formula = partial(auto, terms=terms, options=options, shared=fitted.shared)
    return Plan(formula, constants, "top" if fitted.shared else "largest")


def plan_eta(fitted: Map) -> Plan:
    """Return the plan of eta."""
    terms, constants = logits_of(fitted)
    return Plan(partial(eta, terms=terms), constants)


def eta(o: Operations, c: Constants, terms: Any) -> Value:
    """Return eta of some terms."""
    return terms(o, features(o, c), c)


def logits_of(fitted: Map) -> tuple[Callable[..., Value], Constants]:
    """Return the formula of eta, given `Features`, and its constants."""
    theta, smoothing, (knots, levels) = fitted.theta, fitted.smoothing, fitted.position
    n, K, epsilon = smoothing.n, smoothing.n_classes, smoothing.epsilon
    small = OFFSET_SHARE * epsilon
    constants: Constants = {
        "beta": smoothing.beta,
        "share": 1.0 - epsilon,
        "uniform": epsilon / K,
        "share_offset": 1.0 - small,
        "uniform_offset": small / K,
        "lift": 1.0 / (n * K),
    }
    if fitted.shared:
        knots, levels = hinged(knots, levels, theta[GROUPS["R"]])
        constants["position"] = Lines([knots], [levels])
        return rising_terms, constants | rising_constants(theta[GROUPS["t"]], smoothing)
    if not knots.size:
        return many_terms, constants | many_constants(theta, smoothing)
    constants["position"] = Lines([knots], [np.pi * (0.5 - levels)])
    own, cross = few.unpack(theta, K)
    return whole_terms, constants | whole_constants(own, cross, fitted.centre, smoothing)


def whole_constants(
    own: Float64Array, cross: Float64Array, centre: Float64Array | None, smoothing: Smoothing
) -> Constants:
    """Return the coefficients of all terms of up to 30 classes.

    Cosines of multiples are polynomials in the cosine: the terms are its powers.
    """
    K, t, b, cosines = len(own), own[0, :N_SHARED], own[:, N_SHARED], own[:, N_SHARED + 1 :]
    powers = cosines @ IN_POWERS
    shared = np.outer([1.0, t[0], t[4], 1.0], np.ones(K))
    constants = {"terms": np.vstack([shared, powers[:, 1:].T]), "b": row(b + powers[:, 0])}
    if centre is not None:
        constants["b"] -= centre @ cross[K:]
        constants |= {"by_p": cross[:K].T, "by_log": cross[K:].T}
    return constants | log_constants(t[1] / smoothing.square_scale, -t[2], t[3], 0.0)


def rising_constants(t: Float64Array, smoothing: Smoothing) -> Constants:
    """Return the coefficients of terms that preserve the order of the classes."""
    log_K = np.log(smoothing.n_classes)
    by_entropy, by_top = (t[2] - t[1]) / log_K, (t[4] - t[3]) / log_K
    square, slope = -t[6] / smoothing.square_scale, t[0] + t[2] + t[4]
    terms = np.array([1.0, t[5], -t[7], 1.0, 1.0])[:, None]
    return {"terms": terms, **log_constants(square, by_entropy, by_top, slope)}


def log_constants(square: float, by_order: float, by_top: float, slope: Any) -> Constants:
    """Return the coefficients of products with log q."""
    return {"square": square, "by_row": np.array([[by_order], [by_top]]), "slope": slope}


def hinged(
    knots: Float64Array, levels: Float64Array, steps: Float64Array
) -> tuple[Float64Array, Float64Array]:
    """Return the sum of hinges of the position as one broken line of the log-score."""
    ends = np.linspace(0.0, 1.0, N_HINGES + 1)
    inner = ends[(ends > levels[0]) & (ends < levels[-1])]
    at = np.concatenate([knots, np.interp(inner, levels, knots)])
    position = np.concatenate([levels, inner])
    at, first = np.unique(at, return_index=True)
    return at, np.interp(position[first], ends, np.append(0.0, np.cumsum(steps)))


def many_constants(theta: Float64Array, smoothing: Smoothing) -> Constants:
    """Return the coefficients of more than 30 classes."""
    (by_p, square, by_entropy, by_top, by_rest), b, slope, cross = many.unpack(
        theta, smoothing.n_classes
    )
    square = square / smoothing.square_scale
    links = {"cross": cross} if cross.any() else {}
    return {
        **links,
        "by_p": by_p,
        **log_constants(square, -by_entropy, by_top, row(1.0 + slope)),
        "by_rest": by_rest,
        "most": 1.0 + 1.0 / (smoothing.n * smoothing.n_classes),
        "b": row(b),
    }


class Features(NamedTuple):
    """What all terms are made of: p, q, log q, minus the entropy of q, and the largest log q."""

    p: Value
    q: Value
    a: Value
    order: Value
    top: Value


def auto(o: Operations, c: Constants, terms: Any, options: bool, shared: bool) -> Value:
    """Return softmax(eta) of some terms, mixed with the softmax of the logits."""
    result = o.softmax(eta(o, c, terms))
    if "weights" in c:
        result = o.combine(c["weights"], result, o.softmax(o.logits())) + c["none"]
    if options:
        result = o.without_options(result)
    return o.keep_top(result) if shared else result


def features(o: Operations, c: Constants) -> Features:
    """Return what all terms are made of."""
    p = o.softmax(c["beta"] * o.logits())
    q = c["share"] * p + c["uniform"]
    a = o.log(q)
    return Features(p, q, a, o.row_sum(q * a), o.row_max(a))


def log_terms(o: Operations, f: Features, c: Constants) -> Value:
    """Return the products with log q."""
    by_row = o.combine(c["by_row"], f.order, f.top) + c["slope"]
    return (c["square"] * f.a + by_row) * f.a


def position_terms(o: Operations, f: Features, c: Constants, *of_position: Value) -> Value:
    """Return the sum of the terms of both forms with a position."""
    rest = o.log(1.0 - f.q + c["lift"])
    offset = o.log(c["share_offset"] * f.p + c["uniform_offset"])
    return o.combine(c["terms"], log_terms(o, f, c), f.q, rest, offset, *of_position)


def whole_terms(o: Operations, f: Features, c: Constants) -> Value:
    """Return eta of up to 30 classes."""
    angle = o.lines(c["position"], f.a, computed=True)  # pi / 2 - pi u for positions u
    # Until 2025 ONNX Runtime had no cosine of float64: cos(pi u) is the sine of this angle.
    powers = [o.sin(angle)]
    for j in range(2, N_COSINES + 1):
        powers.append(powers[j // 2 - 1] * powers[(j + 1) // 2 - 1])
    own = position_terms(o, f, c, *powers) + c["b"]
    if "by_p" not in c:
        return own
    return own + o.map_rows(c["by_p"], f.p) + o.map_rows(c["by_log"], f.a)


def rising_terms(o: Operations, f: Features, c: Constants) -> Value:
    """Return eta of terms that preserve the order of the classes."""
    return position_terms(o, f, c, o.lines(c["position"], f.a, computed=True))


def many_terms(o: Operations, f: Features, c: Constants) -> Value:
    """Return eta of more than 30 classes, where small probabilities count by their logs alone."""
    p = o.where(f.p >= LEAST, f.p, 0.0)
    rest = c["by_rest"] * o.log(1.0 - p / c["most"])
    own = log_terms(o, f, c) + c["b"] + rest + c["by_p"] * p
    return own + o.map_sparse_rows(c["cross"], p) if "cross" in c else own
