"""Every calibrator by every metric, on rows that it has not seen."""
