"""The picture of score decompositions shows the numbers of `score_decomposition`."""

from itertools import combinations

import numpy as np
import pytest
from calls import refused
from drawings import nothing_is_cut, predictions
from sklearn.linear_model import LogisticRegression

from skcalib import IsotonicCalibrator
from skcalib.metrics import score_decomposition
from skcalib.plotting import DecompositionDisplay


def event(n=500, seed=0):
    """Outcomes, and the probabilities of three models."""
    rng = np.random.default_rng(seed)
    p = rng.random(n)
    y = (rng.random(n) < p).astype(int)
    return y, {"right": p, "bold": p**3 / (p**3 + (1 - p) ** 3), "shy": (p + 0.5) / 2}


def places(display):
    return np.array([line.get_xydata()[0] for line in display.points_])


@pytest.mark.parametrize("score", ["brier", "log"])
def test_points_stand_at_miscalibration_and_discrimination(score):
    y, models = event()
    w = np.random.default_rng(1).uniform(0.5, 2, y.size)
    display = DecompositionDisplay.from_predictions(y, models, score=score, sample_weight=w)
    for (name, p), place in zip(models.items(), places(display), strict=True):
        parts = score_decomposition(y, p, score=score, sample_weight=w)
        assert place.tolist() == [parts.miscalibration, parts.discrimination]
        assert display.frame.loc[name].tolist() == list(parts)
    texts = [text.get_text() for text in display.ax_.get_legend().get_texts()]
    assert [text.split(" (")[0] for text in texts] == [*models, "base rate"]
    assert texts[0] == f"right ({display.frame.loc['right', 'score']:.3g})"
    title = display.ax_.get_legend().get_title().get_text()
    assert title == {"brier": "Brier score", "log": "log loss"}[score]


def test_lines_join_models_of_equal_score():
    """On a line marked S, MCB - DSC is S - UNC; on the dotted one, 0."""
    y, models = event()
    display = DecompositionDisplay.from_predictions(y, models, c="red", ms=3)
    uncertainty = y.mean() * (1 - y.mean())
    scores = display.levels_.levels
    for score, path in zip(scores, display.levels_.get_paths(), strict=True):
        miscalibration, discrimination = path.vertices.T
        expected = np.full(len(path.vertices), score - uncertainty)
        np.testing.assert_allclose(miscalibration - discrimination, expected, atol=1e-9)
    texts = [text.get_text() for text in display.levels_.labelTexts]
    assert len(texts) >= 3
    assert set(texts) <= {f"{score:.4g}" for score in scores}
    (base,) = [line for line in display.ax_.lines if line.get_linestyle() == ":"]
    assert (base.get_xy1(), base.get_slope()) == ((0, 0), 1)
    assert {(line.get_color(), line.get_markersize()) for line in display.points_} == {("red", 3)}


def test_several_calls_on_one_axes_are_one_call():
    """The lines are drawn once, and the limits hold every point."""
    y, models = event()
    together = DecompositionDisplay.from_predictions(y, models)
    one = None
    for name, p in models.items():
        ax = None if one is None else one.ax_
        one = DecompositionDisplay.from_predictions(y, p, name=name, ax=ax)
    assert one.ax_.get_xlim() == together.ax_.get_xlim()
    assert one.ax_.get_ylim() == together.ax_.get_ylim()
    assert len(one.ax_.collections) == 1
    np.testing.assert_array_equal(one.levels_.levels, together.levels_.levels)
    texts = [
        [text.get_text() for text in display.ax_.get_legend().get_texts()]
        for display in (one, together)
    ]
    assert sorted(texts[0]) == sorted(texts[1])
    marks = {line.get_marker() for line in one.ax_.lines if line.get_marker() != "None"}
    assert len(marks) == 3


def test_of_several_classes_and_by_a_calibrator():
    y, P, _ = predictions()
    each = DecompositionDisplay.from_predictions(y, P, mode="classwise")
    assert each.frame.loc["model"].tolist() == list(score_decomposition(y, P, mode="classwise"))
    fitted = IsotonicCalibrator().fit(P[:200], y[:200])
    given = {"mode": "joint", "calibrator": fitted}
    vectors = DecompositionDisplay.from_predictions(y[200:], P[200:], name="net", **given)
    assert vectors.frame.loc["net"].tolist() == list(score_decomposition(y[200:], P[200:], **given))


def test_a_negative_miscalibration_is_within_the_picture():
    y, models = event()
    wrong = LogisticRegression().fit(models["right"][:, None], 1 - y)
    display = DecompositionDisplay.from_predictions(y, models["right"], calibrator=wrong)
    (place,) = places(display)
    assert place[0] < 0
    assert display.ax_.get_xlim()[0] < place[0]
    assert display.ax_.get_ylim()[0] < place[1] < display.ax_.get_ylim()[1]


def test_what_cannot_be_drawn():
    y, models = event()
    display = DecompositionDisplay.from_predictions(y, models)
    with pytest.raises(ValueError, match="measured by the same score on the same rows"):
        DecompositionDisplay.from_predictions(y[:50], models["right"][:50], ax=display.ax_)
    with pytest.raises(ValueError, match="measured by the same score on the same rows"):
        DecompositionDisplay.from_predictions(y, models["right"], score="log", ax=display.ax_)
    assert len(display.ax_.get_legend().get_texts()) == 4  # nothing was drawn
    with pytest.raises(ValueError, match=r"log loss of 'sure' is infinite.*pass score='brier'"):
        DecompositionDisplay.from_predictions(y, {"sure": np.round(models["right"])}, score="log")
    for bad in ({"name": "a"}, {"calibrator": LogisticRegression()}):
        refused("dict of models by name", DecompositionDisplay.from_predictions, y, models, **bad)
    refused("dict of models by name", DecompositionDisplay.from_predictions, y, {})


def test_numbers_of_levels_do_not_overlap():
    y, models = event()
    display = DecompositionDisplay.from_predictions(y, models)
    nothing_is_cut(display.figure_)
    boxes = [text.get_window_extent() for text in display.levels_.labelTexts]
    assert not any(a.overlaps(b) for a, b in combinations(boxes, 2))
