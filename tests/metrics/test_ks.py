"""The Kolmogorov-Smirnov error equals a quadratic loop over all scores."""

import numpy as np
import pytest
import reference as ref
from calls import refused

from skcalib.metrics import binary_view, ks_calibration_error, top_label_brier_score

KINDS = ["plain", "ties", "hard", "sparse"]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(("K", "n"), [(2, 60), (10, 50)])
def test_every_mode_equals_the_loop(K, n, kind):
    y, P = ref.predictions(K, n, seed=K, kind=kind)
    for r in {1, 2, min(3, K), K}:
        for mode in ("top", "within_top"):
            scores, hits = ref.top(y, P, r, within=mode == "within_top")
            actual = ks_calibration_error(y, P, mode=mode, r=r, labels=range(K))
            assert actual == pytest.approx(ref.ks(scores, hits), abs=1e-12), (mode, r)
    each = [ref.ks(P[:, k].tolist(), (y == k).astype(int).tolist()) for k in range(K)]
    actual = ks_calibration_error(y, P, mode="classwise", average=None, labels=range(K))
    np.testing.assert_allclose(actual, each, atol=1e-12)
    macro = ks_calibration_error(y, P, mode="classwise", labels=range(K))
    assert macro == pytest.approx(np.mean(each), abs=1e-12)


def test_tied_scores_count_together_whatever_the_row_order():
    """Two rows at 0.5, one hit: the curves meet at the end of the tie, so the error is 0."""
    for y in ([0, 1], [1, 0]):
        assert ks_calibration_error(y, [0.5, 0.5], mode="classwise") == 0


def test_binary_view_is_the_problem_behind_each_mode():
    names = np.array(["d", "c", "b", "a"])[::-1]
    y, P = ref.predictions(4, 40, seed=3, kind="ties")
    for r in range(1, 5):
        for mode in ("top", "within_top"):
            score, hit = binary_view(names[y], P, mode=mode, r=r, labels=names)
            expected = ref.top(y, P, r, within=mode == "within_top")
            np.testing.assert_allclose(score, expected[0], rtol=0, atol=1e-15)
            np.testing.assert_array_equal(hit, np.array(expected[1], dtype=bool))
    score, hit = binary_view(names[y], P, mode="classwise", r="c", labels=names)
    np.testing.assert_array_equal(score, P[:, 2])
    np.testing.assert_array_equal(hit, y == 2)


def test_binary_view_needs_a_class_where_there_are_more_than_two():
    y, P = ref.predictions(3, 10, seed=3)
    refused("classwise.* needs .* pass r=", binary_view, y, P, mode="classwise", labels=range(3))
    with pytest.raises(ValueError, match=r"r=9 is not one of the labels \[0, 1, 2\]"):
        binary_view(y, P, mode="classwise", r=9, labels=range(3))
    score, _ = binary_view([0, 1], [0.2, 0.7], mode="classwise")
    assert score.tolist() == [0.2, 0.7]


def test_top_label_brier_score_is_the_mean_square_of_confidence_less_hit():
    y, P = ref.predictions(5, 60, seed=3, kind="ties")
    w = np.random.default_rng(0).integers(0, 3, 60)
    scores, hits = ref.top(y, P, 1, within=False)
    expected = sum(
        wi * (s - t) ** 2 for wi, s, t in zip(w, scores, hits, strict=True)
    ) / sum(w)  # fmt: skip
    actual = top_label_brier_score(y, P, sample_weight=w, labels=range(5))
    assert actual == pytest.approx(expected, abs=1e-12)


def test_a_sum_of_probabilities_is_never_above_1():
    """What rounding adds to the sum of a row's largest probabilities is taken off."""
    P = np.random.default_rng(0).dirichlet(np.ones(3), size=300)
    P = np.hstack([P, np.zeros((300, 1))])
    assert np.sort(P)[:, :0:-1].sum(axis=1).max() > 1
    score, hit = binary_view(np.arange(300) % 3, P, mode="within_top", r=3, labels=range(4))
    assert score.max() <= 1
    assert hit.all()
