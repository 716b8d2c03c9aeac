"""`to_torch`: export a fitted calibrator as a PyTorch module."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from skcalib.extending import check_option

if TYPE_CHECKING:
    from torch import nn


def to_torch(calibrator: Any, *, output: str = "probabilities") -> nn.Module:
    """Export a fitted calibrator as a PyTorch module, the last layer of a network.

    Parameters
    ----------
    calibrator : calibrator
        A fitted calibrator of this package, such as ``CalibratedClassifier(...).calibrator_``.
    output : {"probabilities", "logits"}, default="probabilities"
        What the module returns. "logits" are the logarithms of the probabilities, for code that
        applies a softmax or a cross entropy, such as code written for ModelWithTemperature. With
        probabilities, such code would apply a second softmax without an error.

    Returns
    -------
    module : torch.nn.Module
        Maps scores ``(..., n_features_in_)``, or ``(n,)`` if the fit had one column, to the
        `output` ``(..., K)`` of the same type and on the same device. The module computes in
        float64. The fitted numbers are buffers: they move to a device with the module, are part of
        its ``state_dict``, and are not trained by an optimiser. Gradients flow to the scores; the
        gradients of step functions are 0.

    Raises
    ------
    ImportError
        If torch is not installed.
    NotFittedError
        If the calibrator is not fitted.
    ValueError
        If `calibrator` is not a calibrator of this package; in a call of the module, if the scores
        have another number of columns; in ``load_state_dict``, if the state belongs to a calibrator
        for the other kind of scores.

    See Also
    --------
    to_onnx : Export a fitted calibrator as an ONNX model.

    Notes
    -----
    The module does not check the values of the scores. They must be of the kind seen in ``fit``
    (``calibrator.input_``) and without NaN; rows of probabilities must sum to 1. Logits may be
    -inf. The kind is part of the ``state_dict``, and a state of the other kind is refused. The
    module works with ``torch.export``, ``torch.onnx.export`` and ``torch.jit.trace``.

    Examples
    --------
    >>> import numpy as np
    >>> from skcalib import TemperatureScaling, to_torch
    >>> Z = np.array([[2.0, -1.0], [0.0, 1.5], [3.0, 0.0], [1.0, 0.5]])
    >>> scaling = TemperatureScaling().fit(Z, [0, 1, 0, 1])
    >>> import torch  # doctest: +SKIP
    >>> network = torch.nn.Sequential(torch.nn.Linear(8, 2), to_torch(scaling))  # doctest: +SKIP
    """
    try:
        from skcalib._export.torch_module import CalibratorModule
    except ImportError as error:
        raise ImportError(
            'to_torch needs PyTorch: pip install "skcalib[torch]", or use to_onnx.'
        ) from error
    from skcalib._export.common import plan_of

    check_option("output", output, ("probabilities", "logits"))
    plan = plan_of(calibrator, "to_torch")
    return CalibratorModule(
        plan, calibrator.input_, calibrator.n_features_in_, calibrator.classes_.size, output
    )
