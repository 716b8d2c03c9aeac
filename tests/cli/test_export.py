"""``export`` writes the model of a saved calibrator."""

import numpy as np
import pytest
from running import fails, run, scores

from skcalib import PlattScaling, load_json, save_json

onnx = pytest.importorskip("onnx", reason="models are written by onnx")


@pytest.fixture
def saved():
    y, Z = scores()
    save_json(PlattScaling().fit(Z, np.array(["cat", "dog", "owl"])[y]), "best.json")
    return Z


def test_the_model_predicts_what_the_calibrator_does(saved, capsys):
    runtime = pytest.importorskip("onnxruntime", reason="models are run by ONNX Runtime")
    printed = run(capsys, "export", "best.json", "-o", "model.onnx", "--dtype", "float64")
    with open("model.onnx", "rb") as file:
        written = file.read()
    assert printed == (
        f"model.onnx: PlattScaling, {len(written):,} bytes\n"
        "input 'scores': float64 (n, 3), logits\n"
        "outputs: 'label', 'probabilities'; probabilities of 3 classes\n"
    )
    session = runtime.InferenceSession(written, providers=["CPUExecutionProvider"])
    label, P = session.run(None, {"scores": saved})
    np.testing.assert_allclose(P, load_json("best.json").predict_proba(saved), rtol=0, atol=1e-12)
    assert set(label) <= {"cat", "dog", "owl"}


def test_labels_can_be_left_out(saved, capsys):
    printed = run(capsys, "export", "best.json", "-o", "model.onnx", "--no-labels")
    assert "outputs: 'probabilities'; probabilities of 3 classes" in printed
    assert "input 'scores': float32 (n, 3), logits" in printed
    assert [output.name for output in onnx.load("model.onnx").graph.output] == ["probabilities"]


def test_what_cannot_be_written_or_read_is_refused_in_one_line(saved, capsys):
    assert "must end in .onnx" in fails(capsys, "export", "best.json", "-o", "model.txt")
    assert "no.json" in fails(capsys, "export", "no.json", "-o", "model.onnx")
