"""``python -m skcalib``: the command line."""

import sys

from skcalib._cli.commands import main

__all__ = ["main"]

if __name__ == "__main__":
    sys.exit(main())
