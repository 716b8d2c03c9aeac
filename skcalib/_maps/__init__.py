"""Formulas of calibrated probabilities, and their computation in NumPy and PyTorch."""
