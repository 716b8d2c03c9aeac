"""The arena's figure, and the page whose sentences have their numbers."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

import numpy as np
import pandas as pd

from benchmarks._shared.report import fill, machine, number
from benchmarks.arena.report import (
    AUTO,
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


def sentence(lead: str, name: str, table: Losses) -> str:
    """Say how a calibrator does against temperature scaling and against none."""
    found, none = versus(table, name, TEMPERATURE), versus(table, name, IDENTITY)
    words = f"* {lead}: {code(name)}."
    if found is None or none is None:
        return words
    worst = f"at worst {percent(none.worst)} against no calibration ({none.worst_where})."
    if name == TEMPERATURE:
        return f"{words} Log loss {changed(none)} against no calibration; {worst}"
    return (
        f"{words} Log loss {changed(found)} against temperature scaling, lower in {won(found)} of "
        f"the experiments; {worst}"
    )


def first_lines(rows: pd.DataFrame) -> list[str]:
    """Return the answer, a sentence for each number of the report half."""
    ours = rows[(rows["half"] == "report") & (rows["library"] == OURS)]
    table = losses(ours)
    ranked = names_by_loss(table, MAY_FAIL)
    lines = [sentence("Lowest log loss on average", ranked[0], table)]
    keeping = [name for name in ranked if name in KEEP_THE_CLASS]
    lines.append(sentence("When the predicted class must not change", keeping[0], table))
    for name, part in slices(table)[1:]:
        lines.append(sentence(f"With {name}", names_by_loss(part, MAY_FAIL)[0], part))
    for error, words in (("ece", "expected"), ("sce", "static"), ("ks", "Kolmogorov-Smirnov")):
        mean = ours.groupby(["calibrator", "family"])[error].mean().groupby("calibrator").mean()
        lines.append(
            f"* Lowest {words} calibration error: {code(str(mean.idxmin()))}, "
            f"{100 * mean.min():.2f} % ({code(AUTO)} {100 * mean.get(AUTO, np.nan):.2f} %, "
            f"{code(TEMPERATURE)} {100 * mean[TEMPERATURE]:.2f} %, none "
            f"{100 * mean[IDENTITY]:.2f} %)."
        )
    seconds = ours.groupby("calibrator")["fit_s"].median()
    lines.append(
        "* Median time of a fit: "
        f"{code(AUTO)} {number(1e3 * seconds.get(AUTO, np.nan))} ms, "
        f"{code(TEMPERATURE)} {number(1e3 * seconds[TEMPERATURE])} ms."
    )
    return lines


def listed(names: Iterable[str]) -> str:
    """Write names in alphabetical order."""
    return ", ".join(sorted(names))


def page_lines(rows: pd.DataFrame, figure: str) -> list[str]:
    """Return the page: the answer, the choice of the default, everyone, and how."""
    part = rows[rows["half"] == "report"]
    halves = rows.groupby("half")["family"].unique()
    done = rows[EXPERIMENT].drop_duplicates()
    report_half = halves.get("report", [])
    return [
        *first_lines(rows),
        "",
        f"These are of the report half: {len(report_half)} data sets, "
        f"{len(done[done['family'].isin(report_half)])} experiments (a set, a model, a number of "
        f"rows), of {done['family'].nunique()} and {len(done)}. Changes are in the loss on "
        "held-out rows, below 0 is better, with 95 % intervals over sets where there are "
        f"{FEWEST_SETS} or more.",
        "",
        "## By rows and classes",
        "",
        "Log loss on held-out rows, against temperature scaling; below 0 is better. The best of",
        "all others is the one of all calibrators and libraries that does best in that very row:",
        "",
        *cell_table(part),
        "",
        "The same on the design half, which choices were made on:",
        "",
        *cell_table(rows[rows["half"] == "design"]),
        "",
        f"![Log loss relative to temperature scaling]({figure})",
        "",
        "## Can it make things worse?",
        "",
        "How often the log loss is higher than that of no calibration, by more than 1 % and by",
        f"more than {NEGLIGIBLE:g}, and by how much at worst:",
        "",
        *harm_share_table(part, [name for name in HARMING if name in set(part["calibrator"])]),
        "",
        "## Everyone",
        "",
        "Against temperature scaling, where it does not say none:",
        "",
        *everyone_table(part, ("log loss against none", "SCE %", "KS %")),
        "",
        "## Does the spline do harm?",
        "",
        "Mean log loss, and ECE and KS error of the top label, of no calibration /",
        f"of {code(SPLINE)} at its defaults. All sets:",
        "",
        *harm_table(rows, SPLINE),
        "",
        "The report half alone:",
        "",
        *harm_table(part, SPLINE),
        "",
        "## How",
        "",
        "* `python -m benchmarks.arena --peers --page docs/which.md` runs all of it, and resumes. "
        "All rows are in `benchmarks/arena/results.csv.gz`, more tables in "
        "[the report](../benchmarks/arena/report.md).",
        f"* Report half: {listed(report_half)}. Design half, the only one that choices may look "
        f"at: {listed(halves.get('design', []))}. A set is of the design half if the CRC-32 of its "
        "name is even. The sets are public: some of them were used before the halves were drawn.",
        "* Half of a set's rows, at most 16,000 in all, train a model; the others are rows to "
        "calibrate on and at least 500 rows to measure on. Classes of fewer than 40 rows are "
        "dropped. Calibrators get what `CalibratedClassifier` hands them: the decision "
        "function if there is one, else probabilities.",
        "* A mean is geometric, over the experiments of a set and then over sets, so that a set "
        f"counts once; its 95 % interval is of {BOOTSTRAPS:,} bootstraps of sets. A tie is half a "
        f"win, and so is a difference below {NEGLIGIBLE:g}; losses below {NEGLIGIBLE:g} count as "
        "that in ratios (set after one set, mushroom, was seen to decide the mean for two classes "
        "by single rows). Log loss clips at 1e-15. A failure is left out of the means and counted "
        "in its column. Each sentence that names the best takes "
        "it from the numbers that it gives.",
        f"* Seeds: {rows['seed'].nunique()}. One thread, beside other work. "
        + ". ".join(machine())
        + ".",
    ]


def write(results: Path, out: Path, page: Path | None) -> list[str]:
    """Write the report and the figure, and fill the page; return the lines of the first table."""
    rows = read(results)
    if rows.empty:
        return ["no rows"]
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
        fill(page, "arena", page_lines(rows, target.as_posix()))
    return default_table(rows)
