"""Attempts to break skcalib, their figures, and the page README.md that is made of them."""
