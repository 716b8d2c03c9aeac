"""Rules that choose a calibrator by its held-out log losses."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from benchmarks.regret.runs import Run
from skcalib._comparison.choice import choose, lead_and_error

Rule = Callable[[Run], str]

IDENTITY, ANCHOR = "identity", "auto"


def recommended(run: Run) -> str:
    """Take what `compare_calibrators` recommends."""
    return choose(run.found(), np.ones(run.n)).name


def auto_or_identity(run: Run) -> str:
    """Take auto unless it gains nothing on held-out rows; no other is asked."""
    found = run.found()
    return choose({name: found[name] for name in (IDENTITY, ANCHOR)}, np.ones(run.n)).name


def without_auto(run: Run) -> str:
    """Take what is recommended where auto is not in the list."""
    found = run.found()
    del found[ANCHOR]
    return choose(found, np.ones(run.n)).name


def identity_if_better_by(errors: float) -> Rule:
    """Return the rule with another last step.

    The identity is taken if it is better by so many standard errors, the pseudo row counted in.
    """

    def rule(run: Run) -> str:
        found, w = run.found(), np.ones(run.n)
        candidate = choose(found, w).candidate
        lead, error = lead_and_error(found[candidate], found[IDENTITY], w)
        return IDENTITY if lead > errors * error else candidate

    return rule


def identity_if_lower(run: Run) -> str:
    """Return the rule without the pseudo row in its last step."""
    found, w = run.found(), np.ones(run.n)
    candidate = choose(found, w).candidate
    return candidate if found[candidate].mean(w) < found[IDENTITY].mean(w) else IDENTITY


def lowest_loss(run: Run) -> str:
    """Take the lowest mean held-out loss."""
    return run.names[run.held_out.mean(axis=1).argmin()]


def lowest_loss_with_pseudo_row(run: Run) -> str:
    """Take the lowest mean held-out loss, half a pseudo row counted in."""
    return run.names[(run.held_out.sum(axis=1) + run.pseudo_error / 2).argmin()]


RULES: dict[str, Rule] = {
    "**the rule of `compare_calibrators`**": recommended,
    "that; the identity if its held-out loss is lower": identity_if_lower,
    "that; by 1 standard error": identity_if_better_by(1.0),
    "that; by 2 standard errors": identity_if_better_by(2.0),
    "auto or the identity, no other": auto_or_identity,
    "the rule, auto not in the list": without_auto,
    "lowest held-out loss": lowest_loss,
    "lowest held-out loss, half a pseudo row": lowest_loss_with_pseudo_row,
    "always auto": lambda _: ANCHOR,
    "always temperature": lambda _: "temperature",
    "always the identity": lambda _: IDENTITY,
}
