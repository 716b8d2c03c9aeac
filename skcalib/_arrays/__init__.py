"""Sources of scores, passes over their rows, threads, operations on rows, array types."""
