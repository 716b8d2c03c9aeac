"""Compare calibrators by metrics, on rows that they were not fitted on."""
