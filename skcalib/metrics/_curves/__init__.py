"""Calibration curves, their distances from the diagonal, and risk-coverage curves."""
