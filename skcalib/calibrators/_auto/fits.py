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


def prior_strengths(n_classes: int) -> dict[str, float]:
    r"""Return :math:`\lambda^0` of each group."""
    K = n_classes
    return {
        "t": min(K - 1.0, 10.0),
        "b": 10.0 * K,
        "R": 10.0 * K,
        "U": 10.0 * K,
        "M": 1.0,
        "L": 2.0 * K * (K - 1),
    }


def fit_whole(
    scores: Scores, code: Intp, w: Float64Array, smoothing: Smoothing, **keywords: Any
) -> tuple[EvidenceFit, Position, Float64Array | None]:
    """Fit all terms or, for many classes, only some of them."""
    K = scores.shape[1]
    position, centre = NO_POSITION, None
    kernel: Any
    if K <= LARGEST_WHOLE:
        position = fit_position(scores, w, smoothing, POWER)
        if K > 2:
            logs = partial(sum_logs, smoothing=smoothing)
            centre = sum_rows(logs, scores.as_logits(), w) / smoothing.n
        kernel = partial(
            few.features_of_block, smoothing=smoothing, position=position, centre=centre
        )
        groups, work = few.groups_of(K), ROWS
    else:
        kernel = partial(many.features_of_block, smoothing=smoothing)
        groups, work = many.groups_of(K), many.work_of(K)
    problem = BlockedNLL(scores, code, w, kernel, work)
    fitted = fit_by_evidence(
        problem,
        groups,
        prior_strengths(K),
        rounds=ROUNDS if K == 2 else FEW_ROUNDS,
        exact_round=EXACT_ROUND if 2 < K <= LARGEST_WHOLE else None,
        moved=0.1,
        place=scores.float64_logits().constant,
        **keywords,
    )
    return fitted, position, centre


def sum_logs(Z: Float64Array, w: Float64Array, smoothing: Smoothing) -> Float64Array:
    """Return the weighted sum of the log-scores of a block of logits."""
    return w @ np.log(smoothing.mix(smoothing.proba(Z)))


def fit_order_preserving(
    scores: Scores, code: Intp, w: Float64Array, smoothing: Smoothing, **keywords: Any
) -> tuple[EvidenceFit, Position, None]:
    """Fit the shared terms that preserve the order of the classes."""
    position = fit_position(scores, w, smoothing, ORDER_PRESERVING_POWER)
    kernel = partial(order_preserving.features_of_block, smoothing=smoothing, position=position)
    fitted = fit_by_evidence(
        BlockedNLL(scores, code, w, kernel),
        order_preserving.GROUPS,
        {"t": prior_strengths(scores.shape[1])["t"], "R": 10.0},
        rounds=ROUNDS,
        moved=0.1,
        low=order_preserving.LOWER_BOUNDS,
        **keywords,
    )
    return fitted, position, None
