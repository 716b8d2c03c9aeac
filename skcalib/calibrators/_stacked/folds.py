"""Folds that depend on probabilities and weights alone: not on the order of rows or of classes.

Rows of equal scores go into the same fold, whatever their labels, as copies of a row must. Labels
play no part: rows of a score with label A in one fold and with label B in another would teach the
first fold that this score means B. A score with a large share of the weight, such as a probability
of exactly 1, is divided among all folds instead: without it a map would have to guess there.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from skcalib._arrays.passes import map_rows
from skcalib._arrays.source import Source
from skcalib._arrays.types import Float64Array, FloatArray, Intp

UInt64Array = NDArray[np.uint64]

# Rows of equal scores are divided among the folds if they have this weight and this share of it.
DIVIDED_WEIGHT, DIVIDED_SHARE = 20.0, 0.05


class Fold(NamedTuple):
    """Rows to fit on and rows held out, with their weights."""

    train: Intp
    train_weight: Float64Array
    test: Intp
    test_weight: Float64Array


def make_folds(P: Source, w: Float64Array, n_folds: int) -> list[Fold]:
    """Return the folds of probabilities `P`; none if all rows would be in one."""
    fold, n_folds = fold_of_rows(P, w, n_folds)
    if n_folds < 2:
        return []
    divided = fold < 0
    folds = []
    for f in range(n_folds):
        train, test = np.flatnonzero(fold != f), np.flatnonzero((fold == f) | divided)
        kept = np.where(divided, 1.0 - 1.0 / n_folds, 1.0) * w
        held_out = np.where(divided, 1.0 / n_folds, 1.0) * w
        folds.append(Fold(train, kept[train], test, held_out[test]))
    return folds


def fold_of_rows(P: Source, w: Float64Array, n_folds: int) -> tuple[Intp, int]:
    """Return the fold of each row, -1 if it is divided among all, and the number of folds."""
    n = P.shape[0]
    own, unordered = np.empty(n, dtype=np.uint64), np.empty(n, dtype=np.uint64)
    map_rows(numbers_of_block, P, out=(own, unordered))
    group = np.unique(own, return_inverse=True)[1].reshape(-1)
    weight = np.bincount(group, w)[group]
    share = weight / w.sum()
    divided = (weight >= DIVIDED_WEIGHT) & (share >= DIVIDED_SHARE)
    # Certain rows have the same scores in another order: the weight of each kind separates them.
    key = scramble(unordered + scramble(np.round(share * 2.0**32).astype(np.uint64)))
    fold = np.full(n, -1, dtype=np.intp)
    values, place = np.unique(key[~divided], return_inverse=True)
    if not divided.any():
        n_folds = min(n_folds, values.size)
    fold[~divided] = place.reshape(-1) % n_folds
    return fold, n_folds


def numbers_of_block(block: FloatArray) -> tuple[UInt64Array, UInt64Array]:
    """Return two pseudo-random numbers of each row: of its numbers, and of them in any order.

    They are rounded to float32, so that an error of rounding in float64 changes nothing.
    """
    single = np.ascontiguousarray(block, dtype=np.float32) + np.float32(0.0)  # -0.0 becomes 0.0
    bits = scramble(single.view(np.uint32).astype(np.uint64))
    of_column = scramble(np.arange(1, block.shape[1] + 1, dtype=np.uint64))
    return scramble(bits ^ of_column).sum(axis=1), bits.sum(axis=1)


def scramble(x: UInt64Array) -> UInt64Array:
    """Return pseudo-random numbers, one for each number: the last step of SplitMix64."""
    x = x + np.uint64(0x9E3779B97F4A7C15)
    x = (x ^ (x >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    x = (x ^ (x >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return x ^ (x >> np.uint64(31))
