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
        return Plan(identity, {}, last=("none",))
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
        last=("softmax",) * (1 + mixed),
        weights=(tempered, given)[: 1 + mixed],
        uniform=uniform / n_classes,
    )


def ensemble(o: Operations, x: Value, c: Constants, kind: Kind, mixed: bool) -> list[Value]:
    """Return tempered logits and, if they are `mixed`, the given ones."""
    z = logits(o, x, c, kind)
    z = z - o.row_max(z)
    tempered = z / c["temperature"]
    return [tempered, z] if mixed else [tempered]


def weighted_mean(calibrator: Any, plans: list[Plan]) -> Plan:
    """Return the plan of a weighted mean of fitted calibrators, given their plans."""
    constants = {
        f"member{m}_{name}": array
        for m, plan in enumerate(plans)
        for name, array in plan.constants.items()
    }
    weights = calibrator.weights_.tolist()
    members = [(plan.formula, len(plan.lines)) for plan in plans]
    return Plan(
        partial(stacked, members=members),
        constants,
        "top" if calibrator._preserves_top_label else "largest",
        last=tuple(last for plan in plans for last in plan.last),
        weights=tuple(
            weight * own
            for weight, plan in zip(weights, plans, strict=True)
            for own in plan.weights
        ),
        uniform=sum(weight * plan.uniform for weight, plan in zip(weights, plans, strict=True)),
        lines=tuple(line for plan in plans for line in plan.lines),
    )


def stacked(o: Operations, x: Value, c: Constants, members: list[tuple[Any, int]]) -> Any:
    """Return what all members return, or what the lines of all of them map and what to do then."""
    found = []
    for m, (formula, _) in enumerate(members):
        prefix = f"member{m}_"
        own = {name.removeprefix(prefix): c[name] for name in c if name.startswith(prefix)}
        found.append(formula(o, x, own))
    sizes = [n_lines for _, n_lines in members]

    def then(mapped: Value) -> list[Value]:
        parts = iter(o.split(mapped, [size for size in sizes if size]))
        steps = [each[1](next(parts)) if n else each for each, n in zip(found, sizes, strict=True)]
        return [value for values in steps for value in values]

    asked = [each[0] for each, n in zip(found, sizes, strict=True) if n]
    if not asked:
        return [value for values in found for value in values]
    return o.concat(*asked), then
