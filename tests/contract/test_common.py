"""What holds for every calibrator of the package, beyond the promises of any (`test_contract`).

Most of these are faults that have happened in other libraries.
"""

import listing
import numpy as np
import pytest
from discovery import CALIBRATORS
from listing import known_failures
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


# In scikit-learn 1.6, the data of these checks have fewer columns. The solver's iterations are
# counted only for calibrators with `n_iter_`.
NOT_ALWAYS = {"check_dtype_object", "check_non_transformer_estimators_n_iter"}
# In the data of this check are NaN, which some calibrators accept, and fail later in another check.
NAN = {"check_estimators_nan_inf", "check_estimators_pickle"}


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("calibrator", listing.CALIBRATORS.values())
def test_calibrators_fail_only_the_checks_that_the_page_lists(calibrator):
    expected = known_failures(
        "calibrators", 'calibrators with `input="auto"`', f"`{calibrator.__name__}`"
    )
    failed = set(failures(calibrator()))
    assert failed <= expected
    assert expected - failed <= NOT_ALWAYS | NAN
    assert NAN & failed


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("calibrator", [VectorScaling, IsotonicCalibrator])
def test_fewer_checks_fail_if_scores_are_declared_as_logits(calibrator):
    assert set(failures(calibrator(input="logits"))) | NOT_ALWAYS == known_failures("calibrators")


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
