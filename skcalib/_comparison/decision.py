"""The decision of a comparison: name, verdict and the calibrators that are as good."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from skcalib._arrays.types import Float64Array
from skcalib._comparison.choice import HeldOut, as_good_as, choose, gain_interval, level_of
from skcalib._comparison.gains import Gain, Size
from skcalib._comparison.verdict import (
    WHY_AUTO,
    ByError,
    Outcome,
    advice,
    changes_sentence,
    error_sentence,
    sentence,
    sentence_on_test,
    simpler_sentence,
)


class Row(NamedTuple):
    """Results of one calibrator: a size and a gain for each metric.

    ``held`` has the log losses by which the choice is made, ``reported`` those of the reported
    rows: the same, unless there are test rows. ``chosen_error`` is the debiased error to choose
    by, if that is not log loss.
    """

    sizes: list[Size]
    gains: list[Gain]
    held: HeldOut
    reported: HeldOut
    chosen_error: float
    fit_seconds: float
    changed: float
    warning: str = ""
    error: str = ""


class Setting(NamedTuple):
    """What a decision depends on besides the rows; ``kinds`` has the class of each calibrator.

    ``w`` and ``w_reported`` are the weights of the rows to choose by and of the reported ones.
    """

    identity: str
    anchor: str | None
    n_others: int
    level: float
    chosen_by: str | None
    kinds: dict[str, str]
    w: Float64Array
    w_reported: Float64Array
    has_test: bool


class Decision(NamedTuple):
    """The calibrator to take, the reason in words, and all that are as good by log loss."""

    name: str
    verdict: str
    as_good: list[str]


def decide(rows: dict[str, Row], setting: Setting) -> Decision:
    """Choose a calibrator and say why."""
    identity, anchor, n_others, level, chosen_by, kinds, w, w_reported, has_test = setting
    found = {name: row.held for name, row in rows.items() if not row.error}
    choice = choose(found, w, identity=identity, anchor=anchor, level=level, n_others=n_others)
    as_good = as_good_as(found, w, choice.name)
    outcomes = {name: _outcome(rows, name, setting) for name in found}
    name, n = choice.name, round(w_reported.sum())
    if chosen_by is not None and choice.kind != "alone":
        errors = {other: rows[other].chosen_error for other in as_good}
        # Of equal ones, which may all be 0, the choice by log loss.
        name = min(as_good, key=lambda other: (errors[other], other != choice.name))
        by = ByError(name, chosen_by, choice.name, rows[identity].chosen_error, errors[name])
        text = error_sentence(by, outcomes[name], n, name == identity, level)
        as_good = as_good_as(found, w, name)
    elif has_test:
        text = sentence_on_test(choice, outcomes[choice.candidate], n, level)
    else:
        text = sentence(choice, n, level)
    if name != identity:
        text += changes_sentence(rows[name].changed)
        lowest = min(outcome.after for outcome in outcomes.values())
        if name == anchor and chosen_by is None and lowest < outcomes[name].after:
            text += WHY_AUTO
        text += simpler_sentence(name, as_good, kinds, outcomes)
    return Decision(name, text + advice(choice), as_good)


def _outcome(rows: dict[str, Row], name: str, setting: Setting) -> Outcome:
    """Return the log loss of the reported rows with and without a calibrator."""
    before, after, w = rows[setting.identity].reported, rows[name].reported, setting.w_reported
    level = level_of(name, setting.n_others, setting.anchor, setting.level)
    low, high = gain_interval(before, after, w, level)
    losses = before.mean(w), after.mean(w)
    return Outcome(*losses, losses[0] - losses[1], low, high, rows[name].changed)


def held_log_loss(row: Row, w: Float64Array) -> float:
    """Return the log loss of the rows to choose by, NaN if a calibrator has no numbers."""
    return np.nan if row.error else row.held.mean(w)
