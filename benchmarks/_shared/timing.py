"""What runs a call that may print, warn or never end."""

from __future__ import annotations

import contextlib
import io
import warnings
from collections.abc import Iterator


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
