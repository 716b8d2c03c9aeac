"""One calibrator against another over data sets: win rate, mean and worst change of a loss."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from benchmarks._shared.model_scores import design_half

OURS, TEMPERATURE = "skcalib", "TemperatureScaling"
EXPERIMENT = ["family", "data", "model", "seed", "n_cal", "classes"]
# Losses that differ by less are a tie; those below it are taken for it in ratios, because a single
# row of a few thousand decides between them.
NEGLIGIBLE = 2e-3
BOOTSTRAPS = 2_000


class Versus(NamedTuple):
    """One calibrator against another; changes are of the loss, in percent, and below 0 is less.

    `win` and `mean` are of families that count the same, with 95 % intervals over families;
    `mean` is geometric. `worst` is the experiment where the loss rises most.
    """

    experiments: int
    families: int
    win: float
    win_low: float
    win_high: float
    mean: float
    mean_low: float
    mean_high: float
    worst: float
    worst_where: str


def read(path: Path) -> pd.DataFrame:
    """Read the rows; a calibrator of another library is named with it."""
    rows = pd.read_csv(path, dtype={"note": str})
    theirs = rows["library"] != OURS
    rows.loc[theirs, "calibrator"] = rows["library"] + ": " + rows["calibrator"]
    design = design_half(rows["family"].unique())
    rows["half"] = np.where(rows["family"].isin(design), "design", "report")
    return rows


class Losses(NamedTuple):
    """Losses ``(E, C)`` of experiments and calibrators, NaN where one failed."""

    values: NDArray[np.float64]
    column: dict[str, int]
    where: pd.DataFrame

    def by(self, columns: str | list[str]) -> list[tuple[Any, Losses]]:
        """Return the experiments of each value of a column, or of each combination of several."""
        groups = sorted(self.where.groupby(columns).indices.items())
        return [
            (key, Losses(self.values[rows], self.column, self.where.iloc[rows]))
            for key, rows in groups
        ]


def losses(rows: pd.DataFrame, measure: str = "log_loss") -> Losses:
    """Return a row for each experiment and a column for each calibrator."""
    wide = rows.pivot(index=EXPERIMENT, columns="calibrator", values=measure)
    column = {str(name): place for place, name in enumerate(wide)}
    where = wide.index.to_frame(index=False)
    few, some = where["classes"] == 2, where["classes"] <= 10
    where["kind"] = np.select([few, some], ["K = 2", "K = 3 to 10"], "K > 10")
    return Losses(wide.to_numpy(), column, where)


@cache
def resamples(n: int) -> NDArray[np.float64]:
    """Return the shares of n sets in each bootstrap."""
    return np.random.default_rng(0).multinomial(n, np.full(n, 1 / n), size=BOOTSTRAPS) / n


def versus(table: Losses, one: str, other: str) -> Versus | None:
    """Compare two calibrators where both have an answer; None if that is nowhere."""
    if one not in table.column or other not in table.column:
        return None
    pair = table.values[:, [table.column[one], table.column[other]]]
    kept = np.isfinite(pair).all(axis=1)
    if not kept.any():
        return None
    log_ratio = np.log(np.maximum(pair[kept], NEGLIGIBLE)) @ [1.0, -1.0]
    difference = pair[kept] @ [1.0, -1.0]
    wins = np.where(np.abs(difference) < NEGLIGIBLE, 0.5, difference < 0)
    families, of = np.unique(table.where["family"].to_numpy(str)[kept], return_inverse=True)
    sums = [np.bincount(of, values) for values in (wins, log_ratio)]
    means = np.column_stack(sums) / np.bincount(of)[:, None]
    drawn = resamples(len(means)) @ means
    (win_low, ratio_low), (win_high, ratio_high) = np.quantile(drawn, [0.025, 0.975], axis=0)
    win, ratio = means.mean(axis=0)
    worst = int(log_ratio.argmax())
    where = table.where.iloc[np.flatnonzero(kept)[worst]]
    return Versus(
        experiments=len(log_ratio),
        families=len(families),
        win=100 * win,
        win_low=100 * win_low,
        win_high=100 * win_high,
        mean=100 * np.expm1(ratio),
        mean_low=100 * np.expm1(ratio_low),
        mean_high=100 * np.expm1(ratio_high),
        worst=100 * np.expm1(log_ratio[worst]),
        worst_where=f"{where['data']}, {where['model']}, {where['n_cal']:,} rows",
    )


def slices(table: Losses) -> list[tuple[str, Losses]]:
    """Return the experiments of each n_cal, and those of each kind of numbers of classes."""
    return [*((f"n = {n:,}", part) for n, part in table.by("n_cal")), *table.by("kind")]


def harm(table: Losses, one: str, other: str) -> tuple[float, float]:
    """Return how often a loss is higher than another's by 1 % and more, and by how much at worst.

    Both in percent; differences below NEGLIGIBLE do not count.
    """
    pair = table.values[:, [table.column[one], table.column[other]]]
    a, b = pair[np.isfinite(pair).all(axis=1)].T
    harmed = (a > 1.01 * b) & (a - b > NEGLIGIBLE)
    ratio = np.maximum(a, NEGLIGIBLE) / np.maximum(b, NEGLIGIBLE)
    return 100 * float(harmed.mean()), 100 * float(ratio[harmed].max(initial=1.0) - 1)


def names_by_loss(table: Losses, share: float = 0.0) -> list[str]:
    """Return the calibrators, the best against temperature scaling first.

    Those that failed in more than some `share` of the experiments are left out, if it is not 0.
    """
    found = {name: versus(table, name, TEMPERATURE) for name in table.column}
    few = (1 - share) * len(table.values) if share else 1
    ranked = [(one.mean, name) for name, one in found.items() if one and one.experiments >= few]
    return [name for _, name in sorted(ranked)]
