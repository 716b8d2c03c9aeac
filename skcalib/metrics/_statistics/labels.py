"""Calibration errors of each label, if a row can have several labels."""

from __future__ import annotations

from html import escape
from typing import Any, ClassVar

import pandas as pd
from numpy.typing import ArrayLike

from skcalib._validation.keywords import check_level
from skcalib._validation.rows import check_lengths, check_predictions
from skcalib._validation.scores import as_array, refuse_lazy
from skcalib._validation.several_labels import read_long_form
from skcalib.metrics._common import listed
from skcalib.metrics._statistics.groups import (
    GroupCalibration,
    Grouped,
    group_rows,
    measure_groups,
    read_metrics,
)


class LabelCalibration(GroupCalibration):
    """Result of `calibration_by_label`: errors, intervals and tests of each label.

    It is printed as the verdict, a table with the worst label first, and the mean over labels. The
    attributes are those of the result of `calibration_by_group`, with labels instead of groups, and
    `macro`. The numbers in `between` assume that labels are independent.

    Attributes
    ----------
    macro : float
        Mean over labels of the first metric: of the debiased values of an error, or of the values
        of a statistic. Labels without this number are left out.
    """

    _unit: ClassVar[str] = "label"

    def __post_init__(self) -> None:
        super().__post_init__()
        first = self.metrics[0]
        self._part = "debiased" if first in self._errors else "value"
        self.macro = float(self.frame[first, self._part].mean())

    def _lines_below(self) -> list[str]:
        name = self.metrics[0].replace("expected_calibration_error", "ECE").replace("_", " ")
        return ["", f"Mean over labels, {name} ({self._part}): {self.macro:.4f}"]

    def _html_below(self) -> str:
        return f"<p>{escape(self._lines_below()[1])}</p>"


@listed("Holm 1979; Besag and Clifford 1991")
def calibration_by_label(
    y_true: ArrayLike,
    y_proba: Any,
    *,
    metrics: Any = ("expected_calibration_error", "slope"),
    sample_weight: ArrayLike | None = None,
    ignore_index: Any = None,
    clusters: Any = None,
    confidence_level: float = 0.95,
    random_state: Any = None,
    n_jobs: int | None = None,
) -> LabelCalibration:
    r"""Calibration of each of several labels for a row, the worst first.

    Each known entry of the indicator matrix is a row of a binary problem, and its label is a group
    of :func:`calibration_by_group`. For each label, the result contains the number of known entries
    and of events, the mean probability, the debiased ECE with its interval, the calibration slope,
    and a p-value that is corrected for the number of labels by the method of Holm. The macro
    average of the errors :math:`e_l` of L labels is

    .. math:: \bar e = \frac{1}{L} \sum_{l=1}^{L} e_l .

    Parameters
    ----------
    y_true : array-like of shape (n, L)
        1 if a row has the label, otherwise 0. NaN marks an unknown entry, which is left out; -1
        does, too, if 0 also occurs.
    y_proba : array-like of shape (n, L) or list of L arrays of shape (n, 2)
        The probability of each label. The columns of a frame are matched with the columns of
        `y_true` by name. A list contains the probabilities of 0 and 1 of each label, as forests
        return them.
    metrics : str, callable, list or dict of these, default=("expected_calibration_error", "slope")
        Calibration errors and statistics of binary problems, as in :func:`calibration_by_group`.
    sample_weight : array-like of shape (n,), default=None
        Non-negative weights. Integers are counts: 2 is two copies of the row. Of floats only the
        ratios matter (see "Weights" under "Valid input" in the user guide). 0 is the row's absence.
        Weights are scaled separately for each label.
    ignore_index : number, default=None
        Entries of `y_true` with this number, such as 255 or -1, are unknown, too.
    clusters : array-like of shape (n,), default=None
        Cluster of each row, such as the patient of an image, if rows of one cluster are dependent;
        see "Dependent rows" in the user guide. None means that rows are independent. The labels of
        a row may depend on one another.
    confidence_level : float in (0, 1), default=0.95
        Level of each interval. A label is found miscalibrated if its corrected p-value is at most 1
        minus this level.
    random_state : int, RandomState instance or None, default=None
        Seed of the simulated entries. Results do not depend on `n_jobs`.
    n_jobs : int, default=None
        Number of processes, as in joblib.

    Returns
    -------
    result : LabelCalibration
        The result is printed as a sentence and a table. ``result.verdict`` is the sentence,
        ``result.frame`` contains all numbers, with a row for each label, and ``result.macro`` is
        the mean over labels of the first metric (of its debiased values, if it is an error).

    Raises
    ------
    ValueError
        If an entry of `y_true` is not 0, 1 or unknown, if `y_true` and `y_proba` have different
        shapes or names, or if probabilities, weights, clusters or keywords are invalid.
    TypeError
        If a metric is neither a name nor callable.

    See Also
    --------
    skcalib.MultilabelCalibrator : Calibrates the probabilities of several labels.
    calibration_by_group : Calibration of groups of rows.

    References
    ----------
    Holm (1979). A Simple Sequentially Rejective Multiple Test Procedure. Scandinavian Journal of
    Statistics 6.

    Besag, Clifford (1991). Sequential Monte Carlo p-values. Biometrika 78.

    Examples
    --------
    >>> import numpy as np
    >>> from skcalib.metrics import calibration_by_label
    >>> rng = np.random.default_rng(0)
    >>> P = rng.beta(2, 4, (500, 3))
    >>> Y = (rng.random((500, 3)) < P ** [1, 2, 1]).astype(int)
    >>> found = calibration_by_label(Y, P, random_state=0)
    >>> found.verdict
    'Miscalibrated labels: 1 (1 of 3 tested; smallest corrected p-value < 0.003).'
    >>> round(found.macro, 2)
    0.07
    """
    check_level(confidence_level)
    named = read_metrics(metrics)
    grouped = group_labels(y_true, y_proba, sample_weight, ignore_index, clusters)
    found = measure_groups(grouped, named, confidence_level, random_state, n_jobs, column=True)
    return LabelCalibration(found.frame, found.metrics, found.confidence_level, found.between)


def group_labels(
    y_true: Any, y_proba: Any, sample_weight: Any, ignore_index: Any = None, clusters: Any = None
) -> Grouped:
    """Read several labels for a row as the rows of a binary problem, and divide them by label."""
    refuse_lazy("y_proba", y_proba)
    arguments = ("y_proba", "y_true")
    entries = read_long_form(y_proba, y_true, sample_weight, ignore_index, arguments)
    if clusters is not None:
        clusters = as_array("clusters", clusters, "pass one label for each row")
        check_lengths(clusters, entries.n_rows, "clusters", "y_proba")
        clusters = clusters[entries.row]
    with entries.naming_entries():
        predictions = check_predictions(entries.code, entries.score, entries.w, clusters=clusters)
    names = pd.Index(entries.names)
    group = pd.Series(pd.Categorical.from_codes(entries.label, names), name="label")
    return group_rows(predictions, group, len(group), entries.w)
