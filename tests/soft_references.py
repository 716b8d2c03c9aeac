"""Slow, obvious losses and soft errors, of lists of probabilities, labels and weights."""

import math


def row_entropy(p):
    return -math.fsum(v * math.log(v) for v in p if v > 0)


def top_problem(P, y):
    """(confidence, hit) of each row; the lowest column on ties."""
    return [(max(p), p.index(max(p)) == t) for p, t in zip(P, y, strict=True)]


def mean(cost, w):
    return math.fsum(c * v for c, v in zip(cost, w, strict=True)) / math.fsum(w)


def slow_nll(P, y, w):
    return mean([-math.log(p[t]) for p, t in zip(P, y, strict=True)], w)


def slow_brier(P, y, w):
    return mean(
        [
            math.fsum((p[k] - (k == t)) ** 2 for k in range(len(p)))
            for p, t in zip(P, y, strict=True)
        ],
        w,
    )


def slow_focal(P, y, w, gamma=2.0):
    return mean([-((1 - p[t]) ** gamma) * math.log(p[t]) for p, t in zip(P, y, strict=True)], w)


def slow_avuc(P, y, w, threshold=0.5, stop_gradient=False):
    n = dict.fromkeys(["AC", "AU", "IC", "IU"], 0.0)
    for p, (c, hit), v in zip(P, top_problem(P, y), w, strict=True):
        h = row_entropy(p)
        if hit and h < threshold:
            n["AC"] += v * c * (1 - math.tanh(h))
        elif hit:
            n["AU"] += v * c * math.tanh(h)
        elif h < threshold:
            n["IC"] += v * (1 - c) * (1 - math.tanh(h))
        else:
            n["IU"] += v * (1 - c) * math.tanh(h)
    return math.log(1 + (n["AU"] + n["IC"]) / (n["AC"] + n["IU"]))


def slow_soft_avuc(P, y, w, kappa=0.5, temperature=1.0):
    good = bad = 0.0
    for p, (_, hit), v in zip(P, top_problem(P, y), w, strict=True):
        h = row_entropy(p)
        share = min(max(h / math.log(len(p)), 1e-12), 1 - 1e-12)
        odds = share * (1 - kappa) / ((1 - share) * kappa)
        t = 1 / (1 + odds ** (-1 / temperature))
        certain, uncertain = v * (1 - t) * (1 - math.tanh(h)), v * t * math.tanh(h)
        good += certain if hit else uncertain
        bad += uncertain if hit else certain
    return math.log(1 + bad / good)


def slow_mmce(P, y, w):
    return kernel_mean(top_problem(P, y), w)


def kernel_mean(problem, w):
    """All pairs of rows."""
    rows = [(v * (hit - c), c) for (c, hit), v in zip(problem, w, strict=True)]
    total = math.fsum(a * b * math.exp(-abs(c - d) / 0.4) for a, c in rows for b, d in rows)
    return math.sqrt(max(total, 0.0)) / math.fsum(w)


def slow_soft_binned(P, y, w, mode="top", norm="l2", **keywords):
    """The mean over the problems of the q-th powers, below one root."""
    q = {"l1": 1, "l2": 2}.get(norm, norm)
    problems = [top_problem(P, y)]
    if mode == "classwise":
        problems = [[(p[k], t == k) for p, t in zip(P, y, strict=True)] for k in range(len(P[0]))]
    powers = [slow_soft_power(problem, w, q, **keywords) for problem in problems]
    return (math.fsum(powers) / len(problems)) ** (1 / q)


def slow_soft_power(problem, w, q, kind="bin", n_bins=15, temperature=0.01):
    """Memberships of each score in each bin, and the sums over them, one by one."""
    total = 0.0
    members = []
    for c, _ in problem:
        away = [(c - (b + 0.5) / n_bins) ** 2 for b in range(n_bins)]
        u = [math.exp((min(away) - far) / temperature) for far in away]
        members.append([v / math.fsum(u) for v in u])
    for b in range(n_bins):
        weight = [v * u[b] for v, u in zip(w, members, strict=True)]
        mass = math.fsum(weight)
        if mass < 1e-300:
            continue
        acc = math.fsum(v * hit for v, (_, hit) in zip(weight, problem, strict=True)) / mass
        conf = math.fsum(v * c for v, (c, _) in zip(weight, problem, strict=True)) / mass
        if kind == "bin":
            total += mass * abs(acc - conf) ** q
        else:
            cost = [v * abs(acc - c) ** q for v, (c, _) in zip(weight, problem, strict=True)]
            total += math.fsum(cost)
    return total / math.fsum(w)
