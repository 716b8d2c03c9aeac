"""``python -m skcalib`` and ``skcalib``: the commands on saved predictions, and their errors."""

from __future__ import annotations

import argparse
import os
import sys
import zipfile
import zlib
from collections.abc import Sequence

from skcalib._cli.apply import run_apply
from skcalib._cli.arguments import make_parser
from skcalib._cli.compare import run_compare
from skcalib._cli.export import run_export
from skcalib._cli.measure import run_measure

# What a broken file or a wrong option raises.
FAILURES = (OSError, ValueError, TypeError, ImportError, EOFError, zipfile.BadZipFile, zlib.error)
COMMANDS = {
    "compare": run_compare,
    "measure": run_measure,
    "apply": run_apply,
    "export": run_export,
}


def written(args: argparse.Namespace) -> list[str]:
    """Return the other files that a command names, each to be named by what is wrong with it."""
    names = ("report", "save", "output", "calibrator")
    return [path for name in names if (path := getattr(args, name, None))]


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a command; 0 if it worked, 1 above a limit, 2 and a line on stderr if it failed."""
    parser = make_parser()
    args = parser.parse_args(arguments)
    if args.command is None:
        parser.print_help()
        return 0
    try:
        printed = COMMANDS[args.command](args)
    except FAILURES as error:
        where = getattr(error, "filename", None) or args.file
        reason = getattr(error, "strerror", None) or str(error)
        named = [p for p in (args.file, *written(args)) if reason.startswith(p)]
        text = " ".join((reason if named else f"{where}: {reason}").split())
        sys.stderr.write(f"{parser.prog} {args.command}: error: {text}\n")
        return 2
    if printed.err:
        sys.stderr.write(printed.err + "\n")
    try:
        sys.stdout.write(printed.out + "\n")
        sys.stdout.flush()
    except BrokenPipeError:  # such as `head`, which has read enough
        with open(os.devnull, "w") as nowhere:
            os.dup2(nowhere.fileno(), sys.stdout.fileno())
    return printed.code
