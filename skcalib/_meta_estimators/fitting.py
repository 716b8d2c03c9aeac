"""The fit of a classifier around another one, whose arguments go to several parts."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Self

from numpy.typing import ArrayLike
from sklearn import get_config
from sklearn.frozen import FrozenEstimator
from sklearn.utils.metadata_routing import MetadataRouter, MethodMapping, process_routing

from skcalib._meta_estimators.groupwise import GroupwiseCalibrator, groups_for
from skcalib._meta_estimators.out_of_fold import (
    TrainingData,
    folds_of,
    is_frozen,
    open_training,
    warn_of_weights,
    weight_keyword,
)
from skcalib._meta_estimators.wrapper import ClassifierWrapper
from skcalib.calibrators._names import resolve_calibrator


class FittingWrapper(ClassifierWrapper):
    """Base class of wrappers whose ``fit`` fits the estimator, by folds of `cv`."""

    cv: Any
    # The fitted attributes by name, ``_fit(data, splits)``; without splits of a frozen estimator.
    _fit: Callable[[TrainingData, Any], dict[str, Any]]

    def fit(
        self, X: Any, y: ArrayLike, sample_weight: ArrayLike | None = None, **params: Any
    ) -> Self:
        """Fit the classifier, unless it is frozen, and its calibrator or thresholds.

        Parameters
        ----------
        X : array-like, sparse matrix or whatever the estimator takes, of length n
            Data, passed to the estimator unchanged.
        y : array-like of shape (n,)
            Labels.
        sample_weight : array-like of shape (n,), default=None
            Non-negative weights. Integers are counts: 2 is two copies of the row. Of floats only
            the ratios matter (see "Weights" under "Valid input" in the user guide). 0 is the row's
            absence. The estimator gets them as they are given, if it takes any, and a calibrator
            as its rows have them.
        **params : dict
            `groups` goes to the splitter and everything else to the estimator's ``fit``; with
            metadata routing, each goes where it is requested.

        Returns
        -------
        self : object
            Fitted classifier.

        Raises
        ------
        ValueError
            If a parameter is invalid, the scores are not finite logits or probabilities with one
            column for each class, or they do not match the labels; for an ensemble, if test rows
            of a fold lack a class.
        """
        name, estimator = type(self).__name__, self.estimator
        if isinstance(self.cv, str) and self.cv == "prefit":
            raise ValueError(
                f"cv='prefit' is written {name}(FrozenEstimator(estimator)): import "
                "FrozenEstimator from sklearn.frozen."
            )
        self._validate_params()
        data = open_training(name, estimator, X, y, sample_weight)
        if calibrates := hasattr(self, "calibrator"):
            data = data._replace(groups=groups_for(self, "fit", X, params, data.labels.size))
        if get_config()["enable_metadata_routing"]:
            routed = process_routing(self, "fit", sample_weight=data.w, **params)
            fit_params, split_params = routed.estimator.fit, routed.splitter.split
        else:
            fit_params = dict(params)
            split_params = {k: fit_params.pop(k) for k in ("groups",) if k in fit_params}
            keyword = weight_keyword(estimator)
            if data.w is not None and keyword is not None:
                fit_params.setdefault(keyword, data.w)
            elif data.w is not None and not isinstance(estimator, FrozenEstimator):
                used = "calibration" if calibrates else "choice of the threshold"
                warn_of_weights(estimator, used)
        if data.w is not None and calibrates:
            calibrator = resolve_calibrator(self.calibrator)
            if weight_keyword(calibrator) is None:
                warn_of_weights(calibrator, "classifier")
        data = data._replace(fit_params=fit_params)
        splits = None if is_frozen(estimator) else folds_of(self.cv, data, split_params)
        fitted = self._fit(data, splits)
        for attribute in [name for name in vars(self) if name.endswith("_")]:
            delattr(self, attribute)
        self.__dict__.update(fitted)
        return self

    def get_metadata_routing(self) -> MetadataRouter:
        """Return the routing: to the estimator's ``fit`` and the splitter's ``split``.

        The `sample_weight` requested by this object is that of the calibrator or threshold. A
        :class:`GroupwiseCalibrator` gets its `groups` in ``fit`` and in prediction.

        Returns
        -------
        routing : MetadataRouter
        """
        to_fit = MethodMapping().add(caller="fit", callee="fit")
        to_split = MethodMapping().add(caller="fit", callee="split")
        router = MetadataRouter(owner=self).add_self_request(self)
        router.add(estimator=self.estimator, method_mapping=to_fit)
        router.add(splitter=self.cv, method_mapping=to_split)
        calibrator = getattr(self, "calibrator", None)
        if isinstance(calibrator, GroupwiseCalibrator):
            to_map = MethodMapping().add(caller="fit", callee="fit")
            for caller in ("predict_proba", "predict"):
                to_map.add(caller=caller, callee="predict_proba")
            router.add(calibrator=calibrator, method_mapping=to_map)
        return router
