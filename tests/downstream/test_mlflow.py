"""MLflow: a calibrated model is saved by its scikit-learn flavour, in the format of skops."""

import mlflow.sklearn
import numpy as np
import skops.io as sio
from sklearn.ensemble import RandomForestClassifier

from skcalib import CalibratedClassifier


def test_a_saved_model_predicts_the_same(binary, tmp_path):
    X, X_new, y, _ = binary
    model = CalibratedClassifier(RandomForestClassifier(20, random_state=0)).fit(X, y)
    mlflow.sklearn.save_model(
        model,
        tmp_path / "model",
        serialization_format="skops",
        skops_trusted_types=sio.get_untrusted_types(data=sio.dumps(model)),
        pip_requirements=["skcalib"],
    )
    again = mlflow.sklearn.load_model((tmp_path / "model").as_posix())
    np.testing.assert_array_equal(again.predict_proba(X_new), model.predict_proba(X_new))
