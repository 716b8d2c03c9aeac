"""What one calibrator does to each metric: values, what chance adds to them, intervals of gains."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.special import stdtrit

from skcalib._comparison.choice import gain_interval
from skcalib._comparison.measures import Measure
from skcalib._scores.top_label import top_label
from skcalib._validation.predictions import Predictions
from skcalib.metrics._clusters import in_units, resampling_factor
from skcalib.metrics._intervals.bootstrap import draw_counts
from skcalib.metrics._intervals.gains import Gain, GainSimulation
from skcalib.metrics._intervals.intervals import interval_of
from skcalib.metrics._intervals.signs import too_few
from skcalib.metrics._intervals.truths import calibrated
from skcalib.metrics._resampling import Evaluation, in_copies, resample

# Entries of P that the resamples of one metric and calibrator may read, and the limits of their
# number.
RESAMPLED_ENTRIES = 100_000_000
FEWEST_RESAMPLES, MOST_RESAMPLES = 20, 200


class Size(NamedTuple):
    """An error, less what chance adds to it, and what a calibrated model would show.

    The last two are NaN for a metric that is not an error of this package.
    """

    value: float
    debiased: float
    expected: float


def affordable_resamples(n: int, n_classes: int) -> int:
    """Return the number of resamples of a metric that take seconds, not minutes."""
    return min(max(RESAMPLED_ENTRIES // (n * n_classes), FEWEST_RESAMPLES), MOST_RESAMPLES)


def sizes_of(measures: list[Measure], predictions: Predictions, seed: int) -> list[Size]:
    """Return the size of each metric of the predictions."""
    errors = simulated(measures, predictions)
    smooth = calibrated(in_copies(predictions)) if errors else None
    sizes = []
    for measure in measures:
        if measure.evaluate in errors:
            one = interval_of(measure.evaluate, predictions, random_state=seed, smooth=smooth)
            sizes.append(Size(one.estimate, one.debiased, one.expected_if_calibrated))
        else:
            sizes.append(Size(measure.value(predictions), np.nan, np.nan))
    return sizes


def simulated(measures: list[Measure], predictions: Predictions) -> list[Evaluation]:
    """Return the errors whose intervals are simulated: none of remote predictions or of shares."""
    if predictions.P.remote is not None or predictions.are_shares:
        return []
    return [m.evaluate for m in measures if m.evaluate is not None and m.evaluate.is_error]


class Gains:
    """Gains over one set of predictions, whose metrics are `sizes`, by any others of the same rows.

    Of remote predictions, only means over rows have intervals; of few clusters, errors have none.
    """

    def __init__(
        self, measures: list[Measure], before: Predictions, sizes: list[Size], seed: int
    ) -> None:
        self.measures = measures
        self.before = before
        self.sizes = sizes
        self.predicted = top_label(before.P)[1]
        self.seed = seed
        few, is_remote = too_few(before.n_clusters), before.P.remote is not None
        own = [] if few else simulated(measures, before)
        self.simulation = GainSimulation(own, before, random_state=seed) if own else None
        self.losses = {m.name: m.loss.losses(before) for m in measures if m.loss is not None}
        others = [m for m in measures if m.loss is None and m.evaluate not in own]
        drawn = [m for m in others if not (is_remote or (few and m.is_own_error))]
        self.resampled = {m.name: _resampled(m, before, seed) for m in drawn}

    def over(self, after: Predictions, sizes: list[Size], level: float) -> list[Gain]:
        """Return the gain by each metric, whose values are now `sizes`."""
        by_sets, gains = self.simulation, []
        drawn = iter([] if by_sets is None else by_sets.gains(after, level))
        for measure, old, new in zip(self.measures, self.sizes, sizes, strict=True):
            if by_sets is not None and measure.is_own_error:
                gains.append(next(drawn))
            else:
                gains.append(self._gain(measure, old.value - new.value, after, level))
        return gains

    def changed(self, after: Predictions) -> float:
        """Return the share of rows whose predicted class is another."""
        predicted = top_label(after.P)[1]
        return float(np.average(predicted != self.predicted, weights=after.w))

    def _gain(self, measure: Measure, gain: float, after: Predictions, level: float) -> Gain:
        if measure.loss is not None:
            before, losses = self.losses[measure.name], measure.loss.losses(after)
            return Gain(gain, *gain_interval(before, losses, level))
        if measure.name not in self.resampled:
            return Gain(measure.sign * gain, np.nan, np.nan)
        # Differences in the same resamples of the rows: their mean less the gain is the bootstrap
        # estimate of its bias, which is subtracted.
        drawn = self.resampled[measure.name] - _resampled(measure, after, self.seed)
        t = resampling_factor(in_units(self.before), level) * stdtrit(
            drawn.size - 1, (1 + level) / 2
        )
        gain, half = measure.sign * (2 * gain - drawn.mean()), t * drawn.std(ddof=1)
        return Gain(float(gain), float(gain - half), float(gain + half))


def _resampled(measure: Measure, predictions: Predictions, seed: int) -> NDArray[np.float64]:
    """Return the metric in resamples of the rows, the same ones for all predictions of them."""
    assert measure.evaluate is not None
    n_resamples = affordable_resamples(*predictions.P.shape)
    return resample(measure.evaluate, draw_counts, in_copies(predictions), n_resamples, seed)
