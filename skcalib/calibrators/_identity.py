"""The calibrator that changes nothing, as a baseline of comparisons."""

from __future__ import annotations

from typing import Any

from skcalib._arrays.rowwise import ROW_BLOCK_BYTES, Float64Array, Intp
from skcalib._arrays.sources import Work
from skcalib._maps.formulas import Constants, Operations, Plan, Value
from skcalib._scores.scores import Scores
from skcalib.calibrators._base import ScoreCalibrator


class IdentityCalibrator(ScoreCalibrator):
    r"""Return unchanged probabilities, or the softmax of logits: no calibration.

    This is the baseline of every comparison: a calibrator is useful if it is better than this one.

    .. math:: Q = P \quad\text{or}\quad Q = \mathrm{softmax}(Z)

    Parameters
    ----------
    input : {"auto", "logits", "proba"}, default="auto"
        What the columns of `X` are. "auto" decides once, in ``fit``: rows that sum to 1 within
        0.001 are probabilities, others logits; rows of both kinds, or rows that all sum to 100,
        raise an error.
    classes : array-like of shape (K,), default=None
        Labels of the columns, sorted; needed if they cannot be inferred from `y`.

    Attributes
    ----------
    classes_ : ndarray of shape (K,)
        Sorted labels of the columns.
    class_count_ : ndarray of shape (K,)
        Weight of the rows of each class in ``fit``.
    input_ : {"logits", "proba"}
        What the columns of `X` were in ``fit``.
    n_features_in_ : int
        Number of columns of `X`.

    See Also
    --------
    skcalib.TemperatureScaling : One parameter; keeps the order of the classes in each row.

    Notes
    -----
    Logits of -inf, in rows that are not log-probabilities, and probabilities of NaN are options
    that were not offered: their probability is 0, and ``fit`` raises an error if one of them is the
    label.

    Examples
    --------
    >>> from skcalib import IdentityCalibrator
    >>> IdentityCalibrator().fit([[2.0, 0.0], [0.0, 1.0]], ["cat", "dog"]).predict([[0.5, -0.5]])
    array(['cat'], dtype='<U3')
    """

    _paper = ""
    _takes_options = True
    _work = Work(2 * ROW_BLOCK_BYTES, 4)

    def _fit(self, scores: Scores, code: Intp, w: Float64Array) -> dict[str, Any]:
        return {}

    def _in_words(self) -> str:
        return "softmax of the logits" if self.input_ == "logits" else "unchanged probabilities"

    def _plan(self) -> Plan:
        return Plan(identity, {}, "near" if self.input_ == "logits" else "largest")


def identity(o: Operations, c: Constants) -> Value:
    """Return the uncalibrated probabilities of a block of rows."""
    return o.proba()
