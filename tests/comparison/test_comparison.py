"""The result of a comparison says which calibrator to take, and fits it."""

import re

import numpy as np
import pandas as pd
import pytest
from calls import refused
from samples import Failing, Flat, scores
from scipy.special import softmax
from sklearn.linear_model import LogisticRegression

from skcalib import CalibratorComparison, TemperatureScaling, compare_calibrators
from skcalib._comparison.measures import row_log_loss
from skcalib.plotting import ComparisonDisplay


@pytest.fixture(scope="module")
def found():
    y, Z = scores()
    return compare_calibrators(Z, y, ["temperature", "auto", "histogram"], metrics=["log_loss"])


def test_the_verdict_has_the_numbers_of_the_frame(found):
    row = found.frame.loc["auto"]
    value, before = row["log_loss", "value"], found.frame.loc["identity", ("log_loss", "value")]
    gain, low, high = (row["log_loss", part] for part in ("gain", "low", "high"))
    assert isinstance(found, CalibratorComparison)
    assert found.choice == "auto"
    assert found.verdict.startswith(
        f"Calibrate by auto: cross-validated log loss falls from {before:.3g} to {value:.3g} "
        f"(gain {gain:.2g}, 95 % interval {low:.2g} to {high:.2g}). The predicted class changes "
        f"in {100 * row['argmax changed', '']:.1f} % of the rows."
    )
    other = found.frame.loc["temperature", ("log_loss", "value")]
    assert found.verdict.endswith(
        f"temperature, which is simpler, is as good here (log loss {other:.3g}) and changes no "
        "predicted class."
    )
    assert ("AutoCalibrator is the default because" in found.verdict) == (other < value)
    assert gain == pytest.approx(before - value)


def test_sentence_table_and_picture_begin_with_the_choice():
    """One wrong factor, where temperature is lower by chance: auto is first, and it says why."""
    y, Z = scores(900, factor=4.0)
    tried = ["temperature", "auto", "histogram"]
    found = compare_calibrators(Z, y, tried, metrics=["ks_calibration_error", "log_loss"])
    loss = found.frame["log_loss"]["value"]
    assert loss.idxmin() == "temperature"
    order = ["auto", "temperature", "histogram", "identity"]
    assert sorted(order[1:], key=loss.get) == order[1:]
    assert found.verdict.startswith("Calibrate by auto: ")
    assert " AutoCalibrator is the default because " in found.verdict
    table = repr(found).split("\n\n")[1].splitlines()
    assert [line.split()[0] for line in table[2:6]] == order
    display = ComparisonDisplay.from_frame(found.frame)
    assert [text.get_text() for text in display.axes_[0].get_yticklabels()] == order[:-1]
    assert repr(display).endswith("chosen: auto>")
    assert found.frame.index[found.frame["choice", "chosen"]].tolist() == ["auto"]


def test_printed_it_is_verdict_table_and_equals(found):
    text, page = repr(found), found._repr_html_()
    lines = text.splitlines()
    assert max(map(len, lines)) <= 80
    verdict, table = text.split("\n\n")
    assert verdict.replace("\n", " ") == found.verdict
    names = [line.split()[0] for line in table.splitlines()[2:6]]
    others = found.frame["log_loss"]["value"].drop("auto").sort_values()
    assert names == ["auto", *others.index]
    equals = "As good as auto (log loss higher by at most 2 standard errors and 2 %): temperature."
    assert text.replace("\n", " ").endswith(equals)
    assert found.as_good == [
        n for n in found.frame.index if found.frame.loc[n, ("choice", "as good")]
    ]
    assert page.count("<tr") == 5
    # The choice alone is bold, in all cells, also where a notebook has no style for the class.
    (bold,) = re.findall("<tr[^>]*>(?:<td><b>[^<]*</b></td>)+</tr>", page)
    assert bold.startswith('<tr class="chosen"><td><b>auto</b></td>')
    assert bold.count("<b>") == page.count("<b>")


def test_lines_fit_a_terminal_of_80_characters():
    """The last columns are below, and long sentences are wrapped."""
    y, Z = scores()
    text = repr(compare_calibrators(Z, y, ["temperature", "ensemble_temperature", "isotonic"]))
    assert 70 < max(map(len, text.splitlines())) <= 80
    first, second = (part for part in text.split("\n\n") if part.count("\nidentity ") == 1)
    assert "Brier" in first
    assert second.splitlines()[0].split() == ["calibrator", "ECE*", "SCE*", "KS*"]


def test_harm_and_gain_have_different_signs():
    y, Z = scores()
    found = compare_calibrators(Z, y, {"flat": Flat(), "t": "temperature"}, metrics=["log_loss"])
    lines = {line.split()[0]: line for line in repr(found).splitlines()[3:] if line}
    assert "] +" in lines["t"]
    assert "] -" in lines["flat"]


def test_fit_is_a_fit_of_the_chosen_on_all_rows(found):
    y, Z = scores()
    named = found.fit("temperature")
    assert named.temperature_ == pytest.approx(TemperatureScaling().fit(Z, y).temperature_)
    assert type(found.fit()).__name__ == "AutoCalibrator"
    refused("name must be one of identity, temperature, auto", found.fit, "isotonic")


FORMS = {
    "logits": lambda Z, y: (Z, y, {}),
    "probabilities": lambda Z, y: (softmax(Z, axis=1), y, {}),
    "one probability": lambda Z, y: (softmax(Z, axis=1)[:, 1], y, {}),
    "one column": lambda Z, y: (
        Z[:, 1:] - Z[:, :1], np.array(["no", "yes"])[y], {"pos_label": "yes"},
    ),
    "first event": lambda Z, y: (Z[:, 0] - Z[:, 1], y, {"pos_label": 0}),
    "frame": lambda Z, y: (
        pd.DataFrame(Z[:, ::-1], columns=["dog", "cat"]), np.array(["cat", "dog"])[y], {},
    ),
    "given order": lambda Z, y: (Z[:, ::-1], y, {"classes": [1, 0]}),
    "test rows": lambda Z, y: (Z, y, {"test": (Z[:50], y[:50])}),
}  # fmt: skip


@pytest.mark.parametrize("form", FORMS)
def test_a_fit_takes_scores_as_they_were_given(form):
    """But in the order of `classes_` where X did not follow the sorted labels.

    The numbers of the comparison are those of two columns of logits.
    """
    y, Z = scores(200, n_classes=2)
    X, labels, keywords = FORMS[form](Z, y)
    tried = [TemperatureScaling(), LogisticRegression()]
    found = compare_calibrators(X, labels, tried, metrics=["log_loss"], **keywords)
    fitted = found.fit("TemperatureScaling")
    expected = TemperatureScaling().fit(Z, y).predict_proba(Z[:9])
    given = Z if form in ("first event", "given order") else X
    np.testing.assert_allclose(fitted.predict_proba(given[:9]), expected, rtol=1e-6)
    assert found.fit("LogisticRegression").predict_proba(Z[:9]).shape == (9, 2)
    if form != "test rows":
        logits = compare_calibrators(Z, y, tried[:1], metrics=["log_loss"])
        values, expected = (each.frame["log_loss"][["value", "gain"]] for each in (found, logits))
        np.testing.assert_allclose(values.iloc[:2], expected, rtol=1e-6)


def test_with_test_rows_the_choice_is_made_on_folds():
    """Test rows with other labels turn the numbers round, and change no choice."""
    y, Z = scores()
    y_test, Z_test = scores(300, seed=1)
    tried = ["temperature", "auto"]
    keywords = {"metrics": ["log_loss"], "random_state": 0}
    folds = compare_calibrators(Z, y, tried, **keywords)
    right, wrong = (
        compare_calibrators(Z, y, tried, test=(Z_test, labels), **keywords)
        for labels in (y_test, Z_test.argmax(axis=1))
    )
    assert folds.choice == right.choice == wrong.choice == "auto"
    assert wrong.frame.loc["auto", ("log_loss", "gain")] < 0
    assert "check that the test rows are from the same source" in wrong.verdict
    assert right.verdict.startswith("Calibrate by auto, chosen in folds of the calibration rows: ")
    for found in (right, wrong):
        pd.testing.assert_series_equal(
            found.frame["choice", "log loss"], folds.frame["choice", "log loss"]
        )
    P = folds.fit("temperature").predict_proba(Z_test)
    value = right.frame.loc["temperature", ("log_loss", "value")]
    assert value == pytest.approx(row_log_loss(P, y_test).mean())


def test_an_error_chooses_among_those_whose_log_loss_is_as_good():
    """A constant answer has the lowest SCE of all, and is not taken."""
    y, Z = scores()
    tried = {"flat": Flat(), "temperature": "temperature", "auto": "auto", "beta": "beta"}
    name = "static_calibration_error"
    found = compare_calibrators(
        Z, y, tried, choose_by=name, metrics=["log_loss", name], random_state=0
    )
    debiased = found.frame[name, "debiased"]
    log_loss = compare_calibrators(Z, y, tried, metrics=["log_loss"])
    assert debiased["flat"] <= debiased.drop("identity").min() + 0.05
    assert "flat" not in log_loss.as_good
    assert found.choice in log_loss.as_good
    assert debiased[found.choice] == debiased[log_loss.as_good].min()
    assert "it has the lowest debiased static_calibration_error" in found.verdict
    assert ("adaptive_calibration_error", "value") in compare_calibrators(
        Z, y, ["temperature"], choose_by="adaptive_calibration_error", cv=2, metrics=["log_loss"]
    ).frame
    for bad in ("brier_score", 3):
        with pytest.raises(ValueError, match="choose_by must be 'log_loss' or the name of"):
            compare_calibrators(Z, y, tried, choose_by=bad)


def test_nothing_to_compare_is_said():
    """Where every calibrator failed, or none was named."""
    y, Z = scores(60)
    for calibrators in ([Failing()], []):
        found = compare_calibrators(Z, y, calibrators, metrics=["log_loss"])
        assert found.choice == "identity"
        assert found.verdict == "Nothing to compare: no calibrator except the identity has results."
    assert "Failed or left out" in repr(
        compare_calibrators(Z, y, [Failing()], metrics=["log_loss"])
    )


@pytest.mark.filterwarnings("ignore:TemperatureScaling reached the upper bound")
@pytest.mark.filterwarnings("ignore:The largest score of a row belongs to its label")
def test_a_verdict_doubts_columns_in_another_order_than_the_labels():
    """A model that is nearly always wrong is nearly always one whose columns were swapped."""
    y, Z = scores(600, factor=1.5)
    swapped, right = (
        compare_calibrators(W, y, ["matrix"], metrics=["log_loss"]) for W in (Z[:, ::-1] * 3, Z * 3)
    )
    assert "check that the columns are in the order of the sorted labels." in swapped.verdict
    assert "sorted labels" not in right.verdict


def test_errors_of_the_frame_are_those_of_the_metrics_and_of_calibration_interval():
    """Value, debiased value and that of a calibrated model: one number for one thing."""
    from skcalib.metrics import calibration_interval, ks_calibration_error

    y, Z = scores()
    found = compare_calibrators(Z, y, [], metrics=[ks_calibration_error], random_state=0)
    P = np.exp(Z - Z.max(axis=1, keepdims=True))
    P /= P.sum(axis=1, keepdims=True)
    row = found.frame.loc["identity", "ks_calibration_error"]
    assert row["value"] == pytest.approx(ks_calibration_error(y, P))
    interval = calibration_interval(ks_calibration_error, y, P, random_state=0)
    assert row["debiased"] == pytest.approx(interval.debiased, rel=1e-9)
    assert row["if calibrated"] == pytest.approx(interval.expected_if_calibrated, rel=1e-9)
    (line,) = [line for line in repr(found).splitlines() if line.startswith("identity ")]
    assert line.split()[-1] == f"{interval.debiased:.4f}"
