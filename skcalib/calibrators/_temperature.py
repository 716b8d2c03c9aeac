"""Temperature scaling: all logits are divided by one number."""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import ArrayLike
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils._param_validation import StrOptions
from sklearn.utils.metaestimators import available_if
from sklearn.utils.validation import validate_data

from skcalib._arrays.source import refuse_remote
from skcalib._arrays.types import Float64Array, Intp
from skcalib._differentiable.soft_binning import Kind, SoftBins
from skcalib._maps.operations import Constants, Operations, Plan, Value
from skcalib._scaling.affine_softmax import IN_PLACE
from skcalib._scaling.temperature import (
    SCALE_FITS,
    find_temperature,
    fit_temperature,
    warn_at_bound,
)
from skcalib._scaling.temperature_search import ROUGH_ROUNDS, SMOOTH_ROUNDS, search_temperature
from skcalib._scaling.temperature_stream import Batch, TemperatureStream
from skcalib._scores.scores import Scores
from skcalib._validation.keywords import shown
from skcalib._validation.kind import check_kind
from skcalib._validation.labels import check_labels
from skcalib.calibrators._base import ScoreCalibrator
from skcalib.calibrators._fit_rows import check_rows
from skcalib.calibrators._shown_fit import softness
from skcalib.calibrators._temperature_objectives import (
    Metric,
    metric_objective,
    soft_binned_objective,
)

SOFT_KINDS: dict[str, Kind] = {"soft_binned": "bin", "soft_label_binned": "label"}


def plan_temperature(T: float) -> Plan:
    """Return the plan of softmax(z / T)."""
    return Plan(tempered, {"coef": 1.0 / T}, "near")


def tempered(o: Operations, c: Constants) -> Value:
    """Return softmax(z / T)."""
    return o.affine_softmax(c["coef"])


class TemperatureScaling(ScoreCalibrator):
    r"""Calibrate by softmax(z / T), with one temperature T for all classes.

    Temperature scaling makes all predictions more (T < 1) or less (T > 1) confident and never
    changes the predicted class. Use it with few rows, or if the correction has to be explained
    by one number; it cannot correct errors that differ between classes.

    .. math:: Q = \mathrm{softmax}(Z / T), \qquad T = \arg\min_T \ell(y, Q)

    where :math:`\ell` is a mean loss or an error of all rows.

    T above 1 softens over-confident probabilities, T below 1 sharpens under-confident ones. The
    predicted class never changes, except where rounding makes the largest probabilities equal.

    Parameters
    ----------
    objective : {"nll", "brier", "soft_binned", "soft_label_binned"} or callable, default="nll"
        Objective minimised over T: minus the log of the true class's probability; the squared
        distance to the true class's indicator; the soft-binned calibration error of the top
        label, in the bin or in the label form; or any ``metric(y_true, y_proba) -> float``,
        smaller is better. A metric with keywords ``labels`` and ``sample_weight`` gets the labels
        of the columns and, if they are not all 1, the weights.
    objective_params : dict, default=None
        Keywords of the objective: ``n_bins=15`` or "cube_root", ``temperature=0.01`` and
        ``norm="l2"`` for the soft-binned errors, those of the metric for a callable; the first two
        have none.
    input : {"auto", "logits", "proba"}, default="auto"
        What the columns of `X` are. "auto" decides once, in ``fit``: rows that sum to 1 within
        0.001 are probabilities, others logits; rows of both kinds, or rows that all sum to 100,
        raise an error.
        Logits of probabilities are their logarithms, where 0 counts as `clip_`.
    classes : array-like of shape (K,), default=None
        Labels of the columns, sorted; needed if they cannot be inferred from `y`.

    Attributes
    ----------
    temperature_ : float
        T, above 0. For a binary logit f in one column, P(second class) = expit(f / T).
    clip_ : float, or ndarray of shape (2,) for two classes
        What a probability of 0 counts as before its logarithm is taken: half the smallest
        probability above 0 in ``fit``, within limits; with two classes, one for each column.
    classes_ : ndarray of shape (K,)
        Sorted labels of the columns.
    class_count_ : ndarray of shape (K,)
        Weight of the rows of each class in ``fit``.
    input_ : {"logits", "proba"}
        What the columns of `X` were in ``fit``.
    n_features_in_ : int
        Number of columns of `X`.

    Warns
    -----
    sklearn.exceptions.ConvergenceWarning
        If T reached a bound: T tends to 0 if no row is misclassified, and to infinity if the
        scores predict worse than uniform probabilities.

    Raises
    ------
    ValueError
        In ``fit``, if a metric returns NaN or more than one number, or does not take weights
        although weights are given.

    See Also
    --------
    skcalib.VectorScaling : A scale and a shift for each class.

    Notes
    -----
    Logits of -inf, in rows that are no log-probabilities, and probabilities of NaN are options that
    were not offered: they have no part in any sum, and their probability is 0.

    "nll" and "brier": T is computed to 1e-8 by Newton's method on log T within a bracket. Logits
    multiplied by a constant give T multiplied by that constant.

    Any other objective may have many minima; the lowest is searched at several resolutions: 61
    temperatures, even in log T, on [0.2, 10] and, if that reaches further (logits of another
    scale), as many from 1/7 to 7 times the temperature of the NLL; then three rounds around the
    best 3, each ten times finer. For a callable the first of these rounds covers the best 12, 40
    times finer, because the minima of a binned error are narrow. Of equally good temperatures the
    one closest to 1, in log T, is taken.

    References
    ----------
    .. [1] C. Guo, G. Pleiss, Y. Sun and K. Q. Weinberger, "On calibration of modern neural
       networks", ICML 2017.
    .. [2] A. Karandikar, N. Cain, D. Tran, B. Lakshminarayanan, J. Shlens, M. C. Mozer and
       B. Roelofs, "Soft calibration objectives for neural networks", NeurIPS 2021.
    .. [3] J. Nixon, M. Dusenberry, G. Jerfel, T. Nguyen, J. Liu, L. Zhang and D. Tran,
       "Measuring calibration in deep learning", arXiv:1904.01685v2, 2020.

    Examples
    --------
    >>> import numpy as np
    >>> from skcalib import TemperatureScaling
    >>> rng = np.random.default_rng(0)
    >>> Z = rng.normal(size=(2000, 3))
    >>> y = (Z + rng.gumbel(size=Z.shape)).argmax(axis=1)
    >>> round(TemperatureScaling().fit(5 * Z, y).temperature_)
    5
    """

    _paper = "Guo et al. 2017; Karandikar et al. 2021"
    _takes_logs = True
    _takes_options = True
    _work = IN_PLACE

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        **ScoreCalibrator._parameter_constraints,
        "objective": [StrOptions({*SCALE_FITS, *SOFT_KINDS}), callable],
        "objective_params": [dict, None],
    }

    def __init__(
        self,
        *,
        objective: str | Metric = "nll",
        objective_params: Mapping[str, Any] | None = None,
        input: str = "auto",
        classes: ArrayLike | None = None,
    ) -> None:
        super().__init__(input=input, classes=classes)
        self.objective = objective
        self.objective_params = objective_params

    def _fit(self, scores: Scores, code: Intp, w: Float64Array) -> dict[str, Any]:
        params = dict(self.objective_params or {})
        if self.objective in SCALE_FITS:
            if params:
                raise ValueError(
                    f"objective={self.objective!r} takes no objective_params; got {params!r}: "
                    "leave them out."
                )
            return {"temperature_": fit_temperature(scores, code, w, str(self.objective))}
        if callable(self.objective):
            objective = metric_objective(scores, code, w, self.objective, params)
            rounds = ROUGH_ROUNDS
        else:
            unknown = set(params) - {"n_bins", "temperature", "norm"}
            if unknown:
                raise ValueError(
                    f"objective={self.objective!r} takes objective_params 'n_bins', "
                    f"'temperature' and 'norm'; got {sorted(unknown)}: leave them out."
                )
            bins = SoftBins(kind=SOFT_KINDS[self.objective], **params)
            objective, rounds = soft_binned_objective(scores, code, w, bins), SMOOTH_ROUNDS
        start = find_temperature(scores, code, w)
        centre = start.mean_gap if start.bound else start.value
        return {"temperature_": search_temperature(objective, centre, rounds)}

    @property
    def _fits_on_device(self) -> bool:  # type: ignore[override]
        return isinstance(self.objective, str) and self.objective in SCALE_FITS

    def _check_objective(self) -> bool:
        """Say why there is no `partial_fit`, if there is none."""
        if self.objective != "nll":
            raise AttributeError(
                f"partial_fit supports only objective='nll', not {self.objective!r}: use fit."
            )
        return True

    @available_if(_check_objective)  # type: ignore[untyped-decorator]
    def partial_fit(
        self,
        X: ArrayLike,
        y: ArrayLike,
        sample_weight: ArrayLike | None = None,
        classes: ArrayLike | None = None,
        *,
        ignore_index: Any = None,
    ) -> Self:
        """Fit on one more batch of rows that need not be kept, such as logits of a language model.

        Only ``objective="nll"`` has this method.

        While there are few rows (4,000, fewer of more than 4,000 columns), they are kept, and T is
        that of ``fit`` to all of them. From then on every second, fourth, ... row is kept, and a
        batch leaves nine sums at temperatures within 15 % of that of the kept rows. T is that of
        ``fit`` to all rows, to 1e-8, if it stays in this range, as it does for rows in random
        order. If it leaves the range, a warning gives the standard error of T.

        Parameters
        ----------
        X : array-like of shape (n, K), (n, 1) or (n,)
            Scores of a batch, as in ``fit``; their kind is that of the first batch.
        y : array-like of shape (n,)
            Labels.
        sample_weight : array-like of shape (n,), default=None
            Non-negative weights. Integers are counts: 2 is two copies of the row. Of floats only
            the ratios matter (see "Weights" under "Valid input" in the user guide). 0 is the row's
            absence. The ratios between batches count too.
        classes : array-like of shape (K,), default=None
            Labels of the columns, sorted, of which the first batch lacks some: needed in the first
            call alone, and only if the parameter `classes` is None.
        ignore_index : label, default=None
            Rows of this label, such as 255 or -100, are left out.

        Returns
        -------
        self : object
            Calibrator fitted on all batches so far.

        Raises
        ------
        ValueError
            As in ``fit``; if the scores or labels are not those of
            the first batch; or if the calibrator was fitted by ``fit``, or read from a file, which
            keeps no sums.

        Warns
        -----
        sklearn.exceptions.ConvergenceWarning
            If T reached a bound, or left the range of the sums.

        Notes
        -----
        At most 4,000 rows or 128 MiB are kept, but 100 rows of any length. ``fit`` forgets
        all batches. Probabilities of 0 are raised to the clip of the batches up to the first 0.

        Examples
        --------
        >>> import numpy as np
        >>> from skcalib import TemperatureScaling
        >>> rng = np.random.default_rng(0)
        >>> calibrator = TemperatureScaling()
        >>> for _ in range(20):
        ...     Z = rng.normal(size=(1000, 3))
        ...     y = (Z + rng.gumbel(size=Z.shape)).argmax(axis=1)
        ...     _ = calibrator.partial_fit(5 * Z, y, classes=[0, 1, 2])
        >>> round(calibrator.temperature_)
        5
        """
        self._validate_params()
        stream: TemperatureStream | None = getattr(self, "_stream", None)
        if stream is None and hasattr(self, "temperature_"):
            raise ValueError(
                "This TemperatureScaling was fitted by fit, or read from a file, and has no sums "
                "to add to: begin with a new one, sklearn.base.clone(calibrator)."
            )
        known = self._known_classes(classes, stream)
        input, options = self.input, None
        if stream is not None:
            self._as_seen(X, exactly=True)
            input, options = self.input_, self._options
        rows = check_rows(
            self, X, y, sample_weight, input, known, ignore_index, options, scaled=False
        )
        refuse_remote(rows.source, "TemperatureScaling.partial_fit")
        if rows.survey.absent:
            raise ValueError(
                "partial_fit: X contains NaN: use fit, or pass logits with -inf for it."
            )
        if stream is not None:
            check_kind(rows.source, rows.survey, self.input_, self._refuses_simplex)
        n_parts = 1 if stream is None else max(1, len(stream.parts))
        batch = Batch(rows.scores, rows.code, rows.w)
        stream, fit = (stream or TemperatureStream()).with_rows(batch)
        validate_data(self, rows.given, skip_check_array=True)
        fitted = rows.fitted()
        if hasattr(self, "temperature_"):
            fitted = {"class_count_": self.class_count_ + fitted["class_count_"]}
        fitted |= {"clip_": stream.clip.clip, "_had_zeros": stream.clip.any_zero}
        fitted |= {"temperature_": fit.temperature.value, "_stream": stream}
        self.__dict__.update(fitted)
        warn_at_bound(fit.temperature)
        if fit.continued and len(stream.parts) > n_parts:
            warnings.warn(
                f"TemperatureScaling: T={self.temperature_:.4g} left the range of the sums of "
                f"{100 * fit.continued:.2g} % of the weight; kept rows continue them, so that T "
                f"has a standard error of {100 * fit.error:.2g} %: pass batches in random order.",
                ConvergenceWarning,
                stacklevel=2,
            )
        return self

    def _known_classes(
        self, classes: ArrayLike | None, stream: TemperatureStream | None
    ) -> ArrayLike | None:
        """Return the labels of the columns, where they are known before `y` is read."""
        before, where = (
            (self.classes, "the parameter") if stream is None else (self.classes_, "before")
        )
        if classes is None or before is None:
            return before if classes is None else classes
        if not np.array_equal(check_labels(classes, "classes"), check_labels(before, "classes")):
            raise ValueError(
                f"classes={shown(np.asarray(classes).tolist())} are not those of {where}, "
                f"{shown(np.asarray(before).tolist())}: give the same, or none."
            )
        return before

    def _in_words(self) -> str:
        return softness(self.temperature_)

    def _plan(self) -> Plan:
        return plan_temperature(self.temperature_)
