"""Calibrators that fit a logistic map of the log-odds of each class."""

from __future__ import annotations

import warnings
from abc import abstractmethod
from collections.abc import Callable
from functools import partial
from itertools import chain
from typing import Any, ClassVar

import numpy as np
from sklearn.exceptions import ConvergenceWarning

from skcalib._arrays.blocks import column_blocks
from skcalib._arrays.types import Bools, Float64Array, Intp
from skcalib._maps.operations import ColumnPlan, Constants, Value, row
from skcalib._scaling.logistic import Logistic
from skcalib._scores.one_vs_rest import map_column_blocks
from skcalib._scores.scores import Scores
from skcalib.calibrators._base import ColumnwiseCalibrator
from skcalib.calibrators._fit_warnings import warn_of_flat_maps

# Classes of this many bytes are fitted at once: more would leave the cache, and with fewer, threads
# would wait for each other's calls.
AT_ONCE_BYTES = 1 << 20


class LogOddsCalibrator(ColumnwiseCalibrator):
    """A logistic map of features of the log-odds of each class against the rest."""

    _takes_logs = True
    _takes_soft_hits = True
    _absent_class = "0"
    # Whether the map cannot fall, so that slopes of 0 mean scores of no use.
    _monotone: ClassVar[bool] = False

    @abstractmethod
    def _fit_maps(self, odds: Float64Array, hit: Bools, w: Float64Array) -> tuple[Logistic, Bools]:
        """Fit k classes; return which of them the map can separate from the others without error.

        Parameters
        ----------
        odds : ndarray of shape (k, n)
            Log-odds of each class.
        hit : ndarray of bool, shape (k, n)
            The rows of each class.
        w : ndarray of shape (n,)
            Positive weights.
        """

    def _fit_columns(
        self, odds: Float64Array, columns: slice, code: Intp, w: Float64Array
    ) -> list[tuple[Logistic, Bools]]:
        column = np.arange(columns.start, columns.stop)[:, None]
        return [
            self._fit_maps(odds[some], code == column[some], w)
            for some in column_blocks(code.size, odds.shape[0], AT_ONCE_BYTES)
        ]

    def _fit(self, scores: Scores, code: Intp, w: Float64Array) -> dict[str, Any]:
        first = self._first_column(scores.shape[1])
        kernel = partial(self._fit_columns, code=code, w=w)
        blocks = map_column_blocks(kernel, scores, first, read="log_odds")
        maps, apart = zip(*chain.from_iterable(blocks), strict=True)
        coef = np.concatenate([fitted.coef for fitted in maps])
        separated = first + np.flatnonzero(np.concatenate(apart))
        if separated.size:
            warnings.warn(
                f"{type(self).__name__}: the scores of {separated.size} of {len(coef)} classes "
                f"(first: column {separated[0]}) separate its rows from the others without error, "
                "so that no finite optimum exists and the map is nearly a step: fit on more "
                "held-out rows, some of which are misclassified.",
                ConvergenceWarning,
                stacklevel=3,
            )
        intercept = np.concatenate([fitted.intercept for fitted in maps])
        mixed = np.isfinite(intercept)
        if self._monotone and mixed.any() and not coef[mixed].any():
            warn_of_flat_maps(type(self).__name__)
        return {"coef_": coef[:, 0] if coef.shape[1] == 1 else coef, "intercept_": intercept}

    def _plan_of_odds(self, formula: Callable[..., Value], constants: Constants) -> ColumnPlan:
        constants = {**constants, "intercept": row(self.intercept_)}
        return self._column_plan(formula, constants, read="log_odds")
