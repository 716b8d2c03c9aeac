"""Export calibrators as ONNX models and PyTorch modules."""
