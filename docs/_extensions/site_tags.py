"""What a site has for search engines, for links to it, and for those who get lost.

Each page gets a description and a link to its source, and each API page index entries by which the
search finds it. With the address of the site, there are a map of it, a picture for links, and the
list of versions that the menu of versions reads.
"""

import inspect
import json
import re
import tomllib
from html import escape
from importlib import import_module
from pathlib import Path
from typing import Any

import versions
from api_links import public_names
from docutils import nodes
from repository_links import COPIES
from styles import STYLES

DOCS = Path(__file__).parents[1]
ROOT = DOCS.parent
URLS = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["urls"]
REPOSITORY = URLS["Repository"]
CARD = DOCS / "generated" / "static" / "card.png"
TAGLINE = "Probabilities that can be trusted,\nwith scikit-learn's interface"
# Words of a field that are neither in a name nor in the first line of its docstring.
COMMON = {
    "AutoCalibrator": ["automatic calibration"],
    "BayesianBinning": ["BBQ"],
    "BetaCalibrator": ["beta calibration"],
    "DecisionCurveDisplay": ["decision curve"],
    "DirichletCalibrator": ["Dirichlet calibration"],
    "IsotonicCalibrator": ["isotonic regression"],
    "PlattScaling": ["sigmoid calibration"],
    "PriorCorrection": ["prior shift", "label shift"],
    "ReliabilityDisplay": ["reliability diagram", "calibration plot"],
    "SplineCalibrator": ["spline calibration"],
    "VennAbersCalibrator": ["Venn-Abers"],
}


def find(full: str) -> Any:
    """Return the object behind a public name."""
    module, _, name = full.rpartition(".")
    return getattr(import_module(module), name)


def entries(fullname: str) -> list[str]:
    """Return the words by which the search finds an API page."""
    name = fullname.rpartition(".")[2]
    words = re.sub(r"(?<=[a-z])(?=[A-Z])", " ", name).replace("_", " ").lower()
    short = re.match(r"[^:(]*\((\S+)\): ", inspect.getdoc(find(fullname)) or "")
    return [words, *COMMON.get(name, []), *([short[1]] if short else [])]


def all_entries() -> dict[str, list[str]]:
    """Return the words of each API page."""
    return {full: entries(full) for full in public_names().values()}


def source_of(full: str) -> str | None:
    """Return the address of the lines of an object."""
    thing = inspect.unwrap(find(full))
    name = f"{thing.__module__.replace('.', '/')}.py"
    if not (ROOT / name).is_file():
        return None
    lines, first = inspect.getsourcelines(thing)
    return f"{REPOSITORY}/blob/main/{name}#L{first}-L{first + len(lines) - 1}"


def edit_address(page: str, source: str) -> str | None:
    """Return where a page can be edited."""
    if page.startswith("generated/api/"):
        full = page.removeprefix("generated/api/")
        return source_of(full) if full in public_names().values() else None
    name = source.removeprefix("generated/") if "generated/" in source else f"docs/{source}"
    if page.startswith("gallery/"):
        name = f"examples/{Path(page).name}.py"
    if name in COPIES or (ROOT / name).is_file():
        return f"{REPOSITORY}/edit/main/{name}"
    return None


def description_of(doctree: Any) -> str:
    """Return the first paragraph of a page, as plain text of at most 200 characters."""
    for paragraph in doctree.findall(nodes.paragraph) if doctree is not None else ():
        text = " ".join(paragraph.astext().split())
        if len(text) > 30:
            return text if len(text) <= 200 else text[:197].rsplit(" ", 1)[0] + " ..."
    return "Calibration of classifiers: measure, correct, compare. For scikit-learn users."


def add_tags(app: Any, pagename: str, template: str, context: dict[str, Any], doctree: Any) -> None:
    """Give a page its description, and the address of its source."""
    about = escape(description_of(doctree), quote=True)
    tags = [f'<meta name="description" content="{about}">']
    if address := app.config.html_baseurl:
        if pagename == "404":  # it is shown at any depth
            tags.insert(0, f'<base href="{address}">')
        title = escape(context.get("title", "skcalib"), quote=True)
        tags += [
            f'<meta property="og:{key}" content="{value}">'
            for key, value in {
                "title": re.sub(r"&lt;.*?&gt;", "", title),
                "description": about,
                "type": "website",
                "url": f"{address}{pagename}.html",
                "image": f"{address}_static/{CARD.name}",
            }.items()
        ]
    # docutils gives references the ARIA role doc-biblioentry, which is deprecated. Each picture is
    # there twice, for light and for dark pages: lazy loading fetches only the visible one.
    body = context.get("body", "").replace("doc-biblioentry", "listitem")
    context["body"] = body.replace("<img ", '<img loading="lazy" ')
    context["metatags"] = context.get("metatags", "") + "\n".join(tags)
    if pagename in app.env.found_docs:
        source = str(app.env.doc2path(pagename, base=False))
        context["edit_address"] = edit_address(pagename, source)


def name_empty_heads(app: Any, doctree: Any) -> None:
    """Give the empty corner of a table a head that is read and not seen."""
    for head in doctree.findall(nodes.thead):
        for entry in head.findall(nodes.entry):
            if not entry.astext().strip():
                entry.children = []
                entry += nodes.inline("", "row", classes=["visually-hidden"])


def draw_card(app: Any) -> None:
    """Draw the picture that a link to the site shows."""
    import matplotlib.pyplot as plt
    import numpy as np

    with plt.style.context(STYLES["light"]):
        figure = plt.figure(figsize=(12, 6.3), dpi=100, facecolor="#0a5c8f")
        figure.text(0.06, 0.55, "skcalib", color="white", size=68, weight="bold")
        figure.text(0.06, 0.34, TAGLINE, color="white", size=24)
        ax = figure.add_axes([0.64, 0.16, 0.3, 0.68], facecolor="#0a5c8f")
        x = np.linspace(0, 1, 50)
        ax.plot(x, x, "--", color="white", lw=2)
        ax.plot(x, x**2.2, color="#ffb347", lw=5)
        ax.axis("off")
        CARD.parent.mkdir(parents=True, exist_ok=True)
        figure.savefig(CARD)
        plt.close(figure)


def write_maps(app: Any, exception: Exception | None) -> None:
    """Write the map of the site and the list of versions, which need its address."""
    address = app.config.html_baseurl
    if exception or not address or app.builder.name != "html":
        return
    out = Path(app.outdir)
    places = "".join(
        f"<url><loc>{address}{page}.html</loc></url>\n" for page in sorted(app.env.found_docs)
    )
    schema = "http://www.sitemaps.org/schemas/sitemap/0.9"
    (out / "sitemap.xml").write_text(f'<urlset xmlns="{schema}">\n{places}</urlset>\n')
    (out / versions.LIST).write_text(json.dumps(versions.menu(address, ROOT / "CHANGELOG.md")))


def linkcode_resolve(domain: str, info: dict[str, str]) -> str | None:
    """Return the address of the source of an object that is documented."""
    full = f"{info['module']}.{info['fullname']}"
    return source_of(full) if full in public_names().values() else None


def setup(app: Any) -> dict[str, bool]:
    """Connect the hooks."""
    app.connect("builder-inited", draw_card)
    app.connect("doctree-read", name_empty_heads)
    app.connect("html-page-context", add_tags)
    app.connect("build-finished", write_maps)
    return {"parallel_read_safe": True}
