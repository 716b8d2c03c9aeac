"""Confidence intervals of errors and gains, from simulated labels and by the bootstrap."""
