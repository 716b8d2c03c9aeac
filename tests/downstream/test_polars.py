"""polars: series of labels and frames of scores, in any order of the columns."""

import numpy as np
import polars as pl
from sklearn.linear_model import LogisticRegression

from skcalib import TemperatureScaling
from skcalib.metrics import expected_calibration_error


def test_frames_are_read_by_name(football):
    X, X_new, y, y_new = football
    model = LogisticRegression().fit(X, y)
    P = model.predict_proba(X_new)
    frame = pl.DataFrame(P, schema=list(model.classes_)).select("Home", "Draw", "Away")
    labels = pl.Series("outcome", y_new)
    error = expected_calibration_error(labels, frame)
    np.testing.assert_allclose(error, expected_calibration_error(y_new, P), rtol=1e-12)
    calibrator = TemperatureScaling().fit(frame, labels)
    expected = TemperatureScaling().fit(P, y_new).predict_proba(P)
    np.testing.assert_allclose(calibrator.predict_proba(frame), expected, rtol=1e-9)
