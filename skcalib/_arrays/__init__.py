"""Blocks of rows and of columns, threads, operations on each row, types of arrays."""
