"""Calibrators and monitors as JSON files."""
