"""The result of `calibration_by_group`: a row for each group, and a test of all of them."""

from __future__ import annotations

from dataclasses import dataclass
from html import escape
from typing import Any

import numpy as np
import pandas as pd

from skcalib.metrics._printing import LINE, as_html, format_table, interval_text, p_text

# A test ends when ENOUGH sets of labels have an error as large as the data, else after MOST sets,
# or MOST_PER_GROUP for each group, less one: so that a corrected p-value may be 1 / 200.
ENOUGH, MOST, MOST_PER_GROUP = 20, 1000, 200
# Groups that are named in the sentence, and rows that are printed.
NAMED, PRINTED = 5, 40
# Columns of an error that are printed.
SHOWN = ["debiased", "low", "high", "corrected p-value"]
# How numbers are printed: those of groups, with three digits if not named here, and of `between`.
FORMS = {"gap": "{:+.3f}", **dict.fromkeys(("n", "clusters", "events"), "{:,.0f}")}
FORMAT: dict[str, Any] = {"float_format": "{:.3g}".format}


def most_sets(n_groups: int) -> int:
    """Return the number of sets of labels after which a test of one of the groups ends."""
    return max(MOST, MOST_PER_GROUP * n_groups)


@dataclass(eq=False, repr=False)
class GroupCalibration:
    """Calibration of each group of rows: how far off, how surely, and all numbers.

    `calibration_by_group` creates it. Printed, it is the verdict and a table, the worst group
    first.

    Attributes
    ----------
    frame : pandas.DataFrame
        A row for each group, with its label as index (several, if `groups` has several columns).
        Columns: ``"n"``, the number of rows that the weights count as; ``"clusters"``, their
        number, if there are any; for one event ``"events"``, ``"mean probability"`` and ``"rate"``,
        else ``"mean confidence"`` and ``"accuracy"`` of the top label; ``"gap"``, the latter less
        the former. For each metric ``(metric, "value")``, ``"debiased"``, ``"low"``, ``"high"``,
        ``"if calibrated"`` as `calibration_interval` gives them, ``"p-value"`` and ``"corrected
        p-value"``; NaN for groups of fewer than 10 rows or 6 clusters. For each statistic
        ``"value"``, ``"low"`` and ``"high"``. ``"finding"`` says in words what follows.
    metrics : list of str
        Names of the metrics; the order of the rows is that of the first, and findings are those of
        the first error.
    p_value : float
        P-value of the hypothesis that all groups are calibrated: the smallest corrected p-value.
        NaN if no group has 10 rows, or no error is measured.
    between : pandas.DataFrame
        A row for each statistic: the number of ``groups`` that have one, the random-effects
        ``mean``, its interval ``low`` to ``high``, ``tau``, the standard deviation between groups
        (of O:E that of its logarithm, of AUC that of its logit), ``I2``, the share of the variance
        that is between groups, and ``prediction_low`` to ``prediction_high``, the interval of the
        number measured in a new group of their mean size. NaN for fewer than 3 groups.
    verdict : str
        A sentence that names the miscalibrated groups, or says what a new group may be like.
    confidence_level : float
        Level of the intervals; a corrected p-value up to 1 less this is a finding.
    """

    frame: pd.DataFrame
    metrics: list[str]
    confidence_level: float
    between: pd.DataFrame

    def __post_init__(self) -> None:
        self._errors = [name for name in self.metrics if name not in self.between.index]
        corrected = np.empty(0)
        if self._errors:
            corrected = self.frame[self._errors[0], "corrected p-value"].to_numpy()
        tested = corrected[~np.isnan(corrected)]
        self.p_value = float(tested.min()) if tested.size else float("nan")
        self._smallest = tested.size / most_sets(tested.size)
        self.verdict = self._verdict(corrected)

    def _verdict(self, corrected: Any) -> str:
        if not self._errors:
            name, row = next(self.between.iterrows())
            if np.isnan(row["mean"]):
                return f"{name}: fewer than 3 groups have enough events and other rows."
            mean, new = _with_ends(*row.iloc[1:4]), interval_text(*row.iloc[6:])[2:-1]
            return f"{name}: {mean} on average of {row['groups']:.0f} groups, {new} in a new one."
        miscalibrated = corrected <= 1 - self.confidence_level
        n_tested = int((~np.isnan(corrected)).sum())
        if not n_tested:
            return "No group has enough rows to be tested."
        small = len(corrected) - n_tested
        how = f"{n_tested} tested{f', {small} too small to test' if small else ''}; smallest "
        how += f"corrected p-value {self._p_text(self.p_value)}"
        if not miscalibrated.any():
            return f"No group is found miscalibrated ({how})."
        names = [label_text(label) for label in self.frame.index[miscalibrated]]
        listed = ", ".join(names[:NAMED]) + (", ..." if len(names) > NAMED else "")
        return f"Miscalibrated groups: {listed} ({miscalibrated.sum()} of {how})."

    def _p_text(self, p: float) -> str:
        """Write a corrected p-value with two digits; one at the floor of its test is "< 0.005"."""
        if p <= self._smallest * (1 + 1e-9):
            return p_text(self._smallest, self._smallest)
        return "" if np.isnan(p) else f"{p:.2g}"

    def _cells(self) -> list[list[str]]:
        """Return the table that is printed, its header first."""
        frame = self.frame
        columns = [[" x ".join(map(str, frame.index.names)), *map(label_text, frame.index)]]
        for name in frame.columns.get_level_values(0):
            if name not in (*self.metrics, "finding"):
                form = FORMS.get(name, "{:.3f}")
                columns.append([name, *(_text(x, form) for x in frame[name, ""])])
        for name in self.between.index:
            ends = frame[name][["value", "low", "high"]].to_numpy()
            columns.append([name, *(_with_ends(*line) for line in ends)])
        for name in self._errors[:1]:
            short = name.removesuffix("_calibration_error").replace("_", " ")
            debiased, low, high, p = frame[name][SHOWN].to_numpy().T
            columns.append([f"{short} error, debiased", *map(_text, debiased)])
            columns.append(["interval", *map(_in_brackets, low, high)])
            columns.append(["corrected p", *map(self._p_text, p)])
        columns.append(["finding", *frame["finding", ""]])
        return [list(row) for row in zip(*columns, strict=True)]

    def __repr__(self) -> str:
        rows = self._cells()
        more = len(rows) - 1 - PRINTED
        lines = [self.verdict, "", format_table(rows[: PRINTED + 1], LINE)]
        if more > 0:
            lines.append(f"... and {more} more groups: see frame.")
        if len(self.between):
            lines += ["", "Mean of groups, and a new group:", self.between.to_string(**FORMAT)]
        return "\n".join(lines)

    def _repr_html_(self) -> str:
        between = self.between.to_html(border=0, **FORMAT) if len(self.between) else ""
        return f"<p><strong>{escape(self.verdict)}</strong></p>{as_html(self._cells())}{between}"


def label_text(label: Any) -> str:
    """Return the label of a group as text; those of several columns are joined."""
    return " x ".join(map(str, label)) if isinstance(label, tuple) else str(label)


def _with_ends(value: float, low: float, high: float) -> str:
    return "" if np.isnan(value) else f"{value:.3g}{interval_text(low, high)}"


def _in_brackets(low: float, high: float) -> str:
    return "" if np.isnan(low) else f"[{low:.3f}, {high:.3f}]"


def _text(value: float, form: str = "{:.3f}") -> str:
    return "" if np.isnan(value) else form.format(value)
