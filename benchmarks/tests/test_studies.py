"""The studies run on small settings, and print numbers that must hold."""

import importlib
import sys
from pathlib import Path

import numpy as np
import pytest
from scipy.special import softmax

from skcalib.metrics import expected_calibration_error

# The benchmarks are not installed; last, so that it is the installed package that is tested.
sys.path.append(str(Path(__file__).parents[2]))

from benchmarks.studies._data import load_scores
from benchmarks.studies._nixon import mean_rank_correlation

pytestmark = pytest.mark.slow


def run(name, *arguments):
    """Run a study's main and return what it returns."""
    return importlib.import_module(f"benchmarks.studies.{name}").main(arguments)


@pytest.fixture(scope="module")
def saved(tmp_path_factory):
    """A file of logits twice too large of 4 classes, with a split."""
    rng = np.random.default_rng(0)
    Z = rng.normal(size=(1200, 4))
    y = (Z + rng.gumbel(size=Z.shape)).argmax(axis=1)
    path = tmp_path_factory.mktemp("scores") / "scores.npz"
    np.savez(path, logits=2 * Z, labels=np.array(list("abcd"))[y], split=np.arange(1200) % 3 // 2)
    return str(path)


def test_pathology_of_one_bin(capsys):
    """In closed form: ECE of one bin .003, the true error .465, KS .45 x .52."""
    errors = run("pathology")
    assert errors["true error"] == pytest.approx(0.465)
    assert errors["ECE, 10 even bins (the paper's)"] == pytest.approx(0.003)
    assert errors["ECE, 10 adaptive bins"] == pytest.approx(0.465)
    assert errors["ECE_lb, 10 even bins"] == pytest.approx(0.03)
    assert errors["KS"] == pytest.approx(0.45 * 0.52)
    assert "0.0030" in capsys.readouterr().out


def test_rank_order_of_a_file(saved, capsys):
    """With 4 classes a threshold of .01 cannot touch the largest probability: equal pairs."""
    errors, correlation = run("rank_order", saved, "--bins", "5")
    assert errors.shape == (32, 8)
    for first in (0, 1, 4, 5, 16, 17, 20, 21):
        np.testing.assert_array_equal(errors.loc[first], errors.loc[first + 2])
    assert list(correlation) == ["calibrators"]
    assert correlation.abs().to_numpy().max() <= 1
    assert capsys.readouterr().out.count("uniform") == 16


def test_rank_order_of_networks(capsys):
    """On digits the networks are ranked too."""
    _, correlation = run("rank_order", "--models", "3")
    assert list(correlation) == ["calibrators", "networks"]
    assert correlation.notna().all(axis=None)


def test_mean_rank_correlation_of_one_order():
    """Where all metrics agree it is 1; with half reversed, the balance of pairs."""
    errors = np.tile(np.arange(6.0), (32, 1)) * np.arange(1, 33)[:, None]
    np.testing.assert_allclose(mean_rank_correlation(errors), 1)
    errors[16:] *= -1  # the adaptive ones
    agreement = mean_rank_correlation(errors)
    np.testing.assert_allclose(agreement[["even bins", "adaptive bins"]], 1)
    # 2 C(16, 2) = 240 pairs agree, 256 do not.
    assert agreement["all 32"] == pytest.approx((240 - 256) / 496)
    assert agreement["L1 norm"] == pytest.approx((56 - 64) / 120)


def test_bins_of_a_file(saved, capsys):
    """The same number of bins twice gives the same orders."""
    table = run("bins", saved, "--bins", "5", "5")
    np.testing.assert_allclose(table["here"], 1)


def test_histogram_binning_mends(saved, capsys):
    """Logits twice too large: both forms have less error than none."""
    mean = run("histogram", saved, "--repeats", "2", "--bins", "5")
    assert (mean[["joint", "class-conditional"]].lt(mean["uncalibrated"], axis=0)).all(axis=None)
    assert "joint / uncalibrated" in capsys.readouterr().out


def test_temperature_of_metrics(saved, capsys):
    """Logits twice too large: T = 2 by log loss, and near it by ECE."""
    by_metric, by_property = run("temperature", saved, "--bins", "5", "--metrics", "4", "24")
    assert by_metric.temperature["nll"] == pytest.approx(2, rel=0.15)
    assert by_metric.temperature[4] == pytest.approx(2, rel=0.3)
    # The temperature for ECE has the lesser ECE on the rows that it was fitted to.
    scores = load_scores(saved)
    ece = {
        name: expected_calibration_error(
            scores.fit_labels,
            softmax(scores.fit_logits / by_metric.temperature[name], axis=1),
            n_bins=5,
        )
        for name in ("nll", 4)
    }
    assert ece[4] < ece["nll"]
    # Of the two metrics only ECE looks at the largest probability alone.
    assert by_property.ECE["max probs"] == by_metric.ECE[4]
    assert by_property.ECE["adaptive bins"] == by_metric.ECE[24]


def test_bias_falls_with_rows(capsys):
    """Calibrated: limits are 0, the bias of ECE falls about as 1 / sqrt(n), Brier has none."""
    table = run(
        "bias_variance",
        *("--rows", "100", "900", "--samples", "20", "--sharpening", "1"),
        *("--errors", "ECE", "top-label Brier"),
    )
    ece = table[table.error == "ECE"].set_index("n")
    assert (ece.limit == 0).all()
    assert ece.bias[100] / ece.bias[900] == pytest.approx(3, rel=0.25)
    brier = table[table.error == "top-label Brier"]
    assert (brier.bias.abs() < 4 * brier.sd / np.sqrt(20)).all()


def test_label_noise_hides_from_ece(capsys):
    """SCE follows the error of all classes; ECE that of the top label, ever less of the former."""
    simulated, real = run(
        "label_noise", "--samples", "5000", "--x", "0.2", "2", "--noise", "0", "0.5"
    )
    np.testing.assert_allclose(simulated["ECE"], simulated["truth, top"], rtol=0.15)
    np.testing.assert_allclose(simulated["SCE"], simulated["truth, all"], rtol=0.15)
    share = simulated["ECE"] / simulated["truth, all"]
    assert share[2.0] < 0.75 < share[0.2]
    assert real.missed[0.5] > real.missed[0.0]


def test_per_class_mean_is_the_whole(saved, capsys):
    """The mean over classes is the scalar error, and temperature scaling lessens it."""
    by_class, summary = run("per_class", saved, "--resamples", "20")
    assert by_class.shape == (4, 6)
    np.testing.assert_allclose(by_class.mean(), summary["mean"])
    assert summary["mean"]["SCE, after T"] < summary["mean"]["SCE, before"]
    assert summary["p"].dropna().between(1 / 21, 1).all()


@pytest.mark.parametrize("file", [True, False])
def test_spline_closes_the_ks_graphs(file, saved, capsys):
    """The KS error falls on both parts, the accuracy stays."""
    table = run("ks_graphs", *[saved] * file)
    for part in ("calibration", "test"):
        assert table.KS[f"{part}, after"] < 0.5 * table.KS[f"{part}, before"]
        assert table.accuracy[f"{part}, after"] == table.accuracy[f"{part}, before"]


def test_post_processing_of_files(saved, capsys):
    """Logits twice too large: every map lessens every error; the paper's rows stand below."""
    tables = run("post_processing", saved, saved, "--bins", "5")
    names = ["ResNet-110 on CIFAR-100 (Table 1)", "ResNet-50 on ImageNet (Table 2)"]
    assert list(tables) == [saved, *(f"{name}, published" for name in names)]
    found = tables[saved]
    assert list(found) == ["ECE", "TACE", "SCE", "ACE"]
    assert found.lt(found.loc["uncalibrated"]).iloc[1:].all(axis=None)
    published = tables["ResNet-110 on CIFAR-100 (Table 1), published"]
    assert published.loc["vector"].tolist() == [2.272, 0.613, 0.037, 0.0133]
    out = capsys.readouterr().out
    assert "least: ECE temperature, TACE temperature, SCE vector, ACE vector" in out
    scores = load_scores(saved)
    ece = expected_calibration_error(
        scores.test_labels, softmax(scores.test_logits, axis=1), n_bins=5
    )
    assert found.ECE["uncalibrated"] == pytest.approx(100 * ece)


def test_temperatures_under_a_shift(capsys):
    """Turned digits are recognised less and the error grows; a turn of 0 is none."""
    table, runs = run("shift", "--seeds", "2")
    for shift in ("rotation", "noise"):
        accuracy, error = table.loc[shift]["accuracy"], table.loc[shift]["TS"]
        assert accuracy.is_monotonic_decreasing
        assert error.iloc[-1] > 3 * error.iloc[0]
    np.testing.assert_array_equal(table.loc["rotation"].iloc[0], table.loc["noise"].iloc[0])
    assert (table["TS"] < table["uncalibrated"]).all()
    better = runs.groupby(["shift", "level"])["better"].mean().sort_index()
    np.testing.assert_array_equal(better, table["better"].sort_index())


def test_likelihood_over_fits_before_the_error_does(capsys):
    """After the least NLL of test rows it rises, training rows are known by heart."""
    table, change = run(
        "overfitting", "--seeds", "1", "--train-size", "200", "--epochs", "1", "80", "120", "250"
    )
    assert change["mean"]["NLL, test"] > 0
    assert change["mean"]["entropy, test"] < 0
    assert table["error, train"][250] == 0
    assert table["ECE, train"][250] < 0.01 < table["ECE, test"][250]
    assert table["error, test"][250] < table["error, test"][1]


def test_entropy_of_trainings(capsys):
    """Focal loss leaves more entropy than likelihood, and soft-binned error less error."""
    table = run("entropy", "--seeds", "1", "--trainings", "focal", "NLL + SB-ECE")
    assert set(table.index) == {"NLL", "focal", "NLL + SB-ECE"}
    assert table["entropy"].is_monotonic_increasing
    assert table.entropy["focal"] > 1.2 * table.entropy["NLL"]
    assert table.ECE["NLL + SB-ECE"] < 0.75 * table.ECE["NLL"]
    assert "Less of both than by likelihood:" in capsys.readouterr().out


@pytest.mark.parametrize(
    "name", ["pathology", "histogram", "per_class", "ks_graphs", "post_processing", "overfitting"]
)
def test_figures_are_saved(name, saved, tmp_path, capsys):
    """``--figure`` writes a picture."""
    pytest.importorskip("matplotlib", reason="figures need the extra plot")
    file = tmp_path / "figure.png"
    options = {
        "histogram": ["--repeats", "1"],
        "per_class": ["--resamples", "5"],
        "overfitting": ["--seeds", "1", "--epochs", "1", "2"],
    }
    path = [] if name in {"pathology", "overfitting"} else [saved]
    run(name, *path, *options.get(name, []), "--figure", str(file))
    assert file.read_bytes().startswith(b"\x89PNG")


def test_files_are_read_as_promised(tmp_path):
    """Probabilities, one column, words as labels, no split; a stray label is refused."""
    path = str(tmp_path / "one.npz")
    p = np.array([0.0, 0.25, 0.5, 1.0])
    np.savez(path, probs=p, labels=np.array(["no", "yes", "no", "yes"]))
    scores = load_scores(path)
    Z = np.vstack([scores.fit_logits, scores.test_logits])
    np.testing.assert_allclose(np.sort(np.exp(Z)[:, 1]), np.maximum(p, 1e-12))
    assert sorted(np.concatenate([scores.fit_labels, scores.test_labels])) == [0, 0, 1, 1]
    np.savez(path, logits=np.zeros((4, 3)), labels=np.array([0, 1, 3, 5]))
    with pytest.raises(ValueError, match="labels that are not of its 3 columns"):
        load_scores(path)
    np.savez(path, labels=p)
    with pytest.raises(ValueError, match="needs labels and logits or probs"):
        load_scores(path)


def test_groups(capsys):
    """Groups that differ are calibrated best by both, equal ones by the common map."""
    known, real = run("groups", "--seeds", "2", "--sizes", "20")
    table = known.groupby("strength")[["one map", "own maps", "groupwise"]].mean()
    assert table.loc[0.5].idxmin() == table.loc[1.0].idxmin() == "groupwise"
    assert (
        table.loc[0.0, "groupwise"] < 1.5 * table.loc[0.0, "one map"] < table.loc[0.0, "own maps"]
    )
    assert "diabetes" in real.index.get_level_values("set")
    assert "Real data" in capsys.readouterr().out
