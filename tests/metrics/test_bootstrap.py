"""Bootstrap intervals: counts as weights are rebuilt arrays, and the ends are SciPy's."""

import functools
import inspect
from functools import partial

import numpy as np
import pytest
import reference as ref
from calls import refused
from scipy import stats
from sklearn.metrics import log_loss

from skcalib import metrics
from skcalib._validation.rows import check_predictions
from skcalib.metrics import bootstrap_interval, ks_calibration_error, top_label_brier_score
from skcalib.metrics._intervals.bootstrap import bca_levels, draw_counts
from skcalib.metrics._resampling import random_chunks

ERRORS = [name.removeprefix("neg_") for name in metrics.SCORERS]


def resamples(y, P, n_resamples, random_state, labels=None):
    """Row numbers of the resamples that `bootstrap_interval` draws with a seed."""
    predictions = check_predictions(y, P, None, labels)
    for seed, size in random_chunks(n_resamples, random_state):
        for drawn in draw_counts(predictions, seed, size):
            yield np.repeat(np.arange(len(y)), drawn.w.astype(int))


def plain_gap(y_true, y_proba):
    """A metric that knows neither weights nor labels."""
    return abs((y_proba.argmax(axis=1) == y_true).mean() - y_proba.max(axis=1).mean())


def test_a_metric_wrapped_by_a_user_gets_arrays():
    """functools.wraps makes it look like the metric of the package that it calls."""

    @functools.wraps(metrics.expected_calibration_error)
    def rounded(y_true, y_proba, **keywords):
        return metrics.expected_calibration_error(y_true, np.round(y_proba, 1), **keywords)

    y, p = [0, 1, 1, 0], [0.22, 0.71, 0.44, 0.19]
    result = bootstrap_interval(rounded, y, p, n_resamples=5, random_state=0)
    assert result.estimate == metrics.expected_calibration_error(y, [0.2, 0.7, 0.4, 0.2])


@pytest.mark.parametrize("name", ERRORS)
@pytest.mark.parametrize("w", ["whole", "fractions"])
def test_weighted_resamples_equal_rebuilt_arrays(name, w):
    metric = getattr(metrics, name)
    y, P = ref.predictions(4, 60, seed=3)
    rng = np.random.default_rng(1)
    w = rng.integers(1, 4, 60) if w == "whole" else rng.uniform(0.5, 2, 60)
    if w.dtype.kind == "i":  # each copy is drawn by itself
        rows = np.repeat(np.arange(60), w)
        drawn = (rows[r] for r in resamples(y[rows], P[rows], 5, 0, range(4)))
        values = [metric(y[r], P[r], labels=range(4)) for r in drawn]
    else:
        values = [
            metric(y[r], P[r], labels=range(4), sample_weight=w[r])
            for r in resamples(y, P, 5, 0, range(4))
        ]
    result = bootstrap_interval(
        metric, y, P, n_resamples=5, random_state=0, labels=range(4), sample_weight=w
    )
    alpha = 0.025
    if w.dtype.kind == "f":  # Student's t, and residuals that are too small
        share = w / w.sum()
        part, freedom = ref.balanced(share)
        lost = np.sqrt((share**2).sum() / (share**2 * part).sum())
        alpha = stats.norm.sf(stats.t.ppf(0.975, freedom) * lost)
    expected = *np.quantile(values, [alpha, 1 - alpha]), np.std(values, ddof=1)
    assert result[1:] == pytest.approx(expected, abs=1e-9)


@pytest.mark.parametrize(
    "metric",
    [
        plain_gap,
        log_loss,
        ks_calibration_error,
        partial(metrics.expected_calibration_error, n_bins=5, norm="l2"),
        lambda y, P: metrics.static_calibration_error(y, P, labels=range(4)),
    ],
)
def test_percentiles_and_standard_error_are_those_of_rebuilt_arrays(metric):
    y, P = ref.predictions(4, 70, seed=3)
    own = {"labels": range(4)} if "labels" in inspect.signature(metric).parameters else {}
    values = [metric(y[r], P[r], **own) for r in resamples(y, P, 60, 5, range(4))]
    result = bootstrap_interval(
        metric, y, P, n_resamples=60, random_state=5, labels=range(4), confidence_level=0.8
    )
    assert result.estimate == pytest.approx(metric(y, P, **own), abs=1e-12)
    low, high = np.quantile(values, [0.1, 0.9])
    assert (result.low, result.high) == pytest.approx((low, high), abs=1e-12)
    assert result.standard_error == pytest.approx(np.std(values, ddof=1), abs=1e-12)
    assert all(type(x) is float for x in result)


def test_standard_error_of_a_mean_is_the_closed_form():
    y, P = ref.predictions(3, 400, seed=0)
    squares = (P.max(axis=1) - (P.argmax(axis=1) == y)) ** 2
    result = bootstrap_interval(
        top_label_brier_score, y, P, n_resamples=4000, random_state=0, labels=range(3)
    )
    assert result.standard_error == pytest.approx(squares.std() / 20, rel=0.05)
    z = stats.norm.ppf(0.975) * squares.std() / 20
    assert result.low == pytest.approx(squares.mean() - z, abs=0.1 * z)
    assert result.high == pytest.approx(squares.mean() + z, abs=0.1 * z)


def scipy_bca(rows_values, resampled, level):
    """SciPy's BCa interval of a mean, on the resampled values given."""

    keywords = {"axis": 0, "confidence_level": level}
    begun = stats.bootstrap((rows_values,), np.mean, n_resamples=2, method="percentile", **keywords)
    begun.bootstrap_distribution = np.asarray(resampled)
    result = stats.bootstrap(
        (rows_values,), np.mean, n_resamples=0, method="BCa", bootstrap_result=begun, **keywords
    )
    return result.confidence_interval


def skewed(n, seed):
    """Labels and probabilities whose squared errors are skewed, and these."""
    rng = np.random.default_rng(seed)
    p = rng.beta(20, 1, n)
    y = (rng.random(n) < p).astype(int)
    p = np.maximum(p, 0.5)
    return y, p, (p - y) ** 2


@pytest.mark.parametrize("level", [0.5, 0.95])
def test_bca_is_scipys(level):
    y, p, squares = skewed(80, 0)
    values = [squares[rows].mean() for rows in resamples(y, p, 500, 7)]
    expected = scipy_bca(squares, values, level)
    result = bootstrap_interval(
        top_label_brier_score, y, p, n_resamples=500, random_state=7, method="bca",
        confidence_level=level,
    )  # fmt: skip
    assert (result.low, result.high) == pytest.approx(tuple(expected), abs=1e-10)
    percentile = np.quantile(values, [(1 - level) / 2, (1 + level) / 2])
    assert abs(result.high - percentile[1]) > 1e-4  # the correction is not nothing here


def test_groups_of_the_jackknife_hardly_move_the_interval():
    """Beyond 200 rows, 200 random groups: the ends stay within 5 % of the half-width."""
    y, p, squares = skewed(1500, 1)
    values = [squares[rows].mean() for rows in resamples(y, p, 1000, 7)]
    expected = scipy_bca(squares, values, 0.9)
    result = bootstrap_interval(
        top_label_brier_score, y, p, random_state=7, method="bca", confidence_level=0.9
    )
    width = expected.high - expected.low
    assert (result.low, result.high) == pytest.approx(tuple(expected), abs=0.025 * width)


@pytest.mark.parametrize("method", ["percentile", "bca"])
def test_an_error_for_each_class_has_the_interval_it_has_alone(method):
    y, P = ref.predictions(4, 90, seed=3)
    keywords = {"n_resamples": 40, "random_state": 0, "labels": range(4), "method": method}
    each = bootstrap_interval(
        metrics.static_calibration_error, y, P, average=None, n_bins=5, **keywords
    )
    for k in range(4):
        alone = bootstrap_interval(
            metrics.expected_calibration_error, y, P, pos_label=k, n_bins=5, **keywords
        )
        assert [part[k] for part in each] == pytest.approx(list(alone), abs=1e-12)


@pytest.mark.parametrize("method", ["percentile", "bca"])
def test_the_seed_decides_and_the_number_of_jobs_does_not(method):
    y, P = ref.predictions(4, 50, seed=3)

    def interval(**keywords):
        return bootstrap_interval(
            metrics.adaptive_calibration_error, y, P, n_resamples=60, method=method,
            labels=range(4), **keywords,
        )  # fmt: skip

    first = interval(random_state=0)
    assert interval(random_state=0) == first
    assert interval(random_state=np.random.RandomState(0)) == first
    assert interval(random_state=0, n_jobs=2) == first
    assert interval(random_state=1) != first


def test_metrics_of_others_get_weights_labels_and_the_shape_they_were_meant_for():
    seen = []

    def watch(y_true, y_proba, *, sample_weight, labels):
        seen.append((y_true.tolist(), y_proba.shape, sample_weight.sum(), labels.tolist()))
        return 0.5

    y, p = np.array(["no", "yes", "no"]), np.array([0.2, 0.7, 0.4])
    for given, shape in ((p, (3,)), (p[:, None], (3,)), (np.column_stack([1 - p, p]), (3, 2))):
        seen.clear()
        event = {"pos_label": "yes"} if shape == (3,) else {}
        bootstrap_interval(watch, y, given, n_resamples=2, random_state=0, **event)
        assert seen == [(["no", "yes", "no"], shape, 3.0, ["no", "yes"])] * 3


@pytest.mark.parametrize("method", ["percentile", "bca"])
def test_what_never_varies_has_an_interval_of_one_point(method):
    result = bootstrap_interval(
        top_label_brier_score, [0, 1, 0], [0.0, 1.0, 0.0], n_resamples=20, method=method
    )
    assert result == (0, 0, 0, 0)
    one = bootstrap_interval(
        top_label_brier_score, [1], [0.75], labels=[0, 1], n_resamples=20, method=method
    )
    assert one == (0.0625, 0.0625, 0.0625, 0)


@pytest.mark.parametrize(
    ("keywords", "message"),
    [
        ({"n_resamples": 1}, "n_resamples must be a whole number >= 2; got 1"),
        ({"method": "basic"}, r"method must be one of \['percentile', 'bca'\]; got 'basic'"),
        (
            {"sample_weight": [0.5, 1.0]},
            "relative weights, but the metric plain_gap takes no weights: use metrics that accept "
            "weights, or pass integers",
        ),
    ],
)
def test_wrong_keywords_are_named_with_the_mend(keywords, message):
    refused(message, bootstrap_interval, plain_gap, [0, 1], [[0.8, 0.2], [0.3, 0.7]], **keywords)


def test_a_name_is_not_a_metric():
    with pytest.raises(TypeError, match="metric must be a function"):
        bootstrap_interval("ece", [0, 1], [0.2, 0.7])


def test_resamples_that_tie_with_the_estimate_count_half_on_either_side():
    """A metric of few values: without bias or skewness the levels are those of percentiles."""
    level = bca_levels(1.0, np.array([0.0, 1.0, 1.0, 2.0]), np.ones(4), 0.9)
    assert level == pytest.approx((0.05, 0.95))


def test_printed_it_is_one_line():
    """Numbers in four digits; of many classes, the first and the last three."""
    rng = np.random.default_rng(0)
    P = rng.dirichlet(np.ones(9), 60)
    y = np.arange(60) % 9
    one = bootstrap_interval(ks_calibration_error, y, P, n_resamples=9, random_state=0)
    parts = ", ".join(f"{name}={value:.4g}" for name, value in one._asdict().items())
    assert repr(one) == f"BootstrapInterval({parts})"
    each = bootstrap_interval(
        metrics.static_calibration_error, y, P, average=None, n_resamples=9, random_state=0
    )
    low = [f"{value:.4g}" for value in each.low]
    assert f", low=[{', '.join(low[:3])}, ..., {', '.join(low[-3:])}], " in repr(each)
    assert "\n" not in repr(each)


def test_seeds_and_counts_that_cannot_be_drawn_are_refused():
    y, p = np.arange(20) % 2, np.full(20, 0.5)
    with pytest.raises(ValueError, match="random_state must be None, an integer in"):
        bootstrap_interval(top_label_brier_score, y, p, random_state="seed")
    w = np.append(np.full(19, 10**9), 1)
    with pytest.raises(ValueError, match="19,000,000,001 rows in total, but at most"):
        bootstrap_interval(top_label_brier_score, y, p, sample_weight=w)
