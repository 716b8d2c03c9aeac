r"""Rows in clusters, which were drawn together: sums over clusters are the observations.

`Predictions.cluster (n,)` is the number of each row's cluster, 0 to C - 1, or None. It is read by
`skcalib._validation.clusters.read_clusters`, and stays with the rows in `take`, `split` and
`in_copies`. Clusters of shares :math:`s_c` of the rows, or of the information about a number, count
as :math:`C_e = (\sum_c s_c)^2 / \sum_c s_c^2` of equal size (Carter, Schnepel and Steigerwald
2017); an interval of them has quantiles of Student's t with :math:`C_e - 1` degrees of freedom.

`cluster_sums`, `number_of`, `effective_number` and `student` are these numbers, `widening` is the
factor of residuals about a fit of the same rows, `joined` keeps tables small, and `noted` adds the
number of clusters to the repr of a result that is `clustered`.
"""

from __future__ import annotations

from typing import Any, TypeVar

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import ndtri, stdtrit

from skcalib._arrays.types import Float64Array, Intp

# More clusters are joined at random to as many, where a table has a row for each.
MOST = 500

Kind = TypeVar("Kind", bound=type)


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


def widening(cluster: Intp, w: Float64Array, level: float) -> float:
    """Return the factor of standard deviations that residuals about a fit of the same rows need."""
    number = effective_number(cluster_sums(w, cluster))
    factor = np.sqrt(number / max(number - 1, 1)) / ndtri((1 + level) / 2)
    return float(student(number, level) * factor)


def joined(cluster: Intp, random: np.random.Generator) -> Intp:
    """Join more than `MOST` clusters at random to as many: no row is lost."""
    number = number_of(cluster)
    if number <= MOST:
        return cluster
    places = random.permutation(number) % MOST
    return places[cluster]


def clustered(kind: Kind) -> Kind:
    """Give a named tuple a repr that ends with what `noted` adds."""
    of_rows: Any = kind.__repr__

    def text(self: Any) -> str:
        note = getattr(self, "_note", "")
        return f"{of_rows(self)[:-1]}{note})"

    names = {"__module__": kind.__module__, "__qualname__": kind.__qualname__}
    return type(kind)(kind.__name__, (kind,), {**names, "__doc__": kind.__doc__, "__repr__": text})


def noted(result: Any, cluster: Intp | None, level: float | None = None) -> Any:
    """Add the level and the number of clusters to the repr of a result."""
    if cluster is not None:
        percent = "" if level is None else f", {100 * level:g} %"
        result._note = f"{percent}, {number_of(cluster)} clusters"
    return result
