"""compare_calibrators: choose the candidates, and fit and measure them on held-out rows."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike, NDArray
from sklearn.base import clone
from sklearn.utils.parallel import Parallel, delayed

from skcalib._comparison.comparison import (
    CalibratorComparison,
    Gains,
    Inputs,
    Row,
    Size,
    decide,
    level_of,
    sizes_of,
)
from skcalib._comparison.held_out import (
    HeldOutRows,
    TestRows,
    check_same_classes,
    groups_of_rows,
    in_folds,
    predict_held_out,
    read_rows,
    sorted_classes,
    test_rows,
)
from skcalib._comparison.measures import LOG_LOSS, Measure, make_measures, mean_auc
from skcalib.calibrators import AutoCalibrator, IdentityCalibrator
from skcalib.metrics import SCORERS

from skcalib.extending import (  # isort: skip
    Float64Array, Gain, GroupwiseCalibrator, RowLosses, calibrators_by_name, check_labels,
    check_lengths, check_level, check_weight, clusters_text, compute_now, is_dask,
    read_categories, read_remote, recorded_warnings, resolve_calibrator, seed_of, suggest_name,
    to_array, too_few,
)  # fmt: skip

# The calibrators that are compared, by name.


# With more than 100 classes, slow calibrators run only if the user names them.
HEAVY_CLASSES = 100


def choose_calibrators(
    calibrators: Any, data: HeldOutRows
) -> tuple[dict[str, Any], dict[str, str]]:
    """Return the calibrators to compare by name, and the reasons why others are left out.

    The identity is the first calibrator.
    """
    known = {**calibrators_by_name(), "groupwise": GroupwiseCalibrator(AutoCalibrator())}
    left_out = {}
    if calibrators is None:
        named = dict(known)
        if data.groups is None:
            del named["groupwise"]
        n_classes = data.classes.size
        if not is_dask(data.scores) and np.isnan(to_array(data.scores)).any():
            named = {
                name: c for name, c in named.items() if c.__sklearn_tags__().input_tags.allow_nan
            }
        elif n_classes > HEAVY_CLASSES:
            why = (
                f"left out, because it is slow with {n_classes} classes (more than "
                f"{HEAVY_CLASSES}): to run it, add its name to calibrators"
            )
            left_out = {name: why for name in ("dirichlet", "matrix") if named.pop(name, None)}
    else:
        if isinstance(calibrators, str) or hasattr(calibrators, "fit"):
            calibrators = [calibrators]
        if not np.iterable(calibrators):
            raise TypeError(f"calibrators must be a list or a dict; got {calibrators!r}.")
        if not isinstance(calibrators, Mapping):
            calibrators = _name_calibrators(list(calibrators))
        named = {str(name): _resolve(calibrator, known) for name, calibrator in calibrators.items()}
    is_identity = [name for name, c in named.items() if type(c) is IdentityCalibrator]
    if not is_identity and "identity" in named:
        raise ValueError(
            "calibrators: 'identity' is the name of the baseline: give the calibrator another name."
        )
    first = is_identity[0] if is_identity else "identity"
    return {first: known["identity"], **named}, left_out


def _name_calibrators(listed: list[Any]) -> dict[str, Any]:
    kinds = [type(calibrator).__name__ for calibrator in listed]
    named: dict[str, Any] = {}
    for calibrator, kind in zip(listed, kinds, strict=True):
        name = kind if kinds.count(kind) == 1 else one_line(repr(calibrator))
        name = calibrator if isinstance(calibrator, str) else name
        if name in named:
            raise ValueError(
                f"calibrators contains {name} twice: pass a dict with a name for each."
            )
        named[name] = calibrator
    return named


def _resolve(entry: Any, known: dict[str, Any]) -> Any:
    if isinstance(entry, str):
        if entry not in known:
            raise ValueError(
                f"calibrators: {entry!r} is not a calibrator name: {suggest_name(entry, known)}"
            )
        return known[entry]
    if isinstance(entry, type):
        name = entry.__name__
        raise TypeError(f"calibrators contains the type {name}: pass an instance, {name}().")
    if not (hasattr(entry, "fit") and hasattr(entry, "get_params")):
        raise TypeError(f"calibrators must be names or scikit-learn classifiers; got {entry!r}.")
    if isinstance(entry, GroupwiseCalibrator):  # the inner calibrator may be given by name
        return clone(entry).set_params(calibrator=resolve_calibrator(entry.calibrator))
    return entry


def one_line(text: object) -> str:
    """Convert an object to a text on one line."""
    return " ".join(str(text).split())


# Rows with scores in a Dask array, which is read chunk by chunk.


def _open_chunks(
    X: Any,
    y: Any,
    sample_weight: Any,
    *,
    test: TestRows | None,
    classes: ArrayLike | None,
    groups: Any,
    clusters: Any,
    **known: Any,
) -> HeldOutRows:
    """Check the calibration rows and test rows of a Dask array, chunk by chunk."""
    import dask.array as da

    parts = [_known(X, y, sample_weight, "X", "y")]
    if test is not None:
        parts.append(_known(test.X, test.y, test.sample_weight, "test X", "test y"))
    arrays, labels, weights = zip(*parts, strict=True)
    n_fit, n_classes = arrays[0].shape
    check_same_classes(arrays[-1].shape[1], n_classes)
    X = da.concatenate(arrays).rechunk({1: -1})
    if classes is None:
        classes = read_categories(y, n_classes)
    else:
        order, classes = sorted_classes(classes, n_classes)
        X = X if order is None else X[:, order]
    source, y, _ = read_remote(X, np.concatenate(labels), None)
    data = read_rows(source, y, None, classes=classes, **known)
    w = np.concatenate(weights)
    nonzero, n_nonzero = np.flatnonzero(w > 0), int((w[:n_fit] > 0).sum())
    rows = np.arange(nonzero.size)
    weighted = sample_weight is not None or (test is not None and test.sample_weight is not None)
    return data._replace(
        scores=X if nonzero.size == w.size else X[nonzero],
        code=data.code[nonzero],
        w=w[nonzero] if weighted else None,
        splits=[] if test is None else [(rows[:n_nonzero], rows[n_nonzero:])],
        groups=groups_of_rows("groups", groups, w, test, n_fit),
        cluster=groups_of_rows("clusters", clusters, w, test, n_fit),
    )


def _known(
    X: Any, y: Any, sample_weight: Any, X_name: str, y_name: str
) -> tuple[Any, NDArray[Any], Float64Array]:
    """Return a Dask array with known chunk lengths, and its checked labels and weights."""
    import dask.array as da

    X = X if is_dask(X) else da.from_array(np.asarray(X))
    X = X.copy().compute_chunk_sizes() if np.isnan(X.shape[0]) else X
    y, sample_weight = compute_now(y, sample_weight)
    labels = check_labels(y, y_name)
    check_lengths(labels, X.shape[0], y_name, X_name)
    return X, labels, check_weight(sample_weight, X.shape[0], warn=True)


def refuse_metrics(measures: list[Measure], chosen_by: Measure | None) -> None:
    """Raise an error for metrics that need all rows of a Dask array in memory."""
    for measure in measures:
        if measure.evaluate is not None and not measure.evaluate.is_skcalib_metric:
            raise ValueError(
                f"metrics: {measure.name!r} would load all of X, a dask array: pass log_loss, "
                "brier_score, error_rate or metrics of skcalib, or X.compute() if it fits into "
                "memory."
            )
    if chosen_by is not None:
        raise ValueError(
            f"choose_by={chosen_by.name!r}: the bias of a calibration error is simulated with all "
            "rows in memory, but X is a dask array: pass 'log_loss', or X.compute()."
        )


# Progress of a comparison, as a bar or as lines on stderr.


BAR = 20  # characters


def show_progress(runs: Iterator[Row], names: list[str], as_bar: bool) -> Iterator[Row]:
    """Yield the result of each calibrator, and show which calibrator is being fitted."""
    stream, n = sys.stderr, len(names)
    try:
        for i, name in enumerate(names):
            if as_bar:
                # The cursor returns to the start, so that the next text replaces the bar.
                bar = f"[{'#' * (BAR * i // n):<{BAR}}] {i + 1}/{n} {name}"
                stream.write(f"\033[K{bar[:79]}\r")
            else:
                stream.write(f"{i + 1}/{n} {name}: ")
            stream.flush()
            row = next(runs)
            if not as_bar:
                stream.write(f"{row.error or f'fitted in {row.fit_seconds:.2f} s'}\n")
            yield row
    finally:
        stream.write("\033[K" * as_bar)
        stream.flush()


# Compare calibrators by metrics, on rows that they were not fitted on.


METRICS = (
    "log_loss",
    "brier_score",
    "expected_calibration_error",
    "static_calibration_error",
    "ks_calibration_error",
)
# The SCE of a binary problem equals its ECE.
OF_EVENT = tuple(name for name in METRICS if name != "static_calibration_error")


class Task(NamedTuple):
    """Data and metrics of a comparison, the same for every calibrator.

    The calibrator is chosen on the ``folds``. Results are reported for the ``test`` rows, or for
    the folds if ``test`` is None.
    """

    folds: HeldOutRows
    test: HeldOutRows | None
    measures: list[Measure]
    chosen_by: Measure | None
    seed: int

    def run_all(
        self, calibrators: Iterable[Any], levels: Iterable[float], n_jobs: int | None
    ) -> Iterator[Row]:
        """Yield the result of each calibrator, the identity first."""
        (identity, level), *others = zip(calibrators, levels, strict=True)
        row, baseline = self.run(identity, None, level)
        yield row
        yield from Parallel(n_jobs=n_jobs, return_as="generator")(
            delayed(Task.try_run)(self, calibrator, baseline, level) for calibrator, level in others
        )

    def run(self, calibrator: Any, baseline: Gains | None, level: float) -> tuple[Row, Gains]:
        """Fit and measure one calibrator; return its results and the baseline for gains.

        Without a `baseline`, the calibrator is the identity, and becomes the baseline.
        """
        with recorded_warnings() as caught:
            pooled, seconds = predict_held_out(calibrator, self.folds)
            reported = pooled
            if self.test is not None:
                reported, seconds = predict_held_out(calibrator, self.test)
        sizes = sizes_of(self.measures, reported, self.seed)
        if baseline is None:
            baseline = Gains(self.measures, reported, sizes, self.seed)
            gains = [Gain(0.0, 0.0, 0.0)] * len(self.measures)
        else:
            gains = baseline.measure(reported, sizes, level)
        chosen_error = np.nan
        if self.chosen_by is not None and self.test is None:
            chosen_error = sizes[self.measures.index(self.chosen_by)].debiased
        elif self.chosen_by is not None:
            chosen_error = sizes_of([self.chosen_by], pooled, self.seed)[0].debiased
        held = LOG_LOSS.losses(pooled)
        row = Row(
            sizes,
            gains,
            held,
            held if self.test is None else LOG_LOSS.losses(reported),
            chosen_error,
            float(np.mean(seconds)),
            baseline.changed(reported),
            warning=one_line(caught[0].message) if caught else "",
        )
        if reported.event is not None:
            row = row._replace(auc=mean_auc(reported, (self.test or self.folds).folds))
        return row, baseline

    def try_run(self, calibrator: Any, baseline: Gains, level: float) -> Row:
        """Fit and measure one calibrator; if this fails, return a row with the error text."""
        try:
            return self.run(calibrator, baseline, level)[0]
        except Exception as error:  # an error in one calibrator must not stop the comparison
            return self.failed(f"{type(error).__name__}: {one_line(error)}")

    def failed(self, why: str) -> Row:
        """Return a row of the comparison that has an error text instead of numbers."""
        m, nothing = len(self.measures), RowLosses(np.empty(0), None, np.empty(0))
        sizes, gains = [Size(np.nan, np.nan, np.nan)] * m, [Gain(np.nan, np.nan, np.nan)] * m
        return Row(sizes, gains, nothing, nothing, np.nan, np.nan, np.nan, error=why)


def compare_calibrators(
    X: ArrayLike,
    y: ArrayLike,
    calibrators: Any = None,
    *,
    metrics: Any = None,
    cv: Any = 5,
    test: tuple[Any, ...] | None = None,
    input: str = "auto",
    classes: ArrayLike | None = None,
    pos_label: Any = None,
    sample_weight: ArrayLike | None = None,
    groups: Any = None,
    clusters: Any = None,
    choose_by: str = "log_loss",
    confidence_level: float = 0.95,
    random_state: Any = None,
    n_jobs: int | None = None,
    verbose: int | None = None,
) -> CalibratorComparison:
    r"""Compare calibrators, and no calibration, by cross-validation.

    Every calibrator is fitted on the training rows of each fold, and predicts the test rows of the
    fold. All numbers are computed from the predictions of all folds together. The choice is
    :class:`AutoCalibrator`, unless the log loss of another calibrator is lower by more than three
    standard errors. If no calibrator improves on the model, the choice is the identity (no
    calibration). The gain of calibrator g over the identity is, for a metric :math:`\theta` and
    the predictions Q of all folds,

    .. math:: \theta(y, Q_{\text{identity}}) - \theta(y, Q_g)

    with a confidence interval.

    Parameters
    ----------
    X : array-like of shape (n, K), (n, 1) or (n,)
        Scores of rows that the classifier was not fitted on: logits or probabilities. A Dask array
        is read chunk by chunk.
    y : array-like of shape (n,) or (n, K)
        Labels, or soft labels: the shares of several raters, with a column for each class.
    calibrators : dict, list or None, default=None
        A list of calibrators or of names such as "temperature", or a dict with a name for each
        calibrator. Any classifier is allowed: it is fitted with the scores as features. The
        identity is always included. None means every calibrator of this package with its defaults,
        except matrix and Dirichlet scaling if K > 100; their rows then give the reason.
        :class:`AutoCalibrator`, the recommended one, is first.
    metrics : list, dict or None, default=None
        Names such as "log_loss", "brier_score", "error_rate", "ks_calibration_error" or names of
        scorers of scikit-learn; scorers; or functions ``metric(y_true, y_proba, ...)``, of which
        smaller values are better. Functions get `labels` and `sample_weight` if they have these
        keywords. A dict has a name for each metric. None means log loss, Brier score, ECE, KS
        error and, with more than two classes, SCE.
    cv : int, splitter or iterable of (train, test), default=5
        Folds; an integer is the number of stratified folds. A row that is in several test folds is
        measured in the first of them.
    test : tuple (X, y), or up to (X, y, sample_weight, groups, clusters), default=None
        Test rows. The choice is made in folds of `X`, and results are reported for the test rows,
        with calibrators fitted on all of `X`.
    input : {"auto", "logits", "proba"}, default="auto"
        Kind of the columns of `X`; "auto" is decided once, for all folds.
    classes : array-like of shape (K,), default=None
        Labels of the columns, in their order; needed if they cannot be inferred from `y`.
    pos_label : label, default=None
        Label of the event whose probability calibration errors measure. None means 1 or True for
        labels {0, 1}, {-1, 1} or booleans. For other labels, None means the second of two columns,
        and a single column (the probability or the logit of the event) needs `pos_label`. With
        more columns, None means the default of each metric.
    sample_weight : array-like of shape (n,), default=None
        Non-negative weights. Integers are counts: 2 is two copies of the row. Of floats only the
        ratios matter (see "Weights" under "Valid input" in the user guide). 0 is the row's absence.
        Weights are scaled for the rows of each fit, and for all measured rows.
    groups : array-like of shape (n,) or (n, g), default=None
        Group of each row; several columns are crossed. Calibrators whose ``fit`` has the keyword
        `groups` get the groups of their rows. :class:`GroupwiseCalibrator` ("groupwise") is also
        compared if `calibrators` is None. With an integer `cv`, each fold contains each label of
        each group in equal proportions.
    clusters : array-like of shape (n,), default=None
        Cluster of each row, such as the hospital of a patient, if rows of one cluster are
        dependent. With an integer `cv`, no fold splits a cluster, there are at most as many folds
        as clusters, and folds are not stratified by `groups`; a splitter gets the clusters as its
        groups. Intervals and the verdict count clusters. They need at least 3 clusters, and 6 for
        calibration errors; see "Dependent rows" in the user guide. None means that rows are
        independent.
    choose_by : str, default="log_loss"
        Log loss, or the name of a calibration error. With an error, the choice is the calibrator
        with the lowest debiased error, among those whose log loss is within two standard errors of
        that of the choice by log loss. Without this limit, useless predictions with a low error
        could be chosen.
    confidence_level : float in (0, 1), default=0.95
        Level of the interval of :class:`AutoCalibrator`, and simultaneous level of the intervals of
        all other calibrators.
    random_state : int, RandomState instance or None, default=None
        Seed of the simulations for the intervals of errors. With the same integer,
        :func:`skcalib.metrics.calibration_interval` returns the errors of the identity.
    n_jobs : int, default=None
        Number of calibrators that are fitted in parallel, as in joblib; always 1 for a Dask array.
    verbose : int or None, default=None
        Progress on stderr. None shows a bar if stderr is a terminal, and removes the bar at the
        end; 0 shows nothing; 1 shows the bar or, if stderr is not a terminal, a line for each
        calibrator; 2 always shows the lines.

    Returns
    -------
    comparison : CalibratorComparison
        The result, with the name of the `choice`, the `verdict`, a `frame` of all numbers, and
        methods to `fit` the chosen calibrator and to `plot` the gains.

    Raises
    ------
    ValueError
        If scores, labels, weights or keywords are invalid.
    TypeError
        If a calibrator or a metric is neither a name nor an object of its kind.

    See Also
    --------
    metric_rank_correlation : Compute how much the metrics agree.
    skcalib.plotting.ComparisonDisplay : Plot of the gains.

    Notes
    -----
    Gains are paired: both predictions are for the same rows. For a mean over rows (log loss,
    Brier score, error rate), the interval is by Hall's t, which corrects for skewness. For log
    loss and Brier score, one pseudo row with a wrong top class is added: if a model is nearly
    always correct, the rows may contain no error, and the most confident calibrator would seem the
    best. For scikit-learn scorers and your own functions, rows are drawn with replacement, and the
    bootstrap estimate of the bias is subtracted. Intervals of all calibrators except
    `AutoCalibrator` have Sidak's correction for their number, so that the interval of the best of
    them is valid.

    In the intervals, an integer weight is the number of observations of its row, and a row with a
    relative weight is one observation. The intervals cover the sampling of the measured rows, given
    the fitted calibrators, not the sampling of the calibration rows. They are not corrected for the
    number of metrics.

    With soft labels, losses are means over the raters, and a row is one observation. Calibration
    errors have no debiased value, because this value needs simulated labels, and the intervals of
    their gains are by resampling. `choose_by` must be log loss, and metrics must accept soft
    labels.

    With `clusters`, the observations of a mean are sums over clusters. The interval contains both
    Hall's interval and Student's with the degrees of freedom of Bell and McCaffrey (2002); the same
    interval is used for relative weights, with weighted residuals. For calibration errors, signs of
    clusters are drawn instead of labels, as in `calibration_interval`. Resampling draws clusters
    instead of rows.

    On a Dask array, means over rows have intervals. Calibration errors have only a value and a
    gain, because the other numbers need all rows in memory. `choose_by` must be log loss, and
    metrics of other packages are refused.

    References
    ----------
    Bell, McCaffrey (2002). Bias reduction in standard errors for linear regression with multi-stage
    samples. Survey Methodology 28.

    Efron, Tibshirani (1993). An Introduction to the Bootstrap. Chapman & Hall.

    Hall (1992). On the Removal of Skewness by Transformation. Journal of the Royal Statistical
    Society, Series B 54.

    Sidak (1967). Rectangular Confidence Regions for the Means of Multivariate Normal
    Distributions. Journal of the American Statistical Association 62.

    Examples
    --------
    >>> import numpy as np
    >>> from skcalib import compare_calibrators
    >>> rng = np.random.default_rng(0)
    >>> y = rng.integers(3, size=900)
    >>> Z = 4 * (rng.normal(size=(900, 3)) + 1.5 * np.eye(3)[y])  # logits 2.7 times too large
    >>> found = compare_calibrators(Z, y, ["auto", "temperature"], metrics=["log_loss"])
    >>> print(found.verdict.split(" (")[0])
    Calibrate by auto: cross-validated log loss falls from 0.822 to 0.565
    >>> found.frame["log_loss"][["value", "rank"]].round(2)
                 value  rank
    identity      0.82   3.0
    auto          0.56   2.0
    temperature   0.56   1.0
    """
    check_level(confidence_level)
    known = {"input": input, "classes": classes, "pos_label": pos_label, "groups": groups}
    # A Dask array with a single column is loaded into memory, as the labels are.
    in_chunks = is_dask(X) and np.ndim(X) == 2 and np.shape(X)[1] != 1
    read: Callable[..., HeldOutRows] = _open_chunks if in_chunks else read_rows
    tested = None if test is None else test_rows(test)
    data = read(X, y, sample_weight, test=tested, clusters=clusters, **known)
    folds = in_folds(data, cv)
    data = folds if test is None else data
    usual = METRICS if data.event is None else OF_EVENT
    measures = make_measures(usual if metrics is None else metrics)
    chosen_by = _error_to_choose_by(choose_by, measures)
    if is_lazy := is_dask(data.scores):
        refuse_metrics(measures, chosen_by)
    if chosen_by is not None and too_few(number := folds.n_clusters):
        raise ValueError(f"choose_by={choose_by!r}: {clusters_text(number)}; pass 'log_loss'.")
    if data.shares is not None and chosen_by is not None:
        raise ValueError(
            f"choose_by={choose_by!r} does not support soft labels in y: pass 'log_loss'."
        )
    named, left_out = choose_calibrators(calibrators, data)
    task = Task(folds, None if test is None else data, measures, chosen_by, seed_of(random_state))
    anchor = next((name for name, c in named.items() if type(c) is AutoCalibrator), None)
    n_others = len(named) - 1 - (anchor is not None)
    levels = [level_of(name, n_others, anchor, confidence_level) for name in named]
    # Dask already uses all cores.
    runs = task.run_all(named.values(), levels, 1 if is_lazy else n_jobs)
    terminal = hasattr(sys.stderr, "isatty") and sys.stderr.isatty()
    if terminal if verbose is None else verbose:
        runs = show_progress(runs, list(named), terminal and verbose in (None, 1))
    rows = dict(zip(named, runs, strict=True))
    rows.update({name: task.failed(why) for name, why in left_out.items()})
    choice, verdict, as_good = decide(
        rows,
        identity=next(iter(named)),
        anchor=anchor,
        n_others=n_others,
        level=confidence_level,
        chosen_by=None if chosen_by is None else chosen_by.name,
        kinds={name: type(calibrator).__name__ for name, calibrator in named.items()},
        has_test=test is not None,
    )
    frame = _frame(rows, measures, choice, as_good)
    inputs = Inputs(data, named, X, y, sample_weight, _is_in_order(X, classes, data.event), groups)
    return CalibratorComparison(frame, choice, verdict, as_good, inputs)


def _error_to_choose_by(name: str, measures: list[Measure]) -> Measure | None:
    """Return the calibration error to choose by (None for log loss), and add it to `measures`."""
    bare = str(name).removeprefix("neg_")
    if bare == "log_loss":
        return None
    if bare not in [m.name for m in measures] and f"neg_{bare}" in SCORERS:
        measures += make_measures([bare])
    for measure in measures:
        if measure.name == bare and measure.is_own_error:
            return measure
    raise ValueError(
        f"choose_by must be 'log_loss' or the name of a calibration error; got {name!r}."
    )


def _is_in_order(X: ArrayLike, classes: ArrayLike | None, event: int | None) -> bool:
    """Whether the columns of `X` are in the order of the sorted labels."""
    if np.ndim(X) == 1 or np.shape(X)[1] == 1:
        return event == 1
    return classes is None or sorted_classes(classes, np.shape(X)[1])[0] is None


def _frame(
    rows: dict[str, Row], measures: list[Measure], choice: str, as_good: list[str]
) -> pd.DataFrame:
    results = list(rows.values())
    columns: dict[tuple[str, str], Any] = {}
    for j, measure in enumerate(measures):
        for k, part in enumerate(("value", "debiased", "if calibrated")):
            columns[measure.name, part] = np.array([row.sizes[j][k] for row in results])
        value = pd.Series(measure.sign * columns[measure.name, "value"])
        columns[measure.name, "rank"] = value.rank(method="min").to_numpy()
        for k, part in enumerate(Gain._fields):
            columns[measure.name, part] = [row.gains[j][k] for row in results]
    columns["choice", "log loss"] = [np.nan if row.error else row.held.mean() for row in results]
    columns["choice", "chosen"] = [name == choice for name in rows]
    columns["choice", "as good"] = [name in as_good for name in rows]
    if not np.isnan(aucs := [row.auc for row in results]).all():
        columns["AUC", ""] = aucs
    columns["fit seconds", ""] = [row.fit_seconds for row in results]
    columns["argmax changed", ""] = [row.changed for row in results]
    columns["warning", ""] = [row.warning for row in results]
    columns["error", ""] = [row.error for row in results]
    return pd.DataFrame(columns, index=list(rows))
