r"""Masses on [0, 1], smoothed by a kernel that is reflected at both ends so that no mass is lost.

With reflection the Fourier basis reduces to cosines. With :math:`a_k = \sum_i m_i \cos(\pi k
s_i)` and the kernel's transform :math:`\hat K`, the density of the smoothed masses is

.. math:: g(x) = a_0 + 2 \sum_{k \ge 1} \hat K(\pi k)\, a_k \cos(\pi k x).

Masses are first shared between the two nearest nodes of a fine grid; both sums are then cosine
transforms, exact at the nodes, the two end nodes included.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy.fft import dct

from skcalib._arrays.types import Float64Array


def share_to_grid(score: Float64Array, mass: Float64Array, cells: int) -> Float64Array:
    r"""Return the mass at each of ``cells + 1`` nodes, with the same total and centre.

    A point is spread over at most one cell: the relative change of a density of width h is at most
    :math:`1 / (8 h^2 \mathrm{cells}^2)`.
    """
    place = score * cells
    cell = np.minimum(place.astype(np.intp), cells - 1)
    upper = mass * (place - cell)
    lower = np.bincount(cell, mass - upper, cells + 1).astype(np.float64, copy=False)
    return lower + np.bincount(cell + 1, upper, cells + 1)


def cosine_coefficients(nodes: Float64Array) -> Float64Array:
    """Coefficients :math:`a_k` of masses at the nodes ``(..., m)``, one for each node."""
    # The transform halves the ends, because it is that of an even periodic sequence.
    doubled = nodes.copy()
    doubled[..., 0] *= 2.0
    doubled[..., -1] *= 2.0
    return np.asarray(dct(doubled, type=1)) / 2.0


def smoothed_density(coefficients: Float64Array, transform: Float64Array) -> Float64Array:
    """Density at the nodes; `transform` is the kernel's at the frequencies pi k."""
    return np.asarray(dct(coefficients * transform, type=1))


def integral(values: Float64Array) -> Any:
    """Trapezoidal integrals over [0, 1] of values ``(..., m)``; exact for a smoothed density."""
    ends = (values[..., 0] + values[..., -1]) / 2.0
    return (values.sum(axis=-1) - ends) / (values.shape[-1] - 1)
