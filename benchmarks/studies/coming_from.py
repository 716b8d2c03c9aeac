"""The same line in another library and in skcalib, run on the same rows.

``python -m benchmarks.studies.coming_from`` prints, for each library that is installed, pairs of
lines and how far their results are from each other, with 2 and with 10 classes. ``--write`` puts
that into the pages docs/from_*.md, below the line ``<!-- measured -->``.

The lines are evaluated as they are printed. ``X, y`` are rows new to ``model`` and ``X_new``
others; ``P`` and ``P_new`` are over-confident probabilities, of logits 2.5 times too large, and
``p_new`` is the column of P_new of the last class, ``event`` whether that is the label.
"""

from __future__ import annotations

import argparse
import warnings
from collections.abc import Sequence
from importlib import import_module
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from sklearn.datasets import make_classification
from sklearn.naive_bayes import GaussianNB
from sklearn.svm import LinearSVC

import skcalib
import skcalib.metrics
from benchmarks._shared.peers import version

DOCS = Path(__file__).parents[2] / "docs"
MARK = "<!-- measured -->"
CLASSES = (2, 10)
EQUAL = 1e-10
NEARLY = 1e-3


class Pair(NamedTuple):
    """A line there, the line here, and why their numbers differ.

    {P}, {P_new} and {Y_new} are all columns and labels; of two classes, a column and the event.
    """

    title: str
    there: str
    here: str
    why: str = ""
    classes: tuple[int, ...] = CLASSES


FROZEN = "CalibratedClassifierCV(FrozenEstimator({}), method={!r})"
FITTED = ".fit(X, y).predict_proba(X_new)"
OF_MODEL = "CalibratedClassifier(FrozenEstimator({}), {!r})" + FITTED
FOLDS = "CalibratedClassifierCV({}, method={!r}, ensemble={}, cv=5)" + FITTED
OURS = "CalibratedClassifier({}, {!r}, ensemble={}, cv=5)" + FITTED
BY_VALUES = (
    "scikit-learn maps the decision values of a class, skcalib the probabilities that their "
    "softmax gives. With two classes that is the same map, but for rows whose probabilities round "
    "to 1."
)
ZEROS = (
    "an exact 0 counts as half the smallest probability above 0 of the calibration rows here; "
    "scikit-learn adds 1e-12 to every probability."
)


def of_frozen(name: str, method: str, ours: str, why: str = "") -> Pair:
    """Return the pair for a fitted model."""
    there, here = (FROZEN + FITTED).format(name, method), OF_MODEL.format(name, ours)
    kind = "decision values" if name == "svm" else "probabilities"
    return Pair(f"A fitted model with {kind}: {method}", there, here, why)


def of_folds(name: str, method: str, ours: str, ensemble: bool, why: str = "") -> Pair:
    """Return the pair for a model that is fitted in folds."""
    there, here = FOLDS.format(name, method, ensemble), OURS.format(name, ours, ensemble)
    kind = "a model for each fold" if ensemble else "one model of all rows"
    return Pair(f"In folds, {kind}: {method}", there, here, why)


SKLEARN = [
    of_frozen("bayes", "isotonic", "isotonic"),
    of_frozen("svm", "isotonic", "isotonic", BY_VALUES),
    of_frozen("bayes", "temperature", "temperature", ZEROS),
    of_frozen("svm", "temperature", "temperature"),
    of_frozen(
        "svm", "sigmoid", "platt",
        "scikit-learn moves the labels 0 and 1 inwards, as Platt's paper does, and fits each "
        "class's decision value; skcalib fits the labels as they are, and each class's log-odds.",
    ),
    of_frozen(
        "bayes", "sigmoid", "platt",
        "scikit-learn fits the sigmoid to the probability itself, skcalib to its log-odds. A "
        "sigmoid of a probability cannot leave a calibrated model as it is.",
    ),
    of_folds("GaussianNB()", "isotonic", "isotonic", True),
    of_folds("GaussianNB()", "isotonic", "isotonic", False),
    of_folds("LinearSVC()", "temperature", "temperature", False),
    of_folds("GaussianNB()", "temperature", "temperature", True, ZEROS),
]  # fmt: skip


def of_netcal(path: str, ours: str, why: str = "") -> Pair:
    """Return the pair for a calibrator; of two classes netcal gets one column."""
    there = f"netcal.{path}.fit({{P}}, y).transform({{P_new}})"
    here = f"{ours}.fit(P, y).predict_proba(P_new)"
    return Pair(ours.split("(")[0], there, here, why)


NETCAL = [
    of_netcal("scaling.TemperatureScaling()", "TemperatureScaling()"),
    of_netcal("binning.IsotonicRegression()", "IsotonicCalibrator()"),
    of_netcal("binning.HistogramBinning(15)", "HistogramBinning(n_bins=15)"),
    of_netcal("scaling.LogisticCalibration()", "PlattScaling()")._replace(classes=(2,)),
    of_netcal(
        "scaling.LogisticCalibration()", "VectorScaling(penalty=None)",
        "both minimise the same log loss, and their optimisers stop a little apart.",
    )._replace(classes=(10,)),
    of_netcal(
        "scaling.BetaCalibration()", "BetaCalibrator()",
        "with more than two classes netcal fits one model of all classes, skcalib each class "
        "against the rest.",
    ),
    of_netcal(
        "binning.BBQ()", "BayesianBinning()",
        "by default, netcal has bins of even width and weighs the numbers of bins by BIC; skcalib "
        "has bins of equal numbers of rows and the paper's score.",
    ),
    Pair(
        "ECE", "netcal.metrics.ECE(15).measure({P_new}, y_new)",
        "expected_calibration_error({Y_new}, {P_new}, n_bins=15)",
    ),
    Pair(
        "MCE", "netcal.metrics.MCE(15).measure({P_new}, y_new)",
        "maximum_calibration_error({Y_new}, {P_new}, n_bins=15)",
    ),
    Pair(
        "ECE, bins of equal numbers of rows",
        "netcal.metrics.ECE(15, equal_intervals=False).measure({P_new}, y_new)",
        "expected_calibration_error({Y_new}, {P_new}, n_bins=15, strategy='quantile')",
    ),
    Pair(
        "ACE: all bins count the same", "netcal.metrics.ACE(15).measure({P_new}, y_new)",
        "general_calibration_error({Y_new}, {P_new}, n_bins=15, max_prob=True, "
        "bin_weight='uniform')",
        "netcal takes the mean of the bins that have rows; here a bin without rows has no gap.",
    ),
    Pair(
        "MMCE", "netcal.metrics.MMCE().measure({P_new}, y_new)",
        "maximum_mean_calibration_error({Y_new}, {P_new})", classes=(10,),
    ),
]  # fmt: skip


def of_probmetrics(name: str, ours: str, why: str = "") -> Pair:
    """Return the pair for a calibrator that probmetrics knows by name."""
    there = f"get_calibrator({name!r}).fit(P, y).predict_proba(P_new)"
    here = f"{ours}.fit(P, y).predict_proba(P_new)"
    return Pair(f"{name}", there, here, why)


STRUCTURED = (
    "both draw the map towards a temperature by a penalty of strength K / n; the cause of the rest "
    "was not traced."
)
PROBMETRICS = [
    of_probmetrics("temp-scaling", "TemperatureScaling()"),
    of_probmetrics("isotonic", "IsotonicCalibrator()"),
    of_probmetrics("affine-scaling", "PlattScaling()")._replace(classes=(2,)),
    of_probmetrics("quadratic-scaling", "PlattScaling(degree=2)")._replace(classes=(2,)),
    of_probmetrics("svs", "VectorScaling()", STRUCTURED),
    of_probmetrics("sms", "MatrixScaling()", STRUCTURED),
    of_probmetrics(
        "platt", "PlattScaling()",
        "probmetrics calls scikit-learn, which fits the sigmoid to the probability itself.",
    ),
    Pair(
        "ece-15",
        "Metrics.from_names(['ece-15']).compute_all_from_labels_probs("
        "tensor(y_new), tensor(P_new))['ece-15']",
        "general_calibration_error(y_new, P_new, n_bins=15)",
        "probmetrics computes in float32.",
    ),
]  # fmt: skip

SINGLE = "torchmetrics computes the largest probability in float32."
TORCHMETRICS = [
    Pair(
        f"{name}: norm={norm!r}",
        f"multiclass_calibration_error(tensor(P_new), tensor(y_new), K, n_bins=15, norm={norm!r})",
        f"{here}",
        SINGLE,
    )
    for name, norm, here in (
        ("ECE", "l1", "general_calibration_error(y_new, P_new, n_bins=15)"),
        ("MCE", "max", "general_calibration_error(y_new, P_new, n_bins=15, norm='max')"),
        ("RMSCE", "l2", "general_calibration_error(y_new, P_new, n_bins=15, norm='l2')"),
    )
] + [
    Pair(
        "One event",
        "binary_calibration_error(tensor(p_new), tensor(event), n_bins=15)",
        "expected_calibration_error(event, p_new, n_bins=15)",
    ),
    Pair(
        "Probabilities of exactly 1",
        "binary_calibration_error(tensor(p_one), tensor(hits), n_bins=10)",
        "expected_calibration_error(hits, p_one, n_bins=10)",
        "1.0 has a bin of its own there, and lies in the last bin here.",
        (2,),
    ),
]  # fmt: skip

LIBRARIES = {
    "scikit-learn": ("from_sklearn.md", SKLEARN),
    "netcal": ("from_netcal.md", NETCAL),
    "probmetrics": ("from_probmetrics.md", PROBMETRICS),
    "torchmetrics": ("from_torchmetrics.md", TORCHMETRICS),
}


# --- run ------------------------------------------------------------------------------------


def rows(n_classes: int) -> dict[str, Any]:
    """Return what the lines name: rows, scores and fitted models."""
    X, y = make_classification(
        6000, 20, n_informative=10, n_classes=n_classes, class_sep=0.7, random_state=0
    )
    train, fit, new = slice(0, 2000), slice(2000, 4000), slice(4000, None)
    rng = np.random.default_rng(n_classes)
    Z = 2.5 * (rng.normal(size=(6000, n_classes)) + 1.6 * np.eye(n_classes)[y])
    P = np.exp(Z - Z.max(axis=1, keepdims=True))
    P /= P.sum(axis=1, keepdims=True)
    p_one = np.repeat([0.55, 0.95, 1.0], 100)
    return {
        "X": X[fit], "y": y[fit], "P": P[fit], "p": P[fit, -1],
        "X_new": X[new], "y_new": y[new], "P_new": P[new], "p_new": P[new, -1],
        "event": (y[new] == n_classes - 1).astype(int), "K": n_classes,
        "p_one": p_one, "hits": np.repeat([1, 1, 1, 0], [100, 100, 80, 20]),
        "bayes": GaussianNB().fit(X[train], y[train]),
        "svm": LinearSVC(random_state=0).fit(X[train], y[train]),
    }  # fmt: skip


def names_of(library: str) -> dict[str, Any]:
    """Return what the lines of a library import."""
    imports = {
        "scikit-learn": {
            "sklearn.calibration": ["CalibratedClassifierCV"],
            "sklearn.frozen": ["FrozenEstimator"],
            "sklearn.naive_bayes": ["GaussianNB"],
            "sklearn.svm": ["LinearSVC"],
        },
        "netcal": {"netcal.scaling": [], "netcal.binning": [], "netcal.metrics": []},
        "probmetrics": {
            "probmetrics.calibrators": ["get_calibrator"],
            "probmetrics.metrics": ["Metrics"],
            "torch": ["tensor"],
        },
        "torchmetrics": {
            "torchmetrics.functional.classification": [
                "multiclass_calibration_error",
                "binary_calibration_error",
            ],
            "torch": ["tensor"],
        },
    }[library]
    found: dict[str, Any] = {}
    for module in imports:
        import_module(module)
        root = module.split(".")[0]
        found[root] = import_module(root)
    for module, names in imports.items():
        found |= {name: getattr(import_module(module), name) for name in names}
    return found


def distance(pair: Pair, library: str, n_classes: int) -> tuple[float, float]:
    """Return the largest and the mean distance of what the two lines give."""
    names = {**vars(skcalib), **vars(skcalib.metrics), **names_of(library), **rows(n_classes)}
    two = n_classes == 2
    column = {"P": "p", "P_new": "p_new", "Y_new": "event"} if two else {}
    columns = {"P": "P", "P_new": "P_new", "Y_new": "y_new"} | column
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        there, here = (
            np.asarray(eval(line.format(**columns), dict(names)), dtype=float)
            for line in (pair.there, pair.here)
        )
    if there.ndim == 1 and here.ndim == 2:
        here = here[:, 1]
    apart = np.abs(there - here)
    return float(apart.max()), float(apart.mean())


def verdict(found: dict[int, tuple[float, float]]) -> str:
    """Return in words how far apart the numbers are."""
    said = {}
    for n_classes, (most, mean) in found.items():
        if most <= EQUAL:
            said[n_classes] = "equal"
        elif most <= NEARLY:
            said[n_classes] = f"equal to within {10.0 ** np.ceil(np.log10(most)):.0e}"
        else:
            said[n_classes] = f"different by at most {most:.2g}, on average {mean:.1g}"
            if most == mean:  # a single number
                said[n_classes] = f"different by {most:.2g}"
    if len(set(said.values())) == 1 and len(said) == len(CLASSES):
        return f"{next(iter(said.values())).capitalize()}."
    parts = [f"{words} with {n_classes} classes" for n_classes, words in said.items()]
    return "; ".join(parts).capitalize() + "."


def shown(pair: Pair) -> str:
    """Return both lines as a page shows them."""
    lines = f"{pair.there}\n{pair.here}".format(P="P", P_new="P_new", Y_new="y_new")
    return lines.replace("(bayes)", "(model)").replace("(svm)", "(model)").replace("'", '"')


def measured(library: str, pairs: Sequence[Pair]) -> str:
    """Return the section of a page: each pair of lines with its verdict."""
    lines = [
        f"Measured with {library} {version(library)} on 2,000 rows of 2 and of 10 "
        "classes, and 2,000 others where something is fitted, by "
        "`python -m benchmarks.studies.coming_from`. The first line of a "
        f"block is that of {library}, the second that of skcalib."
    ]
    for pair in pairs:
        found = {n_classes: distance(pair, library, n_classes) for n_classes in pair.classes}
        said = verdict(found)
        why = f" Why: {pair.why}" if pair.why and not said.startswith("Equal.") else ""
        lines += [f"### {pair.title}", f"```\n{shown(pair)}\n```", said + why]
    return "\n\n".join(lines) + "\n"


def main(argv: Sequence[str] | None = None) -> None:
    """Print or write what is measured of each library that is installed."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--write", action="store_true", help="into the pages docs/from_*.md")
    args = parser.parse_args(argv)
    for library, (name, pairs) in LIBRARIES.items():
        if version(library) is None:
            print(f"{library} is not installed\n")
            continue
        text = measured(library, pairs)
        print(text)
        if args.write:
            page = DOCS / name
            page.write_text(page.read_text().split(MARK)[0] + MARK + "\n\n" + text)


if __name__ == "__main__":
    main()
