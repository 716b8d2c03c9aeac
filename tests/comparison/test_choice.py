"""The choice of a calibrator by the log losses of held-out rows."""

import math
import re
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
from scipy import stats

from skcalib._comparison.comparison import (
    WHY_AUTO,
    advice,
    choose,
    find_as_good,
    format_choice,
    sentence_on_test,
    simpler_sentence,
)
from skcalib._comparison.measures import LOG_LOSS
from skcalib._validation.rows import check_predictions
from skcalib.metrics._statistics.scores import RowLosses, hall_interval


def hall_by_hand(d, level):
    """Hall's interval of a mean, number by number."""
    n = len(d)
    g = sum(d) / n
    s = math.sqrt(sum((x - g) ** 2 for x in d) / (n - 1) / n)
    second = sum((x - g) ** 2 for x in d) / n
    a = sum((x - g) ** 3 for x in d) / n / second**1.5 / math.sqrt(n)

    def h(t):
        inside = 1 + a * (t - a / 6)
        return 3 / a * (math.copysign(abs(inside) ** (1 / 3), inside) - 1)

    t = stats.t(n - 1)
    return g - s * h(t.ppf((1 + level) / 2)), g - s * h(t.ppf((1 - level) / 2))


@pytest.mark.parametrize("level", [0.8, 0.95])
@pytest.mark.parametrize("n", [3, 40])
def test_halls_interval_is_the_formula_with_the_pseudo_row(n, level):
    d = np.random.default_rng(n).exponential(size=n) - 0.7
    found = hall_interval(RowLosses(d, -2.5, np.ones(n)), level)
    assert found == pytest.approx(hall_by_hand([*d, -2.5], level), rel=1e-9)
    plain = hall_interval(RowLosses(d, None, np.ones(n)), level)
    assert plain == pytest.approx(hall_by_hand(list(d), level), rel=1e-9)


def test_without_skewness_halls_interval_is_students():
    d = np.array([-3.0, -1.0, 1.0, 3.0]) + 0.4
    expected = stats.ttest_1samp(d, 0).confidence_interval(0.9)
    found = hall_interval(RowLosses(d, None, np.ones(4)), 0.9)
    assert found == pytest.approx(tuple(expected), rel=1e-9)
    assert hall_interval(RowLosses(np.ones(5), 1.0, np.ones(5)), 0.9) == (1, 1)


def test_losses_and_pseudo_error_of_held_out_rows():
    """By hand: the loss of the true class, and of a row whose top class is wrong."""
    P = np.array([[0.7, 0.2, 0.1], [0.25, 0.5, 0.25], [0.0, 0.0, 1.0]])
    found = LOG_LOSS.losses(check_predictions([0, 2, 1], P, [1.0, 2.0, 1.0]))
    np.testing.assert_allclose(found.losses, [-math.log(0.7), -math.log(0.25), 27.631021], 1e-6)
    wrong = [-math.log(0.3), -math.log(0.5), -math.log(1e-6)]
    assert found.pseudo_error == pytest.approx((wrong[0] + 2 * wrong[1] + wrong[2]) / 4)


def rows(mean, n=200, pseudo=3.0, spread=0.0, seed=0):
    """Losses with a mean, and noise of mean 0."""
    noise = np.random.default_rng(seed).normal(size=n)
    return RowLosses(mean + spread * (noise - noise.mean()), pseudo, np.ones(n))


def test_the_anchor_is_taken_unless_another_is_three_standard_errors_better():
    """A lead of 0.1: its standard error is about 0.1 / 2.8 or 0.1 / 3.2."""
    for times, name in ((2.8, "auto"), (3.2, "vector")):
        spread = 0.1 / times * math.sqrt(201)
        found = {
            "identity": rows(1.0),
            "auto": rows(0.5),
            "vector": rows(0.4 - 0.1 / 200, spread=spread, pseudo=2.9),
            "beta": rows(0.3, spread=9.0, seed=1),
        }
        d = np.append(found["auto"].losses - found["vector"].losses, 0.1)
        measured = d.mean() / (d.std(ddof=1) / math.sqrt(201))
        assert (measured > 3) == (name == "vector")
        choice = choose(found)
        assert choice.name == choice.candidate == name
        assert (choice.lead is None) == (name == "auto")
        if choice.lead is not None:
            assert choice.lead == pytest.approx(d.mean())
            told = format_choice(choice, 200)
            better = "its log loss is lower by 0.1, more than 3 standard errors."
            assert f"vector is better than auto: {better}" in told


def test_without_an_anchor_half_a_wrong_row_counts():
    """On 10 rows, .02 lower for each row is .2 in all: less than half of a pseudo-error of 1."""
    found = {
        "identity": rows(0.5, 10),
        "sure": rows(0.08, 10, pseudo=4.0),
        "modest": rows(0.10, 10, pseudo=3.0),
    }
    choice = choose(found)
    assert (choice.name, choice.anchor) == ("modest", None)
    assert choose({**found, "sure": rows(0.08, 10, pseudo=3.3)}).name == "sure"
    assert advice(choice).startswith(' Add "auto" to the calibrators: it is the default ')


def test_the_identity_is_taken_only_if_nothing_is_gained():
    noisy = {"identity": rows(1.0), "auto": rows(0.99, spread=1.0)}
    kept = choose(noisy)
    assert (kept.name, kept.kind) == ("auto", "likely")
    assert kept.outcome.low < 0 < kept.outcome.gain == pytest.approx(0.01)
    told = format_choice(kept, 200)
    assert told.startswith("Calibrate by auto: cross-validated log loss falls from 1.00 to 0.990.")
    assert "probably a gain (0.01), but 200 rows are too few to be sure" in told
    assert "but 12 clusters are too few to be sure" in format_choice(kept, 6000, clusters=12)
    worse = choose({"identity": rows(1.0), "auto": rows(1.01, spread=1.0)})
    told = format_choice(worse, 6000, clusters=12)
    assert " of 6,000 held-out rows in 12 clusters, but a gain of up to" in told
    assert told.endswith("more clusters are needed to decide.")
    on_test = sentence_on_test(kept, kept.outcome, 6000, 0.95, 12)
    assert " on the 6,000 test rows in 12 clusters (gain" in on_test
    assert on_test.endswith(" The 12 clusters of the test rows are too few to be sure of a gain.")
    assert (worse.name, worse.candidate, worse.kind) == ("identity", "auto", "open")
    told = format_choice(worse, 200)
    assert told.startswith("Keep the probabilities for now: auto does not lower")
    # A row whose top class is wrong costs 1 less with auto than without: .01 a row over 10 rows.
    before, after = rows(0.02, 10, pseudo=4.0), rows(0.03, 10, pseudo=3.0)
    few = choose({"identity": before, "auto": after})
    assert (few.name, few.kind) == ("auto", "few errors")
    assert few.outcome.gain == pytest.approx(-0.01)
    assert "one more wrong prediction would turn the loss into a gain" in format_choice(few, 10)
    losses = np.append(np.full(990, 0.1), np.full(11, 2.0))  # eleven of 1,001 labels have p = .14
    spread = 0.1 * (-1.0) ** np.arange(1001)
    for wrong, kind in ((11, "open"), (10, "few errors")):
        before = RowLosses(losses[: 990 + wrong], 4.0, np.ones(990 + wrong))
        after = RowLosses((losses + spread)[: 990 + wrong] + 2e-4, 3.0, before.w)
        assert choose({"identity": before, "auto": after}).kind == kind
    before = rows(0.02, 10, pseudo=4.0)
    few = choose({"identity": before, "auto": rows(0.13, 10, pseudo=3.0)})
    assert few.name == "identity"
    for gain in (0.0003, -0.0003):  # intervals of .001 and less on both sides of 0
        nothing = choose({"identity": rows(1.0), "auto": rows(1 - gain, spread=0.002)})
        assert (nothing.name, nothing.kind) == ("identity", "nothing")
        assert max(-nothing.outcome.low, nothing.outcome.high) <= 0.001
        told = format_choice(nothing, 200)
        assert told.startswith("Keep the probabilities: nothing to gain. With auto")
    assert choose({"identity": rows(1.0), "auto": rows(0.998, spread=0.002)}).kind == "sure"
    small = choose({"identity": rows(1.0), "auto": rows(1.01, spread=0.05)})
    assert (small.name, small.kind) == ("identity", "small")
    assert small.outcome.high < 0.02
    assert "for now" not in format_choice(small, 200)


def test_others_than_the_anchor_have_the_level_of_all_together():
    found = {"identity": rows(1.0), "a": rows(0.5, spread=1.0), "b": rows(0.6)}
    choice = choose(found, anchor=None)
    d = [*(1.0 - found["a"].losses), 0.0]
    assert choice.outcome[2:] == pytest.approx(hall_by_hand(d, math.sqrt(0.95)))
    anchored = choose(found, anchor="a")
    assert anchored.outcome[2:] == pytest.approx(hall_by_hand(d, 0.95))


def test_as_good_as_another_means_within_two_standard_errors_and_2_percent():
    error = 0.004
    found = {
        "best": rows(0.5),
        "close": rows(0.5 + 1.9 * error, spread=error * math.sqrt(200)),
        "far": rows(0.5 + 2.1 * error, spread=error * math.sqrt(200)),
        "much": rows(0.511, spread=0.1 * math.sqrt(200)),
        "better": rows(0.4),
    }
    assert find_as_good(found, "best") == ["best", "close", "better"]


def test_a_simpler_map_is_named_if_it_is_as_good():
    results = {
        "auto": SimpleNamespace(reported=rows(0.5), changed=0.01),
        "platt": SimpleNamespace(reported=rows(0.509), changed=0.02),
    }
    kinds = {"auto": "AutoCalibrator", "platt": "PlattScaling"}
    assert simpler_sentence("auto", ["auto"], kinds, results) == ""
    assert simpler_sentence("auto", ["auto", "platt"], kinds, results) == (
        " platt, which is simpler, is as good here (log loss 0.509) and changes 2.0 % of the "
        "predicted classes."
    )


def test_the_reason_for_auto_has_the_numbers_of_the_benchmark():
    """benchmarks/arena/regret.md: the column of all runs, and the number of data sets."""
    page = (Path(__file__).parents[2] / "benchmarks" / "arena" / "regret.md").read_text()
    auto, lowest = (
        re.search(rf"^\| {rule} \|.*?\| ([\d.]+) \| [\d.]+ \|(?: [\d.]+ \|){{4}}$", page, re.M)[1]
        for rule in ("always auto", "lowest held-out loss")
    )
    n_sets = re.search(r"runs on (\d+) sets of data", page)[1]
    numbers = re.findall(r"(\d[\d.]*) %|on (\d+) data sets", WHY_AUTO)
    assert [a or b for a, b in numbers] == [auto, n_sets, f"{float(lowest):.0f}"]
