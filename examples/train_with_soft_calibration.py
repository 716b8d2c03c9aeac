"""
Training with a calibration error in the loss
=============================================

A network that is trained until it has memorised its training rows is over-confident on other rows.
Temperature scaling corrects this after training. With :mod:`skcalib.losses`, the training itself
can include a calibration error. This example repeats Table 2 of Karandikar et al. (2021, "Soft
Calibration Objectives for Neural Networks", NeurIPS) on a small scale: it over-fits a network with
one hidden layer to the digits of scikit-learn, a fifth of whose labels are replaced by random ones.

* ``NLL``: the negative log-likelihood.
* ``NLL + SB-ECE``: NLL plus a multiple of the soft-binned error of each batch.
* ``focal``, ``focal + S-AvUC``: focal loss, alone and with soft accuracy-versus-uncertainty.
* ``NLL, SB-ECE interleaved``: a fifth of the training rows is held out. Each epoch lowers the NLL
  of the other rows, and then takes a step on the soft-binned error of the held-out rows (appendix
  B).

The table shows accuracy and calibration error (l2, 15 bins of equal mass) on test rows. The
calibration error is measured as trained, after temperature scaling by NLL (TS), and after
temperature scaling by the soft-binned error (TS-SB-ECE). Temperatures are fitted on calibration
rows. The last line of the table is the error of a calibrated model, which is small-sample bias.
Smaller differences cannot be detected. Multiples and thresholds were chosen on other seeds.
"""

import numpy as np
import torch
from sklearn.datasets import load_digits
from sklearn.model_selection import train_test_split

from skcalib import IdentityCalibrator, TemperatureScaling
from skcalib.losses import focal_loss, nll_loss, soft_avuc_loss, soft_binned_loss
from skcalib.metrics import root_mean_squared_calibration_error

NOISE = 0.2
HIDDEN = 128
EPOCHS = 200
BATCH = 150


# %%
# The data: 600 training rows, 300 calibration rows and 897 test rows, with the same label noise.


def noisy_digits(seed):
    """Return (X, y) of the training rows, the calibration rows and the test rows."""
    X, y = load_digits(return_X_y=True)
    rng = np.random.default_rng(seed)
    y = np.where(rng.random(y.size) < NOISE, rng.integers(10, size=y.size), y)
    X_train, X_rest, y_train, y_rest = train_test_split(
        X / 16, y, train_size=600, random_state=seed
    )
    X_cal, X_test, y_cal, y_test = train_test_split(
        X_rest, y_rest, train_size=300, random_state=seed
    )
    return (X_train, y_train), (X_cal, y_cal), (X_test, y_test)


# %%
# The network: a hidden layer of rectified units.


def make_network(rng):
    """Return a network with one hidden layer."""
    hidden, last = torch.nn.Linear(64, HIDDEN), torch.nn.Linear(HIDDEN, 10)
    network = torch.nn.Sequential(hidden, torch.nn.ReLU(), last).double()
    with torch.no_grad():
        for layer, variance in ((hidden, 2 / 64), (last, 1 / HIDDEN)):
            weight = rng.normal(size=layer.weight.T.shape) * np.sqrt(variance)
            layer.weight.copy_(torch.tensor(weight.T))
            layer.bias.zero_()
    return network


# %%
# The losses. The steps on the NLL and the interleaved steps share the running averages of Adam.
# Therefore a larger multiple of one loss makes the steps of the other loss smaller.


def soft_binned(Z, y):
    """Return the soft-binned error, in the form that the paper uses for training."""
    return soft_binned_loss(Z, y, kind="label")


def soft_avuc(Z, y):
    """Return soft accuracy versus uncertainty, with a sharp threshold at 0.7 log K."""
    return soft_avuc_loss(Z, y, kappa=0.7, temperature=0.05)


def total(*terms):
    """Return the weighted sum of losses, each passed as (multiple, loss)."""
    return lambda Z, y: sum(multiple * term(Z, y) for multiple, term in terms)


def train(X, y, loss, seed, held_out_loss=None):
    """Train a network; each epoch also lowers `held_out_loss`, if given, on the last fifth of X."""
    rng = np.random.default_rng(seed)
    network = make_network(rng)
    optimiser = torch.optim.Adam(network.parameters(), lr=5e-3)
    X, y = torch.tensor(X), torch.tensor(y)
    n = len(X) if held_out_loss is None else 4 * len(X) // 5

    def step(rows, loss):
        optimiser.zero_grad()
        loss(network(X[rows]), y[rows]).backward()
        optimiser.step()

    for epoch in range(EPOCHS):
        optimiser.param_groups[0]["lr"] = 5e-3 * (1 + np.cos(np.pi * epoch / EPOCHS))
        for rows in np.array_split(rng.permutation(n), n // BATCH):
            step(rows, loss)
        if held_out_loss is not None:
            step(np.arange(n, len(X)), held_out_loss)
    return network


def logits(network, X):
    """Return the logits of the rows of X as a NumPy array."""
    with torch.no_grad():
        return network(torch.tensor(X)).numpy()


TRAINING = {
    "NLL": (nll_loss, None),
    "NLL + SB-ECE": (total((1, nll_loss), (10, soft_binned)), None),
    "focal": (focal_loss, None),
    "focal + S-AvUC": (total((1, focal_loss), (1, soft_avuc)), None),
    "NLL, SB-ECE interleaved": (nll_loss, total((5, soft_binned))),
}
CALIBRATORS = {
    "ECE": IdentityCalibrator(input="logits"),
    "ECE+TS": TemperatureScaling(input="logits"),
    "ECE+TS-SB-ECE": TemperatureScaling(objective="soft_binned", input="logits"),
}


# %%
# The table: mean and standard error over the seeds, in percent.


def run(seed):
    """Return {training: (accuracy, three errors)}, and the error of a calibrated model."""
    (X, y), (X_cal, y_cal), (X_test, y_test) = noisy_digits(seed)
    results = {}
    for name, (loss, held_out_loss) in TRAINING.items():
        network = train(X, y, loss, seed, held_out_loss)
        Z_cal, Z_test = logits(network, X_cal), logits(network, X_test)
        row = [np.mean(Z_test.argmax(axis=1) == y_test)]
        for calibrator in CALIBRATORS.values():
            P = calibrator.fit(Z_cal, y_cal).predict_proba(Z_test)
            row.append(root_mean_squared_calibration_error(y_test, P, labels=range(10)))
        results[name] = row
    # Labels drawn from the probabilities make the model calibrated.
    P = CALIBRATORS["ECE+TS"].predict_proba(Z_test)
    uniform = np.random.default_rng(seed).random((P.shape[0], 1))
    drawn = (P[:, :-1].cumsum(axis=1) < uniform).sum(axis=1)
    return results, root_mean_squared_calibration_error(drawn, P, labels=range(10))


def main(seeds=5):
    """Print the table."""
    torch.set_num_threads(1)  # more threads are slower for such small matrices
    runs, calibrated = zip(*(run(seed) for seed in range(seeds)), strict=True)
    columns = ("accuracy", *CALIBRATORS)
    print(f"{seeds} seeds, percent, mean and standard error")
    print(f"{'training':<24}" + "".join(f"{column:>15}" for column in columns))
    for name in TRAINING:
        rows = 100 * np.array([results[name] for results in runs])
        error = rows.std(axis=0, ddof=min(1, seeds - 1)) / np.sqrt(seeds)
        cells = zip(rows.mean(axis=0), error, strict=True)
        print(f"{name:<24}" + "".join(f"{f'{m:.1f} ± {e:.1f}':>15}" for m, e in cells))
    print(f"{'calibrated model':<24}{'':>15}{100 * np.mean(calibrated):>15.1f}")
    means = {name: np.mean([results[name] for results in runs], axis=0) for name in TRAINING}
    trained = min(means, key=lambda name: means[name][1])
    scaled = 100 * np.ptp([row[3] for row in means.values()])
    print(
        f"Conclusion: {trained} has the lowest ECE as trained.\nAfter temperature scaling", end=""
    )
    print(f" by SB-ECE, the methods differ by at most {scaled:.1f} points.")


if __name__ == "__main__":
    main()
