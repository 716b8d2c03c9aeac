"""Softmax, log-odds and log losses against references with 50 digits.

Float64 stores numbers with a relative error of 1.1e-16, and no number below 1e-308.
"""

import numpy as np
import pytest
from exact import assert_precise, exact, mp, softmax

from skcalib import IdentityCalibrator
from skcalib._scores.scores import Scores
from skcalib.losses import nll_loss
from skcalib.metrics import score_decomposition

LOGITS = np.array(
    [
        [700.0, -700.0, 0.0],
        [700.0, 700.0 - 1e-12, 699.5],
        [-700.0, -700.0 + 1e-12, -701.0],
        [1e-12, 0.0, -1e-12],
        [30.0, -5.0, 0.0],
        [690.0, -8.0, -650.0],
    ]
)
CODE = np.array([0, 1, 2, 0, 1, 2])
SOFTMAX = np.array([softmax(row) for row in exact(LOGITS)])
MILLION = 10**6
TINY = np.finfo(float).tiny
EPSILON = np.finfo(float).eps / 2


def test_softmax():
    calibrator = IdentityCalibrator(input="logits").fit(LOGITS, CODE)
    assert_precise(calibrator.predict_proba(LOGITS), SOFTMAX, relative=1e-12, absolute=TINY)


@pytest.mark.parametrize("k", range(3))
def test_log_loss_of_each_row(k):
    """The loss of a sure and correct prediction is exp(-30): 1 + exp(-30) is rounded."""
    reference = [-mp.log(row[k]) for row in SOFTMAX]
    loss = nll_loss(LOGITS, np.full(6, k), reduction="none")
    assert_precise(loss, reference, relative=1e-12, absolute=EPSILON)


def test_mean_log_loss_of_a_million_rows_of_weight_1e_6():
    some = np.arange(MILLION) % 6
    loss = nll_loss(LOGITS[some], CODE[some], sample_weight=np.full(MILLION, 1e-6))
    count = np.bincount(some)
    logs = [-mp.log(row[code]) for row, code in zip(SOFTMAX, CODE, strict=True)]
    assert_precise(loss, mp.fdot(count, logs) / MILLION, relative=1e-12)


PROBA = {
    "three": [[1e-300, 1e-12, 1 - 1e-12], [1 - 2e-16, 1e-16, 1e-16], [0.5, 0.5 - 1e-12, 1e-12],
              [1e-12, 1e-12, 1 - 2e-12], [0.3, 0.3, 0.4]],
    "two": [[1e-300, 1.0], [1e-12, 1 - 1e-12], [0.5, 0.5], [0.5 + 1e-12, 0.5 - 1e-12]],
}  # fmt: skip


@pytest.mark.parametrize(
    ("kind", "scores"),
    [
        ("logits", LOGITS),
        ("logits", LOGITS[:, :2]),
        ("proba", np.array(PROBA["three"])),
        ("proba", np.array(PROBA["two"])),
    ],
)
def test_log_odds(kind, scores):
    """The sum of the other classes is rounded, so that log-odds near 0 have an error of 1e-16.

    Two logits are subtracted, without rounding if they are close.
    """
    rows = exact(scores)
    if kind == "logits":
        rows = [softmax(row) for row in rows]
    odds = [[mp.log(p / mp.fsum(np.delete(row, k))) for k, p in enumerate(row)] for row in rows]
    computed = Scores(scores, kind, clip=1e-300).log_odds_columns(slice(0, scores.shape[1])).T
    subtracted = kind == "logits" and scores.shape[1] == 2
    assert_precise(computed, odds, relative=1e-12, absolute=0.0 if subtracted else 2 * EPSILON)


P = np.array([1e-300, 1e-12, 0.5 - 1e-12, 0.5 + 1e-12, 1 - 1e-12, 1 - 1e-15])


@pytest.mark.parametrize("rare", [1.0, 1e-6, 1e-12])
@pytest.mark.parametrize("score", ["log", "brier"])
def test_scores_and_uncertainty_with_events_of_small_weight(score, rare):
    y, w = np.array([0, 1, 0, 1, 0, 1]), np.array([1.0, rare, 1.0, rare, 1.0, rare])
    found = score_decomposition(y, P, score=score, pos_label=1, sample_weight=w)
    p, weight = exact(P), exact(w)
    rate = mp.fdot(weight, y) / mp.fsum(weight)
    if score == "log":
        rows = [-mp.log(q if hit else 1 - q) for q, hit in zip(p, y, strict=True)]
        uncertainty = -rate * mp.log(rate) - (1 - rate) * mp.log(1 - rate)
    else:
        rows, uncertainty = list((p - y) ** 2), rate * (1 - rate)
    assert_precise(found.score, mp.fdot(weight, rows) / mp.fsum(weight), relative=1e-12)
    assert_precise(found.uncertainty, uncertainty, relative=1e-12)


def test_log_score_of_sure_and_correct_predictions():
    y, p = np.array([0, 0, 1, 1]), np.array([1e-12, 1e-20, 1 - 1e-12, 1 - 1e-15])
    found = score_decomposition(y, p, score="log", pos_label=1)
    rows = [mp.log(q if hit else 1 - q) for q, hit in zip(exact(p), y, strict=True)]
    assert_precise(found.score, -mp.fsum(rows) / 4, relative=1e-12)


@pytest.mark.parametrize("score", ["log", "brier"])
def test_uncertainty_of_three_classes_of_which_two_are_rare(score):
    w, Q = np.array([1.0, 1e-12, 1e-6, 1.0, 1e-12, 1e-6]), np.full((6, 3), 1 / 3)
    uniform = IdentityCalibrator(input="proba").fit(Q, CODE)
    found = score_decomposition(
        CODE, Q, score=score, mode="joint", sample_weight=w, calibrator=uniform
    )
    prior = [mp.fsum(exact(w[k == CODE])) / mp.fsum(exact(w)) for k in range(3)]
    terms = [-q * mp.log(q) if score == "log" else q * (1 - q) for q in prior]
    assert_precise(found.uncertainty, mp.fsum(terms), relative=1e-12)
