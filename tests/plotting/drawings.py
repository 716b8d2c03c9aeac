"""Predictions to draw, and slow and obvious numbers to compare drawings with."""

import numpy as np


def predictions(n=400, n_classes=4, factor=2.0, seed=0):
    """Labels, probabilities and logits that are `factor` times too large."""
    rng = np.random.default_rng(seed)
    Z = 1.5 * rng.normal(size=(n, n_classes))
    y = (Z + rng.gumbel(size=Z.shape)).argmax(axis=1)
    P = np.exp(factor * Z)
    return y, P / P.sum(axis=1, keepdims=True), factor * Z


def bins(score, hit, weight, n_bins):
    """Mean score, share of hits and weight of each even bin that has rows, by loops."""
    means = []
    for b in range(n_bins):
        w = s = t = 0.0
        for i in range(len(score)):
            low, high = b / n_bins, (b + 1) / n_bins
            if low < score[i] <= high or (b == 0 and score[i] == 0):
                w += weight[i]
                s += weight[i] * score[i]
                t += weight[i] * hit[i]
        if w:
            means.append((s / w, t / w, w))
    return np.array(means).T


def legend_names(legend):
    """The entries of a legend, without the numbers of the models."""
    return [text.get_text().replace("\n", " ").split(" (")[0] for text in legend.get_texts()]


def nothing_is_cut(figure):
    """No artist of a figure leaves it when it is drawn."""
    figure.canvas.draw()
    box, (width, height) = figure.get_tightbbox(), figure.get_size_inches()
    assert min(box.x0, box.y0) >= -0.01
    assert box.x1 <= width + 0.01
    assert box.y1 <= height + 0.01
