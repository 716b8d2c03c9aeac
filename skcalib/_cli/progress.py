"""How far a long command is, on stderr."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TextIO

# Seconds between two lines of a stream that is not a terminal.
PAUSE = 10.0


@contextmanager
def drawing(stream: TextIO) -> Iterator[Callable[[str], None]]:
    """Show how far a command is, as a text.

    In a terminal this is one line, which is gone at the end; elsewhere a line every ten seconds.
    """
    last, terminal = time.monotonic(), stream.isatty()

    def show(text: str) -> None:
        nonlocal last
        if terminal:
            stream.write(f"\r{text}")
        elif time.monotonic() - last > PAUSE:
            stream.write(f"{text}\n")
            last = time.monotonic()
        stream.flush()

    try:
        yield show
    finally:
        if terminal:
            stream.write("\r\033[K")
