"""Checks of a calibrator: estimator interface, predictions, equivalent data, invalid input."""

from __future__ import annotations

import pickle
import warnings
from collections.abc import Mapping
from functools import partial
from typing import Any

import joblib
import numpy as np
import pandas as pd
from numpy.typing import NDArray
from scipy.special import expit, log_softmax
from sklearn import config_context
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning, NotFittedError
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer

from skcalib.testing._promises import (
    NAMES,
    Array,
    bad_weights,
    checks_in,
    equal_weights,
    kinds_of,
    kinds_of_labels,
    layouts_of,
    make_sample,
    require,
    require_close,
    require_refusal,
    require_unchanged,
    run_checks,
    samples,
    spoilt,
)

# Tolerances: for iterative fits that add numbers in another order, and for rounding to float32.
REFIT = 1e-7
SINGLE = 2e-6


def fit_proba(calibrator: Any, S: Any, y: Any, T: Any, **weight: Any) -> NDArray[Any]:
    """Fit a clone of a calibrator on scores S and labels y; return probabilities for scores T."""
    return clone(calibrator).fit(S, y, **weight).predict_proba(T)


def edge_rows(S: Array, name: str) -> NDArray[np.float64]:
    """Return extreme scores: probabilities of 0 and 1, and scores far outside the fitted range."""
    n_classes = S.shape[1]
    unit = np.eye(n_classes)
    if name.startswith("proba"):
        return np.vstack([unit, np.full((1, n_classes), 1 / n_classes)])
    certain = np.where(unit == 1, 3.0, -np.inf)
    far = 200.0 * unit
    return np.vstack([certain, far, -far, 0 * unit[:1], np.full((1, n_classes), 1e6)])


def require_simplex(proba: Any, shape: tuple[int, ...], how: str, atol: float = 1e-9) -> None:
    require(isinstance(proba, np.ndarray), f"{how}: a {type(proba).__name__}, not an array")
    require(proba.shape == shape, f"{how}: shape {proba.shape} instead of {shape}")
    require(np.isfinite(proba).all(), f"{how}: NaN or infinity among the probabilities")
    low, high = proba.min(), proba.max()
    require(low >= 0 and high <= 1, f"{how}: probabilities from {low:.3g} to {high:.3g}")
    off = np.abs(proba.sum(axis=1, dtype=np.float64) - 1).max()
    require(off <= atol, f"{how}: a row sums to 1 only within {off:.3g}")


# -------------------------------------------------------- checks of the estimator interface


def check_parameters(calibrator: Any) -> None:
    """The constructor, clone and set_params store the parameters unchanged."""
    parameters = calibrator.get_params(deep=False)
    again = type(calibrator)(**parameters).get_params(deep=False)
    changed = [name for name in parameters if again.get(name) is not parameters[name]]
    require(not changed, f"the constructor changes {', '.join(changed)}")
    sample = next(samples(calibrator))
    copy = clone(clone(calibrator).set_params(classes=[5, 6]).fit(sample.S, sample.code + 5))
    require(copy.get_params()["classes"] == [5, 6], "clone does not copy the values of set_params")
    attributes = [name for name in vars(copy) if name.endswith("_")]
    require(not attributes, f"clone keeps {', '.join(attributes)} of a fit")


def check_unfitted(calibrator: Any) -> None:
    """Before fit, predict_proba and predict raise NotFittedError."""
    sample = next(samples(calibrator))
    for method in ("predict_proba", "predict"):
        try:
            getattr(clone(calibrator), method)(sample.S)
        except NotFittedError:
            continue
        raise AssertionError(f"{method} does not raise NotFittedError")


def check_inputs_unchanged(calibrator: Any, S: Array, code: Array, name: str) -> None:
    """Arguments are not changed, and a prediction does not change the calibrator."""
    w = np.linspace(0.0, 2.0, code.size)
    passed = {"X": S, "y": code, "sample_weight": w}
    before = {what: array.copy() for what, array in passed.items()}
    fitted = clone(calibrator).fit(S, code, sample_weight=w)
    state = joblib.hash(vars(fitted))
    np.asarray(fitted.predict_proba(S))[:] = -1.0  # overwrite the returned predictions
    fitted.predict(S)
    require_unchanged(passed, before, name)
    require(joblib.hash(vars(fitted)) == state, f"{name}: predictions change the calibrator")
    again = fit_proba(calibrator, S, code, S, sample_weight=w)  # the arrays are read-only now
    require_close(again, fitted.predict_proba(S), f"{name}, read-only arrays", atol=1e-12)


def check_attributes(calibrator: Any, S: Array, code: Array, name: str) -> None:
    """A fit returns the calibrator itself, with classes_, n_features_in_ and input_."""
    new = clone(calibrator)
    require(new.fit(S, code) is new, "fit returns another object")
    require(np.array_equal(new.classes_, np.arange(S.shape[1])), f"{name}: wrong classes_")
    require(new.n_features_in_ == S.shape[1], f"{name}: n_features_in_={new.n_features_in_}")
    require(new.input_ == name.split()[0], f"{name}: input_={new.input_!r}")


def check_pickle(calibrator: Any, S: Array, code: Array, name: str) -> None:
    """A pickled calibrator gives the same probabilities."""
    fitted = clone(calibrator).fit(S, code)
    again = pickle.loads(pickle.dumps(fitted))
    require_close(again.predict_proba(S), fitted.predict_proba(S), name, atol=0.0)


def check_metadata(calibrator: Any) -> None:
    """Requested weights are passed by metadata routing."""
    S, code, name = next(samples(calibrator))
    w = np.linspace(0.0, 2.0, code.size)
    expected = fit_proba(calibrator, S, code, S, sample_weight=w)
    with config_context(enable_metadata_routing=True):
        requested = clone(calibrator).set_fit_request(sample_weight=True)
        model = make_pipeline(FunctionTransformer(), requested).fit(S, code, sample_weight=w)
        require_close(model.predict_proba(S), expected, f"{name}, in a pipeline", atol=1e-12)


# -------------------------------------------------------- checks of predictions


def check_probabilities(calibrator: Any, S: Array, code: Array, name: str) -> None:
    """Predicted rows are probability vectors of the type of the scores, also for extreme scores."""
    other = make_sample(name.split()[0], S.shape[1], seed=1).S
    for dtype, atol in ((np.float64, 1e-9), (np.float32, 1e-6)):
        fitted = clone(calibrator).fit(S.astype(dtype), code)
        for T in (S, other, edge_rows(S, name)):
            proba = fitted.predict_proba(T.astype(dtype))
            require_simplex(proba, T.shape, name, atol)
            require(proba.dtype == dtype, f"{name}: {proba.dtype} for {np.dtype(dtype)} scores")


def check_certain_scores(calibrator: Any, S: Array, code: Array, name: str) -> None:
    """A calibrator can be fitted on probabilities of exactly 0 and 1, and on logits of -inf."""
    if name.startswith("proba"):
        S[::3] = np.eye(S.shape[1])[S[::3].argmax(axis=1)]
    else:
        S[::3, 1] = -np.inf
        S[5, 1:] = -np.inf
        S = log_softmax(S, axis=1)  # -inf masks a class unless logits are log-probabilities
    fitted = clone(calibrator).fit(S, code)
    for T in (S, edge_rows(S, name)):
        require_simplex(fitted.predict_proba(T), T.shape, name)


def check_predict(calibrator: Any, S: Array, code: Array, name: str) -> None:
    """The predicted label has the largest probability, in the first column on ties."""
    fitted = clone(calibrator).fit(S, NAMES[code])
    best = NAMES[fitted.predict_proba(S).argmax(axis=1)]
    wrong = np.flatnonzero(fitted.predict(S) != best)
    require(wrong.size == 0, f"{name}: {wrong.size} of {code.size} rows have another label")


def check_label_names(calibrator: Any, S: Array, code: Array, name: str) -> None:
    """Labels of any kind give the same probabilities; classes_ are the sorted labels."""
    expected = fit_proba(calibrator, S, code, S)
    for labels in kinds_of_labels(S.shape[1]):
        y = labels[code]
        how = f"{name}, labels such as {y.tolist()[0]!r}"
        fitted = clone(calibrator).fit(S, y)
        require(np.array_equal(fitted.classes_, np.unique(y)), f"{how}: wrong classes_")
        require_close(fitted.predict_proba(S), expected, how, atol=1e-12)


# -------------------------------------------------------- checks of predictions for equivalent data


def check_row_order(calibrator: Any, S: Array, code: Array, name: str) -> None:
    """The order of rows does not matter, in fit and in prediction."""
    order = np.random.default_rng(3).permutation(code.size)
    fitted = clone(calibrator).fit(S, code)
    proba = fitted.predict_proba(S)
    shuffled = fit_proba(calibrator, S[order], code[order], S)
    require_close(shuffled, proba, f"{name}, fitted on shuffled rows", REFIT)
    predicted = fitted.predict_proba(S[order])
    require_close(predicted, proba[order], f"{name}, shuffled rows predicted", 1e-12)


def check_class_order(calibrator: Any) -> None:
    """Renaming the classes permutes the columns and changes nothing else."""
    for S, code, name in samples(calibrator, (4,)):
        order = np.array([2, 0, 3, 1])
        moved = fit_proba(calibrator, S[:, order], np.argsort(order)[code], S[:, order])
        require_close(moved, fit_proba(calibrator, S, code, S)[:, order], name, atol=1e-6)


def check_weights_are_copies(calibrator: Any, S: Array, code: Array, name: str) -> None:
    """Integer weights are counts: 2 is two copies of the row."""
    w = np.random.default_rng(2).integers(0, 4, code.size)
    copies = np.repeat(np.arange(code.size), w)
    repeated = fit_proba(calibrator, S[copies], code[copies], S)
    require_close(fit_proba(calibrator, S, code, S, sample_weight=w), repeated, name, REFIT)


def check_weights_are_relative(calibrator: Any, S: Array, code: Array, name: str) -> None:
    """Only the ratios of float weights matter: equal weights have no effect."""
    for how, pair in equal_weights(code.size).items():
        expected, actual = (fit_proba(calibrator, S, code, S, sample_weight=x) for x in pair)
        require_close(actual, expected, f"{name}, {how}", REFIT)


def check_weight_zero_is_absence(calibrator: Any, S: Array, code: Array, name: str) -> None:
    """A row of weight 0 has the same effect as no row."""
    w = np.random.default_rng(2).random(code.size) + 0.1
    w[::4] = 0
    keep = w > 0
    absent = fit_proba(calibrator, S[keep], code[keep], S, sample_weight=w[keep])
    require_close(fit_proba(calibrator, S, code, S, sample_weight=w), absent, name, atol=1e-12)


def check_batch(calibrator: Any, S: Array, code: Array, name: str) -> None:
    """A row has the same prediction alone and in a batch."""
    fitted = clone(calibrator).fit(S, code)
    batch = fitted.predict_proba(S[:25])
    single = np.vstack([fitted.predict_proba(S[i : i + 1]) for i in range(25)])
    require_close(single, batch, name, atol=1e-12)


def check_float32(calibrator: Any, S: Array, code: Array, name: str) -> None:
    """float32 scores give the same fit as equal float64 scores."""
    single = S.astype(np.float32)
    double = single.astype(np.float64)
    expected = fit_proba(calibrator, double, code, double)
    require_close(fit_proba(calibrator, single, code, single), expected, name, SINGLE)


def check_refit(calibrator: Any) -> None:
    """A second fit gives the same calibrator as a first fit on the same data."""
    for S, code, name in samples(calibrator, (4,)):
        first = make_sample(name.split()[0], 2, seed=5)
        used = clone(calibrator).fit(pd.DataFrame(first.S, columns=["a", "b"]), NAMES[first.code])
        used.fit(S, code)
        fresh = clone(calibrator).fit(S, code)
        left = set(vars(used)) ^ set(vars(fresh))
        require(not left, f"{name}: only one of the fits has {', '.join(sorted(left))}")
        require_close(used.predict_proba(S), fresh.predict_proba(S), name, atol=0.0)


def check_one_column(calibrator: Any) -> None:
    """A column p, or a column of logits f, gives the result of two columns (1 - p, p) or (0, f)."""
    logits, code, _ = make_sample("logits", 2)
    f = logits[:, 1] - logits[:, 0]
    for kind in kinds_of(calibrator):
        column = f if kind == "logits" else expit(f)
        wide = np.c_[0 * f, f] if kind == "logits" else np.c_[1 - column, column]
        expected = fit_proba(calibrator, wide, code, wide)
        for scores in (column, column[:, None], wide):
            fitted = clone(calibrator).fit(scores, code)
            for new in (column, column[:, None], wide):
                how = f"{kind} of shape {new.shape}, fitted on {scores.shape}"
                require_close(fitted.predict_proba(new), expected, how, atol=1e-12)


def check_missing_class(calibrator: Any) -> None:
    """A class without rows keeps its column if `classes` or the labels 0..K-1 contain it."""
    with warnings.catch_warnings():
        # A calibrator may warn that a class without rows gets probabilities of 0.
        warnings.simplefilter("ignore", ConvergenceWarning)
        for S, code, name in samples(calibrator, (4,)):
            names = NAMES[:4]
            for missing in (0, 2, 3):
                how = f"{name}, without the class of column {missing}"
                some = code != missing
                named = clone(calibrator).set_params(classes=names)
                fitted = named.fit(S[some], names[code[some]])
                proba = fitted.predict_proba(S)
                require_simplex(proba, S.shape, how)
                require(np.array_equal(fitted.classes_, names), f"{how}: wrong classes_")
                turned = clone(calibrator).set_params(classes=names[::-1])
                require_refusal(partial(turned.fit, S, names[code]), f"{how}: classes not sorted")
                weightless = fit_proba(named, S, names[code], S, sample_weight=some.astype(float))
                require_close(weightless, proba, f"{how}, by weights of 0", atol=1e-12)
                if missing:  # integer labels imply the classes 0..K-1 if 0 occurs
                    inferred = fit_proba(calibrator, S[some], code[some], S)
                    require_close(inferred, proba, f"{how}, without `classes`", atol=1e-12)


# -------------------------------------------------------- checks of valid and invalid input


def check_memory_layout(calibrator: Any, S: Array, code: Array, name: str) -> None:
    """Lists, frames and arrays of any layout give the same result."""
    expected = fit_proba(calibrator, S, code, S)
    for layout, T in layouts_of(S).items():
        require_close(fit_proba(calibrator, T, code, T), expected, f"{name}, {layout}", REFIT)


def check_frames(calibrator: Any) -> None:
    """Column names are stored, other names are refused, and set_output changes nothing."""
    S, code, name = next(samples(calibrator))
    frame = pd.DataFrame(S, columns=["a", "b"])
    fitted = clone(calibrator).fit(frame, code)
    names = getattr(fitted, "feature_names_in_", ())
    require(list(names) == ["a", "b"], f"feature_names_in_ is {list(names)}")
    swapped = frame[["b", "a"]]
    require_refusal(
        partial(fitted.predict_proba, swapped),
        "a frame with columns in another order",
        one_line=False,
    )
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
    """A fit on invalid data raises a ValueError of one line and does not change the last fit."""
    for S, code, name in samples(calibrator, (4,)):
        kind = name.split()[0]
        bad: dict[str, tuple[Any, Any, Any]] = {
            "y with another number of rows": (S, code[1:], None),
            "no y": (S, None, None),
            "more labels than columns": (S, np.arange(code.size) % 5, None),
            **{what: (T, code[: len(T)], None) for what, T in _bad_scores(S, kind).items()},
            **{what: (S, code, w) for what, w in bad_weights(code.size).items()},
        }
        fitted = clone(calibrator).fit(S, code)
        state = joblib.hash(vars(fitted))
        for what, (T, y, weight) in bad.items():
            require_refusal(partial(fitted.fit, T, y, sample_weight=weight), f"{what} ({name})")
            require(joblib.hash(vars(fitted)) == state, f"{what} ({name}) changed the calibrator")


def check_bad_question(calibrator: Any) -> None:
    """A prediction for invalid scores raises a ValueError of one line."""
    for S, code, name in samples(calibrator, (4,)):
        kind = name.split()[0]
        fitted = clone(calibrator).fit(S, code)
        other = make_sample("proba" if kind == "logits" else "logits", 4).S
        bad = {
            **_bad_scores(S, kind),
            "three columns after a fit on four": S[:, :3],
            f"scores that are not {kind}": other,
        }
        for what, T in bad.items():
            for ask in (fitted.predict_proba, fitted.predict):
                require_refusal(partial(ask, T), f"{what} ({name})")


# Basic checks run first, because only the first failed check is reported.
CALIBRATOR_CHECKS = checks_in(globals())


def check_calibrator(
    calibrator: Any, *, expected_failed_checks: Mapping[str, str] | None = None
) -> None:
    """Check that a calibrator behaves like the calibrators of skcalib.

    The checks use logits and probabilities of two and of four classes, or only one of these if the
    parameter `input` is not "auto".

    Parameters
    ----------
    calibrator : estimator
        An instance; clones of it are fitted.
    expected_failed_checks : dict of str to str, default=None
        Names of checks that are not run, with the reasons.

    Raises
    ------
    AssertionError
        If a check fails; the message of one line contains its name and the reason.
    ValueError
        If `expected_failed_checks` names a check that does not exist.

    See Also
    --------
    check_calibration_metric : Checks of a metric.
    sklearn.utils.estimator_checks.check_estimator : The checks of scikit-learn for any estimator.

    Examples
    --------
    >>> from skcalib import TemperatureScaling
    >>> from skcalib.testing import check_calibrator
    >>> check_calibrator(TemperatureScaling())
    """
    name = " ".join(str(calibrator).split())
    draw_samples = partial(samples, calibrator)
    run_checks(calibrator, name, CALIBRATOR_CHECKS, draw_samples, expected_failed_checks)
