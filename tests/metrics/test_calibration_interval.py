"""Intervals of errors: errors as functions of labels, truths, and inversion."""

import pickle
from functools import partial

import joblib
import numpy as np
import pytest
from calls import refused
from scipy.special import expit
from scipy.stats import gamma, norm

from skcalib import metrics
from skcalib._validation.rows import check_predictions
from skcalib.metrics import (
    calibration_interval,
    calibration_test,
    debiased_calibration_error,
    expected_calibration_error,
    general_calibration_error,
    ks_calibration_error,
    smooth_calibration_error,
    static_calibration_error,
)
from skcalib.metrics._common import SCORED
from skcalib.metrics._intervals import interval, label_errors, truths
from skcalib.metrics._intervals.gains import PLACES, GainSimulation, gain_interval, moments_of
from skcalib.metrics._intervals.interval import TruthPoint, cornish_fisher, invert
from skcalib.metrics._intervals.label_errors import AnyError, CellError
from skcalib.metrics._resampling import Evaluation

GCE, SCE, KS = general_calibration_error, static_calibration_error, ks_calibration_error
ECE, RMSCE = expected_calibration_error, metrics.root_mean_squared_calibration_error
FAST = {
    "ECE": expected_calibration_error,
    "ECE, left": partial(GCE, closed="left", n_bins=7),
    "MCE": metrics.maximum_calibration_error,
    "RMSCE": metrics.root_mean_squared_calibration_error,
    "SCE": SCE,
    "SCE of each": partial(SCE, average=None),
    "SCE of an event": partial(SCE, pos_label=1),
    "ECE of an event": partial(expected_calibration_error, pos_label=1),
    "KS of an event": partial(KS, pos_label=1),
    "KS of each, an event": partial(KS, mode="classwise", average=None, pos_label=1),
    "ACE": metrics.adaptive_calibration_error,
    "TACE": metrics.thresholded_adaptive_calibration_error,
    "top by class": partial(GCE, class_conditional=True),
    "pooled": partial(GCE, max_prob=False, strategy="quantile"),
    "all keywords": partial(
        GCE,
        max_prob=False,
        class_conditional=True,
        class_weight="count",
        bin_weight="uniform",
        threshold=0.05,
        norm=3.0,
    ),
    "KS": KS,
    "KS of rank 2": partial(KS, r=2),
    "KS within 2": partial(KS, mode="within_top", r=2),
    "KS by class": partial(KS, mode="classwise"),
    "KS of each": partial(KS, mode="classwise", average=None),
    "debiased": debiased_calibration_error,
    "debiased of each": partial(debiased_calibration_error, mode="classwise", average=None),
}


def ties(n, n_classes, seed=0):
    """Probabilities with ties and zeros, another truth, and labels."""
    rng = np.random.default_rng(seed)
    Z = 1.5 * rng.normal(size=(n, n_classes))
    P = np.exp(Z)
    P = (P / P.sum(axis=1, keepdims=True)).round(2)
    P /= P.sum(axis=1, keepdims=True)
    Q = np.exp(0.8 * Z)
    return P, Q / Q.sum(axis=1, keepdims=True), rng.integers(n_classes, size=n)


def opened(metric, P, y, w=None):
    """The metric as a function of labels, and as one that is called for each set of them."""
    predictions = check_predictions(y, P, w, np.arange(P.shape[1]))
    evaluate = Evaluation(metric, {}, False)
    return interval.label_error(evaluate, predictions), AnyError(evaluate, predictions)


@pytest.mark.parametrize(("n_classes", "weighted"), [(2, False), (4, False), (4, True)])
@pytest.mark.parametrize("name", FAST)
def test_an_error_by_cells_is_the_metric_of_each_set_of_labels(name, n_classes, weighted):
    P, Q, y = ties(120, n_classes)
    rng = np.random.default_rng(1)
    w = rng.random(120) + 0.1 if weighted else None
    fast, slow = opened(FAST[name], P, y, w)
    assert isinstance(fast, CellError)
    codes = rng.integers(n_classes, size=(4, 120)).astype(np.uint8)
    found = fast.values(Q, codes)
    if "debiased" in name:  # the signed root, which the metric cuts at 0
        found = np.maximum(found, 0.0)
    np.testing.assert_allclose(found, slow.values(Q, codes), rtol=0, atol=1e-12)
    if not weighted and "debiased" not in name:
        # Quantile edges move by a row of weight 1e-9, which may be one of several equal scores.
        quantile = name in ("RMSCE", "ACE", "TACE", "pooled")
        atol = 5e-4 if quantile else 1e-7
        np.testing.assert_allclose(fast.limits(Q), slow.limits(Q), rtol=0, atol=atol)


@pytest.mark.parametrize("name", ["KS by class", "KS of each"])
def test_curves_of_classes_without_a_label_or_with_all_of_them(name):
    """The curve of a class without hits falls to its end; one of all rows rises at each."""
    P, Q, y = ties(90, 3)
    for w in (None, np.random.default_rng(2).random(90)):
        fast, slow = opened(FAST[name], P, y, w)
        for code in (0, 2):
            codes = np.full((1, 90), code, dtype=np.uint8)
            expected = slow.values(Q, codes)
            np.testing.assert_allclose(fast.values(Q, codes), expected, rtol=0, atol=1e-12)
            np.testing.assert_allclose(fast.observed(codes[0]), expected[0], rtol=0, atol=1e-12)


@pytest.mark.parametrize("name", ["ECE", "SCE of each", "KS", "KS by class", "all keywords"])
def test_limits_without_a_group_are_those_of_the_other_rows(name):
    P, Q, y = ties(120, 3)
    fast, slow = opened(FAST[name], P, y)
    group = np.arange(120) % 5
    expected = slow.limits_without(Q, group)
    np.testing.assert_allclose(fast.limits_without(Q, group), expected, rtol=0, atol=1e-7)


# How far the limit on the grid may be from that by calls: edges of quantile bins move by a row of
# weight 1e-9; the limits of a kernel and of a sweep are tested by themselves.
ON_GRID = {
    "smooth": (smooth_calibration_error, 5e-4),
    "kernel": (metrics.kde_calibration_error, None),
    "soft-binned": (metrics.soft_binned_calibration_error, 5e-4),
    "soft-binned by label": (partial(metrics.soft_binned_calibration_error, kind="label"), 5e-4),
    "soft-binned, l1": (partial(metrics.soft_binned_calibration_error, norm="l1"), 5e-4),
    "label-binned": (metrics.label_binned_calibration_error, 1e-3),
    "label-binned, even": (
        partial(metrics.label_binned_calibration_error, strategy="uniform", norm="l1", n_bins=7),
        5e-4,
    ),
    "label-binned, max": (
        partial(metrics.label_binned_calibration_error, strategy="uniform", norm="max"),
        5e-4,
    ),
    "mean kernel": (metrics.maximum_mean_calibration_error, 5e-4),
    "sweep": (metrics.sweep_calibration_error, None),
}


@pytest.mark.parametrize(
    ("mode", "weights"), [("top", False), ("classwise", True), ("each", False)]
)
@pytest.mark.parametrize("name", ON_GRID)
def test_smooth_and_kernel_errors_are_computed_on_a_grid(name, mode, weights):
    P, Q, y = ties(150, 3)
    metric, atol = ON_GRID[name]
    kind = {"mode": "top"} if mode == "top" else {"mode": "classwise"}
    if mode == "each":
        kind["average"] = None
    w = np.random.default_rng(2).integers(1, 4, 150) if weights else None
    fast, slow = opened(partial(metric, **kind), P, y, w)
    assert isinstance(fast, CellError)
    codes = np.random.default_rng(1).integers(3, size=(4, 150))
    found = fast.values(Q, codes)
    np.testing.assert_allclose(found, slow.values(Q, codes), rtol=0, atol=5e-4)
    if atol is not None:
        np.testing.assert_allclose(fast.limits(Q), slow.limits(Q), rtol=0, atol=atol)


def slow_kernel_limit(s, q, width):
    """The kernel error of a truth: densities by sums over rows, reflected at 0 and 1."""
    x = np.linspace(0, 1, 20_001)
    density, hits = np.zeros(x.size), np.zeros(x.size)
    for score, chance in zip(s, q, strict=True):
        for image in (score, -score, 2 - score):
            u = (x - image) / width
            k = np.where(np.abs(u) < 1, (1 - u**2) ** 3, 0.0)
            density += k
            hits += chance * k
    return np.abs(hits - x * density).sum() / density.sum()


def slow_sweep_limit(s, q, most=100):
    """The error with as many bins of equal weight as leave the shares of hits in order."""
    order = np.argsort(s)
    n, found = len(s), 0.0
    for bins in range(1, most + 1):
        W, H, S = np.zeros(bins), np.zeros(bins), np.zeros(bins)
        for rank, row in enumerate(order):  # the ranks from rank to rank + 1, cut by edges
            for b in range(bins):
                part = min(rank + 1, (b + 1) * n / bins) - max(rank, b * n / bins)
                if part > 0:
                    W[b], H[b], S[b] = W[b] + part, H[b] + part * q[row], S[b] + part * s[row]
        if (np.diff(H / W) < -1e-12).any():
            return found
        found = np.sqrt((W * (H / W - S / W) ** 2).sum() / n)
    return found


@pytest.mark.slow
def test_limits_of_the_kernel_and_the_sweep_error_are_those_of_a_truth_without_chance():
    """Truths that rise with the score, and one that does not, where the sweep ends soon."""
    rng = np.random.default_rng(0)
    s = rng.permutation(np.arange(1, 120) / 120)  # no ties
    predictions = check_predictions((s > 0.5).astype(int), s)
    step = (s > 0.52).astype(float)  # where the number of bins shows
    for q in (s**1.5, step, np.clip(s**1.5 + 0.05 * rng.normal(size=s.size), 0, 1)):
        Q = np.column_stack([1 - q, q])
        made = {
            name: interval.label_error(Evaluation(metric, {}, False), predictions)
            for name, metric in (
                ("kernel", metrics.kde_calibration_error),
                ("sweep", metrics.sweep_calibration_error),
            )
        }
        width = 3.15 * s.std() * s.size**-0.2 * 20**-0.2  # of 20 times as many rows
        found = {name: error.limits(Q)[0] for name, error in made.items()}
        assert found["kernel"] == pytest.approx(slow_kernel_limit(s, q, width), abs=2e-4)
        assert found["sweep"] == pytest.approx(slow_sweep_limit(s, q), abs=2e-4)


def test_the_limit_of_the_debiased_error_is_the_plain_one():
    P, Q, y = ties(120, 3)
    fast, _ = opened(debiased_calibration_error, P, y)
    plain = partial(GCE, strategy="quantile", norm="l2", quantile_method="split")
    limit = AnyError(Evaluation(plain, {}, False), check_predictions(y, P)).limits(Q)
    np.testing.assert_allclose(fast.limits(Q), limit, rtol=0, atol=1e-4)


def test_errors_without_cells_are_called():
    P, _, y = ties(60, 3)
    by_rank = partial(GCE, strategy="quantile", quantile_method="rank")
    for metric in (by_rank, partial(metrics.sweep_calibration_error, strategy="uniform")):
        assert isinstance(opened(metric, P, y)[0], AnyError)


def test_a_function_that_only_has_the_name_of_an_error_is_not_taken_for_it():
    P, _, y = ties(60, 3)

    def sweep_calibration_error(y_true, y_proba, sample_weight=None):
        return abs(np.average(y_proba.max(axis=1) - 0.5, weights=sample_weight))

    error = opened(sweep_calibration_error, P, y)[0]
    assert isinstance(error, AnyError)
    assert not error.copies


def test_errors_by_cells_are_names_of_metrics():
    assert interval.BY_CELLS.keys() <= {metric.__name__ for metric in SCORED}


def test_the_limit_of_a_metric_without_weights_is_near():
    def gap(y_true, y_proba):
        return abs((y_proba[:, 1] - (y_true == 1)).mean())

    P, Q, y = ties(2000, 2)
    _, slow = opened(gap, P, y)
    assert slow.limits(Q)[0] == pytest.approx(abs((P - Q)[:, 1].mean()), abs=0.01)


@pytest.mark.parametrize("n_classes", [3, 150])
def test_labels_follow_the_truth_and_not_the_threads(n_classes):
    rng = np.random.default_rng(0)
    q = rng.dirichlet(np.ones(n_classes), 40)
    q[:, 1] = 0.0
    q /= q.sum(axis=1, keepdims=True)
    seed = np.random.SeedSequence(3)
    codes = truths.draw_codes(q, 4000, seed)
    share = (codes[:, :, None] == np.arange(n_classes)).mean(axis=0)
    np.testing.assert_allclose(share, q, rtol=0, atol=5 * 0.5 / np.sqrt(4000))
    assert not (codes == 1).any()
    with joblib.parallel_config(n_jobs=1):
        np.testing.assert_array_equal(codes, truths.draw_codes(q, 4000, seed))


def test_without_the_excess_of_few_rows_an_error_is_closer_to_that_of_many():
    """ACE of 300 rows in 15 bins of each of 100 classes is a third larger than that of 20,000."""

    def measured(n, seed):
        y, P, q = sample(n, 100, 2.0, seed, scale=3.5)
        evaluate = Evaluation(metrics.adaptive_calibration_error, {}, False)
        error = interval.label_error(evaluate, check_predictions(y, P, labels=range(100)))
        limit = error.limits(q)
        excess = truths.excess_of_few_rows(
            error.limits_without(q, truths.random_groups(np.arange(n))), limit
        )
        return limit[0], limit[0] * (1 - excess[0])

    few, corrected = np.mean([measured(300, seed) for seed in range(3)], axis=0)
    many, same = measured(20_000, 9)
    assert same == pytest.approx(many, rel=1e-3)
    assert few > 1.25 * many
    assert corrected == pytest.approx(many, rel=0.15)


def test_the_inversion_of_a_normal_metric_is_the_normal_interval():
    """With T normal about e, standard deviation 1: from T - (1.96 + 0.1) to T + 1.96."""
    z = np.random.default_rng(0).normal(size=4000)
    z = (z - z.mean()) / z.std()
    points = [TruthPoint(e, 0.0, e + z) for e in (0, 5.0, 2.0, 3.0, 4.0, 6.0, 7.0, 8.0, 9.0, 10.0)]
    found = invert(points, 5.5, 0.95)
    np.testing.assert_allclose(found[:3], [5.5 - 2.06, 5.5, 5.5 + 1.96], rtol=0, atol=0.07)
    assert not found.empty
    assert invert(points, 1.0, 0.95).low == 0.0
    by_rows = [TruthPoint(p.error, 3.0, p.values) for p in points]  # standard deviation 2
    found = invert(by_rows, 5.5, 0.95)
    np.testing.assert_allclose(found[:3:2], [5.5 - 4.12, 5.5 + 3.92], rtol=0, atol=0.12)


def test_the_inversion_does_not_end_at_the_last_truth_before_a_gap():
    z = np.random.default_rng(0).normal(size=4000)
    z = (z - z.mean()) / z.std()
    points = [TruthPoint(e, 0.0, e + z) for e in (0.0, 20.0, 1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 30.0)]
    found = invert(points, 5.5, 0.95)
    np.testing.assert_allclose(found[:3], [5.5 - 2.06, 5.5, 5.5 + 1.96], rtol=0, atol=0.15)


def test_a_path_of_too_small_errors_does_not_count():
    z = np.random.default_rng(0).normal(size=400)
    short = invert([TruthPoint(e, 0.0, e + z) for e in np.linspace(0, 2, 9)], 8.0, 0.95)
    whole = invert([TruthPoint(e, 0.0, e + z) for e in np.linspace(0, 20, 21)], 8.0, 0.95)
    assert (short.empty, whole.empty) == (True, False)
    assert interval.combine([short, whole]) == whole
    assert interval.combine([short, short])[:3] == short[:3] == (2, 2, 2)
    by_chance = invert([TruthPoint(e, 0.0, e + z) for e in np.linspace(0, 0.1, 9)], 1.0, 0.95)
    assert by_chance.low == 0
    assert not by_chance.empty


def test_errors_that_no_calibrator_corrects_have_an_interval():
    """True rates lie .07 above and below the top scores by turns; RMSCE is .055 in 400,000 rows."""
    rng = np.random.default_rng(0)
    Z = 1.5 * rng.normal(size=(10_000, 3))
    P = np.exp(Z) / np.exp(Z).sum(axis=1, keepdims=True)
    top, s = P.argmax(axis=1), P.max(axis=1)
    rate = np.clip(s + np.where(s // 0.07 % 2, 0.07, -0.07), 0, 1)
    others = np.where(np.arange(3) == top[:, None], 0, P).cumsum(axis=1)
    others /= others[:, -1:]
    other = (others < rng.random((10_000, 1))).sum(axis=1)
    y = np.where(rng.random(10_000) < rate, top, other)
    found = calibration_interval(metrics.root_mean_squared_calibration_error, y, P, random_state=0)
    assert 0.035 < found.low < 0.055 < found.high < 0.075
    assert found.debiased == pytest.approx(0.055, abs=0.01)


@pytest.mark.parametrize("shape", [4.0, 40.0])
@pytest.mark.parametrize("share", [0.025, 0.5, 0.975])
def test_cornish_fisher_quantiles_are_those_of_gamma_distributions(shape, share):
    """With skewness 2 / sqrt(a) and excess kurtosis 6 / a; normal quantiles are .05 to .5 off."""
    expected = (gamma.ppf(share, shape) - shape) / np.sqrt(shape)
    z = float(norm.ppf(share))
    found = cornish_fisher(z, np.array([2 / np.sqrt(shape)]), np.array([6 / shape]))
    assert found[0] == pytest.approx(expected, abs=0.03)


def test_the_gain_of_normal_errors_is_the_normal_interval():
    """Two independent errors with bias 1, so that the bias of the difference is 0."""
    rng = np.random.default_rng(0)

    def drawn(before, after, true=None):
        z = rng.normal(size=(4000, 2))
        e = np.array([before, after])
        values = e + 1 + (z - z.mean(axis=0)) / z.std(axis=0)
        return moments_of(e if true is None else np.array(true), values, np.tile(e, (30, 1)))

    path = [drawn(5 + u, 3 - u) for u in PLACES]
    found = gain_interval(path, 6.0, 4.0, 0.95)
    half = 1.96 * np.sqrt(2)
    np.testing.assert_allclose(found, [2.0, 2 - half, 2 + half], rtol=0, atol=0.2)
    # A truth beside the path on which the gain is measured 1 too large counts, if it is plausible.
    more = gain_interval([*path, drawn(5.0, 3.0, (4.0, 3.0))], 6.0, 4.0, 0.95)
    # M is 2 u^2 on the path and 0 beside it: its bias of 1 has this share of the weights.
    share = 1 / (1 + np.exp(-(PLACES**2)).sum())
    np.testing.assert_allclose(more.gain, 2 - share, rtol=0, atol=0.01)
    np.testing.assert_allclose(more[1:], [1 - half, 2 + half], rtol=0, atol=0.2)
    # If both errors are larger by x, M is 2 x^2; the quantile of two degrees of freedom is 5.99.
    for x, end in ((1.6, 1 - half), (1.85, 2 - half)):
        beside = drawn(5 + x, 3 + x, (4 + x, 3 + x))
        assert gain_interval([*path, beside], 6.0, 4.0, 0.95).low == pytest.approx(end, abs=0.2)
    far = gain_interval([*path, drawn(9.0, 9.0, (8.0, 9.0))], 6.0, 4.0, 0.95)
    np.testing.assert_allclose(far, found, rtol=0, atol=1e-6)


def test_truths_have_no_rough_errors_where_labels_show_none():
    """Shares of hits are exactly the scores. Then one row of hundreds that are sure is missed."""
    score = np.repeat([0.6, 0.7, 0.8, 1 - 1e-9], 400)
    y = np.concatenate([np.arange(400) < 400 * s for s in (0.6, 0.7, 0.8, 1)])
    P = np.column_stack([1 - score, score])
    for out in truths.rough_truths(P, check_predictions(y, P), np.random.default_rng(0)):
        np.testing.assert_allclose(out, P, rtol=0, atol=1e-8)
    y[-1] = False
    likely, *_ = truths.rough_truths(P, check_predictions(y, P), np.random.default_rng(0))
    np.testing.assert_allclose(likely, P, rtol=0, atol=1e-8)


def test_a_gain_may_have_rough_errors():
    """Smooth truths alone give an interval that lies above the gain of 0.014."""
    y, before, after, _ = jagged(5000, 6)
    first, second = check_predictions(y, before), check_predictions(y, after)
    simulation = GainSimulation([Evaluation(RMSCE, {}, False)], first, random_state=6)
    (found,) = simulation.gains(second, 0.95)
    assert found.low < 0.014 < found.high


def sample(n, n_classes, factor, seed, scale=1.5):
    """Probabilities whose logits are `factor` times too large, and labels."""
    rng = np.random.default_rng(seed)
    Z = scale * rng.normal(size=(n, n_classes))
    q, P = np.exp(Z), np.exp(factor * Z)
    q, P = q / q.sum(axis=1, keepdims=True), P / P.sum(axis=1, keepdims=True)
    y = (q.cumsum(axis=1)[:, :-1] < rng.random((n, 1))).sum(axis=1)
    return y, P, q


@pytest.mark.slow
@pytest.mark.parametrize("metric", [expected_calibration_error, SCE, KS], ids=lambda m: m.__name__)
def test_intervals_cover(metric):
    """The bootstrap interval of SCE covers in less than half of the cases here."""
    y, P, q = sample(200_000, 3, 1.25, 99)
    i, k = np.nonzero(q > 0)
    true = metric(k, P[i], sample_weight=q[i, k])
    held = 0
    for seed in range(40):
        y, P, _ = sample(500, 3, 1.25, seed)
        found = calibration_interval(metric, y, P, random_state=seed)
        held += found.low <= true <= found.high
    assert held >= 35  # of 40; with 95 %, 34 or less has a probability of 0.2 %


def jagged(n, seed):
    """Labels, and two models of which the second is right but for a tenth, by turns up and down."""
    rng = np.random.default_rng(seed)
    z = 1.5 * rng.normal(size=n)
    p = expit(z)
    q = np.clip(p + np.where(np.floor(p / 0.05) % 2, 0.1, -0.1), 0, 1)
    return rng.random(n) < q, expit(1.25 * z), p, q


def test_a_small_error_may_be_a_bias_of_all_rows_that_chance_hides():
    """Labels of risks that are all too high, whose KS error is in its lowest tenth.

    The interval contains the errors of all biases for which that is not rarer than one in 20.
    """
    rng = np.random.default_rng(0)
    z = rng.normal(-1, 1, size=400)
    p, lower = expit(z), expit(z - np.linspace(0, 0.8, 17)[:, None])
    order = np.argsort(p)

    def sizes(labels):
        return np.abs(np.cumsum((labels - p)[:, order], axis=1)).max(axis=1) / 400

    labels = rng.random((300, 400)) < lower[4]
    y = labels[np.argsort(sizes(labels))[30]]
    observed = sizes(y[None])[0]
    shares = [(sizes(rng.random((1000, 400)) < q) <= observed).mean() for q in lower]
    likely = max(np.mean(p - q) for q, share in zip(lower, shares, strict=True) if share > 0.05)
    found = calibration_interval(KS, y, p, random_state=0)
    assert found.estimate == pytest.approx(observed)
    assert found.low == 0
    assert likely <= found.high < 2 * likely


def test_p_value_and_expectation_are_those_of_the_test():
    y, P, _ = sample(400, 3, 1.2, 0)
    found = calibration_interval(SCE, y, P, random_state=0)
    test = calibration_test(SCE, y, P, random_state=0, n_resamples=1000)
    assert found.estimate == test.statistic
    error = test.standard_error / np.sqrt(300)
    assert found.expected_if_calibrated == pytest.approx(test.mean, abs=4 * error)
    assert found.p_value == pytest.approx(test.pvalue, abs=0.05)


def test_it_is_reproducible_and_independent_of_jobs():
    y, P, _ = sample(200, 3, 1.2, 0)
    found = calibration_interval(SCE, y, P, random_state=1)
    assert found == calibration_interval(SCE, y, P, random_state=1)
    assert found == calibration_interval(SCE, y, P, random_state=1, n_jobs=2)
    assert found != calibration_interval(SCE, y, P, random_state=2)


def test_a_higher_level_is_wider():
    y, P, _ = sample(400, 3, 1.5, 0)
    narrow = calibration_interval(KS, y, P, random_state=0, confidence_level=0.8)
    wide = calibration_interval(KS, y, P, random_state=0, confidence_level=0.99)
    assert wide.low < narrow.low < narrow.debiased < narrow.high < wide.high


def test_each_class_has_an_interval():
    y, P, _ = sample(400, 3, 1.5, 0)
    found = calibration_interval(SCE, y, P, average=None, random_state=0)
    np.testing.assert_array_equal(found.estimate, SCE(y, P, average=None))
    assert all(np.shape(part) == (3,) for part in found)
    assert (found.low <= found.high).all()


@pytest.mark.parametrize(
    ("y", "P"),
    [
        ([1], [[0.2, 0.8]]),
        ([0, 1], [[0.5, 0.5], [0.5, 0.5]]),
        ([0, 1, 1], [[1.0, 0.0], [0.0, 1.0], [0.0, 1.0]]),
        ([1, 0, 0], [[1.0, 0.0], [0.0, 1.0], [0.0, 1.0]]),
        ([1] * 50, [[0.3, 0.7]] * 50),
    ],
    ids=["one row", "two rows", "all right", "all wrong", "one class"],
)
@pytest.mark.parametrize("metric", [SCE, KS])
def test_extreme_data_have_an_interval(metric, y, P):
    found = calibration_interval(metric, y, np.array(P), labels=[0, 1], random_state=0)
    assert np.isfinite(found).all()
    assert 0 <= found.low <= found.high


def test_many_classes():
    y, P, _ = sample(300, 150, 1.5, 0)
    found = calibration_interval(SCE, y, P, labels=range(150), random_state=0)
    assert 0 <= found.low <= found.debiased <= found.high


def test_what_is_no_calibration_error_is_refused():
    def log_loss(y_true, y_proba):
        return -np.log(y_proba[np.arange(len(y_true)), y_true]).mean()

    y, P, _ = sample(300, 3, 0.5, 0)
    with pytest.raises(ValueError, match="metric log_loss is not a calibration error.*: use boot"):
        calibration_interval(log_loss, y, P, random_state=0)
    refused("metric must be a function", calibration_interval, "ece", y, P, error=TypeError)


def test_it_is_printed_in_a_line():
    y, P, _ = sample(1000, 3, 2.0, 0)
    found = calibration_interval(SCE, y, P, random_state=0, confidence_level=0.9)
    assert repr(found).startswith("CalibrationInterval(debiased=0.")
    assert repr(found).endswith("p_value<0.0034)")
    sentence = (
        f"Not calibrated: static calibration error {found.debiased:.3g} (90 % interval "
        f"{found.low:.3g} to {found.high:.3g}), debiased. It was measured as {found.estimate:.3g}, "
        f"and would be {found.expected_if_calibrated:.3g} on average if calibrated (p < 0.0034)."
    )
    assert str(found) == str(pickle.loads(pickle.dumps(found))) == sentence
    assert found._repr_html_() == f"<p>{sentence.replace('<', '&lt;')}</p>"
    for p_value, low, verdict in (
        (0.099, 0.02, "Not calibrated: "),
        (0.099, 0.0, "Probably not calibrated: "),
        (0.101, 0.0, "No miscalibration found: "),
    ):
        changed = found._replace(p_value=p_value, low=low)
        changed._printed = found._printed
        assert str(changed).startswith(verdict)
    right = (P.cumsum(axis=1) > np.random.default_rng(0).random((1000, 1))).argmax(axis=1)
    site = np.arange(1000) % 20
    clustered = str(calibration_interval(SCE, right, P, random_state=0, clusters=site))
    assert clustered.startswith("No miscalibration found: ")
    assert clustered.endswith(", 20 clusters).")
    of_classes = calibration_interval(SCE, y, P, random_state=0, average=None)
    assert str(of_classes) == repr(of_classes)


def test_a_gain_is_of_the_same_labels_for_both_models_also_of_many_rows(monkeypatch):
    """If hits of bins were drawn for each model, the interval would be several times as wide."""
    y, P, _ = sample(1500, 3, 1.5, 0)
    Q = P**0.9 / (P**0.9).sum(axis=1, keepdims=True)
    few, many = [], []
    for found, at_least in ((few, 10**9), (many, 100)):
        monkeypatch.setattr(label_errors, "MANY_ROWS", at_least)
        before, after = check_predictions(y, P), check_predictions(y, Q)
        evaluations = [Evaluation(each, {}, column=False) for each in (ECE, KS)]
        simulation = GainSimulation(evaluations, before, random_state=0)
        found += simulation.gains(after, 0.95)
    for one, other in zip(few, many, strict=True):  # places of the KS error are joined
        np.testing.assert_allclose(other, one, rtol=0, atol=0.05 * (one.high - one.low))


SOFT = metrics.soft_binned_calibration_error
TACE_1 = partial(metrics.thresholded_adaptive_calibration_error, version=1)
BY_LABELS = [(CellError, "simulate", label_errors.LabelError.simulate)]
A_THIRD = [(label_errors, "DRAWN_ROWS", 500)]
BY_CELLS = [(label_errors, "MANY_ROWS", 1000), (label_errors, "ROWS_PER_CELL", 0)]
JOINED = [(interval, "MANY_RANKS", 500), (interval, "JOINED_RANKS", 250)]
WAYS = {
    "labels of a third of the rows": (SCE, None, A_THIRD, 0.2),
    "hits of a third of the rows": (SOFT, None, A_THIRD, 0.2),
    "curves of a third of the rows": (FAST["KS by class"], None, A_THIRD, 0.2),
    "calls for a third of the rows": (TACE_1, None, A_THIRD, 0.3),
    "hits of rows": (KS, None, BY_LABELS, 0.2),
    "hits of weighted rows": (smooth_calibration_error, "unequal", BY_LABELS, 0.2),
    "hits of places": (KS, None, BY_CELLS, 0.2),
    "hits of cells": (SOFT, "equal", BY_CELLS, 0.2),
    "joined ranks": (KS, None, JOINED, 0.05),
    "rows of unequal weight": (ECE, "one", BY_CELLS, 0.0),
}


@pytest.mark.parametrize("way", WAYS)
def test_faster_ways_for_many_rows_give_the_same_interval(way, monkeypatch):
    """Deviations of a part of the rows are scaled; hits are drawn in place of labels."""
    metric, weights, constants, share = WAYS[way]
    y, P, _ = sample(1500, 3, 1.5, 0)
    rows = np.arange(1500)
    w = {"equal": np.full(1500, 3.0), "unequal": 1.0 + rows % 3, "one": 1.0 + (rows == 7)}
    keywords = {"sample_weight": w.get(weights), "random_state": 0}
    expected = calibration_interval(metric, y, P, **keywords)
    for constant in constants:
        monkeypatch.setattr(*constant)
    found = calibration_interval(metric, y, P, **keywords)
    assert found.estimate == expected.estimate
    assert (found != expected) == (share > 0)
    width = expected.high - expected.low
    np.testing.assert_allclose(found[1:5], expected[1:5], rtol=0, atol=share * width)
