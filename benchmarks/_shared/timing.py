"""What runs a call that may print, warn or never end."""

from __future__ import annotations

import contextlib
import io
import signal
import warnings
from collections.abc import Iterator
from typing import Any


class OutOfTimeError(BaseException):
    """A call took longer than it was given; no `Exception`, so that nothing it ran catches it."""


@contextlib.contextmanager
def quiet() -> Iterator[None]:
    """Swallow warnings and what is printed."""
    with (
        warnings.catch_warnings(),
        contextlib.redirect_stdout(io.StringIO()),
        contextlib.redirect_stderr(io.StringIO()),
    ):
        warnings.simplefilter("ignore")
        yield


@contextlib.contextmanager
def at_most(seconds: float, clock: str) -> Iterator[None]:
    """Interrupt what takes longer by a "REAL" clock or uses more processor time ("PROF").

    Nothing is interrupted where the system has no such clock. With processor time other work on the
    machine costs nobody a result.
    """
    if not hasattr(signal, "setitimer"):
        yield
        return

    def ring(*_: Any) -> None:
        raise OutOfTimeError

    number = getattr(signal, "SIGALRM" if clock == "REAL" else "SIGPROF")
    before = signal.signal(number, ring)
    signal.setitimer(getattr(signal, f"ITIMER_{clock}"), seconds)
    try:
        yield
    finally:
        signal.setitimer(getattr(signal, f"ITIMER_{clock}"), 0)
        signal.signal(number, before)
