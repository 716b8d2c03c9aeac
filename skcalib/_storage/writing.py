"""Write a file so that it is complete or not there, whatever happens in between."""

from __future__ import annotations

import os
import secrets
from contextlib import suppress
from glob import escape
from importlib import import_module
from pathlib import Path
from stat import S_IMODE
from typing import Any

# Windows has no such locks, and does not remove or rename a file that is open.
fcntl: Any = None if os.name == "nt" else import_module("fcntl")


def write_file(path: str | os.PathLike[str], data: bytes) -> None:
    """Write bytes beside a file, then rename: readers see the old file or the new one.

    A link stays, its target is replaced. The mode of an existing file stays. An error names `path`.
    """
    target = Path(os.path.realpath(path))
    try:
        if target.exists() and not target.is_file():  # a device or a pipe, which is not replaced
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
                with suppress(OSError):  # of file systems without locks
                    fcntl.flock(file, fcntl.LOCK_EX)
                if not beside.exists():  # removed by another process, before it was locked
                    return _replace(target, data)
            if target.exists():  # before there is content, which may be secret
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
    """Remove what killed processes left: files beside the target that no process has locked."""
    for part in target.parent.glob(f"{escape(target.name)}.{'[0-9a-f]' * 16}.part"):
        with suppress(OSError):  # such as that of a live process
            with part.open("r+b") as file:
                if fcntl is not None:
                    fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
                    part.unlink()
            part.unlink(missing_ok=True)  # on Windows
