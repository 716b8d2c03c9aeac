"""Displays are drawn without a screen, and every figure is closed after its test."""

import pytest


@pytest.fixture(autouse=True)
def closed_figures():
    """Draw by Agg; close what a test has opened."""
    plt = pytest.importorskip("matplotlib.pyplot", reason="displays need the extra plot")
    plt.switch_backend("Agg")
    yield
    plt.close("all")
