"""The simulation of intervals: its truths, its limits and what it counts."""

import itertools
import re
from pathlib import Path

import numpy as np
import pytest

from benchmarks.coverage import __main__ as coverage
from benchmarks.coverage import cells, clustered, event, label_plan, means, sources
from benchmarks.coverage.sources import ERRORS, PAIRS, TRUTHS
from skcalib import CalibrationMonitor
from skcalib.metrics import calibration_intercept_slope
from skcalib.metrics._intervals.interval import CalibrationInterval

pytestmark = pytest.mark.slow


@pytest.mark.parametrize("name", [*TRUTHS, *PAIRS])
def test_truths_and_models_are_probabilities(name):
    """Of the right number, and only the calibrated model is the truth."""
    rows = cells.draw_of(name)(500, 3, np.random.default_rng(0))
    assert len(rows.models) == (2 if name in PAIRS else 1)
    for A in (rows.truth, *rows.models):
        assert A.min() >= 0
        np.testing.assert_allclose(A.sum(axis=1), 1)
    calibrated = name in ("calibrated", "x1 to x1.05", "x1 to x1.2")
    assert np.array_equal(rows.truth, rows.models[0]) == calibrated


def gaps(s, t, edges):
    """Return share and gap of each bin, by loops; bins are closed on the right."""
    for low, high in itertools.pairwise(edges):
        rows = [i for i in range(len(s)) if low < s[i] <= high]
        if rows:
            yield len(rows) / len(s), sum(t[i] - s[i] for i in rows) / len(rows)


def test_limits_are_the_errors_with_truths_for_labels():
    """ECE, class-wise ECE and KS by the definition, in loops over rows."""
    truth, (P,), w = TRUTHS["x2"](300, 3, np.random.default_rng(1))
    even = np.linspace(0, 1, 16)
    s, t = P.max(axis=1), truth[np.arange(300), P.argmax(axis=1)]
    ece = sum(share * abs(gap) for share, gap in gaps(s, t, even))
    sce = np.mean([sum(a * abs(g) for a, g in gaps(P[:, k], truth[:, k], even)) for k in range(3)])
    below = [sum(t[i] - s[i] for i in range(300) if s[i] <= at) / 300 for at in s]
    for name, expected in {"ECE": ece, "SCE": sce, "KS": max(map(abs, below))}.items():
        assert sources.limit(ERRORS[name], truth, P, w) == pytest.approx(expected, abs=1e-9)
    for name in ERRORS:
        assert sources.limit(ERRORS[name], truth, truth, w) < 1e-6


def test_repetitions_are_added_to_those_that_are_there(tmp_path, monkeypatch):
    """A second run makes what is missing, and sums are those by hand."""
    seeds = []

    def interval(evaluate, before, *, level, random_state):
        seeds.append(random_state)
        return CalibrationInterval(0.1, 0.2, 0.0, 1.0, 0.0, 1.0)

    monkeypatch.setattr(sources, "POPULATION_ROWS", 2_000)
    monkeypatch.setattr(cells, "interval_of", interval)
    path = tmp_path / "sums.csv"
    chosen = cells.cells(list(TRUTHS), [60], [2, 3], ["x1.25/*/2"])
    assert [cell.name for cell in chosen] == ["x1.25/60/2"]
    cells.run(chosen, 3, path, 1)
    (result,) = cells.run(chosen, 12, path, 1)
    assert seeds[:: len(ERRORS)] == list(range(12))
    assert result.repetitions == 12
    assert (result.mean("contained") == 1).all()
    assert (result.mean("width") == 1).all()
    np.testing.assert_allclose(result.mean("squared_error"), (0.1 - result.true) ** 2)
    assert "| mean coverage | 1.000 |" in "\n".join(coverage.tables([result]))


def test_tables_of_a_small_run(tmp_path, monkeypatch):
    """Errors and gains are measured and written."""
    monkeypatch.setattr(sources, "POPULATION_ROWS", 2_000)
    page = tmp_path / "page.md"
    arguments = ["--n", "60", "--classes", "3", "--repetitions", "2", "--page", str(page)]
    arguments += ["--out", str(tmp_path / "sums.csv"), "--cells", "x1.25/*", "x2 to x1.25/*"]
    coverage.main(arguments)
    assert page.read_text().count("2 repetitions of each.") == 2
    assert page.read_text().count("| n = 60, K = 3 |") == 2


def test_the_page_has_the_stored_sums(tmp_path):
    page = tmp_path / "page.md"
    coverage.main(["--repetitions", "0", "--page", str(page)])
    text = (Path(coverage.__file__).parent / "table.md").read_text()
    for part in page.read_text().split("\n\n"):
        assert part in text


@pytest.mark.parametrize("rate", event.RATES)
def test_populations_of_one_event_are_what_a_large_sample_shows(rate):
    """The rate of every truth; slope and intercepts within four standard errors."""
    for kind in ("bands", "statistics"):
        simulation = event.SIMULATIONS[kind]
        for truth in simulation.truths:
            cell = event.Cell(truth, rate, 400_000)
            logits = simulation.logits(cell)
            rng = np.random.default_rng(0)
            q, p = (1 / (1 + np.exp(-x)) for x in logits(rng.normal(size=cell.n)))
            assert q.mean() == pytest.approx(rate, rel=0.02)
            if kind == "bands":
                assert (event.true_distances(cell, logits).max() < 1e-12) == (truth == "calibrated")
                continue
            fit = calibration_intercept_slope(rng.random(cell.n) < q, p)
            true = event.true_statistics(cell, logits)
            for name, value in zip(("slope", "intercept", "in_the_large"), true, strict=False):
                error = getattr(fit, f"{name}_standard_error")
                assert abs(getattr(fit, name) - value) < 4 * error


def test_tables_of_one_event(tmp_path):
    """A line for each truth and rate."""
    page = tmp_path / "page.md"
    arguments = [*event.SIMULATIONS, "--n", "300", "--repetitions", "2", "--page", str(page)]
    coverage.main(arguments)
    assert page.read_text().count("2 samples of each line.") == 3
    assert page.read_text().count("| wave, 20 %, 300 |") == 2
    assert "| shifted, 2 %, 300 |" in page.read_text()


def test_tables_of_clusters(tmp_path, monkeypatch):
    """Statistics, errors and gains, of clusters and of rows."""
    monkeypatch.setattr(clustered, "NUMBERS", (7, 10))
    monkeypatch.setattr(clustered, "SIZES", (1.0,))
    page = tmp_path / "page.md"
    coverage.main(["--clusters", "--repetitions", "1", "--page", str(page)])
    assert page.read_text().count("| 10 | `clusters=` |") == 3


def test_tables_of_means(tmp_path, monkeypatch):
    """Of few clusters, of relative weights and of a new hospital, a line for each cell."""
    monkeypatch.setattr(means, "MANY", 100_000)
    monkeypatch.setattr(means, "MANY_CLUSTERS", 10_000)
    monkeypatch.setattr(means, "RESAMPLES", 10)
    page, some = tmp_path / "page.md", {"few clusters": 8, "weights": 10, "new hospital": 3}
    for kind, j in some.items():
        cells, *how = means.KINDS[kind]
        monkeypatch.setitem(means.KINDS, kind, (cells[j : j + 1], *how))
    coverage.main([*some, "--repetitions", "2", "--page", str(page)])
    for line in ("| 5, rare events |", "| events sampled, 1,000 |", "| 5 of 500 rows, equal |"):
        assert page.read_text().count(line) == 1


def test_weights_undo_how_rows_are_seen():
    """The weighted means of rows that are seen are those of all rows."""
    for cell in means.WEIGHTS[:4:2] + means.WEIGHTS[9:12]:
        rng = np.random.default_rng(0)
        seen, every = (
            means.draw(cell, rng, 10**6, 0),
            means.draw(cell._replace(seen=None, lottery=0.0), rng, 10**6, 0),
        )
        found, true = np.average(seen.y, weights=seen.weight), every.y.mean()
        assert found == pytest.approx(true, abs=0.004)


def test_statistics_of_clusters_have_known_truths():
    """Of many rows; rows of a cluster have the correlation, and each row its rate."""
    rng = np.random.default_rng(0)
    logit = clustered.MEAN + np.hypot(clustered.BETWEEN, clustered.WITHIN) * rng.normal(size=10**6)
    p, q = (1 / (1 + np.exp(-slope * logit)) for slope in (1, clustered.SLOPE))
    loss = -(q * np.log(p) + (1 - q) * np.log1p(-p)).mean()
    assert clustered.truths() == pytest.approx((loss, q.mean() / p.mean()), rel=2e-3)
    found = np.array([clustered.measure((30, 0.0, 0.2), i) for i in range(20)], dtype=float)
    contained = found[:, :, :-1].mean(axis=(0, 2))
    assert contained[0] > 0.85 > contained[1]


def test_two_classes_are_measured_by_their_top_label():
    """The limit is that of the top label: twice that of one of the classes."""
    cell = cells.Cell("x2", 20_000, 2)
    (value, *_) = cells.measure(cell, 0, [ERRORS["KS"].metric])[0]
    limit = cells.read(Path(coverage.__file__).parent / "repetitions.csv")[cell._replace(n=1_000)]
    assert value == pytest.approx(limit.true[list(ERRORS).index("KS")], abs=0.01)


def test_weeks_of_the_monitor_are_simulated_into_its_page(tmp_path, monkeypatch):
    """A large drift is seen at once, and a map of few rows gives alarms without one."""
    from benchmarks.coverage import monitor

    monkeypatch.setattr(monitor, "ROWS", (5_000,))
    monkeypatch.setattr(monitor, "FITTED", (20,))
    monkeypatch.setattr(monitor, "TOLERANCES", (0.0,))
    monkeypatch.setattr(monitor, "DRIFTS", {"odds x 1.5": monitor.DRIFTS["odds x 1.5"]})
    page = tmp_path / "page.md"
    monitor.main(["soon", "maps", "--years", "1", "--page", str(page)])
    assert "| 5,000 | 0.1 | 1 |" in page.read_text()
    assert "| 20 rows | 100 % |" in page.read_text()


def test_thresholds_of_cells_are_simulated_into_their_table(tmp_path, monkeypatch):
    """What is possible is the share of the rows above the lowest threshold of the accuracy."""
    from benchmarks.coverage import acting, thresholds

    cell = thresholds.Cell("half right", thresholds.levels([0.5, 1], [0.5, 0.5], [0, 1]), 200, 0.9)
    sampled = cell._replace(name="sampled")
    monkeypatch.setattr(acting, "KNOWN", (cell,))
    monkeypatch.setattr(acting, "NEW", ())
    monkeypatch.setattr(acting, "SAMPLED", (sampled,))
    monkeypatch.setattr(acting, "TABLE", tmp_path / "table.md")
    acting.fill_cells(5)
    text = acting.TABLE.read_text()
    possible, acted = re.findall(r"half right \| 200 \| 0.9 \| (\S+) \| (\S+) \| 0.0 %", text)[0]
    assert possible == acted
    assert float(possible) == pytest.approx(0.5, abs=0.01)
    score, hit = acting.sample(sampled, np.random.default_rng(0))
    assert hit.size < 100
    assert 0.3 < np.mean(hit) < 0.7  # as in the population, from which a tenth is drawn
    assert np.array_equal(hit, score == 1)
    assert "| sampled | 200 |" in text


def test_alarms_and_delays_of_cells_are_simulated_into_their_page(tmp_path, monkeypatch):
    """A stated 1 that is right in 90 % is seen at once, one that is always right never."""
    from benchmarks.coverage import monitor

    first = "always 1 and right"
    monkeypatch.setattr(monitor, "CELLS", {first: monitor.CELLS[first]})
    last = "always 1, right in 90 %"
    monkeypatch.setattr(monitor, "DRIFTED", {last: monitor.DRIFTED[last]})
    page = tmp_path / "page.md"
    monitor.main(["alarms", "delays", "--years", "1", "--page", str(page)])
    assert f"| {first} | 200 | 0.0 % |" in page.read_text()
    assert re.search(rf"\| {last} \| \d \| 1 \|", page.read_text())


def test_checked_weeks_give_what_weeks_give():
    """The simulation of false alarms leaves out checks; its e-values are those of `update`."""
    from benchmarks.coverage import monitor

    for name, cell in monitor.CELLS.items():
        one, other = (CalibrationMonitor(labels=range(cell.labels)) for _ in range(2))
        y, P, groups = cell.draw(np.random.default_rng(0), 30)
        given = monitor.checked(y, P)
        expected = one.update(y, P, groups=groups).e_value_
        assert other.update(given, given, groups=groups).e_value_ == expected, name


@pytest.mark.parametrize("short", ["ECE", "KS", "O:E", "log loss", "Brier score"])
def test_true_values_of_plans_are_those_of_many_labels(short):
    """Each row of few probabilities 2,000 times, with drawn labels."""
    rng = np.random.default_rng(0)
    for P in (rng.dirichlet([1, 1, 1], 50), rng.random(50)):
        q = label_plan.truth(P, "T = 1.5")
        many = np.repeat(P, 2_000, axis=0)
        y = label_plan.draw_labels(np.repeat(q, 2_000, axis=0), rng)
        found = label_plan.measure(short, y, many, None, 0).estimate
        assert found == pytest.approx(label_plan.limit(short, P, q), abs=0.01)


def test_plans_are_measured_by_their_own_intervals():
    """One cell of each table."""
    *cell, ratio = label_plan.width_rows([("risks around 0.2", "O:E", 0.3)], 5)[0]
    assert cell[:3] == ["risks around 0.2", "O:E", "0.3"]
    assert float(ratio.split(" ")[0]) == pytest.approx(1, abs=0.1)
    *_, share = label_plan.threshold_rows([("wine, naive Bayes", 0.95, 0.5)], 40)[0]
    assert 60 < float(share.split(" ")[0]) <= 100
    *_, bias, covered, width = label_plan.draw_rows([("risks around 0.02", "O:E", 1.5)], 30)[0]
    assert abs(float(bias)) < 4
    assert float(covered.split(" ")[0]) > 85
    assert 0.8 < float(width) < 1
