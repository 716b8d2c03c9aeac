"""The report: one page for everyone, whose numbers agree with each other."""

import base64
import contextlib
import hashlib
import io
import re
import shlex
import sys
from datetime import datetime, timedelta
from html import escape, unescape
from html.parser import HTMLParser
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from edges import even_error
from running import run, scores, softmax
from sklearn.metrics import roc_auc_score

import skcalib
from skcalib.__main__ import main
from skcalib._cli.report import keeps_order
from skcalib._validation.rows import check_predictions
from skcalib.metrics import (
    calibration_by_group,
    calibration_summary,
    expected_calibration_error,
    static_calibration_error,
)

Y, Z = scores()
P = softmax(Z)
VOID = ("meta", "img", "source")


class Page(HTMLParser):
    """What a page refers to, its text, and whether its tags close."""

    def __init__(self, text):
        super().__init__()
        self.sources, self.alt, self.text, self.open = [], [], [], []
        self.feed(text)

    def handle_starttag(self, tag, attrs):
        self.sources += [value for name, value in attrs if name in ("src", "srcset", "href")]
        self.alt += [value for name, value in attrs if name == "alt"]
        if tag not in VOID:
            self.open.append(tag)

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        self.text.append(data)

    def words(self):
        return " ".join(" ".join(self.text).split())


METRICS = ["log_loss", "expected_calibration_error", "ks_calibration_error"]
OPTIONS = ["compare", "<p>.npz", "--calibrators", "temperature", "histogram", "--cv", "3"]
OPTIONS += ["--report", "r.html", "--metrics", *METRICS]


def save(**arrays):
    np.savez("<p>.npz", **{"logits": Z, "labels": Y} | arrays)


def read():
    """The page, with plain spaces and cells without classes."""
    text = Path("r.html").read_text(encoding="utf-8").replace(' class="text"', "")
    return text.replace("&nbsp;", " ").replace("\u00a0", " ")


def report(capsys, *options, **arrays):
    """What a command prints, and its page."""
    save(**arrays)
    printed = run(capsys, *OPTIONS, *options)
    return printed, read()


@pytest.fixture(scope="module")
def page(tmp_path_factory):
    """What a command prints, and its page."""
    pytest.importorskip("matplotlib")
    printed = io.StringIO()
    with contextlib.chdir(tmp_path_factory.mktemp("report")), contextlib.redirect_stdout(printed):
        save()
        assert main(OPTIONS) == 0
        return printed.getvalue(), read()


def cells(text, first):
    """The cells of the row of a table that begins with a name, without marks."""
    (row,) = re.findall(rf"<tr[^>]*><td[^>]*>(?:<b>)?{first}(?:</b>)?</td>(.*?)</tr>", text)
    return [
        unescape(re.sub("<[^>]+>", " ", cell)).split() for cell in re.findall("<td>(.*?)</td>", row)
    ]


def test_it_needs_nothing_else(page):
    """Sentences, tables, pictures, settings, versions; names from outside are escaped."""
    printed, text = page
    found = Page(text)
    assert found.open == []
    # The reliability diagrams, the gains, and the errors of the classes.
    assert len(found.alt) == 4
    assert len(set(found.sources)) == 4
    assert len(text) < 600_000
    for source in found.sources:
        assert source.startswith("data:image/svg+xml;base64,")
        assert b"<svg" in base64.b64decode(source.split(",")[1])
    verdict = re.search(r"(?s)(Calibrate by.*)\nTo find a threshold", printed)[1]
    assert " ".join(verdict.split()) in found.words()
    assert "Calibration of <p>.npz" in found.words()
    for expected in ("3 stratified folds", "scikit-learn", skcalib.__version__):
        assert expected in found.words()
    assert "in doubt" not in text
    (date,) = re.findall(r"<td>date</td><td>([\d-]+ [\d:]+)", text)
    assert abs(datetime.now() - datetime.strptime(date, "%Y-%m-%d %H:%M")) < timedelta(hours=1)
    assert "<td>seed</td><td>0</td>" in text
    assert "<code>skcalib compare &#x27;&lt;p&gt;.npz&#x27; --save best.json" in text


def test_it_begins_with_a_line_for_everyone(page):
    """How sure the model is and how often it is right, before and after."""
    _, text = page
    first, second = re.findall('<p class="first">(.*?)</p>', text)
    sure, right = 100 * P.max(axis=1).mean(), 100 * (P.argmax(axis=1) == Y).mean()
    assert first.startswith(
        f"The model is {sure:.1f} % confident on average and right {right:.1f} % of the time: "
        f"over-confident by {round(sure, 1) - round(right, 1):.1f} points. The probabilities are "
        "not calibrated: the ECE ("
    )
    assert second.startswith("Calibrated by temperature: the model is ")
    assert "is not significantly above that of a calibrated model" in second
    assert f"right {right:.1f} % of the time" in second
    assert text.index(first) < text.index('class="verdict"') < text.index("<table")


@pytest.mark.slow
def test_a_kept_model_has_one_line(capsys):
    pytest.importorskip("matplotlib")
    rng = np.random.default_rng(0)
    Q = softmax(rng.normal(size=(900, 3)))
    y = (rng.random(900)[:, None] > Q.cumsum(axis=1)).sum(axis=1)
    _, text = report(capsys, logits=np.log(Q), labels=y)
    assert len(re.findall('class="first"', text)) == 1
    assert "The probabilities need no calibration." in text
    assert "Reliability diagram after: no calibration" in text


def test_its_table_is_that_of_the_command(page):
    """With the same names, numbers and signs, and the choice marked."""
    printed, text = page
    lines = [line.split() for line in printed.splitlines()]
    for name in ("temperature", "histogram", "identity"):
        (line,) = [line for line in lines if line[:1] == [name] and "%" in line]
        written = text.split("All calibrators")[1].split("</table>")[0]
        assert [name, *(word for cell in cells(written, name) for word in cell)] == line
    assert '<tr class="chosen"><td><b>temperature</b></td>' in text


def test_one_thing_has_one_number(page):
    """The error before calibration is that of the pooled rows, as of the library."""
    _, text = page
    calibrators = ["temperature", "histogram"]
    frame = skcalib.compare_calibrators(
        Z, Y, calibrators, cv=3, metrics=METRICS, random_state=0
    ).frame
    error = frame.loc["identity", "expected_calibration_error"]
    before = text.split("Before and after")[1]
    assert cells(before, "ECE")[0] == [f"{expected_calibration_error(Y, P):.4f}"]
    debiased = cells(before, "debiased, 95 % interval")[0][0]
    if_calibrated = cells(before, "ECE if calibrated")[0][0].rstrip(";")
    assert [debiased, if_calibrated] == [
        f"{error[part]:.4f}" for part in ("debiased", "if calibrated")
    ]


def test_its_classes_are_those_with_the_largest_errors(page):
    """By loops over classes and bins; their mean is the SCE."""
    _, text = page
    expected = {k: even_error(k == Y, P[:, k]) for k in range(3)}
    assert np.mean(list(expected.values())) == pytest.approx(static_calibration_error(Y, P))
    table = text.split("The classes with the largest errors")[1]
    order = [int(k) for k in re.findall(r"<tr><td>(\d)</td>", table)]
    assert order == sorted(expected, key=lambda k: -expected[k])
    for k in range(3):
        rows, mean, _, share, _, error, _ = (
            part for cell in cells(table.split("</table>")[0], k) for part in cell
        )
        assert int(rows) == (k == Y).sum()
        assert float(mean) == pytest.approx(100 * P[:, k].mean(), abs=0.05)
        assert float(share) == pytest.approx(100 * (k == Y).mean(), abs=0.05)
        assert float(error) == pytest.approx(expected[k], abs=5e-5)


def test_every_word_of_the_table_is_explained(page):
    _, text = page
    explained = set(re.findall("<dt>(.*?)</dt>", text))
    assert {"log loss", "gain", "classes changed", "ECE", "KS", "debiased", "if calibrated"} == (
        explained
    )
    assert "Kolmogorov-Smirnov error (KS): " in text


@pytest.mark.slow
def test_its_code_loads_and_applies_the_saved_calibrator(capsys):
    pytest.importorskip("matplotlib")
    _, text = report(capsys, "--save", "b.json")
    code, command = (unescape(part) for part in re.findall("(?s)<pre>(.*?)</pre>", text))
    names = {"scores": Z}
    exec(code, names)
    expected = skcalib.load_json("b.json").predict_proba(Z)
    np.testing.assert_array_equal(names["probabilities"], expected)
    assert "# scores: logits of 0, 1, 2" in code
    assert command == "skcalib apply b.json new.csv -o calibrated.csv"
    T = skcalib.load_json("b.json").temperature_
    assert f"TemperatureScaling, fitted on all calibration rows: T = {T:.3g}: softer." in text


def test_its_code_names_the_groups_of_a_map_for_each(capsys, monkeypatch):
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    site = np.arange(len(Y)) % 2
    biased = Z + np.where(site[:, None], [3.0, 0.0, -3.0], [-3.0, 0.0, 3.0])
    np.savez("p.npz", logits=biased, labels=Y, site=site)
    given = ["--calibrators", "groupwise", "--groups", "site", "--metrics", "log_loss"]
    run(capsys, "compare", "p.npz", *given, "--report", "r.html", "--save", "best.json")
    code, command = (unescape(part) for part in re.findall("(?s)<pre>(.*?)</pre>", read()))
    assert "# scores: logits of 0, 1, 2\n# groups: site\n" in code
    names = {"scores": biased, "groups": site}
    exec(code, names)
    expected = skcalib.load_json("best.json").predict_proba(biased, groups=site)
    np.testing.assert_array_equal(names["probabilities"], expected)
    assert command == "skcalib apply best.json new.csv -o calibrated.csv --groups site"


def test_the_order_of_rows_is_compared_within_each_fold():
    """A tie that calibration makes keeps the order; two rows that change places do not."""
    y = [0, 1, 0, 1]
    folds = [np.array([0, 1]), np.array([2, 3])]
    before, tie, swap, of_folds = (
        check_predictions(y, p)
        for p in (
            [0.1, 0.4, 0.2, 0.3],
            [0.2, 0.4, 0.4, 0.4],
            [0.5, 0.4, 0.2, 0.3],
            [0.8, 0.9, 0.1, 0.3],
        )
    )
    assert keeps_order(before, tie, [slice(None)])
    assert not keeps_order(before, swap, folds)
    assert keeps_order(before, of_folds, folds)
    assert not keeps_order(before, of_folds, [slice(None)])
    classes = check_predictions([0, 1, 2], np.eye(3))
    assert not keeps_order(classes, classes, [slice(None)])


@pytest.mark.slow
def test_one_event_is_spoken_of_as_one(capsys):
    pytest.importorskip("matplotlib")
    rng = np.random.default_rng(0)
    p = rng.random(600)
    frame = pd.DataFrame({"risk": p, "labels": rng.random(600) < p**2})
    frame.to_csv("q.csv", index=False)
    options = ["--calibrators", "platt", "--report", "r.html"]
    run(capsys, "compare", "q.csv", *options, "--metrics", "log_loss", "ks_calibration_error")
    text = read()
    assert f'"first">The mean predicted probability is {100 * p.mean():.1f} %, and ' in text
    assert "Below the diagonal the event occurs less often than predicted." in text
    # Platt scaling keeps the order of the rows of a fold.
    before, after = cells(text, "AUC, mean of folds")
    assert before == after
    assert "Calibration keeps the order of the rows, and therefore the AUC." in text
    assert float(before[0]) == pytest.approx(roc_auc_score(frame["labels"], p), abs=0.01)
    events = frame["labels"].sum()
    assert f"<td>events</td><td>{events} rows are True: {events / 6:.1f} %</td>" in text
    assert "largest errors" not in text  # of classes
    assert "# scores: probabilities, one column" in text


@pytest.mark.slow
def test_the_auc_of_a_test_split_is_that_of_its_rows(capsys):
    rng = np.random.default_rng(0)
    p, split = rng.random(600), np.arange(600) % 3 == 2
    frame = pd.DataFrame({"risk": p, "labels": rng.random(600) < p**2, "split": split.astype(int)})
    frame.to_csv("q.csv", index=False)
    options = ["--calibrators", "platt", "--report", "r.html", "--metrics", "log_loss"]
    printed = run(capsys, "compare", "q.csv", *options)
    auc = f"{roc_auc_score(frame['labels'][split], p[split]):.4f}"
    assert cells(read(), "AUC") == [[auc], [auc]]
    table = [
        line.split() for line in printed.splitlines() if line.startswith(("identity", "calib"))
    ]
    assert [line[-1] for line in table[:2]] == ["AUC", auc]


def test_it_says_what_is_in_doubt(capsys):
    """Every row is right and certain: nothing is gained, and T meets its bound."""
    pytest.importorskip("matplotlib")
    np.savez("p.npz", logits=1e5 * Z, labels=Z.argmax(axis=1))
    options = ["--calibrators", "temperature", "--metrics", "log_loss", "--report", "r.html"]
    assert "Keep the" in run(capsys, "compare", "p.npz", *options)
    text = read()
    assert "<h2>Errors, warnings and skipped calibrators</h2>" in text
    assert "<li>temperature: TemperatureScaling reached the lower bound of T" in text
    assert Page(text).open == []


def test_without_matplotlib_it_has_no_pictures_and_says_so(capsys, monkeypatch):
    for name in ("matplotlib", "matplotlib.figure"):
        monkeypatch.setitem(sys.modules, name, None)
    _, text = report(capsys)
    assert "matplotlib is not installed" in text
    assert Page(text).sources == []
    assert "with the largest errors" in text


@pytest.fixture
def drawn(monkeypatch):
    """The reliability diagrams that are drawn."""
    plotting = pytest.importorskip("skcalib.plotting")
    pytest.importorskip("matplotlib")
    displays, draw = [], plotting.ReliabilityDisplay.from_predictions

    def keep(*args, **keywords):
        displays.append(draw(*args, **keywords))
        return displays[-1]

    monkeypatch.setattr(plotting.ReliabilityDisplay, "from_predictions", keep)
    return displays


def test_pictures_have_the_numbers_of_the_table(capsys, drawn):
    y, logits = scores(n_classes=3)
    _, text = report(capsys, logits=logits, labels=y)
    assert [display.curve for display in drawn] == [None, None]
    tables = [cell for (cell,) in cells(text, "ECE")]
    assert [f"{display.error:.4f}" for display in drawn] == tables
    limits = [(display.ax_.get_xlim(), display.ax_.get_ylim()) for display in drawn]
    assert limits[0] == limits[1]


def test_the_picture_of_an_event_has_the_ici_of_its_summary(capsys, drawn):
    """In a comparison too, whose table has the ECE."""
    y, logits = scores(n_classes=2)
    np.savez("p.npz", logits=logits, labels=y)
    run(capsys, "measure", "p.npz", "--report", "r.html")
    report(capsys, logits=logits, labels=y)
    assert [display.curve.method for display in drawn] == ["smooth"] * 3
    p = softmax(logits)[:, 1]
    assert drawn[0].error == pytest.approx(calibration_summary(y, p).frame.loc["ici", "value"])
    assert drawn[1].error == drawn[0].error


@pytest.mark.slow
def test_a_page_of_a_thousand_classes_is_small(capsys):
    pytest.importorskip("matplotlib")
    y, logits = scores(n=1500, n_classes=1000)
    np.savez("p.npz", logits=logits, labels=y, classes=np.arange(1000))
    options = ["--calibrators", "temperature", "--metrics", "log_loss", "--cv", "2"]
    run(capsys, "compare", "p.npz", *options, "--report", "r.html")
    assert len(read()) < 600_000


def test_a_page_of_errors_has_the_data_the_verdict_and_the_groups(capsys, few_errors):
    """What measure prints, and what the file, the command and the split were."""
    pytest.importorskip("matplotlib")
    site, split = np.arange(300) % 2, np.arange(300) % 3 // 2
    np.savez("p.npz", logits=Z, labels=Y, site=site, split=split)
    command = ["measure", "p.npz", "--groups", "site", "--report", "r.html"]
    printed = run(capsys, *command, "--title", "A <model>", "--note", "For a <test>.")
    assert printed.splitlines()[-1] == "report: r.html"
    text, words = read(), Page(read()).words()
    summary = " ".join(printed.split("\n\n")[1].split())
    assert summary.replace("`compare` recommends a calibrator.", "").strip() in words
    assert "<h1>A &lt;model&gt;</h1>" in text
    assert "<p>For a &lt;test&gt;.</p>" in text
    digest = hashlib.sha256(Path("p.npz").read_bytes()).hexdigest()
    for fact in (digest, "100: the test split", shlex.join(["skcalib", *command])):
        assert escape(fact) in text, fact
    accuracy = (P.argmax(axis=1) == Y)[split == 1].mean()
    assert f"<td>accuracy</td><td>{100 * accuracy:.1f} %</td>" in text
    error = expected_calibration_error(Y[split == 1], P[split == 1])
    assert cells(text.split("<h2>Errors")[1], "ECE")[2] == [f"{error:.4f}"]
    by_group = calibration_by_group(Y[split == 1], P[split == 1], site[split == 1], random_state=0)
    assert by_group.verdict in words
    assert "What this report does not show" in words
    assert len(text) < 600_000


def test_groups_are_those_of_the_measured_rows_before_and_after(capsys, monkeypatch):
    """In folds, of a split whose test rows come first, and of those whose weight is not 0."""
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    site, split = np.repeat([0, 1], 150), (np.arange(300) < 200).astype(int)
    options = ["--groups", "site", "--calibrators", "temperature", "--metrics", "log_loss"]
    weights = (np.arange(300) >= 100).astype(int)
    for more, rows in (
        ({}, ["150", "150"]),
        ({"split": split}, ["150", "50"]),
        ({"weights": weights}, ["50", "150"]),
        ({"weights": weights, "split": split}, ["50", "50"]),
    ):
        np.savez("p.npz", logits=Z, labels=Y, site=site, **more)
        run(capsys, "compare", "p.npz", *options, "--report", "r.html")
        text = read().split("<h2>By group</h2>")[1].split("<h2>")[0]
        counted = re.findall(r"<td>([01])</td>\s*<td>(\d+)</td>", text)
        assert sorted(counted) == sorted(zip("01" * 2, rows * 2, strict=True))
        assert text.index("<h3>before</h3>") < text.index("<h3>after: temperature</h3>")
