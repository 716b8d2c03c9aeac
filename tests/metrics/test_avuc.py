"""AvUC and soft AvUC equal a loop over rows that files each one in its box."""

import math

import numpy as np
import pytest
import reference as ref

from skcalib.metrics import avuc_loss, soft_avuc_loss


def boxes(y, P, w, amounts):
    """-log of the good share; `amounts(p, hit)` gives a row's (certain, uncertain) amount."""
    n = {"AC": 0.0, "AU": 0.0, "IC": 0.0, "IU": 0.0}
    for i in range(len(y)):
        hit = int(np.argmax(P[i])) == y[i]
        certain, uncertain = amounts(P[i], hit)
        n["AC" if hit else "IC"] += w[i] * certain
        n["AU" if hit else "IU"] += w[i] * uncertain
    return math.log(1 + (n["AU"] + n["IC"]) / (n["AC"] + n["IU"]))


def nats(p):
    return -sum(float(x) * math.log(x) for x in p if x > 0)


def hard(threshold):
    def amounts(p, hit):
        h = nats(p)
        c = float(max(p)) if hit else 1 - float(max(p))
        return (c * (1 - math.tanh(h)), 0) if h < threshold else (0, c * math.tanh(h))

    return amounts


def soft(kappa, temperature):
    def amounts(p, hit):
        h = nats(p)
        star = min(max(h / math.log(len(p)), 1e-12), 1 - 1e-12)
        x = math.log(star * (1 - kappa) / ((1 - star) * kappa)) / temperature
        t = 1 / (1 + math.exp(-x)) if x > -700 else 0.0
        return (1 - t) * (1 - math.tanh(h)), t * math.tanh(h)

    return amounts


@pytest.mark.parametrize("kind", ["ties", "hard"])
@pytest.mark.parametrize("K", [2, 10])
def test_losses_equal_the_loop(K, kind):
    y, P = ref.predictions(K, 60, seed=K, kind=kind)
    w = np.random.default_rng(0).uniform(0, 2, 60)
    for threshold in (0.1, 0.5, 1.2):
        actual = avuc_loss(y, P, threshold=threshold, sample_weight=w, labels=range(K))
        assert actual == pytest.approx(boxes(y, P, w, hard(threshold)), abs=1e-10)
    for kappa, temperature in [(0.5, 1.0), (0.2, 0.3), (0.9, 5.0)]:
        actual = soft_avuc_loss(
            y, P, kappa=kappa, temperature=temperature, sample_weight=w, labels=range(K)
        )
        assert actual == pytest.approx(boxes(y, P, w, soft(kappa, temperature)), abs=1e-10)


@pytest.mark.parametrize("loss", [avuc_loss, soft_avuc_loss])
def test_right_and_certain_is_best_and_wrong_and_certain_is_finite(loss):
    P = np.eye(3)
    assert loss([0, 1, 2], P) == pytest.approx(0, abs=1e-11)
    assert 5 < loss([1, 2, 0], P) <= -math.log(1e-12)


@pytest.mark.parametrize("loss", [avuc_loss, soft_avuc_loss])
@pytest.mark.parametrize("K", [7, 1000])
def test_uniform_rows_have_a_finite_loss(loss, K):
    """The entropy of 1/K, K times, may round above log K."""
    P = np.full((5, K), 1 / K)
    assert math.isfinite(loss([0, 1, 1, 0, 1], P, labels=range(K)))


@pytest.mark.parametrize(
    ("loss", "keywords", "message"),
    [
        (avuc_loss, {"threshold": -1}, "threshold must be an entropy >= 0 in nats; got -1"),
        (soft_avuc_loss, {"kappa": 0}, r"kappa must be a number in \(0, 1\); got 0"),
        (soft_avuc_loss, {"temperature": 0}, "temperature must be a positive number; got 0"),
    ],
)
def test_wrong_keywords_are_named_with_the_mend(loss, keywords, message):
    with pytest.raises(ValueError, match=message):
        loss([0, 1], [0.2, 0.7], **keywords)
