r"""Rows in clusters, which were drawn together: sums over clusters are the observations.

`Predictions.cluster (n,)` is the number of each row's cluster, 0 to C - 1, or None. It is read by
`skcalib._validation.clusters.read_clusters`, and stays with the rows in `take`, `split` and
`in_copies`. Clusters of shares :math:`s_c` of the rows, or of the information about a number, count
as :math:`C_e = (\sum_c s_c)^2 / \sum_c s_c^2` of equal size (Carter, Schnepel and Steigerwald
2017); an interval of them has quantiles of Student's t with :math:`C_e - 1` degrees of freedom.

`cluster_sums`, `number_of`, `effective_number` and `student` are these numbers, and `joined` keeps
tables small. `ratio_ends` is the interval of a ratio of sums, `leave_out` that of coefficients. Of
rows with weights `w` and a `cluster`, which is None if they are independent, `widening` is the
factor of residuals about a fit of the same rows; rows whose hits have an interval count as fewer by
`design_effect`. Both are 1 for independent rows.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import ndtri, stdtrit

from skcalib._arrays.types import Float64Array, Intp

# Information with a larger condition number is that of fewer coefficients.
SINGULAR = 1e12


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


def student(number: float, level: float) -> float:
    """Return the quantile of Student's t of an interval of as many clusters of equal size."""
    return float(stdtrit(max(number - 1, 1), (1 + level) / 2))


def student_of_rows(rows: Any, level: float) -> float:
    """Return that quantile for the clusters of rows."""
    return student(effective_number(cluster_sums(rows.w, rows.cluster)), level)


def widening(rows: Any, level: float) -> float:
    """Return the factor of standard deviations that residuals about a fit of the same rows need."""
    if rows.cluster is None:
        return 1.0
    number = effective_number(cluster_sums(rows.w, rows.cluster))
    factor = np.sqrt(number / max(number - 1, 1)) / ndtri((1 + level) / 2)
    return float(student(number, level) * factor)


def design_effect(rows: Any, residual: Float64Array, level: float, cell: Any = 0) -> float:
    """Return by how much the number of rows is divided in an interval of a rate.

    `residual (n,)` are those of the rows, of several cells by the residuals of all together.
    """
    w, cluster = rows.w, rows.cluster
    if cluster is None:
        return 1.0
    C, squares = number_of(cluster), w @ residual**2
    sums = np.bincount(cluster + C * cell, w * residual)
    inflation = C / (C - 1) * (sums @ sums) / squares if squares else 1.0
    factor = student_of_rows(rows, level) / ndtri((1 + level) / 2)
    return float(max(inflation, 1.0) * factor**2)


def ratio_ends(D: Float64Array, N: Float64Array, level: float) -> tuple[float, float]:
    r"""Return the ends of the score interval of a ratio of sums over clusters; it may be infinite.

    It contains all r with :math:`(\sum_c D_c - r N_c)^2 \le z^2 \sum_c (D_c - r N_c)^2`.
    """
    z2, total = float(ndtri((1 + level) / 2)) ** 2, N.sum()
    ratio = D.sum() / total
    away = D - ratio * N  # its sum is 0
    a, b = total**2 - z2 * (N @ N), z2 * (away @ N)
    if a <= 0:
        return -np.inf, np.inf
    root = np.sqrt(b * b + a * z2 * (away @ away))
    return float(ratio - (b + root) / a), float(ratio - (b - root) / a)


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
