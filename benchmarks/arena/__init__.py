"""All calibrators on real models of real data: rows, report and its page."""
