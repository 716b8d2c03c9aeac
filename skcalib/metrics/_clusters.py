r"""Rows in clusters, which were drawn together: sums over clusters are the observations.

`Predictions.cluster (n,)` is the number of each row's cluster, 0 to C - 1, or None. It is read by
`skcalib._validation.clusters.read_clusters`, and stays with the rows in `take`, `split` and
`in_copies`. In the interval of a mean, a row of a relative weight is a cluster of its own
(`in_units`): its variance depends on how weights and values go together.

Clusters of shares :math:`s_c` of the rows have numbers :math:`m_c` of which the mean is
:math:`g = \sum_c s_c m_c`. If the variance of :math:`m_c` is proportional to :math:`v_c`, that of
:math:`m_c - g` is :math:`v_c - 2 s_c v_c + \sum_k s_k^2 v_k`; squared residuals are divided by the
ratio of both, and their sum has the degrees of freedom of Bell and McCaffrey (2002). Clusters have
equal variances, as numbers of whole clusters have, and so have differences of the losses of rows of
relative weights. Losses and shares of such rows have :math:`v_c = s_c^{-1/2}`: a heavy row is of a
kind that is rarely seen, and often has a small loss.

Slopes and simulated errors have Student's t with :math:`C_e - 1` degrees of freedom, where
:math:`C_e = (\sum_c s_c)^2 / \sum_c s_c^2` clusters of equal size have as much information (Carter,
Schnepel and Steigerwald 2017). `leave_out` is the covariance of coefficients, `widening` the factor
of residuals about a fit of the same rows; rows whose hits have an interval count as fewer by
`design_effect`. Both are 1 for independent rows.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import ndtri, stdtrit

from skcalib._arrays.types import Float64Array, Intp
from skcalib._validation.weights import is_whole

# Information with a larger condition number is that of fewer coefficients.
SINGULAR = 1e12
# The variances of rows are proportional to this power of their relative weights: see the module.
OF_ROWS = -0.5
# A cluster without an expected event counts as this share.
LEAST_SHARE = 1e-12


def number_of(cluster: Intp) -> int:
    """Return how many clusters there are."""
    return int(cluster.max()) + 1


def cluster_sums(values: ArrayLike, cluster: Intp) -> Float64Array:
    """Return the sums ``(C, ...)`` of numbers ``(n, ...)`` over each cluster."""
    values = np.asarray(values, dtype=np.float64)
    parts = values.reshape(len(values), -1).T
    sums = np.column_stack([np.bincount(cluster, part) for part in parts])
    return np.asarray(sums.reshape(-1, *values.shape[1:]), dtype=np.float64)


def effective_number(share: Float64Array) -> float:
    """Return how many clusters of equal size count as much as those of these shares ``(C,)``."""
    return float(share.sum() ** 2 / (share @ share))


def in_units(rows: Any) -> Any:
    """Return rows of which each of a relative weight is a cluster of its own."""
    if rows.cluster is not None or is_whole(rows.w):
        return rows
    return rows._replace(cluster=np.arange(rows.w.size))


def balance(share: Float64Array, power: float = 0.0) -> tuple[Float64Array, float]:
    """Return the part of its variance that each squared residual has, and degrees of freedom.

    Clusters have shares ``(C,)`` of a mean, and variances proportional to a power of these.
    """
    s = np.maximum(share / share.sum(), LEAST_SHARE)
    v = s**power
    b = s * v
    total = s @ b
    of_residual = v - 2 * b + total
    part = of_residual / v
    d = s * s / part
    # The sum of the squared entries d_i d_j cov(residual i, residual j)^2.
    zero, one, two = d.sum(), d @ b, d @ (b * b)
    squares = (d * d) @ (v * (v + 2 * (total - 2 * b)))
    squares += total**2 * zero**2 + 2 * zero * two - 4 * total * zero * one + 2 * one**2
    return part, float((d @ of_residual) ** 2 / squares)


def student(freedom: float, level: float) -> float:
    """Return the quantile of Student's t at the upper end of an interval."""
    return float(stdtrit(max(freedom, 1), (1 + level) / 2))


def student_of_rows(rows: Any, level: float) -> float:
    """Return that quantile for a mean of rows in clusters."""
    return student(balance(cluster_sums(rows.w, rows.cluster))[1], level)


def widening(rows: Any, level: float) -> float:
    """Return the factor of standard deviations that residuals about a fit of the same rows need."""
    if rows.cluster is None:
        return 1.0
    number = effective_number(cluster_sums(rows.w, rows.cluster))
    factor = np.sqrt(number / max(number - 1, 1)) / ndtri((1 + level) / 2)
    return float(student(number - 1, level) * factor)


def resampling_factor(rows: Any, level: float) -> float:
    """Return the factor of quantiles of resampled clusters."""
    if rows.cluster is None:
        return 1.0
    share = cluster_sums(rows.w, rows.cluster)
    part, freedom = balance(share)
    lost = np.sqrt((share @ share) / (share**2 @ part))
    return float(student(freedom, level) * lost / ndtri((1 + level) / 2))


def design_effect(rows: Any, residual: Float64Array, level: float, cell: Any = 0) -> float:
    """Return by how much the number of rows is divided in an interval of a rate.

    `residual (n,)` are those of the rows, of several cells by the residuals of all together.
    """
    w, cluster = rows.w, rows.cluster
    if cluster is None:
        return 1.0
    C, squares, share = number_of(cluster), w @ residual**2, cluster_sums(w, cluster)
    part, freedom = balance(share, OF_ROWS if w.size == C else 0.0)
    sums = np.bincount(cluster + C * cell, w * residual, C * (np.max(cell) + 1)).reshape(-1, C)
    inflation = (sums**2 / part).sum() / squares if squares else 1.0
    if w.size > C:  # rows of relative weights may count as more than their effective number
        inflation = max(inflation, 1.0)
    return float(inflation * (student(freedom, level) / ndtri((1 + level) / 2)) ** 2)


def ratio_ends(
    D: Float64Array, N: Float64Array, level: float, power: float = 0.0
) -> tuple[float, float]:
    """Return the ends of Student's interval of a ratio of sums over clusters."""
    total = N.sum()
    ratio = D.sum() / total
    part, freedom = balance(N, power)
    half = student(freedom, level) * np.sqrt((((D - ratio * N) / total) ** 2 / part).sum())
    return float(ratio - half), float(ratio + half)


def leave_out(
    X: Float64Array, information: Float64Array, residual: Float64Array, cluster: Intp
) -> tuple[Float64Array, list[float]]:
    """Return the covariance ``(d, d)`` of coefficients, and how many clusters each counts.

    Columns ``X (n, d)``, ``information (n,)`` of the rows, ``residual (n,)`` with the weight of the
    row. Each score is that of a fit without its cluster (CR3; Bell and McCaffrey 2002).
    """
    A = cluster_sums(information[:, None, None] * X[:, :, None] * X[:, None, :], cluster)
    scores = cluster_sums(residual[:, None] * X, cluster)
    total, C = A.sum(axis=0), len(A)
    if np.linalg.cond(total - A).max() > SINGULAR:
        raise ValueError(
            "clusters: the interval of the slope leaves out each of them in turn, and without one "
            "the other rows have no finite slope: measure more clusters."
        )
    moved, inverse = np.linalg.solve(total - A, scores[..., None])[..., 0], np.linalg.inv(total)
    shares = np.einsum("kd,cde,ke->kc", inverse, A, inverse)
    return moved.T @ moved * (C - 1) / C, [effective_number(share) for share in shares]


def joined(cluster: Intp, random: Any, most: int) -> Intp:
    """Join more than `most` clusters at random to as many: no row is lost."""
    number = number_of(cluster)
    return cluster if number <= most else (random.permutation(number) % most)[cluster]
