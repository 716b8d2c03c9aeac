"""Optuna: the calibrator and a parameter of the model are searched by log loss."""

import optuna
from sklearn.ensemble import RandomForestClassifier
from sklearn.model_selection import cross_validate

from skcalib import CalibratedClassifier
from skcalib.metrics import get_scorer


def test_a_study_chooses_calibrator_and_depth(binary):
    X, _, y, _ = binary
    scoring = {name: get_scorer(name) for name in ("neg_log_loss", "neg_ks_calibration_error")}

    def objective(trial):
        depth = trial.suggest_int("depth", 2, 8)
        name = trial.suggest_categorical("calibrator", ["auto", "platt", "temperature"])
        forest = RandomForestClassifier(10, max_depth=depth, random_state=0)
        scores = cross_validate(
            CalibratedClassifier(forest, name, cv=3), X, y, cv=3, scoring=scoring
        )
        trial.set_user_attr("ks", -scores["test_neg_ks_calibration_error"].mean())
        return -scores["test_neg_log_loss"].mean()

    optuna.logging.set_verbosity(optuna.logging.ERROR)
    study = optuna.create_study(sampler=optuna.samplers.RandomSampler(seed=0))
    study.optimize(objective, n_trials=4)
    assert 0 < study.best_value < 0.6
    assert 0 < study.best_trial.user_attrs["ks"] < 0.3
