"""Binned errors equal a double loop over rows and bins, on everything that is awkward."""

import itertools
from functools import partial

import numpy as np
import pytest
import reference as ref

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
    with pytest.raises(ValueError, match="bin_weight must be one of"):
        tace(bin_weight="mass")


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


def test_float32_scores_meet_edges_of_float32():
    """float32(0.1) lies above the edge 0.1, and yet in the first of ten right-closed bins."""
    p = np.float32(0.1)
    P = np.array([[p, 1 - p]], dtype=np.float32)
    table = metrics.reliability_table(
        [0], P, n_bins=10, max_prob=False, class_conditional=True, labels=[0, 1]
    )
    assert table.query("count == 1")["bin"].tolist() == [0, 8]


def test_first_bin_is_exact_even_where_a_class_dominates():
    """Columns with few small entries are summed afresh, not left over from a subtraction."""
    rng = np.random.default_rng(0)
    n = 4000
    p = rng.uniform(0.9, 1, n)
    p[7] = 1e-9
    P = np.column_stack([p, 1 - p])
    y = (rng.random(n) > p).astype(int)
    table = metrics.reliability_table(y, P, max_prob=False, class_conditional=True)
    first = table[(table["class"] == 0) & (table["bin"] == 0)].iloc[0]
    assert first["count"] == 1
    assert first["confidence"] == 1e-9


@pytest.mark.parametrize("options", [o for o in OPTIONS if o.get("quantile_method") != "rank"])
def test_whole_weights_are_copies_in_all_bins(options):
    metric = metrics.general_calibration_error
    y, P = ref.predictions(4, 50, seed=9, kind="ties")
    w = np.random.default_rng(0).integers(0, 4, 50)
    weighted = metric(y, P, sample_weight=w, labels=range(4), **options)
    repeated = metric(np.repeat(y, w), np.repeat(P, w, axis=0), labels=range(4), **options)
    assert weighted == pytest.approx(repeated, abs=1e-12)
    order = np.random.default_rng(1).permutation(50)
    shuffled = metric(y[order], P[order], sample_weight=w[order], labels=range(4), **options)
    assert weighted == pytest.approx(shuffled, abs=1e-12)


@pytest.mark.parametrize("reduction", REDUCTIONS)
def test_rank_bins_split_the_weight_of_a_row(reduction):
    y, P = ref.predictions(4, 50, seed=9)
    w = np.random.default_rng(0).integers(0, 4, 50)
    options = {"strategy": "quantile", "quantile_method": "rank", "labels": range(4), **reduction}
    weighted = metrics.general_calibration_error(y, P, sample_weight=w, **options)
    repeated = metrics.general_calibration_error(
        np.repeat(y, w), np.repeat(P, w, axis=0), **options
    )
    assert weighted == pytest.approx(repeated, abs=1e-12)


@pytest.mark.parametrize("options", OPTIONS, ids=lambda o: "-".join(o.values()))
def test_fractional_weights_cut_bins_by_mass(options):
    """Scaling fractional weights changes nothing; nor does writing a row as two halves."""
    y, P = ref.predictions(4, 50, seed=9)
    w = np.random.default_rng(0).uniform(0.1, 2, 50)
    metric = partial(metrics.general_calibration_error, max_prob=False, class_conditional=True)
    value = metric(y, P, sample_weight=w, labels=range(4), **options)
    scaled = metric(y, P, sample_weight=w * 0.37, labels=range(4), **options)
    halves = metric(
        np.repeat(y, 2), np.repeat(P, 2, axis=0), sample_weight=np.repeat(w / 2, 2),
        labels=range(4), **options,
    )  # fmt: skip
    assert value == pytest.approx(scaled, abs=1e-12)
    assert value == pytest.approx(halves, abs=1e-12)


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


@pytest.mark.parametrize(
    ("keywords", "message"),
    [
        ({"n_bins": 0}, "n_bins must be a whole number >= 1; got 0"),
        ({"n_bins": 2.5}, "n_bins must be a whole number"),
        ({"strategy": "even"}, r"strategy must be one of \['uniform', 'quantile'\]"),
        ({"closed": "both"}, "closed must be one of"),
        ({"quantile_method": "floor"}, "quantile_method must be one of"),
        ({"threshold": 1.5}, "threshold must be None or a number"),
        ({"class_weight": None}, "class_weight must be one of"),
        ({"bin_weight": "mass"}, "bin_weight must be one of"),
        ({"average": "micro"}, "average must be one of"),
        ({"average": None}, "it needs class_conditional"),
        ({"pos_label": 7}, r"pos_label=7 is not one of the labels \[0, 1\]"),
    ],
)
def test_wrong_keywords_are_named_with_the_mend(keywords, message):
    with pytest.raises(ValueError, match=message):
        metrics.general_calibration_error([0, 1], [0.2, 0.7], **keywords)


def test_the_first_version_of_tace_has_no_error_for_each_class():
    """It pools the classes into one table."""
    y, P = ref.predictions(3, 30, seed=0)
    with pytest.raises(ValueError, match="version=1 pools them"):
        metrics.thresholded_adaptive_calibration_error(y, P, version=1, average=None)
