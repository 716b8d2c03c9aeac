"""The examples run, and the comparison marks and chooses what its own numbers say."""

import re
import runpy
from pathlib import Path

import numpy as np
import pytest

EXAMPLES = Path(__file__).parents[1] / "examples"
METRICS = ["ECE, %", "SCE, %", "ACE, %", "KS, %", "Brier", "log loss"]


@pytest.fixture(scope="module")
def compare():
    """The functions of the main example."""
    return runpy.run_path(str(EXAMPLES / "compare_calibrators.py"), run_name="compare")


@pytest.fixture
def saved(tmp_path):
    """Write arrays to an .npz and return its path."""

    def save(**arrays):
        path = tmp_path / "predictions.npz"
        np.savez(path, **arrays)
        return str(path)

    return save


def predictions(n=600, n_classes=3):
    """Labels and logits three times too large."""
    rng = np.random.default_rng(0)
    labels = rng.integers(n_classes, size=n)
    logits = 3 * (rng.normal(size=(n, n_classes)) + 1.5 * np.eye(n_classes)[labels])
    return labels, logits


def softmax(logits):
    e = np.exp(logits)
    return e / e.sum(axis=1, keepdims=True)


def tables(printed):
    """Read the printed tables back: a list of {calibrator: [(number, marked), ...]}."""
    found = []
    for line in printed.splitlines():
        if line.startswith("  calibrator  "):
            assert re.split(r"\s{2,}", line.strip())[1:] == METRICS
            found.append({})
        elif found and len(row := re.findall(r" +([\d.]+|nan|inf)(\*?)", line[22:])) == 6:
            found[-1][line[2:22].strip()] = [(float(x), bool(m)) for x, m in row]
    return found


def check_table(table, calibrators):
    assert list(table) == list(calibrators)
    for column in zip(*table.values(), strict=True):
        best = min(number for number, _ in column)
        assert [marked for _, marked in column] == [number == best for number, _ in column]


def test_main_job(compare, capsys):
    """Five badly calibrated models: over- and under-confident, each mended by every criterion."""
    assert compare["main"]([]) == 0
    printed = capsys.readouterr().out
    found = tables(printed)
    assert len(found) == 5
    calibrators = [*compare["make_calibrators"](), "neural network"]
    for table in found:
        check_table(table, calibrators)
        for j in (METRICS.index("KS, %"), METRICS.index("log loss")):
            assert table["temperature"][j][0] < table["identity"][j][0]
    assert printed.count(": over-confident") >= 2
    assert printed.count(": under-confident") >= 1
    chosen = re.findall(r"^  chosen by SCE: (.+), by ACE: (.+), by KS: (.+)$", printed, re.M)
    assert len(chosen) == 5
    assert {name for row in chosen for name in row} <= set(calibrators)


def test_file_with_split_is_measured_on_its_test_rows(compare, saved, capsys):
    """Identity of a file of logits: the Brier score of the softmax of the rows of split 1."""
    labels, logits = predictions()
    split = np.arange(600) % 3 // 2
    assert compare["main"]([saved(logits=logits, labels=labels, split=split)]) == 0
    printed = capsys.readouterr().out
    assert "400 calibration rows, 200 test rows, 3 classes" in printed
    (table,) = tables(printed)
    check_table(table, compare["make_calibrators"]())
    test = split == 1
    squares = (softmax(logits[test]) - np.eye(3)[labels[test]]) ** 2
    assert table["identity"][4][0] == pytest.approx(squares.sum(axis=1).mean(), abs=5e-5)
    assert table["temperature"][5][0] < table["identity"][5][0]


def test_file_of_probabilities_gives_the_same_table(compare, saved, capsys):
    """Probabilities instead of logits, without a split: halves, and the same numbers."""
    labels, logits = predictions()
    assert compare["main"]([saved(logits=logits, labels=labels)]) == 0
    from_logits = capsys.readouterr().out
    assert compare["main"]([saved(probs=softmax(logits), labels=labels)]) == 0
    from_probs = capsys.readouterr().out
    assert "300 calibration rows, 300 test rows, 3 classes" in from_probs
    (first,), (second,) = tables(from_logits), tables(from_probs)
    for name in ("identity", "temperature", "isotonic"):
        for (a, _), (b, _) in zip(first[name], second[name], strict=True):
            assert a == pytest.approx(b, abs=2e-4)


def test_file_of_one_column_and_string_labels(compare, saved, capsys):
    """A binary logit in one column, float32, with labels that are words."""
    labels, logits = predictions(n_classes=2)
    file = saved(
        logits=(logits[:, 1] - logits[:, 0]).astype(np.float32),
        labels=np.array(["no", "yes"])[labels],
    )
    assert compare["main"]([file]) == 0
    (table,) = tables(capsys.readouterr().out)
    assert table["temperature"][5][0] < table["identity"][5][0]


def test_file_with_a_rare_class(compare, saved, capsys):
    """A class with a single row, and one with none, keep their columns."""
    labels, logits = predictions(n_classes=4)
    labels[labels == 0] = 3
    labels[labels == 1] = 2
    labels[0] = 1
    assert compare["main"]([saved(logits=logits, labels=labels)]) == 0
    assert "4 classes" in capsys.readouterr().out


GOOD = dict(zip(("labels", "logits"), predictions(60), strict=True))


@pytest.mark.parametrize(
    ("arrays", "complaint"),
    [
        ({"labels": GOOD["labels"]}, "'logits' or 'probs'"),
        ({"logits": GOOD["logits"]}, "'labels'"),
        (GOOD | {"labels": GOOD["labels"][:-1]}, "(59,)"),
        (GOOD | {"split": np.zeros(60)}, "split"),
        (GOOD | {"split": np.arange(59) % 2}, "split"),
        (GOOD | {"labels": np.r_[7, GOOD["labels"][1:]]}, "label 7"),
        (GOOD | {"logits": np.where(GOOD["logits"] > 4, np.nan, GOOD["logits"])}, "NaN"),
        ({"labels": GOOD["labels"], "probs": GOOD["logits"]}, "row 0"),
        ({"labels": GOOD["labels"].astype(object), "logits": GOOD["logits"]}, "pickle"),
        ({"labels": np.array([], int), "logits": np.empty((0, 3))}, "(0, 3)"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_broken_file_is_one_line_and_code_2(compare, saved, capsys, arrays, complaint):
    """What is wrong with a file is said in one line on stderr; nothing is printed on stdout."""
    assert compare["main"]([saved(**arrays)]) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert err.count("\n") == 1
    assert "predictions.npz: " in err
    assert complaint in err


def test_no_file_and_no_archive(compare, tmp_path, capsys):
    """A missing file, a directory and a file of another kind are one line and code 2 too."""
    text = tmp_path / "scores.csv"
    text.write_text("1,2\n")
    for path in (tmp_path / "missing.npz", tmp_path, text):
        assert compare["main"]([str(path)]) == 2
        assert capsys.readouterr().err.count("\n") == 1


@pytest.mark.parametrize("name", ["pipeline", "calibration_scorer"])
def test_short_example_runs(name, capsys):
    """The two shorter examples run without a warning and print their results."""
    runpy.run_path(str(EXAMPLES / f"{name}.py"), run_name="__main__")
    assert capsys.readouterr().out.count("\n") >= 5


def test_published_table_runs(saved, capsys):
    """The script behind benchmarks/README.md prints a row for each published one."""
    labels, logits = predictions()
    file = saved(logits=logits, labels=labels, split=np.arange(600) % 2)
    script = runpy.run_path(str(EXAMPLES.parent / "benchmarks" / "published.py"))
    script["main"]([file])
    printed = capsys.readouterr().out
    assert len(re.findall(r"^\| (KS|ECE)( \| |.*?)(\d\.\d{3} / \d+\.\d{3} \|)", printed, re.M)) == 4
    assert re.search(r"^\* T: [23]\.\d+$", printed, re.M)
