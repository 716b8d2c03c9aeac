"""Bins, the error of even bins, and isotonic regression: slow and obvious, for all tests."""

import itertools
import math
from fractions import Fraction

import numpy as np


def bin_of(value, n_bins, closed):
    """Bin of a fraction; 0 lies in the first and 1 in the last."""
    if closed == "right":
        return max(0, math.ceil(value * n_bins) - 1)
    return min(n_bins - 1, math.floor(value * n_bins))


def even_bin(score, n_bins, closed):
    """Bin of a score of its own type; one that is k/B in that type stands for this fraction."""
    value = Fraction(float(score))
    nearest = round(value * n_bins)
    value = Fraction(nearest, n_bins) if score == type(score)(nearest / n_bins) else value
    return bin_of(value, n_bins, closed)


def places(score, weight, n_bins, method, closed="right"):
    """For every row a dict ``{bin: weight in it}``; whole weights stand for repeated rows."""
    if len(score) == 0:
        return []
    if method == "uniform":
        placed = [even_bin(np.asarray(s)[()], n_bins, closed) for s in score]
        return [{b: w} for b, w in zip(placed, weight, strict=True)]
    order = sorted(range(len(score)), key=lambda i: score[i])
    repeated = [i for i in order for _ in range(int(weight[i]))]
    total = len(repeated)
    if method == "rank":
        where = [{} for _ in score]
        for rank, i in enumerate(repeated):
            b = min(n_bins - 1, n_bins * rank // total)
            where[i][b] = where[i].get(b, 0) + 1
        return where
    values = [float(score[i]) for i in repeated]
    if method == "linear":  # scikit-learn's calibration_curve
        edges = np.percentile(values, np.linspace(0, 1, n_bins + 1) * 100)[1:-1]
        return [{sum(e < s for e in edges): w} for s, w in zip(score, weight, strict=True)]
    if method == "split":
        parts = np.array_split(np.array(values), min(n_bins, total))
        edges = [(a[-1] + b[0]) / 2 for a, b in itertools.pairwise(parts)]
        return [{sum(e < s for e in edges): w} for s, w in zip(score, weight, strict=True)]
    nearest = round if method == "edges" else math.floor
    start = [nearest(Fraction(r * total, n_bins)) for r in range(1, n_bins)]
    edges = [values[min(i, total - 1)] for i in start]
    return [{sum(e <= s for e in edges): w} for s, w in zip(score, weight, strict=True)]


def even_error(hit, p, w=None, n_bins=15):
    """The gaps of even bins, closed on the right, by their shares of the rows."""
    total, w = 0.0, [1] * len(p) if w is None else w
    for b in range(n_bins):
        rows = [i for i, s in enumerate(p) if b < s * n_bins <= b + 1 or (s == b == 0)]
        total += abs(sum(w[i] * (p[i] - hit[i]) for i in rows))
    return total / sum(w)


def minmax_isotonic(x, t, w):
    """Value at each distinct score by the min-max formula, in loops over ranges of scores."""
    levels = sorted(set(x))
    mass = [sum(wi for xi, wi in zip(x, w, strict=True) if xi == v) for v in levels]
    hits = [sum(wi * ti for xi, ti, wi in zip(x, t, w, strict=True) if xi == v) for v in levels]
    m = len(levels)
    until, before = [0, *itertools.accumulate(hits)], [0, *itertools.accumulate(mass)]
    share = {
        (a, b): (until[b + 1] - until[a]) / (before[b + 1] - before[a])
        for a in range(m)
        for b in range(a, m)
    }
    fitted = [max(min(share[a, b] for b in range(i, m)) for a in range(i + 1)) for i in range(m)]
    return levels, fitted
