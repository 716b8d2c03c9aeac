"""Keywords that mean nothing are refused by name, in every metric and loss that has them."""

import pytest
from calls import refused

from skcalib import losses, metrics

GCE, SOFT = metrics.general_calibration_error, metrics.soft_binned_calibration_error
REFUSED = [
    (GCE, {"n_bins": 0}, "n_bins must be a whole number >= 1; got 0"),
    (GCE, {"strategy": "even"}, "strategy must be one of"),
    (GCE, {"closed": "both"}, "closed must be one of"),
    (GCE, {"quantile_method": "floor"}, "quantile_method must be one of"),
    (GCE, {"threshold": 1.5}, "threshold must be None or a number"),
    (GCE, {"class_weight": None}, "class_weight must be one of"),
    (GCE, {"bin_weight": "mass"}, "bin_weight must be one of"),
    (GCE, {"average": None}, "average=None.* needs class_conditional"),
    (metrics.avuc_loss, {"threshold": -1}, "threshold must be an entropy >= 0 in nats; got -1"),
    (metrics.soft_avuc_loss, {"kappa": 0}, r"kappa must be a number in \(0, 1\); got 0"),
    (metrics.soft_avuc_loss, {"temperature": 0}, "temperature must be a positive number; got 0"),
    (metrics.ks_calibration_error, {"r": 3}, "r must be a whole number from 1 to 2; got 3"),
    (metrics.local_calibration, {"decay": 1.0}, r"decay must be a number in \(0, 1\); got 1.0"),
    (metrics.local_calibration, {"decay": 0}, "decay must be"),
    (metrics.local_calibration, {"at": [0.5, 1.5]}, r"at contains a value outside \[0, 1\]"),
    (SOFT, {"temperature": 0}, "temperature must be a positive number; got"),
    (SOFT, {"temperature": float("nan")}, "temperature must be a positive number; got"),
    (losses.focal_loss, {"gamma": -1}, "gamma must be a number >= 0; got -1"),
    (losses.avuc_loss, {"threshold": -1}, "threshold must be an entropy >= 0 in nats; got -1"),
    (losses.soft_avuc_loss, {"kappa": 1}, r"kappa must be a number in \(0, 1\); got 1"),
    (losses.soft_avuc_loss, {"temperature": 0}, "temperature must be a positive number; got 0"),
    (losses.soft_binned_loss, {"temperature": -1}, "temperature must be a positive number; got -1"),
    (losses.soft_binned_loss, {"n_bins": 0}, "n_bins must be a whole number >= 1"),
    (losses.soft_binned_loss, {"kind": "lb"}, "kind must be one of"),
    (losses.soft_binned_loss, {"norm": "max"}, "norm must be one of"),
    (losses.soft_binned_loss, {"mode": "all"}, "mode must be one of"),
]


@pytest.mark.parametrize(("function", "keywords", "message"), REFUSED)
def test_wrong_keywords_are_named_with_the_mend(function, keywords, message):
    if function.__module__.startswith("skcalib.losses"):
        refused(message, function, [[0.0, 1.0]], [0], **keywords)
    else:
        refused(message, function, [0, 1], [0.2, 0.7], **keywords)
