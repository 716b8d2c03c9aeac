"""Local calibration equals a loop over all rows for every query."""

import math

import numpy as np
import pytest
import reference as ref

from skcalib.metrics import local_calibration

GRID = np.linspace(0, 1, 101)


def side(pairs, g, decay):
    """Decaying mean of one side; distances count from the nearest row, which cancels."""
    if not pairs:
        return None
    near = min(abs(g - s) for s, _, _ in pairs)
    rate = -math.log(decay) / 0.01
    mass = [(w * math.exp(-rate * (abs(g - s) - near)), t) for s, t, w in pairs]
    return math.fsum(m * t for m, t in mass) / math.fsum(m for m, _ in mass)


def local(scores, hits, w, g, decay):
    rows = [(float(s), int(t), float(v)) for s, t, v in zip(scores, hits, w, strict=True) if v > 0]
    below = side([row for row in rows if row[0] <= g], g, decay)
    above = side([row for row in rows if row[0] >= g], g, decay)
    if below is None or above is None:
        return above if below is None else below
    return (below + above) / 2


@pytest.mark.parametrize("kind", ["ties", "hard"])
@pytest.mark.parametrize("decay", [1e-300, 0.9, 0.999999])
def test_every_query_equals_the_loop(kind, decay):
    y, P = ref.predictions(4, 80, seed=2, kind=kind)
    w = np.random.default_rng(0).integers(0, 3, 80) * 0.7
    scores, hits = ref.top(y, P, 1, within=False)
    keywords = {"decay": decay, "sample_weight": w, "labels": range(4)}
    expected = [local(scores, hits, w, g, decay) for g in GRID]
    np.testing.assert_allclose(local_calibration(y, P, **keywords), expected, atol=1e-9)
    queries = np.random.default_rng(1).permutation(np.concatenate([P[:, 1], [0.0, 1.0]]))
    expected = [local(P[:, 1], y == 1, w, g, decay) for g in queries]
    actual = local_calibration(y, P, at=queries, pos_label=1, **keywords)
    np.testing.assert_allclose(actual, expected, atol=1e-9)


def test_far_from_data_it_is_the_nearest_rows_answer():
    """The weights of rows 0.9 away underflow, but their share does not."""
    actual = local_calibration(
        [0, 1, 1, 1], [0.9, 0.9, 0.95, 1.0], at=[0, 0.5], pos_label=1, decay=1e-9
    )
    np.testing.assert_allclose(actual, [0.5, 0.5], atol=1e-4)
