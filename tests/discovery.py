"""Every calibrator and metric of the package: a new one is tested on the day it is added."""

import pytest

import skcalib.calibrators
from skcalib import metrics

# Parameters under which a calibrator goes another way than by default.
VARIANTS = {
    "AutoCalibrator": [{"order_preserving": True}],
    "TemperatureScaling": [{"objective": "brier"}, {"objective": "soft_binned"}],
    "VectorScaling": [{"penalty": None}],
    "MatrixScaling": [{"penalty": None}, {"penalty": "odir"}],
    "SplineCalibrator": [{"mode": "top"}, {"mode": "classwise", "n_knots": 6}, {"runout": "cubic"}],
    "HistogramBinning": [{"strategy": "quantile", "n_bins": 8}, {"class_conditional": False}],
    "IsotonicCalibrator": [{"interpolation": "step"}, {"centered": True}],
    "PlattScaling": [{"degree": 2}, {"fit_slope": False}],
}

DEFAULTS = [getattr(skcalib.calibrators, name)() for name in skcalib.calibrators.__all__]
CALIBRATORS = [
    getattr(skcalib.calibrators, name)(**keywords)
    for name in skcalib.calibrators.__all__
    for keywords in [{}, *VARIANTS.get(name, [])]
]
# A scorer exists for every function of the package that is an error.
ERRORS = [getattr(metrics, name.removeprefix("neg_")) for name in metrics.SCORERS]


def each_of(calibrators):
    """Run a test for each of some calibrators, named by their parameters."""
    return pytest.mark.parametrize(
        "calibrator", calibrators, ids=lambda c: " ".join(repr(c).split())
    )
