"""Calibration by group, with a common calibrator and a regularised correction for each group."""

from __future__ import annotations

import warnings
from numbers import Integral, Real
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn import get_config
from sklearn.base import clone
from sklearn.utils._param_validation import HasMethods, Interval, StrOptions
from sklearn.utils.metadata_routing import process_routing
from sklearn.utils.validation import check_is_fitted

from skcalib._arrays.rowwise import Float64Array, FloatArray
from skcalib._arrays.sources import to_array
from skcalib._arrays.tensors import as_type_of
from skcalib._meta_estimators.out_of_fold import ClassifierWrapper, warn_of_weights, weight_keyword
from skcalib._scaling.evidence import GroupRows, fit_pooled
from skcalib._scores.scores import LEAST_CLIP, Scores, find_clip
from skcalib._validation.keywords import short_repr
from skcalib._validation.labels import (
    are_soft,
    encode_labels,
    read_labels,
    shares_of_soft,
    split_shares,
)
from skcalib._validation.rows import (
    Groups,
    as_sample_weight,
    check_weight,
    effective,
    ignore_label,
    read_groups,
    replace_absent_rows,
    rows_replacing_weight_0,
)
from skcalib._validation.scores import from_tensor, read_frame, refuse_lazy
from skcalib.calibrators._base import ScoreCalibrator, counted, span
from skcalib.calibrators._names import resolve_calibrator

# Groups of rows, from an argument or from a column of X.


def take_groups(X: Any, groups: Any, column: Any) -> tuple[Any, Any]:
    """Return scores and groups; if `groups` is None, take the groups from a column of `X`."""
    if groups is not None:
        return X, groups
    if column is None:
        raise ValueError(
            "groups is None: pass groups= with a label for each row, or group_column= with the "
            "name or the index of the column of X that contains the groups."
        )
    refuse_lazy("X", X)
    X = read_frame(X)
    columns = list(column) if isinstance(column, list | tuple) else [column]
    if hasattr(X, "columns"):
        names = [_name(each, list(X.columns)) for each in columns]
        rest = X.drop(columns=names) if hasattr(X, "iloc") else X.drop(names)
        return rest, X[names[0]] if len(names) == 1 else X[names]
    table = X.tocsr() if hasattr(X, "tocsr") else np.asarray(from_tensor("X", X))
    if table.ndim != 2 or any(isinstance(each, str) for each in columns):
        raise ValueError(
            f"group_column={column!r}: X has no column names; pass a frame, or a table and the "
            "index of the column, such as group_column=-1."
        )
    n = table.shape[1]
    for index in columns:
        if not -n <= index < n:
            raise ValueError(
                f"group_column={column!r}, but X has {n} columns: pass -{n} to {n - 1}."
            )
    groups = table[:, columns]
    groups = groups if isinstance(table, np.ndarray) else groups.toarray()
    rest = table[:, np.delete(np.arange(n), columns)]
    return rest, groups[:, 0] if len(columns) == 1 else groups


def labels_of_rows(groups: Any) -> NDArray[Any]:
    """Convert the groups of rows, in any form, to an array that can be indexed by row."""
    groups = read_frame(groups, "groups")
    if hasattr(groups, "columns"):
        return np.column_stack([labels_of_rows(groups[name]) for name in groups.columns])
    if hasattr(groups, "to_list"):
        groups = groups.to_list()
    groups = from_tensor("groups", groups)
    return groups if isinstance(groups, np.ndarray) else np.asarray(groups, dtype=object)


def _name(column: Any, names: list[Any]) -> Any:
    """Return the name of a column of X, given its name or its index."""
    if column in names:
        return column
    if isinstance(column, int | np.integer) and -len(names) <= column < len(names):
        return names[column]
    raise ValueError(
        f"group_column={column!r} is not a column of X: pass one of {short_repr(names)}."
    )


COLUMN_WAY = (
    "or name the column of X that contains the groups by GroupwiseCalibrator(group_column=)"
)


def map_group(
    P: FloatArray, coef: Float64Array, intercept: Float64Array, clip: float | Float64Array
) -> Float64Array:
    """Apply the correction of a group to probabilities ``(n, K)`` of the common calibrator."""
    Z = np.log(np.maximum(P, clip, dtype=np.float64))
    mass = P * np.exp((coef - 1.0) * Z + intercept)
    return np.asarray(mass / mass.sum(axis=1, keepdims=True), dtype=np.float64)


class GroupwiseCalibrator(ClassifierWrapper):
    r"""Calibrate each group of rows, with small groups shrunk towards a common calibrator.

    With q the probabilities of the common calibrator, which is fitted to all rows, the
    probabilities of group g are

    .. math:: P_k \propto q_k^{a_{gk}} e^{b_{gk}}, \qquad
              a_{gk} = 1 + s_g + d_{gk} ,

    with a slope :math:`s_g` for all classes, and a slope :math:`d_{gk}` and a shift :math:`b_{gk}`
    for each class; with two classes this is beta calibration. A probability of 0 stays 0. The
    parameters :math:`s_g`, :math:`d_{gk}` and :math:`b_{gk}` have normal priors with mean 0. The
    widths of these priors are the same for all groups and maximise the marginal likelihood of all
    rows. So corrections are small for groups with few rows and for groups that differ little, and
    large only for groups with many rows. The parameters are averaged over priors of these widths, a
    third and a ninth of these widths, and 0, weighted by their evidence. A group that was not in
    ``fit``, and a row without a group, are calibrated by the common calibrator.

    Parameters
    ----------
    calibrator : estimator or str, default=None
        The common calibrator: a calibrator of this package, its name ("auto", "temperature", ...)
        or any classifier that accepts scores as features; None means :class:`AutoCalibrator`.
    shrinkage : "auto" or float, default="auto"
        Strength of the shrinkage of groups to the common calibrator. "auto" estimates it from the
        data. A number above 0 adds ``shrinkage / 2`` times the squared parameters of a group to the
        summed log loss of its rows: with a very large number, all groups are calibrated alike; with
        a number near 0, each group separately.
    group_column : str, int or list of these, default=None
        Column of `X` that contains the groups, if `groups` is not passed: its name in a frame, or
        its index, such as -1. Several columns are combined: each combination is a group. The other
        columns are the scores. Within :class:`CalibratedClassifier`, it is a column of the
        classifier's data.

    Attributes
    ----------
    calibrator_ : estimator
        The common calibrator.
    groups_ : list of length G
        Labels of the groups in ``fit``; tuples if there are several columns.
    coef_ : ndarray of shape (G, K)
        :math:`a_g`: the slopes of each group, 1 without a correction.
    intercept_ : ndarray of shape (G, K)
        :math:`b_g`: the shifts of each group, 0 without a correction.
    effective_dof_ : ndarray of shape (G,)
        Effective number of parameters of each group; 0 means no correction.
    strengths_ : dict of str to float
        Estimated penalties of the "slope" :math:`s_g`, the "shift" :math:`b_{gk}` and the "class
        slope" :math:`d_{gk}`; with more than 100 classes, only of the slope.
    clip_ : float, or ndarray of shape (2,) for two classes
        Smaller probabilities q are raised to this value before their logarithm is computed.
    classes_ : ndarray of shape (K,)
        Sorted labels of the columns.
    class_count_ : ndarray of shape (K,)
        Weight of the rows of each class in ``fit``.

    Warns
    -----
    UserWarning
        If no group of ``predict_proba`` was in ``fit``, or if the calibrator does not accept
        weights.

    See Also
    --------
    skcalib.metrics.calibration_by_group : Tests whether groups are calibrated.
    CalibratedClassifier : Uses a groupwise calibrator, with groups from a column or by routing.

    Notes
    -----
    Relative weights count as the effective number of rows of each group. The predicted class may
    change.

    If rows have different options (NaN in probabilities, -inf in logits that are not
    log-probabilities), the common calibrator must accept such rows, and an option that was not
    offered has probability 0. Each group is fitted on the options that occur in the group. Slopes
    then multiply log q itself, so that :math:`s_g` is a temperature of the group, instead of the
    distance of log q from the mean of its column. An option that did not occur in a group in
    ``fit`` gets the slope :math:`1 + s_g`.

    There are three ways to pass groups: ``fit(Z, y, groups=g)`` and ``predict_proba(Z, groups=g)``;
    a `group_column`, which also works if only `X` is passed on, as in ``cross_val_predict``; and
    scikit-learn's metadata routing, where by default ``fit`` requests `groups` and `sample_weight`,
    and predictions request `groups`.

    ``python -m benchmarks.studies.groups`` compares it with one calibrator for all groups and with
    a separate calibrator for each group. Tables are in benchmarks/studies/README.md.

    References
    ----------
    .. [1] D. J. C. MacKay, "Bayesian interpolation", Neural Computation 4(3), 1992.
    .. [2] A. Gelman and J. Hill, "Data analysis using regression and multilevel/hierarchical
       models", Cambridge University Press, 2007.

    Examples
    --------
    >>> import numpy as np
    >>> from skcalib import GroupwiseCalibrator
    >>> rng = np.random.default_rng(0)
    >>> site = rng.choice(["A", "B", "C"], 3000)
    >>> f = rng.normal(size=3000)
    >>> y = f + 1.0 * (site == "B") + rng.logistic(size=3000) > 0
    >>> calibrator = GroupwiseCalibrator("temperature").fit(f, y, groups=site)
    >>> calibrator.groups_
    ['A', 'B', 'C']
    >>> p = calibrator.predict_proba([0.0, 0.0], groups=["B", "new"])[:, 1]
    >>> p.round(1).tolist()
    [0.7, 0.5]
    """

    # Metadata that is requested by default if metadata routing is enabled.
    __metadata_request__fit: ClassVar[dict[str, bool]] = {"groups": True, "sample_weight": True}
    __metadata_request__predict_proba: ClassVar[dict[str, bool]] = {"groups": True}
    __metadata_request__predict: ClassVar[dict[str, bool]] = {"groups": True}
    __metadata_request__predict_log_proba: ClassVar[dict[str, bool]] = {"groups": True}

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        "calibrator": [HasMethods(["fit", "predict_proba"]), str, None],
        "shrinkage": [StrOptions({"auto"}), Interval(Real, 0, None, closed="neither")],
        "group_column": [str, Integral, list, None],
    }

    def __init__(
        self, calibrator: Any = None, *, shrinkage: str | float = "auto", group_column: Any = None
    ) -> None:
        self.calibrator = calibrator
        self.shrinkage = shrinkage
        self.group_column = group_column

    def _wrapped(self) -> Any:
        return resolve_calibrator(self.calibrator)

    def _inner(self) -> Any:
        return self.calibrator_

    def fit(
        self,
        X: Any,
        y: ArrayLike,
        sample_weight: ArrayLike | None = None,
        groups: Any = None,
        *,
        ignore_index: Any = None,
    ) -> Self:
        """Fit the common calibrator on all rows, and a correction for each group.

        Parameters
        ----------
        X : array-like of shape (n, K), (n, 1) or (n,)
            Held-out scores of a form that the calibrator accepts. If `groups` is None, a table that
            also contains the `group_column`.
        y : array-like of shape (n,) or (n, K)
            Labels, or soft labels if the calibrator accepts them.
        sample_weight : array-like of shape (n,), default=None
            Non-negative weights. Integers are counts: 2 is two copies of the row. Of floats only
            the ratios matter (see "Weights" under "Valid input" in the user guide). 0 is the row's
            absence.
        groups : array-like of shape (n,) or (n, g), default=None
            Label of the group of each row, or several columns, whose combinations are the groups. A
            row without a group (None, NaN) is used only for the common calibrator.
        ignore_index : label, default=None
            Rows of this label, such as 255 or -100, are left out.

        Returns
        -------
        self : object
            Fitted calibrator.

        Raises
        ------
        ValueError
            If groups are neither given nor in a column, if no row has a group, or if the
            calibrator raises it.
        """
        self._validate_params()
        refuse_lazy("X", X)
        X, groups = take_groups(X, groups, self.group_column)
        common = clone(resolve_calibrator(self.calibrator))
        known = getattr(common, "classes", None)
        keyword = weight_keyword(common)
        if ignore_index is not None:
            if keyword is None:
                raise ValueError(
                    f"ignore_index={ignore_index!r}: {type(common).__name__} takes no "
                    "sample_weight, which is needed to ignore rows: drop the rows with this label."
                )
            sample_weight = ignore_label(y, sample_weight, ignore_index)
        standing = rows_replacing_weight_0(sample_weight)
        X, y = replace_absent_rows(X, standing), replace_absent_rows(y, standing)
        labels, shares, _ = read_labels(X, y, known, warn=True, ignore_index=ignore_index)
        if are_soft(labels):
            labels, shares = np.ceil(labels), shares_of_soft(labels)
        of_rows = read_groups(groups, labels.size)
        w = check_weight(sample_weight, labels.size)
        if sample_weight is not None and keyword is None:
            warn_of_weights(common, "corrections of the groups")
        # The common calibrator gets the original y, which may be categorical or contain soft
        # labels.
        targets = labels if shares is None and not isinstance(common, ScoreCalibrator) else y
        weights = {} if sample_weight is None or keyword is None else {keyword: as_sample_weight(w)}
        common.fit(X, targets, **weights)
        Q = np.asarray(from_tensor("X", common.predict_proba(X)))
        code, classes = encode_labels(labels, Q.shape[1], common.classes_)
        target = code if shares is None else shares
        offered = np.ones(Q.shape, dtype=bool)
        if getattr(common, "_options", False):
            # Comparisons with NaN are False.
            offered = np.asarray(to_array(common._as_seen(X)) > -np.inf)
        fitted = self._fit_differences(Q, target, w, of_rows, offered)
        count = np.bincount(code, w, classes.size) if shares is None else w @ shares
        shared = {"calibrator_": common, "classes_": classes, "class_count_": count}
        self.__dict__.update(shared | fitted)
        return self

    def _fit_differences(
        self, Q: FloatArray, code: NDArray[Any], w: Float64Array, groups: Groups, offered: Any
    ) -> dict[str, Any]:
        """Fit the corrections of the groups; `code` are labels, or soft labels ``(n, K)``."""
        counts, K = w > 0, Q.shape[1]
        P, same = np.where(offered, Q, np.nan), bool(offered.all())
        clip, zeros = find_clip(Scores(P[counts], "proba", options=not same))
        clip = np.where(zeros, clip, LEAST_CLIP)[()]
        Z = np.log(np.maximum(Q, clip, dtype=np.float64))
        # If different classes are masked in different rows, the mean of a column of logits has no
        # meaning.
        centre = w @ Z / w.sum() if same else np.zeros(K)
        X, Z = np.where(offered, Z - centre, 0.0), np.where(offered, Z, -np.inf)
        counted_rows = [some[counts[some]] for some in groups.members()]
        present = [some.size > 0 for some in counted_rows]
        fitted_groups = np.flatnonzero(groups.complete & present)
        if not fitted_groups.size:
            raise ValueError("groups: no row has a group: pass a label for at least one row.")
        members = [counted_rows[g] for g in fitted_groups]
        # Each group has its own columns, because groups may have few classes in common and the
        # number of classes may be large.
        columns = [np.flatnonzero(offered[some].any(axis=0)) for some in members]
        width = max(2, *(part.size for part in columns))
        # An empty column with the index K fills the rows of groups that have fewer classes than the
        # largest group.
        X, Z = np.pad(X, ((0, 0), (0, 1))), np.pad(Z, ((0, 0), (0, 1)), constant_values=-np.inf)
        rows = []
        for some, part in zip(members, columns, strict=True):
            label, weight = code[some], effective(w[some])
            if code.ndim == 2:
                row, label, weight = split_shares(code[some], weight)
                some = some[row]
            at = np.ix_(some, np.pad(part, (0, width - part.size), constant_values=K))
            # Sums over few columns are several times as fast if each column is contiguous.
            logits, centred = np.asfortranarray(Z[at]), np.asfortranarray(X[at])
            rows.append(GroupRows(logits, centred, np.searchsorted(part, label), weight))
        strength = None if self.shrinkage == "auto" else float(self.shrinkage)
        fitted = fit_pooled(rows, strength)
        # A class that is not available in any row of a group gets the slope of all classes.
        coef = np.repeat(1.0 + fitted.common[:, None], K, axis=1)
        intercept = np.zeros(coef.shape)
        for g, part in enumerate(columns):
            slope, shift = fitted.slope[g, : part.size], fitted.shift[g, : part.size]
            coef[g, part], intercept[g, part] = 1.0 + slope, shift - slope * centre[part]
        single = len(groups.names) == 1
        return {
            "groups_": [groups.labels[g][0] if single else groups.labels[g] for g in fitted_groups],
            "coef_": coef,
            "intercept_": intercept,
            "effective_dof_": fitted.dof,
            "strengths_": fitted.strengths,
            "clip_": clip,
        }

    def predict_proba(self, X: Any, groups: Any = None) -> FloatArray:  # type: ignore[override]
        """Return calibrated probabilities.

        Parameters
        ----------
        X : array-like of shape (n, K), (n, 1) or (n,)
            Scores. If `groups` is None, a table that also contains the `group_column`.
        groups : array-like of shape (n,) or (n, g), default=None
            Label of the group of each row. Rows without a group, or with a group that was not in
            ``fit``, are calibrated by the common calibrator.

        Returns
        -------
        proba : ndarray of shape (n, K)
            Rows sum to 1; columns follow `classes_`.

        Raises
        ------
        ValueError
            If groups are neither given nor in a column, or if the calibrator raises it.
        """
        return as_type_of(self._proba(X, groups), X)

    def _proba(self, X: Any, groups: Any = None) -> FloatArray:
        check_is_fitted(self)
        refuse_lazy("X", X)
        X, groups = take_groups(X, groups, self.group_column)
        P = np.array(from_tensor("X", self.calibrator_.predict_proba(X)))
        of_rows = read_groups(groups, len(P))
        known = {label: g for g, label in enumerate(self.groups_)}
        single = len(of_rows.names) == 1
        several = isinstance(self.groups_[0], tuple)
        if single == several:
            raise ValueError(
                f"groups has {len(of_rows.names)} column(s), but in fit it had "
                f"{len(self.groups_[0]) if several else 1}: pass the same columns."
            )
        index = [known.get(label[0] if single else label, -1) for label in of_rows.labels]
        if len(P) and max(index) < 0 and of_rows.complete.any():
            warnings.warn(
                f"groups: no row has a group that was in fit (here {of_rows.labels[0][0]!r}, in "
                f"fit {self.groups_[0]!r}), so that all rows are calibrated by the common "
                "calibrator: pass the group labels that were used in fit.",
                stacklevel=3,
            )
        for g, some in zip(index, of_rows.members(), strict=True):
            if g >= 0 and some.size:
                P[some] = map_group(P[some], self.coef_[g], self.intercept_[g], self.clip_)
        return P

    def _in_words(self) -> str:
        common = f"common calibrator {type(self.calibrator_).__name__}"
        groups, dof = counted(len(self.groups_), "group"), span(np.round(self.effective_dof_, 1))
        return f"{common}; {groups} with {dof} parameters of their own"


def groups_for(
    owner: Any, method: str, X: Any, params: dict[str, Any], n_rows: int | None = None
) -> NDArray[Any] | None:
    """Return the groups for a classifier with a groupwise calibrator, otherwise None.

    Groups are in a column of `X`, or in the `params` of a method with metadata routing.
    """
    routing = get_config()["enable_metadata_routing"]
    if params and method != "fit" and not routing:
        raise ValueError(
            f"{', '.join(params)}: arguments are passed on only with metadata routing: call "
            f"sklearn.set_config(enable_metadata_routing=True), {COLUMN_WAY}."
        )
    routed = process_routing(owner, method, **params) if params and routing else None
    calibrator = owner.calibrator
    if not isinstance(calibrator, GroupwiseCalibrator):
        return None
    groups = None if routed is None else routed.calibrator[method].get("groups")
    if groups is None and calibrator.group_column is None:
        way = "call sklearn.set_config(enable_metadata_routing=True) and pass groups="
        if routing:
            way = "pass groups=, which score and scorers cannot do"
        raise ValueError(f"calibrator=GroupwiseCalibrator() needs groups: {way}, {COLUMN_WAY}.")
    groups = labels_of_rows(take_groups(X, groups, calibrator.group_column)[1])
    if n_rows is not None and len(groups) != n_rows:
        raise ValueError(
            f"groups has {len(groups)} rows, but y has {n_rows}: pass one for each row."
        )
    return groups
