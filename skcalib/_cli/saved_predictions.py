"""Predictions saved as .npz, .csv or .parquet, read and written."""

from __future__ import annotations

import zipfile
from collections.abc import Sequence
from pathlib import Path
from tokenize import TokenError
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from skcalib._validation.labels import check_labels
from skcalib._validation.named_columns import match_names

if TYPE_CHECKING:
    import pandas as pd

# The way out of names that say some of the labels only.
BY_OPTION = "name them by --scores in the order of the sorted labels"

SUFFIXES = (".npz", ".csv", ".parquet")
# What a word of a split means.
CALIBRATION = {"cal", "calib", "calibration", "val", "valid", "validation", "dev", "0", "false"}
TEST = {"test", "testing", "eval", "evaluation", "holdout", "1", "true"}


class SavedPredictions(NamedTuple):
    """What a file holds: ``scores (n, K)`` or ``(n,)``, ``labels (n,)``, which rows are test rows.

    ``input`` is what the scores are, as a calibrator takes it; ``classes`` the labels of the
    columns where the file says them; ``columns`` the names of the columns of a table, in the
    order of the scores; ``groups`` a frame with a column for each label of groups that was named.
    Labels, test, classes, columns and groups are None where there are none.
    """

    scores: NDArray[Any]
    input: str
    labels: NDArray[Any] | None
    test: NDArray[np.bool_] | None
    classes: NDArray[Any] | None
    columns: list[str] | None = None
    groups: pd.DataFrame | None = None


class Wanted(NamedTuple):
    """Names of arrays or columns, where they are called otherwise.

    A split that is not named may be missing. With `classes`, the labels that names of columns may
    end with, the file needs no labels. Groups are read if they are named.
    """

    scores: Sequence[str] | None = None
    labels: str | None = None
    split: str | None = None
    classes: NDArray[Any] | None = None
    groups: Sequence[str] = ()


def read_predictions(path: str, wanted: Wanted | None = None) -> SavedPredictions:
    """Read scores, labels and split from a file, whose ending says what it is.

    Parameters
    ----------
    path : str
        An .npz with arrays ``logits`` or ``probs``, ``labels`` and perhaps ``split``; or a .csv
        or .parquet with a column of labels and a column for each class.
    wanted : Wanted, default=None
        Names that the file uses.

    Raises
    ------
    ValueError
        If something is missing or is not what it should be.
    OSError
        If the file cannot be read.
    """
    suffix = Path(path).suffix.lower()
    if suffix not in SUFFIXES:
        raise ValueError(f"the file must be one of {', '.join(SUFFIXES)}; its ending is {suffix!r}")
    if Path(path).is_dir():
        raise IsADirectoryError("is a directory, not a file")
    read = _read_npz if suffix == ".npz" else _read_table
    return read(path, Wanted() if wanted is None else wanted)


def _read_npz(path: str, wanted: Wanted) -> SavedPredictions:
    scores, classes = wanted.scores, wanted.classes
    with open(path, "rb") as file:
        if not zipfile.is_zipfile(file):
            raise ValueError("not an .npz file: save one by np.savez(path, logits=Z, labels=y)")
    # Pickled objects would run code on loading.
    with np.load(path, allow_pickle=False) as data:

        def array(name: str) -> NDArray[Any]:
            try:
                return np.asarray(data[name])
            except (SyntaxError, TokenError) as error:  # of a header that is read as Python
                raise ValueError(f"{name!r} is damaged: save it again by np.savez") from error
            except ValueError as error:
                if "allow_pickle" not in str(error):
                    raise
                raise ValueError(
                    f"{name!r} holds pickled objects, which are not read: save it with a plain "
                    "dtype, such as np.asarray(values, dtype=str) or dtype=int"
                ) from error

        keys = list(data)
        if scores is not None and len(scores) != 1:
            raise ValueError(f"--scores names one array of an .npz; got {len(scores)}")
        kinds = [k for k in ("logits", "probs") if k in keys] if scores is None else list(scores)
        if len(kinds) != 1:
            raise ValueError(
                f"needs 'logits' or 'probs', one of them; holds {', '.join(keys)} (--scores NAME "
                "picks an array)"
            )
        labels, split = _names(keys, wanted, kinds)
        input = {"logits": "logits", "probs": "proba"}.get(kinds[0], "auto")
        Z = array(kinds[0])
        if Z.ndim not in (1, 2) or Z.dtype.kind not in "fiub":
            raise ValueError(
                f"{kinds[0]!r} must be numbers of shape (n, K) or (n,); it is {Z.dtype} of shape "
                f"{Z.shape}"
            )
        y = None if labels is None else _text(array(labels))
        test = None if split is None else _test_rows(_text(array(split)))
        classes = array("classes") if "classes" in keys else classes
        groups = {name: _text(array(name)) for name in wanted.groups}
    for name, other in (("labels", y), ("split", test), *groups.items()):
        if other is not None and other.shape != Z.shape[:1]:
            raise ValueError(f"{name} has shape {other.shape}, expected {Z.shape[:1]}: one a row")
    return SavedPredictions(Z, input, y, test, classes, None, _frame(groups))


def _frame(groups: dict[str, NDArray[Any]]) -> pd.DataFrame | None:
    if not groups:
        return None
    import pandas as pd  # late: only groups need it

    return pd.DataFrame(groups)


def _names(
    there: Sequence[str], wanted: Wanted, scores: Sequence[str]
) -> tuple[str | None, str | None]:
    """Return the names of labels and split, None where there is none and need not be."""
    labels, split = wanted.labels, wanted.split
    for name in (*scores, *wanted.groups, *(n for n in (labels, split) if n is not None)):
        if name not in there:
            raise ValueError(f"has no {name!r}; it holds {_shown(there)}")
    if labels is None and "labels" not in there and wanted.classes is None:
        raise ValueError(f"has no 'labels'; it holds {_shown(there)}: pass --labels NAME")
    return (
        labels or ("labels" if "labels" in there else None),
        split or ("split" if "split" in there else None),
    )


def _shown(names: Sequence[str]) -> str:
    return ", ".join(map(str, names[:12])) + (", ..." if len(names) > 12 else "")


def _text(values: NDArray[Any]) -> NDArray[Any]:
    return values.astype(str) if values.dtype.kind == "S" else values


def _test_rows(split: NDArray[Any]) -> NDArray[np.bool_]:
    """Read a split: 0, "cal" and the like are for calibration, 1, "test" and the like for test."""
    empty = np.flatnonzero([value != value or value is None or value == "" for value in split])
    if empty.size:
        raise ValueError(f"split is empty at row {empty[0]}: write 0 or 1 for every row")
    if split.dtype.kind == "f" and (split == np.floor(split)).all():
        split = split.astype(int)
    words = np.char.lower(np.char.strip(split.astype(str)))
    distinct = set(np.unique(words).tolist())
    unknown = distinct - CALIBRATION - TEST
    if unknown:
        raise ValueError(
            f"split holds {sorted(unknown)[0]!r}: write 0 or 'cal' for rows to calibrate on, 1 or "
            "'test' for rows to measure on, and leave rows out that fitted the model"
        )
    if not distinct & TEST or not distinct & CALIBRATION:
        which = "test" if distinct & TEST else "calibration"
        raise ValueError(f"split has {which} rows only: it must hold both 0 and 1")
    return np.isin(words, list(TEST))


def _read_table(path: str, wanted: Wanted) -> SavedPredictions:
    scores, classes = wanted.scores, wanted.classes
    frame = _read_frame(path)
    frame.columns = frame.columns.astype(str)
    there = list(frame.columns)
    if len(there) == 1 and any(mark in there[0] for mark in ";\t|"):
        raise ValueError(f"its columns must be separated by commas; the first line is {there[0]!r}")
    if all(map(_is_number, there)) and not all(map(str.isdecimal, there)):
        raise ValueError(
            "the first line holds numbers only, and no names: write a header, such as labels,0,1,2"
        )
    labels, split = _names(there, wanted, scores or ())
    if not len(frame):
        raise ValueError("has a header and no rows")
    others = (labels, split, *wanted.groups)
    chosen = list(scores) if scores is not None else [n for n in there if n not in others]
    if not chosen:
        raise ValueError(f"has no column of scores; it holds {_shown(there)}")
    y = None if labels is None else frame[labels].to_numpy()
    test = None if split is None else _test_rows(frame[split].to_numpy())
    for name in chosen:
        if frame[name].dtype.kind not in "fiub":
            raise ValueError(
                f"column {name!r} is not of numbers (row 0 has {frame[name].iloc[0]!r}): name the "
                "columns of scores by --scores"
            )
    groups = frame[list(wanted.groups)] if wanted.groups else None
    ordered = _columns_by_label(chosen, y, classes, scores is not None)
    if ordered is None:
        _refuse_running_number(frame, chosen)
        return SavedPredictions(_matrix(frame, chosen), "auto", y, test, None, chosen, groups)
    columns, classes = ordered
    return SavedPredictions(_matrix(frame, columns), "auto", y, test, classes, columns, groups)


def _read_frame(path: str) -> pd.DataFrame:
    import pandas as pd  # late: only tables need it

    if Path(path).suffix.lower() == ".parquet":
        try:
            return pd.read_parquet(path)
        except ImportError as error:
            raise ValueError(
                "reading .parquet needs pyarrow: pip install pyarrow, or save as .npz or .csv"
            ) from error
    try:
        frame = pd.read_csv(path)
    except UnicodeDecodeError as error:
        raise ValueError("not text in UTF-8: save the table as UTF-8") from error
    # The index that DataFrame.to_csv writes has no name.
    unnamed = [name for name in frame.columns[:1] if str(name).startswith("Unnamed: 0")]
    return frame.drop(columns=unnamed)


def _matrix(frame: pd.DataFrame, columns: Sequence[str]) -> NDArray[Any]:
    values = frame[list(columns)].to_numpy(dtype=np.float64)
    return values[:, 0] if len(columns) == 1 else values


def _is_number(name: str) -> bool:
    try:
        float(name)
    except ValueError:
        return False
    return True


def _refuse_running_number(frame: pd.DataFrame, columns: Sequence[str]) -> None:
    """Refuse a column 0, 1, 2, ... or 1, 2, 3, ...: it numbers the rows and is no score."""
    for name in columns if len(frame) > 2 else ():
        if (frame[name].diff().iloc[1:] == 1).all():
            raise ValueError(
                f"column {name!r} numbers the rows: leave it out, or name the columns of scores "
                "by --scores"
            )


def _columns_by_label(
    columns: Sequence[str],
    labels: NDArray[Any] | None,
    classes: NDArray[Any] | None,
    chosen: bool,
) -> tuple[list[str], NDArray[Any]] | None:
    """Order columns that are named by the labels, such as ``cat`` or ``p_cat``, by label.

    Names that say some of the labels only are refused, unless the caller has `chosen` them.
    """
    if len(columns) < 2:
        return None
    known = classes
    if known is None:
        assert labels is not None
        known = np.unique(check_labels(labels, "y"))
        if known.dtype.kind == "f":
            return None
    try:
        found = match_names(columns, known, classes is not None, "scores", BY_OPTION)
    except ValueError:
        if not chosen:
            raise
        return None
    return None if found is None else ([columns[i] for i in found.order], found.classes)


def write_predictions(
    path: str, P: NDArray[Any], classes: NDArray[Any], read: SavedPredictions
) -> None:
    """Write calibrated probabilities, with the labels and the split that were read."""
    suffix = Path(path).suffix.lower()
    others: dict[str, NDArray[Any]] = {}
    if read.labels is not None:
        others["labels"] = read.labels
    if read.test is not None:
        others["split"] = read.test.astype(np.uint8)
    if suffix == ".npz":
        names = classes.astype(str) if classes.dtype.kind == "O" else classes
        if "labels" in others and others["labels"].dtype.kind == "O":
            others["labels"] = others["labels"].astype(str)
        np.savez_compressed(path, probs=P, classes=names, **others)  # type: ignore[arg-type]
        return
    import pandas as pd  # late: only tables need it

    frame = pd.DataFrame({f"prob_{label}": P[:, k] for k, label in enumerate(classes.tolist())})
    frame = frame.assign(**others)
    if suffix == ".csv":
        frame.to_csv(path, index=False)
        return
    try:
        frame.to_parquet(path, index=False)
    except ImportError as error:
        raise ValueError(
            "writing .parquet needs pyarrow: pip install pyarrow, or write .npz or .csv"
        ) from error
