"""The built site and three reports in a browser.

Nothing is cut, every link leads somewhere, axe finds no fault, the search finds what people type.

Build the site first, ``python -m sphinx -b html docs docs/_build/html``, or name the folder of a
built one in ``SKCALIB_SITE``. Chromium or Chrome, its driver and selenium have to be installed.
"""

import json
import os
import shutil
import time
from importlib.util import find_spec
from pathlib import Path
from urllib.parse import quote, unquote, urldefrag, urlparse

import numpy as np
import pytest
from sklearn.datasets import load_digits
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import log_loss

from skcalib import PlattScaling, TemperatureScaling, metrics

pytestmark = pytest.mark.slow

ROOT = Path(__file__).parents[2]
SITE = Path(os.environ.get("SKCALIB_SITE", ROOT / "docs" / "_build" / "html"))
WIDTHS = [1400, 420]
BROWSERS = ["chromium", "chromium-browser", "google-chrome", "google-chrome-stable"]
DRIVERS = ["chromedriver", "chromium.chromedriver"]

LINKS = """
const address = e => e.src || new URL(e.getAttribute('href'), e.baseURI).href;  // also in an SVG
const all = query => [...document.querySelectorAll(query)];
return {
  links: all('a[href], img[src], script[src], link[rel=stylesheet]').map(address),
  ids: all('[id]').map(e => e.id).concat(all('a[name]').map(e => e.name)),
  empty: all('img').filter(e => e.complete && !e.naturalWidth).map(e => e.src),
};
"""

FAULTS = """
const root = document.documentElement, found = [];
const style = e => getComputedStyle(e).overflowX;
const scrolls = e => ['auto', 'scroll'].includes(style(e));
const hides = e => ['hidden', 'clip'].includes(style(e));
const name = e => e.tagName.toLowerCase() + ' "' + e.textContent.trim().slice(0, 60) + '"';
const shown = e => e.getClientRects().length && e.checkVisibility({visibilityProperty: true});
const wider = e => e.scrollWidth > e.clientWidth + 1;

if (wider(root)) found.push('the page is ' + root.scrollWidth + ' pixels wide');
for (const e of document.body.querySelectorAll('*'))
  if (e.scrollWidth > e.clientWidth + 1 && e.clientWidth > 1 && hides(e) && shown(e))
    found.push('cut: ' + name(e));
for (const formula of document.querySelectorAll('math')) {
  if (!shown(formula)) continue;
  const places = [...formula.querySelectorAll('*')].map(e => e.getBoundingClientRect());
  const drawn = places.filter(place => place.width > 0);
  let box = formula.parentElement;
  while (box !== document.body && !scrolls(box)) box = box.parentElement;
  const begin = box.getBoundingClientRect().left - box.scrollLeft;
  const end = begin + (scrolls(box) ? box.scrollWidth : box.clientWidth);
  if (drawn.some(place => place.left < begin - 1 || place.right > end + 1))
    found.push('cut formula: ' + name(formula));
}
for (const e of document.querySelectorAll('p, li, dd, td'))
  for (const text of e.childNodes)
    if (text.nodeType === 3 && /\\$\\$|\\$[^$\\s][^$]*\\$|:math:|\\\\[a-z]+/.test(text.data))
      found.push('formula as it was typed: ' + name(e));
for (const column of document.querySelectorAll('[class*=bd-sidebar-], .bd-article-container'))
  if (shown(column) && wider(column)) found.push('scrolls sideways: ' + column.className);
if (root.clientWidth >= 1400)
  for (const code of document.querySelectorAll(
    '.highlight-python pre, .highlight-default pre, .sphx-glr-script-out pre'))
    if (shown(code) && wider(code)) found.push('code scrolls: ' + name(code));
return found;
"""


# Pictures that stand on a ground of their own on a dark page.
BRIGHT = """
document.documentElement.dataset.theme = 'dark';
const ground = e => getComputedStyle(e).backgroundColor;
return [...document.querySelectorAll('.bd-article img')]
  .filter(e => e.checkVisibility() && ground(e) !== 'rgba(0, 0, 0, 0)').map(e => e.src);
"""


# What axe finds wrong: contrast, names of links and pictures, heads of tables, order of headings.
AXE = """
const done = arguments[arguments.length - 1], theme = arguments[0];
document.head.insertAdjacentHTML('beforeend', '<style>* { transition: none !important }</style>');
document.documentElement.dataset.theme = document.documentElement.dataset.mode = theme;
const of = rule => rule.id + ' ' + rule.nodes.slice(0, 3).map(
  node => node.html.slice(0, 150) + (node.any[0] ? ' ' + node.any[0].message : '')).join(' | ');
axe.run(document, {resultTypes: ['violations'], iframes: false}).then(
  found => done(found.violations.map(of)), error => done([String(error)]));
"""

# Words that people type, and the page that has to come first, or any.
SEARCHES = {
    "temperature scaling": "TemperatureScaling",
    "isotonic regression": "IsotonicCalibrator",
    "platt scaling": "PlattScaling",
    "ECE": "expected_calibration_error",
    "expected calibration error": "expected_calibration_error",
    "reliability diagram": "ReliabilityDisplay",
    **dict.fromkeys(
        ["LLM", "fairness", "imbalanced", "lightgbm", "xgboost", "net benefit", "conformal"], ""
    ),
    **dict.fromkeys(["drift", "threshold", "overconfident", "reject option"], ""),
    "abstain": "acting",
    "tutorial": "getting_started",
    "huggingface": "fitting",
    "excel": "command_line",
}
FIRST = """
const link = document.querySelector('#search-results li a');
const ended = document.querySelector('#search-results .search-summary, #search-results p');
return link ? link.href : (ended && /0|not match|no results/i.test(ended.textContent)) ? '-' : null;
"""


@pytest.fixture(scope="module")
def browser():
    """A browser without a window."""
    webdriver = pytest.importorskip("selenium.webdriver", reason="selenium is not installed")
    paths = [next(filter(None, map(shutil.which, names)), None) for names in (BROWSERS, DRIVERS)]
    if None in paths:
        pytest.skip("no Chromium or Chrome with its driver is installed")
    options = webdriver.ChromeOptions()
    options.binary_location = paths[0]
    for option in ("--headless=new", "--no-sandbox", "--disable-gpu", "--hide-scrollbars"):
        options.add_argument(option)
    driver = webdriver.Chrome(options=options, service=webdriver.ChromeService(paths[1]))
    yield driver
    driver.quit()


def look(browser, page):
    """Links, anchors and what is wrong of a page, at each width."""
    browser.get(page.as_uri())
    seen = browser.execute_script(LINKS)
    for width in WIDTHS:
        size = {"width": width, "height": 900, "deviceScaleFactor": 1, "mobile": False}
        browser.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", size)
        seen[width] = browser.execute_script(FAULTS)
    return seen


@pytest.fixture(scope="module")
def site(browser):
    """What is seen on each page of the site."""
    pages = sorted(path for path in SITE.rglob("*.html") if "_static" not in path.parts)
    # The page of lost addresses of a published site reads its style from there.
    pages = [path for path in pages if "<base href" not in path.read_text()]
    if not pages:
        pytest.skip(f"no site is built in {SITE}")
    return {page: look(browser, page) for page in pages}


def test_pictures_are_drawn_for_dark_pages_too(browser, site):
    """No picture stands in a bright rectangle there; each page with pictures has some to show."""
    drawn = 0
    for page in site:
        browser.get(page.as_uri())
        bright = browser.execute_script(BRIGHT)
        assert not bright, f"{page.name}: {bright}"
        drawn += browser.execute_script("return document.querySelectorAll('.only-dark').length")
    assert drawn > 40


@pytest.fixture(scope="module")
def reports(browser, tmp_path_factory):
    """What is seen on the reports of 2, 10 and 100 classes."""
    from skcalib.__main__ import main

    seen = {}
    for n_classes in (2, 10, 100):
        folder = tmp_path_factory.mktemp(f"classes_{n_classes}")
        rng = np.random.default_rng(n_classes)
        y = rng.integers(n_classes, size=1200)
        Z = 3 * (rng.normal(size=(1200, n_classes)) + 2 * np.eye(n_classes)[y])
        np.savez(folder / "scores.npz", logits=Z, labels=y)
        page = folder / "report.html"
        options = ["--calibrators", "temperature", "vector", "isotonic", "--report", str(page)]
        assert main(["compare", str(folder / "scores.npz"), *options]) == 0
        seen[page] = look(browser, page)
    return seen


def faults(seen, width):
    """Lines that say what is wrong where."""
    return [f"{page.name}: {fault}" for page, found in seen.items() for fault in found[width]]


def broken(seen):
    """Links to files or anchors that do not exist, and pictures that are not drawn."""
    lines = []
    for page, found in seen.items():
        lines += [f"{page.name}: not drawn: {source}" for source in found["empty"]]
        for link in set(found["links"]):
            address, anchor = urldefrag(link)
            parts = urlparse(address)
            if parts.scheme != "file":
                continue
            target = Path(unquote(parts.path))
            if not target.is_file():
                lines.append(f"{page.name}: no file {link}")
            elif anchor and target in seen and unquote(anchor) not in seen[target]["ids"]:
                lines.append(f"{page.name}: no anchor {link}")
    return lines


@pytest.fixture(params=["site", "reports"])
def pages(request):
    """What is seen on every page of the site, and on three reports."""
    return request.getfixturevalue(request.param)


@pytest.mark.parametrize("width", WIDTHS)
def test_nothing_is_cut_or_wider_than_the_window(pages, width):
    """No page scrolls sideways, no formula, name or line of code is cut."""
    lines = faults(pages, width)
    assert not lines, "\n".join(lines)


def test_every_link_and_anchor_exists(pages):
    lines = broken(pages)
    assert not lines, "\n".join(lines)


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_axe_finds_no_fault(browser, site, theme):
    """On any page, on light and on dark ground."""
    spec = find_spec("axe_core_python")
    if spec is None:
        pytest.skip("axe-core-python is not installed")
    script = (Path(spec.origin).parent / "axe.min.js").read_text()
    browser.set_script_timeout(120)
    lines = []
    for page in site:
        browser.get(page.as_uri())
        browser.execute_script(script)
        found = browser.execute_async_script(AXE, theme)
        lines += [f"{page.relative_to(SITE)}: {fault}" for fault in found]
    assert not lines, "\n".join(lines)


@pytest.mark.parametrize("words", SEARCHES)
def test_the_search_finds_a_page(browser, words):
    """The page of a method comes first for its common name."""
    if not SITE.is_dir():
        pytest.skip(f"no site is built in {SITE}")
    browser.get(f"{(SITE / 'search.html').as_uri()}?q={quote(words)}")
    for _ in range(100):
        link = browser.execute_script(FIRST)
        if link is not None:
            break
        time.sleep(0.1)
    assert link not in (None, "-")
    assert SEARCHES[words] in link


# ------------------------------------------------------------------ the page that reads a file

NUMBERS = "return document.getElementById('try-result').dataset.numbers || null"


def read_file(browser, path):
    """Let the page read a file; return its numbers, if there are any, and its message."""
    page = SITE / "try.html"
    if not page.is_file():
        pytest.skip(f"no site is built in {SITE}")
    browser.get(page.as_uri())
    browser.find_element("id", "try-file").send_keys(str(path))
    for _ in range(200):
        numbers = browser.execute_script(NUMBERS)
        message = browser.find_element("id", "try-message").text
        if numbers or message:
            break
        time.sleep(0.05)
    return numbers and json.loads(numbers), message


def probabilities_and_events(kind):
    """Return the text of a file of this kind, its probabilities, and whether the event occurred."""
    rng = np.random.default_rng(0)
    n = {"many": 200_000, "rare": 20_000}.get(kind, 1_000)
    if kind == "rare":
        p = rng.beta(0.3, 2, n)
    elif kind == "many":
        p = 1 / (1 + np.exp(-3 * rng.normal(size=n)))
    else:
        p = np.round(rng.random(n), 2)  # with exact zeros and ones
    y = rng.random(n) < (p if kind == "rare" else 0.1 + 0.7 * p)
    cells = [repr(x) for x in p.tolist()]
    if kind == "decimal commas":
        rows = [
            f"{x.replace('.', ',')};{'yes' if event else 'no'};x"
            for x, event in zip(cells, y, strict=True)
        ]
        return "risk;dead;site\n" + "\n".join(rows), p, y
    if kind == "per cent":
        rows = [f'"{round(100 * x)}%"\t"{event}"' for x, event in zip(p, y, strict=True)]
        return '"confidence"\t"correct"\r\n' + "\r\n".join(rows), np.round(100 * p) / 100, y
    rows = [f"{i},{x},{int(event)}" for i, (x, event) in enumerate(zip(cells, y, strict=True))]
    return "id,probability,label\n" + "\n".join(rows), p, y


@pytest.mark.parametrize("kind", ["plain", "decimal commas", "per cent", "rare", "many"])
def test_the_page_measures_a_file_as_the_package_does(browser, tmp_path, kind):
    text, p, y = probabilities_and_events(kind)
    (tmp_path / "p.csv").write_text(text)
    numbers, message = read_file(browser, tmp_path / "p.csv")
    error = metrics.expected_calibration_error
    test = metrics.calibration_test(error, y, p, random_state=0)
    assert message == ""
    assert numbers["n"] == len(p)
    assert numbers["ece"] == pytest.approx(error(y, p), abs=1e-9)
    assert numbers["T"] == pytest.approx(TemperatureScaling().fit(p, y).temperature_, abs=1e-6)
    platt = PlattScaling().fit(p, y)
    assert [numbers["a"], numbers["b"]] == pytest.approx(
        [platt.coef_.item(), platt.intercept_.item()], abs=1e-6
    )
    # Five standard errors of both simulations.
    deviation = test.standard_error / np.sqrt(1000) * np.sqrt(2)
    assert numbers["expected"] == pytest.approx(test.mean, abs=5 * deviation)
    assert numbers["p"] == pytest.approx(test.pvalue, abs=5 * np.sqrt(0.5 / 1000) + 0.001)
    shown = browser.find_element("id", "try-result").text
    if numbers["p"] <= 0.05:
        table = metrics.reliability_table(y, p)
        row = table.loc[((table["confidence"] - table["accuracy"]).abs() * table["count"]).idxmax()]
        said, seen = (f"{100 * row[name]:.1f} %" for name in ("confidence", "accuracy"))
        example = f"of the {row['count']:,.0f} rows with a mean prediction of {said}, {seen} are"
        assert example in shown
    else:
        assert "For example" not in shown
    requests = browser.execute_script(
        "return performance.getEntriesByType('resource').map(e => e.name)"
    )
    assert all(urlparse(address).scheme == "file" for address in requests)


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("", "fewer than two rows"),
        ("a,b\n1,2\n", "fewer than two rows"),
        ("0.3,1\n0.2,0\n0.1,1\n", "first line has numbers"),
        ("p,label\n.2,1\n.3\n.4,0\n", "Line 3 has 1 cells, the header has 2."),
        ('p,label\n"0.5,1\n0.3,0\n.2,1\n', "quotation mark"),
        ("p,label\n.2,1\n.3,1\n.4,1\n", "No column has two values"),
        ("id,label\n" + "".join(f"{i},{i % 2}\n" for i in range(50)), "No column has probabil"),
        ("f,label\n" + "".join(f"{i - 9.5},{i % 2}\n" for i in range(50)), "may be logits"),
        ("p,label\n.2,1\n.3,0\n.4,0\n", "Only 3 rows"),
        (
            "a,b,dead\n" + "".join(f"{i / 60},{1 - i / 60},{i % 2}\n" for i in range(50)),
            "choose the columns",
        ),
        (
            "p,state\n" + "".join(f"{i / 60},{['well', 'ill'][i % 2]}\n" for i in range(50)),
            "Choose the outcome, the event",
        ),
    ],
)
def test_the_page_says_what_is_wrong_with_a_file(browser, tmp_path, text, sentence):
    (tmp_path / "p.csv").write_text(text)
    numbers, message = read_file(browser, tmp_path / "p.csv")
    assert numbers is None
    assert sentence in message


@pytest.mark.parametrize("theme", ["light", "dark"])
@pytest.mark.parametrize("width", WIDTHS)
def test_the_page_shows_an_example_by_keyboard(browser, theme, width):
    """Axe finds no fault in its answer, which is no wider than the window."""
    from selenium.webdriver import ActionChains, Keys

    if not (SITE / "try.html").is_file():
        pytest.skip(f"no site is built in {SITE}")
    size = {"width": width, "height": 900, "deviceScaleFactor": 1, "mobile": False}
    browser.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", size)
    browser.get((SITE / "try.html").as_uri())
    browser.execute_script("document.getElementById('try-file').focus()")
    ActionChains(browser).send_keys(Keys.TAB).perform()
    assert browser.switch_to.active_element.get_attribute("id") == "try-example"
    browser.switch_to.active_element.send_keys(Keys.ENTER)
    assert "Not calibrated." in browser.find_element("id", "try-result").text
    assert not browser.execute_script(FAULTS)
    spec = find_spec("axe_core_python")
    if spec is None:
        pytest.skip("axe-core-python is not installed")
    browser.execute_script((Path(spec.origin).parent / "axe.min.js").read_text())
    assert not browser.execute_async_script(AXE, theme)


def test_the_slider_moves_the_curve_and_the_errors(browser):
    """By arrow keys, with a text for screen readers; its numbers are those of the package."""
    from selenium.webdriver import Keys

    page = SITE / "try.html"
    if not page.is_file():
        pytest.skip(f"no site is built in {SITE}")
    browser.get(page.as_uri())
    slider, text = (browser.find_element("id", name) for name in ("slider-T", "slider-text"))
    curve = "return document.querySelector('#slider .curve').getAttribute('points')"
    at_one = text.text, browser.execute_script(curve)
    assert at_one[0].startswith("T = 1.00: ECE 0.1")
    slider.send_keys(Keys.ARROW_RIGHT * 7)
    assert text.text.startswith("T = 2.64: ECE 0.0")
    assert slider.get_attribute("aria-valuetext") == text.text
    assert browser.execute_script(curve) != at_one[1]
    X, y = load_digits(return_X_y=True)
    model = LogisticRegression(C=100, max_iter=5000).fit(X[:200], y[:200])
    Z = model.decision_function(X[200:]) / 2 ** (7 / 5)
    P = np.exp(Z - Z.max(axis=1, keepdims=True))
    P /= P.sum(axis=1, keepdims=True)
    error = metrics.expected_calibration_error(y[200:], P)
    assert text.text == f"T = 2.64: ECE {error:.3f}, log loss {log_loss(y[200:], P):.3f}"
