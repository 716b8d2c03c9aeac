"""Errors of all rows as functions of a temperature: soft-binned errors, and metrics of the user."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

import numpy as np

from skcalib._arrays.passes import map_rows
from skcalib._arrays.source import refuse_remote
from skcalib._arrays.tensors import on_host, rows_of
from skcalib._arrays.types import Bools, Float64Array, FloatArray, Intp
from skcalib._differentiable.soft_binning import SoftBins, soft_binned_error
from skcalib._scaling.affine_softmax import affine_softmax
from skcalib._scaling.scale_losses import ShiftedLogits, of_shifted
from skcalib._scaling.temperature_search import Objective
from skcalib._scores.one_vs_rest import is_unit
from skcalib._scores.scores import Scores
from skcalib._validation.keywords import check_between, check_norm, number_of_bins
from skcalib._validation.weights import as_given

Metric = Callable[..., float]


def scaled_softmax(scores: Scores, T: float) -> FloatArray:
    """Return softmax(z / T), in the type of the scores."""
    out = np.empty(scores.shape, dtype=scores.dtype)
    kernel = partial(affine_softmax, coef=1.0 / T, max_abs_logit=scores.max_abs_logit)
    map_rows(kernel, scores.as_logits(), out=out)
    return out


def hits_of_block(U: Float64Array, code: Intp) -> Bools:
    """Return whether the true class of each row of a block has the largest logit."""
    return U.argmax(axis=1) == code


def top_of_block(U: Float64Array, T: float) -> Float64Array:
    """Return the largest probability of each row of a block of shifted logits."""
    r = rows_of(U)
    return 1.0 / r.row_sums(r.exp_(U / T))


def soft_binned_objective(scores: Scores, code: Intp, w: Float64Array, bins: SoftBins) -> Objective:
    """Return the soft-binned error of the top label as a function of T."""
    refuse_remote(scores.source, "TemperatureScaling with a soft-binned objective")
    number = number_of_bins(bins.n_bins, w.sum(), "objective_params['n_bins']")
    check_norm(bins.norm, name="objective_params['norm']", has_max=False)
    what = "a positive number"
    check_between("objective_params['temperature']", bins.temperature, 0, np.inf, what)
    bins = bins._replace(n_bins=number)
    shifted = ShiftedLogits(scores, code, w)
    U = shifted.source, shifted.top
    hit, top = shifted.source.empty_rows(np.bool_), shifted.source.empty_rows()
    map_rows(partial(of_shifted, kernel=hits_of_block), *U, code, out=hit)
    hit = on_host(hit)

    def objective(T: float) -> float:
        map_rows(partial(of_shifted, kernel=partial(top_of_block, T=T)), *U, out=top)
        return float(soft_binned_error(on_host(top), hit, w, bins))

    return objective


def metric_objective(
    scores: Scores, code: Intp, w: Float64Array, metric: Metric, params: Mapping[str, Any]
) -> Objective:
    """Return ``metric(y_true, softmax(z / T), **params)`` as a function of T."""
    refuse_remote(scores.source, "TemperatureScaling with a metric as its objective")
    y_true = scores.classes[code]
    parameters = inspect.signature(metric).parameters
    keywords: dict[str, Any] = {}
    if "labels" in parameters:
        keywords["labels"] = scores.classes
    if not is_unit(w):
        if "sample_weight" not in parameters:
            raise ValueError(
                "TemperatureScaling was given sample_weight, but its objective has no such "
                "keyword: pass a metric that takes sample_weight, or leave the weights out."
            )
        keywords["sample_weight"] = as_given(w)
    keywords.update(params)

    def objective(T: float) -> float:
        value = np.asarray(metric(y_true, scaled_softmax(scores, T), **keywords))
        if value.ndim:
            raise ValueError(
                f"The objective returned an array of shape {value.shape} instead of one number: "
                "pass a metric that averages over classes."
            )
        if np.isnan(value):
            raise ValueError(
                f"The objective is NaN at T={T:.4g}: pass a metric that is defined for these "
                "labels, or fit on rows of every class."
            )
        return float(value)

    return objective
