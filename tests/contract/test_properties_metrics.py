"""Properties of every calibration error on generated samples, most of them odd.

Its bounds an error says itself, where it says what it returns: "In [0, 1]".
"""

import re
from fractions import Fraction

import numpy as np
import pandas as pd
import pytest
from discovery import ERRORS
from edges import bin_of
from hypothesis import assume, example, given
from numpy.testing import assert_array_equal
from strategies import LABEL_KINDS, EdgeRecipe, attempt, edge_recipes, names_of, recipes

from skcalib import HistogramBinning
from skcalib.metrics import general_calibration_error

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
def test_the_names_of_labels_mean_nothing(metric, recipe):
    expected = value(metric, recipe.S, recipe.code, recipe.w)
    found = metric(recipe.y, recipe.S, sample_weight=recipe.w, labels=recipe.classes)
    assert found == expected
    for kind in LABEL_KINDS:
        names = names_of(kind, recipe.n_classes)
        found = metric(names[recipe.code], recipe.S, sample_weight=recipe.w, labels=names)
        assert found == expected


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
        assert re.match(r"y_true(?: has \d+ distinct labels |: label ).*pass labels= with", refusal)
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


def binned(rows, n_bins, closed):
    """Weight, score sum and hit sum of each bin, in fractions, of (edge, score, hit, weight)."""
    table = {}
    for k, score, hit, weight in rows:
        cell = table.setdefault(bin_of(Fraction(k, n_bins), n_bins, closed), [0, 0, 0])
        for part, term in enumerate((1, Fraction(float(score)), int(hit))):
            cell[part] += int(weight) * term
    return table


def slow_error(rows, n_bins, closed):
    cells = binned(rows, n_bins, closed).values()
    return float(sum(abs(hits - scores) for _, scores, hits in cells) / sum(c[0] for c in cells))


@given(recipe=edge_recipes())
@example(recipe=EdgeRecipe(10, 60, closed="left"))
@example(recipe=EdgeRecipe(20, 60, dtype="float32"))
def test_scores_on_the_edges_are_binned_as_fractions_are(recipe):
    """In both types, of the event and of its column."""
    n_bins, closed, k, code, w = recipe.n_bins, recipe.closed, recipe.k, recipe.code, recipe.w
    keywords = {"n_bins": n_bins, "closed": closed, "sample_weight": w, "labels": [0, 1]}
    expected = slow_error(zip(k, recipe.p, code == 1, w, strict=True), n_bins, closed)
    error = general_calibration_error(code, recipe.p, pos_label=1, **keywords)
    assert error == pytest.approx(expected, abs=1e-9)
    keywords |= {"max_prob": False, "class_conditional": True, "average": None}
    P = np.column_stack([1 - recipe.p, recipe.p])
    each = general_calibration_error(code, P, **keywords)
    assert each[1] == pytest.approx(expected, abs=1e-9)


@pytest.mark.filterwarnings("ignore:no row of class")
@given(recipe=edge_recipes(), asked=edge_recipes())
def test_a_histogram_answers_scores_on_its_edges_as_fractions_say(recipe, asked):
    """Fitted in one precision and asked in another: with the share of the bin of the fraction."""
    n_bins, k, code, w = recipe.n_bins, recipe.k, recipe.code, recipe.w
    binning = HistogramBinning(n_bins=n_bins, classes=[0, 1]).fit(recipe.p, code, w)
    table = binned(zip(k, recipe.p, code, w, strict=True), n_bins, "right")
    edge = np.arange(n_bins + 1)
    score = np.array([np.dtype(asked.dtype).type(j / n_bins) for j in edge.tolist()])
    answers = binning.predict_proba(score)[:, 1]
    for j in edge.tolist():
        b = bin_of(Fraction(j, n_bins), n_bins, "right")
        weight, _, hits = table.get(b, (0, 0, 0))
        expected = hits / weight if weight else Fraction(2 * b + 1, 2 * n_bins)
        assert answers[j] == pytest.approx(float(expected), abs=1e-6)
