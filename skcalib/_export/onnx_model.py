"""`to_onnx`: export a fitted calibrator as an ONNX model."""

from __future__ import annotations

import json
import sys
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from skcalib.extending import check_count, check_option, short_repr

if TYPE_CHECKING:
    from onnx import ModelProto

# The first version of ONNX (2022) that can add several numbers at the same index of an array.
LEAST_OPSET = 16
# ONNX types of labels, by the kind of their NumPy dtype.
LABELS = {"i": 7, "b": 9, "U": 8}


def to_onnx(
    calibrator: Any, *, dtype: str = "float32", opset: int = 17, labels: bool = True
) -> ModelProto:
    """Export a fitted calibrator as an ONNX model, which runs without Python.

    Parameters
    ----------
    calibrator : calibrator
        A fitted calibrator of this package, such as ``CalibratedClassifier(...).calibrator_``.
    dtype : {"float32", "float64"}, default="float32"
        Type of the scores and of the probabilities. The model itself computes in float64.
    opset : int, default=17
        Version of the operators, at least 16.
    labels : bool, default=True
        Whether the model has an output for the label of the largest probability.

    Returns
    -------
    model : onnx.ModelProto
        The input is "scores" ``(n, n_features_in_)``, of the kind ``calibrator.input_``. The
        outputs are "label" ``(n,)`` and "probabilities" ``(n, K)``. Any n is allowed, also 0.

    Raises
    ------
    ImportError
        If onnx is not installed.
    NotFittedError
        If the calibrator is not fitted.
    ValueError
        If `calibrator` is not a calibrator of this package, if its labels are not integers,
        strings or booleans, or if onnx does not support the `opset`.

    See Also
    --------
    to_torch : Turn a fitted calibrator into a PyTorch module.
    save_json : Save a fitted calibrator as a JSON file for skcalib.

    Notes
    -----
    The model does not check its input. Scores must have the kind and shape seen in ``fit``, and no
    NaN; rows of probabilities must sum to 1. Logits may be -inf.

    Examples
    --------
    >>> import numpy as np
    >>> import onnxruntime
    >>> from skcalib import TemperatureScaling, to_onnx
    >>> Z = np.array([[2.0, -1.0], [0.0, 1.5], [3.0, 0.0], [1.0, 0.5]])
    >>> scaling = TemperatureScaling().fit(Z, ["cat", "dog", "cat", "dog"])
    >>> model = to_onnx(scaling, dtype="float64")
    >>> session = onnxruntime.InferenceSession(model.SerializeToString())
    >>> label, probabilities = session.run(None, {"scores": Z})
    >>> label.tolist()
    ['cat', 'dog', 'cat', 'cat']
    >>> bool(np.allclose(probabilities, scaling.predict_proba(Z), atol=1e-12))
    True
    """
    try:
        from onnx import defs, helper
    except ImportError as error:
        raise ImportError(
            'to_onnx needs onnx: pip install "skcalib[onnx]", or use to_torch or save_json.'
        ) from error
    from skcalib._export.common import columns_of_scores, plan_of
    from skcalib._export.onnx_operations import TYPES, OnnxOperations

    check_option("dtype", dtype, ("float32", "float64"))
    check_count("opset", opset, LEAST_OPSET, defs.onnx_opset_version())
    info = helper.make_tensor_value_info
    plan = plan_of(calibrator, "to_onnx")
    classes = np.asarray(calibrator.classes_)
    o = OnnxOperations(dtype, opset)
    x = columns_of_scores(o, o.scores("scores"), calibrator)
    q = o.probabilities(plan, x, calibrator)
    outputs = [info("probabilities", TYPES[dtype], ["n", classes.size])]
    if labels:
        names = written_labels(classes)
        o.name_output(o.take(o.constant(names), o.predicted(x, q, plan.label)), "label")
        outputs.insert(0, info("label", LABELS[names.dtype.kind], ["n"]))
    o.name_output(o.cast_to_scores(q), "probabilities")
    constants = o.drop_unused()
    graph = helper.make_graph(
        o.nodes,
        type(calibrator).__name__,
        [info("scores", TYPES[dtype], ["n", calibrator.n_features_in_])],
        outputs,
        constants,
    )
    opsets = [helper.make_opsetid("", opset)]
    model = helper.make_model(
        graph,
        opset_imports=opsets,
        # The lowest possible version of the format, so that old ONNX runtimes can load the model.
        ir_version=helper.find_min_ir_version_for(opsets),
        producer_name="skcalib",
        producer_version=sys.modules["skcalib"].__version__,
    )
    helper.set_model_props(
        model,
        {
            "calibrator": " ".join(repr(calibrator).split()),
            "input": calibrator.input_,
            "classes": json.dumps(classes.tolist()),
        },
    )
    return model


def written_labels(classes: NDArray[Any]) -> NDArray[Any]:
    """Return labels in a type that ONNX supports, or raise an error."""
    names = np.array(classes.tolist())
    if names.dtype.kind not in LABELS:
        raise ValueError(
            "to_onnx: labels must be integers, strings or booleans; got "
            f"{short_repr(classes[0])}: pass labels=False and use the column of the largest "
            "probability."
        )
    return names.astype(np.int64) if names.dtype.kind == "i" else names
