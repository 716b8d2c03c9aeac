"""Checks of a calibration metric: keywords, values, equivalent data, invalid input."""

from __future__ import annotations

import pickle
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from inspect import Parameter, signature
from typing import Any

import numpy as np
import pandas as pd

from skcalib.testing._promises import (
    NAMES,
    Array,
    LabelledScores,
    bad_weights,
    checks_in,
    equal_weights,
    kinds_of_labels,
    layouts_of,
    make_sample,
    require,
    require_close,
    require_refusal,
    require_unchanged,
    run_checks,
    spoilt,
)

Metric = Callable[..., Any]
# Tolerance for metrics of at most about 1 whose sums are computed in another order.
ROUNDING = 1e-9


def _samples(sizes: tuple[int, ...] = (2, 4)) -> Iterator[LabelledScores]:
    """Yield samples of probabilities: with ties, without ties, and with some 0s and 1s."""
    for n_classes in sizes:
        S, code, name = make_sample("proba", n_classes, n=120)
        yield LabelledScores(S, code, f"{name}, with ties")
        yield _draw_without_ties(n_classes)
        hard = make_sample("proba", n_classes, n=120).S
        hard[::3] = np.eye(n_classes)[hard[::3].argmax(axis=1)]
        yield LabelledScores(hard, code, f"{name}, some 0 and 1")


def _draw_without_ties(n_classes: int) -> LabelledScores:
    # All ties come from the copies of every third row that `make_sample` makes: drop these copies.
    S, code, name = make_sample("proba", n_classes, n=360)
    keep = np.flatnonzero(np.arange(360) % 3)[:120]
    return LabelledScores(S[keep], code[keep], f"{name}, all different")


def _takes(metric: Metric, keyword: str) -> bool:
    parameters = signature(metric).parameters
    return keyword in parameters or any(
        p.kind is Parameter.VAR_KEYWORD for p in parameters.values()
    )


def _value(metric: Metric, y: Any, P: Any, labels: Any = None, **keywords: Any) -> float:
    """Return the value of a metric, called without keywords that it does not accept."""
    arguments = {"labels": labels, **keywords}
    arguments = {k: v for k, v in arguments.items() if v is not None and _takes(metric, k)}
    value = metric(y, P, **arguments)
    require(isinstance(value, float | np.floating), f"a {type(value).__name__}, not a float")
    return float(value)


def check_inputs_unchanged(metric: Metric, S: Array, code: Array, name: str) -> None:
    """Arguments are not changed, and the same call gives the same value."""
    w = np.linspace(0.5, 2.0, code.size)
    passed = {"y_true": code, "y_proba": S, "sample_weight": w}
    before = {what: array.copy() for what, array in passed.items()}
    value = _value(metric, code, S, sample_weight=w)
    require_unchanged(passed, before, name)
    again = _value(metric, code, S, sample_weight=w)  # the arrays are read-only now
    require_close(again, value, f"{name}, called again", atol=0.0)


def check_keywords(metric: Metric) -> None:
    """The metric accepts sample_weight and labels, and works without them."""
    for keyword in ("sample_weight", "labels"):
        require(_takes(metric, keyword), f"it does not accept {keyword}")
    for S, code, _ in _samples():
        metric(code, S)


def check_value(metric: Metric) -> None:
    """The metric is a finite number of at least 0, also for a single row."""
    for S, code, name in _samples((2, 5)):
        for rows in (slice(None), slice(1)):
            if rows == slice(1) and not _takes(metric, "labels"):
                continue
            value = _value(metric, code[rows], S[rows], np.arange(S.shape[1]))
            how = f"{value!r} for {len(S[rows])} rows of {name}"
            require(np.isfinite(value) and value >= 0, how)


def check_perfect_is_zero(metric: Metric) -> None:
    """Certain and correct predictions of more than two classes have an error of 0."""
    for n_classes in (3, 4):
        code = np.arange(40) % n_classes
        value = _value(metric, code, np.eye(n_classes)[code])
        require_close(value, 0.0, f"{n_classes} classes", atol=1e-12)


def check_label_names(metric: Metric, S: Array, code: Array, name: str) -> None:
    """The names of the labels do not matter."""
    expected = _value(metric, code, S)
    for labels in kinds_of_labels(S.shape[1]):
        how = f"{name}, labels such as {labels.tolist()[0]!r}"
        require_close(_value(metric, labels[code], S), expected, how, ROUNDING)


def check_class_order(metric: Metric) -> None:
    """Renaming more than two classes permutes columns and changes nothing else."""
    for n_classes in (3, 4):  # with two classes, renaming would change the event
        S, code, name = _draw_without_ties(n_classes)
        order = np.roll(np.arange(n_classes), 1)
        moved = _value(metric, np.argsort(order)[code], S[:, order])
        require_close(moved, _value(metric, code, S), name, ROUNDING)


def check_weights_are_copies(metric: Metric, S: Array, code: Array, name: str) -> None:
    """Integer weights are counts: 2 means two copies of a row, 0 means no row."""
    if not _takes(metric, "sample_weight"):
        return
    labels = np.arange(S.shape[1])
    w = np.random.default_rng(2).integers(0, 4, code.size)
    copies = np.repeat(np.arange(code.size), w)
    weighted = _value(metric, code, S, labels, sample_weight=w)
    require_close(weighted, _value(metric, code[copies], S[copies], labels), name, ROUNDING)


def check_weights_are_relative(metric: Metric, S: Array, code: Array, name: str) -> None:
    """Only the ratios of float weights matter: equal weights have no effect."""
    for how, pair in equal_weights(code.size).items():
        expected, actual = (_value(metric, code, S, sample_weight=x) for x in pair)
        require_close(actual, expected, f"{name}, {how}", ROUNDING)


def check_weights_count(metric: Metric) -> None:
    """Sample weights that favour correct predictions change the value of the metric."""
    if not _takes(metric, "sample_weight"):
        return
    S, code, name = _draw_without_ties(4)
    w = np.where(code == S.argmax(axis=1), 9.0, 0.1)
    gap = abs(_value(metric, code, S, sample_weight=w) - _value(metric, code, S))
    how = "larger weights for correct predictions change the value"
    require(gap > 1e-6, f"{name}: {how} by {gap:.3g}")


def check_missing_class(metric: Metric) -> None:
    """With `labels`, a class may have no rows, or only rows of weight 0."""
    for S, code, name in _samples((4,)):
        labels = NAMES[:4]
        some = code != 2
        y = labels[code]
        value = _value(metric, y[some], S[some], labels)
        require(np.isfinite(value), f"{value} for {name}")
        if _takes(metric, "sample_weight"):
            weightless = _value(metric, y, S, labels, sample_weight=some.astype(float))
            require_close(weightless, value, f"{name}, by weights of 0", ROUNDING)


def check_order_of_labels(metric: Metric) -> None:
    """``labels[j]`` is the label of column j, in any order."""
    if not _takes(metric, "labels"):
        return
    for n_classes in (2, 4):
        S, code, name = _draw_without_ties(n_classes)
        labels = NAMES[:n_classes] if n_classes > 2 else np.arange(2)  # the event is label 1
        expected = _value(metric, labels[code], S, labels)
        turned = _value(metric, labels[code], S[:, ::-1], labels[::-1])
        require_close(turned, expected, f"{name}, labels and columns in reverse order", ROUNDING)


def check_one_column(metric: Metric) -> None:
    """A single column is the probability of one event: 1 of {0, 1}, or ``pos_label``."""
    for S, code, name in _samples((2,)):
        p = S[:, 1]
        expected = _value(metric, code, p)
        require_close(
            _value(metric, code, p[:, None]), expected, f"{name} of shape (n, 1)", atol=0.0
        )
        if _takes(metric, "pos_label"):
            two, names = np.c_[1 - p, p], NAMES[:2][::-1]
            same = {
                "two columns and pos_label=1": _value(metric, code, two, pos_label=1),
                "an event named by its label": _value(metric, names[code], p, pos_label=names[1]),
            }
            for how, value in same.items():
                require_close(value, expected, f"{name}, {how}", ROUNDING)


def check_row_order(metric: Metric) -> None:
    """The order of rows that all differ does not matter."""
    for n_classes in (2, 4):
        check_order_of_ties(metric, *_draw_without_ties(n_classes))


def check_order_of_ties(metric: Metric, S: Array, code: Array, name: str) -> None:
    """The order of rows with equal probabilities does not matter."""
    order = np.random.default_rng(3).permutation(code.size)
    shuffled = _value(metric, code[order], S[order])
    require_close(shuffled, _value(metric, code, S), name, ROUNDING)


def check_float32(metric: Metric, S: Array, code: Array, name: str) -> None:
    """float32 probabilities give the same value as equal float64 probabilities."""
    # Rounding to float32 can move a row to another bin, so both calls use the rounded numbers.
    single = S.astype(np.float32)
    expected = _value(metric, code, single.astype(np.float64))
    require_close(_value(metric, code, single), expected, name, ROUNDING)


def check_memory_layout(metric: Metric, S: Array, code: Array, name: str) -> None:
    """Lists, frames and arrays of any layout give the same value."""
    expected = _value(metric, code, S)
    labels = {"a frame": pd.Series(code), "a list": code.tolist()}
    for layout, P in layouts_of(S).items():
        y = labels.get(layout, code)
        require_close(_value(metric, y, P), expected, f"{name}, {layout}", ROUNDING)


def check_pickle(metric: Metric) -> None:
    """The metric can be sent to another process."""
    S, code, name = _draw_without_ties(2)
    again = pickle.loads(pickle.dumps(metric))
    require_close(_value(again, code, S), _value(metric, code, S), name, atol=0.0)


def check_bad_inputs(metric: Metric) -> None:
    """Invalid arguments raise a ValueError of one line."""
    S, code, _ = _draw_without_ties(4)
    bad: dict[str, tuple[Any, Any, dict[str, Any]]] = {
        "NaN in y_proba": (code, spoilt(S, (7, 1), np.nan), {}),
        "infinity in y_proba": (code, spoilt(S, (7, 1), np.inf), {}),
        "a negative probability": (code, spoilt(S, 7, [1.2, -0.2, 0.0, 0.0]), {}),
        "a row that sums to 1.3": (code, spoilt(S, 7, [0.5, 0.5, 0.3, 0.0]), {}),
        "logits": (code, np.log(S), {}),
        "an empty y_proba": (code[:0], S[:0], {}),
        "y_true with another number of rows": (code[1:], S, {}),
        "more labels than columns": (np.arange(code.size) % 5, S, {}),
        "an unknown label": (code, S, {"labels": [1, 2, 3, 4]}),
        "labels for another number of columns": (code, S, {"labels": [0, 1, 2]}),
        **{what: (code, S, {"sample_weight": w}) for what, w in bad_weights(code.size).items()},
    }
    for what, (y, P, keywords) in bad.items():
        if all(_takes(metric, keyword) for keyword in keywords):
            require_refusal(partial(metric, y, P, **keywords), what)


# Basic checks run first, because only the first failed check is reported.
METRIC_CHECKS = checks_in(globals())


def check_calibration_metric(
    metric: Metric, *, expected_failed_checks: Mapping[str, str] | None = None
) -> None:
    """Check that a calibration metric behaves like the metrics of skcalib.

    Parameters
    ----------
    metric : callable
        ``metric(y_true, y_proba, *, sample_weight=None, labels=None) -> float``, smaller is
        better; other keywords can be set by `functools.partial`.
    expected_failed_checks : dict of str to str, default=None
        Names of checks that are not run, with the reasons.

    Raises
    ------
    AssertionError
        If a check fails; the message of one line contains its name and the reason.
    ValueError
        If `expected_failed_checks` names a check that does not exist.

    See Also
    --------
    check_calibrator : Checks of a calibrator.

    Examples
    --------
    >>> from skcalib.metrics import ks_calibration_error
    >>> from skcalib.testing import check_calibration_metric
    >>> check_calibration_metric(ks_calibration_error)
    """
    bare = metric.func if isinstance(metric, partial) else metric
    name = getattr(bare, "__name__", type(bare).__name__)
    run_checks(metric, name, METRIC_CHECKS, _samples, expected_failed_checks)
