"""What a calibrator or metric still lacks, apart from its class or function and its export."""

import inspect
import json
import re

from listing import BLOCKS, COMMAND, ERRORS, ROOT, split

import skcalib
from skcalib.calibrators._base import has_formula

HERE = ROOT / "tests"
VALUES = json.loads((HERE / "record" / "values.json").read_text())["values"]

# Errors of the first version, which the changelog names in groups ("ECE, MCE, ...").
OF_FIRST_VERSION = {
    "adaptive_calibration_error", "avuc_loss", "debiased_calibration_error",
    "expected_calibration_error", "general_calibration_error", "kde_calibration_error",
    "ks_calibration_error", "label_binned_calibration_error", "maximum_calibration_error",
    "maximum_mean_calibration_error", "root_mean_squared_calibration_error",
    "smooth_calibration_error", "soft_avuc_loss", "soft_binned_calibration_error",
    "static_calibration_error", "sweep_calibration_error",
    "thresholded_adaptive_calibration_error", "top_label_brier_score",
}  # fmt: skip


def read(*paths):
    return "\n".join(path.read_text() for path in paths)


def missing(name, thing):
    """Return a line for each place that does not know this calibrator or metric."""
    is_calibrator = inspect.isclass(thing)
    kind = "calibrators" if is_calibrator else "metrics"
    word = re.compile(rf"\b{name}\b")
    by_hand = {
        "CHANGELOG.md: a line that names it": name in OF_FIRST_VERSION
        or bool(word.search(read(ROOT / "CHANGELOG.md"))),
        f"tests/{kind}/: tests of its own": bool(
            word.search(read(*(HERE / kind).glob("test_*.py")))
        ),
        **({"`_plan`: its formula": has_formula(thing)} if is_calibrator else {}),
        "a paper: " + ("`_paper`" if is_calibrator else "`@listed(paper)`"): "_paper"
        in vars(thing),
    }
    if name.endswith(("_error", "_score", "_loss", "_index")):
        by_hand["a scorer: `@listed(paper, scorer=True)`"] = name in ERRORS
    pages = {
        page for (page, block), _ in BLOCKS.items() if is_calibrator == (block == "calibrators")
    }
    written = {
        f"{page}: a row": any(
            word.search(split(read(ROOT / page), other, block)[1])
            for other, block in BLOCKS
            if other == page
        )
        for page in sorted(pages)
    }
    module = "skcalib" if is_calibrator else "skcalib.metrics"
    signatures = read(HERE / "record" / "signatures.txt")
    written["tests/record/signatures.txt: a line"] = f"{module}.{name}(" in signatures
    recorded = any(re.match(rf"{name}\(", key) for key in VALUES)
    written["tests/record/values.json: its numbers"] = recorded
    if is_calibrator:
        version = skcalib.__version__.removesuffix(".dev0")
        stored = f"tests/storage/stored/{version}/{name}.json"
        written[stored] = (ROOT / stored).exists()
    return [
        *(f"{name}: by hand, {what}" for what, is_there in by_hand.items() if not is_there),
        *(f"{name}: by `{COMMAND}`, {what}" for what, is_there in written.items() if not is_there),
    ]
