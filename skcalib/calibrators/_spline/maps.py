"""Formulas of spline calibration: for each class, for each rank of a row, or for the top one."""

from __future__ import annotations

from skcalib._maps.formulas import Constants, Operations, Value
from skcalib._scores.scores import MOST_ODDS


def bounded(o: Operations, p: Value, c: Constants) -> Value:
    """Return values of splines within [0, 1] or, where knots are chosen, bounds that depend on p.

    The least probability is p up to `rare` ones, but not below `least`, and so is that of the
    other classes. Of logits, p are log-odds, and the lines are what is added to probabilities.
    """
    y = o.lines(c["map"], p)
    if "lowest" in c:
        p = o.expit(p)
        y = y + o.minimum(o.maximum(p, c["lowest"]), c["highest"])
    if "least" not in c:
        return o.clip(y, 0.0, 1.0)
    low, high = o.clip(p, c["least"], c["rare"]), o.clip(p, c["frequent"], c["most"])
    return o.minimum(o.maximum(y, low), high)


def scores_of_ranks(o: Operations, n_maps: int, log_odds: bool) -> tuple[Value, ...]:
    """Return what ranks are sorted by, their columns and probabilities, and those of the others.

    The last rank is the sum of all others, if not every class has a rank.
    """
    p, scores, n = o.proba(), o.ordered(), n_maps - (n_maps < o.n_classes)
    x, index = o.sorted_top(scores, n)
    best = o.take_along(p, index)
    rest = o.put_along(p, index, best * 0.0)
    if n < n_maps:
        last = o.row_sum(rest)
        if log_odds:  # not of p, which may be 0
            logs = o.minimum(scores, 0.0) - o.log_tail(scores)
            last = o.log_sum_exp(o.put_along(logs, index, best * 0.0 - MOST_ODDS))
            last = last - o.log(o.row_sum(best))
        x = o.concat(x, o.clip(last, -MOST_ODDS, MOST_ODDS))
    return x, index, best, rest


def ranks(o: Operations, c: Constants, n_maps: int) -> Value:
    """Map the largest probability of each row, the next one, and so on.

    The last map is for the sum of all remaining ranks, which share its value in proportion; equal
    probabilities get the mean of their values.
    """
    own = n_maps - (n_maps < o.n_classes)
    x, index, best, rest = scores_of_ranks(o, n_maps, "lowest" in c)
    q = bounded(o, x, c)
    if own == n_maps:  # no rank shares a map
        return o.normalise(o.put_along(rest, index, o.share_ties(best, q, own)))
    q, last = o.columns(q, 0, own), o.columns(q, own, n_maps)
    if own > 1:
        q = o.share_ties(best, q, own)
    share = o.maximum(rest, c["least"])
    total = o.row_sum(share) - own * c["least"]  # columns of the best count `least` in it
    q = o.put_along(share * (last / total), index, q)
    # The last rank with a map of its own may be tied with some of the others.
    return o.normalise(o.share_equally(q, o.tied(o.proba(), o.columns(best, own - 1, own))))


def top(o: Operations, c: Constants) -> Value:
    """Map the top probability; the others share the rest in proportion, none of them gets more.

    If the j smallest of the others share what is left and the larger ones have the most they may,
    j is the largest number for which none of the j gets more.
    """
    p, is_top, n_classes = o.proba(), o.first_of_largest(), o.n_classes
    x = o.row_max(o.ordered())
    score = bounded(o, x, c)
    score = o.maximum(score, 1.0 / n_classes)
    above = o.maximum(p, c["least"]) if "least" in c else p
    others = o.columns(o.ascending(o.where(is_top, 2.0, above)), 0, n_classes - 1)
    total = o.cumulative(others)
    left = o.maximum(1.0 - score * (n_classes - c["others"]), 0.0)
    fits = others * left <= score * total
    count = o.maximum(o.row_max(o.to_float(fits) * c["others"]), 1.0)
    at = o.to_int(count - 1.0)
    left, total = o.take_along(left, at), o.take_along(total, at)
    none = total <= 0.0
    shared = o.minimum(above / o.where(none, 1.0, total) * left, score)
    q = o.where(none & (above <= 0.0), left / count, o.where(none, score, shared))
    return o.keep_top(o.where(is_top, score, q))
