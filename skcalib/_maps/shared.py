"""What PyTorch and ONNX share: steps of `skcalib._scores` and searches, by their few operations.

Scores are read in the order of NumPy's code, so that results differ only by the last bit of an
exponential or a logarithm and by the order of sums.
"""

from __future__ import annotations

from copy import copy
from typing import Any

import numpy as np

from skcalib._arrays.types import Bools, Clip, Kind
from skcalib._maps.operations import LIFT, ROUNDING, ColumnPlan, Constants, Piecewise, Plan, Value
from skcalib._maps.search import tables
from skcalib._scores.clip import LEAST_CLIP
from skcalib._scores.scores import MOST_ODDS

# Finite logits are at most 1e30 in absolute value; below this, a number of float32, they are -inf.
LEAST_LOGIT = -3e38


def with_arrays(
    plan: Plan | ColumnPlan,
    n_classes: int,
    clip: Clip | None,
    options: bool,
    any_zero: bool | Bools,
) -> Plan | ColumnPlan:
    """Return the plan with all constants as arrays, those of searches by name, and the clip."""
    constants = {name: _constant(value, n_classes) for name, value in plan.constants.items()}
    constants["places"] = np.arange(n_classes)[None]
    if clip is not None:
        # A logit of -inf that is an option not offered gets the exponential 0.
        log_clip = LEAST_LOGIT if options else np.log(clip)
        constants |= {"clip": np.asarray(clip), "log_clip": np.asarray(log_clip)}
        constants["least"] = np.where(any_zero, clip, LEAST_CLIP)
    return plan._replace(constants=constants)


def _constant(value: Any, n_classes: int) -> Any:
    if isinstance(value, Piecewise):
        return tables(value)
    # ONNX Runtime drops a product with one number near 1.
    return np.asarray(value) if np.ndim(value) else np.full((1, n_classes), float(value))


def moved(x: Value, share: float) -> Value:
    """Return ``x (1 + share)``.

    ONNX Runtime drops a product with a number that is 1 in float32.
    """
    return x + x * share


def two_columns(o: Any, x: Value, kind: Kind) -> Value:
    """Turn one column into two: ``(0, f)`` for a binary logit, ``(1 - p, p)`` for P(second).

    A logit of +inf becomes ``(-inf, 0)``.
    """
    if kind == "proba":
        return o.concat(o.rounded(1.0 - x), x)
    certain = x > -LEAST_LOGIT
    return o.concat(o.where(certain, -x, 0.0), o.where(certain, 0.0, x))


def probabilities(
    o: Any, plan: Plan | ColumnPlan, c: Constants, x: Value, kind: Kind, n_classes: int
) -> Value:
    """Return the probabilities of scores ``x (n, K)``, given operations of a library."""
    o = copy(o)
    o.c, o.x, o.kind, o.n_classes = c, x, kind, n_classes
    if isinstance(plan, Plan):
        q = plan.formula(o, c)
    else:
        # Two logits have an exact difference.
        o.noise = float(plan.read == "ordered" and kind == "logits" and n_classes > 2)
        columns = getattr(o, plan.read)()
        of_odds = plan.read == "log_odds"
        columns = columns if of_odds else o.rounded(columns)
        columns = o.columns(columns, plan.first, n_classes) if plan.first else columns
        q = plan.formula(o, columns, c)
        rest = o.expit(-q) if of_odds else 1.0 - o.rounded(q)
        q = o.expit(q) if of_odds else o.rounded(q)
        q = o.concat(rest, q) if plan.first else o.normalise(q)
    if "prior_ratio" in c:
        q = q * c["prior_ratio"]
        q = o.where(o.row_sum(q) > 0.0, q, c["priors"])
        q = q / o.row_sum(q)
    return q


class SharedOperations:
    """Operations of formulas that are made of those of a library.

    `x` are the scores ``(n, K)``, of a `kind`, `c` the constants of the formula, and `epsilon` the
    distance from 1 to the next number of the type of the scores. NumPy has only `map_rows`,
    `columns`, `log_tail` and `share_equally` from here.
    """

    # Whether no logit is known to be -inf.
    finite = False
    # Rounding errors of columns are relative to their size and this number.
    noise = 1.0

    def proba(self: Any) -> Value:
        return self.x if self.kind == "proba" else self.softmax(self.x)

    def logits(self: Any) -> Value:
        if self.kind == "proba":
            return self.log(self._clipped())
        if self.finite:
            return self.x
        floor = self.log_sum_exp(self.x) + self.c["log_clip"]
        return self.where(self.x > LEAST_LOGIT, self.x, floor)

    def _clipped(self: Any) -> Value:
        """Return probabilities above 0, as `clip_of_rows` does."""
        smallest = -self.row_max(self.where(self.x > 0.0, -self.x, -1.0))
        zero = self.minimum(smallest * 0.5, self.c["clip"])
        return self.maximum(self.x, self.maximum(zero, self.c["least"]))

    def ordered(self: Any) -> Value:
        if self.kind == "proba":
            return self.x
        odds = self.log_odds_of(self.maximum(self.x, LEAST_LOGIT))
        return self.clip(odds, -MOST_ODDS, MOST_ODDS)

    def log_proba(self: Any) -> Value:
        """Return the logarithms of clipped probabilities."""
        if self.kind == "proba":
            return self.logits()
        return self.maximum(self.x - self.log_sum_exp(self.x), self.c["log_clip"])

    def log_odds(self: Any) -> Value:
        """Return log-odds of each class, ``(n, K)``."""
        if self.kind == "logits":
            return self.log_odds_of(self.logits())
        p = self._clipped()
        if self.n_classes == 2:
            odds = self.log(self.columns(p, 1, 2) / self.columns(p, 0, 1))
            return self.concat(-odds, odds)
        best = self._first_of_largest(p)
        rest = self.row_sum(self.where(best, 0.0, p))
        return self.log(p / self.where(best, rest, (self.row_max(p) + rest) - p))

    def log_odds_of(self: Any, z: Value) -> Value:
        """Return log-odds of logits."""
        if self.n_classes == 2:
            odds = self.columns(z, 1, 2) - self.columns(z, 0, 1)
            return self.concat(-odds, odds)
        best, far = self._first_of_largest(z), z - self.row_max(z)
        rest = self.log_sum_exp(self.where(best, LEAST_LOGIT, far))
        mass = self.where(best, 1.0, 1.0 + self.exp(rest) - self.exp(far))
        return self.where(best, -rest, far - self.log(mass))

    def affine_softmax(
        self: Any,
        coef: Value,
        intercept: Value = None,
        *,
        full: bool = False,
        of_log_proba: bool = False,
    ) -> Value:
        z = self.log_proba() if of_log_proba else self.logits()
        z = self.map_rows(coef, z) if full else z * coef
        return self.softmax(z if intercept is None else z + intercept)

    def first_of_largest(self: Any) -> Value:
        return self._first_of_largest(self.x)

    def _first_of_largest(self: Any, x: Value) -> Value:
        return self.equal(self.c["places"], self.argmax(x))

    def keep_top(self: Any, q: Value) -> Value:
        q = self.rounded(q)
        lost = self.first_of_largest() & ~self._first_of_largest(q)
        return self.where(lost, moved(self.row_max(q), self.epsilon), q)

    def without_options(self: Any, q: Value) -> Value:
        if self.kind == "proba":  # NaN is not read here
            return q
        return self.normalise(self.where(self.x > LEAST_LOGIT, q, 0.0))

    def normalise(self: Any, q: Value) -> Value:
        """Divide rows by their sums; a row of zeros becomes uniform."""
        q = self.where(self.row_sum(q) <= 0.0, 1.0, q)
        return q / self.row_sum(q)

    def map_rows(self: Any, W: Value, x: Value) -> Value:
        """Return ``W z`` of each row z of ``x (n, K)``, for a constant ``W (m, K)``."""
        return x @ W.T

    def columns(self: Any, x: Value, start: int, stop: int) -> Value:
        """Return columns `start` up to `stop`."""
        return x[:, start:stop]

    def log_tail(self: Any, x: Value) -> Value:
        """Return log(1 + exp(-|x|))."""
        return self.log(1.0 + self.exp(-self.absolute(x)))

    def expit(self: Any, x: Value) -> Value:
        # A sigmoid of ONNX Runtime is 0 below -40, where relative sizes still count.
        return 1.0 / (1.0 + self.exp(-x))

    def lines(self: Any, lines: Any, x: Value, *, computed: bool = False) -> Value:
        x = x * LIFT
        if not computed and self.kind == "proba":
            at = self._passed(lines, x)
            beyond = x - self.take(lines["left"], at)
        else:  # the slope would magnify the rounding error of a score that is a knot
            error = (self.absolute(x) + (0.0 if computed else self.noise * LIFT)) * ROUNDING
            at = self._passed(lines, x + error)
            beyond = x - self.take(lines["left"], at)
            beyond = self.where(beyond <= error, 0.0, beyond)
        return self.take(lines["level"], at) + self.take(lines["slope"], at) * beyond

    def steps(
        self: Any,
        steps: Any,
        x: Value,
        *,
        reached: bool = True,
        rounded: bool = False,
        exact: bool = False,
    ) -> Value:
        if self.kind == "logits" and not exact:
            error = (self.absolute(x) + self.noise) * ROUNDING
            x = x + error if reached else x - error
        return self.take(steps["level"], self._passed(steps, x, reached, rounded))

    def _passed(
        self: Any, tree: Constants, x: Value, reached: bool = True, rounded: bool = False
    ) -> Value:
        """Return the places in tables of values that the entries of ``x (n, m)`` get to."""
        place = tree["row"]
        for name in tree:
            if name.startswith("limits"):
                limits = self.rounded(tree[name]) if rounded else tree[name]
                shift = tree[name.replace("limits", "shift")]
                place = self.search_rows(limits, place, shift, x, reached)
        return place

    def share_ties(self: Any, best: Value, q: Value, n: int) -> Value:
        before = self.concat(self.columns(best, 0, 1), self.columns(best, 0, n - 1))
        falls = before > (moved(best, ROUNDING) if self.kind == "logits" else best)
        group = self.cumulative(self.to_whole(falls))
        none = q * 0.0
        sums = self.add_along(none, group, q)
        counts = self.add_along(none, group, none + 1.0)
        return self.take_along(sums, group) / self.take_along(counts, group)

    def tied(self: Any, x: Value, y: Value) -> Value:
        error = ROUNDING if self.kind == "logits" else 0.0
        return self.absolute(x - y) <= y * error

    def share_equally(self: Any, q: Value, tied: Value) -> Value:
        """Give the entries of a row that are `tied` their mean; each row has one."""
        mean = self.row_sum(self.where(tied, q, 0.0)) / self.row_sum(self.to_float(tied))
        return self.where(tied, mean, q)

    def ascending(self: Any, x: Value) -> Value:
        falling, _ = self.sorted_top(-x, self.n_classes)
        return -falling
