"""The command line, ``skcalib`` or ``python -m skcalib``: run a command and print its errors."""

from __future__ import annotations

import argparse
import json
import os
import shlex
import sys
import traceback
import warnings
from collections.abc import Sequence
from typing import TextIO

from skcalib._cli.arguments import make_parser
from skcalib._cli.files import in_options

# Command-line options whose value is the path of a file. An error message may begin with the path.
PATHS = ("file", "report", "save", "output", "calibrator", "state", "draw")
# End of the error message for rows that are not probabilities, and its end if the file, instead of
# an option, declares the scores as probabilities.
BY_OPTION = "but input='proba' is set; pass probabilities whose rows sum to 1, or input='logits'"
BY_FILE = "but the file declares probabilities; write rows that sum to 1, or pass input='logits'"


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a command and return its exit code: 0, 1 (alarm), 2 (error) or 130 (Ctrl-C)."""
    parser = make_parser()
    args = parser.parse_args(arguments)
    args.typed = shlex.join(["skcalib", *(sys.argv[1:] if arguments is None else arguments)])
    if args.command is None:
        parser.print_help()
        return 0

    def say(kind: str, text: object) -> None:
        line = f"{parser.prog} {args.command}: {kind}{text}"
        write(sys.stderr, " ".join(line.split()))

    try:
        with warnings.catch_warnings():
            warnings.showwarning = lambda text, *_, **__: say("warning: ", in_options(str(text)))
            printed = args.run(args)
        if printed.err:
            write(sys.stderr, printed.err)
        print_out(printed.out)
    except KeyboardInterrupt:
        say("", "interrupted")
        return 130  # shells report 128 plus the number of the signal
    except Exception as error:
        if isinstance(error, LookupError | AttributeError | AssertionError):
            traceback.print_exc()  # errors of these types are bugs of this package
        say("error: ", reason_of(error, args))
        return 2
    return int(printed.code)


def reason_of(error: BaseException, args: argparse.Namespace) -> str:
    """Return the message of an error, preceded by the name of the file that caused the error."""
    reason = getattr(error, "strerror", None) or str(error) or type(error).__name__
    named = any(reason.startswith(getattr(args, name, None) or "\0") for name in PATHS)
    # A system error without a file name, such as a full disk, is not caused by the input file.
    read = None if named or getattr(error, "errno", None) else args.file
    if getattr(args, "input", None) is None:
        reason = reason.replace(BY_OPTION, BY_FILE)
    path = getattr(error, "filename", None) or read
    return ": ".join(filter(None, [path, in_options(reason)]))


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
