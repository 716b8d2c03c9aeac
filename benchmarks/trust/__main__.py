"""Make ``docs/trust.md`` of the figures in ``figures/``: ``python -m benchmarks.trust``.

Each figure comes from the program that its section names, by way of the JSON that the program
wrote; nothing is counted here but what stands there.
"""

from __future__ import annotations

import argparse
import json
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[2]
STORED = Path(__file__).parent / "figures"
PAGE = ROOT / "docs" / "trust.md"
RECORD = ROOT / "tests" / "record" / "values.json"

OPENING = """\
# Trust, in figures

What has been tried to break skcalib, and what came of it. The command beside a figure makes it
again, in a clone with `pip install -e ".[test]"`; `python -m benchmarks.trust` then writes this
page.
"""
CLOSING = """\
## What holds on every change

The suite asks all of it of every calibrator and metric that the package lists, a new one included:
promises on generated inputs, `check_calibrator` and `check_calibration_metric` of
[extending](extending.md), files of this release that must load, fits that are broken off, fits at
once in threads and processes. `.ci/run` runs it in two fresh environments. What to load from whom,
and how to report a fault: [security](../SECURITY.md).
"""
GOOD = ("right answer", "valid answer", "refused")
MEANING = {
    "right answer": "the answer of the same data as a plain array",
    "valid answer": "finite and within its bounds; nothing to compare with",
    "refused": "`ValueError` or `TypeError` of one line that names the argument",
}


def table(header: Sequence[str], rows: Sequence[Sequence[object]]) -> list[str]:
    """Return the lines of a table whose columns after the first are right-aligned."""
    rule = ["---"] + ["--:"] * (len(header) - 1)
    return [f"| {' | '.join(map(str, row))} |" for row in (header, rule, *rows)]


def number(count: int) -> str:
    """Write a count with commas."""
    return f"{count:,}"


def hostile_input(fuzz: dict[str, Any]) -> list[str]:
    """Tell how malformed calls ended."""
    outcomes = fuzz["by_outcome"]
    faults = sum(count for name, count in outcomes.items() if name not in GOOD)
    lines = [
        "## Hostile input",
        "",
        f"{number(fuzz['calls'])} calls with one argument spoilt, and one in four with another in",
        "an odd layout: wrong shapes, ragged lists, NaN, objects, empty arrays, sparse matrices,",
        "frames with missing values, and the like.",
        "",
        *table(
            ["ended in", "calls"],
            [
                *([f"{name}: {MEANING[name]}", number(outcomes.get(name, 0))] for name in GOOD),
                ["anything else: a fault", number(faults)],
            ],
        ),
        "",
    ]
    if "mended" in fuzz:
        mended = fuzz["mended"] if isinstance(fuzz["mended"], int) else len(fuzz["mended"])
        lines += [f"Faults found by such calls and corrected so far: {number(mended)}.", ""]
    again = f"python -m benchmarks.trust.fuzz --calls {fuzz['calls']} --seed {fuzz['seed']}"
    return [*lines, f"Again: `{again}`.", ""]


def generated_inputs(properties: dict[str, Any]) -> list[str]:
    """Tell what was tried on generated inputs."""
    counts = [
        [name.replace("_", " "), number(value)]
        for name, value in properties.items()
        if isinstance(value, int)
    ]
    return [
        "## Generated inputs",
        "",
        "What holds for every calibrator and every metric, on generated inputs: ties, exact 0 and",
        "1, impossible classes, huge and tiny scales, weights of 0, labels of any kind. They",
        "have found thirteen faults, since corrected. Two are left, of logits that differ by",
        "1e-12. Beside logits of -inf in the same column a gradient of 1e-9 does not tell where W",
        "should end without a penalty that holds it: fits of weighted rows and of repeated rows",
        "are .003 apart (`penalty='odir'`, `--examples 60`). And Platt scaling depends by 2e-5 on",
        "the order of the rows, since log-odds are known to 1e-16 (`--examples 100`).",
        "",
        *table(["counted", "number"], counts),
        "",
        f"Again: `{properties['command']}`. Other inputs every time: `pytest -m ''",
        "tests/contract/test_properties_calibrators.py tests/contract/test_properties_metrics.py",
        "--hypothesis-profile=many`.",
        "",
    ]


def mutation(mutants: dict[str, Any]) -> list[str]:
    """Tell which deliberate faults were seen, file by file."""
    examined = mutants["examined"]
    rows, total, unexplained = [], Counter[str](), []
    for file, kept in mutants["files"].items():
        found = Counter(kept["mutants"].values())
        survivors = [name for name, how in kept["mutants"].items() if how == "survived"]
        read = [name for name in survivors if name in examined]
        unexplained += [name for name in survivors if name not in examined]
        count = Counter(
            possible=kept["possible"],
            tried=len(kept["mutants"]),
            killed=found["killed"] + found["timeout"],
            equal=len(read),
            left=len(survivors) - len(read),
        )
        total += count
        rows.append([f"`{file}`", *(count[key] for key in count)])
    columns = ("possible", "tried", "killed", "equal", "left")
    lines = [
        "## Deliberate faults in the numerical core",
        "",
        "An operator, comparison, constant, boolean or call is changed in one place, and the tests",
        "of that file should fail. Those that survived were read: equal ones change no number that",
        "a user can get, and why stands under `examined` in",
        "`benchmarks/trust/figures/mutants.json`.",
        "Files have the names that they had when they were tried.",
        "",
        *table(
            ["file", "possible", "tried", "killed", "equal", "not explained"],
            [*rows, ["**all**", *(f"**{number(total[key])}**" for key in columns)]],
        ),
        "",
    ]
    if unexplained:
        lines += ["Not explained:", "", *(f"* `{name}`" for name in unexplained), ""]
    seed = mutants["seed"]
    return [
        *lines,
        f"Again: `python -m benchmarks.trust.mutants --seed {seed}`; more of them: `--limit`.",
        "",
    ]


def versions(runs: dict[str, Any]) -> list[str]:
    """Tell on which versions the suite passed, and what it covers."""
    names = list(next(iter(runs.values()))["versions"])
    rows: list[list[object]] = [["Python", *(run["python"] for run in runs.values())]]
    rows += [[name, *(run["versions"][name] for run in runs.values())] for name in names]
    for label, key in (
        ("tests passed", "passed"),
        ("failed", "failed"),
        ("left out", "skipped"),
    ):
        rows.append([label, *(number(run[key]) for run in runs.values())])
    for label, key in (("branches taken", "branches"), ("lines run", "lines")):
        rows.append([label, *(f"{run[key]} %" for run in runs.values())])
    return [
        "## Versions and coverage",
        "",
        "The suite with every warning an error; coverage is that of the package, and less than",
        "95 % of its branches fails.",
        "",
        *table(["", *runs], rows),
        "",
        "Again: "
        + ", ".join(f"`python -m benchmarks.trust.versions {name}`" for name in runs)
        + ".",
        "",
    ]


def record(kept: dict[str, Any]) -> list[str]:
    """Tell how many numbers are on record."""
    values = kept["values"].values()
    count = sum(len(value) for value in values if isinstance(value, list))
    made = ", ".join(f"{name} {version}" for name, version in kept["made_with"].items())
    return [
        "## Numbers on record",
        "",
        f"{number(count)} numbers of {number(len(values))} calls, to 12 digits: each calibrator,",
        "metric, scorer and loss, by each option. A test fails if one moves by more than 1e-9 of",
        "its size, or 1e-6 where an optimiser finds it.",
        "",
        f"Made with {made}. Again: `python tests/record/write.py`.",
        "",
    ]


SECTIONS = {
    "fuzz.json": hostile_input,
    "properties.json": generated_inputs,
    "mutants.json": mutation,
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
