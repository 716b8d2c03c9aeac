"""The studies of the calibration papers, each a script that prints what comes out today."""
