"""The decision of a comparison: name, verdict and the calibrators that are as good."""

from __future__ import annotations

from typing import NamedTuple

from skcalib._comparison.choice import Outcome, as_good_as, choose, level_of, outcome_of
from skcalib._comparison.gains import Size
from skcalib._comparison.verdict import (
    WHY_AUTO,
    advice,
    changes_sentence,
    error_sentence,
    gain_sentence,
    sentence,
    sentence_on_test,
    simpler_sentence,
)
from skcalib.metrics._clusters import number_of
from skcalib.metrics._intervals.gains import Gain
from skcalib.metrics._statistics.row_means import RowLosses


class Row(NamedTuple):
    """Results of one calibrator: a size and a gain for each metric.

    ``held`` has the log losses by which the choice is made, ``reported`` those of the reported
    rows: the same, unless there are test rows. ``chosen_error`` is the debiased error to choose
    by, if that is not log loss.
    """

    sizes: list[Size]
    gains: list[Gain]
    held: RowLosses
    reported: RowLosses
    chosen_error: float
    fit_seconds: float
    changed: float
    warning: str = ""
    error: str = ""


def decide(
    rows: dict[str, Row],
    *,
    identity: str,
    anchor: str | None,
    n_others: int,
    level: float,
    chosen_by: str | None,
    kinds: dict[str, str],
    has_test: bool,
) -> tuple[str, str, list[str]]:
    """Return the calibrator to take, the reason in words, and all that are as good by log loss.

    ``kinds`` has the class of each calibrator.
    """
    held_out = {name: row.held for name, row in rows.items() if not row.error}
    choice = choose(held_out, identity=identity, anchor=anchor, level=level, n_others=n_others)
    as_good = as_good_as(held_out, choice.name)
    before, name = rows[identity].reported, choice.name
    n, cluster = round(before.w.sum()), before.cluster
    clusters = None if cluster is None else number_of(cluster)

    def outcome(other: str) -> Outcome:
        own_level = level_of(other, n_others, anchor, level)
        return outcome_of(before, rows[other].reported, own_level)

    if chosen_by is not None and choice.kind != "alone":
        errors = {other: rows[other].chosen_error for other in held_out}
        # Of equal ones, which may all be 0, the choice by log loss.
        name = min(as_good, key=lambda other: (errors[other], other != choice.name))
        text = error_sentence(name, identity, choice.name, chosen_by, errors)
        text += "" if name == identity else gain_sentence(outcome(name), n, level, clusters)
        as_good = as_good_as(held_out, name)
    elif has_test and choice.kind != "alone":
        text = sentence_on_test(choice, outcome(choice.candidate), n, level, clusters)
    else:
        text = sentence(choice, n, level, clusters)
    if name != identity:
        text += changes_sentence(rows[name].changed)
        lowest = min(rows[other].reported.mean() for other in held_out)
        if name == anchor and chosen_by is None and lowest < rows[name].reported.mean():
            text += WHY_AUTO
        text += simpler_sentence(name, as_good, kinds, rows)
    return name, text + advice(choice), as_good
