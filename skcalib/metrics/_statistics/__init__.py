"""Statistics of binary problems, tests, decompositions of scores, and statistics by group."""
