"""``monitor`` counts each file once and exits with 1 after an alarm."""

import json
import threading
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from running import fails, run
from scipy.special import expit

from skcalib import CalibrationMonitor, IdentityCalibrator, load_json, save_json
from skcalib.__main__ import main
from skcalib._cli import commands
from skcalib._cli.arguments import make_parser


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
        assert printed == (
            f"week{week}.csv: update {week + 1}, 400 rows: {words}\ncolumn: p is the score of 1\n"
        )
    assert load_json("m.json").e_value_ == pytest.approx(expected.e_value_, rel=1e-12)
    error = fails(capsys, "monitor", "week1.csv", "--state", "m.json", "--groups", "site")
    assert "week1.csv: the rows of this file are already in m.json, as update 2" in error
    error = fails(capsys, "monitor", "week3.csv", "--state", "m.json", "--alpha", 0.1)
    assert "--alpha 0.1: m.json was started with 0.05: leave out --alpha, or start" in error
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
    assert "broken.json: The stored CalibrationMonitor is not valid: n_updates_" in error
    error = fails(capsys, "monitor", "-", "--state", "m.json")
    assert "monitor does not read standard input: pass a file, not -" in error
    pd.read_csv("week0.csv").assign(weights=2).to_csv("weighted.csv", index=False)
    error = fails(capsys, "monitor", "weighted.csv", "--state", "m.json")
    assert "does not support weights: remove them" in error


def test_a_state_in_no_directory_is_named(weeks, capsys):
    line = fails(capsys, "monitor", "week1.csv", "--state", "none/monitor.json")
    assert line.endswith(
        "error: none/monitor.json: the directory does not exist: create it first\n"
    )


def test_a_later_label_is_checked(weeks, capsys):
    run(capsys, "monitor", "week0.csv", "--state", "m.json")
    error = fails(capsys, "monitor", "week1.csv", "--state", "m.json", "--pos-label", 0)
    assert "--pos-label 0: the event of m.json is 1: leave out --pos-label, or start" in error
    few = pd.read_csv("week1.csv").query("p < 0.1").assign(labels=0)
    few.to_csv("zeros.csv", index=False)
    assert "update 2" in run(capsys, "monitor", "zeros.csv", "--state", "m.json", "--pos-label", 1)
    table = pd.read_csv("week0.csv").assign(q=lambda table: 1 - table["p"])
    table["labels"] = table["labels"].map({0: "no", 1: "yes"})
    table = table.rename(columns={"p": "second", "q": "first"})
    table.to_csv("two.csv", index=False)
    options = "--scores", "first", "second", "--state", "two.json"
    printed = run(capsys, "monitor", "two.csv", *options, "--pos-label", "no")
    assert printed.splitlines()[1:] == [
        "columns, by position, in the order of the sorted labels: first is no, second is yes",
        "event: no",
        "not used: site",
    ]
    assert load_json("two.json").pos_label == "no"


def test_a_state_is_no_calibrator(weeks, capsys):
    run(capsys, "monitor", "week0.csv", "--state", "m.json")
    line = "m.json is the state of a monitor: pass a file that compare --save wrote"
    for command in (
        ["apply", "m.json", "week1.csv"],
        ["threshold", "week1.csv", "--calibrator", "m.json"],
        ["export", "m.json", "-o", "m.onnx"],
    ):
        assert line in fails(capsys, *command)


def test_of_two_processes_one_waits_for_the_other(weeks, monkeypatch):
    """Threads open the lock for themselves, as processes do. Before, an update was lost."""
    first_is_there, second_is_there = threading.Event(), threading.Event()
    real = commands.save

    def save_late(*arguments):
        if not first_is_there.is_set():
            first_is_there.set()
            second_is_there.wait(0.5)  # it is not, if there is a lock
        else:
            second_is_there.set()
        real(*arguments)

    monkeypatch.setattr(commands, "save", save_late)

    def count(week):
        arguments = ["monitor", f"week{week}.csv", "--state", "m.json"]
        args = make_parser().parse_args(arguments)
        args.run(args)

    first, second = (threading.Thread(target=count, args=(week,)) for week in range(2))
    first.start()
    first_is_there.wait(20)
    second.start()
    first.join(20)
    second.join(20)
    assert load_json("m.json").n_updates_ == 2


def test_the_lock_of_a_killed_process_is_no_obstacle(weeks, capsys):
    Path("m.json.lock").touch()
    assert "update 1" in run(capsys, "monitor", "week0.csv", "--state", "m.json")
    Path("link.json").symlink_to("m.json")
    assert "update 2" in run(capsys, "monitor", "week1.csv", "--state", "link.json")
    assert not Path("link.json.lock").exists()


def test_a_log_is_counted_as_its_options_are_stated(capsys):
    """An option that was not offered is NaN; decimals need not sum to 1, nor be divided."""
    rng = np.random.default_rng(3)
    expected = CalibrationMonitor(labels=["a", "b", "c", "no", "yes"])
    for week in range(2):
        rows = []
        for _ in range(80):
            if rng.random() < 0.5:
                P = {"a": 0.33, "b": 0.33, "c": 0.33}
            else:
                p = int(rng.integers(1, 20)) / 20
                P = {"no": round(1 - p, 2), "yes": p}
            chance = np.array(list(P.values())) / sum(P.values())
            rows.append(
                {"question": len(P), "probabilities": P, "label": rng.choice(list(P), p=chance)}
            )
        Path(f"{week}.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
        frame = pd.DataFrame([row["probabilities"] for row in rows])[["a", "b", "c", "no", "yes"]]
        groups = [row["question"] for row in rows]
        expected.update([row["label"] for row in rows], frame, groups=groups)
        run(capsys, "monitor", f"{week}.jsonl", "--state", "s.json")
    state = load_json("s.json")
    assert state.e_value_ == pytest.approx(expected.e_value_, rel=1e-9)
    assert state._resolution[0] == 2


def test_a_later_log_may_lack_options(capsys):
    """It is counted as by `update` with NaN; an option or label that is new is refused."""
    lines = {
        "first.jsonl": [("q", {"a": 0.3, "b": 0.7}, "b"), ("r", {"c": 0.4, "d": 0.6}, "c")],
        "second.jsonl": [("r", {"c": 0.2, "d": 0.8}, "c"), ("r", {"c": 0.1, "d": 0.9}, "d")],
        "third.jsonl": [("q", {"a": 0.2, "b": 0.8}, {"a": 1, "b": 3})],
        "new.jsonl": [("q", {"a": 0.2, "e": 0.8}, "a")],
    }
    shares = [[0.25, 0.75, 0, 0]]
    labels = {"first.jsonl": ["b", "c"], "second.jsonl": ["c", "d"], "third.jsonl": shares}
    expected = CalibrationMonitor(labels=["a", "b", "c", "d"])
    for name, rows in lines.items():
        keys = ("question", "probabilities", "label")
        texts = [json.dumps(dict(zip(keys, row, strict=True))) for row in rows]
        Path(name).write_text("\n".join(texts))
        if name in labels:
            P = pd.DataFrame([row[1] for row in rows], columns=["a", "b", "c", "d"])
            expected.update(labels[name], P, groups=[row[0] for row in rows])
            run(capsys, "monitor", name, "--state", "s.json")
    assert load_json("s.json").e_value_ == pytest.approx(expected.e_value_, rel=1e-12)
    error = fails(capsys, "monitor", "new.jsonl", "--state", "s.json")
    assert "option 'e' is not in s.json: remove its lines, or start a new state" in error


def test_a_label_that_the_state_does_not_have(weeks, capsys):
    run(capsys, "monitor", "week0.csv", "--state", "s.json")
    pd.DataFrame({"labels": [0, 2], "p": [0.25, 0.75]}).to_csv("new.csv", index=False)
    error = fails(capsys, "monitor", "new.csv", "--state", "s.json")
    assert "correct the label, remove the row, or start a new state file" in error


@pytest.mark.filterwarnings("ignore:X. rows do not sum to 1")
def test_a_table_is_counted_as_it_is_stated(capsys):
    rng = np.random.default_rng(4)
    P = rng.dirichlet([1, 1, 1], 90)
    P = P[abs(P.round(2).sum(axis=1) - 1) < 0.011].round(2)
    labels = np.array(["u", "v", "w"])[(P.cumsum(axis=1) < 0.5).sum(axis=1)]
    table = pd.DataFrame(P[:, ::-1], columns=["w", "v", "u"]).assign(label=labels)
    table.to_csv("t.csv", index=False)
    main(["monitor", "t.csv", "--state", "t.json", "--input", "proba"])
    expected = CalibrationMonitor().update(labels, pd.DataFrame(P, columns=["u", "v", "w"]))
    assert load_json("t.json").e_value_ == pytest.approx(expected.e_value_, rel=1e-9)
    assert load_json("t.json")._resolution[0] == 2
