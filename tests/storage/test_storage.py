"""Stored calibrators: exact, readable, stable, and safe whoever wrote them."""

import json
import math
import os
import runpy
from functools import partial
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from calls import refused
from discovery import CALIBRATORS, DEFAULTS
from numpy.testing import assert_allclose, assert_array_equal
from scipy.special import softmax
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from sklearn.frozen import FrozenEstimator
from sklearn.naive_bayes import GaussianNB
from sklearn.pipeline import Pipeline, make_pipeline

import skcalib
from skcalib import (
    AutoCalibrator,
    CalibratedClassifier,
    ClassifierScores,
    EnsembleTemperatureScaling,
    GroupwiseCalibrator,
    HistogramBinning,
    IdentityCalibrator,
    IsotonicCalibrator,
    MatrixScaling,
    PlattScaling,
    TemperatureScaling,
    VectorScaling,
    from_dict,
    load_json,
    metrics,
    save_json,
    to_dict,
)
from skcalib._storage import files
from skcalib._storage.calibrators import from_plain, probe_logits, to_plain
from skcalib.extending import ColumnwiseCalibrator
from skcalib.testing._promises import make_sample

STORED = Path(__file__).parent / "stored"
every_calibrator = pytest.mark.parametrize("calibrator", CALIBRATORS, ids=str)


def fitted(calibrator, kind="logits", n_classes=3, names=None):
    S, code, _ = make_sample(kind, n_classes, n=120)
    return clone(calibrator).fit(S, code if names is None else np.asarray(names)[code])


def text_of(document):
    return json.dumps(document, allow_nan=False)


def changed(document, path, value):
    document = json.loads(text_of(document))
    inner = document
    for key in path[:-1]:
        inner = inner[key]
    inner[path[-1]] = value
    return document


# ------------------------------------------------------------------ exact


@every_calibrator
@pytest.mark.parametrize(
    ("kind", "n_classes", "dtype"), [("logits", 4, np.float64), ("proba", 2, np.float32)]
)
def test_a_file_gives_the_same_calibrator_bit_by_bit(calibrator, kind, n_classes, dtype, tmp_path):
    S, code, _ = make_sample(kind, n_classes, n=120)
    S = S.astype(dtype)
    before = clone(calibrator).fit(S, code)
    save_json(before, tmp_path / "c.json")
    after = load_json(tmp_path / "c.json")
    assert type(after) is type(before)
    assert str(after) == str(before)
    T = make_sample(kind, n_classes, n=60, seed=4).S.astype(dtype)
    for scores in (S, T):
        assert_array_equal(after.predict_proba(scores), before.predict_proba(scores), strict=True)
        assert_array_equal(after.predict(scores), before.predict(scores), strict=True)
    assert set(vars(after)) == set(vars(before))
    assert to_dict(after) == to_dict(before)


LABELS = {
    "strings": np.array(["Ünö", 'dos, "tres"', "x\ny"]),
    "objects": np.array(["b", "c", "z"], dtype=object),
    "large": np.array([2**62, 2**62 + 1, 2**63 - 1]),
    "unsigned": np.array([1, 2**63, 2**64 - 1], dtype=np.uint64),
}


@pytest.mark.parametrize("kind", LABELS)
def test_labels_come_back_as_they_were(kind):
    names = np.sort(LABELS[kind])
    before = fitted(TemperatureScaling(), names=names)
    after = from_dict(json.loads(text_of(to_dict(before))))
    assert_array_equal(after.classes_, before.classes_)
    assert after.classes_.dtype == before.classes_.dtype


def test_booleans_one_column_and_names_of_columns_come_back():
    p, y = np.array([0.1, 0.4, 0.35, 0.8]), np.array([False, False, True, True])
    after = from_dict(to_dict(IsotonicCalibrator().fit(p, y)))
    assert after.classes_.dtype == bool
    assert after.n_features_in_ == 1
    frame = pd.DataFrame({"no": 1 - p, "yes": p})
    after = from_dict(to_dict(IsotonicCalibrator().fit(frame, y)))
    assert list(after.feature_names_in_) == ["no", "yes"]
    with pytest.raises(ValueError, match="feature names"):
        after.predict_proba(frame[["yes", "no"]])


def in_sites(n_classes=3, n=300, seed=0):
    rng = np.random.default_rng(seed)
    site = rng.choice(["Ash", "Birch", "Cedar"], n, p=[0.6, 0.3, 0.1])
    Z = rng.normal(size=(n, n_classes))
    y = (Z + np.outer(site == "Birch", np.arange(n_classes)) + rng.gumbel(size=Z.shape)).argmax(1)
    return Z, y, site


GROUPS = {
    "strings": lambda site: site,
    "whole numbers": lambda site: np.unique(site, return_inverse=True)[1] - 1,
    "booleans": lambda site: site == "Ash",
    "fractions": lambda site: np.where(site == "Ash", 0.5, 1.25),
    "two columns": lambda site: pd.DataFrame({"site": site, "late": np.arange(site.size) % 2}),
}


@pytest.mark.parametrize(
    ("kind", "common"),
    [
        *((kind, "temperature") for kind in GROUPS),
        ("strings", PlattScaling()),
        ("strings", AutoCalibrator()),
    ],
)
def test_a_groupwise_calibrator_comes_back_bit_by_bit(kind, common, tmp_path):
    Z, y, site = in_sites(n_classes=2 if kind == "booleans" else 3)
    groups = GROUPS[kind](site)
    before = GroupwiseCalibrator(common).fit(Z, y, groups=groups)
    save_json(before, tmp_path / "c.json")
    after = load_json(tmp_path / "c.json")
    assert_array_equal(
        after.predict_proba(Z, groups=groups), before.predict_proba(Z, groups=groups), strict=True
    )
    assert after.groups_ == before.groups_
    assert [type(label) for label in after.groups_] == [type(label) for label in before.groups_]
    assert set(vars(after)) == set(vars(before))
    assert to_dict(after) == to_dict(before)
    assert clone(after).fit(Z, y, groups=groups).coef_.shape == before.coef_.shape


@pytest.mark.parametrize(
    ("path", "value", "message"),
    [
        (["fitted", "calibrator_"], None, "calibrator_ must be a calibrator"),
        (["fitted", "groups_"], ["Ash", "Ash", "B"], "distinct labels"),
        (["fitted", "groups_"], ["Ash", ["a"], "B"], "distinct labels"),
        (["fitted", "groups_"], ["Ash", "Birch"], r"coef_ must be an array of floats"),
        (["fitted", "coef_", "array"], [1e90] * 9, "are not probabilities"),
        (["fitted", "intercept_", "shape"], [9, 1], "intercept_ must be an array"),
        (["fitted", "strengths_"], 1.0, "strengths_ must be a dict"),
        (["fitted", "clip_"], 2.0, "clip_ must be from"),
        (["fitted", "classes_", "array"], [0, 1, 5], "classes_ must be those of"),
    ],
)
def test_a_spoilt_groupwise_calibrator_is_refused_in_one_line(path, value, message):
    Z, y, site = in_sites()
    document = to_dict(GroupwiseCalibrator("temperature").fit(Z, y, groups=site))
    refused(message, from_dict, changed(document, path, value))


PARAMETERS = {
    "a tuple": VectorScaling(classes=("a", "b", "c")),
    "an array": VectorScaling(classes=np.array(["a", "b", "c"])),
    "numpy scalars": HistogramBinning(n_bins=np.int64(7), class_conditional=np.True_),
    "a float32": MatrixScaling(reg_lambda=np.float32(0.1), reg_mu=np.float64(0.1), tol=1e-5),
    "a dict": TemperatureScaling(objective="soft_binned", objective_params={"n_bins": 5}),
    "a metric": TemperatureScaling(objective=metrics.top_label_brier_score),
    "bootstraps": HistogramBinning(n_bootstraps=3, strategy="quantile", random_state=0),
}


@pytest.mark.parametrize("case", PARAMETERS)
def test_parameters_come_back_as_they_were(case):
    before = fitted(PARAMETERS[case], names=["a", "b", "c"])
    after = from_dict(json.loads(text_of(to_dict(before))))
    for name, value in before.get_params().items():
        kept = after.get_params()[name]
        assert type(kept) is type(value)
        assert_array_equal(kept, value)
    S = make_sample("logits", 3, n=50, seed=3).S
    assert_array_equal(after.predict_proba(S), before.predict_proba(S))
    y = np.array(["a", "b", "c"])[make_sample("logits", 3, n=50, seed=3).code]
    assert_array_equal(after.fit(S, y).predict_proba(S), before.fit(S, y).predict_proba(S))


def test_a_series_of_classes_comes_back_as_an_array():
    after = from_dict(to_dict(fitted(VectorScaling(classes=pd.Series([4, 5, 6])), names=[4, 5, 6])))
    assert isinstance(after.classes, np.ndarray)
    assert_array_equal(after.classes, [4, 5, 6])


def own_metric(y_true, y_proba):
    return metrics.top_label_brier_score(y_true, y_proba)


@pytest.mark.parametrize(
    "calibrator",
    [
        TemperatureScaling(objective=own_metric),
        TemperatureScaling(objective=partial(metrics.top_label_brier_score)),
        HistogramBinning(n_bootstraps=2, random_state=np.random.RandomState(0)),
    ],
    ids=["function", "partial", "generator"],
)
def test_what_no_file_holds_is_named_and_missed_only_by_a_new_fit(calibrator):
    S, code, _ = make_sample("logits", 3)
    before = clone(calibrator).fit(S, code)
    after = from_dict(to_dict(before))
    assert_array_equal(after.predict_proba(S), before.predict_proba(S))
    assert to_dict(after) == to_dict(before)
    refused("was not stored with the calibrator|NotStored", after.fit, S, code)


SPECIAL = [0.0, -0.0, math.nan, math.inf, -math.inf, 5e-324, 0.1, 1 / 3, 1.7976931348623157e308]


@pytest.mark.parametrize(
    "value",
    [
        SPECIAL,
        tuple(SPECIAL),
        np.array(SPECIAL),
        np.array(SPECIAL[:-1], dtype=np.float32, ndmin=2),
        np.array([0.1, 65504.0, -0.0], dtype=np.float16),
        np.float32(0.1),
        np.float64(-0.0),
        np.int8(-3),
        np.bool_(True),
        np.str_("é\ud800"),
        np.zeros((2, 0, 3)),
        np.array([["a", "bcd"], ["", "é"]]),
        np.array([None, "a", 1, 0.5], dtype=object),
        {"a": [1, {"b": (2,)}], 3: None, ("x", 1): True},
        10**30,
        "",
        [],
        {},
    ],
    ids=repr,
)
def test_any_value_comes_back_with_its_type_and_its_last_bit(value):
    def refuse(value, where):
        raise AssertionError(where)

    plain = json.loads(text_of(to_plain(value, "here", refuse)))
    again = from_plain(plain, "here", refuse)
    assert type(again) is type(value)
    if isinstance(value, np.ndarray | np.generic):
        assert again.dtype == value.dtype
        assert again.shape == value.shape
        if value.dtype != object:
            assert again.tobytes() == value.tobytes()
    assert repr(again) == repr(value)


def test_a_calibrator_within_a_calibrator_comes_back():
    before = fitted(IdentityCalibrator())
    before.parts_ = [fitted(VectorScaling()), fitted(PlattScaling())]
    after = from_dict(json.loads(text_of(to_dict(before))))
    S = make_sample("logits", 3).S
    for kept, part in zip(after.parts_, before.parts_, strict=True):
        assert_array_equal(kept.predict_proba(S), part.predict_proba(S))


# ------------------------------------------------------------------ readable, whole, sized


def test_a_file_is_plain_json_with_a_line_for_each_attribute(tmp_path):
    save_json(fitted(VectorScaling(), names=["a", "b", "c"]), tmp_path / "c.json")
    text = (tmp_path / "c.json").read_text(encoding="ascii")

    def no_constant(name):
        raise AssertionError(name)

    document = json.loads(text, parse_constant=no_constant)
    assert document["calibrator"] == "VectorScaling"
    assert document["version"] == 1
    assert document["fitted"]["coef_"]["shape"] == [3]
    starts = [line.split(":")[0].strip() for line in text.splitlines()]
    for name in (*document["parameters"], *document["fitted"]):
        assert f'"{name}"' in starts


def test_probabilities_can_be_made_from_the_file_alone(tmp_path):
    """As another language would: three numbers from JSON, one formula."""
    S, code, _ = make_sample("logits", 3)
    calibrator = VectorScaling().fit(S, code)
    save_json(calibrator, tmp_path / "c.json")
    kept = json.loads((tmp_path / "c.json").read_text())["fitted"]
    Z = S * kept["coef_"]["array"] + kept["intercept_"]["array"]
    assert_allclose(softmax(Z, axis=1), calibrator.predict_proba(S), rtol=1e-13)


def test_a_failed_save_leaves_the_old_file_and_nothing_else(tmp_path, monkeypatch):
    path = tmp_path / "c.json"
    save_json(fitted(TemperatureScaling()), path)
    before = path.read_bytes()

    def full(_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(OSError, match="No space left on device: .*c.json'$"):
        save_json(fitted(VectorScaling()), path)
    assert path.read_bytes() == before
    assert os.listdir(tmp_path) == ["c.json"]


def test_a_file_has_the_permissions_of_any_new_file(tmp_path):
    save_json(fitted(TemperatureScaling()), tmp_path / "c.json")
    (tmp_path / "other").write_text("")
    assert (tmp_path / "c.json").stat().st_mode == (tmp_path / "other").stat().st_mode


def test_a_file_larger_than_allowed_is_refused(tmp_path):
    path = tmp_path / "c.json"
    save_json(fitted(TemperatureScaling()), path)
    size = path.stat().st_size
    assert load_json(path, max_bytes=size).temperature_ > 0
    refused(
        f"is larger than max_bytes={size - 1}: pass a larger", load_json, path, max_bytes=size - 1
    )
    refused("max_bytes must be a whole number >= 1; got -1", load_json, path, max_bytes=-1)


# ------------------------------------------------------------------ what is not stored


@pytest.mark.parametrize(
    ("estimator", "message"),
    [
        (CalibratedClassifier(GaussianNB(), cv=2), "CalibratedClassifier: store its calibrator_"),
        (make_pipeline(IdentityCalibrator()), r"not Pipeline: save other estimators by skops.io"),
    ],
    ids=["joined", "pipeline"],
)
def test_others_are_refused_with_the_way_out(estimator, message):
    S, code, _ = make_sample("logits", 3)
    refused(message, to_dict, estimator.fit(S, code))


def test_a_subclass_and_an_unfitted_calibrator_are_refused():
    class TemperatureScaling(skcalib.TemperatureScaling):
        pass

    refused("not TemperatureScaling: save other", to_dict, fitted(TemperatureScaling()))
    with pytest.raises(NotFittedError):
        to_dict(VectorScaling())


def test_an_attribute_that_cannot_be_stored_is_named():
    calibrator = fitted(IdentityCalibrator())
    calibrator.table_ = object()
    refused(r"IdentityCalibrator.table_ is a object, which cannot be", to_dict, calibrator)
    for array in (np.array([1j]), np.array(["2020-01-01"], dtype="datetime64[D]")):
        calibrator.table_ = [array]
        refused(r"table_: an array of \S+ cannot be stored", to_dict, calibrator)
    calibrator.table_ = loop = []
    loop.append(loop)
    refused("contains itself", to_dict, calibrator)


def test_metadata_requests_are_not_stored():
    import sklearn

    calibrator = fitted(TemperatureScaling())
    with sklearn.config_context(enable_metadata_routing=True):
        calibrator.set_fit_request(sample_weight=True)
    assert "_metadata_request" not in to_dict(calibrator)["fitted"]


# ------------------------------------------------------------------ safe


VECTOR = to_dict(fitted(VectorScaling(), names=["a", "b", "c"]))
ISOTONIC = to_dict(fitted(IsotonicCalibrator()))
TEMPERATURE = to_dict(fitted(TemperatureScaling(objective=own_metric)))
ENSEMBLE = to_dict(fitted(EnsembleTemperatureScaling()))
AUTO = to_dict(fitted(AutoCalibrator()))

# name: (document, where, what is put there, what the message says)
TAMPERED = {
    "other format": (VECTOR, ["format"], "pickle", "The document is not a stored calibrator"),
    "newer": (VECTOR, ["version"], 2, r"version 2 of the format.*up to 1: install a newer skcalib"),
    "version 0": (VECTOR, ["version"], 0, "must be an integer from 1; got 0"),
    "other class": (VECTOR, ["calibrator"], "os.system", "'os.system' is not a calibrator of this"),
    "more": (VECTOR, ["code"], "import os", "have 'calibrator', 'parameters' and 'fitted'; got"),
    "no dict": (VECTOR, ["fitted"], [], "'fitted' of a stored VectorScaling must be a JSON object"),
    "unknown parameter": (VECTOR, ["parameters", "depth"], 3, "has no parameter 'depth'"),
    "bad parameter": (VECTOR, ["parameters", "tol"], -1.0, "The 'tol' parameter of VectorScaling"),
    "a method": (VECTOR, ["fitted", "predict_proba"], 1, "no fitted attribute 'predict_proba'"),
    "NaN": (VECTOR, ["fitted", "coef_", "array", 0], "nan", "VectorScaling.coef_ must be from"),
    "whole": (VECTOR, ["fitted", "coef_", "array", 0], 10**400, "coef_: a value is outside the"),
    "half overflow": (
        VECTOR, ["fitted", "coef_"], {"dtype": "float16", "shape": [3], "array": [1, 1, 65520.0]},
        "coef_: a value is outside the range of float16",
    ),
    "text": (VECTOR, ["fitted", "coef_", "array", 0], "1", "coef_: a float must be a number"),
    "null": (VECTOR, ["fitted", "coef_", "array", 0], None, "has an entry of another type"),
    "a tuple of no list": (VECTOR, ["fitted", "x_"], {"tuple": 3}, "must be a list; got int"),
    "other kind": (VECTOR, ["fitted", "input_"], "odds", "input_ must be 'logits' or 'proba'"),
    "no flag": (VECTOR, ["fitted", "_refuses_simplex"], 1, "_refuses_simplex must be true or"),
    "short": (VECTOR, ["fitted", "coef_", "array"], [1.0], r"1 values do not fill an array of"),
    "shape": (VECTOR, ["fitted", "coef_", "shape"], [3, 1], "stored VectorScaling is not valid"),
    "dtype": (VECTOR, ["fitted", "coef_", "dtype"], "object", "numbers, in arrays of"),
    "unknown dtype": (VECTOR, ["fitted", "coef_", "dtype"], "V8", "the dtype must be one of bool"),
    "unsorted classes": (
        VECTOR, ["fitted", "classes_", "array"], ["b", "a", "c"], "distinct labels in ascending",
    ),
    "a label too long": (
        VECTOR, ["fitted", "classes_", "array", 2], "c" * (1 << 24), "strings of an array are too",
    ),
    "other columns": (VECTOR, ["fitted", "n_features_in_"], 2, "the number of columns, 3; got 2"),
    "unknown object": (VECTOR, ["fitted", "n_iter_"], {"eval": "1"}, "has a value that this"),
    "a pair of three": (VECTOR, ["fitted", "x_"], {"dict": [[1, 2, 3]]}, "list of pairs"),
    "a list as key": (VECTOR, ["fitted", "x_"], {"dict": [[[], 2]]}, "a list cannot be a dict key"),
    "a key twice": (VECTOR, ["fitted", "x_"], {"dict": [["a", 2], ["a", 3]]}, "a key twice"),
    "a missing function": (
        VECTOR, ["parameters", "tol"], {"not_stored": "f"}, "VectorScaling.tol has a value that",
    ),
    "a metric that is none": (
        TEMPERATURE, ["parameters", "objective"], {"metric": "SCORERS.clear"}, "has a value that",
    ),
    "a temperature of NaN": (
        TEMPERATURE, ["fitted", "temperature_"], {"float": "nan"}, "temperature_ must be from",
    ),
    "a temperature for each row": (
        ENSEMBLE, ["fitted", "temperature_"],
        to_plain(np.ones((len(probe_logits(3)), 1)), "", None), "are not probabilities",
    ),
    "NaN within lists": (
        ISOTONIC, ["fitted", "y_thresholds_", 1, "array", 0], "nan", "y_thresholds_ must be from",
    ),
    "weights of a sum of 2": (
        ENSEMBLE, ["fitted", "weights_", "array"], [1.0, 0.5, 0.5], "are not probabilities",
    ),
    "parameters of no fit": (
        AUTO, ["fitted", "_theta"], to_plain(np.ones(4), "", None), "AutoCalibrator is not valid",
    ),
}  # fmt: skip


@pytest.mark.parametrize("case", TAMPERED)
def test_a_tampered_document_is_refused_in_one_line(case, tmp_path):
    document, path, value, message = TAMPERED[case]
    bad, file = changed(document, path, value), tmp_path / "c.json"
    file.write_text(text_of(bad))
    for read in (partial(from_dict, bad), partial(load_json, file)):
        said = refused(message, read)
    assert said.startswith(str(file))


@pytest.mark.parametrize("value", [np.ones(3), (1.0, 1.0, 1.0), {1.0}], ids=repr)
def test_a_document_made_by_hand_of_what_json_does_not_hold_is_refused(value):
    bad = {**VECTOR, "fitted": {**VECTOR["fitted"], "coef_": value}}
    kind = type(value).__name__
    refused(f"^VectorScaling.coef_: {kind} is not a JSON value.$", from_dict, bad)


@pytest.mark.parametrize("document", [None, [], "x", 3, {}, {"format": "skcalib"}])
def test_anything_else_is_no_stored_calibrator(document):
    refused("not a stored calibrator|must be an integer", from_dict, document)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (b"", "cannot be read as JSON"),
        (b"\x80\x04\x95pickle", "cannot be read as JSON: 'utf-8' codec"),
        (b'{"format": "skcalib"', "cannot be read as JSON"),
        (b'{"a": 1, "a": 2}', "an object has a key twice"),
        (b'{"format": NaN}', "NaN is not a JSON number"),
        (b"[" * 200_000, "cannot be read as JSON"),
        (b'{"version": ' + b"9" * 5000 + b"}", "cannot be read as JSON"),
    ],
    ids=["empty", "bytes", "cut off", "twins", "constant", "deep", "digits"],
)
def test_a_file_that_is_no_json_is_refused_in_one_line(text, message, tmp_path):
    (tmp_path / "c.json").write_bytes(text)
    refused(message, load_json, tmp_path / "c.json")


def test_a_document_nested_too_deeply_is_refused():
    deep = []
    for _ in range(20_000):
        deep = [deep]
    bad = {**VECTOR, "fitted": {**VECTOR["fitted"], "x_": deep}}
    refused("nested too deeply", from_dict, bad)
    while deep:  # taken apart by hand: a destructor would recurse as deep
        deep = deep.pop()


WRONG = [None, True, -1, 0, 3, 1e308, -1e308, 1e-320, "x", "nan", "inf", "-inf", [], {}, [[1.0]]]


def leaves(value, path=()):
    """Yield the path of every value within a document, at most three of each list."""
    if isinstance(value, dict):
        for key, inner in value.items():
            yield from leaves(inner, (*path, key))
    elif isinstance(value, list):
        for i in sorted({0, len(value) // 2, len(value) - 1} - {-1}):
            yield from leaves(value[i], (*path, i))
    if path:
        yield path


@pytest.mark.slow
@pytest.mark.parametrize("calibrator", DEFAULTS, ids=str)
def test_whatever_is_put_anywhere_is_refused_in_one_line_or_predicts(calibrator):
    """Each value of a document in turn is replaced by each of many."""
    S = np.vstack([make_sample("logits", 3, n=42).S, 300 * np.eye(3), -np.eye(3) / 1e6])
    S[0, 0] = -np.inf
    document = to_dict(fitted(calibrator))
    refused, said = 0, set()
    for path in leaves(document):
        for wrong in WRONG:
            try:
                after = from_dict(changed(document, path, wrong))
            except ValueError as error:
                refused += 1
                said.add(str(error))
                continue
            S_given = softmax(S, axis=1) if after.input_ == "proba" else S
            with np.errstate(all="ignore"):  # such as a temperature of 1e-320
                proba = after.predict_proba(S_given)
            assert proba.shape == S.shape, (path, wrong)
            if not isinstance(after, ColumnwiseCalibrator):  # its tables are not tried everywhere
                assert proba.min() >= 0, (path, wrong)
                assert_allclose(proba.sum(axis=1), 1, atol=1e-9, err_msg=str((path, wrong)))
    assert refused > 100
    assert not [message for message in said if "\n" in message]


def test_a_small_file_cannot_ask_for_much_memory():
    """A column of numbers and a row of scores would be broadcast to 80 GB."""
    n = 100_000
    document = changed(ENSEMBLE, ["fitted", "classes_"], to_plain(np.arange(n), "", None))
    document["fitted"]["n_features_in_"] = n
    document["fitted"]["temperature_"] = to_plain(np.ones((n, 1)), "", None)
    document["fitted"]["class_count_"] = to_plain(np.ones(n), "", None)
    refused(r"temperature_ must be fewer numbers; got shape \(100000", from_dict, document)


@pytest.mark.parametrize("calibrator", DEFAULTS, ids=str)
def test_no_attribute_may_be_left_out(calibrator):
    """But the ones that only tell of the fit, and the names of columns."""
    document = to_dict(fitted(calibrator))
    S = make_sample("logits", 3).S
    for name in document["fitted"]:
        bad = json.loads(text_of(document))
        del bad["fitted"][name]
        try:
            after = from_dict(bad)
        except ValueError:
            continue
        assert_array_equal(after.predict_proba(S), from_dict(document).predict_proba(S))


# ------------------------------------------------------------------ every release


STORED_FILES = [p for p in sorted(STORED.glob("*/*.json")) if "expected" not in p.name]
WRITE = runpy.run_path(str(STORED / "write.py"))


@pytest.mark.parametrize("path", STORED_FILES, ids=lambda path: f"{path.parent.name}/{path.stem}")
def test_files_of_every_release_load_and_give_what_they_gave(path):
    expected = json.loads(path.with_suffix(".expected.json").read_text())
    S = np.array(expected["scores"], dtype=float)
    stored = load_json(path)
    assert type(stored).__name__ == path.stem.split("-")[0]
    assert list(stored.classes_) == ["ant", "bee", "cat"]
    after = WRITE["results"](stored, S)
    assert after.keys() == expected.keys()
    assert after.get("decisions") == expected.get("decisions")
    for name in {"probabilities", "e_value"} & after.keys():
        assert_allclose(after[name], expected[name], rtol=1e-12, atol=1e-15)


def test_each_number_of_the_format_has_a_reader_and_files_of_its_own():
    numbers = {json.loads(path.read_text())["version"] for path in STORED_FILES}
    assert numbers == set(files.READERS)
    assert max(numbers) == files.VERSION == ENSEMBLE["version"]


WANTED = dict(WRITE["wanted"]())


@pytest.mark.parametrize(("name", "estimator"), WANTED.items(), ids=list(WANTED))
def test_a_file_of_today_has_the_names_of_the_stored_file_of_its_number(name, estimator):
    """Another name of a parameter or a fitted attribute takes the next number.

    Until the version of the folder is published: delete the file, and run tests/write.py.
    """
    WRITE["fit"](estimator)
    document = to_dict(estimator)
    same_number = [
        before
        for path in STORED.glob(f"*/{name}.json")
        if (before := json.loads(path.read_text()))["version"] == document["version"]
    ]
    assert same_number
    for before in same_number:
        assert {k: sorted(v) for k, v in before.items() if isinstance(v, dict)} == {
            k: sorted(v) for k, v in document.items() if isinstance(v, dict)
        }


# ------------------------------------------------------------------ skops


S0, CODE0, _ = make_sample("logits", 3)


def round_trip(estimator, types):
    """Store by skops and load, trusting only `types`; what it asks for must be just these."""
    sio = pytest.importorskip("skops.io", reason="skops is not installed")
    data = sio.dumps(estimator)
    asked = sio.get_untrusted_types(data=data)
    assert {name.split(".")[-1] for name in asked} == types
    assert all(name.startswith("skcalib.") for name in asked)
    with pytest.raises(Exception, match="ntrusted"):
        sio.loads(data)
    return sio.loads(data, trusted=asked)


@pytest.mark.parametrize("calibrator", DEFAULTS, ids=str)
def test_skops_keeps_every_calibrator_and_asks_for_its_class_alone(calibrator):
    before = fitted(calibrator)
    after = round_trip(before, {type(before).__name__})
    assert_array_equal(after.predict_proba(S0), before.predict_proba(S0))


@pytest.mark.parametrize("model", [
    CalibratedClassifier(GaussianNB(), cv=2),
    CalibratedClassifier(FrozenEstimator(GaussianNB().fit(S0, CODE0))),
    make_pipeline(ClassifierScores(GaussianNB()), AutoCalibrator()),
], ids=["joined", "frozen", "pipeline"])  # fmt: skip
def test_skops_keeps_what_joins_calibrators_to_classifiers(model):
    model.fit(S0, CODE0)
    joined = "ClassifierScores" if isinstance(model, Pipeline) else "CalibratedClassifier"
    after = round_trip(model, {joined, "AutoCalibrator"})
    assert_array_equal(after.predict_proba(S0), model.predict_proba(S0))


@pytest.mark.parametrize(
    "options", [[], [["risk"]], "risk", None, {"scores": 5}, {"scores": [5]}, {"id": {"a": "b"}}]
)
def test_options_of_a_command_are_texts(options):
    """The command line writes them; Python ignores them."""
    document = to_dict(fitted(TemperatureScaling()))
    given = {"scores": ["risk"], "id": [], "pos_label": "no"}
    assert to_dict(from_dict({**document, "options": given})) == document
    with pytest.raises(ValueError, match="'options' must be an object with texts or lists"):
        from_dict({**document, "options": options})
