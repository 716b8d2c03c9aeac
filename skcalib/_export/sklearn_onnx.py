"""`register_onnx_converters`: let skl2onnx convert calibrated classifiers."""

from __future__ import annotations


def register_onnx_converters() -> None:
    """Let skl2onnx convert the classifiers and calibrators of this package.

    Afterwards ``skl2onnx.to_onnx`` converts :class:`CalibratedClassifier`,
    :class:`ClassifierScores` and each calibrator, also as a step of a pipeline. A second call has
    no effect.

    Raises
    ------
    ImportError
        If skl2onnx is not installed.

    See Also
    --------
    to_onnx : Export a single calibrator, without skl2onnx.

    Notes
    -----
    skl2onnx converts the inner estimator, with its own rounding. With float32 inputs, isotonic
    regression may turn the rounding into differences of 1e-5. Compare both models on your own
    rows, as in the example.

    Examples
    --------
    >>> import numpy as np
    >>> import onnxruntime
    >>> import skl2onnx
    >>> from sklearn.datasets import load_iris
    >>> from sklearn.linear_model import LogisticRegression
    >>> from sklearn.pipeline import make_pipeline
    >>> from sklearn.preprocessing import StandardScaler
    >>> from skcalib import CalibratedClassifier, register_onnx_converters
    >>> X, y = load_iris(return_X_y=True)
    >>> model = CalibratedClassifier(make_pipeline(StandardScaler(), LogisticRegression()))
    >>> model = model.fit(X, y)
    >>> register_onnx_converters()
    >>> onnx_model = skl2onnx.to_onnx(model, X[:1], options={"zipmap": False})
    >>> session = onnxruntime.InferenceSession(onnx_model.SerializeToString())
    >>> label, probabilities = session.run(None, {"X": X})
    >>> np.testing.assert_allclose(probabilities, model.predict_proba(X), atol=1e-12)
    """
    try:
        import skl2onnx  # noqa: F401
    except ImportError as error:
        raise ImportError(
            "register_onnx_converters needs skl2onnx: pip install skl2onnx."
        ) from error
    from skcalib._export.sklearn_graph import register

    register()
