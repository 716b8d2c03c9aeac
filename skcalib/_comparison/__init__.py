"""Comparison of calibrators by metrics, on rows that they have not seen."""
