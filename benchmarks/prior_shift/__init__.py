"""Prior shift: the gain of `PriorCorrection` on new data with other class priors."""
