"""The table of regrets: its figures by hand, and a run on a small file."""

import numpy as np
import pytest

from benchmarks.arena import regret
from benchmarks.arena.regret import Run

pytestmark = pytest.mark.slow

NAMES = ["identity", "temperature", "auto"]


def run_of(family, held_out, test):
    """Return a run whose rows all have the same loss."""
    columns = np.array(held_out)[:, None] * np.ones(50)
    return Run(family, 50, NAMES, columns, np.zeros(3), np.array(test)[:, None] * np.ones(3))


def test_figures_of_the_table_are_those_by_hand():
    """Families weigh the same; the identity is chosen wrongly once, and auto does harm once."""
    runs = [
        run_of("a", [1.0, 0.9, 0.8], [1.0, 0.9, 0.8]),  # auto is the best
        run_of("a", [0.8, 0.9, 1.0], [1.0, 0.5, 0.8]),  # the identity is chosen: twice the best
        run_of("b", [1.0, 0.9, 0.8], [0.4, 0.5, 0.6]),  # auto is half as much again
    ]
    first, *_, lowest, _, _, _ = regret.table(runs)[2:]
    cells = [cell.strip() for cell in first.strip("|").split("|")][1:]
    # n = 50, all, mnat, 95th, worst, chosen wrongly, harm
    assert cells == ["50.0", "50.0", "225.0", "100.0", "100.0", "25.0", "50.0"]
    assert lowest.startswith("| lowest held-out loss | 50.0 |")


def test_a_file_is_run_once_and_its_page_written(tmp_path, monkeypatch, capsys):
    """Held-out losses are those of rows not fitted on; a second call fits nothing."""
    rng = np.random.default_rng(0)
    labels = rng.integers(2, size=600)
    logits = 3 * (rng.normal(size=(600, 2)) + np.eye(2)[labels])
    np.savez(tmp_path / "made_logits.npz", logits=logits, labels=labels)
    arguments = [str(tmp_path / "made_logits.npz"), "--data", "made_logits", "--n", "60", "400"]
    arguments += ["--cache", str(tmp_path / "runs"), "--page", str(tmp_path / "page.md")]
    regret.main(arguments)
    first = (tmp_path / "page.md").read_text()
    assert "1 runs on 1 sets" in first  # 400 rows would leave too few to measure on
    with np.load(tmp_path / "runs" / "made_logits-60-0.npz") as run:
        both = np.concatenate([run["held_out"][0], run["test"][0]])
    # The identity's losses need no fit: together they are those of all rows, in some order.
    P = np.exp(logits - logits.max(axis=1, keepdims=True))
    losses = -np.log(P[np.arange(600), labels] / P.sum(axis=1))
    np.testing.assert_allclose(np.sort(both), np.sort(losses), rtol=1e-5, atol=1e-7)
    monkeypatch.setattr(regret, "calibrators_by_name", dict)  # a run would have no calibrator
    regret.main(arguments)
    assert (tmp_path / "page.md").read_text() == first
    capsys.readouterr()
