"""Sources of numbers, passes over their rows, threads, operations on each row, types."""
