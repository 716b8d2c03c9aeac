"""Formulas of automatic calibration: bounded features of the scores, for few and many classes."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

import numpy as np
from numpy.polynomial import chebyshev
from numpy.typing import NDArray

from skcalib._arrays.types import Kind
from skcalib._export.lines import broken_line
from skcalib._export.operations import (
    Constants,
    Line,
    Operations,
    Plan,
    Value,
    constant,
    equal_row,
)
from skcalib._export.scores import ROUNDING, clip_constants, logits
from skcalib._export.softmax_maps import plan_temperature
from skcalib.calibrators._auto import many
from skcalib.calibrators._auto.calibrator import LARGEST_WHOLE, is_shared
from skcalib.calibrators._auto.features import N_COSINES, N_SHARED, Layout
from skcalib.calibrators._auto.order_preserving import GROUPS, N_HINGES
from skcalib.calibrators._auto.smoothing import OFFSET_SHARE, Smoothing


def plan_auto(calibrator: Any) -> Plan:
    """Return the plan of the fitted map, mixed with no calibration."""
    if not calibrator._theta.size:  # the scale alone
        return plan_temperature(calibrator)
    K, theta = calibrator.classes_.size, calibrator._theta
    smoothing = Smoothing(1.0 / calibrator.temperature_, calibrator._weight, K)
    small, omega = OFFSET_SHARE * smoothing.epsilon, calibrator.identity_weight_
    mixed, shared = bool(omega > 0.0), is_shared(calibrator)
    constants = {**clip_constants(calibrator), **smoothing_constants(smoothing)}
    lines: tuple[Line, ...] = ()
    form: Callable[..., Value]
    if not shared and K > LARGEST_WHOLE:
        form = partial(many_terms, n_classes=K)
        constants |= many_constants(many.unpack(theta, K, np.float64), smoothing)
    else:
        knots, levels = calibrator._knots, calibrator._levels
        if shared:
            form = partial(rising_terms, n_classes=K)
            knots, levels = hinged(knots, levels, theta[GROUPS["R"]])
            constants |= rising_constants(theta[GROUPS["t"]], smoothing)
        else:
            form, levels = partial(whole_terms, crossed=K > 2), np.pi * (0.5 - levels)
            constants |= whole_constants(*Layout(K).unpack(theta), calibrator, smoothing)
        lines = (broken_line(knots, levels, blur=-ROUNDING),) * K  # logarithms: below 0
    return Plan(
        partial(auto, terms=form, kind=calibrator.input_, mixed=mixed, asks=bool(lines)),
        constants,
        "top" if shared else "largest",
        weights=(1.0 - omega, omega * (1.0 - small)) if mixed else (1.0,),
        uniform=omega * small / K,
        lines=lines,
        options=getattr(calibrator, "_options", False),
    )


def smoothing_constants(smoothing: Smoothing) -> dict[str, Any]:
    """Return the numbers of features, a row each."""
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
        }.items()
    }


def whole_constants(
    own: NDArray[Any], cross: NDArray[Any], calibrator: Any, smoothing: Smoothing
) -> dict[str, Any]:
    """Return one matrix of the coefficients of all terms of up to 30 classes.

    Cosines of multiples are polynomials in the cosine: the terms are its powers.
    """
    K = len(own)
    t, b, cosines = own[:, :N_SHARED], own[:, N_SHARED], own[:, N_SHARED + 1 :]
    in_powers = np.zeros((N_COSINES, N_COSINES + 1))
    for j in range(1, N_COSINES + 1):
        in_powers[j - 1, : j + 1] = chebyshev.cheb2poly(np.eye(j + 1)[j]) * (np.sqrt(2.0) / j)
    powers = cosines @ in_powers
    b = b + powers[:, 0]
    square, by_entropy, by_top, by_rest = (
        t[:, 1] / smoothing.square_scale,
        -t[:, 2],
        t[:, 3],
        t[:, 4],
    )
    each = [t[:, 0], square, by_entropy, by_top, by_rest, np.ones(K), *powers[:, 1:].T]
    blocks = [np.diag(row) for row in each]
    if K > 2:
        b = b - calibrator._centre @ cross[K:]
        blocks += [cross[:K].T, cross[K:].T]
    blocks[0] += b[:, None]  # the entries of q sum to 1
    return {"terms": np.hstack(blocks)}


def rising_constants(t: NDArray[Any], smoothing: Smoothing) -> dict[str, Any]:
    """Return the coefficients of terms that preserve the order of the classes."""
    s, log_K = smoothing.square_scale, np.log(smoothing.n_classes)
    by_entropy, by_top = (t[2] - t[1]) / log_K, (t[4] - t[3]) / log_K
    terms = [t[5], -t[6] / s, by_entropy, by_top, -t[7], 1.0, t[0] + t[2] + t[4], 1.0]
    return {"terms": np.array([terms])}


def hinged(
    knots: NDArray[Any], levels: NDArray[Any], steps: NDArray[Any]
) -> tuple[NDArray[Any], NDArray[Any]]:
    """Return the sum of hinges of the position as one broken line of the log-score."""
    ends = np.linspace(0.0, 1.0, N_HINGES + 1)
    inner = ends[(ends > levels[0]) & (ends < levels[-1])]
    at = np.concatenate([knots, np.interp(inner, levels, knots)])
    position = np.concatenate([levels, inner])
    at, first = np.unique(at, return_index=True)
    return at, np.interp(position[first], ends, np.append(0.0, np.cumsum(steps)))


def many_constants(terms: Any, smoothing: Smoothing) -> dict[str, Any]:
    """Return the coefficients of more than 30 classes."""
    K = smoothing.n_classes
    by_p, square, by_entropy, by_top, by_rest = terms.t
    shared = [square / smoothing.square_scale, -by_entropy, by_top, by_rest]
    return {
        "terms": np.array([shared]),
        "cross": by_p * np.eye(K) + (terms.cross if terms.cross.size else 0.0),
        "most": equal_row(1.0 + 1.0 / (smoothing.n * K), K),
        "slope": constant(1.0 + terms.slope),
        "b": constant(terms.b),
    }


class Features(NamedTuple):
    """What all terms are made of: p, q, log q, minus the entropy of q, and the largest log q."""

    p: Value
    q: Value
    a: Value
    order: Value
    top: Value


def auto(
    o: Operations, x: Value, c: Constants, kind: Kind, terms: Any, mixed: bool, asks: bool
) -> Any:
    """Return eta and, if they are `mixed`, the logits."""
    z = logits(o, x, c, kind)
    p = o.softmax(c["beta"] * z)
    q = c["kept"] * p + c["uniform"]
    a = o.log(q)
    f = Features(p, q, a, o.row_sum(q * a), o.row_max(a))
    given = [z] if mixed else []
    if asks:
        return a, lambda u: [terms(o, f, c, u), *given]
    return [terms(o, f, c), *given]


def squares(f: Features) -> list[Value]:
    """Return products with log q."""
    return [f.a * f.a, f.a * f.order, f.a * f.top]


def shared_terms(o: Operations, f: Features, c: Constants) -> list[Value]:
    """Return the terms that both forms with a position have."""
    rest = o.log(1.0 - f.q + c["lift"])
    offset = o.log(c["kept_offset"] * f.p + c["uniform_offset"])
    return [f.q, *squares(f), rest, offset]


def whole_terms(o: Operations, f: Features, c: Constants, angle: Value, crossed: bool) -> Value:
    """Return eta of up to 30 classes, given pi / 2 - pi u for positions u."""
    # Until 2025 ONNX Runtime had no cosine of float64: cos(pi u) is the sine of this angle.
    powers = [o.sin(angle)]
    for j in range(2, N_COSINES + 1):
        powers.append(powers[j // 2 - 1] * powers[(j + 1) // 2 - 1])
    cross = [f.p, f.a] if crossed else []
    return o.map_rows(c["terms"], o.concat(*shared_terms(o, f, c), *powers, *cross))


def rising_terms(o: Operations, f: Features, c: Constants, hinges: Value, n_classes: int) -> Value:
    """Return eta of terms that preserve the order of the classes, given the sums of hinges."""
    terms = [*shared_terms(o, f, c), f.a, hinges]
    return o.weighted_sum(c["terms"], o.concat_rows(*terms), n_classes)


def many_terms(o: Operations, f: Features, c: Constants, n_classes: int) -> Value:
    """Return eta of more than 30 classes, where small probabilities count by their logs alone."""
    p = o.where(f.p >= many.SMALLEST * (1.0 - ROUNDING), f.p, 0.0)
    rest = o.log(1.0 - p / c["most"])
    shared = o.weighted_sum(c["terms"], o.concat_rows(*squares(f), rest), n_classes)
    return o.total(shared, o.map_sparse_rows(c["cross"], p), f.a * c["slope"], c["b"])
