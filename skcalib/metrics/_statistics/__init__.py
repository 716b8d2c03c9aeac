"""Statistics of one event, tests, the parts of a score, groups."""
