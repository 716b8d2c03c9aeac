"""What the arena's rows say, in tables."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pandas as pd

from benchmarks._shared.report import markdown, number
from benchmarks.arena.versus import (
    TEMPERATURE,
    Versus,
    harm,
    losses,
    names_by_loss,
    versus,
)

AUTO, RISING = "AutoCalibrator", "AutoCalibrator(order_preserving=True)"
IDENTITY, SPLINE = "IdentityCalibrator", "SplineCalibrator"
ETS = "EnsembleTemperatureScaling"
# Who failed in more of the experiments is not named as the best.
MAY_FAIL = 0.02
# Experiments with fewer rows are in a table of their own, and in no mean over numbers of rows.
ENOUGH_ROWS = 100
# An interval over fewer sets says nothing.
FEWEST_SETS = 4


# --- words ----------------------------------------------------------------------------------


def percent(value: float) -> str:
    """Write a change with its sign."""
    digits = 1 if abs(value) < 100 else 0
    return f"{value:+,.{digits}f} %"


def interval(low: float, high: float) -> str:
    """Write the ends of an interval of changes."""
    return f"{percent(low).removesuffix(' %')} to {percent(high).removesuffix(' %')}"


def won(found: Versus) -> str:
    """Win rate and, of enough sets, its interval."""
    between = f" ({found.win_low:.0f} to {found.win_high:.0f})"
    return f"{found.win:.0f} %{between if found.families >= FEWEST_SETS else ''}"


def changed(found: Versus) -> str:
    """Mean change and, of enough sets, its interval."""
    between = f" ({interval(found.mean_low, found.mean_high)})"
    return f"{percent(found.mean)}{between if found.families >= FEWEST_SETS else ''}"


def code(name: str) -> str:
    """Write a calibrator as code."""
    return f"`{name}`"


# --- tables ---------------------------------------------------------------------------------


def cell_table(rows: pd.DataFrame) -> list[str]:
    """Return the page's table by n_cal and classes.

    Columns: AutoCalibrator, the best other of all libraries, AutoCalibrator that keeps the order,
    and ensemble temperature scaling, all against temperature scaling.
    """
    body = []
    for (n, kind), part in losses(rows).by(["n_cal", "kind"]):
        others = [name for name in names_by_loss(part, MAY_FAIL) if name not in (AUTO, RISING)]
        found = [versus(part, name, TEMPERATURE) for name in (AUTO, others[0], RISING, ETS)]
        words = ["" if one is None else changed(one) for one in found]
        words[1] = f"{code(others[0])} {words[1]}"
        first = versus(part, AUTO, TEMPERATURE)
        body.append([f"{n:,}", kind, "" if first is None else str(first.families), *words])
    header = ["rows", "classes", "sets", "`AutoCalibrator()`", "best of all others"]
    header += ["`AutoCalibrator(order_preserving=True)`", "ensemble of temperatures"]
    return markdown(header, body)


def harm_share_table(rows: pd.DataFrame, names: Sequence[str]) -> list[str]:
    """Say how often calibrators are worse than no calibration, by n_cal, and by how much."""
    table = losses(rows)
    sizes = table.by("n_cal")
    body = []
    for name in names:
        found = [harm(part, name, IDENTITY) for part in (table, *(part for _, part in sizes))]
        shares = [f"{share:.1f} %" for share, _ in found]
        body.append([code(name), *shares, percent(found[0][1])])
    header = ["calibrator", "all", *(f"n = {n:,}" for n, _ in sizes), "worst"]
    return markdown(header, body)


def few_rows_table(rows: pd.DataFrame) -> list[str]:
    """Compare calibrators with no calibration on few rows, in models that have all their numbers.

    Two columns for each number of rows: mean change of the log loss, and share of harm.
    """
    per_model = rows.groupby(["data", "model", "seed"])["n_cal"]
    table = losses(rows[per_model.transform("nunique") == rows["n_cal"].nunique()])
    sizes = table.by("n_cal")
    on_fewest = np.isfinite(sizes[0][1].values).sum(axis=0)
    body = []
    for name in names_by_loss(table):
        models = on_fewest[table.column[name]]
        if name == IDENTITY or not models:
            continue
        line = [code(name), str(models)]
        for _, part in sizes:
            change = versus(part, name, IDENTITY)
            share = harm(part, name, IDENTITY)[0]
            line += ["" if change is None else percent(change.mean), f"{share:.1f} %"]
        body.append(line)
    header = ["calibrator", "models"]
    header += [word for n, _ in sizes for word in (f"n = {n:,}", "worse in")]
    return markdown(header, body)


def everyone_table(rows: pd.DataFrame) -> list[str]:
    """Each calibrator against temperature scaling and no calibration, its errors and seconds."""
    header = ["calibrator", "log loss", "lower in", "Brier score", "worst against none", "ECE %"]
    tables = [losses(rows, measure) for measure in ("log_loss", "brier")]
    body = []
    for name in names_by_loss(tables[0]):
        mine = rows[rows["calibrator"] == name]
        by_family = mine.groupby("family")[["ece", "accuracy"]].mean().mean()
        log, brier = (versus(table, name, TEMPERATURE) for table in tables)
        none = versus(tables[0], name, IDENTITY)
        if log is None or brier is None or none is None:
            continue
        body.append(
            [
                code(name),
                changed(log),
                won(log),
                changed(brier),
                percent(none.worst),
                *(f"{100 * value:.2f}" for value in by_family),
                number(1e3 * mine["fit_s"].median()),
                str(int(mine["note"].notna().sum()) or ""),
            ]
        )
    return markdown([*header, "accuracy %", "fit ms", "failed"], body)
