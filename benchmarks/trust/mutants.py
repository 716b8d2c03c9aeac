"""Would the tests see it if the numerical core were wrong? Break it on purpose, a place at a time.

``python -m benchmarks.trust.mutants`` changes one operator, comparison, constant, boolean or call
in a copy of the tree, runs the tests of that file on it, and writes to ``figures/mutants.json``
whether they failed, as they should. A sample of each file's mutants is drawn by seed; a run that is
broken off goes on where it stopped, and begins a file anew that has changed since. ``--survivors``
tries those again that no test saw. What has been read of a survivor stands under "examined" in the
same file: why it changes no number, or which test now sees it.
"""

from __future__ import annotations

import argparse
import ast
import contextlib
import hashlib
import json
import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

ROOT = Path(__file__).parents[2]
RESULTS = Path(__file__).parent / "figures" / "mutants.json"
CORE = (
    *("_arrays", "_scores", "_scaling", "_binning", "_differentiable"),
    *("calibrators", "calibrators/_auto", "calibrators/_spline", "metrics"),
)
SCALING = ("calibrators/test_scaling", "scaling/test_affine", "scaling/test_affine_nll")
BINNED = ("metrics/test_binned", "binning/test_bins")
MODES = ("metrics/test_modes",)
AUTO = ("calibrators/test_evidence", "calibrators/test_auto")
# Files of tests that exercise a file of the core, those that see most first. A file that is not
# here is tested by the file of its own name; the record of numbers comes last for each.
TESTS: dict[str, tuple[str, ...]] = {
    "_arrays/threads": ("arrays/test_blocks",),
    "_arrays/rowwise": ("scores/test_simplex", "calibrators/test_scaling"),
    "_scores/softmax": ("scores/test_simplex", "calibrators/test_scaling"),
    "_scores/scores": ("scores/test_simplex", "validation/test_inputs", "calibrators/test_scaling"),
    "_scores/top_label": ("metrics/test_binned", "metrics/test_ks", *MODES),
    "_binning/bins": BINNED,
    "_binning/tables": BINNED,
    "_binning/quantiles": BINNED,
    "_arrays/precision": ("binning/test_precision", "arrays/test_dask"),
    "_binning/edges": ("binning/test_precision", "binning/test_bins"),
    "_binning/pooled": ("binning/test_pooled", "binning/test_bins"),
    "_scaling/affine": SCALING,
    "_scaling/temperature": SCALING,
    "_scaling/root": SCALING,
    "_scaling/affine_nll": ("scaling/test_affine_nll", "scaling/test_affine", SCALING[0]),
    "_scaling/newton": SCALING,
    "_scaling/bfgs": ("scaling/test_bfgs", "scaling/test_affine"),
    "_scaling/logistic": (
        "scaling/test_logistic",
        "calibrators/test_platt",
        "calibrators/test_beta",
    ),
    "_differentiable/mmce": ("metrics/test_mmce", "losses/test_losses"),
    "_differentiable/avuc": ("metrics/test_avuc", "losses/test_losses"),
    "calibrators/_auto/nll": AUTO,
    "calibrators/_auto/features": AUTO,
    "calibrators/_auto/evidence": AUTO,
    "calibrators/_auto/calibrator": AUTO,
    "calibrators/_auto/order_preserving": AUTO[::-1],
    "calibrators/_spline/calibrator": ("calibrators/test_spline",),
    "calibrators/_spline/cumulative": ("calibrators/test_spline",),
    "calibrators/_spline/ranks": ("calibrators/test_spline",),
    "calibrators/_affine": SCALING,
    "calibrators/_identity": ("contract/test_contract", "calibrators/test_nonparametric"),
    "calibrators/_isotonic": ("calibrators/test_isotonic", "calibrators/test_nonparametric"),
    "calibrators/_histogram": ("calibrators/test_histogram", "calibrators/test_nonparametric"),
    "calibrators/_matrix": SCALING,
    "calibrators/_vector": SCALING,
    "calibrators/_temperature": (
        "calibrators/test_temperature_objectives",
        "calibrators/test_scaling",
    ),
    "metrics/_binned": BINNED,
    "metrics/_classwise": BINNED,
    "metrics/_top_label": BINNED,
    "metrics/_reliability_table": BINNED,
    "metrics/_binary_view": ("metrics/test_ks", "metrics/test_binned", "metrics/test_local"),
    "metrics/_brier": ("metrics/test_avuc", "metrics/test_modes", "metrics/test_binned"),
    "metrics/_resampling": ("metrics/test_bootstrap", "metrics/test_significance"),
    "metrics/_smoothing": ("metrics/test_smooth", "metrics/test_kde"),
    "metrics/_label_binned": ("metrics/test_label_binned", *MODES),
    "metrics/_soft_binned": ("metrics/test_soft_binned", *MODES),
    "metrics/_debiased": ("metrics/test_debiased", *MODES),
    "metrics/_sweep": ("metrics/test_sweep", *MODES),
    "metrics/_smooth": ("metrics/test_smooth", *MODES),
    "metrics/_kde": ("metrics/test_kde", *MODES),
    "metrics/_mmce": ("metrics/test_mmce", *MODES),
}
LAST = ("record/test_record",)
# Where there is no such file: what every calibrator and metric must keep.
ANY = ("contract/test_contract",)

ARITHMETIC = {
    ast.Add: ast.Sub,
    ast.Sub: ast.Add,
    ast.Mult: ast.Div,
    ast.Div: ast.Mult,
    ast.FloorDiv: ast.Div,
    ast.Pow: ast.Mult,
}
COMPARISONS = {
    ast.Lt: ast.LtE,
    ast.LtE: ast.Lt,
    ast.Gt: ast.GtE,
    ast.GtE: ast.Gt,
    ast.Eq: ast.NotEq,
    ast.NotEq: ast.Eq,
}
OPPOSITES = {
    "min": "max",
    "minimum": "maximum",
    "argmin": "argmax",
    "nanmin": "nanmax",
}
OPPOSITES |= {other: name for name, other in OPPOSITES.items()}
DROPPED = {"abs", "sqrt"}
# Nothing in these computes a number.
PASSED_OVER = (ast.Raise, ast.Import, ast.ImportFrom, ast.JoinedStr, ast.Assert)


class Mutant(NamedTuple):
    """One change: its name ``file:line:column:was -> is``, and the source with it."""

    name: str
    source: str


def copied(node: Any, **changes: Any) -> Any:
    """Return a node like this one but for some fields."""
    fields = {field: getattr(node, field) for field in node._fields}
    return type(node)(**{**fields, **changes})


def changes_of(node: ast.AST) -> Iterator[ast.AST]:
    """Yield what a node may be changed into."""
    if isinstance(node, ast.BinOp | ast.AugAssign) and type(node.op) in ARITHMETIC:
        yield copied(node, op=ARITHMETIC[type(node.op)]())
    if isinstance(node, ast.AugAssign):
        yield ast.Pass()
    if isinstance(node, ast.Compare) and type(node.ops[0]) in COMPARISONS:
        yield copied(node, ops=[COMPARISONS[type(node.ops[0])](), *node.ops[1:]])
    if isinstance(node, ast.Constant) and isinstance(node.value, bool):
        yield ast.Constant(not node.value)
    elif isinstance(node, ast.Constant) and isinstance(node.value, int | float):
        others = [node.value + 1, node.value - 1, node.value * 2]
        yield from map(ast.Constant, {other: 0 for other in others if other != node.value})
    if isinstance(node, ast.BoolOp):
        yield copied(node, op=ast.Or() if isinstance(node.op, ast.And) else ast.And())
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not | ast.USub):
        yield node.operand
    if isinstance(node, ast.Call):
        function = node.func
        name = getattr(function, "attr", getattr(function, "id", None))
        if name in OPPOSITES:
            field = "attr" if isinstance(function, ast.Attribute) else "id"
            yield copied(node, func=copied(function, **{field: OPPOSITES[name]}))
        elif name in DROPPED and len(node.args) == 1 and not node.keywords:
            yield node.args[0]


def places(node: ast.AST) -> Iterator[ast.AST]:
    """Yield the nodes below one that compute: no types, docstrings, messages or imports."""
    for field, value in ast.iter_fields(node):
        if field in {"annotation", "returns", "decorator_list", "type_params"}:
            continue
        for child in value if isinstance(value, list) else [value]:
            if not isinstance(child, ast.AST) or isinstance(child, PASSED_OVER):
                continue
            if isinstance(child, ast.AnnAssign) and "constraints" in ast.unparse(child.target):
                continue
            yield child
            yield from places(child)


def mutants_of(file: str, source: str) -> list[Mutant]:
    """Return every mutant of a source."""
    lines = source.encode().splitlines(keepends=True)
    starts = [0]
    for line in lines:
        starts.append(starts[-1] + len(line))
    raw, found = source.encode(), []
    for node in places(ast.parse(source)):
        for changed in changes_of(node):
            start = starts[node.lineno - 1] + node.col_offset
            end = starts[node.end_lineno - 1] + node.end_col_offset
            new = ast.unparse(ast.fix_missing_locations(changed))
            if not isinstance(changed, ast.stmt):
                new = f"({new})"
            text = raw[:start] + new.encode() + raw[end:]
            shown = new if isinstance(changed, ast.stmt) else new[1:-1]
            name = f"{file}:{node.lineno}:{node.col_offset}:{ast.unparse(node)} -> {shown}"
            found.append(Mutant(name, text.decode()))
    return found


def core_files(root: Path) -> list[str]:
    """Return the files of the numerical core, below skcalib/ and without their ending."""
    package = root / "skcalib"
    return [
        str(path.relative_to(package).with_suffix(""))
        for folder in CORE
        for path in sorted((package / folder).glob("*.py"))
        if not path.name.startswith("__")
    ]


def tests_of(file: str, root: Path) -> list[str]:
    """Return the test files that are run on the mutants of a file."""
    folder, _, name = file.rpartition("/")
    own = f"{folder.removeprefix('_')}/test_{name.removeprefix('_')}"
    named = TESTS.get(file, (own,))

    def there(tests: Sequence[str]) -> list[str]:
        paths = [f"tests/{test}.py" for test in tests]
        return [path for path in paths if (root / path).exists()]

    return (there(named) or there(ANY)) + there(LAST)


def copy_tree(root: Path, target: Path) -> None:
    """Copy what the tests need."""
    left_out = shutil.ignore_patterns(
        ".git", "*_cache", "__pycache__", "_build", "gallery", ".venv"
    )
    shutil.copytree(root, target, ignore=left_out)


def run_tests(tree: Path, tests: Sequence[str], seconds: float) -> str:
    """Return "killed", "survived" or "timeout": what the tests made of the tree as it is."""
    environment = {
        **os.environ,
        "PYTHONPATH": str(tree),
        "PYTHONDONTWRITEBYTECODE": "1",
        "OMP_NUM_THREADS": "1",
    }
    command = [sys.executable, "-m", "pytest", "-x", "-q", "-m", "", "-p", "no:cacheprovider"]
    process = subprocess.Popen(
        [*command, *tests],
        cwd=tree,
        env=environment,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )
    try:
        return "survived" if process.wait(timeout=seconds) == 0 else "killed"
    except subprocess.TimeoutExpired:
        return "timeout"
    finally:
        # Whatever a test has started goes with it.
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()


def stored(path: Path) -> dict[str, Any]:
    """Return what earlier runs found."""
    if path.exists():
        return dict(json.loads(path.read_text()))
    return {"seed": 0, "files": {}, "examined": {}}


def store(path: Path, results: dict[str, Any]) -> None:
    """Write what is found so far, whole or not at all."""
    path.parent.mkdir(parents=True, exist_ok=True)
    text = json.dumps(results, indent=1, ensure_ascii=False) + "\n"
    part = path.with_suffix(".part")
    part.write_text(text)
    part.replace(path)


def sample(file: str, found: list[Mutant], limit: int, seed: int) -> list[Mutant]:
    """Draw some of the mutants, the same for the same seed."""
    named = list({mutant.name: mutant for mutant in found}.values())
    if limit >= len(named):
        return named
    return random.Random(f"{seed}:{file}").sample(named, limit)


def try_file(tree: Path, file: str, arguments: argparse.Namespace, end: float) -> None:
    """Try the sampled mutants of a file that have no result yet."""
    target = tree / "skcalib" / f"{file}.py"
    source = target.read_text()
    digest = hashlib.sha256(source.encode()).hexdigest()[:16]
    results = stored(arguments.out)
    kept = results["files"].get(file, {})
    if kept.get("sha256") != digest:
        kept = {"sha256": digest, "possible": 0, "mutants": {}}
    found = mutants_of(file, source)
    kept["possible"] = len({mutant.name for mutant in found})
    tried = kept["mutants"]
    if arguments.survivors:
        wanted = [m for m in found if tried.get(m.name) == "survived"]
        wanted = [m for m in wanted if m.name not in results["examined"]]
    else:
        drawn = sample(file, found, arguments.limit, arguments.seed)
        wanted = [m for m in drawn if m.name not in tried]
    if not wanted:
        return
    tests = tests_of(file, tree)
    start = time.monotonic()
    if run_tests(tree, tests, 600) != "survived":
        print(f"{file}: its tests fail as it is; left out", flush=True)
        return
    patience = 10 + 4 * (time.monotonic() - start)
    for mutant in wanted:
        if time.monotonic() > end:
            return
        target.write_text(mutant.source)
        try:
            tried[mutant.name] = run_tests(tree, tests, patience)
        finally:
            target.write_text(source)
        print(f"{tried[mutant.name]:9} {mutant.name}", flush=True)
        results = stored(arguments.out)  # what is examined may have been written meanwhile
        results["seed"], results["files"][file] = arguments.seed, kept
        store(arguments.out, results)


def main(arguments: Sequence[str] | None = None) -> dict[str, Any]:
    """Try mutants, and return all that is found so far."""
    parser = argparse.ArgumentParser(description=__doc__, prog="python -m benchmarks.trust.mutants")
    parser.add_argument("--files", nargs="*", help="such as _binning metrics/_ks; all by default")
    parser.add_argument("--limit", type=int, default=8, help="mutants drawn of each file")
    parser.add_argument("--seed", type=int, default=0, help="seed of the draw")
    parser.add_argument("--seconds", type=float, default=float("inf"), help="stop after these")
    parser.add_argument("--survivors", action="store_true", help="try unexplained survivors again")
    parser.add_argument("--out", type=Path, default=RESULTS, help="where results are kept")
    parsed = parser.parse_args(arguments)
    end = time.monotonic() + parsed.seconds
    files = parsed.files or core_files(ROOT)
    with tempfile.TemporaryDirectory() as folder:
        tree = Path(folder) / "tree"
        copy_tree(ROOT, tree)
        for file in files:
            if time.monotonic() < end:
                try_file(tree, file, parsed, end)
    results = stored(parsed.out)
    # A file that is gone takes its mutants with it.
    now = set(core_files(ROOT))
    results["files"] = {file: kept for file, kept in results["files"].items() if file in now}
    store(parsed.out, results)
    return results


if __name__ == "__main__":
    main()
