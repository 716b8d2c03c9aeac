r"""Errors by mode: of the top label, or of each class and their mean.

.. math:: \Big(\frac{1}{K} \sum_k e_k^q\Big)^{1/q}

is the class-wise error with exponent q: the root is taken once, of the mean.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike, DTypeLike

from skcalib._arrays.rowwise import Float64Array, FloatArray
from skcalib._scores.one_vs_rest import map_columns
from skcalib._scores.scores import Scores, event_or_top
from skcalib._validation.keywords import Norm, check_option, exponent
from skcalib._validation.rows import Predictions

Mode = Literal["top", "classwise"] | None


def check_mode(
    mode: str | None,
    average: str | None,
    modes: tuple[str | None, ...] = (None, "top", "classwise"),
) -> None:
    """Check the keywords for which errors are measured and how they are averaged."""
    check_option("mode", mode, modes)
    check_option("average", average, ("macro", None))
    if average is None and mode != "classwise":
        raise ValueError("average=None gives an error for each class: it needs mode='classwise'.")


def mean_of_classes(errors: Float64Array, norm: Norm) -> Any:
    """Average the errors of m problems, ``(..., m)``."""
    if norm == "max":
        return errors.max(axis=-1)
    q = exponent(norm)
    return (errors**q).mean(axis=-1) ** (1 / q)


def error_by_mode(
    predictions: Predictions,
    error: Callable[..., float],
    mode: str | None,
    average: str | None,
    norm: Norm = "l1",
    *,
    y_proba: ArrayLike,
    dtype: DTypeLike | None = np.float64,
) -> float | Float64Array:
    """Measure ``error(score, hit, w)`` of one event, of the top label, or of each class.

    ``average=None`` returns the error of each class, even if there is an event, on the device of
    `y_proba`. Scores are passed as `dtype`, with None as their own.
    """
    predictions = predictions.of_mode(mode, average=average)
    if mode != "classwise" or predictions.event is not None:
        score, hit = event_or_top(predictions)
        return float(error(score.astype(dtype or score.dtype, copy=False), hit, predictions.w))

    def measure(k: int, column: FloatArray) -> float:
        score = column.astype(dtype or column.dtype, copy=False)
        return float(error(score, predictions.hits(k), predictions.w))

    errors = np.array(list(map_columns(measure, Scores(predictions.P, "proba"))))
    if average is None:
        return predictions.of_classes(errors, y_proba)
    return float(mean_of_classes(errors, norm))
