"""The event's rate as a function of its predicted probability: cells, splines, rising steps."""
