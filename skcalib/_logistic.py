r"""Floor 1: logistic regression on a feature or two, for maps of the log-odds of one class.

With weights normalised to :math:`\sum_i w_i = 1` and :math:`\eta_i = c + \sum_d a_d f_{id}`,

.. math:: \min_{a, c} \sum_i w_i \left( \log(1 + e^{\eta_i}) - t_i \eta_i \right)

by Newton's method. Where no finite optimum exists (the event never or always happens, or the
feature separates it) the answer is the limit, or as near to it as the gradient can tell.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator
from typing import NamedTuple, TypeVar

import numpy as np
from numpy.typing import NDArray
from sklearn.exceptions import ConvergenceWarning

from skcalib._blocks import column_blocks, map_blocks
from skcalib._simplex import Scores

Float64Array = NDArray[np.float64]
T = TypeVar("T")

# Largest entry of the gradient, in standardised features and a total weight of 1. An error of
# this size in a probability is beyond any sample.
GRADIENT_TOLERANCE = 1e-12
MAX_STEPS = 200
# A feature whose deviation is this small against its size is constant: it gets the coefficient 0.
# So it does where the coefficient would overflow.
CONSTANT = 1e-12
LEAST_SPREAD = 1e-302


class Logistic(NamedTuple):
    """``coef (d,)``, the intercept, and the mean negative log-likelihood they reach."""

    coef: Float64Array
    intercept: float
    loss: float


def fit_logistic(F: Float64Array, hit: NDArray[np.bool_], w: Float64Array) -> Logistic:
    """Fit ``P(hit) = expit(coef @ F + intercept)``.

    Parameters
    ----------
    F : ndarray of shape (d, n)
        Features, finite; d is small and may be 0.
    hit : ndarray of bool, shape (n,)
    w : ndarray of shape (n,)
        Positive weights.
    """
    share = w / w.sum()
    rate = float(share @ hit)
    if hit.all() or not hit.any():
        return Logistic(np.zeros(F.shape[0]), np.inf if hit[0] else -np.inf, 0.0)
    centre = F @ share
    G = F - centre[:, None]
    # Squared on their own scale: they neither overflow nor vanish.
    size = np.abs(G).max(axis=1, initial=np.finfo(float).tiny)
    spread = size * np.sqrt((G / size[:, None]) ** 2 @ share)
    spread[spread <= CONSTANT * np.abs(F).max(axis=1, initial=0.0) + LEAST_SPREAD] = np.inf
    G /= spread[:, None]
    G = np.vstack([G, np.ones(hit.size)])
    theta = np.zeros(G.shape[0])
    theta[-1] = np.log(rate) - np.log1p(-rate)
    loss, gradient, hessian = _derivatives(G, hit, share, theta)
    for _ in range(MAX_STEPS):
        size = np.abs(gradient).max()
        if size <= GRADIENT_TOLERANCE:
            break
        # Least squares: features that say the same share a coefficient.
        step = np.linalg.lstsq(hessian, -gradient, rcond=None)[0]
        slope = float(gradient @ step)
        # Below the rounding of the loss only the gradient can tell whether a step was good.
        blind = -slope < 1e-14 * max(1.0, loss)
        length = 1.0
        while True:
            new = theta + length * step
            found = _derivatives(G, hit, share, new)
            if blind or found[0] <= loss + 1e-4 * length * slope or length < 1e-9:
                break
            length /= 2
        if blind and np.abs(found[1]).max() >= size:
            break
        theta, (loss, gradient, hessian) = new, found
    coef = theta[:-1] / spread
    return Logistic(coef, float(theta[-1] - coef @ centre), loss)


def _derivatives(
    G: Float64Array, hit: NDArray[np.bool_], share: Float64Array, theta: Float64Array
) -> tuple[float, Float64Array, Float64Array]:
    eta = theta @ G
    small = np.exp(-np.abs(eta))
    Q = np.where(eta > 0.0, 1.0, small) / (1.0 + small)
    loss = float(share @ (np.log1p(small) + np.maximum(np.where(hit, -eta, eta), 0.0)))
    return loss, G @ (share * (Q - hit)), (G * (share * Q * (1.0 - Q))) @ G.T


def separates(score: Float64Array, hit: NDArray[np.bool_]) -> bool:
    """Whether no row without the event has a higher score than any row with it."""
    both = hit.any() and not hit.all() and score.min() < score.max()
    return bool(both and score[~hit].max() <= score[hit].min())


def map_log_odds(
    function: Callable[[int, Float64Array, NDArray[np.bool_]], T],
    scores: Scores,
    code: NDArray[np.intp],
    first: int,
) -> Iterator[T]:
    """Yield ``function(k, log-odds of class k, rows of class k)`` from class `first` on."""
    n, n_classes = scores.shape

    def compute(block: slice) -> list[T]:
        columns = slice(block.start + first, block.stop + first)
        odds = scores.log_odds_columns(columns)
        return [function(k, column, code == k) for k, column in enumerate(odds, columns.start)]

    for several in map_blocks(compute, column_blocks(n, n_classes - first), at_a_time=1):
        yield from several


def warn_separated(name: str, separated: list[int], n_maps: int) -> None:
    """Warn of classes that their scores tell apart without error, if there are any."""
    if separated:
        warnings.warn(
            f"{name}: the scores of {len(separated)} of {n_maps} classes (first: column "
            f"{separated[0]}) separate its rows from the others without error, so that no finite "
            "optimum exists and the map is nearly a step: fit on more held-out rows, some of "
            "which are misclassified.",
            ConvergenceWarning,
            stacklevel=4,
        )
