"""Checks of what users pass: scores, labels, weights, keywords."""
