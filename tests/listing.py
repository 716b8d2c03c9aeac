"""Rows of pages of docs/ for each calibrator and metric, made from the code.

A block stands between two comments. What is above its first row, and the order of the rows, are
written by hand; a new row is put last, and may then be moved.
"""

import inspect
import re
from pathlib import Path

from skcalib import calibrators, metrics

ROOT = Path(__file__).parents[1]
COMMAND = "python tests/write.py"
NOT_METRICS = {"SCORERS", "get_scorer", "label_plan", "make_calibration_scorer"}

CALIBRATORS = {name: getattr(calibrators, name) for name in calibrators.__all__}
METRICS = {name: getattr(metrics, name) for name in metrics.__all__ if name not in NOT_METRICS}
ERRORS = {name: metric for name, metric in METRICS.items() if f"neg_{name}" in metrics.SCORERS}
OTHERS = {name: metric for name, metric in METRICS.items() if name not in ERRORS}

# (page, block): what it lists.
BLOCKS = {
    ("docs/choosing.md", "calibrators"): CALIBRATORS,
    ("docs/metrics.md", "metrics"): METRICS,
    ("docs/api.rst", "calibrators"): CALIBRATORS,
    ("docs/api.rst", "errors"): ERRORS,
    ("docs/api.rst", "other metrics"): OTHERS,
}
# The predicted class of no row changes; of all others that of some rows does.
KEEPS = {
    "TemperatureScaling": "always",
    "EnsembleTemperatureScaling": "always",
    "IdentityCalibrator": "always",
    "AutoCalibrator": "with `order_preserving=True`",
    "SplineCalibrator": "with `mode='top'`",
}
ENTRY = re.compile(r"^(?:\| `|   )(\w+)(?:`.*)?$")


def summary(thing):
    """First line of the docstring; of "Its name (SHORT): what it is", what follows the name."""
    line = inspect.getdoc(thing).splitlines()[0].removesuffix(".")
    return re.sub(r"^[^:(]*\((\S+)\): ", r"\1: ", line)


def entry(page, name, thing):
    """Line of a block."""
    if page.endswith(".rst"):
        return f"   {name}"
    keeps = f" {KEEPS.get(name, 'no')} |" if inspect.isclass(thing) else ""
    row = f"| `{name}` | {summary(thing)} |{keeps} {vars(thing).get('_paper', '')} |"
    return row.replace("|  |", "| |")


def known_failures(*classes):
    """Checks of scikit-learn that classes fail, as the page of trust lists them."""
    page = (ROOT / "benchmarks" / "trust" / "README.md").read_text()
    rows = re.findall(r"^\| (.+?) \| (`check_.+?) \| .+ \|$", page, re.MULTILINE)
    return {check for row, checks in rows if row in classes for check in re.findall(r"\w+", checks)}


def split(text, page, block):
    """Text up to the block, the block, and the text from its end."""
    begin, end = (
        (f".. {block}: written by {COMMAND}\n", ".. end")
        if page.endswith(".rst")
        else (f"<!-- {block}: written by {COMMAND} -->\n", "<!-- end -->")
    )
    before, _, rest = text.partition(begin)
    inside, found, after = rest.partition(end)
    assert found, f"{page} has no block {begin!r}"
    return before + begin, inside, end + after


def rewritten(text, page, block, things):
    """Text of a page with one of its blocks written anew."""
    before, inside, after = split(text, page, block)
    lines = inside.strip("\n").splitlines()
    listed = [match[1] for line in lines if (match := ENTRY.match(line))]
    names = [*(n for n in listed if n in things), *(n for n in things if n not in listed)]
    head = [line for line in lines if not ENTRY.match(line)]
    body = "\n".join([*head, *(entry(page, name, things[name]) for name in names)])
    return f"{before}\n{body}\n\n{after}"


def page_with_blocks(page):
    """A page as it should be."""
    text = (ROOT / page).read_text()
    for (other, block), things in BLOCKS.items():
        if other == page:
            text = rewritten(text, page, block, things)
    return text


def write_pages():
    """Write the pages of which a block changes; return their names."""
    written = []
    for page in sorted({page for page, _ in BLOCKS}):
        text = page_with_blocks(page)
        if text != (ROOT / page).read_text():
            (ROOT / page).write_text(text)
            written.append(page)
    return written
