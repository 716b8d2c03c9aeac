"""Numbers that R prints: glm, ResourceSelection, generalhoslem, rms and CalibrationCurves."""

import numpy as np
import pytest
from scipy.special import expit
from sklearn.linear_model import LogisticRegression

from skcalib import metrics

# datasets::mtcars of R 4.2.2, from Motor Trend 1974: vs, cyl, mpg.
MTCARS = """
0 6 21.0  0 6 21.0  1 4 22.8  1 6 21.4  0 8 18.7  1 6 18.1  0 8 14.3  1 4 24.4
1 4 22.8  1 6 19.2  1 6 17.8  0 8 16.4  0 8 17.3  0 8 15.2  0 8 10.4  0 8 10.4
0 8 14.7  1 4 32.4  1 4 30.4  1 4 33.9  1 4 21.5  0 8 15.5  0 8 15.2  0 8 13.3
0 8 19.2  1 4 27.3  0 4 26.0  1 4 30.4  0 8 15.8  0 6 19.7  0 8 15.0  1 4 21.4
"""


def slope_of_a_half():
    rng = np.random.default_rng(1)
    f = rng.normal(-1, 0.9, 2000)
    return (rng.random(2000) < expit(0.6 * f - 0.36)).astype(int), expit(f)


def of_105_rows():
    rng = np.random.default_rng(5)
    p = rng.uniform(0.05, 0.6, 105)
    return (rng.random(105) < p).astype(int), p


def of_cars():
    """glm(vs ~ cyl + mpg, binomial), the example of generalhoslem::logitgof."""
    y, *columns = np.array(MTCARS.split(), dtype=float).reshape(-1, 3).T
    X = np.column_stack([(x - x.mean()) / x.std() for x in columns])
    model = LogisticRegression(C=np.inf, tol=1e-10, max_iter=10_000).fit(X, y)
    return y.astype(int), model.predict_proba(X)[:, 1]


def test_the_intercept_in_the_large_has_its_own_sign():
    """glm(y ~ f, binomial), glm(y ~ offset(f), binomial), as val.prob.ci.2 names them."""
    y, p = slope_of_a_half()
    line = metrics.calibration_intercept_slope(y, p)
    values = line.slope, line.intercept, line.in_the_large
    assert np.round(values, 3).tolist() == [0.514, -0.334, 0.061]
    ends = line.in_the_large_low, line.in_the_large_high
    assert np.round(ends, 3).tolist() == [-0.048, 0.170]
    assert round(metrics.observed_expected_ratio(y, p).ratio, 2) == 1.04


# Sample, cuts, chi-squared, p: "linear" is hoslem.test and logitgof of R, "edges" is not.
HOSMER_LEMESHOW = [
    (of_105_rows, "linear", 25.71, 0.0012),
    (of_105_rows, "edges", 20.33, 0.0091),
    (of_cars, "linear", 8.86, 0.354),
    (of_cars, "edges", 15.57, 0.049),
]


@pytest.mark.parametrize(("sample", "cuts", "statistic", "pvalue"), HOSMER_LEMESHOW)
def test_hosmer_lemeshow_of_r(sample, cuts, statistic, pvalue):
    y, p = sample()
    test = metrics.hosmer_lemeshow_test(y, p, fitted=True, quantile_method=cuts)
    assert test.statistic == pytest.approx(statistic, abs=0.005)
    assert test.pvalue == pytest.approx(pvalue, abs=0.0005)
    if cuts == "linear":
        assert metrics.hosmer_lemeshow_test(y, p, fitted=True) == test


def test_probabilities_of_0_and_1_are_kept_with_a_note():
    """rms::val.prob deletes the eight rows: slope 0.972."""
    rng = np.random.default_rng(0)
    p = rng.beta(2, 3, 500)
    y = (rng.random(500) < p).astype(int)
    p[np.flatnonzero(y == 0)[:4]], p[np.flatnonzero(y == 1)[:4]] = 1, 0
    summary = metrics.calibration_summary(y, p, random_state=0)
    assert summary.frame.loc["slope", "value"] == pytest.approx(0.573, abs=0.0005)
    (note,) = summary.notes
    assert "8 rows of probability 0 or 1, read as 0.0126 and 0.983" in note
    rows = (p > 0) & (p < 1)
    slope = metrics.calibration_intercept_slope(y[rows], p[rows]).slope
    assert slope == pytest.approx(0.972, abs=0.0005)
