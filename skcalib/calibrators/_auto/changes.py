"""What the map changes: mean probabilities of classes, and the share of terms across classes."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

from skcalib._arrays.passes import sum_rows
from skcalib._arrays.tensors import rows_of
from skcalib._arrays.types import Float64Array
from skcalib._maps.device import formula_of
from skcalib._scores.scores import Scores
from skcalib.calibrators._auto.formula import Map, plan_eta
from skcalib.calibrators._auto.identity import mean_and_variance
from skcalib.calibrators._auto.smoothing import OFFSET_SHARE, Smoothing


def mean_changes(scores: Scores, w: Float64Array, fitted: Map) -> tuple[Float64Array, float]:
    """Return the mean change of each class's probability, and the share of M and L in eta - a'."""
    maps, logits = (fitted, fitted.without_cross()), scores.float64_logits()
    kernel = partial(
        sum_changes,
        formulas=[formula_of(plan_eta(each), logits) for each in maps],
        smoothing=fitted.smoothing,
        share=OFFSET_SHARE if fitted.position.knots.size else 1.0,
        weight=fitted.identity_weight,
    )
    shift, across, within = sum_rows(kernel, logits, w)
    across, within = max(across, 0.0), max(within, 0.0)
    return shift / fitted.smoothing.n, float(across / (across + within)) if across > 0.0 else 0.0


def sum_changes(
    Z: Float64Array,
    w: Float64Array,
    formulas: list[Callable[[Any], Any]],
    smoothing: Smoothing,
    share: float,
    weight: float,
) -> tuple[Any, ...]:
    """Return the sums of `mean_changes` over a block: by class, and squares across and within.

    Without any term, eta is log p smoothed by `share`; `weight` is that of no calibration.
    """
    p, (eta, own) = smoothing.proba(Z), (formula(Z) for formula in formulas)
    offset = rows_of(p).log(smoothing.mix(p, share))
    none = smoothing._replace(beta=1.0)
    result = none.proba(eta)
    if weight > 0.0:
        result = (1.0 - weight) * result + weight * none.mix(none.proba(Z), OFFSET_SHARE)
    across, within = (w @ mean_and_variance(D, p)[1] for D in (eta - own, own - offset))
    return w @ (result - p), across, within
