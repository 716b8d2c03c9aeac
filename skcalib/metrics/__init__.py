"""Calibration errors, tests, confidence intervals, curves, and scorers for scikit-learn."""

# The scorers in `SCORERS` are created from the metrics that are imported before it, so the order of
# these imports matters.
from skcalib.metrics._binned import (
    debiased_calibration_error,
    general_calibration_error,
    label_binned_calibration_error,
    reliability_table,
    sweep_calibration_error,
)
from skcalib.metrics._top_label import (
    expected_calibration_error,
    maximum_calibration_error,
    root_mean_squared_calibration_error,
)
from skcalib.metrics._classwise import (
    adaptive_calibration_error,
    static_calibration_error,
    thresholded_adaptive_calibration_error,
)
from skcalib.metrics._ks import binary_view, ks_calibration_error, top_label_brier_score
from skcalib.metrics._smooth import (
    avuc_loss,
    kde_calibration_error,
    maximum_mean_calibration_error,
    smooth_calibration_error,
    soft_avuc_loss,
    soft_binned_calibration_error,
)
from skcalib.metrics._curves.curves import calibration_curve, integrated_calibration_index
from skcalib.metrics._curves.risk_coverage import aurc_loss, risk_coverage_curve
from skcalib.metrics._curves.smooth import local_calibration
from skcalib.metrics._intervals.bootstrap import bootstrap_interval
from skcalib.metrics._intervals.interval import calibration_interval
from skcalib.metrics._statistics.groups import calibration_by_group
from skcalib.metrics._statistics.labels import calibration_by_label
from skcalib.metrics._statistics.tests import (
    calibration_test,
    hosmer_lemeshow_test,
    spiegelhalter_test,
)
from skcalib.metrics._statistics.scores import score_decomposition
from skcalib.metrics._statistics.event import (
    calibration_intercept_slope,
    calibration_summary,
    net_benefit,
    observed_expected_ratio,
)
from skcalib.metrics._statistics.label_plan import label_plan
from skcalib.metrics._statistics.selective_threshold import selective_threshold
from skcalib.metrics._scorers import SCORERS, get_scorer, make_calibration_scorer

__all__ = [
    "SCORERS",
    "adaptive_calibration_error",
    "aurc_loss",
    "avuc_loss",
    "binary_view",
    "bootstrap_interval",
    "calibration_by_group",
    "calibration_by_label",
    "calibration_curve",
    "calibration_intercept_slope",
    "calibration_interval",
    "calibration_summary",
    "calibration_test",
    "debiased_calibration_error",
    "expected_calibration_error",
    "general_calibration_error",
    "get_scorer",
    "hosmer_lemeshow_test",
    "integrated_calibration_index",
    "kde_calibration_error",
    "ks_calibration_error",
    "label_binned_calibration_error",
    "label_plan",
    "local_calibration",
    "make_calibration_scorer",
    "maximum_calibration_error",
    "maximum_mean_calibration_error",
    "net_benefit",
    "observed_expected_ratio",
    "reliability_table",
    "risk_coverage_curve",
    "root_mean_squared_calibration_error",
    "score_decomposition",
    "selective_threshold",
    "smooth_calibration_error",
    "soft_avuc_loss",
    "soft_binned_calibration_error",
    "spiegelhalter_test",
    "static_calibration_error",
    "sweep_calibration_error",
    "thresholded_adaptive_calibration_error",
    "top_label_brier_score",
]
