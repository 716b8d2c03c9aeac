"""Reference values with 50 digits. Floats are converted without rounding."""

import mpmath
import numpy as np

mp = mpmath.MPContext()
mp.dps = 50


def exact(values):
    """Array of numbers with 50 digits."""
    return np.vectorize(mp.mpf, otypes=[object])(np.asarray(values, dtype=object))


def assert_precise(computed, reference, relative=1e-10, absolute=0.0):
    """Compare each number with its reference, also below the smallest float."""
    computed, reference = exact(computed), exact(reference)
    assert computed.shape == reference.shape
    for number, true in zip(computed.flat, reference.flat, strict=True):
        assert abs(number - true) <= relative * abs(true) + absolute, (number, true)


def softmax(z):
    """Softmax of the logits of a row."""
    powers = [mp.exp(each - max(z)) for each in z]
    return np.array(powers) / mp.fsum(powers)


def logistic(X, y, w, start):
    """Coefficients of a logistic regression, by Newton's method, and the log-likelihood."""
    X, w, theta = exact(X), exact(w), mp.matrix(list(exact(start)))
    for _ in range(60):
        q = np.array([1 / (1 + mp.exp(-mp.fdot(row, theta))) for row in X])
        gradient, hessian = X.T @ (w * (q - y)), X.T @ ((w * q * (1 - q))[:, None] * X)
        step = mp.lu_solve(mp.matrix(hessian.tolist()), mp.matrix(list(gradient)))
        theta -= step
        if mp.norm(step) < mp.mpf(10) ** -35 * mp.norm(theta):
            logs = [mp.log(each if hit else 1 - each) for each, hit in zip(q, y, strict=True)]
            return list(theta), mp.fdot(w, logs)
    raise AssertionError("Newton's method has not converged")
