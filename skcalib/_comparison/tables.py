"""Tables of a comparison, as cells."""

from __future__ import annotations

import pandas as pd

from skcalib.metrics._scorers import SHORT_NAMES
from skcalib.plotting._comparison import metric_names, ordered

SHORT = {
    "log_loss": "log loss",
    "brier_score": "Brier",
    "error_rate": "error rate",
    **{metric: name.upper() for name, metric in SHORT_NAMES.items()},
}


def short(metric: str) -> str:
    """Return the name of a metric as the head of a column."""
    return SHORT.get(metric, metric.replace("_", " "))


def summary_table(frame: pd.DataFrame) -> list[list[str]]:
    """Return one table of what matters, its header first.

    Log loss with its gain and interval, "+" for a gain and "-" for harm, changed classes, and the
    other metrics; those with a star are errors without the part that chance adds.
    """
    names = metric_names(frame)
    others = [name for name in names if name != "log_loss"]
    table, has_gains = ordered(frame), "log_loss" in names
    losses = table[("log_loss", "value") if has_gains else ("choice", "log loss")]
    biased = {name: table[name, "debiased"].isna().all() for name in others}
    head = ["calibrator", "log\nloss", *["gain", "interval"] * has_gains, "classes\nchanged"]
    head += [short(name) if biased[name] else f"{short(name)}*" for name in others]
    rows = [head]
    for i, name in enumerate(table.index):
        cells = [str(name), f"{losses.iloc[i]:.4f}"]
        if has_gains:
            gain, low, high = (table["log_loss", part].iloc[i] for part in ("gain", "low", "high"))
            sign = "+" if low > 0 else "-" if high < 0 else " "
            ends = f"[{low + 0.0:.4f}, {high + 0.0:.4f}] {sign}"
            cells += ["", ""] if name == frame.index[0] else [f"{gain + 0.0:.4f}", ends]
        cells += [f"{100 * table['argmax changed'].iloc[i]:.1f} %"]
        for metric in others:
            part = "value" if biased[metric] else "debiased"
            cells += [f"{table[metric, part].iloc[i]:.4f}"]
        rows.append(cells)
    return rows
