"""Folders of .parquet files, against the same rows as one .parquet file."""

import json
import sys
import tracemalloc
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from running import fails, run, scores, softmax
from test_shards import table

from skcalib import TemperatureScaling, save_json
from skcalib.__main__ import main
from skcalib.metrics import static_calibration_error

parquet = pytest.importorskip("pyarrow.parquet", reason="pyarrow is not installed")
pytestmark = pytest.mark.usefixtures("few_errors")
CUTS = (0, 130, 131, 300)
WORDS = np.array(["cat", "dog", "owl"])


@pytest.fixture(autouse=True)
def small_pieces(monkeypatch):
    monkeypatch.setattr("skcalib._cli.shards.BLOCK_BYTES", 1500)


def frame(Z, y, **others):
    """A column for each label, in another order than theirs, between the others."""
    return pd.DataFrame(
        {"p_owl": Z[:, 2], "labels": y, "p_cat": Z[:, 0], "p_dog": Z[:, 1], **others}
    )


def save(data, folder="large"):
    """Three files, the first of them in row groups of 40 rows, and what Spark leaves behind."""
    Path(folder).mkdir()
    for i in range(3):
        part = data.iloc[CUTS[i] : CUTS[i + 1]]
        part.to_parquet(f"{folder}/part-{i:03}.parquet", row_group_size=40)
    data.iloc[:0].to_parquet(f"{folder}/part-empty.parquet")
    Path(folder, "_SUCCESS").touch()
    return folder


def written(folder):
    return pd.concat([pd.read_parquet(path) for path in sorted(Path(folder).glob("*.parquet"))])


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("kind", ["logits", "probs"])
def test_measure_prints_the_values_of_the_whole_file(capsys, kind, dtype):
    y, Z = scores()
    data = frame(
        (Z if kind == "logits" else softmax(Z)).astype(dtype), WORDS[y], row=np.arange(300)
    )
    data.to_parquet("whole.parquet")
    whole = run(capsys, "measure", "whole.parquet", "--id", "row")
    out = run(capsys, "measure", save(data), "--id", "row")
    assert table(out) == table(whole)
    assert len(table(out)) == 6
    assert out.splitlines()[0].split(": ")[1] == whole.splitlines()[0].split(": ")[1]
    assert out.splitlines()[1] == whole.splitlines()[1]
    found = json.loads(run(capsys, "measure", "large", "--id", "row", "--format", "json"))
    assert found["columns"] == {"p_cat": "cat", "p_dog": "dog", "p_owl": "owl"}


def test_columns_may_be_named(capsys):
    y, Z = scores()
    data = pd.DataFrame({"a": Z[:, 0], "b": Z[:, 1], "c": Z[:, 2], "truth": y, "site": "x"})
    data.to_parquet("whole.parquet")
    options = ("--labels", "truth", "--scores", "a", "b", "c")
    whole = run(capsys, "measure", "whole.parquet", *options)
    out = run(capsys, "measure", save(data), *options)
    assert table(out) == table(whole)
    assert out.splitlines()[1] == whole.splitlines()[1]


def test_one_hot_labels(capsys):
    y, Z = scores()
    hot = {f"is_{word}": (y == k).astype(int) for k, word in enumerate(WORDS)}
    data = frame(Z, y, **hot).drop(columns="labels")
    data.to_parquet("whole.parquet")
    option = ("--one-hot", *hot)
    whole = run(capsys, "measure", "whole.parquet", *option)
    assert table(run(capsys, "measure", save(data), *option)) == table(whole)


@pytest.mark.parametrize("pos_label", ["dog", "cat"])
def test_one_column_is_the_score_of_an_event(capsys, pos_label):
    y, Z = scores(n_classes=2)
    data = pd.DataFrame({"p": softmax(Z)[:, 1], "labels": WORDS[y]})
    data.to_parquet("whole.parquet")
    option = ("--pos-label", pos_label)
    whole = run(capsys, "measure", "whole.parquet", *option)
    out = run(capsys, "measure", save(data), *option)
    assert table(out) == table(whole)
    assert out.splitlines()[1] == whole.splitlines()[1]


def test_weights_and_split(capsys):
    y, Z = scores()
    rng = np.random.default_rng(1)
    w, test = rng.integers(3, size=300).astype(float), rng.integers(2, size=300)
    data = frame(Z, WORDS[y], weights=w, split=np.array(["cal", "test"])[test])
    path = save(data)
    found = json.loads(run(capsys, "measure", path, "--format", "json"))
    named = {each["metric"]: each["value"] for each in found["metrics"]}
    expected = static_calibration_error(y, softmax(Z), sample_weight=w * test)
    assert named["static_calibration_error"] == pytest.approx(expected, abs=1e-12)
    assert (found["rows"], found["rows_measured"]) == (test.sum(), "test split")


def test_progress_counts_passes(capsys, monkeypatch):
    monkeypatch.setattr("skcalib._cli.progress.PAUSE", -1.0)
    y, Z = scores()
    assert main(["measure", save(frame(Z, WORDS[y]))]) == 0
    assert "5 of 6 metrics, " in capsys.readouterr().err


def test_compare_says_what_it_says_of_the_whole_file(capsys):
    y, Z = scores()
    data = frame(Z, WORDS[y], split=np.arange(300) % 2)
    data.to_parquet("whole.parquet")
    few = ("--calibrators", "temperature", "--metrics", "log_loss", "--cv", "2")
    whole = run(capsys, "compare", "whole.parquet", *few)
    out = run(capsys, "compare", save(data), *few)
    assert out.splitlines()[1:5] == whole.splitlines()[1:5]
    assert out[out.index("Claims") :] == whole[whole.index("Claims") :]


@pytest.mark.parametrize("labelled", [True, False])
def test_apply_writes_shards_of_the_same_names(capsys, labelled):
    y, Z = scores()
    calibrator = TemperatureScaling().fit(Z, WORDS[y])
    save_json(calibrator, "best.json")
    data = frame(Z, WORDS[y], row=[f"r{i}" for i in range(300)], split=np.arange(300) % 2)
    data = data if labelled else data.drop(columns=["labels", "split"])
    data.to_parquet("whole.parquet")
    run(capsys, "apply", "best.json", "whole.parquet", "--id", "row", "-o", "out.parquet")
    out = run(capsys, "apply", "best.json", save(data), "--id", "row", "-o", "out")
    assert out.splitlines()[0] == "out: 300 rows, 3 classes, calibrated probabilities"
    names = sorted(path.name for path in Path("out").iterdir())
    assert names == ["part-000.parquet", "part-001.parquet", "part-002.parquet"]
    whole = pd.read_parquet("out.parquet")
    made = written("out").reset_index(drop=True)
    pd.testing.assert_frame_equal(made, whole)
    np.testing.assert_array_equal(made["prob_dog"], calibrator.predict_proba(Z)[:, 1])
    if labelled:  # what was written is read again
        again = run(capsys, "measure", "out", "--id", "row")
        assert table(again) == table(run(capsys, "measure", "out.parquet", "--id", "row"))


def test_apply_writes_zarr_of_parquet(capsys):
    zarr = pytest.importorskip("zarr", reason="an extra of the user")
    y, Z = scores()
    calibrator = TemperatureScaling().fit(Z, WORDS[y])
    save_json(calibrator, "best.json")
    run(capsys, "apply", "best.json", save(frame(Z, WORDS[y])), "-o", "out.zarr")
    found = zarr.open_group("out.zarr", mode="r")
    np.testing.assert_allclose(found["probs"][:], calibrator.predict_proba(Z), rtol=1e-15)


def test_apply_that_fails_leaves_nothing(capsys):
    y, Z = scores()
    save_json(TemperatureScaling().fit(Z, WORDS[y]), "best.json")
    Z[140, 1] = np.nan
    text = fails(capsys, "apply", "best.json", save(frame(Z, WORDS[y])), "-o", "out")
    assert "part-002.parquet, rows 0 to 39: the table of scores contains NaN" in text
    assert sorted(path.name for path in Path().iterdir()) == ["best.json", "large"]


@pytest.mark.parametrize(
    ("change", "says"),
    [
        (lambda data: data.drop(columns="labels"), "has no 'labels'; it contains p_owl, p_cat"),
        (lambda data: data.assign(site="x"), "column 'site' is not of numbers (row 0 has 'x')"),
        (
            lambda data: data.rename(columns={"p_owl": "owl", "p_cat": "cat", "p_dog": "x"}),
            "name them by --scores",
        ),
        (lambda data: data.iloc[:0], "its .parquet files have no rows"),
        (
            lambda data: pd.DataFrame({"p": np.arange(300), "labels": np.arange(300) % 2}),
            "column 'p' numbers the rows",
        ),
    ],
)
def test_wrong_tables_are_one_line(capsys, change, says):
    y, Z = scores()
    text = fails(capsys, "measure", save(change(frame(Z, WORDS[y]))))
    assert text.startswith("python -m skcalib measure: error: large: ")
    assert says in text


def test_files_of_other_columns_are_one_line(capsys):
    y, Z = scores()
    path = save(frame(Z, WORDS[y]))
    frame(Z, WORDS[y]).drop(columns="p_dog").to_parquet("large/part-003.parquet")
    assert "part-003.parquet has no 'p_dog'; it contains p_owl" in fails(capsys, "measure", path)
    np.save("large/logits-000.npy", Z)
    assert "contains .parquet and .npy files" in fails(capsys, "measure", path)


def test_a_missing_pyarrow_is_named(capsys, monkeypatch):
    y, Z = scores()
    path = save(frame(Z, WORDS[y]))
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    assert "pip install pyarrow" in fails(capsys, "measure", path)


@pytest.mark.slow
def test_memory_is_that_of_a_few_row_groups(monkeypatch):
    """160 MB of scores in one file, in row groups of 8 MB."""
    import dask
    import pyarrow

    monkeypatch.setattr("skcalib._cli.shards.BLOCK_BYTES", 1 << 24)
    n, n_classes, rows = 200_000, 200, 10_000
    Path("large").mkdir()
    rng = np.random.default_rng(0)
    y = rng.integers(n_classes, size=n)
    columns = [str(k) for k in range(n_classes)]
    writer = None
    for start in range(0, n, rows):
        Z = rng.normal(size=(n_classes, rows)).astype(np.float32)
        some = dict(zip(columns, Z, strict=True), labels=y[start : start + rows])
        part = pyarrow.table(some)
        writer = writer or parquet.ParquetWriter("large/part-0.parquet", part.schema)
        writer.write_table(part)
    writer.close()
    own = pyarrow.total_allocated_bytes()
    pool = pyarrow.default_memory_pool()
    tracemalloc.start()
    with dask.config.set(num_workers=2):
        assert main(["measure", "large"]) == 0
    most = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert most < 160e6, most
    assert pool.max_memory() - own < 100e6, pool.max_memory()
