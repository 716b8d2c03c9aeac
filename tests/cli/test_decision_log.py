"""Logs of decisions: how lines are read, measured, corrected and written."""

import gzip
import json
import re
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from running import contents, fails, run
from sklearn.metrics import log_loss

import skcalib
from skcalib import TemperatureScaling
from skcalib.__main__ import main
from skcalib._cli.decision_log import draw_rater
from skcalib.metrics import expected_calibration_error

FORMS = [
    {"question": "team", "probabilities": {"Verkäufe": 0.7, "技術": 0.3}, "label": "Verkäufe"},
    {"question": "answer", "probabilities": [0.1, 0.6, 0.3], "label": 1},
    {"question": "refund", "probability": 0.97, "label": True},
    {"question": "refund", "probability": 1, "label": 0},
    {"question": 7, "probabilities": {"1": 0.2, "2": 0.5, "3": 0.3}, "label": 3.0},
    {
        "question": None,
        "probabilities": [{"value": False, "probability": 0.4}, {"value": 2, "probability": 0.6}],
        "label": False,
    },
    {"question": 7, "probabilities": [{"label": None, "probability": 1}], "label": "null"},
    {"question": "team", "probabilities": {"Verkäufe": None, "技術": 1.0}, "label": "技術"},
    {"question": "team", "probabilities": {"技術": 1.0}, "label": None},
]


def write(records, path="log.jsonl"):
    texts = [r if isinstance(r, str) else json.dumps(r, ensure_ascii=False) for r in records]
    Path(path).write_text("\n".join(texts) + "\n", encoding="utf-8")


def drawn(n=400, seed=0, raters=0):
    """Four questions of 2 to 5 options, over-confident by other factors; labels or shares."""
    rng = np.random.default_rng(seed)
    records = []
    for i in range(n):
        g = i % 4
        z = 2 * rng.normal(size=g + 2)
        truth = np.exp(z / [6.0, 1.4, 1.0, 0.8][g])
        truth /= truth.sum()
        p = (np.exp(z) / np.exp(z).sum()).round(2)
        names = [f"{'abcd'[g]}{k}" for k in range(g + 2)]
        label = names[rng.choice(g + 2, p=truth)]
        if raters:
            counts = rng.multinomial(raters, truth).tolist()
            label = {name: c / raters for name, c in zip(names, counts, strict=True) if c}
        records.append(
            {
                "question": "abcd"[g],
                "probabilities": dict(zip(names, p, strict=True)),
                "label": label,
            }
        )
    return records


def as_arrays(records):
    """Probabilities with NaN, divided by their sums, and the options: a frame of dicts."""
    P = pd.DataFrame([r["probabilities"] for r in records]).sort_index(axis=1)
    return P.div(P.sum(axis=1), axis=0).to_numpy(), np.array(P.columns)


@pytest.mark.parametrize("path", ["log.jsonl", "log.jsonl.gz"])
def test_every_form_of_a_line_is_read(path):
    write([*FORMS[:2], "", *FORMS[2:]], "log.jsonl")
    if path.endswith("gz"):
        Path(path).write_bytes(gzip.compress(Path("log.jsonl").read_bytes()))
    saved = contents(path)
    assert saved.classes.tolist() == [
        *("0", "1", "2", "3", "Verkäufe", "false", "no", "null", "yes", "技術")
    ]
    assert saved.labels.tolist() == [*("Verkäufe", "1", "yes", "no", "3", "false", "null", "技術")]
    offered = [
        {name: p for name, p in zip(saved.classes.tolist(), row, strict=True) if p == p}
        for row in saved.scores.round(12).tolist()
    ]
    assert offered == [
        {"Verkäufe": 0.7, "技術": 0.3},
        {"0": 0.1, "1": 0.6, "2": 0.3},
        {"no": 0.03, "yes": 0.97},
        {"no": 0.0, "yes": 1.0},
        {"1": 0.2, "2": 0.5, "3": 0.3},
        {"false": 0.4, "2": 0.6},
        {"null": 1.0},
        {"技術": 1.0},
    ]
    assert saved.groups["question"].tolist() == [
        *("team", "answer", "refund", "refund", 7, None, 7, "team")
    ]
    assert saved.unused == ["1 of 9 lines (without a label)"]


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ('{"probabilities": {"a": 0.5,', "line 12: is not JSON: Expecting"),
        ("[1, 2]", "line 12: must be a JSON object"),
        ("[" * 100_000, "line 12: is not JSON: maximum recursion depth"),
        (
            {"label": "a"},
            "line 12: has no probabilities: write 'probabilities', an",
        ),
        (
            {"probability": "0.9", "label": 1},
            "line 12: the probability of 'yes' must be a number >= 0; got '0.9'",
        ),
        (
            {"probabilities": {"a": "0.9", "b": 0.1}, "label": "a"},
            "line 12: the probability of 'a' must be a number >= 0; got '0.9'",
        ),
        (
            {"probability": 97, "label": 1},
            "line 12: the probability of 'no' must be a number >= 0; got -96",
        ),
        (
            {"probability": 0.9, "label": 2},
            "line 12: label '2' is not one of the options of this line: yes, no",
        ),
        (
            {"probabilities": [0.5, 0.5], "label": {"0": "1"}},
            "line 12: the share of '0' must be a number >= 0; got '1'",
        ),
        (
            {"probabilities": 0.9, "label": 1},
            "line 12: has no probabilities: write 'probabilities', an object or a list",
        ),
        (
            {"probabilities": {}, "label": "a"},
            "line 12: the probabilities must sum to 1; their sum is 0",
        ),
        (
            {"probabilities": {"a": 70, "b": 30}, "label": "a"},
            "line 12: the probabilities must sum to 1; their sum is 100",
        ),
        (
            {"probabilities": {"a": True, "b": 0}, "label": "a"},
            "line 12: the probability of 'a' must be a number >= 0; got True",
        ),
        (
            '{"probabilities": {"a": NaN, "b": 0}, "label": "a"}',
            "line 12: the probability of 'a' must be a number >= 0; got nan",
        ),
        (
            {"probabilities": {"a": 0.4, "b": 0.33}, "label": "a"},
            "line 12: the probabilities must sum to 1; their sum is 0.73",
        ),
        (
            {"probabilities": {"a": 0.5, "b": 0.5}, "label": "team-b"},
            "line 12: label 'team-b' is not one of the options of this line: a, b",
        ),
        (
            {"probabilities": {"a": 1, "b": None}, "label": {"a": 0.5, "b": 0.5}},
            "line 12: label 'b' is not one of the options of this line: a",
        ),
        (
            {"probabilities": {"a": 0.5, "b": 0.5}, "label": {"a": 0.5, "b": 0.3}},
            "line 12: soft labels must be counts of raters or sum to 1; got {'a': 0.5, 'b': 0.3}",
        ),
        (
            {"probabilities": {"a": 0.5, "b": 0.5}, "label": {"a": 1.5, "b": -0.5}},
            "line 12: the share of 'b' must be a number >= 0; got -0.5",
        ),
        (
            {"probabilities": [{"value": 1, "probability": 0.5}] * 2, "label": 1},
            "line 12: the probabilities must sum to 1; their sum is 0.5",
        ),
    ],
)
def test_a_broken_line_is_named(capsys, line, message):
    """Line 12 of a file whose third line is empty."""
    write([*FORMS[:2], "", *[FORMS[1]] * 8, line])
    assert message in fails(capsys, "measure", "log.jsonl")


@pytest.mark.parametrize(
    ("lines", "message"),
    [
        ([""], "log.jsonl: is empty: write a JSON object on a line for each row"),
        (["question,p,label", "a,0.5,1"], "log.jsonl: line 1: is not JSON: Expecting value"),
        ([json.dumps(FORMS)], "log.jsonl: line 1: must be a JSON object"),
        (
            [{"question": "a", "probabilities": 0.9, "label": "a"}, *FORMS],
            "log.jsonl: line 1: has no probabilities: write 'probabilities', an object or a list",
        ),
        ([FORMS[0]], "log.jsonl: 1 row to measure: intervals need at least two"),
        (
            [{**FORMS[0], "y": 1}] * 2,
            "log.jsonl: has several columns of labels (label, y): choose one by --labels NAME",
        ),
    ],
)
def test_a_file_that_is_no_log_of_several_rows_is_named(capsys, lines, message):
    write(lines)
    assert message in fails(capsys, "measure", "log.jsonl")


def test_groups_of_one_row_are_measured_and_compared(capsys):
    write([*drawn(80), {"question": "one", "probability": 0.9, "label": True}])
    assert "one " in run(capsys, "measure", "log.jsonl")
    given = ["--calibrators", "groupwise", "--metrics", "log_loss", "--save", "g.json"]
    assert "log.jsonl: 81 rows, " in run(capsys, "compare", "log.jsonl", *given)


@pytest.mark.filterwarnings("default")
def test_questions_that_fit_did_not_have_are_a_line_of_warning(capsys):
    write(drawn(80))
    given = ["--calibrators", "groupwise", "--metrics", "log_loss", "--save", "g.json"]
    run(capsys, "compare", "log.jsonl", *given)
    write([{**r, "question": "new"} for r in drawn(4)])
    assert main(["apply", "g.json", "log.jsonl", "-o", "out.jsonl"]) == 0
    out, err = capsys.readouterr()
    assert out.startswith("out.jsonl: 4 rows, 1 question, 2 to 5 options, calibrated")
    assert re.fullmatch(r".* apply: warning: groups: no row has a group that was in fit .*\n", err)


def test_a_log_is_no_logits(capsys):
    write(drawn(40))
    assert "these sum to 1: pass --input proba." in fails(
        capsys, "measure", "log.jsonl", "--input", "logits"
    )


def test_options_whose_text_changes_are_refused_before_a_wide_table_is_made(capsys):
    write([{"probabilities": {f"a{i}": 0.5, f"b{i}": 0.5}, "label": f"a{i}"} for i in range(600)])
    said = fails(capsys, "measure", "log.jsonl")
    assert "has 1,200 different options, more than 1,000: if each line has options of" in said


def test_a_log_without_labels_is_refused(capsys):
    write([{"probability": 0.5, "question": "q", "label": None}])
    assert "no line has a label" in fails(capsys, "measure", "log.jsonl")
    write([{"probability": 0.5, "question": "q", "truth": True}])
    assert "has no 'labels'; it contains probability, question, truth: pass --labels" in fails(
        capsys, "measure", "log.jsonl"
    )


def test_a_table_of_columns_stays_a_table(capsys):
    rng = np.random.default_rng(0)
    p = rng.random(50).round(3)
    table = pd.DataFrame({"probability": p, "label": (rng.random(50) < p).astype(int)})
    table.to_json("p.jsonl", orient="records", lines=True)
    saved = contents("p.jsonl")
    assert saved.records is None
    assert saved.scores.tolist() == pytest.approx(p.tolist())


@pytest.mark.usefixtures("few_errors")
def test_measure_is_of_all_rows_and_of_each_question(capsys):
    """Losses by scikit-learn and a loop, the ECE of rows with 0 in place of NaN; other keys."""
    records = drawn()
    P, options = as_arrays(records)
    y = np.array([r["label"] for r in records])
    Q = np.nan_to_num(P)
    renamed = [{"id": i, "site": r.pop("question"), **r} for i, r in enumerate(records)]
    write([*renamed, *[{**renamed[0], "label": None}] * 37])
    given = ["measure", "log.jsonl", "--groups", "site"]
    printed = run(capsys, *given)
    assert printed.startswith(
        "log.jsonl: 400 rows, 4 questions, 2 to 5 options, probabilities\n"
        "options: a0, a1, b0, b1, b2, c0, c1, c2, c3, d0, d1, d2, ...\n"
        "not used: id, 37 of 437 lines (without a label)\n"
    )
    assert "static_calibration_error" not in printed
    assert "Miscalibrated groups: a (1 of 4 tested" in printed
    record = json.loads(run(capsys, *given, "--format", "json"))
    found = {row["metric"]: row["value"] for row in record["metrics"]}
    assert found["log_loss"] == pytest.approx(
        log_loss(y, np.maximum(Q, 1e-12), labels=options), rel=1e-9
    )
    hits = y[:, None] == options
    assert found["brier_score"] == pytest.approx(((Q - hits) ** 2).sum(axis=1).mean())
    assert found["expected_calibration_error"] == pytest.approx(
        expected_calibration_error(y, Q, labels=options), rel=1e-9
    )
    assert record["groups"][0]["group"] == {"site": "a"}


def test_a_limit_of_an_error_of_class_labels_is_refused(capsys):
    write(drawn(40))
    line = fails(capsys, "measure", "log.jsonl", "--fail-above", "sce=0.1")
    assert "--fail-above static_calibration_error: a log of decisions has no class labels" in line


@pytest.mark.usefixtures("few_errors")
def test_losses_of_shares_are_means_over_the_raters(capsys):
    """A list of ratings, one by one; their entropy; counts are shares, too."""
    records = drawn(200, raters=5)
    log_losses, brier, entropy = [], [], []
    for r in records:
        total = sum(r["probabilities"].values())
        q = {name: p / total for name, p in r["probabilities"].items()}
        for name, share in r["label"].items():
            for _ in range(round(5 * share)):
                log_losses.append(-np.log(max(q[name], 1e-12)))
                brier.append(sum((p - (k == name)) ** 2 for k, p in q.items()))
                entropy.append(-np.log(share))
    write(records)
    record = json.loads(run(capsys, "measure", "log.jsonl", "--format", "json"))
    found = {row["metric"]: row["value"] for row in record["metrics"]}
    assert found["log_loss"] == pytest.approx(np.mean(log_losses), rel=1e-9)
    assert found["brier_score"] == pytest.approx(np.mean(brier), rel=1e-9)
    printed = run(capsys, "measure", "log.jsonl")
    loss, least = np.mean(log_losses), np.mean(entropy)
    assert (
        f"log loss {loss:.4f} = entropy of the soft labels {least:.4f} + KL divergence "
        f"{loss - least:.4f}\n"
    ) in printed
    counts = [
        {**r, "label": {k: round(5 * share) for k, share in r["label"].items()}} for r in records
    ]
    write(counts, "counts.jsonl")
    assert run(capsys, "measure", "counts.jsonl").partition("\n")[2] == printed.partition("\n")[2]


@pytest.mark.usefixtures("few_errors")
def test_a_row_of_weight_0_is_absent_from_losses_of_shares(capsys):
    """The same as a log without these lines."""
    records = [{**r, "weights": i % 3} for i, r in enumerate(drawn(90, raters=5))]
    write(records)
    write([r for r in records if r["weights"]], "less.jsonl")
    losses = [
        json.loads(run(capsys, "measure", path, "--format", "json"))["metrics"][:2]
        for path in ("log.jsonl", "less.jsonl")
    ]
    assert losses[0] == losses[1]


def test_a_drawn_rater_has_the_share_as_its_probability():
    write([{"probabilities": [0.2, 0.3, 0.5], "label": [0.6, 0.0, 0.4]}] * 4000)
    shares = contents("log.jsonl")
    np.testing.assert_allclose(shares.labels, np.tile([0.6, 0.0, 0.4], (4000, 1)))
    labels = draw_rater(shares, 0).labels
    assert np.mean(labels == "0") == pytest.approx(0.6, abs=0.03)
    assert set(labels) == {"0", "2"}


def test_compare_fits_on_shares_and_measures_means_over_the_raters(capsys):
    """The saved temperature is that of the shares; the log loss that of the Python comparison."""
    records = drawn(200, raters=5)
    write(records)
    P, options = as_arrays(records)
    shares = pd.DataFrame([r["label"] for r in records]).reindex(columns=options).fillna(0)
    given = ["--calibrators", "temperature", "--metrics", "log_loss"]
    record = json.loads(
        run(capsys, "compare", "log.jsonl", *given, "--save", "t.json", "--format", "json")
    )
    groups = [r["question"] for r in records]
    frame = skcalib.compare_calibrators(
        P, shares.to_numpy(), ["temperature"], metrics=["log_loss"], groups=groups, input="proba"
    ).frame
    losses = [row["log_loss_value"] for row in record["calibrators"]]
    assert losses == pytest.approx(frame["log_loss", "value"].tolist(), rel=1e-9)
    assert record["choice"] == "temperature"
    T = TemperatureScaling(input="proba").fit(P, shares.to_numpy()).temperature_
    assert skcalib.load_json("t.json").temperature_ == pytest.approx(T, rel=1e-9)
    run(capsys, "compare", "log.jsonl", *given, "--report", "r.html")
    assert "log.jsonl" in Path("r.html").read_text(encoding="utf-8")


def test_other_commands_take_shares(capsys):
    write(drawn(400, raters=5)[2::4])  # a question whose probabilities are calibrated
    assert "100 rows" in run(capsys, "threshold", "log.jsonl")
    assert "100 rows" in run(capsys, "monitor", "log.jsonl", "--state", "s.json")


def test_a_log_is_compared_and_corrected_by_question(capsys):
    """The saved map is that of the frame with NaN; each line keeps its form and other keys."""
    records = drawn(600)
    write(records)
    printed = run(capsys, "compare", "log.jsonl", "--save", "best.json", "--metrics", "log_loss")
    names = [line.split()[0] for line in printed.splitlines()[5:9]]
    assert sorted(names) == ["auto", "groupwise", "identity", "temperature"]
    assert "each in one of 5 stratified folds, within groups" in printed
    assert "skcalib threshold log.jsonl\n" in printed
    calibrator = skcalib.load_json("best.json")
    assert isinstance(calibrator, skcalib.GroupwiseCalibrator)
    new = drawn(40, seed=1)
    for i, r in enumerate(new):
        r["id"] = i
        del r["label"]
    new[1]["probabilities"] = [
        {"label": name, "probability": p} for name, p in new[1]["probabilities"].items()
    ]
    write(new, "new.jsonl")
    run(capsys, "apply", "best.json", "new.jsonl", "-o", "out.jsonl")
    out = [json.loads(line) for line in Path("out.jsonl").read_text().splitlines()]
    assert [{k: v for k, v in r.items() if k != "calibrated"} for r in out] == new
    P, options = as_arrays(drawn(40, seed=1))
    questions = [r["question"] for r in new]
    Q = calibrator.predict_proba(P, groups=questions)
    place = {name: k for k, name in enumerate(options)}
    for i, r in enumerate(out):
        q = r["calibrated"]
        if i == 1:
            q = {entry["label"]: entry["probability"] for entry in q}
        assert list(q) == [name for name in options if not np.isnan(P[i, place[name]])]
        assert list(q.values()) == pytest.approx([Q[i, place[k]] for k in q], rel=1e-12)
        assert sum(q.values()) == pytest.approx(1)
    given = ["--calibrators", "temperature", "--metrics", "log_loss"]
    plain = run(capsys, "compare", "log.jsonl", *given, "--save", "t.json")
    assert "groupwise" not in plain
    run(capsys, "apply", "t.json", "new.jsonl", "-o", "out.jsonl")


def test_positions_and_a_probability_keep_their_form(capsys):
    rng = np.random.default_rng(0)
    records = []
    for _ in range(300):
        p, q = rng.random(2).round(2)
        records.append({"question": "yes", "probability": p, "label": bool(rng.random() < p**2)})
        records.append({"question": "place", "probabilities": [q, 1 - q], "label": 0})
        records[-1]["label"] = int(rng.random() > q**2)
    write(records)
    run(capsys, "compare", "log.jsonl", "--save", "c.json", "--calibrators", "temperature")
    write([*records, {"probabilities": {"other": 1.0}}], "new.jsonl")
    unknown = "the answer option 'other' is not in the lines on which the calibrator was fitted"
    assert f"new.jsonl: line 601: {unknown}" in fails(capsys, "apply", "c.json", "new.jsonl")
    write(records[:2], "new.jsonl")
    run(capsys, "apply", "c.json", "new.jsonl", "-o", "q.jsonl.gz")
    with gzip.open("q.jsonl.gz", "rt") as file:
        first, second = map(json.loads, file)
    assert isinstance(first["calibrated"], float)
    assert len(second["calibrated"]) == 2
    assert sum(second["calibrated"]) == pytest.approx(1)
    assert ".jsonl or .jsonl.gz" in fails(capsys, "apply", "c.json", "new.jsonl", "-o", "q.csv")


def test_what_a_log_chose_applies_to_a_log_without_questions(capsys):
    """Questions that no option named are not stored."""
    records = drawn()
    write(records)
    write([{name: r[name] for name in ("probabilities", "label")} for r in records], "bare.jsonl")
    run(capsys, "compare", "log.jsonl", "--calibrators", "temperature", "--save", "best.json")
    run(capsys, "threshold", "log.jsonl", "--accuracy", "0.3", "--save", "gate.json")
    for saved in ("best.json", "gate.json"):
        with open(saved) as file:
            assert json.load(file)["options"] == {}
        assert run(capsys, "apply", saved, "bare.jsonl", "-o", "out.jsonl")
