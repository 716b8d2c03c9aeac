"""The arguments of the command line and its help."""

from __future__ import annotations

import argparse
import math
import sys
from collections.abc import Callable
from pathlib import Path
from typing import NoReturn

from sklearn.metrics import get_scorer_names

import skcalib
from skcalib._cli.apply import run_apply, run_export
from skcalib._cli.commands import run_compare, run_example, run_measure, run_monitor
from skcalib._cli.measured import MEASURED, Printed
from skcalib._cli.tables import LABELS, READ, STREAM, SUFFIXES
from skcalib._cli.threshold import run_threshold
from skcalib._comparison import comparison as tables
from skcalib._comparison.compare import METRICS
from skcalib._comparison.measures import ROW_LOSSES
from skcalib.extending import calibrators_by_name, suggest, suggest_name
from skcalib.metrics import SCORERS

# Metrics by the names that papers give them.
SHORT = {name.lower(): metric for metric, name in tables.SHORT.items() if " " not in name}
FILES = """\
FILE is one of
  .csv .tsv  a header, a column 'labels', a column of scores for each class; perhaps 'weights' and
             'split' (0 or 'cal': to calibrate on, 1 or 'test': to measure on); also with .gz
  .jsonl     the same, an object for each line; also with .gz. Or a log of decisions, such as
             {"question": "team", "probabilities": {"sales": 0.7, "help": 0.3}, "label": "help"}
  .json      the same, a list of objects
  .parquet   the same (needs pyarrow); .xlsx also (needs openpyxl)
  .npz       arrays 'logits' or 'probs', (n, K) or (n,), and 'labels', (n,); perhaps 'split' and
             'weights', (n,), and 'classes' or 'class_names', (K,), the labels of the columns
  .npy       the scores alone; --labels FILE.npy has the labels
  -          standard input, as .csv
The scores are the columns named by the labels (cat, dog or p_cat, p_dog or cat_prob, dog_prob), or
those of --scores, or columns of numbers, one for each label in sorted order, that are clearly
scores. One column is the score of --pos-label (default: 1 or True); two columns are one event: 1 or
True, the second, or --pos-label. Each command prints which columns it uses. The model must not have
been fitted on these rows. In messages X are the scores and y the labels.
"""
# Options that name what is beside the scores: one array or column, and one or more.
COLUMN = {
    "labels": f"array or column of labels; default: one of {', '.join(LABELS)}",
    "split": "array or column of the split; default: split, if there is one",
    "weights": "array or column of weights: whole numbers are counts of rows, others are relative; "
    "default: weights, if there is one; apply ignores them",
}
COLUMNS = {
    "scores": "array or columns of scores, such as a,b,c; default: see below",
    "groups": "columns that define groups, which are reported one by one; several are crossed",
    "id": "arrays or columns that identify the rows and are not scores; apply copies them",
}
COMPARE_EXAMPLE = """
example:
  python -m skcalib example predictions.csv
  python -m skcalib compare predictions.csv --report report.html --save best.json
"""
MEASURE_EXAMPLE = """
examples:
  python -m skcalib measure predictions.csv --groups site --fail-above 0.05
  cat predictions.csv | python -m skcalib measure - --format json
"""
MONITOR_EXAMPLE = """
example:
  python -m skcalib monitor week23.csv --state monitor.json --groups question
"""
THRESHOLD_EXAMPLE = """
example:
  python -m skcalib threshold predictions.csv --calibrator auto --accuracy 0.95 --save gate.json
  python -m skcalib apply gate.json new.csv -o decisions.csv
"""
APPLY_EXAMPLE = """
examples:
  python -m skcalib apply best.json predictions.npz -o calibrated.npz
  cat scores.csv | python -m skcalib apply best.json - --id row > calibrated.csv
  python -m skcalib apply best.json there.csv --priors ill=0.03 -o out.csv
"""


class Parser(argparse.ArgumentParser):
    """A parser whose errors are one line."""

    def error(self, message: str) -> NoReturn:
        """Print the message and exit with code 2."""
        self.exit(2, f"{self.prog}: error: {' '.join(message.split())}\n")


def make_parser() -> Parser:
    """Describe the command line."""
    parser = Parser(
        prog="skcalib" if Path(sys.argv[0]).stem == "skcalib" else "python -m skcalib",
        description="Measure and correct the calibration of saved predictions. See COMMAND --help.",
        epilog=FILES + COMPARE_EXAMPLE,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--version", action="version", version=skcalib.__version__)
    commands = parser.add_subparsers(dest="command", metavar="COMMAND")

    def command(
        run: Callable[[argparse.Namespace], Printed], epilog: str = ""
    ) -> argparse.ArgumentParser:
        text = run.__doc__ or ""
        command = commands.add_parser(
            run.__name__.removeprefix("run_"),
            help=f"{text[:1].lower()}{text[1:-1]}",
            description=text,
            epilog=epilog,
            formatter_class=argparse.RawDescriptionHelpFormatter,
        )
        command.set_defaults(run=run)
        return command

    example = command(run_example)
    example.add_argument(
        "file", metavar="FILE.csv", nargs="?", default="predictions.csv", help="predictions.csv"
    )
    compare = command(run_compare, FILES + COMPARE_EXAMPLE)
    add_file(compare)
    compare.add_argument(
        "--metrics",
        nargs="+",
        type=metric,
        metavar="METRIC",
        default=list(METRICS),
        help=f"metrics to show, also as {', '.join(SHORT)}; default: {' '.join(METRICS)}",
    )
    compare.add_argument(
        "--choose-by",
        type=metric,
        metavar="ERROR",
        default="log_loss",
        help="choose by this calibration error, among those whose log loss is as good as the best",
    )
    compare.add_argument(
        "--calibrators",
        nargs="+",
        type=calibrator,
        metavar="NAME",
        help=f"any of {' '.join(calibrators_by_name())}, with groups also groupwise; default: all "
        "that are fast enough, of a log auto, temperature and groupwise",
    )
    compare.add_argument(
        "--cv", type=whole_number(2), default=5, help="folds if the file has no split (5)"
    )
    jobs = "number of parallel jobs; -1: one for each core"
    compare.add_argument("--jobs", type=whole_number(-1), metavar="N", help=jobs)
    compare.add_argument(
        "--save",
        metavar="OUT.json",
        help="save the chosen calibrator, fitted on all calibration rows",
    )
    measure = command(run_measure, FILES + MEASURE_EXAMPLE)
    add_file(measure)
    threshold = command(run_threshold, FILES + THRESHOLD_EXAMPLE)
    add_file(threshold)
    threshold.add_argument(
        "--accuracy", nargs="+", type=share, help="accuracies (0.9 0.95 0.99; with --save 0.95)"
    )
    threshold.add_argument(
        "--confidence", type=share, default=0.95, help="share of samples that keep it (0.95)"
    )
    threshold.add_argument(
        "--calibrator",
        type=calibrator_or_file,
        metavar="NAME",
        help="calibrate first: by name, each row out of fold or, with a split, the test rows; by a "
        "file, whose calibrator was fitted on other rows",
    )
    threshold.add_argument(
        "--save", metavar="GATE.json", help="save one threshold with its calibrator, for apply"
    )
    apply = command(run_apply, FILES + APPLY_EXAMPLE)
    apply.add_argument(
        "calibrator",
        metavar="CALIBRATOR.json",
        help="a file written by compare --save, or a gate written by threshold --save",
    )
    add_file(apply)
    apply.add_argument(
        "-o",
        "--output",
        metavar="OUT",
        default=STREAM,
        help=f"file to write: {', '.join(SUFFIXES)}; default: -, standard output, as .csv",
    )
    apply.add_argument(
        "--priors",
        nargs="+",
        metavar="LABEL=SHARE",
        help="shares of the classes in this file, if they are not those of the calibration rows; "
        "one class may be left out; or estimate, from the scores",
    )
    export = command(run_export, "example: python -m skcalib export best.json -o model.onnx")
    export.add_argument("file", metavar="CALIBRATOR.json", help="as compare --save writes it")
    export.add_argument(
        "-o", "--output", metavar="OUT.onnx", required=True, help="the model to write"
    )
    export.add_argument(
        "--dtype",
        choices=["float32", "float64"],
        default="float32",
        help="type of the scores and probabilities (float32)",
    )
    export.add_argument(
        "--no-labels", action="store_true", help="no output for the predicted class"
    )
    monitor = command(run_monitor, FILES + MONITOR_EXAMPLE)
    add_file(monitor)
    monitor.add_argument(
        "--state",
        metavar="STATE.json",
        required=True,
        help="file of the evidence: the first call writes it, later calls update it",
    )
    monitor.add_argument(
        "--alpha", type=float, help="probability of a false alarm within --period updates (0.05)"
    )
    monitor.add_argument("--period", type=whole_number(1), help="number of updates (52)")
    monitor.add_argument(
        "--tolerance",
        type=float,
        help="largest relative error of the odds that counts as calibrated (0.1)",
    )
    measure.add_argument(
        "--fail-above",
        metavar="[METRIC=]NUMBER",
        type=limit,
        help="exit code 1 if the debiased error is larger; without METRIC, the ECE",
    )
    measure.add_argument(
        "--all",
        action="store_true",
        help="every metric of the package; else log loss, Brier score, ECE, SCE and KS error or, "
        "for one event, the statistics of a risk model",
    )
    for command_parser in (compare, measure):
        command_parser.add_argument("--report", metavar="OUT.html", help="write an HTML report")
        command_parser.add_argument("--title", help="title of the report")
        command_parser.add_argument("--note", help="a sentence for the report, such as its purpose")
        command_parser.add_argument(
            "--clusters",
            metavar="COLUMN",
            help="array or column of what rows were drawn together by, such as hospital or "
            "document: folds keep clusters whole, intervals and p-values count them",
        )
        command_parser.add_argument(
            "--seed", type=whole_number(0), default=0, help="seed of the simulations for intervals"
        )
    return parser


def whole_number(low: int) -> Callable[[str], int]:
    """Return what reads an option as a whole number, the least of which is `low`."""

    def read_whole(text: str) -> int:
        if not text.lstrip("-").isdecimal() or int(text) < low:
            raise argparse.ArgumentTypeError(f"must be a whole number, at least {low}; got {text}")
        return int(text)

    return read_whole


def metric(text: str) -> str:
    """Read the name of a metric, as it is or in short; for another, name the most similar one."""
    name = SHORT.get(text.lower(), text)
    bare = [*ROW_LOSSES, *(scorer.removeprefix("neg_") for scorer in SCORERS)]
    if name in (*bare, *SCORERS, *get_scorer_names()):
        return name
    raise argparse.ArgumentTypeError(f"{name!r} is not a metric: {suggest(name, bare)}")


def calibrator(text: str) -> str:
    """Read the name of a calibrator; for another, name the most similar one."""
    known = [*calibrators_by_name(), "groupwise"]
    if text in known:
        return text
    raise argparse.ArgumentTypeError(f"{text!r} is not a calibrator: {suggest_name(text, known)}")


def calibrator_or_file(text: str) -> str:
    """Read the name of a calibrator, or of a file with one."""
    return text if text.lower().endswith(".json") else calibrator(text)


def read_number(text: str) -> float:
    """Read a number, NaN if it is none."""
    try:
        return float(text)
    except ValueError:
        return math.nan


def share(text: str) -> float:
    """Read a number between 0 and 1."""
    value = read_number(text)
    if not 0 < value < 1:
        raise argparse.ArgumentTypeError(f"must be a number in (0, 1); got {text}")
    return value


def limit(text: str) -> tuple[str, float]:
    """Read a metric and the largest value that it may have."""
    name, _, most = text.rpartition("=")
    name = metric(name).removeprefix("neg_") if name else "expected_calibration_error"
    if name not in ROW_LOSSES and f"neg_{name}" not in MEASURED:
        raise argparse.ArgumentTypeError(f"{name!r} is not a metric that measure shows")
    value = read_number(most)
    if not math.isfinite(value):
        raise argparse.ArgumentTypeError(
            f"must be a number such as 0.05, or METRIC=NUMBER; got {text}"
        )
    return name, value


def add_file(parser: argparse.ArgumentParser) -> None:
    """Add the file of predictions, what is called otherwise in it, and the form of the output."""
    parser.set_defaults(groups=(), id=(), scores=(), clusters=None)
    parser.add_argument("file", metavar="FILE", help=f"{', '.join(READ)} or -; see below")
    for name, text in COLUMN.items():
        parser.add_argument(f"--{name}", metavar="COLUMN", help=text)
    for name, text in COLUMNS.items():
        parser.add_argument(f"--{name}", nargs="+", metavar="COLUMN", help=text)
    parser.add_argument("--pos-label", metavar="LABEL", help="label of a single column of scores")
    parser.add_argument(
        "--input",
        choices=["auto", "logits", "proba"],
        help="what the scores are, if that is not clear",
    )
    parser.add_argument(
        "--format",
        choices=["table", "json"],
        default="table",
        help="output: a table (default), or all digits as JSON",
    )
