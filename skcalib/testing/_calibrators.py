"""The checks of a calibrator, in their order."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import skcalib.testing._calibrator_checks as checks
from skcalib.testing._promises import checks_in, run_checks

# Basic checks come first, so that the reported promise is the one that is broken.
CALIBRATOR_CHECKS = checks_in(vars(checks))


def check_calibrator(
    calibrator: Any, *, expected_failed_checks: Mapping[str, str] | None = None
) -> None:
    """Check that a calibrator behaves like those of this package.

    The checks use logits and probabilities of two and of four classes, or only one of these if the
    parameter `input` is not "auto".

    Parameters
    ----------
    calibrator : estimator
        An instance; clones of it are fitted.
    expected_failed_checks : dict of str to str, default=None
        Names of checks that are left out, and the reasons.

    Raises
    ------
    AssertionError
        At the first check that fails, with one line that says which check it is and why it fails.
    ValueError
        If `expected_failed_checks` names a check that does not exist.

    See Also
    --------
    check_calibration_metric : Checks of a metric.
    sklearn.utils.estimator_checks.check_estimator : The checks of scikit-learn for any estimator.

    Examples
    --------
    >>> from skcalib import TemperatureScaling
    >>> from skcalib.testing import check_calibrator
    >>> check_calibrator(TemperatureScaling())
    """
    name = " ".join(str(calibrator).split())
    run_checks(calibrator, name, CALIBRATOR_CHECKS, expected_failed_checks)
