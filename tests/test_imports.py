"""The house has floors: a file stands on the floors below its own."""

import ast
import re
import subprocess
import sys
from pathlib import Path

import pytest

import skcalib

ROOT = Path(skcalib.__file__).parent

# What the plan of the house fixes; any other file says its floor in the first line of its
# docstring ("Floor 1: ..."), and a file in a package has the package's floor.
FLOORS = {
    "_inputs": 0,
    "_simplex": 0,
    "_blocks": 0,
    "_plain": 0,
    "_binning": 1,
    "_one_vs_rest": 1,
    "_reductions": 1,
    "_objectives": 1,
    "_affine": 1,
    "_responses": 1,
    "_soft_binning": 1,
    "_uncertainty": 1,
    "_kernel_mean": 1,
    "_fitted": 1,
    "_base": 2,
    "calibrators": 3,
    "metrics": 3,
    "losses": 3,
    "_calibrated_classifier": 4,
    "_classifier_scores": 4,
    "_compare": 4,
    "plotting": 4,
    "_storage": 4,
    "_stored": 4,
    "extending": 4,
    "testing": 4,
    "__main__": 5,
    "__init__": 5,
}
PACKAGES = {"calibrators", "metrics", "plotting", "testing"}
LATE_ONLY = {"matplotlib", "torch", "array_api_compat", "polars", "tqdm", "pyarrow"}


def dotted(path: Path) -> str:
    return ".".join(path.relative_to(ROOT).with_suffix("").parts)


FILES = {dotted(path): path for path in sorted(ROOT.rglob("*.py"))}


def said_floor(file: str) -> int | None:
    said = re.match(r"Floor (\d): ", ast.get_docstring(ast.parse(FILES[file].read_text())) or "")
    return int(said[1]) if said else None


for file in FILES:
    if "." not in file and file not in FLOORS and said_floor(file) is not None:
        FLOORS[file] = said_floor(file)


def imported_names(path: Path) -> list[tuple[str, str]]:
    """(module below skcalib, name) of every import in a file, those in functions too."""
    found = []
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.ImportFrom) and node.module and node.module.startswith("skcalib"):
            module = node.module.removeprefix("skcalib").lstrip(".")
            found += [(module or "__init__", alias.name) for alias in node.names]
        elif isinstance(node, ast.ImportFrom) and node.level:
            raise AssertionError(f"{path.name}: relative import; write it in full")
        elif isinstance(node, ast.Import):
            found += [
                (alias.name.removeprefix("skcalib").lstrip(".") or "__init__", "")
                for alias in node.names
                if alias.name.split(".")[0] == "skcalib"
            ]
    return found


def violations(file: str, imports: list[tuple[str, str]]) -> list[str]:
    own = file.split(".")[0]
    wrong = []
    for module, name in imports:
        other = module.split(".")[0]
        if other not in FLOORS:
            wrong.append(f"{module} has no floor")
        elif FLOORS[other] > FLOORS[own]:
            wrong.append(f"imports {module}, a floor above")
        elif FLOORS[other] == FLOORS[own]:
            if other != own and PACKAGES & {own, other}:
                wrong.append(f"imports {module}, beside it")
            elif name.startswith("_"):
                wrong.append(f"imports {name}, private to {module} on its own floor")
    return wrong


@pytest.mark.parametrize("file", FILES)
def test_every_file_has_a_floor(file):
    assert file.split(".")[0] in FLOORS


@pytest.mark.parametrize("file", [f for f in FILES if "." not in f and not f.startswith("__")])
def test_a_file_says_the_floor_it_stands_on(file):
    assert said_floor(file) == FLOORS[file]


@pytest.mark.parametrize("file", FILES)
def test_a_file_imports_only_from_below(file):
    assert violations(file, imported_names(FILES[file])) == []


def test_no_two_files_import_each_other():
    """Files of one floor may share public names, but never in a circle."""
    graph = {
        file: {module for module, _ in imported_names(path) if module in FILES}
        for file, path in FILES.items()
    }
    done: set[str] = set()

    def visit(file: str, path: tuple[str, ...]) -> None:
        assert file not in path, f"circle: {' -> '.join((*path, file))}"
        if file not in done:
            for module in graph[file]:
                visit(module, (*path, file))
            done.add(file)

    for file in graph:
        visit(file, ())


@pytest.mark.parametrize(
    ("file", "imports"),
    [
        ("calibrators._identity", [("metrics", "reliability_table")]),
        ("metrics._ks", [("calibrators", "SplineCalibrator")]),
        ("_binning", [("_base", "ScoreCalibrator")]),
        ("_inputs", [("_simplex", "_top_and_total")]),
        ("_inputs", [("_unheard_of", "f")]),
        ("_compare", [("plotting", "KSDisplay")]),
    ],
)
def test_the_rule_sees_a_breach(file, imports):
    assert violations(file, imports)


def test_the_rule_allows_public_names_of_the_same_floor_and_anything_below():
    assert violations("_inputs", [("_simplex", "Kind")]) == []
    assert violations("calibrators._matrix", [("calibrators._temperature", "f")]) == []
    assert violations("_compare", [("metrics", "SCORERS"), ("calibrators", "x")]) == []


@pytest.mark.parametrize("file", FILES)
def test_optional_packages_are_imported_late(file):
    """Plotting and tensor libraries are loaded only by the function that needs them."""
    for node in ast.parse(FILES[file].read_text()).body:
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            names = [node.module or ""]
        else:
            continue
        assert not {name.split(".")[0] for name in names} & LATE_ONLY


def test_importing_the_package_loads_no_optional_package():
    code = (
        "import sys, skcalib; print(sorted(set(sys.modules) & {'matplotlib', 'torch', 'polars'}))"
    )
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert run.stdout.strip() == "[]"
