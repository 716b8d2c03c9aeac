"""Published numbers are computed again from files of logits."""

import pickle
import re
from pathlib import Path

import numpy as np
import pytest

from benchmarks.studies import published
from benchmarks.studies.published import PUBLISHED

pytestmark = pytest.mark.slow


@pytest.fixture
def two_files(tmp_path, monkeypatch):
    """The same logits as an .npz and as a file of Kull et al., named as that of a DenseNet-40.

    The grid has one pair of penalties.
    """
    monkeypatch.setattr(published, "kull_grid", lambda K: {"reg_lambda": [0.5], "reg_mu": [0.25]})
    rng = np.random.default_rng(0)
    labels = rng.integers(3, size=600)
    logits = 3 * (rng.normal(size=(600, 3)) + 1.5 * np.eye(3)[labels])
    split = np.repeat([0, 1], 300)
    np.savez(tmp_path / "saved.npz", logits=logits, labels=labels, split=split)
    pairs = tuple((logits[split == part], labels[split == part][:, None]) for part in (0, 1))
    theirs = tmp_path / "probs_densenet40_c10_logits.p"
    theirs.write_bytes(pickle.dumps(pairs, protocol=3))
    return tmp_path / "saved.npz", theirs


def table_of(printed):
    """The cells of the first table of a page, by row and column."""
    lines = [line for line in printed.splitlines() if line.startswith("|")]
    heads, _, *rows = ([cell.strip() for cell in line.strip("|").split("|")] for line in lines)
    return {row[0]: dict(zip(heads[1:], row[1:], strict=True)) for row in rows}


def test_published_numbers_stand_beside_those_of_any_file(two_files, capsys):
    """A file of Kull et al. names its network; an .npz has no published numbers unless told."""
    ours, theirs = two_files
    published.main([str(theirs)])
    beside = table_of(capsys.readouterr().out)
    published.main([str(ours)])
    alone = table_of(capsys.readouterr().out)
    published.main([str(ours), "--network", "densenet40_c10"])
    assert table_of(capsys.readouterr().out) == beside
    top = beside["KS error top-1 (Table 1)"]
    printed = ("5.493", "0.900", "0.890", "0.897", "1.057", "0.773")  # Gupta et al., Table 1
    measured = alone["KS error top-1 (Table 1)"].values()
    for cell, number, ours in zip(top.values(), printed, measured, strict=True):
        assert cell == f"{number} / {ours}"
    stored = PUBLISHED.loc["densenet40_c10", "MS-ODIR"]
    assert stored[1:4].tolist() == [0.598, 0.395, 1.250]


def test_measured_numbers_of_the_published_table_are_of_the_test_rows(two_files, capsys):
    """The uncalibrated KS error and accuracy, in loops over sorted rows."""
    with np.load(two_files[0]) as data:
        Z, y = data["logits"][300:], data["labels"][300:]
    P = np.exp(Z) / np.exp(Z).sum(axis=1, keepdims=True)
    score, hit = P.max(axis=1), P.argmax(axis=1) == y
    gap = largest = 0.0
    for i in sorted(range(300), key=lambda i: score[i]):
        gap += (score[i] - hit[i]) / 300
        largest = max(largest, abs(gap))
    published.main([str(two_files[0])])
    rows = table_of(capsys.readouterr().out)
    expected = {"KS error top-1 (Table 1)": largest, "accuracy (Table 5)": sum(hit) / 300}
    for name, value in expected.items():
        assert float(rows[name]["uncalibrated"]) == pytest.approx(100 * value, abs=6e-4)


def test_penalties_are_tuned_over_the_grid_and_printed_as_the_paper_writes_them(two_files, capsys):
    """Three columns of an ODIR method; lambda is times K (K - 1), mu times K in the paper."""
    published.main([str(two_files[1])])
    printed = capsys.readouterr().out
    assert re.search(r"^\* T: [23]\.\d{4}$", printed, re.M)
    assert "MS-ODIR: reg_lambda=0.5, reg_mu=0.25; as the paper writes it 3 and 0.75" in printed
    for row in table_of(printed).values():
        cells = row["MS-ODIR: published / tuned / default"].split(" / ")
        assert len(cells) == 3
        assert cells[1] != cells[2]


def test_published_numbers_of_all_networks_are_whole_tables():
    """13 networks, five tables, six methods, all in per cent."""
    assert len(published.NETWORKS) == 13
    names = [row.name for row in published.ROWS]
    for network in published.NETWORKS:
        tables = PUBLISHED.loc[network]
        assert list(tables.index) == names
        assert tables[:4].gt(0).all(axis=None)
        assert tables[:4].lt(25).all(axis=None)
        assert tables.loc["accuracy (Table 5)"].between(33, 99).all()


def test_the_page_is_of_the_form_that_the_program_writes():
    """Its rows, and an accuracy that temperature scaling leaves as published."""
    text = (Path(__file__).parents[1] / "README.md").read_text()
    rows = table_of(text.split("<!-- published -->")[1].split("<!-- end of")[0])
    assert list(rows) == [row.name for row in published.ROWS]
    accuracy = rows["accuracy (Table 5)"]["temperature"].split(" / ")
    assert accuracy[0] == accuracy[1] == "93.560"


def test_a_pickle_that_asks_for_more_than_arrays_is_refused(tmp_path):
    """Nothing of it is executed."""
    path = tmp_path / "probs_lenet5_c10_logits.p"
    path.write_bytes(pickle.dumps((Path, np.arange(3))))
    with pytest.raises(pickle.UnpicklingError, match="arrays alone are read"):
        published.main([str(path)])
