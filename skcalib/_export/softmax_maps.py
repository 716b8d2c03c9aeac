"""Formulas of maps of all logits at once: softmax of scaled logits, and mixtures of such."""

from __future__ import annotations

from functools import partial
from typing import Any

from skcalib._arrays.types import Kind
from skcalib._export.operations import Constants, Operations, Plan, Value, constant, equal_row
from skcalib._export.scores import clip_constants, log_proba, logits


def plan_identity(calibrator: Any) -> Plan:
    """Return the plan of probabilities as they are, and of the softmax of logits."""
    if calibrator.input_ == "proba":
        return Plan(identity, {}, last="none")
    return Plan(identity, {}, "near")


def identity(o: Operations, x: Value, c: Constants) -> list[Value]:
    """Return the scores."""
    return [x]


def plan_temperature(calibrator: Any) -> Plan:
    """Return the plan of softmax(z / T)."""
    scale = equal_row(1.0 / calibrator.temperature_, calibrator.classes_.size)
    constants = {"coef": scale, **clip_constants(calibrator)}
    return Plan(partial(diagonal, kind=calibrator.input_, shifted=False), constants, "near")


def plan_affine(calibrator: Any) -> Plan:
    """Return the plan of softmax(W z + b)."""
    constants = {
        "coef": constant(calibrator.coef_),
        "intercept": constant(calibrator.intercept_),
        **clip_constants(calibrator),
    }
    form = full_matrix if calibrator.coef_.ndim == 2 else diagonal
    return Plan(partial(form, kind=calibrator.input_), constants)


def plan_dirichlet(calibrator: Any) -> Plan:
    """Return the plan of softmax(W log p + b)."""
    return plan_affine(calibrator)._replace(formula=partial(dirichlet, kind=calibrator.input_))


def diagonal(
    o: Operations, x: Value, c: Constants, kind: Kind, shifted: bool = True
) -> list[Value]:
    """Return w z + b, or w z."""
    z = logits(o, x, c, kind) * c["coef"]
    return [z + c["intercept"] if shifted else z]


def full_matrix(o: Operations, x: Value, c: Constants, kind: Kind) -> list[Value]:
    """Return W z + b."""
    return [o.map_rows(c["coef"], logits(o, x, c, kind)) + c["intercept"]]


def dirichlet(o: Operations, x: Value, c: Constants, kind: Kind) -> list[Value]:
    """Return W log p + b."""
    return [o.map_rows(c["coef"], log_proba(o, x, c, kind)) + c["intercept"]]


def plan_ensemble(calibrator: Any) -> Plan:
    """Return the plan of a mixture of tempered, given and uniform probabilities."""
    tempered, given, uniform = map(float, calibrator.weights_)
    n_classes = calibrator.classes_.size
    constants = {
        "temperature": equal_row(calibrator.temperature_, n_classes),
        **clip_constants(calibrator),
    }
    mixed = given > 0.0
    return Plan(
        partial(ensemble, kind=calibrator.input_, mixed=mixed),
        constants,
        "top",
        weights=(tempered, given)[: 1 + mixed],
        uniform=uniform / n_classes,
    )


def ensemble(o: Operations, x: Value, c: Constants, kind: Kind, mixed: bool) -> list[Value]:
    """Return tempered logits and, if they are `mixed`, the given ones."""
    z = logits(o, x, c, kind)
    z = z - o.row_max(z)
    tempered = z / c["temperature"]
    return [tempered, z] if mixed else [tempered]
