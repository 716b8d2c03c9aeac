"""`SplineCalibrator`: the spline of a binary problem, and a binary problem for each rank."""
