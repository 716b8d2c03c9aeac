"""The examples run, and the comparison marks what its own numbers say."""

import re
import runpy
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
import pytest

pytestmark = pytest.mark.slow

EXAMPLES = Path(__file__).parents[2] / "examples"
METRICS = ["log loss", "Brier", "ECE, %", "SCE, %", "ACE, %", "KS, %"]


@pytest.fixture(scope="module")
def compare():
    """The functions of the main example."""
    return runpy.run_path(str(EXAMPLES / "compare_calibrators.py"), run_name="compare")


@pytest.fixture
def saved(tmp_path):
    """Write arrays to an .npz and return its path."""

    def save(**arrays):
        path = tmp_path / "predictions.npz"
        np.savez(path, **arrays)
        return str(path)

    return save


def predictions(n=600, n_classes=3):
    """Labels and logits three times too large."""
    rng = np.random.default_rng(0)
    labels = rng.integers(n_classes, size=n)
    logits = 3 * (rng.normal(size=(n, n_classes)) + 1.5 * np.eye(n_classes)[labels])
    return labels, logits


def tables(printed):
    """Read the printed tables back: a list of {calibrator: [(number, marked), ...]}."""
    found = []
    for line in printed.splitlines():
        if line.startswith("  calibrator  "):
            assert re.split(r"\s{2,}", line.strip())[1:] == METRICS
            found.append({})
        elif found and len(row := re.findall(r" +([\d.]+|nan|inf)(\*?)", line[22:])) == 6:
            found[-1][line[2:22].strip()] = [(float(x), bool(m)) for x, m in row]
    return found


def check_table(table, calibrators):
    assert list(table) == list(calibrators)
    for column in zip(*table.values(), strict=True):
        best = min(number for number, _ in column)
        assert [marked for _, marked in column] == [number == best for number, _ in column]


def test_main_job(compare, capsys):
    """Five badly calibrated models: over- and under-confident, each corrected, by the KS error."""
    assert compare["main"]([]) == 0
    printed = capsys.readouterr().out
    found = tables(printed)
    assert len(found) == 5
    calibrators = ["identity", *compare["CALIBRATORS"]]
    assert len(calibrators) == 15  # README says fourteen
    for table in found:
        check_table(table, calibrators)
        for column in ("KS, %", "log loss"):
            j = METRICS.index(column)
            assert table["temperature"][j][0] < table["identity"][j][0]
    assert printed.count(": over-confident") >= 2
    assert printed.count(": under-confident") >= 1
    chosen = re.findall(
        "^  Calibrate by (.+), chosen in folds of the calibration rows", printed, re.M
    )
    assert len(chosen) == 5
    assert set(chosen) <= set(calibrators)


def test_a_file_goes_to_the_command_line(compare, saved, capsys):
    """With its options; what is wrong with it is one line and code 2."""
    labels, logits = predictions()
    options = ["--calibrators", "temperature", "--metrics", "log_loss"]
    assert compare["main"]([saved(logits=logits, labels=labels), *options]) == 0
    assert "Calibrate by temperature" in capsys.readouterr().out
    assert compare["main"]([saved(logits=logits)]) == 2
    assert capsys.readouterr().err.count("\n") == 1


@pytest.mark.parametrize(
    "name",
    [
        "pipeline",
        "calibration_scorer",
        "plot_before_after",
        "plot_groups",
        "plot_how_to_read",
        "plot_language_model",
        "plot_models",
        "plot_reliability",
        "plot_risk_model",
        "plot_calibration_map",
    ],
)
def test_short_example_runs(name, capsys, monkeypatch):
    """The shorter examples run without a warning, print their results and show their pictures."""
    shown = []
    monkeypatch.setattr("matplotlib.pyplot.show", lambda: shown.append(plt.get_fignums()))
    runpy.run_path(str(EXAMPLES / f"{name}.py"), run_name="__main__")
    assert capsys.readouterr().out.count("\n") >= 3
    pictures = plt.get_fignums()
    plt.close("all")
    assert shown == ([pictures] if name.startswith("plot_") else [])
    assert bool(pictures) == name.startswith("plot_")


def test_neural_network_scaling_has_the_numbers_of_its_page(capsys):
    """The last sentence of docs/choosing.md."""
    page = (EXAMPLES.parent / "docs" / "choosing.md").read_text()
    sentence = re.search(r"For naive Bayes on\s+digits it lowers (.*?)0\.\d{3}\.", page, re.S)[0]
    runpy.run_path(str(EXAMPLES / "neural_network_scaling.py"), run_name="__main__")
    printed = capsys.readouterr().out
    numbers = re.findall(r"\d\.\d+", sentence)
    assert len(numbers) == 6
    assert all(number in printed for number in numbers)
