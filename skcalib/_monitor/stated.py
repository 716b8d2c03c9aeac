r"""What stated probabilities stand for: the probabilities that may have been rounded to them.

A stated p stands for the interval :math:`[p - d/2, p + d/2]`. The step d is :math:`10^{-k}` if all
scores so far are decimals of k <= 4 places, else 0. Where d is 0, an exact 0 stands for
:math:`[0, e/2]` and an exact 1 for :math:`[1 - e/2, 1]`; e is the smallest distance of another
score so far from 0 or from 1, at most 0.1.

Intervals depend on the scores alone, and they only shrink from batch to batch.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from scipy.special import logit

from skcalib._arrays.types import Float64Array

MOST_PLACES = 4
# Largest distance of a decimal from its float32.
ROUNDING = 1e-7
# Largest e.
FARTHEST = 0.1


class Resolution(NamedTuple):
    """The resolution of all scores so far.

    ``places`` are their decimals, 5 if they are no decimals; ``from_0`` and ``from_1`` the smallest
    distances of scores from 0 and from 1 without those that are 0 or 1.
    """

    places: int = 1
    from_0: float = FARTHEST
    from_1: float = FARTHEST

    def with_batch(self, P: Float64Array, event: int | None) -> Resolution:
        """Return the resolution with a batch ``(n, K)``; NaN is an option that was not offered.

        Distances are those of the event, or of all classes.
        """
        places = self.places
        while places <= MOST_PLACES and (np.abs(P - P.round(places)) > ROUNDING).any():
            places += 1
        p = P if event is None else P[:, event]
        inner = p[(p > 0) & (p < 1)]
        from_0, from_1 = inner.min(initial=self.from_0), (1 - inner).min(initial=self.from_1)
        return Resolution(places, float(from_0), float(from_1))

    def intervals(self, p: Float64Array) -> Float64Array:
        """Return the log-odds of probabilities and of the ends of their intervals, ``(4, n)``.

        The last row is 1 for decimals of 0 and 1, and 0 elsewhere: their log-odds are infinite, so
        that a bet that multiplies log-odds says nothing about them.
        """
        step = 10.0**-self.places if self.places <= MOST_PLACES else 0.0
        end_0, end_1 = (step or self.from_0) / 2, 1 - (step or self.from_1) / 2
        low, high = p - step / 2, p + step / 2
        high[p == 0], low[p == 1] = end_0, end_1
        odds = logit(np.clip([np.clip(p, end_0, end_1), low, high], 0.0, 1.0))
        return np.vstack([odds, ((p == 0) | (p == 1)) & (step > 0)])
