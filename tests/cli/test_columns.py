"""Which columns of a table and arrays of an .npz are the scores, and what the others are."""

import json
import re
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from running import contents, fails, run, scores, softmax
from sklearn.metrics import log_loss

import skcalib
from skcalib import TemperatureScaling
from skcalib.metrics import calibration_by_label, expected_calibration_error

Y, Z = scores()
P = softmax(Z)
NAMES = np.array(["owl", "cat", "dog"])[Y]
OTHERS = {"id": np.arange(300), "site": np.arange(300) % 4, "note": "x", "fold": 0.5}
FEW = ["--calibrators", "temperature", "--metrics", "log_loss"]

pytestmark = pytest.mark.usefixtures("few_errors")


def identity_loss(printed):
    """The log loss of the row without calibration."""
    (line,) = [line for line in printed.splitlines() if line.startswith("identity ")]
    return float(line.split()[1])


@pytest.mark.parametrize("form", ["{}", "{}.score"])
def test_columns_named_by_all_labels_are_the_scores_and_others_are_listed(capsys, form):
    """Beside numbers and texts of any other meaning: the loss of sorted arrays."""
    frame = pd.DataFrame(P, columns=[form.format(name) for name in ("owl", "cat", "dog")])
    frame.assign(labels=NAMES, **OTHERS).to_csv("p.csv", index=False)
    printed = run(capsys, "compare", "p.csv", *FEW)
    assert "\nnot used: id, site, note, fold\n" in printed
    assert f"columns, by name: {form.format('cat')}" in printed
    assert identity_loss(printed) == pytest.approx(log_loss(Y, P), abs=2e-4)


@pytest.mark.parametrize("chosen", [["a,b,c"], ["a", "b", "c"]])
def test_scores_are_named_by_an_option(capsys, chosen):
    frame = pd.DataFrame(P, columns=["a", "b", "c"]).assign(labels=Y, **OTHERS)
    frame.to_csv("p.csv", index=False)
    printed = run(capsys, "compare", "p.csv", *FEW, "--scores", *chosen)
    assert "columns, by position, in the order of the sorted labels: a is 0, b is 1" in printed
    assert "not used: id, site, note, fold" in printed
    assert identity_loss(printed) == pytest.approx(log_loss(Y, P), abs=2e-4)


def test_logits_next_to_an_id_are_not_four_classes(capsys):
    """Named after the labels they are read; otherwise the scores have to be named."""
    frame = pd.DataFrame(Z).add_prefix("logit_").assign(labels=Y, site=np.arange(300) % 4)
    frame.to_csv("p.csv", index=False)
    printed = run(capsys, "compare", "p.csv", *FEW)
    assert printed.startswith("p.csv: 300 rows, 3 classes, logits")
    assert identity_loss(printed) == pytest.approx(log_loss(Y, P), abs=2e-4)
    frame.columns = ["a", "b", "c", "labels", "site"]
    frame.to_csv("p.csv", index=False)
    line = fails(capsys, "compare", "p.csv", *FEW)
    assert "has 4 numeric columns (a, b, c, site) for the 3 labels [0, 1, 2]" in line
    assert "--scores a,b,c" in line


def test_a_probability_and_another_number_are_not_two_classes(capsys):
    """As many numeric columns as labels, by chance."""
    frame = pd.DataFrame({"value": P[:, 0], "age": 20 + np.arange(300), "y": Y == 0})
    frame.to_csv("p.csv", index=False)
    line = fails(capsys, "compare", "p.csv", *FEW)
    assert (
        "cannot find the scores: the numeric columns (value, age) are not named after labels and "
        "are not clearly probabilities or logits: name one column by --scores NAME, several by "
        "--scores a,b,c"
    ) in line
    printed = run(capsys, "compare", "p.csv", *FEW, "--scores", "value")
    assert "column: value is the score of True\nnot used: age\n" in printed
    frame.rename(columns={"value": "risk"}).to_csv("p.csv", index=False)
    printed = run(capsys, "compare", "p.csv", *FEW)
    assert "column: risk is the score of True\nnot used: age\n" in printed
    frame.assign(value=(P[:, 0] > 0.5).astype(int)).rename(columns={"value": "prediction"}).to_csv(
        "p.csv", index=False
    )
    line = fails(capsys, "compare", "p.csv", *FEW)  # a default name, but predicted labels
    assert "find the scores: the numeric columns (prediction, age) are not named after" in line


@pytest.mark.parametrize("name", ["label", "y", "y_true", "target"])
def test_the_usual_names_of_labels_are_known(name):
    np.savez("p.npz", probs=P, **{name: Y})
    assert contents("p.npz").labels.tolist() == Y.tolist()


@pytest.mark.parametrize(
    "names", [["NA", "None", "null"], ["001", "002", "1"], ["True", "no", "1"]]
)
@pytest.mark.parametrize("suffix", ["csv", "tsv.gz", "jsonl"])
def test_labels_stay_as_they_are_written(capsys, names, suffix):
    """Words that mean a missing number elsewhere, and zeros before a number."""
    labels = np.array(names)[Y]
    frame = pd.DataFrame(P, columns=[f"p_{name}" for name in names]).assign(labels=labels)
    if suffix == "jsonl":
        frame.to_json("p.jsonl", orient="records", lines=True, double_precision=15)
    else:
        frame.to_csv(f"p.{suffix}", index=False, sep="\t" if "tsv" in suffix else ",")
    printed = run(capsys, "compare", f"p.{suffix}", *FEW, "--save", "t.json")
    assert identity_loss(printed) == pytest.approx(log_loss(Y, P), abs=2e-4)
    assert skcalib.load_json("t.json").classes_.tolist() == sorted(names)
    run(capsys, "apply", "t.json", f"p.{suffix}", "-o", "q.csv")
    assert pd.read_csv("q.csv", dtype=str, keep_default_na=False)["labels"].tolist() == list(labels)


def test_arrays_of_an_npz_that_are_not_used_are_listed(capsys):
    np.savez("p.npz", probs=P, logits=Z, labels=Y, features=np.ones((300, 5)), seed=3)
    printed = run(capsys, "measure", "p.npz", "--scores", "probs")
    assert "\nnot used: logits, features, seed\n" in printed
    found = json.loads(run(capsys, "measure", "p.npz", "--scores", "probs", "--format", "json"))
    assert found["not_used"] == ["logits", "features", "seed"]


def test_class_names_of_an_npz_are_those_of_the_labels(capsys):
    np.savez("p.npz", probs=P, labels=Y, class_names=["owl", "cat", "dog"])
    printed = run(capsys, "compare", "p.npz", *FEW, "--save", "t.json")
    assert "columns, by name: 0 is owl, 1 is cat, 2 is dog" in printed
    assert identity_loss(printed) == pytest.approx(log_loss(Y, P), abs=2e-4)
    assert skcalib.load_json("t.json").classes_.tolist() == ["cat", "dog", "owl"]
    np.savez("p.npz", probs=P, labels=Y, class_names=["owl", "cat"])
    line = fails(capsys, "measure", "p.npz")
    assert "the labels of the columns have shape (2,), but 'probs' (300, 3)" in line


@pytest.mark.parametrize("n_columns", [2, 30])
@pytest.mark.parametrize("kind", ["npz", "csv", "npy", "npz with classes"])
def test_apply_refuses_another_number_of_columns(capsys, n_columns, kind):
    """The reproducers: 90 of 100 columns were dropped, and too few ended in an IndexError."""
    y, logits = scores(200, n_classes=10)
    skcalib.save_json(TemperatureScaling().fit(logits, y), "k10.json")
    other = np.random.default_rng(0).normal(size=(50, n_columns))
    path = f"p.{kind[:3]}"
    if kind == "csv":
        pd.DataFrame(other).add_prefix("s").to_csv(path, index=False)
    elif kind == "npy":
        np.save(path, other)
    else:
        np.savez(path, logits=other, **({"classes": range(n_columns)} if "classes" in kind else {}))
    line = fails(capsys, "apply", "k10.json", path, "-o", "q.csv")
    assert str(n_columns) in line
    assert "10 features" in line or "10 labels" in line or "[0, 1, 2" in line
    assert not Path("q.csv").exists()


@pytest.mark.parametrize(
    ("names", "labels", "options", "event"),
    [
        (["0", "1"], [0, 1], [], "1"),
        (["no", "yes"], ["no", "yes"], [], "yes"),
        (["no", "yes"], ["no", "yes"], ["--pos-label", "no"], "no"),
        (["a", "b"], [False, True], [], "True"),
    ],
)
def test_two_columns_are_one_event_which_is_printed(capsys, names, labels, options, event):
    """The numbers are those of the single column of this event."""
    rng = np.random.default_rng(0)
    p = rng.uniform(0.1, 0.9, 300)
    y = (rng.random(300) < p**2).astype(int)
    frame = pd.DataFrame({names[0]: 1 - p, names[1]: p, "y": np.array(labels)[y]})
    frame.to_csv("p.csv", index=False)
    k = [str(label) for label in labels].index(event)
    frame[[names[k], "y"]].to_csv("one.csv", index=False)
    both = run(capsys, "measure", "p.csv", "--all", *options)
    assert f"\nevent: {event}\n" in both
    one = run(capsys, "measure", "one.csv", "--pos-label", event, "--all")
    assert both.split("\n\n", 1)[1] == one.split("\n\n", 1)[1]
    ece = expected_calibration_error(y == k, p if k else 1 - p)
    assert re.search(rf"^expected_calibration_error .*\] +{ece:.4f} ", both, re.MULTILINE)


N = np.arange(300)
NOT_CLEAR = {
    "an ID and per cent": {"customer": 1000 + N, "score": (100 * P[:, 0]).round().astype(int)},
    "an ID and fractions of per cent": {"customer": 1000 + N, "score": 100 * P[:, 0]},
    "an ID and a probability": {"customer": N, "value": P[:, 0]},
    "an ID and a logit": {"customer": N, "score": Z[:, 0]},
    "an ID": {"customer": N, "name": "x"},
    "a date": {"day": 20260101 + N % 28},
    "per cent": {"score": (100 * P[:, 0]).round().astype(int)},
    "ones and zeros": {"male": N % 2, "female": 1 - N % 2},
    "a class that is predicted": {"predicted": N % 2},
    "measurements": {"temperature": 36 + P[:, 0], "weight": 60 + 9 * P[:, 1]},
    "ratings and a logit": {"stars": N % 6, "score": Z[:, 0]},
    "numbers of two scales": {"balance": 1000 * Z[:, 0], "change": Z[:, 1]},
    "logits and a text": {"a": Z[:, 0], "b": Z[:, 1], "name": "x"},
}


@pytest.mark.parametrize("columns", NOT_CLEAR.values(), ids=NOT_CLEAR)
@pytest.mark.parametrize("labels", [["no", "yes"], [0, 1]])
def test_numbers_that_may_be_no_scores_are_refused(capsys, columns, labels):
    """The reproducer: 22 metrics of customers' numbers, exit code 0."""
    pd.DataFrame(columns).assign(y=np.array(labels)[N % 2]).to_csv("p.csv", index=False)
    numbers = ", ".join(name for name in columns if name != "name")
    event = ["--pos-label", labels[1]]
    line = fails(capsys, "measure", "p.csv", *event)
    assert f"p.csv: cannot find the scores: the numeric columns ({numbers}) are not named" in line
    fitted = TemperatureScaling().fit(P[:, :2] / P[:, :2].sum(axis=1, keepdims=True), N % 2)
    skcalib.save_json(fitted, "t.json")
    if labels == [0, 1]:
        line = fails(capsys, "apply", "t.json", "p.csv", *event)
        assert f"scores: the numeric columns ({numbers}) are not named after labels" in line


@pytest.mark.parametrize(
    ("columns", "n_columns"),
    [
        ({"a": P[:, 0], "b": 1 - P[:, 0], "note": "x"}, 2),
        ({"a": np.ones(300), "b": np.zeros(300) + 1e-9}, 2),
        ({"a": Z[:, 0], "b": Z[:, 1]}, 2),
        ({"a": Z[:, 0] - Z[:, 1], "note": "x"}, 1),
        ({"a": P[:, 0], "note": "x"}, 1),
        ({"a": np.rint(4 * Z[:, 0]), "note": "x"}, 1),
    ],
)
def test_columns_that_are_clearly_scores_need_no_names(columns, n_columns):
    pd.DataFrame(columns).assign(y=N % 2).to_csv("p.csv", index=False)
    found = contents("p.csv", "--pos-label", "1")
    assert found.columns == list("ab")[:n_columns]


def test_columns_that_are_not_clear_are_scores_if_they_are_named(capsys):
    frame = pd.DataFrame({"customer": N, "age": 20 + N % 60, "z": Z[:, 0] - Z[:, 1], "y": Y == 0})
    frame.to_csv("p.csv", index=False)
    assert "customer, age, z" in fails(capsys, "measure", "p.csv")
    assert "column: z is the score of True\n" in run(capsys, "measure", "p.csv", "--scores", "z")
    assert contents("p.csv", "--scores", "age,z").columns == ["age", "z"]


@pytest.mark.parametrize(
    "name",
    ["prob_0", "class_0", "p0", "Prob(0)", "score_0", "probability_of_class_0", "0", "P(y=0)"],
)
@pytest.mark.parametrize("options", [[], ["--scores", "NAME"]])
def test_a_column_of_the_other_class_is_refused_and_measured_as_that(capsys, name, options):
    """The reproducer: P(0) was measured as P(1), ECE 0.376 for 0.056."""
    p, y = P[:, 0], (Y != 0).astype(int)
    beside = {"note": "x"} if options else {}
    pd.DataFrame({name: p, "y": y, **beside}).to_csv("p.csv", index=False)
    options = [option.replace("NAME", name) for option in options]
    line = fails(capsys, "measure", "p.csv", *options)
    assert f"scores is one column with the name {name!r}, but has to contain" in line
    printed = run(capsys, "measure", "p.csv", "--pos-label", "0", "--all", *options)
    assert f"column: {name} is the score of 0" in printed
    ece = expected_calibration_error(1 - y, p)
    assert re.search(rf"^expected_calibration_error .*\] +{ece:.4f} ", printed, re.MULTILINE)
    skcalib.save_json(TemperatureScaling().fit(1 - p, y), "t.json")
    line = fails(capsys, "apply", "t.json", "p.csv", *options)
    assert f"one column with the name {name!r}, but has to contain the scores of 1" in line


@pytest.fixture
def told():
    """A calibrator of a comparison that was told which columns are which, and a new file."""
    rng = np.random.default_rng(0)
    risk = rng.uniform(0.05, 0.95, 300)
    frame = pd.DataFrame({"customer": [f"{i:04d}" for i in N], "age": 20 + N % 60, "risk": risk})
    frame.to_csv("new.csv", index=False)
    frame.to_json("new.jsonl", orient="records", lines=True, double_precision=15)
    frame.assign(bad=(rng.random(300) < risk**3).astype(int)).to_csv("p.csv", index=False)
    names = ["--scores", "risk", "--labels", "bad", "--id", "customer"]
    return ["compare", "p.csv", *names, *FEW, "--save", "t.json"]


@pytest.mark.parametrize("event", [[], ["--pos-label", "1"], ["--pos-label", "0"]])
@pytest.mark.parametrize("path", ["new.csv", "new.jsonl"])
def test_apply_uses_the_columns_that_compare_was_told(capsys, told, event, path):
    """Also the score of label 0, which is 1 - P(1), and the text of an ID."""
    given = pd.read_csv("p.csv")
    if event[1:] == ["0"]:
        given["bad"] = 1 - given["bad"]
        given.to_csv("p.csv", index=False)
    run(capsys, *told, *event)
    printed = run(capsys, "apply", "t.json", path, "-o", "q.csv")
    assert f"column: risk is the score of {(event or '1')[-1]}\nnot used: age\n" in printed
    found = pd.read_csv("q.csv", dtype={"customer": str})
    assert list(found) == ["customer", "prob_0", "prob_1"]
    assert found["customer"].tolist() == [f"{i:04d}" for i in N]
    p = given["risk"].to_numpy()
    pairs = np.column_stack([p, 1 - p] if event[1:] == ["0"] else [1 - p, p])
    model = TemperatureScaling().fit(pairs, given["bad"])
    assert skcalib.load_json("t.json").temperature_ == pytest.approx(model.temperature_, rel=1e-6)
    np.testing.assert_allclose(found["prob_1"], model.predict_proba(pairs)[:, 1], rtol=1e-6)


def test_an_option_of_apply_comes_before_that_of_compare(capsys, told):
    run(capsys, *told, "--pos-label", "1")
    frame = pd.read_csv("new.csv").assign(other=0.25)
    frame.to_csv("new.csv", index=False)
    options = ["--scores", "other", "--id", "age", "--pos-label", "0"]
    line = fails(capsys, "apply", "t.json", "new.csv", "-o", "q.csv", *options)
    assert "--pos-label 0: the calibrator was fitted on the score of the label 1" in line
    printed = run(capsys, "apply", "t.json", "new.csv", "-o", "q.csv", *options[:4])
    assert "column: other is the score of 1\nnot used: customer, risk\n" in printed
    assert list(pd.read_csv("q.csv")) == ["age", "prob_0", "prob_1"]


def test_a_column_that_compare_was_told_and_that_is_not_there_is_named(capsys, told):
    run(capsys, *told)
    frame = pd.read_csv("new.csv").rename(columns={"risk": "score"})
    frame.to_csv("new.csv", index=False)
    line = fails(capsys, "apply", "t.json", "new.csv", "-o", "q.csv")
    assert "new.csv: has no 'risk'; it contains customer, age, score" in line
    run(capsys, "apply", "t.json", "new.csv", "-o", "q.csv", "--scores", "score")


@pytest.mark.parametrize("suffix", ["csv", "jsonl"])
def test_new_rows_need_no_id_or_groups_of_compare(capsys, told, suffix):
    """Unless the option is given, or the calibrator has a map for each group."""
    given = pd.read_csv("p.csv").assign(site=N % 2)
    given.to_csv("p.csv", index=False)
    new, command = f"new.{suffix}", ["apply", "t.json", f"new.{suffix}", "-o", "q.csv"]
    given = given[["age", "risk"]]
    if suffix == "csv":
        given.to_csv(new, index=False)
    else:
        given.to_json(new, orient="records", lines=True)
    run(capsys, *told, "--groups", "site")
    assert "column: risk is the score of 1\nnot used: age\n" in run(capsys, *command)
    assert list(pd.read_csv("q.csv")) == ["prob_0", "prob_1"]
    line = fails(capsys, *command, "--id", "customer")
    assert f"{new}: has no 'customer'; it contains age, risk" in line
    run(capsys, *told[:-5], "groupwise", *told[-4:], "--groups", "site")
    assert f"{new}: has no 'site'; it contains age, risk" in fails(capsys, *command)


@pytest.mark.parametrize("label", ["0", "1"])
def test_an_array_is_the_score_of_the_event_that_compare_was_told(capsys, told, label):
    """Its columns have no names."""
    if label == "0":
        given = pd.read_csv("p.csv")
        given.assign(bad=1 - given["bad"]).to_csv("p.csv", index=False)
    run(capsys, *told, "--pos-label", label)
    np.save("new.npy", pd.read_csv("new.csv")["risk"])
    printed = run(capsys, "apply", "t.json", "new.npy", "-o", "a.csv")
    assert f"column: the array is the score of {label}" in printed
    run(capsys, "apply", "t.json", "new.csv", "-o", "b.csv")
    a, b = (pd.read_csv(name)["prob_1"] for name in ("a.csv", "b.csv"))
    np.testing.assert_allclose(a, b, rtol=1e-9)


def test_a_calibrator_of_other_names_is_applied_to_arrays_of_these(capsys):
    np.savez("p.npz", raw=P, extra=Z, answers=Y)
    names = ["--scores", "raw", "--labels", "answers"]
    run(capsys, "compare", "p.npz", *names, *FEW, "--save", "t.json")
    printed = run(capsys, "apply", "t.json", "p.npz", "-o", "q.npz")
    assert "not used: extra, answers" in printed
    model = TemperatureScaling().fit(P, Y)
    np.testing.assert_allclose(np.load("q.npz")["probs"], model.predict_proba(P), rtol=1e-6)


# ------------------------------------------------------------------ several labels for a row


def tags(n=200):
    """Two labels with empty entries, their probabilities, and other columns."""
    rng = np.random.default_rng(0)
    p = rng.beta(2, 4, (n, 2)).round(4)
    y = (rng.random((n, 2)) < p ** [1, 2]).astype(float)
    y[rng.random((n, 2)) < 0.2] = np.nan
    frame = pd.DataFrame(y, columns=["cat", "dog"])
    return frame.assign(prob_dog=p[:, 1], prob_cat=p[:, 0], site=rng.integers(30, size=n))


@pytest.mark.usefixtures("few_label_sets")
def test_measure_shows_each_label_as_calibration_by_label_does(capsys):
    frame = tags().assign(weights=np.arange(200) % 3)
    frame.astype({"cat": "Int64"}).to_csv("p.csv", index=False)
    options = ["--multilabel", "--seed", 4, "--clusters", "site"]
    printed = run(capsys, "measure", "p.csv", *options)
    found = calibration_by_label(
        frame[["cat", "dog"]],
        frame[["prob_cat", "prob_dog"]],
        sample_weight=frame["weights"],
        clusters=frame["site"],
        random_state=4,
    )
    first = "p.csv: 200 rows, 2 labels, measured on all rows\ncolumns: prob_cat, prob_dog"
    assert printed == f"{first}\n\n{found!r}\n"
    record = json.loads(run(capsys, "measure", "p.csv", *options, "--format", "json"))
    assert record["summary"] == found.verdict
    assert record["macro"] == found.macro
    assert (record["rows"], record["measured_on"]) == (200, "all rows")
    assert [row["group"]["label"] for row in record["groups"]] == found.frame.index.tolist()
    assert record["groups"][0]["n"] == found.frame["n"].iloc[0]


@pytest.mark.usefixtures("few_label_sets")
def test_labels_are_measured_on_the_test_split(capsys):
    frame = tags()
    frame.assign(split=np.arange(200) % 2).to_csv("p.csv", index=False)
    printed = run(capsys, "measure", "p.csv", "--multilabel")
    test = frame[1::2]
    found = calibration_by_label(
        test[["cat", "dog"]], test[["prob_cat", "prob_dog"]], random_state=0
    )
    assert printed.startswith("p.csv: 100 rows, 2 labels, measured on the test split")
    assert "\nnot used: site\n" in printed
    assert repr(found) in printed


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (["--report", "r.html"], "--report is not available with --multilabel: leave it out"),
        (["--fail-above", "0.1"], "--fail-above is not available with --multilabel"),
        (["--weights", "w"], "has no 'w'; it contains cat, dog, prob_dog"),
    ],
)
def test_options_without_a_meaning_for_several_labels_are_refused(capsys, options, words):
    tags().to_csv("p.csv", index=False)
    assert words in fails(capsys, "measure", "p.csv", "--multilabel", *options)


def test_tables_without_labels_are_refused(capsys):
    frame = tags()
    frame.drop(columns=["cat", "dog"]).to_csv("p.csv", index=False)
    line = fails(capsys, "measure", "p.csv", "--multilabel")
    assert "p.csv: has no columns such as cat and prob_cat; it contains prob_dog, prob_cat" in line
    np.savez("p.npz", probs=P, labels=Y)
    assert "needs a table" in fails(capsys, "measure", "p.npz", "--multilabel")
    frame.assign(cat=3).to_csv("p.csv", index=False)
    line = fails(capsys, "measure", "p.csv", "--multilabel")
    assert "y_true has 3 at row 0 of label 'cat': pass 0 or 1 for each label, and leave an" in line
    frame.assign(cat="x").to_csv("p.csv", index=False)
    line = fails(capsys, "measure", "p.csv", "--multilabel")
    assert "y_true: could not convert string to float: 'x'; pass a matrix" in line
