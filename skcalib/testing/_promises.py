"""Samples and assertions that the checks of calibrators and of metrics share.

A check is a function of a calibrator or metric, or of a calibrator or metric and a sample. The
docstring of a check states the expected property in one line. The check raises AssertionError if
the property is violated. ``assert`` is not used, because ``python -O`` removes it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from inspect import signature
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike, NDArray
from scipy.special import softmax

from skcalib._arrays.rowwise import Float64Array

Check = Callable[..., None]
Array = NDArray[Any]

NAMES = np.array(["ant", "bee", "cat", "dog", "eel"])


class LabelledScores(NamedTuple):
    """Sample for checks: scores, column of the true class of each row, and a name."""

    S: Float64Array
    code: NDArray[np.intp]
    name: str


def make_sample(
    kind: str, n_classes: int, n: int = 240, seed: int = 0, scale: float = 2.5
) -> LabelledScores:
    """Simulate scores of an over-confident model, and labels from the true probabilities.

    A third of the rows have the scores of another row, so that there are ties.
    """
    rng = np.random.default_rng(seed)
    Z = rng.normal(size=(n, n_classes)) * 1.5 + np.linspace(0, 0.5, n_classes)
    Z[::3] = Z[1::3]
    code = (softmax(Z, axis=1).cumsum(axis=1) < rng.random((n, 1))).sum(axis=1)
    S = scale * Z if kind == "logits" else softmax(scale * Z, axis=1)
    return LabelledScores(S, np.minimum(code, n_classes - 1), f"{kind} of {n_classes} classes")


def kinds_of_labels(n_classes: int) -> list[NDArray[Any]]:
    """Return sorted class labels of several Python types, such as strings."""
    kinds = [NAMES, NAMES.astype(object), np.array([-7, -1, 3, 8]), np.arange(1, 5)]
    return [*kinds, np.array([False, True])] if n_classes == 2 else kinds


def layouts_of(S: NDArray[Any]) -> dict[str, Any]:
    """Return copies of scores in other memory layouts, as a list, and as a data frame."""
    index = np.arange(len(S))[::-1] + 3
    return {
        "Fortran order": np.asfortranarray(S),
        "every second column": np.repeat(S, 2, axis=1)[:, ::2],
        "a frame": pd.DataFrame(S, index, columns=list(NAMES[: S.shape[1]])),
        "a list": S.tolist(),
    }


def spoilt(array: NDArray[Any], at: Any, value: Any) -> NDArray[Any]:
    """Copy an array, and replace the entries at an index by an invalid value."""
    array = array.copy()
    array[at] = value
    return array


def bad_weights(n: int) -> dict[str, NDArray[np.float64]]:
    w = np.ones(n)
    return {
        "a negative weight": spoilt(w, 7, -1.0),
        "a weight of NaN": spoilt(w, 7, np.nan),
        "weights that are all 0": 0 * w,
        "weights for another number of rows": w[1:],
    }


def equal_weights(n: int) -> dict[str, tuple[Any, Any]]:
    """Return pairs of weight vectors, one a multiple of the other, by description."""
    w = np.random.default_rng(2).lognormal(size=n)
    return {"2.0 everywhere": (None, np.full(n, 2.0)), "1000.5 times": (w, 1000.5 * w)}


def require(condition: bool | np.bool_, how: str) -> None:
    """Raise AssertionError with the message `how` unless a condition is true."""
    if not condition:
        raise AssertionError(how)


def require_unchanged(
    passed: Mapping[str, NDArray[Any]], before: Mapping[str, NDArray[Any]], name: str
) -> None:
    """Raise AssertionError if an array has changed; make all arrays read-only."""
    for what, array in passed.items():
        require(np.array_equal(array, before[what]), f"{name}: {what} is changed")
        array.flags.writeable = False


def require_close(actual: ArrayLike, expected: ArrayLike, how: str, atol: float) -> None:
    """Raise AssertionError with the largest difference unless two arrays are close."""
    a, b = np.asarray(actual, dtype=np.float64), np.asarray(expected, dtype=np.float64)
    require(a.shape == b.shape, f"{how}: shape {a.shape} instead of {b.shape}")
    gap = float(np.abs(a - b).max(initial=0.0))
    require(gap <= atol, f"{how}: differs by {gap:.3g}")


def require_refusal(call: Callable[[], Any], what: str, one_line: bool = True) -> None:
    """Raise AssertionError unless a call raises ValueError (with `one_line`, in one line)."""
    try:
        call()
    except ValueError as error:
        n_lines = len(str(error).strip().splitlines())
        require(n_lines == 1 or not one_line, f"the error for {what} has {n_lines} lines, not 1")
    except Exception as error:
        raise AssertionError(
            f"{what} raised {type(error).__name__} instead of a ValueError that tells users what "
            "to do"
        ) from error
    else:
        raise AssertionError(f"{what} raised no error")


def kinds_of(calibrator: Any) -> tuple[str, ...]:
    kind = calibrator.get_params(deep=False).get("input", "auto")
    return (kind,) if kind in ("logits", "proba") else ("logits", "proba")


def samples(calibrator: Any, sizes: tuple[int, ...] = (2, 4)) -> Iterator[LabelledScores]:
    for kind in kinds_of(calibrator):
        for n_classes in sizes:
            yield make_sample(kind, n_classes)


def checks_in(module: Mapping[str, Any]) -> tuple[Check, ...]:
    """Return the functions of a module whose names begin with check_, in source order."""
    return tuple(check for name, check in module.items() if name.startswith("check_"))


def run_checks(
    subject: Any,
    name: str,
    checks: Sequence[Check],
    draw_samples: Callable[[], Iterator[LabelledScores]],
    expected: Mapping[str, str] | None,
) -> None:
    """Run all checks except those expected to fail; raise the error of the first failed check."""
    left_out = dict(expected or {})
    unknown = sorted(set(left_out) - {check.__name__ for check in checks})
    if unknown:
        raise ValueError(
            f"expected_failed_checks has {unknown[0]!r}, which is not one of "
            f"{', '.join(check.__name__ for check in checks)}."
        )
    for check in checks:
        if check.__name__ in left_out:
            continue
        takes_sample = len(signature(check).parameters) > 1
        try:
            for sample in draw_samples() if takes_sample else [()]:
                check(subject, *sample)
        except Exception as error:
            how = " ".join(str(error).split())
            if not isinstance(error, AssertionError):
                how = f"raised {type(error).__name__}: {how}"
            promise = (check.__doc__ or "").strip().splitlines()[0].rstrip(".")
            raise AssertionError(f"{name} breaks {check.__name__} ({promise}): {how}") from error
