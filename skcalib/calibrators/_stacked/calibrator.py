"""Stacked calibration: a weighted mean of calibrators, weighted by held-out likelihood."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from numbers import Integral, Real
from typing import Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike
from sklearn.base import clone
from sklearn.utils._param_validation import Interval

from skcalib._arrays.passes import map_rows
from skcalib._arrays.selection import take_rows
from skcalib._arrays.source import ALL, Source, refuse_remote
from skcalib._arrays.types import Float64Array, FloatArray, Intp
from skcalib._scores.scores import Scores
from skcalib._scores.softmax import CLIP
from skcalib._scores.top_label import keep_top
from skcalib._validation.keywords import shown
from skcalib._validation.weights import CheckedWeight
from skcalib.calibrators._auto.calibrator import AutoCalibrator
from skcalib.calibrators._base import ColumnwiseCalibrator, ScoreCalibrator
from skcalib.calibrators._beta import BetaCalibrator
from skcalib.calibrators._ensemble_temperature import EnsembleTemperatureScaling
from skcalib.calibrators._identity import IdentityCalibrator
from skcalib.calibrators._isotonic import IsotonicCalibrator
from skcalib.calibrators._matrix import MatrixScaling
from skcalib.calibrators._names import calibrators_by_name
from skcalib.calibrators._platt import PlattScaling
from skcalib.calibrators._shown_fit import counted
from skcalib.calibrators._spline.calibrator import SplineCalibrator
from skcalib.calibrators._stacked.folds import make_folds
from skcalib.calibrators._stacked.weights import mixture_weights
from skcalib.calibrators._temperature import TemperatureScaling
from skcalib.calibrators._vector import VectorScaling

# With more classes, members with K squared parameters or features are left out of the default list.
HEAVY_CLASSES = 100
# Pseudo-counts of each member but the first, as a share of those of the first.
OTHERS_SHARE = 0.01
# Members of a smaller weight are left out.
LEAST_WEIGHT = 1e-6
# Calibrators that `repr` names.
NAMED = 3


def default_members(n_classes: int) -> dict[str, ScoreCalibrator]:
    """Return the members of ``calibrators=None``."""
    members: dict[str, ScoreCalibrator] = {
        "auto": AutoCalibrator(),
        "order_preserving_auto": AutoCalibrator(order_preserving=True),
        "temperature": TemperatureScaling(),
        "ensemble_temperature": EnsembleTemperatureScaling(),
        "vector": VectorScaling(),
        "matrix": MatrixScaling(),
        "platt": PlattScaling(),
        "beta": BetaCalibrator(),
        "spline": SplineCalibrator(),
        "isotonic": IsotonicCalibrator(),
        "identity": IdentityCalibrator(),
    }
    if n_classes > HEAVY_CLASSES:
        del members["auto"], members["matrix"]
    return members


def named_members(given: Any) -> dict[str, ScoreCalibrator]:
    """Return a list of names, calibrators and (name, calibrator) pairs as a dict."""
    known = calibrators_by_name()
    members: dict[str, ScoreCalibrator] = {}
    for item in given:
        is_pair = isinstance(item, tuple) and len(item) == 2 and isinstance(item[0], str)
        name, calibrator = item if is_pair else (None, item)
        if isinstance(calibrator, str):
            if calibrator not in known:
                raise ValueError(
                    f"calibrators: {calibrator!r} is not the name of a calibrator; use one of "
                    f"{', '.join(known)}, or pass the object."
                )
            name, calibrator = name or calibrator, known[calibrator]
        if not isinstance(calibrator, ScoreCalibrator):
            raise TypeError(
                "calibrators are names, calibrators of skcalib or (name, calibrator) pairs; got "
                f"{shown(item)}."
            )
        name = name or " ".join(repr(calibrator).split())
        if name in members:
            raise ValueError(
                f"calibrators has {name} twice: write ('a name', calibrator) to distinguish them."
            )
        members[name] = calibrator
    if not members:
        raise ValueError("calibrators is empty; pass at least one, or None for the default list.")
    return members


@contextmanager
def naming_member(name: str) -> Iterator[None]:
    """Say in an error which member it comes from."""
    try:
        yield
    except ValueError as error:
        raise ValueError(f"calibrators: {name}: {error}") from error


def scores_for(member: Any, scores: Scores, source: Source | FloatArray) -> Scores:
    """Return rows as scores with the clip of a fitted member."""
    clip = getattr(member, "clip_", CLIP)
    return Scores(source, scores.kind, scores.classes, scores.max_abs_logit, clip)


def likelihoods_of_block(
    block: FloatArray, code: Intp, member: ScoreCalibrator, scores: Scores
) -> Float64Array:
    """Return a member's probabilities of the true classes of a block."""
    P = member._map(scores_for(member, scores, block))
    return np.take_along_axis(P, code[:, None], axis=1)[:, 0].astype(np.float64)


class StackedCalibrator(ScoreCalibrator):
    r"""Average several calibrators, with weights that maximise the held-out likelihood.

    .. math:: q = \sum_m \omega_m g_m(z), \qquad \omega \ge 0, \quad \sum_m \omega_m = 1

    with fitted calibrators :math:`g_m`. The weights maximise

    .. math:: \sum_i w_i \log \sum_m \omega_m p_{im} + \sum_m c_m \log \omega_m

    with :math:`p_{im}` the probability of the true class of row i by calibrator m, fitted on folds
    without that row, and pseudo-counts :math:`c_m`. Then each calibrator is fitted to all rows.

    Parameters
    ----------
    calibrators : list, default=None
        Names such as "temperature", calibrators of this package, or (name, calibrator) pairs; the
        first is the one that `prior_rows` favours. Their `input` and `classes` are set to those of
        this calibrator. None means automatic calibration, its order-preserving variant, temperature
        and ensemble temperature scaling, vector and matrix scaling, Platt, beta, spline and
        isotonic calibration, and no calibration; if K > 100, automatic calibration and matrix
        scaling are left out, and the order-preserving variant comes first.
    cv : int, default=5
        Number of folds, at least 2.
    prior_rows : float, default=20.0
        :math:`c_1`, above 0. The weights are fitted as if there were this number of further rows
        that only the first calibrator predicts, and a hundredth of it for each other calibrator.
    input : {"auto", "logits", "proba"}, default="auto"
        What the columns of `X` are. "auto" decides once, in ``fit``: rows that sum to 1 within
        0.001 are probabilities, others logits; rows of both kinds, or rows that all sum to 100,
        raise an error.
    classes : array-like of shape (K,), default=None
        Labels of the columns, sorted; needed if they cannot be inferred from `y`.

    Attributes
    ----------
    weights_ : ndarray of shape (m,)
        :math:`\omega`, in the order of `calibrators_`; the sum is 1.
    calibrators_ : dict of str to calibrator
        The calibrators by name, fitted to all rows. Those of a weight below 1e-6 are left out.
    classes_ : ndarray of shape (K,)
        Sorted labels of the columns.
    input_ : {"logits", "proba"}
        What the columns of `X` were in ``fit``.
    n_features_in_ : int
        Number of columns of `X`.

    Warns
    -----
    sklearn.exceptions.ConvergenceWarning
        If the fit of a calibrator warns.

    See Also
    --------
    skcalib.AutoCalibrator : The first of the default list; a fit takes a tenth of the time or less.
    skcalib.compare_calibrators : A table of calibrators, to choose one.

    Notes
    -----
    A fit takes `cv` + 1 fits of each calibrator; a prediction, one of each.

    The objective is concave; the weights are its maximum, which EM with pseudo-counts in each M
    step also finds, and Newton's method in fewer steps. With pseudo-counts of 20 for the first and
    0.2 for each other calibrator, few rows change the weights little, and a calibrator that never
    helps keeps a weight of about 0.2 / n.

    The folds depend only on the probabilities and weights, so that a fit can be repeated and does
    not depend on the order of rows and classes. Rows of equal scores are in the same fold, whatever
    their labels. A score that has at least 20 rows and 5 % of all weight, such as a probability of
    1, is divided among all folds: its rows count in all fits. If fewer than 20 rows all have equal
    scores, the weights are those of the prior.

    References
    ----------
    .. [1] D. H. Wolpert, "Stacked generalization", Neural Networks 1992.
    .. [2] P. Smyth and D. Wolpert, "Linearly combining density estimators via stacking", Machine
       Learning 1999.

    Examples
    --------
    >>> import numpy as np
    >>> from skcalib import StackedCalibrator
    >>> rng = np.random.default_rng(0)
    >>> Z = 3 * rng.normal(size=(3000, 3))
    >>> y = (Z / 2 + rng.gumbel(size=Z.shape)).argmax(axis=1)  # logits 2 times too large
    >>> stacked = StackedCalibrator(["temperature", "isotonic", "identity"]).fit(Z, y)
    >>> list(stacked.calibrators_)
    ['temperature', 'isotonic', 'identity']
    >>> stacked.weights_.round(1)
    array([1., 0., 0.])
    """

    _paper = "Smyth & Wolpert 1999"
    # Some members need many rows at a time.
    _work = ColumnwiseCalibrator._work

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        **ScoreCalibrator._parameter_constraints,
        "calibrators": [list, tuple, None],
        "cv": [Interval(Integral, 2, None, closed="left")],
        "prior_rows": [Interval(Real, 0.0, None, closed="neither")],
    }

    def __init__(
        self,
        calibrators: Any = None,
        *,
        cv: int = 5,
        prior_rows: float = 20.0,
        input: str = "auto",
        classes: ArrayLike | None = None,
    ) -> None:
        super().__init__(input=input, classes=classes)
        self.calibrators = calibrators
        self.cv = cv
        self.prior_rows = prior_rows

    def _members(self, n_classes: int = 2) -> dict[str, ScoreCalibrator]:
        """Return the members by name, not fitted."""
        if self.calibrators is None:
            return default_members(n_classes)
        return named_members(self.calibrators)

    def _own(self) -> list[ScoreCalibrator]:
        """Return the members that predict, or that a fit would use."""
        found: dict[str, ScoreCalibrator] = vars(self).get("calibrators_") or self._members()
        return list(found.values())

    @property
    def _preserves_top_label(self) -> bool:
        return all(member._preserves_top_label for member in self._own())

    @property
    def _class_specific(self) -> bool:
        return any(member._class_specific for member in self._own())

    @property
    def _monotone(self) -> bool:
        return all(member._monotone for member in self._own())

    def _fit(self, scores: Scores, code: Intp, w: Float64Array) -> dict[str, Any]:
        refuse_remote(scores.source, "StackedCalibrator")
        members = self._members(scores.shape[1])
        told = {
            name: clone(member).set_params(input=scores.kind, classes=scores.classes)
            for name, member in members.items()
        }
        prior = np.full(len(told), OTHERS_SHARE * self.prior_rows)
        prior[0] = self.prior_rows
        weights = mixture_weights(*self._held_out(told, scores, code, w), prior)
        kept = weights >= LEAST_WEIGHT
        fitted = {}
        for (name, member), is_kept in zip(told.items(), kept, strict=True):
            if is_kept:
                with naming_member(name):
                    fitted[name] = member.fit(scores.source, scores.classes[code], CheckedWeight(w))
                    member._options = False  # the mean reads -inf as a small probability
        return {"weights_": weights[kept] / weights[kept].sum(), "calibrators_": fitted}

    def _held_out(
        self, members: dict[str, ScoreCalibrator], scores: Scores, code: Intp, w: Float64Array
    ) -> tuple[Float64Array, Float64Array]:
        """Return each member's probability of the true class of held-out rows, and their weights.

        The probabilities have a row for each held-out row and a column for each member.
        """
        found, weights = [np.empty((0, len(members)))], [np.empty(0)]
        if len(members) > 1:
            # Of probabilities, so that logits and their softmax have the same folds.
            for fold in make_folds(scores.as_proba(), w, self.cv):
                train, test = (take_rows(scores.source, rows) for rows in (fold.train, fold.test))
                F = np.empty((len(members), fold.test.size))
                for (name, member), out in zip(members.items(), F, strict=True):
                    with naming_member(name):
                        labels = scores.classes[code[fold.train]]
                        weights_given = CheckedWeight(fold.train_weight)
                        fitted = clone(member).fit(train, labels, weights_given)
                    kernel = partial(likelihoods_of_block, member=fitted, scores=scores)
                    map_rows(kernel, test, code[fold.test], out=out, work=self._work)
                found.append(F.T)
                weights.append(fold.test_weight)
        return np.concatenate(found), np.concatenate(weights)

    def _in_words(self) -> str:
        pairs = sorted(zip(-self.weights_, self.calibrators_, strict=True))
        parts = [f"{-weight:.2f} {name}" for weight, name in pairs[:NAMED]]
        if rest := pairs[NAMED:]:
            parts.append(
                f"{-sum(weight for weight, _ in rest):.2f} of {counted(len(rest), 'other')}"
            )
        return " + ".join(parts)

    def _map(self, scores: Scores) -> FloatArray:
        Q = np.zeros(scores.shape)
        for weight, member in zip(self.weights_, self.calibrators_.values(), strict=True):
            Q += weight * member._map(scores_for(member, scores, scores.source))
        P = Q.astype(scores.dtype, copy=False)
        return keep_top(P, scores.best(ALL)) if self._preserves_top_label else P
