"""Optional packages are imported late; import-linter checks the order of the folders."""

import ast
import subprocess
import sys
from pathlib import Path

import skcalib

ROOT = Path(skcalib.__file__).parent
LATE_ONLY = {
    *("dask", "distributed", "cloudpickle"),
    *("matplotlib", "torch", "array_api_compat", "polars", "pyarrow", "onnx", "skl2onnx"),
}
# Files that stand on such a package as a whole, and are imported late themselves.
LATE = {
    "_arrays/torch_columns.py",
    "_arrays/torch_rows.py",
    *(
        "_export/onnx_operations.py",
        "_export/sklearn_graph.py",
        "_export/torch_module.py",
        "_maps/torch_operations.py",
    ),
}


def imported(node):
    """Return the top-level packages that a statement imports."""
    if isinstance(node, ast.Import):
        return {alias.name.split(".")[0] for alias in node.names}
    return {(node.module or "").split(".")[0]} if isinstance(node, ast.ImportFrom) else set()


def test_optional_packages_are_imported_late():
    """Plotting and tensor libraries are loaded only by the function that needs them."""
    early = [
        (path.relative_to(ROOT).as_posix(), package)
        for path in sorted(ROOT.rglob("*.py"))
        for node in ast.parse(path.read_text()).body
        for package in imported(node) & LATE_ONLY
    ]
    assert [pair for pair in early if pair[0] not in LATE] == []


def test_the_package_and_a_loss_of_arrays_load_no_optional_package():
    code = (
        "import sys, skcalib.losses as L; L.nll_loss([[0., 1.]], [0]);"
        "unwanted = {'matplotlib', 'torch', 'array_api_compat', 'polars', 'onnx', 'dask'};"
        "print(sorted(set(sys.modules) & unwanted))"
    )
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert run.stdout.strip() == "[]"
