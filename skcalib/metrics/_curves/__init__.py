"""The event's rate as a function of its predicted probability, and its distances."""
