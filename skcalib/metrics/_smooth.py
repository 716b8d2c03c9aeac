"""Calibration errors that are smooth in the scores: with kernels, soft bins, MMCE and AvUC."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.fft import dct
from scipy.special import spherical_jn

from skcalib import _differentiable as formulas
from skcalib._arrays.rowwise import Bools, Float64Array, FloatArray, copied, largest
from skcalib._arrays.sources import map_rows
from skcalib._binning import NumberOfBins, quotient
from skcalib._differentiable import Kind
from skcalib._scores.scores import event_as_classes
from skcalib._validation.keywords import (
    MeanNorm,
    check_between,
    check_norm,
    check_option,
    exponent,
    number_of_bins,
)
from skcalib._validation.rows import Predictions, check_predictions
from skcalib.metrics._binned import Average
from skcalib.metrics._common import Mode, check_mode, error_by_mode, listed

# Accuracy versus uncertainty (AvUC): a model should have low entropy where it is correct, and high
# entropy where it is wrong.


def uncertain_rows(predictions: Predictions) -> tuple[Float64Array, Float64Array, Bools, int]:
    """Return confidence, entropy and correctness of each row, and the number of classes."""
    P, code = event_as_classes(predictions)
    confidence, entropies = np.empty((2, P.shape[0]))
    predicted = np.empty(P.shape[0], dtype=np.intp)

    def kernel(block: FloatArray) -> tuple[NDArray[Any], ...]:
        return *largest(block), formulas.entropy(copied(block))

    map_rows(kernel, P, out=(confidence, predicted, entropies))
    return confidence, entropies, predicted == code, P.shape[1]


@listed("Krishnan and Tickoo 2020", scorer=True, error=False, has_event=False)
def avuc_loss(
    y_true: ArrayLike,
    y_proba: ArrayLike,
    *,
    threshold: float = 0.5,
    pos_label: Any = None,
    sample_weight: ArrayLike | None = None,
    labels: ArrayLike | None = None,
) -> float:
    r"""Accuracy-versus-uncertainty loss (AvUC): whether correct predictions have low entropy.

    .. math:: \mathrm{AvUC} = \log\Big(1 + \frac{n_{AU} + n_{IC}}{n_{AC} + n_{IU}}\Big)

    A row is accurate (A) or inaccurate (I), and certain (C) if its entropy h in nats is below
    :math:`\kappa`, otherwise uncertain (U). Each sum n adds up, over the rows of its kind, the
    weight times the confidence c (A) or 1 - c (I), times :math:`1 - \tanh h` (C) or
    :math:`\tanh h` (U).

    Parameters
    ----------
    y_true : array-like of shape (n,)
        Labels.
    y_proba : array-like of shape (n, K), (n,) or (n, 1)
        Class probabilities, with a column for each of the sorted labels, or of `labels` in their
        order. Columns of a frame that are named after the labels are read by name. One column is
        the probability of the event `pos_label`, which is measured.
    threshold : float, default=0.5
        The threshold :math:`\kappa` of the entropy in nats. One-hot probabilities have an entropy
        of 0, uniform probabilities of log K.
    pos_label : label, default=None
        Label of the event whose probability is measured. With one column, None means 1 or True for
        labels {0, 1}, {-1, 1} or booleans, and other labels need `pos_label`. With more columns,
        None means the top label.
    sample_weight : array-like of shape (n,), default=None
        Non-negative weights. Integers are counts: 2 is two copies of the row. Of floats only the
        ratios matter (see "Weights" under "Valid input" in the user guide). 0 is the row's absence.
    labels : array-like of shape (K,), default=None
        Labels of the columns, in their order; needed if they cannot be inferred from `y_true`.

    Returns
    -------
    loss : float
        In [0, 27.7], because the logarithm is clipped. 0 is best: every correct prediction is
        certain, and every wrong prediction is uncertain.

    Raises
    ------
    ValueError
        If probabilities, labels, weights or `threshold` are invalid.

    See Also
    --------
    soft_avuc_loss : The loss with a soft threshold.

    Notes
    -----
    AvUC is not a calibration error: a calibrated model that is often wrong has a large loss. AvUC
    measures how well the entropy separates correct predictions from wrong ones.

    References
    ----------
    Krishnan, Tickoo (2020). Improving model calibration with accuracy versus uncertainty
    optimization. NeurIPS.

    Examples
    --------
    >>> from skcalib.metrics import avuc_loss
    >>> P = [[0.95, 0.05], [0.02, 0.98], [0.6, 0.4]]
    >>> round(avuc_loss([0, 1, 1], P), 4)  # right and certain twice, wrong and uncertain once
    0.0
    >>> round(avuc_loss([0, 1, 0], P), 4)
    0.1937
    """
    check_between("threshold", threshold, 0, np.inf, "an entropy >= 0 in nats", low_too=True)
    rows = check_predictions(y_true, y_proba, sample_weight, labels, pos_label, caller="avuc_loss")
    confidence, entropies, hit, _ = uncertain_rows(rows)
    return float(formulas.avuc(confidence, entropies, hit, rows.w, threshold=threshold))


@listed("Karandikar et al. 2021", scorer=True, error=False, has_event=False)
def soft_avuc_loss(
    y_true: ArrayLike,
    y_proba: ArrayLike,
    *,
    kappa: float = 0.5,
    temperature: float = 1.0,
    pos_label: Any = None,
    sample_weight: ArrayLike | None = None,
    labels: ArrayLike | None = None,
) -> float:
    r"""Soft accuracy-versus-uncertainty loss (S-AvUC): AvUC with a soft threshold.

    .. math:: \text{S-AvUC} = \log\Big(1 + \frac{n_{AU} + n_{IC}}{n_{AC} + n_{IU}}\Big), \quad
              t = \mathrm{logistic}\Big(\frac{1}{T}
                  \log\frac{h^* (1 - \kappa)}{(1 - h^*) \kappa}\Big)

    where h is the entropy of a row and :math:`h^* = h / \log K`. An accurate row adds
    :math:`w\, t \tanh h` to the sum AU and :math:`w (1 - t)(1 - \tanh h)` to the sum AC. An
    inaccurate row adds the same terms to the sums IU and IC.

    Parameters
    ----------
    y_true : array-like of shape (n,)
        Labels.
    y_proba : array-like of shape (n, K), (n,) or (n, 1)
        Class probabilities, with a column for each of the sorted labels, or of `labels` in their
        order. Columns of a frame that are named after the labels are read by name. One column is
        the probability of the event `pos_label`, which is measured.
    kappa : float in (0, 1), default=0.5
        The normalised entropy at which a row counts as half certain and half uncertain.
    temperature : float, default=1.0
        T > 0. As T tends to 0, the threshold becomes sharp. With T = 1 and :math:`\kappa = 1/2`,
        t is the normalised entropy.
    pos_label : label, default=None
        Label of the event whose probability is measured. With one column, None means 1 or True for
        labels {0, 1}, {-1, 1} or booleans, and other labels need `pos_label`. With more columns,
        None means the top label.
    sample_weight : array-like of shape (n,), default=None
        Non-negative weights. Integers are counts: 2 is two copies of the row. Of floats only the
        ratios matter (see "Weights" under "Valid input" in the user guide). 0 is the row's absence.
    labels : array-like of shape (K,), default=None
        Labels of the columns, in their order; needed if they cannot be inferred from `y_true`.

    Returns
    -------
    loss : float
        In [0, 27.7], because the logarithm is clipped; 0 is best.

    Raises
    ------
    ValueError
        If probabilities, labels, weights or keywords are invalid.

    See Also
    --------
    avuc_loss : The loss with a hard threshold.

    References
    ----------
    Karandikar, Cain, Tran, Lakshminarayanan, Shlens, Mozer, Roelofs (2021). Soft Calibration
    Objectives for Neural Networks. NeurIPS. Equations (15), (16).

    Examples
    --------
    >>> from skcalib.metrics import soft_avuc_loss
    >>> P = [[0.95, 0.05], [0.02, 0.98], [0.6, 0.4]]
    >>> round(soft_avuc_loss([0, 1, 1], P), 4), round(soft_avuc_loss([1, 0, 0], P), 4)
    (0.0418, 3.1951)
    """
    check_between("kappa", kappa, 0, 1, "a number in (0, 1)")
    check_between("temperature", temperature, 0, np.inf, "a positive number")
    rows = check_predictions(
        y_true, y_proba, sample_weight, labels, pos_label, caller="soft_avuc_loss"
    )
    _, h, hit, K = uncertain_rows(rows)
    loss = formulas.soft_avuc(h, hit, rows.w, n_classes=K, kappa=kappa, temperature=temperature)
    return float(loss)


# Maximum mean calibration error (MMCE): the norm of the residuals in the Hilbert space of a kernel.


@listed("Kumar et al. 2018", scorer=True)
def maximum_mean_calibration_error(
    y_true: ArrayLike,
    y_proba: ArrayLike,
    *,
    mode: Mode = None,
    average: Average = "macro",
    pos_label: Any = None,
    sample_weight: ArrayLike | None = None,
    labels: ArrayLike | None = None,
) -> float | Float64Array:
    r"""Maximum mean calibration error (MMCE): norm of the residuals in a kernel space, no bins.

    For a binary problem with scores s, outcomes t and weights w of sum W,

    .. math:: \mathrm{MMCE} = \Big(\frac{1}{W^2} \sum_{ij} w_i w_j (t_i - s_i)(t_j - s_j)\,
              e^{-|s_i - s_j| / 0.4}\Big)^{1/2}

    which is the largest mean of :math:`(t - s) f(s)` over functions f with norm 1 in the kernel
    space.

    Parameters
    ----------
    y_true : array-like of shape (n,)
        Labels.
    y_proba : array-like of shape (n, K), (n,) or (n, 1)
        Class probabilities, with a column for each of the sorted labels, or of `labels` in their
        order. Columns of a frame that are named after the labels are read by name. One or two
        columns give the probability of the event `pos_label`, which is measured.
    mode : {"top", "classwise"} or None, default=None
        "top": the top label and whether it is the true class. "classwise": each class against the
        rest. None: the event for one or two columns, the top label for more.
    average : {"macro", None}, default="macro"
        For "classwise": the mean over classes. None returns the error of each class.
    pos_label : label, default=None
        Label of the event whose probability is measured. None means 1 or True for labels {0, 1},
        {-1, 1} or booleans. For other labels, None means the second of two columns, and one column
        needs `pos_label`. With more columns, None leaves the choice to `mode`.
    sample_weight : array-like of shape (n,), default=None
        Non-negative weights. Integers are counts: 2 is two copies of the row. Of floats only the
        ratios matter (see "Weights" under "Valid input" in the user guide). 0 is the row's absence.
    labels : array-like of shape (K,), default=None
        Labels of the columns, in their order; needed if they cannot be inferred from `y_true`.

    Returns
    -------
    error : float, or ndarray of shape (K,) if ``average=None``
        In [0, 1]; 0 is best. The error is not in units of probability, except if all scores are
        equal: then the error is the absolute mean residual.

    Raises
    ------
    ValueError
        If probabilities, labels, weights or keywords are invalid.

    Notes
    -----
    The double sum is computed exactly by one sort and cumulative sums, without an n x n matrix. For
    a calibrated model, the error is proportional to :math:`1 / \sqrt{n}`.

    References
    ----------
    Kumar, Sarawagi, Jain (2018). Trainable Calibration Measures For Neural Networks From Kernel
    Mean Embeddings. ICML.

    Examples
    --------
    >>> from skcalib.metrics import maximum_mean_calibration_error
    >>> y = [0, 1, 1, 0]
    >>> P = [[0.9, 0.1], [0.2, 0.8], [0.6, 0.4], [0.7, 0.3]]
    >>> round(maximum_mean_calibration_error(y, P), 4)
    0.1241
    """
    check_mode(mode, average)
    predictions = check_predictions(
        y_true, y_proba, sample_weight, labels, pos_label, caller="maximum_mean_calibration_error"
    )
    return error_by_mode(predictions, formulas.kernel_mean_error, mode, average, y_proba=y_proba)


# Kernel smoothing of weights at scores in [0, 1]. The kernel is reflected at 0 and 1, so that the
# total weight stays the same.
#
# With reflection, the Fourier basis reduces to cosines. With masses :math:`m_i` at scores
# :math:`s_i`, with :math:`a_k = \sum_i m_i \cos(\pi k s_i)` and the Fourier transform :math:`\hat
# K` of the kernel, the density of the smoothed masses is
#
# .. math:: g(x) = a_0 + 2 \sum_{k \ge 1} \hat K(\pi k)\, a_k \cos(\pi k x).
#
# First, each mass is divided between the two nearest nodes of a fine grid. Then both sums are
# cosine transforms, which are exact at the nodes, including the end nodes.


def share_to_grid(score: Float64Array, mass: Float64Array, cells: int) -> Float64Array:
    r"""Distribute weights at scores over the ``cells + 1`` nodes of a grid, keeping total and mean.

    Each mass is divided between the two ends of one cell. The relative change of a density of
    width h is at most :math:`1 / (8 h^2 \mathrm{cells}^2)`.
    """
    place = score * cells
    cell = np.minimum(place.astype(np.intp), cells - 1)
    upper = mass * (place - cell)
    lower = np.bincount(cell, mass - upper, cells + 1).astype(np.float64, copy=False)
    return lower + np.bincount(cell + 1, upper, cells + 1)


def cosine_coefficients(nodes: Float64Array) -> Float64Array:
    """Return the cosine coefficients of weights at the nodes of a grid."""
    # The cosine transform assumes an even periodic sequence and so halves the values at both ends,
    # which are therefore doubled before.
    doubled = nodes.copy()
    doubled[..., 0] *= 2.0
    doubled[..., -1] *= 2.0
    return np.asarray(dct(doubled, type=1)) / 2.0


def integral(values: Float64Array) -> Any:
    """Integrate over [0, 1] by the trapezoidal rule, which is exact for smoothed densities."""
    ends = (values[..., 0] + values[..., -1]) / 2.0
    return (values.sum(axis=-1) - ends) / (values.shape[-1] - 1)


# Soft-binned error: every score belongs to every bin to some degree, and most to the nearest bin.


@listed("Karandikar et al. 2021", scorer=True)
def soft_binned_calibration_error(
    y_true: ArrayLike,
    y_proba: ArrayLike,
    *,
    temperature: float = 0.01,
    kind: Kind = "bin",
    mode: Mode = None,
    average: Average = "macro",
    n_bins: NumberOfBins = 15,
    norm: MeanNorm = "l2",
    pos_label: Any = None,
    sample_weight: ArrayLike | None = None,
    labels: ArrayLike | None = None,
) -> float | Float64Array:
    r"""Soft-binned calibration error (SB-ECE): ECE with overlapping bins, smooth in the scores.

    For a binary problem with scores s, outcomes t, weights w of sum 1, and the centres
    :math:`\xi_b` of B bins of equal width,

    .. math:: u_{ib} = \mathrm{softmax}_b\big(-(s_i - \xi_b)^2 / T\big), \qquad
              S_b = \sum_i w_i u_{ib}

    are the membership of row i in bin b and the weight of bin b. With acc and conf the means of t
    and s with the weights :math:`w_i u_{ib}`,

    .. math:: \mathrm{bin} = \Big(\sum_b S_b |\mathrm{acc}_b - \mathrm{conf}_b|^q\Big)^{1/q},
              \qquad
              \mathrm{label} = \Big(\sum_{ib} w_i u_{ib} |\mathrm{acc}_b - s_i|^q\Big)^{1/q}.

    Parameters
    ----------
    y_true : array-like of shape (n,)
        Labels.
    y_proba : array-like of shape (n, K), (n,) or (n, 1)
        Class probabilities, with a column for each of the sorted labels, or of `labels` in their
        order. Columns of a frame that are named after the labels are read by name. One or two
        columns give the probability of the event `pos_label`, which is measured.
    temperature : float, default=0.01
        T > 0, in units of a squared score. Neighbouring bins overlap over a width of about the
        square root of T/2. As T tends to 0, the edges of the bins become sharp.
    kind : {"bin", "label"}, default="bin"
        Whether the accuracy of a bin is compared with the mean confidence of the bin, or with each
        score.
    mode : {"top", "classwise"} or None, default=None
        "top": the top label and whether it is the true class. "classwise": each class against the
        rest. None: the event for one or two columns, the top label for more.
    average : {"macro", None}, default="macro"
        For "classwise": the q-th root of the mean of the q-th powers of the errors of all classes.
        None returns the error of each class.
    n_bins : int or "cube_root", default=15
        Number of bins B; "cube_root" is the cube root of the number of rows, rounded up.
    norm : {"l1", "l2"} or float in [1, 10], default="l2"
        The exponent q.
    pos_label : label, default=None
        Label of the event whose probability is measured. None means 1 or True for labels {0, 1},
        {-1, 1} or booleans. For other labels, None means the second of two columns, and one column
        needs `pos_label`. With more columns, None leaves the choice to `mode`.
    sample_weight : array-like of shape (n,), default=None
        Non-negative weights. Integers are counts: 2 is two copies of the row. Of floats only the
        ratios matter (see "Weights" under "Valid input" in the user guide). 0 is the row's absence.
    labels : array-like of shape (K,), default=None
        Labels of the columns, in their order; needed if they cannot be inferred from `y_true`.

    Returns
    -------
    error : float, or ndarray of shape (K,) if ``average=None``
        In [0, 1]; 0 is best.

    Raises
    ------
    ValueError
        If probabilities, labels, weights or keywords are invalid.

    Notes
    -----
    The error is smooth in the scores, so that it can be minimised in training (`skcalib.losses`)
    and in temperature scaling. For a calibrated model, the error of kind "bin" tends to 0 as n
    grows, and the error of kind "label" tends to the spread of the scores within soft bins.

    References
    ----------
    Karandikar, Cain, Tran, Lakshminarayanan, Shlens, Mozer, Roelofs (2021). Soft Calibration
    Objectives for Neural Networks. NeurIPS. Equations (8)-(12).

    Examples
    --------
    >>> from skcalib.metrics import soft_binned_calibration_error
    >>> y = [0, 1, 1, 0]
    >>> P = [[0.9, 0.1], [0.2, 0.8], [0.6, 0.4], [0.7, 0.3]]
    >>> round(soft_binned_calibration_error(y, P), 4)
    0.2416
    """
    check_option("kind", kind, ("bin", "label"))
    check_norm(norm, has_max=False)
    check_between("temperature", temperature, 0, np.inf, "a positive number")
    number_of_bins(n_bins, 1)  # checked here, so that the error is raised before rows are read
    check_mode(mode, average)
    predictions = check_predictions(
        y_true, y_proba, sample_weight, labels, pos_label, caller="soft_binned_calibration_error"
    )

    def error(score: Any, hit: Any, w: Any) -> Any:
        bins = formulas.SoftBins(number_of_bins(n_bins, w.sum()), temperature, kind, norm)
        return formulas.soft_binned_error(score, hit, w, bins)

    return error_by_mode(predictions, error, mode, average, norm, y_proba=y_proba)


# Kernel density error: the calibration curve and the density of the scores are estimated with the
# same kernel.


# Silverman's normal reference rule for the bandwidth of a triweight kernel is h = 3.15 sigma
# n^(-1/5).
RULE = 3.15
CELLS = 1 << 14


def kernel_width(score: Float64Array, w: Float64Array) -> float:
    """Return the bandwidth of the kernel by the normal reference rule, or 0 for equal scores."""
    if score.min() == score.max():
        return 0.0
    share = w / w.sum()
    mean = (share * score).sum()
    deviation = np.sqrt((share * (score - mean) ** 2).sum())
    return float(RULE * deviation * float(w.sum()) ** -0.2)


def triweight_transform(frequency: Float64Array) -> Float64Array:
    """Return the Fourier transform of the triweight kernel; near frequency 0, by a power series."""
    near = frequency < 1e-2
    v = np.where(near, 1.0, frequency)
    return np.where(near, 1.0 - frequency**2 / 18.0, 105.0 * spherical_jn(3, v) / v**3)


def kde_of_masses(
    weights: Float64Array, hits: Float64Array, width: float, norm: MeanNorm
) -> Float64Array:
    """Return kernel density errors, from the weights of rows and of events at the grid nodes.

    The weights of all rows sum to 1.
    """
    cells = weights.shape[-1] - 1
    nodes = np.linspace(0.0, 1.0, cells + 1)
    if width == 0.0:
        return np.abs((hits - nodes * weights).sum(axis=-1))
    # The cosine series on the grid cannot represent a kernel with a bandwidth below 16 cells.
    transform = triweight_transform(max(width, 16.0 / cells) * np.pi * cells * nodes)
    density, hits = (dct(cosine_coefficients(mass) * transform, type=1) for mass in (weights, hits))
    # Far from all scores, rounding can make the smoothed density slightly negative.
    density = np.maximum(density, 0.0)
    surplus = np.clip(hits, 0.0, density) - nodes * density
    if norm == "l1":
        return np.asarray(integral(np.abs(surplus)) / integral(density))
    q = exponent(norm)
    gap = quotient(surplus, density)
    return np.asarray((integral(np.abs(gap) ** q * density) / integral(density)) ** (1 / q))


@listed("Zhang et al. 2020", scorer=True)
def kde_calibration_error(
    y_true: ArrayLike,
    y_proba: ArrayLike,
    *,
    mode: Mode = None,
    average: Average = "macro",
    norm: MeanNorm = "l1",
    pos_label: Any = None,
    sample_weight: ArrayLike | None = None,
    labels: ArrayLike | None = None,
) -> float | Float64Array:
    r"""Kernel density calibration error (ECE-KDE): ECE with kernel estimates instead of bins.

    For a binary problem with scores s, outcomes t and weights w of sum W, a kernel
    :math:`K_h` gives the density of the scores and the calibration curve,

    .. math:: \hat p(x) = \frac{1}{W} \sum_i w_i K_h(x, s_i), \qquad
              \hat\pi(x) = \frac{\sum_i w_i t_i K_h(x, s_i)}{\sum_i w_i K_h(x, s_i)}, \qquad
              \Big(\int_0^1 |\hat\pi(x) - x|^q \, \hat p(x)\, dx\Big)^{1/q}

    :math:`K_h(x, s)` is the triweight kernel :math:`\frac{35}{32 h} (1 - u^2)^3`,
    :math:`u = (x - s)/h`, on :math:`|u| \le 1`, reflected at 0 and 1 so that no mass is lost. The
    half-width follows the normal reference rule, :math:`h = 3.15\, \hat\sigma\, n^{-1/5}`, with
    :math:`\hat\sigma` the standard deviation of the scores (divisor W). It is at least 1/1024. If
    all scores are equal, the error is the limit :math:`|\mathrm{acc} - s|`.

    Parameters
    ----------
    y_true : array-like of shape (n,)
        Labels.
    y_proba : array-like of shape (n, K), (n,) or (n, 1)
        Class probabilities, with a column for each of the sorted labels, or of `labels` in their
        order. Columns of a frame that are named after the labels are read by name. One or two
        columns give the probability of the event `pos_label`, which is measured.
    mode : {"top", "classwise"} or None, default=None
        "top": the top label and whether it is the true class. "classwise": each class against the
        rest. None: the event for one or two columns, the top label for more.
    average : {"macro", None}, default="macro"
        For "classwise": the q-th root of the mean of the q-th powers of the errors of all classes.
        None returns the error of each class.
    norm : {"l1", "l2"} or float in [1, 10], default="l1"
        The exponent q.
    pos_label : label, default=None
        Label of the event whose probability is measured. None means 1 or True for labels {0, 1},
        {-1, 1} or booleans. For other labels, None means the second of two columns, and one column
        needs `pos_label`. With more columns, None leaves the choice to `mode`.
    sample_weight : array-like of shape (n,), default=None
        Non-negative weights. Integers are counts: 2 is two copies of the row. Of floats only the
        ratios matter (see "Weights" under "Valid input" in the user guide). 0 is the row's absence.
    labels : array-like of shape (K,), default=None
        Labels of the columns, in their order; needed if they cannot be inferred from `y_true`.

    Returns
    -------
    error : float, or ndarray of shape (K,) if ``average=None``
        In [0, 1]; 0 is best.

    Raises
    ------
    ValueError
        If probabilities, labels, weights or keywords are invalid.

    Notes
    -----
    As n grows, the estimate tends to the true error if the scores have a density. Scores that
    accumulate at 0 and 1 have no density: the kernel then blurs both ends, and even a calibrated
    model has an error of about h. `smooth_calibration_error` does not have this problem.

    References
    ----------
    Zhang, Kailkhura, Han (2020). Mix-n-Match: Ensemble and Compositional Methods for Uncertainty
    Calibration in Deep Learning. ICML.

    Silverman (1986). Density Estimation for Statistics and Data Analysis. Chapman and Hall.

    Examples
    --------
    >>> from skcalib.metrics import kde_calibration_error
    >>> y = [0, 1, 1, 0]
    >>> P = [[0.9, 0.1], [0.2, 0.8], [0.6, 0.4], [0.7, 0.3]]
    >>> round(kde_calibration_error(y, P), 4)
    0.0846
    """
    check_norm(norm, has_max=False)
    check_mode(mode, average)
    predictions = check_predictions(
        y_true, y_proba, sample_weight, labels, pos_label, caller="kde_calibration_error"
    )

    def error(score: Float64Array, hit: Bools, w: Float64Array) -> float:
        share = w / w.sum()
        density, hits = (share_to_grid(score, mass, CELLS) for mass in (share, share * hit))
        return float(kde_of_masses(density, hits, kernel_width(score, w), norm))

    return error_by_mode(predictions, error, mode, average, norm, y_proba=y_proba)


# Smooth calibration error: the mean absolute residual after kernel smoothing. The bandwidth of the
# kernel is equal to the error.


# The search for the bandwidth begins on the coarse grid and ends on the fine grid. The fine grid is
# precise to 1e-7 for errors down to 0.001: its cells of 1.5e-5 are far narrower than the kernel,
# whose bandwidth equals the error.
COARSE, FINE = 1 << 12, 1 << 16
# A density that is smoothed with a large bandwidth has no high frequencies. So fewer nodes suffice
# for integrals with an error of 1e-7, but the weights of rows are distributed over the full grid.
FINE_FEWEST, FINE_PER_WIDTH = 1 << 14, 1310.0
ROUNDING = 1e-12
# Tolerance of the bandwidth of a single error on the fine grid, tolerance of many bandwidths, and
# the number of bandwidths that are searched at once. With 38 bandwidths, the tables fit into the
# cache.
FINE_TOLERANCE, TOLERANCE, AT_ONCE = 1e-10, 1e-6, 38
# If many errors are computed at once: the smallest number of grid cells in total, and the number of
# cells per bandwidth.
FEWEST_CELLS, CELLS_PER_WIDTH = 256, 8.0
# Upper bound and first guess of the slope of the function "smoothed residuals minus bandwidth",
# which decreases with the bandwidth.
LEAST_SLOPE, FIRST_SLOPE = -1.0, -1.5


def smooth_error(score: Float64Array, hit: Bools, w: Float64Array) -> float:
    """Return the smooth calibration error: the bandwidth that equals the smoothed residuals."""
    residual = w / w.sum() * (hit - score)
    least = abs(float(residual.sum()))
    # If all residuals have the same sign, smoothing does not change their mean absolute value, so
    # no search is needed.
    if np.abs(residual).sum() - least <= ROUNDING:
        return least
    coarse, fine = (share_to_grid(score, residual, cells)[None] for cells in (COARSE, FINE))
    with np.errstate(under="ignore"):
        width = find_widths(fine, find_widths(coarse), FINE_TOLERANCE, FINE_FEWEST, FINE_PER_WIDTH)
    return float(width[0])


def smooth_sizes(nodes: Float64Array) -> Float64Array:
    """Return the smooth calibration error for each of several arrays of residuals on a grid."""
    masses = nodes.reshape(-1, nodes.shape[-1])
    parts = [
        find_widths(masses[start : start + AT_ONCE]) for start in range(0, len(masses), AT_ONCE)
    ]
    return np.concatenate(parts).reshape(nodes.shape[:-1])


def find_widths(
    masses: Float64Array,
    width: Float64Array | None = None,
    tolerance: float = TOLERANCE,
    fewest: int = FEWEST_CELLS,
    per_width: float = CELLS_PER_WIDTH,
) -> Float64Array:
    """Find the bandwidths at which the mean absolute smoothed residuals equal the bandwidth.

    The search uses the secant method from `width`, and bisection if a secant leaves the bracket.
    Sizes are integrated over `per_width` cells per width, but over at least `fewest` cells.
    """
    low, high = np.abs(masses.sum(axis=-1)), np.abs(masses).sum(axis=-1)
    coefficients, n_cells = cosine_coefficients(masses), masses.shape[-1] - 1
    # The kernel is the distribution of a random walk on the grid. For a bandwidth of 1, `rate`
    # contains the logarithms of its cosine transform. The kernel is close to the Gaussian kernel
    # except for the smallest bandwidths. Even there, the kernel is positive and becomes wider as
    # the bandwidth grows.
    rate = n_cells**2 * (np.cos(np.pi * np.arange(n_cells + 1) / n_cells) - 1.0)

    def excess_of(width: Float64Array) -> Float64Array:
        needed = per_width / max(float(width.min()), 1.0 / rate.size)
        cells = slice(min(1 << int(np.log2(max(needed, fewest))), rate.size - 1) + 1)
        transform = np.exp(np.square(width)[:, None] * rate[cells])
        density = dct(coefficients[:, cells] * transform, type=1)
        return np.asarray(integral(np.abs(density)) - width)

    width = np.sqrt(low * high) if width is None else width
    excess, slope = excess_of(width), np.full(low.size, FIRST_SLOPE)
    while True:
        # At the solution, the mean absolute smoothed residual equals the bandwidth. The residual
        # decreases as the bandwidth grows, so the solution is between a bandwidth and its residual.
        low = np.maximum(low, np.minimum(width, width + excess))
        high = np.minimum(high, np.maximum(width, width + excess))
        wrong = (np.abs(excess) > tolerance) & (high - low > tolerance)
        if not wrong.any():
            return width
        following = np.clip(width - excess / slope, low, high)
        following = np.where(following == width, (low + high) / 2, following)
        following = np.where(wrong, following, width)
        new = excess_of(following)
        np.divide(new - excess, following - width, out=slope, where=following != width)
        slope = np.minimum(slope, LEAST_SLOPE)
        width, excess = following, new


@listed("Błasiok and Nakkiran 2024", scorer=True)
def smooth_calibration_error(
    y_true: ArrayLike,
    y_proba: ArrayLike,
    *,
    mode: Mode = None,
    average: Average = "macro",
    pos_label: Any = None,
    sample_weight: ArrayLike | None = None,
    labels: ArrayLike | None = None,
) -> float | Float64Array:
    r"""Smooth calibration error (smECE): mean gap after smoothing by a kernel, no bins.

    For a binary problem with scores s, outcomes t and weights w of sum W, let

    .. math:: e(\sigma) = \int_0^1
              \Big| \frac{1}{W} \sum_i w_i (t_i - s_i) K_\sigma(x, s_i) \Big| \, dx

    with :math:`K_\sigma` the Gaussian kernel of standard deviation :math:`\sigma`, reflected at
    0 and 1 as often as needed, so that it integrates to 1 over [0, 1]. The size e decreases with
    the width, and the error is its fixed point :math:`e(\sigma^*) = \sigma^*`.

    Parameters
    ----------
    y_true : array-like of shape (n,) or (n, K)
        Labels, or the fractions of raters who chose each class, with a column for each class. With
        one column of probabilities, also soft labels in [0, 1].
    y_proba : array-like of shape (n, K), (n,) or (n, 1)
        Class probabilities, with a column for each of the sorted labels, or of `labels` in their
        order. Columns of a frame that are named after the labels are read by name. One or two
        columns give the probability of the event `pos_label`, which is measured.
    mode : {"top", "classwise"} or None, default=None
        "top": the top label and whether it is the true class. "classwise": each class against the
        rest. None: the event for one or two columns, the top label for more.
    average : {"macro", None}, default="macro"
        For "classwise": the mean over classes. None returns the error of each class.
    pos_label : label, default=None
        Label of the event whose probability is measured. None means 1 or True for labels {0, 1},
        {-1, 1} or booleans. For other labels, None means the second of two columns, and one column
        needs `pos_label`. With more columns, None leaves the choice to `mode`.
    sample_weight : array-like of shape (n,), default=None
        Non-negative weights. Integers are counts: 2 is two copies of the row. Of floats only the
        ratios matter (see "Weights" under "Valid input" in the user guide). 0 is the row's absence.
    labels : array-like of shape (K,), default=None
        Labels of the columns, in their order; needed if they cannot be inferred from `y_true`.

    Returns
    -------
    error : float, or ndarray of shape (K,) if ``average=None``
        In [0, 1]; 0 is best. The error is at least the distance between mean score and mean
        outcome, and equal to this distance if all residuals have the same sign.

    Raises
    ------
    ValueError
        If probabilities, labels, weights or keywords are invalid.

    Notes
    -----
    The error is a consistent measure of calibration: it is between constant multiples of the
    distance to the nearest calibrated predictor and of the square root of this distance. It is
    continuous in the scores, unlike binned errors. Cosine transforms compute the error with a
    precision of 1e-6, in a time that hardly depends on n.

    References
    ----------
    Blasiok, Nakkiran (2024). Smooth ECE: Principled Reliability Diagrams via Kernel Smoothing.
    ICLR.

    Examples
    --------
    >>> from skcalib.metrics import smooth_calibration_error
    >>> y = [0, 1, 1, 0]
    >>> P = [[0.9, 0.1], [0.2, 0.8], [0.6, 0.4], [0.7, 0.3]]
    >>> round(smooth_calibration_error(y, P), 4)
    0.1496
    """
    check_mode(mode, average)
    predictions = check_predictions(y_true, y_proba, sample_weight, labels, pos_label, soft=True)
    return error_by_mode(predictions, smooth_error, mode, average, y_proba=y_proba)
