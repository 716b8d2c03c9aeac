"""A comparison as one page of HTML that needs nothing beside it."""

from __future__ import annotations

import base64
import io
import platform
from collections.abc import Mapping
from html import escape
from importlib.metadata import PackageNotFoundError, version
from typing import TYPE_CHECKING, Any

import skcalib
from skcalib._comparison.agreement import metric_rank_correlation
from skcalib._comparison.comparison import CalibratorComparison
from skcalib._comparison.tables import gains_table, ordered, summary_table, values_table
from skcalib._validation.predictions import Predictions
from skcalib.metrics._printed_table import as_html

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
PACKAGES = ("numpy", "scipy", "scikit-learn", "pandas", "matplotlib")


def troubles(frame: pd.DataFrame) -> list[str]:
    """Say which calibrators have no numbers or warned, and why."""
    found = []
    for column in ("error", "warning"):
        texts = frame[column]
        found += [f"{name}: {text}" for name, text in texts.items() if text]
    return found


def report_html(
    title: str,
    comparison: CalibratorComparison,
    before: Predictions,
    after: Predictions,
    settings: Mapping[str, Any],
) -> str:
    """Return the page: verdict, tables, pictures, settings, versions.

    Parameters
    ----------
    title : str
        What was compared.
    comparison : CalibratorComparison
        What `compare_calibrators` returned.
    before, after : Predictions
        Of the same held-out rows, by the identity and by the calibrator chosen.
    settings : mapping
        What the numbers depend on.
    """
    frame, chosen = comparison.frame, comparison.choice
    body = [
        f"<h1>{escape(title)}</h1>",
        f'<p class="verdict">{escape(comparison.verdict)}</p>',
        as_html(summary_table(frame), chosen),
        '<p class="note">Of rows not fitted on, the lowest log loss first. <em>gain</em>: in log '
        "loss, over no calibration, with its 95 % interval; <strong>+</strong> marks a gain, "
        "<strong>-</strong> a harm, where the interval does not contain 0. <em>debiased</em>: the "
        "error less what chance adds to it. <em>classes changed</em>: share of rows whose "
        "predicted class is another than before.</p>",
        *_pictures(comparison, before, after),
        "<h2>All metrics</h2>",
        as_html(values_table(frame), chosen),
        '<p class="note">Small is good. In brackets, for a calibration error: the error less what '
        "chance adds to it; what the same rows would show if every probability were right.</p>",
        "<h2>Gains over no calibration</h2>",
        as_html(gains_table(frame), chosen),
        '<p class="note">Paired, with 95 % intervals: of auto alone, and of all others together. '
        "They cover the chance in the measured rows, not that of other calibration rows.</p>",
    ]
    correlation = metric_rank_correlation(comparison) if len(ordered(frame)) > 1 else None
    if correlation is not None and len(correlation) > 1:
        names = [str(name).replace("_", " ") for name in correlation]
        cells = [
            [name, *(f"{value:.2f}" for value in row)]
            for name, row in zip(names, correlation.to_numpy(), strict=True)
        ]
        body += [
            "<h2>Do the metrics agree?</h2>",
            as_html([["rank correlation", *names], *cells]),
            '<p class="note">1: the same order of the calibrators; 0: none in common.</p>',
        ]
    if troubles(frame):
        items = "".join(f"<li>{escape(text)}</li>" for text in troubles(frame))
        body += ["<h2>Left out, failed or in doubt</h2>", f"<ul>{items}</ul>"]
    pairs = [[str(key), str(value)] for key, value in settings.items()]
    body += ["<h2>Settings</h2>", as_html(pairs, head=False)]
    body += ["<h2>Versions</h2>", as_html(list(map(list, versions().items())), head=False)]
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


def _pictures(
    comparison: CalibratorComparison, before: Predictions, after: Predictions
) -> list[str]:
    try:
        from matplotlib.figure import Figure
    except ImportError:
        return [
            "<h2>Pictures</h2>",
            '<p>There are none: matplotlib is not installed (pip install "skcalib[plot]").</p>',
        ]
    from skcalib.plotting import ReliabilityDisplay

    chosen, rows, m = comparison.choice, len(ordered(comparison.frame)), len(comparison.metrics)
    size = (min(1.6 + 2.1 * m, 12.5), 1.5 + 0.27 * rows)
    overview = Figure(figsize=size, layout="constrained")
    comparison.plot(ax=overview.subplots(1, m, sharey=True, squeeze=False)[0])
    sides = Figure(figsize=(9.5, 4.8), layout="constrained")
    for ax, name, predictions in zip(
        sides.subplots(1, 2), ("before", f"after: {chosen}"), (before, after), strict=True
    ):
        checked: Any = predictions  # may stand in the place of labels and probabilities
        ReliabilityDisplay.from_predictions(checked, checked, ax=ax)
        ax.set_title(name)
    return [
        "<h2>All calibrators</h2>",
        _image(overview, "What each calibrator gains by each metric, with intervals"),
        "<h2>Before and after</h2>",
        _image(sides, "Reliability diagrams of the same rows, before and after calibration"),
    ]


def _image(figure: Figure, text: str) -> str:
    buffer = io.BytesIO()
    figure.savefig(buffer, format="svg", metadata={"Date": None})
    code = base64.b64encode(buffer.getvalue()).decode("ascii")
    return f'<img alt="{escape(text)}" src="data:image/svg+xml;base64,{code}">'
