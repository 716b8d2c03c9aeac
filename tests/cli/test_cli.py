"""The command line: from saved predictions to a report, a table and a saved calibrator."""

import json
import os
import re
import shlex
import subprocess
import sys
import tomllib
import zipfile
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from running import contents, fails, run, scores, softmax
from sklearn.datasets import load_digits
from sklearn.exceptions import ConvergenceWarning
from sklearn.metrics import log_loss
from sklearn.model_selection import StratifiedKFold
from sklearn.naive_bayes import ComplementNB

import skcalib
from skcalib import PlattScaling, TemperatureScaling
from skcalib.__main__ import main
from skcalib._cli.arguments import COMPARE_EXAMPLE, make_parser
from skcalib.metrics import calibration_by_group, calibration_interval, expected_calibration_error

FEW = ["--calibrators", "temperature", "--metrics", "log_loss"]


Y, Z = scores()
P = softmax(Z)


def mean_log_loss(printed, name):
    (line,) = re.findall(rf"^{name} +\d.*%.*$", printed, re.MULTILINE)
    return float(line.split()[1])


def test_example_writes_predictions_of_rows_not_fitted_on(capsys):
    """Those of a model of the other four fifths, to six digits; no file is replaced."""
    printed = run(capsys, "example")
    assert printed.startswith("predictions.csv: 1,797 rows, 10 classes")
    frame = pd.read_csv("predictions.csv")
    X, y = load_digits(return_X_y=True)
    assert (frame["labels"] == y).all()
    fit, test = next(StratifiedKFold(5).split(X, y))
    model = ComplementNB().fit(X[fit], y[fit])
    np.testing.assert_allclose(frame.iloc[test, 1:], model.predict_proba(X[test]), rtol=1e-5)
    message = "error: predictions.csv already exists: pass the name of a new file"
    assert message in fails(capsys, "example")
    assert "must end in .csv or .jsonl" in fails(capsys, "example", "p.npz")


def test_example_has_two_faults_so_that_the_default_is_better_than_temperature_scaling(capsys):
    """Over-confidence, and a digit that is predicted too seldom, which one number cannot mend."""
    run(capsys, "example")
    frame = pd.read_csv("predictions.csv")
    P, y = frame.iloc[:, 1:].to_numpy(), frame["labels"]
    assert P.max(axis=1).mean() > np.mean(P.argmax(axis=1) == y) + 0.05
    assert P[:, 8].mean() < 0.5 * np.mean(y == 8)
    which = ["--calibrators", "auto", "temperature", "--metrics", "log_loss"]
    printed = run(capsys, "compare", "predictions.csv", *which)
    assert "\nCalibrate by auto: " in printed
    assert mean_log_loss(printed, "auto") < 0.7 * mean_log_loss(printed, "temperature")


def test_example_writes_a_log_whose_commands_work(capsys):
    """Decisions that are too confident; a calibrated threshold accepts some of them."""
    printed = run(capsys, "example", "decisions.jsonl")
    measure, threshold, apply = re.findall(r"^skcalib (.*)$", printed, re.MULTILINE)
    assert "over-confident" in run(capsys, *shlex.split(measure))
    run(capsys, *shlex.split(threshold))
    run(capsys, *shlex.split(apply))
    with open("accepted.jsonl") as file:
        decisions = [json.loads(line) for line in file]
    accepted = [d for d in decisions if d["accepted"]]
    assert len(decisions) == 2000
    assert len(accepted) > 900
    right = [max(d["calibrated"], key=d["calibrated"].get) == d["label"] for d in accepted]
    assert np.mean(right) > 0.9


@pytest.mark.slow
def test_the_example_of_the_help_works(tmp_path):
    """As typed into a shell: predictions, a report and a calibrator."""
    command = COMPARE_EXAMPLE.split("example:\n")[1].replace("python ", f"{sys.executable} ")
    command = command.replace("--report", "--calibrators temperature --report")
    env = os.environ | {"PYTHONPATH": str(Path(skcalib.__file__).parents[1])}
    subprocess.run(["bash", "-ec", command], check=True, capture_output=True, cwd=tmp_path, env=env)
    assert (tmp_path / "report.html").exists()
    assert skcalib.load_json(tmp_path / "best.json").temperature_ > 1


def test_compare_measures_the_test_split(capsys):
    """Fitted on rows of split 0, measured on those of split 1, and saved as measured."""
    split = np.arange(300) % 3 // 2
    np.savez("p.npz", logits=Z, labels=Y, split=split)
    printed = run(capsys, "compare", "p.npz", *FEW, "--save", "t.json")
    assert "p.npz: 100 rows of the test split, 3 classes, logits\n" in printed
    fit, test = split == 0, split == 1
    model = TemperatureScaling().fit(Z[fit], Y[fit])
    loss = log_loss(Y[test], model.predict_proba(Z[test]))
    assert mean_log_loss(printed, "temperature") == pytest.approx(loss, abs=5e-5)
    saved = skcalib.load_json("t.json")
    assert saved.temperature_ == pytest.approx(model.temperature_)
    assert "Calibrate by temperature, chosen in folds" in " ".join(printed.split())
    assert printed.splitlines()[-1] == "calibrator (temperature): t.json"


def test_compare_in_folds_saves_a_fit_of_all_rows(capsys):
    np.savez("p.npz", probs=P, labels=Y)
    printed = run(capsys, "compare", "p.npz", *FEW, "--cv", 3, "--save", "t.json")
    assert "p.npz: 300 rows, 3 classes, probabilities, each in one of 3 stratified folds" in printed
    expected = TemperatureScaling().fit(P, Y).temperature_
    assert skcalib.load_json("t.json").temperature_ == pytest.approx(expected)


def test_identity_is_saved_where_nothing_is_needed(capsys):
    """A map that cannot help: then the calibrator to apply is the softmax."""
    np.savez("p.npz", logits=Z / 2, labels=Y)
    printed = run(capsys, "compare", "p.npz", *FEW, "--save", "i.json")
    assert "Keep the probabilities" in printed
    run(capsys, "apply", "i.json", "p.npz", "-o", "q.npz")
    np.testing.assert_allclose(np.load("q.npz")["probs"], softmax(Z / 2), rtol=1e-9)


NAMES = np.array(["owl", "cat", "dog"])[Y]
FRAME = pd.DataFrame(P, columns=["p_owl", "p_cat", "p_dog"]).assign(labels=NAMES)


@pytest.mark.parametrize(
    ("frame", "options"),
    [
        (FRAME, []),
        (FRAME[["p_dog", "labels", "p_owl", "p_cat"]], []),
        (FRAME.rename(columns=lambda name: name.removeprefix("p_")), []),
        (FRAME.rename(columns={"labels": "animal"}), ["--labels", "animal"]),
        (FRAME.assign(note="x"), ["--scores", "p_cat", "p_dog", "p_owl"]),
        (FRAME.assign(split=np.where(np.arange(300) % 2, "Test", "cal")), []),
        (FRAME.assign(part=np.arange(300) % 2 == 1), ["--split", "part"]),
    ],
)
@pytest.mark.parametrize("index", [True, False])
def test_a_table_is_read_by_the_names_of_its_columns(capsys, frame, options, index):
    """Columns in any order, an unnamed index or none: the same numbers as sorted arrays."""
    frame.to_csv("p.csv", index=index)
    printed = run(capsys, "compare", "p.csv", *options, *FEW)
    test = np.arange(300) % 2 == 1 if "split" in printed else slice(None)
    loss = log_loss(Y[test], P[test])
    assert mean_log_loss(printed, "identity") == pytest.approx(loss, abs=2e-4)


@pytest.mark.parametrize("header", ["dog,labels", "p,p,labels"])
@pytest.mark.parametrize("kind", [int, float, str])
def test_columns_that_no_label_tells_apart_are_in_the_order_of_the_file(header, kind):
    """One column, of P(second), be it named by the class; or two of one name."""
    p, y = np.array([0.2, 0.7, 0.6, 0.1]), np.array([0, 1, 0, 1])
    given = pd.DataFrame(p[:, None] if header.count(",") == 1 else np.column_stack([1 - p, p]))
    labels = np.array(["cat", "dog"])[y] if kind is str else y.astype(kind)
    Path("p.csv").write_text(f"{header}\n")
    given.assign(labels=labels).to_csv("p.csv", mode="a", index=False, header=False)
    found = contents("p.csv")
    assert found.classes is None
    assert found.labels.tolist() == labels.tolist()
    np.testing.assert_allclose(found.scores, given.to_numpy().squeeze(), rtol=1e-12)


def test_parquet_says_what_it_needs(capsys, monkeypatch):
    """One line where pyarrow is not installed."""
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    open("p.parquet", "w").close()
    assert "pyarrow is required for parquet" in fails(capsys, "compare", "p.parquet")


@pytest.mark.usefixtures("few_label_sets")
def test_measure_gives_every_error(capsys):
    """A row for each scorer but the family of all binned errors, and for the proper scores."""
    np.savez("p.npz", probs=P, labels=Y)
    printed = run(capsys, "measure", "p.npz", "--all")
    rows = dict(re.findall(r"^(\w+) .*\[.*\] +(\d\.\d{4}.*)$", printed, re.MULTILINE))
    assert set(rows) == {
        "log_loss", "brier_score", "error_rate",
        *(name.removeprefix("neg_") for name in skcalib.metrics.SCORERS),
    } - {"general_calibration_error"}  # fmt: skip
    for name in skcalib.metrics.SCORERS:
        if (bare := name.removeprefix("neg_")) in rows:
            value = getattr(skcalib.metrics, bare)(Y, P)
            assert float(rows[bare].split()[0]) == pytest.approx(value, abs=5e-5)
    assert float(rows["log_loss"].split()[0]) == pytest.approx(log_loss(Y, P), abs=5e-5)


@pytest.mark.usefixtures("few_errors")
def test_measure_of_one_event_is_its_summary(capsys):
    """What a regulator reads: every number is that of `calibration_summary`."""
    p, y = P[:, 0], (NAMES == "owl").astype(int)
    pd.DataFrame({"risk": p, "y": y}).to_csv("p.csv", index=False, float_format="%.17g")
    command = ["measure", "p.csv", "--seed", 3]
    summary = skcalib.metrics.calibration_summary(y, p, random_state=3)
    printed = run(capsys, *command)
    assert f"\n\n{summary!r}\n\n" in printed
    assert "static" not in printed
    assert "avuc" not in printed
    found = json.loads(run(capsys, *command, "--format", "json"))["metrics"]
    frame = pd.DataFrame(found).set_index("metric").rename(columns={"p_value": "pvalue"})
    columns = ["value", "debiased", "low", "high", "pvalue"]
    pd.testing.assert_frame_equal(
        frame[columns].astype(float), summary.frame[columns], check_names=False
    )
    error = expected_calibration_error(y, p)
    limit = [f"expected_calibration_error={f * error:.6f}" for f in (0.5, 2)]
    assert [main([*map(str, command), "--fail-above", each]) for each in limit] == [1, 0]
    # Without a name, the ECE that is printed.
    printed = summary.frame.loc["ece", "debiased"]
    limit = [f"{f * printed:.6f}" for f in (0.99, 1.01)]
    assert [main([*map(str, command), "--fail-above", each]) for each in limit] == [1, 0]


def test_measure_gives_few_errors_of_classes_first(capsys):
    """--all gives the others; an error that is compared with a limit is measured anyway."""
    np.savez("p.npz", probs=P, labels=Y)
    found = json.loads(run(capsys, "measure", "p.npz", "--format", "json"))["metrics"]
    names = [row["metric"] for row in found]
    errors = ["expected_calibration_error", "static_calibration_error", "ks_calibration_error"]
    assert names == ["log_loss", "brier_score", "error_rate", *errors]
    assert main(["measure", "p.npz", "--fail-above", "adaptive_calibration_error=0.0001"]) == 1


def test_measure_gives_the_interval_of_an_error(capsys):
    """As the library's own function gives it."""
    np.savez("p.npz", probs=P, labels=Y)
    printed = run(capsys, "measure", "p.npz", "--seed", 3)
    interval = calibration_interval(expected_calibration_error, Y, P, random_state=3)
    (row,) = re.findall(r"^expected_calibration_error +(.*)$", printed, re.MULTILINE)
    *found, p_value = re.findall(r"(?:< )?[\d.]+", row)
    expected = (
        interval.debiased,
        interval.low,
        interval.high,
        interval.estimate,
        interval.expected_if_calibrated,
    )
    assert found == [f"{x:.4f}" for x in expected]
    assert p_value.startswith("<")


@pytest.mark.usefixtures("few_errors")
def test_measure_of_a_split_is_that_of_its_test_rows(capsys):
    split = np.arange(300) % 2
    np.savez("p.npz", logits=Z, labels=Y, split=split)
    np.savez("test.npz", logits=Z[split == 1], labels=Y[split == 1])
    whole, part = (run(capsys, "measure", path) for path in ("p.npz", "test.npz"))
    assert whole.splitlines()[1:] == part.splitlines()[1:]
    assert whole.startswith("p.npz: 150 rows of the test split")


def test_what_a_fit_says_is_told_once(capsys, recwarn):
    """The report and the saved calibrator are fits again of what the table is about."""
    y = np.repeat([0, 1, 1], 100)
    swapped = np.random.default_rng(0).normal(size=(300, 2)) + 2 * np.eye(2)[1 - y]
    np.savez("p.npz", logits=swapped, labels=y)
    options = ["--calibrators", "vector", "--metrics", "log_loss", "--save", "c.json"]
    assert main(["compare", "p.npz", *options, "--report", "r.html"]) == 0
    printed, warned = capsys.readouterr()
    assert warned.count("\n") == 1
    assert warned.count("The largest score of a row belongs to its label in 8 %") == 1
    assert "Calibrate by vector" in printed
    assert printed.count("reached the upper bound") == 1
    assert not [each for each in recwarn.list if issubclass(each.category, ConvergenceWarning)]


GOOD = {"logits": Z, "labels": Y}


@pytest.mark.parametrize(
    ("arrays", "complaint"),
    [
        ({"logits": Z}, "has no 'labels'; it contains logits"),
        ({"labels": Y}, "either 'logits' or 'probs'"),
        (GOOD | {"probs": P}, "--scores NAME to choose"),
        ({"Z": Z, "y": Y}, "contains Z, y"),
        (GOOD | {"labels": Y[1:]}, "labels has shape (299,)"),
        (GOOD | {"labels": np.eye(3)[Y]}, "labels have shape (300, 3): write one label for each"),
        (GOOD | {"labels": Y * 0}, "all rows have the label 0"),
        (GOOD | {"classes": [5, 6, 7]}, "label 2 at row 0 is not in classes: [5, 6, 7]"),
        ({"probs": P * 0.9, "labels": Y}, "but the file declares probabilities"),
        (GOOD | {"split": np.where(Y, 1.0, np.nan)}, "split is empty at row"),
        (GOOD | {"split": np.where(Y, "test", "")}, "split is empty at row"),
        (GOOD | {"labels": Y.astype(object)}, "pickled objects"),
        (GOOD | {"logits": Z.astype(object)}, "pickled objects"),
        (GOOD | {"logits": Z.astype(str)}, "must be numbers"),
        (GOOD | {"split": np.zeros(300)}, "only calibration rows"),
        (GOOD | {"split": np.arange(300) % 3}, "'2'"),
        (GOOD | {"split": np.where(Y, "train", "test")}, "'train'"),
        (GOOD | {"split": np.arange(299) % 2}, "split has shape (299,)"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_a_broken_npz_is_one_line(capsys, arrays, complaint):
    np.savez("p.npz", **arrays)
    said = fails(capsys, "compare", "p.npz")
    assert said.startswith("python -m skcalib compare: error: p.npz: ")
    assert complaint in said


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("", "p.csv: is empty: write a header line, such as labels,0,1,2"),
        ("a,b,labels\n", "a header but no rows"),
        ("a,b,labels\n0.1,0.9,1\n0.1,0.9,1,4\n", "Expected 3 fields in line 3"),
        ("labels|a|b\n1|.1|.9\n", "has one column, 'labels|a|b': separate columns by commas"),
        ("cat,dog,labels\n0.1,0.9,dog\n0.2,0.8,cow\n", "'cow' has no column"),
        (
            "a,b,labels\n0.1,0.9,0\n0.8,0.2,1\n0.8,0.2,2\n",
            "has 2 numeric columns (a, b) for the 3 labels [0, 1, 2], and none is named after a "
            "label: name the columns of scores by --scores a,b,c",
        ),
        ("0.1,0.9,1\n0.2,0.8,0\n", "write a header"),
        ("a,b,z\n0.1,0.9,1\n", "has no 'labels'; it contains a, b, z: pass --labels NAME"),
        (
            "a,b,y,label\n0.1,0.9,1,1\n",
            "has several columns of labels (label, y): choose one by --labels",
        ),
        ('labels,a\n0,"1,250"\n1,"2,100"\n', "in row 0): write decimal points instead"),
        ('labels,a\n0,"-1,250"\n1,"2"\n', "in row 0): write decimal points instead"),
        ("labels\n1\n0\n", "has 0 numeric columns for the 2 labels [0, 1]"),
        (
            "a,b,labels\nx,y,1\nx,y,0\n",
            "'a' ('x' in row 0), 'b' ('y' in row 0): write numbers",
        ),
        (
            "0,1,labels\n0.1,0.9,1\n0.2,oops,0\n0.2,,0\n",
            "'1' ('oops' in row 1): write numbers, or name the columns of scores by",
        ),
        (
            "0,1,labels\n10.5 %,89.5%,1\n80%,20,0\n",
            "'1' ('89.5%' in row 0): write fractions, such as 0.25 instead of 25%",
        ),
        ("u,v,w,labels\n0,0.9,1,0\n1,0.2,0,1\n", "has 3 numeric columns (u, v, w) for the 2"),
        ("a,b,labels\n,0.9,1\n0.2,0.8,0\n", "X contains NaN at row 0, column 0"),
        ("x,b,labels\n0.1,0.9,x\n0.2,0.8,\n", "y contains a missing label"),
    ],
    ids=lambda value: value if isinstance(value, str) and " " in value else "",
)
def test_a_broken_csv_is_one_line(capsys, text, complaint):
    with open("p.csv", "w") as file:
        file.write(text)
    assert complaint in fails(capsys, "compare", "p.csv")


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("p.csv", "risk;dead\n0,25;1\n0,5;0\n0,75;1\n0,125;0\n"),
        ("p.csv", "risk\tdead\n0.25\t1\n0.5\t0\n0.75\t1\n0.125\t0\n"),
        ("p.csv", "risk,dead\n25%,1\n50 %,0\n75%,1\n12.5%,0\n"),
        ("p.csv", "risk;dead\n0,250;1\n0,500;0\n0,750;1\n0,125;0\n"),
        ("p.csv", 'risk,dead\n"0,25",1\n"0,5",0\n"0,75",1\n"0,125",0\n'),
        ("p.csv", "id,age,confidence,dead\n7,30,.25,1\n3,41,.5,0\n9,50,.75,1\n2,60,.125,0\n"),
        ("p.csv", "id,probability,dead\n7,.25,1\n3,.5,0\n9,.75,1\n2,.125,0\n"),
        ("p.json", '[{"score": 0.25, "dead": 1}, {"score": 0.5, "dead": 0}, {"score": 0.75, '
         '"dead": 1}, {"score": 0.125, "dead": 0}]'),
    ],
)  # fmt: skip
@pytest.mark.parametrize("outcome", ["labels", "correct"])
@pytest.mark.usefixtures("few_errors")
def test_files_are_read_as_people_have_them(capsys, name, text, outcome):
    """Semicolons, decimal commas, percent signs, IDs, lists of records; usual names."""
    with open("plain.csv", "w") as file:
        file.write(f"{outcome},score\n1,0.25\n0,0.5\n1,0.75\n0,0.125\n")
    with open(name, "w") as file:
        file.write(text.replace("dead", outcome))
    options = ["--format", "json"]
    plain, other = (
        json.loads(run(capsys, "measure", path, *options)) for path in ("plain.csv", name)
    )
    assert other["metrics"] == plain["metrics"]


@pytest.mark.usefixtures("few_errors")
def test_a_workbook_is_read(capsys):
    pytest.importorskip("openpyxl", reason="openpyxl reads .xlsx")
    frame = pd.DataFrame({"labels": [1, 0, 1, 0], "score": [0.25, 0.5, 0.75, 0.125]})
    frame.to_excel("p.xlsx", index=False)
    frame.to_csv("p.csv", index=False)
    options = ["--format", "json"]
    both = [json.loads(run(capsys, "measure", path, *options)) for path in ("p.csv", "p.xlsx")]
    assert both[0]["metrics"] == both[1]["metrics"]


def test_a_workbook_needs_openpyxl(capsys, monkeypatch):
    open("p.xlsx", "w").close()
    monkeypatch.setitem(sys.modules, "openpyxl", None)
    line = fails(capsys, "measure", "p.xlsx")  # each version of pandas has words of its own
    assert re.search(r"\binstall\b.* openpyxl", line)


def test_a_column_of_scores_is_named_once(capsys):
    """By two the frame has no column of this name, but a frame. A space between names is none."""
    with open("p.csv", "w") as file:
        file.write("a,b,labels\n0.1,0.9,0\n0.8,0.2,1\n")
    for again in (["a,a"], ["b,a", "a"]):
        line = fails(capsys, "measure", "p.csv", "--scores", *again)
        assert "p.csv: --scores has 'a' twice: name a different column for each label" in line
    assert "columns, by position, in the order of the sorted labels: a is 0, b is 1" in run(
        capsys, "measure", "p.csv", "--scores", "a,", "b"
    )


def test_no_file_and_no_archive(capsys, tmp_path):
    open("text.npz", "w").close()
    for name in ("empty.npy", "p.txt", "plain"):
        open(name, "w").close()
    (tmp_path / "folder.npz").mkdir()
    for file, header in (("header.npz", b"{}\n"), ("cut.npz", b"{x\n")):
        with zipfile.ZipFile(file, "w") as archive:
            for name in ("logits", "labels"):
                archive.writestr(f"{name}.npy", b"\x93NUMPY\x01\x00\x03\x00" + header)
    for path, complaint in (
        ("absent.npz", "No such file"),
        ("absent.csv", "No such file"),
        ("absent", "absent: No such file"),
        ("plain", "has no ending"),
        ("text.npz", "not an .npz file"),
        ("folder.npz", "directory"),
        ("p.txt", "ends in '.txt'"),
        ("header.npz", "header.npz: Header does not contain the correct keys"),
        ("cut.npz", "cut.npz: 'logits' is damaged: save it again by np.savez"),
        ("empty.npy", "'empty.npy' is damaged: save it again by np.save"),
    ):
        labels = ["--labels", "y.npy"] if path.endswith(".npy") else []
        assert complaint in fails(capsys, "compare", path, *labels)


def test_wrong_options_are_one_line(capsys):
    """Found before any work is done."""
    np.savez("p.npz", **GOOD)
    Path("folder.html").mkdir()
    for options, complaint in (
        (["--save", "best.joblib"], "best.joblib: the name of the file must end in .json"),
        (["--report", "r.pdf"], ".html"),
        (["--report", "no/such/r.html"], "does not exist"),
        (["--metrics", "eces"], "'eces' is not a metric: use one of log_loss, brier_score, error_"),
        (["--metrics", "brier_scor"], "'brier_scor' is not a metric: did you mean brier_score?"),
        (["--choose-by", "smooth_error"], "--choose-by: 'smooth_error' is not a metric"),
        (
            ["--calibrators", "temperatures"],
            "'temperatures' is not a calibrator: did you mean temperature?",
        ),
        (["--calibrators", "x"], "'x' is not a calibrator: use one of identity, auto, bayesian"),
        (["--labels", "y"], "has no 'y'"),
        (
            ["--scores", "logits", "labels"],
            "it contains logits, labels: pass --scores NAME",
        ),
        (["--report", "folder.html"], "folder.html: cannot be written"),
        (["--cv", "1"], "argument --cv: must be a whole number, at least 2; got 1"),
        (["--cv", "x"], "argument --cv: must be a whole number"),
        (["--seed", "-1"], "argument --seed: must be a whole number, at least 0"),
        (["--jobs", "-2"], "argument --jobs: must be a whole number, at least -1; got -2"),
        (["--what"], "unrecognized"),
    ):
        assert complaint in fails(capsys, "compare", "p.npz", *options)
    assert "no-such.json" in fails(capsys, "apply", "no-such.json", "p.npz", "-o", "q.npz")
    Path("t.joblib").touch()
    said = fails(capsys, "apply", "t.joblib", "p.npz", "-o", "q.npz")
    assert "t.joblib: is not .json: save the calibrator by skcalib.save_json" in said


def test_without_a_command_the_help_is_printed(capsys):
    printed = run(capsys)
    assert "COMMAND --help" in printed
    assert all(name in printed for name in ("compare", "measure", "apply", "export"))


def test_metrics_have_short_names(capsys, few_errors):
    np.savez("p.npz", **GOOD)
    short = ["ece", "MCE", "sce", "ace", "tace", "ks", "brier", "log_loss"]
    metrics = make_parser().parse_args(["compare", "p.npz", "--metrics", *short]).metrics
    assert metrics == [
        "expected_calibration_error", "maximum_calibration_error", "static_calibration_error",
        "adaptive_calibration_error", "thresholded_adaptive_calibration_error",
        "ks_calibration_error", "brier_score", "log_loss",
    ]  # fmt: skip
    assert main(["measure", "p.npz", "--fail-above", "ece=0.0001"]) == 1
    assert "debiased expected_calibration_error is 0." in capsys.readouterr().err


def test_a_file_that_is_no_calibrator_is_named(capsys):
    """Broken or of another kind: the line names the calibrator's file, once."""
    np.savez("p.npz", **GOOD)
    for name, text in (("a.json", "{"), ("b.json", "[1]"), ("c.json", "")):
        Path(name).write_text(text)
        said = fails(capsys, "apply", name, "p.npz", "-o", "q.npz")
        assert said.startswith(f"python -m skcalib apply: error: {name}")
        assert said.count(name) == 1


def test_labels_of_an_npz_may_be_in_any_order(capsys):
    """An array 'classes' in the order of the columns gives what sorted columns give."""
    np.savez("given.npz", probs=P, labels=NAMES, classes=["owl", "cat", "dog"])
    np.savez("sorted.npz", probs=P[:, [1, 2, 0]], labels=NAMES)
    skcalib.save_json(TemperatureScaling().fit(P[:, [1, 2, 0]], NAMES), "best.json")
    run(capsys, "apply", "best.json", "given.npz", "-o", "a.npz")
    run(capsys, "apply", "best.json", "sorted.npz", "-o", "b.npz")
    np.testing.assert_array_equal(np.load("a.npz")["probs"], np.load("b.npz")["probs"])


def test_columns_that_name_some_of_the_labels_are_refused(capsys):
    frame = pd.DataFrame(P, columns=["p_owl", "p_cat", "p_bird"]).assign(labels=NAMES)
    frame.to_csv("p.csv", index=False)
    line = fails(capsys, "measure", "p.csv")
    assert "label 'dog' has no column, but other labels have columns (p_owl, p_cat, p_bird)" in line
    assert "--scores a,b,c, in the order of the sorted labels" in line
    skcalib.save_json(TemperatureScaling().fit(P[:, [1, 2, 0]], NAMES), "best.json")
    line = fails(capsys, "apply", "best.json", "p.csv", "-o", "q.csv")
    assert "label 'dog' has no column" in line
    np.savez("q.npz", probs=P, classes=["owl", "cat", "bird"])
    line = fails(capsys, "apply", "best.json", "q.npz", "-o", "r.npz")
    assert "columns have the 3 labels ['owl', 'cat', 'bird'], but the calibrator" in line


@pytest.mark.usefixtures("few_errors")
def test_one_column_is_the_score_of_an_event(capsys):
    p = P[:, 0]
    hit = NAMES == "owl"
    pd.DataFrame({"risk": p, "labels": np.where(hit, "case", "control")}).to_csv(
        "p.csv", index=False
    )
    line = fails(capsys, "measure", "p.csv")
    assert "X is one column and y has the labels" in line
    assert "such as --pos-label control" in line
    printed = run(capsys, "measure", "p.csv", "--pos-label", "case", "--all")
    assert "column: risk is the score of case" in printed
    value = expected_calibration_error(hit, p)
    assert re.search(rf"^expected_calibration_error .*\] +{value:.4f} ", printed, re.MULTILINE)
    both = np.column_stack([p, 1 - p])
    fitted = PlattScaling().fit(both, np.where(hit, "case", "control"))
    skcalib.save_json(fitted, "best.json")
    line = fails(capsys, "apply", "best.json", "p.csv", "-o", "q.csv")
    assert "such as --pos-label control" in line
    run(capsys, "apply", "best.json", "p.csv", "-o", "q.csv", "--pos-label", "case")
    applied = pd.read_csv("q.csv")["prob_case"]
    np.testing.assert_allclose(applied, fitted.predict_proba(both)[:, 0], atol=1e-9)
    skcalib.save_json(PlattScaling().fit(p, np.where(hit, "owl", "fox")), "other.json")
    line = fails(capsys, "apply", "other.json", "p.csv", "-o", "q.csv", "--pos-label", "fox")
    assert "--pos-label fox: the calibrator was fitted on the score of the label owl" in line
    line = fails(capsys, "measure", "p.csv", "--pos-label", "cow")
    assert "--pos-label cow is not one of the labels ['case', 'control']" in line


def test_apply_corrects_shares_that_are_known_or_estimated(capsys):
    scores = Z[:, np.argsort(["owl", "cat", "dog"])]
    calibrator = TemperatureScaling().fit(scores, NAMES)
    skcalib.save_json(calibrator, "best.json")
    labels = calibrator.classes_.tolist()
    pd.DataFrame(scores, columns=labels).to_csv("p.csv", index=False)
    priors = {labels[0]: 0.5, labels[1]: 0.4}
    texts = [f"{label}={share}" for label, share in priors.items()]
    for given, fit in ((texts, [priors]), (["estimate"], [None, scores])):
        printed = run(capsys, "apply", "best.json", "p.csv", "-o", "q.csv", "--priors", *given)
        model = skcalib.PriorCorrection(calibrator, priors=fit[0]).fit(*fit[1:])
        P = pd.read_csv("q.csv")[[f"prob_{label}" for label in labels]]
        np.testing.assert_allclose(P, model.predict_proba(scores), atol=1e-9)
        columns = "before +now +low +high" if fit[0] is None else "before +now\n"
        assert re.search(rf"class priors:\n +{columns}", printed)
    for wrong in ("fox=0.1", f"{labels[0]}=half"):
        line = fails(capsys, "apply", "best.json", "p.csv", "--priors", wrong)
        assert f"--priors {wrong}: write LABEL=PRIOR, such as {labels[-1]}=0.03" in line
    np.savez("p.npz", logits=scores, labels=NAMES)
    run(capsys, "threshold", "p.npz", "--accuracy", "0.9", "--save", "gate.json")
    line = fails(capsys, "apply", "gate.json", "p.csv", "--priors", "estimate")
    assert "gate.json is a selective classifier, whose guarantee holds only for" in line


# ------------------------------------------------------------------ groups


@pytest.mark.usefixtures("few_label_sets")
def test_measure_shows_each_group_as_calibration_by_group_does(capsys):
    site = np.array(["north", "south", "west"])[np.arange(300) % 3]
    frame = pd.DataFrame({f"p_{k}": P[:, k] for k in range(3)}).assign(labels=Y, site=site)
    frame.to_csv("p.csv", index=False)
    printed = run(capsys, "measure", "p.csv", "--groups", "site", "--seed", 4)
    named = pd.Series(site, name="site")
    assert f"\n\n{calibration_by_group(Y, P, named, random_state=4)!r}\n" in printed


def test_groups_that_are_not_there_are_named(capsys):
    np.savez("p.npz", probs=P, labels=Y, site=np.zeros(299))
    line = fails(capsys, "measure", "p.npz", "--groups", "sex")
    assert "has no 'sex'; it contains probs, labels, site" in line
    assert "site has shape (299,)" in fails(capsys, "measure", "p.npz", "--groups", "site")


# ------------------------------------------------------------------ the script


def test_the_script_calls_the_same_program():
    with open(Path(__file__).parents[2] / "pyproject.toml", "rb") as file:
        scripts = tomllib.load(file)["project"]["scripts"]
    assert scripts == {"skcalib": "skcalib.__main__:main"}


@pytest.mark.parametrize(
    ("started", "name"),
    [
        ("/usr/bin/skcalib", "skcalib"),
        ("Scripts/skcalib.exe", "skcalib"),
        ("/lib/skcalib/__main__.py", "python -m skcalib"),
    ],
)
def test_errors_name_the_program_as_it_was_started(capsys, monkeypatch, started, name):
    monkeypatch.setattr(sys, "argv", [started])
    assert fails(capsys, "measure", "absent.npz").startswith(f"{name} measure: error: absent.npz")
    assert fails(capsys, "measure").startswith(f"{name} measure: error: the following arguments")


def test_groups_of_a_file_have_a_map_each(capsys):
    """That of the calibrator in Python; without groups, the way out."""
    site = np.arange(len(Y)) % 2
    bias = np.where(site[:, None], [3.0, 0.0, -3.0], [-3.0, 0.0, 3.0])
    np.savez("p.npz", logits=Z + bias, labels=Y, site=site)
    given = ["--calibrators", "groupwise", "--groups", "site", "--metrics", "log_loss"]
    run(capsys, "compare", "p.npz", *given, "--save", "g.json")
    skcalib.save_json(skcalib.load_json("g.json"), "h.json")  # without the options of compare
    by_group = skcalib.GroupwiseCalibrator().fit(Z + bias, Y, groups=site)
    expected = by_group.predict_proba(Z + bias, groups=site)
    for options in (["g.json", "p.npz"], ["h.json", "p.npz", "--groups", "site"]):
        run(capsys, "apply", *options, "-o", "q.npz")
        with np.load("q.npz") as q:
            np.testing.assert_allclose(q["probs"], expected, rtol=1e-9)
    said = fails(capsys, "apply", "h.json", "p.npz", "-o", "q.npz")
    assert "groups is None: name the columns of groups by --groups" in said
    assert "which only the command apply supports" in fails(
        capsys, "export", "g.json", "-o", "g.onnx"
    )
