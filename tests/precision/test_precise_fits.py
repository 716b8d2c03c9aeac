"""Temperature, Platt scaling and beta calibration against fits with 50 digits.

Fits end at a gradient of 1e-12, or if the error of log T is below 1e-9. The last step of Newton's
method makes both errors far smaller. Platt scaling treats scores as constant if their standard
deviation is below 1e-12 times the largest score. Beta calibration cannot separate its coefficients
if all probabilities are within 1e-12 of one half, where log p and -log(1 - p) are linear.
"""

import numpy as np
import pytest
from exact import assert_precise, exact, logistic, mp, softmax

from skcalib import BetaCalibrator, PlattScaling, TemperatureScaling

rng = np.random.default_rng(0)
CODE = np.tile([0, 1, 2], 4)
Z = rng.normal(size=(12, 3)) + np.eye(3)[CODE]
HIT = np.array([0, 1, 0, 0, 0, 1, 1, 1, 0, 1, 0, 1])
F = rng.normal(size=12) + HIT - 0.5
EQUAL, SMALL, UNEQUAL = np.ones(12), np.full(12, 1e-6), rng.random(12) * 1e-6
REPEATS = 83_334  # 12 rows become a million


def temperature(Z, code, w, start):
    """T for which the expected gap to the largest logit is that of the true class."""
    gaps, w = [max(row) - row for row in exact(Z)], exact(w)

    def slope(log_beta):
        total = mp.mpf(0)
        for gap, k, weight in zip(gaps, code, w, strict=True):
            powers = np.array([mp.exp(-mp.exp(log_beta) * each) for each in gap])
            total += weight * (mp.fdot(powers, gap) / mp.fsum(powers) - gap[k])
        return total

    first = -mp.log(mp.mpf(start))
    return mp.exp(-mp.findroot(slope, (first, first + 0.001), solver="secant"))


CASES = {
    "logits of 700": (700 * Z / np.abs(Z).max(), EQUAL, 1),
    "differences of 1e-12": (1e-12 * Z, EQUAL, 1),
    "differences of 1e-12 at 700": (700 + 1e-11 * np.round(100 * Z), EQUAL, 1),
    "a million rows of weight 1e-6": (Z, SMALL, REPEATS),
    "a million rows of unequal weights": (Z, UNEQUAL, REPEATS),
}


@pytest.mark.parametrize(("logits", "w", "repeats"), CASES.values(), ids=CASES)
def test_temperature(logits, w, repeats):
    rows = np.tile(logits, (repeats, 1)), np.tile(CODE, repeats), np.tile(w, repeats)
    fitted = TemperatureScaling(input="logits").fit(*rows)
    reference = temperature(logits, CODE, w, start=fitted.temperature_)
    assert_precise(fitted.temperature_, reference)


CASES = {
    "scores of 700": (700 * F / np.abs(F).max(), EQUAL, 1),
    "differences of 1e-12": (1e-12 * F, EQUAL, 1),
    "differences of 1e-10 at 1": (1 + 1e-13 * np.round(1000 * F), EQUAL, 1),
    "a million rows of weight 1e-6": (F, SMALL, REPEATS),
    "a million rows of unequal weights": (F, UNEQUAL, REPEATS),
    "weights of 1 and 1e6": (F, np.where(np.arange(12) < 6, 1e6, 1.0), 1),
}


@pytest.mark.parametrize(("scores", "w", "repeats"), CASES.values(), ids=CASES)
def test_platt_scaling(scores, w, repeats):
    rows = np.tile(scores, repeats), np.tile(HIT, repeats), np.tile(w, repeats)
    fitted = PlattScaling(input="logits").fit(*rows)
    found = [fitted.coef_[0], fitted.intercept_[0]]
    theta, _ = logistic(np.column_stack([scores, np.ones(12)]), HIT, w, found)
    assert_precise(found, theta)


SMALLEST = 10.0 ** -np.array([36.0, 24.0, 12.0, 6.0, 3.0, 1.0])
PAIRS = np.concatenate(
    [np.column_stack([1 - SMALLEST, SMALLEST]), np.column_stack([SMALLEST, 1 - SMALLEST])]
)
CASES = {
    "probabilities from 1e-36 to 1": (PAIRS, "proba", EQUAL, 1),
    "logits of 700": (np.outer(np.linspace(-1, 1, 12) ** 3, [0, 700]), "logits", EQUAL, 1),
    "a million rows of weight 1e-6": (PAIRS, "proba", SMALL, REPEATS // 2),
}


@pytest.mark.parametrize(("scores", "kind", "w", "repeats"), CASES.values(), ids=CASES)
def test_beta_calibration(scores, kind, w, repeats):
    """Each score occurs with and without the event; the event is more frequent at high scores.

    Probabilities below 1.2e-38 are raised to this number, and are not tried here.
    """
    odds = np.log(scores[:, 1] / scores[:, 0]) if kind == "proba" else scores[:, 1]
    rate = 1 / (1 + np.exp(-2 * odds / np.abs(odds).max() + np.tile([0.2, -0.1, 0.1], 4)))
    S, hit = np.repeat(scores, 2, axis=0), np.tile([1, 0], 12)
    weight = np.column_stack([w * rate, w * (1 - rate)]).ravel()
    rows = np.tile(S, (repeats, 1)), np.tile(hit, repeats), np.tile(weight, repeats)
    fitted = BetaCalibrator(input=kind).fit(*rows)
    found = [*fitted.coef_[0], fitted.intercept_[0]]
    assert min(found[:2]) > 0  # otherwise, a bound replaces the optimum
    pairs = exact(S) if kind == "proba" else [softmax(row) for row in exact(S)]
    features = [(mp.log(q / (p + q)), -mp.log(p / (p + q)), 1) for p, q in pairs]
    theta, _ = logistic(features, hit, weight, found)
    assert_precise(found, theta)
