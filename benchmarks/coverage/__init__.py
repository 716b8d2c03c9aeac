"""Simulations: what intervals cover, what tests reject, how much each calibrator corrects."""
