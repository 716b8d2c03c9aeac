"""Measurements of skcalib against numbers that others have published."""
