"""``monitor`` counts each file once and exits with 1 after an alarm."""

from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from running import fails, run
from scipy.special import expit

from skcalib import CalibrationMonitor, IdentityCalibrator, load_json, save_json
from skcalib.__main__ import main


@pytest.fixture
def weeks():
    rng = np.random.default_rng(0)
    for week in range(4):
        z = rng.normal(0, 1.5, 400)
        y = rng.random(400) < expit(z + (1.0 if week == 3 else 0.0))
        table = {"labels": y.astype(int), "p": expit(z), "site": rng.choice(["a", "b"], 400)}
        pd.DataFrame(table).to_csv(f"week{week}.csv", index=False)


def test_weeks_are_counted_until_an_alarm(weeks, capsys):
    expected = CalibrationMonitor(period=12)
    for week in range(3):
        table = pd.read_csv(f"week{week}.csv")
        expected.update(table["labels"], table["p"], groups=table["site"])
        printed = run(
            capsys, "monitor", f"week{week}.csv", "--state", "m.json", "--groups", "site",
            "--period", 12,
        )  # fmt: skip
        words = expected.in_words()
        assert printed == f"week{week}.csv: update {week + 1}, 400 rows: {words}\n"
    assert load_json("m.json").e_value_ == pytest.approx(expected.e_value_, rel=1e-12)
    error = fails(capsys, "monitor", "week1.csv", "--state", "m.json", "--groups", "site")
    assert "week1.csv: these rows were counted before, as update 2" in error
    error = fails(capsys, "monitor", "week3.csv", "--state", "m.json", "--alpha", 0.1)
    assert "--alpha 0.1: m.json has 0.05; begin another state file" in error
    assert load_json("m.json").n_updates_ == 3
    arguments = ["monitor", "week3.csv", "--state", "m.json", "--groups", "site"]
    assert main(arguments) == 1
    assert (
        "ALARM in all rows since about update 4: shift the offset by +" in capsys.readouterr().out
    )


def test_wrong_files(weeks, capsys):
    save_json(IdentityCalibrator().fit([0.2, 0.9], [0, 1]), "calibrator.json")
    error = fails(capsys, "monitor", "week0.csv", "--state", "calibrator.json")
    assert "calibrator.json is a calibrator, not the state of a monitor" in error
    run(capsys, "monitor", "week0.csv", "--state", "broken.json")
    state = Path("broken.json").read_text()
    Path("broken.json").write_text(state.replace('"n_updates_": 1', '"n_updates_": 2'))
    error = fails(capsys, "monitor", "week1.csv", "--state", "broken.json")
    assert "broken.json: The stored CalibrationMonitor is refused: n_updates_" in error
    error = fails(capsys, "monitor", "-", "--state", "m.json")
    assert "monitor counts files, each once: pass a file, not -" in error
    pd.read_csv("week0.csv").assign(weights=2).to_csv("weighted.csv", index=False)
    error = fails(capsys, "monitor", "weighted.csv", "--state", "m.json")
    assert "a monitor takes no weights" in error
