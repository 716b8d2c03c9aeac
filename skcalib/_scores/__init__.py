"""Logits and probabilities of K classes: softmax, clip, top label, one class against the rest."""
