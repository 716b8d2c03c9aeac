"""Other packages beside this one: their tests run on its classes."""
