r"""Floor 1: the soft-binned calibration error: one formula for metric, loss and temperature.

A score s belongs to every one of B bins, most to those whose centre is near. With
:math:`\xi_b = (b - 1/2) / B` and weights normalised to :math:`\sum_i w_i = 1`,

.. math:: u_{ib} = \mathrm{softmax}_b\big(-(s_i - \xi_b)^2 / T\big), \qquad
          S_b = \sum_i w_i u_{ib}, \qquad
          \mathrm{acc}_b = \frac{1}{S_b} \sum_i w_i u_{ib} t_i, \qquad
          \mathrm{conf}_b = \frac{1}{S_b} \sum_i w_i u_{ib} s_i,

.. math:: \mathrm{bin} = \Big(\sum_b S_b |\mathrm{acc}_b - \mathrm{conf}_b|^q\Big)^{1/q}, \qquad
          \mathrm{label} = \Big(\sum_{ib} w_i u_{ib} |\mathrm{acc}_b - s_i|^q\Big)^{1/q}.

The value is written in the operations of the array API alone, so that a tensor library
differentiates it; the gradient for NumPy stands beside it. As T tends to 0 the bins become even
ones with sharp edges.

References
----------
Karandikar, Cain, Tran, Lakshminarayanan, Shlens, Mozer, Roelofs (2021). Soft Calibration
Objectives for Neural Networks. NeurIPS, equations (8)-(12).
"""

from __future__ import annotations

from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from skcalib._blocks import row_blocks

Kind = Literal["bin", "label"]
Norm = Literal["l1", "l2"]


def soft_binned_error(
    score: Any,
    hit: Any,
    w: Any,
    *,
    n_bins: int = 15,
    temperature: float = 0.01,
    kind: Kind = "bin",
    norm: Norm = "l2",
    xp: Any = np,
) -> Any:
    """Soft-binned calibration error of a binary problem.

    Parameters
    ----------
    score : array of shape (n,)
        Scores in [0, 1].
    hit : array of shape (n,)
        Booleans.
    w : array of shape (n,)
        Weights, not all 0, in the precision of the sums.
    n_bins : int
    temperature : float
        T > 0, in units of squared score.
    kind : {"bin", "label"}
        Gap between accuracy and confidence of a bin, or between accuracy and each score in it.
    norm : {"l1", "l2"}
    xp : namespace
        NumPy, or the array API namespace of the arrays.

    Returns
    -------
    error : 0-d array
    """
    share = w / xp.sum(w)
    centres = _centres(share, n_bins, xp)
    mass, hits, surplus = _bin_sums(score, hit, share, centres, temperature, xp)
    filled, divisor = _divisor(mass, xp)
    if kind == "bin":
        if norm == "l1":
            return xp.sum(xp.abs(surplus))
        return _root(xp.sum(xp.where(filled, surplus * (surplus / divisor), 0.0)), xp)
    accuracy = hits / divisor
    total = 0.0
    for rows in row_blocks(score.shape[0], n_bins):
        U = _members(score[rows], centres, temperature, xp)
        gap = accuracy[None, :] - score[rows][:, None]
        cost = xp.abs(gap) if norm == "l1" else gap * gap
        total = total + xp.sum(share[rows] * xp.sum(U * cost, axis=1))
    return total if norm == "l1" else _root(total, xp)


def soft_binned_gradient(
    score: NDArray[np.floating],
    hit: NDArray[np.bool_],
    w: NDArray[np.float64],
    *,
    n_bins: int = 15,
    temperature: float = 0.01,
    kind: Kind = "bin",
    norm: Norm = "l2",
) -> tuple[float, NDArray[np.float64]]:
    """Return the error and its derivative in each score, ``(n,)``; parameters as above.

    At an error of 0 under "l2", and at a gap of 0 under "l1", the derivative is 0.
    """
    share = w / w.sum()
    centres = _centres(share, n_bins, np)
    mass, hits, surplus = _bin_sums(score, hit, share, centres, temperature, np)
    filled, divisor = _divisor(mass, np)
    gap, accuracy = surplus / divisor, hits / divisor
    gradient = np.empty(score.shape[0])
    value = 0.0
    if kind == "bin":
        if norm == "l1":
            by_surplus, by_mass = np.sign(surplus), np.zeros(n_bins)
            value = float(np.abs(surplus).sum())
        else:
            by_surplus, by_mass = 2.0 * gap * filled, -gap * gap * filled
            value = float((surplus * gap * filled).sum())
        for rows in row_blocks(score.shape[0], n_bins):
            s = score[rows, None].astype(np.float64)
            U = _members(score[rows], centres, temperature, np)
            into = by_surplus * (hit[rows, None] - s) + by_mass
            gradient[rows] = (_slopes(U, centres, temperature) * into).sum(axis=1) - U @ by_surplus
    else:
        by_accuracy = np.zeros(n_bins)
        for rows in row_blocks(score.shape[0], n_bins):
            U = _members(score[rows], centres, temperature, np)
            cost, slope = _cost(accuracy - score[rows, None], norm)
            value += float(share[rows] @ (U * cost).sum(axis=1))
            by_accuracy += share[rows] @ (U * slope)
        by_accuracy *= filled / divisor
        for rows in row_blocks(score.shape[0], n_bins):
            U = _members(score[rows], centres, temperature, np)
            cost, slope = _cost(accuracy - score[rows, None], norm)
            into = cost + by_accuracy * (hit[rows, None] - accuracy)
            dU = _slopes(U, centres, temperature)
            gradient[rows] = (dU * into).sum(axis=1) - (U * slope).sum(axis=1)
    gradient *= share
    if norm == "l1":
        return value, gradient
    root = float(np.sqrt(value))
    return root, gradient / (2.0 * root) if root > 0.0 else np.zeros_like(gradient)


def _centres(like: Any, n_bins: int, xp: Any) -> Any:
    """Centres of even bins of [0, 1], ``(B,)``, of the type and on the device of `like`."""
    values = [(b + 0.5) / n_bins for b in range(n_bins)]
    place = {} if xp is np else {"device": like.device}
    return xp.asarray(values, dtype=like.dtype, **place)


def _members(score: Any, centres: Any, temperature: float, xp: Any) -> Any:
    """Memberships ``(n, B)``, each row summing to 1."""
    distance = score[:, None] - centres[None, :]
    U = distance * distance / -temperature
    U = xp.exp(U - xp.max(U, axis=1, keepdims=True))
    return U / xp.sum(U, axis=1, keepdims=True)


def _slopes(
    U: NDArray[np.float64], centres: NDArray[np.float64], temperature: float
) -> NDArray[np.float64]:
    """Return the derivatives of the memberships in the score, ``(n, B)``."""
    slopes = U * (centres - (U @ centres)[:, None])
    slopes *= 2.0 / temperature
    return slopes


def _bin_sums(
    score: Any, hit: Any, share: Any, centres: Any, temperature: float, xp: Any
) -> tuple[Any, Any, Any]:
    """Sum share, share of hits, and share of (hit - score) over each soft bin: three ``(B,)``."""
    hits = xp.where(hit, share, 0.0)
    surplus = hits - share * score
    sums: Any = 0.0
    for rows in row_blocks(score.shape[0], centres.shape[0]):
        columns = xp.stack([share[rows], hits[rows], surplus[rows]])
        sums = sums + columns @ _members(score[rows], centres, temperature, xp)
    return sums[0], sums[1], sums[2]


def _divisor(mass: Any, xp: Any) -> tuple[Any, Any]:
    """Say which bins hold anything, and their mass with 1 in place of nothing.

    A mass so small that its reciprocal overflows adds nothing to the error and counts as none.
    """
    filled = mass > float(xp.finfo(mass.dtype).smallest_normal)
    return filled, xp.where(filled, mass, 1.0)


def _root(square: Any, xp: Any) -> Any:
    """Square root whose derivative at 0 is 0, not infinite."""
    positive = square > 0.0
    return xp.where(positive, xp.sqrt(xp.where(positive, square, 1.0)), 0.0)


def _cost(gap: NDArray[np.float64], norm: Norm) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return the cost of each gap under a norm, before the root, and its derivative."""
    return (np.abs(gap), np.sign(gap)) if norm == "l1" else (gap * gap, 2.0 * gap)
