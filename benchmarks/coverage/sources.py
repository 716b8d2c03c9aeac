"""Models whose true probabilities are known, and their errors as the number of rows grows.

A model "x1.25" has 1.25 times the true logits T: it is overconfident.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.special import softmax

from skcalib import metrics

Array = NDArray[np.float64]

# Standard deviation of the true logits, so that the top class is right in most rows.
SCALE = {2: 1.5, 3: 1.5, 5: 2.0, 10: 2.5, 100: 3.5, 1000: 4.5}
# Entries of the predictions whose error is the limit, and the most rows.
POPULATION_ENTRIES, POPULATION_ROWS = 20_000_000, 400_000


class Rows(NamedTuple):
    """True probabilities and those of one model or two ``(n, K)``, and weights ``(n,)``."""

    truth: Array
    models: list[Array]
    w: Array


class Error(NamedTuple):
    """A metric of K classes, and the same of one event: of the top label, or of each class."""

    metric: Callable[..., Any]
    of_event: Callable[..., Any]
    classwise: bool


def of_top_label(metric: Callable[..., Any]) -> Error:
    """Return an error of the top label, which is that of one event."""
    return Error(metric, metric, False)


_ece = metrics.expected_calibration_error
ERRORS: dict[str, Error] = {
    "ECE": of_top_label(_ece),
    "SCE": Error(metrics.static_calibration_error, _ece, True),
    "ACE": Error(metrics.adaptive_calibration_error, partial(_ece, strategy="quantile"), True),
    "KS": of_top_label(metrics.ks_calibration_error),
    "KS, class-wise": Error(
        partial(metrics.ks_calibration_error, mode="classwise"), metrics.ks_calibration_error, True
    ),
    "RMSCE": of_top_label(metrics.root_mean_squared_calibration_error),
    "debiased l2": Error(
        metrics.debiased_calibration_error,
        partial(
            metrics.general_calibration_error,
            strategy="quantile",
            norm="l2",
            quantile_method="split",
        ),
        False,
    ),
    "smooth": of_top_label(metrics.smooth_calibration_error),
    "soft-binned": of_top_label(metrics.soft_binned_calibration_error),
    "MMCE": of_top_label(metrics.maximum_mean_calibration_error),
}


# --- truths and models ----------------------------------------------------------------------


def normal(n: int, K: int, rng: np.random.Generator) -> Array:
    """Draw true logits."""
    return SCALE[K] * rng.normal(size=(n, K))


def heavy_tailed(n: int, K: int, rng: np.random.Generator) -> Array:
    """Draw true logits of Student's t with two degrees of freedom."""
    return SCALE[K] / 2 * rng.standard_t(2, size=(n, K))


def times(*factors: float, logits: Callable[..., Array] = normal) -> Callable[..., Rows]:
    """Return models whose logits are too large by factors."""

    def draw(n: int, K: int, rng: np.random.Generator) -> Rows:
        T = logits(n, K, rng)
        return Rows(softmax(T, axis=1), [softmax(f * T, axis=1) for f in factors], np.ones(n))

    return draw


def shifted(*sizes: float, factor: float = 1.0) -> Callable[..., Rows]:
    """Return models whose classes are shifted: logits of odd ones up, of even ones down."""

    def draw(n: int, K: int, rng: np.random.Generator) -> Rows:
        T = normal(n, K, rng)
        sign = np.where(np.arange(K) % 2, 1.0, -1.0)
        return Rows(
            softmax(T, axis=1), [softmax(factor * T + s * sign, axis=1) for s in sizes], np.ones(n)
        )

    return draw


def prior_shift(n: int, K: int, rng: np.random.Generator) -> Rows:
    """Return a model of rows in which the first class was e times as common."""
    T = normal(n, K, rng)
    shift = np.where(np.arange(K) == 0, 1.0, 0.0)
    return Rows(softmax(T, axis=1), [softmax(T + shift, axis=1)], np.ones(n))


def jagged(*factors: float) -> Callable[..., Rows]:
    """Return models of a truth that lies .07 above and below by turns, as the top score grows."""

    def draw(n: int, K: int, rng: np.random.Generator) -> Rows:
        T = normal(n, K, rng)
        P = softmax(T, axis=1)
        top, s = P.argmax(axis=1)[:, None], P.max(axis=1, keepdims=True)
        moved = np.clip(s + np.where(s // 0.07 % 2, 0.07, -0.07), 0.0, 1.0)
        # The other classes share what is left as they did; a top score of 1 leaves nothing.
        truth = P * (1 - moved) / np.maximum(1 - s, 1e-12)
        np.put_along_axis(truth, top, moved, axis=1)
        truth /= truth.sum(axis=1, keepdims=True)
        return Rows(truth, [softmax(f * T, axis=1) for f in factors], np.ones(n))

    return draw


def rounded(n: int, K: int, rng: np.random.Generator) -> Rows:
    """Round probabilities to hundredths that sum to 1: the largest remainders are rounded up."""
    T = normal(n, K, rng)
    units = 100 * softmax(1.25 * T, axis=1)
    whole = np.floor(units)
    rank = np.argsort(np.argsort(whole - units, axis=1), axis=1)
    P = (whole + (rank < 100 - whole.sum(axis=1, keepdims=True))) / 100
    return Rows(softmax(T, axis=1), [P], np.ones(n))


def weighted(n: int, K: int, rng: np.random.Generator) -> Rows:
    """Weigh rows unevenly, sure ones more."""
    rows = times(1.25)(n, K, rng)
    return rows._replace(w=(0.1 + rng.exponential(size=n)) * rows.models[0].max(axis=1))


def noisy_labels(*shares: float) -> Callable[..., Rows]:
    """Return models that count on a share of random labels; the true share is a tenth."""

    def draw(n: int, K: int, rng: np.random.Generator) -> Rows:
        P = softmax(normal(n, K, rng), axis=1)
        return Rows(0.9 * P + 0.1 / K, [(1 - s) * P + s / K for s in shares], np.ones(n))

    return draw


def mixture(*factors: tuple[float, float]) -> Callable[..., Rows]:
    """Return mixtures of two models: one factor of the logits for some rows, one for the others."""

    def draw(n: int, K: int, rng: np.random.Generator) -> Rows:
        T, first = normal(n, K, rng), rng.random((n, 1)) < 0.5
        P = [softmax(np.where(first, a, b) * T, axis=1) for a, b in factors]
        return Rows(softmax(T, axis=1), P, np.ones(n))

    return draw


# One model; the last two were not used to choose the method.
TRUTHS: dict[str, Callable[..., Rows]] = {
    "calibrated": times(1.0),
    "x1.05": times(1.05),
    "x1.25": times(1.25),
    "x2": times(2.0),
    "classes shifted": shifted(0.3),
    "jagged": jagged(1.0),
    "ties": rounded,
    "weights": weighted,
    "heavy tails": times(1.25, logits=heavy_tailed),
    "label noise": noisy_labels(0.0),
    "mixture": mixture((1.5, 0.7)),
    "x0.7": times(0.7),
    "prior shift": prior_shift,
}
# The model before and the one after.
PAIRS: dict[str, Callable[..., Rows]] = {
    "x1.4 to x1": times(1.4, 1.0),
    "x1 to x1.05": times(1.0, 1.05),
    "x1 to x1.2": times(1.0, 1.2),
    "x2 to x1.25": times(2.0, 1.25),
    "classes shifted, x1.25 to half": shifted(0.3, 0.15, factor=1.25),
    "classes shifted to x1": shifted(0.3, 0.0),
    "jagged, x1.25 to x1": jagged(1.25, 1.0),
    "heavy tails, x1.25 to x1": times(1.25, 1.0, logits=heavy_tailed),
    "label noise to half": noisy_labels(0.0, 0.05),
    "mixture, 1.5 and .7 to 1.2 and .9": mixture((1.5, 0.7), (1.2, 0.9)),
}


# --- limits ---------------------------------------------------------------------------------


def limit(error: Error, truth: Array, P: Array, w: Array) -> float:
    """Return an error without label noise: each row is true and false with its probability."""
    if not error.classwise:
        top = P.argmax(axis=1)[:, None]
        s, t = (np.take_along_axis(A, top, axis=1)[:, 0] for A in (P, truth))
        return _of_event(error, s, t, w)
    columns = [_of_event(error, P[:, k], truth[:, k], w) for k in range(P.shape[1])]
    return float(np.mean(columns))


def _of_event(error: Error, s: Array, t: Array, w: Array) -> float:
    y = np.repeat([1, 0], len(s))
    value = error.of_event(
        y, np.tile(s, 2), sample_weight=np.concatenate([w * t, w * (1 - t)]), pos_label=1
    )
    return float(value)


def limits(draw: Callable[..., Rows], K: int, names: list[str]) -> list[list[float]]:
    """Return for each error the limits of all models."""
    n = min(POPULATION_ROWS, POPULATION_ENTRIES // K)
    truth, models, w = draw(n, K, np.random.default_rng(0))
    return [[limit(ERRORS[name], truth, P, w) for P in models] for name in names]
