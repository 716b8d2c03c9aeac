"""Make ``docs/trust.md`` of the figures in ``figures/``: ``python -m benchmarks.trust``.

Each figure comes from the program that its section names, by way of the JSON that the program
wrote; nothing is counted here but what stands there.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[2]
STORED = Path(__file__).parent / "figures"
PAGE = ROOT / "docs" / "trust.md"
RECORD = ROOT / "tests" / "record" / "values.json"

OPENING = """\
# Trust, in figures

This page reports how the correctness of skcalib is tested: with invalid input, generated input,
several versions of its dependencies, and recorded numbers. The command below each figure repeats
it, in a clone with `pip install -e ".[test]"`; `python -m benchmarks.trust` then writes this page.
"""
CLOSING = """\
## What is tested on every change

The test suite tests every calibrator and metric of the package, including new ones: with generated
inputs, with `check_calibrator` and `check_calibration_metric` of [extending](extending.md), with
files of this release that must load, with interrupted fits, and with simultaneous fits in threads
and processes. `.ci/run` runs it in two fresh environments. `SECURITY.md` in
the repository says which files are safe to load, and how to report a fault.
"""
GOOD = ("right answer", "valid answer", "refused")
MEANING = {
    "right answer": "correct result: that of the same data as a plain array",
    "valid answer": "valid result: finite and within its bounds; nothing to compare with",
    "refused": "error: `ValueError` or `TypeError` of one line that names the argument",
}


def table(header: Sequence[str], rows: Sequence[Sequence[object]]) -> list[str]:
    """Return the lines of a table whose columns after the first are right-aligned."""
    rule = ["---"] + ["--:"] * (len(header) - 1)
    return [f"| {' | '.join(map(str, row))} |" for row in (header, rule, *rows)]


def number(count: int) -> str:
    """Write a count with commas."""
    return f"{count:,}"


def hostile_input(fuzz: dict[str, Any]) -> list[str]:
    """Report how malformed calls ended."""
    outcomes = fuzz["by_outcome"]
    faults = sum(count for name, count in outcomes.items() if name not in GOOD)
    lines = [
        "## Invalid input",
        "",
        f"{number(fuzz['calls'])} calls with one invalid argument, and a quarter of them with",
        "another in an unusual layout: wrong shapes, ragged lists, NaN, objects, empty arrays,",
        "sparse matrices, frames with missing values, and so on. They include each mistake that",
        "people make with good data, with each method: exchanged arguments, labels or features in",
        "place of scores, an ignored label in place of a class, columns in another order than the",
        "labels, percentages and ratings, weights that are counts or relative.",
        "",
        *table(
            ["result of the call", "calls"],
            [
                *([MEANING[name], number(outcomes.get(name, 0))] for name in GOOD),
                ["anything else, which is a fault", number(faults)],
            ],
        ),
        "",
    ]
    again = f"python -m benchmarks.trust.fuzz --calls {fuzz['calls']} --seed {fuzz['seed']}"
    return [*lines, f"Repeat: `{again}`.", ""]


def generated_inputs(properties: dict[str, Any]) -> list[str]:
    """Report what was tested on generated inputs."""
    counts = [
        [name.replace("_", " "), number(value)]
        for name, value in properties.items()
        if isinstance(value, int)
    ]
    return [
        "## Generated inputs",
        "",
        "Properties of every calibrator and every metric are tested on generated inputs: ties,",
        "exact 0 and 1, impossible classes, huge and tiny scales, weights of 0, labels of any",
        "type. This has found thirteen faults, which were corrected. Two limits are left, for",
        "logits that differ by 1e-12. If logits of -inf are in the same column, a gradient of 1e-9",
        "does not determine W without a penalty: fits of weighted rows and of repeated rows differ",
        "by 0.003 (`penalty='odir'`, `--examples 60`). And Platt scaling depends by 2e-5 on the",
        "order of the rows, since log-odds have a precision of 1e-16 (`--examples 100`).",
        "",
        *table(["counted", "number"], counts),
        "",
        f"Repeat: `{properties['command']}`. With new inputs each time: `pytest -m ''",
        "tests/contract/test_properties_calibrators.py tests/contract/test_properties_metrics.py",
        "--hypothesis-profile=many`.",
        "",
    ]


def versions(runs: dict[str, Any]) -> list[str]:
    """Report on which versions the suite passed, and what it covers."""
    names = list(next(iter(runs.values()))["versions"])
    rows: list[list[object]] = [["Python", *(run["python"] for run in runs.values())]]
    rows += [[name, *(run["versions"][name] for run in runs.values())] for name in names]
    for label, key in (
        ("tests passed", "passed"),
        ("failed", "failed"),
        ("skipped", "skipped"),
    ):
        rows.append([label, *(number(run[key]) for run in runs.values())])
    for label, key in (("branches covered", "branches"), ("lines covered", "lines")):
        rows.append([label, *(f"{run[key]} %" for run in runs.values())])
    return [
        "## Versions and coverage",
        "",
        "The test suite on the oldest and the newest versions, with every warning an error. It",
        "fails if less than 95 % of the branches of the package are covered. Before a change",
        "lands, all tests run on the newest versions; on the oldest, those that take every branch.",
        "The numbers below are of the whole suite, run once on each.",
        "",
        *table(["", *runs], rows),
        "",
        "Repeat: "
        + ", ".join(f"`python -m benchmarks.trust.versions {name}`" for name in runs)
        + ".",
        "",
    ]


def record(kept: dict[str, Any]) -> list[str]:
    """Report how many numbers are recorded."""
    values = kept["values"].values()
    count = sum(len(value) for value in values if isinstance(value, list))
    made = ", ".join(f"{name} {version}" for name, version in kept["made_with"].items())
    return [
        "## Recorded numbers",
        "",
        f"{number(count)} numbers of {number(len(values))} calls, to 12 digits: each calibrator,",
        "metric, scorer and loss, with each option. A test fails if one changes by more than 1e-9",
        "of its size, or 1e-6 if it is found by an optimiser.",
        "",
        f"Made with {made}. Repeat: `python tests/record/write.py`.",
        "",
    ]


SECTIONS = {
    "fuzz.json": hostile_input,
    "properties.json": generated_inputs,
    "versions.json": versions,
}


def page(stored: Path = STORED) -> str:
    """Return the page as it follows from the stored figures; what is not stored is left out."""
    lines = [OPENING]
    for name, section in SECTIONS.items():
        if (stored / name).exists():
            lines += section(json.loads((stored / name).read_text()))
    lines += record(json.loads(RECORD.read_text()))
    return "\n".join([*lines, CLOSING])


def main(arguments: Sequence[str] | None = None) -> None:
    """Write the page."""
    argparse.ArgumentParser(description=__doc__, prog="python -m benchmarks.trust").parse_args(
        arguments
    )
    PAGE.write_text(page())
    print(f"wrote {PAGE}")


if __name__ == "__main__":
    main()
