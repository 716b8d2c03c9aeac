"""The arena's figure, and the page whose sentences have their numbers."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

import numpy as np
import pandas as pd

from benchmarks._shared.report import fill, machine, number
from benchmarks.arena.report import (
    AUTO,
    ENOUGH_ROWS,
    ETS,
    FEWEST_SETS,
    IDENTITY,
    MAY_FAIL,
    RISING,
    SPLINE,
    cell_table,
    changed,
    code,
    default_table,
    everyone_table,
    few_rows_table,
    harm_share_table,
    harm_table,
    percent,
    report,
    won,
)
from benchmarks.arena.versus import (
    BOOTSTRAPS,
    EXPERIMENT,
    NEGLIGIBLE,
    OURS,
    TEMPERATURE,
    Losses,
    losses,
    names_by_loss,
    read,
    slices,
    versus,
)

# Those of any number of classes that never move the predicted class.
KEEP_THE_CLASS = (
    TEMPERATURE,
    RISING,
    ETS,
    "SplineCalibrator(mode='top')",
)
HARMING = (AUTO, RISING, TEMPERATURE, ETS, "VectorScaling", "MatrixScaling", "BetaCalibrator")
HALVES = ("report", "design")
DRAWN = (
    AUTO,
    RISING,
    "VectorScaling",
    "MatrixScaling",
    "DirichletCalibrator",
    "BetaCalibrator",
    "PlattScaling",
    "VennAbersCalibrator",
    "IsotonicCalibrator",
    "HistogramBinning",
    "probmetrics: sms",
    IDENTITY,
)


# --- the figure -----------------------------------------------------------------------------


def draw(rows: pd.DataFrame, path: Path) -> None:
    """Draw the log loss relative to temperature scaling, by calibrator and n_cal."""
    import matplotlib

    matplotlib.use("agg")
    from matplotlib import pyplot

    table = losses(rows)
    sizes = sorted(rows["n_cal"].unique())
    colours, marks = ("#0072B2", "#D55E00", "#009E73", "#CC79A7"), "os^D"  # Okabe and Ito
    names = [name for name in names_by_loss(table) if name in DRAWN]
    figure, axes = pyplot.subplots(figsize=(8, 0.5 + 0.48 * len(names)), layout="constrained")
    for place, n_cal in enumerate(sizes):
        offset = 0.22 * (place - (len(sizes) - 1) / 2)
        part = table.part(table.where["n_cal"].to_numpy() == n_cal)
        found = [(row, versus(part, name, TEMPERATURE)) for row, name in enumerate(names)]
        kept = [(row + offset, 1 + np.array(one[5:8]) / 100) for row, one in found if one]
        height = [row for row, _ in kept]
        middle, low, high = np.array([ratios for _, ratios in kept]).T
        colour, mark = colours[place % 4], marks[place % 4]
        axes.hlines(height, low, high, color=colour, linewidth=1.5)
        axes.plot(middle, height, mark, color=colour, label=f"{n_cal:,} rows")
    axes.axvline(1, color="0.3", linewidth=1)
    axes.set_xscale("log")
    ticks = [0.5, 0.7, 0.8, 0.9, 1, 1.1, 1.25, 1.5, 2, 3, 5]
    low, high = axes.get_xlim()
    shown = [tick for tick in ticks if low <= tick <= high]
    axes.set_xticks(shown, [f"{tick:g}" for tick in shown])
    axes.set_xticks([], minor=True)
    axes.set_yticks(range(len(names)), names)
    axes.invert_yaxis()
    axes.grid(axis="x", color="0.9")
    axes.set_axisbelow(True)
    axes.set_xlabel("log loss relative to temperature scaling, 95 % over sets")
    axes.legend(title="calibrated on", frameon=False, loc="best")
    for side in ("top", "right", "left"):
        axes.spines[side].set_visible(False)
    axes.tick_params(axis="y", length=0)
    figure.savefig(path, metadata={"Date": None} if path.suffix == ".svg" else None)
    pyplot.close(figure)


# --- the page -------------------------------------------------------------------------------


def best_row(where: str, name: str, table: Losses) -> str:
    """Write how a calibrator does against temperature scaling and against none, as a row."""
    found, none = versus(table, name, TEMPERATURE), versus(table, name, IDENTITY)
    if found is None or none is None:
        return f"| {where} | {code(name)} | | | |"
    worst = f"{percent(none.worst)} ({none.worst_where})"
    return f"| {where} | {code(name)} | {changed(found)} | {won(found)} | {worst} |"


def first_lines(rows: pd.DataFrame) -> list[str]:
    """Return the best calibrators by log loss and by calibration errors, as two tables."""
    ours = rows[(rows["half"] == "report") & (rows["library"] == OURS)]
    table = losses(ours)
    ranked = names_by_loss(table, MAY_FAIL)
    keeping = [name for name in ranked if name in KEEP_THE_CLASS]
    lines = [
        "The calibrator of this package with the lowest log loss, the change of its log loss",
        "compared with temperature scaling, the share of experiments in which it is lower, and the",
        "largest increase over no calibration:",
        "",
        "| experiments | lowest log loss | change | lower in | largest increase |",
        "| --- | --- | --: | --: | --: |",
        best_row("all", ranked[0], table),
        best_row("all, if the predicted class must not change", keeping[0], table),
        *(
            best_row(name, names_by_loss(part, MAY_FAIL)[0], part)
            for name, part in slices(table)[1:]
        ),
        "",
        "The calibrator with the lowest mean calibration error, and the median time of a fit:",
        "",
        f"| | lowest | {code(AUTO)} | {code(TEMPERATURE)} | no calibration |",
        "| --- | --- | --: | --: | --: |",
    ]
    for error, words in (("ece", "expected"), ("sce", "static"), ("ks", "Kolmogorov-Smirnov")):
        mean = ours.groupby(["calibrator", "family"])[error].mean().groupby("calibrator").mean()
        cells = (f"{100 * mean.get(name, np.nan):.2f} %" for name in (AUTO, TEMPERATURE, IDENTITY))
        lines.append(
            f"| {words} calibration error | {code(str(mean.idxmin()))} | {' | '.join(cells)} |"
        )
    seconds = ours.groupby("calibrator")["fit_s"].median()
    cells = (
        f"{number(1e3 * seconds.get(name, np.nan))} ms" for name in (AUTO, TEMPERATURE, IDENTITY)
    )
    lines.append(f"| time of a fit | | {' | '.join(cells)} |")
    return lines


def few_rows_lines(rows: pd.DataFrame) -> list[str]:
    """Return the tables of few rows, for each half; none where no experiment has fewer rows."""
    few = rows[rows["n_cal"] <= ENOUGH_ROWS]
    if few.empty or few["n_cal"].min() == ENOUGH_ROWS:
        return []
    report_half, design_half = (few_rows_table(few[few["half"] == half]) for half in HALVES)
    return [
        "## Few rows",
        "",
        "Change of the log loss compared with no calibration, and the share of experiments in",
        f"which it is higher by more than 1 % and more than {NEGLIGIBLE:g}, for models that have",
        "every number of rows (a model of another seed counts as another):",
        "",
        *report_half,
        "",
        "The same for the data sets that design decisions were based on:",
        "",
        *design_half,
        "",
        f"On average {code(AUTO)} and {code(SPLINE)}, which shrink towards no calibration, lower",
        "the loss from 10 rows on; the others need 50 rows or more.",
        "",
    ]


def listed(names: Iterable[str]) -> str:
    """Write names in alphabetical order."""
    return ", ".join(sorted(names))


def page_lines(every: pd.DataFrame, figure: str) -> list[str]:
    """Return the page: the best calibrators, the choice of the default, all of them, and how."""
    rows = every[every["n_cal"] >= ENOUGH_ROWS]
    part = rows[rows["half"] == "report"]
    halves = rows.groupby("half")["family"].unique()
    done = rows[EXPERIMENT].drop_duplicates()
    report_half = halves.get("report", [])
    return [
        *first_lines(rows),
        "",
        f"These results use the {len(report_half)} data sets kept for reporting, with "
        f"{len(done[done['family'].isin(report_half)]):,} experiments (a data set, a model, a "
        f"number of calibration rows); all {done['family'].nunique()} data sets have "
        f"{len(done):,}. "
        "Changes are in the log loss of held-out rows, below 0 is better, with 95 % confidence "
        f"intervals over data sets where there are {FEWEST_SETS} or more.",
        "",
        "## By rows and classes",
        "",
        "Change of the log loss on held-out rows, compared with temperature scaling: below 0 is",
        "better. The best of all others is the calibrator of any library with the lowest loss in",
        "that row of the table:",
        "",
        *cell_table(part),
        "",
        "The same for the data sets that design decisions were based on:",
        "",
        *cell_table(rows[rows["half"] == "design"]),
        "",
        f"![Log loss relative to temperature scaling]({figure})",
        "",
        "## Can it make things worse?",
        "",
        "Share of experiments in which the log loss is higher than without calibration, by more",
        f"than 1 % and more than {NEGLIGIBLE:g}, and the largest increase:",
        "",
        *harm_share_table(part, [name for name in HARMING if name in set(part["calibrator"])]),
        "",
        *few_rows_lines(every),
        "## All calibrators",
        "",
        "Compared with temperature scaling; columns that say so, with no calibration:",
        "",
        *everyone_table(part, ("log loss against none", "SCE %", "KS %")),
        "",
        "## Can the spline make things worse?",
        "",
        "Mean log loss, and ECE and KS error of the top label, without calibration /",
        f"with {code(SPLINE)} at its defaults, for all data sets:",
        "",
        *harm_table(rows, SPLINE),
        "",
        "For the data sets kept for reporting:",
        "",
        *harm_table(part, SPLINE),
        "",
        "## How it was measured",
        "",
        "* `python -m benchmarks.arena --peers --page docs/which.md` runs everything, and resumes "
        "after an interruption. All results are in `benchmarks/arena/results.csv.gz`, more tables "
        "in [the report](../benchmarks/arena/report.md).",
        f"* Kept for reporting: {listed(report_half)}. Used for design decisions: "
        f"{listed(halves.get('design', []))}. A data set belongs to the latter if the CRC-32 of "
        "its name is even. The data sets are public; some of them had been used before this "
        "division.",
        "* Half of the rows of a data set, at most 16,000 in all, train a model; the others are "
        "for calibration and, at least 500 of them, for measuring. Classes with fewer than 40 rows "
        "are dropped. Calibrators get the scores that `CalibratedClassifier` passes to them: the "
        "decision function if there is one, else probabilities.",
        "* Means are geometric, over the experiments of a data set and then over data sets, so "
        f"that each data set counts once; the 95 % interval is from {BOOTSTRAPS:,} bootstraps of "
        "data sets. A tie is half a "
        f"win, and so is a difference below {NEGLIGIBLE:g}; losses below {NEGLIGIBLE:g} count as "
        "that in ratios (chosen after one data set, mushroom, had decided the mean for two classes "
        "by single rows). The log loss clips at 1e-15. Failed fits are left out of the means and "
        "counted in their column. The best method is chosen on the numbers shown, which are "
        "therefore slightly optimistic.",
        f"* Seeds: {rows['seed'].nunique()}. One thread; other programs ran at the same time. "
        + ". ".join(machine())
        + ".",
    ]


def write(results: Path, out: Path, page: Path | None) -> list[str]:
    """Write the report and the figure, and fill the page; return the lines of the first table."""
    every = read(results)
    rows = every[every["n_cal"] >= ENOUGH_ROWS]
    if rows.empty:
        return [f"no experiment with {ENOUGH_ROWS} rows or more"]
    if not (rows["half"] == "report").any():
        return ["no set of the report half"]
    lines = report(rows)
    (out / "report.md").write_text("\n".join(["# The arena", "", *lines]))
    figure = out / "log_loss.png"
    draw(rows[rows["half"] == "report"], figure)
    if page is not None:
        if not page.exists():
            page.write_text("# Which calibrator?\n")
        target = Path("..") / "benchmarks" / "arena" / figure.name
        fill(page, "arena", page_lines(every, target.as_posix()))
    return default_table(rows)
