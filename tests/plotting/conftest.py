"""Displays are drawn without a screen, and every figure is closed after its test."""

import pytest


@pytest.fixture(autouse=True)
def every_figure_closed(closed_figures):
    """For all tests of this folder."""
