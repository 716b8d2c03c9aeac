"""The result of a comparison: the choice, the numbers behind it, and the chosen calibrator."""

from __future__ import annotations

from html import escape
from typing import Any, NamedTuple

import pandas as pd
from numpy.typing import ArrayLike

from skcalib._comparison.choice import AS_GOOD, SMALL_SHARE
from skcalib._comparison.held_out import (
    HeldOutRows,
    fit_rows,
    predict_held_out,
    takes_groups,
)
from skcalib._comparison.tables import summary_table
from skcalib._meta_estimators.groupwise import GroupwiseCalibrator
from skcalib._meta_estimators.out_of_fold import with_input_and_classes
from skcalib._validation.predictions import Predictions
from skcalib.calibrators._base import ScoreCalibrator
from skcalib.metrics._intervals.signs import clusters_text
from skcalib.metrics._printing import LINE, as_html, format_table
from skcalib.plotting import ComparisonDisplay
from skcalib.plotting._comparison import metric_names


class Given(NamedTuple):
    """What was given to compare: checked rows, and the arguments that a fit takes again.

    ``in_order``: whether a calibrator may be fitted on `X` itself, because its columns follow the
    sorted labels (or, a single one, is the score of the second).
    """

    data: HeldOutRows
    calibrators: dict[str, Any]
    X: ArrayLike
    y: ArrayLike
    sample_weight: ArrayLike | None
    in_order: bool
    groups: Any = None


class CalibratorComparison:
    """Result of `compare_calibrators`: the recommended calibrator, the reason, all numbers.

    `compare_calibrators` creates it. Printed, it is the verdict, a table with the recommended
    calibrator first and the others by their log loss, and the calibrators that are as good.

    Attributes
    ----------
    choice : str
        Name of the recommended calibrator; "identity" if no calibration is recommended.
    verdict : str
        The choice and its reason.
    as_good : list of str
        Calibrators whose log loss is higher than that of the choice by at most two standard errors
        and at most 2 %, including the choice.
    frame : pandas.DataFrame
        A row for each calibrator, the identity first. For each metric the columns
        ``(metric, "value")``, of all held-out rows together; ``"debiased"``, the error without
        the part that chance adds; ``"if calibrated"``, the error of a calibrated model on as many
        rows (both NaN for a metric that is not an error of this package); ``"rank"`` by value (1
        is best, ties share the lower); ``"gain"`` over the identity and its interval, ``"low"``
        and ``"high"``, positive if the calibrator is better. Then ``("choice", "log loss")``, of
        the rows on which the choice was made, ``("choice", "chosen")``, ``("choice", "as good")``,
        "fit seconds" (mean over fits), "argmax changed" (share of rows whose predicted class
        differs from the identity's), "warning" (the first one raised) and "error" (why a
        calibrator has no numbers), which are empty strings if there is none.

    See Also
    --------
    compare_calibrators : Creates it.
    metric_rank_correlation : How much the metrics agree.

    Examples
    --------
    >>> import numpy as np
    >>> from skcalib import compare_calibrators
    >>> rng = np.random.default_rng(0)
    >>> y = rng.integers(3, size=900)
    >>> Z = 4 * (rng.normal(size=(900, 3)) + 1.5 * np.eye(3)[y])  # logits 2.7 times too large
    >>> found = compare_calibrators(Z, y, ["auto", "temperature"], metrics=["log_loss"])
    >>> found.choice
    'auto'
    >>> found.fit().predict_proba(Z[:2]).shape
    (2, 3)
    """

    def __init__(
        self, frame: pd.DataFrame, choice: str, verdict: str, as_good: list[str], given: Given
    ) -> None:
        self.frame = frame
        self.choice = choice
        self.verdict = verdict
        self.as_good = as_good
        self._given = given

    @property
    def metrics(self) -> list[str]:
        """Names of the metrics, in their order."""
        return metric_names(self.frame)

    def fit(self, name: str | None = None) -> Any:
        """Fit a calibrator on all calibration rows.

        Parameters
        ----------
        name : str, default=None
            Name of a compared calibrator; None means the choice.

        Returns
        -------
        calibrator : object
            Fitted clone. Its ``predict_proba`` takes scores as `X` was given; if the columns of
            `X` did not follow the sorted labels, it takes them in the order of its ``classes_``.

        Raises
        ------
        ValueError
            If no calibrator has this name.
        """
        data, calibrators, X, y, sample_weight, in_order, groups = self._given
        name = self.choice if name is None else name
        if name not in calibrators:
            raise ValueError(f"name must be one of {', '.join(calibrators)}; got {name!r}.")
        calibrator = calibrators[name]
        if in_order and isinstance(calibrator, ScoreCalibrator | GroupwiseCalibrator):
            own = with_input_and_classes(calibrator, data.kind, data.classes)
            params = {"groups": groups} if takes_groups(own.fit) else {}
            return own.fit(X, y, sample_weight=sample_weight, **params)
        rows = slice(None) if len(data.splits) > 1 else data.splits[0][0]
        return fit_rows(calibrator, data, rows)

    def plot(self, *, metrics: Any = None, ax: Any = None) -> ComparisonDisplay:
        """Plot the gain of every calibrator by every metric.

        Parameters
        ----------
        metrics, ax
            See `skcalib.plotting.ComparisonDisplay.plot`.

        Returns
        -------
        display : skcalib.plotting.ComparisonDisplay

        Raises
        ------
        ValueError
            If there is no such metric, or there are too few or too many axes.
        ImportError
            If matplotlib is missing.
        """
        return ComparisonDisplay.from_frame(self.frame, metrics=metrics, ax=ax)

    def __repr__(self) -> str:
        table = format_table(summary_table(self.frame), LINE)
        return "\n".join([self.verdict, "", table, *self._notes()])

    def _repr_html_(self) -> str:
        table = as_html(summary_table(self.frame), self.choice)
        notes = "".join(f"<p>{escape(note)}</p>" for note in self._notes())
        return f"<p><strong>{escape(self.verdict)}</strong></p>{table}{notes}"

    def _notes(self) -> list[str]:
        others = [name for name in self.as_good if name != self.choice]
        clusters = clusters_text(self._given.data.n_clusters)
        lines = [f"Intervals of {clusters}."] if clusters else []
        if "*" in "".join(summary_table(self.frame)[0]):
            lines.append(
                "* debiased: the error minus what chance adds to it; 0 means not perfect, but no "
                "more than chance."
            )
        if others:
            lines.append(
                f"As good as {self.choice} (log loss higher by at most {AS_GOOD:.0f} standard "
                f"errors and {100 * SMALL_SHARE:.0f} %): {', '.join(others)}."
            )
        failed = [str(name) for name in self.frame.index[self.frame["error"] != ""]]
        if failed:
            lines.append(f'Without numbers (see frame["error"]): {", ".join(failed)}.')
        return lines


def rows_of(comparison: CalibratorComparison) -> HeldOutRows:
    """Return the rows that were compared."""
    return comparison._given.data


def predictions_of(comparison: CalibratorComparison, name: str) -> Predictions:
    """Fit a calibrator again and return its predictions of the measured rows."""
    given = comparison._given
    return predict_held_out(given.calibrators[name], given.data)[0]
