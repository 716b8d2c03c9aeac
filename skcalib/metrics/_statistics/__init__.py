"""Statistics of risk models, calibration tests, score decompositions, statistics by group."""
