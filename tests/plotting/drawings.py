"""Predictions to draw, and slow and obvious numbers to compare drawings with."""

from itertools import combinations

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
    found = []
    for b in range(n_bins):
        w = s = t = 0.0
        for i in range(len(score)):
            low, high = b / n_bins, (b + 1) / n_bins
            if low < score[i] <= high or (b == 0 and score[i] == 0):
                w += weight[i]
                s += weight[i] * score[i]
                t += weight[i] * hit[i]
        if w:
            found.append((s / w, t / w, w))
    return np.array(found).T


def texts_of(figure):
    """Boxes of all texts of a drawn figure by what they say; legends in one, strips included."""
    axes = [*figure.axes, *(child for ax in figure.axes for child in ax.child_axes)]
    found = [(legend, "legend") for legend in figure.legends]
    for ax in axes:
        if ax.get_legend() is not None:
            found.append((ax.get_legend(), "legend"))
        for axis in (ax.xaxis, ax.yaxis):
            low, high = sorted(axis.get_view_interval())
            span = 1e-9 * (high - low)
            found += [
                (tick.label1, tick.label1.get_text())
                for tick in axis.get_major_ticks()
                if tick.label1.get_visible() and low - span <= tick.get_loc() <= high + span
            ]
        labels = [ax.xaxis.label, ax.yaxis.label, ax.title, *ax.texts]
        found += [(text, text.get_text()) for text in labels]
    return [(text.get_window_extent(), says) for text, says in found if says]


def slanted_labels(figure):
    """The slanted tick labels of each axes."""
    found = [[t.label1 for t in ax.xaxis.get_major_ticks()] for ax in figure.axes]
    return [labels for labels in found if labels and labels[0].get_rotation() % 90]


def nothing_is_cut_or_covered(figure):
    """No text of a drawn figure leaves it or overlaps another."""
    boxes, (left, low, right, high) = texts_of(figure), figure.bbox.extents
    for box, says in boxes:
        inside = left - 1 <= box.x0 and box.x1 <= right + 1
        assert inside, f"{says!r} is cut"
        assert low - 1 <= box.y0, f"{says!r} is cut"
        assert box.y1 <= high + 1, f"{says!r} is cut"
    slanted = slanted_labels(figure)
    for names in slanted:
        places = np.array([label.get_window_extent().x1 for label in names])
        apart = np.diff(places).min() * np.sin(np.deg2rad(names[0].get_rotation()))
        assert apart > 0.9 * names[0].get_fontsize() * figure.dpi / 72, "slanted names overlap"
    slant = {label.get_text() for names in slanted for label in names}
    for (one, says), (two, too) in combinations(boxes, 2):
        if {says, too} <= slant:
            continue  # their boxes overlap, they do not
        across = min(one.x1, two.x1) - max(one.x0, two.x0)
        up = min(one.y1, two.y1) - max(one.y0, two.y0)
        assert min(across, up) < 1.5, f"{says!r} and {too!r} overlap"
