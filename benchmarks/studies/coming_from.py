"""The same line in another library and in skcalib, run on the same rows.

``python -m benchmarks.studies.coming_from`` reads the pairs of lines of the pages docs/from_*.md,
below ``<!-- measured -->``, evaluates them as they stand there, for each library that is installed,
and prints how far their results are from each other; ``--write`` puts that into the pages.

``P, y`` and ``X, y`` are rows to fit, ``P_new, y_new`` and ``X_new`` others: of several kinds, see
`scores` and `models`, and of 2 and of 10 classes, unless the title of the pair says of how many.
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

DOCS = Path(__file__).parents[2] / "docs"
MARK = "<!-- measured -->"
# The title and the lines of a pair, what is measured, and why.
BLOCK = re.compile(r"(### (.+)\n\n```\n((?:.+\n)+)```\n\n)(.*?)(| Why: .*)\n")
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


class Pair(NamedTuple):
    """Lines there, a line here, and what to run them on."""

    title: str
    there: str
    here: str
    kinds: tuple[str, ...]
    classes: tuple[int, ...]


def page_of(library: str) -> Path:
    """Return the page for those who come from a library."""
    return DOCS / f"from_{library.replace('scikit-learn', 'sklearn')}.md"


def pair_of(title: str, lines: str) -> Pair:
    """Return the pair of a block of a page."""
    there, here = lines.rstrip().rsplit("\n", 1)
    of_models = OF_VALUES if "decision values" in title else OF_PROBABILITIES
    only = re.search(r"(\d+) classes", title)
    classes = (int(only[1]),) if only else (2, 10)
    return Pair(title, there, here, of_models if "X_new" in lines else SCORES, classes)


def pairs_of(library: str) -> Iterator[Pair]:
    """Yield the pairs of the page of a library."""
    for block in BLOCK.finditer(page_of(library).read_text().split(MARK)[1]):
        yield pair_of(block[2], block[3])


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


def distance(pair: Pair, library: str, kind: str, n_classes: int) -> tuple[float, float]:
    """Return the largest and the mean distance of what the lines give, NaN for an error there."""
    rows = (scores if kind in SCORES else models)(kind, n_classes)
    if library == "netcal" and n_classes == 2:
        rows |= {"P": rows["P"][:, 1], "P_new": rows["P_new"][:, 1]}
    names = {**vars(skcalib), **vars(skcalib.metrics), **rows, "np": np}
    *before, last = pair.there.split("\n")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        exec("\n".join([IMPORTS[library], *before]), names)
        here = np.asarray(eval(pair.here, names), dtype=float)
        try:
            there = np.asarray(eval(last, names), dtype=float)
        except ValueError:
            return np.nan, np.nan
    apart = np.abs(there - (here[:, 1] if there.ndim < here.ndim else here))
    return float(apart.max()), float(apart.mean())


def verdict(apart: dict[str, tuple[float, float]]) -> str:
    """Return in words how far apart the numbers are, by the kind of rows unless all differ."""
    near = [most for most, _ in apart.values() if most <= NEARLY]
    far = {f"for {kind} ": sizes for kind, sizes in apart.items() if sizes[0] > NEARLY}
    if len(far) == len(apart):
        far = {"": tuple(np.max(list(apart.values()), axis=0))}
    said = []
    if near:
        within = 10.0 ** np.ceil(np.log10(max(EQUAL, *near)))
        said.append(f"equal to within {within:.0e}" if within > EQUAL else "equal")
    sizes = [
        f"{kind}by up to {most:.2g}{f' ({mean:.1g})' if mean < most else ''}"
        for kind, (most, mean) in far.items()
    ]
    if sizes:
        said.append(f"different {', '.join(sizes)}")
    errors = [kind for kind, (most, _) in apart.items() if np.isnan(most)]
    if errors:
        said.append(f"an error there for {', '.join(errors)}")
    return " but ".join(said)


def measure(library: str, pair: Pair) -> str:
    """Return in words how far apart the lines of a pair are, for each number of classes."""
    said = {
        K: verdict({kind: distance(pair, library, kind, K) for kind in pair.kinds})
        for K in pair.classes
    }
    text = "; ".join(f"with {K} classes {words}" for K, words in said.items())
    if len(set(said.values())) == 1:
        text = next(iter(said.values()))
    return f"{text[0].upper()}{text[1:]}."


def main(argv: Sequence[str] | None = None) -> None:
    """Print or write what is measured of each library that is installed."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("libraries", nargs="*", default=list(IMPORTS))
    parser.add_argument("--write", action="store_true", help="into the pages docs/from_*.md")
    args = parser.parse_args(argv)
    for library in args.libraries:
        if version(library) is None:
            print(f"{library} is not installed\n")
            continue
        page = page_of(library)
        text = page.read_text()
        for block in BLOCK.finditer(text):
            said = measure(library, pair_of(block[2], block[3]))
            print(f"{block[1]}{said}{block[5]}\n", flush=True)
            text = text.replace(block[0], f"{block[1]}{said}{block[5]}\n")
        if args.write:
            measured = f"Measured with {library} {version(library)}"
            page.write_text(re.sub(rf"Measured with {library} \S+", measured, text))


if __name__ == "__main__":
    main()
