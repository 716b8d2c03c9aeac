"""Softmax, logits, log-odds and the top class as formulas: the steps of `skcalib._scores`.

Each is computed in the order of its NumPy counterpart, so that results differ only by the last bit
of an exponential or a logarithm and by the order of sums.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from skcalib._arrays.types import Kind
from skcalib._export.operations import Constants, Operations, Value, constant
from skcalib._scores.softmax import NEAR

# Finite logits are at most 1e30 in absolute value; below this, a number of float32, they are -inf.
LEAST_LOGIT = -3e38
# Relative rounding error up to which probabilities of logits count as equal: exponentials of two
# libraries, or of two places in an array, differ in their last bits.
ROUNDING = 16 * float(np.finfo(np.float64).eps)


def moved(x: Value, share: float) -> Value:
    """Return ``x (1 + share)``.

    ONNX Runtime drops a product with a number that is 1 in float32.
    """
    return x + x * share


def clip_constants(calibrator: Any) -> dict[str, NDArray[Any]]:
    """Return the clip of a calibrator and its logarithm.

    Where a logit of -inf is an option that was not offered, the logarithm is so low that its
    exponential is 0.
    """
    options = getattr(calibrator, "_options", False)
    log_clip = np.array(LEAST_LOGIT) if options else np.log(calibrator.clip_)
    return {"clip": constant(calibrator.clip_), "log_clip": constant(log_clip)}


def proba(o: Operations, x: Value, kind: Kind) -> Value:
    """Return the probabilities of scores; rows of logits near 0 are not shifted, as in NumPy."""
    if kind == "proba":
        return x
    far = o.row_max(o.absolute(x)) > NEAR[np.dtype(np.float64)]
    powers = o.exp(x - o.where(far, o.row_max(x), 0.0))
    return powers / o.row_sum(powers)


def logits(o: Operations, x: Value, c: Constants, kind: Kind) -> Value:
    """Return finite logits: of clipped probabilities, or with -inf as the log of the clip."""
    if kind == "proba":
        return o.log(o.maximum(x, c["clip"]))
    return o.where(x > LEAST_LOGIT, x, o.log_sum_exp(x) + c["log_clip"])


def log_proba(o: Operations, x: Value, c: Constants, kind: Kind) -> Value:
    """Return the logarithms of clipped probabilities."""
    if kind == "proba":
        return logits(o, x, c, kind)
    return o.maximum(x - o.log_sum_exp(x), c["log_clip"])


def first_of_largest(o: Operations, x: Value, c: Constants) -> Value:
    """Return where each row has its largest entry, the first one on ties; needs `places`."""
    return o.equal(c["places"], o.argmax(x))


def place_constants(n_classes: int) -> dict[str, NDArray[Any]]:
    """Return the numbers of the columns."""
    return {"places": np.arange(n_classes)[None]}


def log_odds(o: Operations, x: Value, c: Constants, kind: Kind, n_classes: int) -> Value:
    """Return log-odds of each class, ``(n, K)``, or ``(n, 1)`` for the second of two classes."""
    if kind == "proba":
        p = o.maximum(x, c["clip"])
        if n_classes == 2:
            return o.log(o.columns(p, 1, 2) / o.columns(p, 0, 1))
        best = first_of_largest(o, p, c)
        rest = o.row_sum(o.where(best, 0.0, p))
        return o.log(p / o.where(best, rest, (o.row_max(p) + rest) - p))
    z = logits(o, x, c, kind)
    top, best = o.row_max(z), first_of_largest(o, z, c)
    others = o.where(best, LEAST_LOGIT, z)
    rest, far = o.log_sum_exp(others), z - top
    mass = o.where(best, 1.0, 1.0 + o.exp(rest - top) - o.exp(far))
    odds = o.where(best, top - rest, far - o.log(mass))
    return o.columns(odds, 1, 2) if n_classes == 2 else odds


def normalise(o: Operations, q: Value) -> Value:
    """Divide rows by their sums; a row of zeros becomes uniform."""
    q = o.where(o.row_sum(q) <= 0.0, 1.0, q)
    return q / o.row_sum(q)


def keep_top(o: Operations, q: Value, x: Value, c: Constants) -> Value:
    """Make the column of the largest score the first of the largest probabilities.

    Probabilities are rounded to the type of the scores first.
    """
    q = o.rounded(q)
    lost = first_of_largest(o, x, c) & ~first_of_largest(o, q, c)
    return o.where(lost, moved(o.row_max(q), o.epsilon), q)


def two_columns(o: Operations, x: Value, kind: Kind) -> Value:
    """Turn one column into two: ``(0, f)`` for a binary logit, ``(1 - p, p)`` for P(second)."""
    return o.concat(o.filled(x, 0.0) if kind == "logits" else o.rounded(1.0 - x), x)
