"""Calibration by isotonic regression of each class against the rest."""

from __future__ import annotations

from typing import Any, ClassVar, Literal

import numpy as np
from numpy.typing import ArrayLike
from scipy.optimize import isotonic_regression
from sklearn.utils._param_validation import StrOptions

from skcalib._arrays.rowwise import Float64Array, FloatArray, Intp
from skcalib._maps.formulas import ColumnPlan, Lines, lines, steps, steps_from
from skcalib._scores.one_vs_rest import SortedProblem, map_sorted_blocks
from skcalib._scores.scores import MOST_ODDS, Scores
from skcalib.calibrators._base import ColumnwiseCalibrator, counted, levels, warn_of_flat_maps

# Neighbouring constant blocks are merged if their values differ by less than this fraction, because
# the difference may be a rounding error.
EQUAL = 1e-12


# For each observation: its first row, its weight, and the weight of its positives. An observation
# is a group of rows with equal scores, or of negatives between two positives.
Observations = tuple[Intp, Float64Array, Float64Array]
# For each constant block of an isotonic fit: its first and last row, its value and its class. Rows
# are indices into the sorted scores of several classes, one class after the other.
Blocks = tuple[Intp, Intp, Float64Array, Intp]


def observations(problems: list[SortedProblem]) -> Observations:
    """Group the sorted rows of several classes into the observations of an isotonic fit.

    Negatives between two positives have the same value in the optimum, so that they form one
    observation: with p distinct scores of positives there are at most 2p + 1 observations.
    """
    n = problems[0].values.size
    begin = np.arange(len(problems)) * n

    def ranks(side: Literal["left", "right"]) -> Intp:
        return np.concatenate(
            [
                start + np.searchsorted(problem.values, problem.positives, side=side)
                for start, problem in zip(begin, problems, strict=True)
            ]
        )

    left, member = np.unique(ranks("left"), return_index=True)
    bounds = np.unique(np.concatenate([begin, left, ranks("right"), [n * len(problems)]]))
    start = bounds[:-1]
    hits = np.zeros(start.size)
    at = np.searchsorted(start, left)
    weights = concatenate_weights([problem.weights for problem in problems])
    positive_weights = concatenate_weights([problem.positive_weights for problem in problems])
    if weights is None or positive_weights is None:
        weight = np.diff(bounds).astype(np.float64)
        hits[at] = np.diff(member, append=sum(problem.positives.size for problem in problems))
    else:
        weight = np.add.reduceat(weights, start)
        hits[at] = np.add.reduceat(positive_weights, member) if member.size else 0.0
    return start, weight, hits


def isotonic_blocks(rows: Observations, n: int, n_classes: int) -> Blocks:
    """Return the constant blocks of the isotonic fits of all classes, computed in a single fit.

    2k is added to the observations of class k, so that no block contains two classes.
    """
    start, weight, hits = rows
    k = start // n
    fitted = isotonic_regression(hits / weight + 2.0 * k, weights=weight).x
    rises = np.flatnonzero(np.diff(fitted, prepend=-1.0))
    level = np.add.reduceat(hits, rises) / np.add.reduceat(weight, rises)
    first, level, k = start[rises], np.clip(level, 0.0, 1.0), k[rises]
    begins = np.diff(k, prepend=-1) > 0
    apart = begins | (np.diff(level, prepend=-1.0) > EQUAL * level)
    first = first[apart]
    return first, np.append(first[1:], n * n_classes) - 1, level[apart], k[apart]


def concatenate_weights(parts: list[Float64Array | None]) -> Float64Array | None:
    """Concatenate the weights of several classes, or return None if no class has weights."""
    arrays = [part for part in parts if part is not None]
    return np.concatenate(arrays) if arrays else None


# Scores, and values of the calibration function of a class at these scores.
Points = tuple[Float64Array, Float64Array]


def points_of_classes(x: Float64Array, y: Float64Array, k: Intp, n_classes: int) -> list[Points]:
    """Split points ``(x, y)`` by class, without repeated x and without decreasing y."""
    once = (np.diff(x, prepend=-1.0) > 0) | (np.diff(k, prepend=-1) > 0)
    x, y, k = x[once], y[once], k[once]
    cuts = np.searchsorted(k, np.arange(1, n_classes))
    rising = map(np.maximum.accumulate, np.split(y, cuts))
    return list(zip(np.split(x, cuts), rising, strict=True))


def block_ends(problems: list[SortedProblem]) -> list[Points]:
    """Return scores and values at both ends of the constant isotonic blocks of each class."""
    n = problems[0].values.size

    def scores_at(rows: Intp) -> FloatArray:
        """Return the scores of rows with ascending indices, without a copy of all scores."""
        cuts = np.searchsorted(rows, n * np.arange(1, len(problems)))
        parts = enumerate(np.split(rows, cuts))
        return np.concatenate([problems[k].values[part - n * k] for k, part in parts])

    return _ends_of(observations(problems), n, len(problems), scores_at)


def ends_of_columns(columns: Any) -> list[Points]:
    """Return scores and values at both ends of constant isotonic blocks, computed on a device."""
    n_classes, n = columns.values.shape
    return _ends_of(columns.observations(), n, n_classes, columns.scores_at)


def _ends_of(rows: Observations, n: int, n_classes: int, scores_at: Any) -> list[Points]:
    first, last, level, k = isotonic_blocks(rows, n, n_classes)
    x = scores_at(np.column_stack([first, last]).ravel()).astype(np.float64)
    return points_of_classes(x, np.repeat(level, 2), np.repeat(k, 2), n_classes)


def block_centres(problems: list[SortedProblem]) -> list[Points]:
    """Return the centres of constant isotonic blocks, or both ends of blocks at 0 or 1."""
    shape = problems[0].values.size, len(problems)
    first, last, level, k = isotonic_blocks(observations(problems), *shape)
    values = np.concatenate([problem.values for problem in problems]).astype(np.float64)
    low, high = values[first], values[last]
    size = last - first + 1
    # Scores are taken relative to the first score of their block, so that a narrow block has an
    # exact mean.
    far = np.abs(values) >= MOST_ODDS  # the mean ignores probabilities of 0 and 1
    weights = concatenate_weights([problem.weights for problem in problems])
    weights = np.where(far, 0.0, 1.0 if weights is None else weights)
    base = np.where(far[first], 0.0, low)
    values -= np.repeat(base, size)
    total, mass = np.add.reduceat(weights, first), np.add.reduceat(values * weights, first)
    centre = np.where(total > 0, base + mass / np.where(total > 0, total, 1.0), low)
    centre = np.minimum(centre, high)
    at_end = (level == 0.0) | (level >= 1.0 - EQUAL)
    x = np.column_stack([np.where(at_end, low, centre), np.where(at_end, high, centre)]).ravel()
    return points_of_classes(x, np.repeat(level, 2), np.repeat(k, 2), len(problems))


class IsotonicCalibrator(ColumnwiseCalibrator):
    r"""Calibrate each class by isotonic regression, a non-decreasing function.

    Isotonic regression is for scores whose order is good and whose distortion has an unknown
    form, with thousands of rows. It can predict exactly 0 and 1: if an event with probability 0
    occurs, the log loss is infinite.

    For class k,

    .. math:: \min_{f_k \text{ non-decreasing}}
              \sum_i w_i \left( \mathbf{1}[y_i = k] - f_k(p_{ik}) \right)^2, \qquad
              q_{ik} = \frac{f_k(p_{ik})}{\sum_j f_j(p_{ij})} ;

    a row of zeros becomes uniform. With two classes, the function of the second class is used for
    both.

    Parameters
    ----------
    interpolation : {"linear", "step"}, default="linear"
        Form of the function between two constant blocks: a straight line, or a step at the first
        score of the upper block.
    centered : bool, default=False
        Whether each constant block shrinks to its weighted mean score, with straight lines
        between blocks (centred isotonic regression). The function then increases strictly from the
        first of these scores to the last. Blocks with the value 0 or 1 stay flat. Requires
        ``interpolation="linear"``.
    input : {"auto", "logits", "proba"}, default="auto"
        What the columns of `X` are. "auto" decides once, in ``fit``: rows that sum to 1 within
        0.001 are probabilities, others logits; rows of both kinds, or rows that all sum to 100,
        raise an error.
    classes : array-like of shape (K,), default=None
        Labels of the columns, sorted; needed if they cannot be inferred from `y`.

    Attributes
    ----------
    X_thresholds_ : list of ndarray
        For each function, the smallest and the largest score of each constant block, or its mean
        score if `centered`; a list of K arrays, or of 1 for two classes. Log-odds if `input_` is
        "logits".
    y_thresholds_ : list of ndarray
        Values of the functions at these scores, non-decreasing, in [0, 1].
    classes_ : ndarray of shape (K,)
        Sorted labels of the columns.
    class_count_ : ndarray of shape (K,)
        Weight of the rows of each class in ``fit``.
    input_ : {"logits", "proba"}
        What the columns of `X` were in ``fit``.
    n_features_in_ : int
        Number of columns of `X`.

    Raises
    ------
    ValueError
        In ``fit``, for ``centered=True`` with ``interpolation="step"``.

    Warns
    -----
    sklearn.exceptions.ConvergenceWarning
        In ``fit``, if a class has no row, so that its probability is always 0, or if every function
        is constant, as for reversed scores.

    See Also
    --------
    skcalib.HistogramBinning : Fixed bins; the function may decrease.
    sklearn.isotonic.IsotonicRegression : The same fit for a single column.

    Notes
    -----
    For logits, the scores are log-odds, because the probabilities of large logits round to 1, and
    lines are straight in log-odds. A probability of 0 or 1 has log-odds of -1e38 or 1e38.

    A score outside the range of the calibration scores gets the value of the nearest end. Blocks
    without positives have the value 0, so that a log loss after isotonic calibration may be
    infinite; centring does not change them.

    Centring assigns the value of a block to its mean score, instead of to all of its scores. This
    gives fewer ties, and no jumps between close scores. The squared error on the calibration rows
    is then no longer the smallest possible.

    References
    ----------
    .. [1] B. Zadrozny and C. Elkan, "Transforming classifier scores into accurate multiclass
       probability estimates", KDD 2002.
    .. [2] A. P. Oron and N. Flournoy, "Centered isotonic regression: point and interval estimation
       for dose-response studies", Statistics in Biopharmaceutical Research 9(3), 2017.

    Examples
    --------
    >>> from skcalib import IsotonicCalibrator
    >>> p, y = [0.1, 0.3, 0.4, 0.6, 0.9], [0, 1, 0, 1, 1]
    >>> isotonic = IsotonicCalibrator().fit(p, y)
    >>> isotonic.predict_proba([0.2, 0.35])
    array([[0.75, 0.25],
           [0.5 , 0.5 ]])

    Scores 0.3 and 0.4 share the value 0.5; centring moves it to their mean, 0.35:

    >>> centred = IsotonicCalibrator(centered=True).fit(p, y)
    >>> centred.X_thresholds_[0].round(2).tolist(), centred.y_thresholds_[0].tolist()
    ([0.1, 0.35, 0.6, 0.9], [0.0, 0.5, 1.0, 1.0])
    """

    _paper = "Zadrozny and Elkan 2002; centred: Oron and Flournoy 2017"
    _takes_soft_hits = True
    _fits_on_device = True
    _absent_class = "0"
    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        **ColumnwiseCalibrator._parameter_constraints,
        "interpolation": [StrOptions({"linear", "step"})],
        "centered": ["boolean"],
    }

    def __init__(
        self,
        *,
        interpolation: Literal["linear", "step"] = "linear",
        centered: bool = False,
        input: str = "auto",
        classes: ArrayLike | None = None,
    ) -> None:
        super().__init__(input=input, classes=classes)
        self.interpolation = interpolation
        self.centered = centered

    def _fit(self, scores: Scores, code: Intp, w: Float64Array) -> dict[str, Any]:
        if self.centered and self.interpolation == "step":
            raise ValueError(
                "centered=True needs linear interpolation between the constant blocks: pass "
                'interpolation="linear", or centered=False.'
            )
        points = block_centres if self.centered else block_ends
        first = self._first_column(scores.shape[1])
        on_device = None if self.centered else ends_of_columns
        maps = list(map_sorted_blocks(points, scores, code, w, first, on_device))
        ends = [(y[0], y[-1]) for _, y in maps if y[-1] > 0 and y[0] < 1]
        if ends and all(low == high for low, high in ends):
            warn_of_flat_maps(type(self).__name__)
        return {"X_thresholds_": [x for x, _ in maps], "y_thresholds_": [y for _, y in maps]}

    def _in_words(self) -> str:
        maps = counted(len(self.y_thresholds_), "function")
        return f"{maps} with {levels(self.y_thresholds_)}"

    def _plan(self) -> ColumnPlan:
        x, y = self.X_thresholds_, self.y_thresholds_
        if self.interpolation == "step":
            return self._column_plan(steps, {"map": steps_from(x, y)}, "ordered")
        return self._column_plan(lines, {"map": Lines(x, y)}, "ordered")
