"""scikit-learn's tests on the classes of skcalib."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


@pytest.mark.slow
def test_only_what_the_page_lists_differs():
    command = [sys.executable, "-m", "benchmarks.peers.suites"]
    run = subprocess.run(
        command, cwd=ROOT, env=os.environ | {"SCIPY_ARRAY_API": "1"}, text=True, capture_output=True
    )
    assert run.returncode == 0, run.stdout[-3000:]
