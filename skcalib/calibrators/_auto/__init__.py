"""`AutoCalibrator`: the features of the scores, their fit, and the prediction."""
