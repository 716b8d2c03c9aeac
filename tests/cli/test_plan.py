"""The command plan: which columns it reads, what it prints, and the rows it writes."""

import json
import re

import numpy as np
import pandas as pd
import pytest
from running import fails, run, scores, softmax

from skcalib.metrics import label_plan

OE = ["--metric", "oe", "--width", "0.4"]


def risks(n=600):
    """Ids, ages and risks; no labels."""
    rng = np.random.default_rng(0)
    frame = pd.DataFrame({"id": np.arange(n) + 100, "age": rng.integers(1, 90, n)})
    return frame.assign(risk=rng.beta(1, 4, n))


def classes():
    return pd.DataFrame(softmax(scores()[1]), columns=["cat", "dog", "owl"])


def test_it_prints_the_plan_and_writes_the_rows_of_the_function(capsys):
    frame = risks()
    frame.to_csv("r.csv", index=False)
    p = pd.read_csv("r.csv")["risk"].to_numpy()
    plan = label_plan(p, "observed_expected_ratio", width=0.4, random_state=0)
    printed = run(capsys, "plan", "r.csv", *OE, "--id", "id", "--draw", "rows.csv")
    first, column, not_used, _, *rest = printed.splitlines()
    assert first == "r.csv: 600 rows, binary problem, probabilities"
    assert (column, not_used) == ("column: risk is the score of 1", "not used: age")
    sentence, _, table = "\n".join(rest).partition("\n\n")
    assert " ".join(sentence.split()) == str(plan)
    assert table.splitlines()[0].split() == ["rows", "width"]
    assert table.splitlines()[1].split() == ["100", f"{plan.table['width'][0]:.3g}"]
    assert table.splitlines()[-1] == "rows to label: rows.csv"
    drawn, (rows, weights) = pd.read_csv("rows.csv"), plan.draw(p, random_state=0)
    assert drawn.columns.tolist() == ["row", "id", "weights"]
    np.testing.assert_array_equal(drawn["row"], rows)
    np.testing.assert_array_equal(drawn["id"], rows + 100)
    np.testing.assert_allclose(drawn["weights"], weights)


def test_options_reach_the_function(capsys):
    risks().to_csv("r.csv", index=False)
    options = ["--temperature", "3", "--confidence", "0.9", "--seed", "5"]
    text = run(capsys, "plan", "r.csv", *OE, *options, "--format", "json")
    p = pd.read_csv("r.csv")["risk"].to_numpy()
    expected = label_plan(
        p, "observed_expected_ratio", width=0.4, temperature=3, confidence_level=0.9, random_state=5
    )
    record = json.loads(text)
    assert record["rows_to_label"] == expected.rows
    assert record["truth"] == "T = 3"
    assert record["plan"] == expected.table.to_dict("records")
    text = run(capsys, "plan", "r.csv", "--accuracy", "0.3", "--act-on", "0.1", "--format", "json")
    expected = label_plan(p, accuracy=0.3, act_on=0.1, random_state=0)
    assert json.loads(text)["rows_to_label"] == expected.rows


def test_names_of_columns_are_the_labels(capsys):
    frame = classes()
    frame.assign(comment="x").to_csv("p.csv", index=False)
    P = pd.read_csv("p.csv")[["cat", "dog", "owl"]].to_numpy()
    for options, event in (([], {}), (["--pos-label", "dog"], {"pos_label": "dog"})):
        text = run(capsys, "plan", "p.csv", "--width", "0.4", "--metric", "brier_score", *options)
        plan = label_plan(
            P, "brier_score", width=0.4, labels=["cat", "dog", "owl"], random_state=0, **event
        )
        assert f"Label {plan.rows} rows" in text
        assert ("event: dog" in text) == bool(event)
        assert "not used: comment" in text
    assert "--pos-label cow is not one of the labels" in fails(
        capsys, "plan", "p.csv", *OE, "--pos-label", "cow"
    )


def test_logits_and_arrays_and_labels_that_are_there(capsys):
    y, Z = scores()
    np.save("z.npy", Z)
    np.savez("z.npz", logits=Z, classes=["cat", "dog", "owl"])
    np.savez("one.npz", probs=softmax(Z)[:, 0])
    names = np.array(["cat", "dog", "owl"])
    frame = pd.DataFrame(Z, columns=[f"p_{name}" for name in names])
    frame.assign(labels=names[y]).to_csv("z.csv", index=False)
    expected = label_plan(softmax(Z), "observed_expected_ratio", width=0.4, random_state=0).rows
    for file in ("z.npy", "z.npz", "z.csv"):
        text = run(capsys, "plan", file, *OE)
        assert text.startswith(f"{file}: 300 rows, 3 classes, logits\n"), file
        assert f"Label {expected} rows" in text
    assert "one.npz: 300 rows, binary problem, probabilities" in run(capsys, "plan", "one.npz", *OE)
    classes().to_csv("two.csv", columns=["cat", "dog"], index=False)
    frame = pd.read_csv("two.csv")
    frame.div(frame.sum(axis=1), axis=0).to_csv("two.csv", index=False)
    assert "event: dog" in run(capsys, "plan", "two.csv", *OE)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ([], "one of the arguments --width --accuracy --calibrate is required"),
        (["--width", "0.1", "--calibrate"], "not allowed with argument"),
        (["--width", "x"], "width must be a number above 0"),
        (["--width", "0.00001", "--metric", "oe"], "--width 1e-05 needs more than 10,000,000 rows"),
        (["--width", "0.1", "--metric", "foo"], "metric must be a calibration error .* got foo"),
        (["--calibrate", "--temperature", "1"], "--temperature 1: no calibrator improves"),
        (["--width", "0.1", "--act-on", "0.5"], "act_on is for a threshold"),
        (["--width", "0.1", "--draw", "rows.txt"], "rows.txt: the name .* must end in .csv"),
        ([*OE, "--scores", "age"], "all values of the column are between"),
        ([*OE, "--scores", "id", "text"], "contains texts instead of numbers: 'text'"),
        ([*OE, "--weights", "age"], "plan does not support weights"),
        (["--width", "0.01", "--metric", "oe", "--draw", "r.csv"], "has 600 rows, but the plan"),
    ],
)
def test_impossible_options_are_refused(options, message, capsys):
    risks().assign(text="x").to_csv("r.csv", index=False)
    assert re.search(message, fails(capsys, "plan", "r.csv", *options))


def test_columns_that_may_be_no_scores_are_refused(capsys):
    classes().assign(age=40).to_csv("p.csv", index=False)
    assert "(cat, dog, owl, age) are not clearly" in fails(capsys, "plan", "p.csv", *OE)
    assert "Label" in run(capsys, "plan", "p.csv", *OE, "--scores", "cat,dog,owl")
    with open("log.jsonl", "w") as file:
        file.write('{"question": "q", "probabilities": {"a": 0.7, "b": 0.3}}\n' * 9)
    assert "plan does not read logs of decisions" in fails(capsys, "plan", "log.jsonl", *OE)
