"""Kinds of files: the same predictions give the same numbers, and what is wrong is one line."""

import gzip
import io
import json
import sys
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest
from running import contents, fails, run, scores, softmax

import skcalib
from skcalib import TemperatureScaling
from skcalib.__main__ import main
from skcalib.metrics import expected_calibration_error

Y, Z = scores()
P = softmax(Z)
NAMES = np.array(["owl", "cat", "dog"])[Y]
ROWS = np.array([f"r{i}" for i in range(300)])
FRAME = pd.DataFrame(P, columns=["p_owl", "p_cat", "p_dog"]).assign(labels=NAMES)


def as_read():
    """The probabilities in p.csv: before version 3, pandas reads the last digit as another."""
    return pd.read_csv("p.csv")[["p_owl", "p_cat", "p_dog"]].to_numpy()


def numbers(capsys, *options):
    """The verdict of `measure`, without the name of the file."""
    return run(capsys, "measure", *options).split("\n", 2)[2]


@pytest.fixture
def expected(capsys, few_errors):
    FRAME.to_csv("p.csv", index=False)
    return numbers(capsys, "p.csv")


def write(name):
    if "jsonl" in name:
        FRAME.to_json(name, orient="records", lines=True, double_precision=15)
    elif name.endswith(".gz"):
        FRAME.to_csv(name, index=False, sep="\t" if "tsv" in name else ",", compression="gzip")
    elif name.endswith(".npz"):
        np.savez(name, probs=P, labels=NAMES, classes=["owl", "cat", "dog"])
    else:
        FRAME.to_csv(name, index=False, sep="\t" if "tsv" in name.lower() else ",")


@pytest.mark.parametrize(
    "name", ["q.tsv", "q.v2.csv.gz", "q.tsv.gz", "q.TSV", "q.npz", "q.jsonl", "q.jsonl.gz"]
)
def test_files_of_every_kind_give_the_same_numbers(capsys, expected, name):
    write(name)
    assert numbers(capsys, name) == expected


def test_standard_input_is_a_csv(capsys, expected, monkeypatch):
    stdin = SimpleNamespace(buffer=io.BytesIO(Path("p.csv").read_bytes()))
    monkeypatch.setattr(sys, "stdin", stdin)
    assert numbers(capsys, "-") == expected
    write("q.npz")
    stdin.buffer = io.BytesIO(Path("q.npz").read_bytes())
    assert "-: is not text in UTF-8" in fails(capsys, "measure", "-")


def test_a_text_that_is_not_compressed_is_one_line(capsys):
    FRAME.to_csv("q.csv.gz", index=False, compression=None)
    assert "q.csv.gz: Not a gzipped file" in fails(capsys, "measure", "q.csv.gz")
    FRAME.to_csv("r.csv.gz", index=False)
    Path("r.csv.gz").write_bytes(Path("r.csv.gz").read_bytes()[:900])
    assert "r.csv.gz: Compressed file ended" in fails(capsys, "measure", "r.csv.gz")


def test_an_npy_takes_its_labels_from_another(capsys, expected):
    np.save("p.npy", P[:, [1, 2, 0]])
    np.save("y.npy", NAMES)
    assert numbers(capsys, "p.npy", "--labels", "y.npy") == expected
    assert "pass --labels FILE.npy" in fails(capsys, "measure", "p.npy")
    assert "absent.npy: No such file" in fails(capsys, "measure", "p.npy", "--labels", "absent.npy")
    np.save("short.npy", NAMES[1:])
    assert "labels has shape (299,)" in fails(capsys, "measure", "p.npy", "--labels", "short.npy")
    np.save("objects.npy", NAMES.astype(object))
    line = fails(capsys, "measure", "p.npy", "--labels", "objects.npy")
    assert "'objects.npy' contains pickled objects" in line
    Path("broken.npy").write_bytes(b"nothing")
    assert "broken.npy" in fails(capsys, "measure", "broken.npy", "--labels", "y.npy")
    line = fails(capsys, "measure", "p.npy", "--labels", "y.npy", "--scores", "a")
    assert "leave out --scores" in line


@pytest.mark.parametrize("name", ["p.zarr", "shards"])
def test_a_folder_is_refused_by_a_line_that_shows_the_way_in_python(capsys, monkeypatch, name):
    """The statements of the line run, on arrays that a program of that kind has written."""
    da = pytest.importorskip("dask.array", reason="Dask reads predictions larger than memory")
    Path(name).mkdir()
    line = fails(capsys, "measure", name)
    _, statements = line.split(" in Python: ")
    statements, others = statements.rsplit(" (", 1)
    assert "dask.dataframe.read_parquet" in others
    arrays = {"logits": da.from_array(Z, chunks=(100, 3)), "labels": da.from_array(Y, chunks=100)}
    monkeypatch.setattr(da, "from_zarr", lambda path, component: arrays[component], raising=False)
    compared = []
    monkeypatch.setattr(skcalib, "compare_calibrators", lambda *a: compared.append(a))
    exec(statements, {})
    (X, y, calibrators) = compared[0]
    assert (X is arrays["logits"], y is arrays["labels"]) == (True, True)
    assert calibrators == ["auto"]


# ------------------------------------------------------------------ apply


@pytest.fixture
def saved():
    model = TemperatureScaling().fit(P[:, [1, 2, 0]], NAMES)
    skcalib.save_json(model, "t.json")
    return model.predict_proba(P[:, [1, 2, 0]])


@pytest.mark.parametrize(
    "out", ["q.csv", "q.tsv.gz", "q.jsonl", "q.jsonl.gz", "q.npz", "q.parquet"]
)
def test_apply_writes_what_the_calibrator_says(capsys, saved, out):
    """To columns in another order as well; ids, labels and split go along; it reads again."""
    if out == "q.parquet":
        pytest.importorskip("pyarrow", reason="pyarrow writes Parquet")
    split = np.arange(300) % 2
    FRAME.assign(row=ROWS, n=np.arange(300), split=split).to_csv("p.csv", index=False)
    printed = run(capsys, "apply", "t.json", "p.csv", "-o", out, "--id", "row", "n")
    columns = "columns, by name: p_cat is cat, p_dog is dog, p_owl is owl"
    assert printed == f"{out}: 300 rows, 3 classes, calibrated probabilities\n{columns}\n"
    found = contents(out, "--id", "row", "n")
    assert found.ids["row"].tolist() == ROWS.tolist()
    assert found.ids["n"].tolist() == list(range(300))
    assert found.labels.tolist() == NAMES.tolist()
    if out == "q.csv":
        first = ["row", "n", "prob_cat", "prob_dog", "prob_owl", "labels", "split"]
        assert list(pd.read_csv(out)) == first
    np.testing.assert_array_equal(found.test, split == 1)
    np.testing.assert_allclose(found.scores, saved, rtol=1e-9)
    assert found.classes.tolist() == ["cat", "dog", "owl"]


def test_apply_writes_to_standard_output(capsys, saved):
    """The table alone; what was done is on stderr."""
    FRAME.assign(row=ROWS).to_csv("p.csv", index=False)
    assert main(["apply", "t.json", "p.csv", "--id", "row"]) == 0
    out, err = capsys.readouterr()
    frame = pd.read_csv(io.StringIO(out))
    assert list(frame["row"]) == list(ROWS)
    np.testing.assert_allclose(frame["prob_owl"], saved[:, 2], rtol=1e-9)
    assert err.startswith("-: 300 rows, 3 classes, calibrated probabilities\ncolumns, by name: ")


def test_apply_writes_an_array(capsys, saved):
    np.save("p.npy", P[:, [1, 2, 0]])
    run(capsys, "apply", "t.json", "p.npy", "-o", "q.npy")
    np.testing.assert_allclose(np.load("q.npy"), saved)


def test_compressed_output_depends_on_its_content_alone(capsys, saved):
    FRAME.to_csv("p.csv", index=False)
    for out in ("a.csv.gz", "b.csv.gz"):
        run(capsys, "apply", "t.json", "p.csv", "-o", out)
    assert Path("a.csv.gz").read_bytes() == Path("b.csv.gz").read_bytes()
    run(capsys, "apply", "t.json", "p.csv", "-o", "c.csv")
    assert gzip.decompress(Path("a.csv.gz").read_bytes()) == Path("c.csv").read_bytes()


def test_a_reader_that_leaves_is_no_error(capsys, saved, monkeypatch, tmp_path):
    """As in a pipe to `head`."""

    class Left:
        def __init__(self, file):
            self.fileno = file.fileno

        def write(self, text):
            raise BrokenPipeError

    FRAME.to_csv("p.csv", index=False)
    with open(tmp_path / "out", "w") as file:
        monkeypatch.setattr(sys, "stdout", Left(file))
        assert main(["apply", "t.json", "p.csv"]) == 0
        monkeypatch.undo()


# ------------------------------------------------------------------ what is printed


@pytest.mark.usefixtures("few_errors")
def test_measure_ends_with_what_to_conclude(capsys):
    FRAME.to_csv("p.csv", index=False)
    printed = run(capsys, "measure", "p.csv")
    sure, right = 100 * P.max(axis=1).mean(), 100 * (P.argmax(axis=1) == Y).mean()
    ece = expected_calibration_error(Y, P)
    said = " ".join(printed.split("\n\n")[1].split())
    start = (
        f"The model is {sure:.1f} % confident on average and right {right:.1f} % of the time: "
        f"over-confident by {round(sure, 1) - round(right, 1):.1f} points. The probabilities "
        f"are not calibrated: the ECE ({ece:.4f}) is significantly above that of a calibrated "
        "model (0.0"
    )
    assert said.startswith(start)
    assert said.endswith(" on average, p < 0.0034). `compare` recommends a calibrator.")
    assert max(map(len, printed.splitlines())) <= 100


@pytest.mark.usefixtures("few_errors")
def test_measure_finds_nothing_where_nothing_is_wrong(capsys):
    rng = np.random.default_rng(0)
    Q = softmax(rng.normal(size=(900, 3)))
    np.savez("q.npz", probs=Q, labels=(rng.random((900, 1)) > Q.cumsum(axis=1)).sum(axis=1))
    said = " ".join(run(capsys, "measure", "q.npz").split())
    assert "points, which is not significant. The ECE (0.0" in said
    assert ") is not significantly above that of a calibrated model (0.0" in said


@pytest.mark.usefixtures("few_errors")
def test_measure_of_one_event_speaks_of_its_rate(capsys):
    rng = np.random.default_rng(0)
    p = rng.uniform(0.2, 0.6, size=900)
    y = (rng.random(900) < p / 2).astype(int)
    pd.DataFrame({"risk": p, "labels": y}).to_csv("q.csv", index=False)
    said = " ".join(run(capsys, "measure", "q.csv").split())
    assert (
        f"The mean predicted probability is {100 * p.mean():.1f} %, and {100 * y.mean():.1f} % of "
        f"the rows are events: too high by "
        f"{round(100 * p.mean(), 1) - round(100 * y.mean(), 1):.1f} points."
    ) in said


@pytest.mark.usefixtures("few_errors")
def test_json_of_measure_have_every_digit(capsys):
    FRAME.to_csv("p.csv", index=False)
    found = json.loads(run(capsys, "measure", "p.csv", "--format", "json"))
    assert found["rows"] == 300
    assert found["columns"] == {"p_cat": "cat", "p_dog": "dog", "p_owl": "owl"}
    named = {row["metric"]: row for row in found["metrics"]}
    ece = named["expected_calibration_error"]
    assert ece["value"] == expected_calibration_error(Y, as_read())
    assert ece["p_value"] == 1 / 301
    assert named["log_loss"]["p_value"] is None
    assert "confident on average" in found["summary"]


@pytest.mark.usefixtures("few_errors")
@pytest.mark.parametrize(
    ("limit", "code"), [("0.05", 1), ("neg_ks_calibration_error=0.9", 0), ("log_loss=0.1", 1)]
)
@pytest.mark.parametrize("kind", ["table", "json"])
def test_an_error_above_its_limit_is_exit_code_1(capsys, limit, code, kind):
    FRAME.to_csv("p.csv", index=False)
    assert main(["measure", "p.csv", "--fail-above", limit, "--format", kind]) == code
    out, err = capsys.readouterr()
    assert ("above the limit" in err) == bool(code)
    assert out


def test_wrong_limits_are_one_line(capsys):
    for limit, complaint in (
        ("much", "must be a number such as 0.05, or METRIC=NUMBER; got much"),
        ("eceee=0.1", "'eceee' is not a metric"),
        (
            "general_calibration_error=1",
            "'general_calibration_error' is not a metric that skcalib measure prints",
        ),
        ("nan", "must be a number"),
    ):
        assert f"argument --fail-above: {complaint}" in fails(
            capsys, "measure", "p.csv", "--fail-above", limit
        )


def test_json_of_compare_have_every_number(capsys):
    FRAME.to_csv("p.csv", index=False)
    options = ["p.csv", "--calibrators", "temperature", "--metrics", "log_loss"]
    found = json.loads(run(capsys, "compare", *options, "--format", "json", "--save", "t.json"))
    assert found["choice"] == "temperature"
    assert found["notes"] == ["calibrator (temperature): t.json"]
    comparison = skcalib.compare_calibrators(
        as_read()[:, [1, 2, 0]], NAMES, ["temperature"], metrics=["log_loss"], random_state=0
    )
    assert found["verdict"] == comparison.verdict
    for row in found["calibrators"]:
        value = comparison.frame.loc[row["calibrator"], ("log_loss", "value")]
        assert row["log_loss_value"] == value


@pytest.mark.parametrize("more", [[], ["adaptive_calibration_error", "maximum_calibration_error"]])
def test_lines_of_compare_have_at_most_100_characters(capsys, more):
    FRAME.to_csv("p.csv", index=False)
    metrics = ["log_loss", "brier_score", "expected_calibration_error", "static_calibration_error"]
    calibrators = ["temperature", "ensemble_temperature", "histogram"]
    printed = run(capsys, "compare", "p.csv", "--calibrators", *calibrators, "--metrics",
                  *metrics, "ks_calibration_error", *more)  # fmt: skip
    assert max(map(len, printed.splitlines())) <= 100
    # What does not fit stands below, with the names again.
    tables = sum(line.startswith("ensemble_temperature ") for line in printed.splitlines())
    assert tables == 1 + bool(more)


def test_long_work_says_how_far_it_is(monkeypatch):
    """In a line of a terminal that is gone at the end; else by a line now and then."""
    from skcalib._cli import measured

    for terminal in (True, False):
        stream = io.StringIO()
        monkeypatch.setattr(stream, "isatty", lambda t=terminal: t)
        monkeypatch.setattr(measured, "PAUSE", -1.0)
        with measured.drawing(stream) as show:
            show("1 of 2 metrics")
            show("2 of 2 metrics")
        written = stream.getvalue()
        if terminal:
            assert written == "\r1 of 2 metrics\r2 of 2 metrics\r\033[K"
        else:
            assert written == "1 of 2 metrics\n2 of 2 metrics\n"
