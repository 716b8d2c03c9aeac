"""AvUC and soft AvUC equal a loop over rows that files each one in its box."""

import math

import numpy as np
import pytest
import reference as ref
from soft_references import slow_avuc, slow_soft_avuc

from skcalib.metrics import avuc_loss, soft_avuc_loss


@pytest.mark.parametrize("kind", ["ties", "hard"])
@pytest.mark.parametrize("K", [2, 10])
def test_losses_equal_the_loop(K, kind):
    y, P = ref.predictions(K, 60, seed=K, kind=kind)
    w = np.random.default_rng(0).uniform(0, 2, 60)
    data, given = (P.tolist(), y.tolist(), w), {"sample_weight": w, "labels": range(K)}
    for threshold in (0.1, 0.5, 1.2):
        actual = avuc_loss(y, P, threshold=threshold, **given)
        assert actual == pytest.approx(slow_avuc(*data, threshold), abs=1e-10)
    for kappa, temperature in [(0.5, 1.0), (0.2, 0.3), (0.9, 5.0)]:
        actual = soft_avuc_loss(y, P, kappa=kappa, temperature=temperature, **given)
        assert actual == pytest.approx(slow_soft_avuc(*data, kappa, temperature), abs=1e-10)


@pytest.mark.parametrize("loss", [avuc_loss, soft_avuc_loss])
def test_right_and_certain_is_best_and_wrong_and_certain_is_finite(loss):
    P = np.eye(3)
    assert loss([0, 1, 2], P) == pytest.approx(0, abs=1e-11)
    assert 5 < loss([1, 2, 0], P) <= -math.log(1e-12)
