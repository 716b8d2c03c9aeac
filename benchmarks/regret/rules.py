"""Rules that choose a calibrator by its held-out log losses."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from benchmarks.regret.runs import Run
from skcalib._comparison.choice import choose, lead_and_error

Rule = Callable[[Run], str]

IDENTITY, ANCHOR = "identity", "auto"
# The identity is kept by the stricter rule if it is better by so many standard errors.
CLEARLY_WORSE = 2.0


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


def identity_if_clearly_better(run: Run) -> str:
    """Take the candidate unless the identity is better by two standard errors."""
    found, w = run.found(), np.ones(run.n)
    candidate = choose(found, w).candidate
    lead, error = lead_and_error(found[candidate], found[IDENTITY], w)
    return IDENTITY if lead > CLEARLY_WORSE * error else candidate


def identity_if_better_with_pseudo_row(run: Run) -> str:
    """Take the candidate unless the identity is better, the pseudo row counted in."""
    found, w = run.found(), np.ones(run.n)
    candidate = choose(found, w).candidate
    return IDENTITY if lead_and_error(found[candidate], found[IDENTITY], w)[0] > 0 else candidate


def lowest_loss(run: Run) -> str:
    """Take the lowest mean held-out loss."""
    return run.names[run.held_out.mean(axis=1).argmin()]


def lowest_loss_with_pseudo_row(run: Run) -> str:
    """Take the lowest mean held-out loss, half a pseudo row counted in."""
    return run.names[(run.held_out.sum(axis=1) + run.pseudo_error / 2).argmin()]


RULES: dict[str, Rule] = {
    "**the rule of `compare_calibrators`**": recommended,
    "that; the identity only if better by 2 standard errors": identity_if_clearly_better,
    "that; the identity if better with the pseudo row": identity_if_better_with_pseudo_row,
    "auto or the identity, no other": auto_or_identity,
    "the rule, auto not in the list": without_auto,
    "lowest held-out loss": lowest_loss,
    "lowest held-out loss, half a pseudo row": lowest_loss_with_pseudo_row,
    "always auto": lambda _: ANCHOR,
    "always temperature": lambda _: "temperature",
    "always the identity": lambda _: IDENTITY,
}
