"""Hostile values of each argument, and what a call with them must end in.

A value is the "same" as a clean one (another layout, container or type: the answer must be that of
the clean value), it is "refused" (an error that names the argument), or it is "either": the answer
must be a valid one, or the error must name the argument.
"""

from __future__ import annotations

import tempfile
import warnings
from collections.abc import Callable
from decimal import Decimal
from fractions import Fraction
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
import polars as pl
import scipy.sparse as sp

Array = Any


# --- forms of arrays -------------------------------------------------------------------------


class AsArray:
    """An object that is none of the known containers and turns itself into an array."""

    def __init__(self, values: Array) -> None:
        self.values = values

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> Array:
        """Return the values."""
        return np.array(self.values, dtype=dtype)


class Refuses:
    """An object whose conversion fails, as that of a remote array may."""

    shape = (40, 3)
    ndim = 2
    dtype = np.dtype(float)

    def __len__(self) -> int:
        return self.shape[0]

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> Array:
        """Fail."""
        raise TypeError("no array here")


class Lazy(Refuses):
    """An array of 7 GiB that is computed when it is read."""

    shape = (10**6, 1000)

    def __dask_graph__(self) -> dict[str, Any]:
        """Return something: it is lazy."""
        return {}

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> Array:
        """Fail."""
        raise AssertionError("a lazy array was read")


def spoilt(values: Array, at: Any, value: Any, dtype: Any = None) -> Array:
    """Return a copy in which some entries are others."""
    changed = np.array(values, dtype=dtype)
    changed[at] = value
    return changed


def memory_mapped(values: Array) -> Array:
    """Write the values to a file that has no name any more, and map it."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "values.npy"
        np.save(path, values)
        return np.load(path, mmap_mode="r")


def read_only(values: Array) -> Array:
    """Return a copy that cannot be written to."""
    fixed = np.array(values)
    fixed.flags.writeable = False
    return fixed


def unaligned(values: Array) -> Array:
    """Return a copy that does not begin at a multiple of its items' size."""
    room = np.zeros(values.nbytes + 1, dtype=np.uint8)[1:]
    moved = room.view(values.dtype).reshape(values.shape)
    moved[...] = values
    return moved


def as_matrix(values: Array) -> Array:
    """Return a np.matrix; its making warns, which is no concern of a call with it."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", PendingDeprecationWarning)
        return np.asmatrix(values)


def with_nulls(values: Array, frame: bool) -> Any:
    """Return a polars frame or series whose third row is missing."""
    if not frame:
        return pl.Series([None if i == 2 else v for i, v in enumerate(values.tolist())])
    return pl.DataFrame(
        {str(j): [None if i == 2 else v for i, v in enumerate(c)] for j, c in enumerate(values.T)}
    )


def layouts(values: Array) -> dict[str, Callable[[], Any]]:
    """Return other layouts and containers of an array: the same numbers."""
    table = values.ndim == 2
    frame = pd.DataFrame if table else pd.Series
    index = np.arange(len(values))[::-1] + 7
    return {
        "Fortran order": lambda: np.asfortranarray(values),
        "every second entry": lambda: np.repeat(values, 2, axis=-1)[..., ::2],
        "reversed strides": lambda: values[::-1].copy()[::-1],
        "read-only": lambda: read_only(values),
        "memmap": lambda: memory_mapped(values),
        "list": values.tolist,
        "tuple": lambda: tuple(map(tuple, values.tolist())) if table else tuple(values.tolist()),
        "list of arrays": lambda: list(values),
        "object array": lambda: values.astype(object),
        "pandas": lambda: frame(values),
        "pandas, odd index": lambda: frame(values, index=index).add_prefix("c"),
        "pandas, repeated index": lambda: frame(values, index=0 * index),
        "polars": lambda: (
            pl.DataFrame(values, schema=[str(j) for j in range(values.shape[1])])
            if table
            else pl.Series(values.tolist())
        ),
        "masked, nothing masked": lambda: np.ma.masked_array(values),
        "converts itself": lambda: AsArray(values),
    }


def number_layouts(values: Array) -> dict[str, Callable[[], Any]]:
    """Return other types of the same numbers."""
    frame = pd.DataFrame if values.ndim == 2 else pd.Series
    return {
        "big-endian": lambda: values.astype(values.dtype.newbyteorder(">")),
        "longdouble": lambda: values.astype(np.longdouble),
        "unaligned": lambda: unaligned(values),
        "pandas nullable": lambda: frame(values).astype("Float64"),
        "pandas objects": lambda: frame(values).astype(object),
    }


def nonsense(n: int) -> dict[str, Callable[[], Any]]:
    """Return what is no array of n rows of anything."""
    return {
        "string": lambda: "scores",
        "bytes": lambda: b"scores",
        "dict": lambda: {"a": 1},
        "set": lambda: {1, 2},
        "generator": lambda: (i for i in range(n)),
        "object": object,
        "objects": lambda: [object() for _ in range(n)],
        "function": lambda: print,
        "class": lambda: np.ndarray,
        "NaN alone": lambda: np.nan,
        "empty list": list,
        "empty array": lambda: np.empty(0),
        "empty frame": pd.DataFrame,
        "0-d array": lambda: np.array(1.0),
        "refuses to convert": Refuses,
        "lazy": Lazy,
        "None in a list": lambda: [None] * n,
        "ragged": lambda: [[0.5, 0.5]] * (n - 1) + [[0.5]],
        "dates": lambda: np.full(n, np.datetime64("2020-01-01")),
        "spans of time": lambda: np.full(n, np.timedelta64(3, "s")),
        "records": lambda: np.zeros(n, dtype=[("a", float), ("b", int)]),
        "complex": lambda: np.full(n, 0.5 + 1j),
        "three axes": lambda: np.full((n, 2, 2), 0.5),
        "sparse vector": lambda: sp.csr_matrix(np.ones((n, 1))),
    }


# --- hostile values --------------------------------------------------------------------------


class Hostile(NamedTuple):
    """A value, what it must end in, the clean equal of "same", and other arguments at fault.

    ``also`` are values of other roles that come with it, ``copies`` the rows that equal it, and
    ``says`` is a pattern that the error must contain.
    """

    value: Any
    verdict: str
    clean: Any = None
    beside: tuple[str, ...] = ()
    also: dict[str, Any] = {}  # noqa: RUF012
    copies: Any = None
    says: str = ""


def hostile_scores(S: Array, kind: str) -> dict[str, Callable[[], Hostile]]:
    """Return hostile forms of scores ``(n, K)`` or ``(n,)``, probabilities or logits."""
    n = len(S)
    table = S.ndim == 2
    single, half = S.astype(np.float32), S.astype(np.float16)
    clip = np.clip(S, 0, 1)
    hard = np.eye(S.shape[1])[S.argmax(axis=1)] if table else np.round(clip)
    whole = hard if kind == "proba" else np.round(S)
    far = S * 1e6 if kind == "logits" else hard
    same: dict[str, tuple[Callable[[], Any], Any]] = {
        **{name: (make, S) for name, make in {**layouts(S), **number_layouts(S)}.items()},
        "float32": (lambda: single, single.astype(float)),
        "float32, big-endian": (lambda: single.astype(">f4"), single.astype(float)),
        "float16": (lambda: half, half.astype(np.float32)),
        "integers": (lambda: whole.astype(int), whole),
        "int8": (lambda: whole.clip(-9, 9).astype(np.int8), whole.clip(-9, 9)),
        "integers in a list": (lambda: whole.astype(int).tolist(), whole),
        "fractions": (lambda: np.frompyfunc(Fraction, 1, 1)(S).tolist(), S),
        "decimals": (lambda: np.frompyfunc(Decimal, 1, 1)(S).tolist(), S),
        "far apart": (lambda: np.asfortranarray(far), far),
    }
    if kind == "proba" and table:
        same["booleans"] = (lambda: hard.astype(bool), hard)
    if not table:
        same["a column"] = (lambda: S[:, None], S)
        if kind == "proba":
            for name in ("integers", "int8", "integers in a list"):
                del same[name]
    else:
        turned = [f"p_{k}" for k in range(S.shape[1])][::-1]
        same["named columns"] = (lambda: pd.DataFrame(S[:, ::-1], columns=turned), S)
        same["named columns, polars"] = (lambda: pl.DataFrame(S[:, ::-1], schema=turned), S)
        if kind == "proba":
            same["sums of 1.0008"] = (lambda: 1.0008 * S, S)
            same["sums of 1.000004"] = (lambda: 1.000004 * S, 1.000004 * S)
    spots: Any = (2, slice(None)) if table else 2
    spot: Any = (2, 0) if table else 2
    refused: dict[str, Callable[[], Any]] = {
        **nonsense(n),
        "None": lambda: None,
        "NaN": lambda: spoilt(S, spot, np.nan),
        "NaN, float16": lambda: spoilt(half, spot, np.nan),
        "all NaN": lambda: np.full(S.shape, np.nan),
        "+inf": lambda: spoilt(S, spot, np.inf),
        "numbers beyond float64": lambda: S.astype(np.longdouble) * np.longdouble(10) ** 400 + 1e9,
        "whole numbers beyond float64": lambda: spoilt(S, spot, 10**400, object).tolist(),
        "None among numbers": lambda: spoilt(S, spot, None, object),
        "NA among numbers": lambda: spoilt(S, spot, pd.NA, object),
        "words among numbers": lambda: spoilt(S, spot, "much", object),
        "lists among numbers": lambda: [[v, []] for v in S.tolist()],
        "words": lambda: np.full(S.shape, "much"),
        "bytes in an array": lambda: np.full(S.shape, b"much"),
        "complex of this shape": lambda: S + 1j,
        "complex in a list": lambda: (S + 1j).tolist(),
        "dates of this shape": lambda: np.full(S.shape, np.datetime64("2020-01-01")),
        "spans of this shape": lambda: np.full(S.shape, np.timedelta64(1, "s")),
        "pandas with NaN": lambda: pd.DataFrame(spoilt(S, spot, np.nan)),
        "pandas with NA": lambda: pd.DataFrame(spoilt(S, spot, np.nan)).astype("Float64"),
        "pandas with words": lambda: pd.DataFrame(S).assign(word="much"),
        "polars with null": lambda: with_nulls(S if table else S[:, None], frame=True),
        "one masked": lambda: np.ma.masked_array(S, mask=spoilt(np.zeros(S.shape, bool), spot, 1)),
        "sparse matrix": lambda: sp.csr_matrix(S if table else S[:, None]),
        "sparse array": lambda: sp.coo_array(S if table else S[:, None]),
        "sparse columns": lambda: sp.csc_matrix(S if table else S[:, None]),
        "no rows": lambda: S[:0],
        "three axes of this": lambda: S[..., None, None],
    }
    if table:
        refused["no columns"] = lambda: S[:, :0]
        refused["ragged rows"] = lambda: [row[: 1 + i % 2] for i, row in enumerate(S.tolist())]
        refused["a list of -inf rows"] = lambda: spoilt(S, spots, -np.inf).tolist()
    if kind == "proba" and not table:
        refused["one value of 1.3"] = lambda: spoilt(S, spot, 1.3)
    if kind == "proba" and table:
        refused["one odd row"] = lambda: np.where(np.arange(n)[:, None] == 2, 1.3 * S, S)
        refused["a row of logits"] = lambda: spoilt(S, spots, np.arange(S.shape[1]) - 1.5)
        refused["percentages"] = lambda: 100 * S
        refused["a row that sums to 0.7"] = lambda: np.where(np.arange(n)[:, None] == 2, 0.7 * S, S)
        refused["a row of 0"] = lambda: spoilt(S, spots, 0.0)
    either: dict[str, Callable[[], Any]] = {
        "two decimals": lambda: np.round(S, 2),
        "on the edges of bins": lambda: (np.round(S * 10) / 10).astype(np.float32),
        "on the edges of bins, float16": lambda: (np.round(S * 20) / 20).astype(np.float16),
        "one row fewer": lambda: S[:-1],
        "one row": lambda: S[:1],
        "twice the rows": lambda: np.concatenate([S, S]),
        "numbers as words": lambda: S.astype(str),
        "one value": lambda: np.broadcast_to(S[:1], S.shape),
        "matrix": lambda: as_matrix(S),
        "1e308": lambda: np.sign(S) * 1e308,
        "tiny": lambda: S * 1e-310,
        "a number alone": lambda: 0.5,
        "flat": lambda: S.ravel(),
        "transposed": lambda: S.T,
    }
    if table:
        either["-inf here and there"] = lambda: spoilt(S, (slice(None, None, 3), 0), -np.inf)
        either["one column more"] = lambda: np.hstack([S, S[:, :1]])
        either["the first column"] = lambda: S[:, :1]
        either["one row as a vector"] = lambda: S[0]
        either["some names"] = lambda: pd.DataFrame(S, columns=["p_0", *"xyz"[: S.shape[1] - 1]])
        either["a few probability vectors"] = lambda: spoilt(
            S, slice(3), np.eye(S.shape[1])[[0, -1, -1]]
        )
    if kind == "logits" and not table:  # +inf is P = 1
        for name in ("+inf", "numbers beyond float64"):
            either[name] = refused.pop(name)
    if table and S.shape[1] > 1:  # probability vectors but for one row
        either["a negative probability"] = lambda: spoilt(S, (2, slice(2)), [1.2, -0.2])
    return _collect(same, refused, either, beside=("y", "y_true", "sample_weight", "at"))


def hostile_labels(code: Array, n_classes: int) -> dict[str, Callable[[], Hostile]]:
    """Return hostile forms of labels ``0..K-1``, all of which occur."""
    n = len(code)
    names = np.array([f"c{k:03d}" for k in range(n_classes)])
    words = names[code]
    same: dict[str, tuple[Callable[[], Any], Any]] = {
        name: (make, code)
        for name, make in {
            **layouts(code),
            "words": lambda: words,
            "words, objects": lambda: words.astype(object),
            "words, list": words.tolist,
            "words, NumPy scalars": lambda: list(words),
            "bytes": lambda: words.astype(bytes),
            "pandas categories": lambda: pd.Series(pd.Categorical(words)),
            "pandas words": lambda: pd.Series(words),
            "pandas string type": lambda: pd.Series(words, dtype="string"),
            "pandas nullable": lambda: pd.Series(code, dtype="Int64"),
            "polars words": lambda: pl.Series(words.tolist()),
            "polars categories": lambda: pl.Series(words.tolist(), dtype=pl.Categorical),
            "index": lambda: pd.Index(words),
            "big-endian": lambda: code.astype(">i8"),
            "uint8": lambda: code.astype(np.uint8),
            "int8": lambda: code.astype(np.int8) - 100,
            "floats": lambda: code.astype(float),
            "float16": lambda: code.astype(np.float16),
            "longdouble": lambda: code.astype(np.longdouble),
            "negative": lambda: code - 99,
            "huge": lambda: code.astype(np.uint64) + np.uint64(2**63),
            "a column": lambda: code[:, None],
            "a frame of one column": lambda: pd.DataFrame({"y": code}),
        }.items()
    }
    if n_classes == 2:
        same["booleans"] = (lambda: code.astype(bool), code)
        same["booleans in a list"] = (code.astype(bool).tolist, code)
        same["booleans as objects"] = (lambda: code.astype(bool).astype(object), code)
        same["pandas booleans"] = (lambda: pd.Series(code.astype(bool), dtype="boolean"), code)
    refused: dict[str, Callable[[], Any]] = {
        **nonsense(n),
        "None": lambda: None,
        "a number": lambda: 1,
        "NaN": lambda: spoilt(code, 2, np.nan, float),
        "+inf": lambda: spoilt(code, 2, np.inf, float),
        "None among words": lambda: spoilt(words, 2, None, object),
        "NaN among words": lambda: spoilt(words, 2, np.nan, object),
        "NA among numbers": lambda: pd.Series(spoilt(code, 2, pd.NA, object), dtype="Int64"),
        "NaT among words": lambda: spoilt(words, 2, pd.NaT, object),
        "polars with null": lambda: with_nulls(code, frame=False),
        "one masked": lambda: np.ma.masked_array(code, mask=np.arange(n) == 2),
        "words and numbers": lambda: spoilt(words, 2, 3, object),
        "words and numbers in a list": lambda: [*words.tolist()[:-1], 3],
        "words and bytes": lambda: spoilt(words, 2, b"c001", object),
        "one row fewer": lambda: code[:-1],
        "one row more": lambda: np.append(code, 0),
        "one-hot": lambda: np.eye(max(n_classes, 2))[code],
        "one-hot, a list": lambda: np.eye(max(n_classes, 2), dtype=int)[code].tolist(),
        "continuous": lambda: code + 0.5,
        "continuous in one row": lambda: spoilt(code, 2, 0.25, float),
        "beyond 64 bits": lambda: [int(k) + 10**30 for k in code],
        "fractions": lambda: [Fraction(int(k)) for k in code],
        "decimals": lambda: [Decimal(int(k)) for k in code],
        "lists of labels": lambda: [[k] * (1 + i % 2) for i, k in enumerate(code.tolist())],
        "tuples as objects": lambda: pd.Series([(k,) for k in code.tolist()]),
        "dicts": lambda: [{k: k} for k in code.tolist()],
        "sparse": lambda: sp.csr_matrix(code),
        "polars frame": lambda: pl.DataFrame({"a": code, "b": code}),
        "K + 1 classes": lambda: np.arange(n) % (n_classes + 1),
        "all labels distinct": lambda: np.arange(n),
    }
    either: dict[str, Callable[[], Any]] = {
        "all 0": lambda: 0 * code,
        "all one word": lambda: np.full(n, "c000"),
        "the last class is missing": lambda: np.minimum(code, max(n_classes - 2, 0)),
        "the first class is missing": lambda: np.maximum(code, min(1, n_classes - 1)),
        "negative zero": lambda: np.where(code == 0, -0.0, code),
        "booleans for any K": lambda: code > 0,
        "words with spaces": lambda: np.char.add(words, " "),
        "empty words": lambda: np.where(code == 0, "", words),
        "not ASCII": lambda: np.char.add(words, "\u00e9\n"),
        "booleans and numbers": lambda: [bool(k) if k < 2 else int(k) for k in code.tolist()],
        "matrix": lambda: as_matrix(code).T,
        "a row": lambda: code[None, :],
    }
    return _collect(
        same, refused, either, beside=("X", "y_proba", "logits", "classes", "labels", "cv")
    )


def hostile_weights(w: Array) -> dict[str, Callable[[], Hostile]]:
    """Return hostile forms of weights, all of which are whole and positive."""
    n = len(w)
    same: dict[str, tuple[Callable[[], Any], Any]] = {
        **{name: (make, w) for name, make in {**layouts(w), **number_layouts(w)}.items()},
        "float32": (lambda: w.astype(np.float32), w),
        "fractions": (lambda: [Fraction(int(v)) for v in w], w),
        "a number": (lambda: 2.0, np.full(n, 2.0)),
        "None": (lambda: None, np.ones(n)),
    }
    refused: dict[str, Callable[[], Any]] = {
        **nonsense(n),
        "negative": lambda: spoilt(w, 2, -1),
        "negative, a list": lambda: spoilt(w, 2, -1).tolist(),
        "NaN": lambda: spoilt(w, 2, np.nan),
        "+inf": lambda: spoilt(w, 2, np.inf),
        "all 0": lambda: 0 * w,
        "one row fewer": lambda: w[:-1],
        "one row more": lambda: np.append(w, 1),
        "two columns": lambda: np.c_[w, w],
        "one weight": lambda: [1.0],
        "words": lambda: np.full(n, "much"),
        "words as objects": lambda: spoilt(w, 2, "much", object),
        "None in a row": lambda: spoilt(w, 2, None, object),
        "NA": lambda: pd.Series(w, dtype="Float64").where(pd.Series(np.arange(n) != 2), pd.NA),
        "polars with null": lambda: with_nulls(w, frame=False),
        "one masked": lambda: np.ma.masked_array(w, mask=np.arange(n) == 2),
        "complex of this shape": lambda: w + 1j,
        "beyond float64": lambda: spoilt(w, 2, 10**400, object).tolist(),
        "-1": lambda: -1,
        "sparse": lambda: sp.csr_matrix(w),
        "balanced": lambda: "balanced",
        "by class": lambda: {0: 1.0, 1: 2.0},
    }
    either: dict[str, Callable[[], Any]] = {
        "a column": lambda: w[:, None],
        "tiny": lambda: w * 1e-300,
        "below the normal numbers": lambda: w * 5e-324,
        "huge": lambda: w * 1e307,
        "far apart": lambda: np.where(np.arange(n) % 2 == 0, 1e-12, 1e12),
        "one row alone": lambda: (np.arange(n) == 2).astype(float),
        "numbers as words": lambda: w.astype(str),
        "minus zero": lambda: np.where(np.arange(n) == 2, -0.0, w),
        "matrix": lambda: as_matrix(w),
    }
    return _collect(
        same,
        refused,
        either,
        beside=("y", "y_true", "X", "y_proba", "logits", "classes", "labels", "cv"),
    )


def hostile_classes(n_classes: int) -> dict[str, Callable[[], Hostile]]:
    """Return hostile forms of the labels of the columns ``0..K-1``."""
    known = np.arange(n_classes)
    same: dict[str, tuple[Callable[[], Any], Any]] = {
        name: (make, known)
        for name, make in {
            **layouts(known),
            "None": lambda: None,
            "range": lambda: range(n_classes),
            "floats": lambda: known.astype(float),
            "uint8": lambda: known.astype(np.uint8),
            "pandas categories": lambda: pd.Series(pd.Categorical(known)),
        }.items()
    }
    odd = nonsense(n_classes)
    # A dict, a set and a generator of the right labels are not refused for what they hold.
    refused: dict[str, Callable[[], Any]] = {
        **{name: make for name, make in odd.items() if name not in ("set", "generator")},
        "other labels": lambda: known + 7,
        "words": lambda: [f"c{k}" for k in known],
        "one twice": lambda: [0, *known[:-1]],
        "one fewer": lambda: known[:-1],
        "one more": lambda: [*known, n_classes],
        "NaN": lambda: spoilt(known, 0, np.nan, float),
        "None among them": lambda: [None, *known[1:]],
        "words and numbers": lambda: ["a", *known[1:]],
        "two axes": lambda: np.c_[known, known],
        "a number": lambda: n_classes,
        "continuous": lambda: known + 0.5,
    }
    either: dict[str, Callable[[], Any]] = {
        # The columns in another order, which a calibrator refuses.
        "turned round": lambda: known[::-1],
        "set": lambda: set(known.tolist()),
        "generator": lambda: (k for k in known.tolist()),
        "a column": lambda: known[:, None],
        "dict keys": lambda: dict.fromkeys(known.tolist()).keys(),
    }
    return _collect(same, refused, either, beside=("y", "y_true", "X", "y_proba"))


# For any keyword that is no data: taken or refused, but never more than that.
ODD_VALUES: tuple[tuple[str, Callable[[], Any]], ...] = (
    ("None", lambda: None),
    ("unheard of", lambda: "unheard-of"),
    ("empty word", lambda: ""),
    ("bytes", lambda: b"mean"),
    ("-1", lambda: -1),
    ("0", lambda: 0),
    ("1", lambda: 1),
    ("2.0", lambda: 2.0),
    ("2.5", lambda: 2.5),
    ("1e-300", lambda: 1e-300),
    ("1e300", lambda: 1e300),
    ("NaN", lambda: np.nan),
    ("+inf", lambda: np.inf),
    ("-inf", lambda: -np.inf),
    ("complex", lambda: 1j),
    ("True", lambda: True),
    ("False", lambda: False),
    ("NumPy 3", lambda: np.int8(3)),
    ("NumPy True", lambda: np.True_),
    ("NumPy NaN", lambda: np.float32(np.nan)),
    ("NA", lambda: pd.NA),
    ("5 as a word", lambda: "5"),
    ("empty list", list),
    ("list", lambda: [1, 2]),
    ("array", lambda: np.array([0.2, 0.4])),
    ("0-d array", lambda: np.array(3)),
    ("empty array", lambda: np.empty(0)),
    ("dict", lambda: {"a": 1}),
    ("object", object),
    ("class", lambda: int),
    ("function", lambda: len),
    ("date", lambda: np.datetime64("2020-01-01")),
    ("10**40", lambda: 10**40),
    ("fraction", lambda: Fraction(1, 3)),
    ("decimal", lambda: Decimal("0.5")),
)


def _collect(
    same: dict[str, tuple[Callable[[], Any], Any]],
    refused: dict[str, Callable[[], Any]],
    either: dict[str, Callable[[], Any]],
    beside: tuple[str, ...],
) -> dict[str, Callable[[], Hostile]]:
    """Put the three verdicts into one table; values are made only when they are drawn."""
    table: dict[str, Callable[[], Hostile]] = {}
    for name, (make, clean) in same.items():
        table[name] = lambda make=make, clean=clean: Hostile(make(), "same", clean)  # type: ignore
    for name, make in refused.items():
        table[name] = lambda make=make: Hostile(make(), "refused", beside=beside)  # type: ignore
    for name, make in either.items():
        table[name] = lambda make=make: Hostile(make(), "either", beside=beside)  # type: ignore
    return table
