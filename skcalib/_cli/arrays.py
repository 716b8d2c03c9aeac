"""Predictions in ``.npz`` and ``.npy`` files."""

from __future__ import annotations

import argparse
import zipfile
from collections.abc import Callable
from tokenize import TokenError
from typing import Any

import numpy as np
from numpy.typing import NDArray

from skcalib._cli.saved_predictions import Names, SavedPredictions, names_among, read_rows


def read_npz(path: str, args: argparse.Namespace) -> SavedPredictions:
    """Read ``logits`` or ``probs``, ``labels``, perhaps ``split`` and ``classes``."""
    if not zipfile.is_zipfile(path):
        raise ValueError("not an .npz file: save one by np.savez(path, logits=Z, labels=y)")
    # Pickled objects would run code on loading.
    with np.load(path, allow_pickle=False) as data:
        there = list(data)
        kinds = args.scores or [name for name in ("logits", "probs") if name in there]
        if len(kinds) != 1:
            raise ValueError(
                f"needs 'logits' or 'probs', one of them; contains {', '.join(there)} (--scores "
                "NAME chooses an array)"
            )
        names = names_among(there, args, kinds)

        def read(name: str) -> NDArray[Any]:
            return read_array(data.__getitem__, name, "np.savez")

        name = kinds[0]
        Z = read_scores(read, name)
        named = [key for key in ("classes", "class_names") if key in there][:1]
        classes = read(named[0]) if named else None
        if classes is not None and classes.shape != Z.shape[1:]:
            raise ValueError(
                f"the labels of the columns have shape {classes.shape}, but {name!r} {Z.shape}: "
                "write one label for each column"
            )
        kind = {"logits": "logits", "probs": "proba"}.get(name, "auto")
        others = [key for key in there if key not in (name, *named)]
        rows = read_rows(Z, names, read, others, input=kind, classes=classes, columns=None)
    return rows if classes is None else rows._replace(labels=named_labels(rows.labels, classes))


def read_npy(path: str, args: argparse.Namespace) -> SavedPredictions:
    """Read an array of scores; labels, split, groups and ids are files of their own."""
    if args.scores:
        raise ValueError("an .npy file is one array, of the scores: leave out --scores")
    if args.labels is None and args.command != "apply":
        raise ValueError("an .npy file has the scores alone: pass --labels FILE.npy, of the labels")

    def read(path: str) -> NDArray[Any]:
        return read_array(lambda name: np.load(name, allow_pickle=False), path, "np.save")

    names = Names(args.labels, args.split, args.weights, args.groups, args.id)
    Z = read_scores(read, path)
    return read_rows(Z, names, read, [], input="auto", classes=None, columns=None)


def read_scores(read: Callable[[str], NDArray[Any]], name: str) -> NDArray[Any]:
    """Read an array of scores."""
    Z = read(name)
    if Z.ndim not in (1, 2) or Z.dtype.kind not in "fiub":
        raise ValueError(
            f"{name!r} must be numbers of shape (n, K) or (n,); it is {Z.dtype} of shape {Z.shape}"
        )
    return Z


def read_array(load: Callable[[str], Any], name: str, save: str) -> NDArray[Any]:
    """Load an array without objects; bytes become text."""
    try:
        values = np.asarray(load(name))
    except (EOFError, SyntaxError, TokenError) as error:  # a header is read as Python
        raise ValueError(f"{name!r} is damaged: save it again by {save}") from error
    except ValueError as error:
        if "allow_pickle" not in str(error) and "Python objects" not in str(error):
            raise
        raise ValueError(
            f"{name!r} contains pickled objects, which are not read: save it with a plain dtype, "
            "such as np.asarray(values, dtype=str) or dtype=int"
        ) from error
    return values.astype(str) if values.dtype.kind == "S" else values


def named_labels(y: NDArray[Any] | None, classes: NDArray[Any]) -> NDArray[Any] | None:
    """Return the names of labels 0 to K - 1, if the classes are names."""
    if y is None or not y.size or y.dtype.kind not in "iu" or classes.dtype.kind != "U":
        return y
    return classes[y] if y.min() >= 0 and y.max() < classes.size else y
