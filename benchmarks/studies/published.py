"""Published calibration errors beside those measured here.

``python -m benchmarks.studies.published PATH`` calibrates on one part of a file of logits, measures
on the other and prints a Markdown table. The published numbers are those of Gupta et al. (2021) for
the networks of Kull et al. (2019). PATH is one of the files of Kull et al.,
``probs_NAME_logits.p``, or an ``.npz`` with ``logits`` (n, K), ``labels`` (n,) and ``split`` (n,; 0
to calibrate, 1 to measure); ``--network NAME`` says which network an ``.npz`` is of.

``published.csv`` contains the numbers of Gupta et al., in per cent. A network goes by the name of
its file, ``probs_NAME_logits.p``.
"""

from __future__ import annotations

import argparse
import pickle
from pathlib import Path
from typing import IO, Any, NamedTuple

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from sklearn.metrics import log_loss
from sklearn.model_selection import GridSearchCV

from benchmarks._shared.report import fill, markdown
from skcalib import (
    DirichletCalibrator,
    IdentityCalibrator,
    MatrixScaling,
    SplineCalibrator,
    TemperatureScaling,
    VectorScaling,
)
from skcalib.metrics import binary_view, expected_calibration_error, ks_calibration_error

PUBLISHED = pd.read_csv(Path(__file__).with_name("published.csv"), index_col=["network", "row"])
METHODS, NETWORKS = list(PUBLISHED), list(PUBLISHED.index.unique("network"))
ODIR = {"MS-ODIR": MatrixScaling, "Dir-ODIR": DirichletCalibrator}
SPLITS = ("logits", "labels", "split")


class Row(NamedTuple):
    """A row of the table: which error, of what, and how many knots the paper's spline had."""

    name: str
    metric: str
    mode: str
    r: int
    n_knots: int


ROWS = (
    Row("KS error top-1 (Table 1)", "ks", "top", 1, 6),
    Row("KS error top-2 (Table 2)", "ks", "top", 2, 6),
    Row("KS error within top-2 (Table 4)", "ks", "within_top", 2, 14),
    Row("ECE top-1, 25 bins (Table 6)", "ece", "top", 1, 13),
    Row("accuracy (Table 5)", "accuracy", "top", 1, 6),
)


class Split(NamedTuple):
    """Logits and labels 0..K-1 of the rows to calibrate on and of those to measure on."""

    fit_logits: NDArray[Any]
    fit_labels: NDArray[np.intp]
    test_logits: NDArray[Any]
    test_labels: NDArray[np.intp]


class NumbersOnly(pickle.Unpickler):
    """Reads a pickle of NumPy arrays, and refuses one that asks for anything else."""

    def find_class(self, module: str, name: str) -> Any:
        """Return what arrays are made by."""
        makers = {"_reconstruct": np.empty(0).__reduce__()[0], "ndarray": np.ndarray}
        makers["dtype"] = np.dtype
        if module.split(".")[0] != "numpy" or name not in makers:
            raise pickle.UnpicklingError(
                f"the file asks for {module}.{name}: arrays alone are read"
            )
        return makers[name]


def read_pickle(file: IO[bytes]) -> Split:
    """Read ``((logits, labels), (logits, labels))``: the calibration rows, then the test rows."""
    (fit_logits, fit_labels), (test_logits, test_labels) = NumbersOnly(file).load()
    return Split(
        fit_logits, np.ravel(fit_labels).astype(int), test_logits, np.ravel(test_labels).astype(int)
    )


def read(path: Path) -> Split:
    """Read an ``.npz``, or a file of Kull et al."""
    if path.suffix == ".npz":
        with np.load(path) as data:
            logits, labels, split = (data[name] for name in SPLITS)
        fit, test = split == 0, split == 1
        return Split(logits[fit], labels[fit].astype(int), logits[test], labels[test].astype(int))
    with path.open("rb") as file:
        return read_pickle(file)


def named_network(path: Path) -> str | None:
    """Return the network that the name of a file says, or None."""
    return max((name for name in NETWORKS if name in path.name), key=len, default=None)


def kull_grid(n_classes: int) -> dict[str, NDArray[np.float64]]:
    """Return the penalties that the programs of Kull et al. try, in the units of this package.

    Those programs do not divide the sums of squares by K (K - 1) and K, as the paper does, and
    neither does this package: their numbers are ``reg_lambda`` and ``reg_mu``.
    """
    powers = 10.0 ** np.arange(-2 if n_classes >= 100 else -5, 7)
    return {
        "reg_lambda": np.sort(np.concatenate([powers / 4, powers / 2, powers])),
        "reg_mu": powers,
    }


def binary_error(metric: str, score: NDArray[Any], hit: NDArray[np.bool_]) -> float:
    """Error, or accuracy, in percent, of one score for one event."""
    if metric == "ks":
        return 100 * ks_calibration_error(hit, score, mode="classwise", average=None)[1]
    if metric == "accuracy":
        return 100 * float(hit.mean())
    return 100 * expected_calibration_error(hit, score, pos_label=True, n_bins=25)


def fit_all(data: Split, n_jobs: int | None) -> dict[str, Any]:
    """Fit each method that maps whole rows; the ODIR ones with and without tuning."""
    classes = np.arange(data.fit_logits.shape[1])
    fitted = {
        "uncalibrated": IdentityCalibrator(input="logits", classes=classes),
        "temperature": TemperatureScaling(input="logits", classes=classes),
        "vector": VectorScaling(penalty=None, input="logits", classes=classes),
    }
    for name, kind in ODIR.items():
        default = kind(penalty="odir", input="logits", classes=classes)
        fitted[f"{name}, default"] = default
        fitted[name] = GridSearchCV(
            default, kull_grid(len(classes)), scoring="neg_log_loss", n_jobs=n_jobs
        )
    for model in fitted.values():
        model.fit(data.fit_logits, data.fit_labels)
    return fitted


def measure(data: Split, fitted: dict[str, Any]) -> dict[str, list[float]]:
    """Return the error of each of `ROWS`, in percent, of each method."""
    classes = np.arange(data.fit_logits.shape[1])
    proba = {name: model.predict_proba(data.test_logits) for name, model in fitted.items()}
    before = fitted["uncalibrated"].predict_proba(data.fit_logits)
    errors: dict[str, list[float]] = {name: [] for name in [*fitted, "spline"]}
    for row in ROWS:
        view: dict[str, Any] = {"mode": row.mode, "r": row.r, "labels": classes}
        for name, P in proba.items():
            score, hit = binary_view(data.test_labels, P, **view)
            errors[name].append(binary_error(row.metric, score, hit))
        # The paper's spline maps the one score that is measured, not the whole vector.
        spline = SplineCalibrator(mode="classwise", n_knots=row.n_knots, input="proba")
        spline.fit(*binary_view(data.fit_labels, before, **view))
        score, hit = binary_view(data.test_labels, proba["uncalibrated"], **view)
        errors["spline"].append(binary_error(row.metric, spline.predict_proba(score)[:, 1], hit))
    return errors


def cell(row: int, method: str, errors: dict[str, list[float]], network: str | None) -> str:
    """Return published / measured; of an ODIR method published / tuned / at its defaults."""
    numbers = [PUBLISHED[method][network, ROWS[row].name]] if network else []
    numbers += [errors[name][row] for name in (method, f"{method}, default") if name in errors]
    return " / ".join(f"{number:.3f}" for number in numbers)


def table(errors: dict[str, list[float]], network: str | None) -> list[str]:
    """Return the lines of the Markdown table."""
    before = ["published"] if network else []
    odir = " / ".join([*before, "tuned", "default"])
    heads = [f"{name}: {odir}" if name in ODIR else name for name in METHODS]
    rows = [
        [row.name, *(cell(i, method, errors, network) for method in METHODS)]
        for i, row in enumerate(ROWS)
    ]
    return markdown([f"{' / '.join([*before, 'measured'])}, %", *heads], rows, left=1)


def figures(data: Split, fitted: dict[str, Any]) -> list[str]:
    """Return what else tells a fit from another: T, the penalties chosen, log losses."""
    K = data.fit_logits.shape[1]
    lines = [f"T: {fitted['temperature'].temperature_:.4f}"]
    for name in ODIR:
        chosen = fitted[name].best_params_
        lam, mu = chosen["reg_lambda"], chosen["reg_mu"]
        lines.append(
            f"{name}: reg_lambda={lam:g}, reg_mu={mu:g}; as the paper writes it"
            f" {lam * K * (K - 1):g} and {mu * K:g}"
        )
    for name, model in fitted.items():
        loss = log_loss(data.test_labels, model.predict_proba(data.test_logits), labels=range(K))
        lines.append(f"log loss, {name}: {loss:.5f}")
    return [f"* {line}" for line in lines]


def main(arguments: list[str] | None = None) -> None:
    """Print the table for the file named on the command line."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("path", type=Path, help=".npz or probs_NAME_logits.p")
    parser.add_argument("--network", choices=NETWORKS, help="whose published numbers to show")
    parser.add_argument("--jobs", type=int, help="processes that try penalties")
    parser.add_argument("--page", type=Path, help="write the table into this page as well")
    options = parser.parse_args(arguments)
    data = read(options.path)
    fitted = fit_all(data, options.jobs)
    network = options.network or named_network(options.path)
    lines = [*table(measure(data, fitted), network), "", *figures(data, fitted)]
    print("\n".join(lines))
    if options.page:
        fill(options.page, "published", lines)


if __name__ == "__main__":
    main()
