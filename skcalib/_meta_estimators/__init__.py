"""Calibrators joined to scikit-learn classifiers."""
