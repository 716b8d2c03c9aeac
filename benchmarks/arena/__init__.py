"""All calibrators on real models of real data: rows, report, figure and the page docs/which.md."""
