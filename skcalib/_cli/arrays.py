"""Predictions in ``.npz`` and ``.npy`` files."""

from __future__ import annotations

import zipfile
from collections.abc import Callable
from tokenize import TokenError
from typing import IO, TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from skcalib._cli.saved_predictions import (
    SavedPredictions,
    Wanted,
    as_text,
    names_found,
    read_test_rows,
)

if TYPE_CHECKING:
    import pandas as pd

Load = Callable[[], Any]


def read_npz(file: IO[bytes], wanted: Wanted) -> SavedPredictions:
    """Read ``logits`` or ``probs``, ``labels``, perhaps ``split`` and ``classes``."""
    scores = wanted.scores
    if not zipfile.is_zipfile(file):
        raise ValueError("not an .npz file: save one by np.savez(path, logits=Z, labels=y)")
    file.seek(0)
    # Pickled objects would run code on loading.
    with np.load(file, allow_pickle=False) as data:
        keys = list(data)
        if scores is not None and len(scores) != 1:
            raise ValueError(f"--scores names one array of an .npz; got {len(scores)}")
        kinds = [k for k in ("logits", "probs") if k in keys] if scores is None else list(scores)
        if len(kinds) != 1:
            raise ValueError(
                f"needs 'logits' or 'probs', one of them; contains {', '.join(keys)} (--scores "
                "NAME chooses an array)"
            )
        labels, split, weights = names_found(keys, wanted, kinds)

        def array(name: str) -> NDArray[Any]:
            return read_array(lambda: data[name], name, "np.savez")

        named = [key for key in ("classes", "class_names") if key in keys][:1]
        classes = as_text(array(named[0])) if named else None
        Z = array(kinds[0])
        found = _together(Z, kinds[0], (labels, split, weights), classes, wanted, array)
    used = {kinds[0], labels, split, weights, *named, *wanted.groups, *wanted.ids}
    return found._replace(
        input={"logits": "logits", "probs": "proba"}.get(kinds[0], "auto"),
        unused=[key for key in keys if key not in used],
    )


def read_npy(file: IO[bytes], wanted: Wanted) -> SavedPredictions:
    """Read an array of scores; labels, split, groups and ids are files of their own."""
    if wanted.scores is not None:
        raise ValueError("an .npy file is one array, of the scores: leave out --scores")
    if wanted.labels is None and wanted.classes is None:
        raise ValueError("an .npy file has the scores alone: pass --labels FILE.npy, of the labels")

    def array(path: str) -> NDArray[Any]:
        with open(path, "rb") as other:
            return read_array(lambda: np.load(other, allow_pickle=False), path, "np.save")

    Z = read_array(lambda: np.load(file, allow_pickle=False), "the array", "np.save")
    files = (wanted.labels, wanted.split, wanted.weights)
    return _together(Z, "the array", files, None, wanted, array)


def read_array(load: Load, name: str, save: str) -> NDArray[Any]:
    """Load an array without objects."""
    try:
        return np.asarray(load())
    except (EOFError, SyntaxError, TokenError) as error:  # a header is read as Python
        raise ValueError(f"{name!r} is damaged: save it again by {save}") from error
    except ValueError as error:
        if "allow_pickle" not in str(error) and "Python objects" not in str(error):
            raise
        raise ValueError(
            f"{name!r} contains pickled objects, which are not read: save it with a plain dtype, "
            "such as np.asarray(values, dtype=str) or dtype=int"
        ) from error


def _together(
    Z: NDArray[Any],
    name: str,
    per_row: tuple[str | None, str | None, str | None],
    classes: NDArray[Any] | None,
    wanted: Wanted,
    array: Callable[[str], NDArray[Any]],
) -> SavedPredictions:
    if Z.ndim not in (1, 2) or Z.dtype.kind not in "fiub":
        raise ValueError(
            f"{name!r} must be numbers of shape (n, K) or (n,); it is {Z.dtype} of shape {Z.shape}"
        )
    labels, split, weights = per_row
    y = None if labels is None else as_text(array(labels))
    if y is not None and y.shape == (*Z.shape[:1], 1):
        y = y[:, 0]
    if y is not None and y.ndim == 2 and y.shape[1] > 1:
        raise ValueError(
            f"labels have shape {y.shape}: write one label for each row, such as Y.argmax(axis=1)"
        )
    if classes is not None and classes.shape != Z.shape[1:]:
        raise ValueError(
            f"the labels of the columns have shape {classes.shape}, but {name!r} {Z.shape}: write "
            "one label for each column"
        )
    if y is not None and classes is not None:
        y = _named(y, classes)
    test = None if split is None else read_test_rows(as_text(array(split)))
    w = None if weights is None else array(weights)
    groups = {key: as_text(array(key)) for key in wanted.groups}
    ids = {key: as_text(array(key)) for key in wanted.ids}
    for what, other in (
        ("labels", y),
        ("split", test),
        ("weights", w),
        *groups.items(),
        *ids.items(),
    ):
        if other is not None and other.shape != Z.shape[:1]:
            raise ValueError(f"{what} has shape {other.shape}, expected {Z.shape[:1]}: one a row")
    return SavedPredictions(Z, "auto", y, test, classes, None, _frame(groups), _frame(ids), w)


def _named(y: NDArray[Any], classes: NDArray[Any]) -> NDArray[Any]:
    """Return the names of labels 0 to K - 1, if the classes are names."""
    are_places = y.dtype.kind in "iu" and classes.dtype.kind == "U"
    if not are_places or not y.size or y.min() < 0 or y.max() >= classes.size:
        return y
    return classes[y]


def _frame(columns: dict[str, NDArray[Any]]) -> pd.DataFrame | None:
    if not columns:
        return None
    import pandas as pd  # late: only groups and ids need it

    return pd.DataFrame(columns)


def write_arrays(file: IO[bytes], suffix: str, arrays: dict[str, Any]) -> None:
    """Write the arrays as ``.npz``, or the probabilities alone as ``.npy``."""
    if suffix == ".npy":
        np.save(file, arrays["probs"])
        return
    plain = {name: np.asarray(values) for name, values in arrays.items()}
    for name, values in plain.items():
        if values.dtype.kind == "O":
            plain[name] = values.astype(str)
    np.savez_compressed(file, **plain)  # type: ignore[arg-type]
