"""
Bias and spread of calibration errors
=====================================

Labels are drawn from known probabilities, so the true value of each calibration error is known. The
error of a sample of n rows differs from the true value in two ways: it is too large on average
(bias), and it varies between samples (spread). With few rows, binned errors are mostly bias, most
of all for a calibrated model.
"""

from functools import partial

import matplotlib.pyplot as plt
import numpy as np
from scipy.special import softmax

from skcalib.metrics import (
    adaptive_calibration_error,
    debiased_calibration_error,
    expected_calibration_error,
    ks_calibration_error,
    smooth_calibration_error,
    static_calibration_error,
    sweep_calibration_error,
)

METRICS = {
    "ECE": expected_calibration_error,
    "SCE": static_calibration_error,
    "ACE": adaptive_calibration_error,
    "KS": ks_calibration_error,
    "debiased": debiased_calibration_error,
    "sweep": sweep_calibration_error,
    "smooth": smooth_calibration_error,
}
STYLES = dict(
    zip(
        METRICS,
        zip(
            ["#0072B2", "#D55E00", "#E69F00", "0.5", "#009E73", "#CC79A7", "#56B4E9"],
            "osD^vXP",
            ["-", "--", "-.", "-", ":", "--", "-."],
            strict=True,
        ),
        strict=True,
    )
)
MODELS = {"calibrated": 1.0, "logits x 1.5": 1.5}
ROWS = [100, 300, 1_000, 3_000]
N_CLASSES, SAMPLES = 5, 25
metrics = {name: partial(metric, labels=range(N_CLASSES)) for name, metric in METRICS.items()}


def draw(n, factor, rng):
    """Return the true probabilities, and the probabilities of an over-confident model."""
    Z = rng.normal(scale=1.5, size=(n, N_CLASSES))
    return softmax(Z, axis=1), softmax(factor * Z, axis=1)


# %%
# To compute the true value, repeat each row of a large sample with every label, weighted by the
# probability of the label. The labels then add no randomness.
def true_values(factor):
    """Return the value of each error for infinitely many rows."""
    truth, P = draw(10_000, factor, np.random.default_rng(0))
    y = np.tile(np.arange(N_CLASSES), len(P))
    P, w = np.repeat(P, N_CLASSES, axis=0), truth.ravel()
    return {name: metric(y, P, sample_weight=w) for name, metric in metrics.items()}


def estimates(n, factor, rng):
    """Return the value of each error for n rows with random labels."""
    truth, P = draw(n, factor, rng)
    y = (truth.cumsum(axis=1)[:, :-1] < rng.random((n, 1))).sum(axis=1)
    return {name: metric(y, P) for name, metric in metrics.items()}


results = {}
for model, factor in MODELS.items():
    rng = np.random.default_rng(1)
    true = true_values(factor)
    print(f"{model}: true values")
    print(" ", ", ".join(f"{name} {value:.4f}" for name, value in true.items()))
    samples = [[estimates(n, factor, rng) for _ in range(SAMPLES)] for n in ROWS]
    for name in METRICS:
        values = np.array([[sample[name] for sample in each] for each in samples])
        bias, spread = values.mean(axis=1) - true[name], values.std(axis=1, ddof=1)
        results[model, name] = bias, spread
        at = ROWS.index(1_000)
        print(f"  {name:<8} n = 1,000: bias {bias[at]:+.4f}, spread {spread[at]:.4f}")

# %%
# Bias and spread against the number of rows:
figure, panels = plt.subplots(2, 2, figsize=(8, 7), sharex=True, layout="constrained")
for model, (bias_panel, spread_panel) in zip(MODELS, panels, strict=True):
    for name, (color, marker, line) in STYLES.items():
        bias, spread = results[model, name]
        style = {"color": color, "marker": marker, "linestyle": line, "label": name, "ms": 5}
        bias_panel.plot(ROWS, bias, **style)
        spread_panel.plot(ROWS, spread, **style)
    bias_panel.axhline(0, color="0.5", linestyle=":", linewidth=1, zorder=0)
    bias_panel.set(title=f"{model}: bias", ylabel="Mean of the estimates - true value")
    spread_panel.set(title=f"{model}: spread", ylabel="Standard deviation", yscale="log")
handles, names = panels[0, 0].get_legend_handles_labels()
figure.legend(handles, names, loc="outside lower center", ncols=7, frameon=False)
for panel in panels[1]:
    panel.set(xlabel="Rows", xscale="log")

# %%
# Conclusions:
#
# * For a calibrated model, the whole error is bias. With a few hundred rows, the bias is as large
#   as the errors that you want to detect. With four times as many rows, the bias is half as large.
# * KS and the debiased error have the smallest bias.
# * For an over-confident model, the bias is small compared with the true value, except for
#   class-wise errors.
# * SCE and ACE have the smallest spread, because they are means over classes. A small spread does
#   not make them correct.
plt.show()
