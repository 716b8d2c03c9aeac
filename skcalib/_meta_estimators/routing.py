"""Which arguments of ``fit`` go to the estimator, the splitter and the calibrator."""

from __future__ import annotations

from typing import Any

from sklearn import get_config
from sklearn.frozen import FrozenEstimator
from sklearn.utils.metadata_routing import MetadataRouter, MethodMapping, process_routing

from skcalib._meta_estimators.groupwise import GroupwiseCalibrator
from skcalib._meta_estimators.out_of_fold import (
    TrainingData,
    open_training,
    warn_of_weights,
    weight_keyword,
)
from skcalib._meta_estimators.wrapper import ClassifierWrapper
from skcalib.calibrators._names import resolve_calibrator


class FittingWrapper(ClassifierWrapper):
    """Base class of wrappers whose ``fit`` fits the estimator, by folds of `cv`."""

    cv: Any

    def _open_fit(
        self, X: Any, y: Any, sample_weight: Any, params: dict[str, Any]
    ) -> tuple[TrainingData, dict[str, Any]]:
        """Check the arguments of ``fit``; return them, and those of the splitter's ``split``."""
        name, estimator, calibrates = (
            type(self).__name__,
            self.estimator,
            hasattr(self, "calibrator"),
        )
        if isinstance(self.cv, str) and self.cv == "prefit":
            raise ValueError(
                f"cv='prefit' is written {name}(FrozenEstimator(estimator)): import "
                "FrozenEstimator from sklearn.frozen."
            )
        self._validate_params()
        data = open_training(name, estimator, X, y, sample_weight)
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
                warn_of_weights(estimator, used, 3)
        if data.w is not None and calibrates:
            calibrator = resolve_calibrator(self.calibrator)
            if weight_keyword(calibrator) is None:
                warn_of_weights(calibrator, "classifier", 3)
        return data._replace(fit_params=fit_params), split_params

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
