"""Calibrators as ONNX models and PyTorch modules: a formula for each, and two ways to run it."""
