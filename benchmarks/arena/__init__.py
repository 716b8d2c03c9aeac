"""All calibrators on real models of real data: rows, report, figure and its page."""
