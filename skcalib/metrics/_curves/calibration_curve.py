"""The calibration curve: the event's rate against its predicted probability, with bands."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike

from skcalib._arrays.types import Float64Array
from skcalib._binning.bins import NumberOfBins
from skcalib._validation.keywords import check_level, check_option
from skcalib._validation.predictions import check_predictions
from skcalib.metrics._curves.methods import (
    binned_points,
    lowess_points,
    rising_points,
    smooth_points,
    weight_near,
)
from skcalib.metrics._errors.binned import Strategy, check_bins
from skcalib.metrics._event import event_rows
from skcalib.metrics._listed import listed

POINTS = {"smooth": smooth_points, "isotonic": rising_points, "lowess": lowess_points}


@dataclass(frozen=True, eq=False, repr=False)
class CalibrationCurve:
    """What `calibration_curve` returns: g points in ascending order of the score.

    It unpacks to ``prob_true, prob_pred``, as the pair of scikit-learn's function does.

    Attributes
    ----------
    prob_pred : ndarray of shape (g,)
        Predicted probabilities, in [0, 1].
    prob_true : ndarray of shape (g,)
        The event's rate at each, in [0, 1].
    low, high : ndarray of shape (g,)
        Pointwise band: the interval of each rate by itself.
    low_simultaneous, high_simultaneous : ndarray of shape (g,)
        Band of the whole curve.
    weight : ndarray of shape (g,)
        Weight of the rows of each bin or, of other methods, of those that are nearest to the point.
    method : str
        As given.
    confidence_level : float
        Level of both bands.
    n_clusters : int or None
        Number of clusters; None if rows are independent.
    """

    prob_pred: Float64Array
    prob_true: Float64Array
    low: Float64Array
    high: Float64Array
    low_simultaneous: Float64Array
    high_simultaneous: Float64Array
    weight: Float64Array
    method: str
    confidence_level: float
    n_clusters: int | None = None

    @property
    def frame(self) -> pd.DataFrame:
        """The points as a frame: a column for each array, a row for each point."""
        return pd.DataFrame(
            {name: part for name, part in vars(self).items() if isinstance(part, np.ndarray)}
        )

    def __iter__(self) -> Iterator[Float64Array]:
        return iter((self.prob_true, self.prob_pred))

    def __repr__(self) -> str:
        p, rate = self.prob_pred, self.prob_true
        clusters = "" if self.n_clusters is None else f", {self.n_clusters} clusters"
        return (
            f"CalibrationCurve(method={self.method!r}, {p.size} points, "
            f"prob_pred {p[0]:.3g} to {p[-1]:.3g}, "
            f"prob_true {rate.min():.3g} to {rate.max():.3g}, "
            f"confidence_level={self.confidence_level:g}{clusters})"
        )


@listed("Austin and Steyerberg 2014; Dimitriadis et al. 2021")
def calibration_curve(
    y_true: ArrayLike,
    y_proba: ArrayLike | None = None,
    *,
    method: Literal["smooth", "isotonic", "bins", "lowess"] | None = None,
    confidence_level: float = 0.95,
    n_bins: NumberOfBins | None = None,
    strategy: Strategy | None = None,
    pos_label: Any = None,
    sample_weight: ArrayLike | None = None,
    labels: ArrayLike | None = None,
    clusters: Any = None,
    y_prob: ArrayLike | None = None,
) -> CalibrationCurve:
    r"""Rate of an event as a function of its predicted probability, with confidence bands.

    "smooth" fits, with :math:`x = \log (p / (1 - p))`,

    .. math:: \log \frac{r(p)}{1 - r(p)} = x + a + b x + s(x),

    s being a natural cubic spline with 16 knots and a penalty on its curvature. The penalty is
    estimated from the labels, and the bands include its uncertainty.

    ``prob_true, prob_pred = calibration_curve(y, p, n_bins=10)`` is the pair of scikit-learn's
    function of this name.

    Parameters
    ----------
    y_true : array-like of shape (n,) or (n, K)
        Labels; with one column also soft hits, shares of the event in [0, 1]; or the shares of
        several raters, a column for each class.
    y_proba : array-like of shape (n, K), (n,) or (n, 1)
        Class probabilities, a column for each of the sorted labels, or of `labels` in their
        order; a frame whose columns are named by the labels is read by name. One or two columns
        give the probability of one event, `pos_label`, and are measured as that.
    method : {"smooth", "isotonic", "bins", "lowess"}, default=None
        None means "bins" if `n_bins` or `strategy` is given, else "smooth".

        * "smooth": as above.
        * "isotonic": the rising step function of the least squared error (pool adjacent
          violators), as in CORP reliability diagrams. Points are both ends of each step.
        * "bins": the share of hits of each bin that has rows.
        * "lowess": local straight lines, as of R's ``val.prob``, by statsmodels. It has no bands
          (they are NaN) and takes no weights.
    confidence_level : float in (0, 1), default=0.95
        Level of both bands.
    n_bins : int or "cube_root", default=None
        Number of bins, for "bins". "cube_root" is the cube root of the number of rows, rounded
        up; None means 15.
    strategy : {"uniform", "quantile"}, default=None
        Bins of equal width, or of equal weight, for "bins". None means "uniform" if `n_bins` is
        given, else "quantile". Given `n_bins`, quantile bins are cut as in scikit-learn
        (``quantile_method="linear"`` of `general_calibration_error`), else at scores ("edges").
    pos_label : label, default=None
        The event whose probability is the score. None means 1 or True for labels {0, 1}, {-1, 1} or
        booleans; of other labels the second of two columns, while one column needs it. With
        more columns, None means the top label.
    sample_weight : array-like of shape (n,), default=None
        Non-negative weights. Integers are counts: 2 is two copies of the row. Of floats only the
        ratios matter (see "Weights" under "Valid input" in the user guide). 0 is the row's absence.
    labels : array-like of shape (K,), default=None
        Labels of the columns, in their order; needed if they cannot be inferred from `y_true`.
    clusters : array-like of shape (n,), default=None
        Label of each row's cluster, such as the hospital of a patient: rows of a cluster were drawn
        together, and may go wrong together. At least 3; see "Rows that belong together" in the user
        guide. None means that rows are independent.
    y_prob : array-like of shape (n, K), (n,) or (n, 1), default=None
        The name of `y_proba` in scikit-learn; only one of them can be given.

    Returns
    -------
    curve : CalibrationCurve
        Arrays ``prob_pred``, ``prob_true``, ``low``, ``high``, ``low_simultaneous``,
        ``high_simultaneous`` and ``weight`` of shape (g,), with g points in ascending order of the
        score; ``frame`` has them as columns. Between points the curve is straight:
        ``np.interp(p, curve.prob_pred, curve.prob_true)``.

    Raises
    ------
    ValueError
        If probabilities, labels, weights or keywords are invalid, if "lowess" gets weights, or if
        another method than "bins" gets `n_bins` or `strategy`.
    ImportError
        If statsmodels is missing, for "lowess".

    See Also
    --------
    integrated_calibration_index : Mean distance of the smooth curve from the diagonal.
    reliability_table : Bins, with all their numbers.
    skcalib.plotting.ReliabilityDisplay : A plot of it.

    Notes
    -----
    The pointwise band contains the true rate at 95 % of the scores; the simultaneous band contains
    the whole true curve in 95 % of samples.

    "smooth": bands are of a normal posterior of the curve's logit, which is a mixture over the
    amount of bending; the simultaneous one is widened by the volume-of-tube formula. How often they
    cover the truth is measured by ``python -m benchmarks.coverage bands``, with a table under "How
    often intervals cover". Intercept and slope have a weak prior (standard deviation 5), which
    keeps the curve within bounds where no row, or every row, has the event. Exact 0 and 1 count as
    half the smallest probability above 0 (below 1) of the rows. If no score is between 0 and 1,
    rates are shares of hits. Of more than 2,048 distinct scores, neighbours are joined for the fit.

    "isotonic": the bands cover every rising curve, at any n. The bound at a score is the narrowest
    of Clopper and Pearson's bounds of the runs of rows that end, or begin, there, each corrected
    for the number of runs. They are wider than the smooth ones, and need not cover a curve that
    falls.

    "bins": Wilson's intervals of the rate of each bin, which is the mean rate of its rows; the
    simultaneous band has Bonferroni's correction.

    With `clusters`, bands of "smooth" also contain the symmetric ones of the covariance S + S (M -
    I) S of the coefficients, with S as before, M of the sums of the scores over clusters, I the
    information and factors of Student's t. Rows of "isotonic" and "bins" count as fewer, by the
    design effect of their residuals.

    Bands of soft hits are those of the same number of outcomes 0 and 1. Soft hits of the same mean
    vary less, so these bands are wider than necessary.

    References
    ----------
    Austin, Steyerberg (2014). Graphical assessment of internal and external calibration of logistic
    regression models by using loess smoothers. Statistics in Medicine 33.

    Dimitriadis, Gneiting, Jordan (2021). Stable reliability diagrams for probabilistic classifiers.
    PNAS 118.

    Dimitriadis, Duembgen, Henzi, Puke, Ziegel (2023). Honest calibration assessment for binary
    outcome predictions. Biometrika 110.

    Marra, Wood (2012). Coverage properties of confidence intervals for generalized additive model
    components. Scandinavian Journal of Statistics 39.

    Examples
    --------
    >>> import numpy as np
    >>> from skcalib.metrics import calibration_curve
    >>> rng = np.random.default_rng(0)
    >>> p = rng.beta(1, 20, size=5000)
    >>> y = rng.random(5000) < 0.5 * p
    >>> curve = calibration_curve(y, p)
    >>> curve  # doctest: +NORMALIZE_WHITESPACE
    CalibrationCurve(method='smooth', 98 points, prob_pred 1.2e-05 to 0.433,
                     prob_true 1.16e-06 to 0.0785, confidence_level=0.95)
    >>> at = [0.01, 0.1]  # the true rates are 0.005 and 0.05
    >>> [np.interp(at, curve.prob_pred, end).round(3).tolist() for end in (curve.low, curve.high)]
    [[0.002, 0.037], [0.009, 0.065]]
    """
    if y_proba is not None and y_prob is not None:
        raise ValueError("y_prob is another name of y_proba: pass one of them.")
    proba: Any = y_proba if y_prob is None else y_prob
    has_bins = n_bins is not None or strategy is not None
    if method is None:
        method = "bins" if has_bins else "smooth"
    check_option("method", method, ("smooth", "isotonic", "bins", "lowess"))
    if has_bins and method != "bins":
        raise ValueError(
            f"method={method!r} has no bins: pass method='bins', or neither n_bins nor strategy."
        )
    check_level(confidence_level)
    if strategy is None:
        strategy = "quantile" if n_bins is None else "uniform"
    cuts = "edges" if n_bins is None else "linear"
    bins = check_bins(15 if n_bins is None else n_bins, strategy, quantile_method=cuts)
    given = y_true, proba, sample_weight, labels, pos_label
    predictions = check_predictions(*given, soft=True, clusters=clusters)
    with np.errstate(under="ignore"):
        if method == "bins":
            points, weight = binned_points(predictions, bins, confidence_level)
        else:
            rows = event_rows(predictions)
            points = POINTS[method](rows, confidence_level)
            weight = weight_near(points.p, rows)
    return CalibrationCurve(*points, weight, method, confidence_level, predictions.n_clusters)
