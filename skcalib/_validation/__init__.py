"""Checks of the arguments that users pass: scores, labels, weights and keyword arguments."""
