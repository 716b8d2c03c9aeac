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
from skcalib.metrics import expected_calibration_error

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


def test_logits_beside_an_id_are_not_four_classes(capsys):
    """The reproducer: exit code 0 and four classes."""
    frame = pd.DataFrame(Z).add_prefix("logit_").assign(labels=Y, site=np.arange(300) % 4)
    frame.to_csv("p.csv", index=False)
    printed = run(capsys, "compare", "p.csv", *FEW)
    assert printed.startswith("p.csv: 300 rows, 3 classes, logits")
    assert identity_loss(printed) == pytest.approx(log_loss(Y, P), abs=2e-4)
    frame.columns = ["a", "b", "c", "labels", "site"]
    frame.to_csv("p.csv", index=False)
    line = fails(capsys, "compare", "p.csv", *FEW)
    assert (
        "has 4 columns of numbers (a, b, c, site) for the 3 labels [0, 1, 2], and none is named by "
        "a label: name the columns of scores by --scores a,b,c"
    ) in line


@pytest.mark.parametrize("chosen", [["a,b,c"], ["a", "b", "c"]])
def test_scores_are_named_by_an_option(capsys, chosen):
    frame = pd.DataFrame(P, columns=["a", "b", "c"]).assign(labels=Y, **OTHERS)
    frame.to_csv("p.csv", index=False)
    printed = run(capsys, "compare", "p.csv", *FEW, "--scores", *chosen)
    assert "columns, by position, in the order of the sorted labels: a is 0, b is 1" in printed
    assert "not used: id, site, note, fold" in printed
    assert identity_loss(printed) == pytest.approx(log_loss(Y, P), abs=2e-4)


def test_a_probability_and_another_number_are_not_two_classes(capsys):
    """As many columns of numbers as labels, by chance."""
    frame = pd.DataFrame({"risk": P[:, 0], "age": 20 + np.arange(300), "y": Y == 0})
    frame.to_csv("p.csv", index=False)
    line = fails(capsys, "compare", "p.csv", *FEW)
    assert "risk lies between 0 and 1 but age does not, and none is named by a label" in line
    printed = run(capsys, "compare", "p.csv", *FEW, "--scores", "risk")
    assert "column: risk is the score of True\nnot used: age\n" in printed


def test_two_columns_for_each_label_are_refused(capsys):
    frame = pd.DataFrame(P).add_prefix("p_").join(pd.DataFrame(Z).add_prefix("logit_"))
    frame.assign(labels=Y).to_csv("p.csv", index=False)
    assert "p_0, p_1, p_2" in fails(capsys, "measure", "p.csv").replace("'", "")


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
    both = run(capsys, "measure", "p.csv", *options)
    assert f"\nevent: {event}\n" in both
    one = run(capsys, "measure", "one.csv", "--pos-label", event)
    assert both.split("\n\n", 1)[1] == one.split("\n\n", 1)[1]
    ece = expected_calibration_error(y == k, p if k else 1 - p)
    assert re.search(rf"^expected_calibration_error .*\] +{ece:.4f} ", both, re.MULTILINE)
