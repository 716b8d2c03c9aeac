"""Which calibrator to take, by the log losses of held-out rows."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

import numpy as np

from skcalib.metrics._statistics.row_means import RowLosses, hall_interval, mean_and_error

# Standard errors by which another calibrator must be better than the recommended one to be taken:
# by chance the best of a dozen is often better by two.
CLEAR_LEAD = 3.0
# A calibrator is as good as another if it is worse by at most this many standard errors, and its
# log loss is higher by at most SMALL_SHARE.
AS_GOOD = 2.0
# If a gain is at most this share of the log loss, the probabilities may stay as they are.
SMALL_SHARE = 0.02
# If its interval lies within this share on both sides of 0, there is nothing to gain.
NOTHING_SHARE = 0.001

# Up to this number of wrong rows, a gain may depend on one assumed error.
FEW_WRONG = 10.0


class Outcome(NamedTuple):
    """Mean losses of rows before and after a calibrator, and the interval of the gain."""

    before: float
    after: float
    low: float
    high: float

    @property
    def gain(self) -> float:
        """Mean by which the losses are lower."""
        return self.before - self.after


class Choice(NamedTuple):
    """The calibrator to take and why.

    ``name`` is the chosen one, ``candidate`` the best calibrator apart from the identity (the
    chosen one, unless the identity is), ``anchor`` the recommended one, None if it is not among
    them. ``outcome`` is that of the candidate. ``kind`` is

    * "sure": the interval of the gain lies above 0;
    * "likely": there is a gain, and its interval contains 0;
    * "few errors": there is a gain with the pseudo row alone, and few rows are wrong;
    * "nothing": the identity is chosen, since the interval lies next to 0;
    * "small": the identity is chosen, and a gain could only be small;
    * "open": the identity is chosen, and more rows could show a gain;
    * "alone": there is nothing but the identity.

    ``lead`` is the amount by which the candidate is better than the anchor, where it is chosen
    instead of it, else None.
    """

    name: str
    candidate: str
    anchor: str | None
    kind: str
    outcome: Outcome
    lead: float | None


def gain_interval(before: RowLosses, after: RowLosses, level: float) -> tuple[float, float]:
    """Return the interval of the mean by which the losses of the same rows are lower."""
    return hall_interval(before.less(after), level)


def outcome_of(before: RowLosses, after: RowLosses, level: float) -> Outcome:
    """Return the outcome of a calibrator by the losses of the same rows."""
    return Outcome(before.mean(), after.mean(), *gain_interval(before, after, level))


def lead_and_error(before: RowLosses, after: RowLosses) -> tuple[float, float]:
    """Return the mean by which the losses are lower, with the pseudo row, and its error."""
    return mean_and_error(*before.less(after).observations())[:2]


def level_of(name: str, n_others: int, anchor: str | None, level: float) -> float:
    """Return the level of a calibrator's interval.

    The recommended one is named before the data are seen. The intervals of the `n_others` others
    are simultaneous (Sidak), so that they are valid for the best of them.
    """
    return level if name == anchor else level ** (1 / max(n_others, 1))


def as_good_as(by_name: Mapping[str, RowLosses], name: str) -> list[str]:
    """Return those that are worse than one of them neither clearly nor by much, and itself."""
    best, names = by_name[name], []
    for other, held in by_name.items():
        lead, error = lead_and_error(held, best)
        if lead <= AS_GOOD * error and held.mean() <= (1 + SMALL_SHARE) * best.mean():
            names.append(other)
    return names


def choose(
    by_name: Mapping[str, RowLosses],
    *,
    identity: str = "identity",
    anchor: str | None = "auto",
    level: float = 0.95,
    n_others: int | None = None,
) -> Choice:
    """Choose a calibrator by the log losses of held-out rows.

    The anchor, the calibrator that is recommended before looking, is taken unless another is
    better by more than three standard errors, the pseudo row counted in. Without an anchor it is
    the one with the lowest loss, half a pseudo row counted in. The identity is taken if that
    calibrator does not gain anything on the held-out rows and the pseudo row, or next to nothing;
    the pseudo row alone decides only if few labels have a probability below one half.

    ``n_others`` counts the calibrators besides the anchor, if some that were tried failed.
    """
    others = [name for name in by_name if name != identity]
    anchor = anchor if anchor in others else None
    unchanged = by_name[identity]
    if not others:
        alone = Outcome(unchanged.mean(), unchanged.mean(), 0.0, 0.0)
        return Choice(identity, identity, None, "alone", alone, None)
    if anchor is None:
        n = float(unchanged.w.sum())
        losses = {c: by_name[c].mean() + (by_name[c].pseudo_error or 0.0) / (2 * n) for c in others}
        candidate, lead = min(losses, key=losses.__getitem__), None
    else:
        leads = {c: lead_and_error(by_name[anchor], by_name[c]) for c in others if c != anchor}
        clear = {c: lead for c, (lead, error) in leads.items() if lead > CLEAR_LEAD * error}
        candidate = max(clear, key=clear.__getitem__, default=anchor)
        lead = clear.get(candidate)
    tried = len(others) - (anchor is not None) if n_others is None else n_others
    own_level = level_of(candidate, tried, anchor, level)
    outcome = outcome_of(unchanged, by_name[candidate], own_level)
    before, _, low, high = outcome
    if max(-low, high) <= NOTHING_SHARE * before:
        name, kind = identity, "nothing"
    elif lead_and_error(unchanged, by_name[candidate])[0] > 0 and (
        outcome.gain > 0 or unchanged.w[unchanged.losses > np.log(2)].sum() <= FEW_WRONG
    ):
        kind = "sure" if low > 0 else "likely" if outcome.gain > 0 else "few errors"
        name = candidate
    else:
        name, kind = identity, "small" if high < SMALL_SHARE * before else "open"
    return Choice(name, candidate, anchor, kind, outcome, lead)
