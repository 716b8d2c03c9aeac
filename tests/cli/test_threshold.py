"""``skcalib threshold`` and gates in ``apply``."""

import io
import json

import numpy as np
import pandas as pd
import pytest
from running import fails, run, scores

from skcalib import AutoCalibrator, SelectiveClassifier, TemperatureScaling, load_json, save_json
from skcalib.__main__ import main
from skcalib._cli.threshold import shortest
from skcalib.metrics import selective_threshold

Y, Z = scores(900)
NAMES = np.array(["cat", "dog", "owl"])


@pytest.fixture
def decisions():
    """A language model's confidences in steps of 0.01, whether it was right, and questions."""
    rng = np.random.default_rng(0)
    p = (1 / (1 + np.exp(-3 * np.abs(rng.normal(size=1000))))).round(2)
    frame = pd.DataFrame({"correct": (rng.random(1000) < p).astype(int), "confidence": p})
    frame["question"] = rng.choice(["long", "short"], 1000, p=[0.97, 0.03])
    frame.to_csv("decisions.csv", index=False)
    return frame


EVENT = ["decisions.csv", "--labels", "correct", "--scores", "confidence"]


def test_it_prints_a_threshold_for_each_accuracy_and_a_sentence(capsys, decisions):
    found = selective_threshold(decisions["correct"], decisions["confidence"], accuracy=0.95)
    printed = run(capsys, "threshold", *EVENT)
    assert printed == (
        "decisions.csv: 1,000 rows, binary problem, probabilities\n"
        "column: confidence is the score of 1\n"
        "not used: question\n"
        "required                 accepted    accuracy of\n"
        "accuracy  threshold          rows  accepted rows\n"
        "    0.90       0.76  68.6 % (686)         92.0 %\n"
        "    0.95       0.92  40.5 % (405)         97.5 %\n"
        "    0.99       none         0.0 %\n"
        "0.99: no tested threshold reaches 99 %: for scores of at least 0.96, 99.3 % of 306 "
        "predictions are\ncorrect (p = 0.41 > 0.05)\n"
        "Accept rows whose probability is 0.92 or more: 40.5 % of the rows. At least 95 % of such "
        "rows have\nthe label 1, with 95 % confidence.\n"
    )
    assert (found.threshold, found.coverage) == (0.92, 0.405)


def test_each_group_has_its_own_promise(capsys, decisions):
    printed = run(capsys, "threshold", *EVENT, "--groups", "question", "--accuracy", "0.95")
    rows = (decisions["question"] == "short").sum()
    assert f"question short: {rows} rows\n" in printed
    assert (
        "0.95: at least 59 rows are needed, even without a wrong prediction, but there are only "
        f"{rows}\n"
    ) in printed
    part = decisions[decisions["question"] == "long"]
    found = selective_threshold(part["correct"], part["confidence"], accuracy=0.95)
    assert f"{found.threshold:.2f}  {found.coverage:.1%}".replace("%", " %") in printed
    decisions.assign(weights=(decisions["question"] == "long") * 1).to_csv("counted.csv")
    arguments = ["counted.csv", *EVENT[1:], "--groups", "question", "--accuracy", "0.95"]
    printed = run(capsys, "threshold", *arguments)
    assert f"counted.csv: {len(part)} rows" in printed
    assert "question short" not in printed  # its rows have weight 0


def test_json_has_all_digits(capsys):
    np.savez("p.npz", logits=Z, labels=NAMES[Y], classes=NAMES, weights=np.arange(900) % 3)
    record = json.loads(
        run(capsys, "threshold", "p.npz", "--accuracy", "0.8", "0.9999", "--format", "json")
    )
    keep = np.arange(900) % 3 > 0
    P = np.exp(Z[keep]) / np.exp(Z[keep]).sum(axis=1, keepdims=True)
    found = selective_threshold(Y[keep], P, accuracy=0.8, sample_weight=(np.arange(900) % 3)[keep])
    first, second = record["thresholds"]
    assert first["threshold"] == pytest.approx(found.threshold)
    assert (first["rows"], first["wrong"]) == (found.rows, found.wrong)
    assert first["share_right"] == pytest.approx(found.accuracy)
    assert (second["threshold"], second["rows_needed"]) == (None, 29956)
    assert record["weights"] == "counts, 900 rows"


def test_a_gate_is_saved_out_of_fold_and_applied(capsys):
    """As SelectiveClassifier in Python; decision in tables, accepted in arrays."""
    frame = pd.DataFrame(Z, columns=NAMES).assign(labels=NAMES[Y])
    frame.to_csv("p.csv", index=False)
    arguments = ["--calibrator", "auto", "--accuracy", "0.9", "--save", "gate.json"]
    printed = run(capsys, "threshold", "p.csv", *arguments)
    assert "calibrated by auto\n" in printed
    assert printed.endswith("selective classifier: gate.json\n")
    gate = load_json("gate.json")
    expected = SelectiveClassifier(AutoCalibrator(), accuracy=0.9).fit(Z, NAMES[Y])
    assert gate.thresholds_ == pytest.approx(expected.thresholds_)
    assert (gate.coverage_, gate.accuracy_) == pytest.approx(
        (expected.coverage_, expected.accuracy_)
    )
    said = run(capsys, "apply", "gate.json", "p.csv", "-o", "out.csv")
    accepted = gate.accept(Z)
    assert f"accepted: {accepted.sum()} rows, {accepted.mean():.1%}".replace("%", " %") in said
    decision = pd.read_csv("out.csv", keep_default_na=False)["decision"]
    assert (decision == np.where(accepted, gate.predict(Z), "")).all()
    run(capsys, "apply", "gate.json", "p.csv", "-o", "out.npz")
    assert (np.load("out.npz")["accepted"] == accepted).all()
    assert "only the command apply supports" in fails(capsys, "export", "gate.json", "-o", "x.onnx")
    assert "only the command apply supports" in fails(
        capsys, "threshold", "p.csv", "--calibrator", "gate.json"
    )


def test_a_gate_of_one_event_acts_on_the_event_alone(capsys, decisions):
    printed = run(capsys, "threshold", *EVENT, "--save", "gate.json")
    assert "0.95       0.92  40.5 % (405)" in printed
    gate = load_json("gate.json")
    assert gate.thresholds_.tolist() == [np.inf, 0.92]
    assert gate.accuracy == {1: 0.95}
    run(capsys, "apply", "gate.json", *EVENT, "-o", "out.csv")
    decision = pd.read_csv("out.csv", keep_default_na=False)["decision"]
    assert (decision == np.where(decisions["confidence"] >= 0.92, "1", "")).all()


def test_a_gate_keeps_every_field_of_a_log(capsys, monkeypatch):
    """As it is written, also where no option names it; of standard input too."""
    n = 200
    frame = pd.DataFrame({"id": [f"{i:03d}" for i in range(n)], "confidence": np.arange(n) % 2 / 1})
    frame["correct"] = np.arange(n) % 2
    frame["at"], frame["note"], frame["weights"] = "2024-01-02", "a, b", np.arange(n) % 3
    frame.to_csv("log.csv", index=False)
    frame.to_json("log.jsonl", orient="records", lines=True)
    event = ["--labels", "correct", "--scores", "confidence"]
    run(capsys, "threshold", "log.csv", *event, "--accuracy", "0.9", "--save", "gate.json")
    kept = ["id", "correct", "at", "note", "weights"]
    expected = frame.astype(str).assign(decision=np.where(np.arange(n) % 2, "1", ""))
    with open("log.csv", "rb") as file:
        monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(file.read())))
    for source, target in (("log.csv", "out.csv"), ("-", "-")):
        assert main(["apply", "gate.json", source, *event[2:], "-o", target]) == 0
        printed = capsys.readouterr().out
        text = io.StringIO(printed) if target == "-" else target
        written = pd.read_csv(text, dtype=str, keep_default_na=False)
        assert (written[[*kept, "decision"]] == expected[[*kept, "decision"]]).all(axis=None)
    run(capsys, "apply", "gate.json", "log.jsonl", *event[2:], "-o", "out.jsonl")
    with open("out.jsonl") as lines:
        objects = [json.loads(line) for line in lines]
    assert [{k: o[k] for k in kept} for o in objects] == frame[kept].to_dict("records")
    assert [o["decision"] for o in objects] == [None, 1] * 100


def test_probabilities_of_a_gate_are_calibrated_only_by_a_calibrator(capsys, decisions):
    lines = [
        {"id": i, "question": "a", "probability": p, "label": "yes" if hit else "no"}
        for i, (p, hit) in enumerate(decisions[["confidence", "correct"]].to_numpy().tolist())
    ]
    with open("log.jsonl", "w") as file:
        file.writelines(json.dumps(line) + "\n" for line in lines)
    for calibrator in ("identity", "temperature"):
        options = ["--calibrator", calibrator, "--accuracy", "0.8", "--save", "gate.json"]
        run(capsys, "threshold", "log.jsonl", *options)
        printed = run(capsys, "apply", "gate.json", "log.jsonl", "-o", "out.jsonl")
        assert ("calibrated" in printed) == (calibrator == "temperature")
        with open("out.jsonl") as file:
            first = json.loads(next(file))
        assert first.items() >= lines[0].items()
        new = {"accepted", "calibrated"} if calibrator == "temperature" else {"accepted"}
        assert first.keys() - lines[0].keys() == new


def test_a_column_of_the_name_of_a_decision_is_not_lost(capsys, decisions):
    run(capsys, "threshold", *EVENT, "--accuracy", 0.9, "--save", "gate.json")
    decisions.assign(decision="by hand").to_csv("before.csv", index=False)
    scores = "--scores", "confidence"
    error = fails(capsys, "apply", "gate.json", "before.csv", *scores)
    assert (
        "before.csv: has a column 'decision', which is the name of an output column: rename it"
        in error
    )
    run(capsys, "apply", "gate.json", "decisions.csv", *scores, "-o", "out.csv")


def test_a_gate_of_a_table_accepts_the_same_scores_in_float32(capsys):
    """0.7 of float32 is below 0.7 of float64; a threshold of it is printed as 0.70."""
    rng = np.random.default_rng(0)
    p = rng.integers(0, 11, 2000) / 10
    y = (rng.random(2000) < np.minimum(p + 0.15, 1)).astype(int)
    pd.DataFrame({"p": p, "labels": y}).to_csv("p.csv", index=False)
    np.savez("p.npz", probs=p.astype(np.float32), labels=y)
    options = ["--accuracy", "0.9", "--save", "gate.json"]
    line = "0.90       0.70  " + f"{np.mean(p >= 0.7):.1%} ({np.sum(p >= 0.7)})".replace("%", " %")
    assert line in run(capsys, "threshold", "p.csv", "--scores", "p", *options)
    for gate in ("gate.json", "single.json"):
        run(capsys, "apply", gate, "p.npz", "--scores", "probs", "-o", "out.npz")
        assert (np.load("out.npz")["accepted"] == (p >= 0.7)).all()
        assert line in run(capsys, "threshold", "p.npz", *options[:-1], "single.json")


def test_a_gate_remembers_the_columns_of_its_scores(capsys):
    """Beside other numeric columns, as a calibrator of `compare` does."""
    rng = np.random.default_rng(0)
    p = rng.integers(0, 11, 2000) / 10
    y = np.where(rng.random(2000) < np.minimum(p + 0.15, 1), "yes", "no")
    frame = pd.DataFrame({"row": range(2000), "risk": p, "year": 2020 + 0.5 * (p > 0.3), "y": y})
    frame.to_csv("p.csv", index=False)
    options = ["--scores", "risk", "--id", "row", "--pos-label", "yes"]
    run(capsys, "threshold", "p.csv", *options, "--accuracy", "0.9", "--save", "gate.json")
    run(capsys, "apply", "gate.json", "p.csv", "-o", "out.csv")
    out = pd.read_csv("out.csv")
    assert (out["decision"].notna() == (p >= 0.7)).all()
    assert out.columns[0] == "row"


@pytest.mark.filterwarnings("default:gate.json")
def test_a_gate_that_never_acts_is_written_with_a_warning(capsys, decisions):
    options = ["threshold", *EVENT, "--accuracy", "0.99", "--save", "gate.json"]
    assert main(options) == 0
    out, err = capsys.readouterr()
    assert "accept no row" in out
    assert "threshold: warning: gate.json: the classifier accepts no row: no tested" in err
    assert err.count("\n") == 1


def test_relative_weights_have_no_threshold(capsys, tmp_path):
    np.savez("p.npz", logits=Z, labels=Y, weights=np.where(Y, 1.0, 10.0))
    message = "p.npz: with relative weights, a threshold has no guarantee"
    assert message in fails(capsys, "threshold", "p.npz")
    printed = run(capsys, "compare", "p.npz", "--calibrators", "temperature", "--report", "p.html")
    assert "skcalib threshold" not in printed
    page = (tmp_path / "p.html").read_text()
    assert "None: with relative weights, a threshold has no guarantee" in page


def test_a_stored_calibrator_and_a_split_measure_new_rows(capsys):
    test = np.arange(900) % 2
    np.savez("p.npz", logits=Z, labels=Y, split=test)
    fitted = AutoCalibrator().fit(Z[test == 0], Y[test == 0])
    save_json(fitted, "auto.json")
    found = selective_threshold(Y[test == 1], fitted.predict_proba(Z[test == 1]), accuracy=0.9)
    row = f"{found.coverage:.1%} ({found.rows})".replace("%", " %")
    for calibrator in ("auto", "auto.json"):
        printed = run(capsys, "threshold", "p.npz", "--calibrator", calibrator, "--accuracy", "0.9")
        assert "p.npz: 450 rows of the test split, 3 classes, logits" in printed
        assert row in printed


def test_a_missing_score_of_the_test_split_is_named_by_its_row_in_the_file(capsys):
    P = np.exp(Z) / np.exp(Z).sum(axis=1, keepdims=True)
    P[5, 0] = np.nan
    np.savez("p.npz", probs=P, labels=Y, split=np.arange(900) % 2)
    save_json(TemperatureScaling().fit(P[6:], Y[6:]), "t.json")
    for command in (["threshold"], ["threshold", "--calibrator", "t.json"], ["measure"]):
        assert "p.npz: X contains NaN at row 5" in fails(capsys, *command, "p.npz")


def test_errors_of_one_line(capsys, decisions):
    both = ["--accuracy", "0.9", "0.95", "--save", "gate.json"]
    for text in ("most", "1.5"):
        line = fails(capsys, "threshold", "p.npz", "--accuracy", text)
        assert f"must be a number in (0, 1); got {text}" in line
    assert "--save needs a single threshold: pass one --accuracy" in fails(
        capsys, "threshold", *EVENT, *both
    )
    assert "leave out --groups" in fails(
        capsys, "threshold", *EVENT, "--groups", "question", "--save", "gate.json"
    )
    assert "must be a number in (0, 1); got 1.0" in fails(
        capsys, "threshold", *EVENT, "--accuracy", "1.0"
    )
    assert "must be above 0.5, because a selective classifier accepts only" in fails(
        capsys, "threshold", *EVENT, "--accuracy", "0.6", "--save", "gate.json"
    )
    assert "did you mean platt?" in fails(
        capsys, "threshold", *EVENT, "--calibrator", "platt_scale"
    )


@pytest.mark.parametrize(
    ("threshold", "below", "text"),
    [(0.87, 0.86, "0.87"), (0.876543, 0.874, "0.876"), (0.29, 0.28, "0.29"), (0.5, 0.4999, "0.50"),
     (0.123456789, -np.inf, "0.12"), (1.0, 0.999999, "1.00")],
)  # fmt: skip
def test_a_threshold_is_printed_with_the_fewest_decimals_that_select_the_same_rows(
    threshold, below, text
):
    assert shortest(threshold, below) == text
