"""Reading of scores as logits or probabilities: softmax, clip, top label, one-vs-rest."""
