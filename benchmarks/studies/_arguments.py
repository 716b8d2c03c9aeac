"""The command line that the studies share."""

from __future__ import annotations

import argparse


def study_parser(doc: str | None, *, npz: bool = True) -> argparse.ArgumentParser:
    """Parser with the docstring's first line, a path to a file if one can be used, a figure."""
    parser = argparse.ArgumentParser(description=(doc or "").splitlines()[0])
    if npz:
        parser.add_argument(
            "npz", nargs="?", help="logits or probs, labels, maybe split (default: digits)"
        )
    parser.add_argument("--figure", metavar="PNG", help="save a figure (needs matplotlib)")
    return parser
