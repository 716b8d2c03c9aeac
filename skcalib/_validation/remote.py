"""Dask arrays: scores are read as a source; labels and weights are brought to the caller."""

from __future__ import annotations

from typing import Any

import numpy as np

from skcalib._arrays.dask import DaskSource, bring, bring_chunks, is_dask
from skcalib._arrays.source import Source
from skcalib._validation.frames import read_frame
from skcalib._validation.lazy import describe_lazy
from skcalib._validation.scores import as_matrix


def read_remote(
    X: Any, y: Any, sample_weight: Any, X_name: str = "X", y_name: str = "y"
) -> tuple[Any, Any, Any]:
    """Return a Dask array of several columns as a source, and arrays of rows as NumPy arrays.

    A single column is a number for each row too. Labels in a frame of another library are those of
    a frame of pandas. Anything else is returned as it came.
    """
    y = read_frame(y, y_name)
    beside = ((y_name, y), ("sample_weight", sample_weight))
    if not is_dask(X):
        for name, each in beside:
            if is_dask(each) and not isinstance(X, Source):
                raise TypeError(
                    f"{name} is a dask array but {X_name} is not: pass both as dask arrays, or "
                    f"{name}.compute()."
                )
        return X, y, sample_weight
    if X.ndim != 2 or X.shape[1] == 1:
        return bring(X, y, sample_weight)
    if np.isnan(X.shape[1]):
        raise ValueError(
            f"{X_name} is a dask array whose number of columns is unknown; call "
            f"{X_name}.compute_chunk_sizes() first."
        )
    dtype = as_matrix(np.zeros((1, X.shape[1]), dtype=X.dtype), X_name).dtype
    lengths = None
    if np.isnan(X.shape[0]) and is_dask(y) and y.numblocks[0] == X.numblocks[0]:
        y, lengths = bring_chunks(y)
    y, sample_weight = bring(y, sample_weight)
    source = DaskSource(X, lengths, dtype, describe_lazy(X_name, X))
    if not source.shape[0]:
        as_matrix(np.empty((0, X.shape[1])), X_name)
    return source, y, sample_weight
