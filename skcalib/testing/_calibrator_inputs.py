"""Checks of a calibrator with valid and invalid input."""

from __future__ import annotations

from functools import partial
from typing import Any

import joblib
import numpy as np
import pandas as pd
from numpy.typing import NDArray
from sklearn import config_context
from sklearn.base import clone
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer

from skcalib.testing._fits import REFIT, fit_proba, require_simplex, samples
from skcalib.testing._promises import (
    NAMES,
    make_sample,
    require,
    require_close,
    require_refusal,
    require_unchanged,
    spoilt,
)


def check_inputs_unchanged(calibrator: Any) -> None:
    """Arguments are not changed, and a prediction does not change the calibrator."""
    for S, code, name in samples(calibrator):
        w = np.linspace(0.0, 2.0, code.size)
        passed = {"X": S, "y": code, "sample_weight": w}
        before = {what: array.copy() for what, array in passed.items()}
        fitted = clone(calibrator).fit(S, code, sample_weight=w)
        state = joblib.hash(vars(fitted))
        np.asarray(fitted.predict_proba(S))[:] = -1.0  # arrays that can be written to
        fitted.predict(S)
        require_unchanged(passed, before, name)
        require(joblib.hash(vars(fitted)) == state, f"{name}: predictions change the calibrator")
        again = fit_proba(calibrator, S, code, S, sample_weight=w)  # read-only arrays
        require_close(again, fitted.predict_proba(S), f"{name}, read-only arrays", atol=1e-12)


def check_memory_layout(calibrator: Any) -> None:
    """Lists, frames and arrays of any layout give the same result."""
    for S, code, name in samples(calibrator):
        expected = fit_proba(calibrator, S, code, S)
        frame = pd.DataFrame(S, columns=list(NAMES[: S.shape[1]]), index=np.arange(code.size)[::-1])
        layouts = {
            "Fortran order": np.asfortranarray(S),
            "every second column": np.repeat(S, 2, axis=1)[:, ::2],
            "a frame": frame,
            "a list": S.tolist(),
        }
        for layout, T in layouts.items():
            require_close(fit_proba(calibrator, T, code, T), expected, f"{name}, {layout}", REFIT)


def check_frames(calibrator: Any) -> None:
    """Column names are remembered, others are refused, and set_output around it changes nothing."""
    S, code, name = next(samples(calibrator))
    frame = pd.DataFrame(S, columns=["a", "b"])
    fitted = clone(calibrator).fit(frame, code)
    names = getattr(fitted, "feature_names_in_", ())
    require(list(names) == ["a", "b"], f"feature_names_in_ is {list(names)}")
    swapped = frame[["b", "a"]]
    require_refusal(partial(fitted.predict_proba, swapped), "a frame of other columns", lines=None)
    model = make_pipeline(FunctionTransformer(feature_names_out="one-to-one"), clone(calibrator))
    model.set_output(transform="pandas").fit(S, code)
    with config_context(transform_output="pandas"):
        proba = model.predict_proba(S)
    require_simplex(proba, S.shape, "after set_output")
    require_close(proba, fit_proba(calibrator, S, code, S), f"{name}, after set_output", atol=1e-12)


def _bad_scores(S: NDArray[Any], kind: str) -> dict[str, NDArray[Any]]:
    bad = {
        "NaN in X": spoilt(S, (7, 1), np.nan),
        "infinity in X": spoilt(S, (7, 1), np.inf),
        "an empty X": S[:0],
    }
    if kind == "logits":
        bad["a row of -inf"] = spoilt(S, 7, -np.inf)
    else:
        bad["a row that sums to 1.3"] = spoilt(S, 7, [0.5, 0.5, 0.3, 0.0])
    return bad


def check_bad_fit(calibrator: Any) -> None:
    """A bad fit ends in a ValueError of one line and leaves the last fit as it was."""
    for S, code, name in samples(calibrator, (4,)):
        n, w = code.size, np.ones(code.size)
        kind = name.split()[0]
        bad: dict[str, tuple[Any, Any, Any]] = {
            what: (T, code[: len(T)], None) for what, T in _bad_scores(S, kind).items()
        }
        bad |= {
            "y of another length": (S, code[1:], None),
            "no y": (S, None, None),
            "more labels than columns": (S, np.arange(n) % 5, None),
            "a negative weight": (S, code, spoilt(w, 7, -1)),
            "a weight of NaN": (S, code, spoilt(w, 7, np.nan)),
            "weights that are all 0": (S, code, 0 * w),
            "weights of another length": (S, code, w[1:]),
        }
        fitted = clone(calibrator).fit(S, code)
        state = joblib.hash(vars(fitted))
        for what, (T, y, weight) in bad.items():
            require_refusal(partial(fitted.fit, T, y, sample_weight=weight), f"{what} ({name})")
            require(joblib.hash(vars(fitted)) == state, f"{what} ({name}) changed the calibrator")


def check_bad_question(calibrator: Any) -> None:
    """A prediction of bad scores ends in a ValueError of one line."""
    for S, code, name in samples(calibrator, (4,)):
        kind = name.split()[0]
        fitted = clone(calibrator).fit(S, code)
        other = make_sample("proba" if kind == "logits" else "logits", 4).S
        bad = {
            **_bad_scores(S, kind),
            "three columns after four": S[:, :3],
            "scores of the other kind": other,
        }
        for what, T in bad.items():
            for ask in (fitted.predict_proba, fitted.predict):
                require_refusal(partial(ask, T), f"{what} ({name})")
