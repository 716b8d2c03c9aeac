r"""Area under the ROC curve of one event, with the interval of Newcombe 2006 (method 5).

The area A is the share of pairs of an event and a non-event in which the event has the larger
probability; ties count half. With :math:`n_1` events, :math:`n_0` non-events and
:math:`m = (n_0 + n_1) / 2 - 1`, the interval contains all areas t with

.. math:: (A - t)^2 \le z^2 \frac{t (1 - t)}{n_0 n_1}
          \Big(1 + m \frac{1 - t}{2 - t} + m \frac{t}{1 + t}\Big) .

The variance is that of a model, which few events allow: a variance estimated from ten events makes
95 % intervals that contain the truth in 90 % of samples.
"""

from __future__ import annotations

import numpy as np
from scipy.optimize import brentq
from scipy.special import ndtri

from skcalib.metrics._statistics.event import EventRows


def auc_interval(rows: EventRows, level: float) -> tuple[float, float, float]:
    """Return area, low and high; NaN without events or without non-events."""
    p, hit, w = rows
    _, place = np.unique(p, return_inverse=True)
    events, others = np.bincount(place, w * hit), np.bincount(place, w * ~hit)
    sizes = float(events.sum()), float(others.sum())
    if not min(sizes):
        return np.nan, np.nan, np.nan
    area = float(events @ (np.cumsum(others) - others / 2)) / (sizes[0] * sizes[1])
    area = min(area, 1.0)  # rounding
    z = float(ndtri((1 + level) / 2))
    return area, lowest_area(area, *sizes, z), 1 - lowest_area(1 - area, *sizes, z)


def lowest_area(area: float, n_events: float, n_others: float, z: float) -> float:
    """Return the smallest area of the interval."""
    if area == 0:
        return 0.0
    m = max((n_events + n_others) / 2 - 1, 0.0)

    def beyond(t: float) -> float:
        # Both sides are divided by 1 - t: otherwise an area of 1 would be a root.
        away = (area - t) ** 2 / (1 - t) if t < 1 else 0.0
        factor = 1 + m * (1 - t) / (2 - t) + m * t / (1 + t)
        return away - z * z * t * factor / (n_events * n_others)

    return float(brentq(beyond, 0.0, area, xtol=1e-14))
