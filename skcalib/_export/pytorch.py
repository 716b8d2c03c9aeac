"""`to_torch`: a fitted calibrator as a PyTorch module."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from skcalib.extending import check_option

if TYPE_CHECKING:
    from torch import nn


def to_torch(calibrator: Any, *, output: str = "probabilities") -> nn.Module:
    """Turn a fitted calibrator into a PyTorch module, the last layer of a network.

    Parameters
    ----------
    calibrator : calibrator
        A fitted calibrator of this package, such as ``CalibratedClassifier(...).calibrator_``.
    output : {"probabilities", "logits"}, default="probabilities"
        What the module returns. "logits" are the logarithms of the probabilities, for code that
        takes a softmax or a cross entropy of them, as behind ModelWithTemperature. Of
        probabilities, such code would take a second softmax without an error.

    Returns
    -------
    module : torch.nn.Module
        Maps scores ``(..., n_features_in_)``, or ``(n,)`` where the fit had one column, to
        the `output` ``(..., K)`` of the same type and on the same device. Inside it computes in
        float64. What it fitted are buffers: they follow the module to a device and into its
        ``state_dict``, and no optimiser trains them. Gradients reach the scores; those of step
        functions are 0.

    Raises
    ------
    ImportError
        If torch is not installed.
    NotFittedError
        If the calibrator is not fitted.
    ValueError
        If it is not a calibrator of this package; in a call of the module, if the scores have
        another number of columns; in ``load_state_dict``, if the state is of the other kind.

    See Also
    --------
    to_onnx : The same as an ONNX model.

    Notes
    -----
    The module does not check what the scores are: it expects the kind seen in ``fit``
    (``calibrator.input_``), without NaN, and probabilities whose rows sum to 1. Logits may be
    -inf. That kind is part of the ``state_dict``: a state of the other kind is not loaded.
    ``torch.export``, ``torch.onnx.export`` and ``torch.jit.trace`` take it.

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
