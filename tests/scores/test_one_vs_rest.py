"""The sorted view of one class against the rest."""

from __future__ import annotations

import itertools

import joblib
import numpy as np
import pytest
from calls import peak_memory
from sklearn.exceptions import ConvergenceWarning

from skcalib._scores.one_vs_rest import map_columns, map_sorted, sort_problem, stable_order
from skcalib._scores.scores import Scores
from skcalib.calibrators._bayesian_binning import average_binnings, quantile_binnings
from skcalib.calibrators._histogram import warn_of_certain_rows
from skcalib.calibrators._venn_abers import venn_abers_bounds


def both(k, found):
    return k, found


def tied_scores(n, n_classes, seed=0, dtype=np.float64):
    """Scores on a coarse grid: ties, exact zeros and ones; class 1 never occurs."""
    rng = np.random.default_rng(seed)
    P = np.round(rng.dirichlet(np.full(n_classes, 0.4), size=n), 1).astype(dtype)
    code = rng.integers(0, n_classes, n)
    code[code == 1] = 0
    return P, code, rng.integers(1, 4, n).astype(float)


def same(problem):
    return problem


def test_the_view_holds_each_column_in_order_with_its_weights_and_positives():
    P, code, w = tied_scores(40, 3)
    for k, problem in enumerate(map_sorted(same, Scores(P, "proba"), code, w)):
        rows = sorted(range(40), key=lambda i: P[i, k])
        assert problem.values.tolist() == [P[i, k] for i in rows]
        assert problem.weights.tolist() == [w[i] for i in rows]
        hits = [i for i in rows if code[i] == k]
        assert problem.positives.tolist() == [P[i, k] for i in hits]
        assert problem.positive_weights.tolist() == [w[i] for i in hits]
        assert problem.total_weight() == w.sum()
        cumulative = problem.cumulative_weight()
        assert cumulative.tolist() == [sum(w[i] for i in rows[:r]) for r in range(41)]


def test_weights_of_one_are_not_carried():
    P, code, _ = tied_scores(40, 3)
    for k, problem in enumerate(map_sorted(same, Scores(P, "proba"), code, np.ones(40))):
        assert problem.weights is None
        assert problem.positive_weights is None
        assert problem.values.tolist() == sorted(P[:, k])
        assert problem.positives.tolist() == sorted(P[code == k, k])
        assert problem.total_weight() == 40
        assert problem.cumulative_weight().tolist() == list(range(41))


@pytest.mark.parametrize("w", [None, "some"])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_above_keeps_scores_strictly_above_the_threshold_in_their_type(w, dtype):
    # float32(0.1) is above 0.1, but equal to the threshold 0.1 of float32 scores.
    score = np.array([0.1, 0.7, 0.0, 0.7, 1.0, 0.1], dtype=dtype)
    hit = np.array([True, False, True, True, False, False])
    weight = None if w is None else np.arange(1.0, 7.0)
    for threshold in (0.0, 0.1, 0.5, 0.7, 1.0):
        kept = [s > dtype(threshold) for s in score]
        problem = sort_problem(score, hit, weight).above(threshold)
        assert problem.values.tolist() == sorted(score[kept].tolist())
        assert problem.positives.tolist() == sorted(score[kept & hit].tolist())
        if weight is not None:
            assert problem.weights.sum() == weight[kept].sum()
            assert problem.positive_weights.sum() == weight[kept & hit].sum()
    assert sort_problem(score, hit, weight).above(None).values.size == 6


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_a_column_of_logits_is_the_same_number_as_in_its_row(dtype):
    """Fit may read rows and prediction columns: an entry on an edge must not change sides."""
    rng = np.random.default_rng(0)
    Z = np.round(rng.normal(size=(500, 6)), 1).astype(dtype)
    Z[:10] = 0.0
    Z[10:20, 2] = -np.inf
    scores = Scores(Z, "logits")
    rows = scores.proba(slice(0, 500)).astype(dtype)
    for k, column in map_columns(both, scores):
        assert column.dtype == dtype
        assert column.tolist() == rows[:, k].tolist()


def test_a_memory_layout_changes_no_column():
    Z = np.random.default_rng(1).normal(size=(300, 9))
    c_order = np.stack([column for _, column in map_columns(both, Scores(Z, "logits"))])
    f_order = np.stack([c for _, c in map_columns(both, Scores(np.asfortranarray(Z), "logits"))])
    assert c_order.tolist() == f_order.tolist()


@pytest.mark.parametrize("digits", [1, 3, 16])
def test_ties_keep_the_order_of_their_rows(digits):
    """Whether many scores are tied, a few or none."""
    x = np.round(np.random.default_rng(0).random(500), digits)
    assert stable_order(x).tolist() == sorted(range(500), key=lambda i: x[i])


def peak_per_row(function, n):
    """Most numbers of eight bytes that a call keeps for each of n rows at a time."""
    return peak_memory(function) / 8 / n


@pytest.mark.parametrize(("of_problem", "most"), [("bins", 3.6), ("bounds", 2.6)])
def test_maps_of_a_sorted_problem_need_few_numbers_per_row(of_problem, most):
    n = 1 << 17
    rng = np.random.default_rng(0)
    p = rng.uniform(size=n)
    problem = sort_problem(p, rng.uniform(size=n) < p / 20, None)
    binnings = quantile_binnings(np.ones(n), 20, 2.0)
    fits = {
        "bins": lambda: average_binnings(problem, binnings),
        "bounds": lambda: venn_abers_bounds(problem, n),
    }
    assert peak_per_row(fits[of_problem], n) < most


def test_certain_rows_are_counted_block_by_block():
    n = 1 << 19
    Z = 500 * np.random.default_rng(0).normal(size=(n, 3))
    scores, w = Scores(Z, "logits", max_abs_logit=1e4), np.ones(n)
    with joblib.parallel_config(n_jobs=1), pytest.warns(ConvergenceWarning, match="half of"):
        assert peak_per_row(lambda: warn_of_certain_rows(scores, w), n) < 1.5


def test_columns_are_sorted_in_place():
    n = 1 << 18
    rng = np.random.default_rng(0)
    scores = Scores(rng.uniform(size=(n, 4)), "proba")
    code, w = rng.integers(4, size=n), np.ones(n)
    with joblib.parallel_config(n_jobs=1):
        # A column, its positives (a quarter of the rows) twice, and the rows of all classes.
        assert peak_per_row(lambda: list(map_sorted(size_of, scores, code, w)), n) < 3


def size_of(problem):
    return problem.values.size


def test_a_sort_leaves_scores_alone_unless_it_may_overwrite_them():
    score, hit = np.array([0.5, 0.1, 0.3]), np.array([True, False, True])
    assert sort_problem(score, hit, None).values.tolist() == [0.1, 0.3, 0.5]
    assert score.tolist() == [0.5, 0.1, 0.3]
    problem = sort_problem(score, hit, None, in_place=True)
    assert problem.values is score
    assert score.tolist() == [0.1, 0.3, 0.5]
    assert problem.positives.tolist() == [0.3, 0.5]


@pytest.mark.parametrize("least", [0.0, 1.0])
def test_scores_rise_unless_the_difference_is_rounding(least):
    value = np.array([0.0, 1e-20, 0.5, 0.5 + 1e-15, 0.5 + 1e-13])
    problem = sort_problem(value, value > 0, None)
    rises = [b - a > 64 * 2.0**-52 * max(b, least) for a, b in itertools.pairwise(value)]
    assert problem.rises(least).tolist() == rises
    assert rises == [least == 0.0, True, False, True]


@pytest.mark.parametrize("weighted", [False, True])
def test_weight_before_rows_is_the_sum_of_the_weights_up_to_there(weighted):
    w = np.array([0.5, 2.0, 1.5]) if weighted else np.ones(3)
    problem = sort_problem(np.array([0.1, 0.2, 0.3]), np.zeros(3, bool), w if weighted else None)
    rows = np.array([3, 0, 2])
    assert problem.weight_before(rows).tolist() == [w[:row].sum() for row in rows]
