"""What hostile values are given to: every public calibrator, metric, loss, display and join.

A subject is found by discovery, so that a new one is tried on the day it is added.
"""

from __future__ import annotations

import importlib.util
from collections.abc import Callable, Iterator
from functools import partial
from inspect import signature
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from sklearn.base import clone
from sklearn.frozen import FrozenEstimator
from sklearn.naive_bayes import GaussianNB

import skcalib.calibrators
import skcalib.losses
import skcalib.metrics
import skcalib.plotting
from benchmarks._shared.peers import Probabilities
from skcalib import CalibratedClassifier, ClassifierScores, compare_calibrators

# Nothing to be wrong about (axes, names) or started for nothing (processes, progress).
LEFT_OUT = {"verbose", "n_jobs", "ax", "name", "kwargs", "keywords", "metric", "order"}
# What metrics and displays call their data, and the role that it has.
ROLES = {
    "y_true": "labels",
    "y_proba": "scores",
    "sample_weight": "weights",
    "labels": "classes",
    "proba_before": "scores",
    "proba_after": "scores",
}
DATA = {"X", "y", "logits", "classes", *ROLES}
NOT_NUMBERS = {"class", ("finding", "")}
# One column is a confidence or needs a threshold, or a row has several labels: other rules than
# those that are tried here.
OTHER_RULES = {
    "calibration_by_label",
    *("risk_coverage_curve", "aurc_loss", "net_benefit", "selective_threshold"),
    *("RiskCoverageDisplay", "DecisionCurveDisplay"),
}
ROUNDING = 1e-9
REFIT = 1e-6


class Subject(NamedTuple):
    """Something to call by keywords; ``takes`` says which role each data argument has.

    ``call`` returns the answer as a list of arrays, ``flaw`` says what is wrong with an answer,
    and errors about ``foreign`` arguments are those of the estimator that they are handed to;
    ``may_take`` names what others refuse.
    """

    name: str
    group: str
    call: Callable[..., list[Any]]
    takes: dict[str, str]
    parameters: tuple[str, ...]
    kinds: tuple[str, ...]
    flaw: Callable[[list[Any]], str]
    atol: float = ROUNDING
    foreign: tuple[str, ...] = ()
    may_take: tuple[str, ...] = ()


def subjects() -> Iterator[Subject]:
    """Yield all subjects; displays only where matplotlib is installed."""
    yield from _calibrators()
    yield from _metrics()
    yield from _losses()
    yield from _joined()
    if importlib.util.find_spec("matplotlib") is not None:
        yield from _displays()


# -------------------------------------------------------------------------- what may be wrong


def not_simplex(answer: list[Any]) -> str:
    """Say what is wrong with probabilities, and with labels that follow them."""
    P = answer[0]
    if not isinstance(P, np.ndarray) or P.ndim != 2 or P.dtype not in (np.float32, np.float64):
        return f"not a table of probabilities: {type(P).__name__} of shape {np.shape(P)}"
    if not np.isfinite(P).all():
        return "NaN or infinity among the probabilities"
    if P.min() < 0 or P.max() > 1:
        return f"probabilities from {P.min():.3g} to {P.max():.3g}"
    off = np.abs(P.sum(axis=1, dtype=float) - 1).max()
    return f"a row sums to 1 only within {off:.3g}" if off > 2e-3 else ""


def not_finite(answer: list[Any]) -> str:
    """Say what is wrong with numbers."""
    for part in answer:
        if not np.isfinite(np.asarray(part, dtype=float)).all():
            return f"not finite: {part!r}"
    return ""


def not_an_error(answer: list[Any]) -> str:
    """Say what is wrong with errors: finite and not negative."""
    if flaw := not_finite(answer):
        return flaw
    low = min(float(np.min(part, initial=0.0)) for part in answer)
    return f"negative: {low:.3g}" if low < 0 else ""


def nan_seen(answer: list[Any]) -> str:
    """Say whether a number is NaN."""
    return "NaN" if any(np.isnan(part).any() for part in answer) else ""


def no_flaw_seen(answer: list[Any]) -> str:
    """Say nothing: NaN stands for what is not there (an empty bin, one fold's deviation)."""
    return "" if answer else "no answer"


# -------------------------------------------------------------------------- subjects


def _own(callable_: Any) -> tuple[str, ...]:
    return tuple(n for n in signature(callable_).parameters if n not in DATA | LEFT_OUT)


def _calibrators() -> Iterator[Subject]:
    for name in skcalib.calibrators.__all__:
        bare = getattr(skcalib.calibrators, name)()
        told = tuple(sorted(set(bare.get_params()) - DATA - LEFT_OUT))
        yield Subject(
            f"{name}.fit",
            "calibrators, fit",
            partial(_fit_and_ask, bare),
            {"X": "scores", "y": "labels", "sample_weight": "weights", "classes": "classes"},
            told,
            ("logits", "proba"),
            not_simplex,
            REFIT,
        )
        yield Subject(
            f"{name}.predict_proba",
            "calibrators, predict",
            partial(_ask, bare, {}),
            {"X": "question"},
            (),
            ("logits", "proba"),
            not_simplex,
        )


def _fit_and_ask(bare: Any, X: Any, y: Any, sample_weight: Any = None, **told: Any) -> list[Any]:
    fitted = clone(bare).set_params(**told).fit(X, y, sample_weight=sample_weight)
    P = fitted.predict_proba(X)
    if not np.isin(fitted.predict(X), fitted.classes_).all():
        raise AssertionError("a predicted label is no class")
    return [P]


def _ask(bare: Any, kept: dict[str, Any], X: Any, clean: tuple[Any, Any]) -> list[Any]:
    key = "".join(map(str, (clean[0].dtype, clean[0].shape, clean[0].sum())))
    if key not in kept:
        kept[key] = clone(bare).fit(*clean)
    return [kept[key].predict_proba(X)]


def _metrics() -> Iterator[Subject]:
    metrics = skcalib.metrics
    flaws = {
        "reliability_table": no_flaw_seen,
        "calibration_summary": no_flaw_seen,
        "calibration_by_group": no_flaw_seen,  # gaps have signs, small groups no error
        "binary_view": not_an_error,
        "bootstrap_interval": not_finite,
        "hosmer_lemeshow_test": nan_seen,  # infinite where a certain bin is wrong
        "score_decomposition": no_flaw_seen,  # below the base rate a scaled score is negative
        "spiegelhalter_test": nan_seen,  # and where a certain row is
        "calibration_intercept_slope": not_finite,
        "observed_expected_ratio": not_finite,
    }
    for name in metrics.__all__:
        metric = getattr(metrics, name)
        if not callable(metric) or name in OTHER_RULES:
            continue
        taken = signature(metric).parameters
        if not {"y_true", "y_proba"} <= taken.keys():
            continue
        seeded = {"n_resamples": 8, "random_state": 0}
        fixed = {keyword: value for keyword, value in seeded.items() if keyword in taken}
        if "metric" in taken:
            fixed["metric"] = metrics.static_calibration_error
        yield Subject(
            name,
            "metrics",
            partial(_measure, metric, fixed),
            {argument: role for argument, role in ROLES.items() if argument in taken},
            _own(metric),
            ("proba",),
            flaws.get(name, not_an_error),
        )
    for scorer in metrics.SCORERS:
        yield Subject(
            f"SCORERS[{scorer!r}]",
            "scorers",
            partial(_score, metrics.SCORERS[scorer]),
            {"y_true": "labels", "sample_weight": "weights"},
            (),
            ("proba",),
            not_finite,
            # Classes that it never saw; shares of several raters.
            may_take=("K + 1 classes", "all labels distinct", "probabilities as labels"),
        )


def _measure(metric: Any, fixed: dict[str, Any], **arguments: Any) -> list[Any]:
    if "groups" in signature(metric).parameters:
        fixed = {"groups": np.zeros(_rows(arguments["y_true"], arguments["y_proba"])), **fixed}
    found = metric(**{**fixed, **arguments})
    found = getattr(found, "frame", found)
    if isinstance(found, pd.DataFrame):
        return [found[column].to_numpy() for column in found if column not in NOT_NUMBERS]
    return list(found) if isinstance(found, tuple) else [found]


def _rows(*given: Any) -> int:
    """Return the number of rows of the first that says it."""
    for rows in given:
        shape = getattr(rows, "shape", None)
        if isinstance(shape, tuple) and shape:
            return int(shape[0])
        if isinstance(rows, list | tuple):
            return len(rows)
    return 1


def _score(
    scorer: Any, y_true: Any, clean: tuple[Any, Any], sample_weight: Any = None
) -> list[Any]:
    S = clean[0] if clean[0].ndim == 2 else np.c_[1 - clean[0], clean[0]]
    given = {} if sample_weight is None else {"sample_weight": sample_weight}
    model = Probabilities().fit(S, _classes_like(y_true, np.arange(S.shape[1])))
    return [scorer(model, S, y_true, **given)]


def _losses() -> Iterator[Subject]:
    for name in skcalib.losses.__all__:
        loss = getattr(skcalib.losses, name)
        yield Subject(
            f"losses.{name}",
            "losses",
            partial(_lose, loss),
            {"logits": "scores", "y": "codes", "sample_weight": "weights"},
            _own(loss),
            ("logits",),
            not_finite,
        )


def _lose(loss: Any, **arguments: Any) -> list[Any]:
    return [loss(**arguments)]


def _joined() -> Iterator[Subject]:
    data = {"X": "features", "y": "labels", "sample_weight": "weights"}
    own = ("estimator", "calibrator", "cv", "ensemble", "response_method")
    for name, told in {
        "CalibratedClassifier": {"cv": 2},
        "CalibratedClassifier(ensemble=True)": {"cv": 2, "ensemble": True},
        "CalibratedClassifier(FrozenEstimator)": {"frozen": True},
    }.items():
        yield Subject(
            name,
            "joined",
            partial(_join, told),
            data,
            own if told == {"cv": 2} else (),
            ("logits",),
            not_simplex,
            REFIT,
            foreign=("X",),
            may_take=("K + 1 classes",),
        )
    yield Subject(
        "ClassifierScores",
        "joined",
        _transform,
        {"X": "features", "y": "labels"},
        ("estimator", "response_method"),
        ("logits",),
        not_finite,
        REFIT,
        foreign=("X", "y"),
    )
    yield Subject(
        "compare_calibrators",
        "joined",
        _compare,
        {"X": "scores", "y": "labels", "sample_weight": "weights", "classes": "classes"},
        _own(compare_calibrators),
        ("logits", "proba"),
        no_flaw_seen,
        REFIT,
    )


def _features(S: Any) -> Any:
    return S if S.ndim == 2 else S[:, None]


def _join(
    told: dict[str, Any], X: Any, y: Any, clean: Any, sample_weight: Any = None, **own: Any
) -> list[Any]:
    told = {"estimator": GaussianNB(), **told, **own}
    if told.pop("frozen", False):
        # Fitted on the labels as they come: of another type it would know other classes.
        known = GaussianNB().fit(_features(clean[0]), clean[1])
        known.classes_ = _classes_like(y, known.classes_)
        told["estimator"] = FrozenEstimator(known)
    model = CalibratedClassifier(**told)
    return [model.fit(X, y, sample_weight=sample_weight).predict_proba(X)]


def _classes_like(y: Any, classes: Any) -> Any:
    try:
        distinct = np.unique(np.asarray(y))
    except Exception:  # what cannot be labels is for the call to refuse
        return classes
    return distinct if distinct.shape == classes.shape else classes


def _transform(X: Any, y: Any, clean: Any, **own: Any) -> list[Any]:  # noqa: ARG001
    told = {"estimator": GaussianNB(), **own}
    return [ClassifierScores(**told).fit(X, y).transform(X)]


def _compare(**arguments: Any) -> list[Any]:
    fixed = {
        "calibrators": ["temperature", "isotonic"],
        "metrics": ["log_loss", "ks_calibration_error"],
        "cv": 2,
        "random_state": 0,
    }
    frame = compare_calibrators(**{**fixed, **arguments}).frame
    numbers = [c for c in frame if c[0] not in ("fit seconds", "warning", "error")]
    if not np.isfinite(frame.loc["identity", [c for c in numbers if c[1] == "value"]].astype(float)
                       ).all():  # fmt: skip
        raise AssertionError("the identity has no numbers")
    return [frame[c].to_numpy(dtype=float) for c in numbers]


def _displays() -> Iterator[Subject]:
    import matplotlib as mpl

    mpl.use("agg")
    for name in skcalib.plotting.__all__:
        display = getattr(skcalib.plotting, name)
        if not hasattr(display, "from_predictions") or name in OTHER_RULES:
            continue
        taken = signature(display.from_predictions).parameters
        yield Subject(
            f"{name}.from_predictions",
            "displays",
            partial(_draw, display),
            {argument: role for argument, role in ROLES.items() if argument in taken},
            _own(display.from_predictions),
            ("proba",),
            no_flaw_seen,
            # Without y_true, labels are but names of the columns.
            may_take=() if "y_true" in taken else ("words", "other labels"),
        )


def _draw(display: Any, **arguments: Any) -> list[Any]:
    import matplotlib.pyplot as plt

    try:
        drawn = display.from_predictions(**arguments)
        drawn.figure_.canvas.draw()
    finally:
        plt.close("all")
    kept = [v for k, v in sorted(vars(drawn).items()) if not k.endswith("_") and k != "classes"]
    kept = [_numbers_of(v) if isinstance(v, pd.DataFrame) else v for v in kept]
    return [np.asarray(v) for v in kept if isinstance(v, float | np.ndarray)]


def _numbers_of(frame: pd.DataFrame) -> Any:
    return frame.drop(columns="class", errors="ignore").select_dtypes("number").to_numpy()
