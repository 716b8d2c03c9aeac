"""From a plan to probabilities: broken lines, the last step, the weighted mean, the top class."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from skcalib._export.lines import line_constants, mapped
from skcalib._export.operations import Constants, Operations, Plan, Value, equal_row
from skcalib._export.scores import LEAST_LOGIT, keep_top, normalise, place_constants

# Before the names of the constants of broken lines.
LINES = "lines_"
# What turns the values of a formula into probabilities.
LAST_STEPS: dict[str, Callable[[Operations, Value], Value]] = {
    "softmax": lambda o, z: o.softmax(z),
    "normalise": normalise,
    "none": lambda _, q: q,
}


def completed(plan: Plan, n_classes: int) -> Plan:
    """Return the plan with the constants of `probabilities`."""
    found: dict[str, Any] = dict(plan.constants)
    if plan.lines:
        found |= {LINES + name: array for name, array in line_constants(plan.lines).items()}
    if plan.weights != (1.0,):
        found["weights"] = np.array(plan.weights)[None]
    if plan.uniform:
        found["uniform_part"] = equal_row(plan.uniform, n_classes)
    if plan.label == "top":
        found |= place_constants(n_classes)
    return plan._replace(constants=found, lines=())


def probabilities(o: Operations, plan: Plan, x: Value, c: Constants, n_classes: int) -> Value:
    """Return the probabilities of scores, given a completed plan and its constants."""
    values = plan.formula(o, x, c)
    lines = {name.removeprefix(LINES): c[name] for name in c if name.startswith(LINES)}
    if lines:
        p, then = values
        values = then(mapped(o, p, lines))
    q = LAST_STEPS[plan.last](o, o.concat_rows(*values))
    if "weights" in c:
        q = o.weighted_sum(c["weights"], q, n_classes)
    if "uniform_part" in c:
        q = q + c["uniform_part"]
    if plan.options:
        q = normalise(o, o.where(x > LEAST_LOGIT, q, 0.0))
    return keep_top(o, q, x, c) if plan.label == "top" else q
