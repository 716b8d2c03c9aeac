"""Models of fits to generated samples, most of them odd, predict what the calibrators do."""

import warnings

import numpy as np
import pytest
from discovery import CALIBRATORS
from exported import runner
from hypothesis import assume, given
from hypothesis import strategies as st
from numpy.testing import assert_allclose
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning
from strategies import attempt, recipes

from skcalib import to_onnx

pytest.importorskip("onnx", reason="models are written by onnx")
pytestmark = pytest.mark.slow

# Logits far smaller than 1 are fitted by maps that are as much steeper, which magnify the last bits
# of exponentials.
SCALES = (0.1, 1.0, 5.0, 30.0, 1e6)
LIMIT = {"float32": 5e-7, "float64": 1e-11}


@pytest.mark.parametrize("calibrator", CALIBRATORS, ids=lambda c: " ".join(repr(c).split()))
@given(recipe=recipes(scales=SCALES), dtype=st.sampled_from(["float32", "float64"]))
def test_the_model_predicts_what_the_calibrator_does(calibrator, recipe, dtype):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        keywords = {"input": recipe.kind, "classes": recipe.classes}
        fitted, refusal = attempt(
            clone(calibrator).set_params(**keywords).fit, recipe.S, recipe.y, recipe.w
        )
    assume(not refusal)
    run = runner(to_onnx(fitted, dtype=dtype))
    for rows in (recipe.seen, recipe.other()):
        rows = rows.astype(dtype)
        expected = fitted.predict_proba(rows)
        label, P = run(rows)
        assert_allclose(P.astype(float), expected, rtol=0, atol=LIMIT[dtype])
        # Nothing is said of classes whose probabilities differ by rounding.
        chosen = np.take_along_axis(expected, fitted.classes_.searchsorted(label)[:, None], axis=1)
        assert (expected.max(axis=1) - chosen[:, 0] <= 2 * LIMIT[dtype]).all()
