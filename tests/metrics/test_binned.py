"""Binned errors equal a double loop over rows and bins, on everything that is awkward."""

import itertools

import numpy as np
import pytest
import reference as ref
from calls import refused

from skcalib import metrics

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
    with pytest.raises(ValueError, match="version=1 pools them"):
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
