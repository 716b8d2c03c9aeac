"""Maps of calibrators as formulas: the operations of formulas, and NumPy to compute them."""
