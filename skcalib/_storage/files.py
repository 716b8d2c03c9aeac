"""Fitted calibrators as JSON, readable by people and by other languages.

A document names a class of `skcalib.calibrators`, its parameters and its fitted attributes, in a
format with a version.
"""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any, NoReturn

import numpy as np

from skcalib._monitor import ALL_ROWS, BETS, FARTHEST, CalibrationMonitor, Resolution
from skcalib._storage import calibrators
from skcalib._storage.writing import write_file
from skcalib.extending import check_count, check_labels

# Monitors as plain JSON values: evidence and history, no rows.
#
# A file may come from anywhere: its numbers are checked, and nothing in it is executed.


KEY = "monitor"
NAME = CalibrationMonitor.__name__
WRONG = f"The stored {NAME} is refused: "


def refuse(value: Any, where: str) -> NoReturn:
    """Refuse a value that no monitor has."""
    raise ValueError(f"{where} is a {type(value).__name__}, which is not stored in this format.")


def monitor_to_plain(monitor: CalibrationMonitor) -> dict[str, Any]:
    """Write the parameters and the state of a monitor."""
    monitor._check_updated()
    parameters = monitor.get_params()
    labels = parameters["labels"]
    if isinstance(labels, range) or hasattr(labels, "to_numpy"):
        parameters["labels"] = np.asarray(labels)
    state = {name: value for name, value in vars(monitor).items() if name not in parameters}
    parts = {"parameters": parameters, "state": state}
    return {KEY: NAME, **calibrators.parts_to_plain(NAME, parts, refuse)}


def monitor_from_plain(body: dict[str, Any]) -> CalibrationMonitor:
    """Return the stored monitor, or raise ValueError."""
    parts = body.get("parameters"), body.get("state")
    if set(body) != {KEY, "parameters", "state"} or not all(type(part) is dict for part in parts):
        raise ValueError(f"A stored {NAME} has '{KEY}', 'parameters' and 'state'.")
    parameters, state = (
        {k: calibrators.from_plain(v, f"{NAME}.{k}", refuse) for k, v in body[part].items()}
        for part in ("parameters", "state")
    )
    if set(parameters) != set(CalibrationMonitor().get_params()):
        raise ValueError(f"{WRONG}its parameters are {', '.join(sorted(parameters))[:60]}.")
    monitor = CalibrationMonitor(**parameters)
    monitor._validate_params()
    try:
        check_state(state)
    except (TypeError, KeyError, AttributeError) as error:
        raise ValueError(f"{WRONG}{' '.join(str(error).split())[:200]}") from error
    for name, value in state.items():
        setattr(monitor, name, value)
    return monitor


def check_state(state: dict[str, Any]) -> None:
    """Refuse a state that no update gives."""
    expected = vars(CalibrationMonitor().update([0, 1], [0.5, 0.5]))
    names, history, classes = (state[name] for name in ("_names", "_history", "classes_"))
    log_r, page, start, shares = (state[name] for name in ("_log_r", "_page", "_start", "_shares"))
    form, n_updates = (len(names), len(BETS)), state["n_updates_"]
    places, *distances = Resolution(*state.get("_resolution", ()))  # not in the first files
    numbers = np.concatenate([log_r.ravel(), page.ravel(), shares, [state["e_value_"]]])
    labels = check_labels(classes, "classes_")
    rules = {
        "the list of attributes": set(state) <= set(expected) | {"_files"},
        "_names": names[0] == ALL_ROWS and len(set(names)) == len(names),
        "classes_": classes.ndim == 1 and np.array_equal(np.unique(labels), labels),
        "_history": all(len(row) == 4 and row[0] >= 0 for row in history),
        "n_updates_": type(n_updates) is int and n_updates == len(history) > 0,
        "alarm_": type(state["alarm_"]) is bool,
        "_files": all(type(digest) is str for digest in state.get("_files", [])),
        "_resolution": places in range(1, 6) and all(0 < e <= FARTHEST for e in distances),
        "the shape": log_r.shape == page.shape == start.shape == form,
        "a number": np.isfinite(numbers).all() and state["e_value_"] >= 0,
        "_start": ((start >= 1) & (start <= n_updates)).all(),
        "_shares": shares.shape == form[:1] and (shares > 0).all() and abs(shares.sum() - 1) < 1e-9,
    }
    for name, is_right in rules.items():
        if not is_right:
            raise ValueError(f"{WRONG}{name} is not as an update leaves it.")


# Files: documents of calibrators and monitors.


# What is stored.
Stored = calibrators.Stored | CalibrationMonitor
FORMAT = "skcalib"
# Entries of a document that are not the estimator's; the command line writes its options.
HEAD = ("format", "version", "options")
MAX_BYTES = 1 << 28


def _read_version_1(body: dict[str, Any]) -> Stored:
    return monitor_from_plain(body) if KEY in body else calibrators.calibrator_from_plain(body)


# A change of what is written takes the next number and a reader of its own; the readers of released
# numbers stay, and each has its files in tests/storage/stored.
READERS = {1: _read_version_1}
VERSION = max(READERS)


def to_dict(estimator: Stored) -> dict[str, Any]:
    """Convert a fitted calibrator to a dict of JSON values.

    Parameters
    ----------
    estimator : calibrator or CalibrationMonitor
        A fitted calibrator of this package (of a `GroupwiseCalibrator`, so must be its common
        map), or a monitor after an update.

    Returns
    -------
    document : dict
        Dicts with string keys, lists, strings, finite numbers, booleans and None.

    Raises
    ------
    ValueError
        If it is not a fitted calibrator of this package, or has values that cannot be stored.

    See Also
    --------
    from_dict : The inverse.

    Examples
    --------
    >>> from skcalib import IdentityCalibrator, to_dict
    >>> document = to_dict(IdentityCalibrator().fit([0.2, 0.9], [0, 1]))
    >>> document["calibrator"], document["fitted"]["input_"]
    ('IdentityCalibrator', 'proba')
    """
    try:
        is_monitor = isinstance(estimator, CalibrationMonitor)
        convert: Any = monitor_to_plain if is_monitor else calibrators.calibrator_to_plain
        body = convert(estimator)
        document = {"format": FORMAT, "version": VERSION, **body}
    except RecursionError:
        raise ValueError("The parameters contain themselves and cannot be stored.") from None
    # Check that the document can be read.
    from_dict(document)
    return document


def from_dict(document: dict[str, Any]) -> Stored:
    """Create a fitted calibrator from a dict made by `to_dict`.

    Parameters
    ----------
    document : dict
        A dict from `to_dict`. It may come from an untrusted source: nothing in it is executed.

    Returns
    -------
    estimator : calibrator

    Raises
    ------
    ValueError
        If the document is not one of `to_dict`, has a newer version of the format, or has values
        that do not give probabilities.

    Examples
    --------
    >>> from skcalib import TemperatureScaling, from_dict, to_dict
    >>> scaling = TemperatureScaling().fit([-8.0, -3.0, 4.0, -1.0, 9.0], [0, 0, 1, 1, 1])
    >>> bool(from_dict(to_dict(scaling)).temperature_ == scaling.temperature_)
    True
    """
    if type(document) is not dict or document.get("format") != FORMAT:
        raise ValueError(
            f"This is not a stored calibrator: 'format' must be {FORMAT!r}, as to_dict and "
            "save_json write it."
        )
    version = document.get("version")
    if type(version) is not int or version < 1:
        raise ValueError(f"'version' must be a whole number from 1; got {str(version)[:60]}.")
    if version > VERSION:
        raise ValueError(
            f"The calibrator was stored in version {version} of the format, but this skcalib reads "
            f"versions up to {VERSION}: install a newer skcalib."
        )
    told = document.get("options", {})
    lists = [v if type(v) is list else [v] for v in (told.values() if type(told) is dict else [0])]
    if not all(type(text) is str for texts in lists for text in texts):
        raise ValueError("'options' must be an object of texts and of lists of texts.")
    body = {key: value for key, value in document.items() if key not in HEAD}
    try:
        return READERS[version](body)
    except RecursionError:
        raise ValueError("The stored calibrator is nested too deeply.") from None


def save_json(estimator: Stored, path: str | os.PathLike[str]) -> None:
    """Save a fitted calibrator as a JSON file.

    The file is written beside `path`, then renamed: readers see the old file or the new one. A link
    stays a link, and the mode of an existing file stays.

    Parameters
    ----------
    estimator : calibrator or CalibrationMonitor
        A fitted calibrator of this package, such as ``CalibratedClassifier(...).calibrator_``.
    path : str or path-like
        An existing file is replaced.

    Raises
    ------
    ValueError
        As for `to_dict`.

    Examples
    --------
    >>> import os, tempfile
    >>> from skcalib import IdentityCalibrator, load_json, save_json
    >>> path = os.path.join(tempfile.mkdtemp(), "calibrator.json")
    >>> save_json(IdentityCalibrator().fit([0.2, 0.9], ["no", "yes"]), path)
    >>> load_json(path).classes_.tolist()
    ['no', 'yes']
    """
    write_document(to_dict(estimator), path)


def write_document(document: dict[str, Any], path: str | os.PathLike[str]) -> None:
    """Write what `to_dict` returns, perhaps with the options of a command, which are ignored."""
    write_file(path, f"{_layout(document)}\n".encode("ascii"))


def load_json(path: str | os.PathLike[str], *, max_bytes: int = MAX_BYTES) -> Stored:
    """Load a fitted calibrator from a file written by `save_json`.

    Parameters
    ----------
    path : str or path-like
        The file. It may come from an untrusted source: nothing in it is executed.
    max_bytes : int, default=268435456
        A larger file raises an error, and not more than this is read. Reading takes about four
        times the memory of the file.

    Returns
    -------
    estimator : calibrator

    Raises
    ------
    ValueError
        If the file is too large, is not JSON, or as for `from_dict`; the message names the file.

    Examples
    --------
    See `save_json`.
    """
    check_count("max_bytes", max_bytes, 1)
    with Path(path).open("rb") as file:
        text = file.read(max_bytes + 1)
    if len(text) > max_bytes:
        raise ValueError(
            f"{path} is larger than max_bytes={max_bytes}: raise max_bytes if you know the file."
        )
    try:
        document = json.loads(
            text.decode("utf-8"), object_pairs_hook=_refuse_twins, parse_constant=_no_constant
        )
    except (ValueError, RecursionError) as error:
        reason = " ".join(str(error).split())
        raise ValueError(f"{path} cannot be read as JSON: {reason}.") from None
    try:
        return from_dict(document)
    except ValueError as error:
        raise ValueError(f"{path}: {error}") from error


# ------------------------------------------------------------------------------- the text


def _layout(value: Any, levels: int = 2, indent: str = " ") -> str:
    """Return JSON with a line for each parameter and attribute, of nested values only one."""
    if levels == 0 or not isinstance(value, dict) or not value:
        return json.dumps(value, allow_nan=False)
    entries = (
        f"{indent}{json.dumps(key)}: {_layout(inner, levels - 1, indent + ' ')}"
        for key, inner in value.items()
    )
    return "{\n" + ",\n".join(entries) + f"\n{indent[1:]}}}"


def _refuse_twins(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """Return the object of these pairs; refuse a key that is there twice."""
    document = dict(pairs)
    if len(document) != len(pairs):
        raise ValueError("an object has a key twice")
    return document


def _no_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is not a JSON number")
