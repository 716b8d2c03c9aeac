"""Errors against a known truth as labels become noisy (Nixon 2019, Figure 8; 2020, appendix B).

The paper's claim: as label noise grows, the classes beyond the predicted one matter more and ECE
becomes a worse approximation of the true calibration error than ACE and TACE.

``python -m benchmarks.studies.label_noise`` prints two tables.

* Known truth: labels of 10 classes are drawn from pi = softmax(z / x), from nearly certain (x
  small) to uniform (x large); the model says softmax(1.5 log pi + b) with fixed b. That is one to
  one, so P(y = k | p) = pi_k and the true error is known: the total variation distance
  E sum_k |p_k - pi_k| / 2 over all classes, and E|p - pi| of the predicted one. K/2 times SCE, ACE
  and TACE are in the same unit.
* Digits: logistic regression trained and tested with a share of labels drawn at random; ``missed``
  is the share of predictions above 0.1 that ECE does not look at.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pandas as pd
from scipy.special import log_softmax, softmax
from sklearn.datasets import load_digits
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import train_test_split

from benchmarks._shared.data import sample_labels
from benchmarks.studies._arguments import study_parser
from skcalib.metrics import (
    adaptive_calibration_error,
    expected_calibration_error,
    static_calibration_error,
    thresholded_adaptive_calibration_error,
)

N_CLASSES = 10
LABELS = np.arange(N_CLASSES)
ERRORS = {
    "ECE": (expected_calibration_error, 1.0),
    "SCE": (static_calibration_error, N_CLASSES / 2),
    "ACE": (adaptive_calibration_error, N_CLASSES / 2),
    "TACE": (thresholded_adaptive_calibration_error, N_CLASSES / 2),
}


def measure(y: np.ndarray, P: np.ndarray) -> dict[str, float]:
    """Return the four errors in the unit of the total variation distance."""
    return {name: unit * error(y, P, labels=LABELS) for name, (error, unit) in ERRORS.items()}


def known_truth(noise: float, n: int) -> dict[str, float]:
    """Return true and measured errors of a model that is wrong in a known way."""
    rng = np.random.default_rng(0)
    b = 0.3 * rng.normal(size=N_CLASSES)
    Z = log_softmax(rng.normal(size=(n, N_CLASSES)) / noise, axis=1)
    truth, P = np.exp(Z), softmax(1.5 * Z + b, axis=1)
    top = P.argmax(axis=1)[:, None]
    return {
        "truth, all": np.abs(P - truth).sum(axis=1).mean() / 2,
        "truth, top": np.abs(np.take_along_axis(P - truth, top, axis=1)).mean(),
        **measure(sample_labels(truth, rng), P),
    }


def digits(noise: float) -> dict[str, float]:
    """Return what logistic regression on digits shows when labels are noisy."""
    X, y = load_digits(return_X_y=True)
    rng = np.random.default_rng(0)
    y = np.where(rng.random(len(y)) < noise, rng.integers(N_CLASSES, size=len(y)), y)
    X_train, X_test, y_train, y_test = train_test_split(X / 16, y, test_size=0.5, random_state=0)
    P = LogisticRegression(max_iter=1000).fit(X_train, y_train).predict_proba(X_test)
    important = P > 0.1
    return {
        "accuracy": np.mean(P.argmax(axis=1) == y_test),
        "confidence": P.max(axis=1).mean(),
        **measure(y_test, P),
        "missed": 1 - np.sum(P.max(axis=1) > 0.1) / important.sum(),
    }


def main(argv: Sequence[str] | None = None) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Print both tables and return them."""
    parser = study_parser(__doc__, npz=False)
    parser.add_argument("--samples", type=int, default=20_000, help="rows of known truth")
    parser.add_argument("--x", type=float, nargs="+", default=[0.1, 0.2, 0.5, 1.0, 2.0, 5.0, 10.0])
    parser.add_argument("--noise", type=float, nargs="+", default=[0.0, 0.05, 0.1, 0.2, 0.4, 0.8])
    args = parser.parse_args(argv)

    simulated = pd.DataFrame({x: known_truth(x, args.samples) for x in args.x}).T
    print("Known truth, against x")
    print(simulated.to_string(float_format="{:.4f}".format), end="\n\n")
    off = simulated[list(ERRORS)].sub(simulated["truth, all"], axis=0)
    print("Measured over true error of all classes")
    ratio = 1 + off.div(simulated["truth, all"], axis=0)
    print(ratio.to_string(float_format="{:.2f}".format), end="\n\n")
    real = pd.DataFrame({noise: digits(noise) for noise in args.noise}).T
    print("Digits, against the share of random labels")
    print(real.to_string(float_format="{:.4f}".format))

    if args.figure:
        from matplotlib.figure import Figure

        figure = Figure(figsize=(10, 4), layout="constrained")
        left, right = figure.subplots(1, 2)
        for name in ("truth, all", "truth, top"):
            style = "k-" if name.endswith("all") else "k--"
            left.semilogx(simulated.index, simulated[name], style, lw=2, label=name)
        for name in ERRORS:
            left.semilogx(simulated.index, simulated[name], "o-", ms=3, label=name)
            right.plot(real.index, real[name], "o-", ms=3, label=name)
        right.plot(real.index, real["missed"], "k:", label="missed by ECE (share)")
        left.set(xlabel="x (flatness of the truth)", ylabel="error", title="known truth")
        right.set(xlabel="share of random labels", title="digits, logistic regression")
        left.legend()
        right.legend()
        figure.savefig(args.figure, dpi=120)
    return simulated, real


if __name__ == "__main__":
    main()
