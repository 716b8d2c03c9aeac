"""Formulas of calibrators for export, and the columns of their scores."""

from __future__ import annotations

from typing import Any

from sklearn.utils.validation import check_is_fitted

from skcalib.extending import LEAST_LOGIT, ColumnPlan, Kind, Plan, PriorCorrection, has_formula


def plan_of(calibrator: Any, function: str) -> Plan | ColumnPlan:
    """Return the formula of a calibrator (its plan), with all constants as arrays.

    Error messages begin with the name of the public `function`.
    """
    if isinstance(calibrator, PriorCorrection):
        check_is_fitted(calibrator)
        plan = plan_of(calibrator.estimator, function)
        ratio = {"prior_ratio": calibrator._ratio[None], "priors": calibrator.priors_[None]}
        return plan._replace(constants=plan.constants | ratio, label="largest")
    if not has_formula(type(calibrator)):
        name = type(calibrator).__name__
        raise ValueError(f"{function} cannot export {name}: {_advice(calibrator)}.")
    check_is_fitted(calibrator)
    if calibrator._options and calibrator.input_ == "proba":
        raise ValueError(
            f"{function}: {type(calibrator).__name__} was fitted on probabilities with NaN, which "
            "an exported model cannot read: fit it on np.log(P) + 1, with -inf instead of NaN."
        )
    return calibrator._exported_plan()


def _advice(estimator: Any) -> str:
    """Return the advice in the error message for an object that cannot be exported."""
    if hasattr(estimator, "group_column"):
        return "it needs the group of each row; pass its calibrator_, which is for all groups"
    if hasattr(estimator, "shrinkage"):
        return "pass its calibrator_.calibrator_, which is the common calibrator of all labels"
    if hasattr(estimator, "calibrator"):
        return "pass its calibrator_, whose input is the scores of the estimator"
    return "pass a fitted calibrator of skcalib.calibrators"


def columns_of_scores(o: Any, x: Any, calibrator: Any) -> Any:
    """Return scores with a column for each class, which the formulas of calibrators need."""
    return two_columns(o, x, calibrator.input_) if calibrator.n_features_in_ == 1 else x


def two_columns(o: Any, x: Any, kind: Kind) -> Any:
    """Turn the single column of scores of a binary problem into two columns.

    A logit f becomes ``(0, f)``, a probability p ``(1 - p, p)``, and a logit of +inf ``(-inf, 0)``.
    """
    if kind == "proba":
        return o.concat(o.rounded(1.0 - x), x)
    certain = x > -LEAST_LOGIT
    return o.concat(o.where(certain, -x, 0.0), o.where(certain, 0.0, x))
