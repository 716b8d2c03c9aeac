"""Numbers of docs/ are those of the tables that the benchmarks write."""

import re
from pathlib import Path

import numpy as np

from benchmarks.coverage.monitor_cells import CELLS
from skcalib import CalibrationMonitor

ROOT = Path(__file__).parents[2]
DOCS, BENCHMARKS = ROOT / "docs", ROOT / "benchmarks"


def words(page):
    """The text of a page, with one space between words."""
    return " ".join((DOCS / page).read_text().split())


def table(page, pattern):
    """The cells of the lines that begin with a pattern."""
    lines = re.findall(rf"^\| (?:{pattern}).*$", page.read_text(), re.MULTILINE)
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in lines]


def test_clusters_have_the_coverage_of_their_table():
    lines = table(BENCHMARKS / "coverage" / "table.md", r"\d+ \| (?:rows|`clusters)")
    cells = {(n, of): rest for n, of, *rest in lines if len(rest) == 4}  # errors have others
    few, few_rows, more, more_rows = (
        f"{100 * float(cells[n, of][0].split()[0]):.0f} %"
        for n in ("7", "30")
        for of in ("`clusters=`", "rows")
    )
    worst = [
        float(cell.split("(")[1].strip(")"))
        for (_, of), rest in cells.items()
        if of != "rows"
        for cell in rest[:3]
    ]
    text = words("clusters.md")
    assert f"was {few_rows} without `clusters=`, and {few} with `clusters=`" in text
    assert f"For 30 hospitals, it was {more_rows} and {more}." in text
    assert f"slope and O:E was {min(worst)} or more in every simulated case" in text
    assert len(worst) == 12


def test_few_clusters_have_the_lowest_and_highest_coverage_of_their_table():
    page, text = BENCHMARKS / "coverage" / "table.md", words("clusters.md")
    cells = r"\d+ hospitals, lognormal", r"\d+, rare events", r"\d+, 4 % events"
    ends = []
    for pattern, n_lines in zip(cells, (4, 3, 5), strict=True):
        lines = table(page, pattern)
        assert len(lines) == n_lines
        shares = [share for line in lines for share in line[1:]]
        ends.append((min(shares), max(shares)))
    (low, high), (rare_low, rare_high), (lowest, _) = ends
    assert f"was {low} to {high}, and {rare_low} to {rare_high} if events are 6 %" in text
    assert f"coverage was as low as {lowest}" in text


def test_risk_model_has_the_means_and_the_lowest_of_its_table():
    page = BENCHMARKS / "coverage" / "table.md"
    lines = table(page, r"(?:calibrated|overfitted|shifted), \d+ %")
    shares = 100 * np.array([line[1:6] for line in lines if len(line) == 9], dtype=float)
    for name, ends in (("mean of 18 cases", shares.mean(axis=0)), ("lowest", shares.min(axis=0))):
        assert [name, *(f"{end:.1f} %" for end in ends)] in table(DOCS / "risk_model.md", name)
    assert len(shares) == 18


def test_choosing_says_what_is_left_of_simulated_errors():
    """With 100 and 300 rows, of the three errors, for the worst number of classes."""
    lines = {}
    for name, few, more, *_ in table(BENCHMARKS / "coverage" / "choosing.md", r"[a-z ,_]+\| \d+ /"):
        both = [[int(share) for share in cell.split(" / ")] for cell in (few, more)]
        lines.setdefault(name, []).append(both)
    few, more = ({name: np.max(both, axis=0)[n] for name, both in lines.items()} for n in (0, 1))
    kept, text = "auto, order kept", words("choosing.md")
    assert max(few["auto"]) < 100
    for sentence in (
        f"`AutoCalibrator` leaves at most {few['auto'][0]} % of the error, and "
        f"`TemperatureScaling` leaves at most {few['temperature'][0]} %",
        f"with 100 rows, at most {few['temperature'][0]} % of such an error is left",
        f"at most {more[kept][2]} % of the error is left, or {few[kept][2]} % with 100 rows",
        f"it increases no error; with 300 rows at most {max(more['auto'])} % of each error is left",
        f"at most {max(more['spline'])} % of any simulated error is left",
    ):
        assert sentence in text


def test_ratios_of_models_are_those_of_their_table():
    """A model for each fold, the order kept, and the default beside scikit-learn's."""
    lines = table(BENCHMARKS / "studies" / "README.md", r"[a-z ]+ \| \d\.\d+ \(")
    change = {name: [100 * float(cell[:5]) - 100 for cell in cells] for name, *cells in lines}
    scikit_learn, text = change.pop("all")[2], words("choosing.md")
    assert f"is {-scikit_learn:.0f} % lower on average" in words("coming_from.md")
    folds = {name: cells[0] for name, cells in change.items()}
    lower = (
        f"{-folds.pop('boosting'):.1f} % lower on average, and of forests "
        f"{-folds.pop('forest'):.1f} % lower; of linear"
    )
    assert lower in text
    ends = f"{min(folds.values()):.0f} to {max(folds.values()):.0f}"
    assert f"networks it is {ends} % higher" in text
    kept = {name: cells[1] for name, cells in change.items()}
    bayes = f"and {kept.pop('naive bayes'):.0f} % higher for naive Bayes"
    ends = f"{min(kept.values()):.0f} to {max(kept.values()):.0f}"
    assert f"{ends} % higher on average than with the default, {bayes}" in text


def test_groups_have_the_numbers_of_their_study():
    """Two classes stand first in the table of the study."""
    for rows in ("30", "1,000"):
        equal, _, apart, _ = table(BENCHMARKS / "studies" / "README.md", rf"\| {rows} \|")[0][2:]
        for cell, differ in ((equal, "do not differ"), (apart, "differ by 0.5")):
            name = rf"{rows} rows per group, [a-z-]+ {differ} \|"
            assert [line[1:] for line in table(DOCS / "groups.md", name)] == [cell.split(" / ")]


def test_the_monitor_has_the_false_alarms_of_its_page():
    """With a tolerance of 0.1, the default."""
    page = BENCHMARKS / "coverage" / "README.md"
    few, more = (line[3] for line in table(page, r"(?:500|2,000) rows"))
    assert f"was fitted on 500 rows, and in {more} if it was fitted on" in words("monitor.md")
    assert f"an alarm comes in {few} of the simulated years" in words("monitor.md")
    text = " ".join((CalibrationMonitor.__doc__ or "").split())
    assert f"rows gives an alarm in {few} of the years, and a calibrator" in text
    assert f"a calibrator fitted on 2,000 rows in {more} (" in text


def test_every_cell_of_the_monitor_is_simulated_and_keeps_its_promise():
    lines = table(BENCHMARKS / "coverage" / "README.md", r".*\| [\d.]+ % \|$")
    lines = [line for line in lines if len(line) == 3]
    cells = {(name, rows): float(share.removesuffix(" %")) for name, rows, share in lines}
    assert list(cells) == [(name, f"{n:,}") for name, cell in CELLS.items() for n in cell.rows]
    assert max(cells.values()) <= 5


def test_the_monitor_says_how_soon_an_alarm_comes():
    lines = table(BENCHMARKS / "coverage" / "README.md", r"(?:50|500) \| 0\.1")
    (_, _, few, _, few_shifted, _), (_, _, many, _, many_shifted, _) = lines
    text = words("monitor.md")
    assert f"the alarm comes {many_shifted} weeks after all log-odds become too low by 0.3" in text
    assert f"and {many} weeks after they become 1.5 times too extreme" in text
    assert f"With 50 rows a week, the alarm comes after {few_shifted} and {few} weeks" in text


def test_prevalence_has_cells_of_its_table():
    cells = {line[0]: line for line in table(BENCHMARKS / "prior_shift" / "README.md", r".*1,000")}
    two, ten, hundred = (cells[K] for K in ("2", "10", "100"))
    text = words("prevalence.md")
    loss = "[log loss](glossary.md#log-loss)"
    assert f"lowered the {loss} in {two[5]} experiments, with ten classes in {ten[5]}" in text
    assert f"and with 100 classes in {hundred[5]}." in text
    costs = [float(line[8].strip("+%")) for line in (two, ten, hundred)]
    assert f"by {min(costs)} to {max(costs)} % on average" in text


def test_acting_has_the_means_of_its_tables():
    page, text = BENCHMARKS / "coverage" / "acting.md", words("acting.md")
    shares, fitted = (line for line in table(page, "1,000"))
    ours, peer, possible = (round(100 * float(cell.split()[0])) for cell in shares[1:])
    assert f"accepts {ours} % of the rows on average if it is fitted on 1,000 rows." in text
    assert (
        f"MAPIE 1.6 accepts {peer} % with its default grid of 100 thresholds, and {possible}"
        in text
    )
    apart, inside = (100 * float(cell.split("(")[1].strip(")")) for cell in fitted[2:])
    assert f"not reached in {inside:.1f} % of the samples" in text
    assert f"and in {apart:.1f} % if the calibrated probabilities were out of fold" in text


def test_acting_has_a_rare_event_of_its_table_and_its_worst_cell():
    lines = table(
        BENCHMARKS / "coverage" / "table.md", r"[a-z0-9 .,%]+ \| [\d,]+ \| 0\.\d+ \| [01]\.\d{4}"
    )
    name, rows, accuracy, *shares = lines[1]
    assert name == "event of 1 %"
    possible, acted = (f"{100 * float(share):.1f} %" for share in shares[:2])
    text = words("acting.md")
    assert (
        f"{rows} rows and an accuracy of {accuracy}, the threshold accepted {acted} of the rows on "
        f"average; {possible} are possible" in text
    )
    broken = [float(line[5].split()[0]) for line in lines]
    assert f"In each of {len(lines)} [simulations]" in text
    assert f"the guarantee was broken in at most {max(broken)} % of the samples" in text
    assert max(broken) <= 100 * (0.05 + 2 * np.sqrt(0.05 * 0.95 / 400))


def test_prevalence_says_how_often_its_test_warns():
    page = BENCHMARKS / "prior_shift" / "README.md"
    lines = {tuple(line[:2]): line[2:] for line in table(page, r"0\.\d+ to")}
    cells = [
        cell.replace(".0 %", " %")
        for prevalence, n in (("0.12 to 0.03", "1,000"), ("0.12 to 0.03", "100"))
        for cell in lines[prevalence, n]
    ]
    text = words("prevalence.md")
    for sentence in (
        f"a false warning in {cells[0]} of the simulated data sets in which only the prevalence",
        f"by 0.3 standard deviations, `fit` warned in {cells[1]} of samples, and in {cells[2]} if",
        f"`fit` warned in {cells[4]} (scores higher by 0.3) and {cells[5]} (by 0.8) of samples",
        f"`fit` warned in {lines['0.3 to 0.3', '1,000'][2]} of samples.",
    ):
        assert sentence in text, sentence


def test_fitting_has_the_means_of_several_labels():
    lines = table(BENCHMARKS / "studies" / "README.md", r"[a-z]+[a-z\d ]* \(\d+\)")
    few, more = (
        np.mean([[float(loss) for loss in line[n].split(" / ")] for line in lines], axis=0)
        for n in (1, 2)
    )
    platt, auto = (100 * (1 - few[4] / few[n]) for n in (2, 3))
    text = words("fitting.md")
    assert f"on {len(lines)} problems with 5 to 20 labels" in text
    assert f"is {platt:.0f} % lower than with Platt scaling of each label" in text
    assert f"It is {auto:.0f} % lower than with `AutoCalibrator` for each label" in text
    assert "the differences are below 2 %" in text
    assert max(1 - more[4] / more[2:4]) < 0.02


def test_getting_started_has_the_worst_width_and_the_greatest_gain_of_planned_rows():
    page, text = BENCHMARKS / "coverage" / "README.md", words("getting_started.md")
    widths = [float(line[5].split()[0]) for line in table(page, r".*±") if len(line) == 6]
    assert len(widths) == 12
    assert f"was within {100 * max(abs(np.array(widths) - 1)):.0f} % of the planned width" in text
    drawn = [float(line[7]) for line in table(page, r".*\| [+-]\d\.\d \|")]
    assert f"are up to {100 * (1 - min(drawn)):.0f} % narrower than intervals" in text
