"""Edges of even bins, rounded to the precision of the scores.

A score of 3/10 is 0.3 rounded to p significant bits: 0.30000001 in float32, 0.30004883 in float16.
Both are above the float64 number 0.3. So an edge e is rounded like the scores before they are
compared.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from skcalib._arrays.precision import FLOAT64
from skcalib._arrays.types import Float64Array

Side = Literal["left", "right"]

# Edges of up to this many bins are cached.
CACHED_EDGES = 1000


def rounded(x: Float64Array, bits: int) -> Float64Array:
    """Round float64 numbers to `bits` significant bits, halves to even."""
    if bits == FLOAT64:
        return x
    mantissa, exponent = np.frexp(x)
    return np.ldexp(np.rint(np.ldexp(mantissa, bits)), exponent - bits)


def as_written(
    ways: Float64Array, rest: Float64Array, bits: int, complements: bool, closed: Side
) -> Float64Array:
    """Return edges rounded to `bits` significant bits, in float64.

    A score may be computed in ways that differ in the last bits: 3/10, 3 * (1/10) or 1 - 7/10. The
    edge is the outermost of these numbers on the closed side of the bin, so that all of them belong
    to the bin that it closes.

    Parameters
    ----------
    ways : ndarray of shape (m, ...)
        Edges in [0, 1], computed in m ways.
    rest : ndarray of shape (m, ...)
        1 - edge, computed in the same ways.
    bits : int
        Significant bits of the scores.
    complements : bool
        Whether scores may have been computed as 1 - p, as in two columns.
    closed : {"left", "right"}
        The side on which bins are closed.
    """
    written = rounded(ways, bits)
    if complements:
        others = 1.0 - rounded(rest, bits)
        written = np.concatenate([written, others, rounded(others, bits)])
    return written.max(axis=0) if closed == "right" else written.min(axis=0)


def even_edges(
    j: NDArray[np.intp],
    n_bins: int | NDArray[np.intp],
    bits: int,
    complements: bool,
    closed: Side,
) -> Float64Array:
    """Return edge number `j` of even bins on [0, 1], rounded to `bits` significant bits."""
    # Bins narrower than the steps of the scores would get equal edges.
    bits = bits if np.max(n_bins) <= 1 << (bits - 1) else FLOAT64
    both = [np.stack([i / n_bins, np.minimum(i * (1.0 / n_bins), 1.0)]) for i in (j, n_bins - j)]
    return as_written(both[0], both[1], bits, complements, closed)


@lru_cache(maxsize=64)
def _few_edges(n_bins: int, bits: int, complements: bool, closed: Side) -> Float64Array:
    edges = even_edges(np.arange(n_bins + 1), n_bins, bits, complements, closed)
    edges.flags.writeable = False
    return edges


def all_even_edges(n_bins: int, bits: int, complements: bool, closed: Side) -> Float64Array:
    """Return the edges of even bins ``(n_bins + 1,)``, rounded like the scores; read-only.

    They are cached, because computing a few takes longer than binning some thousand scores.
    """
    if n_bins <= CACHED_EDGES:
        return _few_edges(n_bins, bits, complements, closed)
    return even_edges(np.arange(n_bins + 1), n_bins, bits, complements, closed)
