"""A comparison as one page of HTML that needs nothing beside it."""

from __future__ import annotations

import platform
from collections.abc import Mapping
from html import escape
from importlib.metadata import PackageNotFoundError, version
from typing import TYPE_CHECKING, Any

import numpy as np

import skcalib
from skcalib._cli import pictures
from skcalib._cli.page import definitions, page, pairs, table
from skcalib._cli.sentences import confidence_of, confidence_sentence, percent
from skcalib._comparison.agreement import metric_rank_correlation
from skcalib._comparison.comparison import CalibratorComparison
from skcalib._comparison.tables import short, sign
from skcalib._validation.predictions import Predictions
from skcalib.metrics import SCORERS, reliability_table
from skcalib.plotting._comparison import ordered

if TYPE_CHECKING:
    import pandas as pd

PACKAGES = ("numpy", "scipy", "scikit-learn", "pandas", "matplotlib")
# Metrics beside log loss in one table: a page of paper is not wider.
COLUMNS = 4
# Classes of the class-wise view.
WORST = 10
MEANING = {
    "log loss": "mean of -log of the probability of the true class; the lowest is that of accurate "
    "and calibrated probabilities",
    "Brier": "mean squared distance of the probabilities from the outcome (1 for the true class, "
    "0 for others), summed over classes",
    "error rate": "share of rows whose most probable class is wrong",
}
TERMS = {
    "gain": "log loss without calibration minus log loss with it, and the 95 % interval of this "
    "difference: ▲ lower loss, ▼ higher loss, no mark: may be chance",
    "changed decisions": "share of rows whose most probable class changes",
    "debiased": "the error minus what chance adds to it with this number of rows",
    "if calibrated": "the mean error of these rows if every probability were right",
}


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
    use: list[str],
) -> str:
    """Return the page: first line, verdict, table, pictures, classes, definitions, settings.

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
    use : list of str
        The section that says how to apply the calibrator, as HTML.
    """
    below = "the model is right less often than it says"
    if before.event is not None:
        below = "the event occurs less often than predicted"
    chosen, identity = comparison.choice, str(comparison.frame.index[0])
    shown = _shown_name(chosen, identity)
    first = [confidence_sentence(confidence_of(before))]
    if chosen != identity:
        first.append(f"Calibrated by {chosen}: {_lower(confidence_of(after))}")
    body = [
        f"<h1>{escape(title)}</h1>",
        *(f'<p class="first">{sentence(line)}</p>' for line in first),
        f'<p class="verdict">{sentence(comparison.verdict)}</p>',
        "<h2>All calibrators, on rows that they were not fitted on</h2>",
        *(_metrics(comparison, names) for names in _columns(comparison.metrics)),
        '<p class="note">The recommended one first, then by log loss; lower is better in every '
        "column but the gain. Below an error: debiased · if calibrated.</p>",
        f'<h2>Before and after</h2><p class="lead note">Below the diagonal {below}.</p>',
        pictures.before_and_after(shown, before, after),
    ]
    if pictures.can_draw() and len(ordered(comparison.frame)) > 1:
        body += [
            '<h2>Gains by each metric</h2><p class="lead note">To the right of the dotted line a '
            "calibrator is better than no calibration. The intervals cover the chance in the "
            "measured rows, not that of other calibration rows.</p>",
            pictures.gains(comparison),
        ]
    if before.event is None and before.classes.size > 2:
        body += _classes(before, after, shown)
    body += ["<h2>What the words mean</h2>", definitions(_meanings(comparison.metrics))]
    body += _agreement(comparison)
    if troubles(comparison.frame):
        items = "".join(f"<li>{escape(text)}</li>" for text in troubles(comparison.frame))
        body += ["<h2>Left out, failed or in doubt</h2>", f"<ul>{items}</ul>"]
    body += ["<h2>How to use it</h2>", *use]
    body += ["<h2>Settings and versions</h2>"]
    body.append(pairs((str(key), str(value)) for key, value in {**settings, **versions()}.items()))
    return page(title, body)


def sentence(text: str) -> str:
    """Return a sentence as HTML; a number and its per cent stay on one line."""
    return escape(text).replace(" %", "&nbsp;%")


def _lower(found: Any) -> str:
    text = confidence_sentence(found)
    return text[0].lower() + text[1:]


def _shown_name(name: str, identity: str) -> str:
    return "no calibration" if name == identity else name


def _columns(metrics: list[str]) -> list[list[str]]:
    """Return the metrics beside log loss of each table."""
    others = [name for name in metrics if name != "log_loss"]
    return [others[i : i + COLUMNS] for i in range(0, max(len(others), 1), COLUMNS)]


def _metrics(comparison: CalibratorComparison, others: list[str]) -> str:
    """Return a table of log loss, its gain, changed decisions and a few other metrics."""
    frame, identity = comparison.frame, str(comparison.frame.index[0])
    rows = ordered(frame)
    has_loss = "log_loss" in comparison.metrics
    head = ["calibrator", "log loss", *(["gain"] if has_loss else []), "changed decisions"]
    losses = rows["log_loss", "value"] if has_loss else rows["choice", "log loss"]
    found = []
    for i, name in enumerate(rows.index):
        marks = [
            text
            for text, holds in (
                ("recommended", name == comparison.choice),
                ("as good", name in comparison.as_good and name != comparison.choice),
            )
            if holds
        ]
        small = f"<small>{', '.join(marks)}</small>" if marks else ""
        cells = [escape(_shown_name(str(name), identity)) + small, f"{losses.iloc[i]:.4f}"]
        if has_loss:
            cells.append("" if name == identity else _gain(rows["log_loss"].iloc[i]))
        cells.append(percent(float(rows["argmax changed"].iloc[i])))
        cells += [_error(rows[metric].iloc[i]) for metric in others]
        found.append((cells, name == comparison.choice))
    return table([*head, *map(short, others)], found)


def _gain(row: Any) -> str:
    """Write a gain with its sign, as a shape too, and its interval."""
    gain, low, high = (float(row[part]) + 0.0 for part in ("gain", "low", "high"))
    kind, mark = {"+": ("gain", "▲ "), "-": ("harm", "▼ "), "": ("", "")}[sign(low, high)]
    text = f'<span class="{kind}">{mark}{gain:.4f}</span>' if kind else f"{gain:.4f}"
    return f"{text}<small>{low:.4f} to {high:.4f}</small>"


def _error(row: Any) -> str:
    """Write a metric; of an error also what chance adds to it, and what it would be."""
    value, debiased, expected = (float(row[p]) for p in ("value", "debiased", "if calibrated"))
    if np.isnan(debiased):
        return f"{value:.4f}"
    return f"{value:.4f}<small>{debiased:.4f} · {expected:.4f}</small>"


def _classes(before: Predictions, after: Predictions, shown: str) -> list[str]:
    """Return the classes with the largest errors, before and after."""
    first, last = class_errors(before), class_errors(after)
    order = np.argsort(-first["error"].to_numpy(), kind="stable")[:WORST]
    rows = [
        (
            [
                escape(str(first.index[k])),
                f"{int((before.code == k).sum()):,}",
                percent(first["mean"].iloc[k]),
                percent(first["share"].iloc[k]),
                f"{first['error'].iloc[k]:.4f}",
                f"{last['error'].iloc[k]:.4f}",
            ],
            False,
        )
        for k in order
    ]
    some = f"The {WORST} classes" if len(first) > WORST else "The classes"
    return [
        f"<h2>{some} with the largest errors</h2>",
        table(
            [
                "class",
                "rows",
                "mean probability before",
                "share of rows",
                "error before",
                f"error after: {escape(shown)}",
            ],
            rows,
        ),
        '<p class="note">The mean of the errors of all classes is the SCE.</p>',
        pictures.worst_classes(before) if pictures.can_draw() else "",
    ]


def class_errors(predictions: Predictions) -> pd.DataFrame:
    """Return the mean probability, the share of rows and the binned error of each class."""
    checked: Any = predictions  # may stand in the place of labels and probabilities
    bins = reliability_table(checked, checked, max_prob=False, class_conditional=True)
    total = predictions.w.sum()
    bins = bins.assign(
        mean=(bins["weight"] * bins["confidence"]) / total,
        share=(bins["weight"] * bins["accuracy"]) / total,
        error=(bins["weight"] * bins["gap"].abs()) / total,
    )
    return bins.groupby("class", sort=False)[["mean", "share", "error"]].sum()


def _meanings(metrics: list[str]) -> list[tuple[str, str]]:
    found = [("log loss", MEANING["log loss"])]
    for metric in metrics:
        name = short(metric)
        scorer = SCORERS.get(f"neg_{metric}")
        if name in MEANING:
            found.append((name, MEANING[name]))
        elif scorer is not None:
            text = (scorer._score_func.__doc__ or "").split("\n")[0]
            found.append((name, text))
    return [*dict(found).items(), *TERMS.items()]


def _agreement(comparison: CalibratorComparison) -> list[str]:
    correlation = None
    if len(ordered(comparison.frame)) > 1:
        correlation = metric_rank_correlation(comparison)
    if correlation is None or len(correlation) < 2:
        return []
    names = [escape(short(str(name))) for name in correlation]
    rows = [
        ([name, *(f"{round(value, 2) + 0.0:.2f}" for value in row)], False)  # 0 has no sign
        for name, row in zip(names, correlation.to_numpy(), strict=True)
    ]
    return [
        "<h2>Do the metrics agree?</h2>",
        table(["rank correlation", *names], rows),
        '<p class="note">1: two metrics rank the calibrators in the same order; 0: their orders '
        "are unrelated.</p>",
    ]


def versions() -> dict[str, str]:
    """Return the versions of what the numbers come from."""
    found = {"skcalib": skcalib.__version__, "Python": platform.python_version()}
    for package in PACKAGES:
        try:
            found[package] = version(package)
        except PackageNotFoundError:
            found[package] = "not installed"
    return found
