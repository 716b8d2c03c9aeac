"""skops: a calibrated model as a file, with the types that one has to trust."""

import numpy as np
import skops.io as sio
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from skcalib import AutoCalibrator, CalibratedClassifier, ClassifierScores


def test_models_come_back_from_a_file(football, tmp_path):
    X, X_new, y, _ = football
    logistic = make_pipeline(StandardScaler(), LogisticRegression())
    for model in (
        CalibratedClassifier(logistic, ensemble=True),
        make_pipeline(ClassifierScores(logistic), AutoCalibrator()),
    ):
        model.fit(X, y)
        sio.dump(model, tmp_path / "model.skops")
        types = sio.get_untrusted_types(file=tmp_path / "model.skops")
        assert types
        assert all(name.startswith("skcalib.") for name in types)
        again = sio.load(tmp_path / "model.skops", trusted=types)
        np.testing.assert_array_equal(again.predict_proba(X_new), model.predict_proba(X_new))
