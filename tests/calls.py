"""What a call does: its error in one line, its most memory, and the ONNX model of a fit."""

import tracemalloc

import pytest

from skcalib import to_onnx


def refused(match, function, *args, error=ValueError, **keywords):
    """Return the message of a call that raises an error of one line."""
    with pytest.raises(error, match=match) as caught:
        function(*args, **keywords)
    message = str(caught.value)
    assert "\n" not in message
    return message


def peak_memory(function, *args, **keywords):
    """Return the most bytes of arrays at any time of a call."""
    tracemalloc.start()
    try:
        function(*args, **keywords)
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


def onnx_predictions(calibrator, scores, **keywords):
    """Return the labels and the probabilities of the ONNX model of a fitted calibrator."""
    runtime = pytest.importorskip("onnxruntime", reason="models are run by ONNX Runtime")
    session = runtime.InferenceSession(
        to_onnx(calibrator, **keywords).SerializeToString(), providers=["CPUExecutionProvider"]
    )
    return session.run(None, {session.get_inputs()[0].name: scores})
