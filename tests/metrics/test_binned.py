"""Binned, debiased and swept errors equal double loops over rows and bins, on awkward data."""

import itertools
import math
from fractions import Fraction
from functools import partial

import numpy as np
import pytest
import reference as ref
from calls import refused

from skcalib import metrics
from skcalib._binning import Bins
from skcalib.metrics import (
    debiased_calibration_error,
    expected_calibration_error,
    sweep_calibration_error,
)
from skcalib.metrics._binned import distinct_scores, monotone_bins

CASES = [
    pytest.param(K, n, kind, id=f"{kind}-K{K}-n{n}")
    for (K, n), kind in itertools.product([(2, 61), (10, 57)], ["plain", "ties", "hard", "sparse"])
]
CASES += [pytest.param(3, 1, "plain", id="one-row"), pytest.param(4, 7, "ties", id="few-rows")]

OPTIONS = [
    {"strategy": "uniform", "closed": "right"},
    {"strategy": "uniform", "closed": "left"},
    {"strategy": "quantile"},
    {"strategy": "quantile", "quantile_method": "linear"},
    {"strategy": "quantile", "quantile_method": "rank"},
    {"strategy": "quantile", "quantile_method": "split"},
]
REDUCTIONS = [
    {"max_prob": m, "class_conditional": c} for m, c in itertools.product([True, False], repeat=2)
]


@pytest.mark.parametrize(("K", "n", "kind"), CASES)
@pytest.mark.parametrize("options", OPTIONS, ids=lambda o: "-".join(o.values()))
def test_core_equals_the_double_loop(K, n, kind, options):
    """Each reduction and norm agrees with the reference to 1e-12.

    Thresholds and numbers of bins change places from case to case, so that each stands beside each
    norm.
    """
    y, P = ref.predictions(K, n, seed=K + n, kind=kind)
    turn = ["plain", "ties", "hard", "sparse"].index(kind) + K
    for reduction, (i, norm) in itertools.product(REDUCTIONS, enumerate(["l1", "l2", "max"])):
        threshold = [None, 0.0, 0.01][(i + turn) % 3]
        n_bins = [1, 10, 15][(i + 2 * turn) % 3]
        keywords = {**options, **reduction, "norm": norm, "threshold": threshold, "n_bins": n_bins}
        expected = ref.gce(y, P, **keywords)
        actual = metrics.general_calibration_error(y, P, labels=range(K), **keywords)
        assert actual == pytest.approx(expected, abs=1e-12), keywords


@pytest.mark.parametrize("options", OPTIONS, ids=lambda o: "-".join(o.values()))
@pytest.mark.parametrize("class_weight", ["uniform", "count"])
@pytest.mark.parametrize("bin_weight", ["uniform", "count"])
def test_weightings_and_per_class_errors_equal_the_double_loop(options, class_weight, bin_weight):
    for kind, reduction in itertools.product(["ties", "hard", "plain"], REDUCTIONS):
        y, P = ref.predictions(5, 44, seed=3, kind=kind)
        keywords = {**options, **reduction, "bin_weight": bin_weight, "threshold": 0.05}
        expected = ref.gce(y, P, class_weight=class_weight, **keywords)
        actual = metrics.general_calibration_error(y, P, class_weight=class_weight, **keywords)
        assert actual == pytest.approx(expected, abs=1e-12)
        if reduction["class_conditional"]:
            for norm in ["l1", "l2", "max"]:
                np.testing.assert_allclose(
                    metrics.general_calibration_error(y, P, average=None, norm=norm, **keywords),
                    ref.gce(y, P, average=None, norm=norm, **keywords),
                    atol=1e-12,
                )


PRESETS = {
    "expected_calibration_error": {},
    "maximum_calibration_error": {"norm": "max"},
    "root_mean_squared_calibration_error": {"strategy": "quantile", "norm": "l2"},
    "static_calibration_error": {"max_prob": False, "class_conditional": True},
    "adaptive_calibration_error": {
        "max_prob": False,
        "class_conditional": True,
        "strategy": "quantile",
    },
    "thresholded_adaptive_calibration_error": {
        "max_prob": False,
        "class_conditional": True,
        "strategy": "quantile",
        "threshold": 0.01,
    },
}


@pytest.mark.parametrize("name", PRESETS)
@pytest.mark.parametrize(
    ("K", "n", "kind"), [(2, 61, "ties"), (10, 57, "hard"), (10, 57, "sparse"), (3, 1, "plain")]
)
def test_each_named_error_is_its_definition(name, K, n, kind):
    y, P = ref.predictions(K, n, seed=n, kind=kind)
    actual = getattr(metrics, name)(y, P, labels=range(K))
    keywords = PRESETS[name]
    if K == 2:  # one event
        keywords = {**keywords, "max_prob": False, "class_conditional": True, "average": None}
    expected = ref.gce(y, P, **keywords)
    assert actual == pytest.approx(expected[1] if K == 2 else expected, abs=1e-12)


@pytest.mark.parametrize("version", [1, 2])
@pytest.mark.parametrize("bin_weight", ["count", "uniform"])
@pytest.mark.parametrize("kind", ["ties", "sparse"])
def test_ranges_of_both_versions_of_tace_are_weighed_either_way(kind, bin_weight, version):
    """Ties leave ranges empty or uneven: 1/R each, or their share of what is kept."""
    y, P = ref.predictions(4, 57, seed=1, kind=kind)
    own = {1: "uniform", 2: "count"}[version]
    expected = ref.gce(
        y,
        P,
        max_prob=False,
        class_conditional=version == 2,
        threshold=0.01,
        strategy="quantile",
        quantile_method="floor" if version == 1 else "edges",
        bin_weight=bin_weight,
    )

    def tace(**keywords):
        return metrics.thresholded_adaptive_calibration_error(
            y, P, version=version, labels=range(4), **keywords
        )

    assert tace(bin_weight=bin_weight) == pytest.approx(expected, abs=1e-12)
    assert (tace() == tace(bin_weight=bin_weight)) == (bin_weight == own)
    refused("bin_weight must be one of", tace, bin_weight="mass")


def test_first_version_of_tace_begins_its_ranges_at_exact_ranks():
    """232 entries in 50 ranges: 25 times 232 / 50 is 116, and just below that in floats."""
    rng = np.random.default_rng(0)
    P = rng.dirichlet(np.ones(4), 58)
    y = rng.integers(4, size=58)
    pairs = sorted((float(P[i, k]), int(y[i] == k)) for i in range(58) for k in range(4))
    starts = [*(r * 232 // 50 for r in range(50)), 232]
    gaps = [
        abs(sum(hit - s for s, hit in pairs[a:b]) / (b - a)) for a, b in itertools.pairwise(starts)
    ]
    actual = metrics.thresholded_adaptive_calibration_error(
        y, P, version=1, threshold=None, n_bins=50
    )
    assert actual == pytest.approx(sum(gaps) / 50, abs=1e-12)


def test_the_450_550_pathology_of_nixon_appendix_figure_4():
    """450 rows at 0.52 wrong and 550 at 0.58 right, one bin: ECE about 0.003 ([Nixon] fig. 4)."""
    p = np.r_[np.full(450, 0.52), np.full(550, 0.58)]
    y = np.r_[np.zeros(450, int), np.ones(550, int)]
    P = np.column_stack([1 - p, p])
    assert metrics.expected_calibration_error(y, P, n_bins=1) == pytest.approx(0.003, abs=1e-12)


def test_ends_of_the_unit_interval_have_no_bin_of_their_own():
    """p = (1, 1, 0.95, 0.5), 10 bins: 1.0 shares the last bin (0.3875 if it were split off)."""
    p = np.array([1.0, 1.0, 0.95, 0.5])
    P = np.column_stack([p, 1 - p])
    y = np.array([0, 1, 0, 0])
    for closed in ("right", "left"):
        expected = 3 / 4 * abs(2 / 3 - 2.95 / 3) + 1 / 4 * abs(1 - 0.5)
        actual = metrics.general_calibration_error(y, P, n_bins=10, closed=closed, pos_label=0)
        assert actual == pytest.approx(expected, abs=1e-12)


def test_table_sums_up_to_the_error():
    y, P = ref.predictions(5, 90, seed=5)
    for keywords in (
        {},
        {"strategy": "quantile", "max_prob": False},
        {"max_prob": False, "class_conditional": True, "threshold": 0.01},
    ):
        table = metrics.reliability_table(y, P, labels=range(5), **keywords)
        per_class = table.assign(x=table["weight"] * table["gap"].abs()).groupby("class").sum()
        error = (per_class["x"] / per_class["weight"]).mean()
        value = metrics.general_calibration_error(y, P, labels=range(5), **keywords)
        assert error == pytest.approx(value, abs=1e-12)
        assert len(table) == table["class"].nunique() * 15
        assert table[table["count"] == 0][["confidence", "accuracy", "gap"]].isna().all(axis=None)


def test_table_names_classes_by_their_labels():
    y, P = ref.predictions(3, 30, seed=5)
    names = np.array(["ape", "bee", "cat"])
    table = metrics.reliability_table(
        names[y], P, labels=names, max_prob=False, class_conditional=True, n_bins=4
    )
    assert table["class"].unique().tolist() == ["ape", "bee", "cat"]
    assert table["left"].tolist()[:4] == [0.0, 0.25, 0.5, 0.75]


def test_the_first_version_of_tace_has_no_error_for_each_class():
    """It pools the classes into one table."""
    y, P = ref.predictions(3, 30, seed=0)
    with pytest.raises(ValueError, match="average=None .*version=1 pools"):
        metrics.thresholded_adaptive_calibration_error(y, P, version=1, average=None)


def cells(hit, score, n_bins):
    """Accuracy less confidence of consecutive ranges of equally many sorted scores."""
    order = sorted(range(len(score)), key=lambda i: score[i])
    size = len(score) // n_bins
    for r in range(n_bins):
        rows = order[r * size : (r + 1) * size]
        yield sum(hit[i] for i in rows) / size - sum(score[i] for i in rows) / size


def test_ace_as_printed_takes_uniform_weights_and_ranks_together():
    """1 / (K R) over ranges of N / R sorted predictions; with one keyword alone ties show."""
    y, P = ref.predictions(4, 120, seed=3, kind="ties")
    K, R = P.shape[1], 10
    printed = sum(abs(gap) for k in range(K) for gap in cells(y == k, P[:, k], R)) / (K * R)

    def ace(**keywords):
        if "quantile_method" in keywords:
            keywords |= {"max_prob": False, "class_conditional": True, "strategy": "quantile"}
            return metrics.general_calibration_error(y, P, n_bins=R, labels=range(K), **keywords)
        return metrics.adaptive_calibration_error(y, P, n_bins=R, labels=range(K), **keywords)

    both = {"bin_weight": "uniform", "quantile_method": "rank"}
    assert ace(**both) == pytest.approx(printed, abs=1e-12)
    assert abs(ace(bin_weight="uniform") - printed) > 0.001
    assert abs(ace() - printed) > 0.001
    assert ace(quantile_method="rank") == pytest.approx(printed, abs=1e-12)  # R divides n
    y, P = y[:-5], P[:-5]
    assert abs(ace(quantile_method="rank") - ace(**both)) > 1e-6


# ------------------------------------------------------------------ the debiased error


WITHOUT_LINEAR = [
    {"strategy": "uniform", "closed": "right"},
    {"strategy": "uniform", "closed": "left"},
    {"strategy": "quantile", "quantile_method": "edges"},
    {"strategy": "quantile", "quantile_method": "rank"},
    {"strategy": "quantile", "quantile_method": "split"},
]


def slow_square(pairs, n_bins, strategy, closed="right", quantile_method="split"):
    """Squared gap less the variance of the share of hits, bin by bin."""
    where = ref.bins_of([s for s, _ in pairs], n_bins, strategy, closed, quantile_method)
    total = 0.0
    for b in range(n_bins):
        cell = [pair for pair, c in zip(pairs, where, strict=True) if c == b]
        if len(cell) < 2:
            continue
        acc = sum(t for _, t in cell) / len(cell)
        conf = math.fsum(s for s, _ in cell) / len(cell)
        noise = acc * (1 - acc) / (len(cell) - 1)
        total += len(cell) / len(pairs) * ((acc - conf) ** 2 - noise)
    return max(total, 0.0)


@pytest.mark.parametrize("options", WITHOUT_LINEAR, ids=lambda o: "-".join(o.values()))
@pytest.mark.parametrize("kind", ["ties", "hard", "sparse"])
def test_the_debiased_error_equals_the_loop_with_each_class_clipped_before_the_mean(options, kind):
    y, P = ref.predictions(4, 61, seed=3, kind=kind)
    for n_bins in (1, 4, 15, 50):
        keywords = {**options, "n_bins": n_bins}

        def slow(pairs, keywords=keywords):
            return math.sqrt(slow_square(pairs, **keywords))

        ref.equals_loop(debiased_calibration_error, slow, y, P, atol=1e-9, **keywords)
        each = [slow_square(pairs, **keywords) for pairs in ref.problems(y, P, False, True, None)]
        actual = debiased_calibration_error(y, P, mode="classwise", labels=range(4), **keywords)
        assert actual == pytest.approx(math.sqrt(sum(each) / 4), abs=1e-9)


def test_a_bin_of_one_row_adds_nothing_and_keeps_its_weight():
    """Two rows at 0.5, both hits, and one at 0.9: two thirds of a squared gap of a half."""
    error = debiased_calibration_error([1, 1, 0], [0.5, 0.5, 0.9], strategy="uniform", n_bins=4)
    assert error == pytest.approx(math.sqrt(2 / 3 * 0.25))


def test_its_square_is_right_on_average_where_the_plain_one_is_not():
    """Scores of 0.1, 0.3, ... with a hit rate 0.05 above: a squared error of 0.0025."""
    rng = np.random.default_rng(0)
    p = np.repeat([0.1, 0.3, 0.5, 0.7, 0.9], 200)
    keywords = {"n_bins": 5, "strategy": "uniform"}
    plain, debiased = [], []
    for _ in range(400):
        y = (rng.random(p.size) < p + 0.05).astype(int)
        plain.append(expected_calibration_error(y, p, norm="l2", pos_label=1, **keywords) ** 2)
        debiased.append(debiased_calibration_error(y, p, **keywords) ** 2)
    assert np.mean(plain) > 0.0031
    assert np.mean(debiased) == pytest.approx(0.0025, abs=2e-4)


# ------------------------------------------------------------------ the monotone sweep


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


def slow_number_of_bins(pairs, strategy, closed):
    """Last number of bins before the first at which some accuracy falls."""
    pairs = shared_out(pairs)
    for n_bins in range(2, len(pairs)):
        cells = cells_of(pairs, n_bins, strategy, closed)
        if any(accuracy(b) < accuracy(a) for a, b in itertools.pairwise(cells)):
            return n_bins - 1
    return max(1, len(pairs) - 1)


def slow_sweep(pairs, norm, strategy, closed):
    n_bins, q = slow_number_of_bins(pairs, strategy, closed), int(norm[1])
    total = 0.0
    for cell in cells_of(shared_out(pairs), n_bins, strategy, closed):
        conf = math.fsum(s for s, _ in cell) / len(cell)
        total += len(cell) / len(pairs) * abs(accuracy(cell) - conf) ** q
    return total ** (1 / q)


SWEPT = [("quantile", "right"), ("uniform", "right"), ("uniform", "left")]


def number_of_bins(score, hit, strategy, closed="right", w=None):
    w = np.ones(len(score)) if w is None else w
    method = "rank" if strategy == "quantile" else "uniform"
    rows = distinct_scores(np.asarray(score, float), np.asarray(hit, bool), w)
    return monotone_bins(rows, np.sum(w), Bins(method=method, closed=closed))[0]


@pytest.mark.parametrize(("strategy", "closed"), SWEPT)
@pytest.mark.parametrize("kind", ["plain", "ties", "hard", "sparse"])
def test_the_sweep_equals_the_loop(strategy, closed, kind):
    for seed, (K, n) in enumerate([(2, 40), (3, 31), (6, 20), (2, 3), (2, 2), (2, 1)]):
        y, P = ref.predictions(K, n, seed=seed, kind=kind)
        for norm in ("l1", "l2"):
            keywords = {"norm": norm, "strategy": strategy, "closed": closed}
            slow = partial(slow_sweep, **keywords)
            ref.equals_loop(sweep_calibration_error, slow, y, P, **keywords)


@pytest.mark.parametrize(("strategy", "closed"), SWEPT)
def test_the_number_of_bins_equals_the_loop_far_into_the_sweep(strategy, closed):
    """Classes ever nearer to being apart, distinct scores and tied ones."""
    rng = np.random.default_rng(0)
    found = set()
    for slope, trial in itertools.product([1, 10, 40, 200], range(4)):
        score = rng.random(75).round(6 if trial % 2 else 2)
        hit = rng.random(75) < 1 / (1 + np.exp(-slope * (score - 0.5)))
        pairs = list(zip(score.tolist(), hit.astype(int).tolist(), strict=True))
        expected = slow_number_of_bins(pairs, strategy, closed)
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
