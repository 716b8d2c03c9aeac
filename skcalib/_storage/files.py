"""Save and load calibrators and monitors as JSON files.

A document contains the name of a class, its parameters, its fitted attributes and the version of
the format. People and other languages can read it.
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
# A file may be untrusted: its numbers are checked, and nothing in it is executed.


KEY = "monitor"
NAME = CalibrationMonitor.__name__
WRONG = f"The stored {NAME} is not valid: "


def refuse(value: Any, where: str) -> NoReturn:
    """Refuse a value whose type cannot be stored with a monitor."""
    raise ValueError(f"{where} is a {type(value).__name__}, which cannot be stored as JSON.")


def monitor_to_plain(monitor: CalibrationMonitor) -> dict[str, Any]:
    """Convert a monitor to a dict of its parameters and its state."""
    monitor._check_updated()
    parameters = monitor.get_params()
    labels = parameters["labels"]
    if isinstance(labels, range) or hasattr(labels, "to_numpy"):
        parameters["labels"] = np.asarray(labels)
    state = {name: value for name, value in vars(monitor).items() if name not in parameters}
    parts = {"parameters": parameters, "state": state}
    return {KEY: NAME, **calibrators.parts_to_plain(NAME, parts, refuse)}


def monitor_from_plain(body: dict[str, Any]) -> CalibrationMonitor:
    """Create a monitor from its dict, or raise a ValueError."""
    parts = body.get("parameters"), body.get("state")
    if set(body) != {KEY, "parameters", "state"} or not all(type(part) is dict for part in parts):
        raise ValueError(f"A stored {NAME} must have '{KEY}', 'parameters' and 'state'.")
    parameters, state = (
        {k: calibrators.from_plain(v, f"{NAME}.{k}", refuse) for k, v in body[part].items()}
        for part in ("parameters", "state")
    )
    if set(parameters) != set(CalibrationMonitor().get_params()):
        raise ValueError(
            f"{WRONG}its parameters are not those of {NAME}, but "
            f"{', '.join(sorted(parameters))[:60]}."
        )
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
    """Raise an error for a state of a monitor that no update can produce."""
    expected = vars(CalibrationMonitor().update([0, 1], [0.5, 0.5]))
    names, history, classes = (state[name] for name in ("_names", "_history", "classes_"))
    log_r, page, start, shares = (state[name] for name in ("_log_r", "_page", "_start", "_shares"))
    form, n_updates = (len(names), len(BETS)), state["n_updates_"]
    places, *distances = Resolution(*state.get("_resolution", ()))  # older files lack _resolution
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
            raise ValueError(f"{WRONG}{name} has a value that no update can produce.")


# Files that contain a calibrator or a monitor as a JSON document.


# Types of estimators that can be stored in a file.
Stored = calibrators.Stored | CalibrationMonitor
FORMAT = "skcalib"
# Entries of a document that do not describe the estimator, such as "options", which the command
# line writes.
HEAD = ("format", "version", "options")
MAX_BYTES = 1 << 28


def _read_version_1(body: dict[str, Any]) -> Stored:
    return monitor_from_plain(body) if KEY in body else calibrators.calibrator_from_plain(body)


# Functions that read a document, by version of the format. A new format gets the next number and
# its own reader. Readers of released versions stay, and tests/storage/stored has files of each.
READERS = {1: _read_version_1}
VERSION = max(READERS)


def to_dict(estimator: Stored) -> dict[str, Any]:
    """Convert a fitted calibrator to a dict of JSON values.

    Parameters
    ----------
    estimator : calibrator or CalibrationMonitor
        A fitted calibrator of this package, or a monitor after an update. The calibrator inside a
        `GroupwiseCalibrator` must also be one of this package.

    Returns
    -------
    document : dict
        Dicts with string keys, lists, strings, finite numbers, booleans and None.

    Raises
    ------
    ValueError
        If `estimator` is not a fitted calibrator of this package, or contains values that cannot
        be stored.

    See Also
    --------
    from_dict : Create the calibrator from the dict.

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
        raise ValueError(
            "The estimator cannot be stored: a parameter contains itself, or is nested too deeply."
        ) from None
    # If the document cannot be read, raise the error now instead of when it is loaded.
    from_dict(document)
    return document


def from_dict(document: dict[str, Any]) -> Stored:
    """Create a fitted calibrator or monitor from a dict that `to_dict` returned.

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
        If the document does not come from `to_dict`, has a newer version of the format, or
        contains values with which predictions are not probabilities.

    Examples
    --------
    >>> from skcalib import TemperatureScaling, from_dict, to_dict
    >>> scaling = TemperatureScaling().fit([-8.0, -3.0, 4.0, -1.0, 9.0], [0, 0, 1, 1, 1])
    >>> bool(from_dict(to_dict(scaling)).temperature_ == scaling.temperature_)
    True
    """
    if type(document) is not dict or document.get("format") != FORMAT:
        raise ValueError(
            f"The document is not a stored calibrator: 'format' must be {FORMAT!r}; write it by "
            "to_dict or save_json."
        )
    version = document.get("version")
    if type(version) is not int or version < 1:
        raise ValueError(f"'version' must be an integer from 1; got {str(version)[:60]}.")
    if version > VERSION:
        raise ValueError(
            f"The calibrator is stored in version {version} of the format, but this skcalib reads "
            f"only versions up to {VERSION}: install a newer skcalib."
        )
    told = document.get("options", {})
    lists = [v if type(v) is list else [v] for v in (told.values() if type(told) is dict else [0])]
    if not all(type(text) is str for texts in lists for text in texts):
        raise ValueError("'options' must be an object with texts or lists of texts as values.")
    body = {key: value for key, value in document.items() if key not in HEAD}
    try:
        return READERS[version](body)
    except RecursionError:
        raise ValueError("The stored calibrator is nested too deeply.") from None


def save_json(estimator: Stored, path: str | os.PathLike[str]) -> None:
    """Save a fitted calibrator or monitor as a JSON file.

    The data are written to a temporary file, which is then renamed to `path`. So readers see either
    the old file or the new one. A link stays a link, and an existing file keeps its permissions.

    Parameters
    ----------
    estimator : calibrator or CalibrationMonitor
        A fitted calibrator of this package, such as ``CalibratedClassifier(...).calibrator_``.
    path : str or path-like
        The file to write. An existing file is replaced.

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
    """Write a document of `to_dict` to a file; a command may have added its options."""
    write_file(path, f"{_layout(document)}\n".encode("ascii"))


def load_json(path: str | os.PathLike[str], *, max_bytes: int = MAX_BYTES) -> Stored:
    """Load a fitted calibrator or monitor from a file written by `save_json`.

    Parameters
    ----------
    path : str or path-like
        The file. It may come from an untrusted source: nothing in it is executed.
    max_bytes : int, default=268435456
        A larger file raises an error before it is read whole. Reading uses about four times the
        memory of the file.

    Returns
    -------
    estimator : calibrator

    Raises
    ------
    ValueError
        If the file is too large or is not JSON, or for the reasons listed in `from_dict`. The
        message contains the name of the file.

    Examples
    --------
    See `save_json`.
    """
    check_count("max_bytes", max_bytes, 1)
    with Path(path).open("rb") as file:
        text = file.read(max_bytes + 1)
    if len(text) > max_bytes:
        raise ValueError(
            f"{path} is larger than max_bytes={max_bytes}: pass a larger max_bytes if you trust "
            "the file."
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


# Writing and reading the text of a JSON file.


def _layout(value: Any, levels: int = 2, indent: str = " ") -> str:
    """Return JSON with one line for each parameter and each attribute."""
    if levels == 0 or not isinstance(value, dict) or not value:
        return json.dumps(value, allow_nan=False)
    entries = (
        f"{indent}{json.dumps(key)}: {_layout(inner, levels - 1, indent + ' ')}"
        for key, inner in value.items()
    )
    return "{\n" + ",\n".join(entries) + f"\n{indent[1:]}}}"


def _refuse_twins(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """Convert the pairs of a JSON object to a dict, or raise an error if a key occurs twice."""
    document = dict(pairs)
    if len(document) != len(pairs):
        raise ValueError("an object has a key twice")
    return document


def _no_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is not a JSON number")
