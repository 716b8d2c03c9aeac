"""What holds for every calibrator of the package, beyond the promises of any (`test_contract`).

Most of these are faults that have happened in other libraries.
"""

import numpy as np
import pytest
from discovery import CALIBRATORS
from numpy.testing import assert_allclose
from scipy.special import softmax
from sklearn.base import clone
from sklearn.linear_model import LogisticRegression
from sklearn.tree import DecisionTreeClassifier
from sklearn.utils.estimator_checks import check_estimator

from skcalib import CalibratedClassifier, IsotonicCalibrator, VectorScaling
from skcalib.testing._promises import make_sample

every_kind = pytest.mark.parametrize("kind", ["logits", "proba"])


# ------------------------------------------------------------------ what comes out


# An intercept alone moves the mean of each class, and no confidence.
MENDS = [c for c in CALIBRATORS if c.get_params().get("fit_slope", True)]


@pytest.mark.parametrize("calibrator", MENDS, ids=str)
@every_kind
def test_a_calibrator_mends(calibrator, kind):
    """The Brier score of an over-confident model falls, on rows not fitted on."""
    S, code = make_sample(kind, 3, n=3000, scale=4.0)[:2]
    T, test = make_sample(kind, 3, n=3000, seed=7, scale=4.0)[:2]
    raw = T if kind == "proba" else softmax(T, axis=1)
    mended = clone(calibrator).fit(S, code).predict_proba(T)
    onehot = np.eye(3)[test]
    before, after = ((raw - onehot) ** 2).sum(), ((mended - onehot) ** 2).sum()
    if type(calibrator).__name__ == "IdentityCalibrator":
        assert_allclose(after, before)
    else:
        assert after < 0.97 * before


# ------------------------------------------------------------------ same question, same answer


@pytest.mark.parametrize(
    "calibrator", [c for c in CALIBRATORS if not getattr(c, "centered", False)], ids=str
)
def test_logits_and_their_softmax_give_one_map(calibrator):
    """Of the rows of the fit, but where blocks shrink to the mean of probabilities or log-odds."""
    Z, code = make_sample("logits", 3)[:2]
    logits = Z - np.log(np.exp(Z).sum(axis=1, keepdims=True))
    from_logits = clone(calibrator).fit(logits, code).predict_proba(logits)
    P = np.exp(logits)
    from_proba = clone(calibrator).fit(P, code).predict_proba(P)
    assert_allclose(from_logits, from_proba, atol=1e-6)


# ------------------------------------------------------------------ scikit-learn's own checks


def failures(estimator):
    results = check_estimator(estimator, on_fail=None, on_skip=None)
    return {r["check_name"]: r["exception"] for r in results if r["status"] == "failed"}


LABELS_AND_COLUMNS = "the data have more labels than columns, or fewer; a column is a class here"
FEATURES = "the features are no scores: the check asks for an accuracy that they cannot give"
EITHER = "the features lie in [0, 1] without summing to 1: logits or probabilities is asked"

# Checks whose data are not scores of classes. A bare calibrator passes all others.
EXPECTED_FAILED_CHECKS = {
    "check_fit2d_1feature": EITHER,
    "check_estimators_overwrite_params": LABELS_AND_COLUMNS,
    "check_estimators_fit_returns_self": LABELS_AND_COLUMNS,
    "check_readonly_memmap_input": LABELS_AND_COLUMNS,
    "check_estimators_dtypes": LABELS_AND_COLUMNS,
    "check_classifiers_classes": LABELS_AND_COLUMNS,
    "check_fit2d_1sample": LABELS_AND_COLUMNS,
    "check_classifiers_train": FEATURES,
    "check_fit_score_takes_y": EITHER,
    "check_sample_weights_list": EITHER,
    "check_sample_weight_equivalence_on_dense_data": EITHER,
    "check_dtype_object": FEATURES,
    "check_positive_only_tag_during_fit": FEATURES,
    "check_non_transformer_estimators_n_iter": FEATURES,
    "check_estimators_nan_inf": EITHER,
    "check_classifiers_one_label": EITHER,
    "check_classifiers_one_label_sample_weights": EITHER,
    "check_supervised_y_2d": EITHER,
}


# One calibrator that maps rows and one that maps columns: the others inherit from the same two base
# classes what these checks look at, and keep the promises of `test_contract`.
@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("calibrator", [VectorScaling, IsotonicCalibrator])
def test_bare_calibrators_pass_every_check_whose_data_are_scores(calibrator):
    """The list of the others is as short as it can be, and told the space, half of it passes."""
    # Data of fewer columns in scikit-learn 1.6, which are no features for sure; and iris, which is
    # given to what counts iterations.
    either = {"check_dtype_object", "check_non_transformer_estimators_n_iter"}
    assert set(failures(calibrator())) | either == set(EXPECTED_FAILED_CHECKS)
    told = {name for name, why in EXPECTED_FAILED_CHECKS.items() if why != EITHER}
    assert set(failures(calibrator(input="logits"))) | either == told


# A solver that converges and a tree: fits that respect weights exactly. One fit of a calibrator of
# ours on all rows; one of scikit-learn's for each fold.
JOINED = [
    CalibratedClassifier(DecisionTreeClassifier(random_state=0), cv=2),
    CalibratedClassifier(
        LogisticRegression(), DecisionTreeClassifier(random_state=0), cv=2, ensemble=True
    ),
]


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("model", JOINED, ids=lambda model: " ".join(str(model).split()))
def test_scikit_learn_finds_no_fault_in_a_calibrated_classifier(model):
    assert failures(model) == {}
