r"""Intervals of the parts of a proper score.

* The score is a mean over rows; so are miscalibration and discrimination by a given calibrator.
* The uncertainty of one event is a function u of its rate: its interval is the image of Wilson's
  interval of the rate. Of K classes, with share :math:`r_k` of class k, half of :math:`z^2` rows
  evenly divided added, :math:`u = \sum_k f(r_k)`, :math:`d_k = f''(r_k)` and
  :math:`\Sigma = \mathrm{diag}(r) - r r'`, it is

  .. math:: u - \frac{\mathrm{tr}(d \Sigma)}{2 n} \pm z \sqrt{\frac{f' \Sigma f'}{n}
            + \frac{\mathrm{tr}(d \Sigma d \Sigma)}{2 n^2}} ,

  whose second term does not vanish where the shares are equal and the first one does.
* The miscalibration by isotonic regression has the interval of a calibration error, from labels
  drawn from many truths. Labels drawn from one of them, the calibrated probabilities, show the bias
  b and the variance :math:`s^2` of the discrimination T, to which the choice of the rows adds; its
  interval contains all d with :math:`(T - b - d)^2 \le z^2 s^2 d / (T - b)`, and begins at 0 if
  :math:`T - b \le z s`.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import partial
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtri, xlog1py, xlogy

from skcalib._arrays.source import whole
from skcalib._arrays.types import Float64Array, FloatArray
from skcalib._scores.one_vs_rest import map_columns
from skcalib._scores.scores import Scores
from skcalib._scores.top_label import event_or_top
from skcalib._validation.keywords import check_seed
from skcalib._validation.predictions import Predictions, takes_predictions
from skcalib.metrics._curve.bands import wilson_interval
from skcalib.metrics._curve.cells import place_rows
from skcalib.metrics._event import as_binary
from skcalib.metrics._interval.cells import CellError
from skcalib.metrics._interval.class_cells import ClassCells
from skcalib.metrics._interval.errors import LabelError
from skcalib.metrics._interval.intervals import (
    Q_SETS,
    intervals_of,
    observed_of,
    simulate,
)
from skcalib.metrics._interval.jackknife import jackknife_variance, limits_without
from skcalib.metrics._interval.score_cells import ScoreCells, SharedRows
from skcalib.metrics._interval.truths import calibrated
from skcalib.metrics._resampling import Evaluation, in_copies
from skcalib.metrics._row_means import mean_interval
from skcalib.metrics._score_parts import (
    Event,
    Request,
    ScoreName,
    all_parts,
    event_scores,
    isotonic_means,
    map_events,
    recalibrate,
    scores_of_shares,
    shares_of_labels,
    vector_scores,
)

# Scores that are neighbours are joined to this many cells.
MOST_CELLS = 256
# Probabilities in logarithms are at least, and at most, this.
TINY, NEAR_1 = np.finfo(np.float64).tiny, 1 - np.finfo(np.float64).epsneg


def part_intervals(
    asked: Request, level: float, random_state: Any = 0, smooth: FloatArray | None = None
) -> Float64Array:
    """Return the ends ``(4, 2, m)`` of score, miscalibration, discrimination and uncertainty.

    `smooth` is the result of `calibrated`, where it is known.
    """
    predictions, score, mode, average, _ = asked
    ends = np.full((4, 2, predictions.classes.size if average is None else 1), np.nan)
    if predictions.are_soft or (asked.is_classwise and predictions.P.remote is not None):
        return ends
    predictions = in_copies(predictions)
    asked = asked._replace(predictions=predictions)
    rows, known, endless = row_intervals(asked, level)
    ends[: len(rows)] = rows
    ends[3] = uncertainty_interval(asked, level)
    if len(rows) == 1 and known.any():  # by isotonic regression
        if not asked.is_classwise:
            predictions = as_binary(predictions)
            asked = asked._replace(predictions=predictions)
        keywords = {"score": score, "mode": mode, "average": average}
        evaluate = Evaluation(miscalibration, keywords, column=False)
        smooth = calibrated(predictions) if smooth is None else smooth
        found = intervals_of(
            [evaluate], predictions, level=level, random_state=random_state, smooth=smooth
        )[0]
        ends[1] = np.atleast_1d(found.low), np.atleast_1d(found.high)
        ends[2] = discrimination_interval(asked, level, random_state, smooth)
        ends[2, 1] = np.minimum(ends[2, 1], ends[3, 1])
    ends[:3, :, ~known] = np.nan
    ends[: 2 if len(rows) == 1 else 3, :, endless] = np.nan
    return ends


# ------------------------------------------------------------------ means over rows


class RowScores(NamedTuple):
    """Scores of rows ``(c, n)``: given, and recalibrated and of the base rate if there are such."""

    values: Float64Array
    known: bool
    endless: bool


def row_intervals(
    asked: Request, level: float
) -> tuple[Float64Array, NDArray[np.bool_], NDArray[np.bool_]]:
    """Return ends ``(c, 2, m)`` of the c parts that are means over rows, and two masks ``(m,)``.

    They are whether hits and misses were seen, and whether the mean of very many rows may be
    infinite.
    """
    predictions, score, _, average, calibrator = asked
    w = predictions.w
    Q = None if calibrator is None else recalibrate(predictions, calibrator)

    def measure(event: Event) -> RowScores:
        p, hit, found = event
        given = [p] if found is None else [p, found, np.full(p.size, w @ hit / w.sum())]
        certain = any(bool(((r <= 0) | (r >= 1)).any()) for r in given[:2])
        values = np.stack([event_scores(r, hit, score) for r in given])
        return RowScores(values, bool(hit.any() and not hit.all()), score == "log" and certain)

    if asked.is_joint:
        assert Q is not None
        each: Iterable[RowScores] = [vector_rows(predictions, Q, score)]
    else:
        each = map_events(asked, Q, measure)
    if average is not None:
        each = [mean_of_rows(each)]
    most = {"brier": 2.0 if asked.is_joint else 1.0, "log": np.inf}[score]
    found = [(row_ends(rows.values, w, level, most), rows.known, rows.endless) for rows in each]
    ends, known, endless = zip(*found, strict=True)
    return np.stack(ends, axis=-1), np.array(known), np.array(endless)


def vector_rows(predictions: Predictions, Q: FloatArray, score: ScoreName) -> RowScores:
    """Return the scores of probability vectors, recalibrated to ``Q (n, K)``."""
    P, code = whole(predictions.P), predictions.code
    base = np.broadcast_to(shares_of_labels(predictions), P.shape)
    endless = score == "log" and bool(min(P.min(), Q.min()) <= 0)
    values = np.stack([vector_scores(R, code, score) for R in (P, Q, base)])
    return RowScores(values, bool((code != code[0]).any()), endless)


def mean_of_rows(each: Iterable[RowScores]) -> RowScores:
    """Return the mean over problems of the scores of each row."""
    number, (values, known, endless) = 0, (np.zeros((1, 1)), False, False)
    for rows in each:
        values = values + rows.values
        number, known, endless = number + 1, known or rows.known, endless or rows.endless
    return RowScores(values / number, known, endless)


def row_ends(values: Float64Array, w: Float64Array, level: float, most: float) -> Float64Array:
    """Return ends ``(c, 2)`` of means of scores: given, and recalibrated and of the base rate."""
    parts = [values[0]]
    if len(values) > 1:
        given, recalibrated, base = values
        with np.errstate(invalid="ignore"):
            parts += [given - recalibrated, base - recalibrated]
    return np.array(
        [
            mean_interval(each, w, level, low=-most if j else 0.0, high=most)
            if np.isfinite(each).all()
            else (np.nan, np.nan)
            for j, each in enumerate(parts)
        ]
    )


# ------------------------------------------------------------------ the uncertainty


def uncertainty_interval(asked: Request, level: float) -> Float64Array:
    """Return the ends ``(2, m)`` of the score of the base rate."""
    predictions, score, *_ = asked
    n = float(predictions.w.sum())
    share = shares_of_labels(predictions)
    if (asked.is_joint or asked.is_classwise) and asked.average is not None:
        return shares_interval(share, n, level, score, asked.is_joint)[:, None]
    if not asked.is_classwise:
        _, hit = event_or_top(predictions)
        share = np.array([predictions.w @ hit / predictions.w.sum()])
    low, high = wilson_interval(share, np.full(share.size, n), level)
    u = np.stack([entropy(low, score), entropy(high, score)])
    top = np.where((low < 0.5) & (high > 0.5), entropy(np.array(0.5), score), u.max(axis=0))
    return np.stack([u.min(axis=0), top])


def entropy(rate: Float64Array, score: ScoreName) -> Float64Array:
    """Return the expected score of an event's rate."""
    if score == "brier":
        return np.asarray(rate * (1.0 - rate))
    return np.asarray(0.0 - xlogy(rate, rate) - xlog1py(1.0 - rate, -rate))


def shares_interval(
    share: Float64Array, n: float, level: float, score: ScoreName, joint: bool
) -> Float64Array:
    """Return both ends for K classes: of the score of vectors, or the mean over classes."""
    z = float(ndtri((1 + level) / 2))
    extra = z * z / 2
    K = share.size
    r = (n * share + extra / K) / (n + extra)
    n += extra
    value, slope, bend = shares_score(r, score, joint)
    bias = bend @ (r * (1 - r)) / (2 * n)
    first = (slope**2 @ r - (slope @ r) ** 2) / n
    second = (bend**2 @ ((r * (1 - r)) ** 2 - r**4) + (bend @ r**2) ** 2) / (2 * n * n)
    half = z * np.sqrt(max(float(first), 0.0) + max(float(second), 0.0))
    most = shares_score(np.full(K, 1 / K), score, joint)[0]
    return np.clip([value - bias - half, value - bias + half], 0.0, most)


def shares_score(
    r: Float64Array, score: ScoreName, joint: bool
) -> tuple[float, Float64Array, Float64Array]:
    """Return the expected score of shares above 0, and f' and f'' of each."""
    if score == "brier":
        value, slope, bend = 1 - r @ r, 1 - 2 * r, np.full(r.size, -2.0)
    elif joint:
        value, slope, bend = -(r @ np.log(r)), -np.log(r) - 1, -1 / r
    else:
        value, slope, bend = entropy(r, score).sum(), np.log1p(-r) - np.log(r), -1 / (r - r * r)
    scale = 1.0 if joint else 1 / r.size
    return float(value) * scale, slope * scale, bend * scale


# ------------------------------------------------------------------ by isotonic regression


def parts_by_cells(
    predictions: Predictions, keywords: dict[str, Any], shared: SharedRows, *, part: str
) -> CellError:
    """Return miscalibration or discrimination as a function of the hits of cells."""
    score, mode, average = (keywords[name] for name in ("score", "mode", "average"))
    asked = Request(predictions, score, mode, average, None)
    P, _, w, *_ = predictions
    if asked.is_classwise:
        n_classes = P.shape[1]

        def place(_: int, column: Any) -> Any:
            return place_rows(column, w, MOST_CELLS).of_row

        places = list(map_columns(place, Scores(P, "proba")))
        n_cells = 1 + max(int(each.max()) for each in places)
        at = np.empty(P.shape, dtype=np.min_scalar_type(n_classes * (n_cells + 1)))
        for k, each in enumerate(places):
            at[:, k] = k * (n_cells + 1) + each
        cells: ClassCells | ScoreCells = ClassCells(at, P, w, (n_classes, n_cells))
    else:
        rows = shared.of(predictions)
        index = place_rows(rows.score, rows.w, MOST_CELLS).of_row
        cells = ScoreCells.of_index(rows, index, int(index[-1]) + 1)

    def close(H: Float64Array, S: Float64Array, W: Float64Array) -> Float64Array:
        each = part_of_cells(H, S, W, score, part)
        return each if average is None else each.mean(axis=-1, keepdims=True)

    return CellError(cells, close)


def part_of_cells(
    H: Float64Array, S: Float64Array, W: Float64Array, score: ScoreName, part: str
) -> Float64Array:
    """Return a part of the score for hits H, sums of scores S and weights W, ``(..., cells)``."""
    shape = H.shape[:-1]
    W, S = (np.broadcast_to(each, H.shape).reshape(-1, H.shape[-1]) for each in (W, S))
    hits = np.clip(H.reshape(W.shape), 0.0, W)
    misses, total = W - hits, W.sum(axis=-1)
    best = isotonic_means(hits, W, score)
    if part == "discrimination":
        given = scores_of_shares(hits.sum(axis=-1), misses.sum(axis=-1), score) / total
    else:
        p = np.divide(S, W, out=np.zeros_like(S), where=W > 0)
        if score == "brier":
            each = hits * (1 - p) ** 2 + misses * p**2
        else:
            each = -xlogy(hits, np.maximum(p, TINY)) - xlog1py(misses, -np.minimum(p, NEAR_1))
        given = each.sum(axis=-1) / total
    return np.asarray((given - best).reshape(shape))


@takes_predictions
def miscalibration(
    _: object, predictions: Predictions, *, score: ScoreName, mode: str | None, average: str | None
) -> Float64Array:
    """Return the miscalibration ``(m,)`` by isotonic regression."""
    parts = all_parts(Request(predictions, score, mode, average, None))
    each = np.array([part.given - part.recalibrated for part in parts])
    return each if average is None else each.mean(keepdims=True)


miscalibration._is_error = True  # type: ignore[attr-defined]
miscalibration._by_cells = partial(parts_by_cells, part="miscalibration")  # type: ignore[attr-defined]


def discrimination_interval(
    asked: Request, level: float, random_state: Any, q: FloatArray
) -> Float64Array:
    """Return both ends ``(2, m)`` of the discrimination, from labels drawn from q ``(n, K)``."""
    predictions, score, mode, average, _ = asked
    keywords = {"score": score, "mode": mode, "average": average}
    errors: list[LabelError] = [
        parts_by_cells(predictions, keywords, SharedRows(), part="discrimination")
    ]
    entropy_of_seed = check_seed(random_state).randint(0, 2**32, size=4, dtype=np.uint32)
    made = simulate(errors, q, Q_SETS, np.random.SeedSequence(entropy_of_seed.tolist()))
    bias = made.values.mean(axis=0) - made.limits
    variance = made.values.var(axis=0, ddof=1) + jackknife_variance(limits_without(errors, q))
    value = np.maximum(observed_of(errors, predictions) - bias, 0.0)
    z = float(ndtri((1 + level) / 2))
    sd = np.sqrt(variance)
    per_unit = z * z * variance / np.maximum(np.maximum(value, sd), TINY)
    half = np.sqrt(per_unit * value + per_unit**2 / 4)
    centre = value + per_unit / 2
    low = np.where(value <= z * sd, 0.0, np.maximum(centre - half, 0.0))
    return np.stack([low, centre + half])
