"""Fits of the map by empirical Bayes: of all terms, of many classes, or of the shared terms."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np

from skcalib._arrays.passes import ROWS, sum_rows
from skcalib._arrays.types import Float64Array, Intp
from skcalib._scaling.evidence import EvidenceFit, fit_by_evidence
from skcalib._scores.scores import Scores
from skcalib.calibrators._auto import few, many, order_preserving
from skcalib.calibrators._auto.problem import BlockedNLL
from skcalib.calibrators._auto.smoothing import Position, Smoothing, fit_position

# Up to this many classes, all terms are fitted; with more, fewer of them, in float32.
LARGEST_WHOLE = 30
# Updates of the strengths. For more than two classes, the whole Hessian is computed in one round.
ROUNDS, FEW_ROUNDS, EXACT_ROUND = 8, 5, 3
# Many classes are fitted without the position of a score.
NO_POSITION = Position(np.empty(0), np.empty(0))
# Exponents of q (1 - q) in the weights of the position of a score.
POWER, ORDER_PRESERVING_POWER = 0.5, 1.0


def fit_terms(
    scores: Scores, code: Intp, w: Float64Array, smoothing: Smoothing, shared: bool, **keywords: Any
) -> tuple[EvidenceFit, Position, Float64Array | None]:
    """Fit all terms, for many classes some of them, or `shared` ones that preserve the order."""
    K, position, centre, work = scores.shape[1], NO_POSITION, None, ROWS
    # The first strengths.
    prior = {
        "t": min(K - 1.0, 10.0),
        "b": 10.0 * K,
        "R": 10.0 if shared else 10.0 * K,
        "U": 10.0 * K,
        "M": 1.0,
        "L": 2.0 * K * (K - 1),
    }
    kernel: Any
    if shared:
        position = fit_position(scores, w, smoothing, ORDER_PRESERVING_POWER)
        kernel = partial(order_preserving.features_of_block, position=position)
        groups = order_preserving.GROUPS
        keywords |= {"rounds": ROUNDS, "low": order_preserving.LOWER_BOUNDS}
    elif K <= LARGEST_WHOLE:
        position = fit_position(scores, w, smoothing, POWER)
        if K > 2:
            logs = partial(sum_logs, smoothing=smoothing)
            centre = sum_rows(logs, scores.as_logits(), w) / smoothing.n
        kernel = partial(few.features_of_block, position=position, centre=centre)
        groups = few.groups_of(K)
        rounds, exact_round = (ROUNDS, None) if K == 2 else (FEW_ROUNDS, EXACT_ROUND)
        keywords |= {"rounds": rounds, "exact_round": exact_round}
    else:
        kernel, groups, work = many.features_of_block, many.groups_of(K), many.work_of(K)
        keywords |= {"rounds": FEW_ROUNDS}
    problem = BlockedNLL(scores, code, w, partial(kernel, smoothing=smoothing), work)
    place = scores.float64_logits().constant
    fitted = fit_by_evidence(problem, groups, prior, moved=0.1, place=place, **keywords)
    return fitted, position, centre


def sum_logs(Z: Float64Array, w: Float64Array, smoothing: Smoothing) -> Float64Array:
    """Return the weighted sum of the log-scores of a block of logits."""
    return w @ np.log(smoothing.mix(smoothing.proba(Z)))
