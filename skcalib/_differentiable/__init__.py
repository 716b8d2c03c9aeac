"""Formulas written in the array API, which metrics, losses and temperature scaling share."""
