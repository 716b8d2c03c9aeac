r"""The jackknife: what the choice of rows adds to an error, by leaving out groups of rows.

With :math:`e_{-g}` the error without group g of G and :math:`\bar e` their mean, the variance that
the choice of rows adds, and what few rows add to the error e, are

.. math:: \frac{G - 1}{G} \sum_g (e_{-g} - \bar e)^2, \qquad (G - 1) (\bar e - e) .
"""

from __future__ import annotations

import numpy as np

from skcalib._arrays.types import Float64Array, Intp
from skcalib.metrics._clusters import joined

# Groups of rows that are left out in turn.
GROUPS = 30
# The largest share of an error that counts as due to few rows; a smaller error is rounding.
LARGEST_EXCESS, TINY = 0.9, 1e-6


def random_groups(units: Intp) -> Intp:
    """Return the group of each row ``(n,)``; rows of one unit are in one group."""
    return joined(units, np.random.default_rng(0), GROUPS)


def jackknife_variance(without: Float64Array) -> Float64Array:
    """Return the variance ``(m,)`` that the choice of rows adds, from values without each group."""
    n_groups = len(without)
    away = without - without.mean(axis=0)
    return np.asarray((n_groups - 1) / n_groups * (away**2).sum(axis=0))


def excess_of_few_rows(without: Float64Array, limits: Float64Array) -> Float64Array:
    r"""Return the share ``(m,)`` of errors of a truth that more rows would not have.

    Gaps of bins of few rows vary even without chance in the labels, so that their mean absolute
    value is larger than with many rows. The jackknife finds all of it if it falls with the number
    of rows, and half of it if it falls with the root.
    """
    bias = (len(without) - 1) * (without.mean(axis=0) - limits)
    return np.clip(bias / np.maximum(limits, TINY), 0.0, LARGEST_EXCESS)
