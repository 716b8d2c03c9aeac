"""Save calibrators and monitors as JSON files, and load them."""
