"""The choice of a calibrator in words."""

from __future__ import annotations

from skcalib._comparison.choice import CLEAR_LEAD, Choice


def sentence(choice: Choice, n: int, level: float = 0.95) -> str:
    """Return the choice and its reason in words; ``n`` is the number of held-out rows."""
    best = choice.candidate
    percent = f"{100 * level:.4g} % interval {number(choice.low)} to {number(choice.high)}"
    if choice.kind == "alone":
        return "Nothing to compare: no calibrator but the identity has numbers."
    change = f"log loss goes from {number(choice.loss_before)} to {number(choice.loss_after)}"
    if choice.kind == "sure":
        text = (
            f"Calibrate by {best}: {change} on rows that it was not fitted on (gain "
            f"{number(choice.gain)}, {percent})."
        )
    elif choice.kind == "likely":
        text = (
            f"Calibrate by {best}: {change} on rows that it was not fitted on. This is most "
            f"likely a gain ({number(choice.gain)}), but {n:,} rows do not settle it ({percent})."
        )
    elif choice.kind == "small":
        text = (
            f"Keep the probabilities: {best} does not lower the log loss "
            f"({number(choice.loss_before)}) of {n:,} held-out rows, and gains less than "
            f"{number(max(choice.high, 0.0))} on others ({percent})."
        )
    else:
        text = (
            f"Keep the probabilities for now: {best} does not lower the log loss "
            f"({number(choice.loss_before)}) of {n:,} held-out rows, but a gain of up to "
            f"{number(choice.high)} is not ruled out ({percent}); more rows would tell."
        )
    if choice.lead is not None:
        text += (
            f" It is better than {choice.anchor} by {number(choice.lead)}, more than "
            f"{CLEAR_LEAD:.0f} standard errors."
        )
    if choice.anchor is None:
        text += ' Add "auto" to the list: it is the safest choice on few rows.'
    return text


def number(value: float) -> str:
    """Write a loss or a gain with two digits; one that is 0 has no sign."""
    return f"{value + 0.0:.2g}"
