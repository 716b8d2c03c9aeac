"""Parameters that every calibrator has are described everywhere in the same words."""

import inspect
import re

import pytest

import skcalib
from skcalib import calibrators, losses, metrics, plotting

OF_LOGARITHMS = {
    "A probability of 0 is replaced by `clip_` before its logarithm is computed.",
    "Probabilities are replaced by their logarithms, and 0 by the logarithm of `clip_`.",
}


def entry(cls, parameter):
    """Type and description of a parameter in a numpydoc docstring, on one line."""
    block = re.search(rf"^{parameter} : .*\n(?: .*\n)+", inspect.getdoc(cls) + "\n", re.MULTILINE)
    assert block is not None, f"{cls.__qualname__} does not describe {parameter}"
    return " ".join(block[0].split())


@pytest.mark.parametrize("name", calibrators.__all__)
@pytest.mark.parametrize("parameter", ["input", "classes"])
def test_shared_parameters_are_described_in_the_same_words(name, parameter):
    """Only calibrators that take logarithms add a sentence, which says how they do."""
    cls = getattr(calibrators, name)
    shared = entry(calibrators.IdentityCalibrator, parameter)
    described = entry(cls, parameter)
    assert described.startswith(shared)
    added = described.removeprefix(shared).strip()
    if parameter == "input" and cls._takes_logs:
        assert added in OF_LOGARITHMS
    else:
        assert added == ""


def weighted_functions():
    for module in (calibrators, losses, metrics, plotting, skcalib):
        for name in module.__all__:
            public = getattr(module, name)
            methods = ("fit", "partial_fit", "from_predictions") if isinstance(public, type) else ()
            for function in [public, *(getattr(public, method, None) for method in methods)]:
                doc = inspect.getdoc(function) or ""
                if re.search(r"^sample_weight : ", doc, re.MULTILINE):
                    yield function


def test_every_entry_of_weights_states_the_rule():
    """Thresholds with a guarantee alone refuse relative weights, and say so."""
    shared = entry(metrics.ks_calibration_error, "sample_weight").split("default=None ")[1]
    assert "Integers are counts: 2 is two copies of the row." in shared
    described = {f: entry(f, "sample_weight") for f in weighted_functions()}
    assert len(described) > 50
    of_threshold = described.pop(metrics.selective_threshold)
    assert "counts of rows: 2 is two copies of the row, 0 its absence." in of_threshold
    assert "Floats that differ are relative weights and are refused" in of_threshold
    for text in described.values():
        assert f"default=None {shared}" in text
