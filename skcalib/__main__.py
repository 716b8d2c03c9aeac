"""Floor 5: ``python -m skcalib``, on saved predictions: compare, measure, apply."""

from __future__ import annotations

import argparse
import os
import pickle
import sys
import warnings
import zipfile
import zlib
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NoReturn

import numpy as np
from numpy.typing import NDArray

import skcalib
from skcalib._calibrator_names import calibrators_by_name
from skcalib._compare import METRICS, compare_calibrators
from skcalib._comparison_frame import metric_names, verdict
from skcalib._file_words import in_file_words
from skcalib._held_out import (
    HeldOutRows,
    fit_calibrator,
    open_rows,
    predict_held_out,
    read_rows,
)
from skcalib._inputs import Predictions, check_labels, check_predictions, read_event, shown
from skcalib._paired_gain import (
    ROW_LOSSES,
    Measured,
    affordable_resamples,
    as_measures,
    measure_resampled,
    paired_gain,
)
from skcalib._reductions import top_label
from skcalib._report import gains_table, means_table, report_html, troubles
from skcalib._saved_predictions import SavedPredictions, read_predictions, write_predictions
from skcalib._score_checks import two_columns
from skcalib.calibrators import IdentityCalibrator
from skcalib.metrics import SCORERS, bootstrap_interval, calibration_test
from skcalib.metrics._one_line import shown as shown_number

FILES = """\
FILE is one of
  .npz      arrays 'logits' or 'probs', (n, K) or (n,); 'labels', (n,); perhaps 'split', (n,)
  .csv      a header; a column 'labels', a column of scores for each class, perhaps 'split'
  .parquet  the same (needs pyarrow)
A split says of each row 0 or 'cal' (fit on it) or 1 or 'test' (measure on it). Columns whose
names end with the labels (cat, dog or p_cat, p_dog) are taken by name, others in the order of the
sorted labels; what was taken for what is printed. One column is the score of the label --pos-label
(1 or True if that is not given). All rows must be new to the model.
"""
COMPARE_EXAMPLE = (
    "\nexample:\n"
    '  python -c "import numpy as np; r = np.random.default_rng(0); y = r.integers(3, size=999); '
    "np.savez('predictions.npz', labels=y, logits=5 * (r.normal(size=(999, 3)) + np.eye(3)[y]))\"\n"
    "  python -m skcalib compare predictions.npz --report report.html --save best.json\n"
)
MEASURE_EXAMPLE = """
example:
  python -m skcalib measure predictions.npz
"""
APPLY_EXAMPLE = """
example:
  python -m skcalib apply best.json predictions.npz -o calibrated.npz

A .json calibrator is data, and may come from anywhere. A .joblib calibrator is a pickle: LOADING IT
EXECUTES CODE THAT IT HOLDS. Load only what you or people you trust have written.
"""
KINDS = {"logits": "logits", "proba": "probabilities"}
CALIBRATORS = (".json", ".joblib")
# Columns whose labels are printed.
SHOWN_COLUMNS = 12


class Parser(argparse.ArgumentParser):
    """A parser whose errors are one line."""

    def error(self, message: str) -> NoReturn:
        """Print the message and exit with code 2."""
        self.exit(2, f"{self.prog}: error: {' '.join(message.split())}\n")


def make_parser() -> Parser:
    """Describe the command line."""
    parser = Parser(
        prog="python -m skcalib",
        description="Calibration of saved predictions. COMMAND --help says more.",
        epilog=FILES + COMPARE_EXAMPLE,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--version", action="version", version=skcalib.__version__)
    commands = parser.add_subparsers(dest="command", metavar="COMMAND", required=True)

    def command(name: str, help: str, epilog: str) -> argparse.ArgumentParser:
        return commands.add_parser(
            name,
            help=help,
            description=f"{help[0].upper()}{help[1:]}.",
            epilog=epilog,
            formatter_class=argparse.RawDescriptionHelpFormatter,
        )

    compare = command(
        "compare", "try every calibrator on rows it was not fitted on", FILES + COMPARE_EXAMPLE
    )
    add_file(compare)
    compare.add_argument(
        "--metrics",
        nargs="+",
        metavar="METRIC",
        default=list(METRICS),
        help=f"the first one decides; default: {' '.join(METRICS)}",
    )
    compare.add_argument(
        "--calibrators",
        nargs="+",
        metavar="NAME",
        help=f"some of {' '.join(calibrators_by_name())}; default: all that are fast enough",
    )
    compare.add_argument("--cv", type=whole(2), default=5, help="folds where there is no split (5)")
    compare.add_argument("--jobs", type=jobs, metavar="N", help="calibrators tried at one time")
    compare.add_argument("--report", metavar="OUT.html", help="write one self-contained page")
    compare.add_argument(
        "--save",
        metavar="OUT",
        help="write the calibrator of the verdict, fitted on all calibration rows: .json, or "
        ".joblib (a pickle)",
    )
    measure = command("measure", "every error, with its interval", FILES + MEASURE_EXAMPLE)
    add_file(measure)
    apply = command("apply", "calibrate scores by a saved calibrator", FILES + APPLY_EXAMPLE)
    apply.add_argument(
        "calibrator", metavar="CALIBRATOR", help=".json, or .joblib, which executes code: see below"
    )
    add_file(apply)
    apply.add_argument(
        "-o", "--output", metavar="OUT", required=True, help=".npz, .csv or .parquet to write"
    )
    for each in (compare, measure):
        each.add_argument(
            "--seed", type=whole(0, 2**32 - 1), default=0, help="of the resamples behind intervals"
        )
        each.add_argument(
            "--resamples",
            type=whole(2),
            metavar="B",
            help="their number (20 to 200, as size allows)",
        )
    return parser


def whole(low: int, high: int | None = None) -> Callable[[str], int]:
    """Return what reads an option as a whole number in a range."""

    def read_whole(text: str) -> int:
        span = f"at least {low}" if high is None else f"from {low} to {high}"
        if not text.lstrip("-").isdecimal() or not low <= int(text) <= (high or int(text)):
            raise argparse.ArgumentTypeError(f"must be a whole number, {span}; got {text}")
        return int(text)

    return read_whole


def jobs(text: str) -> int:
    """Read a number of jobs as joblib takes it: -1 means one for each core."""
    if not text.lstrip("-").isdecimal() or int(text) == 0:
        raise argparse.ArgumentTypeError(f"must be 1 or more, or -1 for all cores; got {text}")
    return int(text)


def add_file(parser: argparse.ArgumentParser) -> None:
    """Add the file of predictions, and what is called otherwise in it."""
    parser.add_argument("file", metavar="FILE", help=".npz, .csv or .parquet; see below")
    parser.add_argument("--labels", metavar="COLUMN", help="array or column (labels)")
    parser.add_argument("--split", metavar="COLUMN", help="array or column (split, if there)")
    parser.add_argument("--scores", nargs="+", metavar="COLUMN", help="array or columns of scores")
    parser.add_argument(
        "--pos-label", metavar="LABEL", help="of one column: the label that it is the score of"
    )
    parser.add_argument(
        "--input", choices=["auto", "logits", "proba"], help="what the scores are, if not plain"
    )


def read(args: argparse.Namespace, classes: NDArray[Any] | None = None) -> SavedPredictions:
    """Read the file of a command."""
    found = read_predictions(
        args.file, scores=args.scores, labels=args.labels, split=args.split, classes=classes
    )
    return found if args.input is None else found._replace(input=args.input)


def check_ending(path: str | None, endings: Sequence[str]) -> None:
    """Refuse, before any work, a file that could not be written."""
    if path is None:
        return
    if Path(path).suffix.lower() not in endings:
        raise ValueError(f"{path}: the ending must be {' or '.join(endings)}")
    parent = Path(path).resolve().parent
    if not parent.is_dir():
        raise ValueError(f"{path}: there is no such directory")
    if Path(path).is_dir() or not os.access(path if Path(path).exists() else parent, os.W_OK):
        raise ValueError(f"{path}: cannot be written")


def run_compare(args: argparse.Namespace) -> str:
    """Compare calibrators; return what to print."""
    check_ending(args.report, (".html", ".htm"))
    check_ending(args.save, CALIBRATORS)
    found = read(args)
    test = found.test
    X, y = found.scores, found.labels
    assert y is not None
    if y.size and (y == y[0]).all():
        raise ValueError(f"all rows have the label {y[0]!s}: to calibrate takes two at least")
    rows: dict[str, Any] = {"cv": args.cv, "test": None, "input": found.input}
    rows["classes"], rows["pos_label"] = found.classes, event_of(args.pos_label, y)
    if test is not None:
        X, y, rows["test"] = X[~test], y[~test], (X[test], y[test])
    frame = compare_calibrators(
        X,
        y,
        args.calibrators,
        metrics=args.metrics,
        n_jobs=args.jobs,
        verbose=1 if sys.stderr.isatty() else 0,
        n_resamples=args.resamples,
        random_state=args.seed,
        **rows,
    )
    chosen, sentence = verdict(frame)
    data = open_rows(X, y, None, **rows)
    calibrator = calibrators_by_name()[chosen]
    before = predict_held_out(IdentityCalibrator(), data).pooled()
    lines = [
        describe(args.file, data, before, test is not None, args.cv),
        columns_of(found, data.classes, data.event),
        "",
        in_columns(means_table(frame)),
        "",
        "gain over the identity [interval], * where it is no chance",
        in_columns(gains_table(frame, metric_names(frame)[:1])),
        *troubles(frame),
        "",
        sentence,
    ]
    # Fits of folds have been told above; what the fit of all rows adds is told here.
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        after = predict_held_out(calibrator, data).pooled() if args.report else None
        fit_rows = slice(None) if test is None else data.splits[0][0]
        fitted = fit_calibrator(calibrator, data, fit_rows).calibrator_ if args.save else None
    texts = dict.fromkeys(" ".join(str(warning.message).split()) for warning in caught)
    lines += [f"{chosen}: {text}" for text in texts if text not in frame["warning"][chosen]]
    if after is not None:
        settings = {
            "file": args.file,
            "rows": f"{data.code.size:,}",
            "classes": data.classes.size,
            "scores": KINDS[data.kind],
            "measured on": f"{before.code.size:,} rows, "
            + ("those of the test split" if test is not None else f"{args.cv} stratified folds"),
            "metrics": ", ".join(args.metrics),
            "seed": args.seed,
        }
        title = f"Calibration of {Path(args.file).name}"
        page = report_html(title, frame, chosen, sentence, before, after, settings)
        Path(args.report).write_text(page, encoding="utf-8")
        lines.append(f"report: {args.report}")
    if fitted is not None:
        save(fitted, args.save)
        lines.append(f"calibrator ({chosen}): {args.save}")
    return "\n".join(lines)


def describe(file: str, data: HeldOutRows, before: Predictions, split: bool, cv: int) -> str:
    """Say in a line what was measured, and how right and how sure the model is."""
    score, predicted = top_label(before.P)
    confidence = float(score.mean(dtype=np.float64))
    accuracy = float((predicted == before.code).mean())
    how = "those of the test split" if split else f"each in one of {cv} folds"
    return (
        f"{file}: {data.classes.size} classes, {KINDS[data.kind]}; {before.code.size:,} rows "
        f"measured, {how}; accuracy {accuracy:.1%}, mean confidence {confidence:.1%}"
    )


def in_columns(rows: list[list[str]]) -> str:
    """Write cells under one another; a row that is too wide is for the eyes to scroll."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    lines = []
    for first, *others in rows:
        cells = [f"{cell:>{width}}" for cell, width in zip(others, widths[1:], strict=True)]
        lines.append("  ".join([f"{first:<{widths[0]}}", *cells]).rstrip())
    return "\n".join(lines)


def save(calibrator: Any, path: str) -> None:
    """Write a fitted calibrator, as its ending says."""
    try:
        if Path(path).suffix.lower() == ".json":
            skcalib.save_json(calibrator, path)
            return
        import joblib

        joblib.dump(calibrator, path)
    except OSError as error:  # which may name a file in between
        raise OSError(error.errno, error.strerror, path) from error


def load(path: str) -> Any:
    """Read a fitted calibrator, as its ending says."""
    if Path(path).suffix.lower() not in CALIBRATORS:
        raise ValueError(f"{path}: the ending must be {' or '.join(CALIBRATORS)}")
    if Path(path).suffix.lower() == ".json":
        try:
            return skcalib.load_json(path)
        except ValueError as error:
            text = str(error)
            raise ValueError(text if text.startswith(path) else f"{path}: {text}") from error
    import joblib

    try:
        calibrator = joblib.load(path)
    except (EOFError, pickle.UnpicklingError, KeyError, IndexError, AttributeError) as error:
        raise ValueError(f"{path}: not a .joblib file that can be read") from error
    if not hasattr(calibrator, "predict_proba") or not hasattr(calibrator, "classes_"):
        kind = type(calibrator).__name__
        raise ValueError(f"{path} holds a {kind}, not a fitted calibrator")
    return calibrator


def run_measure(args: argparse.Namespace) -> str:
    """Measure every error; return what to print."""
    found = read(args)
    X, y = found.scores, found.labels
    assert y is not None
    data = read_rows(
        X, y, None, input=found.input, classes=found.classes, pos_label=event_of(args.pos_label, y)
    )
    rows = slice(None) if found.test is None else found.test
    classes, event = data.classes, data.event
    pos_label = None if event is None else classes.tolist()[event]
    P = fit_calibrator(IdentityCalibrator(), data).predict_proba(data.scores[rows])
    predictions = check_predictions(y[rows], P, None, classes, pos_label)
    n, n_classes = predictions.P.shape
    resamples = affordable_resamples(n, n_classes) if args.resamples is None else args.resamples
    table = [["metric", "value", "95 % interval", "if calibrated", "p-value"]]
    numbers = np.arange(n)
    for measure in as_measures(list(ROW_LOSSES)):
        mean = measure_resampled(measure, predictions, numbers, [])
        zero = Measured(0.0, np.zeros(n))
        value, low, high = paired_gain(measure, mean, zero, numbers, predictions.w, 0.95)
        table.append([measure.name, f"{value:.4f}", f"[{low:.4f}, {high:.4f}]", "", ""])
    for name in SCORERS:
        if name == "neg_general_calibration_error":  # at its defaults, ECE
            continue
        metric = SCORERS[name]._score_func
        keywords: dict[str, Any] = {
            "n_resamples": resamples,
            "random_state": args.seed,
            "labels": classes,
            "pos_label": pos_label,
        }
        interval = bootstrap_interval(metric, y[rows], P, **keywords)
        chance = calibration_test(metric, y[rows], P, **keywords)
        table.append(
            [
                name.removeprefix("neg_"),
                f"{interval.estimate:.4f}",
                f"[{interval.low:.4f}, {interval.high:.4f}]",
                f"{chance.mean:.4f}",
                shown_number(chance.pvalue, 1 / (1 + resamples)).removeprefix("="),
            ]
        )
    which = "" if found.test is None else " of the test split"
    return "\n".join(
        [
            f"{args.file}: {n:,} rows{which}, {n_classes} classes, {KINDS[data.kind]}",
            columns_of(found, classes, event),
            "",
            in_columns(table),
            "",
            f"Intervals by {resamples} resamples of the rows. 'If calibrated': the mean of the "
            "metric if every",
            "probability were right, which is not 0; the p-value is that of the value under this.",
        ]
    )


def run_apply(args: argparse.Namespace) -> str:
    """Calibrate the scores of a file; return what to print."""
    check_ending(args.output, (".npz", ".csv", ".parquet"))
    calibrator = load(args.calibrator)
    classes = np.asarray(calibrator.classes_)
    found = read(args, classes)
    # In two dimensions, so that a wrong number of columns is said as such.
    X = found.scores.reshape(len(found.scores), -1)
    if found.classes is not None and X.shape[1] > 1:
        X = X[:, places(classes, found.classes)]
    event = None
    if X.shape[1] == 1 and classes.size == 2:
        pos_label = event_of(args.pos_label, classes)
        event = read_event(classes, classes, pos_label, name="y", X="X").column
        if calibrator.n_features_in_ == 2:
            pair = two_columns(X, calibrator.input_)
            X = pair if event == 1 else pair[:, ::-1]
        elif event == 0:
            raise ValueError(
                f"--pos-label {args.pos_label}: the calibrator was fitted on one column, the score "
                f"of {classes[1]}"
            )
    P = calibrator.predict_proba(X)
    write_predictions(args.output, P, classes, found)
    return (
        f"{args.output}: {P.shape[0]:,} rows, {P.shape[1]} classes, calibrated probabilities\n"
        + columns_of(found, classes, event)
    )


def places(classes: NDArray[Any], known: NDArray[Any]) -> NDArray[np.intp]:
    """Return where each class of a calibrator stands among the columns of a file."""
    place = {str(label): k for k, label in enumerate(known.tolist())}
    texts = [str(label) for label in classes.tolist()]
    if set(place) != set(texts):
        raise ValueError(
            f"the columns are those of the labels {shown(known.tolist())}, but the calibrator was "
            f"fitted on {shown(classes.tolist())}"
        )
    return np.array([place[text] for text in texts], dtype=np.intp)


def event_of(text: str | None, y: NDArray[Any]) -> Any:
    """Return the label that is written as `text` on the command line, None if none is given."""
    if text is None:
        return None
    known = np.unique(check_labels(y, "y")).tolist()
    for label in known:
        if str(label) == text:
            return label
    raise ValueError(f"--pos-label {text} is not one of the labels {shown(known)}")


def columns_of(found: SavedPredictions, classes: NDArray[Any], event: int | None) -> str:
    """Say which column was taken for which label."""
    labels = classes.tolist()
    if event is not None and found.scores.reshape(len(found.scores), -1).shape[1] == 1:
        name = found.columns[0] if found.columns else "the array"
        return f"column: {name} is the score of {labels[event]}"
    given = classes if found.columns is not None or found.classes is None else found.classes
    names = found.columns or [str(k) for k in range(len(labels))]
    pairs = [
        name if name == str(label) else f"{name} is {label}"
        for name, label in zip(names, given.tolist(), strict=True)
    ]
    told = ", ".join(pairs[:SHOWN_COLUMNS]) + (", ..." if len(pairs) > SHOWN_COLUMNS else "")
    how = "in the order of the sorted labels" if found.classes is None else "by name"
    return f"columns, {how}: {told}"


def written(args: argparse.Namespace) -> list[str]:
    """Return the other files that a command names, each to be named by what is wrong with it."""
    names = ("report", "save", "output", "calibrator")
    return [path for name in names if (path := getattr(args, name, None))]


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a command; 0 if it worked, 2 and a line on stderr if not."""
    args = make_parser().parse_args(arguments)
    run = {"compare": run_compare, "measure": run_measure, "apply": run_apply}[args.command]
    try:
        printed = run(args)
    except (OSError, ValueError, TypeError, ImportError, zipfile.BadZipFile, zlib.error) as error:
        where = getattr(error, "filename", None) or args.file
        reason = getattr(error, "strerror", None) or in_file_words(
            str(error), args.file, args.labels
        )
        named = [p for p in (args.file, *written(args)) if reason.startswith(p)]
        text = " ".join((reason if named else f"{where}: {reason}").split())
        sys.stderr.write(f"python -m skcalib {args.command}: error: {text}\n")
        return 2
    sys.stdout.write(printed + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
