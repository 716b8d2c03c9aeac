"""Attempts to break skcalib, their figures, and the page docs/trust.md that is made of them."""
