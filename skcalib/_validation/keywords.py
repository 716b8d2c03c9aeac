r"""Checks of keyword arguments: options, counts, ranges, norms and seeds.

A calibration error with exponent q is :math:`\big(\sum_b \mu_b |\mathrm{gap}_b|^q\big)^{1/q}`.
"""

from __future__ import annotations

import math
import numbers
from typing import Any, Literal

import numpy as np
from sklearn.utils import check_random_state

# Largest number of bins, knots or resamples: with more, NumPy would fail.
COUNT_HIGH = 2**31 - 1
# Advice in errors about the argument `cv`.
WAYS_TO_FOLD = "pass a number of folds, a splitter or (train, test) rows"
# Norm of a calibration error: "l1", "l2", "max", or the exponent q as a number.
MeanNorm = Literal["l1", "l2"] | float
Norm = Literal["l1", "l2", "max"] | float
# In float32, a gap of 2e-4 to the power of 10 is still above 0. Larger powers of small gaps would
# silently underflow to an error of 0.
LARGEST_NORM = 10


def short_repr(value: object) -> str:
    """Return the repr of a value for an error message, shortened to a line of 80 characters."""
    line = " ".join(repr(value).split())
    return line if len(line) <= 80 else f"{line[:77]}..."


def check_option(name: str, value: object, options: tuple[object, ...]) -> None:
    """Refuse a keyword argument whose value is not one of the allowed `options`."""
    if isinstance(value, str) and value in options:
        return
    if not any(value is option or (value == option) is True for option in options):
        raise ValueError(f"{name} must be one of {list(options)}; got {short_repr(value)}.")


def check_count(name: str, value: object, low: int, high: int | None = None) -> None:
    """Refuse a keyword argument that is not a whole number in ``[low, high]``."""
    is_integer = isinstance(value, numbers.Integral) and not isinstance(value, bool)
    most = COUNT_HIGH if high is None else high
    if not is_integer or not low <= value <= most:  # type: ignore[operator]
        open_range = high is None and not (is_integer and value > most)  # type: ignore[operator]
        span = f">= {low}" if open_range else f"from {low} to {most}"
        raise ValueError(f"{name} must be a whole number {span}; got {short_repr(value)}.")


def number_of_bins(n_bins: object, n_rows: float, name: str = "n_bins") -> int:
    """Return the checked number of bins; "cube_root" is the cube root of the number of rows."""
    if isinstance(n_bins, str) and n_bins == "cube_root":
        return max(1, math.ceil(np.cbrt(n_rows) - 1e-9))
    check_count(name, n_bins, 1)
    return int(n_bins)  # type: ignore[call-overload]


def check_between(
    name: str, value: object, low: float, high: float, what: str, low_too: bool = False
) -> None:
    """Refuse a keyword argument outside ``(low, high)``; `what` describes the range."""
    number = isinstance(value, int | float | np.integer | np.floating)
    inside = number and not isinstance(value, bool) and low <= value < high  # type: ignore[operator]
    if not inside or (value == low and not low_too):
        raise ValueError(f"{name} must be {what}; got {short_repr(value)}.")


def check_level(confidence_level: object) -> None:
    """Refuse a confidence level outside (0, 1), or so close to 0 or 1 that quantiles overflow."""
    what = "a number in (0, 1), such as 0.95"
    check_between("confidence_level", confidence_level, 1e-6, 1 - 1e-6, what)


def check_flags(**flags: object) -> None:
    """Refuse a keyword argument that is not True or False (1 or 0)."""
    for name, value in flags.items():
        if not isinstance(value, int | np.bool_) or value not in (0, 1):
            raise ValueError(f"{name} must be True or False; got {short_repr(value)}.")


def check_norm(norm: object, *, name: str = "norm", has_max: bool = True) -> None:
    """Refuse a norm other than "l1", "l2", "max" (with `has_max`) or a number in [1, 10]."""
    names = ["l1", "l2", "max"] if has_max else ["l1", "l2"]
    number = isinstance(norm, int | float | np.integer | np.floating) and not isinstance(norm, bool)
    inside = number and 1 <= norm <= LARGEST_NORM  # type: ignore[operator]
    if not inside and not (isinstance(norm, str) and norm in names):
        raise ValueError(
            f"{name} must be one of {names} or a number from 1 to {LARGEST_NORM}; got "
            f"{short_repr(norm)}."
        )


def exponent(norm: str | float) -> float:
    """Return the exponent q of the norm of an error, such as 2 for "l2".

    1 and 2 are returned as integers, because their powers are faster to compute.
    """
    q = {"l1": 1, "l2": 2}.get(norm, norm) if isinstance(norm, str) else float(norm)
    return int(q) if q in (1, 2) else float(q)


def seed_of(random_state: Any) -> int:
    """Return an integer seed: `random_state` if it is an integer, else a random number.

    With the same integer, all functions draw the same random numbers.
    """
    random = check_seed(random_state)
    if isinstance(random_state, int | np.integer):
        return int(random_state)
    return int(random.randint(2**31))


def spawn_seeds(random_state: Any, number: int) -> list[np.random.SeedSequence]:
    """Return independent random seeds, as many as `number`, derived from `random_state`."""
    entropy = check_seed(random_state).randint(0, 2**32, size=4, dtype=np.uint32)
    return np.random.SeedSequence(entropy.tolist()).spawn(number)


def check_seed(random_state: Any) -> np.random.RandomState:
    """Return the random number generator for `random_state`, or refuse an invalid value."""
    try:
        return check_random_state(random_state)
    except (TypeError, ValueError) as error:
        raise ValueError(
            f"random_state must be None, an integer in [0, 2**32) or a RandomState; got "
            f"{short_repr(random_state)}."
        ) from error
