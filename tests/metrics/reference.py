"""Slow, obvious references for the metrics: loops over rows and bins, nothing shared."""

import math

import numpy as np
from edges import places
from scipy import stats


def bins_of(scores, n_bins, strategy, closed, method):
    """Bin of each score of one binary problem."""
    method = method if strategy == "quantile" else "uniform"
    return [min(place) for place in places(scores, [1] * len(scores), n_bins, method, closed)]


def problems(y, P, max_prob, class_conditional, threshold):
    """The binary problems as lists of (score, hit)."""
    n, K = P.shape
    out = []
    if max_prob:
        top = [min(range(K), key=lambda k, i=i: (-P[i, k], k)) for i in range(n)]
        pairs = [(float(P[i, top[i]]), int(top[i] == y[i])) for i in range(n)]
        if class_conditional:
            out = [[pairs[i] for i in range(n) if top[i] == k] for k in range(K)]
        else:
            out = [pairs]
    else:
        out = [[(float(P[i, k]), int(y[i] == k)) for i in range(n)] for k in range(K)]
        if not class_conditional:
            out = [[(float(P[i, k]), int(y[i] == k)) for i in range(n) for k in range(K)]]
    if threshold is not None:
        out = [[pair for pair in pairs if pair[0] > threshold] for pairs in out]
    return out


def equals_loop(metric, slow, y, P, atol=1e-12, **keywords):
    """Compare the error of the top label and that of each class with `slow` of their pairs."""
    for mode, average in (("top", "macro"), ("classwise", None)):
        each = problems(y, P, mode == "top", mode == "classwise", None)
        found = metric(y, P, mode=mode, average=average, labels=range(P.shape[1]), **keywords)
        expected = [slow(pairs) for pairs in each]
        np.testing.assert_allclose(np.atleast_1d(found), expected, rtol=0, atol=atol)


def gce(
    y,
    P,
    *,
    max_prob=True,
    class_conditional=False,
    threshold=None,
    class_weight="uniform",
    bin_weight="count",
    average="macro",
    n_bins=15,
    strategy="uniform",
    norm="l1",
    closed="right",
    quantile_method="edges",
):
    """General calibration error of integer labels, by loops."""
    q = {"l1": 1, "l2": 2, "max": 1}.get(norm, norm)
    each, kept, worst = [], [], []
    for pairs in problems(y, P, max_prob, class_conditional, threshold):
        cells = [[] for _ in range(n_bins)]
        where = bins_of([s for s, _ in pairs], n_bins, strategy, closed, quantile_method)
        for pair, b in zip(pairs, where, strict=True):
            cells[b].append(pair)
        total, largest = 0.0, 0.0
        for cell in cells:
            if not cell:
                continue
            conf = math.fsum(s for s, _ in cell) / len(cell)
            acc = sum(t for _, t in cell) / len(cell)
            mass = len(cell) / len(pairs) if bin_weight == "count" else 1 / n_bins
            total += mass * abs(acc - conf) ** q
            largest = max(largest, abs(acc - conf))
        each.append(total)
        worst.append(largest)
        kept.append(len(pairs))
    if norm == "max":
        return max(worst) if average else np.array(worst)
    if average is None:
        return np.array(each) ** (1 / q)
    if class_weight == "count":
        share = [k / max(sum(kept), 1) for k in kept]
    else:
        share = [1 / len(each)] * len(each)
    return sum(c * e for c, e in zip(share, each, strict=True)) ** (1 / q)


def ks(scores, hits):
    """Largest gap of the cumulative curves at the end of each group of equal scores."""
    n = len(scores)
    largest = 0.0
    for sigma in scores:
        below = [i for i in range(n) if scores[i] <= sigma]
        gap = math.fsum(scores[i] for i in below) - sum(hits[i] for i in below)
        largest = max(largest, abs(gap) / n)
    return largest


def top(y, P, r, within):
    """Score and hit of the r-th largest probability, or of the r largest."""
    n, K = P.shape
    scores, hits = [], []
    for i in range(n):
        order = sorted(range(K), key=lambda k, i=i: (-P[i, k], k))
        if within:
            scores.append(1.0 if r == K else min(1.0, float(sum(P[i, k] for k in order[:r]))))
            hits.append(int(y[i] in order[:r]))
        else:
            scores.append(float(P[i, order[r - 1]]))
            hits.append(int(y[i] == order[r - 1]))
    return scores, hits


def predictions(K, n, seed, kind="plain"):
    """Labels and probabilities of a kind: plain, ties, hard (exact 0 and 1), sparse."""
    rng = np.random.default_rng(seed)
    if kind == "ties":
        P = rng.multinomial(10, np.full(K, 1 / K), size=n) / 10
    elif kind == "hard":
        P = np.eye(K)[rng.integers(K, size=n)]
        P[: n // 2] = rng.dirichlet(np.full(K, 0.5), n // 2)
    else:
        P = rng.dirichlet(np.full(K, 0.03 if kind == "sparse" else 1.0), n)
    y = np.array([rng.choice(K, p=p / p.sum()) for p in P])
    flip = rng.random(n) < 0.3
    y[flip] = rng.integers(K, size=flip.sum())
    y[0] = 0
    y[y == K - 1] = 0  # the last class never occurs
    return y, P


def balanced(shares, power=0.0):
    """Bell and McCaffrey by matrices: residuals' parts of their variances, degrees of freedom."""
    s = np.array(shares, dtype=float) / sum(shares)
    V, M = np.diag(s**power), np.eye(s.size) - s  # residuals are M m
    S = M @ V @ M.T
    part = np.diag(S) / np.diag(V)
    root = np.diag(s / np.sqrt(part))
    B = root @ S @ root
    return part, np.trace(B) ** 2 / (B * B).sum()


def student_ends(D, N, level=0.95, power=0.0):
    """Of a ratio of sums, by the variance of its residuals."""
    ratio, (part, freedom) = sum(D) / sum(N), balanced(N, power)
    square = sum(((d - ratio * n) / sum(N)) ** 2 / p for d, n, p in zip(D, N, part, strict=True))
    half = stats.t.ppf((1 + level) / 2, freedom) * np.sqrt(square)
    return ratio - half, ratio + half
