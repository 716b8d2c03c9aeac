"""Clusters of rows that were drawn together: one label for each row."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from skcalib._arrays.dask import bring
from skcalib._validation.groups import read_groups
from skcalib._validation.weights import is_whole

# An interval needs as many clusters.
FEWEST = 3


def read_clusters(clusters: Any, w: NDArray[np.float64]) -> NDArray[np.intp] | None:
    """Return the number of the cluster of each row of positive weight; see `numbered`.

    `w (n,)` are the checked weights of all rows. Labels of rows of weight 0 are not read.
    """
    (clusters,) = bring(clusters)
    read = read_groups(clusters, w.size, "clusters")
    if len(read.names) > 1:
        raise ValueError(
            f"clusters has {len(read.names)} columns: pass one label for each row, of nested "
            "levels the outermost (the hospital, not the patient)."
        )
    lost = np.flatnonzero((w > 0) & ~read.complete[read.code])
    if lost.size:
        raise ValueError(
            f"clusters has no label in row {lost[0]}: give each row one, a label of its own if it "
            "belongs to no cluster."
        )
    size = np.bincount(read.code, w)
    number, share = int((size > 0).sum()), float(size.max() / size.sum())
    if number < FEWEST:
        raise ValueError(
            f"clusters has {number} different label{'s' * (number != 1)}: an interval needs "
            f"{FEWEST}. Without clusters= it describes only the clusters that are here."
        )
    if share > 0.5:
        name, equal = read.labels[size.argmax()][0], size.sum() ** 2 / (size @ size)
        warnings.warn(
            f"clusters: {name!r} has {100 * share:.0f} % of the rows, so that the {number} "
            f"clusters count as {equal:.2g} of equal size: intervals are wide.",
            stacklevel=4,
        )
    return numbered(read.code[w > 0], w[w > 0])


def numbered(code: NDArray[Any], w: NDArray[np.float64]) -> NDArray[np.intp] | None:
    """Return numbers of clusters in the order of their first rows, 0 to C - 1.

    None if each row, and each copy that its weight counts, is a cluster of its own: the rows are
    independent then.
    """
    number, labels = pd.factorize(code)
    alone = labels.size == code.size and not (is_whole(w) and (w > 1).any())
    return None if alone else number
