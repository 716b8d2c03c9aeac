"""Where the artists of a diagram are, so that texts do not cover them."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np

from skcalib._arrays.types import Float64Array

# Points of a line that are looked at.
POINTS = 200


def places_of(artists: Iterable[Any]) -> Float64Array:
    """Return many points ``(m, 2)`` of lines, patches and collections, in pixels."""
    found = [np.empty((0, 2))]
    for artist in artists:
        paths = artist.get_paths() if hasattr(artist, "get_paths") else [artist.get_path()]
        found += [along(artist.get_transform().transform(path.vertices)) for path in paths]
    return np.concatenate(found)


def along(points: Float64Array) -> Float64Array:
    """Return many points of a line through points."""
    if len(points) == 0:
        return np.empty((0, 2))
    at = np.linspace(0, len(points) - 1, max(POINTS, 4 * len(points)))
    return np.column_stack([np.interp(at, np.arange(len(points)), c) for c in points.T])


def is_over(box: Any, points: Float64Array) -> bool:
    """Whether one of the points lies in a box."""
    inside = (points > [box.x0, box.y0]) & (points < [box.x1, box.y1])
    return bool(inside.all(axis=1).any())
