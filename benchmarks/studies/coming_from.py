"""The same line in another library and in skcalib, run on the same rows.

``python -m benchmarks.studies.coming_from`` reads the tables of the page coming_from.md in this
folder, whose rows are the line of a library, the line of skcalib, and whether the results are
equal. For each library that is installed, the program runs both lines and prints the largest
difference of their results. ``--write`` writes it into the page, and a short form into the page
docs/coming_from.md.

Calibrators are fitted to ``P, y`` or ``X, y`` and predict other rows; errors measure those. Rows
are of several kinds, see `scores` and `models`, and of 2 and of 10 classes, unless the words before
the line say of how many.
"""

from __future__ import annotations

import argparse
import re
import warnings
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from scipy.special import softmax
from sklearn.datasets import load_digits, make_classification
from sklearn.ensemble import RandomForestClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.naive_bayes import GaussianNB
from sklearn.svm import LinearSVC

import skcalib
import skcalib.metrics
from benchmarks._shared.peers import version

PAGE = Path(__file__).parent / "coming_from.md"
GUIDE = Path(__file__).parents[2] / "docs" / "coming_from.md"
# The words before the line there, the lines there and here, what is measured, and why.
ROW = re.compile(r"^(\| ([^`|]*)`([^`]+)` \| `([^`]+)` \| )(.*?)((?:; why: [^|]*)? \|)$", re.M)
EQUAL = 1e-10
NEARLY = 1e-3
N = 1000  # rows to fit, and new ones
SCORES = (
    "over-confident rows",
    "under-confident rows",
    "gaps of both signs",
    "ties",
    "votes with zeros",
)
OF_PROBABILITIES = ("naive Bayes", "a forest", "naive Bayes of digits")
OF_VALUES = ("an SVM", "a logistic regression")
IMPORTS = {
    "scikit-learn": "from sklearn.calibration import CalibratedClassifierCV\n"
    "from sklearn.frozen import FrozenEstimator",
    "netcal": "import netcal.binning, netcal.metrics, netcal.scaling",
    "probmetrics": "from probmetrics.calibrators import get_calibrator\n"
    "from probmetrics.metrics import Metrics\nfrom torch import tensor",
    "torchmetrics": "from torchmetrics.functional.classification import *\n"
    "from torch import tensor",
}


# What follows a calibrator there and here, and an error there.
FIT = ".fit(P, y).predict_proba(P_new)"
FITS = {
    "scikit-learn": (".fit(X, y).predict_proba(X_new)",) * 2,
    "netcal": (".fit(P, y).transform(P_new)", FIT),
}
ERRORS = {
    "probmetrics": '.compute_all_from_labels_probs(tensor(y), tensor(P))["ece-15"]',
}


class Pair(NamedTuple):
    """A line there, a line here, and what to run them on."""

    title: str
    there: str
    here: str
    kinds: tuple[str, ...]
    classes: tuple[int, ...]


def section_of(library: str) -> str:
    """Return the section of a library."""
    return PAGE.read_text().split(f"\n## {library}\n")[1].split("\n## ")[0]


def pair_of(library: str, words: str, there: str, here: str) -> Pair:
    """Return the pair of a row of the page."""
    of_models = OF_VALUES if "decision values" in words else OF_PROBABILITIES
    kinds = of_models if library == "scikit-learn" else SCORES
    only = re.search(r"(\d+) classes", words)
    if "(y, P" in here:
        there += ERRORS.get(library, "")
    else:
        there, here = (
            line + fit
            for line, fit in zip((there, here), FITS.get(library, (FIT, FIT)), strict=True)
        )
    return Pair(words + there, there, here, kinds, (int(only[1]),) if only else (2, 10))


def pairs_of(library: str) -> Iterator[Pair]:
    """Yield the pairs of the section of a library."""
    for row in ROW.finditer(section_of(library)):
        yield pair_of(library, *row.groups()[1:4])


def scores(kind: str, n_classes: int) -> dict[str, Any]:
    """Return probabilities of a kind, and labels drawn from the true ones.

    Logits are too large, or too small, or else too large in rows whose largest is, and too small in
    the others. Ties are multiples of 1/40, and votes those of 20 trees; the label mostly follows an
    odd number of votes, so that the gaps of neighbouring scores differ in sign.
    """
    rng = np.random.default_rng(n_classes)
    z = 2 * rng.normal(size=(2 * N, n_classes))
    y = (z + rng.gumbel(size=z.shape)).argmax(axis=1)
    top = z.max(axis=1, keepdims=True)
    by_size = np.where(top > np.median(top), 2.5, 0.4)
    factor = {"over-confident rows": 2.5, "under-confident rows": 0.4}.get(kind, by_size)
    P = softmax(factor * z, axis=1)
    if kind == "ties":
        P = (rng.multinomial(40 - n_classes, P) + 1) / 40
    if kind == "votes with zeros":
        P = rng.multinomial(20, P) / 20
        odd = (20 * P.max(axis=1)).round() % 2 == 1
        y = np.where(odd & (rng.random(2 * N) < 0.8), P.argmax(axis=1), y)
    return {"P": P[:N], "y": y[:N], "P_new": P[N:], "y_new": y[N:], "K": n_classes}


def models(kind: str, n_classes: int) -> dict[str, Any]:
    """Return rows and a model fitted to others; digits are two classes by their half."""
    X, y = make_classification(
        3 * N, 20, n_informative=10, n_classes=n_classes, class_sep=0.7, flip_y=0.2, random_state=0
    )
    if kind == "naive Bayes of digits":
        X, y = load_digits(return_X_y=True)
        y = y if n_classes == 10 else (y >= 5).astype(int)
    n = len(y) // 3
    model = {
        "a forest": RandomForestClassifier(20, random_state=0),
        "an SVM": LinearSVC(random_state=0),
        "a logistic regression": LogisticRegression(max_iter=1000),
    }.get(kind, GaussianNB())
    fit = slice(n, n + 300 if kind == "a logistic regression" else 2 * n)
    return {"model": model.fit(X[:n], y[:n]), "X": X[fit], "y": y[fit], "X_new": X[2 * n :]}


def distance(pair: Pair, library: str, kind: str, n_classes: int) -> float:
    """Return the largest distance of what the lines give, NaN for an error there."""
    rows = (scores if kind in SCORES else models)(kind, n_classes)
    if library == "netcal" and n_classes == 2:
        rows |= {"P": rows["P"][:, 1], "P_new": rows["P_new"][:, 1]}
    if "(y, P" in pair.here:
        rows |= {"P": rows["P_new"], "y": rows["y_new"]}
    names = {**vars(skcalib), **vars(skcalib.metrics), **rows}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        exec(IMPORTS[library], names)
        here = np.asarray(eval(pair.here, names), dtype=float)
        try:
            there = np.asarray(eval(pair.there, names), dtype=float)
        except ValueError:
            return np.nan
    return float(np.abs(there - (here[:, 1] if there.ndim < here.ndim else here)).max())


def verdict(apart: dict[str, float]) -> str:
    """Return in words how far apart the numbers are, by the kind of rows unless all differ."""
    near = [most for most in apart.values() if most <= NEARLY]
    far = {kind: most for kind, most in apart.items() if most > NEARLY}
    if len(far) == len(apart):
        return f"no, up to {max(far.values()):.2g}"
    within = 10.0 ** np.ceil(np.log10(max(EQUAL, *near)))
    apart_in = ", ".join(f"{kind} {most:.2g}" for kind, most in far.items())
    errors = ", ".join(kind for kind, most in apart.items() if np.isnan(most))
    said = f"to {within:.0e}" if within > EQUAL else "yes"
    said += f", but {apart_in}" if apart_in else ""
    return said + (f"; the other package raises an error for {errors}" if errors else "")


def measure(library: str, pair: Pair) -> str:
    """Return in words how far apart the lines of a pair are, for each number of classes."""
    said = {
        K: verdict({kind: distance(pair, library, kind, K) for kind in pair.kinds})
        for K in pair.classes
    }
    if len(set(said.values())) == 1:
        return next(iter(said.values()))
    return "; ".join(f"{K} classes: {words}" for K, words in said.items())


def short(measured: str, why: str) -> str:
    """Return what the guide says of a measured difference: yes, to 1e-06 or no, and a footnote.

    Results that differ for more than two kinds of rows are not equal.
    """
    of_classes = re.findall(r"(?:^|; )(?:(\d+) classes: )?(yes|no|to [^,;]+)([^;]*)", measured)
    said = {K: "no" if but.count(",") > 2 else equal for K, equal, but in of_classes}
    words = list(dict.fromkeys(said.values()))
    if all(word.startswith("to ") for word in words):
        words = [max(words, key=lambda word: float(word[3:]))]
    if len(words) > 1:
        words = [f"{K} classes: {word}" for K, word in said.items()]
    notes = ", ".join(f"*{note}*" for note in why.removeprefix("; why: ").split(", ") if note)
    return "; ".join(words) + (f" ({notes})" if notes else "")


def main(argv: Sequence[str] | None = None) -> None:
    """Print or write what is measured of each library that is installed."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("libraries", nargs="*", default=list(IMPORTS))
    parser.add_argument("--write", action="store_true", help="into both pages")
    args = parser.parse_args(argv)
    for library in args.libraries:
        if version(library) is None:
            print(f"{library} is not installed\n")
            continue
        text, guide = (section := section_of(library)), GUIDE.read_text()
        for row in ROW.finditer(section):
            measured = measure(library, pair_of(library, *row.groups()[1:4]))
            print(f"{row[1]}{measured}{row[6]}", flush=True)
            text = text.replace(row[0], f"{row[1]}{measured}{row[6]}")
            line = re.compile(rf"^{re.escape(row[1])}.*$", re.M)
            cell = short(measured, row[6].removesuffix(" |"))
            guide = line.sub(lambda _, cells=f"{row[1]}{cell} |": cells, guide)
        said, now = (
            rf"Measured with {library} \S+\.",
            f"Measured with {library} {version(library)}.",
        )
        if args.write:
            PAGE.write_text(PAGE.read_text().replace(section, re.sub(said, now, text)))
            GUIDE.write_text(re.sub(said, now, guide))


if __name__ == "__main__":
    main()
