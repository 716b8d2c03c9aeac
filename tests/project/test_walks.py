"""The files, functions and lines that each everyday call runs: budgets, which may only fall."""

import contextlib
import functools
import io
import sys
import threading
from pathlib import Path

import numpy as np
import pytest
from scipy.special import softmax

import skcalib
from skcalib import TemperatureScaling, compare_calibrators
from skcalib.__main__ import main
from skcalib.metrics import calibration_interval, static_calibration_error

PACKAGE = str(Path(skcalib.__file__).parent)

# Of the second call with 2,000 rows and 5 classes: files, functions, lines. A change that lowers a
# number lowers its budget.
BUDGETS = {
    "fit": (11, 92, 439),
    "predict": (11, 48, 223),
    "static_calibration_error": (11, 72, 358),
    "calibration_interval": (26, 318, 1_693),
    "compare_calibrators": (48, 451, 2_626),
    "skcalib compare": (56, 503, 3_105),
}


class Trace:
    """Records the functions and lines of the package that run inside a ``with`` block."""

    def __init__(self):
        self.functions, self.lines = set(), set()

    def __enter__(self):
        self.before = sys.gettrace()
        threading.settrace(self.on_call)
        sys.settrace(self.on_call)

    def __exit__(self, *error):
        sys.settrace(self.before)
        threading.settrace(None)

    def on_call(self, frame, event, argument):
        code = frame.f_code
        if not code.co_filename.startswith(PACKAGE):
            return None
        self.functions.add((code.co_filename, code.co_firstlineno, code.co_qualname))
        self.lines.add((code.co_filename, frame.f_lineno))
        return self.on_line

    def on_line(self, frame, event, argument):
        if event == "line":
            self.lines.add((frame.f_code.co_filename, frame.f_lineno))
        return self.on_line

    def counts(self):
        """Return the numbers of files, of named functions, and of lines."""
        files = {file for file, *_ in self.functions}
        named = [name for *_, name in self.functions if not name.endswith(">")]
        return len(files), len(named), len(self.lines)


@functools.cache
def rows():
    """Return logits, probabilities and labels of an overconfident model."""
    rng = np.random.default_rng(0)
    Z = 2 * rng.normal(size=(2_000, 5))
    y = (softmax(Z / 1.7, axis=1).cumsum(1) > rng.random((2_000, 1))).argmax(1)
    return Z, softmax(Z, axis=1), y


@pytest.fixture
def jobs(tmp_path):
    """Return the calls by name."""
    Z, P, y = rows()
    fitted = TemperatureScaling().fit(Z, y)
    file = tmp_path / "rows.npz"
    np.savez(file, logits=Z, labels=y)

    def command():
        with contextlib.redirect_stdout(io.StringIO()):
            main(["compare", str(file), "--calibrators", "temperature", "auto"])

    return {
        "fit": lambda: TemperatureScaling().fit(Z, y),
        "predict": lambda: fitted.predict_proba(Z),
        "static_calibration_error": lambda: static_calibration_error(y, P),
        "calibration_interval": lambda: calibration_interval(static_calibration_error, y, P),
        "compare_calibrators": lambda: compare_calibrators(Z, y, ["temperature", "auto"]),
        "skcalib compare": command,
    }


@pytest.mark.parametrize("name", BUDGETS)
def test_a_call_stays_within_its_budget(name, jobs):
    """Else the call reads more code than before: a shorter way is to be found."""
    jobs[name]()
    trace = Trace()
    with trace:
        jobs[name]()
    counts = trace.counts()
    over = [
        f"{n} {what}, budget {most}"
        for n, what, most in zip(
            counts, ("files", "functions", "lines"), BUDGETS[name], strict=True
        )
        if n > most
    ]
    assert not over, f"{name}: {'; '.join(over)}"
