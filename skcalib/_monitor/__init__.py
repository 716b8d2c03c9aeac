"""Is it still calibrated? Bets on batches of labels."""
