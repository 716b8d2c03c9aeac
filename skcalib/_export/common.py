"""The plan of a calibrator to export, and its columns of scores."""

from __future__ import annotations

from typing import Any

from sklearn.utils.validation import check_is_fitted

from skcalib.extending import LEAST_LOGIT, ColumnPlan, Kind, Plan, PriorCorrection, has_formula


def plan_of(calibrator: Any, function: str) -> Plan | ColumnPlan:
    """Return the plan of a calibrator with all constants as arrays, those of searches by name.

    Errors name the public `function` that asks.
    """
    if isinstance(calibrator, PriorCorrection):
        check_is_fitted(calibrator)
        plan = plan_of(calibrator.estimator, function)
        ratio = {"prior_ratio": calibrator._ratio[None], "priors": calibrator.priors_[None]}
        return plan._replace(constants=plan.constants | ratio, label="largest")
    if not has_formula(type(calibrator)):
        name = type(calibrator).__name__
        raise ValueError(f"{function} has no formula for {name}: {_advice(calibrator)}.")
    check_is_fitted(calibrator)
    if calibrator._options and calibrator.input_ == "proba":
        raise ValueError(
            f"{function}: {type(calibrator).__name__} was fitted on probabilities with NaN, which "
            "models do not read: fit it on np.log(P) + 1, -inf where an option was not offered."
        )
    return calibrator._exported_plan()


def _advice(estimator: Any) -> str:
    """Return what to do with an object that has no formula."""
    if hasattr(estimator, "group_column"):
        return "its map depends on the group of a row; pass its calibrator_, the map of all groups"
    if hasattr(estimator, "calibrator"):
        return "pass its calibrator_, which takes the scores of its estimator"
    return "pass a fitted calibrator of skcalib.calibrators"


def columns_of_scores(o: Any, x: Any, calibrator: Any) -> Any:
    """Return a column for each class, as formulas expect."""
    return two_columns(o, x, calibrator.input_) if calibrator.n_features_in_ == 1 else x


def two_columns(o: Any, x: Any, kind: Kind) -> Any:
    """Turn one column into two: ``(0, f)`` for a binary logit, ``(1 - p, p)`` for P(second).

    A logit of +inf becomes ``(-inf, 0)``.
    """
    if kind == "proba":
        return o.concat(o.rounded(1.0 - x), x)
    certain = x > -LEAST_LOGIT
    return o.concat(o.where(certain, -x, 0.0), o.where(certain, 0.0, x))
