"""Write the HTML reports of the commands measure and compare."""

from __future__ import annotations

import base64
import hashlib
import io
import platform
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import datetime
from functools import partial
from html import escape
from importlib.metadata import version
from importlib.util import find_spec
from pathlib import Path
from string import Template
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

import skcalib
from skcalib._cli.files import in_options
from skcalib._cli.measured import (
    COLUMNS_OF_ERRORS,
    LEGEND_OF_EVENT,
    Measured,
    Rows,
    confidence_of,
    ece_of,
    measure_by_group,
    measure_errors,
    percent,
    summarize,
)
from skcalib._cli.tables import STREAM
from skcalib._cli.threshold import ACCURACIES, HEAD, LEVEL, find_targets
from skcalib._comparison.comparison import CalibratorComparison, rows_of, short, summary_table
from skcalib._comparison.measures import mean_auc
from skcalib._storage.writing import write_file
from skcalib.extending import ALL, NO_RELATIVE_WEIGHTS, is_whole, to_array, to_html
from skcalib.extending import InnerPredictions as Predictions
from skcalib.metrics import SCORERS, static_calibration_error
from skcalib.plotting import ClasswiseDisplay, DecisionCurveDisplay, ReliabilityDisplay
from skcalib.plotting._comparison import ordered
from skcalib.plotting._drawing import share_square

if TYPE_CHECKING:
    from matplotlib.axes import Axes

PACKAGES = ("numpy", "scipy", "scikit-learn", "pandas")
# Number of classes in the table of the classes with the largest errors.
WORST = 10
MISSING = '<p>There are no plots: matplotlib is not installed (pip install "skcalib[plot]").</p>'
MEANING = {
    "log loss": "mean of -log of the predicted probability of the true class; lower is better",
    "Brier": "mean squared difference between probabilities and outcomes (1 for the true class, 0 "
    "for others), summed over more than two classes; lower is better",
    "error rate": "fraction of rows whose predicted class is wrong",
}
# Explanations of terms in the HTML report of `compare`.
TERMS = {
    "gain": "log loss without calibration minus log loss with it, and the 95 % interval of this "
    "difference",
    "classes changed": "fraction of rows whose predicted class changes",
    "debiased": "the error minus its estimated small-sample bias; the interval is for the error "
    "with unlimited data",
    "if calibrated": "the mean error that a calibrated model shows on these rows, which is above 0",
}
LIMITS = (
    "The results hold for rows like those that were measured. Rows from another place or time may "
    "have other errors; <code>skcalib monitor</code> raises an alarm if probabilities are no "
    "longer calibrated. This report does not show whether the model was fitted on these rows, "
    "which makes it look better than it is, or whether the labels are right."
)
# Explanations of terms in the HTML report of `measure`.
OF_ERRORS = ("debiased", "if calibrated")

Sections = list[tuple[str, str]]


def troubles(frame: pd.DataFrame) -> list[str]:
    """Return the error or warning of each calibrator that has one."""
    pairs = [*frame["error"].items(), *frame["warning"].items()]
    return [f"{name}: {in_options(text)}" for name, text in pairs if text]


def write_page(rows: Rows, first: Iterable[str], sections: Sections, verdict: str = "") -> None:
    """Write an HTML report: title, verdict, data, further sections, limitations and settings."""
    args = rows.args
    note = f"<p>{escape(args.note)}</p>\n" if args.note else ""
    lines = "\n".join(f'<p class="first">{escape_text(line)}</p>' for line in first)
    if verdict:
        lines += f'\n<p class="verdict">{escape_text(verdict)}</p>'
    settings = {
        "command": args.typed,
        "date": datetime.now().astimezone().strftime("%Y-%m-%d %H:%M %Z"),
        "seed": str(args.seed),
        **versions(),
    }
    parts = [
        ("What was measured", facts(data_card(rows))),
        *sections,
        ("What this report does not show", f"<p>{LIMITS}</p>"),
        ("Settings and versions", facts(settings)),
    ]
    body = [f"<h2>{head}</h2>\n{html}" for head, html in parts if html]
    title = escape(args.title or f"Calibration of {Path(args.file).name}")
    template = Template(Path(__file__).with_name("report.html").read_text(encoding="utf-8"))
    page = template.substitute(title=title, body="\n".join([note + lines, *body]))
    write_file(args.report, page.encode())


def data_card(rows: Rows) -> dict[str, str]:
    """Describe the measured data: file, rows, SHA-256, classes or events, and columns."""
    file, predictions = rows.args.file, rows.predictions
    code, w, classes = predictions.code, predictions.w, predictions.classes
    card = {"file": file, "rows measured": f"{len(code):,}: {rows.where}"}
    if file != STREAM:
        card["SHA-256"] = hashlib.sha256(Path(file).read_bytes()).hexdigest()
    if (event := predictions.event) is None:
        counts = np.bincount(code, w, classes.size)
        rare, often = classes[counts.argmin()], classes[counts.argmax()]
        card["classes"] = f"{classes.size:,}, with {counts.min():,.0f} ({rare}) to "
        card["classes"] += f"{counts.max():,.0f} rows ({often})"
    else:
        events = float(w @ (code == event))
        card["events"] = f"{events:,.0f} rows are {classes[event]}: {percent(events / w.sum())}"
    return card | {name: text for name, text in rows.texts().items() if name != "event"}


def page_of_errors(
    predictions: Predictions, measured: list[Measured], groups: Any, table: Any = None
) -> Sections:
    """Return the sections of a report of `measure`; `table` has the statistics of a risk model."""
    sections = sections_of({"": predictions}, [ece_of(measured)], [groups], "")
    if table is None:
        rows = [[short(row.metric), *row.cells()[1:]] for row in measured]
        words = _words([row.metric for row in measured], OF_ERRORS)
        sections += [("Errors", to_html([COLUMNS_OF_ERRORS, *rows]))]
    else:
        data: Any = predictions  # metrics accept a `Predictions` object in place of labels
        draw = partial(DecisionCurveDisplay.from_predictions, data, data)
        text = "Net benefit of acting on the predictions, on all rows and on no rows"
        curve = picture(lambda ax: draw(ax=ax), 3.6, text)
        words = f"<p>{escape(LEGEND_OF_EVENT)}</p>"
        sections += [
            ("Statistics", f'<div class="wide">{table._repr_html_()}</div>'),
            ("Net benefit", curve),
        ]
    return [*sections, ("Terms", words)]


def write_comparison(
    rows: Rows, comparison: CalibratorComparison, after: Predictions, use: str
) -> None:
    """Write the HTML report of a comparison.

    `rows` contains the predictions without calibration, `after` those of the chosen calibrator,
    and `use` the HTML that explains how to use it.
    """
    chosen, frame = comparison.choice, comparison.frame
    title = "no calibration" if chosen == frame.index[0] else chosen
    both = {"before": rows.predictions, f"after: {title}": after}
    names = ["neg_expected_calibration_error"]
    eces = [measure_errors(each, names, rows.args.seed)[0] for each in both.values()]
    summaries = [summarize(each, [ece]) for each, ece in zip(both.values(), eces, strict=True)]
    if chosen == frame.index[0]:
        summaries.pop()
    else:
        summaries[1] = f"Calibrated by {chosen}: {summaries[1][0].lower()}{summaries[1][1:]}"
    groups = [measure_by_group(rows._replace(predictions=each)) for each in both.values()]
    by_chosen = (
        f"Thresholds for the held-out probabilities ({title}). The calibrator was chosen on the "
        "same rows: check a threshold on new rows. "
    )
    folds = rows_of(comparison).folds
    first, drawn, *others = sections_of(both, eces, groups, by_chosen, folds)
    note = (
        '<p class="note">The recommended calibrator comes first, the others in the order of their '
        "log losses. Lower is better, except for the gain: + marks a significant gain, - a "
        "significant loss. * marks debiased errors: the estimated small-sample bias is "
        "subtracted, and 0 means no more error than a calibrated model shows.</p>"
    )
    table = to_html(summary_table(frame), chosen) + note + picture_of_gains(comparison)
    items = "".join(f"<li>{escape(text)}</li>" for text in troubles(frame))
    sections = [
        first,
        drawn,
        ("All calibrators, on rows that they were not fitted on", table),
        *others,
        ("Terms", _words(comparison.metrics, TERMS)),
        ("Errors, warnings and skipped calibrators", f"<ul>{items}</ul>" if items else ""),
        ("How to use the calibrator", use),
    ]
    write_page(rows, summaries, sections, comparison.verdict)


def sections_of(
    named: Mapping[str, Any],
    eces: Iterable[Measured],
    groups: Iterable[Any],
    by: str,
    folds: Sequence[Any] = (ALL,),
) -> Sections:
    """Return the HTML sections that the reports of measure and compare share.

    `named` are predictions by name, before and, in a comparison, after calibration. `eces` and
    `groups` contain the ECE and the groups of each. `by` is the text before the note on
    thresholds.
    """
    several, last = len(named) > 1, list(named.values())[-1]
    texts = [qualities(*each, folds) for each in zip(named.values(), eces, strict=True)]
    rows = [["", *named]] if several else []
    rows += [[name, *(each.get(name, "") for each in texts)] for name in texts[0]]
    in_short = to_html(rows, head=several)
    if several:
        before, after = named.values()
        note = "Calibration keeps the order of the rows, and therefore the AUC."
        in_short += f'\n<p class="note">{note}</p>' * keeps_order(before, after, folds)
    by_group = [
        (f"<h3>{name}</h3>\n" if several else "") + each._repr_html_()
        for name, each in zip(named, groups, strict=True)
        if each is not None
    ]
    note, thresholds = f"None: {NO_RELATIVE_WEIGHTS}.", ""
    if is_whole(last.w):
        targets = find_targets(last, ACCURACIES, LEVEL)
        thresholds = to_html([HEAD, *(target.cells() for target in targets)])
        note = (
            f"{escape(by)}Predictions for rows at or above a threshold have at least the required "
            "accuracy, with 95&nbsp;% confidence for each threshold. <code>skcalib threshold "
            "--save</code> saves a threshold for <code>skcalib apply</code>."
        )
    classes = [] if next(iter(named.values())).event is not None else [classes_of(named)]
    return [
        ("Before and after calibration" if several else "Summary", in_short),
        ("Reliability diagrams" if several else "Reliability diagram", diagrams(named)),
        ("By group", "\n".join(by_group)),
        *classes,
        ("Thresholds", f'{thresholds}\n<p class="note">{note}</p>'),
    ]


def keeps_order(before: Predictions, after: Predictions, folds: Sequence[Any]) -> bool:
    """Return whether calibration keeps the order of the rows of a binary problem in each fold."""
    if before.event is None:
        return False
    p, q = (to_array(each.P)[:, before.event] for each in (before, after))
    sorted_q = (q[rows][np.lexsort((q[rows], p[rows]))] for rows in folds)
    return all((np.diff(each) >= 0).all() for each in sorted_q)


def qualities(predictions: Predictions, ece: Measured, folds: Sequence[Any]) -> dict[str, str]:
    """Return the ECE and the accuracy, or the AUC of a binary problem, as texts by name.

    With folds, the AUC is the mean over the folds.
    """
    named = {}
    if predictions.event is None:
        named["accuracy"] = percent(confidence_of(predictions)[1])
    elif not np.isnan(auc := mean_auc(predictions, folds)):
        named["AUC" if len(folds) == 1 else "AUC, mean of folds"] = f"{auc:.4f}"
    _, debiased, interval, named["ECE"], usual, p_value = ece.cells()
    if debiased:
        named["debiased, 95 % interval"] = f"{debiased} {interval}"
        if usual:
            named["ECE if calibrated"] = f"{usual}; p-value {p_value}"
    return named


def facts(pairs: Mapping[str, str]) -> str:
    """Return names and texts as an HTML table."""
    return to_html([list(pair) for pair in pairs.items()], head=False)


def escape_text(text: str) -> str:
    """Escape a text for HTML, without line breaks between numbers and per cent signs."""
    return escape(text).replace(" %", "&nbsp;%")


def classes_of(named: Mapping[str, Any]) -> tuple[str, str]:
    """Return the HTML section with the classes that have the largest errors."""
    first, *_ = named.values()
    # Metrics accept a `Predictions` object in place of labels and probabilities.
    errors = [
        np.ravel(static_calibration_error(each.without_event(), each.without_event(), average=None))
        for each in named.values()
    ]
    w, P = first.w, to_array(first.P)
    head = ["class", "rows", "mean probability", "fraction of rows"]
    rows = [[*head, *(f"error {name}".strip() for name in named)]]
    for k in np.argsort(-errors[0], kind="stable")[:WORST]:
        of_class = first.code == k
        shares = (percent(float(np.average(part, weights=w))) for part in (P[:, k], of_class))
        cells = [str(first.classes[k]), f"{of_class.sum():,}", *shares]
        rows.append([*cells, *(f"{error[k]:.4f}" for error in errors)])
    some = f"The {WORST} classes" if errors[0].size > WORST else "The classes"
    note = '<p class="note">The SCE is the mean error of all classes.</p>'
    html = f"{to_html(rows)}\n{note}\n{picture_of_classes(named)}"
    return f"{some} with the largest errors", html


def _words(metrics: Iterable[str], terms: Iterable[str]) -> str:
    texts = {"log loss": MEANING["log loss"]}
    for metric in metrics:
        name = short(metric)
        scorer = SCORERS.get(f"neg_{metric}")
        if name in MEANING:
            texts[name] = MEANING[name]
        elif scorer is not None:
            texts[name] = (scorer._score_func.__doc__ or "").split("\n")[0]
    texts |= {name: TERMS[name] for name in terms}
    words = (f"<dt>{escape(name)}</dt><dd>{escape(text)}</dd>" for name, text in texts.items())
    return f"<dl>{''.join(words)}</dl>"


def versions() -> dict[str, str]:
    """Return the versions of skcalib, Python and the packages that compute the numbers."""
    numbers = {"skcalib": skcalib.__version__, "Python": platform.python_version()}
    drawn = ("matplotlib",) if can_draw() else ()
    return numbers | {package: version(package) for package in (*PACKAGES, *drawn)}


def can_draw() -> bool:
    """Whether matplotlib is installed."""
    return find_spec("matplotlib") is not None


def diagrams(named: Mapping[str, Any]) -> str:
    """Return reliability diagrams with the same axes, as HTML."""
    if not can_draw():
        return MISSING
    from matplotlib import style

    below = "the model is correct less often than predicted"
    band = "The points of a calibrated model are in the shaded band in 95 % of samples."
    if next(iter(named.values())).event is not None:
        below = "the event occurs less often than predicted"
        band = (
            "The light band contains the whole true curve in 95 % of samples, and the dark band "
            "the true rate at a single probability."
        )
    with style.context("default"):
        displays = [
            ReliabilityDisplay.from_predictions(each, each, ax=new_axes(4.6), name=name or None)
            for name, each in named.items()
        ]
        share_square(displays)
        drawn = [
            embedded(display.figure_, f"Reliability diagram {name}".strip())
            for name, display in zip(named, displays, strict=True)
        ]
    return (
        f'<p class="lead note">Below the diagonal {below}. {band} The star shows the means of all '
        "rows.</p>\n"
        f'<div class="pictures">{"".join(drawn)}</div>'
    )


def picture_of_gains(comparison: CalibratorComparison) -> str:
    """Return the plot of the gains in log loss, or in the first metric, as HTML."""
    names, n_rows = comparison.metrics, len(ordered(comparison.frame))
    name = "log_loss" if "log_loss" in names else names[0]
    if not can_draw() or n_rows < 2:
        return ""
    text = f"Gains in {name.replace('_', ' ')}, with intervals"
    drawn = picture(lambda ax: comparison.plot(metrics=[name], ax=ax), 1.2 + 0.27 * n_rows, text)
    return (
        '<p class="lead note">To the right of the dotted line, a calibrator is better than no '
        "calibration. The intervals account for the sampling of the measured rows, not for the "
        f"sampling of the calibration rows.</p>\n{drawn}"
    )


def picture_of_classes(named: Mapping[str, Any]) -> str:
    """Return the plot of the errors of all classes before and after calibration, as HTML."""

    def draw(ax: Axes) -> None:
        order = None
        for name, each in named.items():
            display = ClasswiseDisplay.from_predictions(
                each, each, n_curves=0, ax=ax, order=order, name=name or None
            )
            order = display.order_

    return picture(draw, 2.8, "Error of every class")


def picture(draw: Callable[[Axes], Any], height: float, text: str) -> str:
    """Return a plot as HTML, or an empty text without matplotlib; `draw` draws on axes."""
    if not can_draw():
        return ""
    from matplotlib import style

    with style.context("default"):
        ax = new_axes(height)
        draw(ax)
        return embedded(ax.figure, text)


def new_axes(height: float) -> Axes:
    """Create axes of a figure that no window shows."""
    from matplotlib.figure import Figure

    return Figure(figsize=(4.8, height), layout="constrained").subplots()


def embedded(figure: Any, text: str) -> str:
    """Return a figure as an HTML image with an alternative text."""
    buffer = io.BytesIO()
    figure.savefig(buffer, format="svg", metadata={"Date": None}, transparent=True, dpi=200)
    code = base64.b64encode(buffer.getvalue()).decode("ascii")
    return f'<img alt="{escape(text)}" src="data:image/svg+xml;base64,{code}">'
