"""A comparison as one page of HTML that needs nothing beside it."""

from __future__ import annotations

import base64
import io
import platform
from collections.abc import Callable, Iterable, Mapping
from functools import partial
from html import escape
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from string import Template
from typing import TYPE_CHECKING, Any

import numpy as np

import skcalib
from skcalib._arrays.source import to_array
from skcalib._cli.sentences import confidence_of, confidence_sentence, percent
from skcalib._cli.threshold import ACCURACIES, HEAD, LEVEL, find_targets
from skcalib._comparison.comparison import CalibratorComparison
from skcalib._comparison.tables import short, sign
from skcalib._validation.predictions import Predictions
from skcalib.metrics import SCORERS, static_calibration_error
from skcalib.plotting._comparison import ordered

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.axes import Axes

TEMPLATE = Path(__file__).with_name("report.html")
PACKAGES = ("numpy", "scipy", "scikit-learn", "pandas", "matplotlib")
# Metrics beside log loss in one table: a page of paper is not wider.
COLUMNS = 4
# Classes of the class-wise view.
WORST = 10
# Ground of the page on dark screens, as in its style, and when it is used.
BACK = "#181a1d"
DARK = "screen and (prefers-color-scheme: dark)"
MISSING = '<p>There are no pictures: matplotlib is not installed (pip install "skcalib[plot]").</p>'
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
    columns = [frame["error"], frame["warning"]]
    return [f"{name}: {text}" for texts in columns for name, text in texts.items() if text]


def report_html(
    comparison: CalibratorComparison,
    before: Predictions,
    after: Predictions,
    settings: Mapping[str, Any],
    **texts: str,
) -> str:
    """Return the page: first line, verdict, table, pictures, classes, definitions, settings.

    Parameters
    ----------
    comparison : CalibratorComparison
        What `compare_calibrators` returned.
    before, after : Predictions
        Of the same held-out rows, by the identity and by the calibrator chosen.
    settings : mapping
        What the numbers depend on.
    **texts : str
        Its title, and what it says on applying the calibrator.
    """
    below = "the model is right less often than it says"
    if before.event is not None:
        below = "the event occurs less often than predicted"
    chosen, identity = comparison.choice, str(comparison.frame.index[0])
    shown = _shown_name(chosen, identity)
    first = [confidence_sentence(confidence_of(before))]
    if chosen != identity:
        first.append(f"Calibrated by {chosen}: {_lower(confidence_of(after))}")
    gains = classes = ""
    if can_draw() and len(ordered(comparison.frame)) > 1:
        gains = picture_of_gains(comparison)
    if before.event is None and before.classes.size > 2:
        classes = _classes(before, after, shown)
    facts = {**settings, **versions()}
    template = Template(TEMPLATE.read_text(encoding="utf-8"))
    return template.substitute(
        first="\n".join(f'<p class="first">{sentence(line)}</p>' for line in first),
        verdict=sentence(comparison.verdict),
        tables="\n".join(_metrics(comparison, names) for names in _columns(comparison.metrics)),
        below=below,
        before_and_after=before_and_after(shown, before, after),
        gains=gains,
        classes=classes,
        thresholds=_thresholds(after, shown),
        meanings=fill("<dt>{}</dt><dd>{}</dd>", _meanings(comparison.metrics)),
        troubles=_troubles(comparison.frame),
        settings=fill("<tr><td>{}</td><td>{}</td></tr>", facts.items()),
        **{name: escape(text) for name, text in texts.items()},
    )


def fill(form: str, rows: Iterable[tuple[Any, Any]]) -> str:
    """Return pairs in a form of HTML."""
    return "".join(form.format(escape(str(name)), escape(str(text))) for name, text in rows)


def table(head: Iterable[str], rows: Iterable[tuple[Iterable[str], bool]]) -> str:
    """Return a table of cells that are HTML; a row comes with whether it is marked."""
    heads = "".join(f'<th scope="col">{cell}</th>' for cell in head)
    lines = []
    for cells, marked in rows:
        row = "".join(f"<td>{cell}</td>" for cell in cells)
        lines.append(f'<tr class="chosen">{row}</tr>' if marked else f"<tr>{row}</tr>")
    body = "\n".join(lines)
    return (
        f'<div class="wide"><table><thead><tr>{heads}</tr></thead>\n'
        f"<tbody>\n{body}\n</tbody></table></div>"
    )


def sentence(text: str) -> str:
    """Return a sentence as HTML; a number and its per cent stay on one line."""
    return escape(text).replace(" %", "&nbsp;%")


def _troubles(frame: pd.DataFrame) -> str:
    items = "".join(f"<li>{escape(text)}</li>" for text in troubles(frame))
    return f"<h2>Left out, failed or in doubt</h2>\n<ul>{items}</ul>" if items else ""


def _lower(confidence: Any) -> str:
    text = confidence_sentence(confidence)
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
    lines = []
    for i, name in enumerate(rows.index):
        as_good = "as good" if name in comparison.as_good else ""
        mark = "recommended" if name == comparison.choice else as_good
        small = f"<small>{mark}</small>" if mark else ""
        cells = [escape(_shown_name(str(name), identity)) + small, f"{losses.iloc[i]:.4f}"]
        if has_loss:
            cells.append("" if name == identity else _gain(rows["log_loss"].iloc[i]))
        cells.append(percent(float(rows["argmax changed"].iloc[i])))
        cells += [_error(rows[metric].iloc[i]) for metric in others]
        lines.append((cells, name == comparison.choice))
    return table([*head, *map(short, others)], lines)


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


def _classes(before: Any, after: Any, shown: str) -> str:
    """Return the classes with the largest errors, before and after."""
    # Predictions may stand in the place of labels and probabilities.
    errors, errors_after = (
        np.ravel(static_calibration_error(predictions, predictions, average=None))
        for predictions in (before, after)
    )
    w, P = before.w, to_array(before.P)
    rows = []
    for k in np.argsort(-errors, kind="stable")[:WORST]:
        of_class = before.code == k
        cells = [
            escape(str(before.classes[k])),
            f"{of_class.sum():,}",
            percent(float(np.average(P[:, k], weights=w))),
            percent(float(np.average(of_class, weights=w))),
            f"{errors[k]:.4f}",
            f"{errors_after[k]:.4f}",
        ]
        rows.append((cells, False))
    some = f"The {WORST} classes" if errors.size > WORST else "The classes"
    head = ["class", "rows", "mean probability before", "share of rows", "error before"]
    return (
        f"<h2>{some} with the largest errors</h2>\n"
        f"{table([*head, f'error after: {escape(shown)}'], rows)}\n"
        '<p class="note">The mean of the errors of all classes is the SCE.</p>\n'
        f"{picture_of_classes(before) if can_draw() else ''}"
    )


def _thresholds(after: Predictions, shown: str) -> str:
    """Return the thresholds above which rows are right often enough."""
    targets = find_targets(after, ACCURACIES, LEVEL)
    rows = [(map(str.strip, target.cells()), False) for target in targets]
    note = (
        f"By the probabilities with {escape(shown)}, of rows not fitted on. Of those at or above a "
        "threshold at least the share on the left is right, each with 95&nbsp;% confidence; these "
        "rows chose the calibrator too, so check it on new ones. "
        "<code>skcalib threshold --save</code> saves one for <code>skcalib apply</code>."
    )
    return f'{table(HEAD, rows)}\n<p class="note">{note}</p>'


def _meanings(metrics: list[str]) -> list[tuple[str, str]]:
    texts = [("log loss", MEANING["log loss"])]
    for metric in metrics:
        name = short(metric)
        scorer = SCORERS.get(f"neg_{metric}")
        if name in MEANING:
            texts.append((name, MEANING[name]))
        elif scorer is not None:
            text = (scorer._score_func.__doc__ or "").split("\n")[0]
            texts.append((name, text))
    return [*dict(texts).items(), *TERMS.items()]


def versions() -> dict[str, str]:
    """Return the versions of what the numbers come from."""
    numbers = {"skcalib": skcalib.__version__, "Python": platform.python_version()}
    for package in PACKAGES:
        try:
            numbers[package] = version(package)
        except PackageNotFoundError:
            numbers[package] = "not installed"
    return numbers


def can_draw() -> bool:
    """Return whether matplotlib is installed."""
    try:
        import matplotlib  # noqa: F401
    except ImportError:
        return False
    return True


def before_and_after(chosen: str, before: Predictions, after: Predictions) -> str:
    """Return the reliability diagrams of the same rows."""
    if not can_draw():
        return MISSING
    from skcalib.plotting import ReliabilityDisplay

    def draw(title: str, predictions: Any, ax: Axes) -> None:
        # Predictions may stand in the place of labels and probabilities.
        ReliabilityDisplay.from_predictions(predictions, predictions, ax=ax)
        ax.set_title(title)

    both = {"before": before, f"after: {chosen}": after}
    return side_by_side(
        picture(partial(draw, title, predictions), 4.6, f"Reliability diagram {title}")
        for title, predictions in both.items()
    )


def picture_of_gains(comparison: CalibratorComparison) -> str:
    """Return the section with a picture of the gains by each metric."""
    height = 1.2 + 0.27 * len(ordered(comparison.frame))

    def draw(name: str, ax: Axes) -> None:
        comparison.plot(metrics=[name], ax=ax)

    drawn = side_by_side(
        picture(partial(draw, name), height, f"Gains by {name.replace('_', ' ')}, with intervals")
        for name in comparison.metrics
    )
    return (
        '<h2>Gains by each metric</h2>\n<p class="lead note">To the right of the dotted line a '
        "calibrator is better than no calibration. The intervals cover the chance in the measured "
        f"rows, not that of other calibration rows.</p>\n{drawn}"
    )


def picture_of_classes(before: Any) -> str:
    """Return the errors of all classes, worst first."""
    from skcalib.plotting import ClasswiseDisplay

    def draw(ax: Axes) -> None:
        ClasswiseDisplay.from_predictions(before, before, n_curves=0, ax=ax)

    return side_by_side([picture(draw, 2.8, "Error of every class before")])


def side_by_side(images: Iterable[str]) -> str:
    """Return pictures beside each other."""
    return f'<div class="pictures">{"".join(images)}</div>'


def picture(draw: Callable[[Axes], None], height: float, text: str) -> str:
    """Return what is drawn on axes as part of the page, with a text for those who do not see it.

    It is drawn twice: for light screens and paper, and for dark screens.
    """
    from matplotlib import style
    from matplotlib.figure import Figure

    codes = []
    looks: tuple[list[Any], ...] = ["default"], ["dark_background", {"legend.facecolor": BACK}]
    for look in looks:
        buffer = io.BytesIO()
        with style.context(look):
            figure = Figure(figsize=(4.8, height), layout="constrained")
            draw(figure.subplots())
            figure.savefig(buffer, format="svg", metadata={"Date": None}, transparent=True)
        codes.append(base64.b64encode(buffer.getvalue()).decode("ascii"))
    light, dark = (f"data:image/svg+xml;base64,{code}" for code in codes)
    return (
        f'<picture><source media="{DARK}" srcset="{dark}">'
        f'<img alt="{escape(text)}" src="{light}"></picture>'
    )
