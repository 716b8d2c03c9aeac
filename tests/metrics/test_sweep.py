"""The monotone sweep equals trying one number of bins after the other."""

import itertools
import math
from fractions import Fraction

import numpy as np
import pytest
import reference as ref

from skcalib._binning import Bins
from skcalib.metrics import sweep_calibration_error
from skcalib.metrics._binned import distinct_scores, monotone_bins


def shared_out(pairs):
    """Each row with the mean hit of the rows of its score, as a fraction."""
    scores = [s for s, _ in pairs]
    hits = {s: sum(t for other, t in pairs if other == s) for s in scores}
    return [(s, Fraction(hits[s], scores.count(s))) for s in scores]


def cells_of(pairs, n_bins, strategy, closed):
    where = ref.bins_of([s for s, _ in pairs], n_bins, strategy, closed, "rank")
    cells = [[] for _ in range(n_bins)]
    for pair, b in zip(pairs, where, strict=True):
        cells[b].append(pair)
    return [cell for cell in cells if cell]


def accuracy(cell):
    return sum(t for _, t in cell) / len(cell)


def slow(pairs, strategy, closed):
    """Last number of bins before the first at which some accuracy falls."""
    pairs = shared_out(pairs)
    for n_bins in range(2, len(pairs)):
        cells = cells_of(pairs, n_bins, strategy, closed)
        if any(accuracy(b) < accuracy(a) for a, b in itertools.pairwise(cells)):
            return n_bins - 1
    return max(1, len(pairs) - 1)


def slow_errors(pairs, strategy, closed):
    """The error in l1 and in l2."""
    sums = {1: 0.0, 2: 0.0}
    for cell in cells_of(shared_out(pairs), slow(pairs, strategy, closed), strategy, closed):
        conf = math.fsum(s for s, _ in cell) / len(cell)
        for q in sums:
            sums[q] += len(cell) / len(pairs) * abs(accuracy(cell) - conf) ** q
    return {f"l{q}": total ** (1 / q) for q, total in sums.items()}


OPTIONS = [("quantile", "right"), ("uniform", "right"), ("uniform", "left")]


def number_of_bins(score, hit, strategy, closed="right", w=None):
    w = np.ones(len(score)) if w is None else w
    method = "rank" if strategy == "quantile" else "uniform"
    rows = distinct_scores(np.asarray(score, float), np.asarray(hit, bool), w)
    return monotone_bins(rows, np.sum(w), Bins(method=method, closed=closed))[0]


@pytest.mark.parametrize(("strategy", "closed"), OPTIONS)
@pytest.mark.parametrize("kind", ["plain", "ties", "hard", "sparse"])
def test_it_equals_the_loop(strategy, closed, kind):
    for seed, (K, n) in enumerate([(2, 40), (3, 31), (6, 20), (2, 3), (2, 2), (2, 1)]):
        y, P = ref.predictions(K, n, seed=seed, kind=kind)
        expected = {
            mode: [
                slow_errors(pairs, strategy, closed)
                for pairs in ref.problems(y, P, mode == "top", mode == "classwise", None)
            ]
            for mode in ("top", "classwise")
        }
        for norm, mode in itertools.product(["l1", "l2"], expected):
            each = [errors[norm] for errors in expected[mode]]
            actual = sweep_calibration_error(
                y,
                P,
                mode=mode,
                average="macro" if mode == "top" else None,
                norm=norm,
                strategy=strategy,
                closed=closed,
                labels=range(K),
            )
            np.testing.assert_allclose(actual, each if mode == "classwise" else each[0], atol=1e-12)


@pytest.mark.parametrize(("strategy", "closed"), OPTIONS)
def test_the_number_of_bins_equals_the_loop_far_into_the_sweep(strategy, closed):
    """Classes ever nearer to being apart, distinct scores and tied ones."""
    rng = np.random.default_rng(0)
    found = set()
    for slope, trial in itertools.product([1, 10, 40, 200], range(4)):
        score = rng.random(75).round(6 if trial % 2 else 2)
        hit = rng.random(75) < 1 / (1 + np.exp(-slope * (score - 0.5)))
        pairs = list(zip(score.tolist(), hit.astype(int).tolist(), strict=True))
        expected = slow(pairs, strategy, closed)
        assert number_of_bins(score, hit, strategy, closed) == expected
        found.add(expected)
    assert max(found) > 60
    assert min(found) <= 3


@pytest.mark.parametrize("strategy", ["quantile", "uniform"])
@pytest.mark.parametrize("hit", ["never", "always", "apart"])
def test_accuracies_that_cannot_fall_leave_all_but_one_of_the_rows(strategy, hit):
    score = np.linspace(0, 1, 50)
    hits = {"never": score < 0, "always": score >= 0, "apart": score > 0.3}[hit]
    assert number_of_bins(score, hits, strategy) == 49


@pytest.mark.parametrize("strategy", ["quantile", "uniform"])
def test_a_single_inversion_among_many_rows_is_found_without_a_quadratic_sweep(strategy):
    """Only bins narrower than two rows see it: some n/2 numbers of bins are tried."""
    n = 20_000
    hit = np.arange(n) > n // 2
    hit[n // 2 - 1] = True
    found = number_of_bins((np.arange(n) + 0.5) / n, hit, strategy)
    assert n // 3 < found < n


def test_weights_that_vanish_beside_the_others_count_as_absence():
    rng = np.random.default_rng(0)
    p = np.sort(rng.random(60))
    y, w = (rng.random(60) < p).astype(int), rng.uniform(0.5, 1.5, 60)
    w[-3:] = 1e-30
    expected = sweep_calibration_error(y[:-3], p[:-3], sample_weight=w[:-3])
    assert sweep_calibration_error(y, p, sample_weight=w) == pytest.approx(expected, rel=1e-9)
