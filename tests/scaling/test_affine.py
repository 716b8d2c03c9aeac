"""The solver of temperature, vector and matrix scaling, at sizes and scales that strain it."""

import re
import warnings

import joblib
import numpy as np
import pytest
from calls import peak_memory
from scipy.special import log_softmax
from sklearn.exceptions import ConvergenceWarning

from skcalib import DirichletCalibrator, MatrixScaling, TemperatureScaling, VectorScaling
from skcalib._arrays.rowwise import TALL_BLOCK_BYTES
from skcalib._scaling.affine import AffineFit, AffineNLL, Full, Penalty, fit_affine, quiet_overflow
from skcalib._scaling.affine_softmax import times_transposed
from skcalib._scaling.optimise import rising_root
from skcalib._scaling.temperature import find_temperature
from skcalib._scores.scores import Scores


def data(n, K, seed=0, scale=2.0):
    rng = np.random.default_rng(seed)
    Z = rng.normal(size=(n, K))
    y = (1.5 * Z + rng.gumbel(size=Z.shape)).argmax(axis=1)
    return scale * Z, y


def fit(Z, y, *, full, penalty, about_temperature=False, tol=1e-8, max_iter=100):
    return fit_affine(
        Scores(Z, "logits"),
        y,
        np.ones(len(y)),
        full=full,
        penalty=Penalty(*penalty),
        about_temperature=about_temperature,
        tol=tol,
        max_iter=max_iter,
    )


def largest_gradient(Z, y, fitted, penalty):
    """Largest entry of the gradient for logits as given, with W's own penalty (not T's)."""
    n, K = Z.shape
    full = fitted.coef.ndim == 2
    W = fitted.coef if full else np.diag(fitted.coef)
    G = (np.exp(log_softmax(Z @ W.T + fitted.intercept, axis=1)) - np.eye(K)[y]) / n
    diagonal, off, mu = penalty
    assert diagonal == 0
    gW = G.T @ Z + 2 * off * (W - np.diag(np.diag(W)))
    gb = G.sum(axis=0) + 2 * mu * fitted.intercept
    return max(np.abs(gW if full else np.diag(gW)).max(), np.abs(gb).max())


@pytest.mark.parametrize("full", [False, True])
@pytest.mark.parametrize("factor", [1e-6, 1.0, 1e6])
def test_any_scale_of_logits_converges_in_a_few_steps(full, factor):
    """Logits far from order 1 reach a gradient of 1e-8 as given, and the same probabilities."""
    Z, y = data(600, 5)
    penalty = (0.0, 0.0, 0.0)
    fitted = fit(factor * Z, y, full=full, penalty=penalty)
    assert fitted.n_iter < 15
    # A full W whose columns sum to 1 drowns differences of 1e-6 in doubles; b and c stay clear.
    drowned = full and factor == 1e6
    assert largest_gradient(factor * Z, y, fitted, penalty) < (1e-4 if drowned else 2e-8)
    plain = fit(Z, y, full=full, penalty=penalty)
    W = fitted.coef if full else np.diag(fitted.coef)
    V = plain.coef if full else np.diag(plain.coef)
    np.testing.assert_allclose(
        np.exp(log_softmax(factor * Z @ W.T + fitted.intercept, axis=1)),
        np.exp(log_softmax(Z @ V.T + plain.intercept, axis=1)),
        atol=1e-6,
    )


@pytest.mark.parametrize("factor", [1e-6, 1.0, 1e6])
def test_odir_reaches_1e_8_at_any_scale_of_logits(factor):
    Z, y = data(600, 5)
    penalty = (0.0, 20 / 600, 5 / 600)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        fitted = fit(factor * Z, y, full=True, penalty=penalty)
    assert largest_gradient(factor * Z, y, fitted, penalty) < 2e-8


def count_passes(monkeypatch):
    """Return a list that gets the name of each pass over the rows."""
    passes = []
    for name in ("value_and_gradient", "hessian", "hessian_by_class", "factors"):
        method = getattr(AffineNLL, name)
        monkeypatch.setattr(
            AffineNLL,
            name,
            lambda *args, method=method, name=name: (passes.append(name), method(*args))[1],
        )
    return passes


@pytest.mark.parametrize(("off", "most"), [(1e-4, 45), (0.05, 25), (10.0, 20)])
def test_the_preconditioner_by_factors_serves_any_strength_of_penalty(monkeypatch, off, most):
    """More parameters than one matrix contains: cheap with the off-diagonal free, or strict."""
    passes = count_passes(monkeypatch)
    Z, y = data(1200, 30)
    penalty = (0.0, off, 0.01)
    fitted = fit(Z, y, full=True, penalty=penalty)
    assert "factors" in passes
    assert fitted.n_iter < len(passes) < most
    assert largest_gradient(Z, y, fitted, penalty) < 1.5e-8


@pytest.mark.parametrize(("logit", "in_single", "in_double"), [(0.0, 10, 8), (1e60, 1, 25)])
def test_many_classes_take_most_passes_in_float32(monkeypatch, logit, in_single, in_double):
    """Float64 has the last word; it has the only one where a logit is infinite in float32."""
    passes, method = [], AffineNLL.value_and_gradient

    def counted(self, theta, single):
        passes.append(single)
        return method(self, theta, single)

    monkeypatch.setattr(AffineNLL, "value_and_gradient", counted)
    Z, y = data(1200, 30)
    Z[0, y[0]] = max(logit, Z[0, y[0]])  # so large that the row is certain
    penalty = (0.0, 1e-3, 0.01)
    fitted = fit(Z, y, full=True, penalty=penalty, tol=1e-6)
    assert passes == sorted(passes, reverse=True)
    assert in_single <= sum(passes)
    assert passes.count(False) <= in_double
    assert largest_gradient(Z, y, fitted, penalty) < 1.5e-6


@pytest.mark.parametrize("full", [False, True])
def test_heavy_tails_and_a_steep_objective_converge(full):
    """Logits of up to 1e5 beside usual ones: steps must be shortened, and the inverse renewed."""
    rng = np.random.default_rng(0)
    Z = rng.standard_t(1.2, size=(1500, 12))
    y = (Z + rng.gumbel(size=Z.shape)).argmax(axis=1)
    fitted = fit(Z, y, full=full, penalty=(0.0, 1e-3, 0.01), tol=1e-6)
    assert largest_gradient(Z, y, fitted, (0.0, 1e-3, 0.01)) < 1.5e-6


def test_a_start_where_all_rows_are_certain_still_finds_the_temperature():
    """A margin of 1 in every row and a share p of wrong ones: 1 / T = logit(1 - p)."""
    Z = np.tile([1.0, 0.0], (1000, 1))
    y, w = np.zeros(1000, dtype=np.intp), np.ones(1000)
    y[0], w[0] = 1, 999e-6
    odds = w[1:].sum() / w[0]
    found = find_temperature(Scores(Z, "logits"), y, w)
    assert found.bound == ""
    assert found.value == pytest.approx(1 / np.log(odds), rel=1e-8)


@pytest.mark.parametrize(("wide", "narrow"), [(0.70, 0.30), (0.75, 0.25)])
def test_of_two_close_minima_of_the_brier_score_the_lower_wins(wide, narrow):
    """Rows of margin 1, three of ten wrong, and rows of margin 1e-4, one of a hundred wrong.

    A scale that serves the one kind takes the other for certain or for a coin: two minima, each
    at ``1 / T = logit(1 - p) / margin``, of nearly the same height.
    """
    n = 2000
    margin = np.repeat([1.0, 1e-4], [round(wide * n), round(narrow * n)])
    Z = np.column_stack([margin, np.zeros(n)])
    y = np.zeros(n, dtype=np.intp)
    y[: round(0.3 * wide * n)] = 1
    y[n - round(0.01 * narrow * n) :] = 1

    def brier(T):
        Q = np.exp(log_softmax(Z / T, axis=1))
        return 2 * np.mean((Q[:, 1] - y) ** 2)

    found = find_temperature(Scores(Z, "logits"), y, np.ones(n), "brier").value
    of_wide, of_narrow = 1 / np.log(7 / 3), 1e-4 / np.log(99)
    assert abs(brier(of_wide) - brier(of_narrow)) < 0.05
    expected = min(of_wide, of_narrow, key=brier)
    assert found == pytest.approx(expected, rel=1e-3)
    assert brier(found) <= brier(expected) + 1e-12


@pytest.mark.parametrize("full", [False, True])
def test_a_tolerance_below_rounding_ends_at_the_optimum_with_a_warning(full):
    """No step makes the gradient smaller any more: the fit stops there, not at `max_iter`."""
    Z, y = data(300, 4)
    penalty = (0.0, 0.0, 0.0)
    with pytest.warns(ConvergenceWarning, match="stopped after .* of at most 100 .* Raise tol"):
        fitted = fit(Z, y, full=full, penalty=penalty, tol=1e-18)
    assert fitted.n_iter < 20
    assert largest_gradient(Z, y, fitted, penalty) < 1e-13


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@pytest.mark.slow
@pytest.mark.parametrize("penalty", [None, "structured"])
@pytest.mark.parametrize("scale", [1e-300, 1e-25, 1e-16, 1e-12, 1e25])
def test_a_matrix_of_logits_of_any_scale_beside_minus_infinity_is_finite(scale, penalty):
    """What leaves the range of float32 is found: no NaN, and no warning of NumPy's."""
    K = 16
    for n in (2, 3, 5, 16):
        rng = np.random.default_rng(n)
        Z = scale * rng.normal(size=(n, K))
        Z[rng.random(Z.shape) < 0.2] = -np.inf
        Z[:, 0] = scale  # a row of nothing but -inf is refused
        y = rng.integers(3, size=n)
        y[0] = K - 1
        fitted = MatrixScaling(penalty=penalty, classes=range(K)).fit(Z, y)
        Q = fitted.predict_proba(Z)
        assert np.isfinite(fitted.coef_).all()
        assert np.isfinite(fitted.intercept_).all()
        np.testing.assert_allclose(Q.sum(axis=1), 1.0, rtol=1e-12)


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@pytest.mark.parametrize("objective", ["nll", "brier"])
@pytest.mark.parametrize("scale", [1e-300, 1e-31, 1e-28])
def test_a_temperature_of_tiny_logits_beside_minus_infinity_is_a_number(objective, scale):
    for seed in range(10):
        rng = np.random.default_rng(seed)
        Z = scale * rng.normal(size=(2 + seed % 5, 4))
        Z[:, seed % 2] = -np.inf
        y = rng.integers(2, 4, size=len(Z))
        fitted = TemperatureScaling(objective=objective, classes=range(4)).fit(Z, y)
        assert 0.0 < fitted.temperature_ < np.inf
        assert np.isfinite(fitted.predict_proba(Z)).all()


def test_what_leaves_the_range_in_a_thread_is_no_warning_either():
    rng = np.random.default_rng(0)
    Z, y = rng.normal(size=(50_000, 16)), rng.integers(16, size=50_000)
    nll = AffineNLL(Scores(Z, "logits"), y, np.ones(y.size), Full())
    theta = 1e308 * (2 * np.eye(17, 16) - 1)
    with joblib.parallel_config(backend="threading", n_jobs=2), quiet_overflow():
        value, _ = nll.value_and_gradient(theta)
    assert not np.isfinite(value)


def test_a_curvature_lost_in_rounding_is_a_warning_and_no_wrong_map():
    """Scores that differ by 1e-8 need a W so large that its off-diagonal is penalised to 0.

    The penalty's curvature is then so far above the loss's that rounding turns the sign of the
    curvature along some directions.
    """
    Z, y = data(100, 5, scale=1.0)
    dirichlet = DirichletCalibrator(reg_lambda=1e-8, reg_mu=0.0, input="logits")
    with pytest.warns(ConvergenceWarning, match="stopped after .* Raise tol"):
        found = dirichlet.fit(1e-8 * Z, y).predict_proba(1e-8 * Z)
    centred = Z - Z.mean(axis=1, keepdims=True)
    expected = VectorScaling(penalty=None, input="logits").fit(centred, y).predict_proba(centred)
    np.testing.assert_allclose(found, expected, atol=1e-3)


# ------------------------------------------------------------------------- passes over the data


class CountedScores(Scores):
    """Scores that count the rows read."""

    rows_read = 0

    def logits(self, rows):
        block = super().logits(rows)
        self.rows_read += len(block)
        return block


def strained(kind, n, K):
    """Logits and labels: as usual, of a far scale, with monstrous entries, all but separated."""
    rng = np.random.default_rng(K)
    if kind == "heavy tails":
        Z = rng.standard_t(1.2, size=(n, K))
        return Z, (Z + rng.gumbel(size=Z.shape)).argmax(axis=1)
    if kind == "nearly separable":
        Z = rng.normal(size=(n, K))
        y = Z.argmax(axis=1)
        y[:: n // 6] = (y[:: n // 6] + 1) % K
        return Z, y
    return data(n, K, scale={"usual": 2.0, "tiny": 1e-4, "huge": 1e4}[kind])


KINDS = ["usual", "tiny", "huge", "heavy tails", "nearly separable"]


@pytest.mark.parametrize("K", [2, 10, 100])
@pytest.mark.parametrize("kind", KINDS)
def test_temperature_by_nll_takes_at_most_eight_passes_over_all_rows(monkeypatch, K, kind):
    """The pass for the rows' maxima counts; a sample has found the neighbourhood before."""
    monkeypatch.setattr("skcalib._scaling.temperature.CACHED_ENTRIES", 0)
    Z, y = strained(kind, 9000, K)
    scores = CountedScores(Z, "logits")
    found = find_temperature(scores, y, np.ones(len(y)))
    assert found.bound == ""
    assert 2 <= scores.rows_read / len(y) <= 8


def of_noisy_classes(n, K):
    """Peaked logits of a class that is the label in three rows of four; uneven columns."""
    rng = np.random.default_rng(0)
    y = rng.integers(0, K, n)
    Z = rng.normal(size=(n, K))
    Z[np.arange(n), np.where(rng.random(n) < 0.24, rng.integers(0, K, n), y)] += 6
    return Z * np.exp(0.1 * rng.normal(size=K)) + 0.3 * rng.normal(size=K), y


@pytest.mark.parametrize("factor", ["columns", pytest.param(1e3, marks=pytest.mark.slow)])
@pytest.mark.parametrize("penalty", [pytest.param(None, marks=pytest.mark.slow), "structured"])
def test_vector_scaling_of_many_classes_takes_at_most_forty_passes(monkeypatch, factor, penalty):
    """To a gradient of 1e-6, at 25 rows a class, whatever the scale of all logits or of each."""
    passes = count_passes(monkeypatch)
    Z, y = of_noisy_classes(7500, 300)
    Z *= 10 ** np.random.default_rng(1).uniform(-1, 1, 300) if factor == "columns" else factor
    fitted = VectorScaling(penalty=penalty, tol=1e-6).fit(Z, y)
    assert fitted.n_iter_ < len(passes) <= (40 if penalty is None else 20)
    if penalty is None:
        result = AffineFit(fitted.coef_, fitted.intercept_, fitted.n_iter_)
        assert largest_gradient(Z, y, result, (0.0, 0.0, 0.0)) < 1.1e-6


@pytest.mark.parametrize("K", [2, 3, 7, 33, 100])
@pytest.mark.parametrize("factor", [1.0, 1e12])
def test_a_row_of_a_product_does_not_depend_on_its_neighbours(K, factor):
    """Terms of 1e12 that cancel would show another order of summation in the fourth digit."""
    rng = np.random.default_rng(K)
    Z, W = np.log(rng.dirichlet(np.ones(K), size=70)), factor * rng.normal(size=(K, K))
    batch = times_transposed(Z, W, np.empty_like(Z))
    np.testing.assert_allclose(batch, Z @ W.T, rtol=0, atol=1e-13 * factor * K)
    atol = 1e-12 if factor == 1.0 else 0.0
    for i in (0, 1, 31, 32, 68, 69):
        np.testing.assert_allclose(
            times_transposed(Z[i : i + 1], W, np.empty((1, K)))[0], batch[i], rtol=0, atol=atol
        )


# ---------------------------------------------------------------------------- roots


@pytest.mark.parametrize("start", [-4.0, 0.0, 0.3, 5.0])
@pytest.mark.parametrize(
    ("rising", "root"),
    [
        (lambda t: (t - 0.3, 1.0), 0.3),
        (lambda t: (np.expm1(3 * t), 3 * np.exp(3 * t)), 0.0),
        (lambda t: (np.cbrt(t), 0.0), 0.0),  # a slope that is not known
        (lambda t: (np.arctan(50 * (t - 1)), 50 / (1 + 2500 * (t - 1) ** 2)), 1.0),
        (lambda t: (1e-16 * np.sign(t - 1), 1e-12), 1.0),  # plateaus of rounding
        (lambda t: (t - 0.3, np.inf), 0.3),  # a rise that has overflown
    ],
)
def test_a_root_is_found_from_anywhere_in_its_range(rising, root, start):
    evaluations = 0

    def counted(t):
        nonlocal evaluations
        evaluations += 1
        return rising(t)

    found, end = rising_root(counted, start, -5.0, 6.0)
    assert evaluations < 100
    assert end == ""
    assert found == pytest.approx(root, abs=1e-9)


@pytest.mark.parametrize(("root", "end", "name"), [(-9.0, -5.0, "low"), (9.0, 6.0, "high")])
def test_a_root_beyond_the_range_is_its_end(root, end, name):
    assert rising_root(lambda t: (t - root, 1.0), 0.5, -5.0, 6.0) == (end, name)


# ---------------------------------------------------------------------------- threads and memory


@pytest.mark.parametrize(("n_iter", "arrays"), [(3, 8), (15, 32)])
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_a_large_matrix_takes_a_bounded_number_of_arrays_of_its_parameters(n_iter, arrays):
    """Two for each of at most ten pairs of BFGS, and some for a step, beside blocks and logits."""
    K = 400
    Z, y = data(700, K)
    peak = peak_memory(MatrixScaling(penalty="odir", max_iter=n_iter, tol=1e-12).fit, Z, y)
    copies = 8 * Z.size + 4 * Z.size
    assert peak < arrays * 8 * K * (K + 1) + copies + 3.5 * TALL_BLOCK_BYTES


@pytest.mark.slow
def test_a_matrix_of_1000_classes_takes_at_most_128_mib():
    Z, y = data(5000, 1000)
    Z = Z.astype(np.float32)
    assert peak_memory(MatrixScaling(max_iter=12).fit, Z, y) < 128 << 20


# -------------------------------------------------------------------------------------- progress


@pytest.mark.parametrize("calibrator", [VectorScaling, MatrixScaling, DirichletCalibrator])
def test_verbose_prints_a_line_for_each_step(capsys, calibrator):
    Z, y = data(300, 4)
    fitted = calibrator(verbose=1).fit(Z, y)
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) == fitted.n_iter_ + 1
    pattern = r"Iteration (\d+): objective (\S+), largest gradient (\S+), \S+ s"
    found = [re.fullmatch(pattern, line).groups() for line in lines]
    assert [int(step) for step, _, _ in found] == list(range(len(lines)))
    objective = [float(value) for _, value, _ in found]
    assert objective == sorted(objective, reverse=True)
    assert float(found[-1][2]) <= 1e-6
    calibrator().fit(Z, y)
    assert capsys.readouterr().out == ""


@pytest.mark.parametrize("K", [23, 300])
def test_rows_that_are_all_the_same_have_a_fit(K):
    y = np.random.default_rng(0).integers(0, K, 400)
    P = np.full((400, K), 1 / K, dtype=np.float32)
    for calibrator in (MatrixScaling(penalty=None), VectorScaling(penalty=None)):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            fitted = calibrator.set_params(classes=np.arange(K), input="proba").fit(P, y)
        rates = np.bincount(y, minlength=K) / 400
        np.testing.assert_allclose(fitted.predict_proba(P[:1])[0], rates, atol=1e-5)


@pytest.mark.parametrize("seed", [12, 1, 2, 3, 4, 5])
def test_classes_without_rows_are_separated_with_a_warning(seed):
    """Curvatures vanish on the way: a ridge must keep the steps within reason."""
    rng = np.random.default_rng(seed)
    Z = 2 * rng.normal(size=(100, 20))
    y = np.zeros(100, dtype=int)
    y[[10, 30, 50, 70]] = 1, 3, 8, 15
    calibrator = MatrixScaling(penalty=None, classes=np.arange(20))
    with pytest.warns(ConvergenceWarning, match="separate the classes"):
        P = calibrator.fit(Z, y).predict_proba(Z)
    assert -np.log(P[np.arange(100), y]).mean() < 1e-5
