"""The arguments of the command line and its help."""

from __future__ import annotations

import argparse
from collections.abc import Callable
from typing import NoReturn

import skcalib
from skcalib._comparison.compare import METRICS
from skcalib.calibrators._names import calibrators_by_name

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
  python -m skcalib measure predictions.csv --groups site
"""
APPLY_EXAMPLE = """
example:
  python -m skcalib apply best.json predictions.npz -o calibrated.npz
"""


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
        help=f"what to show; default: {' '.join(METRICS)}",
    )
    compare.add_argument(
        "--choose-by",
        metavar="ERROR",
        default="log_loss",
        help="a calibration error to choose by among those whose log loss is as good as the best",
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
        metavar="OUT.json",
        help="write the calibrator of the verdict, fitted on all calibration rows",
    )
    measure = command("measure", "every error, with its interval", FILES + MEASURE_EXAMPLE)
    add_file(measure)
    measure.add_argument(
        "--groups",
        nargs="+",
        metavar="COLUMN",
        help="array or column of group labels (several are crossed): also measure each group",
    )
    apply = command("apply", "calibrate scores by a saved calibrator", FILES + APPLY_EXAMPLE)
    apply.add_argument("calibrator", metavar="CALIBRATOR.json", help="as compare --save writes it")
    add_file(apply)
    apply.add_argument(
        "-o", "--output", metavar="OUT", required=True, help=".npz, .csv or .parquet to write"
    )
    for each in (compare, measure):
        each.add_argument(
            "--seed",
            type=whole(0, 2**32 - 1),
            default=0,
            help="of the simulations behind intervals",
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
