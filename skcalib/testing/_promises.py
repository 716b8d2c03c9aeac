"""Functions that both suites share: samples, and errors for broken promises.

A check is a function whose docstring states the promise in one line and which raises AssertionError
that says how it is broken. ``assert`` is not used, because ``python -O`` removes it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import softmax

from skcalib._arrays.types import Float64Array

Check = Callable[[Any], None]

NAMES = np.array(["ant", "bee", "cat", "dog", "eel"])


class Sample(NamedTuple):
    """Scores ``S (n, K)``, the columns ``code (n,)`` of the true classes, and a name."""

    S: Float64Array
    code: NDArray[np.intp]
    name: str


def make_sample(
    kind: str, n_classes: int, n: int = 240, seed: int = 0, scale: float = 2.5
) -> Sample:
    """Return scores of an over-confident model and labels drawn from the true probabilities.

    A third of the rows has the scores of another row, so that there are ties.
    """
    rng = np.random.default_rng(seed)
    Z = rng.normal(size=(n, n_classes)) * 1.5 + np.linspace(0, 0.5, n_classes)
    Z[::3] = Z[1::3]
    code = (softmax(Z, axis=1).cumsum(axis=1) < rng.random((n, 1))).sum(axis=1)
    S = scale * Z if kind == "logits" else softmax(scale * Z, axis=1)
    return Sample(S, np.minimum(code, n_classes - 1), f"{kind} of {n_classes} classes")


def kinds_of_labels(n_classes: int) -> list[NDArray[Any]]:
    """Return labels of up to four classes, sorted, of each type that labels may have."""
    kinds = [NAMES, NAMES.astype(object), np.array([-7, -1, 3, 8]), np.arange(1, 5)]
    return [*kinds, np.array([False, True])] if n_classes == 2 else kinds


def spoilt(array: NDArray[Any], at: Any, value: Any) -> NDArray[Any]:
    """Return a copy of an array with other entries at a place."""
    array = array.copy()
    array[at] = value
    return array


def require(condition: bool | np.bool_, how: str) -> None:
    """Raise AssertionError with `how` unless the condition is true."""
    if not condition:
        raise AssertionError(how)


def require_unchanged(
    passed: Mapping[str, NDArray[Any]], before: Mapping[str, NDArray[Any]], name: str
) -> None:
    """Raise AssertionError if an array is not what it was; make all of them read-only."""
    for what, array in passed.items():
        require(np.array_equal(array, before[what]), f"{name}: {what} is changed")
        array.flags.writeable = False


def require_close(found: ArrayLike, expected: ArrayLike, how: str, atol: float) -> None:
    """Raise AssertionError, with the largest difference, unless all numbers are close."""
    a, b = np.asarray(found, dtype=np.float64), np.asarray(expected, dtype=np.float64)
    require(a.shape == b.shape, f"{how}: shape {a.shape} instead of {b.shape}")
    gap = float(np.abs(a - b).max(initial=0.0))
    require(gap <= atol, f"{how}: differs by {gap:.3g}")


def require_refusal(call: Callable[[], Any], what: str, lines: int | None = 1) -> None:
    """Raise AssertionError unless the call ends in a ValueError of `lines` lines (None: any)."""
    try:
        call()
    except ValueError as error:
        found = len(str(error).strip().splitlines())
        require(
            lines in (None, found), f"the error for {what} has {found} lines instead of {lines}"
        )
    except Exception as error:
        raise AssertionError(
            f"{what} raised {type(error).__name__} instead of a ValueError that says what to do"
        ) from error
    else:
        raise AssertionError(f"{what} raised no error")


def run_checks(
    subject: Any, name: str, checks: Sequence[Check], expected: Mapping[str, str] | None
) -> None:
    """Run all checks except those expected to fail; report the first broken promise."""
    left_out = dict(expected or {})
    unknown = sorted(set(left_out) - {check.__name__ for check in checks})
    if unknown:
        raise ValueError(
            f"expected_failed_checks has {unknown[0]!r}, which is none of "
            f"{', '.join(check.__name__ for check in checks)}."
        )
    for check in checks:
        if check.__name__ in left_out:
            continue
        try:
            check(subject)
        except Exception as error:
            how = " ".join(str(error).split())
            if not isinstance(error, AssertionError):
                how = f"raised {type(error).__name__}: {how}"
            promise = (check.__doc__ or "").strip().splitlines()[0].rstrip(".")
            raise AssertionError(f"{name} breaks {check.__name__} ({promise}): {how}") from error
