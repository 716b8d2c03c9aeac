"""The arguments of the command line and its help."""

from __future__ import annotations

import argparse
import math
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, NoReturn

from sklearn.metrics import get_scorer_names

import skcalib
from skcalib._cli.apply import run_apply, run_export, run_plan
from skcalib._cli.commands import run_compare, run_example, run_measure, run_monitor
from skcalib._cli.measured import MEASURED, Printed
from skcalib._cli.tables import LABELS, OUTCOME, READ, STREAM, SUFFIXES
from skcalib._cli.threshold import run_threshold
from skcalib._comparison import comparison as tables
from skcalib._comparison.compare import METRICS
from skcalib._comparison.measures import ROW_LOSSES
from skcalib.extending import calibrators_by_name, suggest, suggest_name
from skcalib.metrics import SCORERS

# Full names of metrics by their abbreviations, such as ece.
SHORT = {name.lower(): metric for metric, name in tables.SHORT.items() if " " not in name}
FILES = """\
FILE is one of
  .csv .tsv  a header line, a column 'labels', and a column of scores for each class; optionally
             'weights', and 'split' (0 or 'cal': calibration rows, 1 or 'test': test rows). Also .gz
  .jsonl     the same, with a JSON object on each line; also .gz. Or a log of decisions, such as
             {"question": "team", "probabilities": {"sales": 0.7, "help": 0.3}, "label": "help"}
  .json      the same, as a list of JSON objects
  .parquet   the same (needs pyarrow); .xlsx also (needs openpyxl)
  .npz       arrays 'logits' or 'probs', (n, K) or (n,), and 'labels', (n,); optionally 'split' and
             'weights', (n,), and 'classes' or 'class_names', (K,), the labels of the columns
  .npy       only the scores; pass the labels by --labels FILE.npy
  -          standard input, read as .csv
The scores are the columns named after the labels (cat, dog or p_cat, p_dog or cat_prob, dog_prob),
or the columns of --scores. Otherwise they are the numeric columns, if these are clearly scores: one
for each label, in the order of the sorted labels. For two labels, a column of probabilities may
also be named confidence, probability, prob, proba, p, risk, score or prediction. A single column is
the score of --pos-label (default: 1 or True). With two columns, the event is --pos-label, or by
default 1, True or the second label. Each command prints which columns it uses. The model must not
have been fitted on these rows. In messages, X means the scores and y the labels.
"""
# Help texts of options that name one array or column, and of options that name several.
COLUMN = {
    "labels": f"array or column of labels; default: one of {', '.join(LABELS)}, or else {OUTCOME}",
    "split": "array or column that marks calibration and test rows; default: split, if it exists",
    "weights": "array or column of weights; default: weights, if it exists. Integers are counts of "
    "rows, other weights are relative. The command apply ignores weights",
}
COLUMNS = {
    "scores": "array or columns of scores, such as a,b,c; default: found by name, see below",
    "groups": "columns that define groups; each group is reported separately. With several "
    "columns, each combination of values is a group",
    "id": "arrays or columns that identify rows and are not scores; skcalib apply copies them",
}
MULTILABEL = """\
a row can have several labels: for each label, such as cat, a column cat of 0 and 1 (empty if
unknown) and a column prob_cat"""
NO_LABELS = "omit the predicted class label from the outputs"
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
  python -m skcalib threshold predictions.csv --calibrator auto --accuracy 0.95 --save accept.json
  python -m skcalib apply accept.json new.csv -o decisions.csv
"""
PLAN_EXAMPLE = """
examples:
  python -m skcalib plan unlabelled.csv --width 0.04 --draw to_label.csv
  python -m skcalib plan unlabelled.csv --accuracy 0.95 --act-on 0.5
"""
APPLY_EXAMPLE = """
examples:
  python -m skcalib apply best.json predictions.npz -o calibrated.npz
  cat scores.csv | python -m skcalib apply best.json - --id row > calibrated.csv
  python -m skcalib apply best.json there.csv --priors ill=0.03 -o out.csv
"""


class Parser(argparse.ArgumentParser):
    """An argument parser that prints errors on one line."""

    def error(self, message: str) -> NoReturn:
        """Print the error message and exit with code 2."""
        self.exit(2, f"{self.prog}: error: {' '.join(message.split())}\n")


def make_parser() -> Parser:
    """Create the argument parser of all commands."""
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
        "file",
        metavar="FILE",
        nargs="?",
        default="predictions.csv",
        help="file to write (default: predictions.csv); with the ending .jsonl, a log of decisions",
    )
    compare = command(run_compare, FILES + COMPARE_EXAMPLE)
    add_file(compare)
    compare.add_argument(
        "--metrics",
        nargs="+",
        type=metric,
        metavar="METRIC",
        help=f"metrics by full name, or {', '.join(SHORT)}; default: {' '.join(METRICS)}; the "
        "static_calibration_error only with more than two classes",
    )
    compare.add_argument(
        "--choose-by",
        type=metric,
        metavar="ERROR",
        default="log_loss",
        help="recommend the calibrator with the lowest debiased value of this error, among the "
        "calibrators whose log loss is as good as the best",
    )
    compare.add_argument(
        "--calibrators",
        nargs="+",
        type=calibrator,
        metavar="NAME",
        help=f"calibrators to compare: {' '.join(calibrators_by_name())}, and with --groups also "
        "groupwise; default: all calibrators that are fast enough; for a log of decisions auto, "
        "temperature and, with groups, groupwise",
    )
    compare.add_argument(
        "--cv", type=whole_number(2), default=5, help="folds, without a split (default: 5)"
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
    for name, option in THRESHOLDS.items():
        threshold.add_argument(name, **option)
    plan = command(run_plan, FILES + PLAN_EXAMPLE)
    add_file(plan)
    aims = plan.add_mutually_exclusive_group(required=True)
    for name, option in PLANS.items():
        (aims if name in AIMS else plan).add_argument(name, **option)
    apply = command(run_apply, FILES + APPLY_EXAMPLE)
    apply.add_argument(
        "calibrator",
        metavar="CALIBRATOR.json",
        help="a file written by compare --save or threshold --save",
    )
    add_file(apply)
    apply.add_argument(
        "-o",
        "--output",
        metavar="OUT",
        default=STREAM,
        help=f"file to write: {', '.join(SUFFIXES)}; default: - (standard output, as .csv)",
    )
    apply.add_argument(
        "--priors",
        nargs="+",
        metavar="LABEL=PRIOR",
        help="class priors of this file, if they differ from those of the calibration rows; one "
        "class may be omitted. The word estimate alone: estimate the priors from the scores",
    )
    export = command(run_export, "example: python -m skcalib export best.json -o model.onnx")
    export.add_argument("file", metavar="CALIBRATOR.json", help="file written by compare --save")
    export.add_argument(
        "-o", "--output", metavar="OUT.onnx", required=True, help="ONNX file to write"
    )
    export.add_argument(
        "--dtype",
        choices=["float32", "float64"],
        default="float32",
        help="number type of the scores and probabilities (default: float32)",
    )
    export.add_argument("--no-labels", action="store_true", help=NO_LABELS)
    monitor = command(run_monitor, FILES + MONITOR_EXAMPLE)
    add_file(monitor)
    monitor.add_argument(
        "--state",
        metavar="STATE.json",
        required=True,
        help="state file of the monitor: the first call writes it, later calls update it",
    )
    monitor.add_argument(
        "--alpha", type=float, help="probability of a false alarm in a period (default: 0.05)"
    )
    monitor.add_argument("--period", type=whole_number(1), help="updates in a period (default: 52)")
    monitor.add_argument(
        "--tolerance",
        type=float,
        help="largest relative error of the odds that counts as calibrated (default: 0.1)",
    )
    measure.add_argument(
        "--fail-above",
        metavar="[METRIC=]NUMBER",
        type=limit,
        help="exit with code 1 if the debiased value of METRIC (default: the ECE) is above NUMBER",
    )
    measure.add_argument(
        "--all",
        action="store_true",
        help="measure every metric; by default log loss, Brier score, error rate, ECE, SCE and "
        "KS error or, for a binary problem, the statistics of a risk model",
    )
    measure.add_argument("--multilabel", action="store_true", help=MULTILABEL)
    for command_parser in (compare, measure):
        command_parser.add_argument("--report", metavar="OUT.html", help="write an HTML report")
        command_parser.add_argument("--title", help="title of the report")
        command_parser.add_argument("--note", help="a sentence for the top of the report")
        command_parser.add_argument(
            "--clusters",
            metavar="COLUMN",
            help="array or column of clusters of dependent rows, such as hospital or document: "
            "folds keep clusters whole, and intervals and p-values count clusters",
        )
        command_parser.add_argument(
            "--seed", type=whole_number(0), default=0, help="seed of the simulations for intervals"
        )
    return parser


def whole_number(low: int) -> Callable[[str], int]:
    """Return a parser of command-line arguments that are whole numbers from `low`."""

    def read_whole(text: str) -> int:
        if not text.lstrip("-").isdecimal() or int(text) < low:
            raise argparse.ArgumentTypeError(f"must be a whole number, at least {low}; got {text}")
        return int(text)

    return read_whole


def metric(text: str) -> str:
    """Return the full name of a metric, or raise an error that suggests a similar name."""
    name = SHORT.get(text.lower(), text)
    bare = [*ROW_LOSSES, *(scorer.removeprefix("neg_") for scorer in SCORERS)]
    if name in (*bare, *SCORERS, *get_scorer_names()):
        return name
    raise argparse.ArgumentTypeError(f"{name!r} is not a metric: {suggest(name, bare)}")


def planned_metric(text: str) -> str:
    """Return the full name of a metric of `label_plan`, which refuses other names."""
    more = {"slope": "calibration_intercept_slope", "oe": "observed_expected_ratio"}
    return {**SHORT, **more}.get(text.lower(), text)


def calibrator(text: str) -> str:
    """Return the name of a calibrator, or raise an error that suggests a similar name."""
    known = [*calibrators_by_name(), "groupwise"]
    if text in known:
        return text
    raise argparse.ArgumentTypeError(f"{text!r} is not a calibrator: {suggest_name(text, known)}")


def calibrator_or_file(text: str) -> str:
    """Return the name of a calibrator, or the path of a .json file with a calibrator."""
    return text if text.lower().endswith(".json") else calibrator(text)


def read_number(text: str) -> float:
    """Convert a text to a number, or to NaN if it is not a number."""
    try:
        return float(text)
    except ValueError:
        return math.nan


def share(text: str) -> float:
    """Convert a text to a number, which must be between 0 and 1."""
    value = read_number(text)
    if not 0 < value < 1:
        raise argparse.ArgumentTypeError(f"must be a number in (0, 1); got {text}")
    return value


def limit(text: str) -> tuple[str | None, float]:
    """Parse METRIC=NUMBER of --fail-above into a metric and its upper limit."""
    typed, _, most = text.rpartition("=")
    name = metric(typed).removeprefix("neg_") if typed else None
    if name is not None and name not in ROW_LOSSES and f"neg_{name}" not in MEASURED:
        raise argparse.ArgumentTypeError(f"{name!r} is not a metric that skcalib measure prints")
    value = read_number(most)
    if not math.isfinite(value):
        raise argparse.ArgumentTypeError(
            f"must be a number such as 0.05, or METRIC=NUMBER; got {text}"
        )
    return name, value


def add_file(parser: argparse.ArgumentParser) -> None:
    """Add the arguments for a file of predictions, its columns and the output format."""
    parser.set_defaults(groups=(), id=(), scores=(), clusters=None, multilabel=False)
    parser.add_argument("file", metavar="FILE", help=f"a file: {', '.join(READ)}, -; see below")
    for name, text in COLUMN.items():
        parser.add_argument(f"--{name}", metavar="COLUMN", help=text)
    for name, text in COLUMNS.items():
        parser.add_argument(f"--{name}", nargs="+", metavar="COLUMN", help=text)
    parser.add_argument("--pos-label", metavar="LABEL", help="label of the event (positive class)")
    parser.add_argument(
        "--input",
        choices=["auto", "logits", "proba"],
        help="whether the scores are logits or probabilities; auto: judge by their values",
    )
    parser.add_argument(
        "--format",
        choices=["table", "json"],
        default="table",
        help="output format: a table (default), or JSON with all digits",
    )


# Options of the commands threshold and plan. A plan has one of the options `AIMS`.


THRESHOLDS: dict[str, dict[str, Any]] = {
    "--accuracy": {
        "nargs": "+",
        "type": share,
        "help": "required accuracies (default: 0.9 0.95 0.99)",
    },
    "--confidence": {
        "type": share,
        "default": 0.95,
        "help": "confidence level of the guarantee (default: 0.95)",
    },
    "--calibrator": {
        "type": calibrator_or_file,
        "metavar": "NAME",
        "help": "calibrate the scores first: the name of a calibrator, which is fitted in folds "
        "or, with a split, on the calibration rows; or a .json file with a calibrator that was "
        "fitted on other rows",
    },
    "--save": {
        "metavar": "ACCEPT.json",
        "help": "save one threshold and its calibrator, to apply them",
    },
}
AIMS = ("--width", "--accuracy", "--calibrate")
PLANS: dict[str, dict[str, Any]] = {
    "--width": {
        "type": read_number,
        "help": "label enough rows for an interval of --metric with this mean width",
    },
    "--accuracy": {
        "type": share,
        "help": "label enough rows to find a threshold with this accuracy in 80 %% of samples",
    },
    "--calibrate": {
        "action": "store_true",
        "help": "label enough rows for a calibrator that lowers the log loss in 90 %% of samples",
    },
    "--metric": {
        "type": planned_metric,
        "default": "expected_calibration_error",
        "help": "with --width: ece (default), sce, ks or another calibration error, brier_score, "
        "log_loss, slope, or oe (observed-expected ratio)",
    },
    "--act-on": {"type": share, "help": "with --accuracy: fraction of the rows to act on"},
    "--temperature": {
        "type": read_number,
        "default": 1.5,
        "help": "assume also that logits have to be divided by this temperature (default: 1.5; 1: "
        "assume only calibrated probabilities)",
    },
    "--confidence": {"type": share, "default": 0.95, "help": "confidence level (default: 0.95)"},
    "--draw": {"metavar": "OUT.csv", "help": "write the rows to label, with --id and weights"},
    "--seed": {
        "type": whole_number(0),
        "default": 0,
        "help": "seed of the simulation (default: 0)",
    },
}
