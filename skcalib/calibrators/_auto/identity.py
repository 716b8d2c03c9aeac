r"""No calibration as an alternative hypothesis, weighted by evidence.

A map with log evidence ev of `evidence`, at the scale :math:`\beta` of `smoothing`, has

.. math::

    \log \mathrm{ev}(\mathrm{map}) = \log \mathrm{ev} + \log \mathcal{N}(\log \beta; 0, \sigma^2)
                                     + \tfrac12 \log (2 \pi / h),

h the second derivative by :math:`\log \beta` of the objective that gives :math:`\beta`, with
:math:`\exp a'` for p. No calibration has, with :math:`\epsilon' = 0.1 \epsilon`,

.. math::

    \log \mathrm{ev}(\mathrm{none}) = \sum_i w_i \log ((1 - \epsilon') \mathrm{softmax}(z_i)_{y_i}
                                      + \epsilon' / K) + \log (200 / n) .

:math:`\omega = 1 / (1 + \exp(\log \mathrm{ev}(\mathrm{map}) - \log \mathrm{ev}(\mathrm{none})))` is
its weight.
"""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np
from scipy.special import expit

from skcalib._arrays.passes import sum_rows
from skcalib._arrays.tensors import rows_of
from skcalib._arrays.types import Float64Array, Intp
from skcalib._scores.scores import Scores
from skcalib.calibrators._auto.smoothing import OFFSET_SHARE, PRIOR_SD, Smoothing

# No calibration is a priori as likely as a map where there are this many rows.
EVEN_ROWS = 200.0
SMALLEST_CURVATURE = 1e-2


def weigh_identity(
    scores: Scores, code: Intp, w: Float64Array, smoothing: Smoothing, log_evidence: float
) -> float:
    """Return omega, for the `log_evidence` of the map given its scale."""
    kernel = partial(sum_log_likelihoods, smoothing=smoothing)
    none, bend = sum_rows(kernel, scores.float64_logits(), code, w)
    log_beta = np.log(smoothing.beta)
    h = max(PRIOR_SD**-2 - bend, SMALLEST_CURVATURE)
    scale = -0.5 * (log_beta / PRIOR_SD) ** 2 - np.log(PRIOR_SD) - 0.5 * np.log(h)
    return float(expit(none + np.log(EVEN_ROWS / smoothing.n) - log_evidence - scale))


def sum_log_likelihoods(
    Z: Float64Array, code: Intp, w: Float64Array, smoothing: Smoothing
) -> tuple[Any, Any]:
    """Return sums over a block: log-likelihoods at scale 1, second derivatives of those at beta."""
    r, none = rows_of(Z), smoothing._replace(beta=1.0)
    value = r.log(none.mix(r.at(none.proba(Z), code), OFFSET_SHARE))
    P = smoothing.proba(Z)
    F = smoothing.beta * Z
    F[P <= 0.0] = 0.0
    F -= r.row_max(F)[:, None]
    mean, spread = mean_and_variance(F, P)
    p = r.at(P, code)
    g = (p > 0.0) * (r.at(F, code) - mean)
    share = (1.0 - OFFSET_SHARE * smoothing.epsilon) * p / smoothing.mix(p, OFFSET_SHARE)
    return w @ value, w @ (share * (g * g + g - spread) - (share * g) ** 2)


def mean_and_variance(D: Float64Array, p: Float64Array) -> tuple[Float64Array, Float64Array]:
    """Return the mean and the variance of each row of `D` under the probabilities `p`."""
    r = rows_of(D)
    mean = r.row_dots(p, D)
    return mean, r.row_dots(p * D, D) - mean * mean
