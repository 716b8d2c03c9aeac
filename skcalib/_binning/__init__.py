"""Bins of scores, their edges, and the sums of each bin."""
