"""One thread a process: the arrays are small, and two workers on two cores would only get in each
other's way. How many inputs the property tests try, and what is left out without PyTorch.
"""

import importlib.util
import os

# Read once, when the numerical libraries are first imported: after this file.
for name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS"):
    os.environ.setdefault(name, "1")

import pytest  # noqa: E402
from hypothesis import HealthCheck, Phase, settings  # noqa: E402

# The same inputs in every run of the suite; others, and many more, with
# --hypothesis-profile=many.
COMMON = {
    "deadline": None,
    "phases": [Phase.explicit, Phase.reuse, Phase.generate, Phase.shrink],
    "suppress_health_check": list(HealthCheck),
}
settings.register_profile("suite", max_examples=3, derandomize=True, database=None, **COMMON)
settings.register_profile("many", max_examples=300, print_blob=True, **COMMON)
settings.load_profile("suite")

HAS_TORCH = importlib.util.find_spec("torch") is not None
OF_TORCH = ["arrays/test_device.py", "arrays/test_tensors.py", "export/test_torch.py"]
collect_ignore = [] if HAS_TORCH else OF_TORCH


def pytest_report_header():
    """Say that tests of tensors are left out."""
    return [] if HAS_TORCH else "PyTorch is not installed: tests of tensors are not collected"


def pytest_collection_modifyitems(items):
    """Leave out tests of tensors where PyTorch is not installed."""
    items[:] = [item for item in items if HAS_TORCH or not item.get_closest_marker("torch")]


@pytest.fixture
def small_blocks(monkeypatch):
    """Let passes read blocks of `n_rows` rows."""
    # Here, because of several processes the first reads this file and runs no test.
    from skcalib._arrays.rowwise import row_blocks

    def limit(n_rows):
        monkeypatch.setattr(
            "skcalib._arrays.sources.row_blocks",
            lambda n, n_columns, _bytes: row_blocks(n, n_columns, 8 * n_columns * n_rows),
        )

    return limit


@pytest.fixture
def small_disk():
    """A disk on which no file is larger than 100 bytes."""
    resource = pytest.importorskip("resource", reason="Windows has no such limits")
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (100, before[1]))
    yield
    resource.setrlimit(resource.RLIMIT_FSIZE, before)


@pytest.fixture
def closed_figures():
    """Draw without a screen; close what a test has opened."""
    plt = pytest.importorskip("matplotlib.pyplot", reason="displays need the extra plot")
    plt.close("all")
    plt.switch_backend("Agg")
    yield
    plt.close("all")


@pytest.fixture
def few_label_sets(monkeypatch):
    """Simulate intervals of errors and gains roughly, where their ends are not asked about."""
    monkeypatch.setattr("skcalib.metrics._intervals.gains.N_SETS", [10] * 20)
    for name, few in (("NULL_SETS", 20), ("Q_SETS", 10), ("SETS", 4)):
        monkeypatch.setattr(f"skcalib.metrics._intervals.interval.{name}", few)
