"""Base class of calibrators of the form softmax(W z + b)."""

from __future__ import annotations

from functools import partial
from numbers import Integral, Real
from typing import Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike
from sklearn.utils._param_validation import Interval

from skcalib._arrays.types import Float64Array, Intp
from skcalib._maps.operations import Constants, Operations, Plan, Value
from skcalib._scaling.affine import Penalty, fit_affine
from skcalib._scaling.affine_softmax import IN_PLACE
from skcalib._scores.scores import Scores
from skcalib.calibrators._base import ScoreCalibrator
from skcalib.calibrators._shown_fit import span

# This weight leaves deviations of 1e-8, below the tolerance of a fit. A larger one would make the
# rounding errors of a deviation of 0 visible.
LARGEST_PENALTY = 1e8


class AffineCalibrator(ScoreCalibrator):
    """A calibrator of the form softmax(W z + b).

    A subclass defines whether W is full, and which penalties and parameters it has.
    """

    _takes_logs = True
    _fits_on_device = True
    _full: ClassVar[bool]
    _of_log_proba: ClassVar[bool] = False
    _work = IN_PLACE

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        **ScoreCalibrator._parameter_constraints,
        "reg_lambda": [Interval(Real, 0, None, closed="left"), None],
        "reg_mu": [Interval(Real, 0, None, closed="left"), None],
        "tol": [Interval(Real, 0, None, closed="neither")],
        "max_iter": [Interval(Integral, 1, None, closed="left")],
        "verbose": ["verbose"],
    }

    def __init__(
        self,
        *,
        penalty: str | None = "structured",
        reg_lambda: float | None = None,
        reg_mu: float | None = None,
        tol: float = 1e-6,
        max_iter: int = 500,
        verbose: int = 0,
        input: str = "auto",
        classes: ArrayLike | None = None,
    ) -> None:
        super().__init__(input=input, classes=classes)
        self.penalty = penalty
        self.reg_lambda = reg_lambda
        self.reg_mu = reg_mu
        self.tol = tol
        self.max_iter = max_iter
        self.verbose = verbose

    def _penalty(self, n_classes: int, n: float) -> Penalty:
        if self.penalty is None:
            return Penalty(0.0, 0.0, 0.0)
        on_diagonal, off_diagonal = n_classes / n, n_classes * (n_classes - 1) / n
        if self.reg_lambda is not None:
            on_diagonal = off_diagonal = float(self.reg_lambda)
        mu = n_classes / n if self.reg_mu is None else float(self.reg_mu)
        return Penalty(
            0.0 if self.penalty == "odir" else min(on_diagonal, LARGEST_PENALTY),
            min(off_diagonal, LARGEST_PENALTY),
            min(mu, LARGEST_PENALTY),
        )

    def _fit(self, scores: Scores, code: Intp, w: Float64Array) -> dict[str, Any]:
        fitted = fit_affine(
            scores.log_proba() if self._of_log_proba else scores,
            code,
            w,
            full=self._full,
            penalty=self._penalty(scores.shape[1], float(w.sum())),
            about_temperature=self.penalty == "structured",
            tol=self.tol,
            max_iter=self.max_iter,
            verbose=self.verbose,
        )
        return {"coef_": fitted.coef, "intercept_": fitted.intercept, "n_iter_": fitted.n_iter}

    def _in_words(self) -> str:
        coef, across = self.coef_, ""
        if coef.ndim == 2:
            others = coef[~np.eye(len(coef), dtype=bool)]
            coef, across = coef.diagonal(), f", of other classes {span(others)}"
        return f"factors {span(coef)}{across}; offsets {span(self.intercept_)}"

    def _plan(self) -> Plan:
        constants = {"coef": self.coef_, "intercept": self.intercept_}
        formula = partial(affine, full=self._full, of_log_proba=self._of_log_proba)
        return Plan(formula, constants)


def affine(o: Operations, c: Constants, full: bool, of_log_proba: bool) -> Value:
    """Return softmax(W z + b)."""
    return o.affine_softmax(c["coef"], c["intercept"], full=full, of_log_proba=of_log_proba)
