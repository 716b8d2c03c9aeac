"""Every test of the command line has a directory of its own."""

import math

import pytest


@pytest.fixture(autouse=True)
def _in_an_empty_directory(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)


@pytest.fixture(autouse=True)
def _without_lines_of_progress(monkeypatch):
    """What a command writes on stderr does not depend on how long it takes."""
    monkeypatch.setattr("skcalib._cli.measured.PAUSE", math.inf)


@pytest.fixture
def few_errors(monkeypatch):
    """Let `measure` give three errors, whose intervals take milliseconds."""
    names = ("expected_calibration_error", "static_calibration_error", "ks_calibration_error")
    few = [f"neg_{name}" for name in names]
    monkeypatch.setattr("skcalib._cli.measured.MEASURED", few)
