"""`AutoCalibrator`: features of the scores, their loss, and the strengths of the ridges."""
