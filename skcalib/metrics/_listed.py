"""What lists of metrics need for each: its paper, its scorer, whether it is an error."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from skcalib._validation.predictions import Metric, takes_predictions

# Metrics with a scorer in `SCORERS`, in the order of the imports in skcalib/metrics/__init__.py.
SCORED: list[Callable[..., Any]] = []


def listed(
    paper: str,
    *,
    scorer: bool = False,
    error: bool = True,
    by_cells: Callable[..., Any] | None = None,
    has_event: bool = True,
) -> Callable[[Metric], Metric]:
    """Mark a metric with the paper that docs/metrics.md names, and with whether `SCORERS` has it.

    A metric with a scorer takes checked predictions. It is a calibration error, which is smallest
    where labels follow the probabilities, unless `error` is False. `by_cells` makes it a function
    of the hits of cells, if it is not among those of `skcalib.metrics._intervals.errors`.
    Two columns are one event unless `has_event` is False: then they are two classes.
    """

    def mark(metric: Metric) -> Metric:
        metric._paper = paper  # type: ignore[attr-defined]
        if scorer:
            SCORED.append(takes_predictions(metric))
            metric._is_error = error  # type: ignore[attr-defined]
            metric._by_cells = by_cells  # type: ignore[attr-defined]
            metric._has_event = has_event  # type: ignore[attr-defined]
        return metric

    return mark
