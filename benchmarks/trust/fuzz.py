"""Malformed calls, each of which must end in a right answer or in an error that says why.

``python -m benchmarks.trust`` calls every public calibrator, metric, scorer, loss, display and
join with hostile values: other layouts and containers of good data, whose answer must be that of
the good data; data that cannot be answered, whose error must be a ValueError or TypeError of one
line that names the argument; and data or keywords that may be either. The mistakes that people
make with good data (see `mistakes`) are all tried, among others that are drawn. No call may warn
twice, warn of what is not documented, return NaN or numbers out of range, or raise anything else.
"""

from __future__ import annotations

import re
import warnings
from collections import Counter
from collections.abc import Callable, Iterator
from functools import cache
from itertools import chain, cycle
from typing import Any, NamedTuple

import numpy as np
from scipy.special import softmax
from sklearn.exceptions import ConvergenceWarning, DataConversionWarning, UndefinedMetricWarning
from sklearn.utils._param_validation import InvalidParameterError

from benchmarks.trust.hostile import (
    ODD_VALUES,
    Hostile,
    hostile_classes,
    hostile_labels,
    hostile_scores,
    hostile_weights,
)
from benchmarks.trust.mistakes import UNLIKE_COPIES, excused, mistakes
from benchmarks.trust.subjects import Subject, subjects

DOCUMENTED = (ConvergenceWarning, UndefinedMetricWarning, DataConversionWarning)
# What every estimator of scikit-learn says of a frame after an array, and what is said of
# probabilities that are a little off, of options that were not offered.
ANNOUNCED = (
    "X has feature names, but",
    "rows do not sum to 1",
    "values lie outside [0, 1]",
    "-inf is read as a small probability",
)
# Features that an estimator of scikit-learn computes with as they are.
OTHER_FEATURES = {
    "float16", "float32", "float32, big-endian", "fractions", "decimals", "longdouble",
}  # fmt: skip
# What scikit-learn says itself: its scorers of tuples, before they call a metric; its check of
# real parameters of a fraction; its naive Bayes of folds whose weights are 0.
OF_SCIKIT_LEARN = (
    "You appear to be using a legacy multi-label data representation",
    "ufunc 'isnan' not supported",
    "Sample weights must contain at least one non-zero number",
)
# Labels that say which event one column is the probability of.
TELL_THE_EVENT = {
    "Fortran order", "every second entry", "reversed strides", "read-only", "memmap", "list",
    "tuple", "pandas", "polars", "booleans", "floats", "uint8", "big-endian", "a column",
}  # fmt: skip
# A function that is given is called, and its errors are its own.
CALLED = {("objective", "function"), ("objective", "class")}
N_ROWS = 40
SHAPES = [
    (kind, n_classes, narrow)
    for kind in ("logits", "proba")
    for n_classes, narrow in ((2, True), (2, False), (3, False), (4, False))
]
# One call in so many has a second argument in another layout or type.
SECOND = 4


class Sample(NamedTuple):
    """Clean arguments by role."""

    kind: str
    n_classes: int
    clean: dict[str, Any]


class Case(NamedTuple):
    """A subject, the argument to spoil, and the name of what it is spoilt with."""

    subject: Subject
    argument: str
    role: str
    hostile: str

    def __str__(self) -> str:
        return f"{self.subject.name}: {self.argument} = {self.hostile}"


class Told(NamedTuple):
    """How a call ended: an answer or an error, and the warnings on the way."""

    answer: list[Any] | None
    error: BaseException | None
    warned: list[warnings.WarningMessage]


def make_sample(kind: str, n_classes: int, narrow: bool, seed: int) -> Sample:
    """Return scores of an over-confident model, labels that all occur, and whole weights."""
    rng = np.random.default_rng(seed)
    code = np.arange(N_ROWS) % n_classes
    Z = rng.normal(size=(N_ROWS, n_classes)) + 1.5 * np.eye(n_classes)[code]
    S = 2 * Z if kind == "logits" else softmax(2 * Z, axis=1)
    if narrow:
        S = S[:, 1] - S[:, 0] if kind == "logits" else S[:, 1].copy()
    order = rng.permutation(N_ROWS)
    code = rng.permuted(code) if n_classes > 2 else code[order]
    S = S if n_classes > 2 else S[order]
    w = rng.integers(1, 4, N_ROWS).astype(float)
    return Sample(kind, n_classes, {
        "scores": S, "question": S, "labels": code, "codes": code, "weights": w,
        "classes": np.arange(n_classes),
        "features": S if S.ndim == 2 else S[:, None],
    })  # fmt: skip


def hostile_table(role: str, sample: Sample) -> dict[str, Callable[[], Hostile]]:
    """Return the hostile values of a role, by name, mistakes last."""
    return _hostile_values(role, sample) | mistakes(role, sample.clean, sample.kind)


def _hostile_values(role: str, sample: Sample) -> dict[str, Callable[[], Hostile]]:
    if role in ("scores", "question", "features"):
        kind = "logits" if role == "features" else sample.kind
        return hostile_scores(sample.clean[role], kind)
    if role == "weights":
        return hostile_weights(sample.clean["weights"])
    if role == "classes":
        return hostile_classes(sample.n_classes)
    if role == "parameter":
        return {
            name: lambda make=make: Hostile(make(), "either")  # type: ignore[misc]
            for name, make in ODD_VALUES
        }
    table = hostile_labels(sample.clean["labels"], sample.n_classes)
    if role == "labels":
        return table
    # Codes are labels that are the numbers of the columns.
    bare = {"list", "tuple", "uint8", "floats", "big-endian", "pandas", "polars", "memmap"}
    return {
        name: make for name, make in table.items() if name in bare or make().verdict == "refused"
    }


@cache
def samples_with(role: str, hostile: str) -> tuple[tuple[str, int, bool], ...]:
    """Return the kinds of samples, numbers of classes and shapes that a hostile value is for."""
    return tuple(
        (kind, n_classes, narrow)
        for kind, n_classes, narrow in SHAPES
        if hostile in hostile_table(role, make_sample(kind, n_classes, narrow, 0))
    )


def every_case() -> tuple[list[Case], list[Case]]:
    """Return each pair of an argument and a hostile value once: the mistakes, and the others."""
    clean = [make_sample(*shape, 0) for shape in SHAPES]
    roles = (*clean[0].clean, "parameter")
    names = {
        role: dict.fromkeys(name for sample in clean for name in hostile_table(role, sample))
        for role in roles
    }
    told = {
        role: {name for sample in clean for name in mistakes(role, sample.clean, sample.kind)}
        for role in roles
    }
    cases = [
        Case(subject, argument, role, hostile)
        for subject in subjects()
        for argument, role in [
            *subject.takes.items(),
            *((name, "parameter") for name in subject.parameters),
        ]
        for hostile in names[role]
        if (argument, hostile) not in CALLED
    ]
    mistaken = [case for case in cases if case.hostile in told[case.role]]
    return mistaken, [case for case in cases if case.hostile not in told[case.role]]


def call(subject: Subject, arguments: dict[str, Any]) -> Told:
    """Call with every warning seen."""
    with warnings.catch_warnings(record=True) as warned:
        warnings.simplefilter("always")
        try:
            answer = subject.call(**arguments)
        except Exception as error:
            return Told(None, error, warned)
    return Told(answer, None, warned)


def judge(case: Case, hostile: Hostile, told: Told, clean: Told | None) -> tuple[str, str]:
    """Return the outcome, and the fault, "" if there is none."""
    subject, argument = case.subject, case.argument
    foreign = argument in subject.foreign
    if not foreign and (storm := _storm(told.warned)):
        return "warning", storm
    if told.error is not None:
        message = " ".join(str(told.error).split("\n"))
        kind = type(told.error)
        if foreign or any(part in message for part in OF_SCIKIT_LEARN):
            return "refused", ""
        if not isinstance(told.error, ValueError | TypeError):
            return "crash", f"{kind.__name__}: {message}"
        if hostile.verdict == "same" and clean is not None and clean.error is None:
            return "wrong", f"refused what is good: {kind.__name__}: {message}"
        # scikit-learn's message about a parameter shows the value, however many lines it has.
        if "\n" in str(told.error).strip() and not isinstance(told.error, InvalidParameterError):
            return "lines", f"{kind.__name__} of several lines: {message}"
        between = re.search(r"\b(rows|columns|labels|class|classes|samples)\b", message)
        names = (argument, *(hostile.beside if between else ()))
        if not any(re.search(rf"(?<!\w){re.escape(name)}(?!\w)", message) for name in names):
            return "unnamed", f"{kind.__name__} does not name {argument}: {message}"
        if not re.search(hostile.says, message):
            return "unnamed", f"{kind.__name__} does not say {hostile.says}: {message}"
        return "refused", ""
    assert told.answer is not None
    if hostile.verdict == "refused" and not foreign and case.hostile not in subject.may_take:
        return "accepted", "taken without an error"
    flaw = subject.flaw(told.answer)
    if flaw:
        return "invalid", flaw
    if hostile.verdict not in ("same", "careful") or (foreign and case.hostile in OTHER_FEATURES):
        return "valid answer", ""
    if clean is None or clean.answer is None:
        return "wrong", f"taken, where the clean call ends in {clean and clean.error!r}"
    for found, expected in zip(told.answer, clean.answer, strict=True):
        a, b = np.asarray(found), np.asarray(expected)
        if hostile.copies is not None and a.shape[:1] == hostile.copies.shape:
            a = np.repeat(a, hostile.copies, axis=0)
        if a.shape != b.shape:
            return "wrong", f"shape {a.shape} instead of {b.shape}"
        if a.dtype.kind not in "fiub":
            continue
        if not np.allclose(a, b, rtol=0, atol=_tolerance(case, a), equal_nan=True):
            gap = np.nanmax(np.abs(a.astype(float) - b.astype(float)))
            return "wrong", f"differs from the clean call by {gap:.3g}"
    return "right answer", ""


def _storm(warned: list[warnings.WarningMessage]) -> str:
    """Say which warning is not documented, or that there are several of a kind."""
    others = [w for w in warned if not any(text in str(w.message) for text in ANNOUNCED)]
    for w in others:
        if not issubclass(w.category, DOCUMENTED):
            return f"{w.category.__name__}: {w.message}"
    # As a user sees them: the same text is shown once.
    kinds = Counter(category for category, _ in {(w.category, str(w.message)) for w in others})
    several = [f"{n} of {kind.__name__}" for kind, n in kinds.items() if n > 1]
    return f"{several[0]}, first {others[0].message}" if several else ""


def _tolerance(case: Case, found: Any) -> float:
    """Return the rounding of a fit or a sum, and of what float32 scores come back as."""
    single = found.dtype == np.float32 or "float32" in case.hostile
    return max(case.subject.atol, 1e-5 if single else 0.0)


def run_case(case: Case, seed: int) -> tuple[str, str]:
    """Draw clean arguments, spoil one of them, call and judge."""
    rng = np.random.default_rng(seed)
    shapes = [s for s in samples_with(case.role, case.hostile) if s[0] in case.subject.kinds]
    if not shapes:
        return "not for this subject", ""
    kind, n_classes, narrow = shapes[int(rng.integers(len(shapes)))]
    sample = make_sample(kind, n_classes, narrow, int(rng.integers(5)))
    table = hostile_table(case.role, sample)
    given = {
        argument: sample.clean[role]
        for argument, role in case.subject.takes.items()
        if role != "weights" or rng.random() < 0.5
    }
    if "classes" in case.subject.takes.values() and case.role != "classes":
        given = {k: v for k, v in given.items() if case.subject.takes[k] != "classes"}
    if _wants_clean(case.subject):
        given["clean"] = (sample.clean["scores"], sample.clean["labels"])
    hostile = table[case.hostile]()
    if excused(case.subject.name, case.subject.group, case.hostile):
        hostile = hostile._replace(verdict="either", says="")
    if narrow and case.role == "labels" and case.hostile not in TELL_THE_EVENT:
        hostile = hostile._replace(verdict="either", beside=("pos_label",))
    clean = {**given, case.argument: hostile.clean}
    others = [
        (argument, role)
        for argument, role in case.subject.takes.items()
        if argument != case.argument and argument in given and role not in ("classes", "question")
    ]
    dirty = {**given, case.argument: hostile.value}
    plain = not (hostile.also or hostile.says) and hostile.copies is None
    if others and plain and rng.random() < 1 / SECOND and case.role != "classes":
        argument, role = others[int(rng.integers(len(others)))]
        second = _good_layout(role, sample, rng)
        dirty[argument], clean[argument] = second.value, second.clean
    for argument, role in case.subject.takes.items():
        if role in hostile.also and argument != case.argument:
            dirty[argument] = clean[argument] = hostile.also[role]
    if hostile.copies is not None:
        if case.subject.name in UNLIKE_COPIES:
            hostile = hostile._replace(verdict="either")
        clean = copied(case.subject, clean, hostile.copies)
    expected = call(case.subject, clean) if hostile.verdict in ("same", "careful") else None
    return judge(case, hostile, call(case.subject, dirty), expected)


def copied(subject: Subject, arguments: dict[str, Any], counts: Any) -> dict[str, Any]:
    """Return arguments with copies of each row in place of weights."""
    rows = ("scores", "labels", "codes", "features")
    made = {
        name: np.repeat(value, counts, axis=0) if subject.takes.get(name) in rows else value
        for name, value in arguments.items()
        if subject.takes.get(name) != "weights"
    }
    if "clean" in made and subject.group == "scorers":
        made["clean"] = tuple(np.repeat(part, counts, axis=0) for part in made["clean"])
    return made


def _wants_clean(subject: Subject) -> bool:
    return "question" in subject.takes.values() or subject.group in ("scorers",) or (
        subject.group == "joined" and subject.name != "compare_calibrators"
    )  # fmt: skip


def _good_layout(role: str, sample: Sample, rng: np.random.Generator) -> Hostile:
    table = hostile_table(role, sample)
    names = ("Fortran order", "list", "pandas", "polars", "read-only", "memmap", "big-endian")
    names = tuple(name for name in names if name in table)
    return table[names[int(rng.integers(len(names)))]]()


def run(calls: int, seed: int) -> Iterator[tuple[Case, int, str, str]]:
    """Yield the case, its own seed, outcome and fault of calls.

    All mistakes are among the first, as many others between them.
    """
    mistaken, others = every_case()
    rng = np.random.default_rng(seed)
    others = [others[i] for i in rng.permutation(len(others))]
    first = mistaken + others[: len(mistaken)]
    order = [first[i] for i in rng.permutation(len(first))]
    done = 0
    for case in chain(order, cycle(others[len(mistaken) :])):
        if done == calls:
            return
        own = int(rng.integers(2**31))
        outcome, fault = run_case(case, own)
        if outcome == "not for this subject":
            continue
        yield case, own, outcome, fault
        done += 1
