"""Logits and probabilities of K classes: softmax, clip, top label, one-vs-rest problems."""
