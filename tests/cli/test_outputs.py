"""What commands write, where the disk is full, memory ends, or an encoding lacks characters."""

import io
import json
import os
import stat
import sys
import zipfile
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from running import fails, run, scores, softmax

import skcalib
from skcalib import TemperatureScaling
from skcalib.__main__ import main

Y, Z = scores()
P = softmax(Z)
FEW = ["--calibrators", "temperature", "--metrics", "log_loss"]
NEEDS_ONNX = pytest.mark.skipif(find_spec("onnx") is None, reason="onnx is not installed")
WRITERS = {
    "q.csv": ["apply", "t.json", "p.npz", "-o", "q.csv"],
    "r.html": ["measure", "p.npz", "--report", "r.html"],
    "b.json": ["compare", "p.npz", *FEW, "--save", "b.json"],
    "g.json": ["threshold", "p.npz", "--accuracy", "0.7", "--save", "g.json"],
    "s.json": ["monitor", "p.npz", "--state", "s.json"],
    "m.onnx": ["export", "t.json", "-o", "m.onnx"],
}
# Those that overwrite a file, and what they need.
WRITTEN = [
    pytest.param(name, marks=NEEDS_ONNX if name == "m.onnx" else ())
    for name in WRITERS
    if name != "s.json"
]

pytestmark = pytest.mark.usefixtures("few_errors")


@pytest.fixture
def predictions():
    np.savez("p.npz", probs=P, labels=Y)
    skcalib.save_json(TemperatureScaling().fit(P, Y), "t.json")


@pytest.mark.parametrize("written", WRITTEN)
def test_a_full_disk_leaves_the_old_file_which_the_error_names(
    capsys, predictions, small_disk, written
):
    Path(written).write_text("old")
    said = fails(capsys, *WRITERS[written])
    assert said.endswith(f" error: {written}: File too large\n")
    assert sorted(os.listdir()) == sorted(["p.npz", "t.json", written])
    assert Path(written).read_text() == "old"


@pytest.mark.parametrize("command", [["example", "e.csv"], WRITERS["s.json"]])
def test_a_full_disk_leaves_no_part_of_a_new_file(
    capsys, predictions, small_disk, monkeypatch, command
):
    """The empty file of the lock stays: another process may have opened it."""
    new = "sklearn.model_selection.cross_val_predict"
    monkeypatch.setattr(new, lambda *a, **k: np.zeros((1797, 10)))
    said = fails(capsys, *command)
    assert said.endswith(f" error: {command[-1]}: File too large\n")
    assert set(os.listdir()) - {"s.json.lock"} == {"p.npz", "t.json"}


@pytest.mark.parametrize("written", WRITTEN)
def test_a_link_stays_a_link_and_a_mode_stays(capsys, predictions, written):
    if os.name == "nt":
        pytest.skip("Windows has no such modes")
    Path("there").touch()
    Path("there").chmod(0o604)
    Path(written).symlink_to("there")
    run(capsys, *WRITERS[written])
    assert os.readlink(written) == "there"
    assert stat.S_IMODE(os.stat("there").st_mode) == 0o604
    assert Path("there").stat().st_size > 100


@pytest.mark.parametrize("command", [["measure", "p.npz"], ["apply", "t.json", "p.npz"]])
def test_a_full_disk_behind_standard_output_is_one_line(
    capsys, predictions, monkeypatch, tmp_path, command
):
    class Full(io.StringIO):
        def flush(self):
            raise OSError(28, "No space left on device")

        def fileno(self):
            return file.fileno()

    with open(tmp_path / "out", "w") as file:
        monkeypatch.setattr(sys, "stdout", Full())
        code = main(command)
    monkeypatch.undo()
    line = capsys.readouterr().err.splitlines()[-1]
    assert code == 2
    assert line.endswith(f"{command[0]}: error: standard output: No space left on device")


@pytest.mark.parametrize("path", ["huge.npz", "huge.npy"])
def test_an_array_that_memory_cannot_have_is_one_line(capsys, predictions, path):
    """A file of some hundred bytes says that it has 7 TiB."""
    huge = io.BytesIO()
    header = {"descr": "<f8", "fortran_order": False, "shape": (10**12, 1)}
    np.lib.format.write_array_header_1_0(huge, header)
    if path == "huge.npz":
        with zipfile.ZipFile(path, "w") as archive:
            archive.writestr("probs.npy", huge.getvalue())
    else:
        Path(path).write_bytes(huge.getvalue())
    assert f" error: {path}: " in fails(capsys, "apply", "t.json", path)


def test_an_archive_that_is_encrypted_is_one_line(capsys, predictions):
    data = bytearray(Path("p.npz").read_bytes())
    for mark, offset in ((b"PK\x03\x04", 6), (b"PK\x01\x02", 8)):
        at = data.find(mark)
        while at >= 0:
            data[at + offset] |= 1
            at = data.find(mark, at + 1)
    Path("p.npz").write_bytes(data)
    assert "p.npz: File 'probs.npy' is encrypted" in fails(capsys, "measure", "p.npz")


def written_in(encoding, monkeypatch, *command):
    """Return what a command writes to an output of an encoding."""
    out = io.TextIOWrapper(io.BytesIO(), encoding=encoding)
    with monkeypatch.context() as patch:
        patch.setattr(sys, "stdout", out)
        assert main(list(command)) == 0
        return out.buffer.getvalue().decode(encoding)


@pytest.mark.parametrize("encoding", ["cp1252", "ascii"])
@pytest.mark.parametrize("form", ["table", "json"])
def test_characters_that_the_output_does_not_have_are_escaped(monkeypatch, encoding, form):
    names = np.array(["кот", "né", "🦉"])
    frame = pd.DataFrame(P, columns=names).assign(labels=names[Y])
    frame.to_csv("p.csv", index=False)
    written = written_in(encoding, monkeypatch, "measure", "p.csv", "--format", form)
    if form == "json":
        assert json.loads(written)["columns"] == dict(zip(names, names, strict=True))
    else:
        accent = "é" if encoding == "cp1252" else "\\u00e9"
        assert f"columns, by name: n{accent}, \\u043a\\u043e\\u0442, \\ud83e\\udd89" in written


def test_a_table_goes_to_an_output_that_lacks_its_characters(monkeypatch):
    names = np.array(["кот", "рыба", "сова"])
    pd.DataFrame(P, columns=names).to_csv("p.csv", index=False)
    skcalib.save_json(TemperatureScaling().fit(P, names[Y]), "t.json")
    written = written_in("ascii", monkeypatch, "apply", "t.json", "p.csv")
    assert written.startswith("prob_\\u043a\\u043e\\u0442,prob_")
    assert len(pd.read_csv(io.StringIO(written))) == 300


def raising(error):
    def read(args):
        raise error

    return read


def test_ctrl_c_is_one_line_and_exit_code_130(capsys, monkeypatch):
    monkeypatch.setattr("skcalib._cli.commands.read", raising(KeyboardInterrupt()))
    assert main(["measure", "p.npz"]) == 130
    assert capsys.readouterr() == ("", "python -m skcalib measure: interrupted\n")


@pytest.mark.parametrize(
    ("error", "line"),
    [
        (MemoryError(), "p.npz: MemoryError"),
        (MemoryError("Unable to allocate 1 TiB"), "p.npz: Unable to allocate 1 TiB"),
        (OSError(28, "No space left on device"), "error: No space left on device"),
    ],
)
def test_what_the_machine_lacks_is_one_line(capsys, monkeypatch, error, line):
    """A disk without a name, such as that of temporary files, is not that of the predictions."""
    monkeypatch.setattr("skcalib._cli.commands.read", raising(error))
    assert line in fails(capsys, "measure", "p.npz")


def test_a_fault_of_the_package_is_no_alarm(capsys, monkeypatch):
    """Python ends with 1, which stands for an alarm."""
    monkeypatch.setattr("skcalib._cli.commands.read", raising(KeyError("lost")))
    assert main(["measure", "p.npz"]) == 2
    lines = capsys.readouterr().err.splitlines()
    assert lines[-2:] == ["KeyError: 'lost'", "python -m skcalib measure: error: p.npz: 'lost'"]


def test_messages_name_options_and_no_arguments(capsys):
    """Also where the library is asked; a folder keeps its name."""
    p = np.linspace(0.1, 0.9, 40)
    Path("runs").mkdir()
    Path("runs/input=a").mkdir()
    path = "runs/input=a/p.csv"
    pd.DataFrame({"risk": p, "y": np.where(p > 0.5, "yes", "no")}).to_csv(path, index=False)
    line = fails(capsys, "measure", path)
    assert line.startswith(f"python -m skcalib measure: error: {path}: X is one column and y has")
    assert line.endswith("pass --pos-label with the label whose probability it is, such as "
                         "--pos-label yes.\n")  # fmt: skip
    frame = pd.DataFrame({"risk": p * 100, "y": p > 0.5})
    frame.to_csv("p.csv", index=False)
    line = fails(capsys, "measure", "p.csv")
    assert "pass --input logits if these are logits" in line


@pytest.mark.parametrize(
    ("arrays", "line"),
    [
        (
            {"scores": np.log(P[:, 0]), "labels": Y == 0},
            "X: no value of the column is positive: log-probabilities or logits? Write exp(X), or "
            "--input logits if these are logits.",
        ),
        (
            {"probs": (P[:, 0] > 0.5).astype(int), "labels": Y == 0},
            "X is one column of int64 values: these are labels; pass probabilities or percentages "
            "divided by 100.",
        ),
        (
            {"logits": np.hstack([Z, Z]), "labels": Y},
            "X has 6 columns for 3 labels of y: are these features? Pass scores, a column for each "
            "class, or an array 'classes' if 3 classes have no row.",
        ),
        (
            {"probs": P, "labels": Y, "weights": np.full(300, 2**50)},
            "weights: integers are counts of rows, and these sum to 3.38e+17, more than 2**53; "
            "write decimals, such as 2.0, for weights of which only the ratios matter.",
        ),
    ],
)
@pytest.mark.parametrize("command", ["measure", "compare"])
def test_messages_have_no_words_of_python(capsys, arrays, line, command):
    np.savez("p.npz", **arrays)
    options = ["--scores", "scores"] if "scores" in arrays else []
    assert fails(capsys, command, "p.npz", *options).endswith(f"{command}: error: p.npz: {line}\n")


OPTIONS = [
    (["compare", *FEW, "--cv", "200"], "--cv 200, but no class has more than 115 rows: pass fewer"),
    (["compare", *FEW, "--choose-by", "brier"], "--choose-by must be log_loss or the name of a c"),
    (["compare", "--metrics", "roc_auc"], "--metrics roc_auc: multi_class must be"),
    (["measure", "--clusters", "two"], "Without --clusters, the interval describes only"),
    (["measure", "--labels", "few"], "2 distinct labels (1, 2) but there are 3 columns of scores: "
     "name the columns after the labels, or write an array 'classes' with the 3 labels of the"),
    (["measure", "--labels", "far"], "or write an array 'classes' with the 3 labels of"),
    (["monitor", "--state", "s.json", "--alpha", "2"], "p.npz: --alpha must be a float in the ra"),
    (["threshold", "--calibrator", "groupwise"], "--calibrator groupwise is not a calibrator name"),
    (["apply", "--priors", "0=0.9", "1=0.3"], "--priors: the prior of 2 is -0.2, not in [0, 1]."),
    (["apply", "--priors", "0=0.9"], "--priors lacks 1 and 2: leave out at most one label."),
]  # fmt: skip


@pytest.mark.parametrize(("command", "line"), OPTIONS)
def test_messages_name_the_option_that_was_typed(capsys, predictions, command, line):
    two = np.arange(300) % 2
    np.savez("p.npz", probs=P, labels=Y, two=two, few=np.maximum(Y, 1), far=2 * Y)
    name, *options = command
    files = ["t.json", "p.npz"] if name == "apply" else ["p.npz"]
    assert line in fails(capsys, name, *files, *options)


def test_reasons_of_failed_calibrators_name_options(capsys, predictions):
    printed = run(capsys, "compare", "p.npz", "--calibrators", "groupwise", "--metrics", "log_loss")
    assert "ValueError: groups is None: name the columns of groups by --groups.\n" in printed


def test_a_kind_of_scores_is_said_without_an_attribute(capsys, predictions):
    np.savez("z.npz", logits=Z)
    line = fails(capsys, "apply", "t.json", "z.npz")
    assert "but this calibrator was fitted on probabilities; pass probabilities, or fit" in line


@pytest.mark.filterwarnings("default:sample_weight")
@pytest.mark.parametrize(
    "command",
    [["measure"], ["compare", *FEW], ["compare", *FEW, "--save", "b.json"],
     ["measure", "--report", "r.html"]],
)  # fmt: skip
def test_whole_weights_that_may_be_relative_are_one_warning(capsys, command):
    weights = np.random.default_rng(0).integers(12, 40, 300)
    np.savez("p.npz", probs=P, labels=Y, weights=weights)
    assert main([command[0], "p.npz", *command[1:]]) == 0
    out, err = capsys.readouterr()
    assert err == (
        f"python -m skcalib {command[0]}: warning: weights contains whole numbers, none of them "
        f"1, among 300 rows: these counts are read as {weights.sum():,} rows; if they are "
        "relative weights, write decimals, such as 2.0.\n"
    )
    assert "whole numbers" not in out


@pytest.mark.parametrize("command", ["compare", "threshold"])
@pytest.mark.parametrize("text", ["logistic", "Sigmoid", "platt_scale"])
def test_a_mistyped_calibrator_is_named_as_python_does(capsys, command, text):
    option = "--calibrators" if command == "compare" else "--calibrator"
    line = fails(capsys, command, "p.npz", option, text)
    assert line.endswith(f"{text!r} is not a calibrator: did you mean platt?\n")
