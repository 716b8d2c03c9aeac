r"""The map of two classes: a line in log-odds, increasing unless the rows are against it.

The map of `few` is a function of one number, the log-odds f of the second class. It is evaluated at
knots: 128 quantiles of the calibration rows, and others beyond both ends. With :math:`m_j` its
probability at the knot :math:`x_j` and :math:`v_j` the weight of the rows near it, the increasing
probabilities closest to it for every proper score, and their mixture with temperature scaling,
which increases strictly, are

.. math::

    r = \operatorname*{arg\,min}_{r_1 \le r_2 \le \dots} \sum_j v_j (r_j - m_j)^2, \qquad
    q_j = (1 - \delta) r_j + \delta \, \mathrm{expit}(\beta x_j + b), \qquad
    \sum_j v_j q_j = \sum_j v_j r_j .

A rise of .01 over the range of the calibration rows is added to the log-odds of q, which are then
joined by straight lines. If the summed log loss of the calibration rows is higher by more than 2
nats than that of the lines through the log-odds of m, the latter are the map.
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
# Distances of knots beyond the calibration rows, in units of their range; and others, up to twice
# the largest logit, so that new rows far outside keep their order too.
NEAR_TAIL, FAR_TAIL = 0.05 * 2.0 ** np.arange(7), 10.0 ** np.arange(1, 32)
# From these log-odds on, the map is constant up to rounding.
SATURATED = 60.0
# Knots closer than this share of the range are one: their difference may be rounding.
SAME = 1e-9
# Weight of a knot without rows.
LEAST_MASS = 1e-3
# Share of temperature scaling, and by how much the log-odds rise over the range at least.
TEMPERATURE_SHARE, LEAST_RISE = 0.01, 0.01
# By how much, in nats, the calibration rows may prefer the map that is not increasing.
LIMIT = 2.0
# Probabilities and their complements are at least this large.
LEAST = 1e-12
# Bound of the shift b.
MOST_SHIFT = 50.0


class BinaryMap(NamedTuple):
    """Knots and log-odds ``(2, m)``, whether they increase, and how they change probabilities.

    That is the mean change of the second class's probability, compared with temperature scaling.
    """

    line: Float64Array
    increasing: bool
    change: float


def plan_line(points: Float64Array, options: bool) -> Plan:
    """Return the plan of a line through knots and log-odds ``(2, m)``."""
    knots, log_odds = points
    return Plan(partial(line, options=options), {"map": Lines([knots], [log_odds])})


def line(o: Operations, c: Constants, options: bool) -> Value:
    """Return the probabilities of two classes, whose log-odds are a line of those of the scores."""
    z = o.logits()
    y = o.lines(c["map"], o.columns(z, 1, 2) - o.columns(z, 0, 1), computed=True)
    result = o.concat(o.expit(-y), o.expit(y))
    return o.zero_absent(result) if options else result


def fit_line(scores: Scores, code: Intp, w: Float64Array, beta: float, plan: Plan) -> BinaryMap:
    """Return the map of two classes; `plan` is that of the fitted terms."""
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
    """Return the knots of ascending values with weights, and the weight near each knot."""
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
    """Return strictly increasing log-odds at knots, for probabilities m of a map."""
    r = isotonic_regression(m, weights=mass).x

    def excess(b: float) -> tuple[float, float]:
        p = expit(beta * x + b)
        return float(mass @ (p - r)), float(mass @ (p * (1.0 - p)))

    b, _ = rising_root(excess, 0.0, -MOST_SHIFT, MOST_SHIFT)
    q = (1.0 - TEMPERATURE_SHARE) * r + TEMPERATURE_SHARE * expit(beta * x + b)
    log_odds = np.maximum.accumulate(logit(np.clip(q, LEAST, 1.0 - LEAST)))
    rise = LEAST_RISE * np.cumsum(np.minimum(np.diff(x, prepend=x[0]) / span, 1.0))
    return log_odds + rise - mass @ rise / mass.sum()
