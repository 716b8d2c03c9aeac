"""Large predictions: .zarr groups and folders of .npy shards, against the same rows as one file."""

import json
import re
import sys
import tracemalloc
from pathlib import Path

import numpy as np
import pytest
from running import fails, run, scores, softmax

from skcalib import TemperatureScaling, save_json
from skcalib.__main__ import main
from skcalib._cli.files import load
from skcalib.metrics import static_calibration_error

pytestmark = pytest.mark.usefixtures("few_errors")
CUTS = (0, 130, 131, 300)
WORDS = np.array(["cat", "dog", "owl"])


@pytest.fixture(params=["folder", "zarr"])
def save(request, monkeypatch):
    """Save arrays as one of the two, read in several blocks."""
    monkeypatch.setattr("skcalib._cli.shards.BLOCK_BYTES", 1500)
    if request.param == "folder":
        return folder
    pytest.importorskip("zarr", reason="an extra of the user")
    return group


def folder(classes=None, **arrays):
    Path("large").mkdir()
    if classes is not None:
        np.save("large/classes.npy", classes)
    for name, values in arrays.items():
        for i in range(3):
            np.save(f"large/{name}-{i:03}.npy", values[CUTS[i] : CUTS[i + 1]])
    return "large"


def group(**arrays):
    import zarr

    root = zarr.open_group("large.zarr", mode="w", zarr_format=2)
    for name, values in arrays.items():
        chunks = (40, *values.shape[1:])
        made = root.create_array(name, shape=values.shape, chunks=chunks, dtype=values.dtype)
        made[:] = values
    return "large.zarr"


def table(out):
    """Return the printed value of each metric."""
    found = re.findall(r"^(\w+) +(\d\.\d{4})", out, flags=re.MULTILINE)
    return dict(found)


def saved_calibrator(Z, y):
    save_json(TemperatureScaling().fit(Z, y), "best.json")


# ------------------------------------------------------------------------------------- measure


@pytest.mark.parametrize("kind", ["logits", "probs"])
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_measure_prints_the_values_of_the_whole_file(capsys, save, kind, dtype):
    y, Z = scores()
    given = (Z if kind == "logits" else softmax(Z)).astype(dtype)
    np.savez("whole.npz", **{kind: given, "labels": y})
    whole = run(capsys, "measure", "whole.npz")
    out = run(capsys, "measure", save(**{kind: given, "labels": y}))
    assert table(out) == table(whole)
    assert len(table(out)) == 6
    assert out.splitlines()[0].split(": ")[1] == whole.splitlines()[0].split(": ")[1]
    assert out.splitlines()[1] == whole.splitlines()[1]
    assert "No intervals" in out
    claims = out.splitlines()[-1]
    assert claims.startswith("Claims ")
    assert claims[:50] in whole


def test_measure_reads_text_labels_and_the_order_of_classes(capsys, save):
    y, Z = scores()
    order = [2, 0, 1]
    arrays = {"logits": Z[:, order], "labels": WORDS[y], "classes": WORDS[order]}
    np.savez("whole.npz", **arrays)
    whole, path = run(capsys, "measure", "whole.npz"), save(**arrays)
    out = run(capsys, "measure", path)
    assert table(out) == table(whole)
    assert out.splitlines()[1] == whole.splitlines()[1]
    found = json.loads(run(capsys, "measure", path, "--format", "json"))
    expected = json.loads(run(capsys, "measure", "whole.npz", "--format", "json"))
    assert found["columns"] == expected["columns"]
    for got, want in zip(found["metrics"], expected["metrics"], strict=True):
        assert got["metric"] == want["metric"]
        assert got["value"] == pytest.approx(want["value"], abs=1e-12)


@pytest.mark.parametrize("shape", [(-1,), (-1, 1)])
@pytest.mark.parametrize("pos_label", ["dog", "cat"])
def test_measure_takes_one_column_as_the_score_of_an_event(capsys, save, shape, pos_label):
    y, Z = scores(n_classes=2)
    arrays = {"probs": softmax(Z)[:, 1].reshape(shape), "labels": WORDS[y]}
    np.savez("whole.npz", **arrays)
    option = ("--pos-label", pos_label)
    whole = run(capsys, "measure", "whole.npz", *option)
    out = run(capsys, "measure", save(**arrays), *option)
    assert table(out) == table(whole)
    assert out.splitlines()[1] == whole.splitlines()[1]


def test_measure_takes_weights(capsys, save):
    y, Z = scores()
    w = np.random.default_rng(1).integers(3, size=y.size).astype(float)
    path = save(logits=Z, labels=y, weights=w)
    found = json.loads(run(capsys, "measure", path, "--format", "json"))["metrics"]
    named = {each["metric"]: each["value"] for each in found}
    expected = static_calibration_error(y, softmax(Z), sample_weight=w)
    assert named["static_calibration_error"] == pytest.approx(expected, abs=1e-12)
    true = softmax(Z)[np.arange(y.size), y]
    assert named["log_loss"] == pytest.approx(-np.average(np.log(true), weights=w), abs=1e-12)


def test_measure_takes_a_split(capsys, save):
    y, Z = scores()
    test = np.random.default_rng(1).integers(2, size=y.size).astype(np.uint8)
    np.savez("whole.npz", logits=Z, labels=y, split=test)
    whole = run(capsys, "measure", "whole.npz")
    out = run(capsys, "measure", save(logits=Z, labels=y, split=test))
    assert table(out) == table(whole)
    assert out.splitlines()[0].split(": ")[1] == whole.splitlines()[0].split(": ")[1]


def test_measure_prints_csv_with_all_digits(capsys):
    y, Z = scores()
    assert main(["measure", folder(logits=Z, labels=y), "--format", "csv"]) == 0
    out, err = capsys.readouterr()
    assert out.startswith("metric,value\nlog_loss,0.")
    assert "No intervals" in err


def test_progress_counts_passes(capsys, save, monkeypatch):
    monkeypatch.setattr("skcalib._cli.progress.PAUSE", -1.0)
    y, Z = scores()
    path = save(logits=Z, labels=y)
    assert main(["measure", path]) == 0
    assert re.search(
        r"^5 of 6 metrics, \d+\.\d passes over 300 rows$", capsys.readouterr().err, re.M
    )
    saved_calibrator(Z, y)
    assert main(["apply", "best.json", path, "-o", "out"]) == 0
    assert "300 of 300 rows" in capsys.readouterr().err


# ------------------------------------------------------------------------------------- compare

FEW = ("--calibrators", "temperature", "platt", "--cv", "2")


def compared(out):
    """Return the line of each calibrator up to the share of changed classes, and the verdict."""
    rows = re.findall(r"^(\w+ +\d\.\d{4}.* %)", out, flags=re.MULTILINE)
    return [" ".join(row.split()) for row in rows], out[
        re.search("^(Claims|Predicts) ", out, re.MULTILINE).start() :
    ]


@pytest.mark.parametrize("with_split", [False, True])
def test_compare_says_what_it_says_of_the_whole_file(capsys, save, with_split):
    y, Z = scores()
    arrays = {"logits": Z, "labels": WORDS[y]}
    if with_split:
        arrays["split"] = np.random.default_rng(1).integers(2, size=y.size).astype(np.uint8)
    np.savez("whole.npz", **arrays)
    metrics = ("--metrics", "log_loss", "brier_score")
    whole = run(capsys, "compare", "whole.npz", *FEW, *metrics, "--save", "whole.json")
    out = run(capsys, "compare", save(**arrays), *FEW, *metrics, "--save", "large.json")
    assert compared(out)[0] == compared(whole)[0]
    assert len(compared(out)[0]) == 3
    verdict = compared(whole)[1].replace("whole.json", "large.json")
    assert compared(out)[1] == verdict
    assert "Calibration errors are not debiased" in out
    found, expected = load("large.json"), load("whole.json")
    np.testing.assert_allclose(found.predict_proba(Z), expected.predict_proba(Z), atol=1e-6)


def test_compare_takes_one_column(capsys, save):
    y, Z = scores(n_classes=2)
    arrays = {"probs": softmax(Z)[:, 1], "labels": WORDS[y]}
    np.savez("whole.npz", **arrays)
    option = ("--pos-label", "dog")
    whole = run(capsys, "compare", "whole.npz", *FEW, *option)
    out = run(capsys, "compare", save(**arrays), *FEW, *option)
    assert compared(out) == compared(whole)


def test_compare_leaves_out_by_name_what_would_load_all(capsys):
    y, Z = scores()
    path = folder(logits=Z, labels=y)
    few = ("--calibrators", "stacked", "temperature", "--cv", "2")
    assert main(["compare", path, *few, "--metrics", "log_loss", "roc_auc_ovr"]) == 0
    out, err = capsys.readouterr()
    assert "stacked: TypeError: StackedCalibrator: X is a dask.Array of shape (300, 3)" in out
    assert "left out, because they would load all scores: roc_auc_ovr" in err
    assert "--metrics: roc_auc_ovr would" in fails(
        capsys, "compare", path, "--metrics", "roc_auc_ovr"
    )
    option = ("--choose-by", "ks_calibration_error")
    assert "--choose-by needs all scores at once" in fails(capsys, "compare", path, *option)
    assert "--report is for a single file" in fails(capsys, "compare", path, "--report", "r.html")


def test_compare_counts_passes(capsys, monkeypatch):
    monkeypatch.setattr("skcalib._cli.progress.PAUSE", -1.0)
    y, Z = scores()
    assert main(["compare", folder(logits=Z, labels=y), *FEW]) == 0
    assert re.search(r"^\d+\.\d passes over 300 rows$", capsys.readouterr().err, re.M)


# --------------------------------------------------------------------------------------- apply


@pytest.mark.parametrize("labelled", [True, False])
def test_apply_writes_what_it_writes_of_a_whole_file(capsys, save, labelled):
    y, Z = scores()
    Z = Z.astype(np.float32)
    saved_calibrator(Z, WORDS[y])
    order = [2, 0, 1]
    arrays = {"logits": Z[:, order], "classes": WORDS[order]}
    arrays |= {"labels": WORDS[y]} if labelled else {}
    np.savez("whole.npz", **arrays)
    run(capsys, "apply", "best.json", "whole.npz", "-o", "out.npz")
    path = save(**arrays)
    expected = np.load("out.npz")
    out = run(capsys, "apply", "best.json", path, "-o", "out")
    assert out.startswith("out: 300 rows, 3 classes, calibrated probabilities\n")
    parts = sorted(Path("out").glob("probs-*.npy"))
    assert len(parts) == (1 if path.endswith(".zarr") else 3)
    P = np.concatenate([np.load(part) for part in parts])
    np.testing.assert_array_equal(P, expected["probs"])
    assert P.dtype == expected["probs"].dtype
    np.testing.assert_array_equal(np.load("out/classes.npy"), WORDS)
    assert len(list(Path("out").glob("labels-*.npy"))) == (len(parts) if labelled else 0)
    if labelled:  # what was written is read again
        assert table(run(capsys, "measure", "out")) == table(run(capsys, "measure", "out.npz"))


def test_apply_writes_zarr(capsys, save):
    zarr = pytest.importorskip("zarr", reason="an extra of the user")
    y, Z = scores()
    saved_calibrator(Z, y)
    run(capsys, "apply", "best.json", save(logits=Z, labels=y), "-o", "out.zarr")
    written = zarr.open_group("out.zarr", mode="r")
    expected = TemperatureScaling().fit(Z, y).predict_proba(Z)
    np.testing.assert_allclose(written["probs"][:], expected, rtol=1e-15)
    np.testing.assert_array_equal(written["labels"][:], y)
    np.testing.assert_array_equal(written["classes"][:], [0, 1, 2])
    assert run(capsys, "measure", "out.zarr").startswith("out.zarr: 300 rows, 3 classes, prob")


def test_apply_takes_one_column(capsys, save):
    y, Z = scores(n_classes=2)
    saved_calibrator(Z, y)
    z = Z[:, 1] - Z[:, 0]
    run(capsys, "apply", "best.json", save(logits=z), "-o", "out")
    P = np.concatenate([np.load(part) for part in sorted(Path("out").glob("probs-*.npy"))])
    np.testing.assert_allclose(P, TemperatureScaling().fit(Z, y).predict_proba(Z), atol=1e-12)


def test_apply_that_fails_leaves_nothing(capsys):
    y, Z = scores()
    saved_calibrator(Z, y)
    Z[140, 1] = np.nan
    text = fails(capsys, "apply", "best.json", folder(logits=Z), "-o", "out")
    assert "logits-002.npy, rows 0 to 168" in text
    assert sorted(path.name for path in Path().iterdir()) == ["best.json", "large"]


# -------------------------------------------------------------------------------------- errors


def saved(name, values):
    Path("large").mkdir(exist_ok=True)
    np.save(f"large/{name}.npy", values)


@pytest.mark.parametrize(
    ("arrays", "says"),
    [
        ({}, "has no scores; the files of a folder are logits-000.npy"),
        ({"labels-0": np.zeros(2)}, "has no scores"),
        ({"logits-0": np.eye(2)}, "has no labels: write 'labels' (.zarr) or labels-000.npy"),
        (
            {"logits-0": np.eye(2), "logits-1": np.eye(2), "labels-0": np.arange(2)},
            "has logits-1.npy but no labels-1.npy",
        ),
        (
            {"logits-0": np.eye(2), "labels-0": np.arange(2), "labels-1": np.arange(2)},
            "has labels-1.npy but no logits-1.npy",
        ),
        (
            {"logits-0": np.eye(2), "labels-0": np.arange(3)},
            "labels-0.npy has shape (3,) but logits-0.npy has 2 rows",
        ),
        (
            {"logits-0": np.eye(2), "logits-1": np.eye(3), "logits-2": np.eye(3)},
            "logits-0.npy has 2 columns but logits-1.npy has 3 columns",
        ),
        ({"logits-0": np.eye(2), "logits-1": np.ones(2)}, "but logits-1.npy has one dimension"),
        ({"logits-0": np.eye(2), "probs-0": np.eye(2)}, "contains logits and probs: leave one"),
        ({"logits-0": np.eye(2), "logits-1": np.empty((0, 2))}, "logits-1.npy has no rows"),
        ({"logits-0": np.array([["a"]])}, "logits-0.npy must be numbers of shape (n, K)"),
        ({"logits-0": np.eye(2), "other": np.eye(2)}, "contains other.npy; the files are"),
        ({"logits-0": np.array([[None]])}, "contains pickled objects, which are not read"),
        (
            {
                "logits-0": np.eye(2),
                "logits-1": np.array([[0.0, 1.0], [0.0, np.nan]]),
                "labels-0": np.arange(2),
                "labels-1": np.arange(2),
            },
            "the table of scores contains NaN (first at row 3, column 1)",
        ),
    ],
)
def test_wrong_folders_are_one_line(capsys, arrays, says):
    Path("large").mkdir()
    for name, values in arrays.items():
        saved(name, values)
    text = fails(capsys, "measure", "large")
    assert text.startswith("python -m skcalib measure: error: large: ")
    assert says in text


@pytest.mark.parametrize(
    ("arrays", "says"),
    [
        ({}, "needs 'logits', 'probs' or 'scores', one of them; contains -"),
        ({"labels": np.arange(2)}, "one of them; contains labels"),
        ({"logits": np.eye(2)}, "has no labels"),
        (
            {"logits": np.eye(2), "labels": np.arange(3)},
            "'labels' has shape (3,) but 'logits' has 2",
        ),
        (
            {"logits": np.eye(2), "labels": np.arange(2), "split": np.ones(2)},
            "split has test rows only: both 0 and 1 are needed",
        ),
    ],
)
def test_wrong_zarr_groups_are_one_line(capsys, arrays, says):
    pytest.importorskip("zarr", reason="an extra of the user")
    assert says in fails(capsys, "measure", group(**arrays))


def test_what_is_not_zarr_is_one_line(capsys):
    pytest.importorskip("zarr", reason="an extra of the user")
    Path("empty.zarr").mkdir()
    assert "empty.zarr: not a zarr group" in fails(capsys, "measure", "empty.zarr")
    assert "none.zarr: No such file" in fails(capsys, "measure", "none.zarr")


@pytest.mark.parametrize(
    ("option", "says"),
    [
        (["--groups", "site"], "--groups is for a single file"),
        (["--fail-above", "0.1"], "--fail-above is for a single file"),
        (["--labels", "y"], "--labels is for a single file"),
        (["--renormalize"], "--renormalize is for a single file"),
    ],
)
def test_options_of_single_files_are_refused(capsys, option, says):
    y, Z = scores()
    assert says in fails(capsys, "measure", folder(logits=Z, labels=y), *option)


@pytest.mark.parametrize(
    ("output", "says"),
    [
        ("-", "pass -o OUT.zarr, or -o and a new folder"),
        ("out.csv", "pass -o OUT.zarr, or -o and a new folder"),
        ("large", "large: exists already"),
        ("no/such", "no/such: there is no such directory"),
    ],
)
def test_wrong_outputs_are_one_line(capsys, output, says):
    y, Z = scores()
    saved_calibrator(Z, y)
    assert says in fails(capsys, "apply", "best.json", folder(logits=Z), "-o", output)


@pytest.mark.parametrize(
    ("module", "says"),
    [
        ("dask.array", 'pip install "skcalib[dask]"'),
        ("zarr", 'pip install "zarr>=3"'),
    ],
)
def test_missing_packages_are_named(capsys, monkeypatch, module, says):
    y, Z = scores()
    path = folder(logits=Z, labels=y)
    if module == "zarr":
        path = "large.zarr"
        Path(path).mkdir()
    monkeypatch.setitem(sys.modules, module, None)
    if module == "dask.array":
        monkeypatch.setitem(sys.modules, "dask", None)
    assert says in fails(capsys, "measure", path)


# -------------------------------------------------------------------------------------- memory


@pytest.mark.slow
def test_memory_is_that_of_a_few_blocks(monkeypatch):
    """320 MB of scores in a single shard, in blocks of 16 MiB."""
    import dask

    def loaded(path):
        found = load(path)
        tracemalloc.reset_peak()  # a .json is read with room for the largest one allowed
        return found

    def peak(*arguments):
        tracemalloc.start()
        try:
            assert main(list(arguments)) == 0
            return tracemalloc.get_traced_memory()[1]
        finally:
            tracemalloc.stop()

    monkeypatch.setattr("skcalib._cli.shard_commands.load", loaded)
    n, n_classes = 400_000, 200
    Path("large").mkdir()
    rng = np.random.default_rng(0)
    y = rng.integers(n_classes, size=n)
    shape = (n, n_classes)
    Z = np.lib.format.open_memmap("large/logits-0.npy", "w+", np.float32, shape)
    for start in range(0, n, 10_000):
        Z[start : start + 10_000] = rng.normal(size=(10_000, n_classes))
    Z.flush()
    np.save("large/labels-0.npy", y)
    saved_calibrator(np.asarray(Z[:5000]), np.r_[np.arange(n_classes), y[n_classes:5000]])
    most = peak("apply", "best.json", "large", "-o", "out")
    assert most < 80e6, most
    with dask.config.set(num_workers=2):
        most = peak("measure", "large")
    assert most < 200e6, most
