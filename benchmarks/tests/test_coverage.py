"""The simulation of intervals: its truths, its limits and what it counts."""

import itertools
import sys
from pathlib import Path

import numpy as np
import pytest
from scipy.special import expit

# The benchmarks are not installed; last, so that it is the installed package that is tested.
sys.path.append(str(Path(__file__).parents[2]))

from benchmarks.coverage import __main__ as coverage
from benchmarks.coverage import cells, curve, kept, risk, sources
from benchmarks.coverage.kept import Cell, Result
from benchmarks.coverage.sources import ERRORS, PAIRS, TRUTHS
from skcalib.metrics._interval.intervals import CalibrationInterval

pytestmark = pytest.mark.slow


@pytest.mark.parametrize("name", [*TRUTHS, *PAIRS])
@pytest.mark.parametrize("n_classes", [2, 10])
def test_truths_and_models_are_probabilities(name, n_classes):
    """Of the right number, and only the calibrated model is the truth."""
    draw = cells.draw_of(name)
    rows = draw(500, n_classes, np.random.default_rng(0))
    assert len(rows.models) == (2 if name in PAIRS else 1)
    for A in (rows.truth, *rows.models):
        assert A.shape == (500, n_classes)
        assert A.min() >= 0
        np.testing.assert_allclose(A.sum(axis=1), 1)
    assert np.array_equal(rows.truth, rows.models[0]) == (
        name in ("calibrated", "x1 to x1.05", "x1 to x1.2")
    )


def test_ties_are_hundredths_and_a_jagged_truth_is_off_by_a_constant():
    """Rounded probabilities are near those that were rounded; a jagged truth is off by .07."""
    rng = np.random.default_rng(0)
    P = TRUTHS["ties"](400, 3, rng).models[0]
    np.testing.assert_allclose(100 * P, np.rint(100 * P), atol=1e-9)
    plain = TRUTHS["x1.25"](400, 3, np.random.default_rng(0)).models[0]
    assert np.abs(P - plain).max() < 0.01 + 1e-9
    truth, (P,), _ = TRUTHS["jagged"](400, 3, rng)
    top = P.argmax(axis=1)
    off = truth[np.arange(400), top] - P.max(axis=1)
    inside = P.max(axis=1) < 0.93
    np.testing.assert_allclose(np.abs(off[inside]), 0.07)
    assert 0.3 < (off[inside] > 0).mean() < 0.7


def gaps(s, t, edges):
    """Return share and gap of each bin, by loops; bins are closed on the right."""
    found = []
    for low, high in itertools.pairwise(edges):
        rows = [i for i in range(len(s)) if low < s[i] <= high]
        if rows:
            found.append((len(rows) / len(s), sum(t[i] - s[i] for i in rows) / len(rows)))
    return found


def test_limits_are_the_errors_with_truths_for_labels():
    """ECE, class-wise ECE and KS by the definition, in loops over rows."""
    truth, (P,), w = TRUTHS["x2"](300, 3, np.random.default_rng(1))
    even = np.linspace(0, 1, 16)
    top = P.argmax(axis=1)
    s, t = P.max(axis=1), truth[np.arange(300), top]
    ece = sum(share * abs(gap) for share, gap in gaps(s, t, even))
    sce = np.mean([sum(a * abs(g) for a, g in gaps(P[:, k], truth[:, k], even)) for k in range(3)])
    below = [sum(t[i] - s[i] for i in range(300) if s[i] <= at) / 300 for at in s]
    for name, expected in {"ECE": ece, "SCE": sce, "KS": max(map(abs, below))}.items():
        assert sources.limit(ERRORS[name], truth, P, w) == pytest.approx(expected, abs=1e-9)
    # The debiased error subtracts only the noise of labels: without noise it is the plain l2.
    edges = np.r_[0, np.sort(s)[19:-1:20], 1]  # 15 bins of 20 rows
    l2 = sum(share * gap**2 for share, gap in gaps(s, t, edges)) ** 0.5
    assert sources.limit(ERRORS["debiased l2"], truth, P, w) == pytest.approx(l2, abs=1e-9)
    for name in ERRORS:
        assert sources.limit(ERRORS[name], truth, truth, w) < 1e-6


def test_figures_are_counted_as_by_hand():
    """Three of four intervals hold the truth, and one cell of two is low."""
    ends = [(0.1, 0.2), (0.15, 0.3), (0.16, 0.3), (0.0, 0.2)]
    found = np.array([[(0.2 + 0.01 * i, 0.15, *e)] * len(ERRORS) for i, e in enumerate(ends)])
    low, good = (
        Result(Cell("x2", 300, K), 4, true, kept.sums_of(found, true))
        for K, true in ((2, np.full(len(ERRORS), 0.15)), (10, np.full(len(ERRORS), 0.16)))
    )
    assert low.mean("contained").tolist() == [0.75] * len(ERRORS)
    column = coverage.Column("ECE", [low, good])
    width, sd = (0.1 + 0.15 + 0.14 + 0.2) / 4, np.std([0, 0.01, 0.02, 0.03], ddof=1)
    squares = np.mean([(0.05 + 0.01 * i) ** 2 + (0.04 + 0.01 * i) ** 2 for i in range(4)]) / 2
    assert column.summary() == [
        "0.875",
        "0.75",
        "1 of 2",
        "0",
        f"{width / (3.92 * sd):.2f}",
        f"{1e4 * squares**0.5:.0f} to {1e4 * (0.01**2 / 2) ** 0.5:.0f}",
    ]
    assert column.at(300, 2) == "0.750, 0.75"
    # Of 40 samples with a share of .93, 33 or fewer in 2 %, 32 or fewer in .6 % of all cells.
    many = [low._replace(repetitions=40, sums=low.sums / 4 * 40) for _ in range(3)]
    for result, number in zip(many, (34, 33, 32), strict=True):
        result.sums[:, 0] = number
    assert coverage.Column("ECE", many).summary()[2:4] == ["3 of 3", "1"]
    lines = coverage.tables([low, good])
    assert "* ECE: x2/300/2 0.75." in lines


@pytest.fixture
def small(monkeypatch):
    monkeypatch.setattr(sources, "POPULATION_ROWS", 2_000)


@pytest.mark.usefixtures("small")
def test_repetitions_are_added_to_those_that_are_there(tmp_path, monkeypatch):
    """A second run makes what is missing, and the first ones stay as they were."""
    asked = []

    def intervals(evaluations, before, *, level, random_state, n_jobs):
        asked.append(random_state)
        assert before.P.shape == (60, 2)
        return [CalibrationInterval(0.1, 0.2, 0.0, 1.0, 0.0, 1.0) for _ in evaluations]

    monkeypatch.setattr(cells, "intervals_of", intervals)
    path = tmp_path / "sums.csv"
    chosen = cells.cells(list(TRUTHS), [60], [2, 3], ["x1.25/*/2"])
    assert [cell.name for cell in chosen] == ["x1.25/60/2"]
    (first,) = cells.run(chosen, 3, path, 1)
    (second,) = cells.run(chosen, 12, path, 1)
    assert asked == list(range(12))
    assert (first.repetitions, second.repetitions) == (3, 12)
    assert (second.sums[:, 0] == 12).all()
    assert (second.mean("width") == 1).all()
    np.testing.assert_allclose(second.sums, 4 * first.sums)
    every = cells.cells(list(TRUTHS), [60], [2, 3], ["*"])
    (there,) = cells.run(every, 0, path, 1)  # no more, and what there is
    assert there.cell == chosen[0]
    np.testing.assert_allclose(there.sums, second.sums, rtol=1e-8)
    np.testing.assert_allclose(there.true, first.true, rtol=1e-8)
    assert asked == list(range(12))


@pytest.mark.usefixtures("small")
def test_tables_of_a_small_run(tmp_path, capsys):
    """Errors and gains, measured and written; both are likely to hold the truth once."""
    arguments = [
        "--n",
        "60",
        "--classes",
        "3",
        "--repetitions",
        "2",
        "--out",
        str(tmp_path / "sums.csv"),
    ]
    arguments += ["--cells", "x1.25/*", "x2 to x1.25/*", "--page", str(tmp_path / "page.md")]
    coverage.main(arguments)
    page = (tmp_path / "page.md").read_text()
    assert page.count("2 repetitions of each.") == 2
    assert "| n = 60, K = 3 |" in page
    capsys.readouterr()


@pytest.mark.parametrize("name", risk.TRUTHS)
@pytest.mark.parametrize("rate", risk.RATES)
def test_populations_of_risk_are_what_a_large_sample_shows(name, rate):
    """Slope, both intercepts, O:E and the share of events, within four standard errors."""
    people = risk.population(rate, name)
    y, p = risk.sample(people, 200_000, np.random.default_rng(0))
    found = risk.calibration_intercept_slope(y, p)
    for statistic, value in (
        ("slope", people.truth.slope),
        ("intercept", people.truth.shift),
        ("in_the_large", people.in_the_large),
    ):
        error = getattr(found, f"{statistic}_standard_error")
        assert abs(getattr(found, statistic) - value) < 4 * error
    number = risk.observed_expected_ratio(y, p, confidence_level=0.9999)
    assert number.low < people.ratio < number.high
    assert y.mean() == pytest.approx(rate, rel=0.05)


def test_table_of_risk(tmp_path, monkeypatch, capsys):
    """A line for each truth, and the intervals that hold too little by name."""
    monkeypatch.setattr(risk, "ROWS", (300,))
    risk.main(["--repetitions", "3", "--page", str(tmp_path / "page.md")])
    page = (tmp_path / "page.md").read_text()
    assert "| overfitted, 20%, 300 |" in page
    assert "Intervals below 0.93: " in page
    capsys.readouterr()


def test_curves_have_the_rate_that_they_say_and_tables_name_what_is_low(tmp_path, capsys):
    """The rate over very many scores; a page of two repetitions of one size."""
    for truth, rate in itertools.product(curve.TRUTHS, curve.RATES):
        cell = curve.Cell(truth, rate, 500)
        m, s = curve.centre(cell), curve.SPREAD[rate]
        z = np.random.default_rng(0).normal(size=400_000)
        assert abs(expit(curve.TRUTHS[truth](z, m, s)).mean() / rate - 1) < 0.02
        true = curve.true_distances(cell, m)
        assert (true.max() < 1e-12) == (truth == "calibrated")
    page = tmp_path / "curve.md"
    curve.main(["--repetitions", "2", "--index", "1", "--n", "100", "--page", str(page)])
    text = page.read_text()
    assert text.count("| curved, 2 %, 100 |") == 2
    assert "Below 0.93: " in text
    assert "\nwave, 20 %, 100 [" in capsys.readouterr().out
