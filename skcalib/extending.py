"""Base classes and checks for calibrators and metrics of your own.

`ScoreCalibrator` and `ColumnwiseCalibrator` check their input and pass it, as `Scores`, to your
``_fit`` and ``_map``. `check_predictions` checks the input of a metric.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from skcalib._arrays.rowwise import FloatArray
from skcalib._arrays.sources import to_array
from skcalib._scores.scores import Scores
from skcalib._validation import rows as predictions
from skcalib.calibrators._base import ColumnwiseCalibrator, ScoreCalibrator

__all__ = ["ColumnwiseCalibrator", "Predictions", "ScoreCalibrator", "Scores", "check_predictions"]


class Predictions(NamedTuple):
    """Predictions and labels that `check_predictions` has checked, the input of a metric.

    ``P (n, K)`` are probabilities, ``code (n,)`` is the column of the true class, ``w (n,)`` are
    float64 weights above 0, and ``classes (K,)`` the labels of the columns. ``event`` is the column
    of the measured event, if there are two columns (a single column is converted to two) or
    ``pos_label`` was given, else None.
    """

    P: FloatArray
    code: NDArray[np.intp]
    w: NDArray[np.float64]
    classes: NDArray[Any]
    event: int | None = None

    def of_event(self) -> tuple[FloatArray, NDArray[np.bool_]]:
        """Return the probability of the event in each row, and whether the event occurred."""
        assert self.event is not None
        return self.P[:, self.event], self.code == self.event


def check_predictions(
    y_true: ArrayLike,
    y_proba: ArrayLike,
    sample_weight: ArrayLike | None = None,
    labels: ArrayLike | None = None,
    pos_label: Any = None,
) -> Predictions:
    """Check the arguments of a metric and drop rows of weight 0.

    Parameters
    ----------
    y_true : array-like of shape (n,)
        Labels.
    y_proba : array-like of shape (n, K), (n,) or (n, 1)
        Class probabilities; a single column is the probability of one event.
    sample_weight : array-like of shape (n,), default=None
        Non-negative weights. Integers are counts: 2 means two copies of the row. Only the ratios of
        floats matter (see "Weights" under "Valid input" in the user guide). 0 removes the row.
    labels : array-like of shape (K,), default=None
        Labels of the columns, in their order.
    pos_label : label, default=None
        The event whose probability is measured.

    Returns
    -------
    predictions : Predictions

    Raises
    ------
    ValueError
        If probabilities, labels or weights are invalid.
    """
    checked = predictions.check_predictions(y_true, y_proba, sample_weight, labels, pos_label)
    return Predictions(to_array(checked.P), checked.code, checked.w, checked.classes, checked.event)


# Private names for `_cli`, `_comparison`, `plotting`, `_storage`, `_export` and `_monitor`.
# Besides, these packages import only public names, names of one another, and `FloatArray` and
# `to_array`, which are imported above. The private names may change without notice.
# fmt: off

from skcalib._arrays.dask import compute_now
from skcalib._arrays.rowwise import Bools, Float64Array, Intp, Kind
from skcalib._arrays.sources import (
    ALL, Source, as_source, is_dask, map_rows, recorded_warnings,
)
from skcalib._binning import NumberOfBins, bin_index
from skcalib._maps.formulas import (
    LEAST_LOGIT, ROUNDING, ColumnPlan, Constants, Plan, SharedOperations, Value, probabilities,
    scaled,
)
from skcalib._meta_estimators.calibrated_classifier import CalibratedClassifier
from skcalib._meta_estimators.classifier_scores import ClassifierScores
from skcalib._meta_estimators.groupwise import GroupwiseCalibrator, labels_of_rows, map_group
from skcalib._meta_estimators.multilabel import MultilabelCalibrator
from skcalib._meta_estimators.out_of_fold import (
    ScoredRows, TrainingData, calibrated_proba, fit_calibrator, folds_of, with_input_and_classes,
)
from skcalib._meta_estimators.prior_correction import PriorCorrection
from skcalib._meta_estimators.selective import SelectiveClassifier, accepted_rows
from skcalib._scores.responses import (
    NEVER, class_scores, most_likely, response_kind, without_frozen,
)
from skcalib._scores.scores import (
    CLIP, LEAST_CLIP, LOG_PROBA_MIN, event_or_top, softmax_inplace, top_label,
)
from skcalib._validation.keywords import (
    check_between, check_count, check_flags, check_level, check_option, number_of_bins, seed_of,
    short_repr,
)
from skcalib._validation.labels import (
    EventBy, binary_classes, check_classes, check_labels, class_column, in_class_order,
    name_columns, places_among, read_categories, read_event, split_shares,
)
from skcalib._validation.named_columns import check_event_name, match_names
from skcalib._validation.rows import (
    NAMES, OF_COUNTS, Predictions as InnerPredictions, as_sample_weight, check_lengths,
    check_predictions as check_inner_predictions, check_weight, convert_rows, drop_zero_weight,
    effective, is_whole, numbered, read_clusters, read_groups, read_remote,
)
from skcalib._validation.scores import as_matrix, read_scores
from skcalib._validation.several_labels import read_indicator
from skcalib._validation.survey import (
    MOST_OPTIONS, Survey, as_columns, check_kind, check_values, refuse_features, refuse_labels,
    refuse_nan, resolve_kind, two_columns, warn_of_order,
)
from skcalib.calibrators._affine import AffineCalibrator
from skcalib.calibrators._base import counted, fit_checked, has_formula
from skcalib.calibrators._names import (
    calibrators_by_name, resolve_calibrator, suggest, suggest_name,
)
from skcalib.metrics._binned import EACH, Strategy, check_bins
from skcalib.metrics._common import (
    LINE, cluster_sums, design_effect, format_table, number_of, p_text, resampling_factor,
    separate_rows, student_of_rows, to_html,
)
from skcalib.metrics._curves.curves import CalibrationCurve, wilson_interval
from skcalib.metrics._curves.risk_coverage import RiskCoverageCurve, rank_predictions, read_ranked
from skcalib.metrics._scorers import add_absent_classes
from skcalib.metrics._intervals.bootstrap import draw_counts
from skcalib.metrics._intervals.gains import Gain, GainSimulation
from skcalib.metrics._intervals.interval import NULL_SETS, interval_of
from skcalib.metrics._intervals.label_errors import clusters_text, too_few
from skcalib.metrics._intervals.truths import calibrated
from skcalib.metrics._ks import reduce_top
from skcalib.metrics._resampling import Evaluation, name_metrics, repeat_rows, resample
from skcalib.metrics._scorers import SHORT_NAMES, CalibrationScorer
from skcalib.metrics._statistics.groups import (
    FEWEST_ROWS, GroupCalibration, Grouped, group_rows, label_text, measure_groups,
)
from skcalib.metrics._statistics.labels import group_labels
from skcalib.metrics._statistics.scores import (
    RowLosses, ScoreName, hall_interval, mean_and_error, mean_interval, vector_scores,
)
from skcalib.metrics._statistics.selective_threshold import (
    NO_RELATIVE_WEIGHTS, SelectiveThreshold, find_threshold,
)
