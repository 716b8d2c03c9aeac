"""A comparison as one page of HTML that needs nothing beside it."""

from __future__ import annotations

import base64
import io
import platform
import re
from collections.abc import Mapping
from html import escape
from importlib.metadata import PackageNotFoundError, version
from typing import TYPE_CHECKING, Any

import numpy as np

import skcalib
from skcalib._comparison.frame import metric_names, metric_rank_correlation
from skcalib._validation.predictions import Predictions

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.figure import Figure

STYLE = """
body { font: 16px/1.5 system-ui, sans-serif; max-width: 70rem; margin: 2rem auto; padding: 0 1rem;
       color: #222; background: #fff; }
h1 { font-size: 1.6rem; } h2 { font-size: 1.2rem; margin-top: 2rem; }
.verdict { font-size: 1.15rem; border-left: 4px solid #0072B2; padding: .4rem 1rem;
           background: #f2f7fb; }
.wide { overflow-x: auto; }
table { border-collapse: collapse; font-variant-numeric: tabular-nums; font-size: .82rem; }
th, td { padding: .25rem .45rem; text-align: right; border-bottom: 1px solid #ddd; }
th { vertical-align: bottom; } th:first-child, td:first-child, td.text { text-align: left; }
tr.chosen { background: #f2f7fb; font-weight: 600; }
img { max-width: min(100%, 62rem); height: auto; }
.note { color: #555; font-size: .9rem; }
"""
# Spaces of a cell but those before brackets.
WITHIN = re.compile(r" (?![\[(])")
PACKAGES = ("numpy", "scipy", "scikit-learn", "pandas", "matplotlib")


def ordered(frame: pd.DataFrame) -> pd.DataFrame:
    """Return the rows with numbers, the best by the first metric first."""
    kept = frame[(frame["error"] == "").to_numpy()]
    ranks = kept[metric_names(frame)[0], "rank"].to_numpy()
    return kept.iloc[np.argsort(ranks, kind="stable")]


def means_table(frame: pd.DataFrame) -> list[list[str]]:
    """Return the cells of the table of means, its header first."""
    names = metric_names(frame)
    head = ["calibrator", *(name.replace("_", " ") for name in names)]
    rows = [[*head, "argmax changed", "fit seconds"]]
    table = ordered(frame)
    for i, name in enumerate(table.index):
        cells = [str(name)]
        for metric in names:
            mean, std, rank = (table[metric, part].iloc[i] for part in ("mean", "std", "rank"))
            spread = f" ± {std:.4f}" if std == std else ""
            cells.append(f"{mean:.4f}{spread} ({rank:.0f})")
        changed, seconds = table["argmax changed"].iloc[i], table["fit seconds"].iloc[i]
        rows.append([*cells, f"{changed:.1%}", f"{seconds:.3f}"])
    return rows


def gains_table(frame: pd.DataFrame, names: list[str]) -> list[list[str]]:
    """Return the cells of the table of gains over the identity, its header first."""
    rows = [["calibrator", *(name.replace("_", " ") for name in names)]]
    table = ordered(frame)
    for i, name in enumerate(table.index):
        if name == frame.index[0]:
            continue
        cells = [str(name)]
        for metric in names:
            gain, low, high = (table[metric, part].iloc[i] for part in ("gain", "low", "high"))
            sure = "" if not (low > 0 or high < 0) else " *"
            cells.append(f"{gain:.4f} [{low:.4f}, {high:.4f}]{sure}")
        rows.append(cells)
    return rows


def troubles(frame: pd.DataFrame) -> list[str]:
    """Say which calibrators have no numbers or warned, and why."""
    found = []
    for column in ("error", "warning"):
        texts = frame[column]
        found += [f"{name}: {text}" for name, text in texts.items() if text]
    return found


def report_html(
    title: str,
    frame: pd.DataFrame,
    chosen: str,
    sentence: str,
    before: Predictions,
    after: Predictions,
    settings: Mapping[str, Any],
) -> str:
    """Return the page: verdict, tables, pictures, settings, versions.

    Parameters
    ----------
    title : str
        What was compared.
    frame : pandas.DataFrame
        What `compare_calibrators` returned.
    chosen, sentence : str
        The calibrator of the verdict, and the verdict.
    before, after : Predictions
        Of the same held-out rows, by the identity and by the calibrator chosen.
    settings : mapping
        What the numbers depend on.
    """
    body = [
        f"<h1>{escape(title)}</h1>",
        f'<p class="verdict">{escape(sentence)}</p>',
        "<h2>Errors on rows not fitted on</h2>",
        _table(means_table(frame), chosen),
        '<p class="note">Small is good; rank in brackets; ± is the standard deviation over the '
        "folds. <em>argmax changed</em>: share of rows whose predicted class is another than "
        "before.</p>",
        "<h2>Gain over the identity</h2>",
        _table(gains_table(frame, metric_names(frame)), chosen),
        '<p class="note">Paired intervals, for all calibrators together; <strong>*</strong> '
        "marks those that do not hold 0. They cover the chance in the measured rows, not that of "
        "other calibration rows.</p>",
        *_pictures(frame, chosen, before, after),
    ]
    correlation = metric_rank_correlation(frame) if len(ordered(frame)) > 1 else None
    if correlation is not None and len(correlation) > 1:
        names = [str(name).replace("_", " ") for name in correlation]
        cells = [
            [name, *(f"{value:.2f}" for value in row)]
            for name, row in zip(names, correlation.to_numpy(), strict=True)
        ]
        body += [
            "<h2>Do the metrics agree?</h2>",
            _table([["rank correlation", *names], *cells]),
            '<p class="note">1: the same order of the calibrators; 0: none in common.</p>',
        ]
    if troubles(frame):
        items = "".join(f"<li>{escape(text)}</li>" for text in troubles(frame))
        body += ["<h2>Left out, failed or in doubt</h2>", f"<ul>{items}</ul>"]
    pairs = [[str(key), str(value)] for key, value in settings.items()]
    body += ["<h2>Settings</h2>", _table(pairs, head=False)]
    body += ["<h2>Versions</h2>", _table(list(map(list, versions().items())), head=False)]
    return (
        '<!DOCTYPE html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        f"<title>{escape(title)}</title>\n<style>{STYLE}</style>\n</head>\n<body>\n"
        + "\n".join(body)
        + "\n</body>\n</html>\n"
    )


def versions() -> dict[str, str]:
    """Return the versions of what the numbers come from."""
    found = {"skcalib": skcalib.__version__, "Python": platform.python_version()}
    for package in PACKAGES:
        try:
            found[package] = version(package)
        except PackageNotFoundError:
            found[package] = "not installed"
    return found


def _table(rows: list[list[str]], chosen: str | None = None, head: bool = True) -> str:
    lines = []
    for i, row in enumerate(rows):
        tag = "th" if head and i == 0 else "td"
        kind = "" if head else ' class="text"'
        # A number and its deviation, or the two ends of an interval, stay on one line.
        texts = row if tag == "th" or kind else [WITHIN.sub("\u00a0", cell) for cell in row]
        cells = "".join(f"<{tag}{kind}>{escape(text)}</{tag}>" for text in texts)
        marked = ' class="chosen"' if i and row[0] == chosen else ""
        lines.append(f"<tr{marked}>{cells}</tr>")
    return f'<div class="wide"><table>{"".join(lines)}</table></div>'


def _pictures(
    frame: pd.DataFrame, chosen: str, before: Predictions, after: Predictions
) -> list[str]:
    try:
        from matplotlib.figure import Figure
    except ImportError:
        return [
            "<h2>Pictures</h2>",
            '<p>There are none: matplotlib is not installed (pip install "skcalib[plot]").</p>',
        ]
    from skcalib.plotting import ComparisonDisplay, ReliabilityDisplay

    width, m = min(1.6 + 2.1 * len(metric_names(frame)), 12.5), len(metric_names(frame))
    overview = Figure(figsize=(width, 1.3 + 0.27 * len(ordered(frame))), layout="constrained")
    axes = overview.subplots(1, m, sharey=True, squeeze=False)[0]
    ComparisonDisplay.from_frame(frame, ax=axes)
    sides = Figure(figsize=(9.5, 4.8), layout="constrained")
    for ax, name, predictions in zip(
        sides.subplots(1, 2), ("before", f"after: {chosen}"), (before, after), strict=True
    ):
        checked: Any = predictions  # may stand in the place of labels and probabilities
        ReliabilityDisplay.from_predictions(checked, checked, ax=ax)
        ax.set_title(name)
    return [
        "<h2>All calibrators</h2>",
        _image(overview, "Each calibrator's errors, beside those of the identity"),
        "<h2>Before and after</h2>",
        _image(sides, "Reliability diagrams of the same rows, before and after calibration"),
    ]


def _image(figure: Figure, text: str) -> str:
    buffer = io.BytesIO()
    figure.savefig(buffer, format="svg", metadata={"Date": None})
    code = base64.b64encode(buffer.getvalue()).decode("ascii")
    return f'<img alt="{escape(text)}" src="data:image/svg+xml;base64,{code}">'
