"""Calibration by group, against each group's rows alone, and what groups have in common."""

from functools import partial
from itertools import product

import numpy as np
import pandas as pd
import polars as pl
import pytest
from calls import refused
from scipy import stats

from skcalib import metrics
from skcalib._validation.rows import check_predictions, read_groups
from skcalib.metrics import (
    calibration_by_group,
    calibration_intercept_slope,
    calibration_interval,
    calibration_summary,
    expected_calibration_error,
    ks_calibration_error,
    observed_expected_ratio,
    static_calibration_error,
)
from skcalib.metrics._resampling import Evaluation
from skcalib.metrics._statistics.groups import STATISTICS, holm, sequential_p_value

pytestmark = pytest.mark.usefixtures("few_label_sets")

PARTS = ["value", "debiased", "low", "high", "if calibrated"]
KS = "ks_calibration_error"


def one_event(n=400, seed=0):
    """Probabilities that are right but in group b, where they are too high."""
    rng = np.random.default_rng(seed)
    group = rng.choice(["a", "b", "c"], n)
    p = rng.beta(2, 3, n)
    y = (rng.random(n) < np.where(group == "b", p**3, p)).astype(int)
    return y, p, group


def agreement(y_true, y_proba):
    """Smaller where labels do not follow the probabilities."""
    return np.mean((y_true - 0.5) * (y_proba - 0.5)) + 1


def three_classes(n=300, seed=0):
    rng = np.random.default_rng(seed)
    P = rng.dirichlet(np.ones(3), n)
    y = np.array(["x", "y", "z"])[[rng.choice(3, p=row) for row in P]]
    return y, P, rng.choice([2, 10], n)


@pytest.mark.parametrize("data", [one_event, three_classes])
@pytest.mark.parametrize("weighted", [False, True])
def test_a_group_is_measured_as_its_rows_alone(data, weighted):
    metric = "static_calibration_error"
    y, P, group = data()
    w = np.random.default_rng(1).random(y.size) + 0.5 if weighted else None
    labels = np.unique(y).tolist()
    frame = calibration_by_group(
        y, P, group, metrics=metric, sample_weight=w, labels=labels, random_state=5
    ).frame
    assert set(frame.index) == set(np.unique(group).tolist())
    for label, row in frame.iterrows():
        own = group == label
        wi = np.ones(own.sum()) if w is None else w[own]
        alone = calibration_interval(
            getattr(metrics, metric),
            y[own],
            P[own],
            sample_weight=None if w is None else wi,
            labels=labels,
            random_state=5,
        )
        found = [row[metric, part] for part in PARTS]
        # Weights are scaled once for all rows, and the product is scaled for the group.
        np.testing.assert_allclose(found, alone[:-1], rtol=1e-12 if weighted else 0)
        n = wi.sum() ** 2 / (wi**2).sum()
        if P.ndim == 1:
            names, score, hit = ("mean probability", "rate"), P[own], y[own] == 1
            assert row["events", ""] == pytest.approx(n * np.average(hit, weights=wi))
        else:
            names, score = ("mean confidence", "accuracy"), P[own].max(axis=1)
            hit = np.array(labels)[P[own].argmax(axis=1)] == y[own]
        mean, rate = (np.average(part, weights=wi) for part in (score, hit))
        expected = [n, mean, rate, rate - mean]
        np.testing.assert_allclose([row[n, ""] for n in ("n", *names, "gap")], expected)


def test_corrected_p_values_are_holms():
    # .005 x 4, .01 x 3, .03 x 2, then .04 x 1, which may not fall below the one before it.
    np.testing.assert_allclose(holm(np.array([0.01, 0.04, 0.03, 0.005])), [0.03, 0.06, 0.06, 0.02])
    np.testing.assert_allclose(holm(np.array([0.6, 0.7])), [1.0, 1.0])
    assert holm(np.array([])).size == 0


@pytest.mark.parametrize("n_events", [5, 8, 10])
def test_the_p_value_is_that_of_all_label_sets(n_events):
    p = np.array([0.3, 0.35, 0.4, 0.45, 0.5, 0.5, 0.55, 0.6, 0.65, 0.7])
    y = (np.arange(10) >= 10 - n_events).astype(int)

    def error(labels):
        order = np.argsort(p, kind="stable")
        curve = np.cumsum((np.asarray(labels) - p)[order])
        curve[4] = curve[5]  # two equal scores
        return np.abs(curve).max()

    chance = lambda labels: np.prod(np.where(labels, p, 1 - p))  # noqa: E731
    sets = [np.array(labels) for labels in product([0, 1], repeat=10)]
    exact = sum(chance(each) for each in sets if error(each) >= error(y) - 1e-12)
    predictions = check_predictions(y, p, None, [0, 1])
    evaluate = Evaluation(ks_calibration_error, {}, True)
    found = np.mean([sequential_p_value(evaluate, predictions, 5000, seed) for seed in range(20)])
    # 20 sets reach the error of the data: a deviation of 1 / sqrt(20 x 20) of a p-value. Of the
    # smallest, 7 of 5,000 do, and the data count as one more.
    expected = exact + (exact < 20 / 5000) / 5000
    assert found == pytest.approx(expected, rel=4 / 20)


def test_the_group_that_is_surely_worst_comes_first():
    rng = np.random.default_rng(0)
    group = np.repeat(["large", "good", "small", "tiny"], [2000, 2000, 25, 12])
    p = rng.beta(2, 3, group.size)
    y = (rng.random(group.size) < np.where(group == "large", p - 0.15 * p, p)).astype(int)
    part = calibration_by_group(y, p, group, random_state=0).frame[KS]
    assert part.index[0] == "large"
    assert (np.diff(part["low"]) <= 0).all()
    assert (np.diff(part["debiased"][part["low"] == 0]) <= 0).all()
    assert not (np.diff(part["value"]) <= 0).all()  # chance makes small groups look worse


def test_small_groups_say_so():
    y, p, group = one_event()
    group = np.array(group, dtype=object)
    group[:3], group[3:12], group[12] = "three", "nine", "one"
    found = calibration_by_group(y, p, group, random_state=0)
    finding, frame = found.frame["finding"], found.frame
    assert finding["three"] == "too small to test: 3 rows"
    assert finding["one"] == "too small to test: 1 row"
    assert frame.index[-3:].tolist() == ["nine", "three", "one"]
    assert frame[KS].loc[["nine", "three", "one"]].isna().all(axis=None)
    assert frame["n"]["three"] == 3
    assert frame["rate"]["three"] == y[:3].mean()
    # They do not count in the correction.
    part = frame[KS].iloc[:3]
    np.testing.assert_array_equal(part["corrected p-value"], holm(part["p-value"].to_numpy()))
    assert found.p_value == part["corrected p-value"].min()
    assert "(1 of 3 tested, 3 too small to test;" in found.verdict


def test_a_row_of_many_copies_is_a_group_of_as_many_rows():
    rng = np.random.default_rng(0)
    p, counts = rng.random(43), np.repeat([1, 8], [40, 3])
    y, group = rng.random(43) < p, np.repeat(["rows", "counts"], [40, 3])
    rows = np.repeat(np.arange(43), counts)
    found = calibration_by_group(y, p, group, sample_weight=counts, random_state=0).frame
    copies = calibration_by_group(y[rows], p[rows], group[rows], random_state=0).frame
    assert found["ks_calibration_error"].notna().all(axis=None)
    assert found["finding"].equals(copies["finding"])


def test_nothing_but_small_groups():
    found = calibration_by_group([0, 1, 1], [0.2, 0.5, 0.9], ["a", "a", "b"])
    assert found.verdict == "No group has enough rows to be tested."
    assert np.isnan(found.p_value)
    assert "too small to test: 2 rows" in repr(found)


def test_a_category_without_rows_is_a_row_of_zeros():
    y, p, group = one_event()
    given = pd.Categorical(group, categories=["c", "none", "b", "a"])
    frame = calibration_by_group(y, p, given, random_state=0).frame
    assert frame["finding"]["none"] == "no rows"
    assert frame["n"]["none"] == 0
    assert frame["gap"].isna().tolist() == (frame["n"] == 0).tolist()


def test_missing_labels_are_a_group_of_their_own():
    y, p, group = one_event()
    for lost in (None, np.nan, pd.NA):
        given = pd.Series(group, dtype=object)
        given[:20] = lost
        frame = calibration_by_group(y, p, given, random_state=0).frame
        assert frame["n"]["(missing)"] == 20
    numbers = np.where(np.arange(y.size) < 30, np.nan, 2.0)
    assert set(calibration_by_group(y, p, numbers).frame.index) == {2, "(missing)"}


@pytest.mark.parametrize(("event", "words"), [(0, "no events"), (1, "events only")])
def test_a_group_without_events_says_so(event, words):
    rng = np.random.default_rng(0)
    p = rng.uniform(0.005, 0.03, 200)
    p = p if event == 0 else 1 - p
    y = np.full(200, event)
    group = np.repeat(["a", "b"], 100)
    y[100] = 1 - event
    frame = calibration_by_group(y, p, group, random_state=0).frame
    assert frame["finding"]["a"].endswith(f"; {words}")
    assert words not in frame["finding"]["b"]
    assert frame["finding"]["a"].startswith("no miscalibration found")


def test_findings_tell_the_direction():
    rng = np.random.default_rng(0)
    f = rng.normal(size=3000)
    group = np.repeat(["high", "low", "steep"], 1000)
    truth = np.select([group == "high", group == "low"], [f - 1, f + 1], 0.2 * f)
    y = rng.random(3000) < 1 / (1 + np.exp(-truth))
    frame = calibration_by_group(y, 1 / (1 + np.exp(-f)), group, random_state=0).frame
    finding = frame["finding"]
    gap = abs(frame["gap"]["high"])
    assert finding["high"] == f"miscalibrated, too high by {gap:.3f} on average"
    assert "too low by" in finding["low"]
    assert finding["steep"] == "miscalibrated"
    P = np.full((60, 3), 0.02)
    P[:, 0] = 0.96
    y = np.repeat([0, 1, 2], 20)
    frame = calibration_by_group(y, P, np.zeros(60), random_state=0).frame
    assert "over-confident by 0.627" in frame["finding"].iloc[0]


def test_several_columns_are_crossed():
    y, p, group = one_event()
    half = np.arange(y.size) % 2
    frame = calibration_by_group(y, p, pd.DataFrame({"site": group, "half": half})).frame
    assert frame.index.names == ["site", "half"]
    assert frame["n"]["b", 1] == ((group == "b") & (half == 1)).sum()
    array = np.column_stack([group.astype(object), half])
    assert calibration_by_group(y, p, array).frame.index.names == ["group 1", "group 2"]
    polars = pl.DataFrame({"site": group, "half": half})
    same = calibration_by_group(y, p, polars, random_state=0).frame
    assert same["n"].to_dict() == frame["n"].to_dict()


@pytest.mark.parametrize(
    ("given", "labels", "code"),
    [
        (["b", "a", "b"], [("a",), ("b",)], [1, 0, 1]),
        ([10, 9, 10], [(9,), (10,)], [1, 0, 1]),
        (np.array([1.0, 2.0, 1.0]), [(1,), (2,)], [0, 1, 0]),
        ([0.5, 0.25, 0.5], [(0.25,), (0.5,)], [1, 0, 1]),
        ([True, False, True], [(False,), (True,)], [1, 0, 1]),
        ([1, "a", 1], [(1,), ("a",)], [0, 1, 0]),
        (pl.Series("s", ["b", None, "a"]), [("a",), ("b",), ("(missing)",)], [1, 2, 0]),
        (np.array([["a"], ["b"], ["a"]]), [("a",), ("b",)], [0, 1, 0]),
        (pd.cut([1.0, 5.0, 2.0], [0, 3, 6], labels=["s", "l"]), [("s",), ("l",)], [0, 1, 0]),
    ],
)
def test_labels_of_many_kinds_are_read(given, labels, code):
    found = read_groups(given, 3)
    assert found.labels == labels
    assert found.code.tolist() == code


def test_several_metrics_in_one_frame():
    y, p, group = one_event()
    ten = partial(expected_calibration_error, n_bins=10)
    given = {"ECE of 10 bins": ten, "SCE": "neg_static_calibration_error"}
    found = calibration_by_group(y, p, group, metrics=given, random_state=0)
    assert found.metrics == ["ECE of 10 bins", "SCE"]
    own = group == "a"
    assert found.frame["ECE of 10 bins", "value"]["a"] == ten(y[own], p[own])
    assert found.frame["SCE", "value"]["a"] == static_calibration_error(y[own], p[own])
    found = calibration_by_group(y, p, group, metrics=[ten, static_calibration_error])
    assert found.metrics == ["expected_calibration_error", "static_calibration_error"]


def test_it_is_printed_as_a_sentence_and_a_table():
    y, p, group = one_event()
    found = calibration_by_group(y, p, group, random_state=0)
    # A thousand sets of labels for each of three groups: 3 / 1000 and less look the same.
    start = "Miscalibrated groups: b (1 of 3 tested; smallest corrected p-value < 0.003)"
    assert repr(found).startswith(start)
    assert max(map(len, repr(found).splitlines())) <= 100
    html = found._repr_html_()
    assert html.count("<tr>") == 4
    assert '<td class="text">miscalibrated, too high by' in html  # broken where it is too long
    assert '<th class="text">finding</th>' in html  # the head stands above the texts
    each = np.arange(900)
    many = calibration_by_group(y[each % 400], p[each % 400], each // 20, random_state=0)
    assert repr(many).endswith("... and 5 more groups: see frame.")
    right = calibration_by_group(
        y[group != "b"], p[group != "b"], group[group != "b"], random_state=0
    )
    assert right.verdict.startswith(
        "No group was found to be miscalibrated (2 tested; smallest corrected"
    )


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"groups": None}, "pass one label for each row, or a column for each of several"),
        ({"groups": ["a", "b"]}, "groups has 2 rows, but there are 400 rows"),
        ({"groups": np.random.default_rng(0).random(400)}, "pandas.cut"),
        ({"groups": np.zeros((400, 2, 2))}, r"groups: it has shape \(400, 2, 2\)"),
        ({"groups": [[1]] * 399 + [[1, 2]]}, "different numbers of labels"),
        ({"groups": np.ma.masked_array(np.zeros(400), np.arange(400) == 2)}, "masked"),
        ({"metrics": "accuracy"}, "'accuracy' is not the name of a calibration error"),
        ({"metrics": []}, "metrics is empty"),
        ({"metrics": [KS, ks_calibration_error]}, "metrics contains .* twice"),
        ({"metrics": agreement}, "not a calibration error"),
        ({"metrics": partial(static_calibration_error, average=None)}, "must return a number"),
    ],
)
def test_bad_input_is_refused_in_one_line(change, words):
    y, p, group = one_event()
    keywords = {"groups": group, **change}
    refused(words, calibration_by_group, y, p, keywords.pop("groups"), **keywords)


def test_a_metric_is_a_name_or_a_function():
    with pytest.raises(TypeError, match="metrics must be a name, a function, or a list or a dict"):
        calibration_by_group(*one_event(), metrics=3)


def test_groups_that_are_clusters_are_tested_by_their_rows():
    """The hospital is what the rows of a hospital have in common; wards lie within hospitals."""
    y, p, _ = one_event(600)
    hospital = np.arange(600) % 6
    ward = hospital + 10 * (np.arange(600) % 4 // 2)
    for groups in (hospital, ward):
        found = calibration_by_group(y, p, groups, clusters=hospital, random_state=0)
        assert found.frame.equals(calibration_by_group(y, p, groups, random_state=0).frame)
        assert not np.isnan(found.p_value)
    other = calibration_by_group(y, p, np.arange(600) % 4, clusters=hospital, random_state=0)
    assert (other.frame["clusters"] == 3).all()  # each group has rows of three hospitals


# ------------------------------------------------------------------ means of groups


NAMES = ["observed_expected", "slope", "intercept", "in_the_large", "auc", "brier_score"]


def hospitals(n=1500, number=8, seed=0):
    """Hospitals whose events, and whose slopes, differ; the last has seven rows and one event."""
    rng = np.random.default_rng(seed)
    hospital = np.where(np.arange(n) < 7, number, rng.integers(0, number, n))
    odds = rng.normal(size=n) - 1
    shift, slope = 0.5 * rng.normal(size=9)[hospital], (1 + 0.3 * rng.normal(size=9))[hospital]
    y = rng.random(n) < 1 / (1 + np.exp(-shift - slope * odds))
    y[:7] = np.arange(7) == 3
    return y, 1 / (1 + np.exp(-odds)), hospital


def paule_mandel(y, error):
    """Return tau^2 by bisection."""

    def q(tau2):
        w = [1 / (s * s + tau2) for s in error]
        mean = sum(a * b for a, b in zip(w, y, strict=True)) / sum(w)
        return sum(a * (b - mean) ** 2 for a, b in zip(w, y, strict=True))

    low, high = 0.0, 100.0
    if q(0) <= len(y) - 1:
        return 0.0
    for _ in range(200):
        middle = (low + high) / 2
        low, high = (middle, high) if q(middle) > len(y) - 1 else (low, middle)
    return low


def expected_of(y, error, level=0.95):
    G, tau2 = len(y), paule_mandel(y, error)
    w = 1 / (np.square(error) + tau2)
    mean = (w * y).sum() / w.sum()
    se2 = (w * (y - mean) ** 2).sum() / (G - 1) / w.sum()
    half = stats.t.ppf((1 + level) / 2, G - 1) * np.sqrt(se2)
    equal = w.sum() ** 2 / (w @ w)  # as many groups of equal weight
    size = np.mean(1 / np.square(error))  # the information of a group of mean size
    new = stats.t.ppf((1 + level) / 2, max(equal - 2, 1)) * np.sqrt(tau2 + se2 + 1 / size)
    v = 1 / np.square(error)
    Q = (v * (y - (v * y).sum() / v.sum()) ** 2).sum()
    I2 = max(1 - (G - 1) / Q, 0)
    return [mean, mean - half, mean + half, np.sqrt(tau2), I2, mean - new, mean + new]


def test_the_mean_of_groups_is_that_of_statsmodels():
    """statsmodels 0.15.0, combine_effects(y, s**2, method_re="iterated", use_t=True)."""
    y = np.array([0.21, -0.35, 0.62, 0.08, -0.11, 0.44, 0.30])
    s = np.array([0.12, 0.20, 0.25, 0.09, 0.31, 0.15, 0.18])
    effects = STATISTICS["intercept"].pool_groups
    _, mean, low, high, tau, I2, *_ = effects(y, s, 0.95)
    found = mean, low, high, tau**2, I2
    expected = 0.1775709594, -0.10550307, 0.46064498, 0.0610715024, 0.6174734011
    assert found == pytest.approx(expected, abs=2e-7)
    _, mean, low, high, tau, I2, *_ = effects(y / 5, s, 0.95)  # groups that do not differ
    assert (mean, low, high) == pytest.approx((0.0333525854, -0.0109066, 0.07761177), abs=1e-8)
    assert (tau, I2) == (0, 0)


@pytest.mark.parametrize("G", [3, 4, 12])
@pytest.mark.parametrize("spread", [0.0, 0.5])
def test_the_interval_of_a_new_group_is_the_formula(G, spread):
    rng = np.random.default_rng(G)
    error = rng.uniform(0.05, 0.4, G)
    y = error * rng.normal(size=G) + spread * rng.normal(size=G)
    found = STATISTICS["intercept"].pool_groups(y, error, 0.9)
    assert found == pytest.approx([G, *expected_of(y, error, 0.9)], rel=1e-7)


def test_each_group_has_the_numbers_of_its_rows_and_means_are_on_their_scales():
    y, p, hospital = hospitals()
    functions = [observed_expected_ratio, "calibration_intercept_slope", "auc", "brier_score"]
    found = calibration_by_group(y, p, hospital, metrics=functions)
    assert found.metrics == list(found.between.index)
    assert sorted(found.metrics) == sorted(NAMES)
    lines = {name: [] for name in NAMES}
    for c in range(8):
        rows = hospital == c
        summary = calibration_summary(y[rows], p[rows], random_state=0).frame
        for name in NAMES:
            line = found.frame.loc[c, name]
            ends = summary.loc[name, ["value", "low", "high"]].to_numpy()
            np.testing.assert_allclose(line.to_numpy(dtype=float), ends, rtol=1e-12)
            lines[name].append(ends)
    events = np.array([y[hospital == c].sum() for c in range(8)])
    n = np.array([(hospital == c).sum() for c in range(8)])
    for name, three in lines.items():
        value, low, high = np.transpose(three)
        error, back = (high - low) / (2 * stats.norm.ppf(0.975)), np.asarray
        if name == "observed_expected":
            value, error, back = np.log(value), np.sqrt(1 / events - 1 / n), np.exp
        if name == "auc":
            error, back = error / (value * (1 - value)), lambda x: 1 / (1 + np.exp(-x))
            value = np.log(value / (1 - value))
        mean, a, b, tau, I2, start, end = expected_of(value, error)
        expected = [8, *back(np.array([mean, a, b])), tau, I2, *back(np.array([start, end]))]
        np.testing.assert_allclose(found.between.loc[name].to_numpy(dtype=float), expected, 1e-6)
    mean, low, high, start, end = found.between.iloc[0, [1, 2, 3, 6, 7]]
    assert found.verdict == (
        f"observed_expected: {mean:.3g} ({low:.4g} to {high:.4g}) on average of 8 groups, "
        f"{start:.4g} to {end:.4g} in a new group."
    )
    assert np.isnan(found.p_value)


def test_groups_with_one_event_are_marked_and_come_last():
    y, p, hospital = hospitals()
    found = calibration_by_group(y, p, hospital, metrics=["slope"])
    assert found.frame.index[-1] == 8
    assert found.frame["finding"].tolist() == [*[""] * 8, "too few rows for slope"]
    assert np.isnan(found.frame.loc[8, ("slope", "value")])
    assert "too few rows for slope" in repr(found)
    assert "nan" not in repr(found)
    assert "prediction_low" in repr(found)
    assert "prediction_low" in found._repr_html_()


def test_the_worst_group_is_that_which_is_surely_farthest_from_perfect():
    y, p, hospital = hospitals()
    perfect = {"observed_expected": 1, "slope": 1, "intercept": 0, "auc": np.inf, "log_loss": 0}
    for name, ideal in perfect.items():
        frame = calibration_by_group(y, p, hospital, metrics=name).frame[name].iloc[:8]
        scale = np.log if name == "observed_expected" else np.asarray
        low, high = scale(frame["low"]), scale(frame["high"])
        ideal = scale(float(ideal)) if name == "observed_expected" else ideal
        if name == "auc":
            least = 1 - np.asarray(high)
        else:
            least = np.asarray(np.maximum(np.maximum(low - ideal, ideal - high), 0))
        assert (np.diff(least) <= 1e-12).all()


def test_two_groups_have_no_mean():
    y, p, hospital = hospitals(number=2)
    found = calibration_by_group(y, p, hospital, metrics="slope")
    assert found.between.loc["slope", "groups"] == 2
    assert found.between.loc["slope"].drop("groups").isna().all()
    assert (
        found.verdict == "slope: fewer than 3 groups have enough rows with and without the event."
    )


def test_errors_and_statistics_stand_side_by_side():
    y, p, hospital = hospitals()
    both = ["ks_calibration_error", "auc"]
    found = calibration_by_group(y, p, hospital, metrics=both, random_state=0)
    plain = calibration_by_group(y, p, hospital, random_state=0)
    assert found.frame[plain.frame.columns].equals(plain.frame.loc[found.frame.index])
    pooled = calibration_by_group(y, p, hospital, metrics="auc")
    assert found.verdict == f"{plain.verdict} {pooled.verdict}"
    assert found.p_value == plain.p_value
    assert found.between.index.tolist() == ["auc"]
    assert plain.between.empty
    assert "prediction_low" not in repr(plain)


def test_counts_are_copies_of_rows():
    y, p, hospital = hospitals(n=600, number=4)
    w = np.random.default_rng(0).integers(0, 3, y.size)
    rows = np.repeat(np.arange(y.size), w)
    keywords = {"metrics": ["observed_expected", "slope", "auc"]}
    counted = calibration_by_group(y, p, hospital, sample_weight=w, **keywords)
    copied = calibration_by_group(y[rows], p[rows], hospital[rows], **keywords)
    np.testing.assert_allclose(counted.between, copied.between, rtol=1e-9)


def test_clusters_within_groups_widen_their_intervals():
    y, p, hospital = hospitals()
    patient = np.arange(y.size) // 5 + 1000 * hospital
    found = calibration_by_group(y, p, hospital, metrics=["slope", "auc"], clusters=patient)
    rows = hospital == 0
    line = calibration_intercept_slope(y[rows], p[rows], clusters=patient[rows])
    assert tuple(found.frame.loc[0, "slope"]) == pytest.approx(line[:3], rel=1e-12)
    few = np.where(hospital == 0, np.arange(y.size) % 2, np.arange(y.size))
    found = calibration_by_group(y, p, hospital, metrics="slope", clusters=few)
    assert found.frame.loc[0, ("finding", "")] == "too few rows for slope"
    assert found.between.loc["slope", "groups"] == 7


def test_a_group_without_a_finite_slope_has_none():
    y, p, hospital = hospitals()
    rows = hospital == 0
    y = np.where(rows, p > np.median(p[rows]), y)
    found = calibration_by_group(y, p, hospital, metrics=["slope", "observed_expected", "auc"])
    assert np.isnan(found.frame.loc[0, ("slope", "value")])
    assert np.isfinite(found.frame.loc[0, ("observed_expected", "value")])
    assert found.between["groups"].tolist() == [7, 8, 7]  # the logit of an AUC of 1 is infinite


def test_the_top_label_of_many_classes_is_an_event():
    rng = np.random.default_rng(0)
    P = rng.dirichlet([1, 1, 1], 600)
    y = (P.cumsum(axis=1) < rng.random((600, 1))).sum(axis=1)
    found = calibration_by_group(y, P, np.arange(600) % 4, metrics=["slope", "auc"])
    assert found.between["groups"].tolist() == [4, 4]


def test_unknown_names_are_refused_with_those_that_are_known():
    y, p, hospital = hospitals()
    with pytest.raises(ValueError, match="'ici' .* use integrated_calibration_index, or"):
        calibration_by_group([0, 1], [0.2, 0.7], [0, 1], metrics=["ici"])
    with pytest.raises(ValueError, match=r"^metrics: 'slopes' is not the name .* slope, intercept"):
        calibration_by_group(y, p, hospital, metrics=["slopes"])
    with pytest.raises(ValueError, match="metrics contains .* twice"):
        calibration_by_group(y, p, hospital, metrics=["slope", "calibration_intercept_slope"])
