"""Numbers that R prints, and statistics that others have printed, to the digits printed."""

import numpy as np
import pytest
from scipy.special import expit
from sklearn.linear_model import LogisticRegression

from skcalib import metrics
from skcalib.metrics import calibration_intercept_slope, score_decomposition

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
    assert "8 rows with probability 0 or 1, replaced by 0.0126 and 0.983" in note
    rows = (p > 0) & (p < 1)
    slope = metrics.calibration_intercept_slope(y[rows], p[rows]).slope
    assert slope == pytest.approx(0.972, abs=0.0005)


# ------------------------------------------------------------------ published examples


# Beetles exposed to carbon disulphide (Bliss 1935), as in table 7.2 of Dobson and Barnett, An
# Introduction to Generalized Linear Models: log10 dose, beetles, beetles killed. Section 7.3 prints
# the logistic regression on the dose, the numbers of dead that it and two other models expect, and
# the deviance of each.
DOSE = np.array([1.6907, 1.7242, 1.7552, 1.7842, 1.8113, 1.8369, 1.8610, 1.8839])
BEETLES = np.array([59, 60, 62, 56, 63, 59, 62, 60])
KILLED = np.array([6, 13, 18, 28, 52, 53, 61, 60])
LOGISTIC = [3.46, 9.84, 22.45, 33.90, 50.10, 53.29, 59.22, 58.74]
PROBIT = [3.36, 10.72, 23.48, 33.82, 49.62, 53.32, 59.66, 59.23]
EXTREME_VALUE = [5.59, 11.28, 20.95, 30.37, 47.78, 54.14, 61.11, 59.95]
ROWS = {"y_true": np.repeat([1, 0], 8), "sample_weight": np.append(KILLED, BEETLES - KILLED)}

# Grades of 32 students (Spector and Mazzeo 1980), which ship with statsmodels: grade point average,
# test score, new method of teaching, improved grade. Greene, Econometric Analysis, chapter
# "Models for discrete choice", prints the logistic regression and its log-likelihood, -12.890.
GPA = [
    2.66, 2.89, 3.28, 2.92, 4.00, 2.86, 2.76, 2.87, 3.03, 3.92, 2.63, 3.32, 3.57, 3.26, 3.53, 2.74,
    2.75, 2.83, 3.12, 3.16, 2.06, 3.62, 2.89, 3.51, 3.54, 2.83, 3.39, 2.67, 3.65, 4.00, 3.10, 2.39,
]  # fmt: skip
TEST_SCORE = [
    20, 22, 24, 12, 21, 17, 17, 21, 25, 29, 20, 23, 23, 25, 26, 19,
    25, 19, 23, 25, 22, 28, 14, 26, 24, 27, 17, 24, 21, 23, 21, 19,
]  # fmt: skip
NEW_METHOD = [0] * 18 + [1] * 14
IMPROVED = [4, 9, 13, 19, 21, 24, 25, 26, 28, 29, 31]


def test_intercept_and_slope_of_beetle_mortality():
    """Log-odds that are the dose have the regression's coefficients: -60.717 and 34.270."""
    found = calibration_intercept_slope(y_proba=np.tile(expit(DOSE), 2), **ROWS)
    assert round(found.intercept, 3) == -60.717
    assert round(found.slope, 3) == 34.270
    assert round(found.intercept_standard_error**2, 3) == 26.840
    assert round(found.slope_standard_error**2, 3) == 8.481


@pytest.mark.parametrize(
    ("expected", "deviance"), [(LOGISTIC, 11.23), (PROBIT, 10.12), (EXTREME_VALUE, 3.45)]
)
def test_miscalibration_is_the_deviance_per_row_of_beetle_mortality(expected, deviance):
    """Shares of dead rise with the dose, so that isotonic regression fits them all.

    The numbers expected are printed to .005, which moves the deviance by up to .02.
    """
    p = np.tile(np.array(expected) / BEETLES, 2)
    parts = score_decomposition(y_proba=p, score="log", **ROWS)
    assert 2 * 481 * parts.miscalibration == pytest.approx(deviance, abs=0.02)
    # R's glm(cbind(killed, beetles - killed) ~ dose, binomial): null deviance 284.20.
    assert 2 * 481 * parts.discrimination == pytest.approx(284.20, abs=0.005)


@pytest.mark.parametrize(
    ("score", "printed"),
    [
        ("brier", (0.2266667, 0.1016667, 0.125, 0.25)),
        ("log", (0.6986228, 0.3237327, 0.3182571, 0.6931472)),
    ],
)
def test_decomposition_of_reliabilitydiag(score, printed):
    """R's reliabilitydiag, as recorded in the tests of model-diagnostics 1.5.0."""
    parts = score_decomposition([0, 0, 0, 1, 1, 1], [0.4, 0.3, 0.2, 0.1, 0.5, 0.9], score=score)
    np.testing.assert_allclose(parts[:4], printed, atol=6e-8)
