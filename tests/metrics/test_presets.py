"""Named errors beside the formulas that their papers print, in loops."""

import numpy as np
import pytest
import reference as ref

from skcalib import metrics


def cells(hit, score, n_bins):
    """Accuracy less confidence of consecutive ranges of equally many sorted scores."""
    order = sorted(range(len(score)), key=lambda i: score[i])
    size = len(score) // n_bins
    for r in range(n_bins):
        rows = order[r * size : (r + 1) * size]
        yield sum(hit[i] for i in rows) / size - sum(score[i] for i in rows) / size


def test_ace_as_printed_takes_uniform_weights_and_ranks_together():
    """1 / (K R) over ranges of N / R sorted predictions; with one keyword alone ties show."""
    y, P = ref.predictions(4, 120, seed=3, kind="ties")
    K, R = P.shape[1], 10
    printed = sum(abs(gap) for k in range(K) for gap in cells(y == k, P[:, k], R)) / (K * R)

    def ace(**keywords):
        if "quantile_method" in keywords:
            keywords |= {"max_prob": False, "class_conditional": True, "strategy": "quantile"}
            return metrics.general_calibration_error(y, P, n_bins=R, labels=range(K), **keywords)
        return metrics.adaptive_calibration_error(y, P, n_bins=R, labels=range(K), **keywords)

    both = {"bin_weight": "uniform", "quantile_method": "rank"}
    assert ace(**both) == pytest.approx(printed, abs=1e-12)
    assert abs(ace(bin_weight="uniform") - printed) > 0.001
    assert abs(ace() - printed) > 0.001
    assert ace(quantile_method="rank") == pytest.approx(printed, abs=1e-12)  # R divides n
    y, P = y[:-5], P[:-5]
    assert abs(ace(quantile_method="rank") - ace(**both)) > 1e-6


@pytest.mark.parametrize(
    ("strategy", "named"),
    [
        ("uniform", metrics.static_calibration_error),
        ("quantile", metrics.adaptive_calibration_error),
    ],
    ids=["8", "24"],
)
def test_members_8_and_24_drop_exact_zeros_where_sce_and_ace_do_not(strategy, named):
    """Members of Nixon's table have a threshold of 0.0; without zeros they are SCE and ACE."""
    keywords = {"max_prob": False, "class_conditional": True, "strategy": strategy}
    for kind, same in (("hard", False), ("plain", True)):
        y, P = ref.predictions(4, 60, seed=2, kind=kind)
        assert (P == 0).any() != same
        member = metrics.general_calibration_error(y, P, threshold=0.0, labels=range(4), **keywords)
        assert member == pytest.approx(ref.gce(y, P, threshold=0.0, **keywords), abs=1e-12)
        kept = named(y, P, labels=range(4))
        assert kept == pytest.approx(ref.gce(y, P, **keywords), abs=1e-12)
        assert (abs(member - kept) < 1e-12) == same


def test_l2_norm_as_printed_is_without_weights():
    """The root of the sum of squared gaps is sqrt(B), or sqrt(K B), times the uniform one."""
    y, P = ref.predictions(3, 90, seed=1)
    B = 10
    keywords = {"n_bins": B, "labels": range(3)}
    of_top = metrics.reliability_table(y, P, **keywords)["gap"].dropna()
    of_each = metrics.reliability_table(y, P, max_prob=False, class_conditional=True, **keywords)
    uniform = {**keywords, "norm": "l2", "bin_weight": "uniform"}
    top = metrics.general_calibration_error(y, P, **uniform)
    each = metrics.general_calibration_error(
        y, P, max_prob=False, class_conditional=True, **uniform
    )
    assert np.sqrt(B) * top == pytest.approx(sum(gap**2 for gap in of_top) ** 0.5, abs=1e-12)
    assert np.sqrt(3 * B) * each == pytest.approx(
        sum(gap**2 for gap in of_each["gap"].dropna()) ** 0.5, abs=1e-12
    )
    weighted = metrics.general_calibration_error(y, P, norm="l2", **keywords)
    assert weighted < np.sqrt(B) * top


def test_classes_of_the_largest_probability_weigh_alike_or_by_how_often_they_are_predicted():
    """Class 0 alone is predicted: 1/K divides its error by three, "count" gives all of it."""
    P = np.tile([0.8, 0.1, 0.1], (10, 1))
    y = np.array([0] * 5 + [1] * 3 + [2] * 2)
    keywords = {"class_conditional": True, "labels": range(3)}
    alike = metrics.general_calibration_error(y, P, **keywords)
    by_count = metrics.general_calibration_error(y, P, class_weight="count", **keywords)
    assert by_count == pytest.approx(0.8 - 0.5, abs=1e-12)
    assert alike == pytest.approx((0.8 - 0.5) / 3, abs=1e-12)
