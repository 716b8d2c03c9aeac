"""The examples run, and the comparison marks what its own numbers say."""

import re
import runpy
from pathlib import Path

import matplotlib.pyplot as plt
import pytest

pytestmark = pytest.mark.slow

EXAMPLES = Path(__file__).parents[2] / "examples"


def test_the_main_example_recommends_a_calibrator_for_each_model(capsys):
    """Temperature scaling lowers two errors of each model, and no calibrator is missing."""
    compare = runpy.run_path(str(EXAMPLES / "compare_calibrators.py"))
    names = ["identity", *compare["CALIBRATORS"]]
    assert len(names) == 15  # README says fourteen
    head = r"^.*: \d+ calibration rows, \d+ test rows$"
    _, *parts = re.split(head, capsys.readouterr().out, flags=re.MULTILINE)
    assert len(parts) == len(compare["MODELS"]) == 5
    for part in parts:
        chosen = re.search(
            "^Calibrate by (.+), chosen in folds of the calibration rows:", part, re.M
        )
        assert chosen[1] in names[1:]
        rows = {
            name: re.search(rf"^{re.escape(name)} +([\d.]+) .* ([\d.]+)$", part, re.M)
            for name in names
        }
        for column in (1, 2):  # log loss and KS error
            assert float(rows["temperature"][column]) < float(rows["identity"][column])


@pytest.mark.parametrize(
    "name",
    [
        "plot_pipeline",
        "calibration_scorer",
        "plot_before_after",
        "plot_groups",
        "plot_how_to_read",
        "plot_label_plan",
        "plot_labels",
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
    sentence = re.search(r"For\s+naive\s+Bayes\s+on\s+digits, (.*?)0\.\d{3}\.", page, re.S)[0]
    runpy.run_path(str(EXAMPLES / "plot_neural_network_scaling.py"), run_name="__main__")
    printed = capsys.readouterr().out
    numbers = re.findall(r"\d\.\d+", sentence)
    assert len(numbers) == 6
    assert all(number in printed for number in numbers)
