"""Compare calibrators by metrics, on rows that they were not fitted on, as a frame."""

from __future__ import annotations

import sys
import threading
import warnings
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.utils.parallel import Parallel, delayed

from skcalib._comparison.held_out import HeldOutRows, open_rows, predict_held_out
from skcalib._comparison.paired_gain import (
    Measure,
    Measured,
    PairedGain,
    affordable_resamples,
    as_measures,
    measure_resampled,
    paired_gain,
)
from skcalib._scores.top_label import top_label
from skcalib._validation.keywords import check_between, check_count
from skcalib.calibrators import IdentityCalibrator
from skcalib.calibrators._names import calibrators_by_name
from skcalib.metrics._resampling import random_chunks

if TYPE_CHECKING:
    import pandas as pd

METRICS = (
    "log_loss",
    "brier_score",
    "expected_calibration_error",
    "static_calibration_error",
    "ks_calibration_error",
)
# A mean of the others, which fits each of them six times: runs only if named.
MEAN_OF_OTHERS = "stacked"
# Calibrators that are slow with more classes, where they run only if named.
HEAVY = ("dirichlet", "matrix")
HEAVY_CLASSES = 100


class Row(NamedTuple):
    """Results of one calibrator; ``values (folds, metrics)``."""

    values: NDArray[np.float64]
    gains: list[PairedGain]
    fit_seconds: float
    changed: float
    warning: str = ""
    error: str = ""


class Baseline(NamedTuple):
    """Results of the identity: its predicted columns, and each metric with its parts."""

    predicted: NDArray[np.intp]
    measured: list[Measured]


class Task(NamedTuple):
    """Data and metrics, the same for every calibrator; ``row`` numbers measured rows from 0."""

    data: HeldOutRows
    measures: list[Measure]
    row: NDArray[np.intp]
    chunks: list[tuple[np.random.SeedSequence, int]]
    level: float

    def run(self, calibrator: Any, baseline: Baseline | None) -> tuple[Row, Baseline]:
        """Fit, predict and measure one calibrator; without a baseline it is its own baseline."""
        with recorded_warnings() as caught:
            fit = predict_held_out(calibrator, self.data)
        pooled = fit.pooled()
        measured = [measure_resampled(m, pooled, self.row, self.chunks) for m in self.measures]
        own = Baseline(top_label(pooled.P)[1], measured)
        base = own if baseline is None else baseline
        row = Row(
            np.array([[m.value(fold) for m in self.measures] for fold in fit.folds]),
            [
                paired_gain(m, before, after, self.row, pooled.w, self.level)
                for m, before, after in zip(self.measures, base.measured, measured, strict=True)
            ],
            float(np.mean(fit.seconds)),
            float(np.average(own.predicted != base.predicted, weights=pooled.w)),
            warning=_line(caught[0].message) if caught else "",
        )
        return row, own

    def try_run(self, calibrator: Any, baseline: Baseline) -> Row:
        """Run, or return a row with the error."""
        try:
            return self.run(calibrator, baseline)[0]
        except Exception as error:  # an error of one calibrator must not end the comparison
            return self.failed(f"{type(error).__name__}: {_line(error)}")

    def failed(self, why: str) -> Row:
        """Return a row without numbers."""
        nothing = PairedGain(np.nan, np.nan, np.nan)
        m = len(self.measures)
        return Row(np.full((1, m), np.nan), [nothing] * m, np.nan, np.nan, error=why)


@contextmanager
def recorded_warnings() -> Iterator[list[warnings.WarningMessage]]:
    """Keep warnings for the row; in the main thread only.

    Python has one list of filters for all threads: replacing it in one of several threads would
    lose the warnings of the others. Processes of joblib work in their main thread; in threads of
    joblib warnings are shown at once.
    """
    if threading.current_thread() is not threading.main_thread():
        yield []
        return
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        yield caught


def _line(message: object) -> str:
    return " ".join(str(message).split())


def compare_calibrators(
    X: ArrayLike,
    y: ArrayLike,
    calibrators: Any = None,
    *,
    metrics: Any = None,
    cv: Any = 5,
    test: tuple[Any, ...] | None = None,
    n_jobs: int | None = None,
    verbose: int = 0,
    sample_weight: ArrayLike | None = None,
    input: str = "auto",
    classes: ArrayLike | None = None,
    pos_label: Any = None,
    n_resamples: int | None = None,
    confidence_level: float = 0.95,
    random_state: Any = None,
) -> pd.DataFrame:
    r"""Compare calibrators, including no calibration, on rows that they were not fitted on.

    Every calibrator is fitted on the training rows of each fold and measured on its test rows.
    The gain of calibrator g over the identity is, for a metric :math:`\theta` and the
    predictions Q of all folds together,

    .. math:: \theta(y, Q_{\text{identity}}) - \theta(y, Q_g)

    with a confidence interval. If no interval lies above 0, these rows do not show that
    calibration is needed.

    Parameters
    ----------
    X : array-like of shape (n, K), (n, 1) or (n,)
        Scores of rows that the classifier was not fitted on: logits or probabilities, as a
        calibrator takes them.
    y : array-like of shape (n,)
        Labels.
    calibrators : dict, list or None, default=None
        A list of calibrators or of names such as "temperature", or a dict that names each. Any
        classifier is allowed: it is fitted on scores as features. The identity is always
        included. None means every calibrator of this package with its defaults except "stacked",
        which fits several of them six times; :class:`AutoCalibrator`, the recommended one, is
        first. Matrix and Dirichlet scaling are then left out if K > 100, and their rows give this
        reason.
    metrics : list, dict or None, default=None
        Names such as "log_loss", "brier_score", "error_rate", "ks_calibration_error" or a
        scorer of scikit-learn; functions ``metric(y_true, y_proba, ...)``, smaller is better,
        which get `labels` and `sample_weight` if they take them; or scorers. A dict names
        them. None means log loss, Brier score, ECE, SCE and the KS error.
    cv : int, splitter or iterable of (train, test), default=5
        Folds; an integer means stratified ones. Not used with `test`.
    test : tuple (X, y) or (X, y, sample_weight), default=None
        Rows to measure on; calibrators are then fitted once, on all of `X`.
    n_jobs : int, default=None
        Calibrators tried at the same time, as in joblib.
    verbose : int, default=0
        1 shows a bar if tqdm is installed, else a line on stderr for each calibrator; 2 always
        shows the lines.
    sample_weight : array-like of shape (n,), default=None
        Non-negative weights, for fits and metrics.
    input : {"auto", "logits", "proba"}, default="auto"
        What the columns of `X` are; decided once, for all folds.
    classes : array-like of shape (K,), default=None
        Labels of the columns, in their order; needed if they cannot be inferred from `y`.
    pos_label : label, default=None
        The event whose probability calibration errors measure. With one column, which is the
        probability or the logit of that event, None means 1 or True of labels {0, 1}, {-1, 1}
        or booleans; others need it. With more columns, None means the default of each metric.
    n_resamples : int, default=None
        Resamples for the interval of a metric that is not a mean over rows; None means 200, or
        fewer, at least 20, if n K is large. 0 means no such intervals.
    confidence_level : float in (0, 1), default=0.95
        Level of the intervals of one metric, for all calibrators together.
    random_state : int, RandomState instance or None, default=None
        Seed of the resamples.

    Returns
    -------
    frame : pandas.DataFrame
        A row for each calibrator, the identity first. For each metric the columns
        ``(metric, "mean")`` and ``"std"`` over the folds (NaN for a single one), ``"rank"`` (1 is
        best, ties share the lower), ``"gain"`` over the identity and its interval, ``"low"`` and
        ``"high"``: positive if the calibrator is better. Then "fit seconds" (mean over folds),
        "argmax changed" (share of rows whose predicted class differs from the identity's),
        "warning" (the first one raised) and "error" (why a calibrator has no numbers), which are
        empty strings if there is none.

    Raises
    ------
    ValueError
        If scores, labels, weights or keywords are invalid.
    TypeError
        If a calibrator or a metric is neither a name nor an object of its kind.

    See Also
    --------
    metric_rank_correlation : How far the metrics agree.
    skcalib.plotting.ComparisonDisplay : A plot of the table.

    Notes
    -----
    Gains are paired: both predictions are for the same rows. For a mean over rows (log loss,
    Brier score, error rate) the interval is the mean difference plus or minus t standard errors.
    For other metrics rows are drawn with replacement, the same for all calibrators, and the
    bootstrap estimate of the bias is subtracted: errors are biased upwards, most for a well
    calibrated model. Levels have Sidak's correction for the number of calibrators with results,
    so that the best may be chosen after looking.

    The intervals cover the sampling of the measured rows, given the fitted calibrators, not the
    sampling of the rows that they are fitted on. There is no correction for several metrics:
    choose the metric before looking.

    References
    ----------
    Efron, Tibshirani (1993). An Introduction to the Bootstrap. Chapman & Hall.

    Sidak (1967). Rectangular Confidence Regions for the Means of Multivariate Normal
    Distributions. Journal of the American Statistical Association 62.

    Examples
    --------
    >>> import numpy as np
    >>> from skcalib import compare_calibrators
    >>> rng = np.random.default_rng(0)
    >>> y = rng.integers(3, size=900)
    >>> Z = 4 * (rng.normal(size=(900, 3)) + 1.5 * np.eye(3)[y])  # logits 2.7 times too large
    >>> frame = compare_calibrators(Z, y, ["temperature", "isotonic"], metrics=["log_loss"])
    >>> frame["log_loss"][["mean", "rank"]].round(2)
                 mean  rank
    identity     0.82   3.0
    temperature  0.56   1.0
    isotonic     0.64   2.0
    >>> bool(frame.loc["temperature", ("log_loss", "low")] > 0)
    True
    """
    check_between("confidence_level", confidence_level, 0, 1, "a number in (0, 1)")
    data = open_rows(
        X, y, sample_weight, cv=cv, test=test, input=input, classes=classes, pos_label=pos_label
    )
    measures = as_measures(METRICS if metrics is None else metrics)
    named, left_out = _choose(calibrators, data.classes.size)
    measured = data.measured()
    if n_resamples is None:
        n_resamples = affordable_resamples(measured.size, data.classes.size)
    check_count("n_resamples", n_resamples, 0)
    others = max(len(named) - 1, 1)
    task = Task(
        data,
        measures,
        np.unique(measured, return_inverse=True)[1],
        random_chunks(n_resamples, random_state),
        confidence_level ** (1 / others),
    )
    (first, identity), *rest = named.items()
    row, baseline = task.run(identity, None)
    rows = {first: row}
    if n_jobs in (None, 1):
        runs: Iterable[Row] = (task.try_run(calibrator, baseline) for _, calibrator in rest)
    else:
        runs = Parallel(n_jobs=n_jobs, return_as="generator")(
            delayed(Task.try_run)(task, calibrator, baseline) for _, calibrator in rest
        )
    for (name, _), row in zip(rest, _progress(runs, [n for n, _ in rest], verbose), strict=True):
        rows[name] = row
    rows.update({name: task.failed(why) for name, why in left_out.items()})
    return _frame(rows, measures)


def _choose(calibrators: Any, n_classes: int) -> tuple[dict[str, Any], dict[str, str]]:
    """Return calibrators by name, the identity first, and the reasons to leave others out."""
    known = calibrators_by_name()
    left_out = {}
    if calibrators is None:
        named = {name: made for name, made in known.items() if name != MEAN_OF_OTHERS}
        if n_classes > HEAVY_CLASSES:
            why = f"left out: {n_classes} classes, more than {HEAVY_CLASSES}; name it to run it"
            left_out = {name: why for name in HEAVY if named.pop(name, None) is not None}
    elif isinstance(calibrators, Mapping):
        named = {str(name): _resolve(given, known) for name, given in calibrators.items()}
    else:
        if isinstance(calibrators, str) or hasattr(calibrators, "fit"):
            calibrators = [calibrators]
        if not np.iterable(calibrators):
            raise TypeError(f"calibrators must be a list or a dict; got {calibrators!r}.")
        named = _by_name(list(calibrators), known)
    is_identity = [name for name, c in named.items() if type(c) is IdentityCalibrator]
    if not is_identity and "identity" in named:
        raise ValueError("'identity' is the name of the baseline: give that calibrator another.")
    first = is_identity[0] if is_identity else "identity"
    return {first: known["identity"], **named}, left_out


def _by_name(listed: list[Any], known: dict[str, Any]) -> dict[str, Any]:
    kinds = [type(calibrator).__name__ for calibrator in listed]
    named: dict[str, Any] = {}
    for given, kind in zip(listed, kinds, strict=True):
        resolved = _resolve(given, known)
        if isinstance(given, str):
            name = given
        else:
            name = kind if kinds.count(kind) == 1 else _line(repr(given))
        if name in named:
            raise ValueError(f"calibrators has {name} twice: pass a dict that names each.")
        named[name] = resolved
    return named


def _resolve(given: Any, known: dict[str, Any]) -> Any:
    if isinstance(given, str):
        if given not in known:
            raise ValueError(
                f"calibrators: {given!r} is not the name of a calibrator: use one of "
                f"{', '.join(known)}, or pass the object."
            )
        return known[given]
    if isinstance(given, type):
        name = given.__name__
        raise TypeError(f"calibrators holds the class {name}: write {name}() for an object of it.")
    if not (hasattr(given, "fit") and hasattr(given, "get_params")):
        raise TypeError(f"calibrators are names or scikit-learn classifiers; got {given!r}.")
    return given


def _progress(runs: Iterable[Row], names: list[str], verbose: int) -> Iterable[Row]:
    if not verbose:
        return runs
    if verbose == 1:
        try:
            from tqdm import tqdm  # type: ignore[import-untyped, unused-ignore]
        except ImportError:
            pass
        else:
            return tqdm(runs, total=len(names), desc="calibrators")
    return _print_each(runs, names)


def _print_each(runs: Iterable[Row], names: list[str]) -> Iterator[Row]:
    for i, (name, row) in enumerate(zip(names, runs, strict=True), 1):
        what = row.error or f"fitted in {row.fit_seconds:.2f} s"
        print(f"{i}/{len(names)} {name}: {what}", file=sys.stderr, flush=True)  # noqa: T201
        yield row


def _frame(rows: dict[str, Row], measures: list[Measure]) -> pd.DataFrame:
    import pandas as pd  # imported late, because pandas takes long to import

    found = list(rows.values())
    columns: dict[tuple[str, str], Any] = {}
    for j, measure in enumerate(measures):
        mean = pd.Series([row.values[:, j].mean() for row in found])
        columns[measure.name, "mean"] = mean
        columns[measure.name, "std"] = [
            row.values[:, j].std(ddof=1) if len(row.values) > 1 else np.nan for row in found
        ]
        columns[measure.name, "rank"] = (measure.sign * mean).rank(method="min")
        for k, part in enumerate(PairedGain._fields):
            columns[measure.name, part] = [row.gains[j][k] for row in found]
    columns["fit seconds", ""] = [row.fit_seconds for row in found]
    columns["argmax changed", ""] = [row.changed for row in found]
    columns["warning", ""] = [row.warning for row in found]
    columns["error", ""] = [row.error for row in found]
    frame = pd.DataFrame({key: np.asarray(value) for key, value in columns.items()})
    frame.index = pd.Index(list(rows), name=None)
    return frame
