"""``python -m skcalib`` and ``skcalib``: the commands on saved predictions, and their errors."""

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

# Options that name files, which an error may begin with.
PATHS = ("file", "report", "save", "output", "calibrator", "state")
# Arguments of functions that are options of the commands; not a part of a path.
ARGUMENT = re.compile(r"(?<![\w/\\])(pos_label|input|groups|clusters)=")
# Words of Python in messages, and what they are in a file.
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
    """Run a command; return 0 if it worked, 1 for an alarm, 2 for an error, 130 after Ctrl-C."""
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
        return 130  # as of a shell: 128 and the number of the signal
    except Exception as error:
        if isinstance(error, LookupError | AttributeError | AssertionError):
            traceback.print_exc()  # a fault of this package
        say("error: ", reason_of(error, args))
        return 2
    return int(printed.code)


def reason_of(error: BaseException, args: argparse.Namespace) -> str:
    """Return why a command failed, after the name of the file that it is about."""
    reason = getattr(error, "strerror", None) or str(error) or type(error).__name__
    named = any(reason.startswith(getattr(args, name, None) or "\0") for name in PATHS)
    # A full disk that has no name is not that of the file of predictions.
    read = None if named or getattr(error, "errno", None) else args.file
    return ": ".join(filter(None, [getattr(error, "filename", None) or read, reason]))


def print_out(text: str) -> None:
    """Write to standard output, to the end: a full disk is an error, a reader that left is none."""
    try:
        write(sys.stdout, text)
        sys.stdout.flush()
    except OSError as error:
        with open(os.devnull, "w") as nowhere:  # for what Python flushes at its end
            os.dup2(nowhere.fileno(), sys.stdout.fileno())
        if not isinstance(error, BrokenPipeError):  # such as `head`, which has read enough
            raise OSError(error.errno, error.strerror, "standard output") from error


def write(stream: TextIO, text: str) -> None:
    """Write a line; characters that the encoding of the stream does not have are as in JSON."""
    encoding = getattr(stream, "encoding", None) or "utf-8"
    lacking = [mark for mark in set(text) if not mark.encode(encoding, "ignore")]
    table = {ord(mark): json.dumps(mark)[1:-1] for mark in lacking}
    stream.write((text.translate(table) if table else text) + "\n")


if __name__ == "__main__":
    sys.exit(main())
