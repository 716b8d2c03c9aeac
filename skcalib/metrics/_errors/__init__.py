"""Calibration errors: of bins, cumulative, smooth, of kernels; the table behind them."""
