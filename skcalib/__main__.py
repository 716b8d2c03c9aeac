"""``python -m skcalib`` and ``skcalib``: the commands on saved predictions, and their errors."""

from __future__ import annotations

import os
import shlex
import sys
import warnings
import zipfile
import zlib
from collections.abc import Sequence

from skcalib._cli.arguments import make_parser

# What a broken file or a wrong option raises.
FAILURES = (OSError, ValueError, TypeError, ImportError, EOFError, zipfile.BadZipFile, zlib.error)
# Options that name files, which an error may begin with.
PATHS = ("file", "report", "save", "output", "calibrator", "state")


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a command; 0 if it worked, 1 above a limit, 2 and a line on stderr if it failed."""
    parser = make_parser()
    args = parser.parse_args(arguments)
    args.typed = shlex.join(["skcalib", *(sys.argv[1:] if arguments is None else arguments)])
    if args.command is None:
        parser.print_help()
        return 0

    def warn(message: object, *_: object, **__: object) -> None:
        text = " ".join(str(message).split())
        sys.stderr.write(f"{parser.prog} {args.command}: warning: {text}\n")

    try:
        with warnings.catch_warnings():
            warnings.showwarning = warn
            printed = args.run(args)
    except FAILURES as error:
        where = getattr(error, "filename", None) or args.file
        reason = getattr(error, "strerror", None) or str(error)
        paths = [getattr(args, name, None) for name in PATHS]
        named = any(path and reason.startswith(path) for path in paths)
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


if __name__ == "__main__":
    sys.exit(main())
