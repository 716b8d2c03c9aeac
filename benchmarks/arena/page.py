"""The arena's page, filled with tables of the stored results."""

from __future__ import annotations

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
    everyone_table,
    few_rows_table,
    harm_share_table,
    percent,
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
KEEP_THE_CLASS = (TEMPERATURE, RISING, ETS, "SplineCalibrator(mode='top')")
HARMING = (AUTO, RISING, TEMPERATURE, ETS, "VectorScaling", "MatrixScaling", "BetaCalibrator")
HALVES = ("report", "design")


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
        *(best_row(name, names_by_loss(part, MAY_FAIL)[0], part) for name, part in slices(table)),
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


def page_lines(every: pd.DataFrame) -> list[str]:
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
        "Relative to temperature scaling unless the column says otherwise:",
        "",
        *everyone_table(part),
        "",
        "`failed`: scikit-learn and betacal refuse rows that lack a class.",
        "",
        "## How it was measured",
        "",
        "* `python -m benchmarks.arena --peers --page benchmarks/arena/README.md` runs everything, "
        "and resumes after an interruption. All results are in `benchmarks/arena/results.csv.gz`.",
        f"* Kept for reporting: {', '.join(sorted(report_half))}. Used for design decisions: "
        f"{', '.join(sorted(halves.get('design', [])))}. A data set belongs to the "
        "latter if the CRC-32 of its name is even. The data sets are public; some of them had been "
        "used before they were divided.",
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


def write(results: Path, page: Path | None) -> list[str]:
    """Fill the page, if there is one; return the lines of the first tables."""
    every = read(results)
    rows = every[every["n_cal"] >= ENOUGH_ROWS]
    part = rows[rows["half"] == "report"]
    if part.empty:
        return [f"no experiment of the report half with {ENOUGH_ROWS} rows or more"]
    if page is not None:
        fill(page, "arena", page_lines(every))
    return first_lines(rows)
