"""Confidence intervals of calibration errors and gains, from simulated labels and the bootstrap."""
