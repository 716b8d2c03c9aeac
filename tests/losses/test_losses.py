"""Losses: values by loops, gradients by differences and by autograd, and nothing ever infinite."""

import itertools
import math
import re
import runpy
import sys
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from calls import peak_memory, refused
from joblib import parallel_config
from scipy.special import softmax
from soft_references import (
    slow_avuc,
    slow_brier,
    slow_focal,
    slow_mmce,
    slow_nll,
    slow_soft_avuc,
    slow_soft_binned,
)

from skcalib import losses
from skcalib._differentiable import avuc, entropy, soft_avuc
from skcalib.losses import (
    avuc_loss,
    brier_loss,
    focal_loss,
    mmce_loss,
    nll_loss,
    soft_avuc_loss,
    soft_binned_loss,
)

try:
    import array_api_compat  # noqa: F401
    import torch
except ImportError:
    torch = None
needs_torch = pytest.mark.torch


CASES = {
    "nll": (nll_loss, slow_nll, {}),
    "brier": (brier_loss, slow_brier, {}),
    "focal": (focal_loss, slow_focal, {}),
    "focal below 1": (focal_loss, slow_focal, {"gamma": 0.5}),
    "focal 0": (focal_loss, slow_focal, {"gamma": 0}),
    "bin l2": (soft_binned_loss, slow_soft_binned, {}),
    "bin l1": (soft_binned_loss, slow_soft_binned, {"norm": "l1", "n_bins": 5}),
    "label l2": (soft_binned_loss, slow_soft_binned, {"kind": "label", "temperature": 0.1}),
    "label l1": (soft_binned_loss, slow_soft_binned, {"kind": "label", "norm": "l1"}),
    "bin l3": (soft_binned_loss, slow_soft_binned, {"norm": 3}),
    "bin l1.5": (soft_binned_loss, slow_soft_binned, {"norm": 1.5}),
    "label l2.5": (soft_binned_loss, slow_soft_binned, {"kind": "label", "norm": 2.5}),
    "classwise": (soft_binned_loss, slow_soft_binned, {"mode": "classwise"}),
    "classwise l1": (soft_binned_loss, slow_soft_binned, {"mode": "classwise", "norm": "l1"}),
    "classwise label l3": (
        soft_binned_loss,
        slow_soft_binned,
        {"mode": "classwise", "kind": "label", "norm": 3, "temperature": 0.1, "n_bins": 7},
    ),
    "avuc": (avuc_loss, slow_avuc, {}),
    "avuc 0.9": (avuc_loss, slow_avuc, {"threshold": 0.9}),
    "avuc-gs": (avuc_loss, slow_avuc, {"stop_gradient": True}),
    "s-avuc": (soft_avuc_loss, slow_soft_avuc, {}),
    "s-avuc sharp": (soft_avuc_loss, slow_soft_avuc, {"kappa": 0.3, "temperature": 0.4}),
    "mmce": (mmce_loss, slow_mmce, {}),
}
every_case = pytest.mark.parametrize("case", CASES)
every_loss = pytest.mark.parametrize(
    "case",
    ["nll", "brier", "focal", "bin l2", "classwise label l3", "avuc", "avuc-gs", "s-avuc", "mmce"],
)


def batch(K=3, n=40, seed=0):
    """Logits, codes and weights; nothing extreme."""
    rng = np.random.default_rng(seed)
    Z = rng.normal(scale=2, size=(n, K))
    return Z, rng.integers(K, size=n), rng.random(n) + 0.1


def extreme_batch(K=3):
    """With a uniform row, saturated rows right and wrong, and logits of -inf."""
    Z, y, w = batch(K)
    Z[0] = 0.0
    Z[1] = 1e3 * np.arange(K)
    Z[2], y[2] = -1e3 * np.arange(K), 0
    Z[3, 0], y[3] = -np.inf, 1
    Z[4, 0], y[4] = -np.inf, 0
    w[5] = 0.0
    return Z, y, w


# ---------------------------------------------------------------------------------------- values


@every_case
@pytest.mark.parametrize("K", [2, 10])
def test_the_value_is_the_formula(case, K):
    loss, slow, keywords = CASES[case]
    Z, y, w = batch(K, seed=K)
    expected = slow(softmax(Z, axis=1).tolist(), y.tolist(), w.tolist(), **keywords)
    assert loss(Z, y, sample_weight=w, **keywords) == pytest.approx(expected, abs=1e-12)


def test_a_threshold_is_met_by_uncertain_rows():
    """An entropy of exactly the threshold is not below it."""
    Z = np.array([[0.0, 0.0]])
    h = float(entropy(np.array([[0.5, 0.5]]))[0])
    assert avuc_loss(Z, [1], threshold=h) == 0  # wrong and uncertain
    assert avuc_loss(Z, [1], threshold=h + 1e-9) > 20  # wrong and certain


@pytest.mark.parametrize("loss", [avuc_loss, soft_avuc_loss])
def test_nothing_good_costs_the_clipped_logarithm(loss):
    """All wrong and certain: -log 1e-12, where the formula would be infinite."""
    for Z in ([[9.0, 0.0]], [[1e3, 0.0]]):
        value = loss(Z, [1], **HARD.get(loss, {}))
        assert value == pytest.approx(12 * math.log(10))


HARD = {soft_avuc_loss: {"temperature": 0.1}}


# ---------------------------------------------------------------------------------- extreme rows


@every_case
@pytest.mark.parametrize("K", [3, 1000])
def test_extreme_rows_have_finite_losses(case, K):
    """Saturated, uniform and impossible: no infinity, no NaN, no warning."""
    loss, _, keywords = CASES[case]
    Z, y, w = extreme_batch(K)
    for dtype in (np.float64, np.float32):
        assert math.isfinite(loss(Z.astype(dtype), y, sample_weight=w, **keywords))


def test_the_soft_threshold_keeps_its_distance_from_1_in_single_precision():
    """1 - 1e-12 would be 1, and the logarithm of what is left of it infinite."""
    h = np.full(2, np.log(7), dtype=np.float32)
    single = soft_avuc(h, np.array([True, False]), np.ones(2, np.float32), n_classes=7)
    double = soft_avuc(np.float64(h), np.array([True, False]), np.ones(2), n_classes=7)
    assert single == pytest.approx(double, rel=1e-5)


def test_an_impossible_true_class_costs_the_clipped_logarithm():
    assert nll_loss([[-np.inf, 0.0, 1.0]], [0]) == pytest.approx(12 * math.log(10))


def test_infinity_in_one_column_is_certain():
    assert nll_loss([np.inf, 0.0], [1, 0]) == pytest.approx(math.log(2) / 2)
    assert nll_loss([np.inf, 0.0], [0, 0]) == pytest.approx((12 * math.log(10) + math.log(2)) / 2)


# --------------------------------------------------------------------------------- what goes in


@every_loss
def test_weights_are_repetitions(case):
    """2 is two copies, 0 absence."""
    loss, _, keywords = CASES[case]
    Z, y, _ = batch(4)
    w = np.arange(40) % 3
    rows = np.repeat(np.arange(40), w)
    value = loss(Z, y, sample_weight=w, **keywords)
    assert value == pytest.approx(loss(Z[rows], y[rows], **keywords), abs=1e-14)


@every_loss
def test_one_column_is_a_binary_logit(case):
    """f stands for (0, f)."""
    loss, _, keywords = CASES[case]
    Z, y, w = batch(2)
    Z[:, 0] = 0.0
    expected = loss(Z, y, sample_weight=w, **keywords)
    for f in (Z[:, 1], Z[:, 1:]):
        assert loss(f, y, sample_weight=w, **keywords) == expected


@every_loss
def test_single_precision_logits_are_summed_in_double(case):
    loss, _, keywords = CASES[case]
    Z, y, w = batch(5, n=200)
    Z = Z.astype(np.float32)
    expected = loss(Z.astype(np.float64), y, sample_weight=w, **keywords)
    assert loss(Z, y, sample_weight=w, **keywords) == expected


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (([[0.0, 1.0]], [2]), r"y: 2 at row 0 .* of logits, 0 to 1; pass codes"),
        (([[0.0, 1.0]], [-1]), r"y: -1 at row 0 .* of logits, 0 to 1"),
        (([[0.0, 1.0]], ["b"]), r"y: 'b' at row 0 .* of logits, 0 to 1"),
        (([[0.0, 1.0]], [0, 1]), "inconsistent numbers of samples"),
        (([[0.0, np.nan]], [0]), "logits contains NaN"),
        (([[-np.inf, -np.inf]], [0]), "every logit of row 0 is -inf"),
    ],
)
def test_what_cannot_be_meant_is_refused(arguments, message):
    refused(message, nll_loss, *arguments)


def test_every_loss_is_tested():
    assert {loss.__name__ for loss, _, _ in CASES.values()} == set(losses.__all__)


@needs_torch
@pytest.mark.slow
def test_the_example_prints_a_table_in_which_the_soft_error_pays(capsys):
    """Over-fitted on noisy labels, NLL + SB-ECE is better calibrated than NLL alone."""
    example = Path(__file__).parents[2] / "examples" / "train_with_soft_calibration.py"
    runpy.run_path(str(example))["main"](seeds=1)
    cells = r"^(\S.*?) {2,}[\d.]+ ± 0.0 +([\d.]+) ± 0.0 +[\d.]+ ± 0.0 +[\d.]+ ± 0.0$"
    rows = re.findall(cells, capsys.readouterr().out, re.M)
    errors = {name: float(error) for name, error in rows}
    assert len(errors) == 5
    assert errors["NLL + SB-ECE"] < 0.75 * errors["NLL"]


# --------------------------------------------------------------------------------------- tensors


def by_autograd(case, Z, y, w, dtype="float64"):
    """Value and gradient of a tensor of logits."""
    loss, _, keywords = CASES[case]
    logits = torch.tensor(Z, dtype=getattr(torch, dtype), requires_grad=True)
    value = loss(logits, torch.tensor(y), sample_weight=torch.tensor(w), **keywords)
    value.backward()
    return value, logits.grad


@needs_torch
@every_case
def test_the_loss_of_a_tensor_is_that_of_an_array_also_at_extreme_rows(case):
    loss, _, keywords = CASES[case]
    for Z, y, w in (batch(), extreme_batch(), extreme_batch(1000)):
        expected = loss(Z, y, sample_weight=w, **keywords)
        value, gradient = by_autograd(case, Z, y, w)
        assert value.shape == ()
        assert value.dtype == torch.float64
        assert value.item() == pytest.approx(expected, rel=1e-12)
        np.testing.assert_allclose(gradient.sum(dim=1), 0, atol=1e-12)  # a constant changes nothing
        assert not gradient[np.isneginf(Z)].any()


@needs_torch
@every_case
def test_the_gradient_is_that_of_the_value(case):
    """Differences along random signs; of AvUC-GS those of AvUC at the confidences as they are."""
    loss, _, keywords = CASES[case]
    Z, y, w = batch(10, seed=10)
    Z[0] = 30.0 * np.arange(10)
    gradient = by_autograd(case, Z, y, w)[1].numpy()

    def value(Z):
        if not keywords.get("stop_gradient"):
            return loss(Z, y, sample_weight=w, **keywords)
        return avuc(confidence, entropy(softmax(Z, axis=1)), hit, w)

    confidence, hit = softmax(Z, axis=1).max(axis=1), Z.argmax(axis=1) == y
    for way in np.random.default_rng(0).choice([-1.0, 1.0], size=(20, *Z.shape)):
        slope = (value(Z + 1e-6 * way) - value(Z - 1e-6 * way)) / 2e-6
        assert (gradient * way).sum() == pytest.approx(slope, abs=1e-6)


@needs_torch
@every_loss
def test_tensors_of_single_precision_stay_so(case):
    loss, _, keywords = CASES[case]
    for Z, y, w in (batch(7), extreme_batch(7), extreme_batch(1000)):
        expected = loss(Z, y, sample_weight=w, **keywords)
        slope = by_autograd(case, Z, y, w)[1]
        value, gradient = by_autograd(case, Z, y, w, "float32")
        assert value.dtype == gradient.dtype == torch.float32
        assert value.item() == pytest.approx(expected, rel=1e-3)
        np.testing.assert_allclose(gradient, slope, atol=1e-4)


@needs_torch
@every_loss
def test_half_precision_is_computed_in_single(case):
    Z, y, w = batch(3)
    for dtype in ("float16", "bfloat16"):
        value, gradient = by_autograd(case, Z, y, w, dtype)
        assert value.dtype == torch.float32
        assert gradient.dtype == getattr(torch, dtype)
        assert torch.isfinite(gradient).all()


@needs_torch
@every_loss
def test_autograd_of_a_batch_of_extreme_rows_only(case):
    extremes = np.zeros((6, 3)), 1e3 * np.eye(3)[[0, 1, 2, 0, 1, 2]]
    for rows, shift in itertools.product(extremes, (0, 1)):
        value, gradient = by_autograd(case, rows, (np.arange(6) + shift) % 3, np.ones(6), "float32")
        assert torch.isfinite(value)
        assert torch.isfinite(gradient).all()


@pytest.mark.parametrize("norm", [1, 1.0, np.int8(1), np.float32(1)])
def test_a_norm_of_one_or_two_is_l1_or_l2_and_a_byte_is_a_number(norm):
    Z, y, w = batch()
    for name, number in (("l1", norm), ("l2", 2 * norm)):
        keywords = {"sample_weight": w, "mode": "classwise"}
        value = soft_binned_loss(Z, y, norm=number, **keywords)
        assert value == soft_binned_loss(Z, y, norm=name, **keywords)
    n_bins = np.int8(100)  # NumPy would multiply it by 8 within the byte
    assert soft_binned_loss(Z, y, n_bins=n_bins) == soft_binned_loss(Z, y, n_bins=100)


@pytest.mark.slow
def test_the_loss_of_a_thousand_classes_needs_little_more_than_the_likelihood():
    """Memberships of all classes at once would be 600 x 1,000 x 15 numbers: 72 MB."""
    rng = np.random.default_rng(0)
    Z, y = rng.normal(size=(600, 1000)), rng.integers(1000, size=600)
    peak = peak_memory(nll_loss, Z, y)
    with parallel_config(n_jobs=1):
        more = peak_memory(soft_binned_loss, Z, y, mode="classwise")
    assert more - peak < 16e6


@needs_torch
@pytest.mark.parametrize("mode", ["top", "classwise"])
def test_second_derivatives_of_the_soft_binned_loss(mode):
    Z = torch.tensor(batch(3, n=6)[0], requires_grad=True)
    y = torch.arange(6) % 3
    assert torch.autograd.gradgradcheck(
        lambda Z: soft_binned_loss(Z, y, mode=mode, temperature=0.1), Z
    )


@needs_torch
def test_the_loss_of_a_thousand_classes_of_tensors_keeps_no_memberships():
    """What autograd saves for the gradient is a few arrays of logits, not one for each bin."""
    n, K = 400, 1000
    saved = []

    def save(x):
        saved.append((x.untyped_storage().data_ptr(), x.untyped_storage().nbytes()))
        return x

    Z = torch.randn(n, K, requires_grad=True)
    with torch.autograd.graph.saved_tensors_hooks(save, lambda x: x):
        soft_binned_loss(Z, torch.arange(n) % K, mode="classwise")
    assert sum(dict(saved).values()) < 8 * 4 * n * K


@needs_torch
def test_labels_and_weights_of_tensors_may_be_arrays_and_logits_one_column():
    f = torch.tensor([0.3, -2.0, 1.0], dtype=torch.float64, requires_grad=True)
    value = nll_loss(f, [1, 0, 0], sample_weight=np.array([1.0, 2.0, 0.5]))
    value.backward()
    expected = nll_loss(f.detach().numpy(), [1, 0, 0], sample_weight=[1, 2, 0.5])
    assert value.item() == pytest.approx(expected)
    residual = 1 / (1 + np.exp(-f.detach().numpy())) - [1, 0, 0]
    np.testing.assert_allclose(f.grad.numpy(), np.array([1, 2, 0.5]) / 3.5 * residual)


BROKEN = [
    [float("nan"), 0.0, 1.0],
    [0.0, 1.0, float("nan")],
    [float("inf"), 0.0, 1.0],
    [0.0, float("inf"), float("inf")],
    [-float("inf"), float("nan"), 0.0],
    [-float("inf"), 0.0, float("inf")],
    [-float("inf")] * 3,
]


@needs_torch
@every_loss
def test_what_training_broke_shows_in_the_loss(case):
    """One row of 40 that is no number makes a loss of NaN, and a gradient of NaN for that row."""
    settings = [("float64", 0, 1.0), ("float32", 1, 0.0), ("bfloat16", 2, 1.0), ("float16", 0, 1.0)]
    for row, (dtype, true, weight) in itertools.product(BROKEN, settings):
        Z, y, w = batch(3)
        Z[7], y[7], w[7] = row, true, weight
        value, gradient = by_autograd(case, Z, y, w, dtype)
        assert torch.isnan(value)
        assert torch.isnan(gradient[7]).all()


@needs_torch
@every_loss
def test_autocast_changes_nothing(case):
    """The loss and its gradient are those outside of autocast, to the last bit."""
    Z, y, w = batch(5, n=300)
    for dtype in ("float32", "float16", "float64"):
        expected, slope = by_autograd(case, Z, y, w, dtype)
        with torch.autocast("cpu", dtype=torch.bfloat16):
            value, gradient = by_autograd(case, Z, y, w, dtype)
        assert value.dtype == expected.dtype
        assert gradient.dtype == getattr(torch, dtype)
        assert value.item() == expected.item()
        assert torch.equal(gradient, slope)


@needs_torch
@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda Z: nll_loss(Z, [0, 3]), "y: 3 at row 1 .* of logits, 0 to 2; pass codes"),
        (lambda Z: nll_loss(Z, [0]), r"y must be integers of shape \(2,\)"),
        (lambda Z: nll_loss(Z, torch.tensor([0.0, 1.0])), r"y must be integers of shape \(2,\)"),
        (
            lambda Z: nll_loss(Z[None], [0, 1]),
            "logits has shape .1, 2, 3.: pass a row for each position, logits.movedim",
        ),
        (lambda Z: nll_loss(Z.int(), [0, 1]), "floating point numbers"),
        (lambda Z: nll_loss(Z, [0, 1], sample_weight=[1.0]), r"sample_weight.shape == \(1,\)"),
        (lambda Z: nll_loss(Z, [0, 1], sample_weight=[1.0, -1.0]), "non-negative"),
        (lambda Z: nll_loss(Z, [0, 1], sample_weight=[0.0, 0.0]), "not all zero"),
    ],
)
def test_what_tensors_cannot_mean_is_refused(make, message):
    refused(message, make, torch.zeros(2, 3))


@needs_torch
def test_a_missing_package_is_named_with_the_mend(monkeypatch):
    monkeypatch.setitem(sys.modules, "array_api_compat", None)
    with pytest.raises(ImportError, match=r"pip install 'skcalib\[torch\]'"):
        nll_loss(torch.zeros(2, 3), [0, 1])


def test_a_frame_named_in_another_order_is_refused():
    """The gradient has the order of the columns, so they are not moved."""
    Z = pd.DataFrame(np.zeros((3, 3)), columns=["z_2", "z_0", "z_1"])
    refused(r"column k must contain class k: reorder .* \[1, 2, 0\]", losses.nll_loss, Z, [0, 1, 2])
    assert losses.nll_loss(Z[["z_0", "z_1", "z_2"]], [0, 1, 2]) == pytest.approx(np.log(3))


@needs_torch
@pytest.mark.parametrize("weighted", [False, True])
def test_ignored_rows_and_costs_of_rows_are_those_of_torch(weighted):
    rng = np.random.default_rng(0)
    Z = torch.tensor(rng.normal(size=(50, 4)), requires_grad=True)
    y = torch.tensor(rng.integers(4, size=50))
    y[::7] = -100
    w = rng.random(50) if weighted else None
    cost = torch.nn.functional.cross_entropy(Z, y, reduction="none", ignore_index=-100)
    share = torch.ones(50, dtype=torch.float64) if w is None else torch.tensor(w)
    ours = nll_loss(Z, y, ignore_index=-100, reduction="none", sample_weight=w)
    torch.testing.assert_close(ours, share * cost)
    mean = nll_loss(Z, y, ignore_index=-100, sample_weight=w)
    torch.testing.assert_close(mean, (share * cost).sum() / share[y >= 0].sum())
    (gradient,) = torch.autograd.grad(mean, Z)
    assert not gradient[::7].any()
    refused("no row is left", nll_loss, Z, torch.full((50,), -100), ignore_index=-100)
