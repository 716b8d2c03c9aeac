"""Fits of softmax(W z + b) and of logistic regressions: losses, optimisers and predictions."""
