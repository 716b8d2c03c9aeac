"""Clusters of rows that were drawn together: one label for each row."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
from numpy.typing import NDArray

from skcalib._arrays.dask import bring, is_dask
from skcalib._validation.groups import MISSING, read_groups
from skcalib._validation.weights import is_whole

# An interval needs as many clusters.
FEWEST = 3


def read_clusters(clusters: Any, w: NDArray[np.float64]) -> NDArray[np.intp] | None:
    """Return the number of the cluster of each row of positive weight; see `numbered`.

    `w (n,)` are the checked weights of all rows. Labels of rows of weight 0 are not read.
    """
    if is_dask(clusters):
        (clusters,) = bring(clusters)
    read = read_groups(clusters, w.size, "clusters")
    if len(read.names) > 1:
        raise ValueError(
            f"clusters has {len(read.names)} columns: pass one label for each row, of nested "
            "levels the outermost (the hospital, not the patient)."
        )
    counts = w > 0
    labels = [label for (label,) in read.labels]
    if MISSING in labels:
        lost = np.flatnonzero(counts & (read.code == labels.index(MISSING)))
        if lost.size:
            raise ValueError(
                f"clusters has no label in row {lost[0]}: give each row one, a label of its own if "
                "it belongs to no cluster."
            )
    code, w = read.code[counts], w[counts]
    size = np.bincount(code, w)
    number = int((size > 0).sum())
    if number < FEWEST:
        some, these = ("label", "this one") if number == 1 else ("labels", f"these {number}")
        raise ValueError(
            f"clusters has {number} different {some}: an interval needs {FEWEST}. Without "
            f"clusters= it is about {these} alone."
        )
    if 2 * size.max() > size.sum():
        warnings.warn(
            f"clusters: {labels[size.argmax()]!r} has {100 * size.max() / size.sum():.0f} % of the "
            f"rows, so that the {number} clusters count as {size.sum() ** 2 / (size @ size):.2g} "
            "of equal size: intervals are wide.",
            UserWarning,
            stacklevel=4,
        )
    return numbered(code, w)


def numbered(code: NDArray[np.intp], w: NDArray[np.float64]) -> NDArray[np.intp] | None:
    """Return numbers of clusters in the order of their first rows, 0 to C - 1.

    None if each row, and each copy that its weight counts, is a cluster of its own: the rows are
    independent then.
    """
    _, first, place = np.unique(code, return_index=True, return_inverse=True)
    if first.size == code.size and not (is_whole(w) and (w > 1).any()):
        return None
    number = np.empty(first.size, dtype=np.intp)
    number[np.argsort(first)] = np.arange(first.size)
    return number[place]
