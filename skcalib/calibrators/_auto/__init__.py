"""`AutoCalibrator`: features of the scores, fits of their coefficients, and predictions."""
