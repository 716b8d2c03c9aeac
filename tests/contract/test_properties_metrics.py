"""Properties of every calibration error on generated samples, most of them odd.

Its bounds an error says itself, where it says what it returns: "In [0, 1]".
"""

import re

import numpy as np
import pandas as pd
import pytest
from discovery import ERRORS
from hypothesis import assume, given
from strategies import attempt, names_of, recipes

pytestmark = pytest.mark.slow

every_error = pytest.mark.parametrize("metric", ERRORS, ids=lambda metric: metric.__name__)
any_sample = given(recipe=recipes(kinds=["proba"]))
# What a sum may owe to its order: roots of errors that should be 0 magnify it.
ROUNDING = 1e-7


def value(metric, S, code, w=None):
    found = metric(code, S, sample_weight=w, labels=np.arange(S.shape[1]))
    assert isinstance(found, float)
    return found


def bounds(metric):
    low, high = re.search(r"In \[([\d.]+), ([\d.]+)[],]", metric.__doc__).groups()
    return float(low), float(high)


@every_error
@any_sample
def test_the_value_lies_within_its_bounds(metric, recipe):
    low, high = bounds(metric)
    for w in (None, recipe.w):
        assert low <= value(metric, recipe.S, recipe.code, w) <= high + 1e-9


@every_error
@any_sample
def test_certain_and_right_is_zero(metric, recipe):
    S = np.eye(recipe.n_classes, dtype=recipe.dtype)[recipe.code]
    assert value(metric, S, recipe.code, recipe.w) == pytest.approx(0, abs=1e-12)


@every_error
@any_sample
def test_labels_and_names_of_columns_tell_their_order(metric, recipe):
    """`labels` in any order, or a frame whose columns are named by the labels."""
    order = np.random.default_rng(recipe.seed).permutation(recipe.n_classes)
    names = names_of("strings", recipe.n_classes)
    moved, y = recipe.S[:, order], names[recipe.code]
    expected = value(metric, moved, np.argsort(order)[recipe.code], recipe.w)
    assert metric(y, moved, sample_weight=recipe.w, labels=names[order]) == expected
    expected = value(metric, recipe.S, recipe.code, recipe.w)
    named = pd.DataFrame(moved, columns=[f"p_{name}" for name in names[order]])
    assert metric(y, named, sample_weight=recipe.w, labels=names) == expected


@every_error
@any_sample
def test_rows_that_sum_to_almost_1_are_divided_by_their_sums(metric, recipe):
    S = recipe.S.astype(np.float64)
    S /= S.sum(axis=1, keepdims=True)
    # A division may part scores that are equal, and quantile bins with them.
    assume(np.diff(np.sort(S, axis=None)).min() > 1e-12)
    off = 1 + 9e-4 * np.random.default_rng(recipe.seed).uniform(-1, 1, (recipe.n, 1))
    found = value(metric, S * off, recipe.code, recipe.w)
    divided = np.where(np.abs((S * off).sum(axis=1, keepdims=True) - 1).max() > 1e-5,
                       S * off / (S * off).sum(axis=1, keepdims=True), S * off)  # fmt: skip
    assert found == pytest.approx(value(metric, divided, recipe.code, recipe.w), abs=ROUNDING)


@every_error
@any_sample
def test_one_column_is_the_probability_of_the_event_that_is_named(metric, recipe):
    p, hit, w = recipe.S[:, 0], recipe.code == 0, recipe.w
    expected = metric(hit, p, sample_weight=w)
    names = np.where(hit, "yes", "no")
    for found in (
        metric(hit.astype(int), p[:, None], sample_weight=w),
        metric(names, p, sample_weight=w, pos_label="yes", labels=["yes", "no"]),
    ):
        assert found == pytest.approx(expected, abs=ROUNDING)
    two, y = np.column_stack([1 - p, p]), hit.astype(int)
    found = metric(y, two, sample_weight=w, pos_label=1, labels=[0, 1])
    assert found == pytest.approx(expected, abs=ROUNDING)
    _, refusal = attempt(metric, names, p)
    assert "pass pos_label=" in refusal
    assert "\n" not in refusal


@every_error
@any_sample
def test_untold_labels_are_understood_or_asked_for(metric, recipe):
    """Of labels -6, -3, 0 the last by itself is a column: 0 ... K - 1 are, until told."""
    found, refusal = attempt(metric, recipe.y, recipe.S)
    if refusal:
        line = r"y_true(?: has \d+ distinct labels |: label ).*pass labels= with"
        line += r"|y_true has the categories .*pass labels=\["
        assert re.match(line, refusal)
        assert "\n" not in refusal
    else:
        columns = set(range(recipe.n_classes))
        assume(set(recipe.classes.tolist()) == columns or not set(recipe.y.tolist()) <= columns)
        assert found == value(metric, recipe.S, recipe.code)


@every_error
@any_sample
def test_the_order_of_rows_means_nothing(metric, recipe):
    order = np.random.default_rng(recipe.seed).permutation(recipe.n)
    expected = value(metric, recipe.S, recipe.code, recipe.w)
    assert value(metric, *recipe.only(order)) == pytest.approx(expected, abs=ROUNDING)


@every_error
@any_sample
def test_the_order_of_classes_means_nothing(metric, recipe):
    """Of rows that have one largest score: of several the lowest column is the predicted one."""
    keep = (recipe.S.max(axis=1, keepdims=True) == recipe.S).sum(axis=1) == 1
    assume(keep.any() and recipe.w[keep].any())
    S, code, w = recipe.only(keep)
    order = np.random.default_rng(recipe.seed).permutation(recipe.n_classes)
    moved = value(metric, S[:, order], np.argsort(order)[code], w)
    assert moved == pytest.approx(value(metric, S, code, w), abs=ROUNDING)


@every_error
@any_sample
def test_a_weight_is_as_many_copies(metric, recipe):
    """And so 0 is the absence of the row."""
    copies = np.repeat(np.arange(recipe.n), recipe.w.astype(int))
    expected = value(metric, recipe.S[copies], recipe.code[copies])
    found = value(metric, recipe.S, recipe.code, recipe.w)
    assert found == pytest.approx(expected, abs=ROUNDING)


@every_error
@given(recipe=recipes(kinds=["proba"], dtypes=["float32"]))
def test_float32_gives_the_value_of_float64(metric, recipe):
    expected = value(metric, recipe.S.astype(np.float64), recipe.code, recipe.w)
    assert value(metric, recipe.S, recipe.code, recipe.w) == pytest.approx(expected, abs=1e-6)
