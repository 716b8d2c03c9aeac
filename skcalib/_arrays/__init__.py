"""Block-wise reading of scores from arrays, tensors and Dask arrays, and computation on blocks."""
