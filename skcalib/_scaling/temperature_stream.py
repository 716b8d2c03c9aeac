"""The fit of softmax(z / T) to batches of rows that are seen once.

While they are few, rows are kept, and T is that of a fit to all of them. Of more, a sample is kept,
its temperature is the middle of a window, and each batch leaves its `GapSums` at the scales of the
window. If T leaves the window, another one begins. Sums of an earlier window are then continued
beyond its end by the rows kept of it: by the change of their expected gap from that end to T.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial, reduce
from typing import Any, NamedTuple

import numpy as np

from skcalib._arrays.passes import add, map_rows
from skcalib._arrays.selection import take_rows
from skcalib._arrays.tensors import joined, on_host, rows_of
from skcalib._arrays.types import Float64Array, FloatArray, Intp
from skcalib._scaling.root import rising_root
from skcalib._scaling.scale_losses import exponentials
from skcalib._scaling.temperature import find_temperature
from skcalib._scaling.temperature_bounds import Temperature, within_bounds
from skcalib._scaling.temperature_sums import (
    GapSums,
    Window,
    covers,
    guess_of,
    scales_about,
    sums_of,
)
from skcalib._scores.clip import NO_ROWS, RunningClip, find_clip
from skcalib._scores.scores import Scores
from skcalib._validation.scores import read_scores

# The largest number of rows of the sample, and of their bytes; it may always have 100 rows. Once
# rows are left out, it has at least half as many, evenly spaced.
KEPT_ROWS = 4000
KEPT_BYTES = 1 << 27
LEAST_KEPT = 100
# The rows of a window are continued by those kept of them, or by all kept rows if these are fewer.
LEAST_SHAPE = 30


class Batch(NamedTuple):
    """Rows of scores, their codes and weights."""

    scores: Scores
    code: Intp
    w: Float64Array

    def take(self, rows: Intp) -> Batch:
        """Return some rows."""
        few = take_rows(self.scores.source, rows)
        return Batch(self.scores.of(few), self.code[rows], self.w[rows])


class Kept(NamedTuple):
    """Some rows of a sample, and the window that was active when they came."""

    scores: FloatArray
    code: Intp
    w: Float64Array
    window: Intp


@dataclass(frozen=True)
class Sample:
    """Every `step`-th of `count` rows."""

    kept: Kept | None = None
    step: int = 1
    count: int = 0
    max_abs: float = 0.0

    def __getstate__(self) -> dict[str, Any]:
        """Return the state with arrays in place of tensors, whose device a reader may not have."""
        return {**vars(self), "kept": self.kept and Kept(*map(on_host, self.kept))}

    def with_rows(self, batch: Batch, window: int) -> Sample:
        """Return the sample of these and more rows."""
        n, n_classes = batch.scores.shape
        row_bytes = n_classes * batch.scores.dtype.itemsize
        most = max(LEAST_KEPT, min(KEPT_ROWS, KEPT_BYTES // row_bytes))
        step = self.step
        while -(-(self.count + n) // step) > most:
            step *= 2
        chosen = np.arange(-self.count % step, n, step)
        source: Any = batch.scores.source
        rows = (source.on_device() or source).read(chosen)
        parts = [[rows, batch.code[chosen], batch.w[chosen], np.full(chosen.size, window)]]
        if self.kept is not None:
            parts.insert(0, [part[:: step // self.step] for part in self.kept])
        kept = Kept(*map(joined, zip(*parts, strict=True)))
        max_abs = max(self.max_abs, batch.scores.max_abs_logit)
        return Sample(kept, step, self.count + n, max_abs)

    def batch(self, like: Scores) -> Batch:
        """Return the sample, as scores of the kind, classes and clip of others."""
        assert self.kept is not None
        scores = like.of(read_scores(self.kept.scores))
        scores.max_abs_logit = self.max_abs
        return Batch(scores, self.kept.code, self.kept.w)


class Part(NamedTuple):
    """The scales of a window, and the sums at them of the rows that came while T was in it."""

    scales: Float64Array
    sums: GapSums

    @classmethod
    def about(cls, log_beta: float) -> Part:
        """Return the window about a guess, of no rows."""
        scales = scales_about(log_beta)
        return cls(scales, GapSums(0.0, 0.0, 0.0, np.zeros(scales.size)))

    def plus(self, rows: Batch) -> Part:
        """Return the part with more rows."""
        return Part(self.scales, add(self.sums, sums_of(*rows, self.scales)))

    def end(self, log_beta: float) -> float:
        """Return the log beta of the end of the window that is closer to one beyond it."""
        return float(np.log(self.scales[0 if np.exp(log_beta) < self.scales[0] else -1]))


class Found(NamedTuple):
    """The temperature of a stream.

    If rows came while T was in another window, their share of the weight is `continued`, and to
    continue their sums adds the standard error `error` to T, relative to T.
    """

    temperature: Temperature
    continued: float = 0.0
    error: float = 0.0


@dataclass(frozen=True)
class TemperatureStream:
    """What is kept of the rows so far; a batch gives a new one.

    ``parts[active]`` is the window of the rows to come.
    """

    sample: Sample = Sample()
    clip: RunningClip = NO_ROWS
    parts: tuple[Part, ...] = ()
    active: int = 0
    log_beta: float = 0.0

    def with_rows(self, batch: Batch) -> tuple[TemperatureStream, Found]:
        """Return the stream with a batch, and the temperature of all rows so far."""
        sample = self.sample.with_rows(batch, self.active)
        kept = sample.batch(batch.scores)
        if sample.step == 1:
            clip = RunningClip(*find_clip(kept.scores))
            kept.scores.set_clip(clip.clip)
            return TemperatureStream(sample, clip), Found(find_temperature(*kept))
        new, clip = [batch], self.clip if self.parts else NO_ROWS
        if self.sample.kept is not None and not self.parts:
            # The first batch after which not all rows are kept: those before it are.
            new.insert(0, self.sample.batch(batch.scores))
        for rows in new:
            clip = clip.with_rows(rows.scores)
        for rows in (*new, kept):
            rows.scores.set_clip(clip.clip)
        parts, active, log_beta = self.parts, self.active, self.log_beta
        if not parts:
            log_beta = guess_of(find_temperature(*kept))
            parts = (reduce(Part.plus, new[:-1], Part.about(log_beta)),)
        more = _added(parts, active, batch)
        found = solve(more, Shapes(sample, kept), log_beta)
        root = -float(np.log(found.temperature.value))
        if not found.temperature.bound and not covers(parts[active].scales, root):
            # The batch once more, in a window about its temperature.
            covering = [i for i, part in enumerate(parts) if covers(part.scales, root)]
            active = covering[0] if covering else len(parts)
            more = _added(parts if covering else (*parts, Part.about(root)), active, batch)
            sample = self.sample.with_rows(batch, active)
            found = solve(more, Shapes(sample, kept), root)
        if not found.temperature.bound:
            log_beta = -float(np.log(found.temperature.value))
        return TemperatureStream(sample, clip, more, active, log_beta), found


def _added(parts: tuple[Part, ...], active: int, batch: Batch) -> tuple[Part, ...]:
    return (*parts[:active], parts[active].plus(batch), *parts[active + 1 :])


class Shapes:
    """How the expected gap of the rows of each window changes beyond it, by the kept ones."""

    def __init__(self, sample: Sample, kept: Batch) -> None:
        assert sample.kept is not None
        self._owner = sample.kept.window
        self._kept = kept
        self.n_classes = kept.scores.shape[1]
        self._batches: dict[int, Batch] = {}
        self._windows: dict[int, list[Window | None]] = {}

    def rows_of(self, i: int) -> Batch:
        """Return the kept rows of a window; all of them if they are few."""
        if i not in self._batches:
            own = np.flatnonzero(self._owner == i)
            self._batches[i] = self._kept if own.size < LEAST_SHAPE else self._kept.take(own)
        return self._batches[i]

    def change(self, i: int, start: float, log_beta: float) -> tuple[float, float] | None:
        """Return the change of the log expected gap, and its derivative at the end.

        None if the logits of each of these rows are equal.
        """
        there, here = self._window(i, log_beta), self._window(i, start)
        if there is None or here is None:
            return None
        value, rise = there.log_expected(log_beta)
        return value - here.log_expected(start)[0], rise

    def change_error(self, i: int, start: float, log_beta: float) -> float:
        """Return the standard error of that change."""
        batch = self.rows_of(i)
        if self._window(i, start) is None:
            return np.inf
        logits = batch.scores.device_logits() or batch.scores.as_logits()
        gaps = logits.empty_rows(), logits.empty_rows()
        for at, out in zip((start, log_beta), gaps, strict=True):
            map_rows(partial(expected_gaps, beta=float(np.exp(at))), logits, out=out)
        before, after, w = map(on_host, (*gaps, batch.w))
        influence = w * (after / (w @ after) - before / (w @ before))
        return float(np.sqrt(influence @ influence))

    def _window(self, i: int, log_beta: float) -> Window | None:
        windows = self._windows.setdefault(i, [])
        for window in windows:
            if window is None or covers(window.scales, log_beta):
                return window
        scales = scales_about(log_beta)
        sums = sums_of(*self.rows_of(i), scales)
        windows.append(Window(scales, sums.expected) if sums.every else None)
        return windows[-1]


def expected_gaps(Z: Float64Array, beta: float) -> Float64Array:
    """Return the expected gap of each row of a block at a scale."""
    r = rows_of(Z)
    U = r.minus(Z, r.row_max(Z))
    Q = exponentials(U, beta, -np.inf)
    gaps: Float64Array = -r.row_dots(Q, U) / r.row_sums(Q)
    return gaps


def solve(parts: Sequence[Part], shapes: Shapes, start: float) -> Found:
    """Return the temperature of the rows of all parts."""
    weight = sum(part.sums.weight for part in parts)
    true, every = sum(part.sums.true for part in parts), sum(part.sums.every for part in parts)
    # Rows of equal logits alone have no gaps.
    windows = {
        i: Window(part.scales, part.sums.expected)
        for i, part in enumerate(parts)
        if part.sums.every > 0.0
    }

    def each_log_expected(log_beta: float) -> tuple[Float64Array, Float64Array]:
        found = []
        for i, window in windows.items():
            if covers(window.scales, log_beta):
                found.append(window.log_expected(log_beta))
                continue
            end = parts[i].end(log_beta)
            value, rise = window.log_expected(end)
            # Where no kept row says how it changes, it goes on as it does at the end.
            change, rise = shapes.change(i, end, log_beta) or (rise * (log_beta - end), rise)
            found.append((value + change, rise))
        values, rises = np.array(found).T
        return values, rises

    def slope(log_beta: float) -> tuple[float, float]:
        values, rises = each_log_expected(log_beta)
        total = np.logaddexp.reduce(values)
        return float(np.log(true) - total), -float(np.exp(values - total) @ rises)

    def search(low: float, high: float) -> tuple[float, str]:
        if true >= every:
            return low, "low"
        return rising_root(slope, min(max(start, low), high), low, high)

    n_classes = shapes.n_classes
    temperature = within_bounds(n_classes, float(true / weight), float(every / weight), search)
    root = -float(np.log(temperature.value))
    outside = [i for i in windows if not covers(windows[i].scales, root)]
    if temperature.bound or not outside:
        return Found(temperature)
    values, rises = each_log_expected(root)
    share = np.exp(values - np.logaddexp.reduce(values))
    error = np.zeros(len(windows))
    for place, i in enumerate(windows):
        if i in outside:
            error[place] = shapes.change_error(i, parts[i].end(root), root)
    continued = float(sum(parts[i].sums.weight for i in outside) / weight)
    return Found(
        temperature, continued, float(np.sqrt((share * error) @ (share * error)) / -(share @ rises))
    )
