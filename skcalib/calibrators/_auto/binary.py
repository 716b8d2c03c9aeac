r"""Automatic calibration of two classes by an increasing function, unless that fits much worse.

For two classes, the terms of `few` are a function of one number, the log-odds f of the second
class. The function is evaluated at knots: 128 quantiles of the calibration rows, and more knots
beyond both ends. With :math:`m_j` the probability at knot :math:`x_j` and :math:`v_j` the weight of
the rows near the knot, the closest increasing probabilities :math:`r_j` (by every proper score) and
their mixture :math:`q_j` with temperature scaling, which increases strictly, are

.. math::

    r = \operatorname*{arg\,min}_{r_1 \le r_2 \le \dots} \sum_j v_j (r_j - m_j)^2, \qquad
    q_j = (1 - \delta) r_j + \delta \, \mathrm{expit}(\beta x_j + b), \qquad
    \sum_j v_j q_j = \sum_j v_j r_j .

An increasing function with mean 0 is added to the log-odds of q. It rises by 0.01 over the range of
the calibration scores (at least 1), and beyond the range by at most 0.01 between two knots. The
log-odds at the knots are joined by straight lines. The same lines through the log-odds of m are
used instead if their summed log loss on the calibration rows is smaller by more than 2 nats.
"""

from __future__ import annotations

from functools import partial
from typing import NamedTuple

import numpy as np
from scipy.optimize import isotonic_regression
from scipy.special import expit, logit

from skcalib._arrays.rowwise import Float64Array, Intp
from skcalib._arrays.sources import map_rows
from skcalib._maps.formulas import Constants, Lines, Operations, Plan, Value, predict
from skcalib._scaling.optimise import rising_root
from skcalib._scores.scores import Scores

KNOTS = 128
# Distances of the outer knots from the smallest and the largest calibration score, as multiples of
# the range of the scores and as absolute numbers. So even scores far outside the range keep their
# order.
NEAR_TAIL, FAR_TAIL = 0.05 * 2.0 ** np.arange(7), 10.0 ** np.arange(1, 32)
# At log-odds beyond this number, calibrated probabilities are 0 or 1 up to rounding errors.
SATURATED = 60.0
# Knots are merged if they are closer than this fraction of the range of the scores, because their
# distance may be a rounding error.
SAME = 1e-9
# Weight that every knot has in addition to the weight of the calibration rows near it.
LEAST_MASS = 1e-3
# Weight of temperature scaling in its mixture with the isotonic fit, and the least increase of the
# calibrated log-odds over the range of the scores.
TEMPERATURE_SHARE, LEAST_RISE = 0.01, 0.01
# The increasing function is used if its summed log loss exceeds that of the unconstrained function
# by at most this many nats.
LIMIT = 2.0
# The probabilities of both classes are raised to at least this number before their log-odds are
# computed.
LEAST = 1e-12
# Largest absolute value of the shift b of the log-odds in the search for b.
MOST_SHIFT = 50.0


class BinaryMap(NamedTuple):
    """Fitted function of two classes: knots and log-odds ``(2, m)``, and whether it increases.

    `change` is the mean change of the probability of the second class compared with temperature
    scaling.
    """

    line: Float64Array
    increasing: bool
    change: float


def plan_line(points: Float64Array, options: bool) -> Plan:
    """Return the formula that interpolates the log-odds between knots, from an array ``(2, m)``."""
    knots, log_odds = points
    return Plan(partial(line, options=options), {"map": Lines([knots], [log_odds])})


def line(o: Operations, c: Constants, options: bool) -> Value:
    """Return the probabilities of two classes, whose log-odds are interpolated between knots."""
    z = o.logits()
    y = o.lines(c["map"], o.columns(z, 1, 2) - o.columns(z, 0, 1), computed=True)
    result = o.concat(o.expit(-y), o.expit(y))
    return o.zero_absent(result) if options else result


def fit_line(scores: Scores, code: Intp, w: Float64Array, beta: float, plan: Plan) -> BinaryMap:
    """Fit log-odds at knots to the probabilities of a fitted model, whose formula is `plan`."""
    f = np.empty(len(code))
    map_rows(lambda Z: Z[:, 1] - Z[:, 0], scores.as_logits(), out=f)
    bound = SATURATED / min(beta, 1.0)
    values, index = np.unique(np.clip(f, -bound, bound), return_inverse=True)
    weight, events = (np.bincount(index, v).astype(np.float64) for v in (w, w * code))
    span = max(float(values[-1] - values[0]), 1.0)
    x, mass = knots_of(values, weight, span)
    Z = np.column_stack([np.zeros(x.size), x])
    m: Float64Array = predict(Scores(Z, "logits"), plan)[:, 1].clip(LEAST, 1.0 - LEAST)
    free, increasing = logit(m), increasing_log_odds(x, mass, m, beta, span)

    def loss(log_odds: Float64Array) -> float:
        y = np.interp(values, x, log_odds)
        return float(events @ np.logaddexp(0.0, -y) + (weight - events) @ np.logaddexp(0.0, y))

    is_increasing = loss(increasing) - loss(free) <= LIMIT
    log_odds = increasing if is_increasing else free
    change = expit(np.interp(values, x, log_odds)) - expit(beta * values)
    return BinaryMap(np.stack([x, log_odds]), is_increasing, float(weight @ change / weight.sum()))


def knots_of(
    values: Float64Array, weight: Float64Array, span: float
) -> tuple[Float64Array, Float64Array]:
    """Return knots for ascending scores with weights, and the sum of weights near each knot."""
    rank = (np.cumsum(weight) - weight / 2.0) / weight.sum()
    x = values
    if values.size > KNOTS:
        x = np.interp(np.linspace(0.0, 1.0, KNOTS), rank, values)
    tail = np.union1d(span * NEAR_TAIL, FAR_TAIL)
    x = np.concatenate([x[0] - tail[::-1], x, x[-1] + tail])
    x = x[np.diff(x, prepend=-np.inf) > SAME * span]
    near = np.searchsorted((x[1:] + x[:-1]) / 2.0, values)
    return x, LEAST_MASS + np.bincount(near, weight, x.size).astype(np.float64)


def increasing_log_odds(
    x: Float64Array, mass: Float64Array, m: Float64Array, beta: float, span: float
) -> Float64Array:
    """Return strictly increasing log-odds at the knots x, close to those of probabilities m."""
    r = isotonic_regression(m, weights=mass).x

    def excess(b: float) -> tuple[float, float]:
        p = expit(beta * x + b)
        return float(mass @ (p - r)), float(mass @ (p * (1.0 - p)))

    b, _ = rising_root(excess, 0.0, -MOST_SHIFT, MOST_SHIFT)
    q = (1.0 - TEMPERATURE_SHARE) * r + TEMPERATURE_SHARE * expit(beta * x + b)
    # Rounding can make a log-odds smaller than the one before it.
    log_odds = np.maximum.accumulate(logit(np.clip(q, LEAST, 1.0 - LEAST)))
    rise = LEAST_RISE * np.cumsum(np.minimum(np.diff(x, prepend=x[0]) / span, 1.0))
    return log_odds + rise - mass @ rise / mass.sum()
