"""Write files atomically: a file is never partly written, even if the process is killed."""

from __future__ import annotations

import os
import secrets
from contextlib import suppress
from glob import escape
from importlib import import_module
from pathlib import Path
from stat import S_IMODE
from typing import Any

# The module for POSIX file locks. Windows has no such locks, and cannot remove or rename an open
# file.
fcntl: Any = None if os.name == "nt" else import_module("fcntl")


def write_file(path: str | os.PathLike[str], data: bytes) -> None:
    """Write bytes to a file atomically: readers see either the old file or the new one.

    The bytes are written to a temporary file, which is then renamed. The target of a link is
    replaced, and the link stays. An existing file keeps its permissions. Errors contain `path`.
    """
    target = Path(os.path.realpath(path))
    try:
        if target.exists() and not target.is_file():  # a file must not replace a device or a pipe
            target.write_bytes(data)
        else:
            _remove_abandoned(target)
            _replace(target, data)
    except OSError as error:
        raise OSError(error.errno, error.strerror, os.fspath(path)) from error


def _replace(target: Path, data: bytes) -> None:
    beside = target.with_name(f"{target.name}.{secrets.token_hex(8)}.part")
    try:
        with beside.open("xb") as file:
            if fcntl is not None:
                with suppress(OSError):  # some file systems have no locks
                    fcntl.flock(file, fcntl.LOCK_EX)
                if not beside.exists():  # another process removed the temporary file
                    return _replace(target, data)
            if target.exists():  # set permissions first: content may be secret
                beside.chmod(S_IMODE(target.stat().st_mode))
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
            if fcntl is None:
                file.close()
            beside.replace(target)
    finally:
        beside.unlink(missing_ok=True)


def _remove_abandoned(target: Path) -> None:
    """Remove temporary files of killed processes, which no process has locked."""
    for part in target.parent.glob(f"{escape(target.name)}.{'[0-9a-f]' * 16}.part"):
        with suppress(OSError):  # the file of a running process is locked
            with part.open("r+b") as file:
                if fcntl is not None:
                    fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
                    part.unlink()
            part.unlink(missing_ok=True)  # Windows cannot remove an open file
