"""Fits of softmax(W z + b) and of logistic maps: losses, optimisers, predictions."""
