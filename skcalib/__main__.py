"""The command line, ``skcalib`` or ``python -m skcalib``: run a command and print its errors."""

from __future__ import annotations

import argparse
import json
import os
import re
import shlex
import sys
import traceback
import warnings
from collections.abc import Sequence
from typing import TextIO

from skcalib._cli.arguments import make_parser

# Command-line options whose value is the path of a file. An error message may begin with the path.
PATHS = ("file", "report", "save", "output", "calibrator", "state")
# Keywords in error messages, which are rewritten as command-line options, except within a path.
ARGUMENT = re.compile(r"(?<![\w/\\])(pos_label|input|groups|clusters)=")
# Python terms in error messages, and the terms for files that replace them on the command line.
IN_FILES = {
    "sample_weight": "weights",
    "pass w.astype(float)": "write decimals, such as 2.0",
    "pass floats": "write decimals, such as 2.0,",
    "Pass np.exp(X)": "Write exp(X)",
    "probabilities, predict_proba(X)[:, 1],": "probabilities",
    "or classes= if": "or an array 'classes' if",
    " (input_='logits')": "",
    " (input_='proba')": "",
}


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a command and return its exit code: 0, 1 (alarm), 2 (error) or 130 (Ctrl-C)."""
    parser = make_parser()
    args = parser.parse_args(arguments)
    args.typed = shlex.join(["skcalib", *(sys.argv[1:] if arguments is None else arguments)])
    if args.command is None:
        parser.print_help()
        return 0

    def say(kind: str, text: object) -> None:
        line = ARGUMENT.sub(r"--\1 ", f"{parser.prog} {args.command}: {kind}{text}")
        for python, words in IN_FILES.items():
            line = line.replace(python, words)
        write(sys.stderr, " ".join(line.split()).replace("--pos_label", "--pos-label"))

    try:
        with warnings.catch_warnings():
            warnings.showwarning = lambda message, *_, **__: say("warning: ", message)
            printed = args.run(args)
        if printed.err:
            write(sys.stderr, printed.err)
        print_out(printed.out)
    except KeyboardInterrupt:
        say("", "interrupted")
        return 130  # shells report 128 plus the number of the signal
    except Exception as error:
        if isinstance(error, LookupError | AttributeError | AssertionError):
            traceback.print_exc()  # for example, a KeyError is a bug in this package
        say("error: ", reason_of(error, args))
        return 2
    return int(printed.code)


def reason_of(error: BaseException, args: argparse.Namespace) -> str:
    """Return the message of an error, preceded by the name of the file that caused the error."""
    reason = getattr(error, "strerror", None) or str(error) or type(error).__name__
    named = any(reason.startswith(getattr(args, name, None) or "\0") for name in PATHS)
    # A system error without a file name, such as a full disk, is not caused by the input file.
    read = None if named or getattr(error, "errno", None) else args.file
    return ": ".join(filter(None, [getattr(error, "filename", None) or read, reason]))


def print_out(text: str) -> None:
    """Print to standard output; raise an error if the disk is full, but not if a pipe is closed."""
    try:
        write(sys.stdout, text)
        sys.stdout.flush()
    except OSError as error:
        with open(os.devnull, "w") as nowhere:  # Python flushes standard output again at exit
            os.dup2(nowhere.fileno(), sys.stdout.fileno())
        if not isinstance(error, BrokenPipeError):  # a program like `head` may stop reading early
            raise OSError(error.errno, error.strerror, "standard output") from error


def write(stream: TextIO, text: str) -> None:
    """Write a line to a stream; escape characters that the stream cannot encode, as in JSON."""
    encoding = getattr(stream, "encoding", None) or "utf-8"
    lacking = [mark for mark in set(text) if not mark.encode(encoding, "ignore")]
    table = {ord(mark): json.dumps(mark)[1:-1] for mark in lacking}
    stream.write((text.translate(table) if table else text) + "\n")


if __name__ == "__main__":
    sys.exit(main())
