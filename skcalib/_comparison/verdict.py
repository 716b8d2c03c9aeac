"""The choice of a calibrator in words."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from skcalib._comparison.choice import CLEAR_LEAD, Choice, Outcome

# Maps that are easy to understand, the simplest first. One that is as good as a chosen one that is
# less simple is named.
SIMPLE = ("TemperatureScaling", "PlattScaling", "VectorScaling")
# How far two rules are from the best in hindsight, by benchmarks/arena/regret.md: "always auto",
# "lowest held-out loss".
WHY_AUTO = (
    " AutoCalibrator is the default because its log loss is on average 1.1 % above that of the "
    "best calibrator on 51 data sets; taking the lowest held-out loss is 16 % above."
)
# More changed classes than this are rather columns in a wrong order.
MANY_CHANGED = 0.5


def held_out_rows(n: int, clusters: int | None, kind: str = "held-out") -> str:
    """Return the number of rows, and of the clusters that they are in."""
    return f"{n:,} {kind} rows" + ("" if clusters is None else f" in {clusters:,} clusters")


def sentence(choice: Choice, n: int, level: float = 0.95, clusters: int | None = None) -> str:
    """Return the choice and its reason; ``n`` is the number that the held-out rows count as.

    In clusters, these are what is too few.
    """
    if choice.kind == "alone":
        return "Nothing to compare: no calibrator but the identity has numbers."
    best, outcome = choice.candidate, choice.outcome
    change, ends = change_of(outcome), interval(outcome, level)
    calibrate = f"Calibrate by {best}: cross-validated {change}"
    rows = held_out_rows(n, clusters)
    no_gain = f"{best} does not lower the log loss ({loss(outcome.before)}) of {rows}"
    if choice.kind == "sure":
        text = f"{calibrate} {gain_of(outcome, level)}."
    elif choice.kind == "likely":
        text = (
            f"{calibrate}. This is most likely a gain ({number(outcome.gain)}), but "
            f"{few(n, clusters)} are too few to be sure ({ends})."
        )
    elif choice.kind == "few errors":
        text = (
            f"{calibrate}, but so few of the {n:,} predicted classes are wrong that one more wrong "
            f"one would make it a gain ({ends})."
        )
    elif choice.kind == "nothing":
        text = f"Keep the probabilities: nothing to gain. By {best} {change} on {rows} ({ends})."
    elif choice.kind == "small":
        text = (
            f"Keep the probabilities: {no_gain}, and a gain on other rows would be below "
            f"{number(max(outcome.high, 0.0))} ({ends})."
        )
    else:
        text = (
            f"Keep the probabilities for now: {no_gain}, but a gain of up to "
            f"{number(outcome.high)} is not ruled out ({ends}); more "
            f"{'rows' if clusters is None else 'clusters'} are needed to decide."
        )
    return text + _about_anchor(choice)


def few(n: int, clusters: int | None) -> str:
    """Return the number of rows, or of clusters."""
    return f"{n:,} rows" if clusters is None else f"{clusters:,} clusters"


def sentence_on_test(
    choice: Choice, outcome: Outcome, n: int, level: float, clusters: int | None = None
) -> str:
    """Return the choice, made on folds of the calibration rows, and its outcome on test rows."""
    rows = held_out_rows(n, clusters, "test")
    change = f"{change_of(outcome)} on the {rows} {gain_of(outcome, level)}."
    if choice.name != choice.candidate:
        return (
            f"Keep the probabilities: no gain in folds of the calibration rows. By "
            f"{choice.candidate} {change}{_about_anchor(choice)}"
        )
    text = f"Calibrate by {choice.name}, chosen in folds of the calibration rows: {change}"
    if outcome.high < 0:
        text += " This is a loss: do the test rows come from elsewhere?"
    elif outcome.low <= 0:
        alone = "test rows alone" if clusters is None else f"{clusters:,} clusters of the test rows"
        text += f" The {alone} are too few to be sure of a gain."
    return text + _about_anchor(choice)


def error_sentence(
    name: str, identity: str, best: str, metric: str, errors: Mapping[str, float]
) -> str:
    """Return the choice by the debiased errors of all that are as good as `best`."""
    among, before = f"of all whose log loss is as good as that of {best}", number(errors[identity])
    if name == identity:
        return f"Keep the probabilities: {among} they have the lowest debiased {metric} ({before})."
    return (
        f"Calibrate by {name}: {among} it has the lowest debiased {metric} "
        f"({number(errors[name])}; the probabilities as they are have {before})."
    )


def gain_sentence(outcome: Outcome, n: int, level: float, clusters: int | None) -> str:
    """Say what a choice by another metric does to the log loss."""
    return f" On {held_out_rows(n, clusters)} {change_of(outcome)} {gain_of(outcome, level)}."


def _about_anchor(choice: Choice) -> str:
    if choice.lead is None:
        return ""
    return (
        f" {choice.candidate} is better than {choice.anchor} by {number(choice.lead)}, more than "
        f"{CLEAR_LEAD:.0f} standard errors."
    )


def advice(choice: Choice) -> str:
    """Name what to compare next."""
    if choice.anchor is None and choice.kind != "alone":
        return ' Add "auto" to the calibrators: it is the default at every number of rows.'
    return ""


def changes_sentence(changed: float) -> str:
    """Say how many predicted classes change, and doubt the columns if most do."""
    if changed == 0:
        return " No predicted class changes."
    share = f"{100 * changed:.1f} %" if changed >= 0.0005 else "less than 0.1 %"
    text = f" The predicted class changes in {share} of the rows."
    if changed > MANY_CHANGED:
        text += (
            " Calibration seldom changes so many: check first that the columns are in the order "
            "of the sorted labels."
        )
    return text


def simpler_sentence(
    name: str, as_good: list[str], kinds: Mapping[str, str], rows: Mapping[str, Any]
) -> str:
    """Name the simplest map that is as good as the chosen one, if that is less simple.

    ``kinds`` has the class of each calibrator by its name, and ``rows`` its results.
    """
    own = kinds[name]
    simpler = SIMPLE[: SIMPLE.index(own)] if own in SIMPLE else SIMPLE
    names = [other for kind in simpler for other in as_good if kinds[other] == kind]
    if not names:
        return ""
    after, changed = rows[names[0]].reported.mean(), rows[names[0]].changed
    share = f"{100 * changed:.1f} % of the classes" if changed else "no predicted class"
    return (
        f" {names[0]}, which is simpler, is as good here (log loss {loss(after)}) and changes "
        f"{share}."
    )


def gain_of(outcome: Outcome, level: float) -> str:
    """Write a gain and its interval."""
    return f"(gain {number(outcome.gain)}, {interval(outcome, level)})"


def interval(outcome: Outcome, level: float) -> str:
    """Write the interval of a gain and its level."""
    return f"{100 * level:.4g} % interval {number(outcome.low)} to {number(outcome.high)}"


def change_of(outcome: Outcome) -> str:
    """Say how a log loss changes."""
    before, after, *_ = outcome
    if loss(before) == loss(after):
        return f"log loss stays at {loss(before)}"
    return f"log loss {'falls' if after < before else 'rises'} from {loss(before)} to {loss(after)}"


def loss(value: float) -> str:
    """Write a loss with three digits, so that a small gain is visible as well."""
    return f"{value:#.3g}".removesuffix(".")


def number(value: float) -> str:
    """Write a gain or an error with two digits; one that is 0 has no sign."""
    return f"{value + 0.0:.2g}"
