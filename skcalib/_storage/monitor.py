"""Monitors as plain JSON values: evidence and history, no rows.

A file may come from anywhere: its numbers are checked, and nothing in it is executed.
"""

from __future__ import annotations

from typing import Any, NoReturn

import numpy as np

from skcalib._monitor import ALL_ROWS, BETS, FARTHEST, CalibrationMonitor, Resolution
from skcalib._storage.calibrators import from_plain, parts_to_plain
from skcalib.extending import check_labels

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
    return {KEY: NAME, **parts_to_plain(NAME, parts, refuse)}


def monitor_from_plain(body: dict[str, Any]) -> CalibrationMonitor:
    """Return the stored monitor, or raise ValueError."""
    parts = body.get("parameters"), body.get("state")
    if set(body) != {KEY, "parameters", "state"} or not all(type(part) is dict for part in parts):
        raise ValueError(f"A stored {NAME} has '{KEY}', 'parameters' and 'state'.")
    parameters, state = (
        {k: from_plain(v, f"{NAME}.{k}", refuse) for k, v in body[part].items()}
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
