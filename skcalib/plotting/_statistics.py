"""Numbers of one event written into a diagram, where they cover no data."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray
from sklearn.metrics import roc_auc_score

from skcalib._arrays.types import Float64Array, FloatArray
from skcalib._validation.weights import as_given
from skcalib.metrics import (
    calibration_intercept_slope,
    integrated_calibration_index,
    local_calibration,
    score_decomposition,
)
from skcalib.metrics._calibration_curve import CalibrationCurve
from skcalib.plotting._room import is_small
from skcalib.plotting._style import percent

if TYPE_CHECKING:
    from matplotlib.axes import Axes


def error_of(method: str, score: FloatArray, hit: NDArray[Any], w: Float64Array) -> float:
    """Return the number of a curve: the ICI of a smooth one, the miscalibration of a rising one.

    Of a local one it is the mean distance of the rows from the diagonal.
    """
    asked: dict[str, Any] = {"pos_label": True, "sample_weight": as_given(w)}
    if method == "local":
        rate = local_calibration(hit, score, at=score, **asked)
        return float(np.average(np.abs(rate - score), weights=w))
    if method == "smooth":
        return integrated_calibration_index(hit, score, **asked).ici
    return float(score_decomposition(hit, score, **asked).miscalibration)


def error_text(error: float, curve: CalibrationCurve | None) -> str:
    """Return the error of bins or of a curve, with its name."""
    if curve is not None and curve.method == "isotonic":
        return f"MCB {error:.3g}"
    names = {"bins": "ECE", "smooth": "ICI", "local": "mean gap"}
    return f"{names['bins' if curve is None else curve.method]} {percent(error)}"


def local_curve(
    score: FloatArray, hit: NDArray[Any], w: Float64Array, level: float
) -> CalibrationCurve:
    """Return the decay estimate at hundredths within the scores, which has no bands."""
    grid = np.linspace(0.0, 1.0, 101)
    at = np.unique(np.clip(grid, score.min(), score.max()))
    rate = local_calibration(hit, score, at=at, pos_label=True, sample_weight=w)
    none = np.full(at.size, np.nan)
    return CalibrationCurve(at, rate, none, none, none, none, none, "local", level)


def numbers_of(score: FloatArray, hit: NDArray[Any], w: Float64Array) -> dict[str, float]:
    """Return the statistics by their names, without those that these rows do not have."""
    asked: dict[str, Any] = {"pos_label": True, "sample_weight": as_given(w)}
    events = float((w * hit).sum())
    numbers = {"n": float(w.sum()), "events": events}
    try:
        found = calibration_intercept_slope(hit, score, **asked)
        numbers |= {"slope": found.slope, "intercept": found.intercept}
    except ValueError:  # soft hits, one outcome alone, equal scores, or no finite slope
        pass
    if hit.dtype.kind == "b" and 0 < events < numbers["n"]:
        numbers["C"] = float(roc_auc_score(hit, score, sample_weight=w))
    index = integrated_calibration_index(hit, score, **asked)
    return {**numbers, "ICI": index.ici, "E90": index.e90}


def text_of(numbers: dict[str, float]) -> str:
    """Return a line for each number."""
    counts = {"n", "events"}
    return "\n".join(
        f"{name} {value:,.0f}" if name in counts else f"{name} {value:.3g}"
        for name, value in numbers.items()
    )


def write_numbers(ax: Axes, numbers: dict[str, float]) -> Any:
    """Write the numbers into the first corner without data, or beside the axes."""
    from skcalib.plotting._free_text import FreeText  # late: it needs matplotlib

    return FreeText(ax, text_of(numbers), "x-small" if is_small(ax) else "small")
