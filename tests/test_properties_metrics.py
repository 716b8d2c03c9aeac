"""Properties of every calibration error on generated samples, most of them odd.

Its bounds an error says itself, where it says what it returns: "In [0, 1]".
"""

import re

import numpy as np
import pytest
from discovery import ERRORS
from hypothesis import assume, given
from numpy.testing import assert_array_equal
from strategies import LABEL_KINDS, attempt, names_of, recipes

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
def test_the_names_of_labels_mean_nothing(metric, recipe):
    expected = value(metric, recipe.S, recipe.code, recipe.w)
    found = metric(recipe.y, recipe.S, sample_weight=recipe.w, labels=recipe.classes)
    assert found == expected
    for kind in LABEL_KINDS:
        names = names_of(kind, recipe.n_classes)
        found = metric(names[recipe.code], recipe.S, sample_weight=recipe.w, labels=names[::-1])
        assert found == expected


@every_error
@any_sample
def test_untold_labels_are_understood_or_asked_for(metric, recipe):
    """Of labels -6, -3, 0 the last by itself is a column: 0 ... K - 1 are, until told."""
    found, refusal = attempt(metric, recipe.y, recipe.S)
    if refusal:
        assert re.match(r"y_true has \d+ distinct labels .*: pass labels= with", refusal)
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


@every_error
@any_sample
def test_nothing_passed_in_is_written_to(metric, recipe):
    passed = recipe.S.copy(), recipe.code.copy(), recipe.w.copy()
    first = value(metric, *passed)
    for array, before in zip(passed, (recipe.S, recipe.code, recipe.w), strict=True):
        assert_array_equal(array, before)
    assert value(metric, *passed) == first
