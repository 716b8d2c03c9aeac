"""Intervals of errors and gains: from labels drawn from possible truths, and by the bootstrap."""
