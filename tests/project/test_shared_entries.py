"""Parameters that every calibrator has are described everywhere in the same words."""

import inspect
import re

import pytest

from skcalib import calibrators

OF_LOGARITHMS = {
    "Probabilities are clipped at `clip_` before their logarithm is taken.",
    "Logits of probabilities are their logarithms, clipped at the logarithm of `clip_`.",
}


def entry(cls, parameter):
    """Type and description of a parameter in a numpydoc docstring, on one line."""
    block = re.search(rf"^{parameter} : .*\n(?: .*\n)+", inspect.getdoc(cls) + "\n", re.MULTILINE)
    assert block is not None, f"{cls.__name__} does not describe {parameter}"
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
