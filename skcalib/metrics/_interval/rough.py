r"""Truths with rough errors: other errors in each range of scores, which no smooth map corrects.

Rows are put in B bins of equal weight by the top probability s of a smooth truth. Let :math:`e_b`
be the share of hits less the mean score of bin b, and :math:`v_b` its variance by chance. If the
errors of bins are normal with variance :math:`\tau^2 v_b`, then given the labels

.. math:: \delta_b \sim N(a e_b, a v_b), \quad a = \frac{\tau^2}{1 + \tau^2}, \qquad
          1 + \tau^2 = \max\Bigl(1, \bigl(1 + c \sqrt{2 / B}\bigr)
          \frac{1}{B} \sum_b \frac{e_b^2}{v_b}\Bigr) .

With c = 0 errors are as large as the labels show (James & Stein 1961); with c > 0 they are larger
by c standard errors, as chance may hide them. The top probability is moved by :math:`\delta_b`;
the other classes share the rest as before.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from skcalib._arrays.passes import map_rows
from skcalib._arrays.source import as_source
from skcalib._arrays.types import Float64Array, FloatArray, Intp
from skcalib._binning.bins import Bins
from skcalib._binning.quantiles import edge_sides, quantile_table
from skcalib._scores.top_label import top_label
from skcalib._validation.predictions import Predictions

# B and c of each truth: errors of .07 that change sign every .07 are seen by these.
ROUGH = ((30, 0.0), (15, 2.5), (15, 4.0), (15, 6.0))
TINY = 1e-12


def rough_truths(
    q: FloatArray, predictions: Predictions, random: np.random.Generator
) -> Iterator[FloatArray]:
    """Yield truths ``(n, K)`` like q, with rough errors of their top probabilities."""
    P = as_source(q)
    score, top = top_label(P)
    for n_bins, more in ROUGH:
        moved = moved_scores(score, top, predictions, Bins(n_bins, "edges", "left"), more, random)
        out = np.empty_like(q)
        map_rows(move_top, P, top, score, moved, out=out)
        yield out


def moved_scores(
    score: FloatArray,
    top: Intp,
    predictions: Predictions,
    bins: Bins,
    more: float,
    random: np.random.Generator,
) -> Float64Array:
    """Return the top probabilities ``(n,)`` with rough errors; `more` is the c of the formula."""
    w = predictions.w
    table = quantile_table(score, top == predictions.code, w, bins)
    full = table.weight[0] > 0
    rows = table.weight[0, full]
    # Half a row of each outcome more: one miss among sure rows is not millions of times chance.
    mean = (table.confidence[0, full] * rows + 0.5) / (rows + 1)
    chance = mean * (1 - mean) / rows
    error = table.gap[0, full]
    size = float((error**2 / chance).mean()) * (1 + more * np.sqrt(2 / rows.size))
    share = 1 - 1 / max(size, 1.0)
    shift = np.zeros(full.size)
    noise = np.sqrt(share * chance) * random.standard_normal(rows.size)
    shift[full] = share * error + noise
    own = np.searchsorted(table.left[0, 1:], score, side=edge_sides(bins)[1])
    return np.clip(score + shift[own], 0.0, 1.0)


def move_top(block: FloatArray, top: Intp, score: FloatArray, moved: Float64Array) -> Float64Array:
    """Return a block whose top probabilities are moved; the other classes share the rest."""
    out = block * ((1 - moved) / np.maximum(1 - score.astype(np.float64), TINY))[:, None]
    out[np.arange(len(out)), top] = moved
    out /= out.sum(axis=1, keepdims=True)
    return out
