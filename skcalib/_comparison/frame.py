"""Evaluation of a comparison: its metrics, the best calibrator, the agreement of metrics."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import pandas as pd

# The verdict is for this calibrator unless another gains more than the rows leave in doubt.
RECOMMENDED = "auto"


def metric_names(frame: pd.DataFrame) -> list[str]:
    """Return the metrics of a comparison, in their order."""
    return [str(column[0]) for column in frame.columns if column[1] == "mean"]


def metric_rank_correlation(frame: pd.DataFrame) -> pd.DataFrame:
    r"""Rank correlation between the metrics of a comparison, over the calibrators.

    Spearman's rank correlation of each pair of metrics, with :math:`r_c` and :math:`r'_c` the
    ranks of calibrator c by the two and m the number of calibrators,

    .. math:: \rho = 1 - \frac{6 \sum_c (r_c - r'_c)^2}{m (m^2 - 1)}

    without ties, and Pearson's correlation of the ranks with them. Metrics that disagree measure
    different things: choose the one that your application needs.

    Parameters
    ----------
    frame : pandas.DataFrame
        What `compare_calibrators` returns. Rows without numbers are left out.

    Returns
    -------
    correlation : pandas.DataFrame of shape (metrics, metrics)
        In [-1, 1]; NaN where all calibrators are equal by a metric.

    Raises
    ------
    ValueError
        If the frame is not of a comparison, or has fewer than two calibrators with numbers.

    Notes
    -----
    Section 5.3 of the paper prints :math:`|r_c - r'_c|` instead of the square. That does not give
    -1 for inverse rankings, as its text says, but 0 for three calibrators in inverse order.

    References
    ----------
    Nixon, Dusenberry, Jerfel, Nguyen, Liu, Zhang, Tran (2020). Measuring Calibration in Deep
    Learning. arXiv:1904.01685v2, sections 5.3 and 5.4.

    Examples
    --------
    >>> import numpy as np
    >>> from skcalib import compare_calibrators, metric_rank_correlation
    >>> rng = np.random.default_rng(0)
    >>> y = rng.integers(3, size=600)
    >>> Z = 4 * (rng.normal(size=(600, 3)) + 1.5 * np.eye(3)[y])
    >>> frame = compare_calibrators(Z, y, metrics=["log_loss", "brier_score"])
    >>> metric_rank_correlation(frame).shape
    (2, 2)
    """
    import pandas as pd  # imported late, because pandas takes long to import

    if not isinstance(frame.columns, pd.MultiIndex) or not metric_names(frame):
        raise ValueError("frame must be what compare_calibrators returns.")
    means = pd.DataFrame({name: frame[name, "mean"] for name in metric_names(frame)}).dropna()
    if len(means) < 2:
        raise ValueError(f"frame has {len(means)} calibrators with numbers; ranks need two.")
    ranks = pd.DataFrame({name: frame.loc[means.index, (name, "rank")] for name in means})
    return ranks.corr("spearman")


def verdict(frame: pd.DataFrame, metric: str | None = None) -> tuple[str, str]:
    """Return the best calibrator by a metric, the first one if None, and the reason in a sentence.

    The candidates are those whose gain has an interval above 0; without any it is the identity. It
    is `RECOMMENDED` if that is a candidate and the gain of the best is within its interval, else
    the best. Of equally good ones it is the one that changes the fewest predicted classes.
    """
    import pandas as pd  # imported late, because pandas takes long to import

    metric = metric_names(frame)[0] if metric is None else metric
    parts = ("mean", "rank", "gain", "low", "high")
    table = pd.DataFrame({part: frame[metric, part] for part in parts})
    table["changed"] = frame["argmax changed"]
    identity = str(frame.index[0])
    ranked = (
        table.drop(index=identity)
        .dropna(subset=["rank"])
        .sort_values(by=["rank", "changed"], kind="stable")
    )
    if ranked.empty:
        return identity, "Nothing to compare: no calibrator but the identity has numbers."
    sure = ranked[ranked["low"] > 0]
    name = best = str((ranked if sure.empty else sure).index[0])
    if RECOMMENDED in sure.index and table["gain"][best] <= table["high"][RECOMMENDED]:
        name = RECOMMENDED
    before, after = table["mean"][identity], table["mean"][name]
    # Adding 0 turns -0.0 into 0.0, which is written without a sign.
    gain, low, high = (table[part][name] + 0.0 for part in ("gain", "low", "high"))
    change = f"{metric} goes from {before:.4g} to {after:.4g}"
    if math.isnan(low):
        return name, f"Best by {metric}: {name} ({change}); no interval tells this from chance."
    interval = f"{gain:.2g}, interval {low:.2g} to {high:.2g}"
    if sure.empty:
        return identity, (
            "No calibration needed, as far as these rows can tell: no calibrator improves "
            f"{metric} by more than chance (the best, {name}, by {interval})."
        )
    changed = table["changed"][name]
    rival = f" The gain of {best}, {table['gain'][best]:.2g}, is within this interval."
    doubt = (
        " Changes of so many usually mean that the columns do not follow the sorted labels: "
        "check that first."
    )
    return name, (
        f"Calibrate by {name}: {change} (gain {interval}), and the predicted class changes in "
        f"{changed:.1%} of the rows.{'' if name == best else rival}{doubt if changed > 0.5 else ''}"
    )
