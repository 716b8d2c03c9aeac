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
        "The calibrator of this package with the lowest log loss. `change` and `lower in` compare",
        "its log loss with temperature scaling: the relative change, and the percentage of",
        "experiments in which it is lower. The last column is its largest increase over no",
        "calibration.",
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
        "Change of the log loss compared with no calibration, and the percentage of experiments",
        f"in which it is higher by more than 1 % and more than {NEGLIGIBLE:g}. The tables use the",
        "models that have every number of rows; each seed counts as a model.",
        "",
        *report_half,
        "",
        "The same for the data sets used for design decisions:",
        "",
        *design_half,
        "",
        f"On average {code(AUTO)} and {code(SPLINE)} lower the log loss from 10 rows on, because",
        "they shrink towards no calibration. The others need 50 rows or more.",
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
        f"{len(done[done['family'].isin(report_half)]):,} experiments; all "
        f"{done['family'].nunique()} data sets have {len(done):,}. An experiment is a data set, a "
        "model and a number of calibration rows. Changes are relative changes of the log loss of "
        "held-out rows; below 0 is better. Brackets contain 95 % confidence intervals over data "
        f"sets, if there are {FEWEST_SETS} or more.",
        "",
        "## By rows and classes",
        "",
        "Change of the log loss of held-out rows, compared with temperature scaling; below 0 is",
        "better. The best of all others is the calibrator of any library with the lowest log loss",
        "in that row of the table.",
        "",
        *cell_table(part),
        "",
        "The same for the data sets used for design decisions:",
        "",
        *cell_table(rows[rows["half"] == "design"]),
        "",
        "## Can it make things worse?",
        "",
        "Percentage of experiments in which calibration raises the log loss by more than 1 % and",
        f"more than {NEGLIGIBLE:g}, and the largest increase:",
        "",
        *harm_share_table(part, [name for name in HARMING if name in set(part["calibrator"])]),
        "",
        *few_rows_lines(every),
        "## All calibrators",
        "",
        "`log loss` and `Brier score` are changes compared with temperature scaling. `lower in` is",
        "the percentage of experiments with a lower log loss. `worst against none` is the largest",
        "increase of the log loss over no calibration. The rows are sorted by log loss.",
        "",
        *everyone_table(part),
        "",
        "`failed` counts failed fits: scikit-learn and betacal refuse rows that lack a class.",
        "",
        "## How it was measured",
        "",
        "* `python -m benchmarks.arena --peers --page benchmarks/arena/README.md` runs everything, "
        "and resumes after an interruption. `benchmarks/arena/results.csv.gz` contains all "
        "results.",
        f"* Kept for reporting: {', '.join(sorted(report_half))}. Used for design decisions: "
        f"{', '.join(sorted(halves.get('design', [])))}. A data set is used "
        "for design decisions if the CRC-32 of its name is even. The data sets are public; some of "
        "them had been used before they were divided.",
        "* Half of the rows of a data set, at most 16,000 in all, train a model. The others are "
        "for calibration and for measuring (at least 500 rows). Classes with fewer than 40 rows "
        "are dropped. Calibrators get the scores that `CalibratedClassifier` passes to them: the "
        "decision function if there is one, else probabilities.",
        "* Means are geometric, over the experiments of a data set and then over data sets, so "
        "each data set counts once. The 95 % confidence intervals are from "
        f"{BOOTSTRAPS:,} bootstraps of data sets. A difference below {NEGLIGIBLE:g} is a tie, and "
        f"a tie is half a win. In ratios, losses below {NEGLIGIBLE:g} count as {NEGLIGIBLE:g}. "
        "This limit was chosen after single rows of one data set, mushroom, had decided the mean "
        "for two classes. The log loss clips at 1e-15. Failed fits are not in the means; their "
        "column counts them. The best method is chosen on the numbers shown, which are therefore "
        "slightly optimistic.",
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
