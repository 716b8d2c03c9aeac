"""Intervals of errors and of gains, by metrics of labels that are drawn from possible truths."""
