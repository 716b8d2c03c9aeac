"""Formulas of maps of all logits at once: softmax of scaled logits, and mixtures of such."""

from __future__ import annotations

from functools import partial
from typing import Any

from skcalib._arrays.types import Kind
from skcalib._export.operations import Constants, Operations, Plan, Value, constant, equal_row
from skcalib._export.scores import (
    clip_constants,
    keep_top,
    log_proba,
    logits,
    place_constants,
    proba,
    softmax,
)


def plan_identity(calibrator: Any) -> Plan:
    """Return the plan of probabilities as they are, and of the softmax of logits."""
    kind = calibrator.input_
    return Plan(partial(identity, kind=kind), {}, "largest" if kind == "proba" else "near")


def identity(o: Operations, x: Value, c: Constants, kind: Kind) -> Value:
    """Return the probabilities of the scores."""
    return proba(o, x, kind)


def plan_temperature(calibrator: Any) -> Plan:
    """Return the plan of softmax(z / T)."""
    scale = equal_row(1.0 / calibrator.temperature_, calibrator.classes_.size)
    constants = {"coef": scale, **clip_constants(calibrator)}
    return Plan(partial(diagonal, kind=calibrator.input_, shifted=False), constants, "near")


def plan_affine(calibrator: Any) -> Plan:
    """Return the plan of softmax(W z + b)."""
    full = calibrator.coef_.ndim == 2
    constants = {
        "coef": constant(calibrator.coef_),
        "intercept": constant(calibrator.intercept_),
        **clip_constants(calibrator),
    }
    return Plan(partial(full_matrix if full else diagonal, kind=calibrator.input_), constants)


def plan_dirichlet(calibrator: Any) -> Plan:
    """Return the plan of softmax(W log p + b)."""
    return plan_affine(calibrator)._replace(formula=partial(dirichlet, kind=calibrator.input_))


def diagonal(o: Operations, x: Value, c: Constants, kind: Kind, shifted: bool = True) -> Value:
    """Return softmax(w z + b), or softmax(w z)."""
    z = logits(o, x, c, kind) * c["coef"]
    return softmax(o, z + c["intercept"] if shifted else z)


def full_matrix(o: Operations, x: Value, c: Constants, kind: Kind) -> Value:
    """Return softmax(W z + b)."""
    return softmax(o, o.map_rows(c["coef"], logits(o, x, c, kind)) + c["intercept"])


def dirichlet(o: Operations, x: Value, c: Constants, kind: Kind) -> Value:
    """Return softmax(W log p + b)."""
    return softmax(o, o.map_rows(c["coef"], log_proba(o, x, c, kind)) + c["intercept"])


def plan_ensemble(calibrator: Any) -> Plan:
    """Return the plan of a mixture of tempered, given and uniform probabilities."""
    tempered, given, uniform = calibrator.weights_
    n_classes = calibrator.classes_.size
    constants = {
        "temperature": equal_row(calibrator.temperature_, n_classes),
        "tempered": equal_row(tempered, n_classes),
        "given": equal_row(given, n_classes),
        "uniform": equal_row(uniform / n_classes, n_classes),
        **place_constants(n_classes),
        **clip_constants(calibrator),
    }
    formula = partial(ensemble, kind=calibrator.input_, mixed=bool(given > 0.0))
    return Plan(formula, constants, "top")


def ensemble(o: Operations, x: Value, c: Constants, kind: Kind, mixed: bool) -> Value:
    """Return the mixture; the predicted class stays that of the largest score."""
    z = logits(o, x, c, kind)
    z = z - o.row_max(z)
    q = softmax(o, z / c["temperature"]) * c["tempered"]
    if mixed:
        q = q + softmax(o, z) * c["given"]
    return keep_top(o, q + c["uniform"], x, c)


def weighted_mean(calibrator: Any, plans: list[Plan]) -> Plan:
    """Return the plan of a weighted mean of fitted calibrators, given their plans."""
    constants = {
        f"member{m}_{name}": array
        for m, plan in enumerate(plans)
        for name, array in plan.constants.items()
    }
    constants |= place_constants(calibrator.classes_.size)
    for m, weight in enumerate(calibrator.weights_):
        constants[f"weight{m}"] = equal_row(weight, calibrator.classes_.size)
    tops = calibrator._preserves_top_label
    formula = partial(stacked, formulas=[plan.formula for plan in plans], tops=tops)
    return Plan(formula, constants, "top" if tops else "largest")


def stacked(o: Operations, x: Value, c: Constants, formulas: list[Any], tops: bool) -> Value:
    """Return the weighted mean of other formulas."""
    total = None
    for m, formula in enumerate(formulas):
        prefix = f"member{m}_"
        own = {name.removeprefix(prefix): c[name] for name in c if name.startswith(prefix)}
        part = formula(o, x, own) * c[f"weight{m}"]
        total = part if total is None else total + part
    return keep_top(o, total, x, c) if tops else total
